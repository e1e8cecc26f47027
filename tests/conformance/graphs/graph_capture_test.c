/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures of streams: their beginning and end, streams that join them, and what they record. */
#include "graph_cases.h"

/* ---- begin and end -------------------------------------------------------------------------- */

static void the_legacy_stream_cannot_capture(void)
{
	IS(cudaErrorStreamCaptureUnsupported, begin(NULL));
	IS(cudaErrorStreamCaptureUnsupported, begin(cudaStreamLegacy));
}

static void the_stream_of_a_thread_can_capture(void)
{
	cudaGraph_t g = NULL;

	OK(begin(cudaStreamPerThread));
	IS(cudaStreamCaptureStatusActive, status(cudaStreamPerThread));
	OK(cudaStreamEndCapture(cudaStreamPerThread, &g));
	OK(cudaGraphDestroy(g));
}

static void a_second_begin_is_refused_and_harms_nothing(void)
{
	OK(begin(now.a));
	IS(cudaErrorIllegalState, begin(now.a));
	IS(cudaStreamCaptureStatusActive, status(now.a));
}

static void an_unknown_mode_is_refused(void)
{
	IS(cudaErrorInvalidValue, cudaStreamBeginCapture(now.a, (enum cudaStreamCaptureMode)7));
	IS(cudaStreamCaptureStatusNone, status(now.a));
}

static void an_end_without_a_capture_is_refused(void)
{
	cudaGraph_t g = NULL;

	IS(cudaErrorIllegalState, cudaStreamEndCapture(now.a, &g));
}

static void an_end_without_a_place_for_the_graph_ends_the_capture(void)
{
	OK(begin(now.a));
	OK(cudaStreamEndCapture(now.a, NULL));
	IS(cudaStreamCaptureStatusNone, status(now.a));
}

static void *end_in_a(void *arg)
{
	cudaGraph_t g = (cudaGraph_t)(size_t)8;

	*(cudaError_t *)arg = cudaStreamEndCapture(now.a, &g);
	if (*(cudaError_t *)arg)
		IS(0, (size_t)g);
	else
		OK(cudaGraphDestroy(g));
	return NULL;
}

static void an_end_by_another_thread_ends_the_capture_without_a_graph(void)
{
	cudaError_t rc = cudaSuccess;
	cudaGraph_t g = NULL;

	OK(begin(now.a));
	in_thread(end_in_a, &rc);
	IS(cudaErrorStreamCaptureWrongThread, rc);
	IS(cudaStreamCaptureStatusNone, status(now.a));
	IS(cudaErrorIllegalState, cudaStreamEndCapture(now.a, &g));
}

static void any_thread_may_end_a_relaxed_capture(void)
{
	cudaError_t rc = cudaErrorUnknown;

	OK(cudaStreamBeginCapture(now.a, cudaStreamCaptureModeRelaxed));
	in_thread(end_in_a, &rc);
	OK(rc);
	IS(cudaStreamCaptureStatusNone, status(now.a));
}

static void a_capture_may_add_to_a_graph(void)
{
	cudaGraph_t g = NULL, same = NULL;
	cudaGraphNode_t first;
	size_t edges = 0;

	OK(cudaGraphCreate(&g, 0));
	first = add_host(g, NULL, add_one, 0);
	OK(cudaStreamBeginCaptureToGraph(now.a, g, &first, NULL, 1, cudaStreamCaptureModeGlobal));
	OK(host(now.a));
	OK(cudaStreamEndCapture(now.a, &same));
	IS(1, same == g);
	IS(2, node_count(g));
	OK(cudaGraphGetEdges(g, NULL, NULL, NULL, &edges));
	IS(1, edges);
	OK(cudaGraphDestroy(g));
}

/* ---- other streams -------------------------------------------------------------------------- */

static void a_forked_stream_must_be_joined(void)
{
	cudaGraph_t g = (cudaGraph_t)(size_t)8;

	OK(begin(now.a));
	fork_b();
	IS(cudaStreamCaptureStatusActive, status(now.b));
	OK(host(now.b));
	IS(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(now.a, &g));
	IS(0, (size_t)g);
	IS(cudaStreamCaptureStatusNone, status(now.a));
	IS(cudaStreamCaptureStatusNone, status(now.b));
}

static void work_after_the_join_is_unjoined(void)
{
	cudaGraph_t g = NULL;

	OK(begin(now.a));
	fork_b();
	OK(host(now.b));
	OK(cudaEventRecord(now.f, now.b));
	OK(host(now.b));
	OK(cudaStreamWaitEvent(now.a, now.f, 0));
	IS(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(now.a, &g));
}

