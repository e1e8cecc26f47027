/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process' plugins: their library, its table of functions, and the count of their users.
 */
#include <stdarg.h>

#include "core/transport/net_plugin/net_plugin_internal.h"

/* ---- users ---------------------------------------------------------------------------------- */

void net_plugin_put(struct net_plugin *p)
{
	if (!plugin_shared_put(&p->shared))
		return;
	os_free(p->dev);
	if (!param_i64(PARAM_NET_PLUGIN_REF_COUNT))
		plugin_close(&p->library);
	os_free(p);
}

/* ---- the library ---------------------------------------------------------------------------- */

static ncclResult_t net_plugin_open(struct net_plugin *p, struct net_plugin_why *why)
{
	char text[200];

	if (!plugin_open(PLUGIN_NET, p->shared.setting, &p->library, text, sizeof text))
		return ncclSuccess;
	return net_plugin_because(why, ncclSystemError, "%s cannot be loaded: %s", p->library.file,
				  text);
}

/* ---- the table ------------------------------------------------------------------------------ */

/* Returns the name of a function that the table lacks, of those that are called without a check;
 * NULL: none is missing. */
static const char *net_plugin_missing(const struct net_abi *a, int version)
{
	const struct plugin_function needed[] = {
		{a->name, "name"},
		{(const void *)a->init.v8, "init"},
		{(const void *)a->devices, "devices"},
		{(const void *)a->props, "getProperties"},
		{(const void *)a->listen.v8, "listen"},
		{(const void *)a->connect.v8, "connect"},
		{(const void *)a->accept, "accept"},
		{(const void *)a->reg_mr, "regMr"},
		{(const void *)a->dereg_mr, "deregMr"},
		{(const void *)a->isend.v8, "isend"},
		{(const void *)a->irecv.v8, "irecv"},
		{(const void *)a->iflush, "iflush"},
		{(const void *)a->test, "test"},
		{(const void *)a->close_send, "closeSend"},
		{(const void *)a->close_recv, "closeRecv"},
		{(const void *)a->close_listen, "closeListen"},
		/* the last one is of version 11 and later */
		{version < 11 ? (const void *)a->name : (const void *)a->finalize, "finalize"},
	};

	return plugin_missing(needed, ARRAY_LEN(needed));
}

/* Finds the newest version that the library has. */
static ncclResult_t net_plugin_table(struct net_plugin *p, struct net_plugin_why *why)
{
	p->abi = plugin_table(&p->library, NET_ABI_SYMBOL, NET_ABI_NEWEST, NET_ABI_OLDEST,
			      &p->version);
	if (p->abi)
		return ncclSuccess;
	return net_plugin_because(why, ncclInvalidUsage,
				  "%s has none of " NET_ABI_SYMBOL "%d to _v%d, expected a net "
				  "plugin of one of these versions",
				  p->library.file, NET_ABI_OLDEST, NET_ABI_NEWEST);
}

static ncclResult_t net_plugin_table_check(struct net_plugin *p, struct net_plugin_why *why)
{
	const char *missing = net_plugin_missing(p->abi, p->version);

	if (missing)
		return net_plugin_because(why, ncclInvalidUsage,
					  "%s: the table " NET_ABI_SYMBOL
					  "%d has no %s, expected all functions of the version",
					  p->library.file, p->version, missing);
	snprintf(p->name, sizeof p->name, "%s", p->abi->name);
	p->ops = net_plugin;
	p->ops.name = p->name;
	if (p->version >= 9 && p->abi->make_device)
		p->ops.merged = NET_MAX_MERGED;
	return ncclSuccess;
}

ncclResult_t net_plugin_load(struct net_plugin *p, struct net_plugin_why *why)
{
	ncclResult_t rc = net_plugin_open(p, why);

	if (!rc)
		rc = net_plugin_table(p, why);
	if (!rc)
		rc = net_plugin_table_check(p, why);
	return rc;
}

ncclResult_t net_plugin_because(struct net_plugin_why *why, ncclResult_t rc, const char *format,
				...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why->text, sizeof why->text, format, args);
	va_end(args);
	return rc;
}
