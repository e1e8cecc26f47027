/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device's copies of connections that are made after init. They are in pages that never move,
 * because kernels that run keep the addresses; a page is freed with the communicator. Copies go
 * through the communicator's own stream and pinned memory, so they wait for no kernel.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/rank/cuda_result.h"
#include "core/transport/transport_internal.h"

/* Connections of one page, and of one copy: as many as the staging memory is made for at least. */
#define CONN_PAGE_ROOM (2 * DEV_MAX_CHANNELS)

struct conn_page {
	struct conn_page *next;
	struct dev_conn *mem;
	int used;
};

static ncclResult_t conn_page_make(struct conn_page **first)
{
	struct conn_page *page = os_alloc(sizeof *page, "page of connections");
	ncclResult_t rc;

	if (!page) {
		WARN("no memory for a page of connections");
		return ncclSystemError;
	}
	rc = cuda_result(cudaMalloc((void **)&page->mem, CONN_PAGE_ROOM * sizeof *page->mem),
			 "cudaMalloc of a page of connections");
	if (rc) {
		os_free(page);
		return rc;
	}
	page->next = *first;
	*first = page;
	return ncclSuccess;
}

static ncclResult_t conn_page_fill(struct ncclComm *comm, struct conn_page *page,
				   struct conn *const *conns, int n)
{
	struct dev_conn *to = page->mem + page->used;
	struct dev_conn *staged = comm->staging;
	ncclResult_t rc;

	for (int i = 0; i < n; i++)
		staged[i] = conns[i]->dev;
	rc = cuda_result(cudaMemcpyAsync(to, staged, (size_t)n * sizeof *staged,
					 cudaMemcpyHostToDevice, comm->internal_stream),
			 "cudaMemcpyAsync of connections");
	if (!rc)
		rc = cuda_result(cudaStreamSynchronize(comm->internal_stream),
				 "cudaStreamSynchronize after copying connections");
	for (int i = 0; i < n && !rc; i++)
		conns[i]->on_device = to + i;
	page->used += n;
	return rc;
}

ncclResult_t transport_conns_upload(struct ncclComm *comm, struct conn_page **first,
				    struct conn *const *conns, int n)
{
	for (int i = 0, some; i < n; i += some) {
		ncclResult_t rc = ncclSuccess;

		if (!*first || (*first)->used == CONN_PAGE_ROOM)
			rc = conn_page_make(first);
		if (rc)
			return rc;
		some = MIN_OF(n - i, CONN_PAGE_ROOM - (*first)->used);
		rc = conn_page_fill(comm, *first, conns + i, some);
		if (rc)
			return rc;
	}
	return ncclSuccess;
}

void transport_conn_pages_free(struct conn_page **first)
{
	while (*first) {
		struct conn_page *page = *first;

		*first = page->next;
		(void)cuda_result(cudaFree(page->mem), "cudaFree of a page of connections");
		os_free(page);
	}
}
