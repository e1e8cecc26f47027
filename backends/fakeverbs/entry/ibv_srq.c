/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues: the calls. */
#include <errno.h>

#include "backends/fakeverbs/entry/entry.h"

/* ---- creating, destroying ------------------------------------------------------------------- */

static int hca_srq_check_init(uint32_t port, const struct ibv_srq_init_attr_ex *a)
{
	const struct hca_personality *p = hca_personality(port);

	if (a->srq_type != IBV_SRQT_BASIC && a->srq_type != IBV_SRQT_XRC) {
		hca_log("ibv_create_srq_ex: shared receive queues of type %d: not supported by "
			"this HCA",
			(int)a->srq_type);
		return EOPNOTSUPP;
	}
	if (a->srq_type == IBV_SRQT_XRC && (!a->xrcd || !a->cq || !hca_xrcd_is_of(a->xrcd, port)))
		return EINVAL;
	if (a->attr.max_wr < 1 || a->attr.max_wr > p->max_wr || a->attr.max_sge > p->max_sge)
		return EINVAL;
	return 0;
}

static void hca_srq_handle_fill(struct hca_srq_handle *h, const struct ibv_pd *pd,
				struct ibv_srq_init_attr_ex *a)
{
	const struct hca_srq *srq = h->hca;

	h->pd = hca_pd_of((struct ibv_pd *)pd);
	h->ibv.context = pd->context;
	h->ibv.srq_context = a->srq_context;
	h->ibv.pd = (struct ibv_pd *)pd;
	h->ibv.handle = srq->item.index;
	h->xrcd = srq->xrcd ? a->xrcd : NULL;
	h->cq = srq->xrcd ? a->cq : NULL;
	pthread_mutex_init(&h->ibv.mutex, NULL);
	pthread_cond_init(&h->ibv.cond, NULL);
	a->attr.max_wr = srq->rq.size;
	a->attr.max_sge = srq->rq.sge_max;
}

/* Creates a shared queue from `a`. Fields that the caller's mask does not name are zero. */
static struct ibv_srq *hca_srq_create(struct ibv_context *context, struct ibv_srq_init_attr_ex *a)
{
	struct hca_pd_handle *pd = hca_pd_of(a->pd);
	struct hca_srq_handle *h = NULL;
	struct hca_srq *srq = NULL;
	void *memory = NULL;
	int rc = hca_srq_check_init(pd->hca->port, a);

	if (!rc)
		rc = hca_command_fault("verbs.create_srq", NULL, pd->hca->port, -1);
	if (rc)
		goto err;
	rc = hca_ring_memory_alloc(a->pd, HCA_RESOURCE_SRQ,
				   a->attr.max_wr * (16ull + a->attr.max_sge * 16ull), &memory);
	if (rc)
		goto err;
	rc = ENOMEM;
	h = hca_handle_alloc(HCA_KIND_SRQ, sizeof *h, "ibv_srq");
	srq = h ? hca_slab_alloc_owned(&hca_world()->srq, h) : NULL;
	if (!srq)
		goto err;
	hca_srq_lock(srq);
	ASSERT(!srq->rq.ring);
	srq->context = hca_context_of(context)->hca->item.index;
	srq->port = pd->hca->port;
	srq->pd = pd->hca->item.index;
	srq->limit = srq->failed = srq->taker = 0;
	srq->xrcd = 0;
	srq->cq = HCA_NONE;
	if (a->srq_type == IBV_SRQT_XRC) {
		srq->xrcd = hca_xrcd_use(a->xrcd);
		srq->cq = hca_cq_of(a->cq)->hca->item.index;
	}
	rc = hca_queue_make(&srq->rq, a->attr.max_wr, MAX_OF(a->attr.max_sge, 1u), 0);
	hca_unlock(&srq->item.lock);
	if (rc)
		goto err;
	h->hca = srq;
	hca_srq_handle_fill(h, a->pd, a);
	h->ring_memory = memory;
	if (srq->xrcd)
		__atomic_fetch_add(&hca_cq_of(a->cq)->users, 1, __ATOMIC_ACQ_REL);
	__atomic_fetch_add(&pd->users, 1, __ATOMIC_ACQ_REL);
	os_trace("srq.create", srq->item.index, srq->rq.size, srq->rq.sge_max);
	return &h->ibv;
err:
	hca_ring_memory_free(a->pd, HCA_RESOURCE_SRQ, memory);
	if (srq && srq->xrcd)
		hca_xrcd_unuse(a->xrcd);
	if (srq)
		hca_slab_free(&hca_world()->srq, srq);
	hca_handle_end(h, 0);
	errno = rc;
	return NULL;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex a = {.srq_context = attr->srq_context,
					 .attr = attr->attr,
					 .comp_mask = IBV_SRQ_INIT_ATTR_PD,
					 .srq_type = IBV_SRQT_BASIC,
					 .pd = pd};

