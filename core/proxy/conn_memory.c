/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network connection's device, its memory that kernel and proxy both access, and the memory's
 * registration. The service task calls these functions. It makes no call that may wait for kernels,
 * so the main task allocates and frees (proxy_memory_make, proxy_memory_free), or a relay has
 * memory ready.
 *
 * head, tail and fifo are in pinned host memory, because the kernel and the proxy poll them. The
 * slots of SIMPLE and LL128 are in GPU memory if the NIC can reach it by the topology and the
 * registration succeeds. Otherwise they follow in the pinned block. The slots of LL are always in
 * the pinned block, because a sender's proxy reads the flags of every line.
 */
#include <cuda_runtime_api.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/mem/mem.h"
#include "core/proxy/relay/relay.h"
#include "core/transport/collnet/collnet.h"

#define PROXY_HOST_ALIGN  4096u
#define PROXY_MEMORY_WHAT "a network connection"

static ncclResult_t proxy_net_ready(struct proxy_state *p)
{
	ncclResult_t rc;

	if (p->net_ready)
		return ncclSuccess;
	rc = p->net->devices(p->comm, &p->net_devices);
	if (!rc)
		p->net_ready = true;
	return rc;
}

static ncclResult_t proxy_net_find(struct proxy_state *p, const char *name, int *dev,
				   struct net_props *props)
{
	for (*dev = 0; *dev < p->net_devices; ++*dev) {
		ncclResult_t rc = p->net->props(p->comm, *dev, props);

		if (rc || !strcmp(props->name, name))
			return rc;
	}
	*dev = -1;
	return ncclSuccess;
}

/* How the devices of a NIC reach the memory of GPUs. */
struct proxy_reach {
	bool gpu_memory;   /* all of them can register it */
	bool always_flush; /* one of them needs flushes on every GPU */
};

/* Finds the network's devices that belong to the topology's NIC `nic`. count 0: no such device. */
static ncclResult_t proxy_net_nic(struct proxy_state *p, int32_t nic, struct net_nic *out,
				  struct proxy_reach *reach)
{
	const struct topo_system *topo = p->comm->topo;
	char name[TOPO_NIC_NAME];

	memset(out, 0, sizeof *out);
	*reach = (struct proxy_reach){.gpu_memory = true};
	for (int32_t i = 0; topo_nic_device(topo, nic, i, name); i++) {
		struct net_props props;
		int dev;
		ncclResult_t rc = proxy_net_find(p, name, &dev, &props);

		if (rc)
			return rc;
		if (dev < 0 || out->count == p->net->merged)
			continue;
		out->dev[out->count++] = dev;
		reach->gpu_memory &= props.gpu_memory;
		reach->always_flush |= props.always_flush;
	}
	return ncclSuccess;
}

/* Logs that the network lacks some devices of a merged NIC. A port may be down, or not in
 * NCCL_IB_HCA. */
static void proxy_conn_say_missing(const struct proxy_conn *pc)
{
	const struct topo_system *topo = pc->comm->topo;
	char name[TOPO_NIC_NAME];
	int32_t count = 0;

	while (topo_nic_device(topo, pc->nic, count, name))
		count++;
	if (pc->net_nic.count < count)
		INFO(LOG_INIT | LOG_NET,
		     "rank %d channel %d: NIC has %d devices (%s), the network has %d of them",
		     pc->rank, pc->channel, count, topo_nic_name(topo, pc->nic), pc->net_nic.count);
}

/* A rank that sends through this one may see more NICs. */
static const char *proxy_nic_name(const struct proxy_conn *pc)
{
	const struct topo_system *topo = pc->comm->topo;

	return pc->nic < topo_nic_count(topo) ? topo_nic_name(topo, pc->nic)
					      : "that of the rank that sends through this one";
}

/* Chooses the nearest NIC that the network has, because it does not have the channel's NIC. Causes:
 * NCCL_IB_HCA excludes it, or its port is down. */
