/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: the calls. */
#include <errno.h>

#include "backends/fakeverbs/entry/entry.h"

static void hca_cq_init(struct hca_cq *cq, const struct hca_context *context, uint64_t ring,
			uint32_t size)
{
	ASSERT(!cq->ring && size && !(size & (size - 1)));
	cq->context = context->item.index;
	cq->port = context->port;
	cq->channel = 0;
	cq->arm = HCA_ARM_NONE;
	cq->events = cq->next = cq->overrun = cq->head = 0;
	hca_cq_taken_until(cq, 0);
	cq->held = 0;
	hca_cq_show_until(cq, 0);
	hca_cq_arm_over(cq, false);
	cq->moderate_count = cq->moderate_period_us = cq->moderated = cq->period_runs = 0;
	cq->stamped = 0;
	cq->size = size;
	cq->ring = ring;
}

struct hca_cq_handle *hca_cq_create(struct ibv_context *context,
				    const struct ibv_cq_init_attr_ex *a, uint32_t flags)
{
	struct hca_context_handle *c = hca_context_of(context);
	struct hca_cq_handle *h = NULL;
	struct hca_cq *cq = NULL;
	uint32_t size = 1;
	int rc = EINVAL;

	if (a->cqe < 1 || a->cqe > hca_personality(c->hca->port)->max_cqe ||
	    a->comp_vector >= (uint32_t)context->num_comp_vectors)
		goto err;
	rc = hca_command_fault("verbs.create_cq", NULL, c->hca->port, -1);
	if (rc)
		goto err;
	while (size < a->cqe)
		size *= 2;
	rc = ENOMEM;
	h = hca_handle_alloc(HCA_KIND_CQ, sizeof *h, "ibv_cq");
	cq = h ? hca_slab_alloc_owned(&hca_world()->cq, h) : NULL;
	uint64_t ring = cq ? hca_ring_alloc(&hca_world()->rings, size * sizeof(struct hca_cqe)) : 0;

	if (!ring)
		goto err;
	hca_cq_lock(cq);
	hca_cq_init(cq, c->hca, ring, size);
	cq->ignore_overrun = (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0;
	cq->stamps = (a->wc_flags & (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
				     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)) != 0;
	if (a->channel) {
		cq->channel =
			CONTAINER_OF(a->channel, struct hca_channel_handle, ibv)->hca->item.index +
			1;
		a->channel->refcnt++;
	}
	hca_unlock(&cq->item.lock);
	h->hca = cq;
	h->ibv.context = context;
	h->ibv.channel = a->channel;
	h->ibv.cq_context = a->cq_context;
	h->ibv.handle = cq->item.index;
	h->ibv.cqe = (int)size;
	pthread_mutex_init(&h->ibv.mutex, NULL);
	pthread_cond_init(&h->ibv.cond, NULL);
	return h;
err:
	if (cq)
		hca_slab_free(&hca_world()->cq, cq);
	hca_handle_end(h, 0);
	errno = rc;
	return NULL;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	const struct ibv_cq_init_attr_ex a = {.cqe = cqe < 0 ? 0 : (uint32_t)cqe,
					      .cq_context = cq_context,
					      .channel = channel,
					      .comp_vector = (uint32_t)comp_vector};

	if (hca_enter_control(context, HCA_KIND_CONTEXT, "ibv_create_cq", HCA_CALLER()) ||
	    hca_bad_part(channel, HCA_KIND_CHANNEL, context, "ibv_create_cq", HCA_CALLER()))
		return NULL;
	struct hca_cq_handle *h = hca_cq_create(context, &a, 0);

	if (h)
		h->hca->item.made = HCA_CALLER();
	return h ? &h->ibv : NULL;
}

void hca_cq_destroy(struct hca_cq *cq)
{
	hca_event_purge(cq->context, HCA_ELEMENT_CQ, cq->item.index, cq->item.generation);
	hca_cq_lock(cq);
	uint64_t ring = cq->ring;

	cq->ring = 0;
	cq->arm = HCA_ARM_NONE;
	hca_unlock(&cq->item.lock);
	hca_ring_free(&hca_world()->rings, ring);
	hca_slab_free(&hca_world()->cq, cq);
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
	int bad = hca_enter_control(ibv, HCA_KIND_CQ, "ibv_destroy_cq", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_cq_handle *h = hca_cq_of(ibv);
	struct hca_site at, made;

	if (__atomic_load_n(&h->users, __ATOMIC_ACQUIRE)) {
		hca_check(HCA_RULE_DESTROY_ORDER, HCA_CALLER(),
			  "ibv_destroy_cq at %s: %u queue pair ends still use it (made at %s)",
			  hca_site(h->hca->item.proc, HCA_CALLER(), &at), h->users,
			  hca_site(h->hca->item.proc, h->hca->item.made, &made));
		return hca_result(EBUSY);
	}
	int rc = hca_call_fault("verbs.destroy_cq", ibv, h->hca->port, -1);

	hca_event_purge(h->hca->context, HCA_ELEMENT_CQ, h->hca->item.index,
			h->hca->item.generation);
	hca_channel_purge(h->hca);
	hca_acked_wait(ibv, &h->comp_taken, &ibv->comp_events_completed);
	hca_acked_wait(ibv, &h->async_taken, &ibv->async_events_completed);
	hca_cq_destroy(h->hca);
	if (ibv->channel)
		ibv->channel->refcnt--;
	if (h->parent) {
		hca_ring_memory_free(h->parent, HCA_RESOURCE_CQ, h->ring_memory);
		__atomic_fetch_sub(&hca_pd_of(h->parent)->users, 1, __ATOMIC_ACQ_REL);
	}
	hca_handle_end(h, HCA_CALLER());
	return hca_result(rc);
}

/* ---- polling -------------------------------------------------------------------------------- */

/* True if the queue shows no completion. Checked without the lock. */
static bool hca_cq_is_empty(const struct hca_cq *cq)
{
	uint32_t shown = __atomic_load_n(&cq->shown, __ATOMIC_ACQUIRE);

	return shown == __atomic_load_n(&cq->tail, __ATOMIC_RELAXED);
}

bool hca_poll_fault(struct hca_cq *cq, const struct ibv_cq *ibv)
{
	struct os_fault f;

	if (!hca_fault("verbs.poll_cq", ibv, cq->port, -1, &f))
		return false;
	if (f.kind == OS_FAULT_FAIL)
		return true;
	/* Nothing to hide. Its end would wake all pollers: those of a quiet world never sleep. */
	if (hca_cq_is_empty(cq))
		return false;
	if (f.kind == OS_FAULT_PARTIAL)
		hca_cq_hold(cq, (uint32_t)f.arg, f.more);
	else
		hca_cq_hold(cq, 0, f.arg);
	return false;
}

/* True if the queue is empty and nothing observes the poll. */
static bool hca_cq_is_idle(const struct hca_cq *cq)
{
	return hca_cq_is_empty(cq) && sim_is_calm() && !sim_posts_matter() &&
	       !__atomic_load_n(&cq->armed_over, __ATOMIC_RELAXED);
}

int hca_poll_cq(struct ibv_cq *ibv, int want, struct ibv_wc *wc)
{
	hca_point("ibv_poll_cq", HCA_POLL_NS);
	if (hca_is_not_mine(&hca_cq_of(ibv)->head, HCA_KIND_CQ)) {
		(void)hca_bad_handle(ibv, HCA_KIND_CQ, "ibv_poll_cq", HCA_CALLER());
		return -1;
	}
	struct hca_cq *cq = hca_cq_of(ibv)->hca;
	uint64_t timestamp;

	if (UNLIKELY(sim_mode.faults) && hca_poll_fault(cq, ibv))
		return -1;
	int n = hca_cq_is_idle(cq) ? 0 : hca_cq_pop(cq, wc, want, &timestamp);

	/* A completion that arrived meanwhile is returned before anything that the program looks at
	 * next. */
	if (!n && hca_members && hca_members_idle() && !hca_cq_is_idle(cq))
		n = hca_cq_pop(cq, wc, want, &timestamp);
	if (n)
		hca_poll_hit();
	sim_events_drain();
	return n;
}

int hca_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	sim_point("ibv_req_notify_cq");
	sim_charge_ns(HCA_POLL_NS);
	if (hca_is_not_mine(&hca_cq_of(ibv)->head, HCA_KIND_CQ))
		return hca_result(
			hca_bad_handle(ibv, HCA_KIND_CQ, "ibv_req_notify_cq", HCA_CALLER()));
	struct hca_cq *cq = hca_cq_of(ibv)->hca;
	int rc = hca_call_fault("verbs.req_notify_cq", ibv, cq->port, -1);

	if (rc)
		return hca_result(rc);
	hca_cq_lock(cq);
	cq->armed_at = HCA_CALLER();
	hca_cq_arm_over(cq, cq->tail != cq->shown);
	if (!solicited_only)
		cq->arm = HCA_ARM_ANY;
	else if (cq->arm == HCA_ARM_NONE)
		cq->arm = HCA_ARM_SOLICITED;
	hca_unlock(&cq->item.lock);
	sim_events_drain();
	return 0;
}
