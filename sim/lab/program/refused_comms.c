/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrong calls that make, query or end communicators, and calls that are not built. Each is refused
 * by the rank alone, before any message, and leaves the communicator as it was.
 */
#include "core/include/nccl_device.h"
#include "sim/lab/program/refused.h"

/* ---- communicators from others --------------------------------------------------------------- */

static ncclResult_t refused_shrink(struct refused *r)
{
	int flags = sim_rng_below(&r->rng, 2) ? NCCL_SHRINK_ABORT : NCCL_SHRINK_DEFAULT;
	int excluded[2] = {(r->me->rank + 1) % r->n, r->n}; /* the second one is wrong */
	ncclComm_t none = NULL;

	switch (sim_rng_below(&r->rng, 7)) {
	case 0:
		return ncclCommShrink(r->comm, excluded, 0, &none, NULL, flags);
	case 1:
		return ncclCommShrink(r->comm, excluded, -1, &none, NULL, flags);
	case 2:
		return ncclCommShrink(r->comm, excluded, r->n, &none, NULL, flags);
	case 3:
		return ncclCommShrink(r->comm, NULL, 1, &none, NULL, flags);
	case 4:
		return ncclCommShrink(r->comm, excluded, 1, NULL, NULL, flags);
	case 5:
		return ncclCommShrink(r->comm, excluded, 1, &none, NULL, 2);
	default:
		return ncclCommShrink(NULL, excluded, 1, &none, NULL, flags);
	}
}

static ncclResult_t refused_growth(struct refused *r)
{
	ncclUniqueId id = {{0}};
	ncclComm_t none = NULL;

	switch (sim_rng_below(&r->rng, 5)) {
	case 0:
		return ncclCommGrow(NULL, r->n + 1, NULL, r->n, &none, NULL);
	case 1:
		return ncclCommGrow(NULL, r->n + 1, &id, r->n, NULL, NULL);
	case 2:
		return ncclCommGetUniqueId(r->comm, NULL);
	case 3:
		return ncclCommGetUniqueId(NULL, &id);
	default:
		return ncclCommRevoke(r->comm, 1 + (int)sim_rng_below(&r->rng, 3));
	}
}

/* Without ids: no root is left behind. */
static ncclResult_t refused_scalable(struct refused *r)
{
	ncclComm_t none = NULL;

	switch (sim_rng_below(&r->rng, 4)) {
	case 0:
		return ncclCommInitRankScalable(NULL, r->n, 0, 1, NULL, NULL);
	case 1:
		return ncclCommInitRankScalable(&none, 0, 0, 1, NULL, NULL);
	case 2:
		return ncclCommInitRankScalable(&none, r->n, r->n, 1, NULL, NULL);
	default:
		return ncclCommInitRankScalable(&none, r->n, 0, r->n, NULL, NULL);
	}
}

/* ---- queries --------------------------------------------------------------------------------- */

static ncclResult_t refused_memory(struct refused *r)
{
	uint64_t value;

	switch (sim_rng_below(&r->rng, 4)) {
	case 0:
		return ncclCommMemStats(r->comm, ncclStatGpuMemTotal, NULL);
	case 1:
		return ncclCommMemStats(r->comm, (ncclCommMemStat_t)-1, &value);
	case 2:
		return ncclCommMemStats(r->comm, (ncclCommMemStat_t)(ncclStatGpuMemTotal + 1),
					&value);
	default:
		return ncclCommMemStats(NULL, ncclStatGpuMemTotal, &value);
	}
}

static ncclResult_t refused_properties(struct refused *r)
{
	ncclCommProperties_t p = NCCL_COMM_PROPERTIES_INITIALIZER;

	switch (sim_rng_below(&r->rng, 4)) {
	case 0:
		return ncclCommQueryProperties(r->comm, NULL);
	case 1:
		p.magic++;
		break;
	case 2:
		p.size = offsetof(ncclCommProperties_t, nvmlDev);
		break;
	default:
		return ncclCommQueryProperties(NULL, &p);
	}
	return ncclCommQueryProperties(r->comm, &p);
}

