/* SPDX-License-Identifier: BSD-3-Clause */
/* The fabric for worlds that real processes share: its memory is the arena of these worlds. */
#include "backends/fakeverbs/fabric/fabric.h"

static void *fabric_job_join(void)
{
	return fabric_join();
}

__attribute__((constructor)) static void fabric_job_load(void)
{
	static const struct world_joiner joiner = {
		.join = fabric_job_join, .joined = fabric_joined, .leave = fabric_leave};

	world_on_join(&joiner);
}
