/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Harness of the verbs conformance suite. A test is a function that gets two devices and speaks
 * nothing but verbs; what differs between targets (the double under either engine now, soft-RoCE or
 * an HCA later) is in vh_run, vh_wait and vh_link. Used by verbs_*_test.c only.
 *
 * One task works both ends of a connection, as most verbs suites do: end 0 on the first device, end
 * 1 on the second. Under `sim` a test runs once for every one of VH_SEEDS seeds, in a world of its
 * own each time, and may leave nothing. Times in ns.
 */
#ifndef TESTS_CONFORMANCE_VERBS_HARNESS_H
#define TESTS_CONFORMANCE_VERBS_HARNESS_H

#include <check.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/os/os.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"
#include "tests/suite.h"

#define VH_SEEDS     6
#define VH_MACHINE   "h100-8nic"
#define VH_SECOND_NS 1000000000ull

struct vh_options {
	int cqe, send_wr, recv_wr, sge, inline_bytes, signal_all;
	enum ibv_mtu mtu;
	int access; /* of the queue pairs */
	int timeout, retry_count, rnr_retry, min_rnr_timer;
	int rd_atomic, dest_rd_atomic;
	uint32_t psn[2]; /* each end's first */
};

/* Short timers, so that both clocks get there. */
static const struct vh_options vh_defaults = {
	.cqe = 64,
	.send_wr = 16,
	.recv_wr = 16,
	.sge = 4,
	.inline_bytes = 64,
	.mtu = IBV_MTU_1024,
	.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	.timeout = 10, /* 4.2 ms */
	.retry_count = 3,
	.rnr_retry = 3,
	.min_rnr_timer = 1, /* 10 us */
	.rd_atomic = 4,
	.dest_rd_atomic = 4,
	.psn = {0xfffff0, 0x123}, /* one wraps soon */
};

#define VH_BUFFER_BYTES (1 << 20)

struct vh_end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp;
	union ibv_gid gid;
	uint8_t *buffer; /* VH_BUFFER_BYTES, registered for everything */
	struct ibv_mr *mr;
	uint32_t psn;
};

struct vh {
	struct vh_options options;
	struct vh_end end[2];
};

/* ---- running -------------------------------------------------------------------------------- */

struct vh_run {
	void (*test)(void);
};

static inline void vh_main(void *arg)
{
	((struct vh_run *)arg)->test();
}

static inline void vh_run_once(enum sim_engine engine, uint64_t seed, const char *plan,
			       uint32_t hosts, void (*test)(void))
{
	const struct sim_config config = {
		.engine = engine, .seed = seed, .fault_plan = plan, .fault_plan_name = "test"};
	const struct world_config world = {.hosts = hosts, .machine = VH_MACHINE};
	struct vh_run run = {test};

	ck_assert_int_eq(sim_start(&config), 0);
	ck_assert_int_eq(world_create(&world), 0);
	ck_assert_int_eq(sim_run(vh_main, &run), SIM_PASS);
	ck_assert_uint_eq(world_destroy(), 0);
	/* also what was noted as the world ended */
	ck_assert_msg(!sim_failure(), "%s", sim_failure() ? sim_failure()->message : "");
	sim_stop();
}

/* engine: the loop index of the test, 0 sim, 1 threads. */
static inline void vh_run_plan(int engine, const char *plan, void (*test)(void))
{
	if (engine == 1) {
		vh_run_once(SIM_ENGINE_THREADS, 1, plan, 1, test);
		return;
	}
	for (uint64_t seed = 1; seed <= VH_SEEDS; seed++)
		vh_run_once(SIM_ENGINE_SIM, seed, plan, 1, test);
}

static inline void vh_run(int engine, void (*test)(void))
{
	vh_run_plan(engine, NULL, test);
}

