/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which kernels there are, by warp width. fakecuda has two builds of the same source, CUDA the one
 * of 32 lanes (DOPPEL_FAKECUDA says which this is).
 */
#include "core/device/work.h"

extern const struct dev_kernel dev_kernel_dev_collective_w32, dev_kernel_dev_messages_w32,
	dev_kernel_dev_one_rank_w32;
#ifdef DOPPEL_FAKECUDA
extern const struct dev_kernel dev_kernel_dev_collective_w1, dev_kernel_dev_messages_w1,
	dev_kernel_dev_one_rank_w1;
#endif

const struct dev_kernel *dev_kernel_collective(int warp_width)
{
#ifdef DOPPEL_FAKECUDA
	if (warp_width == 1)
		return &dev_kernel_dev_collective_w1;
#endif
	return warp_width == 32 ? &dev_kernel_dev_collective_w32 : NULL;
}

const struct dev_kernel *dev_kernel_messages(int warp_width)
{
#ifdef DOPPEL_FAKECUDA
	if (warp_width == 1)
		return &dev_kernel_dev_messages_w1;
#endif
	return warp_width == 32 ? &dev_kernel_dev_messages_w32 : NULL;
}

const struct dev_kernel *dev_kernel_one_rank(int warp_width)
{
#ifdef DOPPEL_FAKECUDA
	if (warp_width == 1)
		return &dev_kernel_dev_one_rank_w1;
#endif
	return warp_width == 32 ? &dev_kernel_dev_one_rank_w32 : NULL;
}
