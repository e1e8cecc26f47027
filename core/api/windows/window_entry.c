/* SPDX-License-Identifier: BSD-3-Clause */
/* The entry points for windows (core/transport/windows.h). */
#include "core/api/api.h"
#include "core/base/log.h"
#include "core/include/nccl_device.h"
#include "core/plan/plan.h"
#include "core/rank/cuda_result.h"

#define WINDOW_REGISTER "ncclCommWindowRegister"

/* Checks what does not depend on other ranks. */
static ncclResult_t window_arguments(const struct ncclComm *comm, void *buff, size_t size,
				     const ncclWindow_t *win, int flags)
{
	const int known = NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING | NCCL_WIN_GIN_ONLY |
			  NCCL_WIN_CFT_COUNTED;

	if (!win) {
		WARN(WINDOW_REGISTER ": win is NULL, expected the address of an ncclWindow_t");
		return ncclInvalidArgument;
	}
	if (flags & ~known) {
		WARN(WINDOW_REGISTER
		     ": winFlags is %#x with the unknown bits %#x, expected bits of "
		     "%#x",
		     (unsigned)flags, (unsigned)(flags & ~known), (unsigned)known);
		return ncclInvalidArgument;
	}
	if (flags & ~NCCL_WIN_COLL_SYMMETRIC)
		INFO(LOG_REG,
		     WINDOW_REGISTER ": rank %d: bits %#x of winFlags have no effect: there are no "
				     "one-sided operations and no counted writes",
		     comm->rank, (unsigned)(flags & ~NCCL_WIN_COLL_SYMMETRIC));
	return api_check_range(comm, WINDOW_REGISTER, buff, size);
}

API_TWIN(ncclCommWindowRegister);
API_WEAK ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size,
					     ncclWindow_t *win, int winFlags)
{
	struct window_call call = {.name = WINDOW_REGISTER,
				   .buffer = buff,
				   .bytes = size,
				   .flags = winFlags,
				   .next_message = plan_message_next};
	ncclResult_t rc;

	if (win)
		*win = NULL;
	INFO(LOG_CALL, WINDOW_REGISTER ": comm %p buff %p size %zu flags %#x", (const void *)comm,
	     buff, size, (unsigned)winFlags);
	rc = comm_enter(comm, WINDOW_REGISTER, COMM_NEED_READY);
	if (rc)
		return api_return(rc);
	call.refused = window_arguments(comm, buff, size, win, winFlags);
	rc = api_window_call(comm, &call, win, NULL);
	comm_leave(comm);
	return api_return(call.refused ? call.refused : rc);
}

static ncclResult_t window_end(struct ncclComm *comm, ncclWindow_t win)
{
	void *buffer;
	size_t bytes;
	ncclResult_t rc =
		transport_window_buffer(comm, "ncclCommWindowDeregister", win, &buffer, &bytes);

	if (rc)
		return rc;
	if (plan_queue_uses(comm, buffer, bytes)) {
		WARN("ncclCommWindowDeregister: rank %d: a call of the open group uses window %p, "
		     "expected ncclGroupEnd before",
		     comm->rank, (void *)win);
		return ncclInvalidUsage;
	}
	/* Memory that the program has freed may be released now. */
	rc = cuda_result(cudaSetDevice(comm->cuda_dev),
			 "cudaSetDevice in ncclCommWindowDeregister");
	return rc ? rc : transport_window_deregister(comm, win);
}

API_TWIN(ncclCommWindowDeregister);
API_WEAK ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win)
{
	ncclResult_t rc = comm_enter(comm, "ncclCommWindowDeregister", COMM_NEED_INIT);
	int device;

	INFO(LOG_CALL, "ncclCommWindowDeregister: comm %p win %p", (const void *)comm,
	     (const void *)win);
	if (rc)
		return api_return(rc);
	if (win) { /* NULL: there was no window */
		device = comm_device_save();
		rc = window_end(comm, win);
		comm_device_restore(device);
	}
	comm_leave(comm);
	return api_return(rc);
}

/* ---- queries --------------------------------------------------------------------------------- */

API_TWIN(ncclWinGetUserPtr);
API_WEAK ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **outUserPtr)
{
	size_t bytes;
	ncclResult_t rc;

	if (!outUserPtr) {
		WARN("ncclWinGetUserPtr: outUserPtr is NULL");
		return api_return(ncclInvalidArgument);
	}
	*outUserPtr = NULL;
	rc = comm_enter(comm, "ncclWinGetUserPtr", COMM_NEED_INIT);
	if (rc)
		return api_return(rc);
	if (win || transport_windows_are_possible(comm))
		rc = transport_window_buffer(comm, "ncclWinGetUserPtr", win, outUserPtr, &bytes);
	comm_leave(comm);
	return api_return(rc);
}

static ncclResult_t window_address(const char *call, const struct window_place *place, void **out)
{
	if (!out) {
		WARN("%s: outPtr is NULL", call);
		return api_return(ncclInvalidArgument);
	}
	return api_return(transport_window_address(call, place, out));
}

API_TWIN(ncclGetLsaDevicePointer);
API_WEAK ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsaRank,
					      void **outPtr)
{
	const struct window_place place = {window, offset, lsaRank, true};

	return window_address("ncclGetLsaDevicePointer", &place, outPtr);
}

API_TWIN(ncclGetPeerDevicePointer);
API_WEAK ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer,
					       void **outPtr)
{
	const struct window_place place = {window, offset, peer, false};

	return window_address("ncclGetPeerDevicePointer", &place, outPtr);
}
