/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/transport/nets.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/transport/collnet/collnet.h"
#include "core/transport/net_plugin/net_plugin.h"

const struct net_ops *const nets[] = {&net_verbs, &net_socket, NULL};

const struct net_ops *net_find(const char *name)
{
	const struct net_ops *const *net = nets;

	while (*net && strcasecmp((*net)->name, name) != 0)
		net++;
	return *net;
}

const struct net_ops *net_name_find(const char *name)
{
	const struct net_ops *net = net_find(name);

	if (net || !net_plugin_is_wanted() || !name[0] || strlen(name) >= NET_NAME_BYTES)
		return net;
	return &net_plugin;
}

int32_t net_index(const struct net_ops *net)
{
	int32_t i = 0;

	if (net_plugin_is(net))
		return -2 - (int32_t)(hash64_str(net->name) % INT32_MAX);
	while (nets[i] != net) {
		ASSERT(nets[i]);
		i++;
	}
	return i;
}

void net_want(struct ncclComm *comm, const char *name)
{
	comm->net.named = net_name_find(name);
	snprintf(comm->net.wanted, sizeof comm->net.wanted, "%s", name);
}

/* ncclSuccess with comm->net.ops NULL: the network has no device on this host. */
static ncclResult_t net_try(struct ncclComm *comm, const struct net_ops *net)
{
	int devices = 0;
	ncclResult_t rc;

	comm->net.ops = net;
	rc = net->devices(comm, &devices);
	if (rc || !devices)
		net_shut(comm);
	return rc;
}

static ncclResult_t net_none(const struct ncclComm *comm)
{
	const char *by = param_str(PARAM_NET) ? "NCCL_NET" : "the configuration";
	const bool verbs = comm->net.named == &net_verbs, off = param_bool(PARAM_IB_DISABLE);
	const char *hcas = verbs && !off ? param_str(PARAM_IB_HCA) : NULL;
	char names[64];

	if (net_plugin_is(comm->net.named)) {
		WARN("rank %d: the network %s, which %s names, is not one of %s, and no net plugin "
		     "of "
		     "NCCL_NET_PLUGIN has this name and a device",
		     comm->rank, comm->net.wanted, by, net_names(names, sizeof names));
		return ncclInvalidUsage;
	}
	WARN("rank %d: the network %s, which %s names, has no device with an active port%s%s",
	     comm->rank, comm->net.named->name, by,
	     hcas           ? " among NCCL_IB_HCA="
	     : verbs && off ? ": NCCL_IB_DISABLE=1"
			    : "",
	     hcas ? hcas : "");
	return ncclInvalidUsage;
}

ncclResult_t net_open(struct ncclComm *comm, int32_t first)
{
	const struct net_ops *named = comm->net.named;
	ncclResult_t rc = ncclSuccess;

	if (comm->net.ops)
		return ncclSuccess;
	if (named)
		rc = net_try(comm, named);
	else if (first == NET_FIRST && net_plugin_is_wanted())
		rc = net_try(comm, &net_plugin);
	for (int32_t i = MAX_OF(first, 0); !named && nets[i] && !rc && !comm->net.ops; i++)
		rc = net_try(comm, nets[i]);
	if (rc || comm->net.ops)
		return rc;
	ASSERT(named); /* the last row without a device is an error, not a NULL */
	return net_none(comm);
}

void net_shut(struct ncclComm *comm)
{
	collnet_close(comm); /* its plugin is in the network's library */
	if (comm->net.ops)
		comm->net.ops->fini(comm);
	comm->net.ops = NULL;
}

const char *net_names(char *text, size_t bytes)
{
	size_t at = 0;

	text[0] = '\0';
	for (const struct net_ops *const *net = nets; *net && at < bytes; net++)
		at += (size_t)snprintf(text + at, bytes - at, "%s%s", at ? ", " : "", (*net)->name);
	return text;
}
