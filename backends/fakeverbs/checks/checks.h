/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program may ask for (qp_attr.c), and the sanitizer's rules about attributes and posted
 * requests (arena/report.h has their names and sentences). Called by the queues, the transport and
 * the entry points; a check changes nothing that a program can see.
 *
 * Includes arena and objects.
 */
#ifndef BACKENDS_FAKEVERBS_CHECKS_H
#define BACKENDS_FAKEVERBS_CHECKS_H

#include "backends/fakeverbs/arena/point.h"
#include "backends/fakeverbs/arena/report.h"
#include "backends/fakeverbs/objects/handles.h"
#include "backends/fakeverbs/objects/memory.h"
#include "backends/fakeverbs/objects/packet.h"
#include "backends/fakeverbs/objects/personality.h"
#include "backends/fakeverbs/objects/port.h"
#include "backends/fakeverbs/objects/requests.h"

#pragma GCC visibility push(hidden)

/* ---- check_post.c: what is posted, until it completes. Under the queue pair's lock ----------- */

/* The last `n` sends were posted, and what could be done immediately is done. */
void hca_check_posted(struct hca_qp *qp, uint32_t n);
void hca_check_recv_posted(const struct hca_qp *qp, const struct hca_wqe *e);
/* This send completes with success. */
void hca_check_sent(const struct hca_qp *qp, struct hca_wqe *e);
/* There is no slot for another send. */
void hca_check_send_full(const struct hca_qp *qp);
/* A post was refused: it is named if the program then stands still. */
void hca_check_refused(struct hca_qp *qp, uint64_t wr_id, int rc);
/* The receiver was not ready, again; the send that it refused. */
void hca_check_not_ready(struct hca_qp *qp, const struct hca_wqe *e);
/* Completion queues that hold less than what their queue pairs can have under way. */
void hca_check_cq_size(struct ibv_qp *qp, const struct ibv_qp_cap *cap, uint64_t caller);
void hca_check_cq_leave(struct ibv_qp *qp);

/* ---- check_attr.c: attributes and keys ------------------------------------------------------ */

/* ibv_modify_qp refused these attributes: which, and why. */
void hca_check_modify_refused(const struct hca_qp *qp, enum ibv_qp_state to,
			      const struct ibv_qp_attr *a, int mask, uint64_t caller);
void hca_check_modified(const struct hca_qp *qp, int mask, uint64_t caller);
/* One of these entries cannot be used so. */
void hca_check_local_keys(const struct hca_qp *qp, uint32_t pd, struct hca_wqe *e, uint32_t access,
			  const char *what);
/* The peer's request was refused for its key, for what the queue pair allows, or because it is one
 * more than that. */
void hca_check_remote_key(const struct hca_qp *qp, const struct hca_packet *p, uint32_t access);
/* An HCA whose atomics are global cannot make this one so, in that memory. */
void hca_check_atomic_global(const struct hca_qp *qp, const struct hca_mr *mr,
			     const struct hca_packet *p);
void hca_check_remote_flags(const struct hca_qp *qp, const struct hca_packet *p, uint32_t access);
void hca_check_remote_reads(const struct hca_qp *qp, const struct hca_packet *p);
/* A datagram is dropped for its Q_Key. */
void hca_check_qkey(const struct hca_qp *qp, const struct hca_packet *p);
void hca_check_reg(uint64_t address, uint64_t bytes, unsigned int access, uint64_t caller);

/* ---- qp_attr.c: what a transition of a queue pair needs and allows ---- */

/* Without what the half of XRC lacks: programs set it as for RC, and the kernel drops it. */
int hca_qp_mask(enum ibv_qp_type type, int mask);
/* May (from -> to) be made with these attributes? EINVAL: a bit too few or too many. */
int hca_qp_check_mask(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
		      int mask);
int hca_qp_check_values(const struct hca_qp *qp, const struct ibv_qp_attr *a, int mask);
/* What a transition needs and allows, without IBV_QP_STATE; false: there is no such transition. */
bool hca_qp_masks(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
		  int *required, int *optional);

#pragma GCC visibility pop

#endif
