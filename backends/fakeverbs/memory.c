/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains, memory regions, and every byte that an HCA moves. */
#include <errno.h>

#include "backends/fakeverbs/hca.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define HCA_ACCESS_KNOWN                                                                           \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |                   \
	 IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	sim_point("ibv_alloc_pd");
	sim_charge_ns(HCA_CONTROL_NS);
	struct hca_context_handle *c = hca_context_of(context);

	int fault = hca_command_fault("verbs.alloc_pd", NULL, c->hca->port, -1);

	if (fault) {
		errno = fault;
		return NULL;
	}
	struct hca_pd_handle *pd = os_alloc(sizeof *pd, "ibv_pd");

	if (!pd)
		goto err;
	pd->hca = hca_slab_take_owned(&hca_world()->pd, pd);
	if (!pd->hca)
		goto err_free;
	pd->hca->port = c->hca->port;
	pd->ibv.context = context;
	pd->ibv.handle = pd->hca->item.index;
	return &pd->ibv;
err_free:
	os_free(pd);
err:
	errno = ENOMEM;
	return NULL;
}

int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	sim_point("ibv_dealloc_pd");
	sim_charge_ns(HCA_CONTROL_NS);
	struct hca_pd_handle *pd = hca_pd_of(ibv);
	uint32_t users = __atomic_load_n(&pd->users, __ATOMIC_ACQUIRE);

	if (users) {
		hca_misuse("ibv_dealloc_pd: %u memory regions and queue pairs still use it", users);
		return EBUSY;
	}
	int rc = hca_call_fault("verbs.dealloc_pd", NULL, pd->hca->port, -1);

	hca_slab_give(&hca_world()->pd, pd->hca);
	os_free(pd);
	return rc;
}

/* ---- registration --------------------------------------------------------------------------- */

static int hca_mr_check(uint64_t address, size_t length, uint64_t iova, unsigned int access)
{
	if (access & ~(unsigned int)(HCA_ACCESS_KNOWN | IBV_ACCESS_ON_DEMAND))
		return EINVAL;
	if (access & IBV_ACCESS_ON_DEMAND) {
		hca_say("ibv_reg_mr: this HCA does no on-demand paging");
		return EOPNOTSUPP;
	}
	/* the specification: who may write from afar may write here */
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	if (!length || address + length < address || iova + length < iova)
		return EINVAL;
	return 0;
}

static int hca_mr_pin(struct hca_mr *mr)
{
	const struct peermem_ops *gpu = peermem();

	if (!gpu || !gpu->owns(os_proc(), mr->address, mr->bytes))
		return 0;
	int rc = gpu->pin(os_proc(), mr->address, mr->bytes, &mr->region);

	if (rc)
		hca_say("ibv_reg_mr: cannot pin %llu bytes of GPU memory: %s",
			(unsigned long long)mr->bytes,
			rc == ENODEV ? "this GPU gives HCAs no access"
				     : "not inside one live allocation of this process");
	mr->gpu = !rc;
	return rc;
}

