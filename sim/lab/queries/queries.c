/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/lab/queries/queries.h"

#include <cuda_runtime_api.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define QUERIES_DUMP_ONE_IN 512
#define QUERIES_FREE_LOOKS  10
#define QUERIES_FREE_NS     100000000ull /* between two of them */
#define QUERIES_LOCAL_NS    800000000ull

void queries_wrong(struct queries *q, const char *call, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	lab_judge(q->me, SIM_ERROR, "query", "%s: %s", call, text);
}

/* A fault may be the reason for an error, and another task may have aborted the communicator. */
static bool queries_excused(const struct queries *q, ncclResult_t got)
{
	bool excused = q->me->run->armed && got != ncclSuccess;

	q->me->run->error_taken |= excused;
	return excused;
}

bool queries_result(struct queries *q, const char *call, ncclResult_t got, ncclResult_t want)
{
	if (got == want)
		return true;
	if (!queries_excused(q, got))
		queries_wrong(q, call, "returned \"%s\", expected \"%s\"", ncclGetErrorString(got),
			      ncclGetErrorString(want));
	return false;
}

/* ---- memory ---------------------------------------------------------------------------------- */

void lab_queries_memory_start(struct lab_rank *me)
{
	size_t total;

	if (cudaMemGetInfo(&me->free_before, &total) != cudaSuccess)
		me->free_before = 0;
}

/* A fault may keep a rank whose task makes calls for several GPUs from making its own current. */
static bool queries_on_own_gpu(const struct queries *q)
{
	int now = -1;

	return !q->me->run->armed || (cudaGetDevice(&now) == cudaSuccess && now == q->me->device);
}

/* The communicators of the rank have at most the memory that its GPU has lost since. The device is
 * looked at only then: runs that pass make no call more. */
static void queries_memory_check(struct queries *q, uint64_t sum)
{
	size_t now, total;

	if (!q->me->free_before || cudaMemGetInfo(&now, &total) != cudaSuccess)
		return;
	if (sum + now > q->me->free_before && queries_on_own_gpu(q))
		queries_wrong(q, "ncclCommMemStats",
			      "communicators have %llu bytes of the GPU, of which %zu bytes were "
			      "allocated since",
			      (unsigned long long)sum,
			      q->me->free_before > now ? q->me->free_before - now : (size_t)0);
}

static bool queries_memory_of(struct queries *q, ncclComm_t comm, uint64_t *total)
{
	static const char call[] = "ncclCommMemStats";
	uint64_t value[ncclStatGpuMemTotal + 1];

	_Static_assert(ncclStatGpuMemTotal > ncclStatGpuMemSuspend &&
			       ncclStatGpuMemTotal > ncclStatGpuMemPersist &&
			       ncclStatGpuMemTotal > ncclStatGpuMemSuspended,
		       "the total is the last one");
	for (int k = 0; k <= ncclStatGpuMemTotal; k++) {
		value[k] = 0x5a5a5a5a5a5a5a5a;
		if (!queries_result(q, call,
				    ncclCommMemStats(comm, (ncclCommMemStat_t)k, &value[k]),
				    ncclSuccess))
			return false;
	}
	if (value[ncclStatGpuMemSuspended] > 1)
		queries_wrong(q, call, "ncclStatGpuMemSuspended is %llu, expected 0 or 1",
			      (unsigned long long)value[ncclStatGpuMemSuspended]);
	if (value[ncclStatGpuMemSuspend] + value[ncclStatGpuMemPersist] !=
	    value[ncclStatGpuMemTotal])
		queries_wrong(q, call, "%llu and %llu bytes are not the total of %llu",
			      (unsigned long long)value[ncclStatGpuMemSuspend],
			      (unsigned long long)value[ncclStatGpuMemPersist],
			      (unsigned long long)value[ncclStatGpuMemTotal]);
	*total = value[ncclStatGpuMemTotal];
	return true;
}

/* The rank's communicators count together: the GPU is the rank's alone. */
static void queries_memory(struct queries *q)
{
	struct lab_rank *me = q->me;
	uint64_t sum = 0, one;

	if (q->comm != me->comm || q->ends) {
		(void)queries_memory_of(q, q->comm, &one);
		return;
	}
	for (uint32_t i = 0; i < lab_comms(me->run->config); i++) {
		ncclComm_t comm = lab_comms_pick(me, i);

		if (!comm || !queries_memory_of(q, comm, &one))
			return;
		sum += one;
	}
	queries_memory_check(q, sum);
}

/* A destroy of the last communicator of a process waits two minutes for the other ranks of its
 * host, which frees its memory, unless it was finalized. */
static bool queries_memory_is_free(const struct lab_config *c)
{
	return c->ranks_per_proc == 1 && lab_comms(c) == 1 && !c->finalize && !c->idle &&
	       !c->transient && !c->init_fails && !c->mixed && !c->scenes;
}

/* A rank of the host that maps memory of this one's GPU may be about to unmap it. */
void lab_queries_memory_end(struct lab_rank *me)
{
	struct queries q = {.me = me};
	size_t now = 0, total;

	if (!me->free_before || me->run->armed || !queries_memory_is_free(me->run->config))
		return;
	for (int i = 0; i < QUERIES_FREE_LOOKS && now != me->free_before; i++) {
		if (i)
			os_sleep_ns(QUERIES_FREE_NS);
		if (cudaMemGetInfo(&now, &total) != cudaSuccess)
			return;
	}
	if (now != me->free_before)
		queries_wrong(&q, "ncclCommDestroy",
			      "left %zu bytes of the GPU free, expected %zu as before the init",
			      now, me->free_before);
}

