/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The key caller=: visits counted by the functions that lead to them. A frequent call has one
 * number, as has a rare one, so that plans that draw the number reach both alike. The numbers are
 * those of first visits. They depend on what the compiler has inlined, and not on addresses.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/base/hash.h"
#include "sim/engine/faults/fault_state.h"

/* Return addresses of a caller, with those in the engine and in the double. */
enum { CALLER_FRAMES = 10, CALLERS_MAX = 4096, CALLERS_FIRST = 64 };

static uint64_t caller_hash(void)
{
	const void *frame[CALLER_FRAMES];
	uintptr_t end;

	if (eng.current && eng.current->fiber.stack)
		end = (uintptr_t)eng.current->fiber.low + eng.current->fiber.bytes;
	else
		end = fiber_thread_end();
	int n = fiber_frames(frame, CALLER_FRAMES, end);
	return hash64(frame, (size_t)n * sizeof frame[0]);
}

/* Makes room for one more caller. ENOMEM. */
static int caller_grow(struct fault *f)
{
	uint32_t room = f->caller_room ? 2 * f->caller_room : CALLERS_FIRST;
	uint64_t *more;

	if (f->callers < f->caller_room)
		return 0;
	more = realloc(f->caller, room * sizeof *more);
	if (!more)
		return ENOMEM;
	f->caller = more;
	f->caller_room = room;
	return 0;
}

bool fault_caller_is(struct fault *f)
{
	uint64_t want = (uint64_t)f->key[FAULT_CALLER], hash = caller_hash();
	uint32_t i = 0;

	while (i < f->callers && f->caller[i] != hash)
		i++;
	if (i == f->callers) {
		if (i == CALLERS_MAX || caller_grow(f))
			return false;
		f->caller[f->callers++] = hash;
	}
	return i + 1 == want;
}
