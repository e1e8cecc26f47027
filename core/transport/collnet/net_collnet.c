/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator's use of a collective network, and the row of its functions for the proxy. */
#include "core/transport/collnet/collnet_internal.h"
#include "core/transport/net_plugin/net_plugin.h"

/* ---- open and close ------------------------------------------------------------------------- */

/* Drops a communicator's reference. The library belongs to the network. */
static void collnet_free(struct collnet *c)
{
	struct collnet_plugin *p = c->plugin;
	ncclResult_t rc = ncclSuccess;

	for (int i = 0; i < DEV_MAX_CHANNELS; i++)
		collnet_group_free(c->group[i]);
	if (c->initialised && p->version >= 11)
		rc = p->abi->finalize(c->context);
	if (rc)
		WARN("NET/CollNet: finalize of %s fails with %s", p->name, plugin_result(rc));
	if (plugin_shared_put(&p->shared))
		os_free(p);
	os_free(c);
}

static struct collnet *collnet_make(const char *file)
{
	struct collnet *c = os_alloc(sizeof *c, "state of a collective network");

	if (c)
		c->plugin = (struct collnet_plugin *)plugin_shared_get(REGISTRY_COLLNET, file,
								       sizeof *c->plugin);
	if (c && c->plugin)
		return c;
	WARN("NET/CollNet: no memory for the collective network of %s", file);
	os_free(c);
	return NULL;
}

/* A library that has no such table, or no device, is an ordinary net plugin. */
static void collnet_report(const struct ncclComm *comm, const struct plugin_library *library,
			   ncclResult_t rc, const struct net_plugin_why *why, bool broken)
{
	if (rc && broken)
		WARN("NET/CollNet: rank %d does not use the collective network of %s: %s",
		     comm->rank, library->file, why->text);
	else if (rc)
		INFO(LOG_INIT | LOG_NET, "NET/CollNet: rank %d: %s has no collective network: %s",
		     comm->rank, library->file, why->text);
	else
		INFO(LOG_INIT | LOG_NET,
		     "NET/CollNet: rank %d uses %s (version %d) of %s: device %s and %d more",
		     comm->rank, comm->collnet->plugin->name, comm->collnet->plugin->version,
		     library->file, comm->collnet->plugin->dev[0].name,
		     comm->collnet->plugin->ndevs - 1);
}

void collnet_open(struct ncclComm *comm)
{
	const struct plugin_library *library = net_plugin_library(comm);
	struct net_plugin_why why = {""};
	struct collnet *c;
	ncclResult_t rc;
	bool broken;

	ASSERT(!comm->collnet);
	if (!library) {
		INFO(LOG_INIT | LOG_NET,
		     "NET/CollNet: rank %d has no collective network: its network %s is not that "
		     "of a plugin",
		     comm->rank, comm->net.ops ? comm->net.ops->name : "(none)");
		return;
	}
	c = collnet_make(library->file);
	if (!c)
		return;
	rc = collnet_load(c, library, comm->id_hash, &why);
	broken = c->plugin->version && !c->plugin->empty;
	if (rc)
		collnet_free(c);
	else
		comm->collnet = c;
	collnet_report(comm, library, rc, &why, broken);
}

void collnet_close(struct ncclComm *comm)
{
	struct collnet *c = comm->collnet;

	comm->collnet = NULL;
	if (c)
		collnet_free(c);
}

/* ---- what it has ---------------------------------------------------------------------------- */

const char *collnet_name(const struct collnet *c)
{
	return c ? c->plugin->name : "none";
}

bool collnet_has(const struct collnet *c, const char *device)
{
	for (int i = 0; c && i < c->plugin->ndevs; i++)
		if (!strcmp(c->plugin->dev[i].name, device))
			return true;
	return false;
}

uint64_t collnet_reductions(const struct collnet *c)
{
	return c ? c->reductions : 0;
}

uint64_t collnet_supported(const struct collnet *c)
{
	return c ? c->plugin->supported : 0;
}

void collnet_agree(struct collnet *c, uint64_t reductions)
{
	ASSERT(reductions && !(reductions & ~c->plugin->supported));
	c->reductions = reductions;
}

