/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The relay's end of PXN (relay.h): areas for users, the requests and operations that service and
 * progress read from them, and the end.
 */
#include "core/proxy/relay/relay.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/mem/mem.h"

#define RELAY_TAG_NEED 0x540000
#define RELAY_TAG_MADE 0x550000

/* Time to wait for users at the end. It exceeds the time for which a user tries to connect to a
 * dead rank. */
#define RELAY_CLOSE_NS         10000000000ull
#define RELAY_CLOSE_ABORTED_NS 4000000000ull

#define RELAY_WHAT "a relay's connection"

void relay_name(const struct ncclComm *comm, int32_t owner, int32_t user, uint32_t number,
		char name[RELAY_NAME_BYTES])
{
	uint64_t hash = hash64_combine(comm->id_hash, (uint64_t)owner << 32 | (uint32_t)user);

	hash = hash64_combine(hash, (uint64_t)TOPO_PATH_PXN << 32 | number);
	snprintf(name, RELAY_NAME_BYTES, "nccl-%016" PRIx64, hash);
}

void relay_area_unref(struct relay_area *area)
{
	if (shared_add_u32(&area->refs, -1u, SHARED_ACQ_REL) != 1)
		return;
	for (uint32_t i = 0; i < RELAY_CONNS_MOST; i++)
		os_free(area->answer[i].host_made);
	os_free(area);
}

bool relay_is_over(const struct relay *r)
{
	return shared_load_u32(&r->state.closing, SHARED_ACQUIRE) ||
	       shared_load_u32(&r->area->gone, SHARED_ACQUIRE);
}

void relay_fail(struct relay *r)
{
	shared_store_u32(&r->area->failed, 1, SHARED_RELEASE);
}

/* ---- making ---------------------------------------------------------------------------------- */

static ncclResult_t relay_segment_failed(int32_t rank, const char *name, size_t bytes, int e)
{
	char text[96];
	const char *why = strerror_r(e, text, sizeof text);

	WARN("rank %d: %s/%s: cannot make a segment of %zu bytes for ranks of the host to send "
	     "through each other: %s; with NCCL_PXN_DISABLE=1 no segment is needed",
	     rank, OS_SHM_DIR, name, bytes, why);
	return ncclSystemError;
}

ncclResult_t relay_segment_make(const struct ncclComm *comm, int32_t user, uint32_t number,
				size_t bytes, void **mem)
{
	char name[RELAY_NAME_BYTES];
	int e;

	*mem = NULL;
	relay_name(comm, comm->rank, user, number, name);
	e = os_shm_create(name, bytes, mem);
	return e ? relay_segment_failed(comm->rank, name, bytes, e) : ncclSuccess;
}

void relay_name_remove(const struct ncclComm *comm, int32_t owner, int32_t user, uint32_t number)
{
	char name[RELAY_NAME_BYTES];

	relay_name(comm, owner, user, number, name);
	(void)os_shm_unlink(name);
}

void relay_segment_free(const struct ncclComm *comm, int32_t user, uint32_t number, void *mem,
			size_t bytes)
{
	relay_name_remove(comm, comm->rank, user, number);
	(void)os_shm_unmap(mem, bytes);
}

static ncclResult_t relay_area_make(const struct ncclComm *comm, struct relay *r)
{
	void *mem;
	ncclResult_t rc = ncclSuccess;

	if (r->in_process)
		mem = os_alloc(sizeof *r->area, "area of a relay");
	else
		rc = relay_segment_make(comm, r->user, RELAY_NAME_AREA, sizeof *r->area, &mem);
	if (rc)
		return rc;
	if (!mem) {
		WARN("rank %d: no memory for rank %d to send through this one", comm->rank,
		     r->user);
		return ncclSystemError;
	}
	r->area = mem;
	r->area->magic = RELAY_AREA_MAGIC;
	shared_store_u32(&r->area->refs, 1, SHARED_RELAXED);
	shared_note_write(&r->area->magic, sizeof r->area->magic);
	return ncclSuccess;
}

