/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choice of a plugin for a communicator, its initialisation, and its devices.
 */
#include <stdlib.h>
#include <strings.h>

#include "core/transport/net_plugin/net_plugin_internal.h"

/* ---- start of a plugin ---------------------------------------------------------------------- */

static void net_plugin_why(struct net_plugin *p, ncclResult_t result, const char *text)
{
	p->result = result;
	snprintf(p->why, sizeof p->why, "%s", text);
}

/* Two devices of one name cannot be told apart: the later one gets its number. */
static void net_plugin_dev_name(const struct net_plugin *p, int dev)
{
	char *name = p->dev[dev].props.name;

	for (int i = 0; i < dev; i++)
		if (!strcmp(p->dev[i].props.name, name)) {
			snprintf(name + strnlen(name, 24), 8, "#%d", dev);
			return;
		}
}

static void net_plugin_dev_list(struct net_plugin *p, int count)
{
	ncclResult_t rc = ncclSuccess;
	char why[200];

	p->dev = os_alloc((size_t)count * sizeof *p->dev, "devices of a net plugin");
	if (!p->dev) {
		net_plugin_why(p, ncclSystemError, "no memory for its devices");
		return;
	}
	for (int i = 0; i < count; i++) {
		struct net_plugin_dev *d = &p->dev[i];

		d->number = i;
		d->nic = (struct net_nic){.count = 1, .dev = {i}};
		if (!net_plugin_call_props(p, i, &d->props, &rc, why, sizeof why)) {
			net_plugin_why(p, ncclSystemError, why);
			return;
		}
		net_plugin_dev_name(p, i);
	}
	p->ndevs = count;
}

static void net_plugin_query(struct net_plugin *p)
{
	int count = -1;
	ncclResult_t rc = p->abi->devices(&count);
	char why[120];

	if (rc) {
		snprintf(why, sizeof why, "devices fails with %s", net_plugin_result(rc));
		net_plugin_why(p, ncclSystemError, why);
	} else if (count < 0 || count > NET_PLUGIN_DEVICES) {
		snprintf(why, sizeof why, "devices returns a count of %d, expected 0 to %d", count,
			 NET_PLUGIN_DEVICES);
		net_plugin_why(p, ncclSystemError, why);
	} else if (count) {
		net_plugin_dev_list(p, count);
	}
}

/* True if init has to be called: up to version 10 for the first communicator only. */
static bool net_plugin_needs_init(const struct net_plugin *p)
{
	return p->version >= 11 || !p->started;
}

/* Loads the plugin if no communicator did, and initialises it for this one. *finalize: the plugin
 * has a context to end. Under its lock. */
static ncclResult_t net_plugin_begin(struct net_plugin *p, const struct ncclComm *comm,
				     void **context, bool *finalize)
{
	ncclResult_t rc = ncclSuccess;
	char why[120];

	*finalize = false;
	if (!p->loaded)
		net_plugin_load(p);
	if (!p->result && net_plugin_needs_init(p)) {
		rc = net_plugin_call_init(p, comm->id_hash, context);
		*finalize = !rc && p->version >= 11;
	}
	if (rc) {
		snprintf(why, sizeof why, "init fails with %s", net_plugin_result(rc));
		net_plugin_why(p, ncclSystemError, why);
	}
	if (!p->result && !p->started)
		net_plugin_query(p);
	if (!p->result)
		p->started = true;
	return p->result;
}

/* ---- use by a communicator ------------------------------------------------------------------ */

/* Returns the communicator's state; NULL: no memory, logged. */
static struct net_plugin_comm *net_plugin_comm_make(const char *setting)
{
	struct net_plugin_comm *pc = os_alloc(sizeof *pc, "state of a net plugin");

	if (!pc) {
		WARN("NET/Plugin: no memory for the plugin %s", setting);
		return NULL;
	}
	pc->plugin = net_plugin_get(setting);
	if (pc->plugin)
		return pc;
	os_free(pc);
	return NULL;
}

static void net_plugin_comm_end(struct net_plugin_comm *pc, bool finalize)
{
	ncclResult_t rc = ncclSuccess;

	if (finalize)
		rc = pc->plugin->abi->finalize(pc->context);
	if (rc)
		WARN("NET/Plugin: finalize of %s fails with %s", pc->plugin->name,
		     net_plugin_result(rc));
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
	     comm->rank, p->name, p->version, p->file, p->dev[0].props.name, p->ndevs - 1,
	     p->dev[0].props.max_recvs);
}

