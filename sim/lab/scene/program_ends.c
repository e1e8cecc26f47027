/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a generated program makes its communicators and ends them: singly or in groups. Groups that
 * are refused must leave no rank that waits, and a group of aborts gives back all memory.
 */
#include "sim/lab/scene/scene_program.h"

#include <stdio.h>

#define PROGRAM_FREE_NS    10000000ull /* between two looks at the free memory of a GPU */
#define PROGRAM_FREE_LOOKS 500
#define PROGRAM_LATE_NS    10000000ull /* an abort comes up to so much later */

_Static_assert(PROGRAM_COMMS <= LAB_MAX_COMMS, "each communicator has an id");

/* ---- making ---------------------------------------------------------------------------------- */

/* The first rank makes ids of all. A barrier precedes: no rank still reads those before. */
static bool program_ids(struct program *g, ncclUniqueId *id, int n)
{
	struct lab_run *run = g->s->me->run;
	ncclResult_t rc = ncclSuccess;

	if (!lab_barrier(g->s->me))
		return false;
	for (int k = 0; k < n && !rc && lab_leads(g->s->me); k++)
		rc = ncclGetUniqueId(&run->other_id[k]);
	if (rc)
		lab_rank_fail(g->s->me, rc, "ncclGetUniqueId");
	if (rc || !lab_barrier(g->s->me))
		return false;
	for (int k = 0; k < n; k++)
		id[k] = run->other_id[k];
	return true;
}

static ncclResult_t program_init(struct program *g, ncclComm_t *comm, ncclUniqueId id,
				 bool nonblocking)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.blocking = !nonblocking;
	lab_call(g->s->me, "ncclCommInitRankConfig");
	ncclResult_t rc = ncclCommInitRankConfig(comm, g->plan.n, id, g->s->me->rank, &config);

	lab_call(g->s->me, NULL);
	return rc;
}

static ncclResult_t program_group_close(struct program *g, bool grouped)
{
	if (!grouped)
		return ncclSuccess;
	lab_call(g->s->me, "ncclGroupEnd");
	ncclResult_t rc = ncclGroupEnd();

	lab_call(g->s->me, NULL);
	return rc;
}

static bool program_ready(struct program *g, ncclComm_t comm)
{
	return program_judge(g, "an init of a generated program", program_poll(g, comm), false);
}

static bool program_inits(struct program *g, ncclComm_t *comm, int n, const bool *nonblocking,
			  bool grouped)
{
	ncclUniqueId id[PROGRAM_COMMS];
	bool ok = program_ids(g, id, n), some = false;

	if (ok && grouped)
		ok = program_judge(g, "ncclGroupStart", ncclGroupStart(), false);
	for (int i = 0; i < n && ok; i++) {
		some |= nonblocking[i];
		ok = program_judge(g, "ncclCommInitRankConfig",
				   program_init(g, &comm[i], id[i], nonblocking[i]),
				   nonblocking[i]) &&
		     (grouped || program_ready(g, comm[i]));
	}
	ok = program_judge(g, "ncclGroupEnd of inits", program_group_close(g, grouped && ok),
			   some) &&
	     ok;
	for (int i = 0; i < n && ok; i++)
		ok = program_ready(g, comm[i]);
	return ok;
}

/* The ranks in reverse order. */
static bool program_split(struct program *g)
{
	ncclComm_t *child = &g->comm[PROGRAM_COMMS - 1];
	bool grouped = g->plan.grouped_inits, progress = g->plan.nonblocking[0];
	ncclResult_t rc = grouped ? ncclGroupStart() : ncclSuccess, end;

	lab_call(g->s->me, "ncclCommSplit");
	if (!rc)
		rc = ncclCommSplit(g->comm[0], 0, g->plan.n - g->s->me->rank, child, NULL);
	lab_call(g->s->me, NULL);
	end = program_group_close(g, grouped);
	return program_judge(g, "ncclCommSplit", rc, progress) &&
	       program_judge(g, "ncclGroupEnd of a split", end, progress) &&
	       program_ready(g, g->comm[0]) && program_ready(g, *child);
}

bool program_make(struct program *g)
{
	const struct program_plan *p = &g->plan;

	return program_inits(g, g->comm, p->comms - p->split, p->nonblocking, p->grouped_inits) &&
	       (!p->split || program_split(g));
}

