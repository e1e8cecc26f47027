/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: how they are made and closed. */
#include "core/transport/collnet/collnet_internal.h"

void collnet_wait(struct collnet_group *g, const char *why, struct wait *w)
{
	plugin_end_wait(&g->end, g->coll ? "proxy progress" : "main", why, w);
}

/* Returns the plugin's device of a NIC: of a merged one, that of its first device. -1: none. */
static int collnet_device_of(const struct collnet *c, const struct topo_system *topo, int32_t nic)
{
	char name[TOPO_NIC_NAME];

	if (!topo_nic_device(topo, nic, 0, name))
		return -1;
	for (int i = 0; i < c->plugin->ndevs; i++)
		if (!strcmp(c->plugin->dev[i].name, name))
			return i;
	return -1;
}

static struct collnet_group *collnet_group_make(struct ncclComm *comm, int32_t channel, int dev)
{
	struct collnet_group *g = os_alloc(sizeof *g, "group of a collective network");

	if (!g) {
		WARN("NET/CollNet: rank %d: no memory for the group of channel %d", comm->rank,
		     channel);
		return NULL;
	}
	g->comm = comm;
	g->of = comm->collnet;
	g->dev = dev;
	g->end = (struct plugin_end){.network = "NET/CollNet",
				     .plugin = g->of->plugin->name,
				     .device = g->of->plugin->dev[dev].name,
				     .rank = comm->rank,
				     .peer = -1,
				     .channel = channel};
	os_label(g, &(struct os_label){.what = "collnet group",
				       .rank = comm->rank,
				       .peer = -1,
				       .channel = channel,
				       .number = dev});
	return g;
}

static ncclResult_t collnet_call_listen(const struct collnet *c, int dev, void *handle,
					void **listen)
{
	const struct collnet_abi *a = c->plugin->abi;

	*listen = NULL;
	return c->plugin->version >= 11 ? a->listen.v11(c->context, dev, handle, listen)
					: a->listen.v8(dev, handle, listen);
}

ncclResult_t collnet_listen(struct ncclComm *comm, int32_t channel, int32_t nic,
			    struct net_handle *h)
{
	struct collnet *c = comm->collnet;
	int dev = collnet_device_of(c, comm->topo, nic);
	struct collnet_group *g;
	ncclResult_t rc;

	ASSERT(!c->group[channel]);
	memset(h, 0, sizeof *h);
	if (dev < 0) {
		WARN("NET/CollNet: rank %d channel %d: %s has no device for the NIC %s, expected "
		     "one of its name",
		     comm->rank, channel, c->plugin->name, topo_nic_name(comm->topo, nic));
		return ncclSystemError;
	}
	g = c->group[channel] = collnet_group_make(comm, channel, dev);
	if (!g)
		return ncclSystemError;
	rc = collnet_call_listen(c, dev, h->bytes, &g->listen);
	if (rc)
		return plugin_end_failed(&g->end, "listen", rc);
	return g->listen ? ncclSuccess
			 : plugin_end_refuse(&g->end, "listen returns no object and no error");
}

/* Registers some memory, and undoes it: a plugin that cannot do that is found while the ranks can
 * still agree to run without it. */
static ncclResult_t collnet_probe(struct collnet_group *g)
{
	struct collnet_conn end = {.group = g};
	void *memory = os_alloc(COLLNET_PROBE_BYTES, "probe of a collective network"), *mr;
	ncclResult_t rc;

	if (!memory)
		return plugin_end_refuse(&g->end, "no memory to try a registration");
	rc = collnet_reg_mr(&end, memory, COLLNET_PROBE_BYTES, NET_HOST, &mr);
	if (!rc)
		rc = collnet_dereg_mr(&end, mr);
	os_free(memory);
	return rc;
}

static ncclResult_t collnet_connected(struct collnet_group *g)
{
	ncclResult_t rc = g->of->plugin->abi->close_listen(g->listen);

	g->listen = NULL;
	g->end.misses = 0;
	return rc ? plugin_end_failed(&g->end, "closeListen", rc) : collnet_probe(g);
}

ncclResult_t collnet_connect(struct ncclComm *comm, int32_t channel, struct net_handle *handles,
			     int count, int rank, int32_t peer, struct wait *w)
{
	struct collnet_group *g = comm->collnet->group[channel];
	void **list = os_alloc((size_t)count * sizeof *list, "handles of a collective network");
	ncclResult_t rc;

	ASSERT(g && g->listen && !g->coll && rank < count);
	if (!list)
		return plugin_end_refuse(&g->end, "no memory for the handles of %d heads", count);
	g->end.peer = peer;
	for (int i = 0; i < count; i++)
		list[i] = handles[i].bytes;
	rc = g->of->plugin->abi->connect(list, count, rank, g->listen, &g->coll);
	os_free(list);
	if ((!rc || rc == ncclInProgress) && !g->coll) {
		collnet_wait(g, "the plugin to connect the heads of all hosts", w);
		return ncclInProgress;
	}
	return rc ? plugin_end_failed(&g->end, "connect", rc) : collnet_connected(g);
}

/* An error of a close is logged, and has no other effect. */
void collnet_group_free(struct collnet_group *g)
{
	ncclResult_t rc = ncclSuccess;

	if (!g)
		return;
	if (g->coll)
		rc = g->of->plugin->abi->close_coll(g->coll);
	if (rc)
		(void)plugin_end_failed(&g->end, "closeColl", rc);
	rc = g->listen ? g->of->plugin->abi->close_listen(g->listen) : ncclSuccess;
	if (rc)
		(void)plugin_end_failed(&g->end, "closeListen", rc);
	os_unlabel(g);
	os_free(g);
}
