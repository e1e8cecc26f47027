/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers about the whole run: faults, links, progress, and commands. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/cli/report/report.h"
#include "sim/cli/report/report_escape.h"

void report_print_slice(const struct report *r, const struct report_slice *s, FILE *out)
{
	int32_t rank = report_slice_rank(&r->trace, s);
	const struct report_track *track = &r->trace.track[s->track];
	char at[32];

	sim_format_ns(at, s->at_ns);
	if (rank >= 0)
		fprintf(out, "rank %d: ", rank);
	fputs(s->name, out);
	if (s->details[0])
		fprintf(out, " (%s)", s->details);
	if (track->name && (s->kind == REPORT_LINK || report_is_gpu(track)))
		fprintf(out, " on %s", track->name);
	fprintf(out, " at %s", at);
}

/* ---- faults --------------------------------------------------------------------------------- */

int report_plan_line(const struct report *r, int64_t number, const char **line)
{
	const char *at = r->scenario.plan;

	for (int64_t i = 1; i < number && *at; i++)
		at += strcspn(at, "\n") + (strchr(at, '\n') ? 1 : 0);
	at += strspn(at, " \t");
	*line = at;
	return number < 1 ? 0 : (int)strcspn(at, "\n");
}

void report_answer_fault(const struct report *r, FILE *out)
{
	const char *line;
	char at[32];

	if (!r->fault) {
		fputs(!r->scenario.plan[0] ? "The run has no plan of faults."
		      : r->has_trace       ? "No fault of the plan has acted."
					   : "It is not recorded.",
		      out);
		return;
	}
	sim_format_ns(at, r->fault->at_ns);
	fprintf(out, "At %s (%" PRIu64 " ns)", at, r->fault->at_ns);
	int n = report_plan_line(r, report_detail(r->fault, "line", 0), &line);
	if (n)
		fprintf(out, ", by the line \"%.*s\" of the plan", n, line);
	uint64_t before_ns = r->fail_ns - MIN_OF(r->fail_ns, r->fault->at_ns);
	sim_format_ns(at, before_ns);
	fprintf(out, "; %s before the failure.", at);
}

/* ---- links ---------------------------------------------------------------------------------- */

/* Prints the part of explain.txt that names a link which is down. */
static bool run_link_down(const struct report *r, FILE *out)
{
	const char *at = r->explain ? strstr(r->explain, "link of host ") : NULL;
	size_t n = at ? strcspn(at, "\n;") : 0;

	if (!n)
		return false;
	fprintf(out, "The %.*s. ", (int)n, at);
	return true;
}

static uint32_t run_count(const struct report *r, const char *name)
{
	uint32_t n = 0;

	for (size_t i = 0; i < r->trace.n; i++)
		n += !strcmp(r->trace.slice[i].name, name);
	return n;
}

void report_answer_link(const struct report *r, FILE *out)
{
	double others;
	const struct report_link *l = report_slowest(r, &others);
	bool down = run_link_down(r, out);

	if (!l)
		fputs(r->has_trace ? "No message of a queue pair has crossed a link between hosts."
				   : "It is not recorded.",
		      out);
	else if (report_gbps(l) * 3 < others * 2)
		fprintf(out,
			"%s is slow: %.2f GB/s while busy; the median of the ports is %.2f GB/s.",
			l->name, report_gbps(l), others);
	else
		fprintf(out,
			"%s: the slowest of the ports, %s, has %.2f GB/s while busy; the "
			"median has %.2f GB/s.",
			down ? "Before that none was slow" : "None", l->name, report_gbps(l),
			others);
	uint32_t lost = run_count(r, "packet.lost"), again = run_count(r, "qp.resend");
	if (lost || again)
		fprintf(out, " %u messages were lost, queue pairs have sent again %u times.", lost,
			again);
}

/* ---- progress ------------------------------------------------------------------------------- */

struct run_kind {
	const char *kind, *text;
};

void report_answer_hang(const struct report *r, FILE *out)
{
	static const struct run_kind kinds[] = {
		{"deadlock", "A deadlock: tasks wait, and no event or timer is left that could "
			     "wake them. More time does not help."},
		{"missed-wake", "A missed wake: a wait is fulfilled, but its task was not woken."},
		{"livelock", "No progress: timers and polls go on, but no rank moves data. It is "
			     "not slow: a slow run moves."},
		{"liveness", "A call takes longer than any call may. Other tasks can still move."},
		{"hung", "It took longer in real time than a seed may, so it was ended."},
		{"agreement", "No progress: one rank has a failed connection, and the other end "
			      "does not know."},
		{"time", "Slow: the run ended, and took longer than the estimate allows."},
	};
	const struct sim_failure *f = &r->scenario.found;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (!strcmp(f->kind, kinds[i].kind)) {
			fprintf(out, "%s (%s)", kinds[i].text, f->message);
			return;
		}
	fprintf(out, "Neither: the run moved until it ended with the verdict \"%s\".", f->kind);
}

void report_answer_progress(const struct report *r, FILE *out)
{
	char before[32];

	if (!r->progress) {
		fputs(r->has_trace ? "None: no call and no copy has ended." : "It is not recorded.",
		      out);
		return;
	}
	uint64_t end_ns = r->progress->at_ns + r->progress->ns;

	report_print_slice(r, r->progress, out);
	if (r->progress->ns) {
		sim_format_ns(before, end_ns);
		fprintf(out, ", which ended at %s", before);
	}
	sim_format_ns(before, r->fail_ns - MIN_OF(r->fail_ns, end_ns));
	fprintf(out, "; %s before the failure.", before);
}

/* ---- commands ------------------------------------------------------------------------------- */

void report_answer_gdb(const struct report *r, FILE *out)
{
	const struct sim_failure *f = &r->scenario.found;
	char *dir = shell_word(r->dir);

	fprintf(out, "doppel replay %s --gdb --until %" PRIu64, dir ? dir : "FOLDER",
		f->before ? f->before : f->step);
	free(dir);
}
