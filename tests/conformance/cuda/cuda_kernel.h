/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels of tests as plain functions over the fakedev_* calls; a capture of standard error. */
#ifndef TESTS_CONFORMANCE_CUDA_CUDA_KERNEL_H
#define TESTS_CONFORMANCE_CUDA_CUDA_KERNEL_H

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/device/shim/shim_fake.h"
#include "core/os/os.h"

/* ---- what is logged on stderr --------------------------------------------------------------- */

struct ch_capture {
	int saved, file;
	char text[8192];
};

static inline void ch_capture_begin(struct ch_capture *c)
{
	fflush(stderr);
	c->saved = dup(2);
	c->file = memfd_create("stderr", 0);
	dup2(c->file, 2);
}

static inline void ch_capture_end(struct ch_capture *c)
{
	fflush(stderr);
	dup2(c->saved, 2);
	ssize_t n = pread(c->file, c->text, sizeof c->text - 1, 0);
	c->text[n > 0 ? n : 0] = 0;
	close(c->saved);
	close(c->file);
}

/* ---- kernels -------------------------------------------------------------------------------- */

/* Registers function `name` (struct dev *, const struct name_args *) for both warp widths. */
#define CH_KERNEL(name, shared)                                                                    \
	static void name(struct dev *d, const struct name##_args *a);                              \
	static void name##_entry1(struct dev *d, const void *args)                                 \
	{                                                                                          \
		name(d, (const struct name##_args *)args);                                         \
	}                                                                                          \
	static void name##_entry32(struct dev *d, const void *args)                                \
	{                                                                                          \
		name(d, (const struct name##_args *)args);                                         \
	}                                                                                          \
	static const struct dev_kernel name##_w1 = {(const void *)name##_entry1, #name,            \
						    sizeof(struct name##_args), shared};           \
	static const struct dev_kernel name##_w32 = {(const void *)name##_entry32, #name,          \
						     sizeof(struct name##_args), shared};          \
	static __attribute__((constructor)) void name##_register(void)                             \
	{                                                                                          \
		fakecuda_register_kernel(&name##_w1, name##_entry1, 1);                            \
		fakecuda_register_kernel(&name##_w32, name##_entry32, 32);                         \
	}                                                                                          \
	static void name(struct dev *d, const struct name##_args *a)

static inline cudaError_t ch_launch_on(const struct dev_kernel *k, unsigned blocks,
				       unsigned threads, const void *args, cudaStream_t s)
{
	void *params[] = {(void *)(uintptr_t)args};

	return cudaLaunchKernel(k->func, (dim3){blocks, 1, 1}, (dim3){threads, 1, 1}, params,
				k->shared_bytes, s);
}

static inline bool ch_wait_word(struct dev *d, uint64_t word, uint64_t want)
{
	const struct wait w = {.on = (const void *)(uintptr_t)word,
			       .want = want,
			       .mask = WAIT_MASK_ALL,
			       .kind = WAIT_GE,
			       .bytes = 8,
			       .why = "word of the test",
			       .from = {-1, -1, -1, "test"}};

	return fakedev_wait(d, &w, NULL);
}

#endif
