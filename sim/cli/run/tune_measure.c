/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doppel tune --measure: runs each program alone, forced by the variables that a user would set. On
 * GPUs, a time is that of one call in a CUDA graph of many calls.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/cli/run/tune.h"

enum { MEASURE_GRAPH_LAUNCHES = 5 };

const char *tune_measured_on(void)
{
#ifndef DOPPEL_FAKECUDA
	return "GPUs";
#else
	return cli_has_both_doubles() ? "doubles" : NULL;
#endif
}

struct measure_program {
	struct tune_table *table;
	enum dev_program program;
	int row; /* index of the next row */
};

static void measure_row(const struct lab_row_result *r, void *arg)
{
	struct measure_program *m = arg;

	ASSERT(m->row < m->table->n);
	m->table->row[m->row++].measured_ns[m->program] = (uint64_t)(r->time_us * 1000);
}

static bool measure_force(struct scenario *s, const char *variable, const char *name)
{
	char text[64];

	snprintf(text, sizeof text, "%s=%s", variable, name);
	if (!scenario_set_env(s, text))
		return true;
	fprintf(stderr, "doppel tune: the environment has no room for %s\n", text);
	return false;
}

/* Configures a run in one fixed order, in which costs are exactly those of the double. */
static void measure_configure(struct scenario *s, struct measure_program *m)
{
	const char *name = tune_func_name(m->table->func);

	s->lab.collective = lab_collective_find(name, strlen(name));
	ASSERT(s->lab.collective);
	s->lab.sim.strategy = SIM_FIFO;
	s->lab.sim.memory_order = SIM_MEMORY_OFF;
	s->lab.out_of_place = false;
	s->lab.warmup = 1; /* the first launch creates connections */
	if (!cli_has_both_doubles()) {
		s->lab.ranks_per_proc = LAB_ALL_RANKS;
		s->lab.iterations = TUNE_GRAPH_CALLS;
		s->lab.graph_launches = MEASURE_GRAPH_LAUNCHES;
		s->lab.average = LAB_MOST;
	}
	s->lab.table = NULL;
	s->lab.on_row = measure_row;
	s->lab.on_row_arg = m;
}

static int measure_run(const struct tune_options *o, struct measure_program *m)
{
	static struct scenario s;
	struct lab_result result;
	int code;

	ASSERT(m->row == 0 && tune_func((int)m->program) == m->table->func);
	s = o->run.scenario;
	measure_configure(&s, m);
	if (DEV_SYMMETRIC_BITS >> m->program & 1)
		s.lab.local_register = LAB_REGISTER_WINDOW;
	if (!measure_force(&s, "NCCL_ALGO", tune_algo_name((int)m->program)) ||
	    !measure_force(&s, "NCCL_PROTO", tune_proto_name((int)m->program)))
		return SIM_USAGE;
	if (lab_run(scenario_lab(&s), &result))
		return SIM_USAGE;
	code = (int)lab_outcome(&s.lab, &result);
	if (code != SIM_PASS)
		fprintf(stderr, "doppel tune: the measurement of %s with %s/%s ends with %d\n",
			tune_func_name(m->table->func), tune_algo_name((int)m->program),
			tune_proto_name((int)m->program), code);
	return code;
}

int tune_measure(const struct tune_options *o, const struct tune_world *w, struct tune_table *t)
{
	int code = SIM_PASS;

	for (int p = 0; p < DEV_PROGRAM_COUNT && code == SIM_PASS; p++) {
		struct measure_program m = {.table = t, .program = (enum dev_program)p};

		if (tune_func(p) == t->func && tune_is_allowed(w->allowed, p) &&
		    w->model.program[p].bw_mbps)
			code = measure_run(o, &m);
	}
	return code;
}
