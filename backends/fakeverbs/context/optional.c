/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that have no effect. */
#include "backends/fakeverbs/entry/entry.h"

/* Processes of a world do not fork. */
int ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}