/* Each test under both engines. */
#define VH_TEST(name)                                                                              \
	static void name##_body(void);                                                             \
	START_TEST(name)                                                                           \
	{                                                                                          \
		vh_run(_i, name##_body);                                                           \
	}                                                                                          \
	END_TEST                                                                                   \
	static void name##_body(void)
#define VH_TEST_PLAN(name, plan)                                                                   \
	static void name##_body(void);                                                             \
	START_TEST(name)                                                                           \
	{                                                                                          \
		vh_run_plan(_i, plan, name##_body);                                                \
	}                                                                                          \
	END_TEST                                                                                   \
	static void name##_body(void)
#define VH_ADD(tcase, name) tcase_add_loop_test(tcase, name, 0, 2)

static inline int vh_suite_run(const char *name, TCase *tcase)
{
	Suite *s = suite_create(name);

	tcase_set_timeout(tcase, 60);
	suite_add_tcase(s, tcase);
	return suite_run(s);
}

/* ---- making the two ends -------------------------------------------------------------------- */

static inline struct ibv_context *vh_open(int index)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	ck_assert_ptr_nonnull(list);
	ck_assert_int_gt(n, index);
	struct ibv_context *ctx = ibv_open_device(list[index]);

	ck_assert_ptr_nonnull(ctx);
	ibv_free_device_list(list);
	return ctx;
}

static inline struct ibv_qp_init_attr vh_init_attr(const struct vh_options *o, struct ibv_cq *send,
						   struct ibv_cq *recv)
{
	return (struct ibv_qp_init_attr){
		.send_cq = send,
		.recv_cq = recv,
		.cap = {.max_send_wr = (uint32_t)o->send_wr,
			.max_recv_wr = (uint32_t)o->recv_wr,
			.max_send_sge = (uint32_t)o->sge,
			.max_recv_sge = (uint32_t)o->sge,
			.max_inline_data = (uint32_t)o->inline_bytes},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = o->signal_all,
	};
}

static inline void vh_end_make(struct vh_end *e, int index, const struct vh_options *o)
{
	memset(e, 0, sizeof *e);
	e->ctx = vh_open(index);
	e->pd = ibv_alloc_pd(e->ctx);
	ck_assert_ptr_nonnull(e->pd);
	e->send_cq = ibv_create_cq(e->ctx, o->cqe, NULL, NULL, 0);
	e->recv_cq = ibv_create_cq(e->ctx, o->cqe, NULL, NULL, 0);
	ck_assert_ptr_nonnull(e->send_cq);
	ck_assert_ptr_nonnull(e->recv_cq);
	struct ibv_qp_init_attr init = vh_init_attr(o, e->send_cq, e->recv_cq);

	e->qp = ibv_create_qp(e->pd, &init);
	ck_assert_ptr_nonnull(e->qp);
	ck_assert_int_eq(ibv_query_gid(e->ctx, 1, 3, &e->gid), 0);
	e->buffer = os_alloc(VH_BUFFER_BYTES, "test buffer");
	ck_assert_ptr_nonnull(e->buffer);
	e->mr = ibv_reg_mr(e->pd, e->buffer, VH_BUFFER_BYTES,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ);
	ck_assert_ptr_nonnull(e->mr);
	e->psn = o->psn[index];
}

static inline void vh_end_free(struct vh_end *e)
{
	ck_assert_int_eq(ibv_destroy_qp(e->qp), 0);
	ck_assert_int_eq(ibv_dereg_mr(e->mr), 0);
	ck_assert_int_eq(ibv_destroy_cq(e->send_cq), 0);
	ck_assert_int_eq(ibv_destroy_cq(e->recv_cq), 0);
	ck_assert_int_eq(ibv_dealloc_pd(e->pd), 0);
	ck_assert_int_eq(ibv_close_device(e->ctx), 0);
	os_free(e->buffer);
}

#define VH_INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define VH_RTR_MASK                                                                                \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |            \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define VH_RTS_MASK                                                                                \
	(IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |     \
	 IBV_QP_MAX_QP_RD_ATOMIC)

/* Everything filled in, for whatever mask. */
/* Under threads the time is real, and a sanitizer on a busy machine makes a thread wait for its CPU
 * longer than a short timeout with all its retries: sixteen times as long there. */
static inline uint8_t vh_timeout(const struct vh_options *o)
{
	bool real = sim_engine_kind() == SIM_ENGINE_THREADS;

	return (uint8_t)(real && o->timeout && o->timeout < 14 ? o->timeout + 4 : o->timeout);
}

static inline struct ibv_qp_attr vh_attr(const struct vh_options *o, const union ibv_gid *peer,
					 uint32_t peer_qpn, uint32_t sq_psn, uint32_t rq_psn)
{
	return (struct ibv_qp_attr){
		.path_mtu = o->mtu,
		.path_mig_state = IBV_MIG_MIGRATED,
		.rq_psn = rq_psn,
		.sq_psn = sq_psn,
		.dest_qp_num = peer_qpn,
		.qp_access_flags = (unsigned int)o->access,
		.ah_attr = {.grh = {.dgid = *peer, .sgid_index = 3, .hop_limit = 64},
			    .is_global = 1,
			    .port_num = 1},
		.max_rd_atomic = (uint8_t)o->rd_atomic,
		.max_dest_rd_atomic = (uint8_t)o->dest_rd_atomic,
		.min_rnr_timer = (uint8_t)o->min_rnr_timer,
		.port_num = 1,
		.timeout = vh_timeout(o),
		.retry_cnt = (uint8_t)o->retry_count,
		.rnr_retry = (uint8_t)o->rnr_retry,
	};
}

static inline void vh_connect(struct ibv_qp *qp, struct ibv_qp_attr *a, enum ibv_qp_state upto)
{
	a->qp_state = IBV_QPS_INIT;
	ck_assert_int_eq(ibv_modify_qp(qp, a, VH_INIT_MASK), 0);
	if (upto == IBV_QPS_INIT)
		return;
	a->qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(ibv_modify_qp(qp, a, VH_RTR_MASK), 0);
	if (upto == IBV_QPS_RTR)
		return;
	a->qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(ibv_modify_qp(qp, a, VH_RTS_MASK), 0);
}

static inline struct ibv_qp_attr vh_attr_of(const struct vh *h, int side)
{
	const struct vh_end *me = &h->end[side], *peer = &h->end[!side];

	return vh_attr(&h->options, &peer->gid, peer->qp->qp_num, me->psn, peer->psn);
}

static inline void vh_connect_end(struct vh *h, int side, enum ibv_qp_state upto)
{
	struct ibv_qp_attr a = vh_attr_of(h, side);

	vh_connect(h->end[side].qp, &a, upto);
}

/* Both ends made, neither connected. */
static inline void vh_make(struct vh *h, const struct vh_options *o)
{
	h->options = *o;
	for (int i = 0; i < 2; i++)
		vh_end_make(&h->end[i], i, o);
}

/* Both ends in RTS. */
static inline void vh_pair(struct vh *h, const struct vh_options *o)
{
	vh_make(h, o);
	vh_connect_end(h, 0, IBV_QPS_RTS);
	vh_connect_end(h, 1, IBV_QPS_RTS);
}

static inline void vh_free(struct vh *h)
{
	vh_end_free(&h->end[0]);
	vh_end_free(&h->end[1]);
}

/* ---- state ---------------------------------------------------------------------------------- */

static inline enum ibv_qp_state vh_state(struct ibv_qp *qp)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;

	ck_assert_int_eq(ibv_query_qp(qp, &a, IBV_QP_STATE, &init), 0);
	return a.qp_state;
}

