/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of requests and attributes: permitted values (qp_attr.c), and the sanitizer's rules about
 * attributes and posted requests (arena/report.h has their names and sentences). The queues, the
 * transport and the entry points call them. A check changes nothing that a program can see.
 *
 * Includes arena and objects.
 */
#ifndef BACKENDS_FAKEVERBS_CHECKS_H
#define BACKENDS_FAKEVERBS_CHECKS_H

#include "backends/fakeverbs/arena/point.h"
#include "backends/fakeverbs/arena/report.h"
#include "backends/fakeverbs/objects/handles.h"
#include "backends/fakeverbs/objects/hca_memory.h"
#include "backends/fakeverbs/objects/packet.h"
#include "backends/fakeverbs/objects/personality.h"
#include "backends/fakeverbs/objects/port.h"
#include "backends/fakeverbs/objects/requests.h"

#pragma GCC visibility push(hidden)

/* ---- check_post.c: requests from post to completion. Under the queue pair's lock ------------- */

/* Checks the last `n` sends, after they were posted and, where possible, executed immediately. */
void hca_check_posted(struct hca_qp *qp, uint32_t n);
void hca_check_recv_posted(const struct hca_qp *qp, const struct hca_wqe *e);
/* Checks a send that completes with success. */
void hca_check_sent(const struct hca_qp *qp, struct hca_wqe *e);
/* Reports a send queue that is full and cannot drain. */
void hca_check_send_full(const struct hca_qp *qp);
/* Records a refused post. The dump of a failing run names it. */
void hca_check_refused(struct hca_qp *qp, uint64_t wr_id, int rc);
/* Checks a send that was refused again because the receiver was not ready. */
void hca_check_not_ready(struct hca_qp *qp, const struct hca_wqe *e);
/* Report completion queues that are smaller than the number of completions their queue pairs can
 * have. */
void hca_check_cq_size(struct ibv_qp *qp, const struct ibv_qp_cap *cap, uint64_t caller);
void hca_check_cq_leave(struct ibv_qp *qp);

/* ---- check_attr.c: attributes and keys ------------------------------------------------------ */

/* Reports which attribute ibv_modify_qp refused, and why. */
void hca_check_modify_refused(const struct hca_qp *qp, enum ibv_qp_state to,
			      const struct ibv_qp_attr *a, int mask, uint64_t caller);
void hca_check_modified(const struct hca_qp *qp, int mask, uint64_t caller);
/* Reports the entries of a request that cannot be used with this access. */
void hca_check_local_keys(const struct hca_qp *qp, uint32_t pd, struct hca_wqe *e, uint32_t access,
			  const char *what);
/* Report why the peer's request was refused: its key, the queue pair's access flags, or more READs
 * and atomics than the queue pair allows. */
void hca_check_remote_key(const struct hca_qp *qp, const struct hca_packet *p, uint32_t access);
/* Reports an atomic that an HCA with global atomics cannot execute as global in that memory. */
void hca_check_atomic_global(const struct hca_qp *qp, const struct hca_mr *mr,
			     const struct hca_packet *p);
void hca_check_remote_flags(const struct hca_qp *qp, const struct hca_packet *p, uint32_t access);
void hca_check_remote_reads(const struct hca_qp *qp, const struct hca_packet *p);
/* Reports a datagram that is dropped for its Q_Key. */
void hca_check_qkey(const struct hca_qp *qp, const struct hca_packet *p);
void hca_check_reg(uint64_t address, uint64_t bytes, unsigned int access, uint64_t caller);

/* ---- qp_attr.c: attributes that a transition of a queue pair needs and allows ---- */

/* Returns the mask without the bits of the half that an XRC type lacks. Programs set them as for
 * RC, and the kernel ignores them. */
int hca_qp_mask(enum ibv_qp_type type, int mask);
/* Checks the mask of a transition. EINVAL: a bit is missing or not allowed. */
int hca_qp_check_mask(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
		      int mask);
int hca_qp_check_values(const struct hca_qp *qp, const struct ibv_qp_attr *a, int mask);
/* Returns the bits that a transition needs and allows, without IBV_QP_STATE; false: no such
 * transition. */
bool hca_qp_masks(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
		  int *required, int *optional);

#pragma GCC visibility pop

#endif
