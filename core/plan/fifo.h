/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The FIFO of works holds the works that do not fit into the arguments of a kernel (struct
 * dev_fifo). It is a ring of bytes in pinned host memory, made at init, one for each communicator
 * of two ranks or more. Each launch takes one contiguous piece of it:
 *
 *	struct dev_share share[channels]   the range of `number` that belongs to each block
 *	uint16_t number[]                  of works, block after block
 *	struct dev_work work[]             at a multiple of PLAN_FIFO_ALIGN bytes
 *
 * Positions count bytes since the communicator was made; 64 bits never wrap. When a block ends, it
 * stores the end of its launch's piece in the word of its channel. The launches of a communicator
 * run one after the other, so the word only rises.
 *
 * Only core/plan calls these functions, in the task that launches. Errors: ncclSystemError or a
 * CUDA error if there is no memory. A wait returns ncclInternalError if the communicator is
 * aborted, and the communicator's own error if it has failed.
 */
#ifndef CORE_PLAN_FIFO_H
#define CORE_PLAN_FIFO_H

#include "core/rank/rank.h"

#define PLAN_FIFO_ALIGN 128u
#define PLAN_FIFO_LEAST 4096u /* bytes; one work fits into half of it */

struct plan_fifo {
	uint8_t *mem;   /* NULL: the communicator has none */
	uint64_t bytes; /* a multiple of PLAN_FIFO_ALIGN */
	uint64_t produced;
	shared_u64 *consumed;            /* [DEV_MAX_CHANNELS], written by kernels */
	uint64_t sent[DEV_MAX_CHANNELS]; /* the end of each channel's last launch */
};

/* The works of one launch, and the channels of its blocks. */
struct plan_works {
	const struct dev_work *work; /* [n] */
	int32_t n;
	uint64_t channel_mask;
};

ncclResult_t plan_fifo_make(struct plan_fifo *f, uint64_t bytes);
/* Called when the kernels are gone. Accepts zeroed memory. */
void plan_fifo_free(struct plan_fifo *f);
/* Returns true if these works fit in one launch, whose blocks run them `runs` times in total. A
 * launch takes at most half of the FIFO, so that the next launch can be written while it runs. */
bool plan_fifo_fits(const struct plan_fifo *f, int32_t works, uint64_t runs);
/* Returns true if launches of so many works may wait for room. Each work may be in a launch of its
 * own that has all channels, and each launch may skip the end of the ring. */
bool plan_fifo_may_wait(const struct plan_fifo *f, int32_t works);
/* Writes the works, and fills *out for the launch. WAITS for the end of earlier kernels that use
 * the same bytes. */
ncclResult_t plan_fifo_write(struct ncclComm *comm, struct plan_fifo *f,
			     const struct plan_works *works, struct dev_fifo *out);
/* Commits the piece: the launch with *written is queued, and its blocks will free the piece.
 * Without this call, the next launch overwrites the piece. */
void plan_fifo_launched(struct plan_fifo *f, const struct plan_works *works,
			const struct dev_fifo *written);

#endif
