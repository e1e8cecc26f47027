/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files that implement ptx/lane.h: lane_calls.c, lane_memory.c, lane_warp.c. */
#ifndef BACKENDS_FAKECUDA_LANE_RUN_H
#define BACKENDS_FAKECUDA_LANE_RUN_H

#include "backends/fakecuda/launch/device_access.h"

#define LANE_FRAME_ALIGN 64

static inline struct dev *lane_dev(struct ptx_lane *l)
{
	return l->dev;
}

/* Kills the thread and its context. */
#define lane_trap(l, error, ...) run_trap(lane_dev(l), error, __VA_ARGS__)

#endif
