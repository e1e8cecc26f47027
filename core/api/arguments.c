/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arguments of a collective, checked by the row of its call (collective.h).
 */
#include <stdint.h>

#include "core/api/collective.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/comm/ops.h"
#include "core/device/steps.h"

/* ---- values --------------------------------------------------------------------------------- */

static ncclResult_t coll_check_type(const struct api_coll *c)
{
	const struct plan_task *t = &c->task;

	if ((unsigned)t->type < ncclNumTypes)
		return ncclSuccess;
	WARN("%s: datatype is %d, expected 0 to %d", t->call, (int)t->type, ncclNumTypes - 1);
	return ncclInvalidArgument;
}

/* An operation that the program made: its factor goes into the task. */
static ncclResult_t coll_check_made_op(struct api_coll *c)
{
	struct plan_task *t = &c->task;
	const struct comm_op *op = comm_op_find(c->comm, t->call, t->op);

	if (!op)
		return ncclInvalidArgument;
	if (op->type != t->type) {
		WARN("%s: datatype is %s, expected %s: op %d was made for it", t->call,
		     plan_type_name(t->type), plan_type_name(op->type), (int)t->op);
		return ncclInvalidArgument;
	}
	t->factor =
		(struct plan_factor){.used = true, .in_memory = op->in_memory, .bits = op->factor};
	return ncclSuccess;
}

static ncclResult_t coll_check_op(struct api_coll *c)
{
	const struct plan_task *t = &c->task;

	if (!t->reduces || (unsigned)t->op < ncclNumOps)
		return ncclSuccess;
	if ((int)t->op >= ncclNumOps)
		return coll_check_made_op(c);
	WARN("%s: op is %d, expected 0 to %d", t->call, (int)t->op, ncclNumOps - 1);
	return ncclInvalidArgument;
}

static ncclResult_t coll_check_root(const struct api_coll *c)
{
	const struct plan_task *t = &c->task;

	if (!c->row->rooted || (t->root >= 0 && t->root < c->comm->nranks))
		return ncclSuccess;
	WARN("%s: root is %d, expected 0 to %d", t->call, t->root, c->comm->nranks - 1);
	return ncclInvalidArgument;
}

/* Blocks of count elements in a buffer. */
static size_t coll_blocks(const struct api_coll *c, const struct api_buffer *b)
{
	return b->per_rank ? (size_t)c->comm->nranks : 1;
}

static ncclResult_t coll_check_count(const struct api_coll *c)
{
	const struct plan_task *t = &c->task;
	size_t blocks = MAX_OF(coll_blocks(c, &c->row->send), coll_blocks(c, &c->row->recv));
	size_t most = (size_t)PTRDIFF_MAX / steps_type_bytes((int)t->type) / blocks;

	if (t->count <= most)
		return ncclSuccess;
	WARN("%s: %s is %zu, expected at most %zu: %zu x %zu elements of %s are more than memory "
	     "can hold",
	     t->call, c->row->count, t->count, most, blocks, t->count, plan_type_name(t->type));
	return ncclInvalidArgument;
}

static bool coll_uses(const struct api_coll *c, const struct api_buffer *b)
{
	return !b->root_only || c->task.root == c->comm->rank;
}

ncclResult_t api_coll_check_values(struct api_coll *c)
{
	struct plan_task *t = &c->task;
	ncclResult_t rc = coll_check_type(c);

	if (!rc)
		rc = coll_check_op(c);
	if (!rc)
		rc = coll_check_root(c);
	if (!rc)
		rc = coll_check_count(c);
	if (rc)
		return rc;
	size_t block = t->count * steps_type_bytes((int)t->type);
	bool send = coll_uses(c, &c->row->send), recv = coll_uses(c, &c->row->recv);
	t->send = send ? t->send : NULL;
	t->recv = recv ? t->recv : NULL;
	t->send_bytes = send ? block * coll_blocks(c, &c->row->send) : 0;
	t->recv_bytes = recv ? block * coll_blocks(c, &c->row->recv) : 0;
	return ncclSuccess;
}

/* ---- buffers -------------------------------------------------------------------------------- */

static ncclResult_t coll_check_pointer(const struct api_coll *c, const struct api_buffer *b,
				       const void *p)
{
	uint32_t align = steps_type_bytes((int)c->task.type);

	if (!p) {
		WARN("%s: %s is NULL, expected memory of device %d", c->task.call, b->name,
		     c->comm->cuda_dev);
		return ncclInvalidArgument;
	}
	if ((uintptr_t)p % align) {
		WARN("%s: %s %p is not aligned to its type, %s, of %u bytes", c->task.call, b->name,
		     p, plan_type_name(c->task.type), align);
		return ncclInvalidArgument;
	}
	return ncclSuccess;
}

