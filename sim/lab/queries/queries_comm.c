/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries of one communicator: its numbers, its properties, and the time of a group. */
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <string.h>

#include "core/include/nccl_device.h"
#include "sim/lab/queries/queries.h"

#define QUERIES_FILL   0x5a
#define QUERIES_BEYOND 16  /* bytes after a structure */
#define QUERIES_CALLS  3   /* of a group that is simulated */
#define QUERIES_COUNT  512 /* elements of one of them, at most */

_Static_assert(QUERIES_COUNT <= LAB_SMALL_BYTES, "a receive buffer has room");

/* ---- numbers --------------------------------------------------------------------------------- */

static void queries_number(struct queries *q, const char *call,
			   ncclResult_t (*query)(const ncclComm_t, int *), int want)
{
	int value = -7;

	if (queries_result(q, call, query(q->comm, &value), ncclSuccess) && value != want)
		queries_wrong(q, call, "is %d, expected %d", value, want);
}

void queries_numbers(struct queries *q)
{
	queries_number(q, "ncclCommCount", ncclCommCount, q->n);
	queries_number(q, "ncclCommUserRank", ncclCommUserRank, q->rank);
	queries_number(q, "ncclCommCuDevice", ncclCommCuDevice, q->me->device);
}

/* ---- properties ------------------------------------------------------------------------------ */

/* The first layout of the structure ends here. */
#define QUERIES_LEAST offsetof(ncclCommProperties_t, deviceApiSupport)

struct queries_properties {
	ncclCommProperties_t p;
	uint8_t beyond[QUERIES_BEYOND];
};
_Static_assert(offsetof(struct queries_properties, beyond) == sizeof(ncclCommProperties_t),
	       "a byte too much is one of these");
_Static_assert(QUERIES_LEAST < sizeof(ncclCommProperties_t), "the first layout was shorter");

/* All ranks see the same hash of a communicator of the run; other communicators are not kept. */
static void queries_hash(struct queries *q, uint64_t hash)
{
	struct lab_run *run = q->me->run;
	uint64_t first = hash;

	for (uint32_t i = 0; i < lab_comms(run->config); i++) {
		if (lab_comms_pick(q->me, i) != q->comm)
			continue;
		os_mutex_lock(&run->lock);
		if (run->comm_hash[i])
			first = run->comm_hash[i];
		run->comm_hash[i] = first;
		os_mutex_unlock(&run->lock);
	}
	if (hash != first)
		queries_wrong(q, "ncclCommQueryProperties",
			      "commHash is %llx, but %llx on another rank",
			      (unsigned long long)hash, (unsigned long long)first);
}

/* Any rank of a team has its place in the world. Teams of a communicator that has failed since have
 * no ranks. */
static void queries_team(struct queries *q, const char *call, ncclTeam_t team)
{
	const int i = team.nRanks ? (int)sim_rng_below(&q->rng, (uint64_t)team.nRanks) : 0;
	const int want = q->rank + (i - team.rank) * team.stride;
	const int got = team.nRanks ? ncclTeamRankToWorld(q->comm, team, i) : -1;
	const ncclTeam_t world = ncclTeamWorld(q->comm);

	if (!team.nRanks || got < 0 || !world.nRanks)
		return;
	if (world.nRanks != q->n || world.rank != q->rank || world.stride != 1)
		queries_wrong(q, "ncclTeamWorld", "rank %d of %d with stride %d, expected %d of %d",
			      world.rank, world.nRanks, world.stride, q->rank, q->n);
	if (got != want)
		queries_wrong(q, call, "has rank %d of the world as its rank %d, expected %d", got,
			      i, want);
}

/* Each rank is in one LSA team, and in one rail. A rail has a rank of each team. */
static void queries_rail(struct queries *q, ncclTeam_t lsa)
{
	const ncclTeam_t rail = ncclTeamRail(q->comm);
	const int place = ncclTeamRankToLsa(q->comm, ncclTeamWorld(q->comm), q->rank);

	if (!rail.nRanks || place < 0)
		return;
	if (rail.nRanks * lsa.nRanks != q->n || rail.rank * lsa.nRanks + lsa.rank != q->rank ||
	    rail.stride != lsa.nRanks)
		queries_wrong(q, "ncclTeamRail", "rank %d of %d with stride %d, for rank %d of %d",
			      rail.rank, rail.nRanks, rail.stride, q->rank, q->n);
	if (place != lsa.rank)
		queries_wrong(q, "ncclTeamRankToLsa", "is %d, expected %d", place, lsa.rank);
	queries_team(q, "ncclTeamLsa", lsa);
	queries_team(q, "ncclTeamRail", rail);
}

/* A communicator that has failed since has a team without ranks. */
static void queries_teams(struct queries *q, const char *call, const ncclCommProperties_t *p)
{
	const ncclTeam_t lsa = ncclTeamLsa(q->comm);
	const int ranks = lsa.nRanks;
	ncclResult_t state = ncclSuccess;

	if (!ranks && !ncclCommGetAsyncError(q->comm, &state) && state)
		(void)queries_result(q, "ncclTeamLsa", state, ncclSuccess);
	else if (ranks * p->nLsaTeams != q->n)
		queries_wrong(q, call, "has %d teams of %d ranks, expected %d ranks", p->nLsaTeams,
			      ranks, q->n);
	else
		queries_rail(q, lsa);
}

