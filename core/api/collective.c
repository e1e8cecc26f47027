/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives: check, agree, enqueue; launch at once, or at the end of the group.
 */
#include <stdint.h>
#include <stdio.h>

#include "core/api/api.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/plan/plan.h"

/* A collective as the program called it. */
struct api_coll {
	const char *call; /* "ncclAllReduce" */
	const char *name; /* "all_reduce" */
	struct ncclComm *comm;
	struct plan_task task;
	size_t bytes;       /* of a buffer */
	const void *caller; /* where the program called it */
};

static const struct {
	const char *name;
	size_t bytes;
} api_types[ncclNumTypes] = {
	[ncclInt8] = {"int8", 1},         [ncclUint8] = {"uint8", 1},
	[ncclInt32] = {"int32", 4},       [ncclUint32] = {"uint32", 4},
	[ncclInt64] = {"int64", 8},       [ncclUint64] = {"uint64", 8},
	[ncclFloat16] = {"half", 2},      [ncclFloat32] = {"float", 4},
	[ncclFloat64] = {"double", 8},    [ncclBfloat16] = {"bfloat16", 2},
	[ncclFloat8e4m3] = {"f8e4m3", 1}, [ncclFloat8e5m2] = {"f8e5m2", 1},
};

static const char *const api_ops[ncclNumOps] = {"sum", "prod", "max", "min", "avg"};

/* ---- arguments ------------------------------------------------------------------------------ */

static ncclResult_t coll_values_check(struct api_coll *c)
{
	const struct plan_task *t = &c->task;
	if ((unsigned)t->type >= ncclNumTypes) {
		WARN("%s: datatype is %d, expected 0 to %d", c->call, (int)t->type,
		     ncclNumTypes - 1);
		return ncclInvalidArgument;
	}
	if ((unsigned)t->op >= ncclNumOps) {
		WARN("%s: op is %d, expected 0 to %d", c->call, (int)t->op, ncclNumOps - 1);
		return ncclInvalidArgument;
	}
	if (t->count > (size_t)PTRDIFF_MAX / api_types[t->type].bytes) {
		WARN("%s: count is %zu, more than memory can hold of %s", c->call, t->count,
		     api_types[t->type].name);
		return ncclInvalidArgument;
	}
	c->bytes = t->count * api_types[t->type].bytes;
	return ncclSuccess;
}

static ncclResult_t coll_pointer_check(const struct api_coll *c, const void *p, const char *name)
{
	struct cudaPointerAttributes a;
	cudaError_t e = cudaPointerGetAttributes(&a, p);

	if (e != cudaSuccess) {
		(void)cudaGetLastError();
		WARN("%s: %s %p: %s", c->call, name, p, cudaGetErrorString(e));
		return ncclInvalidArgument;
	}
	if (a.type == cudaMemoryTypeUnregistered || !a.devicePointer) {
		WARN("%s: %s %p is host memory, expected memory of device %d", c->call, name, p,
		     c->comm->cuda_dev);
		return ncclInvalidArgument;
	}
	if (a.type == cudaMemoryTypeDevice && a.device != c->comm->cuda_dev) {
		WARN("%s: %s %p is memory of device %d, the communicator's is %d", c->call, name, p,
		     a.device, c->comm->cuda_dev);
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
		WARN("%s: %s is NULL", c->call, send ? "recvbuff" : "sendbuff");
		return ncclInvalidArgument;
	}
	if ((send | recv) % api_types[c->task.type].bytes) {
		WARN("%s: %s is not aligned to its type, %s", c->call,
		     send % api_types[c->task.type].bytes ? "sendbuff" : "recvbuff",
		     api_types[c->task.type].name);
		return ncclInvalidArgument;
	}
	if (send != recv && send < recv + c->bytes && recv < send + c->bytes) {
		WARN("%s: sendbuff and recvbuff overlap without being the same", c->call);
		return ncclInvalidArgument;
	}
	if (!coll_checks_pointers())
		return ncclSuccess;
	ncclResult_t rc = coll_pointer_check(c, c->task.send, "sendbuff");
	return rc || send == recv ? rc : coll_pointer_check(c, c->task.recv, "recvbuff");
}

/* ---- agreement ------------------------------------------------------------------------------ */

/* In a world that can tell, ranks that call different things are named here, before they hang. */
static ncclResult_t coll_agree(const struct api_coll *c)
{
	const struct ncclComm *comm = c->comm;
	struct os_agree_other other;
	char text[sizeof other.text];

	snprintf(text, sizeof text, "%s count=%zu type=%s op=%s", c->name, c->task.count,
		 api_types[c->task.type].name, api_ops[c->task.op]);
	if (os_agree(comm->id_hash, comm->op_count, comm->rank, text, c->caller, &other) == 0)
		return ncclSuccess;
	WARN("%s: ranks %d and %d disagree on operation %llu: rank %d called %s at %s, rank %d "
	     "called %s at %s",
	     c->call, comm->rank, other.rank, (unsigned long long)comm->op_count, comm->rank, text,
	     other.here, other.rank, other.text, other.where);
	return ncclInvalidUsage;
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
	if (!rc)
		rc = coll_agree(c);
	if (rc)
		return rc;
	c->task.op_count = c->comm->op_count++;
	if (c->task.count == 0)
		return ncclSuccess;
	if (g)
		rc = api_group_add_comm(g, c->comm);
	if (!rc)
		rc = plan_enqueue(c->comm, &c->task);
	if (rc || g)
		return rc;
	return coll_launch_now(c->comm);
}

static ncclResult_t coll_call(struct api_coll *c)
{
	ncclResult_t rc = comm_enter(c->comm, c->call, COMM_NEED_READY);
	if (rc)
		return api_return(rc);
	INFO(LOG_COLL, "%s: opCount %llx count %zu datatype %d op %d rank %d", c->call,
	     (unsigned long long)c->comm->op_count, c->task.count, (int)c->task.type,
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
		.call = "ncclAllReduce",
		.name = "all_reduce",
		.comm = comm,
		.caller = __builtin_return_address(0),
		.task =
			{
				.func = DEV_ALL_REDUCE,
				.send = sendbuff,
				.recv = recvbuff,
				.count = count,
				.type = datatype,
				.op = op,
				.stream = stream,
			},
	};
	return coll_call(&c);
}
