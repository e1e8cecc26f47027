/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults between two HCAs. sim/world/fabric.c visits these sites. */
#include "sim/engine/faults/site_table.h"

#define FAULT_CLOG                                                                                 \
	{                                                                                          \
		.name = "clog", .kind = OS_FAULT_CLOG,                                             \
		.what = "holds messages, then delivers them all", .lasts = true                    \
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
		.what = "loses messages whose packets have more payload than that",                \
		.param = {{"bytes", FAULT_NUMBER, 1024, 1, UINT32_MAX}}, .lasts = true             \
	}

static const struct fault_site fault_sites_fabric[] = {
	{.name = "fabric.link",
	 .what = "a NIC's link, visited for each message that it sends",
	 .action = {{.name = "down",
		     .kind = OS_FAULT_DOWN,
		     .what = "goes down in both directions; with for=, up again after that time; "
			     "with gid=1, RoCE ports have another GID then (engine sim)",
		     .param = {{"for", FAULT_TIME, 0, 0, 0}, {"gid", FAULT_NUMBER, 0, 0, 1}}},
		    {.name = "flap",
		     .kind = OS_FAULT_FLAP,
		     .what = "goes down and up again that many times; each state lasts that long",
		     .param = {{"times", FAULT_NUMBER, 3, 1, 1000},
			       {"each", FAULT_TIME, 100000, 1, INT64_MAX}}},
		    FAULT_CLOG,
		    FAULT_SLOW,
		    FAULT_MTU}},
	{.name = "fabric.path",
	 .what = "the path from one port to another (host, port, peer_host, peer_port), one "
		 "direction",
	 .action = {{.name = "partition",
		     .kind = OS_FAULT_PARTITION,
		     .what = "loses messages; the other direction works",
		     .lasts = true},
		    FAULT_CLOG,
		    FAULT_SLOW,
		    FAULT_MTU}},
	{.name = "fabric.packet",
	 .what = "a message in transit",
	 .action =
		 {{.name = "drop", .kind = OS_FAULT_DROP, .what = "it is lost"},
		  {.name = "delay",
		   .kind = OS_FAULT_DELAY,
		   .what = "arrives late, like its queue pair's later ones; other queue pairs pass",
		   .param = {{"by", FAULT_TIME, 10000, 0, 0}}},
		  {.name = "reorder",
		   .kind = OS_FAULT_REORDER,
		   .what = "arrives late; later messages of its queue pair pass it too",
		   .param = {{"by", FAULT_TIME, 10000, 0, 0}}},
		  {.name = "duplicate",
		   .kind = OS_FAULT_DUPLICATE,
		   .what = "arrives twice, the second time that much later",
		   .param = {{"by", FAULT_TIME, 0, 0, 0}}},
		  {.name = "corrupt",
		   .kind = OS_FAULT_CORRUPT,
		   .what = "a byte changes: the packet's checksum drops it, unless undetected=1",
		   .param = {{"undetected", FAULT_NUMBER, 0, 0, 1}}}}},
	{.name = NULL},
};
FAULT_SITES_JOIN(fabric)
