/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The board and the store of PXN (relay.h). On the board, ranks of a host knock at the relays of
 * their messages. The store is GPU memory that is allocated for these messages.
 *
 *	init     the leader makes the board, the others open it; ranks that serve have a store
 *	message  a rank knocks; the service task of the relay makes an area for it
 *	end      service accepts no more knocks; the relays that it made end as all others do; the
 *	         last communicator of the GPU with a store frees it
 *
 * Therefore init allocates only memory that cannot be allocated later, and ranks that send no
 * message share only the board.
 */
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/mem/mem.h"
#include "core/proxy/relay/relay_internal.h"

#define RELAY_STORE_WHAT "messages of other ranks"

/* ---- the store ------------------------------------------------------------------------------- */

static ncclResult_t relay_store_make(struct ncclComm *comm, struct relay_store **out)
{
	struct relay_store *s = os_alloc(sizeof *s, "store of a relay");
	ncclResult_t rc = ncclSuccess;

	*out = NULL;
	if (!s) {
		WARN("rank %d: no memory for messages of other ranks", comm->rank);
		return ncclSystemError;
	}
	s->bytes = relay_message_bytes(comm);
	s->count = s->room = (uint32_t)param_i64(PARAM_PXN_CONNECTIONS);
	if (s->count && s->bytes)
		rc = mem_device_alloc(&s->mem, s->count * s->bytes + MEM_PAGE_BYTES,
				      RELAY_STORE_WHAT);
	if (rc) {
		os_free(s);
		return rc;
	}
	s->first = (uint8_t *)ALIGN_UP((uintptr_t)s->mem, (uintptr_t)MEM_PAGE_BYTES);
	*out = s;
	return ncclSuccess;
}

/* Makes sure that the GPU has a store, and takes a reference; the first communicator makes it. */
static ncclResult_t relay_store_get(struct ncclComm *comm)
{
	struct proxy_gpu *p = comm->proxy->gpu;
	ncclResult_t rc = ncclSuccess;

	os_mutex_lock(&p->store_lock);
	if (!p->store)
		rc = relay_store_make(comm, &p->store);
	if (!rc)
		p->store->comms++;
	comm->relays->has_store = !rc;
	os_mutex_unlock(&p->store_lock);
	return rc;
}

/* The last communicator frees the store. An init need not wait until it is freed. */
void relay_store_put(const struct ncclComm *comm, const struct relay_state *st)
{
	struct proxy_gpu *p = comm->proxy ? comm->proxy->gpu : NULL;
	struct relay_store *s;
	bool last;

	if (!st->has_store)
		return;
	os_mutex_lock(&p->store_lock);
	s = p->store;
	last = --s->comms == 0;
	if (last)
		p->store = NULL;
	os_mutex_unlock(&p->store_lock);
	if (!last)
		return;
	ASSERT(s->room == s->count); /* all users have left */
	(void)mem_device_free(s->mem, RELAY_STORE_WHAT);
	os_free(s);
}

uint32_t relay_store_reserve(struct relay *r, uint32_t n)
{
	struct relay_store *s = r->state.gpu->store;

	if (!s || s->room < n)
		return s ? s->room : 0;
	s->room -= n;
	r->room += n;
	return n;
}

ncclResult_t relay_store_take(struct relay *r, struct proxy_conn *pc)
{
	struct relay_store *s = r->state.gpu->store;
	uint32_t i = 0;

	if (!r->room) {
		WARN("rank %d: rank %d, which sends through this one, has no room left for the "
		     "connection to rank %d",
		     r->state.comm->rank, r->user, pc->peer);
		return ncclInternalError;
	}
	while (s->taken[i])
		i++;
	ASSERT(i < s->count);
	s->taken[i] = true;
	r->room--;
	pc->store_place = i + 1;
	pc->memory.gpu = s->first + i * s->bytes;
	return ncclSuccess;
}

void relay_store_give(struct relay *r, struct proxy_conn *pc)
{
	struct relay_store *s;

	if (!pc->store_place)
		return;
	s = r->state.gpu->store;
	s->taken[pc->store_place - 1] = false;
	pc->store_place = 0;
	if (r->over)
		s->room++;
	else
		r->room++;
}

/* ---- the board ------------------------------------------------------------------------------- */

static size_t relay_board_bytes(const struct ncclComm *comm)
{
	return sizeof(struct relay_board) + (size_t)comm->local_ranks * sizeof(struct relay_post);
}

