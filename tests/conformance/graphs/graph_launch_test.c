/* SPDX-License-Identifier: BSD-3-Clause */
/* Launches of executable graphs: results, order, lifetime, updates. */
#include "graph_cases.h"

static cudaGraph_t new_graph(void)
{
	cudaGraph_t g = NULL;

	OK(cudaGraphCreate(&g, 0));
	return g;
}

static unsigned char dev_byte(size_t at)
{
	unsigned char v = 0;

	OK(cudaMemcpy(&v, now.dev + at, 1, cudaMemcpyDeviceToHost));
	return v;
}

/* Ends the capture in a and makes it executable. */
static cudaGraphExec_t end_exec(void)
{
	cudaGraph_t g = NULL;
	cudaGraphExec_t x;

	OK(cudaStreamEndCapture(now.a, &g));
	x = exec_of(g);
	OK(cudaGraphDestroy(g));
	return x;
}

/* ---- results -------------------------------------------------------------------------------- */

static void nothing_runs_before_the_launch(void)
{
	cudaGraphExec_t x;

	OK(begin(now.a));
	OK(host(now.a));
	x = end_exec();
	OK(cudaStreamSynchronize(now.a));
	IS(0, added());
	for (int k = 1; k <= 3; k++) {
		launch_and_wait(x, k & 1 ? now.b : now.a);
		IS(k, added());
	}
	OK(cudaGraphExecDestroy(x));
}

static void copies_and_fills_use_memory_as_of_the_launch(void)
{
	static unsigned char pageable[8];
	cudaGraphExec_t x;

	OK(begin(now.a));
	pageable[0] = 7;
	OK(cudaMemcpyAsync(now.dev, pageable, 1, cudaMemcpyHostToDevice, now.a));
	OK(cudaMemsetAsync(now.dev + 1, 5, 2, now.a));
	OK(cudaMemcpyAsync(now.pinned, now.dev, 3, cudaMemcpyDeviceToHost, now.a));
	x = end_exec();
	for (unsigned char k = 9; k < 12; k++) {
		pageable[0] = k;
		memset(now.pinned, 0, 3);
		launch_and_wait(x, now.a);
		IS(1, now.pinned[0] == k && now.pinned[1] == 5 && now.pinned[2] == 5);
	}
	OK(cudaGraphExecDestroy(x));
}

static void fills_have_units_and_rows(void)
{
	cudaGraph_t g = new_graph();
	struct cudaMemsetParams p;
	cudaGraphNode_t n;
	cudaGraphExec_t x;

	OK(cudaMemset(now.dev, 0, 64));
	memset(&p, 0, sizeof p);
	p.dst = now.dev;
	p.value = 0x1234;
	p.elementSize = 2;
	p.width = 3;
	p.height = 2;
	p.pitch = 16;
	OK(cudaGraphAddMemsetNode(&n, g, NULL, 0, &p));
	x = exec_of(g);
	launch_and_wait(x, now.a);
	for (size_t i = 0; i < 32; i++)
		IS(i % 16 >= 6 ? 0 : i % 2 ? 0x12 : 0x34, dev_byte(i));
	OK(cudaGraphExecDestroy(x));
	OK(cudaGraphDestroy(g));
}

static void a_child_graph_runs_in_its_place(void)
{
	cudaGraph_t g = new_graph(), child = new_graph();
	cudaGraphNode_t first = add_host(g, NULL, log_letter, 'a'), n = NULL;
	cudaGraphExec_t x;

	(void)add_host(child, add_host(child, NULL, log_letter, 'b'), log_letter, 'c');
	OK(cudaGraphAddChildGraphNode(&n, g, &first, 1, child));
	(void)add_host(g, n, log_letter, 'd');
	OK(cudaGraphDestroy(child));
	x = exec_of(g);
	OK(cudaGraphDestroy(g));
	launch_and_wait(x, now.a);
	IS(0, strcmp(now.log, "abcd"));
	OK(cudaGraphExecDestroy(x));
}

