/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains. */
#include <errno.h>

#include "backends/fakeverbs/entry/entry.h"

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	if (hca_enter_control(context, HCA_KIND_CONTEXT, "ibv_alloc_pd", HCA_CALLER()))
		return NULL;
	struct hca_context_handle *c = hca_context_of(context);

	int fault = hca_command_fault("verbs.alloc_pd", NULL, c->hca->port, -1);

	if (fault) {
		errno = fault;
		return NULL;
	}
	struct hca_pd_handle *pd = hca_handle_alloc(HCA_KIND_PD, sizeof *pd, "ibv_pd");

	if (!pd)
		goto err;
	pd->hca = hca_slab_alloc_owned(&hca_world()->pd, pd);
	if (!pd->hca)
		goto err_free;
	pd->hca->item.made = HCA_CALLER();
	pd->hca->port = c->hca->port;
	pd->ibv.context = context;
	pd->ibv.handle = pd->hca->item.index;
	return &pd->ibv;
err_free:
	hca_handle_end(pd, 0);
err:
	errno = ENOMEM;
	return NULL;
}

int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	int bad = hca_enter_control(ibv, HCA_KIND_PD, "ibv_dealloc_pd", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_pd_handle *pd = hca_pd_of(ibv);
	uint32_t users = __atomic_load_n(&pd->users, __ATOMIC_ACQUIRE);
	struct hca_site at, made;

	if (users) {
		hca_check(
			HCA_RULE_DESTROY_ORDER, HCA_CALLER(),
			"ibv_dealloc_pd at %s: %u regions, queues and parent domains still use it "
			"(made at %s)",
			hca_site(pd->hca->item.proc, HCA_CALLER(), &at), users,
			hca_site(pd->hca->item.proc, pd->hca->item.made, &made));
		return hca_result(EBUSY);
	}
	int rc = hca_call_fault("verbs.dealloc_pd", NULL, pd->hca->port, -1);

	if (pd->base) {
		hca_parent_end(pd, HCA_CALLER());
		return hca_result(rc);
	}
	hca_slab_free(&hca_world()->pd, pd->hca);
	hca_handle_end(pd, HCA_CALLER());
	return hca_result(rc);
}
