/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives in CUDA graphs, replayed: with a proxy (two hosts), and by themselves or mixed with
 * launches outside of graphs. Every replay is checked.
 */
#include <check.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/macros.h"
#include "sim/lab/run/runner.h"
#include "tests/suite.h"

#define ELEMENTS 1000
#define MOST_OPS 300
#define REPLAYS  5
#define SEEDS    3 /* on the doubles, after a run with threads */

/* A rank's side. Each operation adds 1 to every element of a slice of its own, divided by the
 * ranks: ncclAvg of equal values leaves them, and a kernel of another rank cannot. */
struct rank {
	ncclComm_t comm;
	int32_t number;
	int nranks;
	int32_t *dev;
	cudaStream_t stream[2];
	cudaEvent_t event;
};

static void ok(cudaError_t e)
{
	ck_assert_msg(e == cudaSuccess, "%s", cudaGetErrorString(e));
}

static void rank_open(struct rank *r, int32_t number, ncclComm_t comm)
{
	*r = (struct rank){.comm = comm, .number = number};
	ck_assert_int_eq(ncclCommCount(comm, &r->nranks), ncclSuccess);
	ok(cudaMalloc((void **)&r->dev, (size_t)MOST_OPS * ELEMENTS * sizeof(int32_t)));
	for (int s = 0; s < 2; s++)
		ok(cudaStreamCreateWithFlags(&r->stream[s], cudaStreamNonBlocking));
	ok(cudaEventCreateWithFlags(&r->event, cudaEventDisableTiming));
}

static void rank_close(struct rank *r)
{
	for (int s = 0; s < 2; s++)
		ok(cudaStreamDestroy(r->stream[s]));
	ok(cudaEventDestroy(r->event));
	ok(cudaFree(r->dev));
}

static int32_t input(const struct rank *r, int op, int i)
{
	return (r->number + 1) * 1009 + op * 31 + i;
}

static void fill(struct rank *r, int ops)
{
	size_t n = (size_t)ops * ELEMENTS;
	int32_t *host = malloc(n * sizeof *host);

	ck_assert(host != NULL);
	for (size_t i = 0; i < n; i++)
		host[i] = input(r, (int)(i / ELEMENTS), (int)(i % ELEMENTS));
	ok(cudaMemcpy(r->dev, host, n * sizeof *host, cudaMemcpyHostToDevice));
	free(host);
}

/* After `times` all-reduces of each slice, in place: the sum, then times the ranks for each. */
static void verify(struct rank *r, int ops, int times)
{
	size_t n = (size_t)ops * ELEMENTS;
	int32_t *host = malloc(n * sizeof *host);

	ck_assert(host != NULL);
	ok(cudaMemcpy(host, r->dev, n * sizeof *host, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < n; i++) {
		int op = (int)(i / ELEMENTS);
		uint32_t want = 0;

		for (int p = 0; p < r->nranks; p++)
			want += (uint32_t)input(&(struct rank){.number = p}, op,
						(int)(i % ELEMENTS));
		for (int k = 1; k < times; k++)
			want *= (uint32_t)r->nranks;
		if ((uint32_t)host[i] != want) /* the library writes a message for each assertion */
			ck_abort_msg("rank %d, operation %d, element %zu: got %d, expected %d",
				     r->number, op, i % ELEMENTS, host[i], (int32_t)want);
	}
	free(host);
}

static void reduce(struct rank *r, int op, int stream)
{
	int32_t *at = r->dev + (size_t)op * ELEMENTS;

	ck_assert_int_eq(
		ncclAllReduce(at, at, ELEMENTS, ncclInt32, ncclSum, r->comm, r->stream[stream]),
		ncclSuccess);
}

static void begin(struct rank *r, int stream)
{
	ok(cudaStreamBeginCapture(r->stream[stream], cudaStreamCaptureModeThreadLocal));
}

static cudaGraphExec_t end(struct rank *r, int stream)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	ok(cudaStreamEndCapture(r->stream[stream], &graph));
	ok(cudaGraphInstantiate(&exec, graph, 0));
	ok(cudaGraphDestroy(graph));
	return exec;
}

static void sync(struct rank *r)
{
	for (int s = 0; s < 2; s++)
		ok(cudaStreamSynchronize(r->stream[s]));
}

/* Both ranks are on one GPU, and the driver's cudaGraphLaunch waits, with a lock on the GPU's
 * context, when several launches are under way. */
static void replay(struct rank *r, cudaGraphExec_t exec, int stream, int k)
{
	ok(cudaGraphLaunch(exec, r->stream[stream]));
	if (k % 2 == 0)
		sync(r);
}

