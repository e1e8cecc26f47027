/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shrinking: from a failing run, what `sim/lab/search/fail.h` left of it, to a small one that fails
 * in the same way. First fewer ranks, then fewer bytes, iterations, channels and settings, then
 * fewer faults, then as many choices quiet as can be: whole streams, then runs of them (delta
 * debugging, Zeller and Hildebrandt). Each candidate runs in a child process with a limit of its
 * own.
 *
 * The same way: FOUND_SAME_WAY of sim/lab/check/found.h. A world of another size makes other
 * choices, so there seeds are tried anew.
 *
 * Called outside any engine, by a program without threads. Times are ns, limits are CPU time, or
 * ten times as long in all. Errors: 0 or a positive errno, explained on stderr.
 */
#ifndef SIM_LAB_SHRINK_H
#define SIM_LAB_SHRINK_H

#include "sim/lab/search/fail.h"

enum { SHRINK_CUTS = 64, SHRINK_WHAT_BYTES = 40, SHRINK_VALUE_BYTES = 96 };

struct shrink_config {
	const char *dir;       /* of the failing run; the result goes to DIR-min */
	uint64_t time_ns;      /* budget; 0: the default, 60 s */
	uint64_t run_limit_ns; /* of one candidate; 0: the default, 10 s */
	uint32_t seeds;        /* tried for a world of another size; 0: the default, 100 */
	bool force;            /* another build's or machine's, too */
	FILE *progress;        /* NULL: quiet */
	bool terminal;         /* progress is a terminal: one line that changes */
};

struct shrink_cut {
	char what[SHRINK_WHAT_BYTES]; /* "ranks" */
	char from[SHRINK_VALUE_BYTES], to[SHRINK_VALUE_BYTES];
};

struct shrink_result {
	struct scenario before, after;
	struct shrink_cut cut[SHRINK_CUTS];
	uint32_t cuts;
	uint64_t candidates, failed_same, wall_ns;
	uint64_t choices_before, choices_after; /* all */
	uint64_t special_before, special_after; /* those that are not quiet */
	bool whole;                             /* false: the time was up before the end */
	struct sim_failure failure;             /* of the result */
	bool has_pair;
	struct sim_choice_made pair; /* the last choice without which it passes */
	char dir[FAIL_DIR_BYTES];
};

int shrink_run(const struct shrink_config *c, struct shrink_result *r);
void shrink_print(const struct shrink_result *r, FILE *out);

#endif
