/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scenes of groups with several communicators or many streams: one that fails at its launch leaves
 * nothing to later calls; one that still connects does not hold back another; each stream's work is
 * before and after its call; and a group that is simulated takes as long as its slowest GPU.
 */
#include <math.h>
#include <string.h>

#include "sim/lab/scene/scene.h"

#define GROUP_LEARN_NS      100000000000ull /* by then all ranks have the error of one */
#define GROUP_STREAMS_LEAST 5
#define GROUP_ERROR         1e-4 /* of estimates, which are added as floats */
#define SIMULATE_BEYOND     16   /* bytes of fields that this version lacks */
#define SIMULATE_FILL       0x5a

_Static_assert(GROUP_STREAMS_LEAST <= SCENE_STREAMS, "a range of numbers of streams");
_Static_assert(sizeof(int32_t) * SCENE_STREAMS * SCENE_COUNT <= SCENE_BYTES / 2,
	       "results of all streams fit into the second half of the host's memory");

/* ---- a group that fails ---------------------------------------------------------------------- */

static ncclResult_t group_sum(struct scene *s, int k, int part, size_t count)
{
	int32_t *at = s->mem + (size_t)part * 2 * SCENE_COUNT;

	ASSERT(part < SCENE_STREAMS && count <= SCENE_COUNT); /* the result follows the input */
	return ncclAllReduce(at, at + SCENE_COUNT, count, ncclInt32, ncclSum, s->comm[k],
			     s->stream[part]);
}

/* The others' groups have a call on each communicator. The culprit aborts the first one before the
 * groups end: they launch nothing, and the second communicator then has only the next calls. */
static void group_fails_queue(struct scene *s)
{
	bool first = sim_rng_below(&s->own, 3) != 0;
	ncclResult_t rc = ncclGroupStart(), end;

	for (int i = 0; i < 2 && !rc; i++)
		rc = (i == 0) == first ? group_sum(s, 0, 1, SCENE_COUNT)
				       : group_sum(s, 1, 2, SCENE_COUNT);
	scene_judge(s, "ncclAllReduce in a group", rc, ncclSuccess);
	if (lab_barrier(s->me))
		scene_learn(s, 0, GROUP_LEARN_NS, ncclRemoteError);
	lab_call(s->me, "ncclGroupEnd");
	end = ncclGroupEnd();
	lab_call(s->me, NULL);
	scene_judge(s, "ncclGroupEnd with an aborted communicator", end, ncclRemoteError);
}

void scene_group_fails(struct scene *s)
{
	if (!scene_open(s, 0) || !scene_open(s, 1) || !scene_sum(s, 0, SCENE_COUNT, NULL) ||
	    !scene_sum(s, 1, SCENE_COUNT, NULL) || !lab_barrier(s->me))
		return;
	if (!s->mine)
		group_fails_queue(s);
	else if (lab_barrier(s->me))
		scene_abort(s, 0);
	for (int i = 0; i < 2; i++)
		if (!scene_sum(s, 1, SCENE_COUNT - (size_t)i, NULL))
			return;
	if (!lab_barrier(s->me))
		return;
	scene_destroy(s, 1);
	scene_abort(s, 0);
}

/* ---- a group that connects ------------------------------------------------------------------- */

static ncclResult_t group_message(struct scene *s, int k, bool sends)
{
	int32_t *at = s->mem + (size_t)k * SCENE_COUNT;

	ASSERT(s->me->rank == !sends); /* rank 0 sends to rank 1; others have no message */
	return sends ? ncclSend(at, SCENE_COUNT, ncclInt32, 1, s->comm[k], s->stream[k])
		     : ncclRecv(at, SCENE_COUNT, ncclInt32, 0, s->comm[k], s->stream[k]);
}

static bool group_messages(struct scene *s, bool sends, int first, int end)
{
	ncclResult_t rc = ncclGroupStart();

	for (int k = first; k < end && !rc; k++)
		rc = group_message(s, k, sends);
	lab_call(s->me, "ncclGroupEnd");
	ncclResult_t ended = ncclGroupEnd();

	lab_call(s->me, NULL);
	scene_judge(s, "ncclGroupEnd of messages", rc ? rc : ended, ncclSuccess);
	return !rc && !ended;
}

/* One rank has a group of both communicators; the other comes to the second one after the message
 * of the first one has arrived. The first one may be connected before. */
