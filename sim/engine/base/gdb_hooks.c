/* SPDX-License-Identifier: BSD-3-Clause */
/* Stops in sim_gdb_stop for a debugger that requested it. Changes nothing else. */
#include "sim/engine/base/gdb_hooks.h"

#include <string.h>

#include "sim/engine/base/engine_internal.h"

uint64_t sim_gdb_step_limit, sim_gdb_until_ns;
struct sim_gdb_trap sim_gdb_trap;
uint64_t sim_gdb_now_ns, sim_gdb_steps, sim_gdb_seed, sim_gdb_runs;

__attribute__((noinline)) void sim_gdb_stop(void)
{
	__asm__ volatile("" ::: "memory");
}

static void gdb_stop_here(void)
{
	sim_gdb_now_ns = eng.now_ns;
	sim_gdb_steps = eng.steps;
	sim_gdb_step_limit = sim_gdb_until_ns = 0;
	sim_gdb_trap.set = false;
	sim_gdb_stop();
}

__attribute__((noinline)) void sim_gdb_check_limits(void)
{
	if ((sim_gdb_step_limit && eng.steps >= sim_gdb_step_limit) ||
	    (sim_gdb_until_ns && eng.now_ns >= sim_gdb_until_ns))
		gdb_stop_here();
}

__attribute__((noinline)) void sim_gdb_check_trap(const char *trace)
{
	const struct sim_gdb_trap *trap = &sim_gdb_trap;
	const struct sim_task *t = sim_task_current;

	if (strncmp(trace ? trace : "", trap->trace, sizeof trap->trace) != 0 ||
	    eng.steps < trap->step)
		return;
	if ((trap->rank >= 0 && (!t || t->self.rank != trap->rank)) ||
	    (trap->task >= 0 && (!t || t->self.id != (uint32_t)trap->task)))
		return;
	gdb_stop_here();
}