static struct wait relay_wait(const struct relay *r, const void *on, uint8_t bytes, const char *why)
{
	return (struct wait){
		.on = on,
		.mask = WAIT_MASK_ALL,
		.kind = WAIT_NE,
		.bytes = bytes,
		.idle = true,
		.why = why,
		.from = {.rank = r->user, .channel = -1, .step = -1, .object = "main"},
	};
}

static void relay_init(struct relay *r, struct ncclComm *comm)
{
	proxy_state_init(&r->state, comm);
	r->state.gpu = comm->proxy->gpu;
	r->state.relay = r;
	r->request_wait = relay_wait(r, &r->area->requests, 4, "requests to a relay");
	r->ops_wait = relay_wait(r, &r->area->ops_put, 8, "operations for a relay");
	r->gone_wait = relay_wait(r, &r->area->gone, 4, "the user of a relay to leave");
	r->stop_wait = r->state.closing_wait;
	r->join.relay = r;
}

static void relay_progress_begin(struct relay *r)
{
	shared_note_write(&r->join, sizeof r->join);
	proxy_posted_push(&r->state.gpu->posted, &r->join.node, &r->join.node);
}

/* Introduces the relay to both tasks of the proxy. */
static ncclResult_t relay_start(struct relay *r)
{
	struct proxy_call call = {.proxy = &r->state, .relay = r};
	ncclResult_t rc = proxy_call_run(&call, PROXY_RELAY);

	if (!rc)
		relay_progress_begin(r);
	return rc;
}

static void relay_area_free(const struct ncclComm *comm, struct relay *r)
{
	if (r->in_process)
		relay_area_unref(r->area);
	else
		relay_segment_free(comm, r->user, RELAY_NAME_AREA, r->area, sizeof *r->area);
}

static ncclResult_t relay_pool_make(struct relay *r, const struct relay_need *need)
{
	struct relay_pool *pool = &r->area->pool;
	ncclResult_t rc = ncclSuccess;
	void *mem = NULL;

	if (need->gpu_bytes)
		rc = mem_device_alloc(&mem, need->gpu_bytes + MEM_PAGE_BYTES, RELAY_WHAT);
	if (!rc && mem && !r->in_process)
		rc = mem_export(&pool->handle, mem, RELAY_WHAT);
	r->pool = mem;
	r->pool_bytes = need->gpu_bytes;
	r->pool_used = ALIGN_UP((uintptr_t)mem, MEM_PAGE_BYTES) - (uintptr_t)mem;
	r->pool_bytes += r->pool_used;
	pool->gpu = (uint64_t)(uintptr_t)mem;
	shared_note_write(pool, sizeof *pool);
	return rc;
}

static ncclResult_t relay_begin(struct relay *r, struct ncclComm *comm,
				const struct relay_need *need)
{
	ncclResult_t rc = relay_pool_make(r, need);

	relay_init(r, comm);
	if (!rc)
		rc = relay_start(r);
	if (rc)
		(void)mem_device_free(r->pool, RELAY_WHAT);
	return rc;
}

static ncclResult_t relay_new(const struct ncclComm *comm, int32_t user, struct relay **out)
{
	struct relay *r = os_alloc(sizeof *r, "relay");
	ncclResult_t rc;

	*out = NULL;
	if (!r) {
		WARN("rank %d: no memory for rank %d to send through this one", comm->rank, user);
		return ncclSystemError;
	}
	r->user = user;
	r->in_process = transport_same_process(comm, user);
	rc = relay_area_make(comm, r);
	if (rc)
		os_free(r);
	else
		*out = r;
	return rc;
}

/* Adds the relay to the list in which its user finds it. */
static void relay_publish(struct ncclComm *comm, struct relay *r)
{
	struct registry_node *first = registry_lock();

	r->next = comm->relays->users;
	comm->relays->users = r;
	registry_unlock(first);
}

static ncclResult_t relay_make(struct ncclComm *comm, int32_t user, const struct relay_need *need)
{
	struct relay *r;
	ncclResult_t rc = relay_new(comm, user, &r);

	if (rc)
		return rc;
	rc = relay_begin(r, comm, need);
	if (rc) {
		relay_area_free(comm, r);
		os_free(r);
		return rc;
	}
	relay_publish(comm, r);
	return ncclSuccess;
}

