/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs on windows (core/algo/symmetric.c) need the addresses of a buffer on all ranks, and a
 * piece of memory of each rank for lines and barriers. The memory is a window of the stack's own.
 * It is made together with the communicator's first window that has NCCL_WIN_COLL_SYMMETRIC,
 * because all ranks are in that call.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/device/layout/work.h"
#include "core/rank/cuda_result.h"
#include "core/transport/base/step_bytes.h"
#include "core/transport/registered/windows_internal.h"

/* ---- addresses ------------------------------------------------------------------------------- */

static const struct window *window_around(const struct ncclComm *comm, const uint8_t *at,
					  size_t bytes)
{
	const struct window *w = comm->windows ? comm->windows->first : NULL;

	for (; w; w = w->next)
		if ((w->flags & NCCL_WIN_COLL_SYMMETRIC) && at >= w->at && bytes <= w->bytes &&
		    (size_t)(at - w->at) <= w->bytes - bytes)
			return w;
	return NULL;
}

static void window_each(const struct window *w, size_t offset, void **each)
{
	ASSERT(w->npeers == w->nranks); /* one host: the team is all ranks, in their order */
	for (int32_t r = 0; r < w->npeers && each; r++)
		each[r] = w->peer[r].at + offset;
}

bool transport_window_each(const struct ncclComm *comm, const void *at, size_t bytes, void **each)
{
	const struct window *w = window_around(comm, at, bytes);

	if (w)
		window_each(w, (size_t)((const uint8_t *)at - w->at), each);
	return w != NULL;
}

bool transport_window_memory(const struct ncclComm *comm, void **each)
{
	const struct window *w = comm->windows ? comm->windows->memory : NULL;

	if (w)
		window_each(w, 0, each);
	return w != NULL;
}

uint32_t transport_window_number(const struct ncclComm *comm, const void *at, size_t bytes,
				 size_t *offset)
{
	const struct window *w = window_around(comm, at, bytes);

	*offset = w ? (size_t)((const uint8_t *)at - w->at) : 0;
	return w ? w->number : 0;
}

/* ---- memory for lines and barriers ----------------------------------------------------------- */

/* Sets the flags of lines that are older than the last cleaning (DEV_SYM_CLEAN_MASK): those of the
 * steps after the next one. */
static void window_memory_lines(uint64_t *half, size_t halves, uint64_t first)
{
	for (size_t i = 0; i < halves; i++)
		half[i] = (uint64_t)DEV_LINE_FLAG((first | DEV_SYM_CLEAN_MASK) + 2 + i / 2 % 8)
			  << 32;
}

/* Memory whose blocks begin at another step than 0, as long after their first one. */
static ncclResult_t window_memory_image(struct ncclComm *comm, void *mem, size_t bytes)
{
	const uint64_t first = transport_first_step();
	struct dev_sym_mem *image = os_alloc(bytes, "image of memory for windows");
	ncclResult_t rc;

	if (!image) {
		WARN("rank %d: no memory for an image of %zu bytes", comm->rank, bytes);
		return ncclSystemError;
	}
	for (int b = 0; b < DEV_SYM_BLOCKS; b++)
		memcpy(&image->block[b].step, &first, sizeof first);
	window_memory_lines((uint64_t *)(image + 1), (bytes - sizeof *image) / 8, first);
	rc = cuda_result(
		cudaMemcpyAsync(mem, image, bytes, cudaMemcpyHostToDevice, comm->internal_stream),
		"cudaMemcpyAsync to memory for windows");
	if (!rc)
		rc = cuda_result(cudaStreamSynchronize(comm->internal_stream),
				 "waiting for the copy to memory for windows");
	os_free(image);
	return rc;
}

/* The same on all ranks. */
static bool window_memory_is_missing(const struct ncclComm *comm, const struct window_call *call)
{
	return (call->flags & NCCL_WIN_COLL_SYMMETRIC) && (comm->allowed & DEV_SYMMETRIC_BITS) &&
	       comm->nranks > 1 && !(comm->windows && comm->windows->memory);
}

static ncclResult_t window_memory_register(struct ncclComm *comm, const struct window_call *call)
{
	const size_t bytes = DEV_SYM_BYTES(comm->nranks);
	const struct window_call own = {
		.bytes = bytes, .name = call->name, .next_message = call->next_message};
	struct window *w;
	ncclResult_t rc = window_own_register(comm, &own, &w);

	if (rc)
		return rc;
	comm->windows->memory = w;
	if (transport_first_step())
		rc = window_memory_image(comm, w->at, bytes);
	if (rc)
		rank_set_async_error(comm, rc); /* the other ranks have the memory */
	return rc;
}

ncclResult_t window_memory_make(struct ncclComm *comm, const struct window_call *call)
{
	ncclResult_t rc;

	if (window_memory_is_missing(comm, call))
		return window_memory_register(comm, call);
	rc = windows_make(comm);
	if (rc)
		rank_set_async_error(comm, rc); /* the other ranks register the window */
	return rc;
}

void window_memory_end(struct ncclComm *comm)
{
	struct window *w = comm->windows->memory;

	comm->windows->memory = NULL;
	if (w)
		(void)window_own_free(comm, w, false);
}
