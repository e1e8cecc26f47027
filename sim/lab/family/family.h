/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Families of communicators: shared by family.c, which uses and ends them, family_make.c, which
 * makes them, and family_draw.c, which draws what all ranks do, and is pure.
 */
#ifndef SIM_LAB_FAMILY_H
#define SIM_LAB_FAMILY_H

#include "sim/lab/program/transient.h"
#include "sim/lab/run/runner_internal.h"

#define FAMILY_RANKS    64 /* largest run that has families */
#define FAMILY_STEPS    4  /* communicators of a family, at most */
#define FAMILY_TOGETHER 2  /* more splits of a parent in the group of one */

enum family_way { FAMILY_SPLIT, FAMILY_SHRINK, FAMILY_SHRINK_ABORT, FAMILY_GROW, FAMILY_WAYS };
enum family_end { FAMILY_DESTROY, FAMILY_FINALIZE, FAMILY_ABORT, FAMILY_ENDS };

/* The members of a communicator as ranks of the run, by their numbers in it. */
struct family_members {
	int32_t n, rank[FAMILY_RANKS];
};

/* Options of a communicator; NCCL_CONFIG_UNDEF_INT: inherited. */
struct family_config {
	int blocking, cluster, min_ctas, max_ctas, traffic, share;
	bool socket;
};

struct family_colors {
	int color[FAMILY_RANKS], key[FAMILY_RANKS]; /* by number in the parent */
};

/* One step, the same on all ranks. */
struct family_step {
	enum family_way way;
	enum family_end end;     /* of the parent */
	bool revokes;            /* the parent, before */
	bool hangs;              /* some members call the parent before */
	bool sends;              /* these calls are messages that no rank receives */
	bool parent_first;       /* ends before the child is used */
	bool configured;         /* passes a config */
	bool elsewhere;          /* another device is current meanwhile */
	bool empty;              /* before, a split from which no rank gets a communicator */
	struct family_config is; /* the parent's options, as far as they are known */
	struct family_config config, becomes; /* what is passed, and the child's options then */
	struct family_colors split;           /* those of color 0 are the child */
	struct family_colors more[FAMILY_TOGETHER]; /* of further splits, in the same group */
	uint32_t together;                          /* so many of them */
	int excluded[FAMILY_RANKS], excludes;       /* numbers in the parent; shrink */
	struct family_members parent, child;
	bool refused;   /* before, a call that is refused: a split, or a growth with a wrong id */
	int32_t wrong;  /* number in the parent of the rank that makes it wrong; -1: all do */
	int32_t asks;   /* number in the parent; grow */
	uint64_t ready; /* of the id; grow */
};

struct family {
	struct lab_rank *me;
	struct sim_rng rng, own; /* own: of this rank alone */
	struct lab_transient_id *id;
	uint64_t round;
};

int32_t family_index(const struct family_members *m, int32_t rank);
/* The members of one color, in the order of their keys. */
void family_split_members(const struct family_members *parent, const struct family_colors *s,
			  int color, struct family_members *out);
/* True if members abort the parent, or end its kernels, at times of their own. Calls of those that
 * have not done so return errors. */
bool family_breaks(const struct family_step *s);
/* Draws a step of a parent whose members and options are set in *s. `first`: the parent is the
 * communicator of the run, which stays: it neither ends, nor is it revoked. */
void family_draw(const struct lab_run *run, struct sim_rng *rng, struct family_step *s, bool first);

/* family.c: reports a result of a wrong class, or something else that a call must not do; checks a
 * CUDA call. */
__attribute__((format(printf, 2, 3))) void family_report(struct family *f, const char *fmt, ...);
bool family_cuda(struct family *f, int error); /* cudaError_t */

/* family_make.c: makes the child on this rank, if it takes part, and those of further splits.
 * *child NULL: it takes no part, or has no color. False: reported. */
bool family_make(struct family *f, const struct family_step *s, ncclComm_t parent,
		 ncclComm_t *child, ncclComm_t more[FAMILY_TOGETHER]);

#endif