static void queries_properties_check(struct queries *q, const ncclCommProperties_t *p)
{
	static const char call[] = "ncclCommQueryProperties";

	if (p->rank != q->rank || p->nRanks != q->n || p->cudaDev != q->me->device)
		queries_wrong(q, call, "rank %d of %d on GPU %d, expected rank %d of %d on GPU %d",
			      p->rank, p->nRanks, p->cudaDev, q->rank, q->n, q->me->device);
	if (p->size < sizeof *p)
		return;
	if (p->multimemSupport || p->hostRmaSupport || p->cftSupport)
		queries_wrong(q, call, "has what is not built");
	if (p->deviceApiSupport != (p->devCommRuntimeVersionSize == sizeof(ncclDevComm_t)))
		queries_wrong(q, call, "names device communicators of another size");
	if (p->deviceApiSupport)
		queries_teams(q, call, p);
	queries_hash(q, p->commHash);
}

/* The structure of this version, of an older one, which is shorter, or of a later one. */
void queries_properties(struct queries *q)
{
	static const ncclCommProperties_t initial = NCCL_COMM_PROPERTIES_INITIALIZER;
	static const char call[] = "ncclCommQueryProperties";
	const size_t sizes[] = {sizeof initial, QUERIES_LEAST,
				offsetof(ncclCommProperties_t, ginMinStride),
				sizeof initial + QUERIES_BEYOND};
	struct queries_properties got;
	size_t size = sizes[sim_rng_below(&q->rng, ARRAY_LEN(sizes))];
	const uint8_t *bytes = (const uint8_t *)&got;

	memset(&got, QUERIES_FILL, sizeof got);
	got.p.size = size;
	got.p.magic = initial.magic;
	got.p.version = initial.version;
	if (!queries_result(q, call, ncclCommQueryProperties(q->comm, &got.p), ncclSuccess))
		return;
	for (size_t i = MIN_OF(size, sizeof initial); i < sizeof got; i++) {
		if (bytes[i] == QUERIES_FILL)
			continue;
		queries_wrong(q, call, "wrote byte %zu of a structure of %zu bytes", i, size);
		break;
	}
	if (got.p.size != size)
		queries_wrong(q, call, "changed the size");
	queries_properties_check(q, &got.p);
}

/* ---- a group that is simulated --------------------------------------------------------------- */

/* The calls of a group; each collective has a time. */
static ncclResult_t queries_calls(struct queries *q, uint64_t calls, size_t count)
{
	struct lab_rank *me = q->me;
	uint8_t *mem = me->recv + LAB_GUARD_BYTES;
	cudaStream_t stream = (cudaStream_t)me->stream;
	ncclResult_t r = ncclSuccess;

	for (uint64_t i = 0; i < calls && !r; i++)
		r = i % 2 ? ncclBcast(mem, count, ncclInt8, 0, q->comm, stream)
			  : ncclAllReduce(mem, mem, count, ncclInt8, ncclSum, q->comm, stream);
	return r;
}

/* Returns the time; 0: there was an error. */
static float queries_simulated(struct queries *q, uint64_t calls, size_t count)
{
	ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
	ncclResult_t r = ncclGroupStart(), end;

	if (!queries_result(q, "ncclGroupStart", r, ncclSuccess))
		return 0;
	r = queries_calls(q, calls, count);
	end = ncclGroupSimulateEnd(&info);
	if (!queries_result(q, "a call of a group that is simulated", r, ncclSuccess) ||
	    !queries_result(q, "ncclGroupSimulateEnd", end, ncclSuccess))
		return 0;
	if (calls ? info.estimatedTime < 0 : info.estimatedTime != NCCL_UNDEF_FLOAT)
		queries_wrong(q, "ncclGroupSimulateEnd", "estimates %g us for %llu calls",
			      (double)info.estimatedTime, (unsigned long long)calls);
	return info.estimatedTime;
}

/* None of the calls is made: those that stay queued would be launched with the rank's next call,
 * which then is another one than that of the other ranks. */
void queries_simulate(struct queries *q)
{
	ASSERT(!q->ends); /* such a communicator refuses the calls */
	uint64_t calls = sim_rng_below(&q->rng, QUERIES_CALLS + 1);
	size_t count = 1 + (size_t)sim_rng_below(&q->rng, QUERIES_COUNT);
	float one = queries_simulated(q, calls, count);
	float again = queries_simulated(q, calls, count);
	float more = queries_simulated(q, 2 * calls + 2, count);

	if (!one || !again || !more)
		return;
	if (one != again || more < one)
		queries_wrong(q, "ncclGroupSimulateEnd",
			      "estimates %g us, then %g us for the same calls, %g us for more",
			      (double)one, (double)again, (double)more);
	(void)queries_result(q, "ncclGroupEnd without a group", ncclGroupEnd(), ncclInvalidUsage);
}
