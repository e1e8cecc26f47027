/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs include by habit; for host code it is the runtime API.
 */
#ifndef FAKECUDA_CUDA_RUNTIME_H
#define FAKECUDA_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"

#endif
