/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The networks: their list, and the network that a communicator uses. A plugin's network comes
 * before those of the list. core/comm opens it, and core/proxy closes it. ncclComm.net is its
 * state. Errors: ncclSystemError, logged, if the network that the configuration names has no
 * device; errors of the network.
 */
#ifndef CORE_TRANSPORT_NETS_H
#define CORE_TRANSPORT_NETS_H

#include "core/transport/base/net.h"

/* In order of choice; NULL ends the list. */
extern const struct net_ops *const nets[];
/* Returns the row with that name, in upper or lower case; NULL: no such row. */
const struct net_ops *net_find(const char *name);
/* The same for a configuration: any other name is that of a plugin's network, if there may be a
 * plugin. Whether it has that name shows when the network is opened. */
const struct net_ops *net_name_find(const char *name);
/* Returns the row's index in nets[]; for a plugin's network a number below -1, which depends on its
 * name. */
int32_t net_index(const struct net_ops *net);
/* Sets the network that the configuration names, which net_name_find has found. */
void net_want(struct ncclComm *comm, const char *name);
#define NET_FIRST (-1) /* a plugin's network, then the rows */
/* Opens the communicator's network, unless it is open: the row that the configuration names, else
 * the first one from `first` on that has a device on this host. `first` is NET_FIRST or a row's
 * index. Main task. */
ncclResult_t net_open(struct ncclComm *comm, int32_t first);
/* Accepts a network that is not open. */
void net_shut(struct ncclComm *comm);
/* Writes the names of all rows, "IB, Socket". Returns `text`. */
const char *net_names(char *text, size_t bytes);

#endif
