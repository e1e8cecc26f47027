/* SPDX-License-Identifier: BSD-3-Clause */
/* Many collectives of one communicator: in groups, in several streams, more than any pool holds. */
#include <check.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/run/runner.h"
#include "tests/suite.h"

#define ELEMENTS 96
#define STREAMS  3

/* A rank's side of a test: its device buffer holds one slice of ELEMENTS per collective. */
struct rank {
	ncclComm_t comm;
	int32_t number;
	int nranks, ops;
	int32_t *dev, *host;
	cudaStream_t stream[STREAMS];
};

static size_t bytes_of(const struct rank *r)
{
	return (size_t)r->ops * ELEMENTS * sizeof(int32_t);
}

static int32_t input(int32_t rank, int op, int i)
{
	return (rank + 1) * 1000003 + op * 101 + i;
}

static void rank_open(struct rank *r, int32_t number, ncclComm_t comm, int ops)
{
	memset(r, 0, sizeof *r);
	r->comm = comm;
	r->number = number;
	r->ops = ops;
	ck_assert_int_eq(ncclCommCount(comm, &r->nranks), ncclSuccess);
	ck_assert_int_eq(cudaMalloc((void **)&r->dev, bytes_of(r)), cudaSuccess);
	ck_assert_int_eq(cudaHostAlloc((void **)&r->host, bytes_of(r), 0), cudaSuccess);
	for (int s = 0; s < STREAMS; s++)
		ck_assert_int_eq(cudaStreamCreateWithFlags(&r->stream[s], cudaStreamNonBlocking),
				 cudaSuccess);
	for (int op = 0; op < ops; op++)
		for (int i = 0; i < ELEMENTS; i++)
			r->host[op * ELEMENTS + i] = input(number, op, i);
	ck_assert_int_eq(cudaMemcpy(r->dev, r->host, bytes_of(r), cudaMemcpyHostToDevice),
			 cudaSuccess);
}

static void rank_reduce(struct rank *r, int op, size_t count, cudaStream_t stream)
{
	int32_t *at = r->dev + op * ELEMENTS;

	ck_assert_int_eq(ncclAllReduce(at, at, count, ncclInt32, ncclSum, r->comm, stream),
			 ncclSuccess);
}

/* Waits until the streams are idle; a spin that can see errors, as programs do. */
static void rank_sync(struct rank *r)
{
	for (int s = 0; s < STREAMS; s++)
		ck_assert_int_eq(cudaStreamSynchronize(r->stream[s]), cudaSuccess);
	ck_assert_int_eq(cudaStreamSynchronize(NULL), cudaSuccess);
}

/* times: how often each slice was reduced. */
static void rank_check(struct rank *r, const int *times, const size_t *count)
{
	ck_assert_int_eq(cudaMemcpy(r->host, r->dev, bytes_of(r), cudaMemcpyDeviceToHost),
			 cudaSuccess);
	for (int op = 0; op < r->ops; op++) {
		for (int i = 0; i < ELEMENTS; i++) {
			uint32_t want = (uint32_t)input(r->number, op, i);

			for (int t = 0; t < times[op] && i < (int)count[op]; t++) {
				uint32_t sum = 0;

				for (int n = 0; n < r->nranks; n++)
					sum += t ? want : (uint32_t)input(n, op, i);
				want = sum;
			}
			if ((uint32_t)r->host[op * ELEMENTS + i] != want)
				ck_abort_msg("rank %d op %d element %d: %d, expected %d", r->number,
					     op, i, r->host[op * ELEMENTS + i], (int32_t)want);
		}
	}
}

static void rank_close(struct rank *r)
{
	for (int s = 0; s < STREAMS; s++)
		ck_assert_int_eq(cudaStreamDestroy(r->stream[s]), cudaSuccess);
	ck_assert_int_eq(cudaFree(r->dev), cudaSuccess);
	ck_assert_int_eq(cudaFreeHost(r->host), cudaSuccess);
}

static void run(void (*body)(int32_t rank, ncclComm_t comm, void *arg), uint32_t hosts,
		uint32_t gpus, uint64_t seeds)
{
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct lab_config c;
		struct lab_result r;

		lab_config_default(&c);
		c.sim.seed = seed;
		c.machine = "a100-4nic";
		c.hosts = hosts;
		c.gpus = gpus;
		c.bytes_min = c.bytes_max = 8;
		c.on_ready = body;
		ck_assert_int_eq(lab_run(&c, &r), 0);
		ck_assert_msg(r.verdict == SIM_PASS && !r.error && !r.wrong && !r.leaks,
			      "seed %llu: verdict %d error %d", (unsigned long long)seed, r.verdict,
			      r.error);
	}
}

/* ---- a group larger than a launch, with empty collectives inside ---------------------------- */

#define GROUP 70

