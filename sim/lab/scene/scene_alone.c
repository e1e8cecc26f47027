/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A scene of one rank: a communicator of its own, with messages to itself and collectives after
 * other work of its streams, which ends with all of that queued. Finalize waits for the work, and
 * the results are right afterwards.
 */
#include "sim/lab/scene/scene.h"

#define ALONE_POWERS 23 /* a stream is busy up to 2^23 ns, 8 ms */

static void alone_host_work(void *arg)
{
	os_sleep_ns(*(const uint64_t *)arg);
}

/* The stream is busy, and then brings the input. */
static bool alone_bring(struct scene *s, int i)
{
	int32_t *at = s->mem + (size_t)i * 2 * SCENE_COUNT;
	int32_t *host = s->host + (size_t)i * SCENE_COUNT;
	uint64_t *ns = &s->busy_ns[i];

	*ns = sim_rng_below(&s->own, 1ull << sim_rng_below(&s->own, ALONE_POWERS));
	cudaError_t e = cudaLaunchHostFunc(s->stream[i], alone_host_work, ns);

	for (int k = 0; k < SCENE_COUNT; k++)
		host[k] = s->me->rank * 1000 + i * 10 + k;
	if (!e)
		e = cudaMemcpyAsync(at, host, SCENE_COUNT * sizeof *at, cudaMemcpyDefault,
				    s->stream[i]);
	return scene_cuda(s, e, "cudaMemcpyAsync");
}

static ncclResult_t alone_message(struct scene *s, int i, ncclComm_t comm)
{
	int32_t *at = s->mem + (size_t)i * 2 * SCENE_COUNT;
	ncclResult_t rc = ncclGroupStart(), end;

	if (!rc)
		rc = ncclSend(at, SCENE_COUNT, ncclInt32, 0, comm, s->stream[i]);
	if (!rc)
		rc = ncclRecv(at + SCENE_COUNT, SCENE_COUNT, ncclInt32, 0, comm, s->stream[i]);
	end = ncclGroupEnd();
	return rc ? rc : end;
}

static ncclResult_t alone_call(struct scene *s, int i, ncclComm_t comm)
{
	int32_t *in = s->mem + (size_t)i * 2 * SCENE_COUNT, *out = in + SCENE_COUNT;

	switch (sim_rng_below(&s->own, 4)) {
	case 0:
		return ncclAllReduce(in, out, SCENE_COUNT, ncclInt32, ncclMax, comm, s->stream[i]);
	case 1:
		return ncclAllGather(in, out, SCENE_COUNT, ncclInt32, comm, s->stream[i]);
	default:
		return alone_message(s, i, comm);
	}
}

/* After finalize no work of the communicator is left. */
static void alone_end(struct scene *s, int n, ncclComm_t comm)
{
	bool finalizes = sim_rng_below(&s->own, 2);

	if (finalizes) {
		lab_call(s->me, "ncclCommFinalize");
		scene_judge(s, "ncclCommFinalize", ncclCommFinalize(comm), ncclSuccess);
		lab_call(s->me, NULL);
	}
	for (int i = 0; i < n && finalizes; i++)
		if (cudaStreamQuery(s->stream[i]) == cudaErrorNotReady)
			scene_report(s, "ncclCommFinalize", "has not waited for the calls");
	lab_call(s->me, "ncclCommDestroy");
	scene_judge(s, "ncclCommDestroy", ncclCommDestroy(comm), ncclSuccess);
	lab_call(s->me, NULL);
}

static void alone_check(struct scene *s, int n)
{
	for (int i = 0; i < n; i++) {
		cudaError_t e = cudaMemcpyAsync(s->host, s->mem + (size_t)(2 * i + 1) * SCENE_COUNT,
						SCENE_COUNT * sizeof *s->mem, cudaMemcpyDefault,
						s->stream[i]);

		if (!scene_cuda(s, e, "cudaMemcpyAsync") || !scene_sync(s, i))
			return;
		for (int k = 0; k < SCENE_COUNT; k++)
			if (s->host[k] != s->me->rank * 1000 + i * 10 + k) {
				scene_report(s, "a call of a communicator of one rank",
					     "gave a wrong result");
				return;
			}
	}
}

void scene_alone(struct scene *s)
{
	int n = 1 + (int)sim_rng_below(&s->own, SCENE_STREAMS);
	ncclComm_t comm = NULL;
	ncclUniqueId id;
	ncclResult_t rc = ncclGetUniqueId(&id);

	if (!rc)
		rc = ncclCommInitRank(&comm, 1, id, 0);
	scene_judge(s, "ncclCommInitRank of one rank", rc, ncclSuccess);
	if (rc)
		return;
	for (int i = 0; i < n && !rc; i++)
		rc = alone_bring(s, i) ? alone_call(s, i, comm) : ncclUnhandledCudaError;
	scene_judge(s, "a call of a communicator of one rank", rc, ncclSuccess);
	alone_end(s, n, comm);
	if (!rc)
		alone_check(s, n);
}
