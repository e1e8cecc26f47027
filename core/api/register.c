/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered buffers (core/transport/registered.h). */
#include "core/api/api.h"
#include "core/base/log.h"
#include "core/rank/cuda_result.h"
#include "core/transport/registered.h"

ncclResult_t api_check_range(const struct ncclComm *comm, const char *call, const void *buff,
			     size_t size)
{
	ncclResult_t rc;

	if (!buff || !size || (uintptr_t)buff + size < (uintptr_t)buff) {
		WARN("%s: buff is %p and size is %zu, expected a buffer of one byte or more", call,
		     buff, size);
		return ncclInvalidArgument;
	}
	rc = api_check_memory(comm, call, "buff", buff);
	return rc ? rc
		  : api_check_memory(comm, call, "the last byte of buff",
				     (const char *)buff + size - 1);
}

API_TWIN(ncclCommRegister);
API_WEAK ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buff, size_t size,
				       void **handle)
{
	ncclResult_t rc;

	if (!handle) {
		WARN("ncclCommRegister: handle is NULL");
		return api_return(ncclInvalidArgument);
	}
	*handle = NULL;
	INFO(LOG_CALL, "ncclCommRegister: comm %p buff %p size %zu", (const void *)comm, buff,
	     size);
	rc = comm_enter(comm, "ncclCommRegister", COMM_NEED_READY);
	if (rc)
		return api_return(rc);
	rc = api_check_range(comm, "ncclCommRegister", buff, size);
	if (!rc)
		rc = transport_register(comm, buff, size, handle);
	comm_leave(comm);
	return api_return(rc);
}

API_TWIN(ncclCommDeregister);
API_WEAK ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
	ncclResult_t rc = comm_enter(comm, "ncclCommDeregister", COMM_NEED_INIT);
	int device;

	INFO(LOG_CALL, "ncclCommDeregister: comm %p handle %p", (const void *)comm, handle);
	if (rc)
		return api_return(rc);
	if (!handle) { /* ncclCommRegister returned it without registering */
		comm_leave(comm);
		return ncclSuccess;
	}
	device = comm_device_save();
	/* Memory that the program has freed may be released now. */
	rc = cuda_result(cudaSetDevice(comm->cuda_dev), "cudaSetDevice in ncclCommDeregister");
	if (!rc)
		rc = transport_deregister(comm, handle);
	comm_device_restore(device);
	comm_leave(comm);
	return api_return(rc);
}
