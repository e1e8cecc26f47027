/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device's copies of connections other than those of rings (which are in their channels:
 * comm_dev_make): one array with room for every connection that the rank can have. Kernels that run
 * use other elements of it. Copies go through the communicator's own stream and pinned memory, so
 * they wait for no kernel.
 */
#include "core/rank/cuda_result.h"
#include "core/transport/transport_internal.h"

/* Connections of one copy: the staging memory has room for them. */
#define CONN_COPY_MOST (2 * DEV_MAX_CHANNELS)

/* Of the staging memory. */
static ncclResult_t conns_copy(struct ncclComm *comm, int32_t slot, int n)
{
	ncclResult_t rc =
		cuda_result(cudaMemcpyAsync(comm->dev_conns + slot, comm->staging,
					    (size_t)n * sizeof *comm->dev_conns,
					    cudaMemcpyHostToDevice, comm->internal_stream),
			    "cudaMemcpyAsync of connections");

	if (!rc)
		rc = cuda_result(cudaStreamSynchronize(comm->internal_stream),
				 "cudaStreamSynchronize after copying connections");
	return rc;
}

ncclResult_t transport_conns_upload(struct ncclComm *comm, struct conn *const *conns, int n)
{
	struct dev_conn *staged = comm->staging;
	ncclResult_t rc = ncclSuccess;
	int32_t slot = -1;
	int count = 0;

	for (int i = 0; i < n && !rc; i++) {
		if (conns[i]->slot < 0)
			continue; /* a ring's */
		slot = count ? slot : conns[i]->slot;
		ASSERT(conns[i]->slot == slot + count);
		staged[count++] = conns[i]->dev;
		if (count < CONN_COPY_MOST)
			continue;
		rc = conns_copy(comm, slot, count);
		count = 0;
	}
	return rc || !count ? rc : conns_copy(comm, slot, count);
}
