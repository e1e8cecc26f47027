/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions of messages' data. GPU memory is registered in the first of these ways that works:
 *
 *	dma-buf       cuMemGetHandleForAddressRange and ibv_reg_dmabuf_mr, if CUDA's driver, the
 *	              kernel and the HCA have it. NCCL_DMABUF_ENABLE=0 turns it off
 *	peer memory   ibv_reg_mr at the GPU's address, for which a module of the kernel
 *	              (nvidia-peermem) provides the pages
 *	none          ncclInvalidUsage: the caller keeps its buffer in host memory
 *
 * Regions have relaxed ordering if the library has it (NCCL_IB_PCI_RELAXED_ORDERING): writes of an
 * HCA may then overtake each other on PCIe. This is allowed for data. The receiver reads data after
 * the completion that follows all of it. In protocol LL it reads eight bytes at a time, which
 * contain their own flag. The ring of clear-to-send entries is polled, and is registered without
 * relaxed ordering (net_verbs_qp.c).
 */
#include <stdio.h>
#include <string.h>

#include "core/mem/mem.h"
#include "core/transport/net_verbs/net_verbs_internal.h"

/* Regions are registered under offsets instead of addresses, so that the bytes on the wire are the
 * same in every run. HCAs need the offset within the page to be kept. */
static uint64_t net_verbs_page_offset(const void *data)
{
	return (uintptr_t)data % NET_VERBS_PAGE;
}

uint64_t net_verbs_iova(const struct net_verbs_region *r, const void *p)
{
	ASSERT((const uint8_t *)p >= r->data &&
	       (const uint8_t *)p - r->data <= (ptrdiff_t)r->bytes);
	return net_verbs_page_offset(r->data) + (uint64_t)((const uint8_t *)p - r->data);
}

/* ---- access --------------------------------------------------------------------------------- */

static int net_verbs_mr_access(const struct net_verbs_dev *d)
{
	const bool relaxed = param_i64(PARAM_IB_PCI_RELAXED_ORDERING) != 0 && !d->in_order;

	return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	       (relaxed ? IBV_ACCESS_RELAXED_ORDERING : 0);
}

/* A library without optional access rights has no function that accepts them. */
static bool net_verbs_mr_without_relaxed(struct net_verbs_dev *d, int error)
{
	if (error != ENOSYS || !(net_verbs_mr_access(d) & IBV_ACCESS_RELAXED_ORDERING) ||
	    param_i64(PARAM_IB_PCI_RELAXED_ORDERING) == 1)
		return false;
	INFO(LOG_INIT | LOG_NET,
	     "NET/IB: device %s has no relaxed ordering: its library is too old", d->name);
	d->in_order = true;
	return true;
}

/* ---- ways ----------------------------------------------------------------------------------- */

/* True if the error shows that the HCA's driver or library cannot register any dma-buf. */
static bool net_verbs_no_dmabuf(int error)
{
	return error == EOPNOTSUPP || error == EPROTONOSUPPORT || error == ENOSYS;
}

/* NULL: not possible as a dma-buf. */
static struct ibv_mr *net_verbs_mr_dmabuf(struct net_verbs_dev *d, void *data, size_t bytes)
{
	struct ibv_mr *mr;
	size_t offset;
	int fd, error;

	if (!param_bool(PARAM_DMABUF_ENABLE) || d->no_dmabuf ||
	    mem_dmabuf(data, bytes, &fd, &offset))
		return NULL;
	mr = ibv_reg_dmabuf_mr(d->pd, offset, bytes, net_verbs_page_offset(data), fd,
			       net_verbs_mr_access(d));
	error = errno;
	os_descriptor_close(fd); /* the region keeps the memory */
	if (mr)
		return mr;
	d->no_dmabuf = net_verbs_no_dmabuf(error);
	INFO(LOG_INIT | LOG_NET, "NET/IB: device %s cannot register a dma-buf of the GPU: %s",
	     d->name, strerror(error));
	return NULL;
}

/* Registers memory by address. NULL: failed with *error. */
static struct ibv_mr *net_verbs_mr_address(struct net_verbs_dev *d, void *data, size_t bytes,
					   int *error)
{
	const uint64_t iova = net_verbs_page_offset(data);
	struct ibv_mr *mr;

	do {
		const int access = net_verbs_mr_access(d);

		/* in parentheses: the library's function, not the header's macro */
		mr = access & IBV_ACCESS_RELAXED_ORDERING
			     ? ibv_reg_mr_iova2(d->pd, data, bytes, iova, (unsigned)access)
			     : (ibv_reg_mr_iova)(d->pd, data, bytes, iova, access);
		*error = errno;
	} while (!mr && net_verbs_mr_without_relaxed(d, *error));
	return mr;
}

/* True if the kernel found no pages at the address: there is no peer-memory module, or the GPU
 * gives HCAs no access. Other errors, such as a limit of locked memory, would occur for host memory
 * too. */
