/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Thread domains and parent domains. A parent domain represents a protection domain, with an
 * optional thread domain and allocators of the program. Objects created in it have the keys of the
 * protection domain. A thread domain is a program's promise not to use its objects from two threads
 * at a time. Here the promise saves nothing: all locks are taken.
 *
 * The allocators provide memory for the rings of each queue pair, completion queue and shared
 * receive queue. They receive it back when the object is destroyed. The rings themselves lie in the
 * world's arena, where other HCAs can read them. The program's memory stays untouched.
 */
#include <errno.h>

#include "backends/fakeverbs/entry/entry.h"

#define HCA_RING_ALIGNMENT 4096u

/* ---- thread domains ------------------------------------------------------------------------- */

static struct hca_td_handle *hca_td_of(struct ibv_td *td)
{
	return CONTAINER_OF(td, struct hca_td_handle, ibv);
}

struct ibv_td *hca_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *a)
{
	if (hca_enter_control(context, HCA_KIND_CONTEXT, "ibv_alloc_td", HCA_CALLER()))
		return NULL;
	int rc = a->comp_mask ? EINVAL
			      : hca_command_fault("verbs.alloc_td", NULL,
						  hca_context_of(context)->hca->port, -1);
	struct hca_td_handle *td = NULL;

	if (!rc) {
		td = hca_handle_alloc(HCA_KIND_TD, sizeof *td, "ibv_td");
		rc = td ? 0 : ENOMEM;
	}
	if (rc) {
		errno = rc;
		return NULL;
	}
	td->ibv.context = context;
	return &td->ibv;
}

int hca_dealloc_td(struct ibv_td *ibv)
{
	int bad = hca_enter(ibv, HCA_KIND_TD, "ibv_dealloc_td", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_td_handle *td = hca_td_of(ibv);
	uint32_t users = __atomic_load_n(&td->users, __ATOMIC_ACQUIRE);

	if (users) {
		hca_check(HCA_RULE_DESTROY_ORDER, HCA_CALLER(),
			  "ibv_dealloc_td: %u parent domains still use it", users);
		return hca_result(EBUSY);
	}
	hca_handle_end(td, HCA_CALLER());
	return 0;
}

/* ---- parent domains ------------------------------------------------------------------------- */

static int hca_parent_check(struct ibv_context *context,
			    const struct ibv_parent_domain_init_attr *a)
{
	const uint32_t masks =
		IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

	if (!a->pd || hca_pd_of(a->pd)->base)
		return EINVAL;
	if (a->comp_mask & ~masks) /* from a newer header: confidential computing */
		return EOPNOTSUPP;
	if ((a->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) && (!a->alloc || !a->free))
		return EINVAL;
	return 0;
}

struct ibv_pd *hca_alloc_parent_domain(struct ibv_context *context,
				       struct ibv_parent_domain_init_attr *a)
{
	if (hca_enter_control(context, HCA_KIND_CONTEXT, "ibv_alloc_parent_domain", HCA_CALLER()) ||
	    hca_bad_part(a->pd, HCA_KIND_PD, context, "ibv_alloc_parent_domain", HCA_CALLER()) ||
	    hca_bad_part(a->td, HCA_KIND_TD, context, "ibv_alloc_parent_domain", HCA_CALLER()))
		return NULL;
	int rc = hca_parent_check(context, a);
	struct hca_pd_handle *pd = NULL;

	if (!rc)
		rc = hca_command_fault("verbs.alloc_parent_domain", NULL,
				       hca_context_of(context)->hca->port, -1);
	if (!rc) {
		pd = hca_handle_alloc(HCA_KIND_PD, sizeof *pd, "ibv_pd");
		rc = pd ? 0 : ENOMEM;
	}
	if (rc) {
		errno = rc;
		return NULL;
	}
	pd->hca = hca_pd_of(a->pd)->hca;
	pd->ibv.context = context;
	pd->ibv.handle = pd->hca->item.index;
	pd->base = hca_pd_of(a->pd);
	pd->td = a->td ? hca_td_of(a->td) : NULL;
	if (a->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->alloc = a->alloc;
		pd->free = a->free;
	}
	if (a->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->pd_context = a->pd_context;
	__atomic_fetch_add(&pd->base->users, 1, __ATOMIC_ACQ_REL);
	if (pd->td)
		__atomic_fetch_add(&pd->td->users, 1, __ATOMIC_ACQ_REL);
	return &pd->ibv;
}

void hca_parent_end(struct hca_pd_handle *pd, uint64_t caller)
{
	ASSERT(pd->base && !pd->base->base); /* a parent domain has no parent */
	__atomic_fetch_sub(&pd->base->users, 1, __ATOMIC_ACQ_REL);
	if (pd->td)
		__atomic_fetch_sub(&pd->td->users, 1, __ATOMIC_ACQ_REL);
	hca_handle_end(pd, caller);
}

/* ---- memory of rings ------------------------------------------------------------------------ */

int hca_ring_memory_alloc(struct ibv_pd *ibv, enum hca_resource type, uint64_t bytes, void **memory)
{
	const struct hca_pd_handle *pd = ibv ? hca_pd_of(ibv) : NULL;

	*memory = NULL;
	if (!pd || !pd->alloc)
		return 0;
	void *p = pd->alloc(ibv, pd->pd_context, ALIGN_UP(bytes, HCA_RING_ALIGNMENT),
			    HCA_RING_ALIGNMENT, type);

	if (p != IBV_ALLOCATOR_USE_DEFAULT)
		*memory = p;
	return p ? 0 : ENOMEM;
}

void hca_ring_memory_free(struct ibv_pd *ibv, enum hca_resource type, void *memory)
{
	const struct hca_pd_handle *pd = ibv ? hca_pd_of(ibv) : NULL;

	ASSERT(!memory || (pd && pd->free)); /* it is from the allocator of this domain */
	if (memory)
		pd->free(ibv, pd->pd_context, memory, type);
}
