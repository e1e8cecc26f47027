/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows: all ranks register one together (windows.h). */
#include <stdarg.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/rank/cuda_result.h"
#include "core/transport/registered/windows_internal.h"

/* Tags of messages of the bootstrap. */
#define WINDOW_TAG_ROWS   0x550000 /* and the next one */
#define WINDOW_TAG_NUMBER 0x550002

/* Wire format: one rank's part of a call, little-endian. */
struct window_row {
	uint64_t bytes;
	uint64_t address; /* of the buffer, for ranks of the same process */
	uint64_t offset;  /* of the buffer in its memory */
	int32_t flags;
	int32_t failed;     /* ncclResult_t of the rank's own checks */
	uint32_t supported; /* 0: the ranks of its host have no direct access to each other */
	uint32_t layout;    /* of struct window_call */
};
DOPPEL_CHECK_SIZE(struct window_row, 40);
DOPPEL_CHECK_OFFSET(struct window_row, flags, 24);

/* ---- this rank's part ------------------------------------------------------------------------ */

static ncclResult_t window_memory_check(const struct window_call *call,
					const struct user_memory *memory)
{
	size_t offset;

	if (!memory) {
		WARN("%s: buff %p, %zu bytes, is not memory of ncclMemAlloc, expected a range of "
		     "one allocation",
		     call->name, call->buffer, call->bytes);
		return ncclInvalidArgument;
	}
	offset = (size_t)((uint8_t *)call->buffer - user_memory_base(memory));
	if (offset % NCCL_WIN_REQUIRED_ALIGNMENT == 0)
		return ncclSuccess;
	WARN("%s: buff %p is %zu bytes after the start of its memory, expected a multiple of %d",
	     call->name, call->buffer, offset, NCCL_WIN_REQUIRED_ALIGNMENT);
	return ncclInvalidArgument;
}

/* Fills in this rank's row, and holds the memory: *memory, NULL if the rank has none. */
static struct window_row window_row_of(const struct ncclComm *comm, const struct window_call *call,
				       struct user_memory **memory)
{
	struct window_row row = {.bytes = call->bytes,
				 .address = (uint64_t)(uintptr_t)call->buffer,
				 .flags = call->flags,
				 .layout = call->layout,
				 .failed = (int32_t)call->refused};
	char text[96];

	*memory = NULL;
	row.supported = !window_why_not(comm, text);
	if (row.failed || !row.supported)
		return row;
	*memory = user_memory_hold(call->buffer, call->bytes);
	row.failed = (int32_t)window_memory_check(call, *memory);
	if (*memory)
		row.offset = row.address - (uint64_t)(uintptr_t)user_memory_base(*memory);
	return row;
}

/* ---- the rows of all ranks ------------------------------------------------------------------- */

/* Adds to a text of fixed size; a text that is too long ends with dots. */
struct window_text {
	char text[200];
	size_t n;
};

static void window_text_add(struct window_text *t, const char *format, ...)
{
	const size_t room = sizeof t->text - t->n;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->text + t->n, room, format, args);
	va_end(args);
	if ((size_t)n < room) {
		t->n += (size_t)n;
		return;
	}
	snprintf(t->text + sizeof t->text - 4, 4, "...");
	t->n = sizeof t->text - 1;
}

/* Adds the ranks from r on that have the size of rank r: "4096 bytes on ranks 0-1, 3". */
static void window_text_size(struct window_text *t, const struct window_row *rows, int32_t nranks,
			     int32_t r)
{
	const uint64_t bytes = rows[r].bytes;
	const char *before = "rank ";

	for (int32_t i = r + 1; i < nranks; i++)
		before = rows[i].bytes == bytes ? "ranks " : before;
	window_text_add(t, "%s%llu bytes on ", t->n ? "; " : "", (unsigned long long)bytes);
	while (r < nranks) {
		int32_t last = r;

		while (last + 1 < nranks && rows[last + 1].bytes == bytes)
			last++;
		window_text_add(t, last > r ? "%s%d-%d" : "%s%d", before, r, last);
		before = ", ";
		for (r = last + 1; r < nranks && rows[r].bytes != bytes;)
			r++;
	}
}

static ncclResult_t window_sizes_differ(const struct ncclComm *comm, const struct window_call *call,
					const struct window_row *rows)
{
	struct window_text t = {.n = 0};

	for (int32_t r = 0; r < comm->nranks; r++) {
		int32_t before = 0;

		while (rows[before].bytes != rows[r].bytes)
			before++;
		if (before == r)
			window_text_size(&t, rows, comm->nranks, r);
	}
	WARN("%s: rank %d: size differs between ranks, expected the same on all: %s", call->name,
	     comm->rank, t.text);
	return ncclInvalidArgument;
}

/* Returns the result of rows that are complete; all ranks have the same rows. *falls_back: the
 * ranks of some host have no direct access, so there are no windows. */
