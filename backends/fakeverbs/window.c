/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory windows: rights on a part of a region, given and taken by work requests.
 *
 *	         bind (new key)                       a key of type 1 is the library's to choose; that
 *	  FREE -----------------> BOUND               of type 2 the program's, in its last 8 bits.
 *	   ^                        |
 *	   +------------------------+   type 1: bound to nothing; type 2: LOCAL_INV, SEND_WITH_INV,
 *	                                the queue pair goes; either: ibv_dealloc_mw
 *
 * A window of type 1 is good for every queue pair of its protection domain, one of type 2 (2B) for
 * the queue pair that bound it. While it is bound its region cannot go or change. The region need
 * not have the rights that the window gives, except LOCAL_WRITE under those that write.
 *
 * Keys of windows have the highest bit; those of regions never do.
 */
#include <errno.h>

#include "backends/fakeverbs/check.h"
#include "backends/fakeverbs/hca.h"
#include "backends/fakeverbs/personality.h"

#define HCA_WINDOW_KEY 0x80000000u
#define HCA_WINDOW_RIGHTS                                                                          \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |             \
	 IBV_ACCESS_ZERO_BASED)
/* For hca_post_check_bind alone: the request comes from ibv_bind_mw. */
#define HCA_SEND_TYPE_1 (1u << 31)

/* ---- making --------------------------------------------------------------------------------- */

