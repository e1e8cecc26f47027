/* SPDX-License-Identifier: BSD-3-Clause */
/* Cuts of what a program does beside its series: other tasks, other calls, other ways to the same. */
#include <inttypes.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/lab/shrink_internal.h"

static const char *cut_none_or(const char *text)
{
	return *text ? text : "none";
}

bool cut_mixed(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k >= s->lab.mixed)
		return false;
	*to = *s;
	to->lab.mixed = k;
	return true;
}

void print_mixed(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%" PRIu32, s->lab.mixed);
}

bool cut_idle(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k >= s->lab.idle)
		return false;
	*to = *s;
	to->lab.idle = k;
	return true;
}

void print_idle(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%" PRIu32, s->lab.idle);
}

bool cut_late(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k >= s->lab.late)
		return false;
	*to = *s;
	to->lab.late = k;
	return true;
}

void print_late(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%" PRIu32, s->lab.late);
}

bool cut_refused(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k >= s->lab.refused)
		return false;
	*to = *s;
	to->lab.refused = k;
	return true;
}

void print_refused(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%" PRIu32, s->lab.refused);
}

bool cut_init_fails(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k >= s->lab.init_fails)
		return false;
	*to = *s;
	to->lab.init_fails = k;
	return true;
}

void print_init_fails(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%" PRIu32, s->lab.init_fails);
}

/* None, 1 ms, 2 ms, 4 ms... */
bool cut_pauses(const struct scenario *s, uint32_t k, struct scenario *to)
{
	uint32_t pauses = k ? 1u << MIN_OF(k - 1, 31u) : 0;

	if (pauses >= s->lab.pauses)
		return false;
	*to = *s;
	to->lab.pauses = pauses;
	return true;
}

void print_pauses(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%" PRIu32, s->lab.pauses);
}

bool cut_leaves(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k >= (uint32_t)s->lab.leaves)
		return false;
	*to = *s;
	to->lab.leaves = (enum lab_leaves)k;
	return true;
}

void print_leaves(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	static const char *const names[] = {"abort", "destroy", "finalize", "each as drawn"};

	snprintf(out, SHRINK_VALUE_BYTES, "%s", names[s->lab.leaves]);
}

bool cut_finalize(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k || !s->lab.finalize)
		return false;
	*to = *s;
	to->lab.finalize = false;
	return true;
}

void print_finalize(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%s", s->lab.finalize ? "yes" : "no");
}

bool cut_nonblocking(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k || !s->lab.nonblocking)
		return false;
	*to = *s;
	to->lab.nonblocking = false;
	return true;
}

void print_nonblocking(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%s", s->lab.nonblocking ? "yes" : "no");
}

bool cut_polls(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k || !s->lab.polls)
		return false;
	*to = *s;
	to->lab.polls = false;
	return true;
}

void print_polls(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%s", s->lab.polls ? "yes" : "no");
}

bool cut_ends(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k >= (uint32_t)s->lab.ends)
		return false;
	*to = *s;
	to->lab.ends = (enum lab_ends)k;
	return true;
}

void print_ends(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	static const char *const names[] = {"in order", "reversed", "any order",
					    "any order on each rank"};

	snprintf(out, SHRINK_VALUE_BYTES, "%s", names[s->lab.ends]);
}

bool cut_config(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k || !s->lab.config_version)
		return false;
	*to = *s;
	to->lab.config_version = 0;
	return true;
}

void print_config(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%" PRIu32, s->lab.config_version);
}

bool cut_env_odd(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k || !s->env_odd[0])
		return false;
	*to = *s;
	to->env_odd[0] = '\0';
	return true;
}

void print_env_odd(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%.*s", SHRINK_VALUE_BYTES - 1, cut_none_or(s->env_odd));
}

bool cut_floats(const struct scenario *s, uint32_t k, struct scenario *to)
{
	if (k || !s->lab.any_numbers)
		return false;
	*to = *s;
	to->lab.any_numbers = false;
	return true;
}

void print_floats(const struct scenario *s, char out[SHRINK_VALUE_BYTES])
{
	snprintf(out, SHRINK_VALUE_BYTES, "%s", s->lab.any_numbers ? "any" : "small numbers");
}
