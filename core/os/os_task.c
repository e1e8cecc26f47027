/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "core/os/os.h"

int os_task_start(struct os_thread **t, int32_t rank, const char *what, void (*fn)(void *arg),
		  void *arg)
{
	char name[48];
	const struct os_thread_attr attr = {.name = name, .rank = rank};
	int rc;

	snprintf(name, sizeof name, "rank%d %s", rank, what);
	rc = os_thread_start(t, &attr, fn, arg);
	if (rc)
		*t = NULL;
	return rc;
}