static struct ibv_mw *hca_alloc_mw(struct ibv_pd *ibv, enum ibv_mw_type type)
{
	sim_point("ibv_alloc_mw");
	sim_charge_ns(HCA_CONTROL_NS);
	if (hca_bad(ibv, HCA_KIND_PD, "ibv_alloc_mw", HCA_CALLER()))
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
	h = hca_handle_take(HCA_KIND_MW, sizeof *h, "ibv_mw");
	mw = h ? hca_slab_take_owned(&hca_world()->mw, h) : NULL;
	if (!mw)
		goto err;
	hca_lock(&mw->item.lock);
	mw->item.made = HCA_CALLER();
	mw->pd = pd->hca->item.index;
	mw->port = pd->hca->port;
	mw->type = type;
	mw->mr = 0;
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

/* Under its lock: no key fits, and the region is not held any more. */
static void hca_window_unbind(struct hca_mw *mw)
{
	if (!mw->mr)
		return;
	struct hca_mr *mr = hca_slab_at(&hca_world()->mr, mw->mr - 1);

	os_trace("mw.unbind", mw->key, mw->bytes, 0);
	mw->mr = 0; /* first: never twice, should the caller die in here */
	hca_lock(&mr->item.lock);
	ASSERT(mr->windows > 0);
	mr->windows--;
	hca_unlock(&mr->item.lock);
}

void hca_mw_destroy(struct hca_mw *mw)
{
	hca_lock(&mw->item.lock);
	hca_window_unbind(mw);
	mw->key = 0;
	hca_unlock(&mw->item.lock);
	hca_slab_give(&hca_world()->mw, mw);
}

static int hca_dealloc_mw(struct ibv_mw *ibv)
{
	sim_point("ibv_dealloc_mw");
	sim_charge_ns(HCA_CONTROL_NS);
	int bad = hca_bad(ibv, HCA_KIND_MW, "ibv_dealloc_mw", HCA_CALLER());

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

void hca_windows_forget_qp(const struct hca_qp *qp)
{
	struct hca_world *w = hca_world();
	uint32_t at = 0;
	struct hca_mw *mw;

	while ((mw = hca_slab_next(&w->mw, qp->item.proc, &at))) {
		hca_lock(&mw->item.lock);
		if (mw->mr && mw->type == IBV_MW_TYPE_2 && mw->qp == qp->item.index)
			hca_window_unbind(mw);
		hca_unlock(&mw->item.lock);
	}
}

/* ---- posting -------------------------------------------------------------------------------- */

int hca_post_check_bind(const struct hca_qp *qp, const struct ibv_send_wr *wr)
{
	const struct ibv_mw_bind_info *b = &wr->bind_mw.bind_info;
	/* local rights mean nothing here, and are given all the same */
	const unsigned int rights = HCA_WINDOW_RIGHTS | IBV_ACCESS_LOCAL_WRITE;

	if (hca_bad(wr->bind_mw.mw, HCA_KIND_MW, "ibv_bind_mw, IBV_WR_BIND_MW", qp->caller) ||
	    (b->mr && hca_bad(b->mr, HCA_KIND_MR, "ibv_bind_mw, IBV_WR_BIND_MW", qp->caller)))
		return EINVAL;
	if ((wr->send_flags & IBV_SEND_INLINE) || (b->mw_access_flags & ~rights))
		return EINVAL;
	/* type 1 has a call of its own, which chooses the key */
	if ((wr->bind_mw.mw->type == IBV_MW_TYPE_1) != !!(wr->send_flags & HCA_SEND_TYPE_1)) {
		hca_say("ibv_post_send: qp 0x%x: IBV_WR_BIND_MW is for windows of type 2",
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

/* ---- executing ------------------------------------------------------------------------------ */

/* May this part of the region be given away like that? Under the region's lock. */
static bool hca_window_fits(const struct hca_mr *mr, const struct hca_mw *mw,
			    const struct hca_wqe *e)
{
	const struct hca_bind *b = &e->bind;
	uint32_t writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	if (!mr->key || mr->key != b->mr_key || mr->pd != mw->pd || mr->kind == HCA_MR_NULL)
		return false;
	if (!(mr->access & IBV_ACCESS_MW_BIND) ||
	    ((b->access & writes) && !(mr->access & IBV_ACCESS_LOCAL_WRITE)))
		return false;
	return e->remote_address >= mr->iova && b->bytes <= mr->bytes &&
	       e->remote_address - mr->iova <= mr->bytes - b->bytes;
}

/* Under the window's lock. */
static bool hca_window_bind_to(struct hca_mw *mw, const struct hca_qp *qp, const struct hca_wqe *e)
{
	const struct hca_bind *b = &e->bind;
	struct hca_mr *mr = hca_slab_at(&hca_world()->mr, b->mr - 1);

	hca_lock(&mr->item.lock);
	bool fits = hca_window_fits(mr, mw, e);

	mr->windows += fits;
	hca_unlock(&mr->item.lock);
	if (!fits)
		return false;
	hca_window_unbind(mw);
	mw->mr = b->mr;
	mw->qp = qp->item.index;
	mw->access = b->access;
	mw->address = e->remote_address;
	mw->bytes = b->bytes;
	return true;
}

/* Type 1 is bound anew at any time, and to nothing with a length of 0; type 2 when it is free. */
static bool hca_window_bind(const struct hca_qp *qp, const struct hca_wqe *e)
{
	const struct hca_bind *b = &e->bind;
	struct hca_mw *mw = hca_slab_at(&hca_world()->mw, b->mw);
	bool nothing = !b->mr || !b->bytes, two = mw->type == IBV_MW_TYPE_2;

	hca_lock(&mw->item.lock);
	uint32_t key = hca_personality(qp->port)->window_index_checked
			       ? e->rkey
			       : (mw->key & ~0xffu) | (e->rkey & 0xff);
	bool ok = mw->key && mw->item.generation == b->mw_generation && mw->pd == qp->pd &&
		  (mw->key >> 8 == key >> 8) && !(two && (nothing || mw->mr));

	if (ok && nothing)
		hca_window_unbind(mw);
	else if (ok)
		ok = hca_window_bind_to(mw, qp, e);
	if (ok)
		mw->key = key;
	hca_unlock(&mw->item.lock);
	os_trace("mw.bind", key, b->bytes, ok);
	return ok;
}

/* The live window with this key, locked; NULL: none. */
static struct hca_mw *hca_window_lock(uint32_t key)
{
	struct hca_world *w = hca_world();
	uint32_t index = (key & ~HCA_WINDOW_KEY) >> 8;

	if (!(key & HCA_WINDOW_KEY) || index >= __atomic_load_n(&w->mw.count, __ATOMIC_ACQUIRE))
		return NULL;
	struct hca_mw *mw = hca_slab_at(&w->mw, index);

	hca_lock(&mw->item.lock);
	if (mw->key == key)
		return mw;
	hca_unlock(&mw->item.lock);
	return NULL;
}

bool hca_window_invalidate(const struct hca_qp *qp, uint32_t key)
{
	struct hca_mw *mw = hca_window_lock(key);
	bool ok = mw && mw->type == IBV_MW_TYPE_2 && mw->pd == qp->pd &&
		  (!mw->mr || mw->qp == qp->item.index);

	if (ok)
		hca_window_unbind(mw);
	if (mw)
		hca_unlock(&mw->item.lock);
	return ok;
}

enum ibv_wc_status hca_wqe_do_locally(const struct hca_qp *qp, const struct hca_wqe *e)
{
	bool ok = e->opcode == IBV_WR_BIND_MW ? hca_window_bind(qp, e)
					      : hca_window_invalidate(qp, e->imm);

	return ok ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR;
}

/* ---- access --------------------------------------------------------------------------------- */

static struct hca_mr *hca_window_hold(const struct hca_mw *mw, const struct hca_qp *qp,
				      uint64_t *iova, uint64_t bytes, uint32_t access)
{
	uint64_t base = mw->access & IBV_ACCESS_ZERO_BASED ? 0 : mw->address;

	if (!mw->mr || mw->pd != qp->pd || (mw->access & access) != access ||
	    (mw->type == IBV_MW_TYPE_2 && mw->qp != qp->item.index) || *iova < base ||
	    bytes > mw->bytes || *iova - base > mw->bytes - bytes)
		return NULL;
	struct hca_mr *mr = hca_slab_at(&hca_world()->mr, mw->mr - 1);

	*iova = mw->address + (*iova - base);
	hca_lock(&mr->item.lock);
	mr->users++;
	hca_unlock(&mr->item.lock);
	return mr;
}

struct hca_mr *hca_remote_hold(const struct hca_qp *qp, uint32_t key, uint64_t *iova,
			       uint64_t bytes, uint32_t access)
{
	if (!(key & HCA_WINDOW_KEY))
		return hca_mr_hold(qp->pd, key, *iova, bytes, access);
	struct hca_mw *mw = hca_window_lock(key);

	if (!mw)
		return NULL;
	struct hca_mr *mr = hca_window_hold(mw, qp, iova, bytes, access);

	hca_unlock(&mw->item.lock);
	return mr;
}

void hca_window_ops(struct ibv_context_ops *ops)
{
	ops->alloc_mw = hca_alloc_mw;
	ops->bind_mw = hca_bind_mw;
	ops->dealloc_mw = hca_dealloc_mw;
}
