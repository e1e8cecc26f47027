/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams of the GPU double: order within and between streams, the legacy default stream, captures,
 * callbacks.
 */
#include "tests/conformance/cuda/cuda_stream_log.h"

CH_TEST(one_stream_keeps_order)
{
	cudaStream_t s = stream_new(cudaStreamNonBlocking);
	uint64_t want[20];

	log_open();
	for (uint64_t i = 0; i < 20; i++) {
		want[i] = i;
		if (i % 3 == 2)
			CU(cudaLaunchHostFunc(s, log_host_func, (void *)(uintptr_t)i));
		else
			log_note(s, i, NULL);
	}
	CU(cudaStreamSynchronize(s));
	log_expect(20, want);
	CU(cudaStreamDestroy(s));
	CU(cudaFreeHost(order_log));
}

CH_TEST(streams_run_side_by_side)
{
	cudaStream_t a = stream_new(cudaStreamNonBlocking), b = stream_new(0);

	log_open();
	log_note(a, 1, log_gate());
	log_note(b, 2, NULL);
	CU(cudaStreamSynchronize(b));
	log_expect(1, (uint64_t[]){2});
	ck_assert_int_eq(cudaStreamQuery(a), cudaErrorNotReady);
	ck_assert_int_eq(cudaGetLastError(), cudaSuccess); /* not an error */
	gate_open();
	CU(cudaStreamSynchronize(a));
	CU(cudaStreamQuery(a));
	log_expect(2, (uint64_t[]){2, 1});
	CU(cudaStreamDestroy(a));
	CU(cudaStreamDestroy(b));
	CU(cudaFreeHost(order_log));
}

/* ---- the legacy default stream -------------------------------------------------------------- */

CH_TEST(legacy_stream_waits_for_blocking_streams)
{
	cudaStream_t a = stream_new(0), b = stream_new(0);

	log_open();
	log_note(a, 1, log_gate());
	log_note(0, 2, NULL);
	log_note(b, 3, NULL); /* after the legacy stream's kernel */
	os_sleep_ns(300000);
	log_expect(0, NULL);
	gate_open();
	CU(cudaDeviceSynchronize());
	log_expect(3, (uint64_t[]){1, 2, 3});
	CU(cudaStreamDestroy(a));
	CU(cudaStreamDestroy(b));
	CU(cudaFreeHost(order_log));
}

CH_TEST(blocking_streams_wait_for_the_legacy_stream)
{
	cudaStream_t a = stream_new(0);

	log_open();
	log_note(cudaStreamLegacy, 1, log_gate());
	log_note(a, 2, NULL);
	os_sleep_ns(300000);
	log_expect(0, NULL);
	gate_open();
	CU(cudaStreamSynchronize(a));
	log_expect(2, (uint64_t[]){1, 2});
	CU(cudaStreamDestroy(a));
	CU(cudaFreeHost(order_log));
}

CH_TEST(non_blocking_streams_ignore_the_legacy_stream)
{
	cudaStream_t a = stream_new(cudaStreamNonBlocking);

	log_open();
	log_note(0, 1, log_gate());
	log_note(a, 2, NULL);
	CU(cudaStreamSynchronize(a));
	log_expect(1, (uint64_t[]){2});
	gate_open();
	CU(cudaStreamSynchronize(0));
	log_note(a, 3, NULL);
	log_note(0, 4, NULL);
	CU(cudaDeviceSynchronize());
	ck_assert_uint_eq(shared_load_u64(order_log, SHARED_ACQUIRE), 4);
	CU(cudaStreamDestroy(a));
	CU(cudaFreeHost(order_log));
}

CH_TEST(legacy_streams_of_two_gpus_are_independent)
{
	log_open();
	log_note(0, 1, log_gate());
	CU(cudaSetDevice(1));
	log_note(0, 2, NULL);
	CU(cudaDeviceSynchronize());
	log_expect(1, (uint64_t[]){2});
	gate_open();
	CU(cudaSetDevice(0));
	CU(cudaDeviceSynchronize());
	log_expect(2, (uint64_t[]){2, 1});
	CU(cudaFreeHost(order_log));
}