void collnet_reach(const struct collnet *c, int32_t channel, bool *gpu_memory, bool *always_flush)
{
	const struct net_plugin_props *props;

	ASSERT(c && c->group[channel]);
	props = &c->plugin->dev[c->group[channel]->dev];
	*gpu_memory = (props->ptr_support & (NET_ABI_CUDA | NET_ABI_DMABUF)) != 0;
	*always_flush = props->force_flush;
}

/* ---- the row -------------------------------------------------------------------------------- */

/* The proxy finds devices by those of the communicator's network: these two are not called. */
static ncclResult_t collnet_devices(struct ncclComm *comm, int *count)
{
	*count = comm->collnet ? comm->collnet->plugin->ndevs : 0;
	return ncclSuccess;
}

static ncclResult_t collnet_props(struct ncclComm *comm, int dev, struct net_props *p)
{
	const struct net_plugin_props *from = &comm->collnet->plugin->dev[dev];

	memset(p, 0, sizeof *p);
	memcpy(p->name, from->name, sizeof p->name);
	memcpy(p->bus_id, from->bus_id, sizeof p->bus_id);
	p->gpu_memory = (from->ptr_support & (NET_ABI_CUDA | NET_ABI_DMABUF)) != 0;
	p->always_flush = from->force_flush;
	return ncclSuccess;
}

static struct collnet_conn *collnet_conn_make(struct ncclComm *comm, const struct net_who *who,
					      bool is_send)
{
	struct collnet_conn *c = os_alloc(sizeof *c, "end of a collective network's group");

	ASSERT(comm->collnet && comm->collnet->group[who->channel] &&
	       comm->collnet->group[who->channel]->coll);
	if (!c) {
		WARN("NET/CollNet: rank %d: no memory for an end of channel %d", comm->rank,
		     who->channel);
		return NULL;
	}
	*c = (struct collnet_conn){.group = comm->collnet->group[who->channel], .is_send = is_send};
	return c;
}

/* The group is connected. The handle only shows the other end that its peer has CollNet, too; the
 * channel in it keeps two channels from sharing a connection. */
static ncclResult_t collnet_conn_listen(struct ncclComm *comm, const struct net_nic *nic,
					const struct net_who *who, struct net_handle *h,
					void **listen)
{
	(void)nic;
	*listen = collnet_conn_make(comm, who, false);
	memset(h, 0, sizeof *h);
	snprintf((char *)h->bytes, sizeof h->bytes, "collnet %d", who->channel);
	return *listen ? ncclSuccess : ncclSystemError;
}

static ncclResult_t collnet_conn_connect(struct ncclComm *comm, const struct net_nic *nic,
					 const struct net_who *who, const struct net_handle *h,
					 void **pending, void **send_comm, struct wait *w)
{
	(void)nic;
	(void)h;
	(void)w;
	*pending = NULL;
	*send_comm = collnet_conn_make(comm, who, true);
	return *send_comm ? ncclSuccess : ncclSystemError;
}

/* The caller closes what listens, so the connection is another object. */
static ncclResult_t collnet_conn_accept(void *listen, void **recv_comm, struct wait *w)
{
	const struct collnet_conn *l = listen;
	const struct net_who who = {.channel = l->group->end.channel};

	(void)w;
	*recv_comm = collnet_conn_make(l->group->comm, &who, false);
	return *recv_comm ? ncclSuccess : ncclSystemError;
}

static void collnet_conn_close(void *net_comm)
{
	os_free(net_comm);
}

static void collnet_fini(struct ncclComm *comm)
{
	collnet_close(comm);
}

const struct net_ops net_collnet = {
	.name = "CollNet",
	.merged = 1,
	.devices = collnet_devices,
	.props = collnet_props,
	.listen = collnet_conn_listen,
	.connect = collnet_conn_connect,
	.accept = collnet_conn_accept,
	.reg_mr = collnet_reg_mr,
	.dereg_mr = collnet_dereg_mr,
	.max_recvs = net_plain_max_recvs,
	.isend = collnet_isend,
	.irecv = collnet_irecv,
	.iflush = collnet_iflush,
	.test = collnet_test,
	.check = collnet_check,
	.failure = net_plain_failure,
	.finish = net_plain_finish,
	.close_send = collnet_conn_close,
	.close_recv = collnet_conn_close,
	.close_listen = collnet_conn_close,
	.fini = collnet_fini,
};