static uint32_t relay_board_ranks(const struct ncclComm *comm)
{
	uint32_t n = 0;

	for (int32_t i = 0; i < comm->local_ranks; i++)
		n += relay_ranks_share(comm, comm->local_rank, i);
	return n;
}

static void relay_board_set(struct relay_state *st, struct relay_board *board)
{
	struct registry_node *first = registry_lock();

	st->board = board;
	registry_unlock(first);
}

ncclResult_t relay_board_make(struct ncclComm *comm)
{
	struct relay_state *st = comm->relays;
	void *mem = NULL;
	struct relay_board *board;
	ncclResult_t rc = ncclSuccess;

	if (!st || st->leader != comm->rank)
		return ncclSuccess;
	if (st->in_process)
		mem = os_alloc(relay_board_bytes(comm), "board of relays");
	else
		rc = relay_segment_make(comm, comm->rank, RELAY_NAME_AREA, relay_board_bytes(comm),
					&mem);
	if (rc)
		return rc;
	if (!mem) {
		WARN("rank %d: no memory for the board of a host's ranks", comm->rank);
		return ncclSystemError;
	}
	board = mem;
	board->magic = RELAY_BOARD_MAGIC;
	shared_note_write(&board->magic, sizeof board->magic);
	shared_store_u32(&board->refs, st->in_process ? 1 : relay_board_ranks(comm) - 1,
			 SHARED_RELEASE);
	relay_board_set(st, board);
	return ncclSuccess;
}

/* Returns the board of the leader in this process, with a reference. */
static struct relay_board *relay_board_of_leader(const struct ncclComm *comm)
{
	struct relay_board *board = NULL;
	struct registry_node *first = registry_lock();

	for (struct registry_node *n = first; n && !board; n = n->next) {
		const struct ncclComm *other = (const struct ncclComm *)n;

		if (n->kind == REGISTRY_COMM && other->id_hash == comm->id_hash &&
		    other->rank == comm->relays->leader && other->relays)
			board = other->relays->board;
	}
	if (board)
		shared_add_u32(&board->refs, 1, SHARED_RELAXED);
	registry_unlock(first);
	return board;
}

static ncclResult_t relay_board_map(struct ncclComm *comm)
{
	int32_t leader = comm->relays->leader;
	void *mem = NULL;
	struct relay_board *board;
	ncclResult_t rc = ncclSuccess;

	if (comm->relays->in_process)
		mem = relay_board_of_leader(comm);
	else
		rc = relay_segment_map(comm, leader, leader, RELAY_NAME_AREA,
				       relay_board_bytes(comm), &mem);
	if (rc)
		return rc;
	board = mem;
	if (board)
		shared_note_read(&board->magic, sizeof board->magic);
	if (!board || board->magic != RELAY_BOARD_MAGIC) {
		WARN("rank %d: rank %d has no valid board for the ranks of the host (magic %#x)",
		     comm->rank, leader, board ? board->magic : 0);
		return ncclRemoteError;
	}
	if (!comm->relays->in_process && shared_add_u32(&board->refs, -1u, SHARED_ACQ_REL) == 1)
		relay_name_remove(comm, leader, leader, RELAY_NAME_AREA);
	relay_board_set(comm->relays, board);
	return ncclSuccess;
}

/* Exports the store to the host's other processes, which close it before this rank ends. */
static ncclResult_t relay_store_lend(struct ncclComm *comm, struct relay_pool *to, void *mem)
{
	ncclResult_t rc = ncclSuccess;

	for (int32_t i = 0; i < comm->local_ranks && !rc; i++)
		if (comm->local_to_rank[i] != comm->rank)
			rc = transport_memory_lend(comm, comm->local_to_rank[i], &to->handle, mem,
						   RELAY_STORE_WHAT);
	return rc;
}

static ncclResult_t relay_store_show(struct ncclComm *comm, struct relay_post *post)
{
	struct relay_pool *to = &post->store;
	struct relay_store *s = comm->proxy->gpu->store;
	ncclResult_t rc = ncclSuccess;

	if (s->mem && !comm->relays->in_process)
		rc = relay_store_lend(comm, to, s->mem);
	to->gpu = (uint64_t)(uintptr_t)s->mem;
	post->serves = s->count && s->bytes == relay_message_bytes(comm);
	shared_note_write(&post->serves, sizeof post->serves + sizeof post->store);
	if (s->count && !post->serves)
		INFO(LOG_INIT | LOG_NET,
		     "rank %d: messages of other ranks do not go through this one: the store of "
		     "another communicator has %zu bytes for each connection, expected %zu",
		     comm->rank, s->bytes, relay_message_bytes(comm));
	return rc;
}

