/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of the GPU double: order between streams, times, and what is left when an event or a
 * process ends.
 */
#include "tests/conformance/cuda/cuda_stream_log.h"

CH_TEST(stream_waits_for_event_of_another_gpu)
{
	cudaStream_t a = stream_new(cudaStreamNonBlocking), b;
	cudaEvent_t e = event_new(cudaEventDisableTiming);

	log_open();
	log_note(a, 1, log_gate());
	CU(cudaEventRecord(e, a));
	CU(cudaSetDevice(1));
	b = stream_new(cudaStreamNonBlocking);
	CU(cudaStreamWaitEvent(b, e, 0));
	log_note(b, 2, NULL);
	os_sleep_ns(200000);
	log_expect(0, NULL);
	ck_assert_int_eq(cudaEventQuery(e), cudaErrorNotReady);
	gate_open();
	CU(cudaStreamSynchronize(b));
	log_expect(2, (uint64_t[]){1, 2});
	CU(cudaEventQuery(e));
	CU(cudaEventDestroy(e));
	CU(cudaStreamDestroy(a));
	CU(cudaStreamDestroy(b));
	CU(cudaFreeHost(order_log));
}

CH_TEST(event_means_the_record_before_the_call)
{
	cudaStream_t a = stream_new(cudaStreamNonBlocking), b = stream_new(cudaStreamNonBlocking);
	cudaEvent_t e = event_new(0);

	log_open();
	CU(cudaEventQuery(e)); /* never recorded: complete */
	CU(cudaEventSynchronize(e));
	CU(cudaStreamWaitEvent(b, e, 0));
	log_note(b, 1, NULL);
	CU(cudaStreamSynchronize(b));
	CU(cudaEventRecord(e, a));
	CU(cudaStreamWaitEvent(b, e, 0));
	log_note(a, 2, log_gate());
	CU(cudaEventRecord(e, a)); /* later than b's wait: does not hold b */
	log_note(b, 3, NULL);
	CU(cudaStreamSynchronize(b));
	log_expect(2, (uint64_t[]){1, 3});
	gate_open();
	CU(cudaEventSynchronize(e));
	log_expect(3, (uint64_t[]){1, 3, 2});
	CU(cudaEventDestroy(e));
	CU(cudaStreamDestroy(a));
	CU(cudaStreamDestroy(b));
	CU(cudaFreeHost(order_log));
}

CH_TEST(event_destroyed_in_flight_still_orders)
{
	cudaStream_t a = stream_new(cudaStreamNonBlocking), b = stream_new(cudaStreamNonBlocking);
	cudaEvent_t e = event_new(cudaEventDisableTiming);

	log_open();
	log_note(a, 1, log_gate());
	CU(cudaEventRecord(e, a));
	CU(cudaStreamWaitEvent(b, e, 0));
	CU(cudaEventDestroy(e));
	log_note(b, 2, NULL);
	CU(cudaStreamDestroy(b)); /* what is queued still runs */
	gate_open();
	CU(cudaDeviceSynchronize());
	log_expect(2, (uint64_t[]){1, 2});
	CU_MISUSE(cudaEventQuery(e), cudaErrorInvalidResourceHandle, "invalid event");
	CU_MISUSE(cudaStreamQuery(b), cudaErrorInvalidResourceHandle, "invalid stream");
	CU(cudaStreamDestroy(a));
	CU(cudaFreeHost(order_log));
}

/* The event's later recording, in another stream, is reached first: it frees no task that waits for
 * the earlier one. */
