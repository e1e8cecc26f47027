/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: create, query, destroy. qp_modify.c has ibv_modify_qp. */
#include <errno.h>

#include "backends/fakeverbs/entry/entry.h"

/* ---- creating ------------------------------------------------------------------------------- */

/* Checks the completion queues and domains that each type must have. */
static int hca_qp_check_parts(uint32_t port, const struct ibv_qp_init_attr_ex *a)
{
	switch (a->qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
		return a->pd && a->send_cq && a->recv_cq ? 0 : EINVAL;
	case IBV_QPT_XRC_SEND:
		return a->pd && a->send_cq ? 0 : EINVAL;
	case IBV_QPT_XRC_RECV:
		return a->xrcd && hca_xrcd_is_of(a->xrcd, port) ? 0 : EINVAL;
	default:
		hca_log("ibv_create_qp: queue pairs of type %d: not supported by this HCA",
			(int)a->qp_type);
		return EOPNOTSUPP;
	}
}

static int hca_qp_check_init(uint32_t port, const struct ibv_qp_init_attr_ex *a)
{
	const struct hca_personality *p = hca_personality(port);
	int rc = hca_qp_check_parts(port, a);

	if (rc)
		return rc;
	if (a->srq && hca_srq_of(a->srq)->xrcd)
		/* an XRC queue is addressed by its number and cannot be attached to a queue pair */
		return EINVAL;
	bool receives = !a->srq || !p->srq_ignores_recv;

	if (a->cap.max_send_wr > p->max_wr || a->cap.max_send_sge > p->max_sge ||
	    a->cap.max_inline_data > p->max_inline)
		return EINVAL;
	return receives && (a->cap.max_recv_wr > p->max_wr || a->cap.max_recv_sge > p->max_sge)
		       ? EINVAL
		       : 0;
}

_Static_assert(128u << IBV_MTU_256 == 256 && 128u << IBV_MTU_4096 == 4096, "an MTU is a shift");

static uint32_t hca_qp_cq(struct ibv_cq *cq)
{
	return cq ? hca_cq_of(cq)->hca->item.index : HCA_NONE;
}

