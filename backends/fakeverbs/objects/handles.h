/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles: the memory that an object's owner sees. Each contains the public struct, such as struct
 * ibv_qp, and a pointer to the HCA's record (objects.h). It exists from its create call to its
 * destroy call, and longer: alive.h. Other processes never read a handle.
 */
#ifndef BACKENDS_FAKEVERBS_HANDLES_H
#define BACKENDS_FAKEVERBS_HANDLES_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>

#include "backends/fakeverbs/objects/alive.h"
#include "backends/fakeverbs/objects/objects.h"
#include "core/base/macros.h"
#include "core/os/os.h"

#pragma GCC visibility push(hidden)

/* Read by our libmlx5.so.1 (dropin/mlx5dv), a separate library. */
#define HCA_PROVIDER_MLX5  "doppel: mlx5"
#define HCA_PROVIDER_OTHER "doppel: no provider's table"

struct hca_device_handle {
	struct ibv_device ibv;
	const char *
		/* HCA_PROVIDER_*, at the offset where rdma-core's providers expect their own
		 * table */
		provider;
	uint32_t port; /* world port */
	uint32_t host;
	uint32_t alive; /* HCA_ALIVE(HCA_KIND_DEVICES) while a list or a context refers to it */
};
struct hca_context_handle {
	struct verbs_context verbs;
	struct hca_head head;
	struct hca_context *hca;
};
struct hca_td_handle {
	struct ibv_td ibv;
	struct hca_head head;
	uint32_t users; /* parent domains */
};
struct hca_pd_handle {
	struct ibv_pd ibv;
	struct hca_head head;
	struct hca_pd *hca;
	uint32_t users;
	/* fields of a parent domain (domain.c) */
	/* domain whose `hca` it shares; NULL: it is a protection domain */
	struct hca_pd_handle *base;
	struct hca_td_handle *td; /* NULL: without a thread domain */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type); /* NULL: no allocator */
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
};
struct hca_mr_handle {
	struct ibv_mr ibv;
	struct hca_head head;
	struct hca_mr *hca;
};
struct hca_mw_handle {
	struct ibv_mw ibv;
	struct hca_head head;
	struct hca_mw *hca;
};
struct hca_channel_handle {
	struct ibv_comp_channel ibv;
	struct hca_head head;
	struct hca_channel *hca;
	uint32_t port;
};
struct hca_cq_handle {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex ex; /* begins with the same fields */
	};
	struct hca_head head;
	struct hca_cq *hca;
	struct ibv_pd *parent; /* parent domain of an extended queue, or NULL */
	void *ring_memory;     /* memory from the parent domain's allocator, or NULL */
	/* fields of an extended queue (cq_ex.c) */
	uint64_t wc_flags;
	uint32_t single_threaded, polling;
	struct os_mutex poll_lock;
	struct ibv_wc wc; /* the current completion */
	uint64_t timestamp;
	uint32_t users;       /* queue pairs */
	uint64_t depth;       /* completions that these can have (checks.h) */
	uint32_t comp_taken;  /* events returned by get_cq_event */
	uint32_t async_taken; /* events returned by get_async_event */
};
struct hca_builder;
struct hca_qp_handle {
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex ex; /* begins with the same fields */
	};
	struct hca_head head;
	struct hca_qp *hca;
	struct ibv_xrcd *xrcd; /* or NULL */
	void *ring_memory;     /* memory from the program's allocator, or NULL */
	/* reference from ibv_open_qp; NULL: this handle created the queue pair */
	struct hca_qp_open *open;
	/* builder of an extended one (qp_ex.c), after this struct; else NULL */
	struct hca_builder *builder;
	uint32_t async_taken;
	uint32_t cq_depth[2]; /* send, receive: its part of the queues' depth */
};

struct hca_ah_handle {
	struct ibv_ah ibv;
	struct hca_head head;
	struct hca_ah *hca;
};

