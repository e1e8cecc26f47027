/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An init with several unique ids. Their roots share the ranks: each serves a block of consecutive
 * ones (core/bootstrap/root_set.c).
 */
#include "core/api/api.h"
#include "core/base/log.h"
#include "core/base/param.h"

static const char scalable[] = "ncclCommInitRankScalable";

static bool scalable_rank_is_valid(int nranks, int rank)
{
	return nranks >= 1 && rank >= 0 && rank < nranks;
}

static ncclResult_t scalable_check(const ncclComm_t *newcomm, int nranks, int rank, int nids,
				   const ncclUniqueId *ids)
{
	if (!newcomm)
		WARN("%s: newcomm is NULL, expected the address of an ncclComm_t", scalable);
	else if (nranks < 1)
		WARN("%s: nranks is %d, expected at least 1", scalable, nranks);
	else if (!scalable_rank_is_valid(nranks, rank))
		WARN("%s: myrank is %d, expected 0 to %d", scalable, rank, nranks - 1);
	else if (!ids)
		WARN("%s: commIds is NULL, expected nId unique ids", scalable);
	else if (nids < 1 || nids > nranks)
		WARN("%s: nId is %d, expected 1 to %d, the number of ranks", scalable, nids,
		     nranks);
	else
		return ncclSuccess;
	return ncclInvalidArgument;
}

/* Sets *id to the one by which this rank joins. */
static ncclResult_t scalable_id(int nranks, int rank, int nids, const ncclUniqueId *ids,
				ncclUniqueId *id)
{
	if (nids > 1 && param_str(PARAM_COMM_ID)) {
		WARN("%s: nId is %d, expected 1 because NCCL_COMM_ID is set", scalable, nids);
		return ncclInvalidUsage;
	}
	return bootstrap_id_join(ids, nids, nranks, rank, id);
}

API_TWIN(ncclCommInitRankScalable);
API_WEAK ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId,
					       ncclUniqueId *commIds, ncclConfig_t *config)
{
	ncclResult_t rc = scalable_check(newcomm, nranks, myrank, nId, commIds);
	ncclUniqueId id;

	INFO(LOG_CALL, "%s: nranks %d myrank %d nId %d", scalable, nranks, myrank, nId);
	if (!rc)
		rc = scalable_id(nranks, myrank, nId, commIds, &id);
	if (!rc)
		return pncclCommInitRankConfig(newcomm, nranks, id, myrank, config);
	/* The other ranks fail instead of waiting for this one. */
	if (commIds && scalable_rank_is_valid(nranks, myrank)) {
		bootstrap_give_up(&commIds[0], myrank, nranks, log_task_error());
		if (myrank == 0)
			(void)api_root_close(bootstrap_id_hash(&commIds[0]));
	}
	return api_return(rc);
}
