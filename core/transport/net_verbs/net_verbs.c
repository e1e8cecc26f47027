/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/transport/net_verbs/net_verbs_internal.h"

const struct net_ops net_verbs = {
	.name = "IB",
	.merged = NET_MAX_MERGED,
	.devices = net_verbs_devices,
	.props = net_verbs_props,
	.listen = net_verbs_listen,
	.connect = net_verbs_connect,
	.accept = net_verbs_accept,
	.reg_mr = net_verbs_reg_mr,
	.dereg_mr = net_verbs_dereg_mr,
	.max_recvs = net_verbs_max_recvs,
	.isend = net_verbs_isend,
	.irecv = net_verbs_irecv,
	.iflush = net_verbs_iflush,
	.test = net_verbs_test,
	.check = net_verbs_check,
	.failure = net_verbs_failure,
	.finish = net_verbs_finish,
	.close_send = net_verbs_close,
	.close_recv = net_verbs_close,
	.close_listen = net_verbs_close_listen,
	.fini = net_verbs_fini,
};
