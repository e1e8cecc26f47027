/* SPDX-License-Identifier: BSD-3-Clause */
/* The first calls of a program to the driver, faults of its calls, and the names in reports. */
#include <cuda.h>

#include "tests/conformance/cuda/cuda_harness.h"

#define DRV(call) ck_assert_int_eq((call), CUDA_SUCCESS)

CH_TEST(a_call_before_cu_init_is_refused)
{
	CUdeviceptr p = 0;
	CUcontext c = NULL;
	int n = 7;

	ck_assert_int_eq(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
	ck_assert_int_eq(cuDeviceGet(&n, 0), CUDA_ERROR_NOT_INITIALIZED);
	ck_assert_int_eq(cuCtxGetCurrent(&c), CUDA_ERROR_NOT_INITIALIZED);
	ck_assert_int_eq(cuMemAlloc(&p, 64), CUDA_ERROR_NOT_INITIALIZED);
	ck_assert_int_eq(cuInit(1), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
	ck_assert_int_eq(n, 7);
	DRV(cuInit(0));
	DRV(cuDeviceGetCount(&n));
	ck_assert_int_eq(n, 8);
	ck_assert_int_eq(cuCtxGetDevice(&n), CUDA_ERROR_INVALID_CONTEXT);
	ck_assert_int_eq(cudaPeekAtLastError(), cudaSuccess);
}

/* A task of the process that has made no call has no context. */
static void sees_no_context(void *arg)
{
	CUcontext c = (CUcontext)arg;

	DRV(cuCtxGetCurrent(&c));
	ck_assert_ptr_null(c);
}

CH_TEST(the_runtime_initializes_the_driver)
{
	CUcontext c = NULL;
	int active = 7;
	unsigned int flags = 7;

	CU(cudaSetDevice(1));
	DRV(cuCtxGetCurrent(&c));
	ck_assert_ptr_nonnull(c);
	DRV(cuDevicePrimaryCtxGetState(1, &flags, &active));
	ck_assert_int_eq(active, 1);
	DRV(cuDevicePrimaryCtxGetState(0, &flags, &active));
	ck_assert_int_eq(active, 0);
	ch_in(os_proc(), sees_no_context, &c);
	CU(cudaDeviceReset());
	DRV(cuDevicePrimaryCtxGetState(1, &flags, &active));
	ck_assert_int_eq(active, 0);
}

CH_TEST(an_unknown_context_is_refused)
{
	int none;

	DRV(cuInit(0));
	ck_assert_int_eq(cuCtxSetCurrent((CUcontext)&none), CUDA_ERROR_INVALID_CONTEXT);
	ck_assert_int_eq(cuCtxPushCurrent((CUcontext)&none), CUDA_ERROR_INVALID_CONTEXT);
	ck_assert_int_eq(cuCtxPushCurrent(NULL), CUDA_ERROR_INVALID_CONTEXT);
	ck_assert_int_eq(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
}

/* Calls of both APIs are one sequence. */
CH_TEST(a_fault_counts_a_call_once_whichever_api_makes_it,
	.plan = "cuda.malloc nth=3 fail\ncuda.memset nth=2 fail error=Unknown\n")
{
	CUdeviceptr a = 0, b = 0, c = 0;
	void *p = NULL;

	CU(cudaMalloc(&p, 64));
	DRV(cuMemAlloc(&a, 64));
	ck_assert_int_eq(cuMemAlloc(&b, 64), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(b, 0);
	ck_assert_int_eq(cudaPeekAtLastError(), cudaSuccess);
	DRV(cuMemAlloc(&c, 64));
	DRV(cuMemsetD8(a, 0, 64));
	CU_FAILS(cudaMemset(p, 0, 64), cudaErrorUnknown);
	DRV(cuMemFree(a));
	DRV(cuMemFree(c));
	CU(cudaFree(p));
}

/* ---- reports -------------------------------------------------------------------------------- */

static void reports(const char *words, cudaError_t want, cudaError_t got,
		    const struct ch_capture *c)
{
	ck_assert_int_eq(got, want);
	ck_assert_msg(strstr(c->text, words) != NULL, "logged \"%s\"", c->text);
}

CH_TEST(a_report_names_the_call_of_the_program)
{
	struct ch_capture c;
	void *p = NULL;
	int plain = 0;

	CU(cudaMalloc(&p, 64));
	ch_capture_begin(&c);
	cudaError_t rc = cudaMemset(&plain, 0, 4);
	ch_capture_end(&c);
	reports("cudaMemset: 0x", cudaErrorInvalidValue, rc, &c);
	ch_capture_begin(&c);
	rc = (cudaError_t)cuMemsetD8((CUdeviceptr)(uintptr_t)&plain, 0, 4);
	ch_capture_end(&c);
	reports("cuMemsetD8: 0x", cudaErrorInvalidValue, rc, &c);
	CU(cudaFree(p));
}

int main(void)
{
	TCase *t = tcase_create("first");

	CH_ADD(t, a_call_before_cu_init_is_refused);
	CH_ADD(t, the_runtime_initializes_the_driver);
	CH_ADD(t, an_unknown_context_is_refused);
	CH_ADD(t, a_fault_counts_a_call_once_whichever_api_makes_it);
	CH_ADD(t, a_report_names_the_call_of_the_program);
	return ch_suite_run("cuda first", t);
}