/* ---- groups that are refused ----------------------------------------------------------------- */

static void program_expect_none(struct program *g, const char *call, ncclComm_t comm)
{
	if (comm)
		scene_report(g->s, call, "left a communicator, expected NULL");
}

static void program_init_wrong(struct program *g, const ncclUniqueId *id)
{
	ncclResult_t rc = ncclGroupStart();

	for (int i = 0; i < 2 && !rc; i++)
		rc = program_init(g, &g->fresh[i], id[i], false);
	scene_judge(g->s, "ncclCommInitRankConfig in a group", rc, ncclSuccess);
	scene_judge(g->s, "a wrong call after inits", program_wrong_call(g), ncclInvalidArgument);
	scene_judge(g->s, "ncclGroupEnd of inits and a wrong call", program_group_close(g, true),
		    ncclInvalidArgument);
}

/* The others make the same communicators, in one group or one after the other. */
static void program_init_others(struct program *g, const ncclUniqueId *id)
{
	bool grouped = sim_rng_below(&g->s->own, 2);
	ncclResult_t rc = grouped ? ncclGroupStart() : ncclSuccess, end;

	for (int i = 0; i < 2; i++) {
		int k = (g->plan.first + i) % 2;

		rc = program_init(g, &g->fresh[k], id[k], false);
		scene_judge(g->s, "ncclCommInitRankConfig without the rank whose group is refused",
			    rc, grouped ? ncclSuccess : ncclRemoteError);
	}
	end = program_group_close(g, grouped);
	scene_judge(g->s, "ncclGroupEnd of inits without the rank whose group is refused", end,
		    grouped ? ncclRemoteError : ncclSuccess);
}

/* One rank has a wrong call in its group of inits: no rank gets a communicator or waits for it. */
bool program_init_fails(struct program *g)
{
	ncclUniqueId id[2];

	if (!program_ids(g, id, 2))
		return false;
	if (g->s->me->rank == g->plan.culprit)
		program_init_wrong(g, id);
	else
		program_init_others(g, id);
	for (int i = 0; i < 2; i++)
		program_expect_none(g, "an init that failed", g->fresh[i]);
	return !g->fresh[0] && !g->fresh[1] && lab_barrier(g->s->me);
}

/* One rank's group drops its split of the first communicator. */
static void program_drop_split(struct program *g)
{
	bool mine = g->s->me->rank == g->plan.culprit;
	ncclComm_t child = NULL;
	ncclResult_t rc = mine ? ncclGroupStart() : ncclSuccess;

	lab_call(g->s->me, "ncclCommSplit");
	if (!rc)
		rc = ncclCommSplit(g->comm[0], 0, g->s->me->rank, &child, NULL);
	lab_call(g->s->me, NULL);
	if (!mine) {
		scene_judge(g->s, "ncclCommSplit without the rank whose group is refused", rc,
			    ncclRemoteError);
	} else {
		scene_judge(g->s, "ncclCommSplit in a group", rc, ncclSuccess);
		scene_judge(g->s, "a wrong call after a split", program_wrong_call(g),
			    ncclInvalidArgument);
		scene_judge(g->s, "ncclGroupEnd of a split and a wrong call",
			    program_group_close(g, true), ncclInvalidArgument);
	}
	program_expect_none(g, "ncclCommSplit that failed", child);
	if (mine)
		scene_judge(g->s, "the error of a communicator whose split is dropped",
			    program_poll(g, g->comm[0]), ncclInternalError);
	(void)lab_barrier(g->s->me); /* no abort ends a call that waits */
}

/* ---- a group that cannot connect ------------------------------------------------------------- */

static ncclResult_t program_lost_call(struct program *g, int k)
{
	uint32_t *at = g->mem + (size_t)k * PROGRAM_WORDS;
	int32_t peer = g->plan.culprit;
	ncclComm_t comm = g->fresh[k];
	ncclResult_t rc;

	if (g->plan.collective && k != g->plan.gone)
		return ncclAllReduce(at, at + 1, 1, ncclUint32, ncclSum, comm, g->stream[2 + k]);
	rc = ncclSend(at, 1, ncclUint32, peer, comm, g->stream[2 + k]);
	return rc ? rc : ncclRecv(at + 1, 1, ncclUint32, peer, comm, g->stream[2 + k]);
}