/* ---- a task's own default stream ------------------------------------------------------------- */

static void own_stream_task(void *arg)
{
	(void)arg;
	CU(cudaSetDevice(0));
	log_note(cudaStreamPerThread, 2, NULL);
	CU(cudaStreamSynchronize(cudaStreamPerThread));
}

CH_TEST(each_task_has_its_own_per_thread_stream)
{
	struct os_thread_attr attr = {.name = "second task", .rank = -1};
	struct os_thread *t;

	log_open();
	log_note(cudaStreamPerThread, 1, log_gate());
	ck_assert_int_eq(os_thread_start(&t, &attr, own_stream_task, NULL), 0);
	ck_assert_int_eq(os_thread_join(t), 0);
	log_expect(1, (uint64_t[]){2});
	ck_assert_int_eq(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
	gate_open();
	CU(cudaStreamSynchronize(cudaStreamPerThread));
	log_expect(2, (uint64_t[]){2, 1});
	CU(cudaFreeHost(order_log));
}

CH_TEST(the_per_thread_stream_waits_for_the_legacy_stream_and_stays)
{
	log_open();
	log_note(0, 1, log_gate());
	log_note(cudaStreamPerThread, 2, NULL);
	os_sleep_ns(300000);
	log_expect(0, NULL);
	gate_open();
	CU(cudaStreamSynchronize(cudaStreamPerThread));
	log_expect(2, (uint64_t[]){1, 2});
	ck_assert_int_eq(cudaStreamDestroy(cudaStreamPerThread), cudaErrorInvalidResourceHandle);
	(void)cudaGetLastError();
	CU(cudaFreeHost(order_log));
}

/* ---- capture --------------------------------------------------------------------------------- */

static enum cudaStreamCaptureStatus capture_status(cudaStream_t s)
{
	enum cudaStreamCaptureStatus status;

	CU(cudaStreamIsCapturing(s, &status));
	return status;
}

CH_TEST(a_stream_tells_whether_it_captures)
{
	cudaStream_t a = stream_new(cudaStreamNonBlocking), b = stream_new(cudaStreamNonBlocking);
	cudaGraph_t graph;

	ck_assert_int_eq(capture_status(a), cudaStreamCaptureStatusNone);
	CU(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
	ck_assert_int_eq(capture_status(a), cudaStreamCaptureStatusActive);
	ck_assert_int_eq(capture_status(b), cudaStreamCaptureStatusNone);
	ck_assert_int_eq(capture_status(NULL), cudaStreamCaptureStatusNone);
	CU(cudaStreamEndCapture(a, &graph));
	ck_assert_int_eq(capture_status(a), cudaStreamCaptureStatusNone);
	CU(cudaGraphDestroy(graph));
	CU(cudaStreamDestroy(a));
	CU(cudaStreamDestroy(b));
}

CH_TEST(the_legacy_stream_cannot_capture_nor_tell_beside_a_blocking_one_that_does)
{
	enum cudaStreamCaptureStatus status;
	cudaStream_t a = stream_new(0);
	cudaGraph_t graph;

	ck_assert_int_eq(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal),
			 cudaErrorStreamCaptureUnsupported);
	CU(cudaStreamBeginCapture(a, cudaStreamCaptureModeRelaxed));
	ck_assert_int_eq(cudaStreamIsCapturing(NULL, &status), cudaErrorStreamCaptureImplicit);
	ck_assert_int_eq(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal),
			 cudaErrorIllegalState);
	CU(cudaStreamEndCapture(a, &graph));
	CU(cudaGraphDestroy(graph));
	ck_assert_int_eq(cudaStreamEndCapture(a, &graph), cudaErrorIllegalState);
	(void)cudaGetLastError();
	CU(cudaStreamDestroy(a));
}

static void capture_mode_of_task(void *arg)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;

	(void)arg;
	CU(cudaThreadExchangeStreamCaptureMode(&mode));
	ck_assert_int_eq(mode, cudaStreamCaptureModeGlobal);
}