/* ---- order ---------------------------------------------------------------------------------- */

static void a_launch_is_ordered_in_its_stream(void)
{
	cudaGraphExec_t x;

	OK(begin(now.a));
	OK(cudaLaunchHostFunc(now.a, log_letter, (void *)'g'));
	fork_b();
	OK(cudaLaunchHostFunc(now.b, log_letter, (void *)'h'));
	join_b();
	x = end_exec();
	OK(cudaLaunchHostFunc(now.b, log_letter, (void *)'1'));
	OK(cudaGraphLaunch(x, now.b));
	OK(cudaLaunchHostFunc(now.b, log_letter, (void *)'2'));
	OK(cudaStreamSynchronize(now.b));
	IS(0, strcmp(now.log, "1gh2"));
	OK(cudaGraphExecDestroy(x));
}

static int position(char letter)
{
	const char *at = strchr(now.log, letter);

	return at ? (int)(at - now.log) : -1;
}

static void branches_join(void)
{
	cudaGraph_t g = new_graph();
	cudaGraphNode_t top = add_host(g, NULL, log_letter, 't'), mid[4], end;
	cudaGraphExec_t x;
	struct cudaHostNodeParams p;

	for (int i = 0; i < 4; i++)
		mid[i] = add_host(g, top, log_letter, (size_t)('a' + i));
	p.fn = log_letter;
	p.userData = (void *)'z';
	OK(cudaGraphAddHostNode(&end, g, mid, 4, &p));
	x = exec_of(g);
	OK(cudaGraphDestroy(g));
	for (int k = 0; k < 3; k++) {
		memset(now.log, 0, sizeof now.log);
		now.logged = 0;
		launch_and_wait(x, now.a);
		IS(6, strlen(now.log));
		IS(0, position('t'));
		IS(5, position('z'));
	}
	OK(cudaGraphExecDestroy(x));
}

static void branches_follow_what_is_before_the_launch(void)
{
	cudaGraph_t g = new_graph();
	cudaGraphExec_t x;

	for (int i = 0; i < 3; i++)
		(void)add_host(g, NULL, log_letter, (size_t)('a' + i));
	x = exec_of(g);
	OK(cudaGraphDestroy(g));
	for (int k = 0; k < 3; k++) {
		memset(now.log, 0, sizeof now.log);
		now.logged = 0;
		OK(cudaLaunchHostFunc(now.a, log_letter, (void *)'1'));
		OK(cudaLaunchHostFunc(now.a, log_letter, (void *)'2'));
		OK(cudaGraphLaunch(x, now.a));
		OK(cudaLaunchHostFunc(now.a, log_letter, (void *)'3'));
		OK(cudaStreamSynchronize(now.a));
		IS(0, strncmp(now.log, "12", 2));
		IS(5, position('3'));
	}
	OK(cudaGraphExecDestroy(x));
}

static void launches_of_one_graph_do_not_overlap(void)
{
	cudaGraph_t g = new_graph();
	cudaGraphExec_t x;

	(void)add_host(g, add_host(g, NULL, log_letter, 'a'), log_letter, 'b');
	x = exec_of(g);
	OK(cudaGraphDestroy(g));
	for (int k = 0; k < 4; k++)
		OK(cudaGraphLaunch(x, k & 1 ? now.b : now.a));
	OK(cudaStreamSynchronize(now.a));
	OK(cudaStreamSynchronize(now.b));
	IS(0, strcmp(now.log, "abababab"));
	OK(cudaGraphExecDestroy(x));
}

static void the_legacy_stream_waits_for_a_launch(void)
{
	cudaGraph_t g = new_graph();
	cudaGraphExec_t x;

	(void)add_host(g, add_host(g, NULL, log_letter, 'a'), log_letter, 'b');
	x = exec_of(g);
	OK(cudaGraphDestroy(g));
	OK(cudaGraphLaunch(x, now.blocking));
	OK(cudaLaunchHostFunc(NULL, log_letter, (void *)'c'));
	OK(cudaGraphLaunch(x, now.blocking));
	OK(cudaStreamSynchronize(now.blocking));
	IS(0, strcmp(now.log, "abcab"));
	OK(cudaGraphExecDestroy(x));
}