/* One collective for each operation: many kernels. */
static void each_body(int32_t number, ncclComm_t comm, void *arg)
{
	const int *ops = arg;
	struct rank r;
	cudaGraphExec_t exec;

	rank_open(&r, number, comm);
	fill(&r, *ops);
	begin(&r, 0);
	for (int op = 0; op < *ops; op++)
		reduce(&r, op, 0);
	exec = end(&r, 0);
	for (int k = 1; k <= REPLAYS; k++) {
		ok(cudaGraphLaunch(exec, r.stream[0]));
		ok(cudaStreamSynchronize(r.stream[0]));
		verify(&r, *ops, k);
	}
	for (int k = 1; k <= REPLAYS; k++)
		replay(&r, exec, k / 2 % 2, k);
	sync(&r);
	verify(&r, *ops, 2 * REPLAYS);
	ok(cudaGraphExecDestroy(exec));
	rank_close(&r);
}

/* All of them in one group: more works than a kernel's arguments hold. */
static void group_body(int32_t number, ncclComm_t comm, void *arg)
{
	struct rank r;
	cudaGraphExec_t exec;

	(void)arg;
	rank_open(&r, number, comm);
	fill(&r, MOST_OPS);
	begin(&r, 0);
	ck_assert_int_eq(ncclGroupStart(), ncclSuccess);
	for (int op = 0; op < MOST_OPS; op++)
		reduce(&r, op, 0);
	ck_assert_int_eq(ncclGroupEnd(), ncclSuccess);
	exec = end(&r, 0);
	for (int k = 1; k <= REPLAYS; k++)
		replay(&r, exec, 0, k);
	sync(&r);
	verify(&r, MOST_OPS, REPLAYS);
	ok(cudaGraphExecDestroy(exec));
	rank_close(&r);
}

/* Launches outside of graphs, two graphs and two streams, in one order on all ranks, and no wait of
 * the program's between them: the communicator orders them. */
static void mixed_body(int32_t number, ncclComm_t comm, void *arg)
{
	struct rank r;
	cudaGraphExec_t one, two;
	int times = 0;

	(void)arg;
	rank_open(&r, number, comm);
	fill(&r, 2);
	reduce(&r, 0, 1);
	reduce(&r, 1, 1);
	times++;
	begin(&r, 0);
	reduce(&r, 0, 0);
	reduce(&r, 1, 0);
	one = end(&r, 0);
	begin(&r, 1);
	reduce(&r, 1, 1);
	reduce(&r, 0, 1);
	two = end(&r, 1);
	for (int k = 0; k < 3 * REPLAYS; k++, times++) {
		if (k % 3 == 0)
			ok(cudaGraphLaunch(one, r.stream[k & 1]));
		else if (k % 3 == 1)
			ok(cudaGraphLaunch(two, r.stream[k & 1]));
		else
			for (int op = 0; op < 2; op++)
				reduce(&r, op, op);
		if (k % 3 == 2)
			sync(&r);
	}
	ok(cudaGraphExecDestroy(one));
	sync(&r);
	verify(&r, 2, times);
	ok(cudaGraphExecDestroy(two));
	for (int op = 0; op < 2; op++)
		reduce(&r, op, 0);
	sync(&r);
	verify(&r, 2, times + 1);
	rank_close(&r);
}

/* A capture that takes in a second stream. */
static void forked_body(int32_t number, ncclComm_t comm, void *arg)
{
	struct rank r;
	cudaGraphExec_t exec;

	(void)arg;
	rank_open(&r, number, comm);
	fill(&r, 4);
	begin(&r, 0);
	ok(cudaEventRecord(r.event, r.stream[0]));
	ok(cudaStreamWaitEvent(r.stream[1], r.event, 0));
	for (int op = 0; op < 4; op++)
		reduce(&r, op, op & 1);
	ok(cudaEventRecord(r.event, r.stream[1]));
	ok(cudaStreamWaitEvent(r.stream[0], r.event, 0));
	exec = end(&r, 0);
	for (int k = 1; k <= REPLAYS; k++)
		replay(&r, exec, 0, k);
	sync(&r);
	verify(&r, 4, REPLAYS);
	ok(cudaGraphExecDestroy(exec));
	rank_close(&r);
}

