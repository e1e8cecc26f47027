/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Networks in NCCL's net plugins, for core/transport/nets.c. The row net_plugin stands for the
 * plugin that NCCL_NET_PLUGIN names. Its `devices` loads the plugin, and replaces comm->net.ops by
 * a copy of the row that has the plugin's name. net_plugin_internal.h has the rules of names and
 * the errors. Owns nothing; the process' plugins are in the registry.
 */
#ifndef CORE_TRANSPORT_NET_PLUGIN_NET_PLUGIN_H
#define CORE_TRANSPORT_NET_PLUGIN_NET_PLUGIN_H

#include "core/plugin/plugin.h"
#include "core/transport/base/net.h"

extern const struct net_ops net_plugin;

/* False if NCCL_NET_PLUGIN turns plugins off. */
bool net_plugin_is_wanted(void);
/* True for the row, and for its copies with a plugin's name. */
bool net_plugin_is(const struct net_ops *ops);
/* Returns the library of the communicator's network, which stays open as long as the network; NULL:
 * it is not a plugin's. */
const struct plugin_library *net_plugin_library(const struct ncclComm *comm);

#endif
