/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For programs that include cuda_runtime.h; for host code it is the runtime API. For CUDA source
 * (`doppel cc`, clang) it is the language, too: its words, built-in variables and functions, from
 * their public documentation. docs/cuda/README.md has what is there.
 */
#ifndef FAKECUDA_CUDA_RUNTIME_H
#define FAKECUDA_CUDA_RUNTIME_H

#if defined(__CUDA__) && defined(__clang__)
#include <math.h>
#include <string.h>
#include <time.h>
#endif

#include "cuda_runtime_api.h"
#ifdef __cplusplus
#include "device/typed.h"
#endif

#if defined(__CUDA__) && defined(__clang__)
#include "device/launch.h"
#include "device/vectors.h"
#include "device/bits.h"
#include "device/bytes.h"
#include "device/math.h"
#include "device/warp.h"
#include "device/atomics.h"
#include "device/spaces.h"
#endif

#endif
