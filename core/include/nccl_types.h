/* SPDX-License-Identifier: BSD-3-Clause */
/* Types and constants of nccl.h, which includes this file. */
#ifndef NCCL_TYPES_H_
#define NCCL_TYPES_H_

#include <cuda_runtime.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_MAJOR  2
#define NCCL_MINOR  32
#define NCCL_PATCH  3
#define NCCL_SUFFIX ""

/* One number per version; two decimal digits per part since 2.9. */
#define NCCL_VERSION(X, Y, Z)                                                                      \
	((X) <= 2 && (Y) <= 8 ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)

/* ---- handles -------------------------------------------------------------------------------- */

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
#define NCCL_COMM_NULL NULL

/* Identifies a communicator to its ranks before they know each other. The program distributes
 * copies. */
#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
	char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

/* ---- results, types, operations ------------------------------------------------------------- */

typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1, /* a CUDA call failed */
	ncclSystemError = 2,        /* an operating-system call failed: memory, sockets, files */
	ncclInternalError = 3,      /* a bug, memory corruption, or an aborted call */
	ncclInvalidArgument = 4,    /* an argument is invalid in itself */
	ncclInvalidUsage = 5,       /* the call is invalid in this state or environment */
	ncclRemoteError = 6,        /* another rank failed, or the network to it */
	ncclInProgress = 7,         /* not an error: poll ncclCommGetAsyncError */
	ncclTimeout = 8,            /* the GPU waited for another rank longer than allowed */
	ncclNumResults = 9
} ncclResult_t;

typedef enum {
	ncclInt8 = 0,
	ncclChar = ncclInt8,
	ncclUint8 = 1,
	ncclInt32 = 2,
	ncclInt = ncclInt32,
	ncclUint32 = 3,
	ncclInt64 = 4,
	ncclUint64 = 5,
	ncclFloat16 = 6,
	ncclHalf = ncclFloat16,
	ncclFloat32 = 7,
	ncclFloat = ncclFloat32,
	ncclFloat64 = 8,
	ncclDouble = ncclFloat64,
	ncclBfloat16 = 9,
	ncclFloat8e4m3 = 10,
	ncclFloat8e5m2 = 11,
	ncclNumTypes = 12
} ncclDataType_t;

/* Operations that a program creates have numbers from ncclNumOps to ncclMaxRedOp. The second enum
 * only shows the width of an enum, which bounds the largest number. */
typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
	ncclSum = 0,
	ncclProd = 1,
	ncclMax = 2,
	ncclMin = 3,
	ncclAvg = 4,
	ncclNumOps = 5,
	ncclMaxRedOp = 0x7fffffff >> (32 - 8 * sizeof(ncclRedOp_dummy_t))
} ncclRedOp_t;

/* Location of the factor of a pre-multiplied sum. */
typedef enum {
	ncclScalarDevice = 0,       /* device memory, read when the collective runs */
	ncclScalarHostImmediate = 1 /* host memory, read before the call returns */
} ncclScalarResidence_t;

/* ---- configuration -------------------------------------------------------------------------- */

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT      (-1.0f)
#define NCCL_SPLIT_NOCOLOR    (-1)
#define NCCL_API_MAGIC        0xcafebeef /* of every struct that has a size and a version */

/* Flags of windows. The last two restrict the uses of the window: by GPU-initiated networking only,
 * by counted writes only. */
#define NCCL_WIN_DEFAULT            0x00
#define NCCL_WIN_COLL_SYMMETRIC     0x01
#define NCCL_WIN_STRICT_ORDERING    0x02
#define NCCL_WIN_GIN_ONLY           0x04
#define NCCL_WIN_CFT_COUNTED        0x08
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT    0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO       0x02

#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT   0x01 /* first ends the parent's operations */
#define NCCL_REVOKE_DEFAULT 0x00
#define NCCL_SUSPEND_MEM    0x01 /* frees the GPU memory that can be made again */

/* Use of counted fabric transfers by collectives. */
typedef enum {
	ncclHostCftDefault = NCCL_CONFIG_UNDEF_INT,
	ncclHostCftEnable = 1,
	ncclHostCftDisable = 2,
	ncclHostCftFallback = 3
} ncclHostCftMode_t;