CH_TEST(an_earlier_record_is_not_passed_by_a_later_one)
{
	cudaStream_t a = stream_new(cudaStreamNonBlocking), b = stream_new(cudaStreamNonBlocking);
	cudaStream_t c = stream_new(cudaStreamNonBlocking);
	cudaEvent_t e = event_new(cudaEventDisableTiming);

	log_open();
	log_note(a, 1, log_gate());
	CU(cudaEventRecord(e, a));
	CU(cudaStreamWaitEvent(b, e, 0));
	CU(cudaEventRecord(e, c));
	log_note(b, 2, NULL);
	CU(cudaEventSynchronize(e)); /* the later one */
	CU(cudaStreamSynchronize(c));
	os_sleep_ns(200000);
	log_expect(0, NULL);
	gate_open();
	CU(cudaStreamSynchronize(b));
	log_expect(2, (uint64_t[]){1, 2});
	CU(cudaEventDestroy(e));
	CU(cudaStreamDestroy(a));
	CU(cudaStreamDestroy(b));
	CU(cudaStreamDestroy(c));
	CU(cudaFreeHost(order_log));
}

static void leaves_waits_behind(void *arg)
{
	cudaEvent_t e = event_new(cudaEventDisableTiming);
	cudaStream_t a = stream_new(cudaStreamNonBlocking), b;
	(void)arg;

	log_open();
	log_note(a, 1, log_gate());
	CU(cudaEventRecord(e, a));
	CU(cudaSetDevice(1));
	b = stream_new(cudaStreamNonBlocking);
	CU(cudaStreamWaitEvent(b, e, 0));
	log_note(b, 2, NULL);
	os_sleep_ns(100000);
}

CH_TEST(a_process_may_die_with_everything_queued)
{
	for (int i = 0; i < 3; i++) {
		struct os_proc *p = ch_proc(0, "victim");

		ch_in(p, leaves_waits_behind, NULL);
		world_proc_kill(p);
	}
}

CH_TEST(elapsed_time_counts_milliseconds)
{
	cudaStream_t s = stream_new(0);
	cudaEvent_t a = event_new(0), b = event_new(0), plain = event_new(cudaEventDisableTiming);
	float ms = -1;

	log_open();
	CU_FAILS(cudaEventElapsedTime(&ms, a, b), cudaErrorInvalidResourceHandle);
	CU(cudaEventRecord(a, s));
	log_note(s, 1, log_gate());
	CU(cudaEventRecord(b, s));
	CU(cudaEventRecord(plain, s));
	ck_assert_int_eq(cudaEventElapsedTime(&ms, a, b), cudaErrorNotReady);
	os_sleep_ns(2000000);
	gate_open();
	CU(cudaEventSynchronize(b));
	CU(cudaEventElapsedTime(&ms, a, b));
	ck_assert_msg(ms > 1.5f && ms < 1000, "%f ms", ms);
	CU(cudaStreamSynchronize(s));
	CU_FAILS(cudaEventElapsedTime(&ms, a, plain), cudaErrorInvalidResourceHandle);
	CU_FAILS(cudaEventElapsedTime(NULL, a, b), cudaErrorInvalidValue);
	CU(cudaEventDestroy(a));
	CU(cudaEventDestroy(b));
	CU(cudaEventDestroy(plain));
	CU(cudaStreamDestroy(s));
	CU(cudaFreeHost(order_log));
}

CH_TEST(event_of_another_gpu_cannot_be_recorded_here)
{
	cudaEvent_t e = event_new(0);

	CU(cudaSetDevice(1));
	CU_SAYS(cudaEventRecord(e, 0), cudaErrorInvalidResourceHandle,
		"gpu 0, the stream of gpu 1");
	CU(cudaEventDestroy(e));
	CU_FAILS(cudaEventCreateWithFlags(&e, 0x100), cudaErrorInvalidValue);
	CU_FAILS(cudaEventCreateWithFlags(&e, cudaEventInterprocess), cudaErrorInvalidValue);
}

int main(void)
{
	TCase *t = tcase_create("event");

	CH_ADD(t, stream_waits_for_event_of_another_gpu);
	CH_ADD(t, event_means_the_record_before_the_call);
	CH_ADD(t, event_destroyed_in_flight_still_orders);
	CH_ADD(t, an_earlier_record_is_not_passed_by_a_later_one);
	CH_ADD(t, a_process_may_die_with_everything_queued);
	CH_ADD(t, elapsed_time_counts_milliseconds);
	CH_ADD(t, event_of_another_gpu_cannot_be_recorded_here);
	return ch_suite_run("cuda event", t);
}
