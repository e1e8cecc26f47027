/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/os/os_grow.h"
#include "core/ras/ras.h"

#define RAS_VIEW_FIRST 16

/* Defines the function that adds an element to an array of the view, and returns it zeroed. */
#define RAS_VIEW_ADD(type, n, room)                                                                \
	struct ras_##type *ras_view_##type(struct ras_view *v)                                     \
	{                                                                                          \
		if (v->n == v->room &&                                                             \
		    !OS_GROW(v->type, v->n, v->room, RAS_VIEW_FIRST, "RAS view")) {                \
			v->lost = true;                                                            \
			return NULL;                                                               \
		}                                                                                  \
		v->type[v->n] = (struct ras_##type){0};                                            \
		return &v->type[v->n++];                                                           \
	}
RAS_VIEW_ADD(rank, ranks, rank_room)
RAS_VIEW_ADD(member, members, member_room)
RAS_VIEW_ADD(call, calls, call_room)
RAS_VIEW_ADD(pair, pairs, pair_room)

void ras_view_free(struct ras_view *v)
{
	os_free(v->call);
	os_free(v->pair);
	os_free(v->rank);
	os_free(v->member);
	*v = (struct ras_view){.ranks = 0};
}
