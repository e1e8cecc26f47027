/* SPDX-License-Identifier: BSD-3-Clause */
/* The process' plugin: its table of functions, its devices, and what it reduces. */
#include "core/device/layout/work.h"
#include "core/transport/base/step_bytes.h"
#include "core/transport/collnet/collnet_internal.h"

/* Returns the name of a function that the table lacks; NULL: none is missing. */
static const char *collnet_missing(const struct collnet_abi *a, int version)
{
	const struct plugin_function needed[] = {
		{(const void *)a->props, "getProperties"},
		{(const void *)a->listen.v8, "listen"},
		{(const void *)a->connect, "connect"},
		{(const void *)a->reduce_support, "reduceSupport"},
		{(const void *)a->reg_mr, "regMr"},
		{(const void *)a->dereg_mr, "deregMr"},
		{(const void *)a->iallreduce.v8, "iallreduce"},
		{(const void *)a->iflush, "iflush"},
		{(const void *)a->test, "test"},
		{(const void *)a->close_coll, "closeColl"},
		{(const void *)a->close_listen, "closeListen"},
		/* the last one is of version 11 and later */
		{version < 11 ? (const void *)a->name : (const void *)a->finalize, "finalize"},
	};

	return plugin_missing(needed, ARRAY_LEN(needed));
}

static ncclResult_t collnet_lacks(const struct collnet_plugin *p, const char *function,
				  struct net_plugin_why *why)
{
	if (!function)
		return ncclSuccess;
	return net_plugin_because(why, ncclInvalidUsage,
				  "the table " COLLNET_ABI_SYMBOL
				  "%d has no %s, expected all functions of the version",
				  p->version, function);
}

/* Only what is called before the devices are known must be there: a table without devices may lack
 * the rest. */
static ncclResult_t collnet_table(struct collnet_plugin *p, const struct plugin_library *library,
				  struct net_plugin_why *why)
{
	const struct collnet_abi *a = plugin_table(library, COLLNET_ABI_SYMBOL, COLLNET_ABI_NEWEST,
						   COLLNET_ABI_OLDEST, &p->version);
	ncclResult_t rc;

	if (!a)
		return net_plugin_because(why, ncclInvalidUsage,
					  "it has none of " COLLNET_ABI_SYMBOL "%d to _v%d",
					  COLLNET_ABI_OLDEST, COLLNET_ABI_NEWEST);
	const struct plugin_function needed[] = {{a->name, "name"},
						 {(const void *)a->init.v8, "init"},
						 {(const void *)a->devices, "devices"}};
	rc = collnet_lacks(p, plugin_missing(needed, ARRAY_LEN(needed)), why);
	if (rc)
		return rc;
	p->abi = a; /* from now on other communicators use it without a check */
	snprintf(p->name, sizeof p->name, "%s", a->name);
	return ncclSuccess;
}

/* ---- devices -------------------------------------------------------------------------------- */

static ncclResult_t collnet_device(struct collnet_plugin *p, int dev, struct net_plugin_why *why)
{
	struct net_plugin_props *props = &p->dev[dev];
	const size_t step = transport_step_bytes(DEV_SIMPLE);
	ncclResult_t rc = net_plugin_read_props(p->version, p->abi->props, true, dev, props, why);

	if (rc || props->max_bytes >= step)
		return rc;
	return net_plugin_because(why, ncclInvalidUsage,
				  "device %d reduces at most %zu bytes, expected %zu or more: "
				  "NCCL_BUFFSIZE must be lower",
				  dev, props->max_bytes, step);
}

/* A plugin reports 1 or 0, and nothing for a type that it does not know. */
static ncclResult_t collnet_support(struct collnet_plugin *p, struct net_plugin_why *why)
{
	p->supported = 0;
	for (int op = ncclSum; op < ncclAvg; op++)
		for (int type = 0; type < ncclNumTypes; type++) {
			int supported = 0;
			ncclResult_t rc = p->abi->reduce_support((ncclDataType_t)type,
								 (ncclRedOp_t)op, &supported);

			if (rc)
				return net_plugin_because(why, ncclSystemError,
							  "reduceSupport fails with %s",
							  plugin_result(rc));
			if (supported == 1)
				p->supported |=
					collnet_reduction((ncclDataType_t)type, (ncclRedOp_t)op);
		}
	return p->supported ? ncclSuccess
			    : net_plugin_because(why, ncclInvalidUsage,
						 "reduceSupport has no type and operation");
}

static ncclResult_t collnet_query(struct collnet_plugin *p, struct net_plugin_why *why)
{
	int count = -1;
	ncclResult_t rc = p->abi->devices(&count);

	if (rc)
		return net_plugin_because(why, ncclSystemError, "devices fails with %s",
					  plugin_result(rc));
	p->empty = count == 0;
	if (p->empty)
		return net_plugin_because(why, ncclInvalidUsage, "%s has no device", p->name);
	if (count < 0 || count > COLLNET_DEVICES)
		return net_plugin_because(why, ncclSystemError,
					  "devices returns a count of %d, expected 0 to %d", count,
					  COLLNET_DEVICES);
	rc = collnet_lacks(p, collnet_missing(p->abi, p->version), why);
	for (int i = 0; i < count && !rc; i++)
		rc = collnet_device(p, i, why);
	if (!rc)
		rc = collnet_support(p, why);
	if (!rc)
		p->ndevs = count;
	return rc;
}

/* ---- start ---------------------------------------------------------------------------------- */

/* Calls init: up to version 10 for the first communicator only. */
static ncclResult_t collnet_init(struct collnet *c, uint64_t comm_id, struct net_plugin_why *why)
{
	const struct collnet_plugin *p = c->plugin;
	ncclResult_t rc = ncclSuccess;

	if (p->version >= 11)
		rc = p->abi->init.v11(&c->context, comm_id, plugin_log);
	else if (!p->started)
		rc = p->abi->init.v8(plugin_log);
	if (rc)
		return net_plugin_because(why, ncclSystemError, "init fails with %s",
					  plugin_result(rc));
	c->initialised = true;
	return ncclSuccess;
}

ncclResult_t collnet_load(struct collnet *c, const struct plugin_library *library, uint64_t comm_id,
			  struct net_plugin_why *why)
{
	struct collnet_plugin *p = c->plugin;
	ncclResult_t rc = ncclSuccess;

	os_mutex_lock(&p->lock);
	if (!p->abi)
		rc = collnet_table(p, library, why);
	if (!rc)
		rc = collnet_init(c, comm_id, why);
	if (!rc && !p->started)
		rc = collnet_query(p, why);
	p->started |= !rc;
	os_mutex_unlock(&p->lock);
	return rc;
}
