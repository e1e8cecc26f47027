/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives: check, enqueue; launch at once, or at the end of the group.
 */
#include <stdint.h>

#include "core/api/api.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/device/steps.h"
#include "core/plan/plan.h"

/* A collective as the program called it. */
struct api_coll {
	struct ncclComm *comm;
	struct plan_task task;
	size_t bytes; /* of a buffer */
};

/* ---- arguments ------------------------------------------------------------------------------ */

static ncclResult_t coll_values_check(struct api_coll *c)
{
	const struct plan_task *t = &c->task;
	if ((unsigned)t->type >= ncclNumTypes) {
		WARN("%s: datatype is %d, expected 0 to %d", c->task.call, (int)t->type,
		     ncclNumTypes - 1);
		return ncclInvalidArgument;
	}
	if ((unsigned)t->op >= ncclNumOps) {
		WARN("%s: op is %d, expected 0 to %d", c->task.call, (int)t->op, ncclNumOps - 1);
		return ncclInvalidArgument;
	}
	if (t->count > (size_t)PTRDIFF_MAX / steps_type_bytes((int)t->type)) {
		WARN("%s: count is %zu, more than memory can hold of %s", c->task.call, t->count,
		     plan_type_name(t->type));
		return ncclInvalidArgument;
	}
	c->bytes = t->count * steps_type_bytes((int)t->type);
	return ncclSuccess;
}

static ncclResult_t coll_pointer_check(const struct api_coll *c, const void *p, const char *name)
{
	struct cudaPointerAttributes a;
	cudaError_t e = cudaPointerGetAttributes(&a, p);

	if (e != cudaSuccess) {
		(void)cudaGetLastError();
		WARN("%s: %s %p: %s", c->task.call, name, p, cudaGetErrorString(e));
		/* any other error is the GPU's trouble, not the program's */
		return e == cudaErrorInvalidValue ? ncclInvalidArgument : ncclUnhandledCudaError;
	}
	if (a.type == cudaMemoryTypeUnregistered || !a.devicePointer) {
		WARN("%s: %s %p is host memory, expected memory of device %d", c->task.call, name,
		     p, c->comm->cuda_dev);
		return ncclInvalidArgument;
	}
	if (a.type == cudaMemoryTypeDevice && a.device != c->comm->cuda_dev) {
		WARN("%s: %s %p is memory of device %d, the communicator's is %d", c->task.call,
		     name, p, a.device, c->comm->cuda_dev);
		return ncclInvalidArgument;
	}
	return ncclSuccess;
}

static bool coll_checks_pointers(void)
{
#ifdef DOPPEL_FAKECUDA
	return true;
#else
	return param_bool(PARAM_CHECK_POINTERS);
#endif
}

static ncclResult_t coll_buffers_check(const struct api_coll *c)
{
	uintptr_t send = (uintptr_t)c->task.send, recv = (uintptr_t)c->task.recv;
	if (c->task.count == 0)
		return ncclSuccess; /* nothing is touched */
	if (!send || !recv) {
		WARN("%s: %s is NULL", c->task.call, send ? "recvbuff" : "sendbuff");
		return ncclInvalidArgument;
	}
	if ((send | recv) % steps_type_bytes((int)c->task.type)) {
		WARN("%s: %s is not aligned to its type, %s", c->task.call,
		     send % steps_type_bytes((int)c->task.type) ? "sendbuff" : "recvbuff",
		     plan_type_name(c->task.type));
		return ncclInvalidArgument;
	}
	if (send != recv && send < recv + c->bytes && recv < send + c->bytes) {
		WARN("%s: sendbuff and recvbuff overlap without being the same", c->task.call);
		return ncclInvalidArgument;
	}
	if (!coll_checks_pointers())
		return ncclSuccess;
	ncclResult_t rc = coll_pointer_check(c, c->task.send, "sendbuff");
	return rc || send == recv ? rc : coll_pointer_check(c, c->task.recv, "recvbuff");
}

/* A captured launch would run again without its proxy operations, and its order with launches outside
 * the graph would be lost. Querying is all that a capture allows, so the capture goes on unharmed. */
static ncclResult_t coll_stream_check(const struct api_coll *c)
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

/* ---- to the plan ---------------------------------------------------------------------------- */

static ncclResult_t coll_launch_now(const struct api_coll *c)
{
	struct api_member alone = api_member_of(c->comm);
	int device = comm_device_save();
	ncclResult_t rc = api_launch(&alone, 1, c->task.call);

	comm_device_restore(device);
	return rc;
}

static ncclResult_t coll_submit(struct api_coll *c)
{
	struct api_group *g = api_group();
	ncclResult_t rc = coll_buffers_check(c);

	if (!rc)
		rc = coll_stream_check(c);
	if (!rc && g)
		rc = api_group_add_comm(g, c->comm);
	if (!rc)
		rc = plan_enqueue(c->comm, &c->task);
	if (rc || g)
		return rc;
	return coll_launch_now(c);
}

static ncclResult_t coll_submit_traced(struct api_coll *c)
{
	bool traced = os_tracing();
	ncclResult_t rc;

	if (traced)
		plan_trace_begin(c->comm, &c->task);
	rc = coll_submit(c);
	if (traced)
		os_trace_end(&(struct os_trace_slice){.name = c->task.call,
						      .arg = {{"result", (uint64_t)rc, NULL}}});
	return rc;
}

static ncclResult_t coll_call(struct api_coll *c)
{
	ncclResult_t rc = comm_enter(c->comm, c->task.call, COMM_NEED_READY);
	if (rc)
		return api_return(rc);
	INFO(LOG_COLL, "%s: opCount %llx count %zu datatype %d op %d rank %d", c->task.call,
	     (unsigned long long)plan_next_op(c->comm), c->task.count, (int)c->task.type,
	     (int)c->task.op, c->comm->rank);
	int32_t rank = os_work_for(c->comm->rank);
	rc = coll_values_check(c);
	if (!rc)
		rc = coll_submit_traced(c);
	(void)os_work_for(rank);
	comm_leave(c->comm);
	return api_return(rc);
}

API_TWIN(ncclAllReduce);
API_WEAK ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count,
				    ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
				    cudaStream_t stream)
{
	struct api_coll c = {
		.comm = comm,
		.task =
			{
				.call = "ncclAllReduce",
				.name = "all_reduce",
				.caller = __builtin_return_address(0),
				.func = DEV_ALL_REDUCE,
				.send = sendbuff,
				.recv = recvbuff,
				.count = count,
				.type = datatype,
				.op = op,
				.root = -1,
				.stream = stream,
			},
	};
	return coll_call(&c);
}
