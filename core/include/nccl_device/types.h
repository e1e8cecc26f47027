/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types that the host and kernels share. Names, order and sizes are those of NCCL 2.32.3, so that
 * a program that reads a field finds it. Fields of parts that are not built (GIN, CFT, multicast)
 * are 0.
 */
#ifndef NCCL_DEVICE_TYPES_H_
#define NCCL_DEVICE_TYPES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../nccl.h"

#ifdef __CUDACC__
#define NCCL_DEVICE_INLINE      __device__ __forceinline__
#define NCCL_HOST_DEVICE_INLINE static __host__ __device__ __forceinline__
#else
#define NCCL_HOST_DEVICE_INLINE static inline
#endif

#define NCCL_GIN_MAX_CONNECTIONS 4

typedef uint32_t ncclGinSignal_t;
typedef uint32_t ncclGinCounter_t;
typedef void *ncclGinWindow_t;
typedef uint32_t ncclCftLeId;
typedef ncclCftLeId ncclCftLeId_t;

/* ---- enumerations ---------------------------------------------------------------------------- */

typedef enum {
	NCCL_GIN_CONNECTION_NONE = 0,
	NCCL_GIN_CONNECTION_FULL = 1,
	NCCL_GIN_CONNECTION_RAIL = 2,
	NCCL_GIN_CONNECTION_CUSTOM_STRIDE = 3
} ncclGinConnectionType_t;

/* The ways in which a GPU uses the network. */
typedef enum {
	NCCL_GIN_TYPE_NONE = 0,
	NCCL_GIN_TYPE_PROXY = 2,
	NCCL_GIN_TYPE_GDAKI = 3,
	NCCL_GIN_TYPE_GPI = 4,
	NCCL_GIN_TYPE_EFA_GDA = 5,
	NCCL_GIN_MAX_TYPES = 6
} ncclGinType_t;

typedef enum {
	NCCL_CFT_TEAM_FLAT = 0,
	NCCL_CFT_TEAM_HIER_MULTIMEM = 1,
	NCCL_CFT_TEAM_HIER_LSA = 2
} ncclCftTeamMode_t;

typedef enum { NCCL_CFT_NONE = 0, NCCL_CFT = 1, NCCL_CFT_MULTIMEM = 2 } ncclCftCap_t;

/* ---- teams and handles ----------------------------------------------------------------------- */

/* nRanks ranks of a communicator: this one has number `rank`, the next one is `stride` further. */
typedef struct ncclTeam {
	int nRanks, rank, stride;
} ncclTeam_t;

/* A place in the resource memory of a device communicator, in units of 128 bytes. */
typedef uint32_t ncclDevResourceHandle;
typedef ncclDevResourceHandle ncclDevResourceHandle_t;

typedef struct ncclMultimemHandle {
	void *mcBasePtr;
} ncclMultimemHandle_t;

/* Barriers of an LSA team, for one block each. */
typedef struct ncclLsaBarrierHandle {
	ncclDevResourceHandle_t bufHandle;
	int nBarriers;
} ncclLsaBarrierHandle_t;

/* Lines of an all-to-all of an LSA team: `nSlots` for each block, twice. */
typedef struct ncclLLA2AHandle {
	ncclDevResourceHandle_t bufHandle;
	uint32_t nSlots;
} ncclLLA2AHandle_t;

typedef struct ncclGinBarrierHandle {
	ncclGinSignal_t signal0;
	ncclDevResourceHandle_t unused;
} ncclGinBarrierHandle_t;

typedef struct ncclCftBarrierHandle {
	ncclDevResourceHandle_t bufHandle;
	int nBarriers;
} ncclCftBarrierHandle_t;

typedef struct ncclGinOutboxHandle ncclGinOutboxHandle;
typedef struct ncclGinInboxA2AHandle ncclGinInboxA2AHandle;

/* ---- windows --------------------------------------------------------------------------------- */

/*
 * A window in GPU memory; its address is the program's handle. The addresses of the window on the
 * ranks of the LSA team follow it (ncclWindowLsaBase). NCCL computes them from lsaFlatBase and
 * stride4G. Memory of cudaMalloc has no such addresses, therefore lsaFlatBase is NULL here.
 */
typedef struct ncclWindow_vidmem {
	void *winHost;
	char *lsaFlatBase;
	int lsaRank;
	int worldRank;
	uint32_t stride4G;
	uint32_t mcOffset4K;
	uint32_t ginOffset4K;
	uint32_t winFlags;
	ncclGinWindow_t ginWinsDefaultBackend[NCCL_GIN_MAX_CONNECTIONS];
	struct ncclSegmentWindow *ginMultiSegmentWins;
	int numSegments;
	int cftFlatRank;
	ncclCftLeId_t ucLeIdBase;
} ncclWindow_vidmem_t;

typedef struct ncclResourceWindow_vidmem {
	char *lsaFlatBase;
	uint32_t stride4G;
	uint32_t mcOffset4K;
} ncclResourceWindow_vidmem_t;

#define NCCL_DEVICE_WINDOWS 32 /* in a table */

/* The communicator's windows and their buffers on this rank, for ncclFindWindow. An empty entry has
 * size 0. */
struct ncclDevCommWindowTable {
	struct {
		uintptr_t base, size;
		ncclWindow_t window;
	} entries[NCCL_DEVICE_WINDOWS];
	struct ncclDevCommWindowTable *next;
};
typedef struct ncclDevCommWindowTable *ncclDevCommWindowTable_t;

/* ---- the device communicator ----------------------------------------------------------------- */

/* A kernel receives it by value. `resourceWindow` is memory of all ranks for barriers, lines and
 * buffers. */
typedef struct ncclDevComm {
	unsigned int magic;
	unsigned int version;
	int rank, nRanks;
	uint32_t nRanks_rcp32;
	int lsaRank, lsaSize;
	uint32_t lsaSize_rcp32;
	ncclDevCommWindowTable_t windowTable;
	ncclWindow_t resourceWindow;
	ncclResourceWindow_vidmem_t resourceWindow_inlined;
	ncclGinBarrierHandle_t hybridDenseGinBarrier;
	ncclMultimemHandle_t lsaMultimem;
	ncclLsaBarrierHandle_t lsaBarrier;
	ncclGinBarrierHandle_t railGinBarrier;
	uint8_t ginConnectionCount;
	uint8_t backendIndex;
	uint8_t ginNetDeviceTypes[NCCL_GIN_MAX_CONNECTIONS];
	void *ginHandles[NCCL_GIN_MAX_CONNECTIONS];
	int ginSignalCount;
	int ginCounterCount;
	uint64_t *ginSignalShadows;
	uint32_t ginContextCount;
	int ginConnectionStride;
	int ginContextStride;
	bool ginStrongLegacySignals;
	uint32_t *abortFlag; /* not 0: the host has aborted, and a kernel stops waiting */
	ncclLsaBarrierHandle_t hybridLsaBarrier;
	ncclGinBarrierHandle_t hybridRailGinBarrier;
	ncclGinBarrierHandle_t worldGinBarrier;
	uint32_t ginConnectionStride_rcp32;
	int cftRank, cftSize;
	int cftMultimemRank, cftMultimemSize;
	uint32_t cftMultimemSize_rcp32;
	ncclCftLeId ucLeId;
	ncclCftLeId mcLeId;
	ncclCftBarrierHandle_t cftBarrier;
	ncclCftBarrierHandle_t cftMultimemBarrier;
} ncclDevComm_t;

#endif
