/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p: two GPUs of one host that access each other's memory. The sending kernel writes data and
 * tail into the receiver's memory, the receiving kernel writes head into the sender's. No host code
 * runs in between.
 *
 * The p2p connections that a rank makes together share one device allocation, a pool. It has a
 * 512-byte control block per connection end: dev_recv_mem of a receiving end, dev_send_mem of a
 * sending end. The buffers of the receiving ends follow: all of LL, all of LL128, then all of
 * SIMPLE. Lines of LL and LL128 begin with an old flag.
 *
 * A peer in another process opens the pool once, for any number of connections. It uses a
 * descriptor (letters.h) or, if a rank of the host has no cuMem, CUDA IPC. A peer in the same
 * process uses the pool's own addresses, because the process that exported memory cannot open it
 * with CUDA IPC. It holds a reference, and the last user frees the pool. A rank may therefore leave
 * while its neighbour's kernel still writes.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/base/text.h"
#include "core/mem/cumem.h"
#include "core/mem/mem.h"
#include "core/rank/cuda_result.h"
#include "core/transport/local/letters.h"
#include "core/transport/local/p2p_internal.h"

#define P2P_CONTROL_BYTES 512u
#define P2P_POOL_ALIGN    (2u << 20)

static bool p2p_can_connect(const struct ncclComm *comm, int32_t from, int32_t to)
{
	int32_t a = transport_local_rank(comm, from), b = transport_local_rank(comm, to);

	if (comm->peers[from].host_hash != comm->peers[to].host_hash || a < 0 || b < 0)
		return false;
	return topo_p2p_ok(comm->topo, a, b);
}

/* ---- the pool ------------------------------------------------------------------------------- */

/* Fills control blocks and lines with the state before the first step. The first word of each
 * control block, head or tail, is the number of that step. */
static void p2p_image_fill(const struct p2p_pool *pool, uint8_t *image)
{
	uint64_t first = transport_first_step();

	for (uint64_t at = 0; at < pool->used[DEV_LL]; at += P2P_CONTROL_BYTES)
		memcpy(image + at, &first, sizeof first);
	transport_lines_init(DEV_LL, image + pool->used[DEV_LL],
			     pool->used[DEV_LL128] - pool->used[DEV_LL]);
	transport_lines_init(DEV_LL128, image + pool->used[DEV_LL128],
			     pool->used[DEV_SIMPLE] - pool->used[DEV_LL128]);
}

static ncclResult_t p2p_image_copy(struct ncclComm *comm, const struct p2p_pool *pool)
{
	uint64_t bytes = pool->state_bytes;
	uint8_t *image = os_alloc(bytes, "p2p control blocks and lines");
	ncclResult_t rc;

	if (!image) {
		WARN("no memory for %llu bytes of p2p control blocks and lines",
		     (unsigned long long)bytes);
		return ncclSystemError;
	}
	p2p_image_fill(pool, image);
	rc = cuda_result(cudaMemcpyAsync(pool->mem, image, bytes, cudaMemcpyHostToDevice,
					 comm->internal_stream),
			 "cudaMemcpyAsync of p2p control blocks");
	if (!rc)
		rc = cuda_result(cudaStreamSynchronize(comm->internal_stream),
				 "waiting for the copy of p2p control blocks");
	os_free(image);
	return rc;
}

/* Initialises control blocks and lines, before any end has its place in the pool. */
static ncclResult_t p2p_pool_init(struct ncclComm *comm, const struct p2p_pool *pool)
{
	ncclResult_t rc;

	if (transport_first_step())
		return p2p_image_copy(comm, pool);
	rc = cuda_result(cudaMemsetAsync(pool->mem, 0, pool->state_bytes, comm->internal_stream),
			 "cudaMemsetAsync of p2p control blocks");
	return rc ? rc
		  : cuda_result(cudaStreamSynchronize(comm->internal_stream),
				"waiting for the memset of p2p control blocks");
}

