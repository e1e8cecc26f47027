/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An init with several unique ids. The root of the first id serves all ranks. No rank uses the
 * other roots, so rank r ends the root of id r.
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

/* Ends the root of this rank's id, if it has one that is not the first. */
static ncclResult_t scalable_root_end(int rank, int nids, const ncclUniqueId *ids)
{
	if (nids > 1 && param_str(PARAM_COMM_ID)) {
		WARN("%s: nId is %d, expected 1 because NCCL_COMM_ID is set", scalable, nids);
		return ncclInvalidUsage;
	}
	if (rank == 0 || rank >= nids || !bootstrap_root_dismiss(&ids[rank], rank))
		return ncclSuccess;
	WARN("%s: commIds[%d] does not come from ncclGetUniqueId", scalable, rank);
	return ncclInvalidArgument;
}

API_TWIN(ncclCommInitRankScalable);
API_WEAK ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId,
					       ncclUniqueId *commIds, ncclConfig_t *config)
{
	ncclResult_t rc = scalable_check(newcomm, nranks, myrank, nId, commIds);

	INFO(LOG_CALL, "%s: nranks %d myrank %d nId %d", scalable, nranks, myrank, nId);
	if (!rc)
		rc = scalable_root_end(myrank, nId, commIds);
	if (!rc)
		return pncclCommInitRankConfig(newcomm, nranks, commIds[0], myrank, config);
	/* The other ranks fail instead of waiting for this one. */
	if (commIds && scalable_rank_is_valid(nranks, myrank)) {
		bootstrap_give_up(&commIds[0], myrank, nranks, log_task_error());
		if (myrank == 0)
			(void)api_root_close(bootstrap_id_hash(&commIds[0]));
	}
	return api_return(rc);
}
