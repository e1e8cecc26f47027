/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extended queue pairs: send requests built call by call between ibv_wr_start and ibv_wr_complete.
 * Either all of them are posted or none.
 *
 *   wr_start      locks the queue pair's send side: other tasks that post to it wait
 *   wr_OP         finishes the previous request and begins one, with the current wr_id and wr_flags
 *   wr_set_...    set the location of its data, or copy the data (inline); set its destination
 *   wr_complete   rings the doorbell; or returns the errno of the first error, and posts nothing
 *   wr_abort      discards the requests
 *
 * The builder fills a struct ibv_send_wr. It passes the same checks, and is written into the same
 * slots, as the requests of ibv_post_send (post.c). The slots are after the last posted one, where
 * the HCA does not look yet.
 */
#include <errno.h>

#include "backends/fakeverbs/entry/entry.h"

struct hca_builder {
	struct os_mutex lock; /* locked from wr_start to wr_complete or wr_abort */
	uint32_t building;    /* between these calls */
	uint32_t staged;      /* number of requests written into their slots */
	uint32_t open;        /* `wr` is a further request */
	int error;            /* errno of the first error */
	struct ibv_send_wr wr;
	uint8_t *data; /* inline data, after sge */
	struct ibv_sge sge[];
};

size_t hca_builder_bytes(uint32_t port)
{
	const struct hca_personality *p = hca_personality(port);

	return sizeof(struct hca_builder) + p->max_sge * sizeof(struct ibv_sge) +
	       ALIGN_UP(p->max_inline, 16);
}

static struct hca_qp_handle *hca_qp_ex_of(struct ibv_qp_ex *qp)
{
	return CONTAINER_OF(qp, struct hca_qp_handle, ex);
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	struct hca_qp_handle *h = hca_qp_of(qp);

	if (hca_bad(qp, HCA_KIND_QP, "ibv_qp_to_qp_ex", HCA_CALLER()))
		return NULL;
	return h->builder ? &h->ex : NULL;
}

void hca_builder_wait(struct hca_builder *b)
{
	os_mutex_lock(&b->lock);
}

void hca_builder_leave(struct hca_builder *b)
{
	os_mutex_unlock(&b->lock);
}

/* ---- the section ---------------------------------------------------------------------------- */

static void hca_build_fail(struct hca_builder *b, int error)
{
	if (!b->error)
		b->error = error;
}

/* True if the queue pair was destroyed. Fields after its head are then invalid. */
static bool hca_build_is_dead(const struct hca_qp_handle *h, const char *call, uint64_t caller)
{
	return hca_is_not_mine(&h->head, HCA_KIND_QP) &&
	       hca_bad_handle(&h->ibv, HCA_KIND_QP, call, caller);
}

static void hca_wr_start(struct ibv_qp_ex *ex)
{
	struct hca_qp_handle *h = hca_qp_ex_of(ex);

	sim_point("ibv_wr_start");
	if (hca_build_is_dead(h, "ibv_wr_start", HCA_CALLER()))
		return;
	hca_builder_lock(h);
	h->builder->building = 1;
	h->builder->staged = h->builder->open = 0;
	h->builder->error = 0;
}

/* Writes the current request into its slot. */
static void hca_build_close(struct hca_qp_handle *h)
{
	struct hca_builder *b = h->builder;

	ASSERT(b->staged <= h->hca->sq.size);
	if (!b->open)
		return;
	b->open = 0;
	if (b->error)
		return;
	sim_charge_ns(HCA_POST_NS);
	int rc = ETIMEDOUT;

	if (hca_qp_lock_unless_stopped(h->hca)) {
		rc = hca_post_stage(h->hca, &b->wr, b->staged);
		hca_unlock(&h->hca->item.lock);
	}
	if (rc)
		hca_build_fail(b, rc);
	else
		b->staged++;
}

static void hca_build_end(struct hca_qp_handle *h)
{
	h->builder->building = 0;
	hca_builder_unlock(h);
	sim_events_drain();
}

