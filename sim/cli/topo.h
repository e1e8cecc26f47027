/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doppel topo: what its verbs share. A verb is a row of the table in topo.c and a function that
 * gets the options and returns an exit code.
 */
#ifndef SIM_CLI_TOPO_H
#define SIM_CLI_TOPO_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/topo/view.h"
#include "sim/world/world.h"

struct topo_verb;

struct topo_options {
	const struct topo_verb *verb;
	const char *input[2]; /* machines; of diff, or two files of graphs */
	int inputs;
	uint32_t hosts;
	bool compact, dot, why;
	bool trees;      /* plot: instead of rings */
	const char *out; /* NULL: stdout */
};

struct topo_verb {
	const char *name;
	int inputs; /* how many it takes */
	int (*run)(const struct topo_options *o);
};

/* A machine and what the stack makes of it, with all of its GPUs. */
struct topo_machine {
	struct world_machine *file;
	const struct topo_system *sys; /* lives as long as the process */
};
/* SIM_PASS, or what was wrong was explained. */
int cli_topo_open(struct topo_machine *m, const char *name);
void cli_topo_close(struct topo_machine *m);
/* The stack refused something: prints its reason. Returns SIM_USAGE. */
int cli_topo_refused(void);

/* What all hosts of such a machine agree on. Ranks are host * GPUs + local rank. */
struct topo_job {
	struct topo_graph graph, tree; /* of each host: rings, trees */
	struct topo_rings rings;       /* as rank 0 has them */
	struct topo_trees trees;
	int32_t hosts, ranks;
	struct topo_rank_info *all; /* [ranks] */
	int32_t *order;             /* of the distinct rings: [distinct][ranks] */
	int32_t *parent;            /* of the distinct trees: [distinct][ranks] */
};
int cli_topo_job_make(struct topo_job *job, const struct topo_system *sys, uint32_t hosts);
void cli_topo_job_free(struct topo_job *job);

/* topo_heads.c: the heads of NVLS and CollNet, as NCCL's log has them, of the patterns that the
 * machine has graphs for. */
int cli_topo_heads(const struct topo_job *job, const struct topo_system *sys);

int cli_topo_check(const struct topo_options *o);
int cli_topo_diff(const struct topo_options *o);
int cli_topo_plot(const struct topo_options *o);
/* topo_dot.c: the machine in Graphviz' language. */
void cli_topo_dot(const struct topo_system *sys, const char *title, FILE *out);

#endif
