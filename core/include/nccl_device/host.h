/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's part of NCCL's device API, version 2.32.3. */
#ifndef NCCL_DEVICE_HOST_H_
#define NCCL_DEVICE_HOST_H_

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Lists of what a device communicator needs. A pointer that is not NULL receives the result. */
typedef struct ncclDevResourceRequirements {
	struct ncclDevResourceRequirements *next;
	size_t bufferSize, bufferAlign;
	ncclDevResourceHandle_t *outBufferHandle;
	int ginSignalCount, ginCounterCount;
	ncclGinSignal_t *outGinSignalStart;
	ncclGinCounter_t *outGinCounterStart;
} ncclDevResourceRequirements_t;

typedef struct ncclTeamRequirements {
	struct ncclTeamRequirements *next;
	ncclTeam_t team;
	bool multimem;
	ncclMultimemHandle_t *outMultimemHandle;
} ncclTeamRequirements_t;

typedef struct ncclDevCommRequirements {
	size_t size;
	unsigned int magic;
	unsigned int version;
	ncclDevResourceRequirements_t *resourceRequirementsList;
	ncclTeamRequirements_t *teamRequirementsList;
	bool lsaMultimem;
	int barrierCount, lsaBarrierCount, railGinBarrierCount;
	int lsaLLA2ABlockCount, lsaLLA2ASlotCount;
	bool ginForceEnable;
	int ginContextCount, ginSignalCount, ginCounterCount;
	ncclGinConnectionType_t ginConnectionType;
	bool ginExclusiveContexts;
	int ginQueueDepth, ginTrafficClass;
	int worldGinBarrierCount;
	bool ginStrongSignalsRequired, ginVaSignalsRequired;
	int ginCustomStride;
	ncclGinType_t ginType;
	bool useRuntimeVersion; /* the device code is of the library's version */
	int cftCaps;            /* ncclCftCap_t: bits */
	int cftBarrierCount;
} ncclDevCommRequirements_t;

/* Facts about a communicator. */
typedef struct ncclCommProperties {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int rank, nRanks;
	int cudaDev, nvmlDev;
	bool deviceApiSupport, multimemSupport;
	ncclGinType_t ginType;
	int nLsaTeams; /* number of sets of ranks that reach each other's memory */
	bool hostRmaSupport;
	ncclGinType_t railedGinType;
	uint64_t commHash;
	int ginMinStride;
	ncclGinConnectionType_t ginConnectionType;
	bool ginSupport[64]; /* index: ncclGinType_t */
	size_t devCommRuntimeVersionSize;
	bool cftSupport, cftMulticastSupport, cftCountedSupport;
} ncclCommProperties_t;

/* clang-format off */
#define NCCL_COMM_PROPERTIES_INITIALIZER {                                                         \
	sizeof(ncclCommProperties_t), NCCL_API_MAGIC, NCCL_VERSION_CODE,                           \
	0, 0, 0, 0, false, false, NCCL_GIN_TYPE_NONE, 0, false, NCCL_GIN_TYPE_NONE, 0, 0,          \
	NCCL_GIN_CONNECTION_NONE, {false}, 0, false, false, false,                                 \
}

#define NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER {                                                   \
	sizeof(ncclDevCommRequirements_t), NCCL_API_MAGIC, NCCL_VERSION_CODE,                      \
	NULL, NULL,		/* the lists */                                                    \
	false,			/* lsaMultimem */                                                  \
	0, 0, 0,		/* barriers */                                                     \
	0, 0,			/* blocks and slots of the all-to-all */                           \
	false,			/* ginForceEnable */                                               \
	4, 0, 0,		/* contexts, signals, counters */                                  \
	NCCL_GIN_CONNECTION_NONE,                                                                  \
	false,			/* ginExclusiveContexts */                                         \
	0,			/* ginQueueDepth */                                                \
	NCCL_CONFIG_UNDEF_INT,	/* ginTrafficClass */                                              \
	0,			/* worldGinBarrierCount */                                         \
	true, true,		/* kinds of signals */                                             \
	1,			/* ginCustomStride */                                              \
	NCCL_GIN_TYPE_NONE,                                                                        \
	false,			/* useRuntimeVersion */                                            \
	NCCL_CFT_NONE, 0,                                                                          \
}
/* clang-format on */

/* ---- functions ------------------------------------------------------------------------------ */

/* Fills *props, which begins with NCCL_COMM_PROPERTIES_INITIALIZER. A structure of an older version
 * is shorter, and is filled up to its size. */
ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *props);
ncclResult_t pncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *props);

ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t *reqs,
			       ncclDevComm_t *outDevComm);
