/* SPDX-License-Identifier: BSD-3-Clause */
/* Device communicators: their entry points, and what kernels receive. */
#include "core/api/windows/devcomm.h"
#include "core/api/api.h"
#include "core/base/log.h"
#include "core/plan/plan.h"
#include "core/rank/cuda_result.h"

/* Layouts of NCCL 2.32.3. */
DOPPEL_CHECK_OFFSET(ncclDevComm_t, resourceWindow, 40);
DOPPEL_CHECK_OFFSET(ncclDevComm_t, lsaBarrier, 80);
DOPPEL_CHECK_OFFSET(ncclDevComm_t, abortFlag, 168);
DOPPEL_CHECK_OFFSET(ncclDevComm_t, hybridLsaBarrier, 176);
DOPPEL_CHECK_SIZE(ncclDevComm_t, 248);

/* 2^32 / x, rounded down, for a division of NCCL's kernels; 2^32 itself is 0. */
static uint32_t devcomm_reciprocal(int x)
{
	return (uint32_t)((1ull << 32) / (uint64_t)x);
}

static ncclDevComm_t devcomm_of(const struct ncclComm *comm, const struct devcomm_layout *l,
				ncclWindow_t win)
{
	const ncclTeam_t lsa = devcomm_lsa(comm);

	return (ncclDevComm_t){.magic = NCCL_API_MAGIC,
			       .version = NCCL_VERSION_CODE,
			       .rank = comm->rank,
			       .nRanks = comm->nranks,
			       .nRanks_rcp32 = devcomm_reciprocal(comm->nranks),
			       .lsaRank = lsa.rank,
			       .lsaSize = lsa.nRanks,
			       .lsaSize_rcp32 = devcomm_reciprocal(lsa.nRanks),
			       .windowTable = transport_window_table(comm),
			       .resourceWindow = win,
			       .lsaBarrier = l->lsa,
			       .hybridLsaBarrier = l->hybrid,
			       .abortFlag = (uint32_t *)(uintptr_t)comm->dev_abort};
}

ncclResult_t api_devcomm_make(struct ncclComm *comm, const struct api_devcomm *d,
			      const struct window_call *call)
{
	ncclWindow_t win;
	ncclResult_t rc = transport_window_own(comm, call, &win);

	if (rc)
		return rc;
	*d->out = devcomm_of(comm, &d->layout, win);
	for (uint32_t i = 0; i < d->layout.buffers; i++)
		if (d->target[i].out)
			*d->target[i].out = d->target[i].place;
	INFO(LOG_REG,
	     "rank %d: device communicator %p: a team of %d ranks, %d LSA barriers, %zu "
	     "bytes",
	     comm->rank, (void *)win, d->out->lsaSize, d->layout.lsa.nBarriers, d->layout.bytes);
	return ncclSuccess;
}

void api_devcomm_undo(struct ncclComm *comm, const struct api_devcomm *d)
{
	if (d->out->resourceWindow)
		(void)transport_window_own_end(comm, d->out->resourceWindow);
	*d->out = (ncclDevComm_t){.magic = 0};
}

/* ---- the entry points ------------------------------------------------------------------------ */

/* Checks the arguments, and prepares the call. *d NULL: an error. */
static ncclResult_t devcomm_prepare(const struct ncclComm *comm,
				    const ncclDevCommRequirements_t *reqs, ncclDevComm_t *out,
				    struct api_devcomm **d)
{
	struct devcomm_layout layout;
	ncclResult_t rc;

	*d = NULL;
	if (!out) {
		WARN(DEVCOMM_CREATE ": outDevComm is NULL, expected the address of an ncclDevComm");
		return ncclInvalidArgument;
	}
	*out = (ncclDevComm_t){.magic = 0};
	rc = devcomm_layout_of(comm, reqs, &layout);
	if (rc)
		return rc;
	*d = os_alloc(sizeof **d + layout.buffers * sizeof(*d)->target[0], "device communicator");
	if (!*d) {
		WARN(DEVCOMM_CREATE ": rank %d: no memory", comm->rank);
		return ncclSystemError;
	}
	(*d)->out = out;
	(*d)->layout = layout;
	devcomm_layout_targets(reqs, *d);
	return ncclSuccess;
}

API_TWIN(ncclDevCommCreate);
API_WEAK ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t *reqs,
					ncclDevComm_t *outDevComm)
{
	struct window_call call = {.name = DEVCOMM_CREATE, .next_message = plan_message_next};
	struct api_devcomm *d;
	ncclResult_t rc;

	INFO(LOG_CALL, DEVCOMM_CREATE ": comm %p", (const void *)comm);
	rc = comm_enter(comm, DEVCOMM_CREATE, COMM_NEED_READY);
	if (rc)
		return api_return(rc);
	call.refused = devcomm_prepare(comm, reqs, outDevComm, &d);
	if (d) {
		call.bytes = d->layout.bytes;
		call.layout = d->layout.hash;
	}
	rc = api_window_call(comm, &call, NULL, d);
	comm_leave(comm);
	return api_return(call.refused ? call.refused : rc);
}

/* Checks *devComm: it may be any memory of the program. */
static ncclResult_t devcomm_check_made(const ncclDevComm_t *devComm)
{
	if (!devComm)
		WARN("ncclDevCommDestroy: devComm is NULL");
	else if (devComm->magic != NCCL_API_MAGIC || devComm->version != NCCL_VERSION_CODE)
		WARN("ncclDevCommDestroy: devComm has magic 0x%x and version %u, expected one that "
		     "ncclDevCommCreate filled in",
		     devComm->magic, devComm->version);
	else
		return ncclSuccess;
	return ncclInvalidArgument;
}

API_TWIN(ncclDevCommDestroy);
API_WEAK ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t *devComm)
{
	ncclResult_t rc = comm_enter(comm, "ncclDevCommDestroy", COMM_NEED_INIT);
	int device;

	INFO(LOG_CALL, "ncclDevCommDestroy: comm %p", (const void *)comm);
	if (rc)
		return api_return(rc);
	rc = devcomm_check_made(devComm);
	if (!rc) {
		device = comm_device_save();
		rc = cuda_result(cudaSetDevice(comm->cuda_dev),
				 "cudaSetDevice in ncclDevCommDestroy");
		if (!rc)
			rc = transport_window_own_end(comm, devComm->resourceWindow);
		comm_device_restore(device);
	}
	comm_leave(comm);
	return api_return(rc);
}
