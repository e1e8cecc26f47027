/* SPDX-License-Identifier: BSD-3-Clause */
/* Registrations of memory at the end of a plugin's network, or of its collective network. */
#include "core/transport/net_plugin/net_plugin_mr.h"

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/mem/mem.h"
#include "core/plugin/plugin.h"
#include "core/transport/net_plugin/net_abi.h"

/* ncclInvalidUsage: not possible as a dma-buf. An error of the plugin is logged at INFO. */
static ncclResult_t net_plugin_mr_dmabuf(const struct net_plugin_registrar *g, void *data,
					 size_t bytes, void **mr)
{
	size_t offset;
	ncclResult_t rc;
	int fd;

	if (!(g->props->ptr_support & NET_ABI_DMABUF) || !g->reg_dmabuf ||
	    !param_bool(PARAM_DMABUF_ENABLE) || mem_dmabuf(data, bytes, &fd, &offset))
		return ncclInvalidUsage;
	rc = g->reg_dmabuf(g->comm, data, bytes, NET_ABI_CUDA, offset, fd, mr);
	os_descriptor_close(fd); /* the registration keeps the memory */
	if (!rc)
		return ncclSuccess;
	INFO(LOG_INIT | LOG_NET, "%s: rank %d: regMrDmaBuf of %s on %s returns %s", g->end->network,
	     g->end->rank, g->end->plugin, g->props->name, plugin_result(rc));
	return ncclInvalidUsage;
}

static ncclResult_t net_plugin_mr_gpu(const struct net_plugin_registrar *g, void *data,
				      size_t bytes, void **mr)
{
	ncclResult_t rc = net_plugin_mr_dmabuf(g, data, bytes, mr);

	if (!rc || !(g->props->ptr_support & NET_ABI_CUDA))
		return rc;
	rc = g->reg_mr(g->comm, data, bytes, NET_ABI_CUDA, mr);
	if (!rc)
		return ncclSuccess;
	INFO(LOG_INIT | LOG_NET, "%s: rank %d: regMr of %s on %s returns %s for GPU memory",
	     g->end->network, g->end->rank, g->end->plugin, g->props->name, plugin_result(rc));
	return ncclInvalidUsage;
}

ncclResult_t net_plugin_mr_make(const struct net_plugin_registrar *g, void *data, size_t bytes,
				enum net_memory where, void **mr)
{
	struct net_plugin_mr *r = os_alloc(sizeof *r, "registration of a net plugin");
	ncclResult_t rc;

	*mr = NULL;
	if (!r) {
		WARN("%s: rank %d: no memory to register %zu bytes", g->end->network, g->end->rank,
		     bytes);
		return ncclSystemError;
	}
	r->gpu = where != NET_HOST;
	if (r->gpu) {
		rc = net_plugin_mr_gpu(g, data, bytes, &r->mr);
	} else {
		rc = g->reg_mr(g->comm, data, bytes, NET_ABI_HOST, &r->mr);
		if (rc)
			rc = plugin_end_failed(g->end, "regMr of host memory", rc);
	}
	if (rc)
		os_free(r);
	else
		*mr = r;
	return rc;
}

ncclResult_t net_plugin_mr_free(const struct net_plugin_registrar *g, void *mr)
{
	struct net_plugin_mr *r = mr;
	ncclResult_t rc = g->dereg_mr(g->comm, r->mr);

	os_free(r);
	return rc ? plugin_end_failed(g->end, "deregMr", rc) : ncclSuccess;
}
