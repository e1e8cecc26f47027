/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/os/os_waits.h"

#include <string.h>

void os_waits_clear(struct os_waits *l)
{
	l->n = 0;
	l->abort = NULL;
	l->several = false;
}

static bool os_waits_grow(struct os_waits *l, int n)
{
	int room = MAX_OF(n, 2 * l->room) + 8;
	const size_t each = sizeof *l->waits + sizeof *l->list + sizeof *l->ranks;
	struct wait *waits = os_alloc((size_t)room * each, "list of waits");

	if (!waits)
		return false;
	struct os_waits more = {.waits = waits,
				.list = (const struct wait **)(waits + room),
				.n = l->n,
				.room = room,
				.abort = l->abort,
				.several = l->several};

	more.ranks = (int32_t *)(more.list + room);
	for (int i = 0; i < room; i++)
		more.list[i] = &waits[i];
	if (l->n) {
		memcpy(more.waits, l->waits, (size_t)l->n * sizeof *l->waits);
		memcpy(more.ranks, l->ranks, (size_t)l->n * sizeof *l->ranks);
	}
	os_free(l->waits);
	*l = more;
	return true;
}

struct wait *os_waits_more(struct os_waits *l, int n, int32_t rank)
{
	struct wait *first;

	ASSERT(n > 0);
	if (l->n + n > l->room && !os_waits_grow(l, l->n + n))
		return NULL;
	first = &l->waits[l->n];
	for (int i = 0; i < n; i++)
		l->ranks[l->n + i] = rank;
	l->several = l->several || l->ranks[0] != rank;
	l->n += n;
	return first;
}

bool os_waits_abort(struct os_waits *l, const shared_u32 *abort, int32_t rank)
{
	struct wait *w;

	if (!l->abort || l->abort == abort) {
		l->abort = abort;
		return true;
	}
	w = os_waits_more(l, 1, rank);
	if (!w)
		return false;
	*w = wait_word(abort, 4, WAIT_NE, 0, "abort of one of several communicators",
		       wait_by(-1, -1, NULL));
	return true;
}

int os_waits_wait(const struct os_waits *l)
{
	int rc;

	ASSERT(l->n > 0);
	os_self()->wait_ranks = l->several ? l->ranks : NULL;
	rc = os_wait(l->list, l->n, l->abort, NULL);
	os_self()->wait_ranks = NULL;
	return rc;
}

void os_waits_free(struct os_waits *l)
{
	os_free(l->waits);
	*l = (struct os_waits){0};
}