static ncclResult_t p2p_pool_fill(struct ncclComm *comm, struct p2p_pool *pool)
{
	const char *what = "p2p connection memory";
	ncclResult_t rc =
		pool->cumem ? cumem_alloc(CUMEM_DEVICE, (void **)&pool->mem, pool->bytes, what)
			    : mem_device_alloc((void **)&pool->mem, pool->bytes, what);

	if (rc)
		return rc;
	comm->gpu_bytes += pool->bytes;
	return p2p_pool_init(comm, pool);
}

/* True if all ranks of the host can have memory of cuMem, and receive its descriptors. They get the
 * same answer. */
static bool p2p_has_cumem(const struct ncclComm *comm)
{
	const uint64_t space = comm->peers[comm->rank].cumem_device;
	bool has = space != 0;

	for (int32_t i = 0; i < comm->local_ranks; i++)
		has &= comm->peers[comm->local_to_rank[i]].cumem_device == space;
	return has;
}

ncclResult_t p2p_state_make(struct ncclComm *comm)
{
	struct p2p_state *st;
	struct registry_node *first;

	if (comm->p2p)
		return ncclSuccess;
	st = os_alloc(sizeof *st, "p2p state");
	if (!st) {
		WARN("no memory for the p2p state");
		return ncclSystemError;
	}
	first = registry_lock();
	comm->p2p = st;
	registry_unlock(first);
	return ncclSuccess;
}

/* Adds a pool for `ends` ends, with bytes[] of buffers by protocol. Neighbours learn of the pool
 * only through the connections in it. After a failure p2p_state_close releases it. */
static ncclResult_t p2p_pool_make(struct ncclComm *comm, uint64_t ends,
				  const uint64_t bytes[DEV_PROTO_COUNT])
{
	struct p2p_pool *pool = os_alloc(sizeof *pool, "p2p pool");
	uint64_t control = ALIGN_UP(ends * P2P_CONTROL_BYTES, 65536);
	struct registry_node *first;

	if (!pool) {
		WARN("no memory for the p2p pool");
		return ncclSystemError;
	}
	shared_store_u32(&pool->refs, 1, SHARED_RELAXED);
	pool->number = comm->p2p->pools ? comm->p2p->pools->number + 1 : 0;
	pool->used[DEV_LL] = control;
	pool->used[DEV_LL128] = ALIGN_UP(control + bytes[DEV_LL], 65536);
	pool->used[DEV_SIMPLE] = ALIGN_UP(pool->used[DEV_LL128] + bytes[DEV_LL128], 65536);
	pool->state_bytes = pool->used[DEV_SIMPLE];
	pool->bytes = ALIGN_UP(pool->used[DEV_SIMPLE] + bytes[DEV_SIMPLE], P2P_POOL_ALIGN);
	first = registry_lock();
	pool->next = comm->p2p->pools;
	comm->p2p->pools = pool;
	registry_unlock(first);
	pool->cumem = p2p_has_cumem(comm);
	return p2p_pool_fill(comm, pool);
}

/* ---- buffers -------------------------------------------------------------------------------- */

/* True if the sender writes messages in SIMPLE, or results of a ring, straight into the receiver's
 * buffer (core/device/prims/prims_put.h, prims_result.h). The ranks must be in one process: they
 * then have one environment, so both ends compute the same answer. Peer access makes addresses of
 * cudaMalloc valid on both GPUs. NVLink is required because both GPUs add to the same words. */
static bool p2p_puts(const struct conn *c)
{
	return (c->index == CONN_PAIR || c->index == CONN_COLLECTIVE) &&
	       transport_same_process(c->comm, c->peer) &&
	       transport_pair_has_nvlink(c->comm, c->peer) && !param_bool(PARAM_P2P_DIRECT_DISABLE);
}

/* Returns the bytes of a connection's buffer with steps of `step_bytes`. A connection for messages
 * that are put needs no slots; a ring needs them for chunks that are not results. */
static uint64_t p2p_bytes_of(const struct conn *c, enum dev_proto proto, uint32_t step_bytes)
{
	const bool none = proto == DEV_SIMPLE && c->index == CONN_PAIR && p2p_puts(c);

	return none ? 0 : (uint64_t)DEV_STEPS * step_bytes;
}

