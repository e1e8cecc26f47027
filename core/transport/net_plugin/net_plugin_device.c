/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choice of a plugin for a communicator, its initialisation, and its devices.
 */
#include <strings.h>

#include "core/transport/net_plugin/net_plugin_internal.h"

/* ---- start of a plugin ---------------------------------------------------------------------- */

/* The proxy finds devices by name: a later one of the same name gets its number. */
static void net_plugin_dev_name(const struct net_plugin *p, int dev)
{
	char *name = p->dev[dev].props.name;

	for (int i = 0; i < dev; i++)
		if (!strcmp(p->dev[i].props.name, name)) {
			snprintf(name + strnlen(name, 20), 12, "#%d", dev);
			return;
		}
}

static ncclResult_t net_plugin_dev_list(struct net_plugin *p, int count, struct net_plugin_why *why)
{
	p->dev = os_alloc((size_t)count * sizeof *p->dev, "devices of a net plugin");
	if (!p->dev)
		return net_plugin_because(why, ncclSystemError, "no memory for %d devices", count);
	for (int i = 0; i < count; i++) {
		struct net_plugin_dev *d = &p->dev[i];
		ncclResult_t rc =
			net_plugin_read_props(p->version, p->abi->props, false, i, &d->props, why);

		d->number = i;
		d->nic = (struct net_nic){.count = 1, .dev = {i}};
		if (rc) {
			os_free(p->dev);
			p->dev = NULL;
			return rc;
		}
		net_plugin_dev_name(p, i);
	}
	p->ndevs = count;
	return ncclSuccess;
}

static ncclResult_t net_plugin_query(struct net_plugin *p, struct net_plugin_why *why)
{
	int count = -1;
	ncclResult_t rc = p->abi->devices(&count);

	if (rc)
		return net_plugin_because(why, ncclSystemError, "devices fails with %s",
					  plugin_result(rc));
	if (count < 0 || count > NET_PLUGIN_DEVICES)
		return net_plugin_because(why, ncclSystemError,
					  "devices returns a count of %d, expected 0 to %d", count,
					  NET_PLUGIN_DEVICES);
	return count ? net_plugin_dev_list(p, count, why) : ncclSuccess;
}

/* Calls init: up to version 10 for the first communicator only. */
static ncclResult_t net_plugin_init(struct net_plugin_comm *pc, uint64_t comm_id,
				    struct net_plugin_why *why)
{
	const struct net_plugin *p = pc->plugin;
	ncclResult_t rc = ncclSuccess;

	if (p->version >= 11 || !p->started)
		rc = net_plugin_call_init(p, comm_id, &pc->context);
	if (rc)
		return net_plugin_because(why, ncclSystemError, "init fails with %s",
					  plugin_result(rc));
	pc->initialised = true;
	return ncclSuccess;
}

/* Loads the plugin if no communicator did, and initialises it for this one. Under its lock. */
static ncclResult_t net_plugin_begin(struct net_plugin_comm *pc, uint64_t comm_id,
				     struct net_plugin_why *why)
{
	struct net_plugin *p = pc->plugin;
	ncclResult_t rc;

	if (!p->loaded)
		p->result = net_plugin_load(p, &p->why);
	p->loaded = true;
	*why = p->why;
	rc = p->result;
	if (!rc)
		rc = net_plugin_init(pc, comm_id, why);
	if (!rc && !p->started)
		rc = net_plugin_query(p, why);
	if (!rc)
		p->started = true;
	return rc;
}

/* ---- use by a communicator ------------------------------------------------------------------ */

/* Returns the communicator's state; NULL: no memory, logged. */
static struct net_plugin_comm *net_plugin_comm_make(const char *setting)
{
	struct net_plugin_comm *pc = os_alloc(sizeof *pc, "state of a net plugin");

	if (pc)
		pc->plugin = (struct net_plugin *)plugin_shared_get(REGISTRY_NET_PLUGIN, setting,
								    sizeof *pc->plugin);
	if (pc && pc->plugin)
		return pc;
	WARN("NET/Plugin: no memory for the plugin %s", setting);
	os_free(pc);
	return NULL;
}

static void net_plugin_comm_end(struct net_plugin_comm *pc)
{
	const struct net_plugin *p = pc->plugin;
	ncclResult_t rc = ncclSuccess;

	if (pc->initialised && p->version >= 11)
		rc = p->abi->finalize(pc->context);
	if (rc)
		WARN("NET/Plugin: finalize of %s fails with %s", p->name, plugin_result(rc));
	net_plugin_put(pc->plugin);
	os_free(pc);
}

static bool net_plugin_name_fits(const struct ncclComm *comm, const struct net_plugin *p)
{
	return comm->net.named != &net_plugin || !strcasecmp(comm->net.wanted, p->name);
}

static void net_plugin_use(struct ncclComm *comm, struct net_plugin_comm *pc)
{
	const struct net_plugin *p = pc->plugin;

	comm->net.state = pc;
	comm->net.ops = &p->ops;
	INFO(LOG_INIT | LOG_NET,
	     "NET/Plugin: rank %d uses %s (version %d) of %s: device %s and %d more, maxRecvs %d",
	     comm->rank, p->name, p->version, p->library.file, p->dev[0].props.name, p->ndevs - 1,
	     p->dev[0].props.max_recvs);
}

/* Tries one element of the list. ncclSuccess without a state: the plugin is not one for this
 * communicator. `why` has the reason of an error or of that. */
