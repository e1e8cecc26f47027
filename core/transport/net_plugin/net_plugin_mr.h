/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations of memory through a plugin's functions: those of a net plugin's connection, and of
 * a collective network's group. An error is logged as plugin_end.h has it.
 */
#ifndef CORE_TRANSPORT_NET_PLUGIN_NET_PLUGIN_MR_H
#define CORE_TRANSPORT_NET_PLUGIN_NET_PLUGIN_MR_H

#include "core/plugin/plugin_end.h"
#include "core/transport/base/net.h"
#include "core/transport/net_plugin/net_plugin_props.h"

/* A registration. */
struct net_plugin_mr {
	void *mr; /* of the plugin; it may be NULL */
	bool gpu; /* of GPU memory, whose accesses the GPU's double notes */
};

/* An end of a network that registers memory, and the plugin's functions for that. */
struct net_plugin_registrar {
	struct plugin_end *end;
	const struct net_plugin_props *props;
	void *comm; /* of the plugin */
	ncclResult_t (*reg_mr)(void *comm, void *data, size_t bytes, int type, void **mr);
	ncclResult_t (*reg_dmabuf)(void *comm, void *data, size_t bytes, int type, uint64_t offset,
				   int fd, void **mr); /* NULL: none */
	ncclResult_t (*dereg_mr)(void *comm, void *mr);
};

ncclResult_t net_plugin_mr_make(const struct net_plugin_registrar *g, void *data, size_t bytes,
				enum net_memory where, void **mr);
ncclResult_t net_plugin_mr_free(const struct net_plugin_registrar *g, void *mr);

#endif