static bool coll_looks_at_memory(void)
{
#ifdef DOPPEL_FAKECUDA
	return true;
#else
	return param_bool(PARAM_CHECK_POINTERS);
#endif
}

ncclResult_t api_check_memory(const char *call, const char *name, const void *p, int device)
{
	struct cudaPointerAttributes a;
	cudaError_t e;

	if (!coll_looks_at_memory())
		return ncclSuccess;
	e = cudaPointerGetAttributes(&a, p);
	if (e != cudaSuccess) {
		(void)cudaGetLastError();
		WARN("%s: %s %p: %s", call, name, p, cudaGetErrorString(e));
		/* any other error is the GPU's trouble, not the program's */
		return e == cudaErrorInvalidValue ? ncclInvalidArgument : ncclUnhandledCudaError;
	}
	if (a.type == cudaMemoryTypeUnregistered || !a.devicePointer) {
		WARN("%s: %s %p is host memory, expected memory of device %d", call, name, p,
		     device);
		return ncclInvalidArgument;
	}
	if (a.type == cudaMemoryTypeDevice && a.device != device) {
		WARN("%s: %s %p is memory of device %d, the communicator's is %d", call, name, p,
		     a.device, device);
		return ncclInvalidArgument;
	}
	return ncclSuccess;
}

/* Where the smaller buffer is in place, from the start of the larger one. */
static size_t coll_place(const struct api_coll *c)
{
	const struct plan_task *t = &c->task;

	return t->send_bytes == t->recv_bytes
		       ? 0
		       : (size_t)c->comm->rank * MIN_OF(t->send_bytes, t->recv_bytes);
}

static bool coll_in_place(const struct api_coll *c)
{
	uintptr_t send = (uintptr_t)c->task.send, recv = (uintptr_t)c->task.recv;

	return c->task.send_bytes <= c->task.recv_bytes ? send == recv + coll_place(c)
							: recv == send + coll_place(c);
}

static ncclResult_t coll_check_overlap(const struct api_coll *c)
{
	const struct plan_task *t = &c->task;
	const struct api_buffer *send = &c->row->send, *recv = &c->row->recv;
	bool send_larger = t->send_bytes > t->recv_bytes;
	uintptr_t s = (uintptr_t)t->send, r = (uintptr_t)t->recv;

	if (coll_in_place(c) || s >= r + t->recv_bytes || r >= s + t->send_bytes)
		return ncclSuccess;
	WARN("%s: %s %p of %zu bytes and %s %p of %zu bytes overlap, expected no overlap, or %s at "
	     "%s + %zu bytes (in place)",
	     t->call, send->name, t->send, t->send_bytes, recv->name, t->recv, t->recv_bytes,
	     send_larger ? recv->name : send->name, send_larger ? send->name : recv->name,
	     coll_place(c));
	return ncclInvalidArgument;
}

ncclResult_t api_coll_check_buffers(const struct api_coll *c)
{
	const struct plan_task *t = &c->task;
	ncclResult_t rc = ncclSuccess;

	if (t->send_bytes)
		rc = coll_check_pointer(c, &c->row->send, t->send);
	if (!rc && t->recv_bytes)
		rc = coll_check_pointer(c, &c->row->recv, t->recv);
	if (!rc && t->send_bytes && t->recv_bytes)
		rc = coll_check_overlap(c);
	if (!rc && t->send_bytes)
		rc = api_check_memory(t->call, c->row->send.name, t->send, c->comm->cuda_dev);
	if (!rc && t->recv_bytes && t->recv != t->send)
		rc = api_check_memory(t->call, c->row->recv.name, t->recv, c->comm->cuda_dev);
	return rc;
}

/* ---- the stream ----------------------------------------------------------------------------- */

/* A captured launch would run again without its proxy operations, and its order with launches outside
 * the graph would be lost. Querying is all that a capture allows, so the capture goes on unharmed. */
ncclResult_t api_coll_check_stream(const struct api_coll *c)
{
	enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
	cudaError_t e = cudaStreamIsCapturing(c->task.stream, &status);

	if (e == cudaErrorStreamCaptureImplicit) {
		(void)cudaGetLastError();
		WARN("%s: stream is the legacy default stream, which cannot be used while a "
		     "blocking stream captures a CUDA graph",
		     c->task.call);
		return ncclInvalidUsage;
	}
	if (e != cudaSuccess) {
		WARN("%s: cudaStreamIsCapturing: %s", c->task.call, cudaGetErrorString(e));
		return ncclUnhandledCudaError;
	}
	if (status == cudaStreamCaptureStatusNone)
		return ncclSuccess;
	WARN("%s: stream captures a CUDA graph, expected one that does not: collectives cannot be "
	     "captured",
	     c->task.call);
	return ncclInvalidUsage;
}
