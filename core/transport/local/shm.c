/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm: two ranks of one host whose GPUs do not access each other's memory. They use host memory
 * that both GPUs have mapped. The sending kernel writes data and tail there, the receiving kernel
 * writes head. No host code runs in between.
 *
 * Each end brings its part of the memory, as with p2p: a control block per connection end
 * (dev_recv_mem of a receiving end, dev_send_mem of a sending end), then the buffers of the
 * receiving ends. Each kernel therefore polls memory that its own rank has allocated, and the data
 * are at the receiver. Ends of one peer, direction and index that are made together share a segment
 * (shm_segment.c). A segment is a file in /dev/shm or, with NCCL_CUMEM_HOST_ENABLE=1, memory of
 * cuMem, which does not need /dev/shm.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/base/text.h"
#include "core/transport/local/letters.h"
#include "core/transport/local/shm_internal.h"

#define SHM_INFO_MAGIC    0xd0de2005u
#define SHM_CUMEM_MAGIC   0xd0de2009u /* segment of cuMem; a letter brings its descriptor */
#define SHM_CONTROL_BYTES 512u
#define SHM_PAGE          4096u

/* Wire format: description of a connection's end. */
struct shm_info {
	uint32_t magic;
	int32_t rank, channel;
	uint16_t is_send, index;
	uint32_t number; /* number of the segment (struct shm_key) */
	uint32_t pad0;
	uint64_t bytes;   /* size of the segment */
	uint64_t control; /* offsets in the segment */
	uint64_t buffer[DEV_PROTO_COUNT];
	uint32_t step_bytes[DEV_PROTO_COUNT];
};
DOPPEL_STATIC_CHECK(sizeof(struct shm_info) <= CONNECT_INFO_BYTES, "shm_info fits");
DOPPEL_CHECK_OFFSET(struct shm_info, buffer, 40);

static bool shm_can_connect(const struct ncclComm *comm, int32_t from, int32_t to)
{
	const struct peer_info *a = &comm->peers[from], *b = &comm->peers[to];

	return from != to && a->host_hash == b->host_hash &&
	       shm_kind_between(comm, from, to) != SHM_NONE;
}

/* Two ranks that both have cuMem use it, even if they have the same /dev/shm. */
enum shm_kind shm_kind_between(const struct ncclComm *comm, int32_t a, int32_t b)
{
	const struct peer_info *one = &comm->peers[a], *other = &comm->peers[b];
	bool cumem = one->cumem_host && one->cumem_host == other->cumem_host;
	bool file = one->shm_device && one->shm_device == other->shm_device;

	if (!cumem && !file)
		return SHM_NONE;
	if (one->pid_hash == other->pid_hash)
		return SHM_PINNED;
	return cumem ? SHM_CUMEM : SHM_FILE;
}

/* ---- reserve -------------------------------------------------------------------------------- */

static bool shm_ends_alike(const struct conn *a, const struct conn *b)
{
	return a->peer == b->peer && a->index == b->index && a->is_send == b->is_send;
}

/* Makes a segment for n ends with one peer, direction and index. */
static ncclResult_t shm_reserve_alike(struct conn *const *conns, int n)
{
	uint64_t control = ALIGN_UP((uint64_t)n * SHM_CONTROL_BYTES, SHM_PAGE), buffers = 0;
	uint64_t offset[DEV_PROTO_COUNT];
	uint32_t step_bytes[DEV_PROTO_COUNT];

	for (int i = 0; i < n && !conns[i]->is_send; i++)
		buffers += transport_conn_layout(conns[i], step_bytes, offset);
	return shm_segment_make(conns[0], control, ALIGN_UP(buffers, SHM_PAGE));
}

static ncclResult_t shm_reserve(struct ncclComm *comm, struct conn *const *conns, int n)
{
	ncclResult_t rc = ncclSuccess;

	(void)comm;
	for (int i = 0, end; i < n && !rc; i = end) {
		for (end = i + 1; end < n && shm_ends_alike(conns[i], conns[end]);)
			end++;
		if (conns[i]->transport == &transport_shm)
			rc = shm_reserve_alike(conns + i, end - i);
	}
	return rc;
}

/* ---- set up --------------------------------------------------------------------------------- */

/* Gives the end its place in the segment. */
static void shm_place(const struct conn *c, struct shm_segment *s, struct shm_info *info)
{
	uint64_t bytes = transport_conn_layout(c, info->step_bytes, info->buffer);

	info->number = s->key.number;
	info->bytes = s->bytes;
	info->control = s->control_used;
	s->control_used += SHM_CONTROL_BYTES;
	for (int p = 0; p < DEV_PROTO_COUNT; p++)
		info->buffer[p] = c->is_send ? 0 : info->buffer[p] + s->buffer_used;
	if (!c->is_send)
		s->buffer_used += bytes;
	ASSERT(s->buffer_used <= s->bytes);
}

static struct dev_send_mem *shm_send_mem(uint8_t *mem, uint64_t control)
{
	return (struct dev_send_mem *)(mem + control);
}

static struct dev_recv_mem *shm_recv_mem(uint8_t *mem, uint64_t control)
{
	return (struct dev_recv_mem *)(mem + control);
}

