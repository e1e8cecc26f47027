/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered buffers (core/transport/registered.h) and windows (core/transport/windows.h). Ranks
 * wait for each other to register windows. The task that does it:
 *
 *	blocking, no group	the calling task
 *	blocking, in a group	a task for each communicator, at the end of the group
 *	non-blocking		a separate task, at the end of the group if there is one; the
 *				communicator is in progress until it ends
 *
 * If a group also launches, suspends or resumes, it waits for windows of non-blocking communicators
 * too.
 */
#include <stdio.h>
#include <string.h>

#include "core/api/api.h"
#include "core/base/log.h"
#include "core/include/nccl_device.h"
#include "core/plan/plan.h"
#include "core/rank/cuda_result.h"
#include "core/transport/registered.h"

static ncclResult_t register_check(const struct ncclComm *comm, const char *call, const void *buff,
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
	rc = register_check(comm, "ncclCommRegister", buff, size);
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

/* ---- windows: the tasks that register them --------------------------------------------------- */

#define WINDOW_REGISTER "ncclCommWindowRegister"

static void window_calls_free(struct api_window *list)
{
	struct api_window *next;

	for (; list; list = next) {
		next = list->next;
		os_free(list);
	}
}

/* Undoes the windows before `end`. */
static void window_calls_undo(struct ncclComm *comm, const struct api_window *first,
			      const struct api_window *end)
{
	for (const struct api_window *w = first; w != end; w = w->next) {
		if (*w->out)
			(void)transport_window_deregister(comm, *w->out);
		*w->out = NULL;
	}
}

/* Registers all windows, or none. All ranks find the same error, unless it is the
 * communicator's. */
static ncclResult_t windows_register(const struct api_windows *l)
{
	enum cudaStreamCaptureMode mode = cuda_capture_mode(cudaStreamCaptureModeRelaxed);
	const struct api_window *w = l->first;
	ncclResult_t rc =
		cuda_result(cudaSetDevice(l->comm->cuda_dev), "cudaSetDevice to register a window");

	if (rc)
		rank_set_async_error(l->comm, rc);
	while (w && !rc) {
		rc = transport_window_register(l->comm, &w->call, w->out);
		w = rc ? w : w->next;
	}
	if (rc)
		window_calls_undo(l->comm, l->first, w);
	(void)cuda_capture_mode(mode);
	return rc;
}

static void windows_task(void *arg)
{
	struct api_windows *l = arg;

	l->result = comm_enter(l->comm, WINDOW_REGISTER, COMM_NEED_READY);
	if (l->result)
		return;
	l->result = windows_register(l);
	comm_leave(l->comm);
}

/* Ends calls that have not begun. Ranks that wait for this one get an error. */
static void windows_withdraw(struct ncclComm *comm)
{
	if (comm_enter(comm, NULL, COMM_NEED_ANY))
		return;
	INFO(LOG_INIT,
	     WINDOW_REGISTER ": rank %d: the call failed while other ranks may wait for it",
	     comm->rank);
	rank_set_async_error(comm, ncclInternalError);
	comm_leave(comm);
}

static void windows_start(struct api_windows *l)
{
	int e = os_task_start(&l->task, l->rank, "window", windows_task, l);

	if (!e)
		return;
	WARN(WINDOW_REGISTER ": rank %d: its task cannot be started: %s", l->rank, strerror(e));
	windows_withdraw(l->comm);
	l->result = ncclSystemError;
}

/* The program has learned of its own wrong arguments. */
static ncclResult_t windows_background(struct api_background *b)
{
	struct api_windows *l = (struct api_windows *)b;
	ncclResult_t refused = l->first->call.refused, rc = windows_register(l);

	window_calls_free(l->first);
	return rc == refused ? ncclSuccess : rc;
}

static void windows_drop(struct api_background *b)
{
	window_calls_free(((struct api_windows *)b)->first);
}

/* For a non-blocking communicator, which is entered. Frees the list, or its task does. */
static ncclResult_t windows_start_background(struct api_windows *l)
{
	struct api_window *first = l->first;
	ncclResult_t rc;

	l->background = (struct api_background){.comm = l->comm,
						.call = WINDOW_REGISTER,
						.need = COMM_NEED_READY,
						.run = windows_background,
						.drop = windows_drop};
	rc = api_background_start(&l->background, "window");
	if (rc != ncclInProgress)
		window_calls_free(first);
	return rc;
}

static ncclResult_t windows_end_background(struct api_windows *l)
{
	struct ncclComm *comm = l->comm;
	ncclResult_t rc = comm_enter(comm, WINDOW_REGISTER, COMM_NEED_READY);

	if (rc) {
		window_calls_free(l->first);
		os_free(l);
		return rc;
	}
	rc = windows_start_background(l);
	comm_leave(comm);
	return rc;
}

/* Starts the tasks of non-blocking communicators, and removes them from the list. ncclInProgress:
 * at least one runs. */
static ncclResult_t windows_start_nonblocking(struct api_windows **list)
{
	ncclResult_t rc = ncclSuccess;

	while (*list) {
		struct api_windows *l = *list;
		ncclResult_t one;

		if (l->blocking) {
			list = &l->next;
			continue;
		}
		*list = l->next;
		one = windows_end_background(l);
		if (!rc || rc == ncclInProgress)
			rc = one ? one : rc;
	}
	return rc;
}

static void windows_free(struct api_windows *list)
{
	struct api_windows *next;

	for (; list; list = next) {
		next = list->next;
		window_calls_free(list->first);
		os_free(list);
	}
}

ncclResult_t api_windows_run(struct api_windows *list, bool waits)
{
	ncclResult_t started = waits ? ncclSuccess : windows_start_nonblocking(&list);
	ncclResult_t rc = started == ncclInProgress ? ncclSuccess : started;

	if (list && !list->next)
		windows_task(list);
	else
		for (struct api_windows *l = list; l; l = l->next)
			windows_start(l);
	for (struct api_windows *l = list; l; l = l->next) {
		if (l->task)
			os_thread_join(l->task);
		rc = rc ? rc : l->result;
	}
	windows_free(list);
	return rc ? rc : started;
}

void api_windows_discard(struct api_windows *list)
{
	for (const struct api_windows *l = list; l; l = l->next)
		windows_withdraw(l->comm);
	windows_free(list);
}

/* ---- windows: the calls ---------------------------------------------------------------------- */

/* Returns the communicator's windows in the list, which gets an entry if it has none; NULL: no
 * memory. */
static struct api_windows *windows_of(struct api_windows **list, struct ncclComm *comm)
{
	struct api_windows *l = *list;

	while (l && l->comm != comm)
		l = l->next;
	if (l)
		return l;
	l = os_alloc(sizeof *l, "windows of a communicator");
	if (!l)
		return NULL;
	l->comm = comm;
	l->rank = comm->rank;
	l->blocking = comm->config.blocking != 0;
	l->next = *list;
	*list = l;
	return l;
}

/* Adds a call to the list. */
static ncclResult_t window_add_call(struct api_windows **list, struct ncclComm *comm,
				    const struct window_call *call, ncclWindow_t *win)
{
	struct api_window *w = os_alloc(sizeof *w, "window to register");
	struct api_windows *l = w ? windows_of(list, comm) : NULL;
	struct api_window **at;

	if (!l) {
		WARN(WINDOW_REGISTER ": rank %d: no memory", comm->rank);
		os_free(w);
		rank_set_async_error(comm, ncclSystemError);
		return ncclSystemError;
	}
	w->call = *call;
	w->out = win ? win : &w->none;
	for (at = &l->first; *at;)
		at = &(*at)->next;
	*at = w;
	return ncclSuccess;
}

static ncclResult_t window_run_now(struct ncclComm *comm, const struct window_call *call,
				   ncclWindow_t *win)
{
	struct api_windows *list = NULL;
	ncclResult_t rc = window_add_call(&list, comm, call, win);
	int device;

	if (rc)
		return rc;
	if (!list->blocking)
		return windows_start_background(list);
	device = comm_device_save();
	rc = windows_register(list);
	comm_device_restore(device);
	windows_free(list);
	return rc;
}

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
	return register_check(comm, WINDOW_REGISTER, buff, size);
}

