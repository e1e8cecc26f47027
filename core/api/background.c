/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls on non-blocking communicators that may wait for other ranks. A separate task makes them.
 * ncclCommGetAsyncError returns ncclInProgress until it has ended.
 */
#include <stdio.h>
#include <string.h>

#include "core/api/api.h"
#include "core/base/log.h"

static void background_task(void *arg)
{
	struct api_background *b = arg;
	struct ncclComm *comm = b->comm;
	ncclResult_t rc = comm_enter_launch(comm, b->call, b->need, &b->head);

	if (rc) { /* it has ended, or failed: then its end waits for this task */
		if (b->drop)
			b->drop(b);
		comm_launch_end(comm, &b->head, rc);
		return;
	}
	rc = b->run(b);
	comm_launch_end(comm, &b->head, rc);
	comm_leave(comm);
}

static ncclResult_t background_begin(struct api_background *b, const char *name)
{
	ncclResult_t rc = comm_launch_begin(b->comm, b->call, b->need, &b->head);

	if (rc)
		return rc;
	int e = os_task_start(&b->head.task, b->comm->rank, name, background_task, b);
	if (!e)
		return ncclInProgress;
	WARN("%s: rank %d: its task cannot be started: %s", b->call, b->comm->rank, strerror(e));
	comm_launch_end(b->comm, &b->head, ncclSystemError);
	return ncclSystemError;
}

ncclResult_t api_background_start(struct api_background *b, const char *name)
{
	struct api_group *g = api_group();
	ncclResult_t rc;

	ASSERT(!b->comm->config.blocking && b->run);
	shared_store_u32(&b->head.users, 1, SHARED_RELAXED);
	rc = background_begin(b, name);
	comm_launch_drop(&b->head);
	if (g && rc == ncclInProgress)
		g->in_progress = true;
	return rc;
}
