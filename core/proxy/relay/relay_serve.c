/* SPDX-License-Identifier: BSD-3-Clause */
/* The relay's end of PXN (relay.h), while it runs: what service and progress take from the
 * areas. */
#include "core/proxy/relay/relay_internal.h"

#include <inttypes.h>

#include "core/base/log.h"
#include "core/mem/mem.h"

#define RELAY_WHAT "a relay's connection"

/* ---- service --------------------------------------------------------------------------------- */

void relay_service_join(struct proxy_gpu *p, struct relay *r)
{
	r->service_next = p->service_relays;
	p->service_relays = r;
	p->service_relay_count++;
}

void relay_service_leave(struct proxy_gpu *p, struct relay *r)
{
	struct relay **at = &p->service_relays;

	while (*at != r)
		at = &(*at)->service_next;
	*at = r->service_next;
	p->service_relay_count--;
	r->over = true;
	if (r->room)
		p->store->room += r->room;
	r->room = 0;
}

/* Returns the call for the request in the area; NULL if the request is invalid. */
static struct proxy_call *relay_call_of(struct relay *r)
{
	const struct relay_area *a = r->area;
	uint32_t conn = a->conn;
	struct proxy_call *call = &r->setup;

	if (a->m.command == PROXY_CONNECT && conn < r->conns)
		call = &r->conn[conn]->relayed;
	else if (a->m.command != PROXY_SETUP || r->conns == RELAY_CONNS_MOST)
		return NULL;
	*call = (struct proxy_call){.m = a->m, .proxy = &r->state, .relay = r};
	if (call != &r->setup) {
		call->conn = r->conn[conn];
		call->m.conn = call->conn->number;
		call->conn->host_name = a->name;
	}
	return call;
}

static void relay_room_answer(struct relay *r)
{
	struct relay_area *a = r->area;

	a->conn = relay_store_reserve(r, a->conn);
	shared_note_write(&a->conn, sizeof a->conn);
	shared_store_u32(&a->answers, r->requests, SHARED_RELEASE);
}

static void relay_request_take(struct proxy_gpu *p, struct relay *r)
{
	struct proxy_call *call = relay_call_of(r);
	bool connects = call && call != &r->setup;

	if (r->area->m.command == PROXY_RESERVE) {
		relay_room_answer(r);
		return;
	}
	if (!call) {
		WARN("rank %d: invalid request from rank %d, which sends through this one (command "
		     "%u, connection %u of %u)",
		     r->state.comm->rank, r->user, r->area->m.command, r->area->conn, r->conns);
		relay_fail(r);
		rank_set_async_error(r->state.comm, ncclInternalError);
		return;
	}
	if (connects) /* the next request may arrive while this one waits */
		shared_store_u32(&r->area->answers, r->requests, SHARED_RELEASE);
	proxy_service_request(p, call);
}

bool relay_service_take(struct proxy_gpu *p)
{
	bool any = false;

	for (struct relay *r = p->service_relays; r; r = r->service_next) {
		uint32_t requests = shared_load_u32(&r->area->requests, SHARED_ACQUIRE);

		if (requests == r->requests)
			continue;
		shared_note_read(&r->area->m,
				 sizeof r->area->m + sizeof r->area->conn + sizeof r->area->name);
		r->requests = requests;
		r->request_wait.want = requests;
		relay_request_take(p, r);
		any = true;
	}
	return any;
}

void relay_service_waits(const struct proxy_gpu *p, struct proxy_waits *waits)
{
	for (const struct relay *r = p->service_relays; r; r = r->service_next)
		proxy_waits_add(waits, &r->request_wait, r->user);
	for (const struct relay_state *st = p->service_boards; st; st = st->service_next)
		proxy_waits_add(waits, &st->knock_wait, st->comm->rank);
}

static void relay_memory_describe(const struct relay *r, const struct proxy_conn *pc,
				  struct relay_memory *m)
{
	const void *gpu = pc->conn_index == CONN_PAIR ? r->state.gpu->store->mem : r->pool;

	*m = (struct relay_memory){.host_bytes = pc->host_bytes};
	for (int p = 0; p < DEV_PROTO_COUNT; p++) {
		const struct proxy_buffer *b = &pc->buffer[p];
		const void *from = b->on_gpu ? gpu : pc->memory.host;

		if (!b->at)
			continue;
		m->on_gpu |= b->on_gpu ? 1u << p : 0;
		m->offset[p] = (uint64_t)(b->at - (const uint8_t *)from);
	}
	if (r->in_process)
		m->host = (uint64_t)(uintptr_t)pc->memory.host;
}

