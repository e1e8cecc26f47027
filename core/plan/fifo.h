/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The FIFO of works: where a launch has the works that do not fit into its kernel's arguments
 * (struct dev_fifo). A ring of bytes in pinned host memory, one per communicator of two ranks or
 * more, made at init. Each launch takes one piece of it, which never wraps:
 *
 *	struct dev_share share[channels]   which numbers are each block's
 *	uint16_t number[]                  of works, block after block
 *	struct dev_work work[]             at a multiple of PLAN_FIFO_ALIGN bytes
 *
 * Positions are counted in bytes since the communicator was made and never wrap (64 bits). A block
 * that ends stores the end of its launch's piece in the word of its channel; the launches of a
 * communicator run one after the other, so the word only rises.
 *
 * Called by core/plan alone, by the task that launches. Errors: ncclSystemError or a CUDA error
 * when there is no memory; in a wait, ncclInternalError when the communicator is aborted, and its
 * own error when it fails.
 */
#ifndef CORE_PLAN_FIFO_H
#define CORE_PLAN_FIFO_H

#include "core/rank/rank.h"

#define PLAN_FIFO_ALIGN 128u
#define PLAN_FIFO_LEAST 4096u /* bytes; half of it holds any one work */

struct plan_fifo {
	uint8_t *mem;   /* NULL: the communicator has none */
	uint64_t bytes; /* a multiple of PLAN_FIFO_ALIGN */
	uint64_t produced;
	shared_u64 *consumed;            /* [DEV_MAX_CHANNELS], written by kernels */
	uint64_t sent[DEV_MAX_CHANNELS]; /* the end of each channel's last launch */
};

/* The works of one launch, and which blocks run them. */
struct plan_works {
	const struct dev_work *work; /* [n] */
	int32_t n;
	uint64_t channel_mask;
};

ncclResult_t plan_fifo_make(struct plan_fifo *f, uint64_t bytes);
/* The kernels are gone. Zeroed memory is fine. */
void plan_fifo_free(struct plan_fifo *f);
/* Do so many works fit in one launch, which blocks run `runs` times in all? A launch takes at most
 * half of the FIFO, so that the next one can be written while it runs. */
bool plan_fifo_fits(const struct plan_fifo *f, int32_t works, uint64_t runs);
/* Writes the works, and fills *out for the launch. WAITS until earlier kernels have ended, if they
 * use the piece. */
ncclResult_t plan_fifo_write(struct ncclComm *comm, struct plan_fifo *f,
			     const struct plan_works *works, struct dev_fifo *out);
/* The launch with *written is queued: its blocks will free the piece. Without it, the next launch
 * overwrites the piece. */
void plan_fifo_launched(struct plan_fifo *f, const struct plan_works *works,
			const struct dev_fifo *written);

#endif
