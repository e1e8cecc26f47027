/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments: making, mapping and freeing them. A segment for a rank of another process is a file in
 * /dev/shm:
 *
 *	owner   create (O_EXCL, all bytes allocated) -> pin -> describe it to the user
 *	user    open -> pin -> unlink: it has no name now, and lasts until both have unmapped it
 *
 * or host memory of cuMem, which has no name and lasts until both have unmapped it:
 *
 *	owner   create, map -> describe it to the user -> post its descriptor (letters.h)
 *	user                                           -> take the descriptor, map
 *
 * A segment for a rank of the same process is pinned memory without a name. The last of the two
 * ranks frees it.
 *
 * After a killed process: the name is a hash of data that both ranks know before any message. A
 * rank that ends after an abort unlinks every name that ranks of its host can have made for it.
 * Another rank's death is an abort for all survivors. A dead process makes no new segment. A file
 * is left if both of its ranks die between create and unlink, because no other process knows it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/mem/cumem.h"
#include "core/mem/mem.h"
#include "core/transport/local/letters.h"
#include "core/transport/local/shm_internal.h"

#define SHM_WHAT  "a segment of /dev/shm"
#define SHM_OWN   "shm connection memory"
#define SHM_OTHER "a neighbour's shm connection memory"

static void shm_name(const struct ncclComm *comm, const struct shm_key *key,
		     char name[SHM_NAME_BYTES])
{
	uint64_t hash =
		hash64_combine(comm->id_hash, (uint64_t)key->owner << 32 | (uint32_t)key->user);

	hash = hash64_combine(hash, (uint64_t)key->number << 32 | (uint64_t)key->index << 16 |
					    key->is_send);
	snprintf(name, SHM_NAME_BYTES, "nccl-%016" PRIx64, hash);
}

static bool shm_key_equal(const struct shm_key *a, const struct shm_key *b)
{
	return a->owner == b->owner && a->user == b->user && a->is_send == b->is_send &&
	       a->index == b->index && a->number == b->number;
}

static ncclResult_t shm_state_make(struct ncclComm *comm)
{
	struct registry_node *first;
	struct shm_state *st;

	if (comm->shm)
		return ncclSuccess;
	st = os_alloc(sizeof *st, "shm state");
	if (!st) {
		WARN("rank %d: no memory for the shm state", comm->rank);
		return ncclSystemError;
	}
	first = registry_lock();
	comm->shm = st;
	registry_unlock(first);
	return ncclSuccess;
}

/* ---- owner ---------------------------------------------------------------------------------- */

struct shm_segment *shm_segment_of(const struct conn *c)
{
	struct shm_segment *s = c->comm->shm ? c->comm->shm->segments : NULL;

	while (s && !(s->key.user == c->peer && s->key.is_send == c->is_send &&
		      s->key.index == c->index))
		s = s->next;
	return s;
}

static ncclResult_t shm_create_failed(const struct shm_segment *s, const char *name, int e)
{
	char text[96];
	const char *why = strerror_r(e, text, sizeof text);

	if (e == ENOSPC)
		WARN("rank %d: %s/%s: %" PRIu64 " bytes for connections with rank %d do not fit: "
		     "%s; make %s larger (docker run --shm-size), NCCL_BUFFSIZE smaller, or set "
		     "NCCL_SHM_DISABLE=1",
		     s->key.owner, OS_SHM_DIR, name, s->bytes, s->key.user, why, OS_SHM_DIR);
	else
		WARN("rank %d: %s/%s: cannot make a segment of %" PRIu64
		     " bytes for connections with rank %d: %s",
		     s->key.owner, OS_SHM_DIR, name, s->bytes, s->key.user, why);
	return ncclSystemError;
}

static ncclResult_t shm_segment_create(const struct ncclComm *comm, struct shm_segment *s)
{
	char name[SHM_NAME_BYTES];
	void *mem = NULL, *device;
	ncclResult_t rc;
	int e;

	shm_name(comm, &s->key, name);
	e = os_shm_create(name, s->bytes, &mem);
	if (e)
		return shm_create_failed(s, name, e);
	rc = mem_host_register(mem, s->bytes, &device, SHM_WHAT);
	if (rc) {
		(void)os_shm_unlink(name);
		(void)os_shm_unmap(mem, s->bytes);
		return rc;
	}
	s->mem = mem;
	s->device = device;
	INFO(LOG_SHM, "rank %d: made %s/%s, %" PRIu64 " bytes, for rank %d", comm->rank, OS_SHM_DIR,
	     name, s->bytes, s->key.user);
	return ncclSuccess;
}

