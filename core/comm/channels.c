/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the host's topology to this rank's channels, agreed on by all ranks; and the device's copy.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/comm/comm_internal.h"
#include "core/transport/transport.h"

/* ---- topology
 * ------------------------------------------------------------------------------------ */

static ncclResult_t channels_topology(struct ncclComm *comm)
{
	const char *path = param_str(PARAM_TOPO_FILE);
	struct topo_select *select;
	char *xml = NULL;
	size_t bytes = 0;
	ncclResult_t rc = ncclSystemError;

	if (!path) {
		WARN("NCCL_TOPO_FILE is not set: detection of the topology is not there yet, so it "
		     "must name "
		     "the host's topology XML");
		return ncclInvalidUsage;
	}
	select = os_alloc(sizeof *select, "topology selection");
	if (!select) {
		WARN("rank %d: no memory for the topology selection", comm->rank);
		return ncclSystemError;
	}
	int e = os_file_read(path, &xml, &bytes);
	if (e) {
		char text[96];
		const char *said = strerror_r(e, text, sizeof text);
		WARN("NCCL_TOPO_FILE: %s cannot be read: %s", path, said);
		goto out_free;
	}
	select->count = comm->local_ranks;
	for (int32_t i = 0; i < comm->local_ranks; i++) {
		const struct peer_info *p = &comm->peers[comm->local_to_rank[i]];
		memcpy(select->gpu[i].bus_id, p->bus_id, sizeof p->bus_id);
		select->gpu[i].dev = p->cuda_dev;
	}
	rc = topo_system_get(xml, bytes, path, select, &comm->topo);
	os_free(xml);
out_free:
	os_free(select);
	return rc;
}

/* ---- channels
 * ------------------------------------------------------------------------------------- */

/* How many: what the rings give, within what every rank asks for. */
static int32_t channels_count(const struct ncclComm *comm, int32_t rings)
{
	int32_t least = 1, most = DEV_MAX_CHANNELS;
	for (int32_t r = 0; r < comm->nranks; r++) {
		least = MAX_OF(least, comm->peers[r].min_channels);
		most = MIN_OF(most, comm->peers[r].max_channels);
	}
	return MIN_OF(MAX_OF(rings, least), most);
}

static void channels_log(const struct ncclComm *comm)
{
	for (int32_t c = 0; c < comm->nchannels; c++)
		INFO(LOG_GRAPH | LOG_INIT,
		     "Channel %02d/%02d : %d -> %d -> %d, place %d in the ring", c, comm->nchannels,
		     comm->channels[c].ring_prev, comm->rank, comm->channels[c].ring_next,
		     comm->channels[c].ring_index);
}

/* Rings beyond those found repeat them from the first. `found` are those of the search that all
 * ranks have, before they were doubled. */
static ncclResult_t channels_fill(struct ncclComm *comm, const struct topo_rings *rings,
				  int32_t found)
{
	int32_t n = channels_count(comm, rings->nchannels);
	comm->channels = os_alloc((size_t)n * sizeof *comm->channels, "channels");
	if (!comm->channels) {
		WARN("rank %d: no memory for %d channels", comm->rank, n);
		return ncclSystemError;
	}
	comm->nchannels = n;
	for (int32_t c = 0; c < n; c++) {
		int32_t from = c % rings->nchannels;
		comm->channels[c] = (struct channel){
			.id = c,
			.ring_prev = rings->prev[from],
			.ring_next = rings->next[from],
			.ring_index = rings->index[from],
			.nic_in = comm->ring_graph->nic[from % found][0],
			.nic_out = comm->ring_graph->nic[from % found][1],
		};
	}
	channels_log(comm);
	return ncclSuccess;
}

static ncclResult_t channels_agree(struct ncclComm *comm, struct topo_rank_info *all,
				   struct topo_rings *rings)
{
	int32_t found = DEV_MAX_CHANNELS;
	topo_rank_info_fill(&all[comm->rank], comm->topo, comm->ring_graph,
			    comm->peers[comm->rank].host_hash, comm->local_rank,
			    comm->local_to_rank);
	ncclResult_t rc = bootstrap_all_gather(comm->bootstrap, all, sizeof *all);
	if (!rc)
		rc = topo_connect_rings(all, comm->nranks, comm->rank, rings);
	if (rc)
		return rc;
	for (int32_t r = 0; r < comm->nranks; r++)
		found = MIN_OF(found, all[r].nchannels);
	ASSERT(found > 0 && rings->nchannels >= found);
	return channels_fill(comm, rings, found);
}

