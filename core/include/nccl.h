/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public interface: NCCL's API of version 2.32.3. A program built against NCCL's header runs on
 * libdoppel, which is also installed as libnccl.so.2; a program built against this header runs on
 * NCCL. Therefore names, values and layouts are fixed. tests/unit/build/nccl_abi_test.sh compares
 * them with an installed nccl.h.
 *
 * The library exports the functions below and those of nccl_device.h. Each has a twin with a `p` in
 * front at the same address, for tools that interpose the plain name. Functions return ncclSuccess
 * or a class of error. An error is explained by one line in the log (NCCL_DEBUG=WARN) and in
 * ncclGetLastError. Outputs are set only on success, unless a function documents more.
 *
 * "Not implemented" in a comment: the function sets its outputs to 0 or NULL, logs one line with
 * its name, and returns ncclInvalidUsage.
 *
 * Any task may call any function. The caller orders calls on one communicator, with one exception:
 * another task may call ncclCommAbort and ncclCommGetAsyncError at any time.
 */
#ifndef NCCL_H_
#define NCCL_H_

#include "nccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* Reads NCCL_DEBUG and NCCL_DEBUG_SUBSYS again. */
void ncclResetDebugInit(void);
void pncclResetDebugInit(void);

/* Encrypts the sockets that ranks open later. Not implemented, except for
 * NCCL_ENCRYPTION_MODE_NONE. */
ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t *config);
ncclResult_t pncclSetEncryption(const ncclEncryptionConfig_t *config);

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

/* Registers a buffer of every rank as a window: all ranks call it, with the same size and flags.
 * NULL: there are no windows between these ranks. In a group, or with a non-blocking communicator,
 * *win is set later: by ncclGroupEnd, or when ncclCommGetAsyncError returns ncclSuccess. */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win,
				    int winFlags);
ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win,
				     int winFlags);
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);
ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);
/* Returns the buffer of a window. */
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **outUserPtr);
ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **outUserPtr);

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

/* Does the same for an init that several roots share: `nId` ids, at most one for each rank. All
 * ranks pass the same ids in the same order. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId,
				      ncclUniqueId *commIds, ncclConfig_t *config);
ncclResult_t pncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId,
				       ncclUniqueId *commIds, ncclConfig_t *config);

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

/* Stops all operations of the communicator, which can then only make others or end. */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags);
ncclResult_t pncclCommRevoke(ncclComm_t comm, int revokeFlags);

/* Makes a communicator of all ranks that pass the same color, in order of their keys. All ranks of
 * `comm` call it. NCCL_SPLIT_NOCOLOR: *newcomm is NULL. config NULL: that of `comm`. */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
			   ncclConfig_t *config);
ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
			    ncclConfig_t *config);

/* Makes a communicator of all ranks except those in the list, which do not call it.
 * NCCL_SHRINK_ABORT: ends the operations of `comm` first, as ncclCommRevoke does. */
ncclResult_t ncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
			    ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags);
ncclResult_t pncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
			     ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags);

/* Creates an id for one growth of the communicator. */
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *uniqueId);
ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *uniqueId);
/* Makes a communicator of the ranks of `comm` and of new ones, nRanks in total. Ranks of `comm`
 * pass rank -1, and one of them the id. New ranks pass comm NULL, the id, and their rank. */
ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank,
			  ncclComm_t *newcomm, ncclConfig_t *config);
ncclResult_t pncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank,
			   ncclComm_t *newcomm, ncclConfig_t *config);

/* Free GPU memory of a communicator's connections (flags: NCCL_SUSPEND_MEM), and make it again. All
 * ranks make both calls. The first one waits for operations that were launched. Between the two
 * calls the communicator can be queried, finalized, revoked and ended. Other calls return
 * ncclInvalidUsage. Only memory of cuMem is freed (NCCL_CUMEM_ENABLE). */
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t pncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t ncclCommResume(ncclComm_t comm);
ncclResult_t pncclCommResume(ncclComm_t comm);

/* Returns a number about the communicator's GPU memory. */
ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value);
ncclResult_t pncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value);

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

/* The collectives with options; NULL: the defaults. All-to-all, gather and scatter accept only the
 * tag, the event and options that have no effect. */
