/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The user's end of PXN (relay.h): areas and pools that it opens, names that it removes. Main task
 * only, except for proxy_relays_error. relay_port.c has the connections.
 */
#include <errno.h>

#include "core/base/log.h"
#include "core/proxy/relay/relay_internal.h"

struct relay_use *relay_use_find(const struct ncclComm *comm, int32_t local)
{
	struct relay_use *use = comm->relays ? comm->relays->uses : NULL;

	while (use && use->rank != comm->local_to_rank[local])
		use = use->next;
	return use;
}

/* ---- segments -------------------------------------------------------------------------------- */

/* Logs a segment that cannot be opened. A relay and its users have the same /dev/shm
 * (relay_route.c). A name that is not there was removed by a rank of the host that has left, or the
 * relay did not make it: it sees other NICs. */
static ncclResult_t relay_open_failed(const struct ncclComm *comm, int32_t owner, const char *name,
				      int e)
{
	char text[96];

	WARN("rank %d: %s/%s of rank %d, to send through another rank, cannot be opened: %s%s",
	     comm->rank, OS_SHM_DIR, name, owner, strerror_r(e, text, sizeof text),
	     e == ENOENT ? "; a rank of this host has left, or the NICs of the two ranks differ"
			 : "");
	return e == ENOENT ? ncclRemoteError : ncclSystemError;
}

ncclResult_t relay_segment_map(struct ncclComm *comm, int32_t owner, int32_t user, uint32_t number,
			       size_t bytes, void **mem)
{
	char name[RELAY_NAME_BYTES];
	size_t found;
	int e;

	*mem = NULL;
	relay_name(comm, owner, user, number, name);
	e = os_shm_open(name, bytes, mem, &found);
	return e ? relay_open_failed(comm, owner, name, e) : ncclSuccess;
}

/* Maps a segment and removes its name, which is not needed once it is mapped. */
ncclResult_t relay_segment_open(const struct relay_use *use, uint32_t number, size_t bytes,
				void **mem)
{
	int32_t user = use->comm->rank;
	ncclResult_t rc = relay_segment_map(use->comm, use->rank, user, number, bytes, mem);

	if (!rc)
		relay_name_remove(use->comm, use->rank, user, number);
	return rc;
}

/* Returns the area that another rank of this process made for this rank, with a reference. */
static struct relay_area *relay_area_of_rank(const struct ncclComm *comm, int32_t rank)
{
	struct relay_area *area = NULL;
	struct registry_node *first = registry_lock();

	for (struct registry_node *n = first; n && !area; n = n->next) {
		const struct ncclComm *other = (const struct ncclComm *)n;
		const struct relay *r;

		if (n->kind != REGISTRY_COMM || other->id_hash != comm->id_hash ||
		    other->rank != rank || !other->relays)
			continue;
		for (r = other->relays->users; r && r->user != comm->rank;)
			r = r->next;
		area = r ? r->area : NULL;
	}
	if (area)
		shared_add_u32(&area->refs, 1, SHARED_RELAXED);
	registry_unlock(first);
	return area;
}

static ncclResult_t relay_area_open(struct relay_use *use)
{
	void *mem = NULL;
	ncclResult_t rc = ncclSuccess;

	if (use->in_process)
		mem = relay_area_of_rank(use->comm, use->rank);
	else
		rc = relay_segment_open(use, RELAY_NAME_AREA, sizeof *use->area, &mem);
	if (rc)
		return rc;
	use->area = mem;
	if (mem)
		shared_note_read(&use->area->magic, sizeof use->area->magic);
	if (mem && use->area->magic == RELAY_AREA_MAGIC)
		return ncclSuccess;
	WARN("rank %d: rank %d has no valid area for this rank to send through it (magic %#x)",
	     use->comm->rank, use->rank, mem ? use->area->magic : 0);
	return ncclInternalError;
}

/* Opens the relay's GPU memory. May wait for kernels of this rank's GPU from earlier groups. */
ncclResult_t relay_pool_open(const struct relay_use *use, const struct relay_pool *pool,
			     uint8_t **out)
{
	void *mem = (void *)(uintptr_t)pool->gpu;
	ncclResult_t rc = ncclSuccess;

	*out = NULL;
	shared_note_read(pool, sizeof *pool);
	if (pool->gpu && use->in_process)
		rc = transport_memory_reach(use->comm, use->rank);
	else if (pool->gpu)
		rc = transport_memory_open(use->comm, use->rank, pool->handle, &mem);
	if (!rc)
		*out = mem;
	return rc;
}