static bool hca_build_is_open(struct hca_qp_handle *h, const char *call, uint64_t caller)
{
	struct hca_site at;

	if (h->builder->building)
		return true;
	hca_check(HCA_RULE_WR_SECTION, caller,
		  "%s at %s: qp 0x%x: called outside ibv_wr_start ... ibv_wr_complete", call,
		  hca_site(h->hca->item.proc, caller, &at), h->hca->number);
	return false;
}

static int hca_wr_complete(struct ibv_qp_ex *ex)
{
	struct hca_qp_handle *h = hca_qp_ex_of(ex);
	uint64_t caller = HCA_CALLER();

	sim_point("ibv_wr_complete");
	if (hca_build_is_dead(h, "ibv_wr_complete", caller))
		return EINVAL;
	struct hca_builder *b = h->builder;
	struct hca_qp *qp = h->hca;

	if (!hca_build_is_open(h, "ibv_wr_complete", caller))
		return EINVAL;
	hca_build_close(h);
	mem_release(NULL); /* the doorbell */
	int fault = hca_post_fault(qp, "verbs.post_send", &h->ibv), rc = b->error;

	if (!hca_qp_lock_unless_stopped(qp)) {
		hca_build_end(h);
		return ETIMEDOUT;
	}
	qp->caller = caller;
	if (!rc)
		rc = fault;
	if (!rc && b->staged) /* the state may have changed since the request was staged */
		rc = hca_post_check_state(qp);
	if (!rc)
		hca_post_doorbell(qp, b->staged);
	hca_unlock(&qp->item.lock);
	hca_build_end(h);
	return rc;
}

static void hca_wr_abort(struct ibv_qp_ex *ex)
{
	struct hca_qp_handle *h = hca_qp_ex_of(ex);

	sim_point("ibv_wr_abort");
	if (!hca_build_is_dead(h, "ibv_wr_abort", HCA_CALLER()) &&
	    hca_build_is_open(h, "ibv_wr_abort", HCA_CALLER()))
		hca_build_end(h);
}

/* ---- operations ----------------------------------------------------------------------------- */

/* Pass the call site of the functions below, which call these macros. */
#define hca_build_op(ex, opcode)             hca_build_op_at(ex, opcode, HCA_CALLER())
#define hca_build_rdma(ex, opcode, rkey, at) hca_build_rdma_at(ex, opcode, rkey, at, HCA_CALLER())

static struct ibv_send_wr *hca_build_op_at(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode,
					   uint64_t caller)
{
	struct hca_qp_handle *h = hca_qp_ex_of(ex);

	if (hca_build_is_dead(h, "ibv_wr_*", caller))
		return NULL;
	struct hca_builder *b = h->builder;

	if (hca_build_is_open(h, "ibv_wr_*", caller))
		hca_build_close(h);
	b->open = 1;
	b->wr = (struct ibv_send_wr){.wr_id = ex->wr_id,
				     .sg_list = b->sge,
				     .opcode = opcode,
				     .send_flags = ex->wr_flags & ~(unsigned int)IBV_SEND_INLINE};
	return &b->wr;
}

static struct ibv_send_wr *hca_build_rdma_at(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode,
					     uint32_t rkey, uint64_t remote_addr, uint64_t caller)
{
	struct ibv_send_wr *wr = hca_build_op_at(ex, opcode, caller);

	if (!wr)
		return NULL;
	wr->wr.rdma.remote_addr = remote_addr;
	wr->wr.rdma.rkey = rkey;
	return wr;
}

static void hca_wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	hca_build_rdma(ex, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}

static void hca_wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				  __be32 imm)
{
	struct ibv_send_wr *wr = hca_build_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr);

	if (wr)
		wr->imm_data = imm;
}

static void hca_wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	hca_build_rdma(ex, IBV_WR_RDMA_READ, rkey, remote_addr);
}

static void hca_wr_send(struct ibv_qp_ex *ex)
{
	hca_build_op(ex, IBV_WR_SEND);
}

static void hca_wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	struct ibv_send_wr *wr = hca_build_op(ex, IBV_WR_SEND_WITH_IMM);

	if (wr)
		wr->imm_data = imm;
}

