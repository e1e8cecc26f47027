/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream memory operations (memop.c), as operations of streams. Only fakecuda.h includes it. */
#ifndef BACKENDS_FAKECUDA_STREAM_MEMOP_H
#define BACKENDS_FAKECUDA_STREAM_MEMOP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/shared.h"

#define FC_MEMOPS_MOST 256 /* a batch has fewer: the documentation */

enum fc_memop_what { FC_MEMOP_WRITE, FC_MEMOP_WAIT, FC_MEMOP_BARRIER };
struct fc_memop {
	uint64_t address, value;
	uint8_t what;    /* enum fc_memop_what */
	uint8_t bytes;   /* 4 or 8; 0: a barrier */
	uint8_t test;    /* of a wait: CUstreamWaitValue_flags */
	shared_u32 over; /* of a wait: the context died */
};

struct fc_op;
void fc_memop_start(struct fc_op *op);
void fc_memop_kill(struct fc_op *op); /* ends a running wait, because the context died */

#endif