static inline void vh_to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = {.qp_state = state};

	ck_assert_int_eq(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
}

/* ---- completions ---------------------------------------------------------------------------- */

/* The next completion, within `ns`; false: none came. */
static inline bool vh_wait(struct ibv_cq *cq, struct ibv_wc *wc, uint64_t ns)
{
	uint64_t deadline_ns = os_now_ns() + ns;

	for (;;) {
		const struct wait w = {.on = cq,
				       .want = os_event_seq(cq),
				       .kind = WAIT_OBJECT,
				       .mask = WAIT_MASK_ALL,
				       .why = "a completion (test)",
				       .from = {-1, -1, -1, "HCA"},
				       .deadline_ns = deadline_ns};
		int n = ibv_poll_cq(cq, 1, wc);

		ck_assert_int_ge(n, 0);
		if (n == 1)
			return true;
		if (os_wait_one(&w, NULL) == ETIMEDOUT)
			return ibv_poll_cq(cq, 1, wc) == 1;
	}
}

static inline void vh_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status,
			     struct ibv_wc *out)
{
	struct ibv_wc wc;

	if (!out)
		out = &wc;
	ck_assert_msg(vh_wait(cq, out, 60 * VH_SECOND_NS), "no completion for wr_id %llu",
		      (unsigned long long)wr_id);
	ck_assert_uint_eq(out->wr_id, wr_id);
	ck_assert_msg(out->status == status, "wr_id %llu: got %s, expected %s",
		      (unsigned long long)wr_id, ibv_wc_status_str(out->status),
		      ibv_wc_status_str(status));
}

static inline void vh_expect_none(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	ck_assert_int_eq(ibv_poll_cq(cq, 1, &wc), 0);
}

