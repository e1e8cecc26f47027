/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events of a context, and completion channels: the calls. A task removes one entry of
 * a queue, and waits for one if the queue is empty. */
#include <errno.h>

#include "backends/fakeverbs/entry/entry.h"

/* WAITS. Programs of the drop-in have signals and cancelled threads. Tasks of a world have neither,
 * and the engine explains their waits. */
static int hca_event_wait(const struct hca_ready *r, const struct wait *w)
{
	if (hca_members) {
		sim_events_drain();
		return hca_ready_sleep(r);
	}
	os_wait_one(w, NULL);
	return 0;
}

/* ---- asynchronous events -------------------------------------------------------------------- */

static void hca_event_translate(const struct hca_event *e, struct ibv_async_event *out)
{
	struct hca_world *w = hca_world();

	memset(out, 0, sizeof *out);
	out->event_type = (enum ibv_event_type)e->type;
	switch (hca_event_element(out->event_type)) {
	case HCA_ELEMENT_CQ: {
		struct hca_cq *cq = hca_slab_at(&w->cq, e->element);
		struct hca_cq_handle *h = (void *)(uintptr_t)cq->item.handle;

		ASSERT(h); /* hca_cq_destroy purges the events of a queue */
		__atomic_fetch_add(&h->async_taken, 1, __ATOMIC_ACQ_REL);
		out->element.cq = &h->ibv;
		break;
	}
	case HCA_ELEMENT_SRQ: {
		struct hca_srq *srq = hca_slab_at(&w->srq, e->element);
		struct hca_srq_handle *h = (void *)(uintptr_t)srq->item.handle;

		ASSERT(h);
		__atomic_fetch_add(&h->async_taken, 1, __ATOMIC_ACQ_REL);
		out->element.srq = &h->ibv;
		break;
	}
	case HCA_ELEMENT_QP: {
		struct hca_qp *qp = hca_slab_at(&w->qp, e->element);
		struct hca_qp_handle *h = (void *)(uintptr_t)qp->item.handle;

		ASSERT(h); /* the events of a queue pair without an owner are purged */

		__atomic_fetch_add(&h->async_taken, 1, __ATOMIC_ACQ_REL);
		out->element.qp = &h->ibv;
		break;
	}
	case HCA_ELEMENT_PORT:
		out->element.port_num = (int)e->element;
	}
}

/* Finds the context by its address without dereferencing it: another thread may just have closed
 * it. */
static struct hca_context *hca_context_find(const struct ibv_context *context)
{
	struct hca_world *w = hca_world();
	struct hca_context *c;
	uint32_t at = 0;

	while ((c = hca_slab_next(&w->context, hca_proc_id(os_proc()), &at))) {
		hca_context_lock(c);
		bool found =
			__atomic_load_n(&c->item.handle, __ATOMIC_RELAXED) == (uintptr_t)context &&
			!c->closed;

		hca_unlock(&c->item.lock);
		if (found)
			return c;
	}
	return NULL;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	/* no world in a fork's child */
	struct hca_world *world = world_config() ? hca_world() : NULL;
	struct hca_context *c = world ? hca_context_find(context) : NULL;

	if (!c) { /* a context that another thread closed meanwhile is not this task's mistake */
		errno = hca_handle_was(context, HCA_KIND_CONTEXT)
				? ENODEV
				: hca_bad_handle(context, HCA_KIND_CONTEXT, "ibv_get_async_event",
						 HCA_CALLER());
		return -1;
	}
	uint32_t generation = __atomic_load_n(&c->item.generation, __ATOMIC_ACQUIRE);
	sim_point("ibv_get_async_event");
	int rc = hca_call_fault("verbs.get_async_event", NULL, c->port, -1);

	if (rc) {
		errno = rc;
		return -1;
	}

