/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream memory operations and host functions of the driver, for the double and for a GPU: see
 * graph_cases.h, and add -lcuda. The results are those of the documentation.
 */
#include <cuda.h>

#include "../graphs/graph_cases.h"

#define DEV    ((CUdeviceptr)(size_t)now.dev)
#define PINNED ((CUdeviceptr)(size_t)now.pinned)

/* Stores the word by stream b, and waits for that. */
static void word_set(CUdeviceptr at, cuuint64_t value, int bits)
{
	OK(bits == 32 ? cuStreamWriteValue32(now.b, at, (cuuint32_t)value, 0)
		      : cuStreamWriteValue64(now.b, at, value, 0));
	OK(cuStreamSynchronize(now.b));
}

static CUresult word_wait(CUdeviceptr at, cuuint64_t value, int bits, unsigned int test)
{
	return bits == 32 ? cuStreamWaitValue32(now.a, at, (cuuint32_t)value, test)
			  : cuStreamWaitValue64(now.a, at, value, test);
}

static cuuint64_t word_get(CUdeviceptr at, int bits)
{
	cuuint64_t value = 0;

	OK(cuMemcpyDtoH(&value, at, (size_t)bits / 8));
	return value;
}

/* ---- writes --------------------------------------------------------------------------------- */

static void a_write_is_an_operation_of_its_stream(void)
{
	OK(cuMemsetD8Async(DEV, 0xff, 32, now.a));
	OK(cuStreamWriteValue32(now.a, DEV, 5, CU_STREAM_WRITE_VALUE_DEFAULT));
	OK(cuStreamWriteValue64(now.a, DEV + 8, 0x123456789abcull, 0));
	OK(cuMemcpyDtoDAsync(DEV + 16, DEV, 16, now.a));
	OK(cuStreamSynchronize(now.a));
	IS(5, word_get(DEV + 16, 32));
	IS(0xffffffff, word_get(DEV + 20, 32));
	IS(0x123456789abc, word_get(DEV + 24, 64));
}

/* ---- waits ---------------------------------------------------------------------------------- */