/* Sets the fields of c->dev for this rank's segment; shm_connect sets those for the peer's. */
static void shm_fill_dev(struct conn *c, const struct shm_segment *s, const struct shm_info *info)
{
	c->dev.step = transport_first_step();
	memcpy(c->dev.step_bytes, info->step_bytes, sizeof c->dev.step_bytes);
	c->dev.peer = c->peer;
	c->dev.channel = c->channel;
	c->dev.index = c->index;
	if (c->is_send)
		c->dev.head = &shm_send_mem(s->device, info->control)->head;
	else
		c->dev.tail = &shm_recv_mem(s->device, info->control)->tail;
	for (int p = 0; p < DEV_PROTO_COUNT; p++)
		c->dev.buffer[p] = c->is_send ? NULL : s->device + info->buffer[p];
}

static uint32_t shm_magic_of(enum shm_kind kind)
{
	return kind == SHM_CUMEM ? SHM_CUMEM_MAGIC : SHM_INFO_MAGIC;
}

static ncclResult_t shm_setup(struct conn *c, struct connect_info *mine)
{
	struct shm_segment *s = shm_segment_of(c);
	struct shm_info info = {.magic = shm_magic_of(s->kind)};

	info.rank = c->comm->rank;
	info.channel = c->channel;
	info.is_send = c->is_send;
	info.index = c->index;
	shm_place(c, s, &info);
	shared_store_u64(c->is_send ? &shm_send_mem(s->mem, info.control)->head
				    : &shm_recv_mem(s->mem, info.control)->tail,
			 transport_first_step(), SHARED_RELEASE);
	for (int p = DEV_LL; p <= DEV_LL128 && !c->is_send; p++)
		transport_lines_init((enum dev_proto)p, s->mem + info.buffer[p],
				     (uint64_t)DEV_STEPS * info.step_bytes[p]);
	shm_fill_dev(c, s, &info);
	memset(mine, 0, sizeof *mine);
	memcpy(mine->bytes, &info, sizeof info);
	return s->kind == SHM_CUMEM ? letters_expect(c->comm) : ncclSuccess;
}

/* ---- connect -------------------------------------------------------------------------------- */

/* True if control block and buffers of the peer's end lie in its segment. A sending end has no
 * buffers. */
static bool shm_info_fits(const struct shm_info *info)
{
	if (info->bytes < SHM_CONTROL_BYTES || info->control > info->bytes - SHM_CONTROL_BYTES ||
	    info->control % SHM_CONTROL_BYTES || info->number >= SHM_SEGMENTS_MOST)
		return false;
	for (int p = 0; p < DEV_PROTO_COUNT && !info->is_send; p++) {
		uint64_t bytes = (uint64_t)DEV_STEPS * info->step_bytes[p];

		if (info->buffer[p] > info->bytes || bytes > info->bytes - info->buffer[p])
			return false;
	}
	return true;
}

static ncclResult_t shm_info_check(const struct conn *c, const struct shm_info *info)
{
	const struct ncclComm *comm = c->comm;

	if (info->magic != shm_magic_of(shm_kind_between(comm, comm->rank, c->peer)) ||
	    info->rank != c->peer || info->channel != c->channel || info->index != c->index ||
	    !!info->is_send == c->is_send || !shm_info_fits(info)) {
		WARN("rank %d: invalid shm description of channel %d from rank %d (magic %#x, rank "
		     "%d, channel %d, %llu bytes)",
		     comm->rank, c->channel, c->peer, info->magic, info->rank, info->channel,
		     (unsigned long long)info->bytes);
		return ncclInternalError;
	}
	return transport_steps_check(c, info->step_bytes);
}

static ncclResult_t shm_connect(struct conn *c, const struct connect_info *theirs, struct wait *w)
{
	struct shm_info info;
	struct shm_use *use;
	ncclResult_t rc;

	memcpy(&info, theirs->bytes, sizeof info);
	rc = shm_info_check(c, &info);
	if (!rc)
		rc = shm_segment_give(c, shm_segment_of(c));
	if (!rc)
		rc = shm_use_get(c,
				 &(struct shm_key){.owner = c->peer,
						   .user = c->comm->rank,
						   .is_send = !c->is_send,
						   .index = info.index,
						   .number = info.number},
				 info.bytes, &use, w);
	if (rc)
		return rc;
	text_set(c->via, sizeof c->via, use->kind == SHM_CUMEM ? "/CUMEM" : "");
	if (!c->is_send) {
		c->dev.head = &shm_send_mem(use->device, info.control)->head;
		return ncclSuccess;
	}
	c->dev.tail = &shm_recv_mem(use->device, info.control)->tail;
	for (int p = 0; p < DEV_PROTO_COUNT; p++)
		c->dev.buffer[p] = use->device + info.buffer[p];
	return ncclSuccess;
}

/* A connection owns no memory: shm_state_close frees segments. */
static void shm_close(struct conn *c)
{
	c->transport = NULL;
}

const struct transport transport_shm = {
	.name = "SHM/direct/direct",
	.can_connect = shm_can_connect,
	.send = {.setup = shm_setup, .connect = shm_connect, .close = shm_close},
	.recv = {.setup = shm_setup, .connect = shm_connect, .close = shm_close},
	.reserve = shm_reserve,
	.close = shm_state_close,
};