static ncclResult_t window_rows_check(const struct ncclComm *comm, const struct window_call *call,
				      const struct window_row *rows, bool *falls_back)
{
	int32_t bytes = 0, flags = 0, layout = 0;

	*falls_back = false;
	if (rows[comm->rank].failed)
		return (ncclResult_t)rows[comm->rank].failed;
	for (int32_t r = 0; r < comm->nranks; r++) {
		if (rows[r].failed) {
			WARN("%s: rank %d: the call of rank %d failed, and no rank registers the "
			     "window",
			     call->name, comm->rank, r);
			return ncclRemoteError;
		}
		*falls_back = *falls_back || !rows[r].supported;
		bytes = rows[r].bytes != rows[0].bytes ? r : bytes;
		flags = rows[r].flags != rows[0].flags ? r : flags;
		layout = rows[r].layout != rows[0].layout ? r : layout;
	}
	if (*falls_back)
		return ncclSuccess;
	if (flags) {
		WARN("%s: rank %d: winFlags is %#x on rank 0 and %#x on rank %d, expected the same "
		     "on all ranks",
		     call->name, comm->rank, (unsigned)rows[0].flags, (unsigned)rows[flags].flags,
		     flags);
		return ncclInvalidArgument;
	}
	if (layout) {
		WARN("%s: rank %d: the call or its requirements differ between rank 0 and rank %d, "
		     "expected the same on all ranks",
		     call->name, comm->rank, layout);
		return ncclInvalidArgument;
	}
	return bytes ? window_sizes_differ(comm, call, rows) : ncclSuccess;
}

/* Gathers the rows; *rows is NULL after an error, and otherwise owned by the caller. */
static ncclResult_t window_rows_gather(struct ncclComm *comm, const struct window_call *call,
				       const struct window_row *own, struct window_row **rows)
{
	ncclResult_t rc = ncclSystemError;

	*rows = os_alloc((size_t)comm->nranks * sizeof **rows, "rows of a window");
	if (*rows) {
		(*rows)[comm->rank] = *own;
		rank_forms(comm, call->name, true, -1);
		rank_bootstrap_claim(comm);
		rc = rank_error(comm, bootstrap_rows(comm->bootstrap, WINDOW_TAG_ROWS, *rows,
						     sizeof **rows));
		rank_bootstrap_release(comm);
		rank_forms(comm, NULL, false, -1);
	} else {
		WARN("rank %d: no memory for the rows of %d ranks", comm->rank, comm->nranks);
	}
	if (!rc)
		return ncclSuccess;
	rank_set_async_error(comm, rc);
	os_free(*rows);
	*rows = NULL;
	return rc;
}

static void window_log_fallback(const struct ncclComm *comm, const struct window_row *rows,
				const struct window_call *call)
{
	char text[96];
	const char *why = window_why_not(comm, text);
	int32_t r = 0;

	while (rows[r].supported)
		r++;
	if (!why) {
		snprintf(text, sizeof text, "rank %d has none: its log has the reason", r);
		why = text;
	}
	INFO(LOG_INIT | LOG_REG, "%s: rank %d: there is no window for %p, and *win is NULL: %s",
	     call->name, comm->rank, call->buffer, why);
}

/* ---- memory of the team ---------------------------------------------------------------------- */

static bool window_peer_is_apart(const struct ncclComm *comm, int32_t peer)
{
	return !transport_same_process(comm, peer);
}

/* Enters the ranks of this process, which need no exchange. *apart: number of the others. */
static ncclResult_t window_map_near(struct ncclComm *comm, const struct window_row *rows,
				    struct window *w, int32_t *apart)
{
	ncclResult_t rc = ncclSuccess;

	*apart = 0;
	for (int32_t i = 0; i < w->npeers && !rc; i++) {
		const int32_t peer = w->peer[i].rank;

		if (window_peer_is_apart(comm, peer)) {
			++*apart;
			continue;
		}
		if (peer != comm->rank)
			rc = transport_memory_reach(comm, peer);
		w->peer[i].at = (uint8_t *)(uintptr_t)rows[peer].address;
	}
	return rc;
}

/* Passes the handle of this rank's memory to the ranks of other processes. */
static ncclResult_t window_lend(struct ncclComm *comm, const struct window_call *call,
				const struct window *w)
{
	ncclResult_t rc = ncclSuccess;

	for (int32_t i = 0; i < w->npeers && !rc; i++) {
		const int32_t peer = w->peer[i].rank;
		uint32_t number;

		if (!window_peer_is_apart(comm, peer))
			continue;
		rc = registered_lend(comm, peer, w->memory, call->next_message(comm, peer),
				     &number);
		if (!rc)
			rc = bootstrap_send(comm->bootstrap, peer, WINDOW_TAG_NUMBER, &number,
					    sizeof number);
	}
	return rc;
}