ncclResult_t relay_serve(struct proxy_gpu *p, struct ncclComm *comm, int32_t user)
{
	struct relay *r;
	ncclResult_t rc;

	if (!proxy_service_reserve(p, p->conns, p->service_relay_count + 1)) {
		WARN("rank %d: no memory for the waits of a relay", comm->rank);
		return ncclSystemError;
	}
	rc = relay_new(comm, user, &r);
	if (rc)
		return rc;
	relay_init(r, comm);
	relay_service_join(p, r);
	relay_progress_begin(r);
	relay_publish(comm, r);
	return ncclSuccess;
}

/* ---- opening, by both ends ------------------------------------------------------------------- */

ncclResult_t relay_state_make(struct ncclComm *comm)
{
	struct relay_state *st = os_alloc(sizeof *st, "relays");
	struct registry_node *first;

	if (!st) {
		WARN("rank %d: no memory for relays", comm->rank);
		return ncclSystemError;
	}
	st->leader = -1;
	os_mutex_lock(&comm->watch);
	first = registry_lock();
	comm->relays = st;
	registry_unlock(first);
	os_mutex_unlock(&comm->watch);
	return ncclSuccess;
}

static bool relay_is_wanted(uint64_t wanted, int32_t local)
{
	return local < RELAY_FIRST && wanted >> local & 1;
}

static ncclResult_t relay_needs_send(struct ncclComm *comm, uint64_t wanted)
{
	ncclResult_t rc = ncclSuccess;

	for (int32_t i = 0; i < comm->local_ranks && !rc; i++) {
		struct relay_need need;

		if (!relay_is_wanted(wanted, i))
			continue;
		need = relay_need_of(comm, i);
		rc = bootstrap_send(comm->bootstrap, comm->local_to_rank[i], RELAY_TAG_NEED, &need,
				    sizeof need);
	}
	return rc;
}

/* Makes relays for all users. After an error the message is empty, so that the user need not
 * wait. */
static ncclResult_t relay_users_make(struct ncclComm *comm, const uint64_t *wanted)
{
	ncclResult_t rc = ncclSuccess;
	const uint32_t made = RELAY_AREA_MAGIC;

	for (int32_t i = 0; i < comm->local_ranks; i++) {
		int32_t rank = comm->local_to_rank[i];
		struct relay_need need;
		ncclResult_t sent;

		if (!relay_is_wanted(wanted[rank], comm->local_rank))
			continue;
		if (!rc)
			rc = proxy_attach(comm);
		if (!rc)
			rc = bootstrap_recv(comm->bootstrap, rank, RELAY_TAG_NEED, &need,
					    sizeof need);
		if (!rc)
			rc = relay_make(comm, rank, &need);
		sent = bootstrap_send(comm->bootstrap, rank, RELAY_TAG_MADE, &made,
				      rc ? 0 : sizeof made);
		rc = rc ? rc : sent;
	}
	return rc;
}

static ncclResult_t relay_uses_open(struct ncclComm *comm, uint64_t wanted)
{
	ncclResult_t rc = ncclSuccess;

	for (int32_t i = 0; i < comm->local_ranks && !rc; i++) {
		int32_t rank = comm->local_to_rank[i];
		uint32_t word;

		if (!relay_is_wanted(wanted, i))
			continue;
		rc = bootstrap_recv(comm->bootstrap, rank, RELAY_TAG_MADE, &word, sizeof word);
		if (!rc)
			rc = relay_use_open(comm, rank);
	}
	return rc;
}

ncclResult_t proxy_relays_open(struct ncclComm *comm, const uint64_t *wanted)
{
	bool any = wanted[comm->rank] != 0;
	ncclResult_t rc = relay_board_open(comm);

	for (int32_t i = 0; i < comm->local_ranks; i++)
		any |= relay_is_wanted(wanted[comm->local_to_rank[i]], comm->local_rank);
	if (rc || !any)
		return rc;
	if (!comm->relays)
		rc = relay_state_make(comm);
	if (!rc)
		rc = relay_needs_send(comm, wanted[comm->rank]);
	if (!rc)
		rc = relay_users_make(comm, wanted);
	return rc ? rc : relay_uses_open(comm, wanted[comm->rank]);
}

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

	if (pc && op->slice_steps && op->nsteps % op->slice_steps == 0 &&
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
				     .protocol = (uint8_t)op->protocol};
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

