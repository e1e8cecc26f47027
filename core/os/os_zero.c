/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "core/base/macros.h"
#include "core/os/os_ops.h"

#define ZERO_PAGE 4096u

void os_zero(void *p, size_t bytes)
{
	const struct os_sched_ops *sched = os_sched_in_force();
	uint8_t *at = p;

	if (sched->zero && sched->zero(p, bytes))
		return;
	for (size_t n; bytes; bytes -= n, at += n) {
		n = MIN_OF(bytes, ZERO_PAGE);
		if (at[0] || memcmp(at, at + 1, n - 1))
			memset(at, 0, n);
	}
}