	if (hca_enter_control(pd, HCA_KIND_PD, "ibv_create_srq", HCA_CALLER()))
		return NULL;
	struct ibv_srq *srq = hca_srq_create(pd->context, &a);

	if (srq) {
		hca_srq_of(srq)->hca->item.made = HCA_CALLER();
		attr->attr = a.attr;
	}
	return srq;
}

struct ibv_srq *hca_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	sim_point("ibv_create_srq_ex");
	sim_charge_ns(HCA_CONTROL_NS);
	struct ibv_srq_init_attr_ex a = *attr;

	if (!(a.comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		a.srq_type = IBV_SRQT_BASIC;
	if (!(a.comp_mask & IBV_SRQ_INIT_ATTR_XRCD))
		a.xrcd = NULL;
	if (!(a.comp_mask & IBV_SRQ_INIT_ATTR_CQ))
		a.cq = NULL;
	if (!(a.comp_mask & IBV_SRQ_INIT_ATTR_PD) ||
	    (a.comp_mask & ~(uint32_t)(IBV_SRQ_INIT_ATTR_RESERVED - 1))) {
		errno = EINVAL;
		return NULL;
	}
	if (hca_bad(context, HCA_KIND_CONTEXT, "ibv_create_srq_ex", HCA_CALLER()) ||
	    hca_bad(a.pd, HCA_KIND_PD, "ibv_create_srq_ex", HCA_CALLER()) ||
	    hca_bad_part(a.pd, HCA_KIND_PD, context, "ibv_create_srq_ex", HCA_CALLER()) ||
	    hca_bad_part(a.xrcd, HCA_KIND_XRCD, context, "ibv_create_srq_ex", HCA_CALLER()) ||
	    hca_bad_part(a.cq, HCA_KIND_CQ, context, "ibv_create_srq_ex", HCA_CALLER()))
		return NULL;
	struct ibv_srq *srq = hca_srq_create(context, &a);

	if (srq) {
		hca_srq_of(srq)->hca->item.made = HCA_CALLER();
		attr->attr = a.attr;
	}
	return srq;
}

void hca_srq_destroy(struct hca_srq *srq)
{
	hca_event_purge(srq->context, HCA_ELEMENT_SRQ, srq->item.index, srq->item.generation);
	hca_srq_lock(srq);
	os_trace("srq.destroy", srq->item.index, srq->rq.head - srq->rq.done, 0);
	hca_account_drop(&srq->rq, "shared receive");
	hca_queue_end(&srq->rq);
	hca_unlock(&srq->item.lock);
	if (srq->xrcd)
		hca_xrc_forget_srq(srq);
	hca_slab_free(&hca_world()->srq, srq);
}

int ibv_destroy_srq(struct ibv_srq *ibv)
{
	int bad = hca_enter_control(ibv, HCA_KIND_SRQ, "ibv_destroy_srq", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_srq_handle *h = hca_srq_of(ibv);
	uint32_t users = __atomic_load_n(&h->users, __ATOMIC_ACQUIRE);

	if (users) {
		hca_check(HCA_RULE_DESTROY_ORDER, HCA_CALLER(),
			  "ibv_destroy_srq: %u queue pairs still use it", users);
		return hca_result(EBUSY);
	}
	int rc = hca_call_fault("verbs.destroy_srq", ibv, h->hca->port, -1);

	hca_event_purge(h->hca->context, HCA_ELEMENT_SRQ, h->hca->item.index,
			h->hca->item.generation);
	hca_acked_wait(ibv, &h->async_taken, &ibv->events_completed);
	hca_srq_destroy(h->hca);
	__atomic_fetch_sub(&h->pd->users, 1, __ATOMIC_ACQ_REL);
	hca_ring_memory_free(ibv->pd, HCA_RESOURCE_SRQ, h->ring_memory);
	if (h->xrcd) {
		hca_xrcd_unuse(h->xrcd);
		__atomic_fetch_sub(&hca_cq_of(h->cq)->users, 1, __ATOMIC_ACQ_REL);
	}
	hca_handle_end(h, HCA_CALLER());
	return hca_result(rc);
}

/* ---- changing, querying --------------------------------------------------------------------- */

/* Moves the waiting receives into a ring of another size. Slots in use must fit as well. */
static int hca_srq_resize(struct hca_srq *srq, uint32_t wr)
{
	struct hca_queue *old = &srq->rq, fresh;
	uint32_t used = old->head - __atomic_load_n(&old->polled, __ATOMIC_ACQUIRE);
	int rc;

	if (wr < 1 || wr > hca_personality(srq->port)->max_wr || wr < used)
		return EINVAL;
	rc = hca_queue_make(&fresh, wr, old->sge_max, 0);
	if (rc)
		return rc;
	ASSERT(fresh.stride == old->stride && old->head - old->done <= fresh.size);
	fresh.head = old->head;
	fresh.done = old->done;
	for (uint32_t i = old->done; i != old->head; i++) {
		struct hca_wqe *from = hca_wqe_at(old, i), *to = hca_wqe_at(&fresh, i);

		mem_acquire(from);
		mem_forget(from);
		memcpy(to, from, old->stride);
		mem_forget(to);
		mem_release(to);
	}
	/* `polled` keeps its value: completions polled meanwhile count in the same field */
	uint64_t ring = old->ring;

	old->ring = fresh.ring;
	old->size = fresh.size;
	hca_ring_free(&hca_world()->rings, ring);
	return 0;
}

int ibv_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *a, int mask)
{
	int bad = hca_enter_control(ibv, HCA_KIND_SRQ, "ibv_modify_srq", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_srq *srq = hca_srq_of(ibv)->hca;
	int rc = hca_command_fault("verbs.modify_srq", ibv, srq->port, -1);

	if (rc)
		return hca_result(rc);
	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return hca_result(EINVAL);
	hca_srq_lock(srq);
	uint32_t size = mask & IBV_SRQ_MAX_WR ? a->max_wr : srq->rq.size;

	if (srq->failed || ((mask & IBV_SRQ_LIMIT) && a->srq_limit > size))
		rc = EINVAL;
	if (!rc && (mask & IBV_SRQ_MAX_WR))
		rc = hca_srq_resize(srq, size);
	if (!rc && (mask & IBV_SRQ_LIMIT))
		srq->limit = a->srq_limit;
	hca_unlock(&srq->item.lock);
	return hca_result(rc);
}

int ibv_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *a)
{
	int bad = hca_enter_control(ibv, HCA_KIND_SRQ, "ibv_query_srq", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_srq *srq = hca_srq_of(ibv)->hca;
	int rc = hca_command_fault("verbs.query_srq", ibv, srq->port, -1);

	if (rc)
		return hca_result(rc);
	hca_srq_lock(srq);
	*a = (struct ibv_srq_attr){
		.max_wr = srq->rq.size, .max_sge = srq->rq.sge_max, .srq_limit = srq->limit};
	hca_unlock(&srq->item.lock);
	return 0;
}

/* ---- posting -------------------------------------------------------------------------------- */

static int hca_srq_check_recv(const struct hca_srq *srq, const struct ibv_recv_wr *wr)
{
	const struct hca_queue *q = &srq->rq;

	if (srq->failed)
		return EINVAL;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > q->sge_max) {
		hca_log("ibv_post_srq_recv: srq %u: %d scatter entries, at most %u",
			srq->item.index, wr->num_sge, q->sge_max);
		return EINVAL;
	}
	if (q->head - __atomic_load_n(&q->polled, __ATOMIC_ACQUIRE) < q->size)
		return 0;
	hca_log("ibv_post_srq_recv: srq %u: queue of %u is full: %u wait, the completions of %u "
		"were "
		"not polled",
		srq->item.index, q->size, q->head - q->done,
		q->done - __atomic_load_n(&q->polled, __ATOMIC_ACQUIRE));
	return ENOMEM;
}

int hca_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	sim_point("ibv_post_srq_recv");
	if (hca_is_not_mine(&hca_srq_of(ibv)->head, HCA_KIND_SRQ)) {
		*bad = wr;
		return hca_bad_handle(ibv, HCA_KIND_SRQ, "ibv_post_srq_recv", HCA_CALLER());
	}
	struct hca_srq *srq = hca_srq_of(ibv)->hca;
	int rc = 0;

	mem_release(NULL);
	int fault = hca_srq_fault(srq, ibv);

	hca_srq_lock(srq);
	for (; wr; wr = wr->next) {
		sim_charge_ns(HCA_POST_NS);
		rc = fault ? fault : hca_srq_check_recv(srq, wr);
		if (rc)
			break;
		struct hca_wqe *e = hca_wqe_at(&srq->rq, srq->rq.head++);

		hca_post_fill_recv(e, wr);
		hca_account_post(&srq->rq, e, "shared receive");
		os_trace("post.srq_recv", srq->item.index, e->bytes, e->sge_count);
	}
	hca_unlock(&srq->item.lock);
	if (rc)
		*bad = wr;
	sim_events_drain();
	return rc;
}

