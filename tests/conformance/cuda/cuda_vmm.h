/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the conformance tests of cuMem: calls of the driver that must or must not succeed,
 * memory that is created and mapped, kernels that use it. Used by cuda_vmm_test.c,
 * cuda_vmm_process_test.c and cuda_vmm_host_test.c.
 */
#ifndef TESTS_CONFORMANCE_CUDA_CUDA_VMM_H
#define TESTS_CONFORMANCE_CUDA_CUDA_VMM_H

#include <cuda.h>

#define CH_DRIVER
#include "tests/conformance/cuda/cuda_harness.h"

#define PAGE ((size_t)2 << 20)

#define DRV(call) ck_assert_int_eq((call), CUDA_SUCCESS)
/* The driver's call fails so and explains itself with these words. */
#define DRV_SAYS(call, error, words)                                                               \
	do {                                                                                       \
		struct ch_capture c_;                                                              \
		ch_capture_begin(&c_);                                                             \
		CUresult said_ = (call);                                                           \
		ch_capture_end(&c_);                                                               \
		ck_assert_msg(said_ == (error), "%s: got %d, expected %d", #call, (int)said_,      \
			      (int)(error));                                                       \
		ck_assert_msg(strstr(c_.text, words) != NULL, "%s: logged \"%s\"", #call,          \
			      c_.text);                                                            \
	} while (0)
#define DRV_MISUSE(call, error, words)                                                             \
	do {                                                                                       \
		sim_expect_misuse(words);                                                          \
		DRV_SAYS(call, error, words);                                                      \
	} while (0)

struct bump_args {
	uint64_t word, gate, seen;
};

/* Adds 1 to a word. */
CH_KERNEL(bump, 0)
{
	fakedev_add(d, (void *)(uintptr_t)a->word, 8, 1, SHARED_RELAXED, SHARED_SYSTEM);
}

/* Touches the memory, shows that it has, and stays until the gate opens. */
#define stay_args bump_args
CH_KERNEL(stay, 0)
{
	fakedev_add(d, (void *)(uintptr_t)a->word, 8, 1, SHARED_RELAXED, SHARED_SYSTEM);
	fakedev_store(d, (void *)(uintptr_t)a->seen, 8, 1, SHARED_RELEASE, SHARED_SYSTEM);
	ch_wait_word(d, a->gate, 1);
}

static inline CUmemAllocationProp prop_of(int device)
{
	return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes =
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {CU_MEM_LOCATION_TYPE_DEVICE, device},
				     .allocFlags = {.gpuDirectRDMACapable = 1}};
}

static inline CUmemAccessDesc access_of(int device)
{
	return (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, device},
				 CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

static inline CUmemGenericAllocationHandle create(int device, size_t bytes)
{
	const CUmemAllocationProp prop = prop_of(device);
	CUmemGenericAllocationHandle h = 0;

	DRV(cuMemCreate(&h, bytes, &prop, 0));
	ck_assert(h);
	return h;
}

/* Reserves, maps, and gives access to the device. */
static inline CUdeviceptr map(CUmemGenericAllocationHandle h, size_t bytes, int device)
{
	const CUmemAccessDesc desc = access_of(device);
	CUdeviceptr p = 0;

	DRV(cuMemAddressReserve(&p, bytes, 0, 0, 0));
	DRV(cuMemMap(p, bytes, 0, h, 0));
	DRV(cuMemSetAccess(p, bytes, &desc, 1));
	return p;
}

static inline void unmap(CUdeviceptr p, size_t bytes)
{
	DRV(cuMemUnmap(p, bytes));
	DRV(cuMemAddressFree(p, bytes));
}

static inline void put(CUdeviceptr p, uint64_t v)
{
	CU(cudaMemcpy((void *)(uintptr_t)p, &v, 8, cudaMemcpyHostToDevice));
}

static inline uint64_t get(CUdeviceptr p)
{
	uint64_t v = 0;

	CU(cudaMemcpy(&v, (void *)(uintptr_t)p, 8, cudaMemcpyDeviceToHost));
	return v;
}

#endif
