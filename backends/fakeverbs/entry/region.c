/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions: register, change, deregister. region_memory.c decides which memory can be
 * registered; objects/hca_memory.c has the HCAs' access to it.
 *
 * 	         ibv_reg_mr          ibv_rereg_mr              ibv_dereg_mr
 * 	   free -----------> LIVE <--------------> LIVE   ----------------> free
 * 	                       |  new keys (*)       ^
 * 	                       |                     | (only by another ibv_rereg_mr that succeeds)
 * 	                       +---- failed ------> DEAD: no key is valid
 *
 * 	(*) the same keys if only the rights change
 *
 * A key is the index of a slot and a tag of 8 bits. The tag differs at each registration in the
 * slot, and slots rest before they are reused: a stale key is never valid by accident.
 */
#include <errno.h>

#include "backends/fakeverbs/entry/region.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* A copy between processes takes less than 50 ms; a longer one belongs to a dead process. */
#define HCA_QUIESCE_NS    1000000u
#define HCA_QUIESCE_TRIES (64u * 200u)

/* Reports unfinished work requests that use the region. Real hardware, and this code, fail such a
 * request later with a protection error. The report here names the call with the mistake. */
static void hca_region_check_idle(const struct hca_mr *mr, const char *call, uint64_t caller)
{
	struct hca_site here, there;
	struct hca_world *w = hca_world();
	uint32_t at = 0;
	struct hca_qp *qp;

	while ((qp = hca_slab_next(&w->qp, mr->item.proc, &at))) {
		hca_qp_lock(qp);
		for (int side = 0; side < 2; side++) {
			const struct hca_queue *q = side ? &qp->rq : &qp->sq;

			for (uint32_t i = q->done; i != q->head; i++) {
				struct hca_wqe *e = hca_wqe_at(q, i);
				uint32_t n = e->flags & IBV_SEND_INLINE ? 0 : e->sge_count;

				while (n && hca_wqe_sges(e)[n - 1].lkey != mr->key)
					n--;
				if (!n)
					continue;
				hca_check(
					HCA_RULE_MR_IN_USE, caller,
					"%s at %s: lkey 0x%x is in use: %s wr_id %llu of qp 0x%x, "
					"posted at %s, is not complete",
					call, hca_site(mr->item.proc, caller, &here), mr->key,
					side ? "recv" : "send", (unsigned long long)e->wr_id,
					qp->number, hca_site(mr->item.proc, e->caller, &there));
				break;
			}
		}
		hca_unlock(&qp->item.lock);
	}
}

/* ---- registering ---------------------------------------------------------------------------- */

static uint32_t hca_region_key(struct hca_mr *mr)
{
	ASSERT(mr->item.index < HCA_WINDOW_KEY >> 8); /* a window's key has the highest bit */
	return mr->item.index << 8 | ((mr->keys++ * 7 + mr->item.index * 3 + 1) & 0xff);
}

static void hca_region_fill(struct hca_mr *mr, const struct hca_region_want *want)
{
	mr->access = want->access & HCA_ACCESS_KEPT;
	if (!hca_personality(mr->port)->relaxed_ordering)
		mr->access &= ~(unsigned int)IBV_ACCESS_RELAXED_ORDERING;
	mr->address = want->address;
	mr->bytes = want->bytes;
	mr->iova = (want->access & IBV_ACCESS_ZERO_BASED) && hca_personality(mr->port)->zero_based
			   ? 0
			   : want->iova;
	mr->kind = want->kind;
}

static int hca_region_make(struct hca_mr *mr, const struct hca_pd *pd,
			   const struct hca_region_want *want)
{
	int rc = 0;

	hca_lock(&mr->item.lock);
	ASSERT(!mr->key); /* a free record has no valid key */
	mr->pd = pd->item.index;
	mr->port = pd->port;
	mr->users = mr->windows = mr->gpu = 0;
	mr->window.fd = -1;
	mr->watched = mr->writes = 0;
	mr->caller = mr->item.made = want->caller;
	hca_region_fill(mr, want);
	if (want->kind == HCA_MR_DMABUF)
		rc = hca_region_pin_dmabuf(mr, want->fd);
	else if (want->kind != HCA_MR_NULL)
		rc = hca_region_pin(mr);
	mr->key = rc ? 0 : hca_region_key(mr);
	hca_unlock(&mr->item.lock);
	return rc;
}

