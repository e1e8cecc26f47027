/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion channels: each is a queue of completion queues that have an event. */
#include "backends/fakeverbs/queues/queues.h"

void hca_channel_destroy(struct hca_channel *ch)
{
	if (hca_is_here(ch->item.proc))
		hca_ready_close(&ch->ready);
	hca_slab_free(&hca_world()->channel, ch);
}

/* Locks the channel. Rebuilds the list if a process died while it changed it: all queues with an
 * event. */
void hca_channel_lock(struct hca_channel *ch)
{
	struct hca_world *w = hca_world();
	uint32_t at = 0;
	struct hca_cq *cq;

	if (!hca_lock_broken(&ch->item.lock))
		return;
	ch->first = ch->last = 0;
	while ((cq = hca_slab_next(&w->cq, ch->item.proc, &at))) {
		if (cq->channel != ch->item.index + 1 || !cq->events)
			continue;
		cq->next = ch->first;
		ch->first = cq->item.index + 1;
		if (!ch->last)
			ch->last = ch->first;
	}
}

void hca_channel_show(void *channel)
{
	struct hca_channel *ch = channel;

	hca_channel_lock(ch);
	if (ch->first)
		hca_ready_signal(&ch->ready);
	hca_unlock(&ch->item.lock);
}

/* Appends the queue to those that have events. */
static void hca_channel_append(struct hca_channel *ch, struct hca_cq *cq)
{
	struct hca_cq *last = ch->last ? hca_slab_at(&hca_world()->cq, ch->last - 1) : NULL;

	cq->next = 0;
	*(last ? &last->next : &ch->first) = cq->item.index + 1;
	ch->last = cq->item.index + 1;
}

void hca_channel_post(struct hca_cq *cq)
{
	struct hca_world *w = hca_world();

	if (!cq->channel)
		return;
	struct hca_channel *ch = hca_slab_at(&w->channel, cq->channel - 1);

	hca_channel_lock(ch);
	if (cq->events++ == 0)
		hca_channel_append(ch, cq);
	hca_event_ready(&ch->item, &ch->ready, true);
	hca_unlock(&ch->item.lock);
	hca_item_post(&ch->item);
}

struct hca_cq *hca_channel_take(struct hca_channel *ch)
{
	struct hca_world *w = hca_world();

	if (!ch->first)
		return NULL;
	struct hca_cq *cq = hca_slab_at(&w->cq, ch->first - 1);

	ch->first = cq->next;
	if (!ch->first)
		ch->last = 0;
	cq->next = 0;
	if (--cq->events)
		hca_channel_append(ch, cq);
	if (!ch->first)
		hca_event_ready(&ch->item, &ch->ready, false);
	return cq;
}

void hca_channel_purge(struct hca_cq *cq)
{
	struct hca_world *w = hca_world();

	if (!cq->channel)
		return;
	struct hca_channel *ch = hca_slab_at(&w->channel, cq->channel - 1);
	uint32_t before = 0, me = cq->item.index + 1;

	hca_channel_lock(ch);
	for (uint32_t at = ch->first; at;) {
		struct hca_cq *q = hca_slab_at(&w->cq, at - 1);
		uint32_t next = q->next;

		if (at == me) {
			if (before)
				((struct hca_cq *)hca_slab_at(&w->cq, before - 1))->next = next;
			else
				ch->first = next;
			if (ch->last == at)
				ch->last = before;
			cq->next = cq->events = 0;
		} else {
			before = at;
		}
		at = next;
	}
	if (!ch->first)
		hca_event_ready(&ch->item, &ch->ready, false);
	hca_unlock(&ch->item.lock);
}

/* Reports queues that were armed while they held completions and were not polled since: no event
 * will arrive for those completions. */
void hca_check_wakeup(const struct hca_channel *ch, uint64_t caller)
{
	struct hca_world *w = hca_world();
	struct hca_site armed, here;
	uint32_t at = 0;
	struct hca_cq *cq;

	while (hca_rule_on(HCA_RULE_LOST_WAKEUP) &&
	       (cq = hca_slab_next(&w->cq, ch->item.proc, &at))) {
		hca_cq_lock(cq);
		bool lost = cq->ring && cq->channel == ch->item.index + 1 && cq->armed_over &&
			    cq->arm != HCA_ARM_NONE && cq->tail != cq->shown && !cq->events;
		uint32_t n = cq->shown - cq->tail;
		uint64_t armed_at = cq->armed_at;

		hca_unlock(&cq->item.lock);
		if (lost)
			hca_check(
				HCA_RULE_LOST_WAKEUP, armed_at,
				"completion queue %u was armed (at %s) when %u completions were in "
				"it, was not polled since, and ibv_get_cq_event at %s waits for "
				"another one: arm, then poll, then wait",
				cq->item.index, hca_site(cq->item.proc, armed_at, &armed), n,
				hca_site(cq->item.proc, caller, &here));
	}
}
