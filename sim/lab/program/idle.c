/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators that another task of each rank makes and destroys, one after the other, while the
 * rank's own task works with others on the same GPU, makes some or destroys them. They have all
 * ranks, and nothing is launched on them: GPUs must launch what different communicators have in one
 * order.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>

#include "sim/lab/run/runner_internal.h"

#define IDLE_ROUND 1000u /* of an init that fails, beside those of the rank's own task */

_Static_assert(IDLE_ROUND >= LAB_MAX_TRANSIENT, "init_fails_fits finds no such round in a series");

static bool idle_id(struct lab_rank *me, uint32_t k, ncclUniqueId *id)
{
	struct lab_transient_id *slot = &me->run->idle_id[k];
	struct wait w = wait_word(&slot->ready, 8, WAIT_NE, 0,
				  "harness: the unique id of a communicator without a use",
				  wait_by(-1, -1, NULL));

	ASSERT(k < LAB_MAX_TRANSIENT);
	if (lab_leads(me)) {
		ncclResult_t r = ncclGetUniqueId(&slot->id);

		if (r) {
			lab_rank_fail(me, r, "ncclGetUniqueId");
			return false;
		}
		shared_store_u64(&slot->ready, 1, SHARED_RELEASE);
	} else if (os_wait_one(&w, &me->run->failed)) {
		return false;
	}
	*id = slot->id;
	return true;
}

/* One in three of a program that has inits which fail. */
static bool idle_fails(const struct lab_rank *me, uint32_t k)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, me->run->config->sim.seed + k, "lab.idle");
	return sim_rng_below(&rng, 3) == 0 && me->run->config->init_fails && me->run->nranks > 1;
}

static bool idle_live(struct lab_rank *me, uint32_t k)
{
	const char *call = "ncclCommInitRank of a communicator without a use";
	ncclUniqueId id;
	ncclComm_t comm;
	ncclResult_t r;

	if (!idle_id(me, k, &id))
		return false;
	if (idle_fails(me, k)) {
		lab_init_fail(me, IDLE_ROUND + k, id);
		return true;
	}
	r = ncclCommInitRank(&comm, me->run->nranks, id, me->rank);
	if (!r) {
		call = "ncclCommDestroy of a communicator without a use";
		r = ncclCommDestroy(comm);
	}
	if (r)
		lab_rank_fail(me, r, call);
	return !r;
}

static void idle_main(void *arg)
{
	struct lab_rank *me = arg;

	if (!lab_rank_check_cuda(me, cudaSetDevice(me->device), "cudaSetDevice"))
		return;
	for (uint32_t k = 0; k < me->run->config->idle && idle_live(me, k);)
		k++;
}

bool lab_idle_start(struct lab_rank *me)
{
	if (!me->run->config->idle || me->run->armed)
		return true;
	ASSERT(!me->idler); /* lab_idle_end has joined an earlier one */
	if (os_task_start(&me->idler, me->rank, "other comms", idle_main, me) == 0)
		return true;
	lab_rank_fail(me, ncclSystemError, "no task for other communicators");
	return false;
}

void lab_idle_end(struct lab_rank *me)
{
	if (me->idler)
		os_thread_join(me->idler);
	me->idler = NULL;
}
