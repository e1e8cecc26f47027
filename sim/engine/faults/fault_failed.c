/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that a plan made fail, with the functions that led to each: their callers report them,
 * or a check of the run has to know why they do not. */
#include "sim/engine/base/symbol.h"
#include "sim/engine/faults/fault_state.h"

enum { FAILED_FRAMES = 24 };

struct failed_call {
	const char *site;
	int32_t rank;
	int frames;
	const void *frame[FAILED_FRAMES];
};

static struct {
	struct failed_call call[SIM_FAILED_CALLS];
	uint32_t n;
} failed;

void fault_failed_start(void)
{
	failed.n = 0;
}

void fault_failed_note(const char *site, int64_t rank)
{
	const struct task *t = eng.current;

	if (!engine_in_sim() || !t || !t->fiber.stack || failed.n == SIM_FAILED_CALLS)
		return;
	struct failed_call *it = &failed.call[failed.n++];

	*it = (struct failed_call){.site = site, .rank = (int32_t)rank};
	it->frames =
		symbol_frames((uintptr_t)t->fiber.low + t->fiber.bytes, it->frame, FAILED_FRAMES);
}

uint32_t sim_failed_calls(void)
{
	return failed.n;
}

const char *sim_failed_call(uint32_t i, int32_t *rank)
{
	ASSERT(i < failed.n);
	*rank = failed.call[i].rank;
	return failed.call[i].site;
}

bool sim_failed_call_function(uint32_t i, uint32_t k, char *name, size_t bytes)
{
	size_t offset;

	ASSERT(i < failed.n);
	if (k >= (uint32_t)failed.call[i].frames)
		return false;
	symbol_find((const char *)failed.call[i].frame[k] - 1, name, bytes, &offset);
	return true;
}
