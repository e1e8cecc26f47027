/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of windows on the GPU: struct ncclWindow_vidmem of core/include/nccl_device/types.h, and
 * the addresses of the window on the ranks of the team. Kernels of a program read them. Records lie
 * in chunks, which last as long as the communicator. A chunk begins with a table of its windows, in
 * which kernels find the window of an address:
 *
 *	oldest chunk   table -------> table of the next chunk -------> NULL
 *	               records        records
 */
#include <string.h>

#include "core/base/log.h"
#include "core/rank/cuda_result.h"
#include "core/transport/registered/windows_internal.h"

#define WINDOW_RECORDS 32u /* in a chunk: the bits of `used`, the entries of a table */
#define WINDOW_TABLE   ALIGN_UP(sizeof(struct ncclDevCommWindowTable), (size_t)64)
#define WINDOW_WHAT    "records of windows"

struct window_chunk {
	struct window_chunk *next;
	uint8_t *mem;
	uint32_t used;
};

/* Layouts of NCCL 2.32.3. */
DOPPEL_CHECK_SIZE(struct ncclWindow_vidmem, 96);
DOPPEL_CHECK_OFFSET(struct ncclWindow_vidmem, lsaFlatBase, 8);
DOPPEL_CHECK_OFFSET(struct ncclWindow_vidmem, winFlags, 36);
DOPPEL_CHECK_OFFSET(struct ncclWindow_vidmem, ucLeIdBase, 88);
DOPPEL_CHECK_OFFSET(struct ncclDevCommWindowTable, next, 24 * WINDOW_RECORDS);
DOPPEL_STATIC_CHECK(WINDOW_RECORDS == NCCL_DEVICE_WINDOWS, "a table has the windows of a chunk");

static size_t window_record_bytes(const struct ncclComm *comm)
{
	return ALIGN_UP(sizeof(struct ncclWindow_vidmem) +
				(size_t)comm->local_ranks * sizeof(char *),
			(size_t)64);
}