/* Memory of the program. No bytes are no memory and no error: the pointer becomes NULL, as that of
 * cudaMalloc. */
static void queries_no_bytes(struct queries *q)
{
	void *mem = q;

	if (queries_result(q, "ncclMemAlloc of 0 bytes", ncclMemAlloc(&mem, 0), ncclSuccess) && mem)
		queries_wrong(q, "ncclMemAlloc of 0 bytes", "gave %p, expected NULL", mem);
	(void)queries_result(q, "ncclMemFree of NULL", ncclMemFree(NULL), ncclSuccess);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void queries_async(struct queries *q)
{
	static const char call[] = "ncclCommGetAsyncError";
	ncclResult_t async = ncclInternalError;

	if (queries_result(q, call, ncclCommGetAsyncError(q->comm, &async), ncclSuccess))
		(void)queries_result(q, call, async, ncclSuccess);
}

static void queries_texts(struct queries *q)
{
	int version = -1;

	for (int r = -1; r <= ncclNumResults; r++)
		if (!ncclGetErrorString((ncclResult_t)r) || !*ncclGetErrorString((ncclResult_t)r))
			queries_wrong(q, "ncclGetErrorString", "has no text for %d", r);
	if (!ncclGetLastError(q->comm))
		queries_wrong(q, "ncclGetLastError", "is NULL");
	(void)queries_result(q, "ncclGetVersion", ncclGetVersion(&version), ncclSuccess);
	if (version != NCCL_VERSION_CODE)
		queries_wrong(q, "ncclGetVersion", "is %d, expected %d", version,
			      NCCL_VERSION_CODE);
}

/* A query is local: it takes no time of other ranks. With faults a task may sleep. */
static void queries_timed(struct queries *q, void (*make)(struct queries *), uint64_t start_ns)
{
	make(q);
	if (!q->me->run->armed && os_now_ns() - start_ns > QUERIES_LOCAL_NS)
		queries_wrong(q, "a query", "took %llu ns, expected at most %llu",
			      (unsigned long long)(os_now_ns() - start_ns), QUERIES_LOCAL_NS);
}

static void queries_one(struct queries *q)
{
	static void (*const makes[])(struct queries *) = {
		queries_numbers,  queries_properties,    queries_memory,  queries_param,
		queries_param,    queries_param_refused, queries_texts,   queries_async,
		queries_simulate, queries_simulate,      queries_no_bytes};
	uint64_t k = sim_rng_below(&q->rng, ARRAY_LEN(makes));

	if (!q->ends || makes[k] != queries_simulate)
		queries_timed(q, makes[k], os_now_ns());
	if (sim_rng_below(&q->rng, QUERIES_DUMP_ONE_IN) == 0)
		ncclParamDumpAll();
}

/* A query that fails would end the group. */
void lab_queries_in_group(struct lab_rank *me, ncclComm_t comm)
{
	static void (*const makes[])(struct queries *) = {queries_numbers, queries_properties,
							  queries_memory, queries_texts};
	struct queries q = {.me = me, .comm = comm, .n = me->run->nranks, .rank = me->rank};
	uint64_t moment = me->queries++;

	if (!me->run->config->queries)
		return;
	sim_rng_seed(&q.rng,
		     me->run->config->sim.seed + moment * LAB_MAX_DEVICES + (uint64_t)me->rank,
		     "lab.queries_in_group");
	makes[sim_rng_below(&q.rng, ARRAY_LEN(makes))](&q);
}

void lab_queries_beside(struct lab_rank *me, uint64_t look)
{
	static void (*const makes[])(struct queries *) = {queries_param, queries_param_refused,
							  queries_texts};
	struct queries q = {.me = me};

	if (!me->run->config->queries)
		return;
	sim_rng_seed(&q.rng,
		     me->run->config->sim.seed + look * LAB_MAX_DEVICES + (uint64_t)me->rank,
		     "lab.queries_beside");
	makes[sim_rng_below(&q.rng, ARRAY_LEN(makes))](&q);
}

void lab_queries(struct lab_rank *me, ncclComm_t comm, int32_t n, int32_t rank, bool ends)
{
	struct queries q = {.me = me, .comm = comm, .n = n, .rank = rank, .ends = ends};
	uint64_t moment = me->queries++;

	if (!me->run->config->queries || !comm)
		return;
	ASSERT(rank >= 0 && rank < n);
	sim_rng_seed(&q.rng,
		     me->run->config->sim.seed + moment * LAB_MAX_DEVICES + (uint64_t)me->rank,
		     "lab.queries");
	if (moment == 0) {
		queries_numbers(&q);
		queries_memory(&q);
	}
	for (uint32_t k = 0; k < me->run->config->queries; k++)
		queries_one(&q);
}

/* The run's communicators must be settled. */
void lab_queries_of_run(struct lab_rank *me)
{
	uint64_t moment = me->queries;
	uint32_t i = (uint32_t)(moment % lab_comms(me->run->config));

	lab_queries(me, lab_comms_pick(me, i), me->run->nranks, me->rank, false);
}
