/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Teams of ranks, and addresses of places in windows and in resource memory. World is all ranks,
 * Lsa the ranks of this host, Rail one rank of each host. Offsets are bytes.
 */
#ifndef NCCL_DEVICE_CORE_H_
#define NCCL_DEVICE_CORE_H_

#include "types.h"

#ifdef __CUDACC__
#include <stdio.h>
#endif

#ifdef __cplusplus
struct ncclTeamTagWorld {
};
struct ncclTeamTagLsa {
};
struct ncclTeamTagRail {
};
#endif

/* ---- arithmetic of teams --------------------------------------------------------------------- */

/* Rank `bPeer` of team b lies in team a. Both teams have the calling rank. */
NCCL_HOST_DEVICE_INLINE bool ncclTeamRankIsMember(ncclTeam_t a, ncclTeam_t b, int bPeer)
{
	const int away = (bPeer - b.rank) * b.stride, rank = a.rank + away / a.stride;

	return away % a.stride == 0 && rank >= 0 && rank < a.nRanks;
}

/* Its number in team a, which has it. */
NCCL_HOST_DEVICE_INLINE int ncclTeamRankToTeam(ncclTeam_t a, ncclTeam_t b, int bPeer)
{
	return a.rank + (bPeer - b.rank) * b.stride / a.stride;
}

/* The team of `innerSize` neighbours in the parent that has the calling rank. */
NCCL_HOST_DEVICE_INLINE ncclTeam_t ncclTeamInnerFactor(ncclTeam_t parent, int innerSize)
{
	const ncclTeam_t inner = {innerSize, parent.rank % innerSize, parent.stride};

	return inner;
}

/* The team of one rank of each such set. */
NCCL_HOST_DEVICE_INLINE ncclTeam_t ncclTeamOuterFactor(ncclTeam_t parent, int innerSize)
{
	const ncclTeam_t outer = {parent.nRanks / innerSize, parent.rank / innerSize,
				  parent.stride * innerSize};

	return outer;
}

/* The parent's number of the index-th rank that is in the parent, and not in the subset. */
NCCL_HOST_DEVICE_INLINE int ncclTeamRankInDifference(ncclTeam_t parent, ncclTeam_t subset,
						     int index)
{
	const int step = subset.stride / parent.stride;
	const int first = parent.rank - subset.rank * step;
	const int gap = step - 1, inside = (subset.nRanks - 1) * gap;

	if (index < first)
		return index;
	index -= first;
	if (index < inside)
		return first + index / gap * step + 1 + index % gap;
	return first + (subset.nRanks - 1) * step + 1 + index - inside;
}

/* Bytes before the place in resource memory. */
NCCL_HOST_DEVICE_INLINE size_t ncclGetResourceBufferOffset(ncclDevResourceHandle_t h)
{
	return (size_t)h * 128;
}

#ifdef __CUDACC__

/* ---- teams ----------------------------------------------------------------------------------- */

NCCL_DEVICE_INLINE ncclTeam ncclTeamWorld(ncclDevComm const &comm)
{
	return ncclTeam{comm.nRanks, comm.rank, 1};
}

NCCL_DEVICE_INLINE ncclTeam ncclTeamLsa(ncclDevComm const &comm)
{
	return ncclTeam{comm.lsaSize, comm.lsaRank, 1};
}

NCCL_DEVICE_INLINE ncclTeam ncclTeamRail(ncclDevComm const &comm)
{
	return ncclTeamOuterFactor(ncclTeamWorld(comm), comm.lsaSize);
}

NCCL_DEVICE_INLINE int ncclTeamRankToWorld(ncclDevComm const &comm, ncclTeam team, int rank)
{
	return comm.rank + (rank - team.rank) * team.stride;
}

NCCL_DEVICE_INLINE int ncclTeamRankToLsa(ncclDevComm const &comm, ncclTeam team, int rank)
{
	return comm.lsaRank + (rank - team.rank) * team.stride;
}

/* ---- what is not built ----------------------------------------------------------------------- */

/* Ends the kernel with a line that has the name. */
static __device__ __noinline__ void ncclDeviceAbsent(const char *name)
{
	printf("%s is not implemented: this library has no multicast and no GIN\n", name);
	__trap();
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* The window on one rank of the LSA team. */
NCCL_DEVICE_INLINE char *ncclWindowLsaBase(ncclWindow_t w, int lsaRank)
{
	return reinterpret_cast<char *const *>(w + 1)[lsaRank];
}

NCCL_DEVICE_INLINE void *ncclGetLsaPointer(ncclWindow_t w, size_t offset, int peer)
{
	return ncclWindowLsaBase(w, peer) + offset;
}

NCCL_DEVICE_INLINE void *ncclGetLocalPointer(ncclWindow_t w, size_t offset)
{
	return ncclGetLsaPointer(w, offset, w->lsaRank);
}

/* `peer` is a rank of the communicator, in the LSA team. */
NCCL_DEVICE_INLINE void *ncclGetPeerPointer(ncclWindow_t w, size_t offset, int peer)
{
	return ncclGetLsaPointer(w, offset, w->lsaRank + peer - w->worldRank);
}

/* `peer` is a rank of the team, and in the LSA team. */
NCCL_DEVICE_INLINE void *ncclGetPeerPointer(ncclWindow_t w, size_t offset, ncclTeam team, int peer)
{
	return ncclGetLsaPointer(w, offset, w->lsaRank + (peer - team.rank) * team.stride);
}

NCCL_DEVICE_INLINE void *ncclGetMultimemPointer(ncclWindow_t, size_t, ncclMultimemHandle)
{
	ncclDeviceAbsent("ncclGetMultimemPointer");
	return nullptr;
}

NCCL_DEVICE_INLINE void *ncclGetLsaMultimemPointer(ncclWindow_t, size_t, ncclDevComm const &)
{
	ncclDeviceAbsent("ncclGetLsaMultimemPointer");
	return nullptr;
}

/* Returns the communicator's window that has this address of the rank's own buffer. All threads of
 * the set call it. */
template <typename Coop>
NCCL_DEVICE_INLINE ncclWindow_t ncclFindWindow(Coop, ncclDevComm const &comm, void const *ptr)
{
	const uintptr_t at = reinterpret_cast<uintptr_t>(ptr);

#pragma unroll 1
	for (ncclDevCommWindowTable_t t = comm.windowTable; t; t = t->next)
#pragma unroll 1
		for (int i = 0; i < NCCL_DEVICE_WINDOWS; i++)
			if (at - t->entries[i].base < t->entries[i].size)
				return t->entries[i].window;
	printf("ncclFindWindow: %p is in no window of the communicator\n", ptr);
	__trap();
	return nullptr;
}

/* ---- resource memory ------------------------------------------------------------------------- */

NCCL_DEVICE_INLINE void *ncclGetResourceBufferLsaPointer(ncclDevComm const &comm,
							 ncclDevResourceHandle h, int peer)
{
	return ncclGetLsaPointer(comm.resourceWindow, ncclGetResourceBufferOffset(h), peer);
}

NCCL_DEVICE_INLINE void *ncclGetResourceBufferLocalPointer(ncclDevComm const &comm,
							   ncclDevResourceHandle h)
{
	return ncclGetResourceBufferLsaPointer(comm, h, comm.lsaRank);
}

NCCL_DEVICE_INLINE void *ncclGetResourceBufferPeerPointer(ncclDevComm const &comm,
							  ncclDevResourceHandle h, ncclTeam team,
							  int peer)
{
	return ncclGetResourceBufferLsaPointer(comm, h, ncclTeamRankToLsa(comm, team, peer));
}

#endif

#endif
