/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/transport/net_plugin/net_plugin_internal.h"

const struct net_ops net_plugin = {
	.name = "Plugin",
	.merged = 1,
	.devices = net_plugin_devices,
	.props = net_plugin_props,
	.listen = net_plugin_listen,
	.connect = net_plugin_connect,
	.accept = net_plugin_accept,
	.reg_mr = net_plugin_reg_mr,
	.dereg_mr = net_plugin_dereg_mr,
	.max_recvs = net_plugin_max_recvs,
	.isend = net_plugin_isend,
	.irecv = net_plugin_irecv,
	.iflush = net_plugin_iflush,
	.test = net_plugin_test,
	.check = net_plugin_check,
	.failure = net_plain_failure,
	.finish = net_plain_finish,
	.close_send = net_plugin_close,
	.close_recv = net_plugin_close,
	.close_listen = net_plugin_close,
	.fini = net_plugin_fini,
};

bool net_plugin_is_wanted(void)
{
	return !plugin_is_none(param_str(PARAM_NET_PLUGIN));
}

const struct plugin_library *net_plugin_library(const struct ncclComm *comm)
{
	const struct net_plugin_comm *pc = comm->net.state;

	return net_plugin_is(comm->net.ops) && pc ? &pc->plugin->library : NULL;
}

bool net_plugin_is(const struct net_ops *ops)
{
	return ops && ops->devices == net_plugin.devices;
}
