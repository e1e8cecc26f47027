/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device's copies of connections: one array with room for every connection that the rank can
 * have. Running kernels use other elements of it. Copies use the communicator's own stream and
 * pinned memory, so they wait for no kernel.
 */
#include "core/rank/cuda_result.h"
#include "core/transport/transport_internal.h"

/* Copies n connections from the staging memory to the slots from `slot` on. */
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
	int count = 0;

	for (int i = 0; i < n && !rc; i++) {
		ASSERT(conns[i]->slot == conns[0]->slot + i);
		staged[count++] = conns[i]->dev;
		if (count < TRANSPORT_COPY_CONNS && i + 1 < n)
			continue;
		rc = conns_copy(comm, conns[i]->slot + 1 - count, count);
		count = 0;
	}
	return rc;
}

ncclResult_t transport_ends_upload(struct ncclComm *comm)
{
	static const struct dev_conn none = {.peer = -1};
	struct dev_conn *staged = comm->staging;
	ncclResult_t rc = ncclSuccess;
	int count = 0;

	for (int32_t i = 0; i < comm->nends && !rc; i++) {
		const struct conn_want *want = &comm->want[i];

		staged[count++] = want->conn ? want->conn->dev : none;
		if (count < TRANSPORT_COPY_CONNS && i + 1 < comm->nends)
			continue;
		rc = conns_copy(comm, i + 1 - count, count);
		count = 0;
	}
	return rc;
}