CH_TEST(each_task_has_a_capture_mode)
{
	struct os_thread_attr attr = {.name = "second task", .rank = -1};
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed, bad = 3;
	struct os_thread *t;

	CU(cudaThreadExchangeStreamCaptureMode(&mode));
	ck_assert_int_eq(mode, cudaStreamCaptureModeGlobal);
	ck_assert_int_eq(os_thread_start(&t, &attr, capture_mode_of_task, NULL), 0);
	ck_assert_int_eq(os_thread_join(t), 0);
	ck_assert_int_eq(cudaThreadExchangeStreamCaptureMode(&bad), cudaErrorInvalidValue);
	ck_assert_int_eq(cudaGetLastError(), cudaErrorInvalidValue);
	CU(cudaThreadExchangeStreamCaptureMode(&mode));
	ck_assert_int_eq(mode, cudaStreamCaptureModeRelaxed);
}

/* ---- properties ----------------------------------------------------------------------------- */

CH_TEST(stream_properties)
{
	cudaStream_t s, low;
	int least = 9, greatest = 9, p = 9, dev = -1;
	unsigned flags = 9;

	CU(cudaDeviceGetStreamPriorityRange(&least, &greatest));
	ck_assert_int_eq(least, 0);
	ck_assert_int_lt(greatest, 0);
	CU(cudaSetDevice(2));
	CU(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest - 10));
	CU(cudaStreamCreateWithPriority(&low, 0, 5));
	CU(cudaStreamGetPriority(s, &p));
	ck_assert_int_eq(p, greatest); /* clamped */
	CU(cudaStreamGetPriority(low, &p));
	ck_assert_int_eq(p, least);
	CU(cudaStreamGetFlags(s, &flags));
	ck_assert_uint_eq(flags, cudaStreamNonBlocking);
	CU(cudaStreamGetDevice(s, &dev));
	ck_assert_int_eq(dev, 2);
	CU_FAILS(cudaStreamCreateWithFlags(&low, 4), cudaErrorInvalidValue);
	CU_FAILS(cudaStreamCreate(NULL), cudaErrorInvalidValue);
	CU_FAILS(cudaStreamDestroy(0), cudaErrorInvalidResourceHandle);
	CU(cudaStreamDestroy(s));
	CU(cudaStreamDestroy(low));
	CU_MISUSE(cudaStreamSynchronize((cudaStream_t)&least), cudaErrorInvalidResourceHandle,
		  "invalid stream");
}