API_TWIN(ncclCommWindowRegister);
API_WEAK ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size,
					     ncclWindow_t *win, int winFlags)
{
	struct window_call call = {.buffer = buff,
				   .bytes = size,
				   .flags = winFlags,
				   .next_message = plan_message_next};
	struct api_group *g = api_group();
	ncclResult_t rc;

	if (win)
		*win = NULL;
	INFO(LOG_CALL, WINDOW_REGISTER ": comm %p buff %p size %zu flags %#x", (const void *)comm,
	     buff, size, (unsigned)winFlags);
	rc = comm_enter(comm, WINDOW_REGISTER, COMM_NEED_READY);
	if (rc)
		return api_return(rc);
	call.refused = window_arguments(comm, buff, size, win, winFlags);
	if (!g)
		rc = window_run_now(comm, &call, win);
	else if (call.refused) /* the error ends the group, before any message */
		windows_withdraw(comm);
	else
		rc = window_add_call(&g->windows, comm, &call, win);
	comm_leave(comm);
	return api_return(call.refused ? call.refused : rc);
}

static ncclResult_t window_end(struct ncclComm *comm, ncclWindow_t win)
{
	void *buffer;
	ncclResult_t rc = transport_window_buffer(comm, "ncclCommWindowDeregister", win, &buffer);

	if (rc)
		return rc;
	if (plan_queue_uses(comm, win)) {
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

/* ---- windows: queries ------------------------------------------------------------------------ */

API_TWIN(ncclWinGetUserPtr);
API_WEAK ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **outUserPtr)
{
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
		rc = transport_window_buffer(comm, "ncclWinGetUserPtr", win, outUserPtr);
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