static void group_body(int32_t number, ncclComm_t comm, void *arg)
{
	int times[GROUP];
	size_t count[GROUP];
	struct rank r;

	(void)arg;
	rank_open(&r, number, comm, GROUP);
	ck_assert_int_eq(ncclGroupStart(), ncclSuccess);
	for (int op = 0; op < GROUP; op++) {
		times[op] = 1;
		count[op] = (size_t)(op * 7) % (ELEMENTS + 1);
		rank_reduce(&r, op, count[op], r.stream[op / 10 % STREAMS]);
	}
	ck_assert_int_eq(ncclGroupEnd(), ncclSuccess);
	rank_sync(&r);
	rank_check(&r, times, count);
	rank_close(&r);
}

START_TEST(a_group_in_several_streams)
{
	run(group_body, 2, 2, 5);
	run(group_body, 1, 3, 5);
}
END_TEST

/* ---- the same buffer again and again, each time in another stream --------------------------- */

static void streams_body(int32_t number, ncclComm_t comm, void *arg)
{
	int times[1] = {12};
	size_t count[1] = {ELEMENTS};
	struct rank r;

	(void)arg;
	rank_open(&r, number, comm, 1);
	for (int t = 0; t < times[0]; t++)
		rank_reduce(&r, 0, ELEMENTS, t % 4 == 3 ? NULL : r.stream[t % 4]);
	rank_sync(&r);
	rank_check(&r, times, count);
	rank_close(&r);
}

START_TEST(collectives_of_a_communicator_keep_their_order_across_streams)
{
	run(streams_body, 2, 1, 10);
	run(streams_body, 1, 2, 10);
}
END_TEST

/* ---- streams that are destroyed with their work in flight ------------------------------------ */

/* CUDA may give a new stream the handle of one that was destroyed, whose work goes on. */
static void destroyed_body(int32_t number, ncclComm_t comm, void *arg)
{
	int times[1] = {12};
	size_t count[1] = {ELEMENTS};
	struct rank r;

	(void)arg;
	rank_open(&r, number, comm, 1);
	for (int t = 0; t < times[0]; t++) {
		cudaStream_t s;

		ck_assert_int_eq(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), cudaSuccess);
		rank_reduce(&r, 0, ELEMENTS, s);
		ck_assert_int_eq(cudaStreamDestroy(s), cudaSuccess);
	}
	ck_assert_int_eq(cudaDeviceSynchronize(), cudaSuccess);
	rank_check(&r, times, count);
	rank_close(&r);
}

START_TEST(collectives_keep_their_order_across_streams_that_are_destroyed)
{
	run(destroyed_body, 2, 1, 10);
	run(destroyed_body, 1, 2, 10);
}
END_TEST

/* ---- one handle, another stream in each task ------------------------------------------------ */

static void own_stream_task(void *arg)
{
	struct rank *r = arg;
	int dev;

	ck_assert_int_eq(ncclCommCuDevice(r->comm, &dev), ncclSuccess);
	ck_assert_int_eq(cudaSetDevice(dev), cudaSuccess);
	rank_reduce(r, 0, ELEMENTS, cudaStreamPerThread);
	ck_assert_int_eq(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
}

static void own_stream_body(int32_t number, ncclComm_t comm, void *arg)
{
	struct os_thread_attr attr = {.name = "second task", .rank = number};
	struct os_thread *second;
	int times[1] = {2};
	size_t count[1] = {ELEMENTS};
	struct rank r;

	(void)arg;
	rank_open(&r, number, comm, 1);
	rank_reduce(&r, 0, ELEMENTS, cudaStreamPerThread);
	ck_assert_int_eq(os_thread_start(&second, &attr, own_stream_task, &r), 0);
	ck_assert_int_eq(os_thread_join(second), 0);
	ck_assert_int_eq(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
	rank_check(&r, times, count);
	rank_close(&r);
}

START_TEST(collectives_keep_their_order_across_the_own_streams_of_tasks)
{
	run(own_stream_body, 2, 1, 10);
	run(own_stream_body, 1, 2, 10);
}
END_TEST

/* ---- more operations in flight than the proxy has slots ------------------------------------- */

#define FLOOD 1500

static void flood_body(int32_t number, ncclComm_t comm, void *arg)
{
	static int times[FLOOD];
	static size_t count[FLOOD];
	struct rank r;

	(void)arg;
	for (int op = 0; op < FLOOD; op++) {
		times[op] = 1;
		count[op] = 2;
	}
	rank_open(&r, number, comm, FLOOD);
	for (int op = 0; op < FLOOD; op++)
		rank_reduce(&r, op, 2, r.stream[0]);
	rank_sync(&r);
	rank_check(&r, times, count);
	rank_close(&r);
}

START_TEST(more_operations_than_slots)
{
	run(flood_body, 2, 1, 2);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("launch_order");
	TCase *t = tcase_create("launch");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_group_in_several_streams);
	tcase_add_test(t, collectives_of_a_communicator_keep_their_order_across_streams);
	tcase_add_test(t, collectives_keep_their_order_across_the_own_streams_of_tasks);
	tcase_add_test(t, collectives_keep_their_order_across_streams_that_are_destroyed);
	tcase_add_test(t, more_operations_than_slots);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
