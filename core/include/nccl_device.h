/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's device API, version 2.32.3: kernels of a program that reach the memory of other GPUs of
 * the host (docs/cuda/device-api.md).
 *
 *	nccl_device/types.h        types that the host and kernels share
 *	nccl_device/host.h         functions of the host
 *	nccl_device/core.h         sets of ranks; addresses in windows and in resource memory
 *	nccl_device/ptr.h          places in windows with a type
 *	nccl_device/coop.h         sets of threads
 *	nccl_device/lsa_barrier.h  barriers of the ranks of a host
 *	nccl_device/ll_a2a.h       lines of data and flag between the ranks of a host
 *	nccl_device/gin.h          network operations of kernels: they compile, and trap
 *	nccl_device/barrier.h      barriers of all ranks
 *
 * Parts that are not built: a function of the host returns ncclInvalidUsage or zeros, and logs one
 * line with its name. A function of the GPU prints one line with its name, and traps.
 */
#ifndef NCCL_DEVICE_H_
#define NCCL_DEVICE_H_

#include "nccl_device/host.h"
#include "nccl_device/core.h"
#include "nccl_device/ptr.h"

#ifdef __CUDACC__
#include "nccl_device/barrier.h"
#include "nccl_device/ll_a2a.h"
#endif

#endif
