/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One task that drives several ranks of its process, as programs with one thread do: groups of
 * collectives of several communicators, more than the proxy has slots for.
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/sample.h"
#include "tests/suite.h"

#define DRIVER_GPUS 2 /* of a task, unless a case has more */
#define DRIVER_MOST 4

/* The calls of every task: `calls` all-reduces on each of its GPUs, all in one group. */
struct driver_case {
	int gpus; /* 0: DRIVER_GPUS */
	int calls;
	size_t count;
	int streams[DRIVER_MOST]; /* of each GPU, used by its calls in turn */
	int comms;                /* communicators of all ranks: 1 or 2 */
};

struct driver_gpu {
	ncclComm_t comm[2];
	cudaStream_t stream[4];
	int32_t *mem[2]; /* of each communicator */
};

static int driver_gpus(const struct driver_case *c)
{
	return c->gpus ? c->gpus : DRIVER_GPUS;
}

static size_t driver_bytes(const struct driver_case *c)
{
	return c->count * sizeof(int32_t);
}

static void driver_buffer(const struct driver_case *c, int32_t **mem)
{
	int32_t host[1] = {1};

	EXPECT(cudaMalloc((void **)mem, driver_bytes(c)) == cudaSuccess);
	EXPECT(cudaMemcpy(*mem, host, sizeof host, cudaMemcpyHostToDevice) == cudaSuccess);
}

static void driver_open(const struct driver_case *c, int32_t task, int32_t tasks,
			struct driver_gpu *gpu)
{
	ncclUniqueId id[2];

	for (int k = 0; k < c->comms; k++) {
		id[k] = ranks_id();
		ranks_barrier();
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < driver_gpus(c); i++) {
		EXPECT(cudaSetDevice(i) == cudaSuccess);
		for (int s = 0; s < c->streams[i]; s++)
			EXPECT(cudaStreamCreateWithFlags(&gpu[i].stream[s],
							 cudaStreamNonBlocking) == cudaSuccess);
		for (int k = 0; k < c->comms; k++)
			driver_buffer(c, &gpu[i].mem[k]);
		for (int k = 0; k < c->comms; k++)
			EXPECT_NCCL(ncclSuccess,
				    ncclCommInitRank(&gpu[i].comm[k], driver_gpus(c) * tasks, id[k],
						     driver_gpus(c) * task + i));
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
}

/* ncclMax of what is 1 everywhere: stays 1 however often. */
static void driver_call(const struct driver_case *c, struct driver_gpu *gpu, int streams, int n)
{
	int32_t *mem = gpu->mem[n % c->comms];

	EXPECT_NCCL(ncclSuccess, ncclAllReduce(mem, mem, c->count, ncclInt32, ncclMax,
					       gpu->comm[n % c->comms], gpu->stream[n % streams]));
}

static void driver_group(const struct driver_case *c, struct driver_gpu *gpu)
{
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int n = 0; n < c->calls; n++)
		for (int i = 0; i < driver_gpus(c); i++)
			driver_call(c, &gpu[i], c->streams[i], n);
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
}

static void driver_check(const struct driver_case *c, struct driver_gpu *gpu, int streams)
{
	int32_t host[1];

	for (int s = 0; s < streams; s++)
		EXPECT(cudaStreamSynchronize(gpu->stream[s]) == cudaSuccess);
	for (int k = 0; k < c->comms; k++) {
		EXPECT(cudaMemcpy(host, gpu->mem[k], sizeof host, cudaMemcpyDeviceToHost) ==
		       cudaSuccess);
		EXPECT(host[0] == 1);
	}
}

static void driver_free(const struct driver_case *c, struct driver_gpu *gpu, int streams)
{
	for (int s = 0; s < streams; s++)
		EXPECT(cudaStreamDestroy(gpu->stream[s]) == cudaSuccess);
	for (int k = 0; k < c->comms; k++)
		EXPECT(cudaFree(gpu->mem[k]) == cudaSuccess);
}

static void driver_close(const struct driver_case *c, struct driver_gpu *gpu)
{
	for (int i = 0; i < driver_gpus(c); i++) {
		EXPECT(cudaSetDevice(i) == cudaSuccess);
		driver_check(c, &gpu[i], c->streams[i]);
	}
	for (int k = 0; k < c->comms; k++)
		for (int i = 0; i < driver_gpus(c); i++)
			EXPECT_NCCL(ncclSuccess, ncclCommDestroy(gpu[i].comm[k]));
	for (int i = 0; i < driver_gpus(c); i++) {
		EXPECT(cudaSetDevice(i) == cudaSuccess);
		driver_free(c, &gpu[i], c->streams[i]);
	}
}