static void relay_answer_setup(struct relay *r, struct proxy_conn *pc)
{
	struct relay_area *a = r->area;

	if (pc) {
		pc->relay_conn = a->conn = r->conns;
		r->conn[r->conns++] = pc;
	}
	a->m = r->setup.m;
	shared_note_write(&a->m, sizeof a->m + sizeof a->conn);
	shared_store_u32(&a->answers, r->requests, SHARED_RELEASE);
}

void relay_answer(struct proxy_call *call, struct proxy_conn *pc)
{
	struct relay *r = call->relay;
	struct relay_answer *answer;

	if (call == &r->setup) {
		relay_answer_setup(r, pc);
		return;
	}
	answer = &r->area->answer[call->conn->relay_conn];
	answer->result = call->m.result;
	if (!answer->result)
		relay_memory_describe(r, call->conn, &answer->memory);
	shared_note_write(&answer->result, sizeof answer->result + sizeof answer->memory);
	shared_store_u32(&answer->done, 1, SHARED_RELEASE);
}

/* Allocates a connection's host memory without CUDA, which may wait for kernels: the user pins it.
 * The size is in whole pages, because it is pinned. Within a process the area owns it, and it is
 * freed when both ranks have left. Either may leave first, and the user unpins it. */
static ncclResult_t relay_host_make(struct proxy_conn *pc, size_t bytes)
{
	const struct relay *r = pc->proxy->relay;
	size_t whole = ALIGN_UP(bytes, MEM_PAGE_BYTES) + MEM_PAGE_BYTES;
	void **made = &r->area->answer[pc->relay_conn].host_made;
	ncclResult_t rc;

	if (!r->in_process) {
		pc->host_bytes = bytes;
		rc = relay_segment_make(pc->comm, r->user, pc->host_name, bytes, &pc->host_made);
		pc->memory.host = pc->host_made;
		return rc;
	}
	os_free(*made); /* memory of an attempt with slots on the GPU, which the user never saw */
	*made = os_alloc(whole, RELAY_WHAT);
	if (!*made) {
		WARN("rank %d: no memory for a connection of rank %d through this one",
		     pc->comm->rank, r->user);
		return ncclSystemError;
	}
	pc->host_bytes = ALIGN_UP(bytes, MEM_PAGE_BYTES);
	pc->memory.host = (void *)ALIGN_UP((uintptr_t)*made, (uintptr_t)MEM_PAGE_BYTES);
	return ncclSuccess;
}

static ncclResult_t relay_pool_take(struct relay *r, struct proxy_conn *pc, size_t bytes)
{
	if (bytes > r->pool_bytes - r->pool_used) {
		WARN("rank %d: rank %d, which sends through this one, needs %zu bytes of GPU "
		     "memory more, expected %zu at most",
		     pc->comm->rank, r->user, bytes, r->pool_bytes - r->pool_used);
		return ncclInternalError;
	}
	pc->memory.gpu = (uint8_t *)r->pool + r->pool_used;
	r->pool_used += bytes;
	return ncclSuccess;
}

ncclResult_t relay_memory_make(struct proxy_conn *pc, size_t host_bytes, size_t gpu_bytes)
{
	struct relay *r = pc->proxy->relay;
	ncclResult_t rc = ncclSuccess;

	if (gpu_bytes && pc->conn_index == CONN_PAIR)
		rc = relay_store_take(r, pc);
	else if (gpu_bytes)
		rc = relay_pool_take(r, pc, gpu_bytes);
	return rc ? rc : relay_host_make(pc, host_bytes);
}

void relay_memory_free(struct proxy_conn *pc)
{
	struct relay *r = pc->proxy->relay;

	if (pc->host_made)
		relay_segment_free(pc->comm, r->user, pc->host_name, pc->host_made, pc->host_bytes);
	pc->host_made = NULL;
	relay_store_give(r, pc);
}

/* ---- progress -------------------------------------------------------------------------------- */

void relay_progress_join(struct proxy_gpu *p, struct relay *r)
{
	if (!proxy_progress_reserve(p, p->known, p->progress_relay_count + 1)) {
		WARN("rank %d: no memory for the waits of a relay", r->state.comm->rank);
		rank_set_async_error(r->state.comm, ncclSystemError);
		relay_fail(r);
		shared_store_u32(&r->progress_done, 1, SHARED_RELEASE);
		return;
	}
	r->progress_next = p->progress_relays;
	p->progress_relays = r;
	p->progress_relay_count++;
}