static ncclResult_t proxy_conn_other_nic(struct proxy_conn *pc, struct proxy_reach *reach)
{
	const struct topo_system *topo = pc->comm->topo;
	int32_t best = -1;

	for (int32_t n = 0; n < topo_nic_count(topo); n++) {
		struct net_nic found;
		ncclResult_t rc = proxy_net_nic(pc->proxy, n, &found, reach);

		if (rc)
			return rc;
		if (found.count &&
		    (best < 0 || topo_nic_path(topo, pc->comm->local_rank, n) <
					 topo_nic_path(topo, pc->comm->local_rank, best)))
			best = n;
	}
	if (best < 0) {
		WARN("rank %d channel %d: none of the topology's NICs (%s...) is among the %d "
		     "devices "
		     "of the network %s",
		     pc->rank, pc->channel, proxy_nic_name(pc), pc->proxy->net_devices,
		     pc->proxy->net->name);
		return ncclSystemError;
	}
	INFO(LOG_NET, "rank %d channel %d: uses NIC %s, because the network does not have %s",
	     pc->rank, pc->channel, topo_nic_name(topo, best), proxy_nic_name(pc));
	pc->nic = best;
	return proxy_net_nic(pc->proxy, best, &pc->net_nic, reach);
}

/* Decides the place of each buffer. Lines that the proxy reads stay in host memory. */
static void proxy_conn_place(struct proxy_conn *pc, bool on_gpu)
{
	for (int p = 0; p < DEV_PROTO_COUNT; p++)
		pc->buffer[p].on_gpu = on_gpu && !proxy_protocols[p].lines;
}

/* Finds the network's devices by the topology's name for the channel's NIC. Decides whether the
 * slots can be on the GPU. */
ncclResult_t proxy_conn_find_device(struct proxy_conn *pc)
{
	const struct topo_system *topo = pc->comm->topo;
	struct proxy_reach reach = {0};
	bool on_gpu;
	ncclResult_t rc = proxy_net_ready(pc->proxy);

	if (!rc)
		rc = proxy_net_nic(pc->proxy, pc->nic, &pc->net_nic, &reach);
	if (!rc && !pc->net_nic.count)
		rc = proxy_conn_other_nic(pc, &reach);
	if (rc)
		return rc;
	if (pc->net == &net_collnet)
		collnet_reach(pc->comm->collnet, pc->channel, &reach.gpu_memory,
			      &reach.always_flush);
	proxy_conn_say_missing(pc);
	/* Rare: staged through host memory, as if the NIC did not reach the GPU. */
	on_gpu = reach.gpu_memory && topo_gdr_ok(topo, pc->comm->local_rank, pc->nic) &&
		 !OS_BUGGIFY("proxy.no_gpu_direct", "a connection's slots are in host memory");
	proxy_conn_place(pc, on_gpu);
	pc->flush = on_gpu && !pc->is_send &&
		    (reach.always_flush || topo_needs_flush(topo, pc->comm->local_rank)) &&
		    !param_bool(PARAM_GDR_FLUSH_DISABLE);
	return ncclSuccess;
}

static void proxy_conn_memory_init(struct proxy_conn *pc)
{
	pc->send_mem = pc->memory.host;
	pc->recv_mem = (struct dev_recv_mem *)(pc->send_mem + 1);
	memset(pc->memory.host, 0, sizeof *pc->send_mem + sizeof *pc->recv_mem);
	for (int i = 0; i < DEV_STEPS; i++)
		shared_store_u32(&pc->recv_mem->fifo[i].size, DEV_FIFO_SIZE_NONE, SHARED_RELAXED);
	shared_store_u64(&pc->send_mem->head, pc->step, SHARED_RELAXED);
	shared_store_u64(&pc->recv_mem->tail, pc->step, SHARED_RELAXED);
}

/* Labels a word that kernel and proxy wait for with the connection, and with its relay. */
static void proxy_conn_label(const struct proxy_conn *pc, const void *word, const char *what)
{
	os_label(word, &(struct os_label){.what = what,
					  .rank = pc->rank,
					  .peer = pc->peer,
					  .channel = pc->channel,
					  .number = pc->proxy->relay ? pc->comm->rank : -1});
}

