/* SPDX-License-Identifier: BSD-3-Clause */
/* Registrations of memory at a group. */
#include "core/transport/collnet/collnet_internal.h"

static struct net_plugin_registrar collnet_registrar_of(const struct collnet_conn *c)
{
	struct collnet_group *g = c->group;
	const struct collnet_abi *a = g->of->plugin->abi;

	return (struct net_plugin_registrar){&g->end,       &g->of->plugin->dev[g->dev],
					     g->coll,       a->reg_mr,
					     a->reg_dmabuf, a->dereg_mr};
}

ncclResult_t collnet_reg_mr(void *net_comm, void *data, size_t bytes, enum net_memory where,
			    void **mr)
{
	const struct net_plugin_registrar g = collnet_registrar_of(net_comm);

	return net_plugin_mr_make(&g, data, bytes, where, mr);
}

ncclResult_t collnet_dereg_mr(void *net_comm, void *mr)
{
	const struct net_plugin_registrar g = collnet_registrar_of(net_comm);

	return net_plugin_mr_free(&g, mr);
}
