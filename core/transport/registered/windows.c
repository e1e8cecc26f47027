/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows: queries of addresses, their use by launches, and their end. */
#include <stdio.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/rank/cuda_result.h"
#include "core/transport/registered/windows_internal.h"

/* ---- the team -------------------------------------------------------------------------------- */

const char *window_why_not(const struct ncclComm *comm, char text[96])
{
	if (!param_bool(PARAM_WIN_ENABLE))
		return "NCCL_WIN_ENABLE is 0";
	for (int32_t i = 0; i < comm->local_ranks; i++)
		for (int32_t k = 0; k < comm->local_ranks; k++) {
			int32_t from = comm->local_to_rank[i], to = comm->local_to_rank[k];

			if (i == k || transport_local_of(comm, from, to) == &transport_p2p)
				continue;
			snprintf(text, 96, "no direct access (P2P) from rank %d to rank %d", from,
				 to);
			return text;
		}
	return NULL;
}

bool transport_windows_are_possible(const struct ncclComm *comm)
{
	char text[96];

	return !window_why_not(comm, text);
}

int32_t transport_window_teams(const struct ncclComm *comm)
{
	if (comm->nranks == 1)
		return 1;
	return transport_windows_are_possible(comm) ? comm->summary.nhosts : comm->nranks;
}

/* ---- the windows of a communicator ----------------------------------------------------------- */

ncclResult_t windows_make(struct ncclComm *comm)
{
	if (!comm->windows)
		comm->windows = os_alloc(sizeof *comm->windows, "windows");
	if (comm->windows)
		return ncclSuccess;
	WARN("rank %d: no memory for windows", comm->rank);
	return ncclSystemError;
}

ncclResult_t window_add(struct ncclComm *comm, struct window *w)
{
	ncclResult_t rc = window_record_make(comm, w);

	if (rc) {
		rank_set_async_error(comm, rc); /* the other ranks have the window */
		if (w->own)
			(void)window_own_free(comm, w, true);
		else
			(void)window_free(comm, w, true);
		return rc;
	}
	w->next = comm->windows->first;
	w->number = ++comm->windows->made;
	comm->windows->first = w;
	registry_add(&w->node);
	return ncclSuccess;
}

void window_remove(struct ncclComm *comm, struct window *w)
{
	struct window **at = &comm->windows->first;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	registry_remove(&w->node);
}

ncclResult_t window_free(struct ncclComm *comm, struct window *w, bool closes)
{
	struct user_memory *memory = NULL;
	ncclResult_t rc = ncclSuccess;

	for (int32_t i = 0; i < w->npeers; i++)
		if (w->peer[i].import)
			w->peer[i].import->windows--;
	if (w->range)
		(void)registered_range_cut(comm, w->range, &memory);
	if (memory && closes)
		rc = registered_range_end(comm, memory);
	else if (memory)
		user_memory_drop(memory);
	user_memory_drop(w->memory);
	window_record_drop(comm, w);
	os_free(w);
	return rc;
}

/* Returns the window if it exists; NULL: it does not. The caller holds the registry's lock. */
static struct window *window_in(struct registry_node *first, ncclWindow_t win)
{
	for (struct registry_node *n = first; n; n = n->next)
		if (win && n->kind == REGISTRY_WINDOW && ((struct window *)n)->handle == win)
			return (struct window *)n;
	return NULL;
}

ncclResult_t window_check(const struct ncclComm *comm, const char *call, ncclWindow_t win, bool own,
			  struct window **w)
{
	struct registry_node *first = registry_lock();
	const char *what = "no window, or it was deregistered";

	*w = window_in(first, win);
	if (*w && (*w)->comm != comm)
		what = "a window of another communicator";
	else if (*w && (*w)->own != own)
		what = own ? "a window of the program" : "memory of a device communicator";
	if (*w && (*w)->comm == comm && (*w)->own == own) {
		registry_unlock(first);
		return ncclSuccess;
	}
	registry_unlock(first);
	*w = NULL;
	WARN("%s: %s %p is %s, expected one that %s returned for this communicator", call,
	     own ? "resourceWindow" : "win", (void *)win, what,
	     own ? "ncclDevCommCreate" : "ncclCommWindowRegister");
	return ncclInvalidArgument;
}