static ncclResult_t channels_search(struct ncclComm *comm)
{
	comm->ring_graph = os_alloc(sizeof *comm->ring_graph, "ring graph");
	if (!comm->ring_graph) {
		WARN("rank %d: no memory for the ring graph", comm->rank);
		return ncclSystemError;
	}
	return topo_search_ring(comm->topo, comm->local_ranks < comm->nranks, comm->ring_graph);
}

ncclResult_t comm_channels_make(struct ncclComm *comm)
{
	ncclResult_t rc = channels_topology(comm);
	if (!rc)
		rc = channels_search(comm);
	if (rc)
		return rc;
	size_t gathered = (size_t)comm->nranks * sizeof(struct topo_rank_info);
	struct topo_rank_info *all =
		os_alloc(gathered + sizeof(struct topo_rings), "ring agreement");
	if (!all) {
		WARN("rank %d: no memory for the rings of %d ranks", comm->rank, comm->nranks);
		return ncclSystemError;
	}
	rc = channels_agree(comm, all, (struct topo_rings *)((char *)all + gathered));
	os_free(all);
	return rc;
}

/* ---- device
 * --------------------------------------------------------------------------------------- */

static void channel_stage(const struct ncclComm *comm, const struct channel *ch,
			  struct dev_channel *out)
{
	out->ring = (struct dev_ring){
		.prev = ch->ring_prev,
		.next = ch->ring_next,
		.index = ch->ring_index,
	};
	if (ch->ring_recv)
		out->ring_recv = ch->ring_recv->dev;
	if (ch->ring_send)
		out->ring_send = ch->ring_send->dev;
}

static ncclResult_t comm_abort_word_on_device(struct ncclComm *comm, uint64_t *address)
{
	void *p = NULL;
	ncclResult_t rc = comm_cuda(cudaHostGetDevicePointer(&p, comm->abort, 0),
				    "cudaHostGetDevicePointer of the abort word");
	if (!rc)
		*address = (uint64_t)(uintptr_t)p;
	return rc;
}

static ncclResult_t comm_dev_stage(struct ncclComm *comm)
{
	struct dev_comm *dev = comm->staging;
	struct dev_channel *channels = (void *)((char *)comm->staging + COMM_DEV_CHANNELS_AT);

	for (int32_t c = 0; c < comm->nchannels; c++)
		channel_stage(comm, &comm->channels[c], &channels[c]);
	*dev = (struct dev_comm){
		.magic = DEV_COMM_MAGIC,
		.rank = comm->rank,
		.nranks = comm->nranks,
		.nchannels = comm->nchannels,
		.channels = (uint64_t)(uintptr_t)comm->dev_channels,
		.warp_width = comm->peers[comm->rank].warp_width,
	};
	return comm_abort_word_on_device(comm, &dev->abort);
}

ncclResult_t comm_dev_make(struct ncclComm *comm)
{
	void *mem = NULL;
	size_t bytes = COMM_DEV_CHANNELS_AT + (size_t)comm->nchannels * sizeof(struct dev_channel);
	ncclResult_t rc =
		comm_cuda(cudaMalloc(&mem, bytes), "cudaMalloc of the device communicator");

	if (rc)
		return rc;
	comm->dev = mem;
	comm->dev_channels = (void *)((char *)mem + COMM_DEV_CHANNELS_AT);
	rc = comm_dev_stage(comm);
	if (!rc)
		rc = comm_cuda(cudaMemcpyAsync(mem, comm->staging, bytes, cudaMemcpyHostToDevice,
					       comm->internal_stream),
			       "cudaMemcpyAsync of the device communicator");
	if (!rc)
		rc = comm_cuda(cudaStreamSynchronize(comm->internal_stream),
			       "cudaStreamSynchronize after copying the device communicator");
	return rc;
}
