/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVML for builds with real GPUs: the declarations that every build shares, for the hidden thunks
 * of backends/cuda/nvml.c. This folder precedes the Toolkit's include folder, which may have its
 * own nvml.h.
 */
#ifndef BACKENDS_CUDA_NVML_H
#define BACKENDS_CUDA_NVML_H

#ifndef FAKECUDA_API
#define FAKECUDA_API __attribute__((visibility("hidden")))
#endif
#include "backends/fakecuda/include/nvml.h"

#endif
