/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the device's copy of a communicator. */
#include <string.h>

#include "core/comm/comm_internal.h"
#include "core/mem/mem.h"
#include "core/profiler/profiler.h"
#include "core/rank/cuda_result.h"
#include "core/transport/transport.h"

struct comm_dev_layout comm_dev_layout(int32_t channels, uint32_t room)
{
	struct comm_dev_layout l = {.channels = ALIGN_UP(sizeof(struct dev_comm), 64u)};

	l.conns = l.channels + (size_t)channels * sizeof(struct dev_channel);
	l.ranks = l.conns + room * sizeof(struct dev_conn);
	return l;
}

/* Returns the device's view of a channel. `ranks`: device memory of the rings, followed by the
 * trees. */
static struct dev_channel channel_on_device(const struct ncclComm *comm, int32_t c,
					    const int32_t *ranks)
{
	const struct channel *ch = &comm->channels[c];
	size_t all = (size_t)comm->life->rings * (size_t)comm->nranks;

	const uint8_t *toward = (const uint8_t *)(ranks + all);

	if (c >= comm->nchannels)
		return (struct dev_channel){.ring = {.prev = -1, .next = -1}};
	return (struct dev_channel){
		.ring = {.prev = ch->ring_prev,
			 .next = ch->ring_next,
			 .index = ch->ring_index,
			 .prev_number = ch->ring_prev_number,
			 .next_number = ch->ring_next_number,
			 .ranks = ranks + (size_t)(c % comm->life->rings) * (size_t)comm->nranks},
		.tree_toward = ch->tree_toward
				       ? toward + (ch->tree_toward - comm->life->tree_toward)
				       : NULL,
	};
}

static ncclResult_t comm_abort_word_on_device(struct ncclComm *comm, const shared_u32 **address)
{
	void *p = NULL;
	ncclResult_t rc = cuda_result(cudaHostGetDevicePointer(&p, comm->abort, 0),
				      "cudaHostGetDevicePointer of the abort word");
	if (!rc)
		comm->dev_abort = *address = p;
	return rc;
}

/* Fills the staging memory, an image of the device memory at `mem`. */
static ncclResult_t comm_dev_stage(struct ncclComm *comm, const struct comm_dev_layout *l,
				   char *mem)
{
	struct dev_comm *dev = comm->staging;
	struct dev_channel *channels = (void *)((char *)comm->staging + l->channels);

	for (int32_t c = 0; c < comm->launch_channels; c++)
		channels[c] = channel_on_device(comm, c, (const int32_t *)(mem + l->ranks));
	*dev = (struct dev_comm){
		.magic = DEV_COMM_MAGIC,
		.rank = comm->rank,
		.nranks = comm->nranks,
		.nchannels = comm->launch_channels,
		.channels = comm->dev_channels,
		.conns = comm->dev_conns,
		.warp_width = comm->peers[comm->rank].warp_width,
		.id = (uint32_t)comm->id_hash,
		.result_least = comm->peers[comm->rank].result_least,
		.profile = profiler_kernel_memory(comm),
	};
	memcpy(dev->edges, comm->edges, sizeof dev->edges);
	return comm_abort_word_on_device(comm, &dev->abort);
}

static ncclResult_t comm_dev_copy(struct ncclComm *comm, void *to, const void *from, size_t bytes)
{
	return cuda_result(
		cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, comm->internal_stream),
		"cudaMemcpyAsync of the device communicator");
}

ncclResult_t comm_dev_make(struct ncclComm *comm)
{
	void *mem = NULL;
	struct comm_dev_layout l =
		comm_dev_layout(comm->launch_channels, transport_conns_most(comm));
	size_t ranks =
		(size_t)comm->life->rings * (size_t)comm->nranks * sizeof *comm->life->ring_ranks;
	size_t trees = (size_t)comm->life->trees * (size_t)comm->nranks;
	ncclResult_t rc =
		mem_device_alloc(&mem, l.ranks + ranks + trees, "the device communicator");

	if (rc)
		return rc;
	comm->dev = mem;
	comm->gpu_bytes += l.ranks + ranks + trees;
	comm->dev_channels = (struct dev_channel *)((char *)mem + l.channels);
	comm->dev_conns = (struct dev_conn *)((char *)mem + l.conns);
	rc = comm_dev_stage(comm, &l, mem);
	if (!rc)
		rc = comm_dev_copy(comm, mem, comm->staging, l.conns);
	if (!rc)
		rc = comm_dev_copy(comm, (char *)mem + l.ranks, comm->life->ring_ranks, ranks);
	if (!rc && trees)
		rc = comm_dev_copy(comm, (char *)mem + l.ranks + ranks, comm->life->tree_toward,
				   trees);
	if (!rc)
		rc = cuda_result(cudaStreamSynchronize(comm->internal_stream),
				 "cudaStreamSynchronize after copying the device communicator");
	if (!rc) {
		os_free(comm->life->ring_ranks);
		comm->life->ring_ranks = NULL;
	}
	return rc;
}