ncclResult_t transport_window_buffer(const struct ncclComm *comm, const char *call,
				     ncclWindow_t win, void **buffer, size_t *bytes)
{
	struct window *w;
	ncclResult_t rc = window_check(comm, call, win, false, &w);

	*buffer = rc ? NULL : w->at;
	*bytes = rc ? 0 : w->bytes;
	return rc;
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* A copy of what a query needs: another task may deregister the window. */
struct window_view {
	bool exists;
	size_t bytes;
	int32_t npeers, nranks;
	bool is_member; /* the rank of the query */
	uint8_t *at;
};

/* Returns the team's member that the place names; NULL: no member. */
static const struct window_peer *window_member(const struct window *w, const struct window_place *p)
{
	for (int32_t i = 0; i < w->npeers; i++)
		if ((p->in_team ? i : w->peer[i].rank) == p->rank)
			return &w->peer[i];
	return NULL;
}

static struct window_view window_look(const struct window_place *p)
{
	struct registry_node *first = registry_lock();
	const struct window *w = window_in(first, p->window);
	struct window_view view = {.exists = w != NULL};

	if (w) {
		const struct window_peer *member = window_member(w, p);

		view.bytes = w->bytes;
		view.npeers = w->npeers;
		view.nranks = w->nranks;
		view.is_member = member != NULL;
		view.at = member ? member->at : NULL;
	}
	registry_unlock(first);
	return view;
}

static ncclResult_t window_place_check(const char *call, const struct window_place *p,
				       const struct window_view *view)
{
	const int32_t most = p->in_team ? view->npeers : view->nranks;

	if (!view->exists)
		WARN("%s: window %p is no window, or it was deregistered, expected one that "
		     "ncclCommWindowRegister returned",
		     call, (void *)p->window);
	else if (p->rank < 0 || p->rank >= most)
		WARN("%s: %s is %d, expected 0 to %d", call, p->in_team ? "lsaRank" : "peer",
		     p->rank, most - 1);
	else if (p->offset >= view->bytes)
		WARN("%s: offset is %zu, expected less than the window's %zu bytes", call,
		     p->offset, view->bytes);
	else
		return ncclSuccess;
	return ncclInvalidArgument;
}

ncclResult_t transport_window_address(const char *call, const struct window_place *p, void **out)
{
	const struct window_view view = window_look(p);
	ncclResult_t rc = window_place_check(call, p, &view);

	*out = NULL;
	if (rc)
		return rc;
	if (view.is_member && !view.at) {
		WARN("%s: the window's communicator was revoked, and the memory of other processes "
		     "is no longer mapped",
		     call);
		return ncclInvalidUsage;
	}
	*out = view.at ? view.at + p->offset : NULL;
	return ncclSuccess;
}

/* ---- use by launches ------------------------------------------------------------------------- */

static bool window_has(const struct window *w, const void *at, size_t bytes)
{
	const uint8_t *from = at;

	return bytes && from < w->at + w->bytes && w->at < from + bytes;
}

void transport_windows_launch(const struct ncclComm *comm, bool in_graph)
{
	if (!comm->windows)
		return;
	comm->windows->launches++;
	comm->windows->in_graph = in_graph;
}

void transport_windows_use(const struct ncclComm *comm, const void *at, size_t bytes)
{
	struct window *w = comm->windows ? comm->windows->first : NULL;

	for (; w; w = w->next)
		if (!comm->windows->in_graph && window_has(w, at, bytes))
			w->used = comm->windows->launches;
}

/* ncclInvalidUsage if the last launch uses the window and has not ended. Earlier launches have no
 * event of their own. If one of them still runs, the memory is kept until it has ended: by other
 * ranks (registered_end_some), and by CUDA, which waits when it frees. */
static ncclResult_t window_check_unused(const struct ncclComm *comm, const struct window *w)
{
	cudaError_t e;

	if (!w->used || w->used != comm->windows->launches || !comm->launched || comm->unmarked)
		return ncclSuccess;
	e = comm->nranks == 1 ? cudaStreamQuery(comm->internal_stream)
			      : cudaEventQuery(comm->launch_done);
	if (e != cudaErrorNotReady)
		return cuda_result(e, "the query before a window is deregistered");
	WARN("ncclCommWindowDeregister: rank %d: a call that uses window %p has not ended, "
	     "expected cudaStreamSynchronize before",
	     comm->rank, (void *)w->handle);
	return ncclInvalidUsage;
}

ncclResult_t transport_window_deregister(struct ncclComm *comm, ncclWindow_t win)
{
	struct window *w;
	ncclResult_t rc = window_check(comm, "ncclCommWindowDeregister", win, false, &w), freed;

	if (!rc)
		rc = window_check_unused(comm, w);
	if (rc)
		return rc;
	INFO(LOG_REG, "rank %d: window %p is deregistered", comm->rank, (void *)win);
	rc = window_record_hide(comm, w);
	window_remove(comm, w);
	freed = window_free(comm, w, true);
	return rc ? rc : freed;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void window_leave(struct window *w)
{
	for (int32_t i = 0; i < w->npeers; i++)
		if (w->peer[i].import)
			w->peer[i].at = NULL;
}

void transport_windows_leave(struct ncclComm *comm)
{
	struct registry_node *first;

	if (!comm->windows)
		return;
	first = registry_lock();
	for (struct window *w = comm->windows->first; w; w = w->next)
		window_leave(w);
	if (comm->windows->memory)
		window_leave(comm->windows->memory);
	registry_unlock(first);
}

/* Ends the communicator's windows; counts the program's and the stack's own. */
static void windows_end_all(struct ncclComm *comm, uint32_t *n, uint32_t *own)
{
	*n = *own = 0;
	while (comm->windows->first) {
		struct window *w = comm->windows->first;

		window_remove(comm, w);
		++*(w->own ? own : n);
		if (w->own)
			(void)window_own_free(comm, w, false);
		else
			(void)window_free(comm, w, false);
	}
}

void transport_windows_end(struct ncclComm *comm)
{
	uint32_t n, own;

	if (!comm->windows)
		return;
	windows_end_all(comm, &n, &own);
	if (n && !rank_is_aborted(comm))
		WARN("rank %d: the communicator ends with %u windows, which end with it: "
		     "ncclCommWindowDeregister was not called for them",
		     comm->rank, n);
	if (own && !rank_is_aborted(comm))
		WARN("rank %d: the communicator ends with %u device communicators, which end with "
		     "it: ncclDevCommDestroy was not called for them",
		     comm->rank, own);
	window_memory_end(comm);
	window_records_end(comm);
	os_free(comm->windows);
	comm->windows = NULL;
}
