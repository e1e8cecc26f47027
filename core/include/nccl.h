/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public interface: NCCL's API of version 2.28.9. A program built against NCCL's header runs on
 * libdoppel, which is also installed as libnccl.so.2; a program built against this header runs on
 * NCCL. Therefore names, values and layouts are fixed. tests/unit/build/nccl_abi_test.sh compares
 * them with an installed nccl.h.
 *
 * The library exports exactly the functions below. Each has a twin with a `p` in front at the same
 * address, for tools that interpose the plain name. Functions return ncclSuccess or a class of
 * error. An error is explained by one line in the log (NCCL_DEBUG=WARN) and in ncclGetLastError.
 * Outputs are set only on success, unless a function documents more.
 *
 * Any task may call any function. The caller orders calls on one communicator, with one exception:
 * another task may call ncclCommAbort and ncclCommGetAsyncError at any time.
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <cuda_runtime.h>
#include <limits.h>
#include <stddef.h>

#define NCCL_MAJOR  2
#define NCCL_MINOR  28
#define NCCL_PATCH  9
#define NCCL_SUFFIX ""

/* One number per version; two decimal digits per part since 2.9. */
#define NCCL_VERSION(X, Y, Z)                                                                      \
	((X) <= 2 && (Y) <= 8 ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

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
	ncclNumResults = 8
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

#define NCCL_WIN_DEFAULT            0x00
#define NCCL_WIN_COLL_SYMMETRIC     0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT    0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO       0x02

#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT   0x01
#define NCCL_REVOKE_DEFAULT 0x00

/* Options of a communicator. Begin with NCCL_CONFIG_INITIALIZER and set fields that differ from the
 * default. The first three fields identify the layout that the program was built with: older ones
 * are shorter. */
typedef struct ncclConfig_v22800 {
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
} ncclConfig_t;

/* clang-format off */
#define NCCL_CONFIG_INITIALIZER {                                                                  \
	sizeof(ncclConfig_t), 0xcafebeefu, NCCL_VERSION_CODE,                                      \
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
}

typedef struct ncclSimInfo_v22200 {
	size_t size;
	unsigned int magic;
	unsigned int version;
	float estimatedTime; /* us */
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER {                                                                \
	sizeof(ncclSimInfo_t), 0x74685283u, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT,                   \
}
/* clang-format on */

/* ---- library ----------------------------------------------------------------------------------
 */

/* Returns NCCL_VERSION_CODE of the library. */
ncclResult_t ncclGetVersion(int *version);
ncclResult_t pncclGetVersion(int *version);

/* Returns a constant text for a result; never NULL. */
const char *ncclGetErrorString(ncclResult_t result);
const char *pncclGetErrorString(ncclResult_t result);

/* Returns the log line of the latest error in this process, "" if there was no error. `comm` is
 * ignored and may be NULL. The text stays valid until a few more errors have occurred. */
const char *ncclGetLastError(ncclComm_t comm);
const char *pncclGetLastError(ncclComm_t comm);

/* Allocate and free GPU memory of the current device that every transport can use. */
ncclResult_t ncclMemAlloc(void **ptr, size_t size);
ncclResult_t pncclMemAlloc(void **ptr, size_t size);
ncclResult_t ncclMemFree(void *ptr);
ncclResult_t pncclMemFree(void *ptr);

/* Registers a buffer of ncclMemAlloc. If both ranks of a message have registered theirs, the
 * sender's GPU may write directly into the receiver's buffer, also in another process. Registration
 * is local: ranks may register different buffers. *handle is NULL if registration has no effect. A
 * buffer that is registered twice must be deregistered twice. The program may free the buffer after
 * it is deregistered and no operation uses it. */
ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle);
ncclResult_t pncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle);
/* Ends a registration; NULL is ignored. No operation that uses the buffer may be queued or running.
 * A communicator that ends deregisters remaining buffers, with a warning. */
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle);
ncclResult_t pncclCommDeregister(const ncclComm_t comm, void *handle);

/* ---- life of a communicator -------------------------------------------------------------------
 */

/* Creates an id for one communicator and starts the root that its ranks connect to. */
ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId);
ncclResult_t pncclGetUniqueId(ncclUniqueId *uniqueId);

/* Joins communicator `commId` as `rank` of `nranks` with the current device. All ranks call it, and
 * each waits for all others. Therefore a task that creates several ranks does so inside a group.
 * *comm is set early, so that another task can abort a call that hangs. On an error it is reset to
 * NULL. */
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank);
ncclResult_t pncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank);

/* Does the same with options; NULL: the defaults. With blocking = 0 it returns ncclInProgress. The
 * communicator may be used once ncclCommGetAsyncError returns ncclSuccess. */
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
				    ncclConfig_t *config);
ncclResult_t pncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
				     ncclConfig_t *config);