static void driver_task(int32_t task, int32_t tasks, void *arg)
{
	struct driver_gpu gpu[DRIVER_MOST];

	driver_open(arg, task, tasks, gpu);
	driver_group(arg, gpu);
	driver_close(arg, gpu);
}

enum { COUNT = 65536 };

/* The stack chooses LL for COUNT elements. Then a group of 300 calls does not use up the slots, and
 * each line is two stores of the memory-order adversary: minutes of a core. */
static const char *const simple[] = {"NCCL_PROTO=Simple", NULL};

static uint64_t probe_hits(const char *name)
{
	const struct sim_probe_stat *stats;
	uint32_t n = sim_probe_stats(&stats);

	for (uint32_t i = 0; i < n; i++)
		if (strcmp(stats[i].name, name) == 0)
			return stats[i].hits;
	ck_abort_msg("no probe %s", name);
}

static void drive(struct driver_case c, const char *const *env, uint64_t seeds)
{
	for (uint64_t seed = 1; seed <= seeds; seed += SAMPLE_THIN) {
		struct ranks_config config = {.hosts = 2, .per_host = 1, .seed = seed, .env = env};

		ranks_run(&config, driver_task, &c);
	}
}

START_TEST(a_group_of_more_operations_than_slots_ends)
{
	drive((struct driver_case){.calls = 300, .count = COUNT, .streams = {1, 1}, .comms = 1},
	      simple, 2);
	ck_assert_uint_gt(probe_hits("proxy.slots_all_used"), 0);
}
END_TEST

/* Each change of stream is a launch of its own: the plans of the two ranks differ. */
START_TEST(ranks_whose_plans_differ_stay_together)
{
	drive((struct driver_case){.calls = 300, .count = COUNT, .streams = {1, 3}, .comms = 1},
	      simple, 2);
	ck_assert_uint_gt(probe_hits("proxy.slots_all_used"), 0);
	drive((struct driver_case){.calls = 200, .count = COUNT, .streams = {4, 1}, .comms = 2},
	      simple, 2);
}
END_TEST

/* One task drives all ranks of its process, in worlds that are drawn. */
static struct driver_case driver_draw(struct sim_rng *rng)
{
	struct driver_case c = {.gpus = 1 + (int)sim_rng_below(rng, DRIVER_MOST)};

	/* a draw a statement: compilers order those of one expression differently */
	c.calls = 1 + (int)sim_rng_below(rng, 250);
	c.count = (size_t)1 << sim_rng_below(rng, 17);
	c.comms = 1 + (int)sim_rng_below(rng, 2);
	for (int i = 0; i < c.gpus; i++)
		c.streams[i] = 1 + (int)sim_rng_below(rng, 4);
	return c;
}

START_TEST(groups_of_drawn_worlds_end)
{
	for (uint64_t seed = 1; seed <= 12; seed += SAMPLE_THIN) {
		static const char *const few[] = {"NCCL_MAX_CTAS=2", NULL};
		struct sim_rng rng;

		sim_rng_seed(&rng, seed, "group_test");
		struct driver_case c = driver_draw(&rng);
		struct ranks_config config = {.per_host = 1, .seed = seed};

		config.hosts = 1 + (uint32_t)sim_rng_below(&rng, 3);
		config.env = sim_rng_below(&rng, 2) ? few : NULL;
		ranks_run(&config, driver_task, &c);
	}
}
END_TEST

START_TEST(a_group_in_many_channels_ends)
{
	static const char *const env[] = {"NCCL_MIN_CTAS=32", "NCCL_MAX_CTAS=32", NULL};

	drive((struct driver_case){.calls = 65, .count = 1 << 18, .streams = {1, 1}, .comms = 1},
	      env, 1);
}
END_TEST

START_TEST(a_group_of_more_operations_than_slots_ends_on_real_threads)
{
	struct ranks_config config = {
		.hosts = 2, .per_host = 1, .engine = SIM_ENGINE_THREADS, .env = simple};
	struct driver_case c = {.calls = 300, .count = COUNT, .streams = {1, 1}, .comms = 1};

	ranks_run(&config, driver_task, &c);
}
END_TEST

/* ---- without a group ------------------------------------------------------------------------ */

static char explained[4096];

static void explain_print(FILE *out)
{
	FILE *text = fmemopen(explained, sizeof explained - 1, "w");

	(void)out;
	sim_explain(text);
	fclose(text);
}

/* A program's mistake: all calls of one rank, and then those of the other, in no group. */
static void ungrouped_main(void *arg)
{
	const int devices[] = {0, 1};
	ncclComm_t comm[DRIVER_GPUS];
	int32_t *mem[DRIVER_GPUS];

	(void)arg;
	EXPECT_NCCL(ncclSuccess, ncclCommInitAll(comm, DRIVER_GPUS, devices));
	for (int i = 0; i < DRIVER_GPUS; i++) {
		EXPECT(cudaSetDevice(i) == cudaSuccess);
		EXPECT(cudaMalloc((void **)&mem[i], 4096) == cudaSuccess);
		for (int n = 0; n < 3; n++)
			EXPECT_NCCL(ncclSuccess, ncclAllReduce(mem[i], mem[i], 1024, ncclInt32,
							       ncclSum, comm[i], NULL));
		EXPECT(cudaStreamSynchronize(NULL) == cudaSuccess);
	}
}