static uint64_t p2p_buffer_bytes(const struct conn *c, enum dev_proto proto)
{
	return p2p_bytes_of(c, proto, transport_conn_step_bytes(c, proto));
}

static ncclResult_t p2p_reserve(struct ncclComm *comm, struct conn *const *conns, int n)
{
	uint64_t ends = 0, bytes[DEV_PROTO_COUNT] = {0};
	ncclResult_t rc;

	for (int i = 0; i < n; i++) {
		if (conns[i]->transport != &transport_p2p)
			continue;
		ends++;
		for (int p = 0; p < DEV_PROTO_COUNT && !conns[i]->is_send; p++)
			bytes[p] += p2p_buffer_bytes(conns[i], (enum dev_proto)p);
	}
	if (!ends)
		return ncclSuccess;
	rc = p2p_state_make(comm);
	return rc ? rc : p2p_pool_make(comm, ends, bytes);
}

/* ---- set up and connect --------------------------------------------------------------------- */

/* Gives the end its place in the rank's newest pool. */
static void p2p_place(const struct conn *c, struct p2p_info *info)
{
	struct p2p_pool *pool = c->comm->p2p->pools;

	info->pool = pool->number;
	info->pool_bytes = pool->bytes;
	info->control = pool->control_used;
	pool->control_used += P2P_CONTROL_BYTES;
	for (int p = 0; p < DEV_PROTO_COUNT; p++) {
		info->step_bytes[p] = transport_conn_step_bytes(c, (enum dev_proto)p);
		info->buffer[p] = c->is_send ? 0 : pool->used[p];
		if (!c->is_send)
			pool->used[p] += p2p_buffer_bytes(c, (enum dev_proto)p);
		ASSERT(pool->used[p] <= pool->bytes);
	}
}

/* True if a line of 128 bytes arrives whole: the path from the sender is NVLink, directly or
 * through one other GPU. Both ends get the same answer, although a path back may differ. */
static bool p2p_whole_lines(const struct conn *c)
{
	int32_t self = transport_local_rank(c->comm, c->comm->rank);
	int32_t peer = transport_local_rank(c->comm, c->peer);

	return topo_gpu_path(c->comm->topo, c->is_send ? self : peer, c->is_send ? peer : self) <=
	       TOPO_PATH_NVB;
}

ncclResult_t transport_memory_lend(struct ncclComm *comm, int32_t peer, cudaIpcMemHandle_t *handle,
				   void *mem, const char *what)
{
	ncclResult_t rc = p2p_state_make(comm);

	if (rc)
		return rc;
	comm->p2p->importer[transport_local_rank(comm, peer)] = true;
	return mem_export(handle, mem, what);
}

/* Fills in the data with which a neighbour in another process opens the pool. */
static ncclResult_t p2p_export(const struct conn *c, struct p2p_info *info)
{
	struct p2p_state *st = c->comm->p2p;

	if (transport_same_process(c->comm, c->peer))
		return ncclSuccess;
	if (st->pools->cumem) {
		info->magic = P2P_CUMEM_MAGIC;
		return letters_expect(c->comm);
	}
	return transport_memory_lend(c->comm, c->peer, &info->handle, st->pools->mem,
				     "p2p connection memory");
}

/* Sets the fields of conn->dev for memory of this rank; p2p_connect sets those for the peer's
 * memory. */
static ncclResult_t p2p_setup(struct conn *c, struct connect_info *mine)
{
	struct p2p_info info = {.magic = P2P_INFO_MAGIC};
	uint8_t *mem = c->comm->p2p->pools->mem;
	ncclResult_t rc;

	info.rank = c->comm->rank;
	info.channel = c->channel;
	info.is_send = c->is_send;
	info.index = c->index;
	p2p_place(c, &info);
	rc = p2p_export(c, &info);
	c->dev.step = transport_first_step();
	memcpy(c->dev.step_bytes, info.step_bytes, sizeof c->dev.step_bytes);
	c->dev.peer = c->peer;
	c->dev.channel = c->channel;
	c->dev.index = c->index;
	c->dev.whole_lines = p2p_whole_lines(c);
	c->dev.put = p2p_puts(c);
	if (c->is_send)
		c->dev.head = &((struct dev_send_mem *)(mem + info.control))->head;
	else
		c->dev.tail = &((struct dev_recv_mem *)(mem + info.control))->tail;
	for (int p = 0; p < DEV_PROTO_COUNT; p++)
		c->dev.buffer[p] = c->is_send ? NULL : mem + info.buffer[p];
	memset(mine, 0, sizeof *mine);
	memcpy(mine->bytes, &info, sizeof info);
	return rc;
}

