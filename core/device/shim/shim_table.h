/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The warp widths for which kernels are built: fakecuda compiles each kernel for warps of 1 and of
 * 32 threads, CUDA for 32. Included by table.c.
 */
#ifndef CORE_DEVICE_SHIM_TABLE_H
#define CORE_DEVICE_SHIM_TABLE_H

/* Defines table_NAME(width): the kernel, or NULL if it is not built for the width. */
#ifdef DOPPEL_FAKECUDA
#define TABLE_KERNEL(name)                                                                         \
	extern const struct dev_kernel dev_kernel_##name##_w1, dev_kernel_##name##_w32;            \
	static const struct dev_kernel *table_##name(int width)                                    \
	{                                                                                          \
		return width == 1    ? &dev_kernel_##name##_w1                                     \
		       : width == 32 ? &dev_kernel_##name##_w32                                    \
				     : NULL;                                                       \
	}
#else
#define TABLE_KERNEL(name)                                                                         \
	extern const struct dev_kernel dev_kernel_##name##_w32;                                    \
	static const struct dev_kernel *table_##name(int width)                                    \
	{                                                                                          \
		return width == 32 ? &dev_kernel_##name##_w32 : NULL;                              \
	}
#endif

#endif
