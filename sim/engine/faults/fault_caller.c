/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The key caller=: visits counted by what leads to them. A caller is a kind of task with the site
 * that it visits and the two sites before. A frequent call has one number, as has a rare one, so
 * that plans that draw the number reach both alike. The numbers are those of first visits, the same
 * for every compiler.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "core/base/hash.h"
#include "sim/engine/faults/fault_state.h"

enum { CALLERS_MAX = 4096, CALLERS_FIRST = 64 };

#define CALLER_SITE_BITS 16
#define CALLER_SITES     3 /* that make up a caller */
#define CALLER_MASK      ((1ull << (CALLER_SITES * CALLER_SITE_BITS)) - 1)

DOPPEL_STATIC_CHECK(FAULT_SITES_MAX < 1 << CALLER_SITE_BITS, "a site's number fits into its bits");

void fault_caller_pass(uint32_t site)
{
	struct sim_task *t = sim_task_self();

	if (t)
		task_of(t)->sites = task_of(t)->sites << CALLER_SITE_BITS | (site + 1);
}

/* Hashes the name of a task without its numbers: "rank proxy progress". */
static uint64_t caller_kind(const char *name)
{
	uint64_t hash = 0;

	for (; *name; name++)
		if (!isdigit((unsigned char)*name))
			hash = hash64_combine(hash, (uint64_t)*name);
	return hash;
}

static uint64_t caller_hash(void)
{
	struct sim_task *t = sim_task_self();

	if (!t) /* an event */
		return 0;
	return hash64_combine(caller_kind(t->self.name), task_of(t)->sites & CALLER_MASK);
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
