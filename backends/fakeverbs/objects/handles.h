/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the owner of an object holds: struct ibv_qp and the like, each inside a handle with the
 * HCA's half (objects.h) beside it, from its create call to its destroy call, and longer: alive.h.
 * No other process looks into one.
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

/* Read by our libmlx5.so.1 (backends/mlx5dv), which is another library. */
#define HCA_PROVIDER_MLX5  "doppel: mlx5"
#define HCA_PROVIDER_OTHER "doppel: no provider's table"

struct hca_device_handle {
	struct ibv_device ibv;
	const char *
		provider; /* where rdma-core's providers look for their own table: HCA_PROVIDER_* */
	uint32_t port;    /* world port */
	uint32_t host;
	uint32_t alive; /* HCA_ALIVE(HCA_KIND_DEVICES) while there are a list or contexts */
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
	/* of a parent domain (domain.c) */
	struct hca_pd_handle *base; /* whose `hca` it shares; NULL: a protection domain itself */
	struct hca_td_handle *td;   /* NULL: none */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type); /* NULL: none */
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
		struct ibv_cq_ex ex; /* begins with the same */
	};
	struct hca_head head;
	struct hca_cq *hca;
	struct ibv_pd *parent; /* domain, of an extended one; NULL: none */
	void *ring_memory;     /* of its allocator; NULL: none */
	/* of an extended queue (cq_ex.c) */
	uint64_t wc_flags;
	uint32_t single_threaded, polling;
	struct os_mutex poll_lock;
	struct ibv_wc wc; /* the current one */
	uint64_t timestamp;
	uint32_t users;       /* queue pairs */
	uint64_t depth;       /* completions that they can have (checks.h) */
	uint32_t comp_taken;  /* by get_cq_event */
	uint32_t async_taken; /* by get_async_event */
};
struct hca_builder;
struct hca_qp_handle {
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex ex; /* begins with the same */
	};
	struct hca_head head;
	struct hca_qp *hca;
	struct ibv_xrcd *xrcd;       /* NULL: none */
	void *ring_memory;           /* of the program\'s allocator; NULL: none */
	struct hca_qp_open *open;    /* by ibv_open_qp; NULL: this one made it */
	struct hca_builder *builder; /* of an extended one (qp_ex.c), after this; else NULL */
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
	void *ring_memory;     /* of the program's allocator; NULL: none */
	struct ibv_xrcd *xrcd; /* NULL: a basic one */
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

/* What a call for the kernel returns: an error is in errno, too, where the system call leaves it.
 * Posts and polls are no such calls. */
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

/* Where the head is, seen from what the program holds. */
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

/* Is this no living object of that kind, of the calling process? Then the reason is logged, and the
 * result is EINVAL, in errno too. `call` is the name of the call, `caller` its call site. */
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
/* The same for a part of something that is made in `context`, where NULL is none. */
static inline int hca_bad_part(const void *object, enum hca_kind kind,
			       const struct ibv_context *context, const char *call, uint64_t caller)
{
	if (!object)
		return 0;
	if (hca_bad(object, kind, call, caller))
		return EINVAL;
	/* all public structs but the context's begin with it */
	return *(struct ibv_context *const *)object == context
		       ? 0
		       : hca_bad_context(object, kind, context, call, caller);
}

#pragma GCC visibility pop

#endif