/* True if the buffers of the peer's receiving end lie in its pool. A sending end has no buffers. */
static bool p2p_buffers_fit(const struct conn *c, const struct p2p_info *info)
{
	for (int p = 0; p < DEV_PROTO_COUNT && !info->is_send; p++) {
		uint64_t bytes = p2p_bytes_of(c, (enum dev_proto)p, info->step_bytes[p]);

		if (info->buffer[p] > info->pool_bytes ||
		    bytes > info->pool_bytes - info->buffer[p])
			return false;
	}
	return true;
}

static ncclResult_t p2p_info_check(const struct conn *c, const struct p2p_info *info)
{
	if ((info->magic != P2P_INFO_MAGIC && info->magic != P2P_CUMEM_MAGIC) ||
	    info->rank != c->peer || info->channel != c->channel || info->index != c->index ||
	    !!info->is_send == c->is_send || info->control > info->pool_bytes - P2P_CONTROL_BYTES ||
	    !p2p_buffers_fit(c, info)) {
		WARN("rank %d: invalid p2p description of channel %d from rank %d (magic %#x, rank "
		     "%d, channel %d)",
		     c->comm->rank, c->channel, c->peer, info->magic, info->rank, info->channel);
		return ncclInternalError;
	}
	return transport_steps_check(c, info->step_bytes);
}

/* Posts the descriptor of the newest pool to a neighbour in another process, once. */
static ncclResult_t p2p_give(struct ncclComm *comm, int32_t peer)
{
	struct p2p_pool *pool = comm->p2p->pools;
	const struct letter_memory m = {LETTER_POOL, pool->number, pool->bytes};
	bool *given = &pool->given[transport_local_rank(comm, peer)];
	ncclResult_t rc = *given ? ncclSuccess : letters_give(comm, peer, &m, pool->mem);

	*given = true;
	return rc;
}

static ncclResult_t p2p_connect(struct conn *c, const struct connect_info *theirs, struct wait *w)
{
	struct p2p_info info;
	uint8_t *mem;
	ncclResult_t rc;

	memcpy(&info, theirs->bytes, sizeof info);
	rc = p2p_info_check(c, &info);
	if (!rc && info.magic == P2P_CUMEM_MAGIC)
		rc = p2p_give(c->comm, c->peer);
	if (!rc)
		rc = p2p_import_get(c, &info, &mem, w);
	if (rc)
		return rc;
	text_set(c->via, sizeof c->via,
		 transport_same_process(c->comm, c->peer) ? "/direct pointer"
		 : info.magic == P2P_CUMEM_MAGIC          ? "/CUMEM"
							  : "/IPC");
	if (c->is_send) {
		for (int p = 0; p < DEV_PROTO_COUNT; p++)
			c->dev.buffer[p] = mem + info.buffer[p];
		c->dev.tail = &((struct dev_recv_mem *)(mem + info.control))->tail;
	} else {
		c->dev.head = &((struct dev_send_mem *)(mem + info.control))->head;
	}
	return ncclSuccess;
}

/* ---- teardown ------------------------------------------------------------------------------- */

/* A connection owns no memory: p2p_state_close frees pools and imports. */
static void p2p_close(struct conn *c)
{
	c->transport = NULL;
}

const struct transport transport_p2p = {
	.name = "P2P",
	.can_connect = p2p_can_connect,
	.send = {.setup = p2p_setup, .connect = p2p_connect, .close = p2p_close},
	.recv = {.setup = p2p_setup, .connect = p2p_connect, .close = p2p_close},
	.reserve = p2p_reserve,
	.leave = p2p_imports_close,
	.left = p2p_importers_left,
	.close = p2p_state_close,
};
