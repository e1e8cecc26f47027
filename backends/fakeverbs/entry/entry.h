/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The HCA double's internal interface: the entry points about objects. The external interface is
 * <infiniband/verbs.h> of rdma-core, unchanged.
 *
 * The folder has floors. A file includes and calls only its own floor and the floors before it
 * (tests/unit/rules_arrows_test.sh checks both):
 *
 *   arena      tables, locks, memory of rings; other processes; reports
 *   objects    the records of queue pairs, regions and the rest, the handles of the program,
 *              packets, bytes and keys, addresses, personalities
 *   checks     permitted requests and attributes, and the sanitizer's rules
 *   queues     queue pairs, completion queues, channels and events, and their repair
 *   transport  the requester and the responder, the wire
 *   entry      the exported calls about objects: post, poll, create, destroy
 *   context    the exported calls about devices and contexts, and the end of processes
 *
 * Objects that another process' HCA reads (queue pairs, completion queues, memory regions, ports)
 * are plain data in the world arena: indices and generations, no pointers. A `handle` in them is
 * the address of the owner's verbs object, stored as a number. It serves as the key of posts and
 * labels, and no other process dereferences it. Objects that only the owner sees (struct ibv_qp and
 * the like) are in the owner's handles (objects/handles.h).
 *
 * Entry points run on a task. They begin with sim_point (hca_enter), act under locks without
 * waiting, and end with sim_events_drain. All other work is an event of the engine
 * (hca_qp_transmit, hca_packet_arrive, hca_qp_timer), and events never wait.
 *
 * Locks are words in the arena, and waiters spin on them (under `sim` they are always free). The
 * order, outermost first:
 *
 *   queue pair -> shared receive queue -> completion queue -> completion channel, context (async
 *   events)
 *   a port's atomics: under a queue pair, over memory
 *   leaves, which are locked under any of these, and under which no lock is taken: memory region,
 *   port, slab, memory
 *
 * Two queue pairs are never locked together, except in transport/direct.c, which only tries the
 * second lock. Requester and responder exchange packets only.
 *
 * Facts: InfiniBand Architecture 1.x volume 1, chapters 9 to 11, through the rdma-core manual
 * pages. Times are in ns, sizes in bytes, rates in MB/s. Errors are 0 or a positive errno.
 */
#ifndef BACKENDS_FAKEVERBS_ENTRY_H
#define BACKENDS_FAKEVERBS_ENTRY_H

#include <endian.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "backends/fakeverbs/transport/transport.h"
#include "backends/peermem.h"

#pragma GCC visibility push(hidden)

/* Begins a call about `object`: its scheduling point, then hca_bad. */
static inline int hca_enter(const void *object, enum hca_kind kind, const char *call,
			    uint64_t caller)
{
	sim_point(call);
	return hca_bad(object, kind, call, caller);
}
/* The same for a call that takes the time of a command to the HCA. */
static inline int hca_enter_control(const void *object, enum hca_kind kind, const char *call,
				    uint64_t caller)
{
	sim_point(call);
	sim_charge_ns(HCA_CONTROL_NS);
	return hca_bad(object, kind, call, caller);
}

/* ---- post.c ---- */

int hca_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int hca_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void hca_post_fill_recv(struct hca_wqe *e, const struct ibv_recv_wr *wr);
/* Under the queue pair's lock. hca_post_check_state checks whether it accepts sends now.
 * hca_post_stage checks one request and writes it into its slot, `ahead` after the last posted one;
 * 0 or an errno. hca_post_doorbell posts `n` staged requests. */
int hca_post_check_state(const struct hca_qp *qp);
int hca_post_stage(struct hca_qp *qp, const struct ibv_send_wr *wr, uint32_t ahead);
void hca_post_doorbell(struct hca_qp *qp, uint32_t n);

/* ---- ibv_qp.c, qp_ex.c ---- */

struct ibv_qp *hca_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *a);
/* Sets the calls of an extended queue pair that has these operations. */
void hca_qp_ex_calls(struct hca_qp_handle *h, uint64_t ops);
size_t hca_builder_bytes(uint32_t port);
/* WAITS until no other task builds requests, and locks the builder. For a task that posts to an
 * extended queue pair. */