/* Returns the connection that an operation names; NULL if the operation is invalid. */
static struct proxy_conn *relay_op_conn(const struct relay *r, const struct relay_op *op)
{
	struct proxy_conn *pc = op->conn < RELAY_CONNS_MOST ? r->conn[op->conn] : NULL;

	if (pc && op->slice_steps && op->chunk_steps && op->nsteps % op->slice_steps == 0 &&
	    op->protocol < DEV_PROTO_COUNT)
		return pc;
	WARN("rank %d: invalid operation from rank %d, which sends through this one (connection "
	     "%u, %" PRIu64 " steps)",
	     r->state.comm->rank, r->user, op->conn, op->nsteps);
	return NULL;
}

static void relay_op_take(struct proxy_gpu *p, struct relay *r, const struct relay_op *op)
{
	struct proxy_conn *pc = relay_op_conn(r, op);
	struct proxy_slot *slot;

	if (!pc) {
		relay_fail(r);
		rank_set_async_error(r->state.comm, ncclInternalError);
		return;
	}
	slot = proxy_slot_get(&r->state);
	slot->conn = pc;
	slot->launch = op->launch;
	slot->op = (struct proxy_op){.op_count = op->op_count,
				     .message = op->message,
				     .nsteps = op->nsteps,
				     .slice_steps = op->slice_steps,
				     .chunk_steps = op->chunk_steps,
				     .protocol = op->protocol,
				     .profile = {.mask = op->profile, .pid = op->pid}};
	shared_add_u32(&pc->ops_live, 1, SHARED_RELAXED);
	proxy_slot_take(p, slot);
}

/* Moves operations from the ring to their connections, as long as slots are free. */
static bool relay_ops_take(struct proxy_gpu *p, struct relay *r)
{
	uint64_t put = shared_load_u64(&r->area->ops_put, SHARED_ACQUIRE);
	bool any = r->ops != put;
	uint64_t done;

	/* One slot more must remain, or progress would not wait for the next operations. */
	proxy_slots_gather(&r->state, (uint32_t)MIN_OF(put - r->ops, (uint64_t)RELAY_OPS) + 1);
	for (; r->ops != put && r->state.free_count; r->ops++) {
		const struct relay_op *op = &r->area->op[r->ops % RELAY_OPS];

		shared_note_read(op, sizeof *op);
		relay_op_take(p, r, op);
	}
	OS_PROBE("relay.ops_taken", "a relay takes operations of a rank that sends through it",
		 any);
	r->ops_wait.want = r->ops;
	if (any)
		shared_store_u64(&r->area->ops_taken, r->ops, SHARED_RELEASE);
	if (shared_load_u32(r->state.comm->abort, SHARED_ACQUIRE)) /* its rank no longer waits */
		shared_store_u64(&r->area->ops_done, RELAY_SENDS_NO_MORE, SHARED_RELEASE);
	done = shared_load_u64(&r->area->ops_done, SHARED_RELAXED);
	while (r->state.free_count == r->state.slots && done != r->ops &&
	       done != RELAY_SENDS_NO_MORE &&
	       !shared_cas_weak_u64(&r->area->ops_done, &done, r->ops, SHARED_ACQ_REL))
		;
	return any && r->state.free_count;
}

bool relay_progress_take(struct proxy_gpu *p)
{
	struct relay **at = &p->progress_relays, *r;
	bool any = false;

	while ((r = *at) != NULL) {
		if (!shared_load_u32(&r->state.closing, SHARED_ACQUIRE)) {
			any |= relay_ops_take(p, r);
			at = &r->progress_next;
		} else if (r->state.known) {
			at = &r->progress_next; /* the current pass forgets its connections */
		} else {
			*at = r->progress_next;
			p->progress_relay_count--;
			shared_store_u32(&r->progress_done, 1, SHARED_RELEASE);
		}
	}
	return any;
}

/* Adds the waits of relays. A relay without free slots needs no wait for operations: progress
 * itself frees slots. */
void relay_progress_waits(const struct proxy_gpu *p, struct proxy_waits *waits)
{
	for (const struct relay *r = p->progress_relays; r; r = r->progress_next) {
		if (r->state.free_count)
			proxy_waits_add(waits, &r->ops_wait, r->user);
		proxy_waits_add(waits, &r->stop_wait, r->state.comm->rank);
	}
}
