/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory windows: rights on a part of a region, which work requests grant and revoke.
 *
 * 	         bind (new key)                       the library chooses a key of type 1; the
 * 	  FREE -----------------> BOUND               program chooses the last 8 bits of type 2's.
 * 	   ^                        |
 * 	   +------------------------+   type 1: a bind with length 0; type 2: LOCAL_INV,
 * 	                                SEND_WITH_INV, end of the queue pair; either: ibv_dealloc_mw
 *
 * A window of type 1 is valid for every queue pair of its protection domain. A window of type 2
 * (2B) is valid for the queue pair that bound it. While a window is bound, its region cannot be
 * deregistered or changed. The region need not have the rights that the window grants, except
 * LOCAL_WRITE if the window grants writes.
 *
 * Keys of windows have the highest bit; keys of regions never do.
 */
#include <errno.h>

#include "backends/fakeverbs/objects/hca_memory.h"
#include "backends/fakeverbs/objects/personality.h"

/* ---- making --------------------------------------------------------------------------------- */

/* Revokes the window's rights and releases its region. Under the window's lock. */
static void hca_window_unbind(struct hca_mw *mw)
{
	if (!mw->mr)
		return;
	struct hca_mr *mr = hca_slab_at(&hca_world()->mr, mw->mr - 1);

	os_trace("mw.unbind", mw->key, mw->bytes, 0);
	mw->mr = 0; /* first, so that a repair does not unbind twice if the caller dies here */
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
	hca_slab_free(&hca_world()->mw, mw);
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

/* ---- executing ------------------------------------------------------------------------------ */

/* True if the window may grant these rights on this part of the region. Under the region's lock. */
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

/* Binds the window to a region. Under the window's lock. */
static bool hca_window_bind_to(struct hca_mw *mw, const struct hca_qp *qp, const struct hca_wqe *e)
{
	const struct hca_bind *b = &e->bind;
	struct hca_mr *mr = hca_slab_at(&hca_world()->mr, b->mr - 1);

	ASSERT(b->mr && b->bytes); /* a bind of nothing unbinds */
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

/* Executes a bind. A window of type 1 can be bound again at any time, and a length of 0 unbinds it.
 * A window of type 2 must be free. */
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

/* Returns the live window with this key, locked; NULL: no such window. */
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
	ASSERT(mr->windows > 0); /* which keeps the region registered */
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
