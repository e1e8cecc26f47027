/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doppel report: a failed run as one HTML page. report_folder.c reads what the run left,
 * report_facts.c and report_links.c draw conclusions, the others write parts of the page. A part
 * never fails: what the recording does not have, the page names. Times: virtual ns since the run's
 * start. Errors: 0 or a positive errno, explained on stderr.
 */
#ifndef SIM_CLI_REPORT_REPORT_H
#define SIM_CLI_REPORT_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/cli/report/report_json.h"
#include "sim/cli/report/report_trace.h"
#include "sim/lab/search/scenario.h"

/* A rank, as the waits and the trace have it. */
struct report_rank {
	int32_t host;
	const char *process;               /* "host0/p1"; "": not known */
	uint32_t tasks;                    /* alive at the end */
	uint32_t calls;                    /* begun, those of NCCL */
	const struct report_slice *call;   /* the last one; NULL: none */
	const struct report_slice *plan;   /* of the last planned call */
	const struct report_slice *kernel; /* the last one that has begun */
};

/* A port of an HCA, from its messages. */
struct report_link {
	const char *name; /* "host0 mlx5_1 out" */
	int32_t host, track;
	uint64_t messages, bytes, busy_ns, last_ns;
};

struct report {
	const char *dir;
	struct scenario scenario;
	/* the files; NULL: not there */
	char *config, *explain, *log, *waits_text;
	struct json waits; /* empty: not there */
	struct report_trace trace;
	bool has_trace;
	char remark[256]; /* why files are not there; "": they are */

	/* conclusions */
	uint64_t end_ns, fail_ns; /* of the run, and of the failure, which need not end it */
	struct report_rank *rank;
	int32_t ranks;
	struct report_link *link;
	uint32_t links;
	int32_t late, peer, channel;                 /* -1: none */
	const struct report_slice *fault, *progress; /* the first fault, the last progress */
};

/* ---- report_folder.c, report_replay.c ------------------------------------------------------- */

/* Reads the folder of a failed run. Replays the run for files that are missing. */
int report_read(struct report *r, const char *dir);
void report_free(struct report *r);
/* Reads a whole file, ends it with NUL. *text NULL: there is no such file. */
int report_file(const char *dir, const char *name, char **text, size_t *bytes);
/* Runs the scenario again with everything recorded. Returns the new folder, which the caller
 * removes with report_replay_remove and frees; NULL: r->remark has the reason. */
char *report_replay(struct report *r);
/* Replaces the name of the replay's folder in its output. */
int report_replay_rename(char **text, const char *from, const char *to);
void report_replay_remove(char *dir);

/* ---- conclusions ---------------------------------------------------------------------------- */

int report_conclude(struct report *r);
int report_links(struct report *r);
/* The slowest port by its throughput while busy; NULL: no message. *others: throughput of the
 * median port, GB/s. */
const struct report_link *report_slowest(const struct report *r, double *others);
double report_gbps(const struct report_link *l);
/* True for verdicts of a run that did not go on. */
bool report_is_hang(const struct report *r);
/* The explainer's chain: "cause" of waits.json; NULL: none. */
const struct json_node *report_cause(const struct report *r);
const struct json_node *report_last_hop(const struct report *r);
/* A task of waits.json; NULL: none has this number. */
const struct json_node *report_task(const struct report *r, int64_t id);

/* ---- parts of the page ---------------------------------------------------------------------- */

/* The questions of "At a glance" in their order; the answer is plain text. */
struct report_question {
	const char *key, *text;
	void (*answer)(const struct report *r, FILE *out);
};
extern const struct report_question report_questions[];
extern const size_t report_questions_n;
/* Calls the answer; the caller frees the text. */
char *report_answer(const struct report *r, const struct report_question *q);

/* report_glance_run.c */
void report_answer_fault(const struct report *r, FILE *out);
void report_answer_link(const struct report *r, FILE *out);
void report_answer_hang(const struct report *r, FILE *out);
void report_answer_progress(const struct report *r, FILE *out);
void report_answer_gdb(const struct report *r, FILE *out);

/* Formats a slice: "rank 3 received (from 0, channel 1) at 17.1ms". */
void report_print_slice(const struct report *r, const struct report_slice *s, FILE *out);
/* A line of the plan of faults, from 1, without blanks around it. Returns its length; 0: none. */
int report_plan_line(const struct report *r, int64_t number, const char **line);

void report_page(const struct report *r, FILE *out);     /* the whole page */
void report_data(const struct report *r, FILE *out);     /* the data as JSON */
void report_graph(const struct report *r, FILE *out);    /* the wait-for graph, SVG */
void report_topology(const struct report *r, FILE *out); /* ranks and their edges, SVG */
void report_tasks(const struct report *r, FILE *out);    /* last steps of tasks */
void report_print_links(const struct report *r, FILE *out);

#endif
