/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrong calls that make, query or end communicators, and calls that are not built. Each is refused
 * by the rank alone, before any message, and leaves the communicator as it was.
 */
#include "core/include/nccl_device.h"
#include "sim/lab/program/refused.h"

/* ---- communicators from others --------------------------------------------------------------- */

/* A list with one mistake, half of the time with a flag that would stop the communicator. */
static ncclResult_t refused_shrink_list(struct refused *r, int flags)
{
	const int next = (r->me->rank + 1) % r->n, kind = (int)sim_rng_below(&r->rng, 5);
	const int wrong[] = {r->n, -1, r->me->rank, next, next};
	int excluded[2] = {next, wrong[kind]};
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t none = NULL;

	if (kind == 4) { /* a right list, and a wrong config */
		config.magic++;
		return ncclCommShrink(r->comm, excluded, 1, &none, &config, flags);
	}
	if (r->n == 2) /* one of two is as many as a list may have */
		excluded[0] = kind < 3 ? wrong[kind] : r->n;
	return ncclCommShrink(r->comm, excluded, r->n == 2 ? 1 : 2, &none, NULL, flags);
}

static ncclResult_t refused_shrink(struct refused *r)
{
	int flags = sim_rng_below(&r->rng, 2) ? NCCL_SHRINK_ABORT : NCCL_SHRINK_DEFAULT;
	int excluded[2] = {(r->me->rank + 1) % r->n, r->n};
	ncclComm_t none = NULL;

	switch (sim_rng_below(&r->rng, 14)) {
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
	case 6:
		return ncclCommShrink(NULL, excluded, 1, &none, NULL, flags);
	default:
		return refused_shrink_list(r, flags);
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

	ncclUniqueId ids[2] = {0};

	switch (sim_rng_below(&r->rng, 5)) {
	case 0:
		return ncclCommInitRankScalable(NULL, r->n, 0, 1, NULL, NULL);
	case 1:
		return ncclCommInitRankScalable(&none, 0, 0, 1, NULL, NULL);
	case 2:
		return ncclCommInitRankScalable(&none, r->n, r->n, 1, NULL, NULL);
	case 3: /* ids of no call; NCCL_COMM_ID allows one alone */
		if (lab_has_env(r->me->run->config, "NCCL_COMM_ID"))
			return ncclCommInitRankScalable(NULL, 2, 0, 2, ids, NULL);
		return ncclCommInitRankScalable(&none, 2, (int)sim_rng_below(&r->rng, 2), 2, ids,
						NULL);
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
		refused_shrink,     refused_shrink,     refused_shrink,
		refused_growth,     refused_scalable,   refused_memory,
		refused_properties, refused_simulation, refused_suspend};

	return makes[sim_rng_below(&r->rng, ARRAY_LEN(makes))](r);
}

/* ---- captures -------------------------------------------------------------------------------- */

static ncclResult_t refused_sum_on(struct refused *r, cudaStream_t stream)
{
	return ncclAllReduce(r->gpu, r->gpu, 1, ncclInt8, ncclSum, r->comm, stream);
}

/* Only one of the two streams of a group is in a capture. Returns the error of the second call. */
static ncclResult_t refused_capture_group(struct refused *r, cudaStream_t one, cudaStream_t other)
{
	ncclResult_t rc = ncclGroupStart(), second, end;

	if (rc)
		return rc;
	rc = refused_sum_on(r, one);
	second = rc ? rc : refused_sum_on(r, other);
	end = ncclGroupEnd();
	if (end != second)
		lab_refused_report(r->me, "ncclGroupEnd", "a capture of one of two streams",
				   "gave another error than the call");
	return second;
}

/* The capture is of a stream that waits for no legacy one, and in the mode that forbids nothing to
 * other tasks. The graph stays empty. */
ncclResult_t lab_refused_capture(struct refused *r)
{
	cudaStream_t mine = (cudaStream_t)r->me->stream, other;
	bool first = sim_rng_below(&r->rng, 2);
	ncclResult_t rc = ncclUnhandledCudaError;
	cudaGraph_t graph = NULL;
	size_t nodes = 0;

	if (r->n == 1) /* a rank alone copies in any stream */
		return lab_refused_absent(r);
	if (cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) != cudaSuccess)
		return rc;
	if (cudaStreamBeginCapture(other, cudaStreamCaptureModeRelaxed) == cudaSuccess) {
		rc = refused_capture_group(r, first ? other : mine, first ? mine : other);
		(void)cudaStreamEndCapture(other, &graph);
	}
	if (graph && cudaGraphGetNodes(graph, NULL, &nodes) == cudaSuccess && nodes)
		lab_refused_report(r->me, "ncclAllReduce", "a capture of one of two streams",
				   "is in the graph");
	if (graph)
		(void)cudaGraphDestroy(graph);
	(void)cudaStreamDestroy(other);
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