/* Creates one communicator over `ndev` devices of this process. comm[i] is rank i on devlist[i], or
 * on device i if devlist is NULL. */
ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist);
ncclResult_t pncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist);

/* Waits until all launched operations of the communicator are complete. Only ncclCommDestroy or
 * ncclCommAbort may follow. For a non-blocking communicator it returns ncclInProgress without
 * waiting; ncclCommGetAsyncError then returns ncclInProgress until all are complete. */
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t pncclCommFinalize(ncclComm_t comm);

/* Finalizes the communicator, if necessary, and frees it. All ranks call it. */
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t pncclCommDestroy(ncclComm_t comm);

/* Ends all operations of the communicator, including calls of other tasks, and frees it. */
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t pncclCommAbort(ncclComm_t comm);

/* Returns the first asynchronous error, ncclSuccess if there was no error, or ncclInProgress while
 * a call on a non-blocking communicator is running. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError);
ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError);

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count);
ncclResult_t pncclCommCount(const ncclComm_t comm, int *count);
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device);
ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int *device);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank);
ncclResult_t pncclCommUserRank(const ncclComm_t comm, int *rank);

/* ---- collectives and groups -------------------------------------------------------------------
 */

/* Sets recvbuff[i] to the reduction of all ranks' sendbuff[i], for i < count, in order of `stream`.
 * The buffers are equal (in place) or do not overlap. */
ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count,
			   ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
			   cudaStream_t stream);
ncclResult_t pncclAllReduce(const void *sendbuff, void *recvbuff, size_t count,
			    ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
			    cudaStream_t stream);

/* Copies the sendbuff of all ranks to recvbuff, in order of ranks. recvbuff has room for
 * `sendcount` elements of each rank. In place: sendbuff is recvbuff + rank * sendcount elements. */
ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount,
			   ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount,
			    ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);

/* Sets recvbuff to the reduction of all ranks' elements for this rank. sendbuff has `recvcount`
 * elements for each rank, in order of ranks. In place: recvbuff is sendbuff + rank * recvcount
 * elements. */
ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
			       ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
			       cudaStream_t stream);
ncclResult_t pncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
				ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
				cudaStream_t stream);

/* Sets recvbuff of rank `root` to the reduction of all ranks' sendbuff. Other ranks' recvbuff is
 * not used and may be NULL. In place: recvbuff is sendbuff on the root. */
ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
			ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclReduce(const void *sendbuff, void *recvbuff, size_t count,
			 ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
			 cudaStream_t stream);

/* Copies the sendbuff of rank `root` to recvbuff of all ranks. Other ranks' sendbuff is not used
 * and may be NULL. In place: recvbuff is sendbuff on the root. */
ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count,
			   ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclBroadcast(const void *sendbuff, void *recvbuff, size_t count,
			    ncclDataType_t datatype, int root, ncclComm_t comm,
			    cudaStream_t stream);
/* Does the same, in place on every rank. */
ncclResult_t ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
		       cudaStream_t stream);
ncclResult_t pncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root,
			ncclComm_t comm, cudaStream_t stream);

/* Creates an operation of the communicator for data of type `datatype`: the sum of each rank's
 * elements times that rank's *scalar. `residence` is the location of the scalar. The operation may
 * be destroyed once the collectives that use it are called. A scalar in device memory is needed
 * until they are complete. */
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
				      ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
				       ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);
ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

/* Send and receive a message of `count` elements between this rank and rank `peer`. The n-th send
 * from one rank to another matches the n-th receive; both have the same count and type. The
 * messages of a group move concurrently. A rank that sends to itself receives in the same group. */
ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer,
		      ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer,
		       ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer,
		      ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer,
		       ncclComm_t comm, cudaStream_t stream);

/* Sends block r of sendbuff, `count` elements, to rank r, which stores it as the block of this rank
 * in recvbuff. The buffers are equal (in place) or do not overlap. */
ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count,
			  ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count,
			   ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);

/* Copies the `count` elements of every rank's sendbuff to the root's recvbuff, in order of ranks.
 * In place: the root's sendbuff is its own block. Other ranks' recvbuff is not used. */
ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
			int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclGather(const void *sendbuff, void *recvbuff, size_t count,
			 ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);

/* Copies blocks of the root's sendbuff, `count` elements each, to the ranks' recvbuff, in order of
 * ranks. In place: the root's recvbuff is its own block. Other ranks' sendbuff is not used. */
ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count,
			 ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclScatter(const void *sendbuff, void *recvbuff, size_t count,
			  ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);

/* Begin and end a group. The calls of one task inside a group take effect together at the outermost
 * end: communicators are created concurrently, then collectives are launched. After an error
 * inside, the end drops all calls and returns that error. */
ncclResult_t ncclGroupStart(void);
ncclResult_t pncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t pncclGroupEnd(void);

#ifdef __cplusplus
}
#endif

#endif
