/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/os/os_grow.h"

#include <string.h>

#include "core/base/macros.h"
#include "core/os/os.h"

size_t os_grow(void *array, size_t each, size_t used, size_t room, size_t least, const char *what)
{
	size_t more = MAX_OF(2 * room, least);
	void *old, *bigger = os_alloc(more * each, what);

	ASSERT(used <= room && more > room);
	if (!bigger)
		return 0;
	memcpy(&old, array, sizeof old);
	if (used)
		memcpy(bigger, old, used * each);
	os_free(old);
	memcpy(array, &bigger, sizeof bigger);
	return more;
}