START_TEST(a_kernel_that_its_task_has_not_launched_is_explained)
{
	const struct sim_config sim = {.seed = 1};
	const struct world_config world = {.hosts = 1, .machine = "h100-8nic"};

	EXPECT(sim_start(&sim) == 0);
	EXPECT(world_create(&world) == 0);
	sim_on_failure(explain_print);
	EXPECT(sim_run(ungrouped_main, NULL) == SIM_NO_PROGRESS);
	EXPECT(strstr(explained, "<- rank 1: kernel not launched yet: queued after task 0 "
				 "\"main\", which waits for \"cudaStreamSynchronize"));
	(void)world_destroy();
	sim_stop();
}
END_TEST

/* ---- a group for each rank ------------------------------------------------------------------- */

#define APART_CALLS 40

static void apart_wait(const ncclComm_t *comm)
{
	for (int i = 0; i < DRIVER_GPUS; i++) {
		ncclResult_t state = ncclInProgress;

		while (state == ncclInProgress)
			EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm[i], &state));
		EXPECT_NCCL(ncclSuccess, state);
	}
}

static ncclResult_t apart_group(ncclComm_t comm, int32_t *mem, cudaStream_t stream)
{
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < APART_CALLS; i++)
		EXPECT_NCCL(ncclSuccess,
			    ncclAllReduce(mem + i, mem + i, 1, ncclInt32, ncclSum, comm, stream));
	return ncclGroupEnd();
}

/* The first group has more works than the FIFO has room for. Its kernels end only after the other
 * rank's group, which the same task makes later. */
static void apart_task(int32_t task, int32_t tasks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	const ncclUniqueId id = ranks_id();
	ncclComm_t comm[DRIVER_GPUS];
	cudaStream_t stream[DRIVER_GPUS];
	int32_t *mem[DRIVER_GPUS], host[APART_CALLS];

	(void)arg;
	EXPECT(task == 0 && tasks == 1);
	config.blocking = 0;
	for (int i = 0; i < DRIVER_GPUS; i++) {
		EXPECT(cudaSetDevice(i) == cudaSuccess);
		EXPECT(cudaMalloc((void **)&mem[i], sizeof host) == cudaSuccess);
		EXPECT(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking) == cudaSuccess);
		for (int k = 0; k < APART_CALLS; k++)
			host[k] = (i + 1) * k;
		EXPECT(cudaMemcpy(mem[i], host, sizeof host, cudaMemcpyHostToDevice) ==
		       cudaSuccess);
		EXPECT_NCCL(ncclInProgress,
			    ncclCommInitRankConfig(&comm[i], DRIVER_GPUS, id, i, &config));
	}
	apart_wait(comm);
	for (int i = 0; i < DRIVER_GPUS; i++)
		EXPECT_NCCL(ncclInProgress, apart_group(comm[i], mem[i], stream[i]));
	apart_wait(comm);
	for (int i = 0; i < DRIVER_GPUS; i++) {
		EXPECT(cudaStreamSynchronize(stream[i]) == cudaSuccess);
		EXPECT(cudaMemcpy(host, mem[i], sizeof host, cudaMemcpyDeviceToHost) ==
		       cudaSuccess);
		for (int k = 0; k < APART_CALLS; k++)
			EXPECT(host[k] == 3 * k);
	}
	for (int i = 0; i < DRIVER_GPUS; i++) {
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[i]));
		EXPECT(cudaStreamDestroy(stream[i]) == cudaSuccess);
		EXPECT(cudaFree(mem[i]) == cudaSuccess);
	}
}

START_TEST(a_nonblocking_group_does_not_wait_for_room_in_the_fifo_of_works)
{
	const char *const env[] = {"NCCL_WORK_ARGS_BYTES=0", "NCCL_WORK_FIFO_BYTES=4096", NULL};

	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct ranks_config config = {.per_host = 1, .seed = seed, .env = env};

		ranks_run(&config, apart_task, NULL);
	}
}
END_TEST

/* ---- the order of communicators on a GPU ---------------------------------------------------- */

/* One communicator of all four GPUs, one of the second GPU of both hosts. Both second GPUs launch
 * the small one first; the first host's task calls the large one for its first GPU before that. */
