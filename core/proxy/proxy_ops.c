/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lock-free lists by which tasks pass nodes to each other: operations to progress, their slots
 * back, requests to service.
 */
#include "core/proxy/proxy_internal.h"

DOPPEL_STATIC_CHECK(sizeof(void *) == sizeof(shared_u64), "a list's head is one shared word");

static struct proxy_node *proxy_node_at(uint64_t word)
{
	return (struct proxy_node *)(uintptr_t)word;
}

/* A weak compare-and-swap may fail although the word still holds the expected value. On aarch64 it
 * does when the line is lost between load and store. Therefore the loop tests the *result*. A loop
 * that compares the value instead takes such a failure for success. It concludes: the word is
 * unchanged, so no other task pushed, so the swap was done. Then the chain is lost, its operations
 * never run, and every rank of the ring waits without end. */
void proxy_posted_push(struct proxy_posted *list, struct proxy_node *newest,
		       struct proxy_node *oldest)
{
	uint64_t seen = shared_load_u64(&list->head, SHARED_RELAXED);
	uint64_t word = (uint64_t)(uintptr_t)newest;

	ASSERT(newest && oldest);
	do {
		oldest->next = proxy_node_at(seen);
		shared_note_write(&oldest->next, sizeof oldest->next);
	} while (!shared_cas_weak_u64(&list->head, &seen, word, SHARED_RELEASE));
}

struct proxy_node *proxy_posted_take(struct proxy_posted *list)
{
	struct proxy_node *node, *oldest = NULL;

	if (!shared_load_u64(&list->head, SHARED_RELAXED))
		return NULL;
	node = proxy_node_at(shared_exchange_u64(&list->head, 0, SHARED_ACQUIRE));
	while (node) {
		struct proxy_node *next = node->next;

		node->next = oldest;
		shared_note_write(&node->next, sizeof node->next);
		oldest = node;
		node = next;
	}
	return oldest;
}

struct wait proxy_posted_wait(const struct proxy_posted *list, int32_t rank, const char *why,
			      const char *object)
{
	struct wait w = wait_word(&list->head, sizeof list->head, WAIT_NE, 0, why,
				  wait_by(rank, -1, object));

	w.idle = true;
	return w;
}
