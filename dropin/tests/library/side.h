/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of a queue pair, for tests of two processes on the drop-in, with verbs calls alone. The
 * objects exist until the process ends. Units: bytes. A failed check prints a line and ends the
 * process with 1.
 */
#ifndef DROPIN_TESTS_SIDE_H
#define DROPIN_TESTS_SIDE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 4096, GID = 3 };

static inline void need(bool ok, const char *what)
{
	if (ok)
		return;
	printf("%d: not so: %s\n", (int)getpid(), what);
	exit(1);
}

struct side {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	union ibv_gid gid;
	unsigned char *buffer;
};

/* Addresses that two sides exchange. */
struct card {
	union ibv_gid gid;
	uint32_t qpn, rkey;
	uint64_t address;
};

/* Opens the HCA, allocates a protection domain and queries the GID. */
static inline void side_open_device(struct side *s, int device)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	need(list && n > device, "there are HCAs");
	s->ctx = ibv_open_device(list[device]);
	need(s->ctx != NULL, "it opens");
	ibv_free_device_list(list);
	s->pd = ibv_alloc_pd(s->ctx);
	need(s->pd && !ibv_query_gid(s->ctx, 1, GID, &s->gid), "a domain and an address");
}

/* Opens the HCA and creates what most tests need: a registered buffer and a completion queue. */
static inline void side_open(struct side *s, int device)
{
	side_open_device(s, device);
	s->buffer = aligned_alloc(4096, BYTES);
	need(s->buffer != NULL, "memory");
	memset(s->buffer, 0x11, BYTES);
	s->mr = ibv_reg_mr(s->pd, s->buffer, BYTES,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ);
	s->cq = ibv_create_cq(s->ctx, 256, NULL, NULL, 0);
	need(s->mr && s->cq, "its objects");
}

static inline void side_qp(struct side *s)
{
	struct ibv_qp_init_attr a = {.send_cq = s->cq,
				     .recv_cq = s->cq,
				     .cap = {4, 4, 1, 1, 0},
				     .qp_type = IBV_QPT_RC,
				     .sq_sig_all = 1};

	s->qp = ibv_create_qp(s->pd, &a);
	need(s->qp != NULL, "a queue pair");
}

static inline void side_connect(struct side *s, const struct card *peer)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.qp_access_flags =
					IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};

	need(!ibv_modify_qp(s->qp, &a,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "INIT");
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = peer->qpn;
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 12;
	a.ah_attr = (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = {.dgid = peer->gid, .sgid_index = GID, .hop_limit = 64}};
	need(!ibv_modify_qp(s->qp, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 20;
	a.retry_cnt = 7;
	a.rnr_retry = 7;
	a.max_rd_atomic = 1;
	need(!ibv_modify_qp(s->qp, &a,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

static inline struct card side_card(const struct side *s)
{
	return (struct card){.gid = s->gid,
			     .qpn = s->qp->qp_num,
			     .rkey = s->mr->rkey,
			     .address = (uintptr_t)s->buffer};
}

/* Uses a fabric of the test's own, so that no other process is on it, and limits the test's
 * time. */
static inline void side_fabric(const char *test)
{
	char name[32];

	alarm(120);
	snprintf(name, sizeof name, "%s-%d", test, (int)getpid());
	setenv("DOPPEL_FABRIC", name, 1);
}

/* Forks a process that runs `other`. Each process reads and writes the other through *in and *out.
 * Called before either opens a device. */
static inline pid_t side_fork(void (*other)(int in, int out), int *in, int *out)
{
	int to[2], from[2];

	need(!pipe(to) && !pipe(from), "pipes");
	pid_t child = fork();

	need(child >= 0, "a second process");
	*in = child ? from[0] : to[0];
	*out = child ? to[1] : from[1];
	close(child ? to[0] : to[1]);
	close(child ? from[1] : from[0]);
	if (child == 0) {
		other(*in, *out);
		exit(0);
	}
	return child;
}

#endif