void scene_group_connects(struct scene *s)
{
	bool sends = s->me->rank == 0;

	if (!scene_open(s, 0) || !scene_open(s, 1))
		return;
	if (s->me->rank < 2) {
		bool grouped = sim_rng_below(&s->drawn, 2) == sends;
		bool before = sim_rng_below(&s->drawn, 2);

		if (before && (!group_messages(s, sends, 0, 1) || !scene_sync(s, 0)))
			return;
		if (grouped) {
			(void)group_messages(s, sends, 0, 2);
		} else if (group_messages(s, sends, 0, 1) && scene_sync(s, 0)) {
			(void)group_messages(s, sends, 1, 2);
		}
		if (!scene_sync(s, 0) || !scene_sync(s, 1))
			return;
	}
	if (!lab_barrier(s->me))
		return;
	scene_destroy(s, 0);
	scene_destroy(s, 1);
}

/* ---- streams --------------------------------------------------------------------------------- */

static cudaError_t group_stream_fill(struct scene *s, int i)
{
	int32_t *at = s->mem + (size_t)i * 2 * SCENE_COUNT;
	int32_t *host = s->host + (size_t)i * SCENE_COUNT;

	for (int k = 0; k < SCENE_COUNT; k++)
		host[k] = s->me->rank + i;
	cudaError_t e = cudaMemsetAsync(at, 0x77, 2ul * SCENE_COUNT * sizeof *at, s->stream[i]);

	return e ? e
		 : cudaMemcpyAsync(at, host, SCENE_COUNT * sizeof *at, cudaMemcpyDefault,
				   s->stream[i]);
}

static void group_stream_check(struct scene *s, int i)
{
	const int32_t *got = s->host + SCENE_BYTES / 2 / sizeof *got + (size_t)i * SCENE_COUNT;
	const int32_t want = s->n * (s->n - 1) / 2 + s->n * i;

	for (int k = 0; k < SCENE_COUNT; k++)
		if (got[k] != want) {
			scene_report(s, "ncclGroupEnd of many streams", "gave a wrong result");
			return;
		}
}

/* Each stream brings an input of its own, and takes the result. */
void scene_group_streams(struct scene *s)
{
	int n = GROUP_STREAMS_LEAST +
		(int)sim_rng_below(&s->drawn, SCENE_STREAMS - GROUP_STREAMS_LEAST + 1);
	cudaError_t e = cudaSuccess;
	ncclResult_t rc;

	if (!scene_open(s, 0))
		return;
	for (int i = 0; i < n && !e; i++)
		e = group_stream_fill(s, i);
	rc = ncclGroupStart();
	for (int i = 0; i < n && !rc; i++)
		rc = group_sum(s, 0, i, SCENE_COUNT);
	lab_call(s->me, "ncclGroupEnd");
	ncclResult_t end = ncclGroupEnd();

	lab_call(s->me, NULL);
	scene_judge(s, "ncclGroupEnd of many streams", rc ? rc : end, ncclSuccess);
	for (int i = 0; i < n && !e; i++)
		e = cudaMemcpyAsync(s->host + SCENE_BYTES / 2 / sizeof *s->host +
					    (size_t)i * SCENE_COUNT,
				    s->mem + (size_t)(2 * i + 1) * SCENE_COUNT,
				    SCENE_COUNT * sizeof *s->mem, cudaMemcpyDefault, s->stream[i]);
	bool ok = scene_cuda(s, e, "copies of a group of many streams") && !rc && !end;

	for (int i = 0; i < n; i++)
		ok = scene_sync(s, i) && ok;
	for (int i = 0; i < n && ok; i++)
		group_stream_check(s, i);
	if (ok && lab_barrier(s->me))
		scene_destroy(s, 0);
}

/* ---- a group that is simulated --------------------------------------------------------------- */

static ncclResult_t simulate_call(struct scene *s, const struct lab_rank *it, int k, size_t count)
{
	int32_t *mem = it->scene_memory;

	if (!scene_cuda(s, cudaSetDevice(it->device), "cudaSetDevice"))
		return ncclUnhandledCudaError;
	ASSERT(mem && it->scene_comm[k]); /* a barrier is after the other ranks' inits */
	return ncclAllReduce(mem, mem, count, ncclInt32, ncclSum, it->scene_comm[k],
			     (cudaStream_t)it->stream);
}

/* The struct of a program of another version, which ends with the estimate, or has more fields. */
struct simulate_info {
	ncclSimInfo_t info;
	uint8_t beyond[SIMULATE_BEYOND];
};

