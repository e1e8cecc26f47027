/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams that capture a CUDA graph and in which a collective cannot be captured: it is refused
 * with the reason, and the stream works again after the end of the capture. graph_test.c has
 * captures that succeed.
 */
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

static void capture_refused(ncclResult_t rc, ncclComm_t comm, const char *words)
{
	const char *text = ncclGetLastError(comm);

	ck_assert_int_eq(rc, ncclInvalidUsage);
	ck_assert_msg(strstr(text, words) != NULL, "%s", text);
}

/* The next collective in the stream runs. */
static void capture_runs(int32_t *dev, ncclComm_t comm, cudaStream_t s)
{
	int32_t host[ELEMENTS];
	int nranks;

	ck_assert_int_eq(ncclCommCount(comm, &nranks), ncclSuccess);
	ck_assert_int_eq(capture_reduce(dev, comm, s), ncclSuccess);
	ck_assert_int_eq(cudaStreamSynchronize(s), cudaSuccess);
	ck_assert_int_eq(cudaMemcpy(host, dev + ELEMENTS, sizeof host, cudaMemcpyDeviceToHost),
			 cudaSuccess);
	for (int i = 0; i < ELEMENTS; i++)
		ck_assert_int_eq(host[i], nranks);
}

/* The refused call left the capture as it was: it ends well. */
static void capture_ends(int32_t *dev, ncclComm_t comm, cudaStream_t s)
{
	cudaGraph_t graph = NULL;

	ck_assert_int_eq(cudaStreamEndCapture(s, &graph), cudaSuccess);
	ck_assert_int_eq(cudaGraphDestroy(graph), cudaSuccess);
	capture_runs(dev, comm, s);
}

/* A capture that has failed: the program queried its stream. */
static void failed_body(int32_t number, ncclComm_t comm, void *arg)
{
	static const char words[] =
		"ncclAllReduce: stream captures a CUDA graph, and the capture has failed";
	const bool *grouped = arg;
	int32_t *dev = capture_buffer();
	cudaGraph_t graph = NULL;
	cudaStream_t s;

	(void)number;
	ck_assert_int_eq(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), cudaSuccess);
	ck_assert_int_eq(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), cudaSuccess);
	ck_assert_int_eq(cudaStreamQuery(s), cudaErrorStreamCaptureUnsupported);
	if (*grouped)
		ck_assert_int_eq(ncclGroupStart(), ncclSuccess);
	capture_refused(capture_reduce(dev, comm, s), comm, words);
	if (*grouped)
		ck_assert_int_eq(ncclGroupEnd(), ncclInvalidUsage);
	ck_assert_int_eq(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureInvalidated);
	ck_assert_ptr_null(graph);
	(void)cudaGetLastError();
	capture_runs(dev, comm, s);
	ck_assert_int_eq(cudaStreamDestroy(s), cudaSuccess);
	ck_assert_int_eq(cudaFree(dev), cudaSuccess);
}

/* A group with a stream that captures and one that does not. */
static void mixed_body(int32_t number, ncclComm_t comm, void *arg)
{
	int32_t *dev = capture_buffer();
	cudaStream_t s, other;

	(void)number;
	(void)arg;
	ck_assert_int_eq(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), cudaSuccess);
	ck_assert_int_eq(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
	ck_assert_int_eq(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), cudaSuccess);
	ck_assert_int_eq(ncclGroupStart(), ncclSuccess);
	ck_assert_int_eq(capture_reduce(dev, comm, s), ncclSuccess);
	capture_refused(capture_reduce(dev, comm, other), comm, "captures a CUDA graph and");
	ck_assert_int_eq(ncclGroupEnd(), ncclInvalidUsage);
	capture_ends(dev, comm, s);
	ck_assert_int_eq(cudaStreamDestroy(other), cudaSuccess);
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

START_TEST(a_collective_in_a_failed_capture_is_refused_by_name)
{
	bool grouped = false;

	run(failed_body, &grouped, 1);
	run(failed_body, &grouped, 2);
}
END_TEST

START_TEST(a_group_with_a_failed_capture_is_refused)
{
	bool grouped = true;

	run(failed_body, &grouped, 2);
}
END_TEST

START_TEST(a_group_captures_in_all_its_streams_or_in_none)
{
	run(mixed_body, NULL, 2);
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

	tcase_add_test(t, a_collective_in_a_failed_capture_is_refused_by_name);
	tcase_add_test(t, a_group_with_a_failed_capture_is_refused);
	tcase_add_test(t, a_group_captures_in_all_its_streams_or_in_none);
	tcase_add_test(t, the_legacy_stream_is_refused_while_a_blocking_stream_captures);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
