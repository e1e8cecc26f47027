/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory, streams and events by calls of the driver, for the double and for a GPU: see
 * graph_cases.h, and add -lcuda. Each error code is one that CUDA documents for the call.
 */
#include <cuda.h>

#include "../graphs/graph_cases.h"

#define DEV    ((CUdeviceptr)(size_t)now.dev)
#define PINNED ((CUdeviceptr)(size_t)now.pinned)

/* ---- allocation ----------------------------------------------------------------------------- */

static void memory_of_no_bytes(void)
{
	CUdeviceptr p = 5;
	void *h = NULL;
	size_t free_bytes = 0, total = 0;

	IS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&p, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(NULL, 64));
	OK(cuMemHostAlloc(&h, 0, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(&h, 64, 0x80));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(NULL, 64, 0));
	OK(cuMemFreeHost(NULL));
	IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, (size_t)1 << 50));
	OK(cuMemFree(0));
	OK(cuMemGetInfo(&free_bytes, &total));
	IS(1, free_bytes <= total);
	OK(cudaPeekAtLastError()); /* the driver's errors are not the runtime's */
}

static void the_runtime_keeps_the_error_of_a_driver_call(void)
{
	void *p = NULL;

	IS(cudaErrorMemoryAllocation, cudaMalloc(&p, (size_t)1 << 50));
	IS(cudaErrorMemoryAllocation, cudaPeekAtLastError());
	IS(cudaErrorMemoryAllocation, cudaGetLastError());
	OK(cudaMalloc(&p, 0));
	IS(0, (size_t)p);
	OK(cudaFree(NULL));
	OK(cudaFreeHost(NULL));
}

static void pinned_memory_has_flags_and_a_device_pointer(void)
{
	CUdeviceptr d = 0;
	unsigned int flags = 0;
	void *h = NULL;

	OK(cuMemAllocHost(&h, 64));
	OK(cuMemHostGetDevicePointer(&d, h, 0));
	IS(1, d == (CUdeviceptr)(size_t)h);
	IS(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer(&d, h, 1));
	OK(cuMemHostGetFlags(&flags, h));
	IS(CU_MEMHOSTALLOC_DEVICEMAP, flags);
	OK(cuMemFreeHost(h));
	OK(cuMemHostAlloc(&h, 64, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED));
	OK(cuMemHostGetFlags(&flags, h));
	IS(7, flags);
	OK(cudaHostGetFlags(&flags, h));
	IS(7, flags);
	OK(cuMemFreeHost(h));
	OK(cudaHostAlloc(&h, 64, cudaHostAllocPortable | cudaHostAllocWriteCombined));
	OK(cudaHostGetFlags(&flags, h));
	IS(7, flags);
	OK(cuMemFreeHost(h));
}

static void host_memory_is_registered_once(void)
{
	static char plain[8192];
	unsigned int flags = 0;

	IS(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(NULL, 64, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(plain, 0, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemHostGetFlags(&flags, plain));
	OK(cuMemHostRegister(plain, sizeof plain, 0));
	IS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(plain, sizeof plain, 0));
	OK(cuMemHostUnregister(plain));
	OK(cuMemHostRegister(plain, sizeof plain, CU_MEMHOSTREGISTER_READ_ONLY));
	OK(cuMemHostUnregister(plain));
}

/* ---- pointers ------------------------------------------------------------------------------- */

static void a_pointer_has_attributes(void)
{
	CUdeviceptr base = 0;
	size_t bytes = 0;
	unsigned int type = 0;
	int ordinal = 7;
	void *host = NULL;

	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, DEV + 8));
	IS(CU_MEMORYTYPE_DEVICE, type);
	OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, DEV));
	IS(0, ordinal);
	OK(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, PINNED));
	IS(1, base == PINNED);
	OK(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, PINNED));
	IS(1, host == now.pinned);
	IS(CUDA_ERROR_INVALID_VALUE,
	   cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, DEV));
	IS(CUDA_ERROR_INVALID_VALUE,
	   cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (size_t)&type));
	IS(CUDA_ERROR_INVALID_VALUE,
	   cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, DEV));
	OK(cuMemGetAddressRange(&base, &bytes, DEV + 100));
	IS(1, base == DEV);
	IS(BYTES, bytes);
	OK(cuMemGetAddressRange(&base, &bytes, PINNED));
	IS(1, base == PINNED);
	IS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &bytes, (size_t)&type));
}

static void the_context_of_a_pointer_is_its_device_s(void)
{
	CUcontext of = NULL, primary = NULL;

	OK(cuCtxGetCurrent(&primary));
	OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, DEV));
	IS(1, of == primary);
}

static void several_attributes_are_returned_together(void)
{
	CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
				       CU_POINTER_ATTRIBUTE_RANGE_SIZE};
	unsigned int type = 7;
	int ordinal = 7;
	size_t bytes = 7;
	void *data[] = {&type, &ordinal, &bytes};

	OK(cuPointerGetAttributes(3, which, data, DEV));
	IS(CU_MEMORYTYPE_DEVICE, type);
	IS(0, ordinal);
	IS(BYTES, bytes);
	OK(cuPointerGetAttributes(3, which, data, (size_t)&type));
	IS(0, type);
	IS(-2, ordinal);
	IS(BYTES, bytes);
	IS(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttributes(0, which, data, DEV));
	IS(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttributes(3, NULL, data, DEV));
}

/* ---- copies and fills ----------------------------------------------------------------------- */