static ncclResult_t shm_segment_pin(struct shm_segment *s)
{
	void *mem;
	ncclResult_t rc = mem_host_alloc(&mem, s->bytes, SHM_OWN);

	s->mem = s->device = mem;
	return rc;
}

/* The memory is not zeroed. Setup writes all words that are read before a kernel writes them,
 * except the rest of the control blocks beside head or tail. */
static ncclResult_t shm_segment_map(struct shm_segment *s, uint64_t control)
{
	void *mem;
	ncclResult_t rc;

	s->bytes = ALIGN_UP(s->bytes, CUMEM_PAGE_BYTES);
	rc = cumem_alloc(CUMEM_HOST, &mem, s->bytes, SHM_OWN);
	if (rc)
		return rc;
	memset(mem, 0, control);
	s->mem = s->device = mem;
	INFO(LOG_SHM, "rank %d: made host memory of cuMem, %" PRIu64 " bytes, for rank %d",
	     s->key.owner, s->bytes, s->key.user);
	return ncclSuccess;
}

static ncclResult_t shm_segment_fill(const struct ncclComm *comm, struct shm_segment *s,
				     uint64_t control)
{
	if (s->kind == SHM_PINNED)
		return shm_segment_pin(s);
	if (s->kind == SHM_CUMEM)
		return shm_segment_map(s, control);
	ASSERT(s->kind == SHM_FILE);
	return shm_segment_create(comm, s);
}

static void shm_segment_add(struct ncclComm *comm, struct shm_segment *s)
{
	struct registry_node *first = registry_lock();

	s->next = comm->shm->segments;
	comm->shm->segments = s;
	registry_unlock(first);
}

ncclResult_t shm_segment_make(const struct conn *c, uint64_t control, uint64_t buffers)
{
	ncclResult_t rc = shm_state_make(c->comm);
	struct shm_segment *s, *before;

	if (rc)
		return rc;
	before = shm_segment_of(c);
	s = os_alloc(sizeof *s, "shm segment");
	if (!s) {
		WARN("rank %d: no memory for an shm segment", c->comm->rank);
		return ncclSystemError;
	}
	s->key = (struct shm_key){.owner = c->comm->rank,
				  .user = c->peer,
				  .is_send = c->is_send,
				  .index = c->index,
				  .number = before ? before->key.number + 1 : 0};
	ASSERT(s->key.number < SHM_SEGMENTS_MOST);
	s->kind = shm_kind_between(c->comm, c->comm->rank, c->peer);
	s->bytes = control + buffers;
	s->buffer_used = control;
	shared_store_u32(&s->refs, 1, SHARED_RELAXED);
	rc = shm_segment_fill(c->comm, s, control);
	if (rc) {
		os_free(s);
		return rc;
	}
	shm_segment_add(c->comm, s);
	return ncclSuccess;
}

/* The number of a letter encodes the key without its owner, which the letter has anyway, and its
 * user, which receives the letter. */
static struct letter_memory shm_letter_of(const struct shm_key *key, uint64_t bytes)
{
	return (struct letter_memory){.kind = LETTER_SEGMENT,
				      .number = key->number << 16 | (uint32_t)key->index << 1 |
						key->is_send,
				      .bytes = bytes};
}

ncclResult_t shm_segment_give(const struct conn *c, struct shm_segment *s)
{
	const struct letter_memory m = shm_letter_of(&s->key, s->bytes);

	if (s->kind != SHM_CUMEM || s->given)
		return ncclSuccess;
	s->given = true;
	return letters_give(c->comm, c->peer, &m, s->mem);
}

static void shm_unmap(enum shm_kind kind, uint8_t *mem, uint64_t bytes, const char *what)
{
	if (kind == SHM_PINNED) {
		(void)mem_host_free(mem, what);
	} else if (kind == SHM_CUMEM) {
		(void)cumem_free(mem, bytes, what);
	} else {
		(void)mem_host_unregister(mem, SHM_WHAT);
		(void)os_shm_unmap(mem, bytes);
	}
}

