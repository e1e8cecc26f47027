/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ibv_advise_mr. Advice concerns regions with on-demand paging. Here a region's pages are present
 * from registration to its end, so the advice is already satisfied. The call only checks its
 * arguments: ibv_advise_mr(3). HCAs without on-demand paging do not have the call (personality.c).
 */
#include "backends/fakeverbs/entry/entry.h"

/* True if this advice may name the pages of this entry. */
static bool hca_advice_fits(const struct hca_pd *pd, const struct ibv_sge *sge, uint32_t access)
{
	struct hca_mr *mr = hca_mr_hold(pd->item.index, sge->lkey, sge->addr, sge->length, access);

	if (mr)
		hca_mr_release(mr);
	return mr != NULL;
}

int hca_advise_mr(struct ibv_pd *ibv, enum ibv_advise_mr_advice advice, uint32_t flags,
		  struct ibv_sge *sge, uint32_t n)
{
	bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;

	if (hca_enter_control(ibv, HCA_KIND_PD, "ibv_advise_mr", HCA_CALLER()))
		return hca_result(EINVAL);
	const struct hca_pd *pd = hca_pd_of(ibv)->hca;

	if (!hca_personality(pd->port)->advice)
		return hca_result(EOPNOTSUPP);
	int rc = hca_command_fault("verbs.advise_mr", ibv, pd->port, -1);

	if (rc)
		return hca_result(rc);
	if ((flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH) || !n || !sge)
		return hca_result(EINVAL);
	if (!write && advice != IBV_ADVISE_MR_ADVICE_PREFETCH &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return hca_result(EOPNOTSUPP);
	for (uint32_t i = 0; i < n; i++) {
		if (hca_advice_fits(pd, &sge[i], write ? IBV_ACCESS_LOCAL_WRITE : 0))
			continue;
		hca_log("ibv_advise_mr: entry %u, %u bytes at 0x%llx: not inside the region of "
			"lkey 0x%x%s",
			i, sge[i].length, (unsigned long long)sge[i].addr, sge[i].lkey,
			write ? ", or that was registered without LOCAL_WRITE" : "");
		return hca_result(EFAULT);
	}
	return 0;
}
