/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Captures of which several are under way: each launch follows the launches before it in its own
 * capture, in whatever streams, and no event of one capture is used in another. The double has no
 * graphs, so CUDA's calls are wrapped here by a model: a stream and an event have the launches that
 * come before them.
 */
#include <check.h>

#include "core/plan/plan_internal.h"
#include "core/rank/rank.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define STREAMS 4
#define EVENTS  64 /* PLAN_MARKS of capture.c */

struct CUstream_st {
	unsigned long long capture;
	uint64_t before; /* a bit for each launch */
};

struct CUevent_st {
	unsigned long long capture; /* of the last record */
	uint64_t before;
	bool lives;
};

static struct model {
	struct CUstream_st stream[STREAMS];
	struct CUevent_st event[EVENTS];
	uint32_t events, foreign; /* foreign: uses of an event in another capture */
	uint32_t external_waits, external_records;
} model;

/* ---- CUDA ------------------------------------------------------------------------------------ */

cudaError_t __wrap_cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t __wrap_cudaEventDestroy(cudaEvent_t event);
cudaError_t __wrap_cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t __wrap_cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags);
cudaError_t __wrap_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t __wrap_cudaStreamGetCaptureInfo(cudaStream_t stream,
					    enum cudaStreamCaptureStatus *status,
					    unsigned long long *id, cudaGraph_t *graph,
					    const cudaGraphNode_t **nodes,
					    const cudaGraphEdgeData **edges, size_t *n);

cudaError_t __wrap_cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
	(void)flags;
	EXPECT(model.events < EVENTS);
	*event = &model.event[model.events++];
	(*event)->lives = true;
	return cudaSuccess;
}

cudaError_t __wrap_cudaEventDestroy(cudaEvent_t event)
{
	EXPECT(event->lives);
	event->lives = false;
	return cudaSuccess;
}

cudaError_t __wrap_cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	EXPECT(event->lives);
	event->capture = stream->capture;
	event->before = stream->before;
	return cudaSuccess;
}

cudaError_t __wrap_cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
	(void)event;
	EXPECT(flags == cudaEventRecordExternal && stream->capture);
	model.external_records++;
	return cudaSuccess;
}

cudaError_t __wrap_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
	if (flags & cudaEventWaitExternal) {
		model.external_waits++;
		return cudaSuccess;
	}
	EXPECT(event->lives);
	if (event->capture != stream->capture)
		model.foreign++;
	stream->before |= event->before;
	return cudaSuccess;
}

cudaError_t __wrap_cudaStreamGetCaptureInfo(cudaStream_t stream,
					    enum cudaStreamCaptureStatus *status,
					    unsigned long long *id, cudaGraph_t *graph,
					    const cudaGraphNode_t **nodes,
					    const cudaGraphEdgeData **edges, size_t *n)
{
	(void)nodes;
	(void)edges;
	(void)n;
	*status = stream->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
	*id = stream->capture;
	*graph = (cudaGraph_t)(uintptr_t)stream->capture;
	return cudaSuccess;
}

static uint32_t model_events_live(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < model.events; i++)
		n += model.event[i].lives;
	return n;
}

/* ---- the test -------------------------------------------------------------------------------- */

/* Launch `number` in a stream; `earlier`: the launches of its capture before it. */
static void launch(struct ncclComm *comm, struct plan_captures *all, uint32_t stream,
		   uint32_t number, uint64_t earlier)
{
	cudaStream_t s = &model.stream[stream];
	struct plan_capture capture;

	EXPECT_NCCL(ncclSuccess, plan_capture_of("launch", s, &capture));
	EXPECT(capture.id == s->capture);
	EXPECT_NCCL(ncclSuccess, plan_capture_order(comm, all, &capture, s));
	EXPECT((s->before & earlier) == earlier);
	s->before |= 1ull << number;
	EXPECT_NCCL(ncclSuccess, plan_capture_mark(comm, all, &capture, s));
}

/* Captures 7 and 9 alternate, each over two streams. Capture 7 ends, then comes capture 11. */
static void captures_rank(int32_t rank, int32_t nranks, void *arg)
{
	static const unsigned long long ids[STREAMS] = {7, 9, 7, 9};
	struct ncclComm comm = {.rank = rank};
	struct plan_captures all = {.used = false};
	uint64_t launched[2] = {0};

	(void)nranks;
	(void)arg;
	model = (struct model){.events = 0};
	for (uint32_t i = 0; i < STREAMS; i++)
		model.stream[i].capture = ids[i];
	for (uint32_t i = 0; i < 12; i++) {
		launch(&comm, &all, i % STREAMS, i, launched[i % 2]);
		launched[i % 2] |= 1ull << i;
	}
	EXPECT(all.used && !model.foreign);
	EXPECT(model.external_waits == 2 && model.external_records == 12);
	EXPECT(model_events_live() == 2);
	for (uint32_t i = 0; i < STREAMS; i += 2)
		model.stream[i] = (struct CUstream_st){.capture = 11};
	launch(&comm, &all, 0, 20, 0);
	launch(&comm, &all, 1, 21, launched[1]);
	launch(&comm, &all, 2, 22, 1ull << 20);
	EXPECT(!model.foreign && model_events_live() == 3);
	plan_captures_end(&all);
	EXPECT(model_events_live() == 0);
}