static void a_forked_stream_without_work_needs_no_join(void)
{
	cudaGraph_t g = NULL;

	OK(begin(now.a));
	OK(host(now.a));
	fork_b();
	OK(cudaStreamEndCapture(now.a, &g));
	IS(cudaStreamCaptureStatusNone, status(now.b));
	OK(cudaGraphDestroy(g));
}

static void a_joined_stream_leaves_the_capture_at_its_end(void)
{
	cudaGraph_t g = NULL;

	OK(begin(now.a));
	fork_b();
	OK(host(now.b));
	join_b();
	OK(cudaStreamEndCapture(now.a, &g));
	IS(cudaStreamCaptureStatusNone, status(now.b));
	IS(1, node_count(g));
	OK(host(now.b));
	OK(cudaGraphDestroy(g));
}

static void work_of_a_destroyed_stream_stays_unjoined(void)
{
	cudaGraph_t g = NULL;

	OK(begin(now.a));
	OK(host(now.a));
	fork_b();
	OK(host(now.b));
	OK(cudaStreamDestroy(now.b));
	OK(cudaStreamCreateWithFlags(&now.b, cudaStreamNonBlocking));
	IS(cudaStreamCaptureStatusActive, status(now.a));
	IS(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(now.a, &g));
}

static void only_the_first_stream_ends_a_capture(void)
{
	cudaGraph_t g = (cudaGraph_t)(size_t)8;

	OK(begin(now.a));
	fork_b();
	IS(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(now.b, &g));
	IS(0, (size_t)g);
	IS(cudaStreamCaptureStatusInvalidated, status(now.a));
	IS(cudaStreamCaptureStatusInvalidated, status(now.b));
	IS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(now.a, &g));
	IS(cudaStreamCaptureStatusNone, status(now.b));
}

static void two_captures_do_not_merge(void)
{
	OK(begin(now.a));
	OK(host(now.a));
	OK(cudaEventRecord(now.e, now.a));
	OK(begin(now.b));
	IS(cudaErrorStreamCaptureMerge, cudaStreamWaitEvent(now.b, now.e, 0));
	IS(cudaStreamCaptureStatusInvalidated, status(now.a));
	IS(cudaStreamCaptureStatusInvalidated, status(now.b));
}

static void a_capture_does_not_wait_for_work_outside(void)
{
	OK(cudaEventRecord(now.e, now.b));
	OK(cudaStreamSynchronize(now.b));
	OK(begin(now.a));
	IS(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(now.a, now.e, 0));
	IS(cudaStreamCaptureStatusInvalidated, status(now.a));
}

static void an_event_that_was_never_recorded_does_not_matter(void)
{
	cudaGraph_t g = NULL;

	OK(begin(now.a));
	OK(cudaStreamWaitEvent(now.a, now.e, 0));
	OK(cudaStreamEndCapture(now.a, &g));
	IS(0, node_count(g));
	OK(cudaGraphDestroy(g));
}

/* ---- events --------------------------------------------------------------------------------- */

static void a_captured_event_cannot_be_queried(void)
{
	cudaGraph_t g = NULL;

	OK(cudaStreamBeginCapture(now.a, cudaStreamCaptureModeRelaxed));
	OK(host(now.a));
	OK(cudaEventRecord(now.e, now.a));
	IS(cudaErrorCapturedEvent, cudaEventQuery(now.e));
	IS(cudaStreamCaptureStatusInvalidated, status(now.a));
	IS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(now.a, &g));
}

static void a_captured_event_cannot_be_waited_for(void)
{
	OK(cudaStreamBeginCapture(now.a, cudaStreamCaptureModeRelaxed));
	OK(cudaEventRecord(now.e, now.a));
	IS(cudaErrorCapturedEvent, cudaEventSynchronize(now.e));
	IS(cudaStreamCaptureStatusInvalidated, status(now.a));
}

static void an_event_of_an_ended_capture_is_invalid_until_it_is_recorded(void)
{
	cudaGraph_t g = NULL;

	OK(begin(now.a));
	OK(host(now.a));
	OK(cudaEventRecord(now.e, now.a));
	OK(cudaStreamEndCapture(now.a, &g));
	IS(cudaErrorInvalidValue, cudaEventQuery(now.e));
	IS(cudaErrorInvalidValue, cudaEventSynchronize(now.e));
	IS(cudaErrorInvalidValue, cudaStreamWaitEvent(now.b, now.e, 0));
	IS(cudaStreamCaptureStatusNone, status(now.b));
	OK(begin(now.b));
	IS(cudaErrorInvalidValue, cudaStreamWaitEvent(now.b, now.e, 0));
	IS(cudaStreamCaptureStatusInvalidated, status(now.b));
	(void)cudaStreamEndCapture(now.b, NULL);
	OK(cudaEventRecord(now.e, now.b));
	OK(cudaEventSynchronize(now.e));
	OK(cudaGraphDestroy(g));
}

