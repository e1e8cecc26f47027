/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events of a context: a queue in the arena. The program acknowledges an event that it
 * received; destroying the object that the event names waits for the acknowledgement. */
#include "backends/fakeverbs/queues/queues.h"

enum hca_element hca_event_element(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR:
		return HCA_ELEMENT_CQ;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return HCA_ELEMENT_SRQ;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_DEVICE_FATAL:
		return HCA_ELEMENT_PORT;
	default:
		return HCA_ELEMENT_QP;
	}
}

void hca_event_ready(const struct hca_item *it, struct hca_ready *r, bool on)
{
	if (hca_is_here(it->proc))
		(on ? hca_ready_signal : hca_ready_clear)(r);
}

/* Locks the context. Rebuilds `last` if a process died while it appended: an appended event counts
 * if it is linked. */
void hca_context_lock(struct hca_context *c)
{
	struct hca_world *w = hca_world();

	if (!hca_lock_broken(&c->item.lock))
		return;
	c->last = c->first;
	while (c->last) {
		uint32_t next = ((struct hca_event *)hca_slab_at(&w->event, c->last - 1))->next;

		if (!next)
			break;
		c->last = next;
	}
}

static void hca_event_lost(struct hca_world *w, enum ibv_event_type type)
{
	if (__atomic_fetch_add(&w->events_lost, 1, __ATOMIC_RELAXED) == 0)
		hca_log("async event '%s' is lost, and later ones may be: %u events are unread; "
			"expected a program that calls ibv_get_async_event",
			ibv_event_type_str(type), w->event.count);
}

void hca_event_post(uint32_t context, enum ibv_event_type type, uint32_t element,
		    uint32_t generation)
{
	struct hca_world *w = hca_world();

	if (context == HCA_NONE) /* its creator has ended */
		return;
	struct hca_context *c = hca_slab_at(&w->context, context);
	struct hca_event *e = hca_slab_alloc(&w->event);

	/* the kernel drops an event for which it has no memory, too */
	if (!e) {
		hca_event_lost(w, type);
		return;
	}
	e->type = type;
	e->element = element;
	e->generation = generation;
	e->next = 0;
	e->item.proc = UINT32_MAX; /* belongs to the context, not to the process that caused it */
	os_trace("async event", type, element, context);
	hca_context_lock(c);
	if (c->closed) { /* the context is being closed */
		hca_unlock(&c->item.lock);
		hca_slab_free(&w->event, e);
		return;
	}
	ASSERT(!c->first == !c->last);
	if (c->last)
		((struct hca_event *)hca_slab_at(&w->event, c->last - 1))->next = e->item.index + 1;
	else
		c->first = e->item.index + 1;
	c->last = e->item.index + 1;
	hca_event_ready(&c->item, &c->ready, true);
	hca_unlock(&c->item.lock);
	hca_item_post(&c->item);
}

struct hca_event *hca_event_unlink(struct hca_context *c, uint32_t *before)
{
	struct hca_world *w = hca_world();
	struct hca_event *b = *before ? hca_slab_at(&w->event, *before - 1) : NULL;
	uint32_t at = b ? b->next : c->first;
	struct hca_event *e = at ? hca_slab_at(&w->event, at - 1) : NULL;

	if (!e)
		return NULL;
	if (b)
		b->next = e->next;
	else
		c->first = e->next;
	if (c->last == at)
		c->last = *before;
	ASSERT(!c->first == !c->last);
	if (!c->first)
		hca_event_ready(&c->item, &c->ready, false);
	return e;
}

void hca_event_purge(uint32_t context, enum hca_element kind, uint32_t element, uint32_t generation)
{
	struct hca_world *w = hca_world();
	uint32_t before = 0, at;

	if (context == HCA_NONE)
		return;
	struct hca_context *c = hca_slab_at(&w->context, context);

	hca_context_lock(c);
	for (at = c->first; at;) {
		struct hca_event *e = hca_slab_at(&w->event, at - 1);
		uint32_t next = e->next;

		if (hca_event_element((enum ibv_event_type)e->type) == kind &&
		    e->element == element && e->generation == generation) {
			hca_event_unlink(c, &before);
			hca_slab_free(&w->event, e);
		} else {
			before = at;
		}
		at = next;
	}
	hca_unlock(&c->item.lock);
}

void hca_context_destroy(struct hca_context *c)
{
	struct hca_world *w = hca_world();
	struct hca_event *e;
	uint32_t none = 0;

	hca_context_lock(c);
	c->closed = 1;
	while ((e = hca_event_unlink(c, &none)))
		hca_slab_free(&w->event, e);
	if (hca_is_here(c->item.proc)) {
		hca_ready_close(&c->ready);
		hca_ready_close(&c->command);
	}
	hca_unlock(&c->item.lock);
	hca_item_post(&c->item);
	hca_slab_free(&w->context, c);
}

void hca_context_show(void *context)
{
	struct hca_context *c = context;

	hca_context_lock(c);
	if (!c->closed && c->first)
		hca_ready_signal(&c->ready);
	hca_unlock(&c->item.lock);
}

void hca_acked_wait(const void *object, const uint32_t *taken, const uint32_t *acked)
{
	for (;;) {
		struct wait w = wait_object(object, os_event_seq(object),
					    "acknowledgement of the object's events (destroy)",
					    wait_by(-1, -1, "ibv_ack_*"));

		if (__atomic_load_n(taken, __ATOMIC_ACQUIRE) ==
		    __atomic_load_n(acked, __ATOMIC_ACQUIRE))
			return;
		os_wait_one(&w, NULL);
	}
}