/* Parts of NVLink SHARP that collectives do without: bits. */
typedef enum {
	ncclNvlsHostModeDefault = NCCL_CONFIG_UNDEF_INT,
	ncclNvlsHostModeEnable = 0,
	ncclNvlsHostModeDisableTransport = 1 << 0,
	ncclNvlsHostModeDisableSymmetricMultimem = 1 << 1,
	ncclNvlsHostModeDisable = INT_MAX
} ncclNvlsHostMode_t;

/* Options of a communicator. Begin with NCCL_CONFIG_INITIALIZER and set fields that differ from the
 * default. The first three fields identify the layout that the program was built with: older ones
 * are shorter. */
typedef struct ncclConfig_v23100 {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int blocking;         /* 0: calls return ncclInProgress instead of waiting */
	int cgaClusterSize;   /* blocks per cluster */
	int minCTAs, maxCTAs; /* minimum and maximum number of blocks, equal to channels */
	const char *netName;  /* network to use, e.g. "IB" */
	int splitShare;       /* split communicators share resources with their parent */
	int trafficClass;
	const char *commName; /* shown in the log */
	int collnetEnable;
	int CTAPolicy; /* NCCL_CTA_POLICY_... */
	int shrinkShare;
	int nvlsCTAs;
	int nChannelsPerNetPeer;
	int nvlinkCentricSched;
	int graphUsageMode;      /* launches: 0 none in graphs, 1 in one graph, 2 mixed */
	int numRmaCtx;           /* contexts of one-sided operations; 0: none */
	int maxP2pPeers;         /* most ranks that this rank exchanges messages with */
	int graphStreamOrdering; /* 0: replays of graphs are not ordered */
	int launchOrderImplicit; /* 1: communicators of a GPU launch in the program's order */
	int numRmaSig;           /* signals of one-sided operations */
	int rmaEagerInit;        /* 1: the init prepares one-sided operations */
	int hostCftMode;         /* ncclHostCftMode_t */
	int nvlsHostMode;        /* ncclNvlsHostMode_t */
} ncclConfig_t;

/* clang-format off */
#define NCCL_CONFIG_INITIALIZER {                                                                  \
	sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE,                                   \
	NCCL_CONFIG_UNDEF_INT,	/* blocking */                                                     \
	NCCL_CONFIG_UNDEF_INT,	/* cgaClusterSize */                                               \
	NCCL_CONFIG_UNDEF_INT,	/* minCTAs */                                                      \
	NCCL_CONFIG_UNDEF_INT,	/* maxCTAs */                                                      \
	NCCL_CONFIG_UNDEF_PTR,	/* netName */                                                      \
	NCCL_CONFIG_UNDEF_INT,	/* splitShare */                                                   \
	NCCL_CONFIG_UNDEF_INT,	/* trafficClass */                                                 \
	NCCL_CONFIG_UNDEF_PTR,	/* commName */                                                     \
	NCCL_CONFIG_UNDEF_INT,	/* collnetEnable */                                                \
	NCCL_CONFIG_UNDEF_INT,	/* CTAPolicy */                                                    \
	NCCL_CONFIG_UNDEF_INT,	/* shrinkShare */                                                  \
	NCCL_CONFIG_UNDEF_INT,	/* nvlsCTAs */                                                     \
	NCCL_CONFIG_UNDEF_INT,	/* nChannelsPerNetPeer */                                          \
	NCCL_CONFIG_UNDEF_INT,	/* nvlinkCentricSched */                                           \
	NCCL_CONFIG_UNDEF_INT,	/* graphUsageMode */                                               \
	NCCL_CONFIG_UNDEF_INT,	/* numRmaCtx */                                                    \
	NCCL_CONFIG_UNDEF_INT,	/* maxP2pPeers */                                                  \
	NCCL_CONFIG_UNDEF_INT,	/* graphStreamOrdering */                                          \
	NCCL_CONFIG_UNDEF_INT,	/* launchOrderImplicit */                                          \
	NCCL_CONFIG_UNDEF_INT,	/* numRmaSig */                                                    \
	NCCL_CONFIG_UNDEF_INT,	/* rmaEagerInit */                                                 \
	NCCL_CONFIG_UNDEF_INT,	/* hostCftMode */                                                  \
	NCCL_CONFIG_UNDEF_INT,	/* nvlsHostMode */                                                 \
}
/* clang-format on */

