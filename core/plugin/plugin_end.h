/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An end of a network that a plugin serves. A connection of net_plugin and a group of collnet embed
 * it. It holds the end's first error and the pauses between calls of the plugin.
 *
 * A plugin has no events. A wait for it has a deadline, after which the caller calls the plugin
 * again. While nothing moves, the pauses grow from 1 to 160 us: short ones give a GPU's transfers a
 * low latency, long ones leave the CPU to others.
 *
 * Only the first error of an end is logged, with network, ranks, channel, device, plugin and
 * function. The result is ncclRemoteError if the plugin returned that, else ncclSystemError.
 */
#ifndef CORE_PLUGIN_PLUGIN_END_H
#define CORE_PLUGIN_PLUGIN_END_H

#include <stdint.h>

#include "core/base/wait.h"
#include "core/include/nccl.h"

struct plugin_end {
	const char *network; /* the first word of its log lines: "NET/Plugin" */
	const char *plugin, *device;
	const char *arrow; /* from the rank to the peer in log lines; NULL: the peer is not named */
	int32_t rank, peer, channel;
	ncclResult_t failed; /* after the first failure, which was logged */
	uint32_t misses;     /* fruitless calls in a row; the caller resets it when data moves */
};

/* Logs the failure of a plugin's function, unless the end has failed already. Returns the end's
 * result from then on. */
ncclResult_t plugin_end_failed(struct plugin_end *e, const char *function, ncclResult_t rc);
/* The same for an answer that is not possible; the format describes it. */
ncclResult_t plugin_end_refuse(struct plugin_end *e, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The wait until the plugin is called again. The event is the end's address. `object` names the
 * task that waits. */
void plugin_end_wait(struct plugin_end *e, const char *object, const char *why, struct wait *w);

#endif