static struct simulate_info simulate_info_draw(struct scene *s)
{
	const size_t least = offsetof(ncclSimInfo_t, estimatedTime) + sizeof(float);
	const size_t sizes[] = {least, sizeof(ncclSimInfo_t), sizeof(struct simulate_info)};
	struct simulate_info info;

	memset(&info, SIMULATE_FILL, sizeof info);
	info.info = (ncclSimInfo_t)NCCL_SIM_INFO_INITIALIZER;
	info.info.size = sizes[sim_rng_below(&s->own, ARRAY_LEN(sizes))];
	return info;
}

static void simulate_info_check(struct scene *s, const struct simulate_info *info)
{
	for (size_t i = 0; i < sizeof info->beyond; i++)
		if (info->beyond[i] != SIMULATE_FILL)
			scene_report(s, "ncclGroupSimulateEnd", "wrote a field that it lacks");
}

/* The time of a group of the communicators `first` up to `end` of a rank, or of all ranks of the
 * process. */
static double simulate(struct scene *s, const struct lab_rank *of, int first, int end, size_t count)
{
	struct simulate_info info = simulate_info_draw(s);
	const struct lab_run *run = s->me->run;
	ncclResult_t rc = ncclGroupStart(), ended;

	ASSERT(first < end && end <= SCENE_COMMS);
	for (int32_t r = 0; r < run->count && !rc; r++)
		for (int k = first; k < end && !rc; k++)
			if (of ? of == &run->rank[r] : run->rank[r].proc == s->me->proc)
				rc = simulate_call(s, &run->rank[r], k, count);
	ended = ncclGroupSimulateEnd(&info.info);
	scene_judge(s, "ncclGroupSimulateEnd", rc ? rc : ended, ncclSuccess);
	if (!rc && !ended && !(info.info.estimatedTime > 0))
		scene_report(s, "ncclGroupSimulateEnd", "estimates no time");
	simulate_info_check(s, &info);
	(void)scene_cuda(s, cudaSetDevice(s->me->device), "cudaSetDevice");
	return (double)info.info.estimatedTime;
}

static void simulate_expect(struct scene *s, const char *what, double got, double want)
{
	char text[160];

	if (fabs(got - want) <= GROUP_ERROR * fabs(want) + GROUP_ERROR)
		return;
	snprintf(text, sizeof text, "estimates %g us of %s, expected %g us", got, what, want);
	scene_report(s, "ncclGroupSimulateEnd", text);
}

/* Communicators of a GPU run one after the other, GPUs at the same time. One task of a process
 * makes the calls of all its ranks, which wait meanwhile. */
static void simulate_process(struct scene *s, size_t count)
{
	const struct lab_run *run = s->me->run;
	double most[SCENE_COMMS + 1] = {0};

	for (int32_t r = 0; r < run->count; r++) {
		const struct lab_rank *it = &run->rank[r];

		if (it->proc != s->me->proc)
			continue;
		double one = simulate(s, it, 0, 1, count), two = simulate(s, it, 1, 2, count);
		double both = simulate(s, it, 0, 2, count);

		simulate_expect(s, "two communicators of a GPU", both, one + two);
		most[0] = fmax(most[0], one);
		most[1] = fmax(most[1], two);
		most[2] = fmax(most[2], both);
	}
	simulate_expect(s, "a communicator of all GPUs", simulate(s, NULL, 0, 1, count), most[0]);
	simulate_expect(s, "another one of all GPUs", simulate(s, NULL, 1, 2, count), most[1]);
	simulate_expect(s, "two of all GPUs", simulate(s, NULL, 0, 2, count), most[2]);
}

void scene_simulate(struct scene *s)
{
	const struct lab_run *run = s->me->run;
	size_t count = 1 + (size_t)sim_rng_below(&s->drawn, 8 * SCENE_COUNT);
	int32_t first = 0;

	if (!scene_open(s, 0) || !scene_open(s, 1) || !lab_barrier(s->me))
		return;
	while (run->rank[first].proc != s->me->proc)
		first++;
	if (s->me == &run->rank[first])
		simulate_process(s, count);
	if (!lab_barrier(s->me) || !scene_sum(s, 0, SCENE_COUNT, NULL))
		return;
	scene_destroy(s, 1);
	if (lab_barrier(s->me))
		scene_destroy(s, 0);
}