static ncclResult_t window_borrow(struct ncclComm *comm, const struct window_row *rows,
				  struct window *w)
{
	ncclResult_t rc = ncclSuccess;

	for (int32_t i = 0; i < w->npeers && !rc; i++) {
		struct window_peer *p = &w->peer[i];
		uint32_t number;

		if (!window_peer_is_apart(comm, p->rank))
			continue;
		rc = bootstrap_recv(comm->bootstrap, p->rank, WINDOW_TAG_NUMBER, &number,
				    sizeof number);
		if (!rc)
			rc = registered_borrow(comm, p->rank, number, &p->import);
		if (rc)
			return rc;
		p->import->windows++;
		p->at = (uint8_t *)p->import->mem + rows[p->rank].offset;
	}
	return rc;
}

/* Each rank passes on all its handles before it opens the first: opening may wait for kernels, and
 * these for a launch that another rank makes after this call. */
static ncclResult_t window_map_apart(struct ncclComm *comm, const struct window_call *call,
				     const struct window_row *rows, struct window *w)
{
	ncclResult_t rc = registered_make(comm);

	if (!rc)
		rc = registered_range_take(comm, call->buffer, call->bytes, &w->range);
	if (rc)
		return rc;
	comm->registered->look_in = 0;
	rc = transport_registered_take(comm);
	if (rc)
		return rc;
	rank_forms(comm, call->name, false, -1);
	rank_bootstrap_claim(comm);
	rc = window_lend(comm, call, w);
	if (!rc)
		rc = window_borrow(comm, rows, w);
	rank_bootstrap_release(comm);
	rank_forms(comm, NULL, false, -1);
	return rc;
}

static ncclResult_t window_map(struct ncclComm *comm, const struct window_call *call,
			       const struct window_row *rows, struct window *w)
{
	int32_t apart;
	ncclResult_t rc = window_map_near(comm, rows, w, &apart);

	if (!rc && apart)
		rc = window_map_apart(comm, call, rows, w);
	return rc;
}

/* Returns a window that holds nothing yet; NULL: no memory. */
static struct window *window_new(const struct ncclComm *comm, const struct window_call *call)
{
	const int32_t npeers = comm->local_ranks;
	struct window *w = os_alloc(sizeof *w + (size_t)npeers * sizeof w->peer[0], "window");

	if (!w) {
		WARN("%s: rank %d: no memory for a window", call->name, comm->rank);
		return NULL;
	}
	w->node.kind = REGISTRY_WINDOW;
	w->comm = comm;
	w->at = call->buffer;
	w->bytes = call->bytes;
	w->flags = call->flags;
	w->nranks = comm->nranks;
	w->npeers = npeers;
	for (int32_t i = 0; i < npeers; i++)
		w->peer[i].rank = comm->local_to_rank[i];
	return w;
}

/* Makes the window. Takes over the hold of the memory. A failure is the communicator's: other ranks
 * wait for this one, or use its memory. */
static ncclResult_t window_make(struct ncclComm *comm, const struct window_call *call,
				const struct window_row *rows, struct user_memory *memory,
				struct window **out)
{
	struct window *w = window_new(comm, call);
	ncclResult_t rc = ncclSystemError;

	if (w) {
		w->memory = memory;
		rc = window_map(comm, call, rows, w);
	} else {
		user_memory_drop(memory);
	}
	if (rc) {
		rc = rank_error(comm, rc);
		rank_set_async_error(comm, rc);
		if (w)
			(void)window_free(comm, w, false);
		return rc;
	}
	*out = w;
	INFO(LOG_REG, "rank %d: window: buffer %p, %zu bytes, flags %#x; a team of %d of %d ranks",
	     comm->rank, call->buffer, call->bytes, (unsigned)call->flags, w->npeers, comm->nranks);
	return ncclSuccess;
}

ncclResult_t window_register(struct ncclComm *comm, const struct window_call *call,
			     struct window **w)
{
	struct user_memory *memory;
	const struct window_row own = window_row_of(comm, call, &memory);
	struct window_row *rows;
	bool falls_back = false;
	ncclResult_t rc;

	*w = NULL;
	rc = window_rows_gather(comm, call, &own, &rows);
	if (!rc)
		rc = window_rows_check(comm, call, rows, &falls_back);
	if (!rc && falls_back)
		window_log_fallback(comm, rows, call);
	if (!rc && !falls_back)
		rc = window_memory_make(comm, call);
	if (!rc && !falls_back)
		rc = window_make(comm, call, rows, memory, w);
	else if (memory)
		user_memory_drop(memory);
	os_free(rows);
	return rc;
}

ncclResult_t transport_window_register(struct ncclComm *comm, const struct window_call *call,
				       ncclWindow_t *win)
{
	struct window *w;
	ncclResult_t rc = window_register(comm, call, &w);

	*win = NULL;
	if (!rc && w)
		rc = window_add(comm, w);
	if (!rc && w)
		*win = w->handle;
	return rc;
}