static void hca_wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	struct ibv_send_wr *wr = hca_build_op(ex, IBV_WR_SEND_WITH_INV);

	if (wr)
		wr->invalidate_rkey = rkey;
}

static void hca_wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	struct ibv_send_wr *wr = hca_build_op(ex, IBV_WR_LOCAL_INV);

	if (wr)
		wr->invalidate_rkey = rkey;
}

static void hca_wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
			   const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *wr = hca_build_op(ex, IBV_WR_BIND_MW);

	if (!wr)
		return;
	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = *info;
}

static void hca_build_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
			     uint64_t remote_addr, uint64_t compare_add, uint64_t swap,
			     uint64_t caller)
{
	struct ibv_send_wr *wr = hca_build_op_at(ex, opcode, caller);

	if (!wr)
		return;
	wr->wr.atomic.remote_addr = remote_addr;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
	wr->wr.atomic.rkey = rkey;
}

static void hca_wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				  uint64_t compare, uint64_t swap)
{
	hca_build_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap,
			 HCA_CALLER());
}

static void hca_wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				    uint64_t add)
{
	hca_build_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0, HCA_CALLER());
}

/* ---- data and addresses --------------------------------------------------------------------- */

static struct hca_builder *hca_build_current(struct ibv_qp_ex *ex, const char *call,
					     uint64_t caller)
{
	struct hca_qp_handle *h = hca_qp_ex_of(ex);
	struct hca_site at;

	if (hca_build_is_dead(h, call, caller))
		return NULL;
	if (h->builder->building && h->builder->open)
		return h->builder;
	hca_check(HCA_RULE_WR_SECTION, caller,
		  "%s at %s: qp 0x%x: called without a preceding ibv_wr_<op>", call,
		  hca_site(h->hca->item.proc, caller, &at), h->hca->number);
	return NULL;
}

static void hca_build_sges(struct ibv_qp_ex *ex, struct hca_builder *b, size_t n,
			   const struct ibv_sge *list)
{
	const struct hca_qp *qp = hca_qp_ex_of(ex)->hca;

	if (n > qp->sq.sge_max) {
		hca_log("ibv_wr_set_sge_list: qp 0x%x: %zu scatter entries, at most %u", qp->number,
			n, qp->sq.sge_max);
		hca_build_fail(b, EINVAL);
		return;
	}
	b->wr.num_sge = (int)n;
	memcpy(b->sge, list, n * sizeof *list);
}

static void hca_wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	struct hca_builder *b = hca_build_current(ex, "ibv_wr_set_sge_list", HCA_CALLER());

	if (b)
		hca_build_sges(ex, b, n, list);
}

static void hca_wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct hca_builder *b = hca_build_current(ex, "ibv_wr_set_sge", HCA_CALLER());
	const struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	if (b)
		hca_build_sges(ex, b, 1, &sge);
}

static void hca_build_inline(struct ibv_qp_ex *ex, struct hca_builder *b, size_t n,
			     const struct ibv_data_buf *list)
{
	size_t bytes = 0, most = hca_qp_ex_of(ex)->hca->sq.inline_max;

	for (size_t i = 0; i < n; i++) {
		if (list[i].length > most - bytes) {
			hca_log("ibv_wr_set_inline_data: qp 0x%x: more than %zu bytes inline",
				hca_qp_ex_of(ex)->hca->number, most);
			hca_build_fail(b, EINVAL);
			return;
		}
		memcpy(b->data + bytes, list[i].addr, list[i].length);
		bytes += list[i].length;
	}
	b->sge[0] = (struct ibv_sge){.addr = (uintptr_t)b->data, .length = (uint32_t)bytes};
	b->wr.num_sge = 1;
	b->wr.send_flags |= IBV_SEND_INLINE;
}

static void hca_wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n,
					const struct ibv_data_buf *list)
{
	struct hca_builder *b = hca_build_current(ex, "ibv_wr_set_inline_data_list", HCA_CALLER());

	if (b)
		hca_build_inline(ex, b, n, list);
}