static struct ibv_mr *hca_mr_register(struct ibv_pd *ibv, void *addr, size_t length, uint64_t iova,
				      unsigned int access)
{
	struct hca_pd_handle *pd = hca_pd_of(ibv);
	struct hca_mr_handle *h = NULL;
	struct hca_mr *mr = NULL;
	uint32_t tag;
	int rc = hca_mr_check((uintptr_t)addr, length, iova, access);

	if (!rc)
		rc = hca_command_fault("verbs.reg_mr", NULL, pd->hca->port, -1);
	if (rc)
		goto err;
	rc = ENOMEM;
	h = os_alloc(sizeof *h, "ibv_mr");
	mr = h ? hca_slab_take_owned(&hca_world()->mr, h) : NULL;
	if (!mr)
		goto err;
	/* the tag differs at each use of the index: a stale key is never right by luck */
	tag = (mr->item.generation * 7 + mr->item.index * 3 + 1) & 0xff;
	hca_lock(&mr->item.lock);
	mr->pd = pd->hca->item.index;
	mr->port = pd->hca->port;
	mr->access = access;
	mr->address = (uintptr_t)addr;
	mr->bytes = length;
	mr->iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	mr->gpu = 0;
	mr->users = 0;
	rc = hca_mr_pin(mr);
	mr->key = rc ? 0 : mr->item.index << 8 | tag;
	hca_unlock(&mr->item.lock);
	if (rc)
		goto err;
	__atomic_fetch_add(&pd->users, 1, __ATOMIC_ACQ_REL);
	h->hca = mr;
	h->ibv = (struct ibv_mr){.context = ibv->context,
				 .pd = ibv,
				 .addr = addr,
				 .length = length,
				 .handle = mr->item.index,
				 .lkey = mr->key,
				 .rkey = mr->key};
	os_trace("mr.reg", mr->key, length, access);
	return &h->ibv;
err:
	if (mr)
		hca_slab_give(&hca_world()->mr, mr);
	os_free(h);
	errno = rc;
	return NULL;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	sim_point("ibv_reg_mr");
	sim_charge_ns(HCA_REG_NS);
	return hca_mr_register(pd, addr, length, iova, access);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	sim_point("ibv_reg_mr");
	sim_charge_ns(HCA_REG_NS);
	return hca_mr_register(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	sim_point("ibv_reg_mr");
	sim_charge_ns(HCA_REG_NS);
	return hca_mr_register(pd, addr, length, iova, (unsigned int)access);
}

/* Is the region named by a work request that is not complete? Real hardware fails that request
 * later, with a protection error; so do we, but we say so here, where the mistake is. */
static void hca_mr_check_idle(const struct hca_mr *mr)
{
	struct hca_world *w = hca_world();
	uint32_t at = 0;
	struct hca_qp *qp;

	while ((qp = hca_slab_next(&w->qp, mr->item.proc, &at))) {
		hca_lock(&qp->item.lock);
		for (int side = 0; side < 2; side++) {
			const struct hca_queue *q = side ? &qp->rq : &qp->sq;

			for (uint32_t i = q->done; i != q->head; i++) {
				struct hca_wqe *e = hca_wqe_at(q, i);
				uint32_t n = e->flags & IBV_SEND_INLINE ? 0 : e->sge_count;

				while (n && hca_wqe_sges(e)[n - 1].lkey != mr->key)
					n--;
				if (!n)
					continue;
				hca_misuse("ibv_dereg_mr: lkey 0x%x is in use: %s wr_id %llu of qp "
					   "0x%x is not complete",
					   mr->key, side ? "recv" : "send",
					   (unsigned long long)e->wr_id, qp->number);
				break;
			}
		}
		hca_unlock(&qp->item.lock);
	}
}

void hca_mr_destroy(struct hca_mr *mr)
{
	os_trace("mr.dereg", mr->key, mr->bytes, 0);
	hca_atomic_settle_region(mr);
	hca_lock(&mr->item.lock);
	mr->key = 0;
	/* copies of other threads; they never wait, but a run that ended in one left its own */
	while (mr->users && !hca_run_ended()) {
		hca_unlock(&mr->item.lock);
		hca_lock(&mr->item.lock);
	}
	hca_unlock(&mr->item.lock);
	if (mr->gpu)
		peermem()->unpin(&mr->region);
	hca_slab_give(&hca_world()->mr, mr);
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
	sim_point("ibv_dereg_mr");
	sim_charge_ns(HCA_REG_NS);
	struct hca_mr_handle *h = CONTAINER_OF(ibv, struct hca_mr_handle, ibv);
	struct hca_pd_handle *pd = hca_pd_of(ibv->pd);

	int rc = hca_call_fault("verbs.dereg_mr", NULL, pd->hca->port, -1);

	hca_mr_check_idle(h->hca);
	hca_mr_destroy(h->hca);
	__atomic_fetch_sub(&pd->users, 1, __ATOMIC_ACQ_REL);
	os_free(h);
	return rc;
}

/* ---- access --------------------------------------------------------------------------------- */

struct hca_mr *hca_mr_hold(uint32_t pd, uint32_t key, uint64_t iova, uint64_t bytes,
			   uint32_t access)
{
	struct hca_world *w = hca_world();
	uint32_t index = key >> 8;

	if (index >= __atomic_load_n(&w->mr.count, __ATOMIC_ACQUIRE))
		return NULL;
	struct hca_mr *mr = hca_slab_at(&w->mr, index);

	hca_lock(&mr->item.lock);
	bool ok = mr->key && mr->key == key && mr->pd == pd && (mr->access & access) == access &&
		  iova >= mr->iova && bytes <= mr->bytes && iova - mr->iova <= mr->bytes - bytes;

	mr->users += ok;
	hca_unlock(&mr->item.lock);
	return ok ? mr : NULL;
}

void hca_mr_release(struct hca_mr *mr)
{
	hca_lock(&mr->item.lock);
	ASSERT(mr->users > 0);
	mr->users--;
	hca_unlock(&mr->item.lock);
}

/* Host memory may be polled while it is written: small transfers are placed word by word, in
 * rising order, each word visible as a whole (the flag at the end of a small WRITE). */
#define HCA_WORDWISE_BYTES 512

static void hca_host_write(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	if (bytes > HCA_WORDWISE_BYTES) {
		memcpy(to, from, bytes);
		return;
	}
	while (bytes) {
		if (bytes >= 8 && (uintptr_t)to % 8 == 0) {
			uint64_t v;

			memcpy(&v, from, 8);
			__atomic_store_n((uint64_t *)to, v, __ATOMIC_RELEASE);
			to += 8, from += 8, bytes -= 8;
		} else if (bytes >= 4 && (uintptr_t)to % 4 == 0) {
			uint32_t v;

			memcpy(&v, from, 4);
			__atomic_store_n((uint32_t *)to, v, __ATOMIC_RELEASE);
			to += 4, from += 4, bytes -= 4;
		} else {
			__atomic_store_n(to, *from, __ATOMIC_RELEASE);
			to++, from++, bytes--;
		}
	}
}

static void hca_host_read(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	if (bytes > HCA_WORDWISE_BYTES) {
		memcpy(to, from, bytes);
		return;
	}
	while (bytes) {
		if (bytes >= 8 && (uintptr_t)from % 8 == 0) {
			uint64_t v = __atomic_load_n((const uint64_t *)from, __ATOMIC_ACQUIRE);

			memcpy(to, &v, 8);
			to += 8, from += 8, bytes -= 8;
		} else {
			*to = __atomic_load_n(from, __ATOMIC_ACQUIRE);
			to++, from++, bytes--;
		}
	}
}

int hca_mr_write(struct hca_mr *mr, uint64_t iova, const void *data, uint64_t bytes)
{
	uint64_t at = mr->address + (iova - mr->iova);

	ASSERT(iova - mr->iova + bytes <= mr->bytes);
	if (mr->gpu)
		return peermem()->write(&mr->region, mr->port, at, data, bytes);
	/* a small one lands as a whole, its last word last */
	struct mem_access a = {.addr = (const void *)(uintptr_t)at,
			       .bytes = bytes,
			       .op = SHARED_RANGE_WRITE,
			       .order =
				       bytes > HCA_WORDWISE_BYTES ? SHARED_RELAXED : SHARED_RELEASE,
			       .scope = SHARED_SYSTEM};

	mem_access(&a);
	hca_host_write((uint8_t *)(uintptr_t)at, data, bytes);
	mem_wrote(&a);
	sim_wrote((const void *)(uintptr_t)at, bytes);
	return 0;
}

int hca_mr_read(struct hca_mr *mr, uint64_t iova, void *data, uint64_t bytes)
{
	uint64_t at = mr->address + (iova - mr->iova);

	ASSERT(iova - mr->iova + bytes <= mr->bytes);
	if (mr->gpu)
		return peermem()->read(&mr->region, mr->port, at, data, bytes);
	mem_access(&(struct mem_access){.addr = (const void *)(uintptr_t)at,
					.bytes = bytes,
					.op = SHARED_RANGE_READ,
					.scope = SHARED_SYSTEM});
	hca_host_read(data, (const uint8_t *)(uintptr_t)at, bytes);
	return 0;
}

int hca_mr_load(struct hca_mr *mr, uint64_t iova, uint64_t *value)
{
	uint64_t at = mr->address + (iova - mr->iova);

	ASSERT(iova - mr->iova + sizeof *value <= mr->bytes);
	if (mr->gpu)
		return peermem()->load(&mr->region, mr->port, at, value);
	mem_access(&(struct mem_access){.addr = (const void *)(uintptr_t)at,
					.bytes = sizeof *value,
					.op = SHARED_LOAD,
					.order = SHARED_ACQUIRE,
					.scope = SHARED_SYSTEM});
	*value = __atomic_load_n((const uint64_t *)(uintptr_t)at, __ATOMIC_ACQUIRE);
	return 0;
}

int hca_sges_check(uint32_t pd, const struct ibv_sge *sge, uint32_t n, uint32_t access)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!sge[i].length)
			continue;
		struct hca_mr *mr =
			hca_mr_hold(pd, sge[i].lkey, sge[i].addr, sge[i].length, access);

		if (!mr)
			return EACCES;
		hca_mr_release(mr);
	}
	return 0;
}