	for (;;) {
		struct wait w = {.on = context,
				 .want = os_event_seq(context),
				 .kind = WAIT_OBJECT,
				 .mask = WAIT_MASK_ALL,
				 .idle = true,
				 .why = "an asynchronous event of the HCA",
				 .from = {-1, -1, -1, "HCA"}};
		uint32_t none = 0;

		hca_context_lock(c);
		bool gone = c->closed ||
			    __atomic_load_n(&c->item.generation, __ATOMIC_ACQUIRE) != generation;
		struct hca_event *e = gone ? NULL : hca_event_unlink(c, &none);

		bool refuse = !gone && !e && hca_ready_nonblocking(&c->ready);

		if (!gone && !c->first) /* also if the event was purged */
			hca_ready_clear(&c->ready);
		if (e)
			hca_event_translate(e, event);
		hca_unlock(&c->item.lock);
		if (e) {
			hca_slab_free(&world->event, e);
			sim_events_drain();
			return 0;
		}
		if (gone || refuse) {
			errno = gone ? ENODEV : EAGAIN;
			return -1;
		}
		rc = hca_event_wait(&c->ready, &w);
		if (rc) {
			errno = rc;
			return -1;
		}
	}
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	sim_point("ibv_ack_async_event");
	switch (hca_event_element(event->event_type)) {
	case HCA_ELEMENT_CQ:
		if (hca_bad(event->element.cq, HCA_KIND_CQ, "ibv_ack_async_event", HCA_CALLER()))
			return;
		__atomic_fetch_add(&event->element.cq->async_events_completed, 1, __ATOMIC_ACQ_REL);
		os_event_post(event->element.cq);
		break;
	case HCA_ELEMENT_SRQ:
		if (hca_bad(event->element.srq, HCA_KIND_SRQ, "ibv_ack_async_event", HCA_CALLER()))
			return;
		__atomic_fetch_add(&event->element.srq->events_completed, 1, __ATOMIC_ACQ_REL);
		os_event_post(event->element.srq);
		break;
	case HCA_ELEMENT_QP:
		if (hca_bad(event->element.qp, HCA_KIND_QP, "ibv_ack_async_event", HCA_CALLER()))
			return;
		__atomic_fetch_add(&event->element.qp->events_completed, 1, __ATOMIC_ACQ_REL);
		os_event_post(event->element.qp);
		break;
	case HCA_ELEMENT_PORT:
		break;
	}
	sim_events_drain();
}

/* ---- completion channels -------------------------------------------------------------------- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	if (hca_enter_control(context, HCA_KIND_CONTEXT, "ibv_create_comp_channel", HCA_CALLER()))
		return NULL;
	int fault = hca_command_fault("verbs.create_comp_channel", NULL,
				      hca_context_of(context)->hca->port, -1);

	if (fault) {
		errno = fault;
		return NULL;
	}
	struct hca_channel_handle *h =
		hca_handle_alloc(HCA_KIND_CHANNEL, sizeof *h, "ibv_comp_channel");

	fault = ENOMEM;
	if (!h)
		goto err;
	h->hca = hca_slab_alloc_owned(&hca_world()->channel, h);
	if (!h->hca)
		goto err_free;
	fault = hca_ready_make(&h->hca->ready);
	if (fault)
		goto err_give;
	h->hca->first = h->hca->last = 0;
	h->ibv.context = context;
	h->port = hca_context_of(context)->hca->port;
	h->hca->item.made = HCA_CALLER();
	h->ibv.fd = h->hca->ready.fd;
	h->ibv.refcnt = 0;
	return &h->ibv;
err_give:
	hca_slab_free(&hca_world()->channel, h->hca);
err_free:
	hca_handle_end(h, 0);
err:
	errno = fault;
	return NULL;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	int bad = hca_enter(ibv, HCA_KIND_CHANNEL, "ibv_destroy_comp_channel", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_channel_handle *h = CONTAINER_OF(ibv, struct hca_channel_handle, ibv);

	if (ibv->refcnt)
		return hca_result(EBUSY);
	int rc = hca_call_fault("verbs.destroy_comp_channel", NULL, h->port, -1);

	hca_channel_destroy(h->hca);
	hca_handle_end(h, HCA_CALLER());
	return hca_result(rc);
}

int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq, void **cq_context)
{
	if (hca_enter(ibv, HCA_KIND_CHANNEL, "ibv_get_cq_event", HCA_CALLER()))
		return -1;
	const struct hca_channel_handle *h = CONTAINER_OF(ibv, struct hca_channel_handle, ibv);
	struct hca_channel *ch = h->hca;
	int rc = hca_call_fault("verbs.get_cq_event", NULL, h->port, -1);

	if (rc) {
		errno = rc;
		return -1;
	}
	for (;;) {
		struct wait w =
			wait_object(ibv, os_event_seq(ibv), "an event of a completion channel",
				    wait_by(-1, -1, "HCA"));

		hca_channel_lock(ch);
		struct hca_cq *took = hca_channel_take(ch);
		bool refuse = !took && hca_ready_nonblocking(&ch->ready);

		if (!ch->first)
			hca_ready_clear(&ch->ready);

		hca_unlock(&ch->item.lock);
		if (refuse) {
			errno = EAGAIN;
			return -1;
		}
		if (took) {
			struct hca_cq_handle *q = (void *)(uintptr_t)took->item.handle;

			__atomic_fetch_add(&q->comp_taken, 1, __ATOMIC_ACQ_REL);
			*cq = &q->ibv;
			*cq_context = q->ibv.cq_context;
			sim_events_drain();
			return 0;
		}
		hca_check_wakeup(ch, HCA_CALLER());
		rc = hca_event_wait(&ch->ready, &w);
		if (rc) {
			errno = rc;
			return -1;
		}
	}
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	if (hca_enter(cq, HCA_KIND_CQ, "ibv_ack_cq_events", HCA_CALLER()))
		return;
	__atomic_fetch_add(&cq->comp_events_completed, n, __ATOMIC_ACQ_REL);
	os_event_post(cq);
	sim_events_drain();
}
