/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random programs of streams, events, kernels and callbacks on two GPUs, held against CUDA's
 * ordering rules. Each kernel and callback appends its number to a log; a model keeps, for every
 * stream and event, the set of those that must have run before what comes next. Rules: operations
 * of a stream run in order; an operation of the legacy stream waits for all before it in the
 * blocking streams of its GPU, and they for it; a stream wait is for the record that was the latest
 * when it was made.
 */
#include "tests/conformance/cuda/cuda_harness.h"

enum { STREAMS = 10, EVENTS = 4, NOTES = 64, STEPS = 160, PROGRAMS = 6 };

struct model {
	cudaStream_t stream[STREAMS]; /* 5 a GPU: legacy, 2 blocking, 2 non-blocking */
	uint64_t before[STREAMS];     /* notes that precede the stream's next operation */
	cudaEvent_t event[EVENTS];    /* 2 a GPU */
	uint64_t event_before[EVENTS];
	uint64_t note_before[NOTES];
	uint32_t notes;
	shared_u64 *log; /* pinned: count, then numbers */
};
static struct model model;

struct note_args {
	uint64_t log, number;
};

/* Takes its time before it notes, so that what should wait has something to wait for. */
CH_KERNEL(note, 0)
{
	os_sleep_ns(a->number * 2654435761u % 30000);
	uint64_t at =
		fakedev_add(d, (void *)(uintptr_t)a->log, 8, 1, SHARED_ACQ_REL, SHARED_SYSTEM);
	fakedev_store(d, (void *)(uintptr_t)(a->log + 8 * (at + 1)), 8, a->number, SHARED_RELEASE,
		      SHARED_SYSTEM);
}

static void note_host(void *arg)
{
	os_sleep_ns((uintptr_t)arg * 2654435761u % 30000);
	uint64_t at = shared_add_u64(model.log, 1, SHARED_ACQ_REL);

	shared_store_u64(&model.log[at + 1], (uintptr_t)arg, SHARED_RELEASE);
}

static int stream_gpu(uint32_t s)
{
	return s >= STREAMS / 2;
}

static uint32_t stream_kind(uint32_t s) /* 0 legacy, 1 and 2 blocking, 3 and 4 not */
{
	return s % (STREAMS / 2);
}

static void model_start(void)
{
	model = (struct model){0};
	model.log = ch_pinned((NOTES + 1) * 8);
	for (uint32_t s = 0; s < STREAMS; s++) {
		unsigned flags = stream_kind(s) > 2 ? cudaStreamNonBlocking : cudaStreamDefault;

		CU(cudaSetDevice(stream_gpu(s)));
		if (stream_kind(s))
			CU(cudaStreamCreateWithFlags(&model.stream[s], flags));
	}
	for (uint32_t e = 0; e < EVENTS; e++) {
		CU(cudaSetDevice(e >= EVENTS / 2));
		CU(cudaEventCreateWithFlags(&model.event[e], cudaEventDisableTiming));
	}
}

/* The operations for which a new operation in stream s must wait. */
static uint64_t model_before(uint32_t s)
{
	uint32_t legacy = (uint32_t)stream_gpu(s) * (STREAMS / 2);
	uint64_t before = model.before[s];

	if (stream_kind(s) == 0)
		before |= model.before[s + 1] | model.before[s + 2];
	else if (stream_kind(s) < 3)
		before |= model.before[legacy];
	return before;
}

static void step_note(uint32_t s, bool callback)
{
	uint32_t n = model.notes++;
	struct note_args a = {(uintptr_t)model.log, n};

	if (callback)
		CU(cudaLaunchHostFunc(model.stream[s], note_host, (void *)(uintptr_t)n));
	else
		CU(ch_launch_on(&note_w1, 1, 1, &a, model.stream[s]));
	model.note_before[n] = model_before(s);
	model.before[s] = model.note_before[n] | 1ull << n;
}

static void step_record(uint32_t s, uint32_t e)
{
	CU(cudaEventRecord(model.event[e], model.stream[s]));
	model.event_before[e] = model.before[s] = model_before(s);
}

static void step_wait(uint32_t s, uint32_t e)
{
	CU(cudaStreamWaitEvent(model.stream[s], model.event[e], 0));
	/* The wait is an operation of the stream, with the legacy rule, only while the event is not
	 * complete; the model may not count on it. */
	model.before[s] |= model.event_before[e];
}

static void step_random(struct sim_rng *r)
{
	uint32_t s = (uint32_t)sim_rng_below(r, STREAMS);
	uint32_t e = (uint32_t)sim_rng_below(r, EVENTS / 2);
	uint32_t what = (uint32_t)sim_rng_below(r, 10);

	CU(cudaSetDevice(stream_gpu(s)));
	if (what < 5 && model.notes < NOTES)
		step_note(s, what == 0);
	else if (what < 7)
		step_record(s, e + (stream_gpu(s) ? EVENTS / 2 : 0));
	else if (what < 9)
		step_wait(s, (uint32_t)sim_rng_below(r, EVENTS));
	else
		os_sleep_ns(sim_rng_below(r, 20000));
}

static void model_check(void)
{
	uint64_t done = 0;

	ck_assert_uint_eq(shared_load_u64(model.log, SHARED_ACQUIRE), model.notes);
	for (uint32_t i = 0; i < model.notes; i++) {
		uint64_t n = shared_load_u64(&model.log[i + 1], SHARED_ACQUIRE);
		uint64_t missing = model.note_before[n] & ~done;

		ck_assert_msg(!missing, "note %llu ran before %d", (unsigned long long)n,
			      missing ? __builtin_ctzll(missing) : -1);
		done |= 1ull << n;
	}
}

static void model_end(void)
{
	for (int gpu = 0; gpu < 2; gpu++) {
		CU(cudaSetDevice(gpu));
		CU(cudaDeviceSynchronize());
	}
	model_check();
	for (uint32_t s = 0; s < STREAMS; s++) {
		if (stream_kind(s))
			CU(cudaStreamDestroy(model.stream[s]));
	}
	for (uint32_t e = 0; e < EVENTS; e++)
		CU(cudaEventDestroy(model.event[e]));
	CU(cudaFreeHost(model.log));
}

CH_TEST(random_programs_keep_the_rules)
{
	for (int program = 0; program < PROGRAMS; program++) {
		struct sim_rng r;
		char name[32];

		snprintf(name, sizeof name, "order test %d", program);
		sim_rng_init(&r, name);
		model_start();
		for (int i = 0; i < STEPS; i++)
			step_random(&r);
		model_end();
	}
}

int main(void)
{
	TCase *t = tcase_create("order");

	CH_ADD(t, random_programs_keep_the_rules);
	return ch_suite_run("cuda order", t);
}
