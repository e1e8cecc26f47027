/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators that are made from others. A call first forms the new communicator: the ranks of
 * the parent agree on its members and its id (core/comm/comm_child.h). Then it joins like any other
 * one. The task that does both:
 *
 *	blocking parent, no group	the calling task, before the call returns
 *	blocking parent, in a group	a task of each init, at the end of the group
 *	non-blocking parent		a separate task; the parent is in progress until the new
 *					communicator is formed, then that one is until it is ready
 */
#include <stdio.h>
#include <string.h>

#include "core/api/api.h"
#include "core/base/log.h"
#include "core/rank/cuda_result.h"

/* ---- forming -------------------------------------------------------------------------------- */

static ncclResult_t child_id(const struct api_child *child, const struct comm_child *ranks,
			     ncclUniqueId *id)
{
	ncclResult_t made = ncclSuccess;

	ASSERT(ranks->maker >= 0 && ranks->maker < ranks->n); /* one of the parent's ranks */
	if (child->has_id)
		*id = child->id;
	else if (ranks->rank == ranks->maker)
		made = api_own_id(child->call, id);
	return comm_child_share_id(child->parent, ranks, made, id);
}

/* Creates this rank's communicator, on the parent's device. */
static ncclResult_t child_create(const struct api_child *child, struct comm_child *ranks,
				 struct ncclComm **comm)
{
	ncclUniqueId id = {{0}};
	ncclResult_t rc = child_id(child, ranks, &id);

	if (rc)
		return rc;
	rc = cuda_result(cudaSetDevice(child->parent->cuda_dev), "cudaSetDevice");
	if (!rc)
		rc = comm_create(comm, ranks->nranks, &id, ranks->rank, &child->config);
	if (rc)
		bootstrap_give_up(&id, ranks->rank, ranks->nranks, log_task_error());
	if (rc && ranks->rank == ranks->maker)
		(void)api_root_close(bootstrap_id_hash(&id));
	if (rc)
		return rc;
	(*comm)->life->made_by = child->call;
	snprintf((*comm)->life->made_from, sizeof(*comm)->life->made_from, " parent %p",
		 (const void *)child->parent);
	if (child->share)
		(*comm)->life->share = (const int *)((const char *)&(*comm)->config + child->share);
	comm_child_of(*comm, child->parent, ranks);
	return ncclSuccess;
}

ncclResult_t api_child_make(const struct api_child *child, struct ncclComm **comm)
{
	struct comm_child ranks;
	ncclResult_t rc = child->form(child, &ranks);

	*comm = NULL;
	if (child->refused)
		rc = child->refused;
	ASSERT(rc || (ranks.rank >= -1 && ranks.rank < ranks.nranks));
	if (!rc && ranks.rank >= 0)
		rc = child_create(child, &ranks, comm);
	comm_child_free(&ranks);
	return rc;
}

/* The messages of one parent follow the order of the calls. */
static void child_wait_turn(const struct api_init *i)
{
	struct wait w = {
		.mask = WAIT_MASK_ALL,
		.want = 1,
		.kind = WAIT_EQ,
		.bytes = 4,
		.why = "an earlier call with the same parent, in the same group",
		.from = {.rank = i->rank, .channel = -1, .step = -1},
	};

	if (!i->after)
		return;
	w.on = &i->after->formed;
	(void)os_wait_one(&w, NULL);
}

ncclResult_t api_init_form(struct api_init *i)
{
	const struct api_child *child = i->child;
	struct comm_child ranks = child->ranks;
	ncclResult_t rc;

	child_wait_turn(i);
	rc = comm_enter(child->parent, child->call, COMM_NEED_PARENT);
	if (!rc) {
		rc = api_child_make(child, &i->comm);
		comm_leave(child->parent);
	} else { /* the parent was aborted meanwhile */
		comm_child_free(&ranks);
	}
	if (i->comm) {
		i->rank = i->comm->rank;
		i->id_hash = i->comm->id_hash;
		i->root_hash = bootstrap_root_hash(&i->comm->life->id);
		*i->out = i->comm;
	}
	shared_store_u32(&i->formed, 1, SHARED_RELEASE);
	return rc;
}

/* ---- the init ------------------------------------------------------------------------------- */

/* Time between two looks at the parent. A rank that has the child may abort the parent, while this
 * one is about to have it, too. */
#define CHILD_LOOK_NS 1000000000ull

struct child_init {
	struct ncclComm *comm;
	ncclResult_t result;
	shared_u32 done;
};

static void child_init_task(void *arg)
{
	struct child_init *c = arg;

	c->result = comm_init(c->comm);
	shared_store_u32(&c->done, 1, SHARED_RELEASE);
}

/* Waits for the init. Returns an error if the parent shows that it cannot end. */
static ncclResult_t child_init_watch(const struct child_init *c, bool parent_may_end)
{
	struct wait w = wait_word(&c->done, 4, WAIT_NE, 0,
				  "the init of a communicator that is made from another",
				  wait_by(c->comm->rank, -1, "init"));
	ncclResult_t rc = ncclSuccess;

	for (;;) {
		w.deadline_ns = os_now_ns() + CHILD_LOOK_NS;
		if (os_wait_one(&w, NULL) != ETIMEDOUT)
			return ncclSuccess;
		rc = comm_child_hopeless(c->comm);
		if (rc && !(rc == ncclInternalError && parent_may_end))
			return rc;
	}
}