/* True if the region counts as a user of its domain. Otherwise the domain may be freed first, and
 * the region does not use the domain's handle again. */
static bool hca_region_holds_pd(const struct hca_mr *mr)
{
	return mr->kind != HCA_MR_NULL || hca_personality(mr->port)->null_region_counts;
}

/* Allocates a region of the HCA. NULL: the HCA or the world has no further one, which is logged. */
static struct hca_mr *hca_region_take(uint32_t port, struct hca_mr_handle *h)
{
	uint32_t most = hca_personality(port)->max_mr, *regions = &hca_world()->port[port].regions;
	bool full = __atomic_fetch_add(regions, 1, __ATOMIC_ACQ_REL) >= most;
	struct hca_mr *mr = full ? NULL : hca_slab_alloc_owned(&hca_world()->mr, h);

	if (mr) {
		mr->port = port;
		return mr;
	}
	__atomic_fetch_sub(regions, 1, __ATOMIC_ACQ_REL);
	if (full)
		hca_log("%s has no free memory region: %u are registered, its max_mr",
			h->ibv.context->device->name, most);
	else
		hca_log("the world has no free memory region: all HCAs together have %u",
			hca_slab_room(&hca_world()->mr));
	return NULL;
}

static void hca_region_give(struct hca_mr *mr)
{
	uint32_t *regions = &hca_world()->port[mr->port].regions;
	uint32_t before = __atomic_fetch_sub(regions, 1, __ATOMIC_ACQ_REL);

	/* the region of a process that died here is given a second time */
	ASSERT(before > 0 || hca_members);
	hca_slab_free(&hca_world()->mr, mr);
}

static struct ibv_mr *hca_region_register(struct ibv_pd *ibv, const struct hca_region_want *want,
					  const char *fault)
{
	struct hca_pd_handle *pd = hca_pd_of(ibv);
	struct hca_mr_handle *h = NULL;
	struct hca_mr *mr = NULL;
	int rc = hca_region_check(pd->hca->port, want);

	if (rc)
		hca_check_reg(want->address, want->bytes, want->access, want->caller);
	else
		rc = hca_command_fault(fault, NULL, pd->hca->port, -1);
	if (rc)
		goto err;
	rc = ENOMEM;
	h = hca_handle_alloc(HCA_KIND_MR, sizeof *h, "ibv_mr");
	if (h)
		h->ibv.context = ibv->context;
	mr = h ? hca_region_take(pd->hca->port, h) : NULL;
	if (!mr)
		goto err;
	rc = hca_region_make(mr, pd->hca, want);
	if (rc)
		goto err;
	if (hca_region_holds_pd(mr))
		__atomic_fetch_add(&pd->users, 1, __ATOMIC_ACQ_REL);
	h->hca = mr;
	h->ibv = (struct ibv_mr){.context = ibv->context,
				 .pd = ibv,
				 .addr = (void *)(uintptr_t)want->address,
				 .length = want->bytes,
				 .handle = mr->item.index,
				 .lkey = mr->key,
				 .rkey = want->kind == HCA_MR_NULL ? 0 : mr->key};
	os_trace("mr.reg", mr->key, want->bytes, want->access);
	return &h->ibv;
err:
	if (mr)
		hca_region_give(mr);
	hca_handle_end(h, 0);
	errno = rc;
	return NULL;
}

static struct ibv_mr *hca_region_reg(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				     unsigned int access, uint64_t caller)
{
	const struct hca_region_want want = {.address = (uintptr_t)addr,
					     .bytes = length,
					     .iova = iova,
					     .access = access,
					     .caller = caller};

	sim_point("ibv_reg_mr");
	sim_charge_ns(HCA_REG_NS);
	if (hca_bad(pd, HCA_KIND_PD, "ibv_reg_mr", caller))
		return NULL;
	return hca_region_register(pd, &want, "verbs.reg_mr");
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	return hca_region_reg(pd, addr, length, iova, access, HCA_CALLER());
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return hca_region_reg(pd, addr, length, (uintptr_t)addr, (unsigned int)access,
			      HCA_CALLER());
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	return hca_region_reg(pd, addr, length, iova, (unsigned int)access, HCA_CALLER());
}