/* Copies to GPU memory. Waits for no kernel. */
static ncclResult_t window_record_copy(struct ncclComm *comm, uint8_t *at, const void *from,
				       size_t bytes)
{
	ncclResult_t rc = cuda_result(
		cudaMemcpyAsync(at, from, bytes, cudaMemcpyHostToDevice, comm->internal_stream),
		"cudaMemcpyAsync to the record of a window");

	return rc ? rc
		  : cuda_result(cudaStreamSynchronize(comm->internal_stream),
				"waiting for the copy to the record of a window");
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* Writes the chunk's empty table, and lets kernels find it after those of older chunks. */
static ncclResult_t window_chunk_link(struct ncclComm *comm, const struct window_chunk *before,
				      uint8_t *mem)
{
	const struct ncclDevCommWindowTable empty = {.next = NULL};
	const size_t next = offsetof(struct ncclDevCommWindowTable, next);
	ncclResult_t rc = window_record_copy(comm, mem, &empty, sizeof empty);

	return rc || !before ? rc : window_record_copy(comm, before->mem + next, &mem, sizeof mem);
}

static ncclResult_t window_chunk_make(struct ncclComm *comm, struct window_chunk **out)
{
	struct window_chunk *c = os_alloc(sizeof *c, WINDOW_WHAT);
	const size_t bytes = WINDOW_TABLE + WINDOW_RECORDS * window_record_bytes(comm);
	void *mem;
	ncclResult_t rc;

	*out = NULL;
	if (!c) {
		WARN("rank %d: no memory for records of windows", comm->rank);
		return ncclSystemError;
	}
	rc = mem_device_alloc(&mem, bytes, WINDOW_WHAT);
	if (!rc) {
		rc = window_chunk_link(comm, comm->windows->chunks, mem);
		if (rc)
			(void)mem_device_free(mem, WINDOW_WHAT);
	}
	if (rc) {
		os_free(c);
		return rc;
	}
	comm->gpu_bytes += bytes;
	*c = (struct window_chunk){.next = comm->windows->chunks, .mem = mem};
	comm->windows->chunks = c;
	*out = c;
	return ncclSuccess;
}

/* Takes a free record. */
static ncclResult_t window_record_take(struct ncclComm *comm, uint8_t **at)
{
	struct window_chunk *c = comm->windows->chunks;
	ncclResult_t rc = ncclSuccess;
	uint32_t i;

	while (c && c->used == UINT32_MAX)
		c = c->next;
	if (!c)
		rc = window_chunk_make(comm, &c);
	if (rc)
		return rc;
	i = (uint32_t)__builtin_ctz(~c->used);
	c->used |= 1u << i;
	*at = c->mem + WINDOW_TABLE + i * window_record_bytes(comm);
	return ncclSuccess;
}

/* Returns the chunk of the window's record, and in *i its number there; NULL: it has none. */
static struct window_chunk *window_record_chunk(const struct ncclComm *comm, const struct window *w,
						uint32_t *i)
{
	const size_t each = window_record_bytes(comm);
	const uint8_t *at = (const uint8_t *)w->handle;
	struct window_chunk *c = comm->windows ? comm->windows->chunks : NULL;

	while (c &&
	       !(at >= c->mem + WINDOW_TABLE && at < c->mem + WINDOW_TABLE + WINDOW_RECORDS * each))
		c = c->next;
	*i = c ? (uint32_t)((size_t)(at - c->mem - WINDOW_TABLE) / each) : 0;
	return c;
}

void window_record_drop(struct ncclComm *comm, struct window *w)
{
	uint32_t i;
	struct window_chunk *c = window_record_chunk(comm, w, &i);

	if (c)
		c->used &= ~(1u << i);
	w->handle = NULL;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Writes the window's entry; `bytes` 0: an empty one. */
static ncclResult_t window_table_write(struct ncclComm *comm, const struct window *w, size_t bytes)
{
	struct ncclDevCommWindowTable t;
	uint32_t i;
	const struct window_chunk *c = window_record_chunk(comm, w, &i);

	ASSERT(c);
	t.entries[i].base = (uintptr_t)w->at;
	t.entries[i].size = bytes;
	t.entries[i].window = w->handle;
	return window_record_copy(comm,
				  c->mem + offsetof(struct ncclDevCommWindowTable, entries) +
					  i * sizeof t.entries[0],
				  &t.entries[i], sizeof t.entries[0]);
}

ncclResult_t window_record_hide(struct ncclComm *comm, const struct window *w)
{
	return window_table_write(comm, w, 0);
}

ncclDevCommWindowTable_t transport_window_table(const struct ncclComm *comm)
{
	const struct window_chunk *c = comm->windows->chunks;

	while (c->next)
		c = c->next;
	return (ncclDevCommWindowTable_t)(void *)c->mem;
}

void window_records_end(struct ncclComm *comm)
{
	struct window_chunk *c;

	while ((c = comm->windows->chunks) != NULL) {
		comm->windows->chunks = c->next;
		(void)mem_device_free(c->mem, WINDOW_WHAT);
		os_free(c);
	}
}

/* ---- a record -------------------------------------------------------------------------------- */

static void window_record_fill(const struct ncclComm *comm, const struct window *w,
			       struct ncclWindow_vidmem *record)
{
	char **base = (char **)(record + 1);

	*record = (struct ncclWindow_vidmem){.lsaRank = comm->local_rank,
					     .worldRank = comm->rank,
					     .winFlags = (uint32_t)w->flags,
					     .numSegments = 1};
	for (int32_t i = 0; i < w->npeers; i++)
		base[i] = (char *)w->peer[i].at;
}

ncclResult_t window_record_make(struct ncclComm *comm, struct window *w)
{
	const size_t bytes = window_record_bytes(comm);
	struct ncclWindow_vidmem *record = os_alloc(bytes, "record of a window");
	uint8_t *at;
	ncclResult_t rc;

	if (!record) {
		WARN("rank %d: no memory for the record of a window", comm->rank);
		return ncclSystemError;
	}
	window_record_fill(comm, w, record);
	rc = window_record_take(comm, &at);
	if (!rc) {
		w->handle = (ncclWindow_t)(void *)at;
		rc = window_record_copy(comm, at, record, bytes);
	}
	if (!rc)
		rc = window_table_write(comm, w, w->bytes);
	os_free(record);
	return rc;
}