static void proxy_conn_label_words(const struct proxy_conn *pc)
{
	const char *head = pc->is_send ? "proxy send head" : "proxy recv head";
	const char *tail = pc->is_send ? "proxy send tail" : "proxy recv tail";

	if (pc->proxy->relay) { /* a relay has sending ends only */
		head = "proxy send head by relay";
		tail = "proxy send tail by relay";
	}
	proxy_conn_label(pc, &pc->send_mem->head, head);
	proxy_conn_label(pc, &pc->recv_mem->tail, tail);
}

/* Returns the bytes that a buffer occupies in the pinned block. */
static size_t proxy_buffer_host_bytes(const struct proxy_buffer *b)
{
	return b->on_gpu ? 0 : ALIGN_UP(b->bytes, (size_t)PROXY_HOST_ALIGN);
}

static size_t proxy_conn_host_bytes(const struct proxy_conn *pc)
{
	size_t bytes = PROXY_HOST_ALIGN;

	for (int p = 0; p < DEV_PROTO_COUNT; p++)
		bytes += proxy_buffer_host_bytes(&pc->buffer[p]);
	return bytes;
}

/* Returns the bytes that a buffer occupies on the GPU. They are whole pages, because a dma-buf
 * is. */
static size_t proxy_buffer_gpu_bytes(const struct proxy_buffer *b)
{
	return b->on_gpu ? ALIGN_UP(b->bytes, MEM_PAGE_BYTES) : 0;
}

static size_t proxy_conn_gpu_bytes(const struct proxy_conn *pc)
{
	size_t bytes = 0;

	for (int p = 0; p < DEV_PROTO_COUNT; p++)
		bytes += proxy_buffer_gpu_bytes(&pc->buffer[p]);
	return bytes;
}

size_t proxy_gpu_bytes(const uint32_t step_bytes[DEV_PROTO_COUNT])
{
	size_t bytes = 0;

	for (int p = 0; p < DEV_PROTO_COUNT; p++)
		bytes += proxy_protocols[p].lines
				 ? 0
				 : ALIGN_UP((size_t)DEV_STEPS * step_bytes[p], MEM_PAGE_BYTES);
	return bytes;
}

/* ---- main task ------------------------------------------------------------------------------- */

ncclResult_t proxy_memory_make(const struct proxy_conn *pc, struct proxy_memory *m)
{
	size_t gpu = proxy_conn_gpu_bytes(pc);
	ncclResult_t rc = mem_host_alloc(&m->host, proxy_conn_host_bytes(pc), PROXY_MEMORY_WHAT);

	m->gpu = NULL;
	m->gpu_bytes = 0;
	if (rc || !gpu)
		return rc;
	rc = mem_device_alloc(&m->gpu, gpu + MEM_PAGE_BYTES, PROXY_MEMORY_WHAT);
	if (rc) {
		(void)mem_host_free(m->host, PROXY_MEMORY_WHAT);
		m->host = NULL;
	}
	m->gpu_bytes = rc ? 0 : gpu + MEM_PAGE_BYTES;
	return rc;
}

ncclResult_t proxy_memory_free(struct proxy_memory *m)
{
	ncclResult_t gpu = mem_device_free(m->gpu, PROXY_MEMORY_WHAT);
	ncclResult_t host = mem_host_free(m->host, PROXY_MEMORY_WHAT);

	*m = (struct proxy_memory){.host = NULL};
	return gpu ? gpu : host;
}

/* ---- placement ------------------------------------------------------------------------------- */

/* Places the buffers in the pinned block, one after the other, each at the start of a page. */
static void proxy_conn_place_host(struct proxy_conn *pc)
{
	uint8_t *at = (uint8_t *)pc->memory.host + PROXY_HOST_ALIGN;

	for (int p = 0; p < DEV_PROTO_COUNT; p++) {
		struct proxy_buffer *b = &pc->buffer[p];
		size_t bytes = proxy_buffer_host_bytes(b);

		if (!bytes)
			continue;
		b->at = at;
		at += bytes;
		if (!proxy_protocols[p].lines)
			continue;
		transport_lines_init((enum dev_proto)p, b->at, b->bytes);
		shared_note_lines(b->at, bytes);
	}
}