static void relay_use_close(struct relay_use *use)
{
	bool aborted = shared_load_u32(use->comm->abort, SHARED_ACQUIRE) != 0;

	if (use->area)
		shared_store_u32(&use->area->gone, 1, SHARED_RELEASE);
	if (use->area && use->in_process)
		relay_area_unref(use->area);
	else if (use->area)
		(void)os_shm_unmap(use->area, sizeof *use->area);
	for (uint32_t i = 0; i < use->names && !use->in_process && aborted; i++)
		relay_name_remove(use->comm, use->rank, use->comm->rank, i);
	os_free(use);
}

/* Adds a use with its area open: another task may check whether it has failed. */
ncclResult_t relay_use_make(struct ncclComm *comm, int32_t rank, struct relay_use **out)
{
	struct relay_use *use = os_alloc(sizeof *use, "use of a relay");
	ncclResult_t rc;

	*out = NULL;
	if (!use) {
		WARN("rank %d: no memory to send through rank %d", comm->rank, rank);
		return ncclSystemError;
	}
	use->comm = comm;
	use->rank = rank;
	use->in_process = transport_same_process(comm, rank);
	rc = relay_area_open(use);
	if (rc) {
		relay_use_close(use);
		return rc;
	}
	os_mutex_lock(&comm->watch);
	use->next = comm->relays->uses;
	comm->relays->uses = use;
	os_mutex_unlock(&comm->watch);
	*out = use;
	return ncclSuccess;
}

ncclResult_t relay_use_open(struct ncclComm *comm, int32_t rank)
{
	struct relay_use *use;
	ncclResult_t rc = relay_use_make(comm, rank, &use);

	return rc ? rc : relay_pool_open(use, &use->area->pool, &use->pool);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Removes the names of boards. A rank that fails before planning does not know which rank of the
 * host makes the board. Any of them may have made it and ended. */
static void relay_board_name_remove(const struct ncclComm *comm)
{
	const struct relay_state *st = comm->relays;

	if (st && (st->leader < 0 || st->in_process))
		return;
	for (int32_t i = 0; i < comm->local_ranks; i++) {
		int32_t rank = comm->local_to_rank[i];

		if (!st || rank == st->leader)
			relay_name_remove(comm, rank, rank, RELAY_NAME_AREA);
	}
}

void relay_names_remove(const struct ncclComm *comm)
{
	uint64_t wanted = proxy_relays_wanted(comm) | (comm->relays ? comm->relays->messages : 0);
	char name[RELAY_NAME_BYTES];

	relay_board_name_remove(comm);
	for (int32_t i = 0; i < MIN_OF(comm->local_ranks, RELAY_FIRST); i++) {
		if (!(wanted >> i & 1))
			continue;
		relay_name(comm, comm->local_to_rank[i], comm->rank, RELAY_NAME_AREA, name);
		if (os_shm_unlink(name) == 0)
			INFO(LOG_NET, "rank %d: removed %s/%s, which rank %d has not removed",
			     comm->rank, OS_SHM_DIR, name, comm->local_to_rank[i]);
	}
}

void relay_uses_close(struct ncclComm *comm)
{
	while (comm->relays->uses) {
		struct relay_use *use = comm->relays->uses;

		comm->relays->uses = use->next;
		relay_use_close(use);
	}
}

/* Writes the failure of this rank's connections into the areas. Its connections at the relays then
 * end for this reason. */
void proxy_relays_give_up(struct ncclComm *comm)
{
	struct net_failure f = {{0}};

	if (comm->net.ops)
		comm->net.ops->failure(comm, &f);
	for (struct relay_use *use = comm->relays ? comm->relays->uses : NULL; use;
	     use = use->next) {
		if (!use->area || shared_load_u32(&use->area->given_up, SHARED_RELAXED))
			continue;
		use->area->failure = f;
		shared_note_write(&use->area->failure, sizeof use->area->failure);
		shared_store_u32(&use->area->given_up, 1, SHARED_RELEASE);
	}
}

ncclResult_t relay_has_failed(const struct relay_use *use)
{
	if (!shared_load_u32(&use->comm->async_error, SHARED_ACQUIRE))
		WARN("rank %d: a connection through its relay, rank %d, has failed",
		     use->comm->rank, use->rank);
	return ncclRemoteError;
}

ncclResult_t proxy_relays_error(const struct ncclComm *comm)
{
	const struct relay_use *use = comm->relays ? comm->relays->uses : NULL;

	while (use && !(use->area && shared_load_u32(&use->area->failed, SHARED_ACQUIRE)))
		use = use->next;
	return use ? relay_has_failed(use) : ncclSuccess;
}
