/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers of collectives in flight: an access without an order is reported with both call sites;
 * programs that make an order are not reported.
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "core/device/shim/shim_fake.h"
#include "tests/ranks.h"
#include "tests/suite.h"

enum { BYTES = 4096, COUNT = BYTES / 4 };

/* A rank's side. The program accesses the middle of the buffer. */
struct buffers {
	int32_t rank;
	ncclComm_t comm;
	uint8_t *send, *recv, *other, *pinned;
	cudaStream_t a, b, blocking;
	cudaEvent_t event;
};

/* ---- a kernel of the program ---------------------------------------------------------------- */

struct touch_args {
	uint64_t at;
	uint32_t write, pad0;
};

static void touch(struct dev *d, const void *args)
{
	const struct touch_args *a = args;
	void *at = (void *)(uintptr_t)a->at;

	if (!a->write) {
		(void)fakedev_read(d, at, 16);
		return;
	}
	*(uint64_t *)fakedev_write(d, at, 8) = 5;
	fakedev_wrote(d, at, 8);
}
static const struct dev_kernel touch_kernel = {(const void *)touch, "touch",
					       sizeof(struct touch_args), 0};
static __attribute__((constructor)) void touch_register(void)
{
	fakecuda_register_kernel(&touch_kernel, touch, 1);
}

static void touch_launch(const void *at, bool write, cudaStream_t stream)
{
	struct touch_args args = {.at = (uintptr_t)at, .write = write};
	void *params[] = {&args};

	EXPECT(cudaLaunchKernel(touch_kernel.func, (dim3){1, 1, 1}, (dim3){1, 1, 1}, params, 0,
				stream) == cudaSuccess);
}

/* ---- running -------------------------------------------------------------------------------- */

static __attribute__((noinline)) void reduce_at(struct buffers *x, void *send, void *recv,
						cudaStream_t s)
{
	EXPECT_NCCL(ncclSuccess, ncclAllReduce(send, recv, COUNT, ncclInt32, ncclSum, x->comm, s));
	__asm__ volatile(""); /* no tail call: the call site is here */
}

static __attribute__((noinline)) void copy_to(void *at, const void *from, cudaStream_t s)
{
	EXPECT(cudaMemcpyAsync(at, from, 64, cudaMemcpyHostToDevice, s) == cudaSuccess);
	__asm__ volatile("");
}

static void sync_all(struct buffers *x)
{
	EXPECT(cudaStreamSynchronize(x->a) == cudaSuccess);
	EXPECT(cudaStreamSynchronize(x->b) == cudaSuccess);
	EXPECT(cudaStreamSynchronize(x->blocking) == cudaSuccess);
	EXPECT(cudaStreamSynchronize(NULL) == cudaSuccess);
}

static void buffers_rank(int32_t rank, int32_t nranks, void *arg)
{
	void (*body)(struct buffers *) = (void (*)(struct buffers *))arg;
	struct buffers x = {.rank = rank};

	EXPECT(cudaSetDevice(rank) == cudaSuccess);
	EXPECT(cudaMalloc((void **)&x.send, BYTES) == cudaSuccess);
	EXPECT(cudaMalloc((void **)&x.recv, BYTES) == cudaSuccess);
	EXPECT(cudaMalloc((void **)&x.other, BYTES) == cudaSuccess);
	EXPECT(cudaHostAlloc((void **)&x.pinned, BYTES, 0) == cudaSuccess);
	EXPECT(cudaStreamCreateWithFlags(&x.a, cudaStreamNonBlocking) == cudaSuccess);
	EXPECT(cudaStreamCreateWithFlags(&x.b, cudaStreamNonBlocking) == cudaSuccess);
	EXPECT(cudaStreamCreate(&x.blocking) == cudaSuccess);
	EXPECT(cudaEventCreateWithFlags(&x.event, cudaEventDisableTiming) == cudaSuccess);
	EXPECT(cudaMemset(x.send, 1, BYTES) == cudaSuccess);
	EXPECT(cudaMemset(x.recv, 1, BYTES) == cudaSuccess);
	EXPECT(cudaMemset(x.other, 1, BYTES) == cudaSuccess);
	EXPECT(cudaDeviceSynchronize() == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&x.comm, nranks, ranks_id(), rank));
	body(&x);
	sync_all(&x);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(x.comm));
	EXPECT(cudaEventDestroy(x.event) == cudaSuccess);
	EXPECT(cudaStreamDestroy(x.a) == cudaSuccess);
	EXPECT(cudaStreamDestroy(x.b) == cudaSuccess);
	EXPECT(cudaStreamDestroy(x.blocking) == cudaSuccess);
	EXPECT(cudaFree(x.send) == cudaSuccess);
	EXPECT(cudaFree(x.recv) == cudaSuccess);
	EXPECT(cudaFree(x.other) == cudaSuccess);
	EXPECT(cudaFreeHost(x.pinned) == cudaSuccess);
}