static int hca_qp_make(struct hca_qp *qp, const struct hca_context *context,
		       const struct ibv_qp_init_attr_ex *a)
{
	const struct ibv_qp_cap *cap = &a->cap;
	uint32_t sges = MAX_OF(cap->max_send_sge, 1u);
	/* on every known HCA the room of the scatter entries holds inline data as well */
	uint32_t inline_bytes =
		MAX_OF(ALIGN_UP(cap->max_inline_data, 16), sges * (uint32_t)sizeof(struct ibv_sge));
	const struct hca_srq *srq = a->srq ? hca_srq_of(a->srq)->hca : NULL;
	uint32_t recv_wr = srq ? 1 : cap->max_recv_wr;
	uint32_t recv_sge = srq ? srq->rq.sge_max : cap->max_recv_sge;

	ASSERT(!qp->sq.ring && !qp->rq.ring); /* its last user freed them */
	/* it must hold a receive of any shared queue of the domain */
	if (a->qp_type == IBV_QPT_XRC_RECV)
		recv_sge = hca_personality(context->port)->max_sge;

	/* at least one entry, so that an empty queue has a place in the arena */
	int rc = hca_queue_make(&qp->rq, MAX_OF(recv_wr, 1u), MAX_OF(recv_sge, 1u), 0);

	if (rc)
		return rc;
	rc = hca_queue_make(&qp->sq, MAX_OF(cap->max_send_wr, 1u), sges, inline_bytes);
	if (rc) {
		hca_queue_end(&qp->rq);
		return rc;
	}
	qp->port = context->port;
	qp->pd = a->pd ? hca_pd_of(a->pd)->hca->item.index : HCA_NONE;
	qp->context = context->item.index;
	qp->send_cq = hca_qp_cq(a->send_cq);
	qp->recv_cq = hca_qp_cq(a->recv_cq);
	qp->srq = srq ? srq->item.index + 1 : 0;
	qp->srq_generation = srq ? srq->item.generation : 0;
	qp->xrcd = a->xrcd ? hca_xrcd_use(a->xrcd) : 0;
	qp->opens = 1;
	qp->recv_pd = srq ? srq->pd : qp->pd;
	qp->signal_all = a->sq_sig_all != 0;
	qp->state = IBV_QPS_RESET;
	qp->type = a->qp_type;
	qp->qkey = 0;
	qp->blocks_own_mcast = (a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
			       (a->create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
	qp->dest_port = HCA_NONE;
	qp->access = qp->dest_qpn = qp->drained = qp->drain_notify = qp->drain_head = 0;
	qp->mtu_bytes = 128u << hca_personality(qp->port)->active_mtu; /* constant for datagrams */
	qp->pkey_index = qp->path_mtu = qp->max_rd_atomic = qp->max_dest_rd_atomic = 0;
	qp->min_rnr_timer = qp->timeout = qp->retry_count = qp->rnr_retry = 0;
	qp->rq_psn = qp->sq_psn = 0;
	memset(&qp->address, 0, sizeof qp->address);
	memset(&qp->req, 0, sizeof qp->req);
	memset(&qp->resp, 0, sizeof qp->resp);
	memset(&qp->atomic, 0, sizeof qp->atomic);
	qp->partial_packet = qp->partial_number = 0;
	qp->overtaking = qp->overtaking_n = 0;
	qp->ece_options = hca_personality(qp->port)->ece_options;
	qp->check_read = qp->refused = 0;
	qp->caller = 0;
	return 0;
}

static void hca_qp_handle_fill(struct hca_qp_handle *h, struct ibv_context *context,
			       struct ibv_qp_init_attr_ex *a)
{
	struct hca_qp *qp = h->hca;

	h->ibv.context = context;
	h->ibv.qp_context = a->qp_context;
	h->ibv.pd = a->pd;
	h->xrcd = a->xrcd;
	h->ibv.send_cq = a->send_cq;
	h->ibv.recv_cq = a->recv_cq;
	h->ibv.srq = a->srq;
	h->ibv.handle = qp->item.index;
	h->ibv.qp_num = qp->number;
	h->ibv.state = IBV_QPS_RESET;
	h->ibv.qp_type = a->qp_type;
	pthread_mutex_init(&h->ibv.mutex, NULL);
	pthread_cond_init(&h->ibv.cond, NULL);
	a->cap.max_send_wr = qp->sq.size;
	a->cap.max_recv_wr = a->srq ? 0 : qp->rq.size;
	a->cap.max_send_sge = qp->sq.sge_max;
	a->cap.max_recv_sge = a->srq ? 0 : qp->rq.sge_max;
	a->cap.max_inline_data = qp->sq.inline_max;
}

/* Visits the fault sites: the call fails, or the HCA supports less inline data than requested. */
static int hca_qp_create_fault(uint32_t port, const struct ibv_qp_init_attr_ex *a)
{
	struct os_fault f;

	if (hca_fault("verbs.inline", NULL, port, -1, &f) && a->cap.max_inline_data > f.arg)
		return EINVAL;
	return hca_command_fault("verbs.create_qp", NULL, port, -1);
}

/* Clears the attributes of the half that a type lacks. The program's values there are ignored. */
static void hca_qp_trim(struct ibv_qp_init_attr_ex *a)
{
	if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD) || a->qp_type == IBV_QPT_XRC_RECV)
		a->pd = NULL;
	if (!(a->comp_mask & IBV_QP_INIT_ATTR_XRCD) || a->qp_type != IBV_QPT_XRC_RECV)
		a->xrcd = NULL;
	if (a->qp_type == IBV_QPT_XRC_SEND || a->qp_type == IBV_QPT_XRC_RECV) {
		a->srq = NULL;
		a->recv_cq = NULL;
		a->cap.max_recv_wr = a->cap.max_recv_sge = 0;
	}
	if (a->qp_type == IBV_QPT_XRC_RECV) {
		a->send_cq = NULL;
		a->cap = (struct ibv_qp_cap){.max_send_wr = 0};
	}
}