/* Tries one element of the list. ncclSuccess without a state: the plugin is not one for this
 * communicator. `why` has the reason of an error or of that. */
static ncclResult_t net_plugin_try(struct ncclComm *comm, const char *setting, char *why,
				   size_t bytes)
{
	struct net_plugin_comm *pc = net_plugin_comm_make(setting);
	bool finalize = false;
	ncclResult_t rc;

	snprintf(why, bytes, "no memory");
	if (!pc)
		return ncclSystemError;
	os_mutex_lock(&pc->plugin->lock);
	rc = net_plugin_begin(pc->plugin, comm, &pc->context, &finalize);
	snprintf(why, bytes, "%s", pc->plugin->why);
	os_mutex_unlock(&pc->plugin->lock);
	if (!rc && !net_plugin_name_fits(comm, pc->plugin))
		snprintf(why, bytes, "the name of the network is %s", pc->plugin->name);
	else if (!rc && !pc->plugin->ndevs)
		snprintf(why, bytes, "%s has no device", pc->plugin->name);
	else if (!rc)
		net_plugin_use(comm, pc);
	if (!comm->net.state)
		net_plugin_comm_end(pc, finalize);
	return rc;
}

/* Copies the next element of the list, and returns the rest; NULL: the list has ended. */
static const char *net_plugin_element(const char *list, char out[NET_PLUGIN_SETTING])
{
	size_t n;

	list += strspn(list, ", ");
	n = strcspn(list, ",");
	snprintf(out, NET_PLUGIN_SETTING, "%.*s", (int)MIN_OF(n, (size_t)NET_PLUGIN_SETTING - 1),
		 list);
	return n ? list + n : NULL;
}

/* Tries all elements in order. The error of the last one counts, if none is used. */
static ncclResult_t net_plugin_try_all(struct ncclComm *comm, const char *list)
{
	char setting[NET_PLUGIN_SETTING], why[400] = "";
	ncclResult_t rc = ncclSuccess;

	for (list = net_plugin_element(list, setting); list && !comm->net.state;
	     list = net_plugin_element(list, setting)) {
		rc = net_plugin_try(comm, setting, why, sizeof why);
		if (!comm->net.state)
			INFO(LOG_INIT | LOG_NET, "NET/Plugin: rank %d does not use %s: %s",
			     comm->rank, setting, why);
	}
	if (comm->net.state || !rc)
		return ncclSuccess;
	WARN("rank %d: NCCL_NET_PLUGIN=%s: %s", comm->rank, param_str(PARAM_NET_PLUGIN), why);
	return rc;
}

ncclResult_t net_plugin_devices(struct ncclComm *comm, int *count)
{
	const char *list = param_str(PARAM_NET_PLUGIN);
	ncclResult_t rc = ncclSuccess;
	const struct net_plugin_comm *pc;
	char why[400];

	*count = 0;
	if (!comm->net.state && list)
		rc = net_plugin_try_all(comm, list);
	else if (!comm->net.state && net_plugin_try(comm, NET_PLUGIN_FILE, why, sizeof why))
		INFO(LOG_INIT | LOG_NET, "NET/Plugin: rank %d uses no plugin: %s", comm->rank, why);
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
		net_plugin_comm_end(pc, pc->plugin->version >= 11);
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
	ncclResult_t rc = ncclInvalidUsage;
	char why[200] = "too many of them";

	if (p->nmerged < NET_PLUGIN_MERGED) {
		d->nic = *nic;
		rc = net_plugin_call_make(p, nic, &d->number);
		snprintf(why, sizeof why, "makeVDevice returns %s and device %d",
			 net_plugin_result(rc), d->number);
	}
	if (!rc && d->number >= 0 &&
	    net_plugin_call_props(p, d->number, &d->props, &rc, why, sizeof why)) {
		p->nmerged++;
		INFO(LOG_INIT | LOG_NET, "NET/Plugin: %s makes device %s of %d devices", p->name,
		     d->props.name, nic->count);
		return d;
	}
	INFO(LOG_INIT | LOG_NET, "NET/Plugin: %s cannot merge %d devices, %s is used alone: %s",
	     p->name, nic->count, p->dev[nic->dev[0]].props.name, why);
	return NULL;
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
