/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "core/base/log.h"
#include "core/transport/base/net.h"

ncclResult_t net_plain_reg_mr(void *net_comm, void *data, size_t bytes, enum net_memory where,
			      void **mr)
{
	(void)net_comm;
	(void)data;
	(void)bytes;
	*mr = NULL;
	return where == NET_HOST ? ncclSuccess : ncclInvalidUsage;
}

ncclResult_t net_plain_dereg_mr(void *net_comm, void *mr)
{
	(void)net_comm;
	(void)mr;
	return ncclSuccess;
}

int net_plain_max_recvs(void *recv_comm)
{
	(void)recv_comm;
	return 1;
}

void net_plain_failure(struct ncclComm *comm, struct net_failure *f)
{
	(void)comm;
	memset(f, 0, sizeof *f);
}

ncclResult_t net_plain_iflush(void *recv_comm, void *data, size_t bytes, void *mr,
			      struct net_request **req, struct wait *w)
{
	(void)recv_comm;
	(void)data;
	(void)mr;
	(void)w;
	*req = NULL;
	WARN("iflush of %zu bytes: this network does not register GPU memory", bytes);
	return ncclInternalError;
}

void net_plain_finish(void *recv_comm)
{
	(void)recv_comm;
}