static ncclResult_t program_lost_group(struct program *g)
{
	ncclResult_t rc = ncclGroupStart(), end;

	for (int i = 0; i < 2 && !rc; i++)
		rc = program_lost_call(g, (g->plan.first + i) % 2);
	end = program_group_close(g, true);
	return rc ? rc : end;
}

/* One rank aborts one of two communicators, to which the others begin to connect. A group that was
 * in progress then fails on both. */
static void program_unconnected(struct program *g)
{
	static const bool nonblocking[2] = {true, true};
	const int gone = g->plan.gone;

	if (!program_inits(g, g->fresh, 2, nonblocking, true) || !lab_barrier(g->s->me))
		return;
	if (g->s->me->rank == g->plan.culprit) {
		os_sleep_ns(sim_rng_below(&g->s->own, PROGRAM_LATE_NS));
		scene_judge(g->s, "ncclCommAbort", ncclCommAbort(g->fresh[gone]), ncclSuccess);
		g->fresh[gone] = NULL;
		(void)lab_barrier(g->s->me);
		return;
	}
	ncclResult_t rc = program_lost_group(g);

	if (rc == ncclInProgress) {
		for (int i = 0; i < 2; i++)
			scene_judge(g->s, "a group of which one communicator cannot connect",
				    program_poll(g, g->fresh[i]), ncclRemoteError);
	} else {
		scene_judge(g->s, "ncclGroupEnd with an aborted communicator", rc, ncclRemoteError);
	}
	(void)lab_barrier(g->s->me);
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void program_destroy(struct program *g)
{
	for (int i = 0; i < g->plan.comms; i++) {
		ncclComm_t comm = g->comm[i];

		g->comm[i] = NULL;
		lab_call(g->s->me, "ncclCommDestroy");
		scene_judge(g->s, "ncclCommDestroy", ncclCommDestroy(comm), ncclSuccess);
		lab_call(g->s->me, NULL);
	}
}

static void program_abort(struct program *g)
{
	ncclResult_t rc = ncclGroupStart();

	for (int i = 0; i < PROGRAM_COMMS + 2 && !rc; i++) {
		ncclComm_t *comm = i < PROGRAM_COMMS ? &g->comm[i] : &g->fresh[i - PROGRAM_COMMS];

		rc = *comm ? ncclCommAbort(*comm) : ncclSuccess;
		*comm = NULL;
	}
	scene_judge(g->s, "ncclCommAbort in a group", rc, ncclSuccess);
	scene_judge(g->s, "ncclGroupEnd of aborts", program_group_close(g, true), ncclSuccess);
}

/* Ranks of the host may be about to unmap the GPU's memory, in tasks of their own: that of these
 * communicators, and that of ones before, which the program has found in use. */
static void program_memory(struct program *g)
{
	size_t now = 0, total;
	char text[120];

	for (int i = 0; i < PROGRAM_FREE_LOOKS && now < g->free_bytes; i++) {
		if (i)
			os_sleep_ns(PROGRAM_FREE_NS);
		if (!scene_cuda(g->s, cudaMemGetInfo(&now, &total), "cudaMemGetInfo"))
			return;
	}
	if (now >= g->free_bytes)
		return;
	snprintf(text, sizeof text, "left %zu bytes of the GPU free, expected %zu", now,
		 g->free_bytes);
	scene_report(g->s, "ncclCommAbort in a group", text);
}

void program_end(struct program *g)
{
	switch (g->plan.end) {
	case PROGRAM_DESTROYS:
		program_destroy(g);
		return;
	case PROGRAM_DROPS_SPLIT:
		program_drop_split(g);
		break;
	case PROGRAM_UNCONNECTED:
		program_unconnected(g);
		break;
	default:
		break;
	}
	program_abort(g);
	if (lab_barrier(g->s->me))
		program_memory(g);
	(void)lab_barrier(g->s->me); /* memory of the program is freed after that */
}

void program_drop(struct program *g)
{
	for (int i = 0; i < PROGRAM_COMMS + 2; i++) {
		ncclComm_t *comm = i < PROGRAM_COMMS ? &g->comm[i] : &g->fresh[i - PROGRAM_COMMS];

		if (*comm)
			(void)ncclCommAbort(*comm);
		*comm = NULL;
	}
}
