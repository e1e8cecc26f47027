/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Properties of a plugin's device, of any version, as net_plugin and core/transport/collnet use
 * them. Owns nothing. Units: bytes; Mb/s. Errors: the plugin fails, or its answer is not possible;
 * both are returned with a reason, which the caller logs.
 */
#ifndef CORE_TRANSPORT_NET_PLUGIN_NET_PLUGIN_PROPS_H
#define CORE_TRANSPORT_NET_PLUGIN_NET_PLUGIN_PROPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/include/nccl.h"

/* The reason of an error of the init, for the caller's line of the log. */
struct net_plugin_why {
	char text[400];
};

struct net_plugin_props {
	char name[32]; /* unique among the plugin's devices */
	char bus_id[24];
	uint64_t guid;
	int ptr_support; /* enum net_abi_pointer */
	bool force_flush;
	uint32_t speed_mbps, port;
	int max_comms, max_recvs;
	size_t max_bytes; /* longest message; of a collective network, the longest reduction */
};

/* Formats the reason, and returns rc. */
ncclResult_t net_plugin_because(struct net_plugin_why *why, ncclResult_t rc, const char *format,
				...) __attribute__((format(printf, 3, 4)));
/* Calls getProperties of a table of that version. `reduces`: the table is a collective network's.
 * ncclSystemError: it fails, or the properties are not possible. */
ncclResult_t net_plugin_read_props(int version, ncclResult_t (*props)(int dev, void *props),
				   bool reduces, int dev, struct net_plugin_props *out,
				   struct net_plugin_why *why);

#endif
