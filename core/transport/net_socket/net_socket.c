/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/transport/net_socket/net_socket_internal.h"

const struct net_ops net_socket = {
	.name = "Socket",
	.merged = 1,
	.devices = net_socket_devices,
	.props = net_socket_props,
	.listen = net_socket_listen,
	.connect = net_socket_connect,
	.accept = net_socket_accept,
	.reg_mr = net_socket_reg_mr,
	.dereg_mr = net_socket_dereg_mr,
	.max_recvs = net_plain_max_recvs,
	.isend = net_socket_isend,
	.irecv = net_socket_irecv,
	.iflush = net_plain_iflush,
	.test = net_socket_test,
	.check = net_socket_check,
	.failure = net_plain_failure,
	.finish = net_plain_finish,
	.close_send = net_socket_close,
	.close_recv = net_socket_close,
	.close_listen = net_socket_close_listen,
	.fini = net_socket_fini,
};