static void hca_wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct hca_builder *b = hca_build_current(ex, "ibv_wr_set_inline_data", HCA_CALLER());
	const struct ibv_data_buf one = {.addr = addr, .length = length};

	if (b)
		hca_build_inline(ex, b, 1, &one);
}

/* Copies the eight bytes now. */
static void hca_wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				const void *value)
{
	struct hca_builder *b = hca_qp_ex_of(ex)->builder;

	if (!hca_build_rdma(ex, IBV_WR_ATOMIC_WRITE, rkey, remote_addr))
		return;
	memcpy(b->data, value, sizeof(uint64_t));
	b->sge[0] = (struct ibv_sge){.addr = (uintptr_t)b->data, .length = sizeof(uint64_t)};
	b->wr.num_sge = 1;
	b->wr.send_flags |= IBV_SEND_INLINE;
}

static void hca_wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qpn,
			       uint32_t remote_qkey)
{
	struct hca_builder *b = hca_build_current(ex, "ibv_wr_set_ud_addr", HCA_CALLER());

	if (!b)
		return;
	b->wr.wr.ud.ah = ah;
	b->wr.wr.ud.remote_qpn = remote_qpn;
	b->wr.wr.ud.remote_qkey = remote_qkey;
}

static void hca_wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t remote_srqn)
{
	struct hca_builder *b = hca_build_current(ex, "ibv_wr_set_xrc_srqn", HCA_CALLER());

	if (b)
		b->wr.qp_type.xrc.remote_srqn = remote_srqn;
}

/* ---- creating ------------------------------------------------------------------------------- */

#define HCA_OP(flag, name)                                                                         \
	if (ops & IBV_QP_EX_WITH_##flag)                                                           \
	ex->wr_##name = hca_wr_##name

/* Sets only the calls that were requested; the others stay NULL, as the manual defines. */
void hca_qp_ex_calls(struct hca_qp_handle *h, uint64_t ops)
{
	const struct hca_personality *p = hca_personality(h->hca->port);
	struct ibv_qp_ex *ex = &h->ex;

	/* hca_builder_bytes has room for the largest queue pair */
	ASSERT(h->hca->sq.sge_max <= p->max_sge);
	ASSERT(h->hca->sq.inline_max <= ALIGN_UP(p->max_inline, 16));
	h->builder = (struct hca_builder *)(h + 1);
	h->builder->data = (uint8_t *)(h->builder->sge + p->max_sge);
	HCA_OP(RDMA_WRITE, rdma_write);
	HCA_OP(RDMA_WRITE_WITH_IMM, rdma_write_imm);
	HCA_OP(SEND, send);
	HCA_OP(SEND_WITH_IMM, send_imm);
	HCA_OP(SEND_WITH_INV, send_inv);
	HCA_OP(RDMA_READ, rdma_read);
	HCA_OP(ATOMIC_CMP_AND_SWP, atomic_cmp_swp);
	HCA_OP(ATOMIC_FETCH_AND_ADD, atomic_fetch_add);
	HCA_OP(ATOMIC_WRITE, atomic_write);
	HCA_OP(LOCAL_INV, local_inv);
	HCA_OP(BIND_MW, bind_mw);
	ex->wr_send_tso = NULL; /* segmentation is for raw packets */
	ex->wr_start = hca_wr_start;
	ex->wr_complete = hca_wr_complete;
	ex->wr_abort = hca_wr_abort;
	ex->wr_set_sge = hca_wr_set_sge;
	ex->wr_set_sge_list = hca_wr_set_sge_list;
	ex->wr_set_inline_data = hca_wr_set_inline_data;
	ex->wr_set_inline_data_list = hca_wr_set_inline_data_list;
	if (h->ibv.qp_type == IBV_QPT_UD)
		ex->wr_set_ud_addr = hca_wr_set_ud_addr;
	if (h->ibv.qp_type == IBV_QPT_XRC_SEND)
		ex->wr_set_xrc_srqn = hca_wr_set_xrc_srqn;
}
