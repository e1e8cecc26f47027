/* SPDX-License-Identifier: BSD-3-Clause */
/* What can go wrong between two HCAs. Visited by sim/world/fabric.c. */
#include "sim/engine/fault.h"

const struct fault_site fault_sites_fabric[] = {
	{.name = "fabric.link",
	 .what = "a NIC's link, looked at for each message that it sends",
	 .action = {{.name = "down",
		     .kind = OS_FAULT_DOWN,
		     .what = "it goes down; with for=, up again after that time",
		     .param = {{"for", FAULT_TIME, 0}}}}},
	{.name = "fabric.packet",
	 .what = "a message on its way",
	 .action = {{.name = "drop", .kind = OS_FAULT_DROP, .what = "it is lost"},
		    {.name = "delay",
		     .kind = OS_FAULT_DELAY,
		     .what = "it comes later, and all of its queue pair behind it",
		     .param = {{"by", FAULT_TIME, 10000}}}}},
	{.name = NULL},
};

const struct fault_recipe fault_recipes_fabric[] = {
	{"fabric.packet prob=1/%u drop", {{1, 256}}},
	{"fabric.packet prob=1/%u delay by=20us", {{1, 64}}},
	{"fabric.link after=%uus down for=100us", {{1, 2000}}},
	{"fabric.link after=%uus down", {{1, 2000}}},
	{NULL, {{0, 0}}},
};