static void a_blocking_stream_that_captures_blocks_launches_in_the_legacy_stream(void)
{
	cudaGraph_t g = new_graph();
	cudaGraphExec_t x;

	(void)add_host(g, NULL, add_one, 0);
	x = exec_of(g);
	OK(cudaGraphDestroy(g));
	OK(begin(now.blocking));
	IS(cudaErrorStreamCaptureImplicit, cudaGraphLaunch(x, NULL));
	IS(cudaStreamCaptureStatusInvalidated, status(now.blocking));
	IS(cudaErrorStreamCaptureUnsupported, cudaGraphExecDestroy(x));
	IS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(now.blocking, &g));
	OK(cudaGraphExecDestroy(x));
}

static void a_recorded_event_orders_other_streams(void)
{
	cudaGraph_t g = new_graph();
	cudaGraphNode_t first = add_host(g, NULL, log_letter, 'a'), n;
	cudaGraphExec_t x;

	OK(cudaGraphAddEventRecordNode(&n, g, &first, 1, now.e));
	x = exec_of(g);
	OK(cudaGraphDestroy(g));
	OK(cudaGraphLaunch(x, now.a));
	OK(cudaStreamWaitEvent(now.b, now.e, 0));
	OK(cudaLaunchHostFunc(now.b, log_letter, (void *)'b'));
	OK(cudaStreamSynchronize(now.b));
	OK(cudaStreamSynchronize(now.a));
	IS(0, strcmp(now.log, "ab"));
	OK(cudaGraphExecDestroy(x));
}

static void a_graph_waits_for_an_event(void)
{
	cudaGraph_t g = new_graph();
	cudaGraphNode_t wait = NULL;
	cudaGraphExec_t x;

	OK(cudaGraphAddEventWaitNode(&wait, g, NULL, 0, now.e));
	(void)add_host(g, wait, log_letter, 'b');
	x = exec_of(g);
	OK(cudaGraphDestroy(g));
	OK(cudaLaunchHostFunc(now.b, log_letter, (void *)'a'));
	OK(cudaEventRecord(now.e, now.b));
	launch_and_wait(x, now.a);
	IS(0, strcmp(now.log, "ab"));
	OK(cudaGraphExecDestroy(x));
}

/* ---- lifetime ------------------------------------------------------------------------------- */

static void a_graph_may_end_before_its_launch_does(void)
{
	cudaGraph_t g = new_graph();
	cudaUserObject_t o = NULL;
	cudaGraphExec_t x;

	(void)add_host(g, NULL, log_letter, 'a');
	OK(cudaUserObjectCreate(&o, (void *)1000, add_one, 1, cudaUserObjectNoDestructorSync));
	OK(cudaGraphRetainUserObject(g, o, 1, cudaGraphUserObjectMove));
	x = exec_of(g);
	OK(cudaGraphDestroy(g));
	OK(cudaGraphLaunch(x, now.a));
	OK(cudaGraphExecDestroy(x));
	OK(cudaStreamSynchronize(now.a));
	IS(0, strcmp(now.log, "a"));
	IS(1000, added_at_last(1000));
}

/* ---- updates -------------------------------------------------------------------------------- */

/* Two host functions, one after the other. */
static cudaGraph_t pair(size_t add, cudaGraphNode_t *first)
{
	cudaGraph_t g = new_graph();

	*first = add_host(g, NULL, add_one, add);
	(void)add_host(g, *first, add_one, add);
	return g;
}

static void an_update_takes_new_parameters(void)
{
	cudaGraphNode_t one, ten;
	cudaGraph_t g = pair(1, &one), other = pair(10, &ten);
	cudaGraphExec_t x = exec_of(g);
	cudaGraphExecUpdateResultInfo info;

	memset(&info, 9, sizeof info);
	OK(cudaGraphExecUpdate(x, other, &info));
	IS(cudaGraphExecUpdateSuccess, info.result);
	IS(1, info.errorNode == NULL);
	launch_and_wait(x, now.a);
	IS(20, added());
	OK(cudaGraphExecDestroy(x));
	OK(cudaGraphDestroy(g));
	OK(cudaGraphDestroy(other));
}