struct hca_srq_handle {
	struct ibv_srq ibv;
	struct hca_head head;
	struct hca_srq *hca;
	struct hca_pd_handle *pd;
	void *ring_memory;     /* memory from the program's allocator, or NULL */
	struct ibv_xrcd *xrcd; /* NULL: a basic queue */
	struct ibv_cq *cq;
	uint32_t users; /* queue pairs */
	uint32_t async_taken;
};
struct hca_xrcd_handle {
	struct ibv_xrcd ibv;
	struct hca_head head;
	struct hca_xrcd *hca;
	struct hca_xrcd_open *open;
	uint32_t users; /* queue pairs and shared receive queues */
};

/* Returns `rc`, and stores an error in errno, as a system call does. For calls that rdma-core makes
 * to the kernel; posts and polls are not among them. */
static inline int hca_result(int rc)
{
	if (rc)
		errno = rc;
	return rc;
}

static inline struct hca_context_handle *hca_context_of(struct ibv_context *c)
{
	return CONTAINER_OF(verbs_get_ctx(c), struct hca_context_handle, verbs);
}
static inline struct hca_pd_handle *hca_pd_of(struct ibv_pd *pd)
{
	return CONTAINER_OF(pd, struct hca_pd_handle, ibv);
}
static inline struct hca_cq_handle *hca_cq_of(struct ibv_cq *cq)
{
	return CONTAINER_OF(cq, struct hca_cq_handle, ibv);
}
static inline struct hca_qp_handle *hca_qp_of(struct ibv_qp *qp)
{
	return CONTAINER_OF(qp, struct hca_qp_handle, ibv);
}
static inline struct hca_srq_handle *hca_srq_of(struct ibv_srq *srq)
{
	return CONTAINER_OF(srq, struct hca_srq_handle, ibv);
}

/* Returns the offset of the head from the pointer that the program holds. */
static inline size_t hca_head_offset(enum hca_kind kind)
{
	switch (kind) {
	case HCA_KIND_CONTEXT:
		return offsetof(struct hca_context_handle, head) -
		       offsetof(struct hca_context_handle, verbs.context);
	case HCA_KIND_PD:
		return offsetof(struct hca_pd_handle, head);
	case HCA_KIND_TD:
		return offsetof(struct hca_td_handle, head);
	case HCA_KIND_MR:
		return offsetof(struct hca_mr_handle, head);
	case HCA_KIND_MW:
		return offsetof(struct hca_mw_handle, head);
	case HCA_KIND_AH:
		return offsetof(struct hca_ah_handle, head);
	case HCA_KIND_CHANNEL:
		return offsetof(struct hca_channel_handle, head);
	case HCA_KIND_CQ:
		return offsetof(struct hca_cq_handle, head);
	case HCA_KIND_SRQ:
		return offsetof(struct hca_srq_handle, head);
	case HCA_KIND_QP:
		return offsetof(struct hca_qp_handle, head);
	case HCA_KIND_XRCD:
		return offsetof(struct hca_xrcd_handle, head);
	default:
		return 0;
	}
}

/* Returns 0 if `object` is a living object of that kind and of the calling process. Otherwise logs
 * the reason and returns EINVAL, in errno too. `call` is the name of the call, `caller` its call
 * site. */
static inline int hca_bad(const void *object, enum hca_kind kind, const char *call, uint64_t caller)
{
	if (LIKELY(object != NULL)) {
		const struct hca_head *h =
			(const void *)((const char *)object + hca_head_offset(kind));

		if (!hca_is_dead(h, kind) && h->self == object && h->proc == hca_proc_id(os_proc()))
			return 0;
	}
	return hca_bad_handle(object, kind, call, caller);
}
/* Checks a part of an object that is created in `context`. NULL passes: the part is optional. */
static inline int hca_bad_part(const void *object, enum hca_kind kind,
			       const struct ibv_context *context, const char *call, uint64_t caller)
{
	if (!object)
		return 0;
	if (hca_bad(object, kind, call, caller))
		return EINVAL;
	/* all public structs except the context's begin with the context */
	return *(struct ibv_context *const *)object == context
		       ? 0
		       : hca_bad_context(object, kind, context, call, caller);
}

#pragma GCC visibility pop

#endif
