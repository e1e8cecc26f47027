/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/lab/check/found.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

/* Equal except for numbers, in whatever base. */
static bool found_same_text(const char *a, const char *b)
{
	for (;;) {
		while (isxdigit((unsigned char)*a) || *a == 'x')
			a++;
		while (isxdigit((unsigned char)*b) || *b == 'x')
			b++;
		if (*a != *b)
			return false;
		if (!*a)
			return true;
		a++;
		b++;
	}
}

static bool found_stuck(const char *kind)
{
	return strcmp(kind, "deadlock") == 0 || strcmp(kind, "livelock") == 0;
}

static bool found_same_kind(const struct sim_failure *a, const struct sim_failure *b)
{
	return a->kind[0] && a->verdict == b->verdict &&
	       (strcmp(a->kind, b->kind) == 0 || (found_stuck(a->kind) && found_stuck(b->kind)));
}

enum found_match found_compare(const struct sim_failure *recorded, const struct sim_failure *now)
{
	bool text = found_same_text(recorded->message, now->message);
	bool needs_text = recorded->verdict == SIM_CRASH || recorded->verdict == SIM_ERROR;

	if (!found_same_kind(recorded, now) || (needs_text && !text))
		return FOUND_OTHER;
	if (found_is_hung(recorded)) /* where it was given up depends on the machine */
		return FOUND_SAME;
	return text && strcmp(recorded->kind, now->kind) == 0 && recorded->rank == now->rank &&
			       recorded->step == now->step && recorded->hash == now->hash
		       ? FOUND_SAME
		       : FOUND_SAME_WAY;
}

void found_hung(struct sim_failure *f, uint64_t limit_ns)
{
	snprintf(f->kind, sizeof f->kind, "hung");
	snprintf(f->message, sizeof f->message, "not over after %" PRIu64 " s",
		 limit_ns / 1000000000);
	f->verdict = SIM_NO_PROGRESS;
}

bool found_is_hung(const struct sim_failure *f)
{
	return strcmp(f->kind, "hung") == 0;
}
