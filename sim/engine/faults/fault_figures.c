/* SPDX-License-Identifier: BSD-3-Clause */
/* Figures of the plan in force: lines that fired or not, visits, ranks that were hit. */
#include "sim/engine/faults/fault_state.h"

#include <inttypes.h>

bool sim_faults_armed(void)
{
	return eng.phase != ENGINE_OFF && fault_state.plan.n != 0;
}

uint64_t sim_faults_fired(void)
{
	return fault_state.fired;
}

uint64_t sim_faults_matched(void)
{
	uint64_t n = 0;

	pthread_mutex_lock(&fault_state.lock);
	for (uint32_t i = 0; i < fault_state.plan.n; i++)
		n += fault_state.plan.fault[i].matches;
	pthread_mutex_unlock(&fault_state.lock);
	return n;
}

uint32_t sim_faults_unfired(void)
{
	uint32_t n = 0;

	pthread_mutex_lock(&fault_state.lock);
	for (uint32_t i = 0; i < fault_state.plan.n; i++)
		n += !fault_state.plan.fault[i].fired;
	pthread_mutex_unlock(&fault_state.lock);
	return n;
}

static bool fault_has(const uint64_t *bits, int64_t i)
{
	return i >= 0 && i < FAULT_RANKS &&
	       __atomic_load_n(&bits[i / 64], __ATOMIC_RELAXED) & 1ull << i % 64;
}

bool sim_fault_hit_rank(int32_t rank)
{
	return __atomic_load_n(&fault_state.hit_any, __ATOMIC_RELAXED) ||
	       fault_has(fault_state.hit, rank);
}

bool sim_fault_hit_proc(const struct os_proc *proc)
{
	return fault_has(fault_state.hit_proc, proc->id);
}

void sim_fault_hits_all(void)
{
	__atomic_store_n(&fault_state.hit_any, true, __ATOMIC_RELAXED);
}

bool sim_fault_stat(uint32_t index, struct sim_fault_stat *stat)
{
	if (index >= fault_state.site_n)
		return false;
	const struct fault_place_site *s = &fault_state.site[index];
	*stat = (struct sim_fault_stat){s->site->name, s->visits, s->fires};
	return true;
}

void sim_fault_print_plan(FILE *out)
{
	for (uint32_t i = 0; i < fault_state.plan.n; i++) {
		const struct fault *f = &fault_state.plan.fault[i];

		fprintf(out, "fault %s   # matched %" PRIu64 ", fired %" PRIu64 "\n", f->text,
			f->matches, f->fired);
	}
	if (fault_state.plan.heal_ns)
		fprintf(out, "fault heal after=%" PRIu64 "ns\n", fault_state.plan.heal_ns);
}

void sim_fault_print_unfired(FILE *out)
{
	const char *name = eng.config.fault_plan ? eng.config.fault_plan_name : NULL;

	pthread_mutex_lock(&fault_state.lock); /* the threads of a foreign program may still run */
	for (uint32_t i = 0; i < fault_state.plan.n; i++) {
		const struct fault *f = &fault_state.plan.fault[i];

		if (!f->fired)
			fprintf(out,
				"%s:%u: this fault never fired (matched %" PRIu64 " times): %s\n",
				name ? name : fault_state.name, f->line, f->matches, f->text);
	}
	pthread_mutex_unlock(&fault_state.lock);
}

int fault_thread(void)
{
	struct os_fault f;

	if (!eng.any_faults || !fault_check("os.thread", NULL, NULL, &f))
		return 0;
	return f.arg ? (int)f.arg : EAGAIN;
}

void sim_expect_errors(void)
{
	eng.errors_expected = true;
}

bool sim_expects_errors(void)
{
	return eng.errors_expected || sim_faults_fired() != 0;
}