static void hca_qp_count_users(const struct ibv_qp *ibv, int n)
{
	uint32_t by = (uint32_t)n;

	ASSERT(n == 1 || n == -1); /* a queue pair is made, or ends */
	if (ibv->pd)
		__atomic_fetch_add(&hca_pd_of(ibv->pd)->users, by, __ATOMIC_ACQ_REL);
	if (ibv->send_cq)
		__atomic_fetch_add(&hca_cq_of(ibv->send_cq)->users, by, __ATOMIC_ACQ_REL);
	if (ibv->recv_cq)
		__atomic_fetch_add(&hca_cq_of(ibv->recv_cq)->users, by, __ATOMIC_ACQ_REL);
	if (ibv->srq)
		__atomic_fetch_add(&hca_srq_of(ibv->srq)->users, by, __ATOMIC_ACQ_REL);
}

/* Returns the size for which an allocator is called: both rings, 64 bytes a request and 16 a
 * scatter entry. */
static uint64_t hca_qp_ring_bytes(const struct ibv_qp_init_attr_ex *a)
{
	return a->cap.max_send_wr * (64ull + a->cap.max_send_sge * 16ull) +
	       a->cap.max_recv_wr * a->cap.max_recv_sge * 16ull + 64;
}

/* Checks that the handles in `a` live and belong to the context. */
static int hca_qp_check_handles(const struct ibv_context *context,
				const struct ibv_qp_init_attr_ex *a, const char *call,
				uint64_t caller)
{
	return hca_bad_part(a->pd, HCA_KIND_PD, context, call, caller) ||
			       hca_bad_part(a->send_cq, HCA_KIND_CQ, context, call, caller) ||
			       hca_bad_part(a->recv_cq, HCA_KIND_CQ, context, call, caller) ||
			       hca_bad_part(a->srq, HCA_KIND_SRQ, context, call, caller) ||
			       hca_bad_part(a->xrcd, HCA_KIND_XRCD, context, call, caller)
		       ? EINVAL
		       : 0;
}

/* Creates a queue pair. Fields that comp_mask does not name are zero. NULL and errno. */
static struct ibv_qp *hca_qp_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *a,
				    const char *call, uint64_t caller)
{
	const struct hca_context *c = hca_context_of(context)->hca;
	bool ex = a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	struct hca_qp_handle *h = NULL;
	struct hca_qp *qp = NULL;
	void *memory = NULL;

	hca_qp_trim(a);
	int rc = hca_qp_check_handles(context, a, call, caller);

	if (rc) /* returns before any allocator of its domain is called */
		return NULL;
	rc = hca_qp_check_init(c->port, a);

	if (!rc)
		rc = hca_qp_create_fault(c->port, a);
	if (!rc)
		rc = hca_ring_memory_alloc(a->pd, HCA_RESOURCE_QP, hca_qp_ring_bytes(a), &memory);
	if (rc)
		goto err;
	rc = ENOMEM;
	h = hca_handle_alloc(HCA_KIND_QP, sizeof *h + (ex ? hca_builder_bytes(c->port) : 0),
			     "ibv_qp");
	qp = h ? hca_slab_alloc_owned(&hca_world()->qp, h) : NULL;
	if (!qp)
		goto err;
	hca_qp_lock(qp);
	rc = hca_qp_make(qp, c, a);
	if (!rc)
		hca_qp_enter(qp);
	hca_unlock(&qp->item.lock);
	if (rc)
		goto err;
	h->hca = qp;
	hca_qp_handle_fill(h, context, a);
	h->ring_memory = memory;
	if (ex)
		hca_qp_ex_calls(h, a->send_ops_flags);
	hca_qp_count_users(&h->ibv, 1);

	struct os_label label = {.what = "qp",
				 .rank = os_self()->rank,
				 .peer = -1,
				 .channel = -1,
				 .number = qp->number};
	os_label(&h->ibv, &label);
	label.what = "send side of qp";
	os_label(hca_qp_requester(qp), &label);
	label.what = "receive side of qp";
	os_label(hca_qp_responder(qp), &label);
	os_trace("qp.create", hca_qp_id(qp), qp->sq.size, qp->rq.size);
	return &h->ibv;
err:
	hca_ring_memory_free(a->pd, HCA_RESOURCE_QP, memory);
	if (qp)
		hca_slab_free(&hca_world()->qp, qp);
	hca_handle_end(h, 0);
	errno = rc;
	return NULL;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex a = {.qp_context = attr->qp_context,
					.send_cq = attr->send_cq,
					.recv_cq = attr->recv_cq,
					.srq = attr->srq,
					.cap = attr->cap,
					.qp_type = attr->qp_type,
					.sq_sig_all = attr->sq_sig_all,
					.comp_mask = IBV_QP_INIT_ATTR_PD,
					.pd = pd};

	if (hca_enter_control(pd, HCA_KIND_PD, "ibv_create_qp", HCA_CALLER()))
		return NULL;
	struct ibv_qp *qp = hca_qp_create(pd->context, &a, "ibv_create_qp", HCA_CALLER());

	if (qp) {
		hca_qp_of(qp)->hca->item.made = HCA_CALLER();
		hca_check_cq_size(qp, &attr->cap, HCA_CALLER());
		attr->cap = a.cap;
	}
	return qp;
}

