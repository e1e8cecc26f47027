/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface between the suite and a target: a clock, memory, threads, waits, and a function
 * that runs a case. One implementation is linked: target_posix.c or target_world.c. Also the
 * functions that the parts of the harness share. Times in ns.
 */
#ifndef TESTS_CONFORMANCE_VERBS_HARNESS_TARGET_H
#define TESTS_CONFORMANCE_VERBS_HARNESS_TARGET_H

#include "tests/conformance/verbs/suite.h"

struct vs_config {
	const char *device[2]; /* names; NULL: the first, and the second if there is one */
	int port, gid;         /* gid -1: chosen */
	int timeout_shift;     /* added to acknowledge timeouts: slow machines, real clocks */
	int case_seconds;
	uint64_t long_ns; /* VS_LONG */
	bool strict, here, verbose, preload, times;
	const char *expected, *except;
	/* targets with seeds */
	const char *engine;
	uint64_t seed, seeds; /* seeds 0: as many as the target likes */
	int steps;
};
extern struct vs_config vs_config;

/* Prepares defaults of vs_config before the command line is read. */
void target_defaults(struct vs_config *config);
/* --preload: in the parent, before the first case: what all of them would load again. */
void target_preload(void);
/* Are faults planned (struct vs_case.plan)? */
bool target_faults(void);
/* Runs the case body, as often as the target likes; returns when all went well, or explains with
 * vs_fail. In the process of the case. */
void target_run(const struct vs_case *c, void (*body)(void *arg), void *arg);
/* The text before a failure's message, such as "seed 3: "; may be "". */
const char *target_where(void);
uint64_t target_seed(void);

uint64_t target_now_ns(void);
uint64_t target_tick_late_ns(void); /* vs_tick_late_ns */
void target_sleep_ns(uint64_t ns);
void *target_alloc(size_t bytes);
void target_release(void *p);
struct vs_thread *target_thread_start(void (*run)(void *arg), void *arg);
void target_thread_join(struct vs_thread *t);

/* A fruitless look at `object` (a queue, a channel, a context) is followed by target_idle, with
 * what target_mark returned before the look: returns when something may have happened, at the
 * latest at the deadline. */
uint64_t target_mark(const void *object);
void target_idle(const void *object, uint64_t mark, uint64_t deadline_ns);
/* Would the call that takes an event return immediately? */
bool target_async_pending(struct ibv_context *ctx);
bool target_channel_pending(struct ibv_comp_channel *channel);

/* suite_rows.c: a line of the target's list */
struct suite_row {
	char name[120];
	bool differs;      /* otherwise: lacks */
	int passes, fails; /* of the cases that it names */
};
void suite_rows_read(const char *path);
/* The line that lists the name; NULL: there is no such line. */
struct suite_row *suite_listed(bool differs, const char *name);
/* Prints a failure for each line whose cases all passed, and returns how many. whole: all cases
 * ran, so that lines with a pattern are checked, too. *number: of the last result. */
int suite_rows_check(bool whole, int *number);

/* suite_options.c: takes option argv[*i], and its value; false: there is no such option */
bool suite_option(int argc, char **argv, int *i);
void suite_usage(FILE *f);

/* need.c: */
extern const char *const vs_need_name[VS_NEED_COUNT], *const vs_need_text[VS_NEED_COUNT];
/* The devices' attributes, which a process of its own queries once; in memory that all cases
 * share. */
struct vs_probe {
	uint64_t reported, unreported; /* NEEDs; those that no attribute reports */
	struct ibv_device_attr_ex device;
	struct ibv_port_attr port;
	int gid_index[2];
	uint64_t seed; /* of the case that runs now, or ended badly */
};
extern struct vs_probe *vs_probe;
void vs_probe_run(void);

#endif