/* ---- the end --------------------------------------------------------------------------------- */

/* Releases users that end in order: they need not wait until their operations are sent. */
void proxy_relays_stop_sending(struct ncclComm *comm)
{
	struct registry_node *first = registry_lock();

	for (struct relay *r = comm->relays ? comm->relays->users : NULL; r; r = r->next)
		shared_store_u64(&r->area->ops_done, RELAY_SENDS_NO_MORE, SHARED_RELEASE);
	registry_unlock(first);
}

/* Waits until the users have left. A user that has left does not use connections, pool, store or
 * area. */
static void relay_users_leave(struct ncclComm *comm)
{
	bool aborted = shared_load_u32(comm->abort, SHARED_ACQUIRE) != 0;
	uint64_t until = os_now_ns() + (aborted ? RELAY_CLOSE_ABORTED_NS : RELAY_CLOSE_NS);

	if (!comm->bootstrap || !comm->relays->users)
		return;
	bootstrap_leave(comm->bootstrap);
	for (const struct relay *r = comm->relays->users; r; r = r->next)
		if (bootstrap_wait_left(comm->bootstrap, r->user, until) == ETIMEDOUT)
			INFO(LOG_NET,
			     "rank %d: rank %d still sends through this one; ended "
			     "anyway",
			     comm->rank, r->user);
}

static void relay_progress_end(struct relay *r)
{
	const struct wait w = {
		.on = &r->progress_done,
		.mask = WAIT_MASK_ALL,
		.kind = WAIT_NE,
		.bytes = 4,
		.why = "the proxy to let go of a relay",
		.from = {.rank = r->state.comm->rank,
			 .channel = -1,
			 .step = -1,
			 .object = "proxy progress"},
	};

	shared_store_u32(&r->state.closing, 1, SHARED_RELEASE);
	while (!shared_load_u32(&r->progress_done, SHARED_ACQUIRE))
		(void)os_wait_one(&w, NULL);
}

/* Makes the connections close with the failure that the user wrote, unless this rank has a failure
 * of its own. */
static void relay_failure_take(struct ncclComm *comm, const struct relay *r)
{
	struct net_failure f;

	if (!shared_load_u32(&r->area->given_up, SHARED_ACQUIRE))
		return;
	shared_note_read(&r->area->failure, sizeof r->area->failure);
	f = r->area->failure;
	comm->net.ops->failure(comm, &f);
}

static void relay_end(struct ncclComm *comm, struct relay *r)
{
	struct proxy_call end = {.proxy = &r->state, .relay = r};

	relay_failure_take(comm, r);
	relay_progress_end(r);
	(void)proxy_call_run(&end, PROXY_RELAY_END);
	for (uint32_t i = 0; i < r->conns; i++) {
		struct proxy_call close = {.proxy = &r->state, .m.conn = r->conn[i]->number};

		(void)proxy_call_run(&close, PROXY_CLOSE);
	}
	(void)mem_device_free(r->pool, RELAY_WHAT);
	relay_area_free(comm, r);
	proxy_state_fini(&r->state);
	os_free(r);
}

/* Closes uses first: a rank that waits for its users must already have left the relays that it
 * uses. */
void relay_state_close(struct ncclComm *comm)
{
	struct relay_state *st = comm->relays;
	struct registry_node *first;

	if (shared_load_u32(comm->abort, SHARED_ACQUIRE))
		relay_names_remove(comm);
	if (!st)
		return;
	relay_uses_close(comm);
	relay_board_leave(comm); /* no new users after this */
	relay_users_leave(comm);
	first = registry_lock(); /* ranks of the process search for areas */
	comm->relays = NULL;
	registry_unlock(first);
	while (st->users) {
		struct relay *r = st->users;

		st->users = r->next;
		relay_end(comm, r);
	}
	relay_board_close(comm, st);
	os_free(st);
}
