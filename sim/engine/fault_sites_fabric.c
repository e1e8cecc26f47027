/* SPDX-License-Identifier: BSD-3-Clause */
/* What can go wrong between two HCAs. Visited by sim/world/fabric.c. */
#include "sim/engine/fault.h"

#define FAULT_CLOG                                                                                 \
	{                                                                                          \
		.name = "clog", .kind = OS_FAULT_CLOG,                                             \
		.what = "holds what is sent; then all comes", .lasts = true                        \
	}
#define FAULT_SLOW                                                                                 \
	{                                                                                          \
		.name = "slow", .kind = OS_FAULT_SLOW,                                             \
		.what = "its bandwidth is divided by factor",                                      \
		.param = {{"factor", FAULT_NUMBER, 10, 1, 1000000}}, .lasts = true                 \
	}
#define FAULT_MTU                                                                                  \
	{                                                                                          \
		.name = "mtu", .kind = OS_FAULT_LIMIT,                                             \
		.what = "loses messages with packets of more payload than that",                   \
		.param = {{"bytes", FAULT_NUMBER, 1024, 1, UINT32_MAX}}, .lasts = true             \
	}

const struct fault_site fault_sites_fabric[] = {
	{.name = "fabric.link",
	 .what = "a NIC's link, looked at for each message that it sends",
	 .action = {{.name = "down",
		     .kind = OS_FAULT_DOWN,
		     .what = "it goes down, both ways; with for=, up again after that time",
		     .param = {{"for", FAULT_TIME, 0, 0, 0}}},
		    {.name = "flap",
		     .kind = OS_FAULT_FLAP,
		     .what = "down and up again so many times, each for that long",
		     .param = {{"times", FAULT_NUMBER, 3, 1, 1000},
			       {"each", FAULT_TIME, 100000, 1, INT64_MAX}}},
		    FAULT_CLOG,
		    FAULT_SLOW,
		    FAULT_MTU}},
	{.name = "fabric.path",
	 .what = "the way from one port to another (host, port, peer_host, peer_port), one "
		 "direction",
	 .action = {{.name = "partition",
		     .kind = OS_FAULT_PARTITION,
		     .what = "loses what is sent; the other direction works",
		     .lasts = true},
		    FAULT_CLOG,
		    FAULT_SLOW,
		    FAULT_MTU}},
	{.name = "fabric.packet",
	 .what = "a message on its way",
	 .action = {{.name = "drop", .kind = OS_FAULT_DROP, .what = "it is lost"},
		    {.name = "delay",
		     .kind = OS_FAULT_DELAY,
		     .what = "late, and so are its queue pair's next ones; other queue pairs pass",
		     .param = {{"by", FAULT_TIME, 10000, 0, 0}}},
		    {.name = "reorder",
		     .kind = OS_FAULT_REORDER,
		     .what = "late, and its queue pair's next pass it too",
		     .param = {{"by", FAULT_TIME, 10000, 0, 0}}},
		    {.name = "duplicate",
		     .kind = OS_FAULT_DUPLICATE,
		     .what = "it comes twice, the second one that much later",
		     .param = {{"by", FAULT_TIME, 0, 0, 0}}},
		    {.name = "corrupt",
		     .kind = OS_FAULT_CORRUPT,
		     .what = "a byte changes: the packet's checksum drops it, unless undetected=1",
		     .param = {{"undetected", FAULT_NUMBER, 0, 0, 1}}}}},
	{.name = NULL},
};