static void external_events_need_a_capture(void)
{
	IS(cudaErrorIllegalState, cudaEventRecordWithFlags(now.e, now.a, cudaEventRecordExternal));
	IS(cudaErrorIllegalState, cudaStreamWaitEvent(now.a, now.e, cudaEventWaitExternal));
	OK(cudaEventRecordWithFlags(now.e, now.a, cudaEventRecordDefault));
	IS(cudaErrorInvalidValue, cudaEventRecordWithFlags(now.e, now.a, 2));
	IS(cudaErrorInvalidValue, cudaStreamWaitEvent(now.a, now.e, 2));
}

static void external_events_become_nodes(void)
{
	cudaGraph_t g = NULL;
	cudaGraphExec_t x;

	OK(begin(now.a));
	OK(cudaStreamWaitEvent(now.a, now.e, cudaEventWaitExternal));
	OK(cudaEventRecordWithFlags(now.e, now.a, cudaEventRecordExternal));
	IS(cudaErrorInvalidValue, cudaEventRecordWithFlags(now.e, now.a, 2));
	OK(cudaStreamEndCapture(now.a, &g));
	IS(2, node_count(g));
	IS(cudaGraphNodeTypeWaitEvent, node_type(g, 0));
	IS(cudaGraphNodeTypeEventRecord, node_type(g, 1));
	OK(cudaEventQuery(now.e));
	x = exec_of(g);
	OK(cudaGraphDestroy(g));
	OK(cudaGraphLaunch(x, now.a));
	OK(cudaEventSynchronize(now.e));
	OK(cudaStreamSynchronize(now.a));
	OK(cudaGraphExecDestroy(x));
}

/* ---- what a capture has --------------------------------------------------------------------- */

static size_t dependencies(cudaStream_t s, cudaGraph_t *g)
{
	enum cudaStreamCaptureStatus st = cudaStreamCaptureStatusNone;
	unsigned long long id = 0;
	const cudaGraphNode_t *nodes = NULL;
	size_t n = 99;

	OK(cudaStreamGetCaptureInfo(s, &st, &id, g, &nodes, NULL, &n));
	IS(cudaStreamCaptureStatusActive, st);
	IS(1, id != 0);
	return n;
}

static void calls_become_nodes_of_their_type(void)
{
	cudaGraph_t g = NULL, seen = NULL;
	size_t edges = 0;

	OK(begin(now.a));
	IS(0, dependencies(now.a, &seen));
	OK(host(now.a));
	OK(cudaMemcpyAsync(now.dev, now.pinned, 4, cudaMemcpyHostToDevice, now.a));
	OK(cudaMemsetAsync(now.dev, 1, 4, now.a));
	OK(cudaMemcpyAsync(now.dev, now.pinned, 0, cudaMemcpyHostToDevice, now.a));
	IS(1, dependencies(now.a, &seen));
	OK(cudaStreamEndCapture(now.a, &g));
	IS(1, seen == g);
	IS(3, node_count(g));
	OK(cudaGraphGetEdges(g, NULL, NULL, NULL, &edges));
	IS(2, edges);
	IS(cudaGraphNodeTypeHost, node_type(g, 0));
	IS(cudaGraphNodeTypeMemcpy, node_type(g, 1));
	IS(cudaGraphNodeTypeMemset, node_type(g, 2));
	OK(cudaGraphDestroy(g));
}

static void waits_add_dependencies(void)
{
	cudaGraph_t g = NULL;
	size_t edges = 0;

	OK(begin(now.a));
	OK(host(now.a));
	OK(cudaEventRecord(now.e, now.a));
	OK(cudaStreamWaitEvent(now.a, now.e, 0));
	IS(1, dependencies(now.a, &g));
	OK(host(now.a));
	OK(cudaStreamWaitEvent(now.a, now.e, 0));
	IS(2, dependencies(now.a, &g));
	OK(host(now.a));
	OK(cudaStreamEndCapture(now.a, &g));
	OK(cudaGraphGetEdges(g, NULL, NULL, NULL, &edges));
	IS(3, edges);
	OK(cudaGraphDestroy(g));
}