void hca_builder_wait(struct hca_builder *b);
void hca_builder_leave(struct hca_builder *b);
static inline void hca_builder_lock(struct hca_qp_handle *h)
{
	if (h->builder)
		hca_builder_wait(h->builder);
}
static inline void hca_builder_unlock(struct hca_qp_handle *h)
{
	if (h->builder)
		hca_builder_leave(h->builder);
}

/* ---- ibv_cq.c, cq_ex.c, cq_attr.c ---- */

void hca_cq_destroy(struct hca_cq *cq);
/* Creates a queue of at least a->cqe entries; flags are enum ibv_create_cq_attr_flags. NULL and
 * errno. */
struct hca_cq_handle *hca_cq_create(struct ibv_context *context,
				    const struct ibv_cq_init_attr_ex *a, uint32_t flags);
/* Visits the fault site of a poll; true: the poll fails. */
bool hca_poll_fault(struct hca_cq *cq, const struct ibv_cq *ibv);
int hca_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int hca_req_notify_cq(struct ibv_cq *cq, int solicited_only);
struct ibv_cq_ex *hca_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *a);
int hca_query_rt_values(struct ibv_context *context, struct ibv_values_ex *v);
int hca_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *a);

/* ---- ibv_srq.c ---- */

struct ibv_srq *hca_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *a);
int hca_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* Visits the fault sites of a post; returns the errno with which it fails, or 0. */
int hca_srq_fault(struct hca_srq *srq, const struct ibv_srq *ibv);
void hca_srq_destroy(struct hca_srq *srq);

/* ---- ibv_xrc.c ---- */

struct ibv_xrcd *hca_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *a);
int hca_close_xrcd(struct ibv_xrcd *xrcd);
void hca_xrcd_open_end(struct hca_xrcd_open *open);
/* Add a user (returns index + 1) and remove one. */
uint32_t hca_xrcd_use(struct ibv_xrcd *xrcd);
void hca_xrcd_unuse(struct ibv_xrcd *xrcd);
bool hca_xrcd_is_of(struct ibv_xrcd *xrcd, uint32_t port);
int hca_get_srq_num(struct ibv_srq *srq, uint32_t *number);
struct ibv_qp *hca_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *a);
/* Removes a handle; the last one destroys the queue pair. owner: the handle that created it.
 * Returns true if it was the last one. */
bool hca_qp_release(struct hca_qp *qp, bool owner);
void hca_qp_open_end(struct hca_qp_open *open);

/* ---- domain.c ---- */

/* Resource type that the program's allocators receive. */
enum hca_resource { HCA_RESOURCE_QP = 1, HCA_RESOURCE_SRQ, HCA_RESOURCE_CQ };

struct ibv_td *hca_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *a);
int hca_dealloc_td(struct ibv_td *td);
struct ibv_pd *hca_alloc_parent_domain(struct ibv_context *context,
				       struct ibv_parent_domain_init_attr *a);
void hca_parent_end(struct hca_pd_handle *pd, uint64_t caller);
/* Call the allocators of the program, hence under no lock. pd may be NULL. ENOMEM. */
int hca_ring_memory_alloc(struct ibv_pd *pd, enum hca_resource type, uint64_t bytes, void **memory);
void hca_ring_memory_free(struct ibv_pd *pd, enum hca_resource type, void *memory);

/* ---- ibv_port.c, region.c, advice.c, ibv_window.c ---- */

int hca_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
		   size_t bytes);
void hca_mr_destroy(struct hca_mr *mr);
struct ibv_mr *hca_alloc_null_mr(struct ibv_pd *pd);
int hca_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		  struct ibv_sge *sge, uint32_t n);
void hca_window_ops(struct ibv_context_ops *ops);
void hca_mw_destroy(struct hca_mw *mw);
/* Checks a bind request: 0 or EINVAL. */
int hca_post_check_bind(const struct hca_qp *qp, const struct ibv_send_wr *wr);
void hca_post_fill_bind(struct hca_wqe *e, const struct ibv_send_wr *wr);

#pragma GCC visibility pop

#endif
