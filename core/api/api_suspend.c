/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ncclCommSuspend and ncclCommResume. Ranks of a host wait for each other in them. The task that
 * makes the change (core/comm/suspend.c):
 *
 *	blocking, no group	the calling task
 *	blocking, in a group	a task for each communicator, at the end of the group
 *	non-blocking		a separate task; the communicator is in progress until it ends
 */
#include <stdio.h>
#include <string.h>

#include "core/api/api.h"
#include "core/base/log.h"

static const char *change_call(bool resumes)
{
	return resumes ? "ncclCommResume" : "ncclCommSuspend";
}

static enum comm_need change_need(bool resumes)
{
	return resumes ? COMM_NEED_SUSPENDED : COMM_NEED_READY;
}

static ncclResult_t change_inside(struct ncclComm *comm, bool resumes)
{
	return resumes ? comm_resume(comm) : comm_suspend(comm);
}

/* ---- blocking ------------------------------------------------------------------------------- */

static void change_task(void *arg)
{
	struct api_change *c = arg;

	c->result = comm_enter(c->comm, change_call(c->resumes), change_need(c->resumes));
	if (c->result)
		return;
	c->result = change_inside(c->comm, c->resumes);
	comm_leave(c->comm);
}

/* Ends a change that has not begun. Ranks that wait for this one get an error. */
static void change_withdraw(const struct api_change *c)
{
	if (comm_enter(c->comm, NULL, COMM_NEED_ANY))
		return;
	rank_set_async_error(c->comm, ncclInternalError);
	comm_leave(c->comm);
}

static void change_start(struct api_change *c)
{
	int e = os_task_start(&c->task, c->rank, "suspend", change_task, c);

	if (!e)
		return;
	WARN("%s: rank %d: its task cannot be started: %s", change_call(c->resumes), c->rank,
	     strerror(e));
	change_withdraw(c);
	c->result = ncclSystemError;
}

static void changes_free(struct api_change *list)
{
	struct api_change *next;

	for (; list; list = next) {
		next = list->next;
		os_free(list);
	}
}

ncclResult_t api_changes_run(struct api_change *list)
{
	ncclResult_t rc = ncclSuccess;

	if (list && !list->next)
		change_task(list);
	else
		for (struct api_change *c = list; c; c = c->next)
			change_start(c);
	for (struct api_change *c = list; c; c = c->next) {
		if (c->task)
			os_thread_join(c->task);
		rc = rc ? rc : c->result;
	}
	changes_free(list);
	return rc;
}

void api_changes_discard(struct api_change *list)
{
	for (const struct api_change *c = list; c; c = c->next) {
		ASSERT(!c->task); /* no change of the group has begun */
		change_withdraw(c);
	}
	changes_free(list);
}

static ncclResult_t change_later(struct api_group *g, struct ncclComm *comm, bool resumes)
{
	struct api_change *c = os_alloc(sizeof *c, "change of a communicator");

	if (!c) {
		WARN("%s: rank %d: no memory", change_call(resumes), comm->rank);
		rank_set_async_error(comm, ncclSystemError);
		return ncclSystemError;
	}
	*c = (struct api_change){
		.next = g->changes, .comm = comm, .rank = comm->rank, .resumes = resumes};
	g->changes = c;
	return ncclSuccess;
}

/* ---- non-blocking --------------------------------------------------------------------------- */

static ncclResult_t suspend_background(struct api_background *b)
{
	return comm_suspend(b->comm);
}

static ncclResult_t resume_background(struct api_background *b)
{
	return comm_resume(b->comm);
}

static ncclResult_t change_nonblocking(struct ncclComm *comm, bool resumes)
{
	struct api_background *b = os_alloc(sizeof *b, "change of a communicator");

	if (!b) {
		WARN("%s: rank %d: no memory", change_call(resumes), comm->rank);
		rank_set_async_error(comm, ncclSystemError);
		return ncclSystemError;
	}
	*b = (struct api_background){.comm = comm,
				     .call = change_call(resumes),
				     .need = change_need(resumes),
				     .run = resumes ? resume_background : suspend_background};
	return api_background_start(b, "suspend");
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* Makes the change in the calling task, which keeps its device. */
static ncclResult_t change_here(struct ncclComm *comm, bool resumes)
{
	int device = comm_device_save();
	ncclResult_t rc = change_inside(comm, resumes);

	comm_device_restore(device);
	return rc;
}

static ncclResult_t change(struct ncclComm *comm, bool resumes)
{
	ncclResult_t rc = comm_enter(comm, change_call(resumes), change_need(resumes));
	struct api_group *g = api_group();

	if (rc)
		return rc;
	if (!comm->config.blocking)
		rc = change_nonblocking(comm, resumes);
	else if (g)
		rc = change_later(g, comm, resumes);
	else
		rc = change_here(comm, resumes);
	comm_leave(comm);
	return rc;
}

API_TWIN(ncclCommSuspend);
API_WEAK ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags)
{
	INFO(LOG_CALL, "ncclCommSuspend: comm %p flags %#x", (const void *)comm, (unsigned)flags);
	if (flags != NCCL_SUSPEND_MEM) {
		WARN("ncclCommSuspend: flags is %#x, expected NCCL_SUSPEND_MEM (%#x)",
		     (unsigned)flags, (unsigned)NCCL_SUSPEND_MEM);
		return api_return(ncclInvalidArgument);
	}
	return api_return(change(comm, false));
}

API_TWIN(ncclCommResume);
API_WEAK ncclResult_t ncclCommResume(ncclComm_t comm)
{
	INFO(LOG_CALL, "ncclCommResume: comm %p", (const void *)comm);
	return api_return(change(comm, true));
}
