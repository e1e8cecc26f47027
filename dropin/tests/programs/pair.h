/* SPDX-License-Identifier: BSD-3-Clause */
/* Two queue pairs of one process on its first device, RoCE or InfiniBand, for programs that use
 * verbs like any other user. A failed check prints what was expected, and ends the program with
 * 1. */
#ifndef DROPIN_TESTS_PROGRAMS_PAIR_H
#define DROPIN_TESTS_PROGRAMS_PAIR_H

#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAIR_BYTES 4096
#define PAIR_ACCESS                                                                                \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

struct pair {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	char *memory; /* PAIR_BYTES */
	struct ibv_mr *mr;
	/* attributes of both queue pairs; may be changed before pair_connect */
	uint32_t sq_psn, rq_psn;
	int timeout, retries, rnr_retries;
};

static void pair_need(int ok, const char *what)
{
	if (ok)
		return;
	printf("not so: %s\n", what);
	exit(1);
}

static void pair_sleep_ms(long ms)
{
	const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

static void pair_open_nth(struct pair *p, int device)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	*p = (struct pair){.timeout = 14, .retries = 7, .rnr_retries = 7};
	pair_need(list && list[device], "a device");
	p->context = ibv_open_device(list[device]);
	pair_need(p->context != NULL, "a context");
	ibv_free_device_list(list);
	p->pd = ibv_alloc_pd(p->context);
	p->channel = ibv_create_comp_channel(p->context);
	p->cq = ibv_create_cq(p->context, 64, NULL, p->channel, 0);
	p->memory = aligned_alloc(PAIR_BYTES, PAIR_BYTES);
	memset(p->memory, 0, PAIR_BYTES);
	p->mr = ibv_reg_mr(p->pd, p->memory, PAIR_BYTES, PAIR_ACCESS);
	pair_need(p->pd && p->channel && p->cq && p->mr, "a domain, a queue, a region");
}

static inline void pair_open(struct pair *p)
{
	pair_open_nth(p, 0);
}

static int pair_to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = PAIR_ACCESS};

	return ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static void pair_address(const struct pair *p, struct ibv_ah_attr *ah)
{
	struct ibv_port_attr port;

	pair_need(!ibv_query_port(p->context, 1, &port), "the port");
	*ah = (struct ibv_ah_attr){.port_num = 1, .dlid = port.lid};
	if (port.link_layer == IBV_LINK_LAYER_INFINIBAND)
		return;
	ah->is_global = 1;
	ah->grh.hop_limit = 1;
	pair_need(!ibv_query_gid(p->context, 1, 0, &ah->grh.dgid), "a GID");
}

static int pair_to_rts(const struct pair *p, struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR,
				.path_mtu = IBV_MTU_1024,
				.dest_qp_num = peer,
				.rq_psn = p->rq_psn,
				.max_dest_rd_atomic = 4,
				.min_rnr_timer = 1};

	pair_address(p, &a.ah_attr);
	if (ibv_modify_qp(qp, &a,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return 1;
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				 .timeout = (uint8_t)p->timeout,
				 .retry_cnt = (uint8_t)p->retries,
				 .rnr_retry = (uint8_t)p->rnr_retries,
				 .sq_psn = p->sq_psn,
				 .max_rd_atomic = 4};
	return ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void pair_connect(struct pair *p)
{
	struct ibv_qp_init_attr a = {.send_cq = p->cq,
				     .recv_cq = p->cq,
				     .qp_type = IBV_QPT_RC,
				     .cap = {16, 16, 4, 4, 64}};

	for (int i = 0; i < 2; i++) {
		p->qp[i] = ibv_create_qp(p->pd, &a);
		pair_need(p->qp[i] && !pair_to_init(p->qp[i]), "a queue pair");
	}
	for (int i = 0; i < 2; i++)
		pair_need(!pair_to_rts(p, p->qp[i], p->qp[1 - i]->qp_num), "a connection");
}

/* Destroys the queue pairs and discards their completions. */
static inline void pair_disconnect(struct pair *p)
{
	struct ibv_wc wc;

	for (int i = 0; i < 2; i++)
		if (p->qp[i])
			pair_need(!ibv_destroy_qp(p->qp[i]), "the end of a queue pair");
	p->qp[0] = p->qp[1] = NULL;
	while (ibv_poll_cq(p->cq, 1, &wc) > 0)
		;
}

/* Posts a request on the first queue pair, from the first bytes of the memory to the bytes 64 after
 * them. */
static inline int pair_post(const struct pair *p, enum ibv_wr_opcode opcode, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)p->memory, 8, p->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 1,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)p->memory + 64;
	wr.wr.rdma.rkey = rkey;
	return ibv_post_send(p->qp[0], &wr, &bad);
}

/* Returns the next completion. A minute is enough on any machine. */
static inline struct ibv_wc pair_wait(const struct pair *p)
{
	struct ibv_wc wc = {0};

	for (int i = 0; i < 60000; i++) {
		if (ibv_poll_cq(p->cq, 1, &wc) > 0)
			return wc;
		pair_sleep_ms(1);
	}
	pair_need(0, "a completion within a minute");
	return wc;
}

#endif