/* The group, if there is one, goes on. */
static ncclResult_t refused_simulation(struct refused *r)
{
	ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;

	info.magic++;
	return ncclGroupSimulateEnd(sim_rng_below(&r->rng, 2) ? NULL : &info);
}

static ncclResult_t refused_suspend(struct refused *r)
{
	return ncclCommSuspend(r->comm, NCCL_SUSPEND_MEM << (1 + sim_rng_below(&r->rng, 8)));
}

ncclResult_t lab_refused_comm(struct refused *r)
{
	static ncclResult_t (*const makes[])(struct refused *) = {
		refused_shrink, refused_shrink,     refused_growth,     refused_scalable,
		refused_memory, refused_properties, refused_simulation, refused_suspend};

	return makes[sim_rng_below(&r->rng, ARRAY_LEN(makes))](r);
}

/* ---- groups of several captures -------------------------------------------------------------- */

enum { REFUSED_STREAMS = 3 }; /* at most */

/* The calls of a group, one in each stream. One of them is refused already, and then the group. */
static ncclResult_t refused_streams_call(const struct refused *r, const cudaStream_t *stream, int n)
{
	ncclResult_t rc = ncclGroupStart(), end;

	for (int i = 0; i < n && !rc; i++)
		rc = i % 2 ? ncclBcast(r->gpu, 64, ncclInt8, 0, r->comm, stream[i])
			   : ncclAllReduce(r->gpu, r->gpu, 64, ncclInt8, ncclSum, r->comm,
					   stream[i]);
	end = ncclGroupEnd();
	return rc == ncclInvalidUsage ? end : rc;
}

/* The refused group has left the capture as it was. */
static void refused_capture_end(const struct refused *r, cudaStream_t stream)
{
	cudaGraph_t graph = NULL;
	cudaError_t e = cudaStreamEndCapture(stream, &graph);

	if (!e)
		e = cudaGraphDestroy(graph);
	if (e && !r->me->run->armed)
		lab_refused_report(r->me, "cudaStreamEndCapture", "after a group that is refused",
				   cudaGetErrorString(e));
	(void)cudaGetLastError();
}

/* Two or three streams, some of which capture, each a graph of its own. */
ncclResult_t lab_refused_captures(struct refused *r)
{
	const int n = 2 + (int)sim_rng_below(&r->rng, REFUSED_STREAMS) / 2; /* mostly two */
	const uint64_t captures = 1 + sim_rng_below(&r->rng, (1u << n) - 1);
	cudaStream_t stream[REFUSED_STREAMS];
	ncclResult_t rc = ncclUnhandledCudaError;
	cudaError_t e = cudaSuccess;
	int made = 0, begun = 0;

	for (; made < n && !e; made += !e)
		e = cudaStreamCreateWithFlags(&stream[made], cudaStreamNonBlocking);
	for (; begun < n && !e; begun += !e)
		if (captures >> begun & 1)
			e = cudaStreamBeginCapture(stream[begun], cudaStreamCaptureModeRelaxed);
	if (!e)
		rc = refused_streams_call(r, stream, n);
	for (int i = 0; i < begun; i++)
		if (captures >> i & 1)
			refused_capture_end(r, stream[i]);
	for (int i = 0; i < made; i++)
		(void)cudaStreamDestroy(stream[i]);
	return rc;
}

/* ---- what is not built ----------------------------------------------------------------------- */

/* A pointer that the call leaves is reported. */
static ncclResult_t refused_multicast(const struct refused *r)
{
	void *user = r->host;
	ncclResult_t rc = ncclGetLsaMultimemDevicePointer(NULL, 0, &user);

	return user ? ncclSuccess : rc;
}

ncclResult_t lab_refused_absent(struct refused *r)
{
	cudaStream_t stream = (cudaStream_t)r->me->stream;

	switch (sim_rng_below(&r->rng, 4)) {
	case 0:
		return ncclSignal(0, 0, 0, 0, r->comm, stream);
	case 1:
		return ncclWaitSignal(0, NULL, r->comm, stream);
	case 2:
		return refused_multicast(r);
	default:
		return ncclGinBarrierCreateRequirement(r->comm, ncclTeamWorld(r->comm), 1, NULL,
						       NULL);
	}
}