/* Programs probe for this call with an invalid descriptor: EBADF means that it is supported. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	const unsigned int known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				   IBV_ACCESS_RELAXED_ORDERING;
	const struct hca_region_want want = {.address = offset,
					     .bytes = length,
					     .iova = iova,
					     .access = (unsigned int)access,
					     .kind = HCA_MR_DMABUF,
					     .fd = fd,
					     .caller = HCA_CALLER()};

	sim_point("ibv_reg_dmabuf_mr");
	sim_charge_ns(HCA_REG_NS);
	if (hca_bad(pd, HCA_KIND_PD, "ibv_reg_dmabuf_mr", HCA_CALLER()))
		return NULL;
	if (!hca_personality(hca_pd_of(pd)->hca->port)->dmabuf || ((unsigned int)access & ~known)) {
		errno = (unsigned int)access & ~known ? EINVAL : EOPNOTSUPP;
		return NULL;
	}
	return hca_region_register(pd, &want, "verbs.reg_dmabuf_mr");
}

struct ibv_mr *hca_alloc_null_mr(struct ibv_pd *pd)
{
	static const struct hca_region_want want = {
		.bytes = UINT64_MAX, .access = IBV_ACCESS_LOCAL_WRITE, .kind = HCA_MR_NULL};

	if (hca_enter_control(pd, HCA_KIND_PD, "ibv_alloc_null_mr", HCA_CALLER()))
		return NULL;
	return hca_region_register(pd, &want, "verbs.alloc_null_mr");
}

/* ---- deregistering -------------------------------------------------------------------------- */

/* Invalidates the key and WAITS until no copy is under way. */
static void hca_region_quiesce(struct hca_mr *mr)
{
	hca_atomic_settle_region(mr);
	hca_lock(&mr->item.lock);
	mr->key = 0;
	/* copies of other threads, which never wait; a copy in which the run ended never releases
	 * its count */
	for (uint32_t n = 1; mr->users && !hca_run_ended(); n++) {
		hca_unlock(&mr->item.lock);
		if (hca_members && n % 64 == 0)
			os_sleep_ns(HCA_QUIESCE_NS);
		hca_lock(&mr->item.lock);
		if (hca_members && n == HCA_QUIESCE_TRIES)
			mr->users = 0; /* a copier died */
	}
	hca_unlock(&mr->item.lock);
}

void hca_mr_destroy(struct hca_mr *mr)
{
	os_trace("mr.dereg", mr->key, mr->bytes, 0);
	hca_region_quiesce(mr);
	hca_region_unpin(mr);
	hca_region_give(mr);
}

