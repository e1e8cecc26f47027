/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/rank/pairs.h"

#include "core/os/os.h"

struct rank_pairs *rank_pairs_make(int32_t nranks)
{
	size_t bytes = sizeof(struct rank_pairs) + 2ul * (size_t)nranks * sizeof(struct rank_pair);
	struct rank_pairs *p = os_alloc(bytes, "numbers of messages");

	if (p)
		p->nranks = nranks;
	return p;
}

static int32_t pairs_at(const struct rank_pairs *p, int32_t peer, bool is_send)
{
	ASSERT(peer >= 0 && peer < p->nranks);
	return is_send ? peer : p->nranks + peer;
}

void rank_pairs_add(struct rank_pairs *p, const struct rank_message *m)
{
	struct rank_pair *to = &p->pair[pairs_at(p, m->peer, m->is_send)];

	shared_store_u64(&to->count, m->count, SHARED_RELAXED);
	shared_store_u64(&to->type, m->type, SHARED_RELAXED);
	shared_store_u64(&to->call, (uint64_t)(uintptr_t)m->call, SHARED_RELAXED);
	shared_store_u64(&to->caller, m->caller, SHARED_RELAXED);
	shared_store_u64(&to->order, m->order, SHARED_RELAXED);
	shared_store_u64(&to->stream, m->stream, SHARED_RELAXED);
	shared_store_u64(&to->called, m->called, SHARED_RELEASE);
}

void rank_pairs_drop(struct rank_pairs *p, int32_t peer, bool is_send, uint64_t called)
{
	shared_u64 *word = &p->pair[pairs_at(p, peer, is_send)].called;

	if (shared_load_u64(word, SHARED_RELAXED) > called)
		shared_store_u64(word, called, SHARED_RELEASE);
}

bool rank_pairs_read(const struct rank_pairs *p, int32_t peer, bool is_send, struct rank_message *m)
{
	const struct rank_pair *from = &p->pair[pairs_at(p, peer, is_send)];

	*m = (struct rank_message){.called = shared_load_u64(&from->called, SHARED_ACQUIRE)};
	if (!m->called)
		return false;
	m->peer = peer;
	m->is_send = is_send;
	m->count = shared_load_u64(&from->count, SHARED_RELAXED);
	m->type = (uint8_t)shared_load_u64(&from->type, SHARED_RELAXED);
	m->call = (const char *)(uintptr_t)shared_load_u64(&from->call, SHARED_RELAXED);
	m->caller = shared_load_u64(&from->caller, SHARED_RELAXED);
	m->order = shared_load_u64(&from->order, SHARED_RELAXED);
	m->stream = shared_load_u64(&from->stream, SHARED_RELAXED);
	return true;
}