/* Runs up to four seeds under sim; returns the message of the first failure, "" if no run
 * failed. */
static const char *run(void (*body)(struct buffers *), uint32_t ranks, enum sim_engine engine)
{
	struct ranks_config c = {.hosts = 1,
				 .per_host = ranks,
				 .per_proc = ranks,
				 .engine = engine,
				 .seed = 1,
				 .misuse = true};

	for (; c.seed <= (engine == SIM_ENGINE_SIM ? 4 : 1); c.seed++) {
		ranks_run(&c, buffers_rank, (void *)body);
		if (sim_failure()) {
			ck_assert_str_eq(sim_failure()->kind, "misuse");
			return sim_failure()->message;
		}
	}
	return "";
}

static void expect_legal(void (*body)(struct buffers *))
{
	ck_assert_str_eq(run(body, 2, SIM_ENGINE_SIM), "");
	ck_assert_str_eq(run(body, 1, SIM_ENGINE_SIM), "");
	ck_assert_str_eq(run(body, 2, SIM_ENGINE_THREADS), "");
}

static void expect_misuse(void (*body)(struct buffers *), uint32_t ranks, const char *now,
			  const char *before)
{
	const char *said = run(body, ranks, SIM_ENGINE_SIM);

	ck_assert_msg(strstr(said, "buffer in use: ") && strstr(said, now) && strstr(said, before),
		      "'%s' does not say '%s' and '%s'", said, now, before);
}

/* ---- touched too early ---------------------------------------------------------------------- */

static void copy_into_input(struct buffers *x)
{
	reduce_at(x, x->send, x->recv, x->a);
	copy_to(x->send + 1000, x->pinned, x->b);
}

static void copy_sync_into_result(struct buffers *x)
{
	reduce_at(x, x->send, x->recv, x->a);
	EXPECT(cudaMemcpy(x->recv + 1000, x->pinned, 64, cudaMemcpyHostToDevice) == cudaSuccess);
}

static void read_result(struct buffers *x)
{
	reduce_at(x, x->send, x->recv, x->a);
	EXPECT(cudaMemcpyAsync(x->pinned, x->recv, BYTES, cudaMemcpyDeviceToHost, x->b) ==
	       cudaSuccess);
}

static void set_result(struct buffers *x)
{
	reduce_at(x, x->send, x->recv, x->a);
	EXPECT(cudaMemset(x->recv, 0, 64) == cudaSuccess);
}

/* The order is the wrong way round, and the copy comes first. */
static void copy_before(struct buffers *x)
{
	copy_to(x->send + 1000, x->pinned, x->b);
	reduce_at(x, x->send, x->recv, x->a);
}

static void event_recorded_before(struct buffers *x)
{
	EXPECT(cudaEventRecord(x->event, x->a) == cudaSuccess);
	reduce_at(x, x->send, x->recv, x->a);
	EXPECT(cudaStreamWaitEvent(x->b, x->event, 0) == cudaSuccess);
	copy_to(x->send, x->pinned, x->b);
}

static void free_input(struct buffers *x)
{
	void *mem;
	EXPECT(cudaMalloc(&mem, BYTES) == cudaSuccess);
	EXPECT(cudaMemset(mem, 1, BYTES) == cudaSuccess);
	EXPECT(cudaDeviceSynchronize() == cudaSuccess);
	reduce_at(x, mem, x->recv, x->a);
	EXPECT(cudaFree(mem) == cudaSuccess);
}

static void kernel_writes_input(struct buffers *x)
{
	reduce_at(x, x->send, x->recv, x->a);
	touch_launch(x->send + 512, true, x->b);
}

static void kernel_reads_result(struct buffers *x)
{
	reduce_at(x, x->send, x->recv, x->a);
	touch_launch(x->recv + 512, false, x->b);
}

START_TEST(who_touches_a_buffer_too_early_is_named)
{
	const char *by = "after all_reduce, operation 0 of communicator ";
	for (uint32_t ranks = 1; ranks <= 2; ranks++) {
		expect_misuse(copy_into_input, ranks, "called at copy_to", by);
		expect_misuse(copy_into_input, ranks, "writes 64 bytes at ", "called at reduce_at");
		expect_misuse(copy_sync_into_result, ranks, "cudaMemcpy in stream 0 of gpu ", by);
		expect_misuse(read_result, ranks, "reads 4096 bytes at ", "which writes them");
		expect_misuse(set_result, ranks, "cudaMemset in stream 0", by);
		expect_misuse(copy_before, ranks, "all_reduce, operation 0 of communicator ",
			      "after cudaMemcpyAsync in stream ");
		expect_misuse(event_recorded_before, ranks, "cudaMemcpyAsync in stream ", by);
		expect_misuse(free_input, ranks, "cudaFree, called at free_input+0x", by);
		expect_misuse(kernel_writes_input, ranks, "kernel touch (k", by);
		expect_misuse(kernel_reads_result, ranks, "reads 16 bytes at ",
			      "which writes them");
	}
}
END_TEST

