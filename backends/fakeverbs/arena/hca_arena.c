/* SPDX-License-Identifier: BSD-3-Clause */
/* Locks and tables of the world arena. */
#include <sched.h>
#include <string.h>

#include "backends/fakeverbs/arena/arena.h"
#include "backends/fakeverbs/arena/point.h"
#include "backends/fakeverbs/arena/report.h"
#include "core/os/os_ops.h"

bool hca_alone;

static bool hca_lock_is_dead(uint32_t holder)
{
	return hca_members && holder && !hca_members->alive(holder - 1);
}

static bool hca_lock_is_stopped(uint32_t holder)
{
	return hca_members && holder && holder != hca_lock_me() && hca_members->stopped(holder - 1);
}

/* Waits are short, because a holder does not wait. After these numbers of spins the waiter yields,
 * and checks whether the holder is dead or stopped. */
#define HCA_LOCK_YIELD   64u
#define HCA_LOCK_DEAD    1024u
#define HCA_LOCK_STOPPED 8192u

static enum hca_locked hca_lock_slow(uint32_t *word, bool patient)
{
	uint32_t me = hca_lock_me(), holder = 0;

	for (uint32_t n = 1; !__atomic_compare_exchange_n(word, &holder, me, false,
							  __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
	     n++) {
		if (n % HCA_LOCK_YIELD == 0)
			sched_yield();
		if (n % HCA_LOCK_DEAD == 0 && hca_lock_is_dead(holder) &&
		    __atomic_compare_exchange_n(word, &holder, me, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return HCA_LOCKED_BROKEN;
		if (n % HCA_LOCK_STOPPED == 0 && hca_lock_is_stopped(holder) && !patient)
			return HCA_LOCKED_NOT;
		holder = 0;
	}
	return HCA_LOCKED;
}

bool hca_lock_wait(uint32_t *word)
{
	if (hca_alone) {
		/* the run ended in a step, which did not release its locks */
		ASSERT(hca_run_ended());
		*word = 1;
		return false;
	}
	return hca_lock_slow(word, true) == HCA_LOCKED_BROKEN;
}

enum hca_locked hca_lock_unless_stopped_wait(uint32_t *word)
{
	if (hca_alone)
		return hca_lock_wait(word) ? HCA_LOCKED_BROKEN : HCA_LOCKED;
	return hca_lock_slow(word, false);
}

/* ---- slabs ---------------------------------------------------------------------------------- */

void hca_slab_init(struct hca_slab *s, size_t item_bytes, uint32_t chunk_shift,
		   uint32_t reuse_after)
{
	ASSERT(item_bytes >= sizeof(struct hca_item));
	ASSERT(!s->count && !s->free_count); /* new memory of the arena is zero */
	s->item_bytes = (uint32_t)ALIGN_UP(item_bytes, 64);
	s->chunk_shift = chunk_shift;
	s->reuse_after = reuse_after;
}

static struct hca_item *hca_slab_grow(struct hca_slab *s)
{
	uint32_t index = s->count, chunk = index >> s->chunk_shift;

	if (chunk >= HCA_CHUNKS)
		return NULL;
	if ((index & ((1u << s->chunk_shift) - 1)) == 0) {
		void *p = world_arena_alloc((size_t)s->item_bytes << s->chunk_shift, "hca table");

		if (!p)
			return NULL;
		__atomic_store_n(&s->chunk[chunk], world_arena_offset(p), __ATOMIC_RELEASE);
	}
	__atomic_store_n(&s->count, index + 1, __ATOMIC_RELEASE);
	struct hca_item *it = hca_slab_at(s, index);

	it->index = index;
	return it;
}

/* ---- the items of a process ----------------------------------------------------------------- */

static uint32_t *hca_slab_owned(struct hca_slab *s, uint32_t proc)
{
	return &s->owned_first[proc % HCA_OWNED_LISTS];
}

/* The slab's lock is held, here and in the next three functions. */
static struct hca_item *hca_slab_numbered(struct hca_slab *s, uint32_t number)
{
	return number ? hca_slab_at(s, number - 1) : NULL;
}

static void hca_slab_own(struct hca_slab *s, struct hca_item *it)
{
	uint32_t *first = hca_slab_owned(s, it->proc);
	struct hca_item *next = hca_slab_numbered(s, *first);

	ASSERT(it->live && it->handle);
	it->owned_prev = 0;
	it->owned_next = *first;
	if (next)
		next->owned_prev = it->index + 1;
	*first = it->index + 1;
}

static void hca_slab_disown(struct hca_slab *s, struct hca_item *it)
{
	struct hca_item *next = hca_slab_numbered(s, it->owned_next);
	struct hca_item *prev = hca_slab_numbered(s, it->owned_prev);

	ASSERT(prev || *hca_slab_owned(s, it->proc) == it->index + 1);
	if (next)
		next->owned_prev = it->owned_prev;
	if (prev)
		prev->owned_next = it->owned_next;
	else
		*hca_slab_owned(s, it->proc) = it->owned_next;
	it->owned_next = it->owned_prev = 0;
}

/* Rebuilds the lists, after a process died while it changed one. */
static void hca_slab_repair(struct hca_slab *s)
{
	uint32_t last = 0;

	s->free_count = s->free_first = s->free_last = 0;
	memset(s->owned_first, 0, sizeof s->owned_first);
	for (uint32_t i = 0; i < s->count; i++) {
		struct hca_item *it = hca_slab_at(s, i);

		it->owned_next = it->owned_prev = 0;
		if (it->live) {
			if (it->handle)
				hca_slab_own(s, it);
			continue;
		}
		it->index = i;
		it->next_free = 0;
		if (last)
			((struct hca_item *)hca_slab_at(s, last - 1))->next_free = i + 1;
		else
			s->free_first = i + 1;
		last = i + 1;
		s->free_count++;
	}
	s->free_last = last;
}

static void hca_slab_lock(struct hca_slab *s)
{
	if (hca_lock_broken(&s->lock))
		hca_slab_repair(s);
}

static void *hca_slab_take_for(struct hca_slab *s, uint32_t proc, void *handle)
{
	struct hca_item *it = NULL;

	hca_slab_lock(s);
	ASSERT(!s->free_count == !s->free_first && s->free_count <= s->count);
	if (s->free_count <= s->reuse_after)
		it = hca_slab_grow(s);
	if (!it && s->free_count) {
		it = hca_slab_at(s, s->free_first - 1);
		s->free_first = it->next_free;
		if (--s->free_count == 0)
			s->free_last = 0;
	}
	if (it) {
		ASSERT(!it->live);
		it->next_free = 0;
		/* a task that walks the slab may still look at the item's last user */
		__atomic_store_n(&it->proc, proc, __ATOMIC_RELAXED);
		__atomic_store_n(&it->handle, (uintptr_t)handle, __ATOMIC_RELAXED);
		it->made = 0;
		__atomic_store_n(&it->live, 1, __ATOMIC_RELEASE);
		if (handle)
			hca_slab_own(s, it);
	}
	hca_unlock(&s->lock);
	return it;
}

void *hca_slab_alloc(struct hca_slab *s)
{
	uint32_t proc = hca_members ? hca_members->self << HCA_MEMBER_NUMBER_BITS | HCA_NO_PROC
				    : UINT32_MAX;

	return hca_slab_take_for(s, proc, NULL);
}

void *hca_slab_alloc_owned(struct hca_slab *s, void *handle)
{
	return hca_slab_take_for(s, hca_proc_id(os_proc()), handle);
}

void hca_slab_free(struct hca_slab *s, void *item)
{
	struct hca_item *it = item;

	hca_slab_lock(s);
	ASSERT(it->live);
	ASSERT(s->free_count < s->count);
	if (it->handle)
		hca_slab_disown(s, it);
	__atomic_store_n(&it->generation, it->generation + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&it->live, 0, __ATOMIC_RELEASE);
	it->next_free = 0;
	if (s->free_count++)
		((struct hca_item *)hca_slab_at(s, s->free_last - 1))->next_free = it->index + 1;
	else
		s->free_first = it->index + 1;
	s->free_last = it->index + 1;
	hca_unlock(&s->lock);
}

void hca_slab_orphan(struct hca_slab *s, void *item)
{
	struct hca_item *it = item;

	hca_slab_lock(s);
	ASSERT(it->live && it->handle);
	hca_slab_disown(s, it);
	__atomic_store_n(&it->proc, UINT32_MAX, __ATOMIC_RELAXED);
	__atomic_store_n(&it->handle, 0, __ATOMIC_RELAXED);
	hca_unlock(&s->lock);
}

static void *hca_slab_next_of_all(struct hca_slab *s, uint32_t *cursor)
{
	uint32_t count = __atomic_load_n(&s->count, __ATOMIC_ACQUIRE);

	while (*cursor < count) {
		struct hca_item *it = hca_slab_at(s, (*cursor)++);

		if (__atomic_load_n(&it->live, __ATOMIC_ACQUIRE))
			return it;
	}
	return NULL;
}

void *hca_slab_next(struct hca_slab *s, uint32_t proc, uint32_t *cursor)
{
	if (proc == UINT32_MAX)
		return hca_slab_next_of_all(s, cursor);
	hca_slab_lock(s);
	struct hca_item *it = hca_slab_numbered(s, *cursor);

	it = hca_slab_numbered(s, it && it->live && it->proc == proc ? it->owned_next
								     : *hca_slab_owned(s, proc));
	while (it && it->proc != proc)
		it = hca_slab_numbered(s, it->owned_next);
	*cursor = it ? it->index + 1 : *cursor;
	hca_unlock(&s->lock);
	return it;
}

const char *hca_env(const char *name)
{
	const struct world_config *c = world_config();
	size_t n = strlen(name);

	for (int i = 0; c && c->env && c->env[i]; i++)
		if (strncmp(c->env[i], name, n) == 0 && c->env[i][n] == '=')
			return c->env[i] + n + 1;
	return os_real_ops.env(name);
}