static void shm_segment_unref(struct shm_segment *s)
{
	if (shared_add_u32(&s->refs, -1u, SHARED_ACQ_REL) != 1)
		return;
	shm_unmap(s->kind, s->mem, s->bytes, SHM_OWN);
	os_free(s);
}

/* The user may have failed before it removed the name. */
static void shm_segments_close(const struct ncclComm *comm, struct shm_state *st)
{
	char name[SHM_NAME_BYTES];

	while (st->segments) {
		struct shm_segment *s = st->segments;

		st->segments = s->next;
		shm_name(comm, &s->key, name);
		if (s->kind == SHM_FILE)
			(void)os_shm_unlink(name);
		shm_segment_unref(s);
	}
}

/* ---- user ----------------------------------------------------------------------------------- */

/* Finds the segment of another rank of this process and communicator, and adds a reference to
 * it. */
static struct shm_segment *shm_segment_of_rank(const struct ncclComm *comm,
					       const struct shm_key *key)
{
	struct shm_segment *s = NULL;
	struct registry_node *first = registry_lock();

	for (struct registry_node *n = first; n && !s; n = n->next) {
		const struct ncclComm *other = (const struct ncclComm *)n;

		if (n->kind != REGISTRY_COMM || other->id_hash != comm->id_hash ||
		    other->rank != key->owner || !other->shm)
			continue;
		for (s = other->shm->segments; s && !shm_key_equal(&s->key, key);)
			s = s->next;
	}
	if (s)
		shared_add_u32(&s->refs, 1, SHARED_RELAXED);
	registry_unlock(first);
	return s;
}

static ncclResult_t shm_use_in_process(const struct conn *c, struct shm_use *use)
{
	use->segment = shm_segment_of_rank(c->comm, &use->key);
	if (!use->segment || use->segment->bytes != use->bytes) {
		WARN("rank %d of this process has no shm segment of %" PRIu64 " bytes for rank %d",
		     c->peer, use->bytes, c->comm->rank);
		if (use->segment)
			shm_segment_unref(use->segment);
		return ncclInternalError;
	}
	use->mem = use->segment->mem;
	use->device = use->segment->device;
	return ncclSuccess;
}

/* The owner removes the name when it leaves. This rank may learn later that the owner has left. */
static ncclResult_t shm_map_failed(const struct conn *c, const char *name, int e, size_t found,
				   uint64_t wanted)
{
	char text[96];
	const char *why = strerror_r(e, text, sizeof text);

	if (e == EINVAL)
		WARN("rank %d: %s/%s of rank %d has %zu bytes, expected %" PRIu64, c->comm->rank,
		     OS_SHM_DIR, name, c->peer, found, wanted);
	else
		WARN("rank %d: %s/%s, %" PRIu64 " bytes of rank %d, cannot be opened: %s%s",
		     c->comm->rank, OS_SHM_DIR, name, wanted, c->peer, why,
		     e == EACCES ? "; ranks of a host must run as one user, or with "
				   "NCCL_SHM_DISABLE=1"
				 : "");
	return e == ENOENT ? transport_import_result(c->comm, c->peer, ncclSystemError)
			   : ncclSystemError;
}

/* The name is removed when the segment is mapped here, because nothing else needs it. */
static ncclResult_t shm_use_open(const struct conn *c, struct shm_use *use)
{
	char name[SHM_NAME_BYTES];
	void *mem = NULL, *device;
	size_t found;
	ncclResult_t rc;
	int e;

	shm_name(c->comm, &use->key, name);
	e = os_shm_open(name, use->bytes, &mem, &found);
	if (e)
		return shm_map_failed(c, name, e, found, use->bytes);
	rc = mem_host_register(mem, use->bytes, &device, SHM_WHAT);
	if (rc) {
		(void)os_shm_unmap(mem, use->bytes);
		return rc;
	}
	use->mem = mem;
	use->device = device;
	(void)os_shm_unlink(name); /* an owner that leaves also removes it */
	return ncclSuccess;
}

