/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/transport/net.h"

#include <stdio.h>
#include <strings.h>

#include "core/base/log.h"

const struct net_ops *const nets[] = {&net_verbs, NULL};

const struct net_ops *net_find(const char *name)
{
	const struct net_ops *const *net = nets;

	while (*net && name && strcasecmp((*net)->name, name) != 0)
		net++;
	return *net;
}

const char *net_names(char *text, size_t bytes)
{
	size_t at = 0;

	text[0] = '\0';
	for (const struct net_ops *const *net = nets; *net && at < bytes; net++)
		at += (size_t)snprintf(text + at, bytes - at, "%s%s", at ? ", " : "", (*net)->name);
	return text;
}

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