/* A group over the two streams of a capture, of which one fills what the other's call reads. */
static void grouped_body(int32_t number, ncclComm_t comm, void *arg)
{
	const size_t bytes = ELEMENTS * sizeof(int32_t);
	struct rank r;
	cudaGraphExec_t exec;

	(void)arg;
	rank_open(&r, number, comm);
	fill(&r, 2);
	begin(&r, 0);
	ok(cudaEventRecord(r.event, r.stream[0]));
	ok(cudaStreamWaitEvent(r.stream[1], r.event, 0));
	ok(cudaMemcpyAsync(r.dev + 2 * ELEMENTS, r.dev, bytes, cudaMemcpyDeviceToDevice,
			   r.stream[1]));
	ck_assert_int_eq(ncclGroupStart(), ncclSuccess);
	ck_assert_int_eq(ncclAllReduce(r.dev + 2 * ELEMENTS, r.dev + 3 * ELEMENTS, ELEMENTS,
				       ncclInt32, ncclSum, comm, r.stream[0]),
			 ncclSuccess);
	reduce(&r, 1, 1);
	ck_assert_int_eq(ncclGroupEnd(), ncclSuccess);
	ok(cudaMemcpyAsync(r.dev, r.dev + 3 * ELEMENTS, bytes, cudaMemcpyDeviceToDevice,
			   r.stream[1]));
	ok(cudaEventRecord(r.event, r.stream[1]));
	ok(cudaStreamWaitEvent(r.stream[0], r.event, 0));
	exec = end(&r, 0);
	for (int k = 1; k <= REPLAYS; k++)
		replay(&r, exec, 0, k);
	sync(&r);
	verify(&r, 2, REPLAYS);
	ok(cudaGraphExecDestroy(exec));
	rank_close(&r);
}

static void in_place(struct rank *r, size_t count)
{
	ck_assert_int_eq(ncclAlltoAll(r->dev, r->dev, count, ncclInt32, r->comm, r->stream[0]),
			 ncclSuccess);
}

/* All-to-alls in place: the graph goes on with the memory of its copies when a later call needs
 * more. */
static void in_place_body(int32_t number, ncclComm_t comm, void *arg)
{
	struct rank r;
	cudaGraphExec_t exec;
	int32_t *host;

	(void)arg;
	rank_open(&r, number, comm);
	begin(&r, 0);
	in_place(&r, ELEMENTS);
	exec = end(&r, 0);
	fill(&r, MOST_OPS);
	in_place(&r, (size_t)(MOST_OPS / r.nranks) * ELEMENTS);
	sync(&r);
	fill(&r, r.nranks);
	for (int k = 0; k < REPLAYS; k++) /* an odd number of times */
		replay(&r, exec, 0, k);
	sync(&r);
	host = malloc((size_t)r.nranks * ELEMENTS * sizeof *host);
	ck_assert(host != NULL);
	ok(cudaMemcpy(host, r.dev, (size_t)r.nranks * ELEMENTS * sizeof *host,
		      cudaMemcpyDeviceToHost));
	for (int i = 0; i < r.nranks * ELEMENTS; i++)
		ck_assert_int_eq(host[i], input(&(struct rank){.number = i / ELEMENTS}, number,
						i % ELEMENTS));
	free(host);
	ok(cudaGraphExecDestroy(exec));
	rank_close(&r);
}

/* Every call, once; the values of the last replay. */
static void calls_body(int32_t number, ncclComm_t comm, void *arg)
{
	struct rank r;
	cudaGraphExec_t exec;
	int32_t *from, *to, got[8];
	const int n = 1;

	(void)arg;
	rank_open(&r, number, comm);
	fill(&r, 1);
	from = r.dev;
	to = r.dev + ELEMENTS;
	int next = (number + 1) % r.nranks, last = (number + r.nranks - 1) % r.nranks;
	begin(&r, 0);
	ck_assert_int_eq(ncclAllReduce(from, to, n, ncclInt32, ncclSum, comm, r.stream[0]), 0);
	ck_assert_int_eq(ncclBroadcast(from, to + 1, n, ncclInt32, 1, comm, r.stream[0]), 0);
	ck_assert_int_eq(ncclReduce(from, to + 2, n, ncclInt32, ncclMax, 0, comm, r.stream[0]), 0);
	ck_assert_int_eq(ncclReduceScatter(from, to + 3, n, ncclInt32, ncclMin, comm, r.stream[0]),
			 0);
	ck_assert_int_eq(ncclAllGather(from, to + 4, n, ncclInt32, comm, r.stream[0]), 0);
	ck_assert_int_eq(ncclGroupStart(), 0);
	ck_assert_int_eq(ncclSend(from, n, ncclInt32, next, comm, r.stream[0]), 0);
	ck_assert_int_eq(ncclRecv(to + 6, n, ncclInt32, last, comm, r.stream[0]), 0);
	ck_assert_int_eq(ncclGroupEnd(), 0);
	exec = end(&r, 0);
	for (int k = 0; k < REPLAYS; k++) {
		ok(cudaMemsetAsync(to, 0, sizeof got, r.stream[0]));
		ok(cudaGraphLaunch(exec, r.stream[0]));
		sync(&r);
		ok(cudaMemcpy(got, to, sizeof got, cudaMemcpyDeviceToHost));
		struct rank zero = {.number = 0}, other = {.number = 1};
		ck_assert_int_eq(got[0], input(&zero, 0, 0) + input(&other, 0, 0));
		ck_assert_int_eq(got[1], input(&other, 0, 0));
		ck_assert_int_eq(got[2], number == 0 ? input(&other, 0, 0) : 0);
		ck_assert_int_eq(got[3], input(&zero, 0, number));
		ck_assert_int_eq(got[4], input(&zero, 0, 0));
		ck_assert_int_eq(got[5], input(&other, 0, 0));
		ck_assert_int_eq(got[6], input(&(struct rank){.number = last}, 0, 0));
	}
	ok(cudaGraphExecDestroy(exec));
	rank_close(&r);
}

