/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Orders in which ranks may call what a group has. Collectives have the same order on all ranks, of
 * all communicators together. Messages between two ranks have one order on both; other messages may
 * come anywhere, between collectives of their communicator and others. A communicator that has no
 * collective in the group has the place of its first message, which all ranks call, and none before
 * it.
 */
#include "sim/lab/program/mixed.h"

enum { ORDER_SWAPS = 3 }; /* for each call */

/* All-to-all and the like are made of messages. */
static bool order_is_made(const struct mixed_call *call)
{
	return call->distance < 0 && call->row.collective->connects;
}

static bool order_is_message(const struct mixed_call *call)
{
	return call->distance >= 0 || order_is_made(call);
}

/* Does the call give its communicator its place? */
static bool order_is_place(const struct mixed_call *call, uint32_t n, uint32_t i)
{
	bool collectives = false, first = true;

	ASSERT(i < n);
	for (uint32_t k = 0; k < n; k++) {
		if (call[k].comm != call[i].comm)
			continue;
		collectives |= !order_is_message(&call[k]);
		first &= k >= i;
	}
	return !order_is_message(&call[i]) || (first && !collectives);
}

void mixed_order_comms(struct mixed_call *call, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (order_is_place(call, n, i))
			call[i].only = -1;
}

/* May two calls that follow each other change their places? */
static bool order_may_swap(const struct mixed_call *call, uint32_t n, uint32_t a, uint32_t b)
{
	bool places = order_is_place(call, n, a) && order_is_place(call, n, b);

	ASSERT(a != b); /* an order has each call once */
	if (places || call[a].comm != call[b].comm)
		return !places;
	/* of one communicator: its place stays the first message's, and pairs keep their order */
	if (order_is_message(&call[a]) && order_is_place(call, n, a))
		return false;
	bool both = order_is_message(&call[a]) && order_is_message(&call[b]);

	if (both && (order_is_made(&call[a]) || order_is_made(&call[b])))
		return false;
	return call[a].distance != call[b].distance;
}

void mixed_order_shuffle(const struct mixed_call *call, uint32_t n, struct sim_rng *rng,
			 uint32_t *order)
{
	for (uint32_t k = 0; k < ORDER_SWAPS * n && n > 1; k++) {
		uint32_t at = (uint32_t)sim_rng_below(rng, n - 1);
		uint32_t a = order[at], b = order[at + 1];

		if (!order_may_swap(call, n, a, b))
			continue;
		order[at] = b;
		order[at + 1] = a;
	}
}
