/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries of a program, and memory for it. */
#include "core/api/api.h"
#include "core/base/log.h"
#include "core/mem/user_memory.h"

API_TWIN(ncclGetVersion);
API_WEAK ncclResult_t ncclGetVersion(int *version)
{
	if (!version) {
		WARN("ncclGetVersion: version is NULL");
		return api_return(ncclInvalidArgument);
	}
	*version = NCCL_VERSION_CODE;
	return ncclSuccess;
}

API_TWIN(ncclGetErrorString);
API_WEAK const char *ncclGetErrorString(ncclResult_t result)
{
	switch (result) {
	case ncclSuccess:
		return "no error";
	case ncclUnhandledCudaError:
		return "a CUDA call failed (NCCL_DEBUG=WARN logs which)";
	case ncclSystemError:
		return "an operating-system call failed (NCCL_DEBUG=WARN logs which)";
	case ncclInternalError:
		return "internal error, or the call was aborted (NCCL_DEBUG=WARN logs more)";
	case ncclInvalidArgument:
		return "invalid argument (NCCL_DEBUG=WARN logs which)";
	case ncclInvalidUsage:
		return "invalid usage (NCCL_DEBUG=WARN logs why)";
	case ncclRemoteError:
		return "another rank failed, or the network on the way to it";
	case ncclInProgress:
		return "in progress";
	case ncclTimeout:
		return "the GPU waited for another rank longer than allowed";
	case ncclNumResults:
		break;
	}
	return "unknown result code";
}

API_TWIN(ncclGetLastError);
API_WEAK const char *ncclGetLastError(ncclComm_t comm)
{
	const char *cause = NULL;

	if (comm && !comm_enter(comm, NULL, COMM_NEED_ANY)) {
		if (shared_load_u32(&comm->async_error, SHARED_ACQUIRE))
			cause = rank_cause_again(comm);
		comm_leave(comm);
	}
	return cause ? cause : log_last_error();
}

API_TWIN(ncclCommGetAsyncError);
API_WEAK ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError)
{
	ncclResult_t rc, error;
	bool launching;
	if (!asyncError) {
		WARN("ncclCommGetAsyncError: asyncError is NULL");
		return api_return(ncclInvalidArgument);
	}
	rc = comm_enter(comm, "ncclCommGetAsyncError", COMM_NEED_ANY);
	if (rc)
		return api_return(rc);
	if (comm_in_init(comm))
		comm_child_look(comm);
	/* Must be read first: a launch that fails sets the error before it ends. */
	launching = comm_is_launching(comm);
	/* The end of other ranks is no error of a communicator that is finalized. */
	error = comm_finalizes(comm) && comm_progress(comm) == ncclSuccess ? ncclSuccess
									   : comm_async_error(comm);
	if (error == ncclSuccess)
		error = launching ? ncclInProgress : comm_progress(comm);
	if (error != ncclSuccess && error != ncclInProgress)
		shared_store_u32(&comm->error_given, 1, SHARED_RELAXED);
	comm_leave(comm);
	*asyncError = error;
	/* Callers poll this until something happens. Only virtual time waits for it. */
	if (error == ncclSuccess || error == ncclInProgress)
		os_poll_miss("ncclCommGetAsyncError");
	else
		os_poll_hit();
	return ncclSuccess;
}

DOPPEL_STATIC_CHECK(sizeof((struct ncclComm){0}.rank) == sizeof(int32_t) &&
			    sizeof((struct ncclComm){0}.nranks) == sizeof(int32_t) &&
			    sizeof((struct ncclComm){0}.cuda_dev) == sizeof(int32_t),
		    "query_int reads fields of 32 bits");

static ncclResult_t query_int(const struct ncclComm *comm, const char *call, int *out,
			      size_t offset)
{
	ncclResult_t rc;
	if (!out) {
		WARN("%s: the pointer for the result is NULL", call);
		return api_return(ncclInvalidArgument);
	}
	rc = comm_enter((struct ncclComm *)comm, call, COMM_NEED_INIT);
	if (rc)
		return api_return(rc);
	*out = *(const int32_t *)((const char *)comm + offset);
	comm_leave((struct ncclComm *)comm);
	return ncclSuccess;
}

API_TWIN(ncclCommCount);
API_WEAK ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
	return query_int(comm, "ncclCommCount", count, offsetof(struct ncclComm, nranks));
}

API_TWIN(ncclCommCuDevice);
API_WEAK ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
	return query_int(comm, "ncclCommCuDevice", device, offsetof(struct ncclComm, cuda_dev));
}

API_TWIN(ncclCommUserRank);
API_WEAK ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
	return query_int(comm, "ncclCommUserRank", rank, offsetof(struct ncclComm, rank));
}

/* ---- memory --------------------------------------------------------------------------------- */

API_TWIN(ncclMemAlloc);
API_WEAK ncclResult_t ncclMemAlloc(void **ptr, size_t size)
{
	void *mem = NULL;
	if (!ptr) {
		WARN("ncclMemAlloc: ptr is NULL");
		return api_return(ncclInvalidArgument);
	}
	/* size 0: no memory and no error, as cudaMalloc */
	ncclResult_t rc = size ? user_memory_alloc(&mem, size) : ncclSuccess;
	if (rc)
		return api_return(rc);
	*ptr = mem;
	INFO(LOG_CALL, "ncclMemAlloc: size %zu ptr %p", size, mem);
	return ncclSuccess;
}

API_TWIN(ncclMemFree);
API_WEAK ncclResult_t ncclMemFree(void *ptr)
{
	INFO(LOG_CALL, "ncclMemFree: ptr %p", ptr);
	return api_return(user_memory_free(ptr));
}
