/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sizes of steps, and the first step of every connection. The functions depend on the environment
 * only. Unit: bytes. A variable outside of its limits is logged once.
 */
#ifndef CORE_TRANSPORT_BASE_STEP_BYTES_H
#define CORE_TRANSPORT_BASE_STEP_BYTES_H

#include "core/device/layout/work.h"

/* Returns the bytes of a step: NCCL_BUFFSIZE, NCCL_LL_BUFFSIZE or NCCL_LL128_BUFFSIZE / DEV_STEPS,
 * rounded down to whole grains of data. */
uint32_t transport_step_bytes(enum dev_proto proto);
/* Returns the step at which every connection begins, a multiple of DEV_STEPS. */
uint64_t transport_first_step(void);
/* Fills lines of LL or LL128 with the flag of a step before the first one. */
void transport_lines_init(enum dev_proto proto, void *lines, uint64_t bytes);

#endif