/* ---- failing -------------------------------------------------------------------------------- */

/* Moves the queue pairs of a failed shared queue to ERR: after IBV_EVENT_SRQ_ERR they cannot
 * receive. Runs as an engine event, because the task that noticed may hold a lock. */
static void hca_srq_died(void *object, uint64_t generation)
{
	struct hca_srq *srq = object;
	struct hca_world *w = hca_world();
	uint32_t at = 0;
	struct hca_qp *qp;

	if (__atomic_load_n(&srq->item.generation, __ATOMIC_ACQUIRE) != (uint32_t)generation)
		return;
	while ((qp = hca_slab_next(&w->qp, UINT32_MAX, &at))) {
		hca_qp_lock(qp);
		if (qp->sq.ring && qp->srq == srq->item.index + 1)
			hca_qp_to_error(qp);
		hca_unlock(&qp->item.lock);
	}
}

int hca_srq_fault(struct hca_srq *srq, const struct ibv_srq *ibv)
{
	const struct sim_event_attr attr = {.name = "srq.error", .kind = SIM_EVENT_WORK};
	struct os_fault f;

	if (hca_fault("verbs.srq", ibv, srq->port, -1, &f) &&
	    !__atomic_exchange_n(&srq->failed, 1, __ATOMIC_ACQ_REL)) {
		hca_event_post(srq->context, IBV_EVENT_SRQ_ERR, srq->item.index,
			       srq->item.generation);
		sim_event_post(&attr, hca_srq_died, srq, srq->item.generation, NULL);
	}
	return hca_call_fault("verbs.post_srq_recv", ibv, srq->port, -1);
}
