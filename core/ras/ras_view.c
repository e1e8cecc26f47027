/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "core/ras/ras.h"

#define RAS_VIEW_FIRST 16

/* Makes room for one more element of `size` bytes, and returns it zeroed. */
static void *view_add(void **array, uint32_t *n, uint32_t *room, size_t size)
{
	if (*n == *room) {
		uint32_t more = MAX_OF(2 * *room, (uint32_t)RAS_VIEW_FIRST);
		void *bigger = os_alloc(more * size, "RAS view");

		if (!bigger)
			return NULL;
		if (*n)
			memcpy(bigger, *array, *n * size);
		os_free(*array);
		*array = bigger;
		*room = more;
	}
	return memset((char *)*array + size * (*n)++, 0, size);
}

struct ras_rank *ras_view_rank(struct ras_view *v)
{
	void *array = v->rank;
	struct ras_rank *r = view_add(&array, &v->ranks, &v->rank_room, sizeof *r);

	v->rank = array;
	v->lost = v->lost || !r;
	return r;
}

struct ras_member *ras_view_member(struct ras_view *v)
{
	void *array = v->member;
	struct ras_member *m = view_add(&array, &v->members, &v->member_room, sizeof *m);

	v->member = array;
	v->lost = v->lost || !m;
	return m;
}

struct ras_call *ras_view_call(struct ras_view *v)
{
	void *array = v->call;
	struct ras_call *c = view_add(&array, &v->calls, &v->call_room, sizeof *c);

	v->call = array;
	v->lost = v->lost || !c;
	return c;
}

struct ras_pair *ras_view_pair(struct ras_view *v)
{
	void *array = v->pair;
	struct ras_pair *p = view_add(&array, &v->pairs, &v->pair_room, sizeof *p);

	v->pair = array;
	v->lost = v->lost || !p;
	return p;
}

void ras_view_free(struct ras_view *v)
{
	os_free(v->call);
	os_free(v->pair);
	os_free(v->rank);
	os_free(v->member);
	*v = (struct ras_view){.ranks = 0};
}