/* One walk for both directions: `write` says which way, `data` is read or written accordingly. */
static int hca_sges_copy(uint32_t pd, const struct ibv_sge *sge, uint32_t n, uint64_t offset,
			 uint8_t *data, uint64_t bytes, bool write)
{
	for (uint32_t i = 0; i < n && bytes; i++) {
		if (offset >= sge[i].length) {
			offset -= sge[i].length;
			continue;
		}
		uint64_t take = MIN_OF(bytes, sge[i].length - offset), at = sge[i].addr + offset;
		struct hca_mr *mr =
			hca_mr_hold(pd, sge[i].lkey, at, take, write ? IBV_ACCESS_LOCAL_WRITE : 0);

		if (!mr)
			return EACCES;
		int rc = write ? hca_mr_write(mr, at, data, take) : hca_mr_read(mr, at, data, take);

		hca_mr_release(mr);
		if (rc)
			return rc;
		data += take;
		bytes -= take;
		offset = 0;
	}
	return bytes ? EACCES : 0;
}

int hca_sges_read(uint32_t pd, const struct ibv_sge *sge, uint32_t n, uint64_t offset, void *data,
		  uint64_t bytes)
{
	return hca_sges_copy(pd, sge, n, offset, data, bytes, false);
}

int hca_sges_write(uint32_t pd, const struct ibv_sge *sge, uint32_t n, uint64_t offset,
		   const void *data, uint64_t bytes)
{
	return hca_sges_copy(pd, sge, n, offset, (uint8_t *)(uintptr_t)data, bytes, true);
}