START_TEST(captures_that_alternate_keep_their_own_order)
{
	struct ranks_config config = {.per_host = 1, .seed = 1};

	ranks_run(&config, captures_rank, NULL);
}
END_TEST

/* Captures one after the other, more than there are events. Capture 5 goes on beside them. */
static void captures_many_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct ncclComm comm = {.rank = rank};
	struct plan_captures all = {.used = false};
	uint64_t launched = 0;

	(void)nranks;
	(void)arg;
	model = (struct model){.events = 0};
	model.stream[2].capture = model.stream[3].capture = 5;
	for (uint32_t i = 0; i < 4 * EVENTS; i++) {
		model.stream[0] = model.stream[1] = (struct CUstream_st){.capture = 100 + i};
		launch(&comm, &all, 0, 60, 0);
		launch(&comm, &all, 2 + i % 2, i % 60, launched);
		launched |= 1ull << i % 60;
		launch(&comm, &all, 1, 61, 1ull << 60);
	}
	EXPECT(!model.foreign && model_events_live() == EVENTS);
	EXPECT(model.external_waits == 4 * EVENTS + 1);
	plan_captures_end(&all);
	EXPECT(model_events_live() == 0);
}

START_TEST(captures_take_the_events_of_ended_ones)
{
	struct ranks_config config = {.per_host = 1, .seed = 1};

	ranks_run(&config, captures_many_rank, NULL);
}
END_TEST

/* A group whose streams are in two captures, or of which one is in none. */
static void streams_rank(int32_t rank, int32_t nranks, void *arg)
{
	static const struct {
		unsigned long long first, second;
		const char *words;
	} pairs[] = {
		{7, 9, "capture into two CUDA graphs, expected one graph for all streams"},
		{7, 0, "captures a CUDA graph and"},
		{0, 9, "captures a CUDA graph and"},
	};

	(void)rank;
	(void)nranks;
	(void)arg;
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		struct plan_streams s = {.n = 0};
		char words[64];

		model = (struct model){.events = 0};
		model.stream[0].capture = pairs[i].first;
		model.stream[1].capture = pairs[i].second;
		EXPECT_NCCL(ncclSuccess, plan_streams_add(&s, "first", &model.stream[0]));
		EXPECT_NCCL(ncclInvalidUsage, plan_streams_add(&s, "other", &model.stream[1]));
		EXPECT_ERROR_SAYS(pairs[i].words);
		snprintf(words, sizeof words, "%p captures",
			 (void *)&model.stream[pairs[i].first ? 0 : 1]);
		if (!pairs[i].first || !pairs[i].second)
			EXPECT_ERROR_SAYS(words);
		plan_streams_free(&s);
	}
}

START_TEST(streams_of_a_group_in_different_captures_are_refused_by_name)
{
	struct ranks_config config = {.per_host = 1, .seed = 1};

	ranks_run(&config, streams_rank, NULL);
}
END_TEST

/* ---- deadlines ------------------------------------------------------------------------------- */

/* A launch in a capture has no deadline: with one of its own it is refused. */
static void deadline_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct plan_task task = {.func = DEV_ALL_REDUCE};
	struct plan_state st = {.queue = &task, .queued = 1};
	struct ncclComm comm = {.timeout_ns = 1000000};
	struct plan p = {.stream = &model.stream[0], .taken = 1};

	(void)rank;
	(void)nranks;
	(void)arg;
	model = (struct model){.events = 0};
	p.capture.id = 7;
	EXPECT_NCCL(ncclSuccess, plan_timed_begin(&comm, &st, &p));
	EXPECT_NCCL(ncclSuccess, plan_timed_end(&comm, &st, &p));
	EXPECT_ERROR_SAYS("DOPPEL_TIMEOUT_MS: launches in CUDA graphs have no deadline");
	EXPECT(!model.events && !comm.timed.slot);
	task.options.timeout_ns = 1000000;
	EXPECT_NCCL(ncclInvalidUsage, plan_timed_begin(&comm, &st, &p));
	EXPECT_ERROR_SAYS("is captured in a CUDA graph, expected one outside of graphs");
	p.capture.id = 0;
	EXPECT_NCCL(ncclSuccess, plan_timed_begin(&comm, &st, &p));
	EXPECT_NCCL(ncclSuccess, plan_timed_end(&comm, &st, &p));
	EXPECT(model.events == 2 && shared_load_u64(&comm.timed.made, SHARED_RELAXED) == 1);
	rank_timed_free(&comm.timed);
}

START_TEST(a_deadline_in_a_capture_is_refused)
{
	struct ranks_config config = {.per_host = 1, .seed = 1};

	ranks_run(&config, deadline_rank, NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("capture_order");
	TCase *tc = tcase_create("capture_order");

	tcase_add_test(tc, captures_that_alternate_keep_their_own_order);
	tcase_add_test(tc, captures_take_the_events_of_ended_ones);
	tcase_add_test(tc, a_deadline_in_a_capture_is_refused);
	tcase_add_test(tc, streams_of_a_group_in_different_captures_are_refused_by_name);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
