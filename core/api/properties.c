/* SPDX-License-Identifier: BSD-3-Clause */
/* Facts about a communicator for the program, and the log's settings. */
#include <string.h>

#include "core/api/api.h"
#include "core/api/windows/devcomm.h"
#include "core/base/log.h"
#include "core/transport/transport.h"
#include "core/detect/gpu.h"

/* ---- properties ------------------------------------------------------------------------------ */

/* The fields up to this one are in the structure of every version. */
#define PROPERTIES_LEAST offsetof(ncclCommProperties_t, deviceApiSupport)
DOPPEL_CHECK_OFFSET(ncclCommProperties_t, rank, 16);
DOPPEL_CHECK_OFFSET(ncclCommProperties_t, commHash, 56);
DOPPEL_CHECK_SIZE(ncclCommProperties_t, 152);
DOPPEL_STATIC_CHECK(PROPERTIES_LEAST > offsetof(ncclCommProperties_t, rank),
		    "every version has fields to fill in");

static ncclResult_t properties_check(const ncclCommProperties_t *props)
{
	if (!props)
		WARN("ncclCommQueryProperties: props is NULL");
	else if (props->magic != NCCL_API_MAGIC || props->size < PROPERTIES_LEAST)
		WARN("ncclCommQueryProperties: props has magic 0x%x and size %zu; initialise it "
		     "with NCCL_COMM_PROPERTIES_INITIALIZER",
		     props->magic, props->size);
	else
		return ncclSuccess;
	return ncclInvalidArgument;
}

/* Fills the part of *props that the caller's version has. */
static void properties_fill(const struct ncclComm *comm, ncclCommProperties_t *props)
{
	const size_t from = offsetof(ncclCommProperties_t, rank);
	const bool has_devcomm = !devcomm_why_not(comm);
	const ncclCommProperties_t full = {
		.rank = comm->rank,
		.nRanks = comm->nranks,
		.cudaDev = comm->cuda_dev,
		.nvmlDev = detect_nvml_index(comm->bus_id),
		.deviceApiSupport = has_devcomm,
		.devCommRuntimeVersionSize = has_devcomm ? sizeof(ncclDevComm_t) : 0,
		.ginType = NCCL_GIN_TYPE_NONE,
		.railedGinType = NCCL_GIN_TYPE_NONE,
		.ginConnectionType = NCCL_GIN_CONNECTION_NONE,
		.nLsaTeams = transport_window_teams(comm),
		.commHash = comm->id_hash,
	};

	memcpy((char *)props + from, (const char *)&full + from,
	       MIN_OF(props->size, sizeof full) - from);
}

API_TWIN(ncclCommQueryProperties);
API_WEAK ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *props)
{
	ncclResult_t rc = properties_check(props);

	if (!rc)
		rc = comm_enter(comm, "ncclCommQueryProperties", COMM_NEED_INIT);
	if (rc)
		return api_return(rc);
	properties_fill(comm, props);
	comm_leave(comm);
	return ncclSuccess;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Returns a number about the communicator's memory. The sums do not depend on whether it is
 * suspended. */
static uint64_t properties_memory(struct ncclComm *comm, ncclCommMemStat_t stat)
{
	const uint64_t suspendable = transport_memory_suspendable(comm);

	ASSERT(suspendable <= comm->gpu_bytes);
	switch (stat) {
	case ncclStatGpuMemSuspend:
		return suspendable;
	case ncclStatGpuMemSuspended:
		return comm_is_suspended(comm);
	case ncclStatGpuMemPersist:
		return comm->gpu_bytes - suspendable;
	case ncclStatGpuMemTotal:
		break;
	}
	return comm->gpu_bytes;
}

API_TWIN(ncclCommMemStats);
API_WEAK ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value)
{
	ncclResult_t rc;

	if (!value || (unsigned)stat > ncclStatGpuMemTotal) {
		if (value)
			WARN("ncclCommMemStats: stat is %d, expected 0 to %d", (int)stat,
			     ncclStatGpuMemTotal);
		else
			WARN("ncclCommMemStats: value is NULL");
		return api_return(ncclInvalidArgument);
	}
	rc = comm_enter(comm, "ncclCommMemStats", COMM_NEED_INIT);
	if (rc)
		return api_return(rc);
	*value = properties_memory(comm, stat);
	comm_leave(comm);
	return ncclSuccess;
}

/* ---- the log --------------------------------------------------------------------------------- */

API_TWIN(ncclResetDebugInit);
API_WEAK void ncclResetDebugInit(void)
{
	log_reset();
}

/* NCCL exports it, without a twin, and declares it nowhere. */
void ncclResetDebugInitInternal(void);
void ncclResetDebugInitInternal(void)
{
	log_reset();
}