ncclResult_t pncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t *reqs,
				ncclDevComm_t *outDevComm);
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t *devComm);
ncclResult_t pncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t *devComm);

/* The addresses of a place in a window, for GPUs. ncclGetPeerDevicePointer: NULL, if the peer is
 * not in the LSA team. Multicast is not implemented. */
ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsaRank,
				     void **outPtr);
ncclResult_t pncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsaRank,
				      void **outPtr);
ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **outPtr);
ncclResult_t pncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **outPtr);
ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset,
					  ncclMultimemHandle_t multimem, void **outPtr);
ncclResult_t pncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset,
					   ncclMultimemHandle_t multimem, void **outPtr);
ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **outPtr);
ncclResult_t pncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **outPtr);

/* The logical endpoint of a place in a window, and the place's offset in it. */
ncclResult_t ncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peerCft,
				    ncclTeam_t cftTeam, ncclCftLeId *leId, size_t *leOffset);
ncclResult_t pncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peerCft,
				     ncclTeam_t cftTeam, ncclCftLeId *leId, size_t *leOffset);
ncclResult_t ncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peerWorld,
				     ncclCftLeId *leId, size_t *leOffset);
ncclResult_t pncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peerWorld,
				      ncclCftLeId *leId, size_t *leOffset);
ncclResult_t ncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, ncclCftLeId *leId,
					 size_t *leOffset);
ncclResult_t pncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, ncclCftLeId *leId,
					  size_t *leOffset);

/* Teams of a communicator, and numbers of a team's ranks in others. */
ncclTeam_t ncclTeamWorld(ncclComm_t comm);
ncclTeam_t pncclTeamWorld(ncclComm_t comm);
ncclTeam_t ncclTeamLsa(ncclComm_t comm);
ncclTeam_t pncclTeamLsa(ncclComm_t comm);
ncclTeam_t ncclTeamRail(ncclComm_t comm);
ncclTeam_t pncclTeamRail(ncclComm_t comm);
ncclTeam_t ncclTeamCft(ncclComm_t comm, ncclCftTeamMode_t mode);
ncclTeam_t pncclTeamCft(ncclComm_t comm, ncclCftTeamMode_t mode);
ncclTeam_t ncclTeamCftMultimem(ncclComm_t comm);
ncclTeam_t pncclTeamCftMultimem(ncclComm_t comm);
int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);
int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);

/* Describe what a barrier or an exchange needs of a device communicator. */
ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int nBarriers,
					     ncclLsaBarrierHandle_t *outHandle,
					     ncclDevResourceRequirements_t *outReq);
ncclResult_t pncclLsaBarrierCreateRequirement(ncclTeam_t team, int nBarriers,
					      ncclLsaBarrierHandle_t *outHandle,
					      ncclDevResourceRequirements_t *outReq);
ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int nBarriers,
					     ncclGinBarrierHandle_t *outHandle,
					     ncclDevResourceRequirements_t *outReq);
ncclResult_t pncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int nBarriers,
					      ncclGinBarrierHandle_t *outHandle,
					      ncclDevResourceRequirements_t *outReq);
int ncclLLA2ACalcSlots(int maxElts, int maxEltSize);
int pncclLLA2ACalcSlots(int maxElts, int maxEltSize);
ncclResult_t ncclLLA2ACreateRequirement(int nBlocks, int nSlots, ncclLLA2AHandle_t *outHandle,
					ncclDevResourceRequirements_t *outReq);
ncclResult_t pncclLLA2ACreateRequirement(int nBlocks, int nSlots, ncclLLA2AHandle_t *outHandle,
					 ncclDevResourceRequirements_t *outReq);
ncclResult_t ncclGinOutboxCreateRequirement(int nBlocks, int size_log2,
					    ncclGinOutboxHandle *outHandle,
					    ncclDevResourceRequirements_t *outReq);
ncclResult_t pncclGinOutboxCreateRequirement(int nBlocks, int size_log2,
					     ncclGinOutboxHandle *outHandle,
					     ncclDevResourceRequirements_t *outReq);
ncclResult_t ncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int nBlocks, int size_log2,
					      ncclGinInboxA2AHandle *outHandle,
					      ncclDevResourceRequirements_t *outReq);
ncclResult_t pncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int nBlocks, int size_log2,
					       ncclGinInboxA2AHandle *outHandle,
					       ncclDevResourceRequirements_t *outReq);

#ifdef __cplusplus
}
#endif

#endif
