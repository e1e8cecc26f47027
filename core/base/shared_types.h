/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The types of shared words, for host and device, in C17 and C++17. The accessors are in
 * core/base/shared.h (host) and core/device/shim/shim.h (device).
 */
#ifndef CORE_BASE_SHARED_TYPES_H
#define CORE_BASE_SHARED_TYPES_H

#include "core/base/macros.h"

enum shared_order {
	SHARED_RELAXED = __ATOMIC_RELAXED,
	SHARED_ACQUIRE = __ATOMIC_ACQUIRE,
	SHARED_RELEASE = __ATOMIC_RELEASE,
	SHARED_ACQ_REL = __ATOMIC_ACQ_REL,
	SHARED_SEQ_CST = __ATOMIC_SEQ_CST,
};

enum shared_scope {
	SHARED_BLOCK,
	SHARED_GPU,
	SHARED_SYSTEM,
};

enum shared_access {
	SHARED_LOAD,
	SHARED_STORE,
	SHARED_RMW,
	SHARED_FENCE,
	SHARED_RANGE_READ,
	SHARED_RANGE_WRITE,
	SHARED_LINES, /* not an access: see shared_note_lines */
};

/* Only the accessors use the value field. */
typedef struct {
	uint32_t v_;
} shared_u32;
typedef struct {
	uint64_t v_ __attribute__((aligned(8)));
} shared_u64;
DOPPEL_CHECK_SIZE(shared_u32, 4);
DOPPEL_CHECK_SIZE(shared_u64, 8);

#endif