static void bytes_are_copied_in_each_direction(void)
{
	unsigned char from[64], to[64];

	for (int i = 0; i < 64; i++)
		from[i] = (unsigned char)(i + 1);
	OK(cuMemcpyHtoD(DEV, from, 64));
	OK(cuMemcpyDtoD(DEV + 64, DEV, 64));
	OK(cuMemcpyDtoH(to, DEV + 64, 64));
	IS(0, memcmp(from, to, 64));
	OK(cuMemcpy(DEV + 128, DEV, 64));
	OK(cuMemcpyDtoHAsync(now.pinned, DEV + 128, 64, now.a));
	OK(cuStreamSynchronize(now.a));
	IS(0, memcmp(from, now.pinned, 64));
	OK(cuMemcpyHtoDAsync(DEV, now.pinned + 1, 63, now.a));
	OK(cuMemcpyDtoDAsync(DEV + 192, DEV, 64, now.a));
	OK(cuMemcpyAsync(PINNED, DEV + 192, 63, now.a));
	OK(cuStreamSynchronize(now.a));
	IS(0, memcmp(from + 1, now.pinned, 63));
	OK(cuMemcpyHtoD(DEV, from, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(0, from, 64));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(NULL, DEV, 64));
}

static void a_copy_between_contexts_names_them(void)
{
	CUcontext c = NULL;
	unsigned char from[64], to[64];

	memset(from, 9, sizeof from);
	OK(cuCtxGetCurrent(&c));
	OK(cuMemcpyHtoD(DEV, from, 64));
	OK(cuMemcpyPeer(DEV + 64, c, DEV, c, 64));
	OK(cuMemcpyDtoH(to, DEV + 64, 64));
	IS(0, memcmp(from, to, 64));
	OK(cuMemcpyPeerAsync(DEV + 128, c, DEV, c, 64, now.a));
	OK(cuStreamSynchronize(now.a));
}

static void fills_have_units(void)
{
	unsigned char got[16];
	const unsigned char want[16] = {7, 7, 7, 7, 0x34, 0x12, 0x34, 0x12, 1, 2, 3, 4, 1, 2, 3, 4};

	OK(cuMemsetD8(DEV, 7, 4));
	OK(cuMemsetD16(DEV + 4, 0x1234, 2));
	OK(cuMemsetD32(DEV + 8, 0x04030201, 2));
	OK(cuMemcpyDtoH(got, DEV, 16));
	IS(0, memcmp(got, want, 16));
	OK(cuMemsetD8Async(DEV, 0, 16, now.a));
	OK(cuMemsetD16Async(DEV, 0x0707, 2, now.a));
	OK(cuMemsetD16Async(DEV + 4, 0x1234, 2, now.a));
	OK(cuMemsetD32Async(DEV + 8, 0x04030201, 2, now.a));
	OK(cuStreamSynchronize(now.a));
	OK(cuMemcpyDtoH(got, DEV, 16));
	IS(0, memcmp(got, want, 16));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD16(DEV + 1, 0, 2));
	IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(DEV + 2, 0, 2));
	OK(cuMemsetD32(DEV, 0, 0));
}

/* ---- streams and events --------------------------------------------------------------------- */

static void streams_have_properties(void)
{
	CUstream s = NULL;
	CUdevice dev = 7;
	unsigned int flags = 7;
	unsigned long long id = 0;
	int priority = 7, least = 7, greatest = 7;

	IS(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(NULL, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&s, 0x80));
	OK(cuCtxGetStreamPriorityRange(&least, &greatest));
	IS(0, least);
	IS(-5, greatest);
	OK(cuStreamCreateWithPriority(&s, 1, -9)); /* 1: non-blocking; clamped */
	OK(cuStreamGetPriority(s, &priority));
	IS(greatest, priority);
	OK(cuStreamGetFlags(s, &flags));
	IS(1, flags);
	OK(cuStreamGetDevice(s, &dev));
	IS(0, dev);
	OK(cuStreamGetId(s, &id));
	IS(CUDA_ERROR_INVALID_VALUE, cuStreamGetPriority(s, NULL));
	OK(cuStreamQuery(s));
	OK(cuStreamDestroy(s));
}

static void events_order_streams(void)
{
	CUevent e = NULL, f = NULL;
	float ms = -1;

	IS(CUDA_ERROR_INVALID_VALUE, cuEventCreate(NULL, 0));
	IS(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&e, 0x80));
	IS(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&e, 4)); /* interprocess, with timing */
	OK(cuEventCreate(&e, 0));
	OK(cuEventCreate(&f, 0));
	IS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, e, f));
	OK(cuEventRecord(e, now.a));
	OK(cuStreamWaitEvent(now.b, e, 0));
	OK(cuEventRecordWithFlags(f, now.b, 0));
	OK(cuEventSynchronize(f));
	OK(cuEventQuery(e));
	OK(cuEventElapsedTime(&ms, e, f));
	IS(1, ms >= 0);
	IS(CUDA_ERROR_INVALID_VALUE, cuEventRecordWithFlags(f, now.b, 0x80));
	IS(CUDA_ERROR_INVALID_VALUE, cuStreamWaitEvent(now.b, e, 0x80));
	OK(cuEventDestroy(e));
	OK(cuEventDestroy(f));
	OK(cudaPeekAtLastError());
}

static const struct graph_case cases[] = {
	CASE(memory_of_no_bytes),
	CASE(the_runtime_keeps_the_error_of_a_driver_call),
	CASE(pinned_memory_has_flags_and_a_device_pointer),
	CASE(host_memory_is_registered_once),
	CASE(a_pointer_has_attributes),
	CASE(the_context_of_a_pointer_is_its_device_s),
	CASE(several_attributes_are_returned_together),
	CASE(bytes_are_copied_in_each_direction),
	CASE(a_copy_between_contexts_names_them),
	CASE(fills_have_units),
	CASE(streams_have_properties),
	CASE(events_order_streams),
};

int main(int argc, char **argv)
{
	return cases_main(cases, sizeof cases / sizeof cases[0], argc, argv);
}