static void run_once(void (*body)(int32_t rank, ncclComm_t comm, void *arg), void *arg,
		     uint32_t hosts, const char *proto, enum sim_engine engine, uint64_t seed)
{
	const char *const env[] = {proto, NULL};
	struct lab_config c;
	struct lab_result r;

	lab_config_default(&c);
	c.machine = "h100-8nic";
	c.hosts = hosts;
	c.gpus = 1;
	c.sim.engine = engine;
	c.sim.seed = seed;
	c.env = env;
	c.bytes_min = c.bytes_max = 8;
	c.on_ready = body;
	c.on_ready_arg = arg;
	ck_assert_int_eq(lab_run(&c, &r), 0);
	ck_assert_msg(r.verdict == SIM_PASS && !r.error && !r.wrong && !r.leaks,
		      "engine %d seed %llu: verdict %d error %d: %s", (int)engine,
		      (unsigned long long)seed, r.verdict, r.error, r.explanation);
}

static void run(void (*body)(int32_t rank, ncclComm_t comm, void *arg), void *arg, uint32_t hosts,
		const char *proto)
{
	run_once(body, arg, hosts, proto, SIM_ENGINE_THREADS, 1);
#ifdef DOPPEL_FAKECUDA
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		run_once(body, arg, hosts, proto, SIM_ENGINE_SIM, seed);
#endif
}

static const char *const protos[] = {"NCCL_PROTO=LL", "NCCL_PROTO=LL128", "NCCL_PROTO=Simple"};

START_TEST(a_graph_of_all_reduces_is_replayed)
{
	int few = 3, many = 16;

	run(each_body, &few, 2, protos[_i]);
	run(each_body, &many, 2, protos[_i]);
}
END_TEST

START_TEST(a_communicator_of_one_rank_is_captured)
{
	int few = 3;

	run(each_body, &few, 1, protos[2]);
}
END_TEST

START_TEST(a_group_of_more_works_than_arguments_hold_is_captured)
{
	run(group_body, NULL, 2, protos[_i]);
}
END_TEST

START_TEST(graphs_and_launches_outside_of_them_follow_each_other)
{
	run(mixed_body, NULL, 2, protos[_i]);
}
END_TEST

START_TEST(a_capture_of_two_streams_is_replayed)
{
	run(forked_body, NULL, 2, protos[_i]);
}
END_TEST

START_TEST(a_group_over_the_streams_of_a_capture_is_replayed)
{
	run(grouped_body, NULL, 2, protos[_i]);
}
END_TEST

START_TEST(all_to_alls_in_place_are_replayed)
{
	run(in_place_body, NULL, 2, protos[_i]);
}
END_TEST

START_TEST(every_call_is_captured)
{
	run(calls_body, NULL, 2, protos[_i]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("graph");
	TCase *t = tcase_create("graph");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, a_graph_of_all_reduces_is_replayed, 0, 3);
	tcase_add_test(t, a_communicator_of_one_rank_is_captured);
	tcase_add_loop_test(t, a_group_of_more_works_than_arguments_hold_is_captured, 0, 3);
	tcase_add_loop_test(t, graphs_and_launches_outside_of_them_follow_each_other, 0, 3);
	tcase_add_loop_test(t, a_capture_of_two_streams_is_replayed, 0, 3);
	tcase_add_loop_test(t, a_group_over_the_streams_of_a_capture_is_replayed, 0, 3);
	tcase_add_loop_test(t, all_to_alls_in_place_are_replayed, 0, 3);
	tcase_add_loop_test(t, every_call_is_captured, 0, 3);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
