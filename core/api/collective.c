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

/* ---- to the plan ---------------------------------------------------------------------------- */

static ncclResult_t coll_launch_now(struct ncclComm *comm)
{
	int before = -1;
	cudaError_t e = cudaGetDevice(&before);
	if (e == cudaSuccess && before != comm->cuda_dev)
		e = cudaSetDevice(comm->cuda_dev);
	if (e != cudaSuccess) {
		WARN("cudaSetDevice(%d): %s", comm->cuda_dev, cudaGetErrorString(e));
		plan_discard(comm);
		return ncclUnhandledCudaError;
	}
	ncclResult_t rc = plan_launch(comm);
	if (rc)
		plan_discard(comm);
	if (before != comm->cuda_dev)
		(void)cudaSetDevice(before);
	return rc;
}

static ncclResult_t coll_submit(struct api_coll *c)
{
	struct api_group *g = api_group();
	ncclResult_t rc = coll_values_check(c);

	if (!rc)
		rc = coll_buffers_check(c);
	if (!rc && g)
		rc = api_group_add_comm(g, c->comm);
	if (!rc)
		rc = plan_enqueue(c->comm, &c->task);
	if (rc || g)
		return rc;
	return coll_launch_now(c->comm);
}

static ncclResult_t coll_call(struct api_coll *c)
{
	ncclResult_t rc = comm_enter(c->comm, c->task.call, COMM_NEED_READY);
	if (rc)
		return api_return(rc);
	INFO(LOG_COLL, "%s: opCount %llx count %zu datatype %d op %d rank %d", c->task.call,
	     (unsigned long long)plan_next_op(c->comm), c->task.count, (int)c->task.type,
	     (int)c->task.op, c->comm->rank);
	rc = coll_submit(c);
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
