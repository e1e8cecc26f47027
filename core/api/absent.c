/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of NCCL's interface that are not built. A program may link with them and call them.
 * Each sets its outputs to 0 or NULL, logs one line with its name, and returns ncclInvalidUsage. A
 * function whose result is of another type returns zeros. A function that gets built leaves this
 * file.
 */
#include "core/api/api.h"
#include "core/base/log.h"
#include "core/include/nccl_device.h"

static ncclResult_t absent(const char *call, const char *instead)
{
	WARN("%s is not implemented: %s", call, instead);
	return api_return(ncclInvalidUsage);
}

/* Defines a function: its name, its parameters in parentheses, the statements that clear its
 * outputs, and what a program can do instead. */
#define ABSENT_AS(type, zero, name, parameters, clear, instead)                                    \
	API_TWIN(name);                                                                            \
	API_WEAK type name parameters                                                              \
	{                                                                                          \
		clear;                                                                             \
		(void)absent(#name, instead);                                                      \
		return zero;                                                                       \
	}
#define ABSENT(name, parameters, clear, instead)                                                   \
	ABSENT_AS(ncclResult_t, ncclInvalidUsage, name, parameters, clear, instead)
#define ABSENT_TEAM(name, parameters)                                                              \
	ABSENT_AS(ncclTeam_t, ((ncclTeam_t){0}), name, parameters, (void)0, NO_DEVICE_API)

/* Clears an output that may be NULL. */
#define CLEAR(out)                                                                                 \
	if (out)                                                                                   \
	*(out) = 0

#define NO_DEVICE_API "expected LSA barriers and pointers of the device API"
#define NO_OTHERS     "expected ncclCommInitRank with a new id"
#define NO_ONE_SIDED  "expected ncclSend and ncclRecv"

/* ---- one-sided operations -------------------------------------------------------------------- */

ABSENT(ncclPutSignal,
       (const void *localbuff, size_t count, ncclDataType_t datatype, int peer,
	ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags,
	ncclComm_t comm, cudaStream_t stream),
       (void)0, NO_ONE_SIDED)
ABSENT(ncclSignal,
       (int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream),
       (void)0, NO_ONE_SIDED)
ABSENT(ncclWaitSignal,
       (int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm, cudaStream_t stream),
       (void)0, NO_ONE_SIDED)

/* ---- encryption ------------------------------------------------------------------------------ */

API_TWIN(ncclSetEncryption);
API_WEAK ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t *config)
{
	if (!config || config->magic != NCCL_API_MAGIC || config->size < sizeof *config) {
		WARN("ncclSetEncryption: config is %s, expected one that begins with "
		     "NCCL_ENCRYPTION_CONFIG_INITIALIZER",
		     config ? "not initialised" : "NULL");
		return api_return(ncclInvalidArgument);
	}
	if (config->mode == NCCL_ENCRYPTION_MODE_NONE)
		return ncclSuccess;
	return absent("ncclSetEncryption", "expected mode NCCL_ENCRYPTION_MODE_NONE");
}

/* ---- device API ------------------------------------------------------------------------------ */

ABSENT(ncclGetMultimemDevicePointer,
       (ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem, void **outPtr),
       CLEAR(outPtr), NO_DEVICE_API)
ABSENT(ncclGetLsaMultimemDevicePointer, (ncclWindow_t window, size_t offset, void **outPtr),
       CLEAR(outPtr), NO_DEVICE_API)
ABSENT(ncclGetCftDeviceLeInfo,
       (ncclWindow_t window, size_t offset, int peerCft, ncclTeam_t cftTeam, ncclCftLeId *leId,
	size_t *leOffset),
       CLEAR(leId);
       CLEAR(leOffset), NO_DEVICE_API)
ABSENT(ncclGetPeerDeviceLeInfo,
       (ncclWindow_t window, size_t offset, int peerWorld, ncclCftLeId *leId, size_t *leOffset),
       CLEAR(leId);
       CLEAR(leOffset), NO_DEVICE_API)
ABSENT(ncclGetMultimemDeviceLeInfo,
       (ncclWindow_t window, size_t offset, ncclCftLeId *leId, size_t *leOffset), CLEAR(leId);
       CLEAR(leOffset), NO_DEVICE_API)
ABSENT_TEAM(ncclTeamCft, (ncclComm_t comm, ncclCftTeamMode_t mode))
ABSENT_TEAM(ncclTeamCftMultimem, (ncclComm_t comm))
#define CLEAR_REQUIREMENT                                                                          \
	if (outReq)                                                                                \
		*outReq = (ncclDevResourceRequirements_t)                                          \
		{                                                                                  \
			0                                                                          \
		}
ABSENT(ncclGinBarrierCreateRequirement,
       (ncclComm_t comm, ncclTeam_t team, int nBarriers, ncclGinBarrierHandle_t *outHandle,
	ncclDevResourceRequirements_t *outReq),
       CLEAR_REQUIREMENT, NO_DEVICE_API)
ABSENT(ncclGinOutboxCreateRequirement,
       (int nBlocks, int size_log2, ncclGinOutboxHandle *outHandle,
	ncclDevResourceRequirements_t *outReq),
       CLEAR_REQUIREMENT, NO_DEVICE_API)
ABSENT(ncclGinInboxA2ACreateRequirement,
       (ncclTeam_t peers, int nBlocks, int size_log2, ncclGinInboxA2AHandle *outHandle,
	ncclDevResourceRequirements_t *outReq),
       CLEAR_REQUIREMENT, NO_DEVICE_API)