static void dependencies_can_be_changed(void)
{
	cudaGraph_t g = NULL;
	cudaGraphNode_t n = NULL;

	OK(begin(now.a));
	OK(host(now.a));
	(void)dependencies(now.a, &g);
	OK(cudaGraphAddEmptyNode(&n, g, NULL, 0));
	OK(cudaStreamUpdateCaptureDependencies(now.a, &n, NULL, 1,
					       cudaStreamAddCaptureDependencies));
	IS(2, dependencies(now.a, &g));
	OK(cudaStreamUpdateCaptureDependencies(now.a, &n, NULL, 1,
					       cudaStreamSetCaptureDependencies));
	IS(1, dependencies(now.a, &g));
	OK(cudaStreamUpdateCaptureDependencies(now.a, NULL, NULL, 0,
					       cudaStreamSetCaptureDependencies));
	IS(0, dependencies(now.a, &g));
	IS(cudaErrorInvalidValue, cudaStreamUpdateCaptureDependencies(now.a, &n, NULL, 1, 7));
	IS(cudaErrorIllegalState, cudaStreamUpdateCaptureDependencies(now.b, &n, NULL, 1, 0));
	OK(cudaStreamEndCapture(now.a, &g));
	IS(2, node_count(g));
	OK(cudaGraphDestroy(g));
}

/* Captures in a, and in b before a node of the program. With `more` also after it. */
static cudaError_t capture_before_node(int more)
{
	cudaGraph_t g = NULL, ended = NULL;
	cudaGraphNode_t n = NULL;

	OK(begin(now.a));
	OK(host(now.a));
	fork_b();
	OK(host(now.b));
	(void)dependencies(now.a, &g);
	OK(cudaGraphAddEmptyNode(&n, g, NULL, 0));
	OK(cudaStreamUpdateCaptureDependencies(now.b, &n, NULL, 1,
					       cudaStreamSetCaptureDependencies));
	if (more)
		OK(host(now.b));
	cudaError_t rc = cudaStreamEndCapture(now.a, &ended);
	if (!rc) {
		IS(3, node_count(ended));
		OK(cudaGraphDestroy(ended));
	}
	return rc;
}

/* NCCL ends its use of a stream with a node that records an event. */
static void node_of_the_program_needs_no_join(void)
{
	IS(cudaSuccess, capture_before_node(0));
	IS(cudaErrorStreamCaptureUnjoined, capture_before_node(1));
}

static void wrong_arguments_do_not_invalidate(void)
{
	OK(begin(now.a));
	IS(cudaErrorInvalidValue,
	   cudaMemcpyAsync(NULL, now.pinned, 4, cudaMemcpyHostToDevice, now.a));
	IS(cudaErrorInvalidMemcpyDirection,
	   cudaMemcpyAsync(now.dev, now.pinned, 4, (enum cudaMemcpyKind)9, now.a));
	IS(cudaErrorInvalidValue, cudaLaunchHostFunc(now.a, NULL, NULL));
	IS(cudaStreamCaptureStatusActive, status(now.a));
}

static const struct graph_case cases[] = {
	CASE(the_legacy_stream_cannot_capture),
	CASE(the_stream_of_a_thread_can_capture),
	CASE(a_second_begin_is_refused_and_harms_nothing),
	CASE(an_unknown_mode_is_refused),
	CASE(an_end_without_a_capture_is_refused),
	CASE(an_end_without_a_place_for_the_graph_ends_the_capture),
	CASE_THREADS(an_end_by_another_thread_ends_the_capture_without_a_graph),
	CASE_THREADS(any_thread_may_end_a_relaxed_capture),
	CASE(a_capture_may_add_to_a_graph),
	CASE(a_forked_stream_must_be_joined),
	CASE(work_after_the_join_is_unjoined),
	CASE(a_forked_stream_without_work_needs_no_join),
	CASE(a_joined_stream_leaves_the_capture_at_its_end),
	CASE(work_of_a_destroyed_stream_stays_unjoined),
	CASE(node_of_the_program_needs_no_join),
	CASE(only_the_first_stream_ends_a_capture),
	CASE(two_captures_do_not_merge),
	CASE(a_capture_does_not_wait_for_work_outside),
	CASE(an_event_that_was_never_recorded_does_not_matter),
	CASE(a_captured_event_cannot_be_queried),
	CASE(a_captured_event_cannot_be_waited_for),
	CASE(an_event_of_an_ended_capture_is_invalid_until_it_is_recorded),
	CASE(external_events_need_a_capture),
	CASE(external_events_become_nodes),
	CASE(calls_become_nodes_of_their_type),
	CASE(waits_add_dependencies),
	CASE(dependencies_can_be_changed),
	CASE(wrong_arguments_do_not_invalidate),
};

int main(int argc, char **argv)
{
	return cases_main(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
