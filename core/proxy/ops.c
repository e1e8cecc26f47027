/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lists by which tasks hand numbered nodes to each other: operations to progress, their slots
 * back, requests to service.
 */
#include "core/proxy/proxy_internal.h"

/* A weak compare-and-swap may fail although the word still holds what was expected (on aarch64 it
 * does, when the line is lost between load and store). So the loop goes by the *result*. A loop
 * that compares the value instead ("it still holds what I saw, so nobody came between and my swap
 * must have been done") takes such a failure for success: the chain is lost, its operations never
 * run, and every rank of the ring waits for ever. */
void proxy_posted_push(struct proxy_posted *list, uint32_t newest, uint32_t oldest)
{
	uint32_t seen = shared_load_u32(&list->head, SHARED_RELAXED);

	ASSERT(newest && oldest);
	do {
		list->next[oldest] = seen;
		shared_note_write(&list->next[oldest], sizeof list->next[oldest]);
	} while (!shared_cas_weak_u32(&list->head, &seen, newest, SHARED_RELEASE));
}

uint32_t proxy_posted_take(struct proxy_posted *list)
{
	uint32_t node, oldest = 0;

	if (!shared_load_u32(&list->head, SHARED_RELAXED))
		return 0;
	node = shared_exchange_u32(&list->head, 0, SHARED_ACQUIRE);
	while (node) {
		uint32_t next = list->next[node];

		list->next[node] = oldest;
		shared_note_write(&list->next[node], sizeof list->next[node]);
		oldest = node;
		node = next;
	}
	return oldest;
}