/* An option for one vendor's library, in a list that ends with NULL. Other libraries ignore it. */
typedef struct ncclConfigExt {
	struct ncclConfigExt *next;
	struct {
		int vendorId; /* 1 to 2^24 - 1 */
		int optionId; /* no two options of a vendor in a list have the same */
	} key;
	union {
		int i;
		const char *s;
		void *raw;
	} val;
} ncclConfigExt_t;

/* Options of Doppel, for ncclCollConfig_t's `ext`. */
#define NCCL_DOPPEL_VENDOR 0xd0de1
/* val.i: time in ms that the launch of this call may wait for other ranks, instead of that of
 * DOPPEL_TIMEOUT_MS. At least 1. */
#define NCCL_DOPPEL_OPTION_TIMEOUT_MS 1

/* Options of one collective. Begin with NCCL_COLLCONFIG_INITIALIZER. All ranks pass the same,
 * except for the tag and the event. The call copies it. */
typedef struct ncclCollConfig_v23200 {
	size_t size;
	unsigned int magic;
	unsigned int version;
	ncclConfigExt_t *ext;
	int minCTAs, maxCTAs; /* at most the communicator's maxCTAs */
	int nvlsCTAs;
	int cgaClusterSize;
	const char *algSelection; /* algorithms, in the form of NCCL_ALGO; NULL or "": any */
	int forceAlgSelection;    /* 0: if none of these can run, any may */
	int CTAPolicy;            /* NCCL_CTA_POLICY_... */
	uint64_t userProfilerTag; /* for traces; 0: none. The top bit is reserved. */
	/* Recorded after the launch of the call. At most one for each communicator of a group. */
	cudaEvent_t launchCompletionEvent;
} ncclCollConfig_t;

/* clang-format off */
#define NCCL_COLLCONFIG_INITIALIZER {                                                              \
	sizeof(ncclCollConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE,                               \
	NCCL_CONFIG_UNDEF_PTR,	/* ext */                                                          \
	NCCL_CONFIG_UNDEF_INT,	/* minCTAs */                                                      \
	NCCL_CONFIG_UNDEF_INT,	/* maxCTAs */                                                      \
	NCCL_CONFIG_UNDEF_INT,	/* nvlsCTAs */                                                     \
	NCCL_CONFIG_UNDEF_INT,	/* cgaClusterSize */                                               \
	NCCL_CONFIG_UNDEF_PTR,	/* algSelection */                                                 \
	1,			/* forceAlgSelection */                                            \
	NCCL_CONFIG_UNDEF_INT,	/* CTAPolicy */                                                    \
	0,			/* userProfilerTag */                                              \
	NCCL_CONFIG_UNDEF_PTR,	/* launchCompletionEvent */                                        \
}
/* clang-format on */

typedef struct ncclSimInfo_v22200 {
	size_t size;
	unsigned int magic;
	unsigned int version;
	float estimatedTime; /* us */
} ncclSimInfo_t;

/* Encryption of the sockets between ranks. */
typedef enum {
	NCCL_ENCRYPTION_MODE_NONE = 0,
	NCCL_ENCRYPTION_MODE_PSK = 1 /* by a key that all ranks have */
} ncclEncryptionMode_t;

typedef struct ncclEncryptionConfig_v23200 {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int mode; /* ncclEncryptionMode_t */
	const char *psk;
} ncclEncryptionConfig_t;

typedef enum {
	ncclStatGpuMemSuspend = 0,   /* bytes of GPU memory that can be suspended */
	ncclStatGpuMemSuspended = 1, /* 1: it is suspended */
	ncclStatGpuMemPersist = 2,   /* bytes of GPU memory that cannot be suspended */
	ncclStatGpuMemTotal = 3      /* bytes of both */
} ncclCommMemStat_t;

/* A number of signals to wait for. */
typedef struct {
	int opCnt;
	int peer; /* rank that sends them */
	int sigIdx;
	int ctx;
} ncclWaitSignalDesc_t;

/* clang-format off */
#define NCCL_SIM_INFO_INITIALIZER {                                                                \
	sizeof(ncclSimInfo_t), 0x74685283u, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT,                   \
}

#define NCCL_ENCRYPTION_CONFIG_INITIALIZER {                                                       \
	sizeof(ncclEncryptionConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE,                         \
	NCCL_ENCRYPTION_MODE_NONE, NCCL_CONFIG_UNDEF_PTR,                                          \
}
/* clang-format on */

/* CUDA source gets these with nccl.h, as with NCCL's. */
#if defined(__CUDACC__) && defined(__cplusplus)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#endif

#endif
