/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Facts about a GPU from its drivers, for detection of the topology: CUDA's attributes and NVML's
 * links. core/comm calls it for the rank's GPU, `doppel topo detect` for all GPUs of a host. NVML
 * may be absent or refuse a call: the GPU then has no links, and its PCI link is taken from the
 * kernel.
 */
#ifndef CORE_DETECT_GPU_H
#define CORE_DETECT_GPU_H

#include "core/topo/detect/detect.h"

/* Fills *gpu for the CUDA device `dev`. bus_id is in the lower-case form of core/rank. gpu->dev is
 * NVML's index, the same for all processes of the host; -1: unknown. Errors: CUDA's, logged. */
ncclResult_t detect_gpu_facts(int dev, const char *bus_id, struct topo_detect_gpu *gpu);

/* Returns NVML's index of the GPU with that bus id; -1: unknown. */
int32_t detect_nvml_index(const char *bus_id);

#endif
