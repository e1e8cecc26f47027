/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams that capture a CUDA graph: collectives refuse them, and the capture is not harmed. */
#include <check.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/lab/run/runner.h"
#include "tests/suite.h"

#define ELEMENTS 64

static int32_t *capture_buffer(void)
{
	int32_t ones[ELEMENTS], *dev;

	for (int i = 0; i < ELEMENTS; i++)
		ones[i] = 1;
	ck_assert_int_eq(cudaMalloc((void **)&dev, 2 * sizeof ones), cudaSuccess);
	ck_assert_int_eq(cudaMemcpy(dev, ones, sizeof ones, cudaMemcpyHostToDevice), cudaSuccess);
	return dev;
}

static ncclResult_t capture_reduce(int32_t *dev, ncclComm_t comm, cudaStream_t s)
{
	/* in place, a communicator of one rank would launch nothing */
	return ncclAllReduce(dev, dev + ELEMENTS, ELEMENTS, ncclInt32, ncclSum, comm, s);
}

static void capture_refused(ncclResult_t rc, ncclComm_t comm)
{
	static const char words[] = "ncclAllReduce: stream captures a CUDA graph";
	const char *text = ncclGetLastError(comm);

	ck_assert_int_eq(rc, ncclInvalidUsage);
	ck_assert_msg(strstr(text, words) != NULL, "%s", text);
}

/* The stream is as before: the capture ends well, and the next collective runs. */
static void capture_ends(int32_t *dev, ncclComm_t comm, cudaStream_t s)
{
	int32_t host[ELEMENTS];
	cudaGraph_t graph = NULL;
	int nranks;

	ck_assert_int_eq(cudaStreamEndCapture(s, &graph), cudaSuccess);
	ck_assert_int_eq(cudaGraphDestroy(graph), cudaSuccess);
	ck_assert_int_eq(ncclCommCount(comm, &nranks), ncclSuccess);
	ck_assert_int_eq(capture_reduce(dev, comm, s), ncclSuccess);
	ck_assert_int_eq(cudaStreamSynchronize(s), cudaSuccess);
	ck_assert_int_eq(cudaMemcpy(host, dev + ELEMENTS, sizeof host, cudaMemcpyDeviceToHost),
			 cudaSuccess);
	for (int i = 0; i < ELEMENTS; i++)
		ck_assert_int_eq(host[i], nranks);
}

static void capture_body(int32_t number, ncclComm_t comm, void *arg)
{
	const bool *grouped = arg;
	int32_t *dev = capture_buffer();
	cudaStream_t s;

	(void)number;
	ck_assert_int_eq(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), cudaSuccess);
	ck_assert_int_eq(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal), cudaSuccess);
	if (*grouped)
		ck_assert_int_eq(ncclGroupStart(), ncclSuccess);
	capture_refused(capture_reduce(dev, comm, s), comm);
	if (*grouped)
		ck_assert_int_eq(ncclGroupEnd(), ncclInvalidUsage);
	capture_ends(dev, comm, s);
	ck_assert_int_eq(cudaStreamDestroy(s), cudaSuccess);
	ck_assert_int_eq(cudaFree(dev), cudaSuccess);
}

/* A blocking stream that captures: the legacy stream would have to wait for it. */
static void legacy_body(int32_t number, ncclComm_t comm, void *arg)
{
	static const char words[] = "ncclAllReduce: stream is the legacy default stream";
	int32_t *dev = capture_buffer();
	cudaStream_t s;

	(void)number;
	(void)arg;
	ck_assert_int_eq(cudaStreamCreate(&s), cudaSuccess);
	ck_assert_int_eq(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed), cudaSuccess);
	ck_assert_int_eq(capture_reduce(dev, comm, NULL), ncclInvalidUsage);
	ck_assert(strstr(ncclGetLastError(comm), words) != NULL);
	ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
	capture_ends(dev, comm, s);
	ck_assert_int_eq(cudaStreamDestroy(s), cudaSuccess);
	ck_assert_int_eq(cudaFree(dev), cudaSuccess);
}

static void run(void (*body)(int32_t rank, ncclComm_t comm, void *arg), void *arg, uint32_t gpus)
{
	struct lab_config c;
	struct lab_result r;

	lab_config_default(&c);
	c.machine = "a100-4nic";
	c.hosts = 1;
	c.gpus = gpus;
	c.bytes_min = c.bytes_max = 8;
	c.on_ready = body;
	c.on_ready_arg = arg;
	ck_assert_int_eq(lab_run(&c, &r), 0);
	ck_assert_msg(r.verdict == SIM_PASS && !r.error && !r.wrong && !r.leaks,
		      "verdict %d error %d", r.verdict, r.error);
}

START_TEST(a_collective_in_a_capturing_stream_is_refused_by_name)
{
	bool grouped = false;

	run(capture_body, &grouped, 1);
	run(capture_body, &grouped, 2);
}
END_TEST

START_TEST(a_group_with_a_capturing_stream_is_refused)
{
	bool grouped = true;

	run(capture_body, &grouped, 2);
}
END_TEST

START_TEST(the_legacy_stream_is_refused_while_a_blocking_stream_captures)
{
	run(legacy_body, NULL, 2);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("capture");
	TCase *t = tcase_create("capture");

	tcase_add_test(t, a_collective_in_a_capturing_stream_is_refused_by_name);
	tcase_add_test(t, a_group_with_a_capturing_stream_is_refused);
	tcase_add_test(t, the_legacy_stream_is_refused_while_a_blocking_stream_captures);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
