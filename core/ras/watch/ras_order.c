/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that launch calls of two communicators in different orders. In one stream the second kernel
 * begins when the first one has ended. If another rank has launched them in the other order, each
 * rank's first kernel waits for the other rank's second one. Only calls that may still run are
 * compared: the last ones of communicators that wait.
 */
#include <inttypes.h>

#include "core/ras/ras_job.h"

#define ORDER_ITEMS 256 /* calls that are compared; further ones are not */
#define ORDER_LINES 4

/* A call that may still run: a collective, or a message between two ranks. */
struct order_item {
	const struct ras_comm *c;
	const struct ras_job_rank *rank;
	const struct ras_call *call; /* NULL: a message */
	const struct ras_pair *pair;
	uint64_t order, stream;
};

struct order_items {
	struct order_item at[ORDER_ITEMS];
	uint32_t n;
};

static void order_add(struct order_items *items, struct order_item i)
{
	if (items->n < ORDER_ITEMS)
		items->at[items->n++] = i;
}

static void order_rank(struct order_items *items, const struct ras_comm *c,
		       const struct ras_job_rank *rank)
{
	const struct ras_call *call = ras_call_last(c, rank->r.rank);

	if (!ras_rank_waits(&rank->r) || c->size < 2)
		return;
	if (call)
		order_add(items,
			  (struct order_item){c, rank, call, NULL, call->order, call->stream});
	for (uint32_t i = 0; i < c->pairs; i++)
		if (c->pair[i].rank == rank->r.rank)
			order_add(items, (struct order_item){c, rank, NULL, &c->pair[i],
							     c->pair[i].order, c->pair[i].stream});
}

/* True if the items are parts of one operation, in two ranks. */
static bool order_match(const struct order_item *a, const struct order_item *b)
{
	if (a->c != b->c || a->rank == b->rank || !a->call != !b->call)
		return false;
	if (a->call)
		return a->call->number == b->call->number;
	return a->pair->rank == b->pair->peer && a->pair->peer == b->pair->rank &&
	       a->pair->is_send != b->pair->is_send && a->pair->called == b->pair->called;
}

/* True if one task of a process has launched both on one GPU, `a` first. */
static bool order_is_before(const struct order_item *a, const struct order_item *b)
{
	return a->c != b->c && a->rank->process == b->rank->process &&
	       a->rank->r.cuda_dev == b->rank->r.cuda_dev && a->order < b->order;
}

static void order_item_write(struct ras_text *out, const struct order_item *i)
{
	if (i->call) {
		ras_call_write(out, i->call);
		ras_text_add(out, " (call %" PRIu64 ")", i->call->number);
	} else {
		ras_text_add(out, "%s %s rank %d (message %" PRIu64 ")", i->pair->call,
			     i->pair->is_send ? "to" : "from", i->pair->peer, i->pair->called - 1);
	}
	ras_text_add(out, " of #%u-%u (%016" PRIx64 ")", i->c->group, i->c->number, i->c->hash);
}

static void order_write(struct ras_text *out, const struct order_item *a,
			const struct order_item *b, const struct order_item *other)
{
	ras_text_add(out, "ranks launch calls of two communicators in different orders: rank %d ",
		     a->rank->r.rank);
	order_item_write(out, a);
	ras_text_add(out, " before ");
	order_item_write(out, b);
	ras_text_add(out, "; rank %d in the other order%s\n", other->rank->r.rank,
		     a->stream == b->stream && a->stream
			     ? ""
			     : ", which works only if streams differ and a GPU has room for both");
}

/* Returns the rank's part of `b`, launched before its part of `a`, if another rank has launched
 * them in that order. NULL: no rank has. */
static const struct order_item *order_reversed(const struct order_items *items,
					       const struct order_item *a,
					       const struct order_item *b)
{
	for (uint32_t i = 0; i < items->n; i++) {
		const struct order_item *x = &items->at[i];

		if (!order_match(a, x) || x->rank->r.rank < a->rank->r.rank)
			continue;
		for (uint32_t k = 0; k < items->n; k++)
			if (order_match(b, &items->at[k]) && order_is_before(&items->at[k], x))
				return x;
	}
	return NULL;
}

uint32_t ras_orders_write(struct ras_text *out, const struct ras_job *j)
{
	struct order_items *items = os_alloc(sizeof *items, "RAS order of calls");
	uint32_t n = 0;

	for (uint32_t i = 0; i < j->comms && items; i++)
		for (uint32_t k = 0; k < j->comm[i].ranks; k++)
			order_rank(items, &j->comm[i], &j->comm[i].rank[k]);
	for (uint32_t i = 0; items && i < items->n * items->n && n < ORDER_LINES; i++) {
		const struct order_item *a = &items->at[i / items->n],
					*b = &items->at[i % items->n];
		const struct order_item *other =
			order_is_before(a, b) ? order_reversed(items, a, b) : NULL;

		if (!other)
			continue;
		order_write(out, a, b, other);
		n++;
	}
	out->lost = out->lost || !items;
	os_free(items);
	return n;
}
