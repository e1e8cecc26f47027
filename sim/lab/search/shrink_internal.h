/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of shrinking: shrink.c (the search), shrink_cuts.c (what of a scenario can
 * be cut, and how), shrink_try.c (a candidate in a child process), shrink_choices.c (files of
 * choices).
 */
#ifndef SIM_LAB_SHRINK_INTERNAL_H
#define SIM_LAB_SHRINK_INTERNAL_H

#include "sim/lab/search/dimension.h"
#include "sim/lab/search/shrink.h"

/* ---- files of choices (sim/engine/order/choice.c has the format) ----------------------------- */

struct shrink_choice {
	uint32_t n, value; /* n == 0: quiet */
};

struct shrink_site {
	char name[64];
	struct shrink_choice *made;
	uint32_t n;
};

struct shrink_choices {
	char head[256]; /* the lines before the first site */
	struct shrink_site *site;
	uint32_t sites;
};

int shrink_choices_read(struct shrink_choices *c, const char *path);
int shrink_choices_write(const struct shrink_choices *c, const char *path);
void shrink_choices_free(struct shrink_choices *c);
void shrink_choices_count(const struct shrink_choices *c, uint64_t *all, uint64_t *special);
uint32_t shrink_site_special(const struct shrink_site *s);
/* Makes the special choices number first .. first+count-1 of the site quiet. */
void shrink_site_quieten(struct shrink_site *s, uint32_t first, uint32_t count);

/* ---- a candidate ---------------------------------------------------------------------------- */

struct shrink_outcome {
	bool ended; /* false: killed at its limit, or it could not be carried out */
	bool lost;  /* a file of it could not be written */
	bool late;  /* it reached its limit, which is the failure that is looked for */
	uint64_t limit_ns;
	struct sim_failure failure; /* kind "": it passed */
};

enum {
	SHRINK_LOG = 4096,
	SHRINK_LIMIT_REAL = 10, /* times a limit of CPU time: for a child that hardly uses any */
};

/* Runs it in a child; choices NULL: from its seed. Its choices go to the file `record`. `log` is
 * memory shared with children; `keep` a folder for what a failing run leaves. Arguments other than
 * s and out may be NULL. With s->found of kind "hung" a candidate that reaches its limit fails
 * so. */
int shrink_try(struct scenario *s, const char *choices, const char *record, uint64_t limit_ns,
	       struct sim_choice_log *log, const char *keep, struct shrink_outcome *out);
struct sim_choice_log *shrink_log_make(void);
void shrink_log_free(struct sim_choice_log *log);

/* ---- cuts ----------------------------------------------------------------------------------- */

/* shrink_cuts.c: cuts of their own in the table of dimensions. */
dimension_make_fn cut_ranks, cut_machines, cut_collective, cut_before, cut_root, cut_bytes,
	cut_iterations, cut_place, cut_channels, cut_width, cut_type, cut_op, cut_plan, cut_env,
	cut_memory, cut_plugins;
dimension_print_fn print_ranks, print_machines, print_collective, print_before, print_root,
	print_bytes, print_iterations, print_place, print_channels, print_width, print_type,
	print_op, print_plan, print_env, print_memory, print_plugins;
/* Writes the plan that the seed draws into the scenario, if it draws one. */
int shrink_draw_plan(struct scenario *s);

/* ---- the search ----------------------------------------------------------------------------- */

/* A search. The best so far is r->after with the file best; a candidate's choices go to tried. */
struct shrink {
	const struct shrink_config *c;
	struct shrink_result *r;
	struct scenario candidate;
	char work[FAIL_DIR_BYTES + 8]; /* the result, until it is whole */
	char best[FAIL_DIR_BYTES + 32], tried[FAIL_DIR_BYTES + 32], given[FAIL_DIR_BYTES + 32];
	uint64_t start_ns, start_cpu_ns, shown_ns, limit_ns;
	const char *doing;
};

/* True if a candidate failed as the run that is shrunk. */
bool shrink_same(const struct shrink *s, const struct shrink_outcome *out);
/* shrink_choices.c: finds the last choice without which the best so far passes. */
int shrink_find_pair(struct shrink *s);

#endif
