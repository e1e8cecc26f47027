/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that a program creates: pre-multiplied sums (core/comm/redops.h). */
#include <string.h>

#include "core/api/collective.h"
#include "core/base/log.h"
#include "core/base/type_name.h"
#include "core/comm/redops.h"
#include "core/device/layout/steps.h"

static const char redop_create[] = "ncclRedOpCreatePreMulSum";

static ncclResult_t redop_check(const ncclRedOp_t *op, const void *scalar, ncclDataType_t type,
				ncclScalarResidence_t residence)
{
	if (!op)
		WARN("%s: op is NULL, expected the address of an ncclRedOp_t", redop_create);
	else if (!scalar)
		WARN("%s: scalar is NULL, expected the address of a factor", redop_create);
	else if ((unsigned)type >= ncclNumTypes)
		WARN("%s: datatype is %d, expected 0 to %d", redop_create, (int)type,
		     ncclNumTypes - 1);
	else if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
		WARN("%s: residence is %d, expected %d (ncclScalarDevice) or %d "
		     "(ncclScalarHostImmediate)",
		     redop_create, (int)residence, ncclScalarDevice, ncclScalarHostImmediate);
	else
		return ncclSuccess;
	return ncclInvalidArgument;
}

/* Describes a factor that the GPU reads when a collective runs. */
static ncclResult_t redop_in_memory(const struct ncclComm *comm, const void *scalar,
				    struct comm_op *op)
{
	uint32_t align = steps_type_bytes((int)op->type);

	ASSERT(align <= sizeof op->factor);
	if ((uintptr_t)scalar % align) {
		WARN("%s: scalar %p is not aligned to its type, %s, of %u bytes", redop_create,
		     scalar, plan_type_name(op->type), align);
		return ncclInvalidArgument;
	}
	op->in_memory = true;
	op->factor = (uint64_t)(uintptr_t)scalar;
	return api_check_memory(comm, redop_create, "scalar", scalar);
}

/* Reads a factor now. */
static ncclResult_t redop_immediate(const void *scalar, struct comm_op *op)
{
	struct cudaPointerAttributes a = {.type = cudaMemoryTypeUnregistered};
	cudaError_t e = cudaPointerGetAttributes(&a, scalar);

	if (e != cudaSuccess)
		(void)cudaGetLastError();
	if (e != cudaSuccess && e != cudaErrorInvalidValue) { /* not: no memory of CUDA */
		WARN("%s: scalar %p: %s", redop_create, scalar, cudaGetErrorString(e));
		return ncclUnhandledCudaError;
	}
	if (e == cudaSuccess && a.type == cudaMemoryTypeDevice) {
		WARN("%s: scalar %p is memory of device %d, expected host memory, which residence "
		     "ncclScalarHostImmediate means",
		     redop_create, scalar, a.device);
		return ncclInvalidArgument;
	}
	memcpy(&op->factor, scalar, steps_type_bytes((int)op->type));
	return ncclSuccess;
}

static ncclResult_t redop_make(struct ncclComm *comm, const void *scalar,
			       ncclScalarResidence_t residence, struct comm_op *op,
			       ncclRedOp_t *number)
{
	ncclResult_t rc = residence == ncclScalarDevice ? redop_in_memory(comm, scalar, op)
							: redop_immediate(scalar, op);

	if (!rc)
		rc = comm_op_make(comm, redop_create, op, number);
	ASSERT(rc || (int)*number >= ncclNumOps); /* as coll_check_op expects */
	return rc;
}

API_TWIN(ncclRedOpCreatePreMulSum);
API_WEAK ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar,
					       ncclDataType_t datatype,
					       ncclScalarResidence_t residence, ncclComm_t comm)
{
	struct comm_op made = {.type = datatype};
	ncclResult_t rc = redop_check(op, scalar, datatype, residence);

	INFO(LOG_CALL, "%s: datatype %s comm %p", redop_create, type_name_any((int)datatype),
	     (const void *)comm);
	if (!rc)
		rc = comm_enter(comm, redop_create, COMM_NEED_READY);
	if (rc)
		return api_return(rc);
	rc = redop_make(comm, scalar, residence, &made, op);
	comm_leave(comm);
	return api_return(rc);
}

static ncclResult_t redop_destroy(const struct ncclComm *comm, const char *call, ncclRedOp_t number)
{
	struct comm_op *op = comm_op_find(comm, call, number);

	if (!op)
		return ncclInvalidArgument;
	comm_op_destroy(op);
	return ncclSuccess;
}

API_TWIN(ncclRedOpDestroy);
API_WEAK ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
	static const char call[] = "ncclRedOpDestroy";
	ncclResult_t rc;

	INFO(LOG_CALL, "%s: op %d comm %p", call, (int)op, (const void *)comm);
	if ((int)op < ncclNumOps) {
		WARN("%s: op is %d, expected one from ncclRedOpCreatePreMulSum", call, (int)op);
		return api_return(ncclInvalidArgument);
	}
	rc = comm_enter(comm, call, COMM_NEED_ANY);
	if (rc)
		return api_return(rc);
	rc = redop_destroy(comm, call, op);
	comm_leave(comm);
	return api_return(rc);
}