/* True if windows are bound to the region, which keep it in use. */
static bool hca_region_is_bound(struct hca_mr *mr, const char *call)
{
	struct hca_site made;

	hca_lock(&mr->item.lock);
	uint32_t windows = mr->windows;

	hca_unlock(&mr->item.lock);
	if (windows)
		hca_check(HCA_RULE_DESTROY_ORDER, mr->caller,
			  "%s: %u memory windows are bound to lkey 0x%x (registered at %s)", call,
			  windows, mr->key, hca_site(mr->item.proc, mr->caller, &made));
	return windows;
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
	sim_point("ibv_dereg_mr");
	sim_charge_ns(HCA_REG_NS);
	int bad = hca_bad(ibv, HCA_KIND_MR, "ibv_dereg_mr", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_mr_handle *h = CONTAINER_OF(ibv, struct hca_mr_handle, ibv);
	struct hca_pd_handle *pd = hca_region_holds_pd(h->hca) ? hca_pd_of(ibv->pd) : NULL;

	if (hca_region_is_bound(h->hca, "ibv_dereg_mr"))
		return hca_result(EBUSY);
	int rc = hca_call_fault("verbs.dereg_mr", NULL, h->hca->port, -1);

	hca_region_check_idle(h->hca, "ibv_dereg_mr", HCA_CALLER());
	h->hca->freed_key = ibv->lkey;
	h->hca->freed_caller = HCA_CALLER();
	hca_mr_destroy(h->hca);
	if (pd)
		__atomic_fetch_sub(&pd->users, 1, __ATOMIC_ACQ_REL);
	hca_handle_end(h, HCA_CALLER());
	return hca_result(rc);
}

/* ---- changing ------------------------------------------------------------------------------- */

/* Returns the region's description with the requested changes. */
static struct hca_region_want hca_region_changed(const struct hca_mr *mr, int flags, void *addr,
						 size_t length, int access)
{
	struct hca_region_want want = {.address = mr->address,
				       .bytes = mr->bytes,
				       .iova = mr->iova,
				       .access = mr->access,
				       .kind = HCA_MR_MEMORY};

	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		want.address = want.iova = (uintptr_t)addr;
		want.bytes = length;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		want.access = (unsigned int)access;
	if (want.access & IBV_ACCESS_ZERO_BASED)
		want.iova = want.address; /* hca_region_fill makes it 0 */
	return want;
}

/* Changes the region. After a failure no key is valid, as IBV_REREG_MR_ERR_CMD means. */
static int hca_region_change(struct hca_mr *mr, int flags, const struct hca_pd *pd,
			     const struct hca_region_want *want)
{
	int rc = flags && pd->port == mr->port ? hca_region_check(mr->port, want) : EINVAL;
	uint32_t key = mr->key;

	if (!rc)
		rc = hca_command_fault("verbs.rereg_mr", NULL, mr->port, -1);
	hca_region_quiesce(mr);
	if (rc)
		return rc;
	hca_lock(&mr->item.lock);
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		hca_region_unpin(mr);
	hca_region_fill(mr, want);
	mr->pd = pd->item.index;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		rc = hca_region_pin(mr);
	/* a change of rights only keeps the key, as on hardware that changes its table entry */
	if (flags != IBV_REREG_MR_CHANGE_ACCESS)
		key = hca_region_key(mr);
	mr->key = rc ? 0 : key;
	hca_unlock(&mr->item.lock);
	return rc;
}

static bool hca_rereg_makes_sense(const struct hca_mr *mr, int flags, const struct ibv_pd *pd,
				  const void *addr, size_t length, int access)
{
	if (mr->kind != HCA_MR_MEMORY || (flags & ~(int)IBV_REREG_MR_FLAGS_SUPPORTED))
		return false;
	if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!addr || !length))
		return false;
	if ((flags & IBV_REREG_MR_CHANGE_PD) && !pd)
		return false;
	return !access || (flags & IBV_REREG_MR_CHANGE_ACCESS);
}

int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *new_pd, void *addr, size_t length,
		 int access)
{
	sim_point("ibv_rereg_mr");
	sim_charge_ns(HCA_REG_NS);
	if (hca_bad(ibv, HCA_KIND_MR, "ibv_rereg_mr", HCA_CALLER()) ||
	    ((flags & IBV_REREG_MR_CHANGE_PD) &&
	     hca_bad_part(new_pd, HCA_KIND_PD, ibv->context, "ibv_rereg_mr", HCA_CALLER())))
		return IBV_REREG_MR_ERR_INPUT;
	struct hca_mr *mr = CONTAINER_OF(ibv, struct hca_mr_handle, ibv)->hca;
	struct ibv_pd *pd = flags & IBV_REREG_MR_CHANGE_PD ? new_pd : ibv->pd;

	if (!hca_rereg_makes_sense(mr, flags, new_pd, addr, length, access)) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (hca_region_is_bound(mr, "ibv_rereg_mr")) {
		errno = EBUSY;
		return IBV_REREG_MR_ERR_CMD;
	}
	const struct hca_region_want want = hca_region_changed(mr, flags, addr, length, access);

	hca_region_check_idle(mr, "ibv_rereg_mr", HCA_CALLER());
	mr->freed_key = ibv->lkey;
	mr->freed_caller = HCA_CALLER();
	int rc = hca_region_change(mr, flags, hca_pd_of(pd)->hca, &want);

	os_trace("mr.rereg", mr->key, want.bytes, want.access);
	ibv->lkey = ibv->rkey = mr->key;
	if (rc) {
		errno = rc;
		return IBV_REREG_MR_ERR_CMD;
	}
	__atomic_fetch_sub(&hca_pd_of(ibv->pd)->users, 1, __ATOMIC_ACQ_REL);
	__atomic_fetch_add(&hca_pd_of(pd)->users, 1, __ATOMIC_ACQ_REL);
	ibv->pd = pd;
	ibv->addr = (void *)(uintptr_t)want.address;
	ibv->length = want.bytes;
	return 0;
}
