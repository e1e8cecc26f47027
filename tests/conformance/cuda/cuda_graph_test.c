/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUDA graphs of the double, beyond the API: kernels as nodes, branches in the seeded scheduler,
 * the driver's names, destroyed handles, leaks, faults, GPUs that are reset. The folder graphs has
 * the rules that real GPUs have, too.
 */
#include "tests/conformance/cuda/cuda_harness.h"

#include <cuda.h>

struct put_args {
	uint64_t at, value;
};

/* Takes its time, so that whatever does not wait for it is early. */
CH_KERNEL(put, 0)
{
	os_sleep_ns(a->value * 2654435761u % 20000);
	fakedev_store(d, (void *)(uintptr_t)a->at, 8, a->value, SHARED_RELEASE, SHARED_SYSTEM);
}

struct sum_args {
	uint64_t to, from, count;
};

CH_KERNEL(sum, 0)
{
	uint64_t total = 0;

	for (uint64_t i = 0; i < a->count; i++)
		total += fakedev_load(d, (void *)(uintptr_t)(a->from + 8 * i), 8, SHARED_ACQUIRE,
				      SHARED_SYSTEM);
	fakedev_store(d, (void *)(uintptr_t)a->to, 8, total, SHARED_RELEASE, SHARED_SYSTEM);
}

#define DRIVER(call) ck_assert_msg((call) == CUDA_SUCCESS, "%s", #call)

