/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The relay's end of PXN (relay.h): areas for users, what both ends open at init, and the end.
 * relay_serve.c has what the proxy's tasks do in between.
 */
#include "core/proxy/relay/relay_internal.h"

#include <inttypes.h>
#include <stdio.h>

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

const struct wait *relay_gone_wait(const struct relay *r)
{
	return &r->gone_wait;
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
	struct wait w = wait_word(on, bytes, WAIT_NE, 0, why, wait_by(r->user, -1, "main"));

	w.idle = true;
	return w;
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

static ncclResult_t relay_pool_make(struct relay *r, struct ncclComm *comm,
				    const struct relay_need *need)
{
	struct relay_pool *pool = &r->area->pool;
	ncclResult_t rc = ncclSuccess;
	void *mem = NULL;

	if (need->gpu_bytes)
		rc = mem_device_alloc(&mem, need->gpu_bytes + MEM_PAGE_BYTES, RELAY_WHAT);
	if (!rc && mem && !r->in_process)
		rc = transport_memory_lend(comm, r->user, &pool->handle, mem, RELAY_WHAT);
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
	ncclResult_t rc = relay_pool_make(r, comm, need);

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
	comm->gpu_bytes += r->pool_bytes;
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
	const struct wait w =
		wait_word(&r->progress_done, 4, WAIT_NE, 0, "the proxy to let go of a relay",
			  wait_by(r->state.comm->rank, -1, "proxy progress"));

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
	relay_store_put(comm, st);
	relay_board_close(comm, st);
	os_free(st);
}