static ncclResult_t net_plugin_try(struct ncclComm *comm, const char *setting,
				   struct net_plugin_why *why)
{
	struct net_plugin_comm *pc = net_plugin_comm_make(setting);
	const struct net_plugin *p;
	ncclResult_t rc;

	if (!pc)
		return net_plugin_because(why, ncclSystemError, "no memory");
	p = pc->plugin;
	os_mutex_lock(&pc->plugin->lock);
	rc = net_plugin_begin(pc, comm->id_hash, why);
	os_mutex_unlock(&pc->plugin->lock);
	if (!rc && !net_plugin_name_fits(comm, p))
		(void)net_plugin_because(why, rc, "the name of its network is %s", p->name);
	else if (!rc && !p->ndevs)
		(void)net_plugin_because(why, rc, "%s has no device", p->name);
	else if (!rc)
		net_plugin_use(comm, pc);
	if (!comm->net.state)
		net_plugin_comm_end(pc);
	return rc;
}

/* Tries all elements in order. The error of the last one counts, if none is used. */
static ncclResult_t net_plugin_try_all(struct ncclComm *comm, const char *list)
{
	struct net_plugin_why why = {""};
	char setting[PLUGIN_SETTING];
	ncclResult_t rc = ncclSuccess;

	for (list = plugin_element(list, setting); list && !comm->net.state;
	     list = plugin_element(list, setting)) {
		rc = net_plugin_try(comm, setting, &why);
		if (!comm->net.state)
			INFO(LOG_INIT | LOG_NET, "NET/Plugin: rank %d does not use %s: %s",
			     comm->rank, setting, why.text);
	}
	if (comm->net.state || !rc)
		return ncclSuccess;
	WARN("rank %d: NCCL_NET_PLUGIN=%s: %s", comm->rank, param_str(PARAM_NET_PLUGIN), why.text);
	return rc;
}

ncclResult_t net_plugin_devices(struct ncclComm *comm, int *count)
{
	const char *list = param_str(PARAM_NET_PLUGIN);
	ncclResult_t rc = ncclSuccess;
	const struct net_plugin_comm *pc;
	struct net_plugin_why why;

	*count = 0;
	if (!comm->net.state && list)
		rc = net_plugin_try_all(comm, list);
	else if (!comm->net.state && net_plugin_try(comm, NET_PLUGIN_FILE, &why))
		INFO(LOG_INIT | LOG_NET, "NET/Plugin: rank %d uses no plugin: %s", comm->rank,
		     why.text);
	pc = comm->net.state;
	if (pc)
		*count = pc->plugin->ndevs;
	return rc;
}

ncclResult_t net_plugin_props(struct ncclComm *comm, int dev, struct net_props *p)
{
	const struct net_plugin_comm *pc = comm->net.state;
	const struct net_plugin_props *from;

	ASSERT(pc && dev >= 0 && dev < pc->plugin->ndevs);
	from = &pc->plugin->dev[dev].props;
	memset(p, 0, sizeof *p);
	memcpy(p->name, from->name, sizeof p->name);
	memcpy(p->bus_id, from->bus_id, sizeof p->bus_id);
	p->guid = from->guid;
	p->port = from->port;
	p->speed_mbps = from->speed_mbps;
	p->gpu_memory = (from->ptr_support & (NET_ABI_CUDA | NET_ABI_DMABUF)) != 0;
	p->always_flush = from->force_flush;
	p->tags = from->max_recvs > 1;
	return ncclSuccess;
}

void net_plugin_fini(struct ncclComm *comm)
{
	struct net_plugin_comm *pc = comm->net.state;

	comm->net.state = NULL;
	if (pc)
		net_plugin_comm_end(pc);
}

/* ---- merged devices ------------------------------------------------------------------------- */

static struct net_plugin_dev *net_plugin_merged_find(struct net_plugin *p,
						     const struct net_nic *nic)
{
	for (int i = 0; i < p->nmerged; i++)
		if (!memcmp(&p->merged[i].nic, nic, sizeof *nic))
			return &p->merged[i];
	return NULL;
}

static struct net_plugin_dev *net_plugin_merged_make(struct net_plugin *p,
						     const struct net_nic *nic)
{
	struct net_plugin_dev *d = &p->merged[p->nmerged];
	struct net_plugin_why why;
	ncclResult_t rc;

	if (p->nmerged < NET_PLUGIN_MERGED) {
		d->nic = *nic;
		rc = net_plugin_call_make(p, nic, &d->number, &why);
		if (!rc)
			rc = net_plugin_read_props(p->version, p->abi->props, false, d->number,
						   &d->props, &why);
	} else {
		rc = net_plugin_because(&why, ncclInvalidUsage, "it has %d of them", p->nmerged);
	}
	INFO(LOG_INIT | LOG_NET, "NET/Plugin: %s %s %d devices, the first of them %s%s%s", p->name,
	     rc ? "does not merge" : "merges", nic->count, p->dev[nic->dev[0]].props.name,
	     rc ? ", which is used alone: " : "", rc ? why.text : "");
	if (rc)
		return NULL;
	p->nmerged++;
	return d;
}

struct net_plugin_dev *net_plugin_dev_of(struct net_plugin *p, const struct net_nic *nic)
{
	struct net_plugin_dev *d;

	ASSERT(nic->count >= 1 && nic->dev[0] < p->ndevs);
	if (nic->count == 1)
		return &p->dev[nic->dev[0]];
	os_mutex_lock(&p->lock);
	d = net_plugin_merged_find(p, nic);
	if (!d)
		d = net_plugin_merged_make(p, nic);
	os_mutex_unlock(&p->lock);
	return d ? d : &p->dev[nic->dev[0]];
}
