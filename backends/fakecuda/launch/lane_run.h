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

/* ---- lane_lines.c --------------------------------------------------------------------------- */

/* Takes a strong store of 16 bytes as a piece of its line. False: the memory does not keep lines
 * whole, or the warp is too small, and the caller stores. */
bool lane_lines_store(struct dev *d, void *p, const void *from);
/* Writes the lines that one of these lanes began. */
void lane_lines_write(struct run_warp *w, uint32_t lanes);
/* Writes the lines that overlap these bytes. */
void lane_lines_show(struct run_warp *w, uint64_t address, uint64_t bytes);
/* The lane let time pass in a loop. */
void lane_lines_paused(struct dev *d);

#endif
