// SPDX-License-Identifier: BSD-3-Clause
// Host code with a table of kernels.
#include <cuda_runtime.h>

#include "linked.h"

const void *const host_kernels[1] = {(const void *)part_kernel};
