/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that a failing run leaves, and its last lines, always in one shape:
 *
 *	FAIL deadlock rank=3 step=1048231 vtime=1.204ms seed=0x2a commit=1424f21 cfg=... hash=...
 *	replay: doppel replay fail/2a-1f3c
 *	gdb:    doppel replay fail/2a-1f3c --gdb --until 1048231
 *	files:  fail/2a-1f3c/{config,choices,trace.json,tasks.core,explain.txt}
 *
 * Called by `doppel run`, by sweeps and by replay. A folder is named after the seed and a digest of
 * the scenario. Errors: 0 or a positive errno, explained on stderr.
 */
#ifndef SIM_LAB_FAIL_H
#define SIM_LAB_FAIL_H

#include "sim/lab/search/scenario.h"

enum { FAIL_ID_BYTES = 40, FAIL_DIR_BYTES = SCENARIO_PATH_BYTES + FAIL_ID_BYTES };

void fail_id(const struct scenario *s, char id[FAIL_ID_BYTES]);

/* Makes root and the folder in it, whose name goes to dir. */
int fail_make_dirs(const struct scenario *s, const char *root, char dir[FAIL_DIR_BYTES]);

/* The last lines; dir NULL: nothing was kept. */
void fail_print(FILE *out, const struct scenario *s, const struct sim_failure *f, const char *dir);

/* Runs it with everything recorded below `root`, and prints the last lines when it fails; a run
 * that passes leaves nothing. dir (may be NULL) gets where. Other files of lab.sim (a trace of the
 * caller's own) stay as they are. */
int fail_run(struct scenario *s, const char *root, struct lab_result *result,
	     char dir[FAIL_DIR_BYTES]);

/* Runs it without recording, the last lines printed all the same. */
int fail_run_plain(struct scenario *s, struct lab_result *result);

/* Worst first: crash, wrong result, misuse, no progress, not deterministic, leak, error. 0: a
 * pass. */
int fail_severity(enum sim_verdict outcome);

/* Is `root` a folder that files can be written to, or can it be made? Leaves no file. Explained
 * on stderr. */
int fail_check_root(const char *root);
/* Is there room for a file in it? Silent. */
int fail_check_room(const char *root);
/* A run's folder, with the files that a run leaves. */
void fail_remove(const char *dir);
/* Gives a run's folder another name, in place of a run that is there. */
int fail_move(const char *from, const char *to);

#endif
