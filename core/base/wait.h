/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A wait, as data. Every place in Doppel that waits fills in such a struct. The scheduler, gdb and
 * the hang explainer then read the same facts: the awaited condition, the reason, and the agent
 * that must make it true. Used on the host (os_wait) and by warps (dev_wait), in C17 and C++17.
 *
 * A wait on a word is true when ((load(on) & mask) OP want); `bytes` (4 or 8) is the word's size.
 * WAIT_GE_CYCLIC is true when the difference, as a signed word, is not negative. Counters that
 * overflow compare so. CUDA's stream memory operations use it.
 *
 * WAIT_LINE16 waits on a 16-byte line {data1, flag1, data2, flag2} of four uint32. It is true when
 * both flags equal (uint32)want; `mask` is the line's number, for reports.
 *
 * WAIT_OBJECT waits on an event count. It is true when os_event_seq(on) differs from `want`. The
 * caller reads the count, polls the object, and only then waits, so it loses no event between poll
 * and wait. Such a wait may also end early: its caller always polls again.
 */
#ifndef CORE_BASE_WAIT_H
#define CORE_BASE_WAIT_H

#include <stdbool.h>

#include "core/base/macros.h"

enum wait_kind {
	WAIT_EQ,
	WAIT_NE,
	WAIT_GE, /* unsigned comparison */
	WAIT_LINE16,
	WAIT_OBJECT,
	WAIT_GE_CYCLIC,
};

static inline bool wait_ge_cyclic(uint64_t value, uint64_t want, int bytes)
{
	return bytes == 4 ? (int32_t)(uint32_t)(value - want) >= 0 : (int64_t)(value - want) >= 0;
}

/* The agent that must make the wait true; -1 for a number that does not apply. `object` names the
 * kind of agent ("rank 2 proxy send", "qp 0x17"): a string constant, or NULL. */
struct wait_from {
	int32_t rank;
	int32_t channel;
	int64_t step;
	const char *object;
};

struct wait {
	const void *on;
	uint64_t want, mask;
	uint8_t kind;  /* enum wait_kind */
	uint8_t bytes; /* 4 or 8; unused for LINE16 and OBJECT */
	/* For new work or for failures of others: no other task depends on this wait. */
	bool idle;
	const char *why;
	struct wait_from from;
	uint64_t deadline_ns; /* absolute, os_now_ns(); 0: no deadline */
};

struct v16 {
	uint64_t lo, hi;
};

#define WAIT_MASK_ALL (~0ull)

#endif