static bool net_verbs_no_gpu_access(enum net_memory where, int error)
{
	return where != NET_HOST &&
	       (error == EFAULT || error == ENODEV || error == EINVAL || error == EOPNOTSUPP);
}

/* Explains ENOMEM: too little locked memory, or no region left. The device reports how many it
 * has. */
static void net_verbs_mr_no_memory(const struct net_verbs_dev *d, char *text, size_t bytes)
{
	struct ibv_device_attr attr;
	int most = ibv_query_device(d->ctx, &attr) ? 0 : attr.max_mr;

	snprintf(
		text, bytes,
		" (the limit of locked memory, ulimit -l, is too low, or all regions of the device "
		"are in use, of which it has %d: set NCCL_NCHANNELS_PER_NET_PEER lower)",
		most);
}

static const char *net_verbs_mr_advice(int error)
{
	if (error == ENOSYS && param_i64(PARAM_IB_PCI_RELAXED_ORDERING) == 1)
		return " (NCCL_IB_PCI_RELAXED_ORDERING=1 needs ibv_reg_mr_iova2 of rdma-core 28)";
	return "";
}

static ncclResult_t net_verbs_mr_failed(const struct net_verbs_conn *c,
					const struct net_verbs_dev *d, size_t bytes,
					enum net_memory where, int error)
{
	char text[96], advice[224] = "";
	const char *reason = strerror_r(error, text, sizeof text);

	if (error == ENOMEM)
		net_verbs_mr_no_memory(d, advice, sizeof advice);
	if (net_verbs_no_gpu_access(where, error)) {
		INFO(LOG_INIT | LOG_NET,
		     "NET/IB: rank %d: device %s cannot register memory of the GPU: %s",
		     c->comm->rank, d->name, reason);
		return ncclInvalidUsage;
	}
	WARN("NET/IB: rank %d: ibv_reg_mr of %zu bytes of %s memory on device %s failed: %s%s%s",
	     c->comm->rank, bytes, where == NET_HOST ? "host" : "GPU", d->name, reason, advice,
	     net_verbs_mr_advice(error));
	return ncclSystemError;
}

static ncclResult_t net_verbs_mr_make(const struct net_verbs_conn *c, struct net_verbs_dev *d,
				      void *data, size_t bytes, enum net_memory where,
				      struct ibv_mr **mr)
{
	int error = 0;

	*mr = where == NET_HOST ? NULL : net_verbs_mr_dmabuf(d, data, bytes);
	OS_PROBE("net.dmabuf", "memory of a GPU is registered as a dma-buf", *mr != NULL);
	if (*mr)
		return ncclSuccess;
	*mr = net_verbs_mr_address(d, data, bytes, &error);
	OS_PROBE("net.peer_memory", "memory of a GPU is registered by its address",
		 *mr && where != NET_HOST);
	return *mr ? ncclSuccess : net_verbs_mr_failed(c, d, bytes, where, error);
}

/* ---- the calls ------------------------------------------------------------------------------ */

/* Deregisters the existing parts of the region. Returns the first error; 0: none. */
static int net_verbs_region_free(const struct net_verbs_conn *c, struct net_verbs_region *r)
{
	int first = 0;

	for (uint32_t i = 0; i < c->nlegs; i++) {
		int rc = r->mr[i] ? ibv_dereg_mr(r->mr[i]) : 0;

		if (rc)
			WARN("NET/IB: rank %d: ibv_dereg_mr on device %s failed: %s", c->comm->rank,
			     c->leg[i].dev->name, strerror(rc));
		first = first ? first : rc;
	}
	os_free(r);
	return first;
}

ncclResult_t net_verbs_reg_mr(void *net_comm, void *data, size_t bytes, enum net_memory where,
			      void **mr)
{
	struct net_verbs_region *r = os_alloc(sizeof *r, "verbs region");
	struct net_verbs_conn *c = net_comm;
	ncclResult_t rc = ncclSuccess;

	*mr = NULL;
	if (!r) {
		WARN("NET/IB: rank %d: no memory to register %zu bytes", c->comm->rank, bytes);
		return ncclSystemError;
	}
	*r = (struct net_verbs_region){.data = data, .bytes = bytes};
	for (uint32_t i = 0; i < c->nlegs && !rc; i++)
		rc = net_verbs_mr_make(c, c->leg[i].dev, data, bytes, where, &r->mr[i]);
	if (!rc && where == NET_GPU_FLUSH && !c->is_send && !c->leg[0].flush_qp)
		rc = net_verbs_flush_make(c);
	if (rc)
		(void)net_verbs_region_free(c, r);
	else
		*mr = r;
	return rc;
}

ncclResult_t net_verbs_dereg_mr(void *net_comm, void *mr)
{
	struct net_verbs_conn *c = net_comm;
	struct net_verbs_region *r = mr;

	if (r->used && (c->cut || net_verbs_outstanding(c)))
		net_verbs_qp_stop(c);
	return net_verbs_region_free(c, r) ? ncclSystemError : ncclSuccess;
}
