/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrays of os_alloc that grow: at least twofold, so that the copies cost little. The caller owns
 * the array, knows how many elements are in use, and frees it with os_free.
 */
#ifndef CORE_OS_OS_GROW_H
#define CORE_OS_OS_GROW_H

#include <stdbool.h>
#include <stddef.h>

/* Replaces the array of `room` elements by one of 2 * room, or of `least` if that is more. It keeps
 * the first `used` elements. `array` is the address of the pointer. Returns the new number of
 * elements; 0: no memory, and the array is as before. */
size_t os_grow(void *array, size_t each, size_t used, size_t room, size_t least, const char *what);

/* The same for a variable `array`; it updates `room`. False: no memory. */
#define OS_GROW(array, used, room, least, what)                                                    \
	({                                                                                         \
		size_t room_ = os_grow(&(array), sizeof *(array), (size_t)(used), (size_t)(room),  \
				       (size_t)(least), what);                                     \
		if (room_)                                                                         \
			(room) = (__typeof__(room))room_;                                          \
		room_ != 0;                                                                        \
	})

#endif
