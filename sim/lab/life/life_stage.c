/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of a life between its collectives: communicators that are made from the first one,
 * suspend and resume, windows, finalize. */
#include "sim/lab/life/life_internal.h"

const char *const lab_stage_name[LAB_STAGES] = {
	[LAB_STAGE_NONE] = "none",     [LAB_STAGE_SPLIT] = "split",
	[LAB_STAGE_SHRINK] = "shrink", [LAB_STAGE_GROW] = "grow",
	[LAB_STAGE_REVOKE] = "revoke", [LAB_STAGE_SUSPEND] = "suspend",
	[LAB_STAGE_WINDOW] = "window", [LAB_STAGE_FINALIZE] = "finalize",
	[LAB_STAGE_ABORT] = "abort",
};

static bool stage_is_last(const struct lab_rank *me)
{
	return me->rank == me->run->nranks - 1;
}

bool life_joins_later(const struct lab_rank *me)
{
	return me->self->life->stage == LAB_STAGE_GROW && stage_is_last(me);
}

/* Polls the rank's present communicator until a call has ended. */
static bool stage_settle(struct lab_rank *me, ncclResult_t rc, const char *call)
{
	while (rc == ncclInProgress) {
		if (!life_point(me))
			return false;
		rc = life_poll(me);
	}
	return life_check(me, rc, call);
}

/* A child becomes the rank's communicator once its parent has made the handle. */
static bool stage_child(struct lab_rank *me, ncclResult_t rc, const char *call)
{
	if (!stage_settle(me, rc, call))
		return false;
	ASSERT(me->self->child); /* a call that succeeds has stored it */
	__atomic_store_n(&me->comm, me->self->child, __ATOMIC_RELEASE);
	return stage_settle(me, life_poll(me), call) && life_point(me);
}

static bool stage_split(struct lab_rank *me, ncclComm_t first)
{
	return stage_child(me, ncclCommSplit(first, 0, me->rank, &me->self->child, NULL),
			   "ncclCommSplit");
}

/* Without the last rank, which keeps the first communicator and ends. A single rank stays. */
static bool stage_shrink(struct lab_rank *me, ncclComm_t first, bool *runs)
{
	int last = me->run->nranks - 1;

	*runs = !stage_is_last(me);
	if (!*runs)
		return true;
	me->self->n = last;
	return stage_child(me, ncclCommShrink(first, &last, 1, &me->self->child, NULL, 0),
			   "ncclCommShrink");
}

/* ---- a rank that joins ---------------------------------------------------------------------- */

/* Rank 0 makes the id and passes it to the last rank, as a launcher does. */
static bool stage_grow_id(struct lab_rank *me, ncclComm_t first)
{
	struct lab_life *life = me->self->life;

	if (me->rank)
		return true;
	if (!stage_settle(me, ncclCommGetUniqueId(first, &life->grow_id), "ncclCommGetUniqueId"))
		return false;
	shared_note_write(&life->grow_id, sizeof life->grow_id);
	shared_store_u32(&life->grow_ready, 1, SHARED_RELEASE);
	return true;
}

/* False: another rank has died or failed before the id was made; no communicator knows this one. */
static bool stage_grow_wait(struct lab_rank *me)
{
	struct lab_life *life = me->self->life;
	const struct wait w[2] = {
		life_wait(&life->grow_ready, "harness: the unique id of the growth", 0),
		life_wait_trouble(me),
	};
	const struct wait *both[2] = {&w[0], &w[1]};

	(void)os_wait(both, 2, NULL, NULL);
	if (shared_load_u32(&life->grow_ready, SHARED_ACQUIRE)) {
		shared_note_read(&life->grow_id, sizeof life->grow_id);
		return true;
	}
	me->self->out->outside = true;
	return life_check(me, ncclRemoteError, "launcher");
}

/* The last rank has no communicator, and polls the one that it gets. */
static bool stage_grow_new(struct lab_rank *me)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t rc;

	if (!stage_grow_wait(me))
		return false;
	ASSERT(!me->comm && me->rank == me->self->n - 1); /* its number follows the others' */
	config.blocking = !me->self->life->nonblocking;
	rc = ncclCommGrow(NULL, me->self->n, &me->self->life->grow_id, me->rank, &me->comm,
			  &config);
	if (!stage_settle(me, rc, "ncclCommGrow"))
		return false;
	me->self->out->newcomer = false;
	return life_point(me);
}

