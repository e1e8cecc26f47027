/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that all ranks make together: they register windows (core/transport/windows.h) and create
 * device communicators (devcomm.h). The task that does it:
 *
 *	blocking, no group	the calling task
 *	blocking, in a group	a task for each communicator, at the end of the group
 *	non-blocking		a separate task, at the end of the group if there is one; the
 *				communicator is in progress until it ends
 *
 * If a group also launches, suspends or resumes, it waits for windows of non-blocking communicators
 * too.
 */
#include <string.h>

#include "core/api/api.h"
#include "core/api/windows/devcomm.h"
#include "core/base/log.h"
#include "core/rank/cuda_result.h"

/* ---- the tasks ------------------------------------------------------------------------------- */

static void window_calls_free(struct api_window *list)
{
	struct api_window *next;

	for (; list; list = next) {
		next = list->next;
		os_free(list->devcomm);
		os_free(list);
	}
}

static ncclResult_t window_call_make(struct ncclComm *comm, const struct api_window *w)
{
	return w->devcomm ? api_devcomm_make(comm, w->devcomm, &w->call)
			  : transport_window_register(comm, &w->call, w->out);
}

/* Undoes the calls before `end`. */
static void window_calls_undo(struct ncclComm *comm, const struct api_window *first,
			      const struct api_window *end)
{
	for (const struct api_window *w = first; w != end; w = w->next) {
		if (w->devcomm)
			api_devcomm_undo(comm, w->devcomm);
		else if (*w->out)
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
		rc = window_call_make(l->comm, w);
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

	l->result = comm_enter(l->comm, l->first->call.name, COMM_NEED_READY);
	if (l->result)
		return;
	l->result = windows_register(l);
	comm_leave(l->comm);
}

/* Ends calls that have not begun. Ranks that wait for this one get an error. */
static void windows_withdraw(struct ncclComm *comm, const char *call)
{
	if (comm_enter(comm, NULL, COMM_NEED_ANY))
		return;
	INFO(LOG_INIT, "%s: rank %d: the call failed while other ranks may wait for it", call,
	     comm->rank);
	rank_set_async_error(comm, ncclInternalError);
	comm_leave(comm);
}

static void windows_start(struct api_windows *l)
{
	int e = os_task_start(&l->task, l->rank, "window", windows_task, l);

	if (!e)
		return;
	WARN("%s: rank %d: its task cannot be started: %s", l->first->call.name, l->rank,
	     strerror(e));
	windows_withdraw(l->comm, l->first->call.name);
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
						.call = first->call.name,
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
	ncclResult_t rc = comm_enter(comm, l->first->call.name, COMM_NEED_READY);

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
		windows_withdraw(l->comm, l->first->call.name);
	windows_free(list);
}

/* ---- the calls ------------------------------------------------------------------------------- */

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

/* Adds a call to the list. Takes over `devcomm`. */
static ncclResult_t window_add_call(struct api_windows **list, struct ncclComm *comm,
				    const struct window_call *call, ncclWindow_t *win,
				    struct api_devcomm *devcomm)
{
	struct api_window *w = os_alloc(sizeof *w, "window to register");
	struct api_windows *l = w ? windows_of(list, comm) : NULL;
	struct api_window **at;

	if (!l) {
		WARN("%s: rank %d: no memory", call->name, comm->rank);
		os_free(w);
		os_free(devcomm);
		rank_set_async_error(comm, ncclSystemError);
		return ncclSystemError;
	}
	w->call = *call;
	w->devcomm = devcomm;
	w->out = win ? win : &w->none;
	for (at = &l->first; *at;)
		at = &(*at)->next;
	*at = w;
	return ncclSuccess;
}

static ncclResult_t window_run_now(struct ncclComm *comm, const struct window_call *call,
				   ncclWindow_t *win, struct api_devcomm *devcomm)
{
	struct api_windows *list = NULL;
	ncclResult_t rc = window_add_call(&list, comm, call, win, devcomm);
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

ncclResult_t api_window_call(struct ncclComm *comm, const struct window_call *call,
			     ncclWindow_t *out, struct api_devcomm *devcomm)
{
	struct api_group *g = api_group();

	if (!g)
		return window_run_now(comm, call, out, devcomm);
	if (!call->refused)
		return window_add_call(&g->windows, comm, call, out, devcomm);
	/* The error ends the group, before any message. */
	windows_withdraw(comm, call->name);
	os_free(devcomm);
	return ncclSuccess;
}