ncclResult_t ncclAllReduceConfig(const void *sendbuff, void *recvbuff, size_t count,
				 ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
				 cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t pncclAllReduceConfig(const void *sendbuff, void *recvbuff, size_t count,
				  ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
				  cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t ncclAllGatherConfig(const void *sendbuff, void *recvbuff, size_t sendcount,
				 ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
				 const ncclCollConfig_t *config);
ncclResult_t pncclAllGatherConfig(const void *sendbuff, void *recvbuff, size_t sendcount,
				  ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
				  const ncclCollConfig_t *config);
ncclResult_t ncclReduceScatterConfig(const void *sendbuff, void *recvbuff, size_t recvcount,
				     ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
				     cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t pncclReduceScatterConfig(const void *sendbuff, void *recvbuff, size_t recvcount,
				      ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
				      cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t ncclReduceConfig(const void *sendbuff, void *recvbuff, size_t count,
			      ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
			      cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t pncclReduceConfig(const void *sendbuff, void *recvbuff, size_t count,
			       ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
			       cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t ncclBroadcastConfig(const void *sendbuff, void *recvbuff, size_t count,
				 ncclDataType_t datatype, int root, ncclComm_t comm,
				 cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t pncclBroadcastConfig(const void *sendbuff, void *recvbuff, size_t count,
				  ncclDataType_t datatype, int root, ncclComm_t comm,
				  cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t ncclAlltoAllConfig(const void *sendbuff, void *recvbuff, size_t count,
				ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
				const ncclCollConfig_t *config);
ncclResult_t pncclAlltoAllConfig(const void *sendbuff, void *recvbuff, size_t count,
				 ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
				 const ncclCollConfig_t *config);
ncclResult_t ncclGatherConfig(const void *sendbuff, void *recvbuff, size_t count,
			      ncclDataType_t datatype, int root, ncclComm_t comm,
			      cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t pncclGatherConfig(const void *sendbuff, void *recvbuff, size_t count,
			       ncclDataType_t datatype, int root, ncclComm_t comm,
			       cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t ncclScatterConfig(const void *sendbuff, void *recvbuff, size_t count,
			       ncclDataType_t datatype, int root, ncclComm_t comm,
			       cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t pncclScatterConfig(const void *sendbuff, void *recvbuff, size_t count,
				ncclDataType_t datatype, int root, ncclComm_t comm,
				cudaStream_t stream, const ncclCollConfig_t *config);

/* One-sided operations: write `count` elements into the peer's window and then signal the peer,
 * signal only, and wait for signals. Not implemented. */
ncclResult_t ncclPutSignal(const void *localbuff, size_t count, ncclDataType_t datatype, int peer,
			   ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
			   unsigned int flags, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclPutSignal(const void *localbuff, size_t count, ncclDataType_t datatype, int peer,
			    ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
			    unsigned int flags, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
			cudaStream_t stream);
ncclResult_t pncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
			 cudaStream_t stream);
ncclResult_t ncclWaitSignal(int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm,
			    cudaStream_t stream);
ncclResult_t pncclWaitSignal(int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm,
			     cudaStream_t stream);

/* Begin and end a group. The calls of one task inside a group take effect together at the outermost
 * end: communicators are created concurrently, then collectives are launched. After an error
 * inside, the end drops all calls and returns that error. */
ncclResult_t ncclGroupStart(void);
ncclResult_t pncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t pncclGroupEnd(void);
/* Ends the outermost group without its effects: its calls are dropped. Sets simInfo->estimatedTime
 * to the time that the model of the library expects for the collectives. */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *simInfo);
ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t *simInfo);

/* ---- parameters -------------------------------------------------------------------------------
 */

/* A variable of the environment, as the library uses it. */
typedef struct ncclParamHandle *ncclParamHandle_t;

/* Finds a parameter by name. */
ncclResult_t ncclParamBind(ncclParamHandle_t *out, const char *key);
ncclResult_t pncclParamBind(ncclParamHandle_t *out, const char *key);
/* Return the value of a parameter. */
ncclResult_t ncclParamGetI8(ncclParamHandle_t h, int8_t *out);
ncclResult_t pncclParamGetI8(ncclParamHandle_t h, int8_t *out);
ncclResult_t ncclParamGetI16(ncclParamHandle_t h, int16_t *out);
ncclResult_t pncclParamGetI16(ncclParamHandle_t h, int16_t *out);
ncclResult_t ncclParamGetI32(ncclParamHandle_t h, int32_t *out);
ncclResult_t pncclParamGetI32(ncclParamHandle_t h, int32_t *out);
ncclResult_t ncclParamGetI64(ncclParamHandle_t h, int64_t *out);
ncclResult_t pncclParamGetI64(ncclParamHandle_t h, int64_t *out);
ncclResult_t ncclParamGetU8(ncclParamHandle_t h, uint8_t *out);
ncclResult_t pncclParamGetU8(ncclParamHandle_t h, uint8_t *out);
ncclResult_t ncclParamGetU16(ncclParamHandle_t h, uint16_t *out);
ncclResult_t pncclParamGetU16(ncclParamHandle_t h, uint16_t *out);
ncclResult_t ncclParamGetU32(ncclParamHandle_t h, uint32_t *out);
ncclResult_t pncclParamGetU32(ncclParamHandle_t h, uint32_t *out);
ncclResult_t ncclParamGetU64(ncclParamHandle_t h, uint64_t *out);
ncclResult_t pncclParamGetU64(ncclParamHandle_t h, uint64_t *out);
ncclResult_t ncclParamGetStr(ncclParamHandle_t h, const char **out);
ncclResult_t pncclParamGetStr(ncclParamHandle_t h, const char **out);
/* Copies at most maxLen bytes of the value. */
ncclResult_t ncclParamGet(ncclParamHandle_t h, void *out, int maxLen, int *len);
ncclResult_t pncclParamGet(ncclParamHandle_t h, void *out, int maxLen, int *len);
/* Returns the value of a parameter by its name, as text. */
ncclResult_t ncclParamGetParameter(const char *key, const char **value, int *valueLen);
ncclResult_t pncclParamGetParameter(const char *key, const char **value, int *valueLen);
/* Returns the names of all parameters. */
ncclResult_t ncclParamGetAllParameterKeys(const char ***table, int *tableLen);
ncclResult_t pncclParamGetAllParameterKeys(const char ***table, int *tableLen);
/* Logs all parameters. */
void ncclParamDumpAll(void);
void pncclParamDumpAll(void);

#ifdef __cplusplus
}
#endif

#endif
