/* SPDX-License-Identifier: BSD-3-Clause */
/* What can go wrong on a host: layers `os` and `shared`. Visited by sim/world and sim/engine. */
#include <errno.h>

#include "sim/engine/fault.h"

const struct fault_site fault_sites_os[] = {
	{.name = "os.alloc", .what = "os_alloc", .action = {FAULT_ACTION_FAIL(ENOMEM)}},
	{.name = "os.file", .what = "os_file_read", .action = {FAULT_ACTION_FAIL(EIO)}},
	{.name = "os.shm",
	 .what = "os_shm_create, os_shm_open",
	 .action = {FAULT_ACTION_FAIL(ENOMEM)}},
	{.name = "os.connect", .what = "os_connect", .action = {FAULT_ACTION_FAIL(ECONNREFUSED)}},
	{.name = "os.socket",
	 .what = "a send or receive on a connection",
	 .action = {{.name = "reset", .kind = OS_FAULT_RESET, .what = "the connection breaks"},
		    {.name = "delay",
		     .kind = OS_FAULT_DELAY,
		     .what = "what is sent comes later",
		     .param = {{"by", FAULT_TIME, 10000}}},
		    FAULT_ACTION_FAIL(EIO)}},
	{.name = "os.task",
	 .what = "an entry point or a wait of a rank's host task",
	 .action = {{.name = "kill", .kind = OS_FAULT_KILL, .what = "its process ends here"}}},
	{.name = NULL},
};

const struct fault_recipe fault_recipes_os[] = {
	{"os.alloc nth=%u fail", {{1, 400}}},
	{"os.socket nth=%u reset", {{1, 100}}},
	{"os.task after=%uus kill", {{1, 2000}}},
	{NULL, {{0, 0}}},
};

const struct fault_site fault_sites_shared[] = {
	{.name = "shared.cas",
	 .what = "a weak compare-and-swap",
	 .action = {{.name = "spurious",
		     .kind = OS_FAULT_SPURIOUS,
		     .what = "it fails although the word is as expected"}}},
	{.name = NULL},
};

const struct fault_recipe fault_recipes_shared[] = {
	{"shared.cas prob=1/%u spurious", {{2, 8}}},
	{NULL, {{0, 0}}},
};