/* ---- collectives that overlap --------------------------------------------------------------- */

/* The stack orders collectives of a communicator; with one rank there is nothing to order. */
static void overlap_write_write(struct buffers *x)
{
	reduce_at(x, x->send, x->recv, x->a);
	reduce_at(x, x->other, x->recv, x->b);
}

static void overlap_read_write(struct buffers *x)
{
	reduce_at(x, x->send, x->recv, x->a);
	reduce_at(x, x->other, x->send, x->b);
}

static void overlap_read_read(struct buffers *x)
{
	reduce_at(x, x->send, x->recv, x->a);
	reduce_at(x, x->send, x->other, x->b);
}

static struct {
	ncclUniqueId id;
} second;

static void two_communicators(struct buffers *x)
{
	ncclComm_t mine = x->comm, other = NULL;
	if (x->rank == 0)
		EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&second.id));
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess,
		    ncclCommInitRank(&other, ranks_self()->all->nranks, second.id, x->rank));
	reduce_at(x, x->send, x->recv, x->a);
	x->comm = other;
	reduce_at(x, x->send, x->recv, x->b);
	x->comm = mine;
	sync_all(x);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(other));
}

START_TEST(collectives_in_two_streams_do_not_share_what_they_write)
{
	expect_misuse(overlap_write_write, 1, "writes 4096 bytes at ", "which writes them");
	expect_misuse(overlap_read_write, 1, "all_reduce, operation 1 of communicator ",
		      "which reads them");
	expect_misuse(two_communicators, 2, "all_reduce, operation 0 of communicator ",
		      "after all_reduce, operation 0 of communicator ");
	expect_legal(overlap_read_read);
}
END_TEST

/* ---- programs that make an order ------------------------------------------------------------ */

static void one_stream(struct buffers *x)
{
	copy_to(x->send, x->pinned, x->a);
	touch_launch(x->send, true, x->a);
	reduce_at(x, x->send, x->recv, x->a);
	reduce_at(x, x->recv, x->recv, x->a);
	touch_launch(x->recv, true, x->a);
	copy_to(x->send, x->pinned, x->a);
	EXPECT(cudaMemsetAsync(x->recv, 0, 64, x->a) == cudaSuccess);
}

static void by_event(struct buffers *x)
{
	copy_to(x->send, x->pinned, x->b);
	EXPECT(cudaEventRecord(x->event, x->b) == cudaSuccess);
	EXPECT(cudaStreamWaitEvent(x->a, x->event, 0) == cudaSuccess);
	reduce_at(x, x->send, x->send, x->a);
	EXPECT(cudaEventRecord(x->event, x->a) == cudaSuccess);
	EXPECT(cudaStreamWaitEvent(x->b, x->event, 0) == cudaSuccess);
	copy_to(x->send, x->pinned, x->b);
	touch_launch(x->send, true, x->b);
	reduce_at(x, x->send, x->recv, x->b);
	/* from one to the next to the third */
	EXPECT(cudaEventRecord(x->event, x->b) == cudaSuccess);
	EXPECT(cudaStreamWaitEvent(x->blocking, x->event, 0) == cudaSuccess);
	copy_to(x->recv, x->pinned, x->blocking);
}

static void by_host(struct buffers *x)
{
	reduce_at(x, x->send, x->recv, x->a);
	EXPECT(cudaStreamSynchronize(x->a) == cudaSuccess);
	copy_to(x->send, x->pinned, x->b);
	EXPECT(cudaStreamSynchronize(x->b) == cudaSuccess);
	reduce_at(x, x->send, x->recv, x->a);
	while (cudaStreamQuery(x->a) == cudaErrorNotReady)
		;
	touch_launch(x->recv, true, x->b);
	EXPECT(cudaDeviceSynchronize() == cudaSuccess);
	reduce_at(x, x->send, x->recv, x->a);
	EXPECT(cudaEventRecord(x->event, x->a) == cudaSuccess);
	EXPECT(cudaEventSynchronize(x->event) == cudaSuccess);
	EXPECT(cudaMemcpy(x->pinned, x->recv, BYTES, cudaMemcpyDeviceToHost) == cudaSuccess);
	reduce_at(x, x->send, x->recv, x->a);
	EXPECT(cudaEventRecord(x->event, x->a) == cudaSuccess);
	while (cudaEventQuery(x->event) == cudaErrorNotReady)
		;
	copy_to(x->recv, x->pinned, x->b);
}