static ncclResult_t relay_board_serve(struct ncclComm *comm)
{
	struct relay_state *st = comm->relays;
	struct relay_post *post = &st->board->post[comm->local_rank];
	struct proxy_call call = {.proxy = NULL};
	ncclResult_t rc = proxy_attach(comm);

	if (!rc)
		rc = relay_store_get(comm);
	if (!rc)
		rc = relay_store_show(comm, post);
	if (rc || !post->serves)
		return rc;
	st->comm = comm;
	st->knock_wait = wait_word(&post->knocks, 4, WAIT_NE, 0,
				   "ranks that begin to send messages through this one",
				   wait_by(-1, -1, NULL));
	st->knock_wait.idle = true;
	call.proxy = comm->proxy;
	rc = proxy_call_run(&call, PROXY_BOARD);
	if (rc)
		st->comm = NULL;
	return rc;
}

ncclResult_t relay_board_open(struct ncclComm *comm)
{
	const struct relay_state *st = comm->relays;
	ncclResult_t rc = ncclSuccess;

	if (!st || st->leader < 0)
		return ncclSuccess;
	if (!st->board)
		rc = relay_board_map(comm);
	return rc || !st->serves ? rc : relay_board_serve(comm);
}

void relay_board_leave(struct ncclComm *comm)
{
	struct proxy_call call = {.proxy = comm->proxy};

	if (comm->relays->comm)
		(void)proxy_call_run(&call, PROXY_BOARD_END);
}

void relay_board_close(struct ncclComm *comm, struct relay_state *st)
{
	if (!st->board)
		return;
	if (st->in_process && shared_add_u32(&st->board->refs, -1u, SHARED_ACQ_REL) == 1)
		os_free(st->board);
	else if (!st->in_process && st->leader == comm->rank)
		relay_segment_free(comm, comm->rank, RELAY_NAME_AREA, st->board,
				   relay_board_bytes(comm));
	else if (!st->in_process)
		(void)os_shm_unmap(st->board, relay_board_bytes(comm));
	st->board = NULL;
}

/* ---- service --------------------------------------------------------------------------------- */

void relay_board_join(struct proxy_gpu *p, struct relay_state *st)
{
	st->service_next = p->service_boards;
	p->service_boards = st;
	p->service_relay_count++;
}

void relay_board_part(struct proxy_gpu *p, struct relay_state *st)
{
	struct relay_state **at = &p->service_boards;

	while (*at != st)
		at = &(*at)->service_next;
	*at = st->service_next;
	p->service_relay_count--;
}

static void relay_knocks_answer(struct proxy_gpu *p, struct ncclComm *comm, struct relay_post *post)
{
	proxy_work_for(comm->rank);
	for (int32_t i = 0; i < comm->local_ranks; i++) {
		struct relay_knock *k = &post->of[i];
		ncclResult_t rc;

		if (!shared_load_u32(&k->knocked, SHARED_ACQUIRE) ||
		    shared_load_u32(&k->answer, SHARED_RELAXED) != RELAY_KNOCK_NONE)
			continue;
		rc = relay_serve(p, comm, comm->local_to_rank[i]);
		OS_PROBE("relay.knock", "a rank begins to send messages through another one", !rc);
		shared_store_u32(&k->answer, rc ? RELAY_KNOCK_FAILED : RELAY_KNOCK_MADE,
				 SHARED_RELEASE);
	}
	proxy_work_for(p->rank);
}

bool relay_knocks_take(struct proxy_gpu *p)
{
	bool any = false;

	for (struct relay_state *st = p->service_boards; st; st = st->service_next) {
		struct relay_post *post = &st->board->post[st->comm->local_rank];
		uint32_t knocks = shared_load_u32(&post->knocks, SHARED_ACQUIRE);

		if (knocks == st->knock_wait.want)
			continue;
		st->knock_wait.want = knocks;
		relay_knocks_answer(p, st->comm, post);
		any = true;
	}
	return any;
}
