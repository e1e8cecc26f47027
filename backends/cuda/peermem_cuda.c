/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peermem over real CUDA: the HCA double accesses real GPU memory, in builds with real GPUs and
 * fakeverbs. Each GPU has a pinned staging buffer and a stream for the copies. Both are created
 * when the first range of that GPU is pinned. That is before any kernel runs: between first launch
 * and teardown nothing may synchronise implicitly with a kernel that spins.
 *
 * It is simple rather than fast: each GPU runs one transfer at a time and waits for it. When
 * `write` returns, the data is in GPU memory and visible to kernels that poll for it, so a GPU
 * flush has no effect. Staging buffers exist until the process ends. Only the threads engine runs
 * with real GPUs, so waiting under a stage's lock delays only transfers of the same GPU.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backends/peermem.h"

#define STAGE_MAX_GPUS 64
#define STAGE_BYTES    (1u << 20)

struct stage {
	struct os_mutex lock;
	cudaStream_t stream;
	void *buffer; /* pinned; NULL: not yet allocated */
};

static struct stage stages[STAGE_MAX_GPUS]; /* indexed by CUDA ordinal */

static int stage_failed(const char *what, int device, cudaError_t rc)
{
	fprintf(stderr, "peermem: %s on GPU %d: %s\n", what, device, cudaGetErrorString(rc));
	(void)cudaGetLastError();
	return EIO;
}

/* Creates the stream and the buffer. The caller holds the stage's lock. */
static int stage_make(struct stage *s, int device)
{
	int before = 0, rc = 0;
	cudaError_t err;

	if (s->buffer)
		return 0;
	err = cudaGetDevice(&before);
	if (err == cudaSuccess)
		err = cudaSetDevice(device);
	if (err != cudaSuccess)
		return stage_failed("cudaSetDevice", device, err);
	err = cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking);
	if (err != cudaSuccess) {
		rc = stage_failed("cudaStreamCreateWithFlags", device, err);
		goto out_device;
	}
	err = cudaHostAlloc(&s->buffer, STAGE_BYTES, cudaHostAllocPortable);
	if (err != cudaSuccess) {
		rc = stage_failed("cudaHostAlloc of the staging buffer", device, err);
		s->buffer = NULL;
		(void)cudaStreamDestroy(s->stream);
	}
out_device:
	(void)cudaSetDevice(before);
	return rc;
}

/* Returns the ordinal of the GPU that owns the address, or -1. */
static int peermem_device_of(uint64_t address)
{
	struct cudaPointerAttributes a;
	cudaError_t err = cudaPointerGetAttributes(&a, (const void *)(uintptr_t)address);

	if (err != cudaSuccess) {
		(void)cudaGetLastError();
		return -1;
	}
	return a.type == cudaMemoryTypeDevice && a.device < STAGE_MAX_GPUS ? a.device : -1;
}

static bool peermem_cuda_owns(const struct os_proc *proc, uint64_t address, uint64_t bytes)
{
	(void)proc;
	if (bytes == 0)
		return peermem_device_of(address) >= 0;
	return peermem_device_of(address) >= 0 || peermem_device_of(address + bytes - 1) >= 0;
}

static int peermem_cuda_pin(struct os_proc *proc, uint64_t address, uint64_t bytes,
			    struct peermem_region *r)
{
	int device = peermem_device_of(address), rc;
	CUdeviceptr base = 0;
	size_t size = 0;

	(void)proc;
	if (device < 0 || cuMemGetAddressRange(&base, &size, address) != CUDA_SUCCESS)
		return EFAULT;
	if (address + bytes < address || address + bytes > base + size)
		return EFAULT;
	os_mutex_lock(&stages[device].lock);
	rc = stage_make(&stages[device], device);
	os_mutex_unlock(&stages[device].lock);
	if (rc)
		return rc;
	r->device = (uint32_t)device;
	r->cookie = 0;
	r->address = address;
	r->bytes = bytes;
	return 0;
}

static void peermem_cuda_unpin(const struct peermem_region *r)
{
	(void)r; /* the staging buffer belongs to the GPU, not to the region */
}

static int peermem_check(const struct peermem_region *r, uint64_t address, uint64_t bytes)
{
	if (r->device >= STAGE_MAX_GPUS || !stages[r->device].buffer)
		return EINVAL;
	if (address < r->address || bytes > r->bytes || address - r->address > r->bytes - bytes)
		return EFAULT;
	return 0;
}

/* Copies at most one buffer of bytes, to the GPU if `to_gpu`. The caller holds the stage's lock. */
static int stage_copy(struct stage *s, int device, uint64_t address, void *data, size_t n,
		      bool to_gpu)
{
	void *gpu = (void *)(uintptr_t)address;
	cudaError_t err;

	if (to_gpu) {
		memcpy(s->buffer, data, n);
		err = cudaMemcpyAsync(gpu, s->buffer, n, cudaMemcpyHostToDevice, s->stream);
	} else {
		err = cudaMemcpyAsync(s->buffer, gpu, n, cudaMemcpyDeviceToHost, s->stream);
	}
	if (err == cudaSuccess)
		err = cudaStreamSynchronize(s->stream);
	if (err != cudaSuccess)
		return stage_failed(to_gpu ? "write" : "read", device, err);
	if (!to_gpu)
		memcpy(data, s->buffer, n);
	return 0;
}

static int peermem_transfer(const struct peermem_region *r, uint64_t address, void *data,
			    uint64_t bytes, bool to_gpu)
{
	int rc = peermem_check(r, address, bytes);
	struct stage *s = &stages[r->device];

	if (rc)
		return rc;
	os_mutex_lock(&s->lock);
	for (uint64_t at = 0; at < bytes && !rc;) {
		size_t n = bytes - at < STAGE_BYTES ? (size_t)(bytes - at) : STAGE_BYTES;

		rc = stage_copy(s, (int)r->device, address + at, (uint8_t *)data + at, n, to_gpu);
		at += n;
	}
	os_mutex_unlock(&s->lock);
	return rc;
}

static int peermem_cuda_write(const struct peermem_region *r, uint32_t hca, uint64_t address,
			      const void *data, uint64_t bytes)
{
	(void)hca;
	return peermem_transfer(r, address, (void *)(uintptr_t)data, bytes, true);
}

static int peermem_cuda_read(const struct peermem_region *r, uint32_t hca, uint64_t address,
			     void *data, uint64_t bytes)
{
	(void)hca;
	return peermem_transfer(r, address, data, bytes, false);
}

static int peermem_cuda_load(const struct peermem_region *r, uint32_t hca, uint64_t address,
			     uint64_t *value)
{
	return peermem_cuda_read(r, hca, address, value, sizeof *value);
}

static const struct peermem_ops peermem_cuda_ops = {
	.owns = peermem_cuda_owns,
	.pin = peermem_cuda_pin,
	.unpin = peermem_cuda_unpin,
	.write = peermem_cuda_write,
	.read = peermem_cuda_read,
	.load = peermem_cuda_load,
};

__attribute__((constructor)) static void peermem_cuda_register(void)
{
	peermem_register(&peermem_cuda_ops);
}