/* Places the buffers on the GPU, each at the start of a page. */
static void proxy_conn_place_gpu(struct proxy_conn *pc)
{
	uint8_t *at = (uint8_t *)ALIGN_UP((uintptr_t)pc->memory.gpu, (uintptr_t)MEM_PAGE_BYTES);

	for (int p = 0; p < DEV_PROTO_COUNT; p++) {
		struct proxy_buffer *b = &pc->buffer[p];

		if (!proxy_buffer_gpu_bytes(b))
			continue;
		b->at = at;
		at += proxy_buffer_gpu_bytes(b);
	}
}

static ncclResult_t proxy_conn_lay_out(struct proxy_conn *pc)
{
	ncclResult_t rc = ncclSuccess;

	if (pc->proxy->relay)
		rc = relay_memory_make(pc, proxy_conn_host_bytes(pc), proxy_conn_gpu_bytes(pc));
	if (rc)
		return rc;
	proxy_conn_memory_init(pc);
	proxy_conn_place_host(pc);
	proxy_conn_place_gpu(pc);
	proxy_conn_label_words(pc);
	return ncclSuccess;
}

static ncclResult_t proxy_buffer_register(struct proxy_conn *pc, struct proxy_buffer *b)
{
	enum net_memory where = NET_HOST;
	ncclResult_t rc;

	if (!b->bytes)
		return ncclSuccess;
	if (b->on_gpu)
		where = pc->flush ? NET_GPU_FLUSH : NET_GPU;
	rc = pc->net->reg_mr(pc->net_comm, b->at, b->bytes, where, &b->mr);
	if (rc)
		b->mr = NULL;
	return rc;
}

static ncclResult_t proxy_conn_register(struct proxy_conn *pc)
{
	ncclResult_t rc = proxy_conn_lay_out(pc);

	for (int p = 0; p < DEV_PROTO_COUNT && !rc; p++)
		rc = proxy_buffer_register(pc, &pc->buffer[p]);
	return rc;
}

/* Moves the slots to host memory. The NIC reaches the GPU by the topology, but the registration
 * failed. */
static void proxy_conn_stage_in_host(struct proxy_conn *pc)
{
	const struct ncclComm *comm = pc->comm;

	OS_PROBE("proxy.staged_in_host",
		 "a NIC cannot register a GPU's memory; host memory is used", true);
	INFO(LOG_INIT | LOG_NET,
	     "rank %d channel %d: NIC %s does not reach the memory of GPU %s: the buffer is in "
	     "host memory; GPU memory needs dma-bufs of the kernel or nvidia-peermem; "
	     "NCCL_NET_GDR_LEVEL=LOC skips the attempt",
	     pc->rank, pc->channel, topo_nic_name(comm->topo, pc->nic),
	     comm->peers[comm->rank].bus_id);
	proxy_conn_unprepare(pc);
	proxy_conn_place(pc, false);
	pc->flush = false;
	pc->staged = true;
}

ncclResult_t proxy_conn_prepare(struct proxy_conn *pc, bool *again)
{
	ncclResult_t rc = proxy_conn_register(pc);

	*again = rc == ncclInvalidUsage && pc->buffer[DEV_SIMPLE].on_gpu && !pc->staged;
	if (!*again)
		return rc;
	proxy_conn_stage_in_host(pc);
	return ncclSuccess;
}

/* Undoes the completed part of prepare. */
void proxy_conn_unprepare(struct proxy_conn *pc)
{
	for (int p = DEV_PROTO_COUNT - 1; p >= 0; p--) {
		struct proxy_buffer *b = &pc->buffer[p];

		if (b->mr)
			(void)pc->net->dereg_mr(pc->net_comm, b->mr);
		b->mr = b->at = NULL;
	}
	if (pc->send_mem) {
		os_unlabel(&pc->send_mem->head);
		os_unlabel(&pc->recv_mem->tail);
	}
	if (pc->proxy->relay)
		relay_memory_free(pc);
	pc->memory = (struct proxy_memory){.host = NULL};
	pc->send_mem = NULL;
	pc->recv_mem = NULL;
}