static bool stage_grow(struct lab_rank *me, ncclComm_t first)
{
	me->self->n = me->run->nranks;
	if (!first)
		return stage_grow_new(me);
	if (!stage_grow_id(me, first))
		return false;
	return stage_child(me,
			   ncclCommGrow(first, me->self->n,
					me->rank ? NULL : &me->self->life->grow_id, -1,
					&me->self->child, NULL),
			   "ncclCommGrow");
}

/* ---- the stage ------------------------------------------------------------------------------ */

static bool stage_revoke(struct lab_rank *me, ncclComm_t first)
{
	return stage_settle(me, ncclCommRevoke(first, 0), "ncclCommRevoke") && life_point(me) &&
	       stage_split(me, first);
}

static bool stage_suspend(struct lab_rank *me, ncclComm_t comm)
{
	return stage_settle(me, ncclCommSuspend(comm, NCCL_SUSPEND_MEM), "ncclCommSuspend") &&
	       life_point(me) && stage_settle(me, ncclCommResume(comm), "ncclCommResume") &&
	       life_point(me);
}

#define STAGE_WINDOW_BYTES 8192

/* A communicator with windows has device communicators, if its teams have the same size. */
static bool stage_device(struct lab_rank *me, ncclComm_t comm)
{
	ncclDevCommRequirements_t reqs = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	ncclCommProperties_t p = NCCL_COMM_PROPERTIES_INITIALIZER;
	ncclDevComm_t *device = &me->self->device;

	reqs.lsaBarrierCount = 2;
	if (!life_check(me, ncclCommQueryProperties(comm, &p), "ncclCommQueryProperties"))
		return false;
	if (!me->self->window || !p.deviceApiSupport)
		return true;
	if (!stage_settle(me, ncclDevCommCreate(comm, &reqs, device), "ncclDevCommCreate") ||
	    !life_point(me))
		return false;
	ASSERT(device->rank == me->self->index && device->lsaBarrier.nBarriers == 2);
	return life_check(me, ncclDevCommDestroy(comm, device), "ncclDevCommDestroy") &&
	       life_point(me);
}

/* A communicator without direct access between its ranks has no window. */
static bool stage_window_of(struct lab_rank *me, ncclComm_t comm, void *mem)
{
	ncclWindow_t *win = &me->self->window;
	void *at = mem;

	if (!stage_settle(me,
			  ncclCommWindowRegister(comm, mem, STAGE_WINDOW_BYTES, win,
						 NCCL_WIN_COLL_SYMMETRIC),
			  "ncclCommWindowRegister") ||
	    !life_point(me))
		return false;
	if (*win && !life_check(me, ncclGetPeerDevicePointer(*win, 0, me->self->index, &at),
				"ncclGetPeerDevicePointer"))
		return false;
	ASSERT(at == mem);
	if (!stage_device(me, comm))
		return false;
	return life_check(me, ncclCommWindowDeregister(comm, *win), "ncclCommWindowDeregister") &&
	       life_point(me);
}

static bool stage_window(struct lab_rank *me, ncclComm_t comm)
{
	void *mem = NULL;
	bool ok = life_check(me, ncclMemAlloc(&mem, STAGE_WINDOW_BYTES), "ncclMemAlloc") &&
		  life_point(me) && stage_window_of(me, comm, mem);

	(void)ncclMemFree(mem);
	return ok;
}

bool life_stage(struct lab_rank *me, ncclComm_t first, bool *runs)
{
	ASSERT(first || life_joins_later(me));
	*runs = true;
	switch (me->self->life->stage) {
	case LAB_STAGE_SPLIT:
		return stage_split(me, first);
	case LAB_STAGE_SHRINK:
		return stage_shrink(me, first, runs);
	case LAB_STAGE_GROW:
		return stage_grow(me, first);
	case LAB_STAGE_REVOKE:
		return stage_revoke(me, first);
	case LAB_STAGE_SUSPEND:
		return stage_suspend(me, first);
	case LAB_STAGE_WINDOW:
		return stage_window(me, first);
	case LAB_STAGE_NONE:
	case LAB_STAGE_FINALIZE:
	case LAB_STAGE_ABORT:
	case LAB_STAGES:
		break;
	}
	return true;
}

bool life_stage_ends(struct lab_rank *me)
{
	if (me->self->life->stage != LAB_STAGE_FINALIZE)
		return true;
	return stage_settle(me, ncclCommFinalize(me->comm), "ncclCommFinalize") && life_point(me);
}
