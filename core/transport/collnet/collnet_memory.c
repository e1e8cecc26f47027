/* SPDX-License-Identifier: BSD-3-Clause */
/* Registrations of memory at a group. */
#include "core/base/param.h"
#include "core/mem/mem.h"
#include "core/transport/collnet/collnet_internal.h"

static const struct net_plugin_props *collnet_props_of(const struct collnet_group *g)
{
	return &g->of->plugin->dev[g->dev];
}

/* ncclInvalidUsage: not possible as a dma-buf. An error of the plugin is logged at INFO. */
static ncclResult_t collnet_reg_dmabuf(struct collnet_group *g, void *data, size_t bytes, void **mr)
{
	const struct collnet_abi *a = g->of->plugin->abi;
	size_t offset;
	ncclResult_t rc;
	int fd;

	if (!(collnet_props_of(g)->ptr_support & NET_ABI_DMABUF) || !a->reg_dmabuf ||
	    !param_bool(PARAM_DMABUF_ENABLE) || mem_dmabuf(data, bytes, &fd, &offset))
		return ncclInvalidUsage;
	rc = a->reg_dmabuf(g->coll, data, bytes, NET_ABI_CUDA, offset, fd, mr);
	os_descriptor_close(fd); /* the registration keeps the memory */
	if (!rc)
		return ncclSuccess;
	INFO(LOG_INIT | LOG_NET, "NET/CollNet: rank %d: regMrDmaBuf of %s on %s returns %s",
	     g->end.rank, g->of->plugin->name, collnet_props_of(g)->name, plugin_result(rc));
	return ncclInvalidUsage;
}

static ncclResult_t collnet_reg_gpu(struct collnet_group *g, void *data, size_t bytes, void **mr)
{
	ncclResult_t rc = collnet_reg_dmabuf(g, data, bytes, mr);

	if (!rc || !(collnet_props_of(g)->ptr_support & NET_ABI_CUDA))
		return rc;
	rc = g->of->plugin->abi->reg_mr(g->coll, data, bytes, NET_ABI_CUDA, mr);
	if (!rc)
		return ncclSuccess;
	INFO(LOG_INIT | LOG_NET,
	     "NET/CollNet: rank %d: regMr of %s on %s returns %s for GPU memory", g->end.rank,
	     g->of->plugin->name, collnet_props_of(g)->name, plugin_result(rc));
	return ncclInvalidUsage;
}

ncclResult_t collnet_reg_mr(void *net_comm, void *data, size_t bytes, enum net_memory where,
			    void **mr)
{
	struct collnet_mr *r = os_alloc(sizeof *r, "registration of a collective network");
	struct collnet_group *g = ((const struct collnet_conn *)net_comm)->group;
	ncclResult_t rc;

	*mr = NULL;
	if (r)
		r->gpu = where != NET_HOST;
	if (!r) {
		WARN("NET/CollNet: rank %d: no memory to register %zu bytes", g->end.rank, bytes);
		return ncclSystemError;
	}
	if (where != NET_HOST) {
		rc = collnet_reg_gpu(g, data, bytes, &r->mr);
	} else {
		rc = g->of->plugin->abi->reg_mr(g->coll, data, bytes, NET_ABI_HOST, &r->mr);
		if (rc)
			rc = plugin_end_failed(&g->end, "regMr of host memory", rc);
	}
	if (rc)
		os_free(r);
	else
		*mr = r;
	return rc;
}

ncclResult_t collnet_dereg_mr(void *net_comm, void *mr)
{
	struct collnet_group *g = ((const struct collnet_conn *)net_comm)->group;
	struct collnet_mr *r = mr;
	ncclResult_t rc = g->of->plugin->abi->dereg_mr(g->coll, r->mr);

	os_free(r);
	return rc ? plugin_end_failed(&g->end, "deregMr", rc) : ncclSuccess;
}
