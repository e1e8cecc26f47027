/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A link that goes down in the middle of an operation and stays down: the ranks at both ends of it
 * get ncclRemoteError from ncclCommGetAsyncError, with a line that names QP, peer and completion
 * status; ncclCommAbort then returns on every rank, and nothing is left.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/include/nccl.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"
#include "tests/sample.h"

enum { HOSTS = 2, LOCAL = 2, RANKS = HOSTS * LOCAL, BYTES = 8 << 20 };

#define EXPECT(x)                                                                                  \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: not true: %s (seed %llu)\n", __FILE__, __LINE__,   \
				#x, (unsigned long long)test_seed);                                \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct test_rank {
	int32_t rank;
	struct os_thread *thread;
	ncclResult_t async;
	bool aborted;
};

static uint64_t test_seed;
static ncclUniqueId test_id;
static shared_u32 test_id_ready, test_ends; /* ends: ranks at the link that saw the error */
static struct test_rank test_ranks[RANKS];

static void test_wait(const shared_u32 *word, uint64_t want, const char *why)
{
	struct wait w = {.on = word,
			 .bytes = 4,
			 .kind = WAIT_GE,
			 .want = want,
			 .mask = WAIT_MASK_ALL,
			 .why = why,
			 .from = {.rank = -1, .channel = -1, .step = -1}};
	EXPECT(os_wait_one(&w, NULL) == 0);
}

/* With two GPUs a host and one rail each way, the ring crosses at ranks 0 and 3 or at 1 and 2; the
 * plan takes every link of host 0 down, so the ends are whichever ranks have queue pairs. */
static void test_rank_main(void *arg)
{
	struct test_rank *me = arg;
	void *buffer;
	cudaStream_t stream;
	ncclComm_t comm;
	ncclResult_t rc = ncclSuccess;

	EXPECT(cudaSetDevice(me->rank % LOCAL) == cudaSuccess);
	EXPECT(cudaMalloc(&buffer, BYTES) == cudaSuccess);
	EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
	if (me->rank == 0) {
		EXPECT(ncclGetUniqueId(&test_id) == ncclSuccess);
		shared_store_u32(&test_id_ready, 1, SHARED_RELEASE);
	}
	test_wait(&test_id_ready, 1, "the unique id");
	EXPECT(ncclCommInitRank(&comm, RANKS, test_id, me->rank) == ncclSuccess);
	/* More than one, so that the link goes down under one of them. A call that waits for room
	 * in the FIFO of works ends with the communicator's error. */
	for (int i = 0; i < 200 && rc == ncclSuccess; i++)
		rc = ncclAllReduce(buffer, buffer, BYTES / 4, ncclFloat32, ncclSum, comm, stream);
	EXPECT(rc == ncclSuccess || rc == ncclRemoteError);
	while (shared_load_u32(&test_ends, SHARED_ACQUIRE) < 2 && me->async == ncclSuccess) {
		EXPECT(ncclCommGetAsyncError(comm, &me->async) == ncclSuccess);
		if (me->async != ncclSuccess)
			shared_add_u32(&test_ends, 1, SHARED_ACQ_REL);
		EXPECT(cudaStreamQuery(stream) != cudaSuccess || me->async != ncclSuccess);
	}
	test_wait(&test_ends, 2, "both ends of the link to see the error");
	EXPECT(ncclCommAbort(comm) == ncclSuccess);
	me->aborted = true;
	EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
	EXPECT(cudaFree(buffer) == cudaSuccess);
}

static void test_main(void *arg)
{
	struct os_proc *proc[RANKS];
	(void)arg;
	for (int r = 0; r < RANKS; r++) {
		char name[32];
		snprintf(name, sizeof name, "rank%d main", r);
		struct os_thread_attr attr = {.name = name, .rank = r};
		test_ranks[r] = (struct test_rank){.rank = r};
		EXPECT(world_proc_create((uint32_t)(r / LOCAL), name, &proc[r]) == 0);
		EXPECT(world_thread_start(proc[r], &test_ranks[r].thread, &attr, test_rank_main,
					  &test_ranks[r]) == 0);
	}
	for (int r = 0; r < RANKS; r++) {
		EXPECT(os_thread_join(test_ranks[r].thread) == 0);
		world_proc_exit(proc[r]);
	}
}

static void test_one_seed(uint64_t seed, uint64_t down_after_us)
{
	static const char *const env[] = {"NCCL_DEBUG=WARN", NULL};
	char plan[80];
	snprintf(plan, sizeof plan, "fabric.link host=0 after=%lluus down\n",
		 (unsigned long long)down_after_us);
	struct sim_config sim = {.seed = seed, .fault_plan = plan, .fault_plan_name = "plan"};
	struct world_config world = {
		.hosts = HOSTS, .machine = "a100-4nic", .env = env, .strict_device_view = true};
	int ends = 0;

	test_seed = seed;
	memset(&test_id_ready, 0, sizeof test_id_ready);
	memset(&test_ends, 0, sizeof test_ends);
	EXPECT(sim_start(&sim) == 0);
	EXPECT(world_create(&world) == 0);
	EXPECT(sim_run(test_main, NULL) == SIM_PASS);
	EXPECT(sim_faults_fired() > 0);
	for (int r = 0; r < RANKS; r++) {
		EXPECT(test_ranks[r].aborted);
		EXPECT(test_ranks[r].async == ncclSuccess ||
		       test_ranks[r].async == ncclRemoteError);
		ends += test_ranks[r].async == ncclRemoteError;
	}
	EXPECT(ends >= 2);
	EXPECT(world_destroy() == 0);
	sim_stop();
}

/* The ranks' standard error goes to a file, in which the test searches lines. */
static void test_lines(FILE *said)
{
	char line[1024];
	int lines = 0;
	rewind(said);
	while (fgets(line, sizeof line, said))
		lines += strstr(line, "NCCL WARN NET/IB: rank") && strstr(line, " qp 0x") &&
			 strstr(line, "(peer ") && strstr(line, "IBV_WC_RETRY_EXC_ERR");
	EXPECT(lines >= 2);
}

int main(void)
{
	FILE *said = tmpfile();
	if (!said || !freopen("/dev/null", "r", stdin))
		return 1;
	int real_stderr = dup(2);
	dup2(fileno(said), 2);
	for (uint64_t seed = 1; seed <= 6; seed += SAMPLE_THIN)
		test_one_seed(seed, 1500 + seed * 300);
	fflush(stderr);
	dup2(real_stderr, 2);
	test_lines(said);
	fclose(said);
	printf("6 seeds: both ends report ncclRemoteError, every rank aborts, nothing leaks\n");
	return 0;
}
