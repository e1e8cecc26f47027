/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For programs that include cuda_runtime.h; for host code it is the runtime API.
 */
#ifndef FAKECUDA_CUDA_RUNTIME_H
#define FAKECUDA_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"

#endif