static void by_legacy_stream(struct buffers *x)
{
	copy_to(x->send, x->pinned, NULL);
	reduce_at(x, x->send, x->recv, x->blocking);
	EXPECT(cudaMemcpy(x->recv, x->pinned, 64, cudaMemcpyHostToDevice) == cudaSuccess);
	reduce_at(x, x->send, x->recv, NULL);
	EXPECT(cudaMemsetAsync(x->recv, 0, 64, x->blocking) == cudaSuccess);
}

/* Other bytes, and reading what is only read. */
static void beside(struct buffers *x)
{
	reduce_at(x, x->send, x->recv, x->a);
	copy_to(x->other, x->pinned, x->b);
	touch_launch(x->other, true, x->b);
	EXPECT(cudaMemcpyAsync(x->other, x->send, BYTES, cudaMemcpyDeviceToDevice, x->b) ==
	       cudaSuccess);
	touch_launch(x->send, false, x->b);
}

/* The same addresses, which belong to something new. */
static void freed_and_made_again(struct buffers *x)
{
	for (int i = 0; i < 3; i++) {
		void *mem;
		EXPECT(cudaMalloc(&mem, BYTES) == cudaSuccess);
		EXPECT(cudaMemset(mem, 1, BYTES) == cudaSuccess);
		EXPECT(cudaDeviceSynchronize() == cudaSuccess);
		reduce_at(x, mem, mem, i % 2 ? x->a : x->b);
		EXPECT(cudaStreamSynchronize(i % 2 ? x->a : x->b) == cudaSuccess);
		EXPECT(cudaFree(mem) == cudaSuccess);
	}
}

/* ---- graphs --------------------------------------------------------------------------------- */

static cudaGraphExec_t captured(struct buffers *x)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	EXPECT(cudaStreamBeginCapture(x->a, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
	reduce_at(x, x->send, x->recv, x->a);
	EXPECT(cudaStreamEndCapture(x->a, &graph) == cudaSuccess);
	EXPECT(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
	EXPECT(cudaGraphDestroy(graph) == cudaSuccess);
	return exec;
}

static void graph_end(struct buffers *x, cudaGraphExec_t exec)
{
	sync_all(x);
	EXPECT(cudaGraphExecDestroy(exec) == cudaSuccess);
}

/* The second launch uses the buffers as the first one did. */
static void graph_beside_a_copy(struct buffers *x)
{
	cudaGraphExec_t exec = captured(x);

	EXPECT(cudaGraphLaunch(exec, x->a) == cudaSuccess);
	sync_all(x);
	EXPECT(cudaGraphLaunch(exec, x->a) == cudaSuccess);
	copy_to(x->recv + 64, x->pinned, x->b);
	graph_end(x, exec);
}

/* A capture uses nothing; its launches are ordered by an event. */
static void graph_in_order(struct buffers *x)
{
	cudaGraphExec_t exec = captured(x);

	copy_to(x->recv + 64, x->pinned, x->b);
	for (int k = 0; k < 2; k++) {
		EXPECT(cudaEventRecord(x->event, x->b) == cudaSuccess);
		EXPECT(cudaStreamWaitEvent(x->a, x->event, 0) == cudaSuccess);
		EXPECT(cudaGraphLaunch(exec, x->a) == cudaSuccess);
		EXPECT(cudaEventRecord(x->event, x->a) == cudaSuccess);
		EXPECT(cudaStreamWaitEvent(x->b, x->event, 0) == cudaSuccess);
		copy_to(x->recv + 64, x->pinned, x->b);
	}
	graph_end(x, exec);
}

START_TEST(a_launch_of_a_graph_uses_the_buffers_of_its_collectives)
{
	expect_misuse(graph_beside_a_copy, 2, "called at copy_to", "called at reduce_at");
	expect_legal(graph_in_order);
}
END_TEST

START_TEST(programs_that_make_an_order_are_left_alone)
{
	expect_legal(one_stream);
	expect_legal(by_event);
	expect_legal(by_host);
	expect_legal(by_legacy_stream);
	expect_legal(beside);
	expect_legal(freed_and_made_again);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("buffers");
	TCase *t = tcase_create("buffers");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, who_touches_a_buffer_too_early_is_named);
	tcase_add_test(t, collectives_in_two_streams_do_not_share_what_they_write);
	tcase_add_test(t, a_launch_of_a_graph_uses_the_buffers_of_its_collectives);
	tcase_add_test(t, programs_that_make_an_order_are_left_alone);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
