/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device's copies of connections other than those of rings (which are in their channels: comm_dev_make):
 * one array with room for every connection that the rank can have. Kernels that run
 * use other elements of it. Copies go through the communicator's own stream and pinned memory, so they
 * wait for no kernel.
 */
#include "core/rank/cuda_result.h"
#include "core/transport/transport_internal.h"

/* Connections of one copy: the staging memory has room for them. */
#define CONN_COPY_MOST (2 * DEV_MAX_CHANNELS)

static ncclResult_t conns_copy(struct ncclComm *comm, struct conn *const *conns, int n)
{
	struct dev_conn *staged = comm->staging;
	ncclResult_t rc;

	for (int i = 0; i < n; i++) {
		ASSERT(conns[i]->slot == conns[0]->slot + i);
		staged[i] = conns[i]->dev;
	}
	rc = cuda_result(cudaMemcpyAsync(comm->dev_conns + conns[0]->slot, staged,
					 (size_t)n * sizeof *staged, cudaMemcpyHostToDevice,
					 comm->internal_stream),
			 "cudaMemcpyAsync of connections");
	if (!rc)
		rc = cuda_result(cudaStreamSynchronize(comm->internal_stream),
				 "cudaStreamSynchronize after copying connections");
	return rc;
}

ncclResult_t transport_conns_upload(struct ncclComm *comm, struct conn *const *conns, int n)
{
	ncclResult_t rc = ncclSuccess;

	for (int i = 0; i < n && !rc; i += CONN_COPY_MOST)
		rc = conns_copy(comm, conns + i, MIN_OF(n - i, CONN_COPY_MOST));
	return rc;
}
