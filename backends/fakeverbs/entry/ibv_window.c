/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: the calls, and the posting of bind requests. objects/window.c executes them. */
#include <errno.h>

#include "backends/fakeverbs/entry/entry.h"

#define HCA_WINDOW_RIGHTS                                                                          \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |             \
	 IBV_ACCESS_ZERO_BASED)
/* Marks a request of ibv_bind_mw for hca_post_check_bind; never stored. */
#define HCA_SEND_TYPE_1 (1u << 31)
_Static_assert(!(HCA_SEND_TYPE_1 & (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED |
				    IBV_SEND_INLINE | IBV_SEND_IP_CSUM)),
	       "no flag of verbs.h has the bit of the mark");

/* ---- creating ------------------------------------------------------------------------------- */

static struct ibv_mw *hca_alloc_mw(struct ibv_pd *ibv, enum ibv_mw_type type)
{
	if (hca_enter_control(ibv, HCA_KIND_PD, "ibv_alloc_mw", HCA_CALLER()))
		return NULL;
	struct hca_pd_handle *pd = hca_pd_of(ibv);
	struct hca_mw_handle *h = NULL;
	struct hca_mw *mw = NULL;
	int rc = type == IBV_MW_TYPE_1 || type == IBV_MW_TYPE_2 ? 0 : EINVAL;

	if (!rc)
		rc = hca_command_fault("verbs.alloc_mw", NULL, pd->hca->port, -1);
	if (rc)
		goto err;
	rc = ENOMEM;
	h = hca_handle_alloc(HCA_KIND_MW, sizeof *h, "ibv_mw");
	mw = h ? hca_slab_alloc_owned(&hca_world()->mw, h) : NULL;
	if (!mw)
		goto err;
	hca_lock(&mw->item.lock);
	mw->item.made = HCA_CALLER();
	mw->pd = pd->hca->item.index;
	mw->port = pd->hca->port;
	mw->type = type;
	mw->mr = 0;
	ASSERT(mw->item.index < HCA_WINDOW_KEY >> 8);
	mw->key = HCA_WINDOW_KEY | mw->item.index << 8 | (mw->item.generation * 11 & 0xff);
	hca_unlock(&mw->item.lock);
	__atomic_fetch_add(&pd->users, 1, __ATOMIC_ACQ_REL);
	h->hca = mw;
	h->ibv = (struct ibv_mw){.context = ibv->context,
				 .pd = ibv,
				 .rkey = mw->key,
				 .handle = mw->item.index,
				 .type = type};
	os_trace("mw.alloc", mw->key, type, 0);
	return &h->ibv;
err:
	hca_handle_end(h, 0);
	errno = rc;
	return NULL;
}

static int hca_dealloc_mw(struct ibv_mw *ibv)
{
	int bad = hca_enter_control(ibv, HCA_KIND_MW, "ibv_dealloc_mw", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_mw_handle *h = CONTAINER_OF(ibv, struct hca_mw_handle, ibv);
	struct hca_pd_handle *pd = hca_pd_of(ibv->pd);
	int rc = hca_call_fault("verbs.dealloc_mw", NULL, pd->hca->port, -1);

	hca_mw_destroy(h->hca);
	__atomic_fetch_sub(&pd->users, 1, __ATOMIC_ACQ_REL);
	hca_handle_end(h, HCA_CALLER());
	return hca_result(rc);
}

/* ---- posting -------------------------------------------------------------------------------- */

int hca_post_check_bind(const struct hca_qp *qp, const struct ibv_send_wr *wr)
{
	const struct ibv_mw_bind_info *b = &wr->bind_mw.bind_info;
	/* programs set local rights as well, which have no meaning here */
	const unsigned int rights = HCA_WINDOW_RIGHTS | IBV_ACCESS_LOCAL_WRITE;

	if (hca_bad(wr->bind_mw.mw, HCA_KIND_MW, "ibv_bind_mw, IBV_WR_BIND_MW", qp->caller) ||
	    (b->mr && hca_bad(b->mr, HCA_KIND_MR, "ibv_bind_mw, IBV_WR_BIND_MW", qp->caller)))
		return EINVAL;
	if ((wr->send_flags & IBV_SEND_INLINE) || (b->mw_access_flags & ~rights))
		return EINVAL;
	/* windows of type 1 are bound by ibv_bind_mw, which chooses the key */
	if ((wr->bind_mw.mw->type == IBV_MW_TYPE_1) != !!(wr->send_flags & HCA_SEND_TYPE_1)) {
		hca_log("ibv_post_send: qp 0x%x: IBV_WR_BIND_MW is for windows of type 2",
			qp->number);
		return EINVAL;
	}
	return 0;
}

void hca_post_fill_bind(struct hca_wqe *e, const struct ibv_send_wr *wr)
{
	const struct ibv_mw_bind_info *b = &wr->bind_mw.bind_info;
	const struct hca_mw *mw = CONTAINER_OF(wr->bind_mw.mw, struct hca_mw_handle, ibv)->hca;
	const struct hca_mr *mr =
		b->mr ? CONTAINER_OF(b->mr, struct hca_mr_handle, ibv)->hca : NULL;

	e->flags &= ~HCA_SEND_TYPE_1;
	e->bytes = 0;
	e->rkey = wr->bind_mw.rkey;
	e->remote_address = b->addr;
	e->bind = (struct hca_bind){.mw = mw->item.index,
				    .mw_generation = mw->item.generation,
				    .mr = mr ? mr->item.index + 1 : 0,
				    .mr_key = mr ? mr->key : 0,
				    .access = b->mw_access_flags,
				    .bytes = b->length};
}

static int hca_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	if (hca_bad(qp, HCA_KIND_QP, "ibv_bind_mw", HCA_CALLER()) ||
	    hca_bad(mw, HCA_KIND_MW, "ibv_bind_mw", HCA_CALLER()))
		return EINVAL;
	struct ibv_send_wr *bad, wr = {.wr_id = bind->wr_id,
				       .opcode = IBV_WR_BIND_MW,
				       .send_flags = bind->send_flags | HCA_SEND_TYPE_1,
				       .bind_mw = {.mw = mw,
						   .rkey = ibv_inc_rkey(mw->rkey),
						   .bind_info = bind->bind_info}};
	const struct ibv_mr *mr = bind->bind_info.mr;

	if (bind->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED)
		return EINVAL;
	if (mw->pd != qp->pd && hca_personality(hca_qp_of(qp)->hca->port)->window_pd_checked)
		return EPERM;
	if (mr && hca_bad(mr, HCA_KIND_MR, "ibv_bind_mw", HCA_CALLER()))
		return EINVAL;
	if (mr && hca_pd_of(mw->pd)->hca != hca_pd_of(mr->pd)->hca)
		return EPERM;
	int rc = hca_post_send(qp, &wr, &bad);

	if (!rc)
		mw->rkey = wr.bind_mw.rkey;
	return rc;
}

void hca_window_ops(struct ibv_context_ops *ops)
{
	ops->alloc_mw = hca_alloc_mw;
	ops->bind_mw = hca_bind_mw;
	ops->dealloc_mw = hca_dealloc_mw;
}