static void a_wait_holds_its_stream_until_the_word_is_written(void)
{
	word_set(PINNED, 0, 32);
	word_set(PINNED + 8, 0, 32);
	OK(cuStreamWaitValue32(now.a, PINNED, 3, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuStreamWriteValue32(now.a, PINNED + 8, 9, 0));
	IS(CUDA_ERROR_NOT_READY, cuStreamQuery(now.a));
	word_set(PINNED, 2, 32);
	IS(CUDA_ERROR_NOT_READY, cuStreamQuery(now.a));
	word_set(PINNED, 3, 32);
	OK(cuStreamSynchronize(now.a));
	IS(9, *(volatile unsigned int *)(now.pinned + 8));
}

/* Checks both the test that fails for the word and one that holds afterwards. */
static void waits_until(CUdeviceptr at, int bits, unsigned int test, cuuint64_t value,
			cuuint64_t before, cuuint64_t after)
{
	word_set(at, before, bits);
	OK(word_wait(at, value, bits, test));
	OK(cuStreamWriteValue32(now.a, at + 16, 1, 0));
	IS(CUDA_ERROR_NOT_READY, cuStreamQuery(now.a));
	word_set(at, after, bits);
	OK(cuStreamSynchronize(now.a));
}

static void a_wait_compares_as_its_flags_have_it(void)
{
	const CUdeviceptr words[] = {PINNED, DEV};
	const cuuint64_t top = 1ull << 63;

	for (int i = 0; i < 2; i++) {
		waits_until(words[i], 32, CU_STREAM_WAIT_VALUE_EQ, 7, 8, 7);
		waits_until(words[i], 32, CU_STREAM_WAIT_VALUE_GEQ, 7, 6, 8);
		waits_until(words[i], 32, CU_STREAM_WAIT_VALUE_GEQ, 0xfffffffe, 0x80000000, 1);
		waits_until(words[i], 32, CU_STREAM_WAIT_VALUE_AND, 6, 9, 4);
		waits_until(words[i], 32, CU_STREAM_WAIT_VALUE_NOR, 0xffff, 0xffff0000, 0x7fff0000);
		waits_until(words[i], 64, CU_STREAM_WAIT_VALUE_EQ, top | 7, 7, top | 7);
		waits_until(words[i], 64, CU_STREAM_WAIT_VALUE_GEQ, ~1ull, top, 1);
		waits_until(words[i], 64, CU_STREAM_WAIT_VALUE_AND, top, ~top, top);
		waits_until(words[i], 64, CU_STREAM_WAIT_VALUE_NOR, ~top, top, 0);
	}
}

static void a_wait_that_holds_already_does_not_wait(void)
{
	word_set(DEV, 5, 32);
	OK(cuStreamWaitValue32(now.a, DEV, 5, CU_STREAM_WAIT_VALUE_GEQ));
	OK(cuStreamWaitValue32(now.a, DEV, 4, CU_STREAM_WAIT_VALUE_AND));
	OK(cuStreamSynchronize(now.a));
}

/* ---- batches -------------------------------------------------------------------------------- */

static CUstreamBatchMemOpParams op_write(CUdeviceptr at, cuuint32_t value)
{
	CUstreamBatchMemOpParams p;

	memset(&p, 0, sizeof p);
	p.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	p.writeValue.address = at;
	p.writeValue.value = value;
	return p;
}

static CUstreamBatchMemOpParams op_wait(CUdeviceptr at, cuuint64_t value)
{
	CUstreamBatchMemOpParams p;

	memset(&p, 0, sizeof p);
	p.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
	p.waitValue.address = at;
	p.waitValue.value64 = value;
	p.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	return p;
}

static CUstreamBatchMemOpParams op_other(CUstreamBatchMemOpType operation, unsigned int flags)
{
	CUstreamBatchMemOpParams p;

	memset(&p, 0, sizeof p);
	p.memoryBarrier.operation = operation;
	p.memoryBarrier.flags = flags;
	return p;
}

static void a_batch_runs_in_its_order(void)
{
	CUstreamBatchMemOpParams p[4];

	word_set(DEV, 1, 64);
	word_set(DEV + 8, 0, 32);
	p[0] = op_wait(DEV, 2);
	p[1] = op_write(DEV + 8, 7);
	p[2] = op_other(CU_STREAM_MEM_OP_BARRIER, CU_STREAM_MEMORY_BARRIER_TYPE_GPU);
	p[3] = op_write(DEV + 12, 8);
	OK(cuStreamBatchMemOp(now.a, 4, p, 0));
	IS(CUDA_ERROR_NOT_READY, cuStreamQuery(now.a));
	word_set(DEV, 2, 64);
	OK(cuStreamSynchronize(now.a));
	IS(7, word_get(DEV + 8, 32));
	IS(8, word_get(DEV + 12, 32));
}

/* ---- errors --------------------------------------------------------------------------------- */

static void wrong_arguments_are_refused(void)
{
	CUstreamBatchMemOpParams p = op_write(DEV, 1);

	IS(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(now.a, DEV + 2, 1, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue64(now.a, DEV + 4, 1, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(now.a, DEV + 1, 1, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(now.a, 0, 1, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue64(now.a, DEV, 1, 4));
	IS(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(now.a, 1, &p, 1));
	IS(CUDA_ERROR_INVALID_VALUE,
	   cuStreamWriteValue64(now.a, DEV, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
	p = op_other((CUstreamBatchMemOpType)9, 0);
	IS(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(now.a, 1, &p, 0));
	OK(cuStreamSynchronize(now.a));
}

static void a_flush_needs_a_gpu_that_can(void)
{
	int can = 7;

	OK(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 0));
	word_set(DEV, 1, 32);
	if (!can)
		IS(CUDA_ERROR_NOT_SUPPORTED,
		   cuStreamWaitValue32(now.a, DEV, 1, CU_STREAM_WAIT_VALUE_FLUSH));
	OK(cuStreamSynchronize(now.a));
}

/* ---- lookups -------------------------------------------------------------------------------- */

static CUresult (*wait32_of(int version))(CUstream, CUdeviceptr, cuuint32_t, unsigned int)
{
	CUresult (*fn)(CUstream, CUdeviceptr, cuuint32_t, unsigned int) = NULL;
	CUdriverProcAddressQueryResult st = CU_GET_PROC_ADDRESS_SUCCESS;
	void *p = NULL;

	OK(cuGetProcAddress("cuStreamWaitValue32", &p, version, 0, &st));
	IS(CU_GET_PROC_ADDRESS_SUCCESS, st);
	memcpy(&fn, &p, sizeof p);
	return fn;
}

static void the_first_version_is_another_function(void)
{
	int v1 = 7, wide = 0, nor = 0;

	OK(cuDeviceGetAttribute(&v1, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 0));
	OK(cuDeviceGetAttribute(&wide, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0));
	OK(cuDeviceGetAttribute(&nor, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 0));
	IS(1, wide);
	IS(1, nor);
	IS(1, wait32_of(9000) != wait32_of(12000));
	IS(1, wait32_of(12000) == cuStreamWaitValue32);
	if (!v1)
		IS(CUDA_ERROR_NOT_SUPPORTED, wait32_of(9000)(now.a, DEV, 0, 0));
}

/* ---- host functions ------------------------------------------------------------------------- */

static void a_host_function_of_the_driver_is_the_runtime_s(void)
{
	cudaGraph_t g = NULL;
	cudaGraphExec_t x;

	IS(CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc(now.a, NULL, NULL));
	OK(cuLaunchHostFunc(now.a, add_one, NULL));
	OK(cuStreamSynchronize(now.a));
	IS(1, added());
	OK(begin(now.a));
	OK(cuLaunchHostFunc(now.a, add_one, NULL));
	OK(cudaStreamEndCapture(now.a, &g));
	IS(1, node_count(g));
	IS(cudaGraphNodeTypeHost, node_type(g, 0));
	x = exec_of(g);
	launch_and_wait(x, now.a);
	IS(2, added());
	OK(cudaGraphExecDestroy(x));
	OK(cudaGraphDestroy(g));
}

static const struct graph_case cases[] = {
	CASE(a_write_is_an_operation_of_its_stream),
	CASE(a_wait_holds_its_stream_until_the_word_is_written),
	CASE(a_wait_compares_as_its_flags_have_it),
	CASE(a_wait_that_holds_already_does_not_wait),
	CASE(a_batch_runs_in_its_order),
	CASE(wrong_arguments_are_refused),
	CASE(a_flush_needs_a_gpu_that_can),
	CASE(the_first_version_is_another_function),
	CASE(a_host_function_of_the_driver_is_the_runtime_s),
};

int main(int argc, char **argv)
{
	return cases_main(cases, sizeof cases / sizeof cases[0], argc, argv);
}
