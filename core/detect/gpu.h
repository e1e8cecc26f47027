/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the drivers have of a GPU, for detection of the topology: CUDA's attributes, NVML's links.
 * Called by core/comm for the rank's GPU and by `doppel topo detect` for all of a host. NVML may be
 * absent, or refuse a call: then the GPU has no links, and its PCI link is the kernel's business.
 */
#ifndef CORE_DETECT_GPU_H
#define CORE_DETECT_GPU_H

#include "core/topo/detect.h"

/* Of the CUDA device `dev`; bus_id as core/rank has it (lower case). gpu->dev is NVML's number, the same for
 * all processes of the host; -1: unknown. Errors: CUDA's, logged. */
ncclResult_t detect_gpu_facts(int dev, const char *bus_id, struct topo_detect_gpu *gpu);

#endif