static void an_update_refuses_other_nodes_and_edges(void)
{
	cudaGraphNode_t one, ten;
	cudaGraph_t g = pair(1, &one), more = pair(10, &ten), loose = new_graph();
	cudaGraphExec_t x = exec_of(g);
	cudaGraphExecUpdateResultInfo info;

	(void)add_host(more, ten, add_one, 10);
	IS(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(x, more, &info));
	IS(cudaGraphExecUpdateErrorTopologyChanged, info.result);
	IS(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(x, more, NULL));
	(void)add_host(loose, NULL, add_one, 10);
	(void)add_host(loose, NULL, add_one, 10);
	IS(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(x, loose, &info));
	IS(cudaGraphExecUpdateErrorTopologyChanged, info.result);
	launch_and_wait(x, now.a);
	IS(2, added());
	OK(cudaGraphExecDestroy(x));
	OK(cudaGraphDestroy(g));
	OK(cudaGraphDestroy(more));
	OK(cudaGraphDestroy(loose));
}

static void an_update_refuses_another_type(void)
{
	cudaGraphNode_t one, first, empty = NULL;
	cudaGraph_t g = pair(1, &one), other = new_graph();
	cudaGraphExec_t x = exec_of(g);
	cudaGraphExecUpdateResultInfo info;

	first = add_host(other, NULL, add_one, 1);
	OK(cudaGraphAddEmptyNode(&empty, other, &first, 1));
	IS(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(x, other, &info));
	IS(cudaGraphExecUpdateErrorNodeTypeChanged, info.result);
	IS(1, info.errorNode == empty);
	OK(cudaGraphExecDestroy(x));
	OK(cudaGraphDestroy(g));
	OK(cudaGraphDestroy(other));
}

static void one_node_of_an_executable_graph_can_be_set(void)
{
	cudaGraphNode_t one, ten;
	cudaGraph_t g = pair(1, &one), other = pair(10, &ten);
	cudaGraphExec_t x = exec_of(g);
	struct cudaHostNodeParams p;

	p.fn = add_one;
	p.userData = (void *)5;
	OK(cudaGraphExecHostNodeSetParams(x, one, &p));
	IS(cudaErrorInvalidValue, cudaGraphExecHostNodeSetParams(x, ten, &p));
	launch_and_wait(x, now.a);
	IS(6, added());
	OK(cudaGraphHostNodeSetParams(one, &p)); /* of the graph: not of the executable one */
	OK(cudaGraphExecDestroy(x));
	OK(cudaGraphDestroy(g));
	OK(cudaGraphDestroy(other));
}

static const struct graph_case cases[] = {
	CASE(nothing_runs_before_the_launch),
	CASE(copies_and_fills_use_memory_as_of_the_launch),
	CASE(fills_have_units_and_rows),
	CASE(a_child_graph_runs_in_its_place),
	CASE(a_launch_is_ordered_in_its_stream),
	CASE(branches_join),
	CASE(branches_follow_what_is_before_the_launch),
	CASE(launches_of_one_graph_do_not_overlap),
	CASE(the_legacy_stream_waits_for_a_launch),
	CASE(a_blocking_stream_that_captures_blocks_launches_in_the_legacy_stream),
	CASE(a_recorded_event_orders_other_streams),
	CASE(a_graph_waits_for_an_event),
	CASE(a_graph_may_end_before_its_launch_does),
	CASE(an_update_takes_new_parameters),
	CASE(an_update_refuses_other_nodes_and_edges),
	CASE(an_update_refuses_another_type),
	CASE(one_node_of_an_executable_graph_can_be_set),
};

int main(int argc, char **argv)
{
	return cases_main(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
