/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/rank/registry.h"

DOPPEL_STATIC_CHECK(sizeof(void *) == sizeof(shared_u64), "a slot is one shared word");

#define REGISTRY_LOCKED 1ull

static shared_u64 *registry_word(void)
{
	return (shared_u64 *)(void *)&os_proc()->slot[OS_SLOT_CORE];
}

/* No step compares the first node's address, which differs from run to run: a compare-and-swap
 * would fail or not by what the heap gives. */
struct registry_node *registry_lock(void)
{
	shared_u64 *word = registry_word();
	const struct wait w = {
		.on = word,
		.want = 0,
		.mask = REGISTRY_LOCKED,
		.kind = WAIT_EQ,
		.bytes = 8,
		.why = "the process' list of communicators",
		.from = {.rank = -1, .channel = -1, .step = -1},
	};
	uint64_t first;

	while ((first = shared_or_u64(word, REGISTRY_LOCKED, SHARED_ACQUIRE)) & REGISTRY_LOCKED)
		(void)os_wait_one(&w, NULL);
	return (struct registry_node *)(uintptr_t)first;
}

void registry_unlock(struct registry_node *first)
{
	uint64_t value = (uint64_t)(uintptr_t)first;
	ASSERT(!(value & REGISTRY_LOCKED));
	shared_store_u64(registry_word(), value, SHARED_RELEASE);
}

void registry_add(struct registry_node *node)
{
	node->next = registry_lock();
	shared_note_write(&node->next, sizeof node->next);
	registry_unlock(node);
}

void registry_remove(struct registry_node *node)
{
	struct registry_node *first = registry_lock(), **at = &first;
	while (*at && *at != node) {
		at = &(*at)->next;
		shared_note_read(at, sizeof *at);
	}
	ASSERT(*at == node);
	*at = node->next;
	if (at != &first)
		shared_note_write(at, sizeof *at);
	node->next = NULL;
	registry_unlock(first);
}
