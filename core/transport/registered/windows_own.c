/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows of memory that the stack allocates: for programs on windows (windows_memory.c), and the
 * resource memory of device communicators. All ranks make one together.
 */
#include "core/base/log.h"
#include "core/rank/cuda_result.h"
#include "core/transport/registered/windows_internal.h"

static ncclResult_t window_own_clear(struct ncclComm *comm, void *mem, size_t bytes)
{
	ncclResult_t rc = cuda_result(cudaMemsetAsync(mem, 0, bytes, comm->internal_stream),
				      "cudaMemsetAsync of memory for windows");

	return rc ? rc
		  : cuda_result(cudaStreamSynchronize(comm->internal_stream),
				"waiting for the memset of memory for windows");
}

static ncclResult_t window_own_alloc(struct ncclComm *comm, void **mem, size_t bytes)
{
	ncclResult_t rc =
		cuda_result(cudaSetDevice(comm->cuda_dev), "cudaSetDevice for memory for windows");

	*mem = NULL;
	if (!rc)
		rc = user_memory_alloc(mem, bytes);
	if (!rc)
		rc = window_own_clear(comm, *mem, bytes);
	return rc;
}

static ncclResult_t window_own_impossible(const struct ncclComm *comm,
					  const struct window_call *call)
{
	char text[96];
	const char *why = window_why_not(comm, text);

	WARN("%s: rank %d: %s, expected ranks of each host that access each other's memory",
	     call->name, comm->rank, why ? why : "a host has no direct access between its ranks");
	return ncclInvalidUsage;
}

/* A rank without memory takes part, so that the others do not wait for it. */
ncclResult_t window_own_register(struct ncclComm *comm, const struct window_call *call,
				 struct window **w)
{
	struct window_call own = *call;
	ncclResult_t rc;

	if (!own.refused)
		own.refused = windows_make(comm);
	if (!own.refused)
		own.refused = window_own_alloc(comm, &own.buffer, own.bytes);
	rc = window_register(comm, &own, w);
	if (!rc && !*w)
		rc = window_own_impossible(comm, call);
	if (rc) {
		if (own.buffer)
			(void)user_memory_free(own.buffer);
		return rc;
	}
	(*w)->own = true;
	comm->gpu_bytes += own.bytes;
	return ncclSuccess;
}

ncclResult_t window_own_free(struct ncclComm *comm, struct window *w, bool closes)
{
	void *mem = w->at;
	ncclResult_t rc, freed;

	comm->gpu_bytes -= w->bytes;
	rc = window_free(comm, w, closes);
	freed = user_memory_free(mem);
	return rc ? rc : freed;
}

ncclResult_t transport_window_own(struct ncclComm *comm, const struct window_call *call,
				  ncclWindow_t *win)
{
	struct window *w;
	ncclResult_t rc = window_own_register(comm, call, &w);

	*win = NULL;
	if (!rc)
		rc = window_add(comm, w);
	if (!rc)
		*win = w->handle;
	return rc;
}

ncclResult_t transport_window_own_end(struct ncclComm *comm, ncclWindow_t win)
{
	struct window *w;
	ncclResult_t rc = window_check(comm, "ncclDevCommDestroy", win, true, &w), freed;

	if (rc)
		return rc;
	rc = window_record_hide(comm, w);
	window_remove(comm, w);
	freed = window_own_free(comm, w, true);
	return rc ? rc : freed;
}