static cudaStream_t new_stream(void)
{
	cudaStream_t s;

	CU(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	return s;
}

static cudaGraphNode_t add_kernel(cudaGraph_t g, const struct dev_kernel *k, const void *args,
				  const cudaGraphNode_t *from, size_t count)
{
	void *params[] = {(void *)(uintptr_t)args};
	const struct cudaKernelNodeParams p = {.func = (void *)(uintptr_t)k->func,
					       .gridDim = {1, 1, 1},
					       .blockDim = {1, 1, 1},
					       .kernelParams = params};
	cudaGraphNode_t n;

	CU(cudaGraphAddKernelNode(&n, g, from, count, &p));
	return n;
}

/* ---- kernels and branches ------------------------------------------------------------------- */

enum { LEAVES = 6 };

/* Kernels that do not depend on each other, and one that needs all of them. */
static cudaGraph_t fan_in(uint64_t *cell)
{
	cudaGraphNode_t leaf[LEAVES];
	cudaGraph_t g;

	CU(cudaGraphCreate(&g, 0));
	for (uint64_t i = 0; i < LEAVES; i++) {
		const struct put_args a = {(uintptr_t)&cell[i], i + 1};

		leaf[i] = add_kernel(g, CH_BY_WIDTH(put), &a, NULL, 0);
	}
	const struct sum_args s = {(uintptr_t)&cell[LEAVES], (uintptr_t)cell, LEAVES};
	add_kernel(g, CH_BY_WIDTH(sum), &s, leaf, LEAVES);
	return g;
}

static uint64_t cell_value(const uint64_t *cell)
{
	uint64_t v;

	CU(cudaMemcpy(&v, cell, sizeof v, cudaMemcpyDeviceToHost));
	return v;
}

CH_TEST(a_kernel_follows_the_kernels_of_all_branches)
{
	uint64_t *cell = ch_malloc((LEAVES + 1) * 8);
	cudaGraph_t g = fan_in(cell);
	cudaStream_t s = new_stream();
	cudaGraphExec_t x;

	CU(cudaGraphInstantiate(&x, g, 0));
	for (int k = 0; k < 4; k++) {
		CU(cudaMemsetAsync(cell, 0, (LEAVES + 1) * 8, s));
		CU(cudaGraphLaunch(x, s));
		CU(cudaStreamSynchronize(s));
		ck_assert_uint_eq(cell_value(&cell[LEAVES]), LEAVES * (LEAVES + 1) / 2);
	}
	CU(cudaGraphExecDestroy(x));
	CU(cudaGraphDestroy(g));
	CU(cudaStreamDestroy(s));
	CU(cudaFree(cell));
}

/* The arguments are copied when the node is added, and returned by the query. */
CH_TEST(a_kernel_node_has_its_own_arguments)
{
	uint64_t *cell = ch_malloc(8);
	struct put_args args = {(uintptr_t)cell, 3};
	cudaStream_t s = new_stream();
	struct cudaKernelNodeParams p;
	cudaGraphExec_t x;
	cudaGraph_t g;

	CU(cudaGraphCreate(&g, 0));
	cudaGraphNode_t n = add_kernel(g, CH_BY_WIDTH(put), &args, NULL, 0);
	args.value = 4;
	CU(cudaGraphKernelNodeGetParams(n, &p));
	ck_assert_uint_eq(((struct put_args *)p.kernelParams[0])->value, 3);
	ck_assert_uint_eq(p.gridDim.x, 1);
	CU(cudaGraphInstantiate(&x, g, 0));
	CU(cudaGraphLaunch(x, s));
	CU(cudaStreamSynchronize(s));
	ck_assert_uint_eq(cell_value(cell), 3);
	p.kernelParams = (void *[]){&args};
	CU(cudaGraphExecKernelNodeSetParams(x, n, &p));
	CU(cudaGraphLaunch(x, s));
	CU(cudaStreamSynchronize(s));
	ck_assert_uint_eq(cell_value(cell), 4);
	CU(cudaGraphExecDestroy(x));
	CU(cudaGraphDestroy(g));
	CU(cudaStreamDestroy(s));
	CU(cudaFree(cell));
}

/* A capture over two GPUs: each node runs on the GPU of its stream. */
CH_TEST(a_capture_may_span_gpus)
{
	uint64_t *cell = ch_pinned(16);
	cudaStream_t s = new_stream(), t;
	cudaEvent_t e, f;
	cudaGraphExec_t x;
	cudaGraph_t g;

	CU(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
	CU(cudaSetDevice(1));
	t = new_stream();
	CU(cudaEventCreateWithFlags(&f, cudaEventDisableTiming));
	CU(cudaSetDevice(0));
	CU(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	const struct put_args a = {(uintptr_t)&cell[0], 5}, b = {(uintptr_t)&cell[1], 6};
	CU(ch_launch_on(CH_BY_WIDTH(put), 1, 1, &a, s));
	CU(cudaEventRecord(e, s));
	CU(cudaStreamWaitEvent(t, e, 0));
	CU(cudaSetDevice(1));
	CU(ch_launch_on(CH_BY_WIDTH(put), 1, 1, &b, t));
	CU(cudaEventRecord(f, t));
	CU(cudaSetDevice(0));
	CU(cudaStreamWaitEvent(s, f, 0));
	CU(cudaStreamEndCapture(s, &g));
	CU(cudaGraphInstantiate(&x, g, 0));
	for (int k = 0; k < 2; k++) {
		cudaStream_t in = k ? t : s; /* a stream of either GPU */

		cell[0] = cell[1] = 0;
		CU(cudaGraphLaunch(x, in));
		CU(cudaStreamSynchronize(in));
		ck_assert_uint_eq(cell[0], 5);
		ck_assert_uint_eq(cell[1], 6);
	}
	CU(cudaGraphExecDestroy(x));
	CU(cudaGraphDestroy(g));
	CU(cudaEventDestroy(e));
	CU(cudaEventDestroy(f));
	CU(cudaStreamDestroy(s));
	CU(cudaStreamDestroy(t));
	CU(cudaFreeHost(cell));
}

/* More branches than a graph has streams: the rest is put in order. */
CH_TEST(a_graph_may_be_wider_than_its_branches)
{
	enum { WIDE = 150 };
	uint64_t *cell = ch_malloc(WIDE * 8), *host = ch_pinned(WIDE * 8);
	cudaStream_t s = new_stream();
	cudaGraphExec_t x;
	cudaGraph_t g;

	CU(cudaGraphCreate(&g, 0));
	for (uint64_t i = 0; i < WIDE; i++) {
		const struct put_args a = {(uintptr_t)&cell[i], i + 1};

		add_kernel(g, CH_BY_WIDTH(put), &a, NULL, 0);
	}
	CU(cudaGraphInstantiate(&x, g, 0));
	CU(cudaGraphLaunch(x, s));
	CU(cudaMemcpyAsync(host, cell, WIDE * 8, cudaMemcpyDeviceToHost, s));
	CU(cudaStreamSynchronize(s));
	for (uint64_t i = 0; i < WIDE; i++)
		ck_assert_uint_eq(host[i], i + 1);
	CU(cudaGraphExecDestroy(x));
	CU(cudaGraphDestroy(g));
	CU(cudaStreamDestroy(s));
	CU(cudaFreeHost(host));
	CU(cudaFree(cell));
}

/* ---- the driver's names --------------------------------------------------------------------- */

static void count_up(void *arg)
{
	__atomic_add_fetch((int *)arg, 1, __ATOMIC_RELAXED);
}

CH_TEST(the_driver_has_the_same_graphs)
{
	int runs = 0;
	const CUDA_HOST_NODE_PARAMS host = {count_up, &runs};
	CUDA_MEMSET_NODE_PARAMS fill = {.value = 7, .elementSize = 1, .width = 8, .height = 1};
	CUgraphNode a, b, empty;
	CUgraphNodeType type;
	CUstream s = new_stream();
	CUgraphExec x;
	CUgraph g;
	size_t n = 0;
	void *dev = ch_malloc(8);

	fill.dst = (uintptr_t)dev;
	DRIVER(cuGraphCreate(&g, 0));
	DRIVER(cuGraphAddHostNode(&a, g, NULL, 0, &host));
	DRIVER(cuGraphAddMemsetNode(&b, g, &a, 1, &fill, NULL));
	DRIVER(cuGraphAddEmptyNode(&empty, g, NULL, 0));
	DRIVER(cuGraphAddDependencies(g, &b, &empty, NULL, 1));
	DRIVER(cuGraphGetEdges(g, NULL, NULL, NULL, &n));
	ck_assert_uint_eq(n, 2);
	DRIVER(cuGraphNodeGetType(b, &type));
	ck_assert_int_eq(type, CU_GRAPH_NODE_TYPE_MEMSET);
	DRIVER(cuGraphInstantiate(&x, g, 0));
	DRIVER(cuGraphLaunch(x, s));
	CU(cudaStreamSynchronize(s));
	ck_assert_int_eq(__atomic_load_n(&runs, __ATOMIC_RELAXED), 1);
	ck_assert_uint_eq(cell_value(dev), 0x0707070707070707u);
	ck_assert_int_eq(cuGraphLaunch(NULL, s), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(cudaGetLastError(), cudaSuccess); /* the runtime's alone */
	DRIVER(cuGraphExecDestroy(x));
	DRIVER(cuGraphDestroy(g));
	CU(cudaStreamDestroy(s));
	CU(cudaFree(dev));
}

CH_TEST(the_driver_captures)
{
	CUstreamCaptureStatus status;
	CUstream s = new_stream();
	CUgraph g, seen = NULL;
	cuuint64_t id = 0;
	size_t n = 9;
	int runs = 0;

	DRIVER(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CU(cudaLaunchHostFunc(s, count_up, &runs));
	DRIVER(cuStreamGetCaptureInfo(s, &status, &id, &seen, NULL, NULL, &n));
	ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ck_assert_uint_eq(n, 1);
	DRIVER(cuStreamEndCapture(s, &g));
	ck_assert_ptr_eq(g, seen);
	DRIVER(cuStreamIsCapturing(s, &status));
	ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);
	DRIVER(cuGraphDestroy(g));
	CU(cudaStreamDestroy(s));
}

/* ---- misuse and leaks ----------------------------------------------------------------------- */

CH_TEST(a_destroyed_graph_is_named)
{
	cudaGraphExec_t x;
	cudaGraph_t g;
	size_t n;

	CU(cudaGraphCreate(&g, 0));
	CU(cudaGraphInstantiate(&x, g, 0));
	CU(cudaGraphDestroy(g));
	CU_MISUSE(cudaGraphGetNodes(g, NULL, &n), cudaErrorInvalidValue,
		  "invalid graph: graph 1, which main destroyed at");
	CU(cudaGraphExecDestroy(x));
	CU_MISUSE(cudaGraphLaunch(x, NULL), cudaErrorInvalidValue,
		  "invalid executable graph: executable graph 1, which main destroyed at");
	CU_MISUSE(cudaGraphExecDestroy(x), cudaErrorInvalidValue, "which main destroyed at");
	CU_MISUSE(cudaGraphDestroy((cudaGraph_t)&n), cudaErrorInvalidValue,
		  "invalid graph: not created by this process");
}

CH_TEST(too_many_references_are_reported)
{
	int runs = 0;
	cudaUserObject_t o;

	CU(cudaUserObjectCreate(&o, &runs, count_up, 1, cudaUserObjectNoDestructorSync));
	CU_MISUSE(cudaUserObjectRelease(o, 2), cudaErrorInvalidValue,
		  "2 references to user object 1 by main, which has 1");
	CU(cudaUserObjectRelease(o, 1));
	CU_MISUSE(cudaUserObjectRetain(o, 1), cudaErrorInvalidValue,
		  "user object 1, which main destroyed at");
}

static void count_late(void *runs)
{
	os_sleep_ns(20000000);
	count_up(runs);
}

static void drops_an_object(void *runs)
{
	cudaUserObject_t o;

	CU(cudaUserObjectCreate(&o, runs, count_late, 1, cudaUserObjectNoDestructorSync));
	CU(cudaUserObjectRelease(o, 1));
}

CH_TEST(a_process_ends_after_its_destructors)
{
	struct os_proc *p = ch_proc(0, "drops");
	int runs = 0;

	ch_in(p, drops_an_object, &runs);
	world_proc_exit(p);
	ck_assert_int_eq(runs, 1);
}

CH_TEST(graphs_that_are_left_are_leaks, .leaks = 1)
{
	cudaGraphExec_t x;
	cudaGraph_t g;

	CU(cudaGraphCreate(&g, 0));
	CU(cudaGraphInstantiate(&x, g, 0));
	CU(cudaGraphDestroy(g));
}

/* A capture that the program leaves ends with its process. */
CH_TEST(a_capture_that_is_left_is_no_graph, .leaks = 1)
{
	cudaStream_t s = new_stream(); /* the leak */
	int runs = 0;

	CU(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
	CU(cudaLaunchHostFunc(s, count_up, &runs));
}

/* ---- faults --------------------------------------------------------------------------------- */

CH_TEST(a_launch_that_fails_queues_nothing, .plan = "cuda.graph_launch nth=1 fail\n")
{
	cudaStream_t s = new_stream();
	cudaGraphExec_t x;
	cudaGraph_t g;
	int runs = 0;

	CU(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	CU(cudaLaunchHostFunc(s, count_up, &runs));
	CU(cudaStreamEndCapture(s, &g));
	CU(cudaGraphInstantiate(&x, g, 0));
	CU_FAILS(cudaGraphLaunch(x, s), cudaErrorMemoryAllocation);
	CU(cudaGraphLaunch(x, s));
	CU(cudaStreamSynchronize(s));
	ck_assert_int_eq(__atomic_load_n(&runs, __ATOMIC_RELAXED), 1);
	CU(cudaGraphExecDestroy(x));
	CU(cudaGraphDestroy(g));
	CU(cudaStreamDestroy(s));
}

CH_TEST(an_end_that_fails_still_ends_the_capture, .plan = "cuda.stream_end_capture nth=1 fail\n")
{
	enum cudaStreamCaptureStatus status;
	cudaStream_t s = new_stream();
	cudaGraph_t g = (cudaGraph_t)&status;
	int runs = 0;

	CU(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	CU(cudaLaunchHostFunc(s, count_up, &runs));
	CU_FAILS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
	ck_assert_ptr_null(g);
	CU(cudaStreamIsCapturing(s, &status));
	ck_assert_int_eq(status, cudaStreamCaptureStatusNone);
	CU(cudaStreamDestroy(s));
}

CH_TEST(a_graph_of_a_gpu_that_was_reset_is_not_launched)
{
	cudaGraphExec_t x;
	cudaGraph_t g;
	uint64_t *cell = ch_malloc(8);
	const struct put_args args = {(uintptr_t)cell, 3};

	CU(cudaGraphCreate(&g, 0));
	add_kernel(g, CH_BY_WIDTH(put), &args, NULL, 0);
	CU(cudaGraphInstantiate(&x, g, 0));
	CU(cudaGraphLaunch(x, NULL));
	CU(cudaDeviceReset());
	CU_SAYS(cudaGraphLaunch(x, NULL), cudaErrorContextIsDestroyed,
		"executable graph 1 has nodes of a GPU that was reset");
	CU(cudaGraphExecDestroy(x));
	CU(cudaGraphDestroy(g));
}

int main(void)
{
	TCase *t = tcase_create("graph");

	CH_ADD(t, a_kernel_follows_the_kernels_of_all_branches);
	CH_ADD(t, a_kernel_node_has_its_own_arguments);
	CH_ADD(t, a_capture_may_span_gpus);
	CH_ADD(t, a_graph_may_be_wider_than_its_branches);
	CH_ADD(t, the_driver_has_the_same_graphs);
	CH_ADD(t, the_driver_captures);
	CH_ADD(t, a_destroyed_graph_is_named);
	CH_ADD(t, too_many_references_are_reported);
	CH_ADD(t, a_process_ends_after_its_destructors);
	CH_ADD(t, graphs_that_are_left_are_leaks);
	CH_ADD(t, a_capture_that_is_left_is_no_graph);
	CH_ADD(t, a_launch_that_fails_queues_nothing);
	CH_ADD(t, an_end_that_fails_still_ends_the_capture);
	CH_ADD(t, a_graph_of_a_gpu_that_was_reset_is_not_launched);
	return ch_suite_run("cuda graph", t);
}