ncclResult_t api_child_init(struct ncclComm *comm, bool parent_may_end)
{
	struct child_init c = {.comm = comm};
	struct os_thread *task;
	ncclResult_t rc;

	if (!comm->life->parent || os_task_start(&task, comm->rank, "init", child_init_task, &c))
		return comm_init(comm);
	rc = child_init_watch(&c, parent_may_end);
	if (rc)
		(void)comm_abort_set(comm);
	os_thread_join(task);
	return rc && c.result ? rc : c.result;
}

void api_child_withdraw(struct api_child *child)
{
	comm_child_free(&child->ranks);
	if (comm_enter(child->parent, child->call, COMM_NEED_ANY))
		return;
	INFO(LOG_INIT, "%s: rank %d: the call failed while other ranks may wait for its messages",
	     child->call, child->parent->rank);
	rank_set_async_error(child->parent, ncclInternalError);
	comm_leave(child->parent);
}

/* ---- blocking ------------------------------------------------------------------------------- */

static struct api_init *child_init_new(struct api_child *child)
{
	struct api_init *i = os_alloc(sizeof *i + sizeof *child, "init");
	struct api_child *copy = i ? (struct api_child *)(i + 1) : NULL;

	if (!i) {
		WARN("%s: rank %d: no memory", child->call, child->parent->rank);
		return NULL;
	}
	*copy = *child;
	i->child = copy;
	i->out = child->out;
	i->rank = child->parent->rank;
	return i;
}

static ncclResult_t child_later(struct api_group *g, struct api_init *i)
{
	for (struct api_init *at = g->inits; at; at = at->next)
		if (at->child && at->child->parent == i->child->parent)
			i->after = at;
	api_init_later(g, i);
	return ncclSuccess;
}

static ncclResult_t child_blocking(struct api_child *child)
{
	struct api_group *g = api_group();
	struct api_init *i = child_init_new(child);
	int device = comm_device_save();
	ncclResult_t rc;

	if (!i) {
		api_child_withdraw(child);
		return ncclSystemError;
	}
	rc = g ? child_later(g, i) : api_inits_run(i);
	comm_device_restore(device);
	return rc;
}

/* ---- non-blocking --------------------------------------------------------------------------- */

/* A call whose parent is non-blocking. */
struct child_launch {
	struct api_background background; /* first */
	struct api_child child;
};
DOPPEL_STATIC_CHECK(offsetof(struct child_launch, background.head) == 0,
		    "freed by the head, which is at its address");

static void child_launch_drop(struct api_background *b)
{
	comm_child_free(&((struct child_launch *)b)->child.ranks);
}

/* Gives the program a communicator that has failed with `error`, and can only be ended: the call's
 * error is not the parent's. Returns `error` if it cannot be made. */
static ncclResult_t child_failed(const struct api_child *child, ncclResult_t error)
{
	const ncclUniqueId none = {{0}};
	struct ncclComm *comm;

	if (cudaSetDevice(child->parent->cuda_dev) != cudaSuccess ||
	    comm_create(&comm, 1, &none, 0, &child->config))
		return error;
	comm->life->made_by = child->call;
	rank_set_async_error(comm, error);
	(void)comm_abort_set(comm);
	*child->out = comm;
	comm_leave(comm);
	return ncclSuccess;
}

/* The program has learned of its own wrong arguments. An error of the parent is set already; any
 * other error is the new communicator's. A rank without a color gets none. */
static ncclResult_t child_launch_run(struct api_background *b)
{
	struct child_launch *l = (struct child_launch *)b;
	struct ncclComm *comm = NULL;
	ncclResult_t rc = api_child_make(&l->child, &comm);

	if (comm) {
		ASSERT(l->child.out && comm->life->made_by); /* api_child_make was not refused */
		*l->child.out = comm;
		rc = api_init_nonblocking(comm, l->child.out);
	} else if (rc && rc != l->child.refused &&
		   !shared_load_u32(&l->child.parent->async_error, SHARED_ACQUIRE)) {
		rc = l->child.config.magic ? child_failed(&l->child, rc) : ncclSuccess;
	}
	return rc == ncclInProgress || rc == l->child.refused ? ncclSuccess : rc;
}

static ncclResult_t child_nonblocking(struct api_child *child)
{
	struct child_launch *l = os_alloc(sizeof *l, "split");
	struct comm_child ranks = child->ranks;
	ncclResult_t rc;

	if (!l) {
		WARN("%s: rank %d: no memory", child->call, child->parent->rank);
		api_child_withdraw(child);
		return ncclSystemError;
	}
	l->background = (struct api_background){.comm = child->parent,
						.call = child->call,
						.need = COMM_NEED_PARENT,
						.run = child_launch_run,
						.drop = child_launch_drop};
	l->child = *child;
	rc = api_background_start(&l->background, "split");
	if (rc != ncclInProgress)
		comm_child_free(&ranks);
	return rc;
}

/* ---- running -------------------------------------------------------------------------------- */

ncclResult_t api_child_run(struct api_child *child)
{
	ncclResult_t rc = ncclSuccess;
	struct ncclComm *none;

	if (!child->parent->config.blocking)
		rc = child_nonblocking(child);
	else if (!child->refused)
		rc = child_blocking(child);
	else if (!api_group())
		rc = api_child_make(child, &none);
	else /* the error ends the group, before any message */
		api_child_withdraw(child);
	return child->refused ? child->refused : rc;
}
