/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels and callbacks that append numbers to a log, which shows their order; a gate for which
 * kernels wait. Used by cuda_stream_test.c and cuda_event_test.c.
 */
#ifndef TESTS_CONFORMANCE_CUDA_CUDA_STREAM_LOG_H
#define TESTS_CONFORMANCE_CUDA_CUDA_STREAM_LOG_H

#include "tests/conformance/cuda/cuda_harness.h"

#define LOG_MAX 64

/* Pinned: [0] how many, then the numbers. */
static shared_u64 *order_log;

struct note_args {
	uint64_t gate, want; /* waits first, when there is a gate */
	uint64_t log, number;
};

CH_KERNEL(note, 0)
{
	if (a->gate && !ch_wait_word(d, a->gate, a->want))
		return;
	uint64_t at =
		fakedev_add(d, (void *)(uintptr_t)a->log, 8, 1, SHARED_ACQ_REL, SHARED_SYSTEM);
	fakedev_store(d, (void *)(uintptr_t)(a->log + 8 * (at + 1)), 8, a->number, SHARED_RELEASE,
		      SHARED_SYSTEM);
}

static inline void log_note(cudaStream_t s, uint64_t number, shared_u64 *gate)
{
	struct note_args a = {(uintptr_t)gate, 1, (uintptr_t)order_log, number};

	CU(ch_launch_on(&note_w1, 1, 1, &a, s));
}

static inline void log_host_func(void *arg)
{
	uint64_t at = shared_add_u64(order_log, 1, SHARED_ACQ_REL);

	shared_store_u64(&order_log[at + 1], (uintptr_t)arg, SHARED_RELEASE);
}

static inline void log_expect(int n, const uint64_t *numbers)
{
	ck_assert_uint_eq(shared_load_u64(order_log, SHARED_ACQUIRE), (uint64_t)n);
	for (int i = 0; i < n; i++)
		ck_assert_uint_eq(shared_load_u64(&order_log[i + 1], SHARED_ACQUIRE), numbers[i]);
}

static inline void log_open(void)
{
	order_log = ch_pinned((LOG_MAX + 2) * 8);
}

/* The word after the log is the gate that tests use. */
static inline shared_u64 *log_gate(void)
{
	return &order_log[LOG_MAX + 1];
}

static inline void gate_open(void)
{
	shared_store_u64(log_gate(), 1, SHARED_RELEASE);
}

static inline cudaStream_t stream_new(unsigned flags)
{
	cudaStream_t s;

	CU(cudaStreamCreateWithFlags(&s, flags));
	return s;
}

static inline cudaEvent_t event_new(unsigned flags)
{
	cudaEvent_t e;

	CU(cudaEventCreateWithFlags(&e, flags));
	return e;
}

#endif