static void order_task(int32_t task, int32_t tasks, void *arg)
{
	ncclUniqueId id[2];
	ncclComm_t all[DRIVER_GPUS], pair;
	cudaStream_t stream[DRIVER_GPUS];
	int32_t *mem[DRIVER_GPUS];

	(void)arg;
	for (int k = 0; k < 2; k++) {
		id[k] = ranks_id();
		ranks_barrier();
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < DRIVER_GPUS; i++) {
		EXPECT(cudaSetDevice(i) == cudaSuccess);
		EXPECT(cudaMalloc((void **)&mem[i], 64) == cudaSuccess);
		EXPECT(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking) == cudaSuccess);
		EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&all[i], DRIVER_GPUS * tasks, id[0],
							  DRIVER_GPUS * task + i));
	}
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&pair, tasks, id[1], task));
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = task ? DRIVER_GPUS - 1 : 0; i >= 0 && i < DRIVER_GPUS; i += task ? -1 : 1) {
		if (i == 1)
			EXPECT_NCCL(ncclSuccess, ncclAllReduce(mem[1], mem[1], 1, ncclInt32,
							       ncclSum, pair, stream[1]));
		EXPECT_NCCL(ncclSuccess, ncclAllReduce(mem[i], mem[i], 1, ncclInt32, ncclSum,
						       all[i], stream[i]));
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	for (int i = 0; i < DRIVER_GPUS; i++)
		EXPECT(cudaStreamSynchronize(stream[i]) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(pair));
	for (int i = 0; i < DRIVER_GPUS; i++)
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(all[i]));
	for (int i = 0; i < DRIVER_GPUS; i++) {
		EXPECT(cudaStreamDestroy(stream[i]) == cudaSuccess);
		EXPECT(cudaFree(mem[i]) == cudaSuccess);
	}
}

START_TEST(a_gpu_launches_communicators_in_the_order_of_its_calls)
{
	for (uint64_t seed = 1; seed <= 5; seed += SAMPLE_THIN) {
		struct ranks_config config = {.hosts = 2, .per_host = 1, .seed = seed};

		ranks_run(&config, order_task, NULL);
	}
}
END_TEST

/* Two communicators of two GPUs, one stream. Both ranks call the collectives of the first one
 * before those of the second one; rank 0 has sent in the second one before that, which rank 1
 * receives after it. */
static void order_messages(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm[2];
	cudaStream_t stream;
	int32_t *mem;

	(void)arg;
	for (int k = 0; k < 2; k++) {
		comm[k] = comm_open(rank, nranks, ranks_id());
		ranks_barrier();
	}
	comm_buffers(rank, (void **)&mem, &stream, 64);
	for (int turn = 0; turn < 2; turn++) { /* the first one connects */
		EXPECT_NCCL(ncclSuccess, ncclGroupStart());
		if (!rank)
			EXPECT_NCCL(ncclSuccess,
				    ncclSend(mem + 4, 1, ncclInt32, 1, comm[1], stream));
		for (int k = 0; k < 2; k++)
			EXPECT_NCCL(ncclSuccess, ncclAllReduce(mem, mem, 1, ncclInt32, ncclSum,
							       comm[k], stream));
		if (rank)
			EXPECT_NCCL(ncclSuccess,
				    ncclRecv(mem + 4, 1, ncclInt32, 0, comm[1], stream));
		EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
		EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	}
	for (int k = 0; k < 2; k++)
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[k]));
	comm_buffers_free(mem, stream);
}

START_TEST(messages_of_some_ranks_leave_the_order_of_communicators)
{
	for (uint64_t seed = 1; seed <= 6; seed += SAMPLE_THIN) {
		struct ranks_config config = {.hosts = 1 + (uint32_t)(seed % 2),
					      .per_host = 2 - (uint32_t)(seed % 2),
					      .seed = seed};

		ranks_run(&config, order_messages, NULL);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("group");
	TCase *driver = tcase_create("driver"), *edge = tcase_create("edge");

	tcase_set_timeout(driver, 300);
	tcase_add_test(driver, a_group_of_more_operations_than_slots_ends);
	tcase_add_test(driver, ranks_whose_plans_differ_stay_together);
	tcase_add_test(driver, groups_of_drawn_worlds_end);
	tcase_add_test(driver, a_group_in_many_channels_ends);
	tcase_add_test(driver, a_group_of_more_operations_than_slots_ends_on_real_threads);
	tcase_add_test(driver, a_kernel_that_its_task_has_not_launched_is_explained);
	tcase_add_test(driver, a_nonblocking_group_does_not_wait_for_room_in_the_fifo_of_works);
	tcase_add_test(driver, a_gpu_launches_communicators_in_the_order_of_its_calls);
	tcase_add_test(driver, messages_of_some_ranks_leave_the_order_of_communicators);
	suite_add_tcase(suite, driver);
	suite_add_tcase(suite, edge);
	return suite_run(suite);
}