static ncclResult_t shm_use_import(struct conn *c, struct shm_use *use, struct wait *w)
{
	const struct letter_memory m = shm_letter_of(&use->key, use->bytes);
	void *mem;
	ncclResult_t rc = letters_import(c, &m, &mem, w);

	use->mem = use->device = mem;
	return rc;
}

static ncclResult_t shm_use_fill(struct conn *c, struct shm_use *use, struct wait *w)
{
	if (use->kind == SHM_PINNED)
		return shm_use_in_process(c, use);
	if (use->kind == SHM_CUMEM)
		return shm_use_import(c, use, w);
	ASSERT(use->kind == SHM_FILE);
	return shm_use_open(c, use);
}

ncclResult_t shm_use_get(struct conn *c, const struct shm_key *key, uint64_t bytes,
			 struct shm_use **out, struct wait *w)
{
	struct shm_state *st = c->comm->shm; /* exists, because this end's own segment is in it */
	struct shm_use *use = st->uses;
	ncclResult_t rc;

	while (use && !shm_key_equal(&use->key, key))
		use = use->next;
	if (use) {
		*out = use;
		return ncclSuccess;
	}
	use = os_alloc(sizeof *use, "shm use");
	if (!use) {
		WARN("rank %d: no memory for the shm segment of rank %d", c->comm->rank, c->peer);
		return ncclSystemError;
	}
	use->key = *key;
	use->bytes = bytes;
	use->kind = shm_kind_between(c->comm, c->peer, c->comm->rank);
	rc = shm_use_fill(c, use, w);
	if (rc) {
		os_free(use);
		return rc;
	}
	use->next = st->uses;
	*out = st->uses = use;
	return ncclSuccess;
}

/* ---- teardown -------------------------------------------------------------------------------- */

static void shm_uses_close(struct shm_state *st)
{
	while (st->uses) {
		struct shm_use *use = st->uses;

		st->uses = use->next;
		if (use->segment)
			shm_segment_unref(use->segment);
		else
			shm_unmap(use->kind, use->mem, use->bytes, SHM_OTHER);
		os_free(use);
	}
}

/* Removes every name that the owner can have made for this rank. Most of them do not exist. */
static void shm_names_remove(const struct ncclComm *comm, int32_t owner)
{
	for (uint32_t i = 0; i < 2u * CONN_INDEX_COUNT * SHM_SEGMENTS_MOST; i++) {
		struct shm_key key = {.owner = owner,
				      .user = comm->rank,
				      .is_send = i % 2,
				      .index = (uint16_t)(i / 2 % CONN_INDEX_COUNT),
				      .number = i / 2 / CONN_INDEX_COUNT};
		char name[SHM_NAME_BYTES];

		shm_name(comm, &key, name);
		if (os_shm_unlink(name) == 0)
			INFO(LOG_SHM, "rank %d: removed %s/%s, which rank %d has left", comm->rank,
			     OS_SHM_DIR, name, owner);
	}
}

static void shm_names_of_others_remove(const struct ncclComm *comm)
{
	for (int32_t i = 0; i < comm->local_ranks; i++) {
		int32_t peer = comm->local_to_rank[i];

		if (transport_of(comm, comm->rank, peer) == &transport_shm &&
		    shm_kind_between(comm, comm->rank, peer) == SHM_FILE)
			shm_names_remove(comm, peer);
	}
}

static bool shm_state_has_cumem(const struct shm_state *st)
{
	bool has = false;

	for (const struct shm_segment *s = st->segments; s; s = s->next)
		has |= s->kind == SHM_CUMEM;
	for (const struct shm_use *use = st->uses; use; use = use->next)
		has |= use->kind == SHM_CUMEM;
	return has;
}

void shm_state_close(struct ncclComm *comm)
{
	struct shm_state *st = comm->shm;
	struct registry_node *first;

	if (shared_load_u32(comm->abort, SHARED_ACQUIRE))
		shm_names_of_others_remove(comm);
	if (!st)
		return;
	if (shm_state_has_cumem(st))
		transport_kernels_wait(comm);
	shm_uses_close(st);
	first = registry_lock(); /* other ranks of the process search it for segments */
	comm->shm = NULL;
	registry_unlock(first);
	shm_segments_close(comm, st);
	os_free(st);
}