#define HCA_OPS_SEND (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define HCA_OPS_UC                                                                                 \
	(HCA_OPS_SEND | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE |                 \
	 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)
#define HCA_OPS_RC                                                                                 \
	(HCA_OPS_UC | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |               \
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_WRITE)

/* Checks the operations. EOPNOTSUPP: queue pairs of this type lack one. */
static int hca_qp_ex_check(enum ibv_qp_type type, uint64_t ops)
{
	uint64_t can = type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND ? HCA_OPS_RC
		       : type == IBV_QPT_UC                           ? HCA_OPS_UC
		       : type == IBV_QPT_UD                           ? HCA_OPS_SEND
								      : 0;

	if (!(ops & ~can))
		return 0;
	hca_log("ibv_create_qp_ex: send_ops_flags 0x%llx: queue pairs of type %d support 0x%llx",
		(unsigned long long)ops, (int)type, (unsigned long long)can);
	return EOPNOTSUPP;
}

struct ibv_qp *hca_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *a)
{
	const uint32_t masks = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
			       IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	bool ex = a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	struct ibv_qp_init_attr_ex mine = *a;
	uint32_t flags = a->qp_type == IBV_QPT_UD ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0;
	uint64_t caller = HCA_CALLER();
	int rc = 0;

	if (hca_enter_control(context, HCA_KIND_CONTEXT, "ibv_create_qp_ex", caller))
		return NULL;
	if ((a->comp_mask & ~masks) ||
	    ((a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && (a->create_flags & ~flags))) {
		hca_log("ibv_create_qp_ex: comp_mask 0x%x, create_flags 0x%x: not supported by "
			"this HCA",
			a->comp_mask, a->create_flags);
		rc = EOPNOTSUPP;
	}
	if (!rc && ex)
		rc = hca_qp_ex_check(a->qp_type, a->send_ops_flags);
	if (rc) {
		errno = rc;
		return NULL;
	}
	if (ex && (a->send_ops_flags & IBV_QP_EX_WITH_ATOMIC_WRITE)) /* its value is inline */
		mine.cap.max_inline_data = MAX_OF(mine.cap.max_inline_data, 8u);
	struct ibv_qp *qp = hca_qp_create(context, &mine, "ibv_create_qp_ex", caller);

	if (qp) {
		hca_qp_of(qp)->hca->item.made = caller;
		hca_check_cq_size(qp, &a->cap, caller);
		a->cap = mine.cap;
	}
	return qp;
}

/* Linux' hop limit for a packet without one of its own. */
#define HCA_ROUTE_HOPS 64

/* ---- querying ------------------------------------------------------------------------------- */

int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *a, int mask, struct ibv_qp_init_attr *init)
{
	int bad = hca_enter_control(ibv, HCA_KIND_QP, "ibv_query_qp", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_qp *qp = hca_qp_of(ibv)->hca;
	int rc = hca_command_fault("verbs.query_qp", ibv, qp->port, -1);

	if (!rc && (mask & ~(IBV_QP_RATE_LIMIT - 1)))
		rc = EOPNOTSUPP; /* bits from IBV_QP_RATE_LIMIT on are newer than this call */
	if (rc)
		return hca_result(rc);
	memset(a, 0, sizeof *a);
	memset(init, 0, sizeof *init);
	if (!hca_qp_lock_unless_stopped(qp))
		return hca_result(ETIMEDOUT);
	a->qp_state = a->cur_qp_state = (enum ibv_qp_state)qp->state;
	a->path_mtu = (enum ibv_mtu)qp->path_mtu;
	a->path_mig_state = IBV_MIG_MIGRATED;
	a->rq_psn = qp->resp.psn;
	a->sq_psn = qp->req.psn_max;
	a->dest_qp_num = qp->dest_qpn;
	a->qp_access_flags = qp->access;
	a->qkey = qp->qkey;
	a->ah_attr = qp->address;
	a->pkey_index = (uint16_t)qp->pkey_index;
	a->sq_draining = qp->state == IBV_QPS_SQD && !qp->drained;
	a->max_rd_atomic = (uint8_t)qp->max_rd_atomic;
	a->max_dest_rd_atomic = (uint8_t)qp->max_dest_rd_atomic;
	a->min_rnr_timer = (uint8_t)qp->min_rnr_timer;
	a->port_num = qp->state == IBV_QPS_RESET ? 0 : 1;
	a->timeout = (uint8_t)qp->timeout;
	a->retry_cnt = (uint8_t)qp->retry_count;
	a->rnr_retry = (uint8_t)qp->rnr_retry;
	init->cap = (struct ibv_qp_cap){.max_send_wr = qp->sq.size,
					.max_recv_wr = qp->srq ? 0 : qp->rq.size,
					.max_send_sge = qp->sq.sge_max,
					.max_recv_sge = qp->srq ? 0 : qp->rq.sge_max,
					.max_inline_data = qp->sq.inline_max};
	init->sq_sig_all = (int)qp->signal_all;
	if (!hca_personality(qp->port)->query_complete) {
		a->cur_qp_state = IBV_QPS_RESET;
		a->ah_attr.grh.hop_limit = a->ah_attr.grh.hop_limit ? HCA_ROUTE_HOPS : 0;
	}
	hca_unlock(&qp->item.lock);
	a->cap = init->cap;
	init->qp_context = ibv->qp_context;
	init->send_cq = ibv->send_cq;
	init->recv_cq = ibv->recv_cq;
	init->srq = ibv->srq;
	init->qp_type = ibv->qp_type;
	if (mask & IBV_QP_STATE)
		ibv->state = a->qp_state;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	int bad = hca_enter_control(ibv, HCA_KIND_QP, "ibv_destroy_qp", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_qp_handle *h = hca_qp_of(ibv);
	struct hca_site at;

	if (hca_mcast_member(h->hca)) {
		hca_check(HCA_RULE_DESTROY_ORDER, HCA_CALLER(),
			  "ibv_destroy_qp at %s: qp 0x%x is attached to a multicast group",
			  hca_site(h->hca->item.proc, HCA_CALLER(), &at), ibv->qp_num);
		return hca_result(EBUSY);
	}
	if (!hca_qp_lock_unless_stopped(h->hca))
		return hca_result(ETIMEDOUT);
	hca_unlock(&h->hca->item.lock);
	int rc = hca_call_fault("verbs.destroy_qp", ibv, h->hca->port, -1);

	if (h->open) {
		hca_xrcd_unuse(h->xrcd);
		hca_qp_open_end(h->open);
		hca_handle_end(h, HCA_CALLER());
		sim_events_drain();
		return hca_result(rc);
	}
	hca_event_purge(h->hca->context, HCA_ELEMENT_QP, h->hca->item.index,
			h->hca->item.generation);
	hca_acked_wait(ibv, &h->async_taken, &ibv->events_completed);
	hca_qp_release(h->hca, true);
	hca_check_cq_leave(ibv);
	hca_qp_count_users(ibv, -1);
	hca_ring_memory_free(ibv->pd, HCA_RESOURCE_QP, h->ring_memory);
	if (h->xrcd)
		hca_xrcd_unuse(h->xrcd);
	os_unlabel(ibv);
	hca_handle_end(h, HCA_CALLER());
	sim_events_drain();
	return hca_result(rc);
}