/* A handle can be that of a later stream; an identifier cannot. */
CH_TEST(a_stream_has_an_id_for_ever)
{
	unsigned long long id[8], legacy, of_null, of_thread;
	cudaStream_t s;

	for (int i = 0; i < 8; i++) {
		CU(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
		CU(cudaStreamGetId(s, &id[i]));
		CU(cudaStreamDestroy(s));
		for (int k = 0; k < i; k++)
			ck_assert_uint_ne(id[i], id[k]);
	}
	CU(cudaStreamGetId(cudaStreamLegacy, &legacy));
	CU(cudaStreamGetId(NULL, &of_null));
	ck_assert_uint_eq(legacy, of_null);
	CU(cudaStreamGetId(cudaStreamPerThread, &of_thread));
	ck_assert_uint_ne(of_thread, legacy);
	CU_FAILS(cudaStreamGetId(NULL, NULL), cudaErrorInvalidValue);
}

#ifdef DOPPEL_FAKECUDA
enum { RUN_STREAMS = 3 };
static unsigned long long run_ids[RUN_STREAMS + 1]; /* the last: of the legacy stream */

static void run_ids_body(void)
{
	cudaStream_t s;

	for (int i = 0; i < RUN_STREAMS; i++) {
		CU(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
		CU(cudaStreamGetId(s, &run_ids[i]));
		CU(cudaStreamDestroy(s));
	}
	CU(cudaStreamGetId(cudaStreamLegacy, &run_ids[RUN_STREAMS]));
}

/* They are in what a run records, and a run is the same whatever its process has run before. */
START_TEST(ids_of_streams_count_from_the_start_of_a_run)
{
	const enum sim_engine engine = _i == 1 ? SIM_ENGINE_THREADS : SIM_ENGINE_SIM;
	const struct ch_world w = {.hosts = 1};
	unsigned long long first[RUN_STREAMS + 1];

	ch_run_once(engine, 1, &w, run_ids_body);
	memcpy(first, run_ids, sizeof first);
	memset(run_ids, 0, sizeof run_ids);
	ch_run_once(engine, 1, &w, run_ids_body);
	for (int i = 0; i <= RUN_STREAMS; i++)
		ck_assert_uint_eq(run_ids[i], first[i]);
	ck_assert_uint_gt(first[0], 0);
}
END_TEST
#endif

/* A callback runs as a task: it may wait, and others run meanwhile. */
static void slow_callback(void *arg)
{
	os_sleep_ns(100000);
	log_host_func(arg);
}

CH_TEST(callback_may_sleep)
{
	cudaStream_t a = stream_new(cudaStreamNonBlocking), b = stream_new(cudaStreamNonBlocking);

	log_open();
	CU(cudaLaunchHostFunc(a, slow_callback, (void *)1));
	log_note(a, 2, NULL);
	log_note(b, 3, log_gate());
	CU(cudaStreamSynchronize(a));
	log_expect(2, (uint64_t[]){1, 2});
	gate_open();
	CU(cudaStreamSynchronize(b));
	CU(cudaStreamDestroy(a));
	CU(cudaStreamDestroy(b));
	CU(cudaFreeHost(order_log));
	CU_FAILS(cudaLaunchHostFunc(0, NULL, NULL), cudaErrorInvalidValue);
}

/* ---- explaining ----------------------------------------------------------------------------- */

static void hang_body(void)
{
	cudaStream_t s = stream_new(cudaStreamNonBlocking);

	log_open();
	log_note(s, 1, log_gate());
	CU(cudaStreamSynchronize(s));
}

static void hang_main(void *arg)
{
	(void)arg;
	hang_body();
}

static void hang_child(void)
{
	const struct sim_config config = {.engine = SIM_ENGINE_SIM, .seed = 1};
	const struct world_config world = {.hosts = 1, .machine = "a100-4nic", .warp_width = 1};

	if (sim_start(&config) || world_create(&world))
		_exit(1);
	_exit(sim_run(hang_main, NULL));
}

START_TEST(a_kernel_that_waits_for_ever_is_explained)
{
	char text[16384];
	int rc = ch_child(hang_child, text, sizeof text);

	ck_assert_msg(rc == SIM_NO_PROGRESS, "exit %d: %s", rc, text);
	ck_assert_msg(strstr(text, "cudaStreamSynchronize stream 1 of gpu 0") != NULL, "%s", text);
	ck_assert_msg(strstr(text, "word of the test") != NULL, "%s", text);
	ck_assert_msg(strstr(text, "gpu0 k1 b0 w0") != NULL, "%s", text);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("stream");

	CH_ADD(t, one_stream_keeps_order);
	CH_ADD(t, streams_run_side_by_side);
	CH_ADD(t, legacy_stream_waits_for_blocking_streams);
	CH_ADD(t, blocking_streams_wait_for_the_legacy_stream);
	CH_ADD(t, non_blocking_streams_ignore_the_legacy_stream);
	CH_ADD(t, legacy_streams_of_two_gpus_are_independent);
	CH_ADD(t, each_task_has_its_own_per_thread_stream);
	CH_ADD(t, the_per_thread_stream_waits_for_the_legacy_stream_and_stays);
	CH_ADD(t, a_stream_tells_whether_it_captures);
	CH_ADD(t, the_legacy_stream_cannot_capture_nor_tell_beside_a_blocking_one_that_does);
	CH_ADD(t, each_task_has_a_capture_mode);
	CH_ADD(t, stream_properties);
	CH_ADD(t, a_stream_has_an_id_for_ever);
#ifdef DOPPEL_FAKECUDA
	CH_ADD(t, ids_of_streams_count_from_the_start_of_a_run);
#endif
	CH_ADD(t, callback_may_sleep);
	tcase_add_test(t, a_kernel_that_waits_for_ever_is_explained);
	return ch_suite_run("cuda stream", t);
}