/* ---- posting -------------------------------------------------------------------------------- */

/* One request of `bytes` from `offset` of end `side`'s buffer to, or from, the same offset of the
 * other's; send_flags SIGNALED. Change what a test is about, then post. */
struct vh_wr {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
};

static inline void vh_wr_fill(struct vh_wr *w, const struct vh *h, int side,
			      enum ibv_wr_opcode opcode, uint64_t wr_id, uint64_t offset,
			      uint32_t bytes)
{
	const struct vh_end *me = &h->end[side], *peer = &h->end[!side];

	w->sge = (struct ibv_sge){
		.addr = (uintptr_t)me->buffer + offset, .length = bytes, .lkey = me->mr->lkey};
	w->wr = (struct ibv_send_wr){.wr_id = wr_id,
				     .sg_list = &w->sge,
				     .num_sge = 1,
				     .opcode = opcode,
				     .send_flags = IBV_SEND_SIGNALED};
	w->wr.wr.rdma.remote_addr = (uintptr_t)peer->buffer + offset;
	w->wr.wr.rdma.rkey = peer->mr->rkey;
}

static inline int vh_post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;

	return ibv_post_send(qp, wr, &bad);
}

static inline void vh_send(struct vh *h, int side, enum ibv_wr_opcode opcode, uint64_t wr_id,
			   uint64_t offset, uint32_t bytes)
{
	struct vh_wr w;

	vh_wr_fill(&w, h, side, opcode, wr_id, offset, bytes);
	w.wr.imm_data = htobe32((uint32_t)wr_id);
	ck_assert_int_eq(vh_post(h->end[side].qp, &w.wr), 0);
}

/* bytes == 0: no scatter entry at all. */
static inline int vh_recv_try(struct vh *h, int side, uint64_t wr_id, uint64_t offset,
			      uint32_t bytes)
{
	struct vh_end *e = &h->end[side];
	struct ibv_sge sge = {
		.addr = (uintptr_t)e->buffer + offset, .length = bytes, .lkey = e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = bytes != 0}, *bad;

	return ibv_post_recv(e->qp, &wr, &bad);
}

static inline void vh_recv(struct vh *h, int side, uint64_t wr_id, uint64_t offset, uint32_t bytes)
{
	ck_assert_int_eq(vh_recv_try(h, side, wr_id, offset, bytes), 0);
}

/* ---- bytes ---------------------------------------------------------------------------------- */

static inline void vh_pattern(uint8_t *p, size_t n, uint32_t key)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)((i * 2654435761u >> 13) + key * 97 + (i >> 12));
}

static inline void vh_expect_pattern(const uint8_t *p, size_t n, uint32_t key)
{
	for (size_t i = 0; i < n; i++) {
		uint8_t want = (uint8_t)((i * 2654435761u >> 13) + key * 97 + (i >> 12));

		if (p[i] != want)
			ck_abort_msg("byte %zu of %zu is 0x%02x, expected 0x%02x", i, n, p[i],
				     want);
	}
}

static inline void vh_expect_zero(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			ck_abort_msg("byte %zu of %zu is 0x%02x, expected 0", i, n, p[i]);
}

/* ---- failing -------------------------------------------------------------------------------- */

/* Posts one request of end 0 that must fail with `status`; end 0 is in ERR then. */
static inline void vh_expect_failure(struct vh *h, struct vh_wr *w, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	ck_assert_int_eq(vh_post(h->end[0].qp, &w->wr), 0);
	vh_expect(h->end[0].send_cq, w->wr.wr_id, status, &wc);
	ck_assert_uint_eq(wc.qp_num, h->end[0].qp->qp_num);
	ck_assert_uint_ne(wc.vendor_err, 0);
	ck_assert_int_eq(vh_state(h->end[0].qp), IBV_QPS_ERR);
}

/* Both ends again in RTS, whatever happened. */
static inline void vh_again(struct vh *h)
{
	for (int i = 0; i < 2; i++)
		vh_to_state(h->end[i].qp, IBV_QPS_RESET);
	for (int i = 0; i < 2; i++) {
		h->end[i].psn = (h->end[i].psn + 5000) & 0xffffff;
	}
	for (int i = 0; i < 2; i++)
		vh_connect_end(h, i, IBV_QPS_RTS);
}

/* Takes a device's link down, or up. */
static inline void vh_link(int device, bool up)
{
	world_port_set(world_port_of(0, device), up);
}

#endif
