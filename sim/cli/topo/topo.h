/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doppel topo: declarations that its verbs share. A verb is a row of the table in topo_command.c
 * and a function that receives the options and returns an exit code.
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
	const char *input[2]; /* machines; for diff also two graph files */
	int inputs;
	uint32_t hosts;
	bool compact, dot, why;
	bool trees;      /* plot: trees instead of rings */
	const char *out; /* NULL: stdout */
};

struct topo_verb {
	const char *name;
	int inputs; /* number of inputs that it needs */
	int (*run)(const struct topo_options *o);
};

/* A machine, and the topology that the stack builds from it with all of its GPUs. */
struct topo_machine {
	struct world_machine *file;
	const struct topo_system *sys; /* lives as long as the process */
};
/* Opens a machine. Returns SIM_PASS, or another code after explaining the error. */
int cli_topo_open(struct topo_machine *m, const char *name);
void cli_topo_close(struct topo_machine *m);
/* Prints the stack's reason for refusing an input. Returns SIM_USAGE. */
int cli_topo_refused(void);

/* Rings and trees on which all hosts of such a machine agree. Ranks are host * GPUs + local
 * rank. */
struct topo_job {
	struct topo_graph graph, tree; /* of one host: rings, trees */
	struct topo_rings rings;       /* as on rank 0 */
	struct topo_trees trees;
	int32_t hosts, ranks;
	struct topo_rank_info *all; /* [ranks] */
	int32_t *order;             /* distinct rings: [distinct][ranks] */
	int32_t *parent;            /* distinct trees: [distinct][ranks] */
};
int cli_topo_job_make(struct topo_job *job, const struct topo_system *sys, uint32_t hosts);
void cli_topo_job_free(struct topo_job *job);

/* topo_heads.c: prints the heads of NVLS and CollNet in the format of NCCL's log, for the patterns
 * that the machine has graphs of. */
int cli_topo_heads(const struct topo_job *job, const struct topo_system *sys);

int cli_topo_check(const struct topo_options *o);
int cli_topo_diff(const struct topo_options *o);
int cli_topo_plot(const struct topo_options *o);
/* topo_dot.c: writes the machine in Graphviz' language. */
void cli_topo_dot(const struct topo_system *sys, const char *title, FILE *out);

#endif
