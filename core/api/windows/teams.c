/* SPDX-License-Identifier: BSD-3-Clause */
/* Teams of the device API on the host, and requirements of barriers and exchanges. */
#include "core/api/api.h"
#include "core/api/windows/devcomm.h"
#include "core/base/log.h"

/* ---- the LSA team ---------------------------------------------------------------------------- */

/* True if each host has the same number of ranks, and their numbers follow each other. */
static bool teams_are_even(const struct ncclComm *comm)
{
	const int32_t each = comm->local_ranks;

	if (comm->nranks == 1)
		return true;
	if (comm->nranks != each * comm->summary.nhosts)
		return false;
	for (int32_t r = 1; r < comm->nranks; r++)
		if ((comm->peers[r].host_hash == comm->peers[r - 1].host_hash) != (r % each != 0))
			return false;
	return true;
}

const char *devcomm_why_not(const struct ncclComm *comm)
{
	if (!transport_windows_are_possible(comm))
		return "the ranks of this host have no direct access to each other (P2P), or "
		       "NCCL_WIN_ENABLE is 0, expected windows to be possible";
	if (!teams_are_even(comm))
		return "the hosts have different numbers of ranks, or ranks of a host do not "
		       "follow each other, expected teams of the same size";
	return NULL;
}

ncclTeam_t devcomm_lsa(const struct ncclComm *comm)
{
	if (devcomm_why_not(comm))
		return (ncclTeam_t){.nRanks = 1, .rank = 0, .stride = 1};
	return (ncclTeam_t){.nRanks = comm->local_ranks, .rank = comm->local_rank, .stride = 1};
}

/* ---- teams ----------------------------------------------------------------------------------- */

static ncclTeam_t team_world(const struct ncclComm *comm)
{
	return (ncclTeam_t){.nRanks = comm->nranks, .rank = comm->rank, .stride = 1};
}

static ncclTeam_t team_rail(const struct ncclComm *comm)
{
	return ncclTeamOuterFactor(team_world(comm), devcomm_lsa(comm).nRanks);
}

/* A team without ranks: the communicator cannot be entered. */
static ncclTeam_t team_of(struct ncclComm *comm, const char *call,
			  ncclTeam_t (*of)(const struct ncclComm *comm))
{
	ncclTeam_t team = {0, 0, 0};
	ncclResult_t rc = comm_enter(comm, call, COMM_NEED_INIT);

	if (!rc) {
		team = of(comm);
		comm_leave(comm);
	}
	(void)api_return(rc);
	return team;
}

API_TWIN(ncclTeamWorld);
API_WEAK ncclTeam_t ncclTeamWorld(ncclComm_t comm)
{
	return team_of(comm, "ncclTeamWorld", team_world);
}

API_TWIN(ncclTeamLsa);
API_WEAK ncclTeam_t ncclTeamLsa(ncclComm_t comm)
{
	return team_of(comm, "ncclTeamLsa", devcomm_lsa);
}

API_TWIN(ncclTeamRail);
API_WEAK ncclTeam_t ncclTeamRail(ncclComm_t comm)
{
	return team_of(comm, "ncclTeamRail", team_rail);
}

/* Returns the number of a team's rank in another team, which has the calling rank as `own`; -1: an
 * error. */
static int team_number(struct ncclComm *comm, const char *call, ncclTeam_t team, int rank,
		       ncclTeam_t (*of)(const struct ncclComm *comm))
{
	const ncclTeam_t in = team_of(comm, call, of);
	const int64_t number = in.rank + ((int64_t)rank - team.rank) * team.stride;

	if (!in.nRanks)
		return -1;
	if (rank >= 0 && rank < team.nRanks && number >= 0 && number < in.nRanks)
		return (int)number;
	WARN("%s: rank %d of a team of %d ranks is no rank of the %d ranks", call, rank,
	     team.nRanks, in.nRanks);
	(void)api_return(ncclInvalidArgument);
	return -1;
}

API_TWIN(ncclTeamRankToWorld);
API_WEAK int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank)
{
	return team_number(comm, "ncclTeamRankToWorld", team, rank, team_world);
}

API_TWIN(ncclTeamRankToLsa);
API_WEAK int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank)
{
	return team_number(comm, "ncclTeamRankToLsa", team, rank, devcomm_lsa);
}

/* ---- requirements ---------------------------------------------------------------------------- */

static ncclResult_t requirement_check(const char *call, const void *handle,
				      ncclDevResourceRequirements_t *req)
{
	if (req)
		*req = (ncclDevResourceRequirements_t){.bufferSize = 0};
	if (handle && req)
		return ncclSuccess;
	WARN("%s: %s is NULL", call, handle ? "outReq" : "outHandle");
	return ncclInvalidArgument;
}

static ncclResult_t requirement_count(const char *call, const char *name, int count)
{
	if (count >= 0)
		return ncclSuccess;
	WARN("%s: %s is %d, expected 0 or more", call, name, count);
	return ncclInvalidArgument;
}

API_TWIN(ncclLsaBarrierCreateRequirement);
API_WEAK ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int nBarriers,
						      ncclLsaBarrierHandle_t *outHandle,
						      ncclDevResourceRequirements_t *outReq)
{
	static const char call[] = "ncclLsaBarrierCreateRequirement";
	ncclResult_t rc = requirement_check(call, outHandle, outReq);

	if (!rc)
		rc = requirement_count(call, "nBarriers", nBarriers);
	if (!rc)
		rc = requirement_count(call, "the number of the team's ranks", team.nRanks);
	if (rc)
		return api_return(rc);
	*outHandle = (ncclLsaBarrierHandle_t){.nBarriers = nBarriers};
	*outReq = (ncclDevResourceRequirements_t){
		.bufferSize = devcomm_barrier_bytes((uint64_t)nBarriers, team.nRanks),
		.bufferAlign = sizeof(uint32_t),
		.outBufferHandle = &outHandle->bufHandle};
	return ncclSuccess;
}

/* Elements of more than 8 bytes have several lines. 0: wrong arguments. */
API_TWIN(ncclLLA2ACalcSlots);
API_WEAK int ncclLLA2ACalcSlots(int maxElts, int maxEltSize)
{
	const int64_t slots = maxElts * DIV_UP((int64_t)maxEltSize, 8);

	if (maxElts > 0 && maxEltSize > 0 && slots <= INT32_MAX)
		return (int)slots;
	WARN("ncclLLA2ACalcSlots: maxElts is %d and maxEltSize %d, expected numbers above 0 whose "
	     "slots are an int",
	     maxElts, maxEltSize);
	return 0;
}

API_TWIN(ncclLLA2ACreateRequirement);
API_WEAK ncclResult_t ncclLLA2ACreateRequirement(int nBlocks, int nSlots,
						 ncclLLA2AHandle_t *outHandle,
						 ncclDevResourceRequirements_t *outReq)
{
	static const char call[] = "ncclLLA2ACreateRequirement";
	ncclResult_t rc = requirement_check(call, outHandle, outReq);

	if (!rc)
		rc = requirement_count(call, "nBlocks", nBlocks);
	if (!rc)
		rc = requirement_count(call, "nSlots", nSlots);
	if (rc)
		return api_return(rc);
	*outHandle = (ncclLLA2AHandle_t){.nSlots = (uint32_t)nSlots};
	*outReq = (ncclDevResourceRequirements_t){.bufferSize = (size_t)nBlocks *
								(1 + 2 * (size_t)nSlots) * 16,
						  .bufferAlign = 16,
						  .outBufferHandle = &outHandle->bufHandle};
	return ncclSuccess;
}
