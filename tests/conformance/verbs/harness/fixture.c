/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, pairs of connected ends, and everything that waits. */
#include "tests/conformance/verbs/harness/target.h"

uint64_t vs_now_ns(void)
{
	return target_now_ns();
}

uint64_t vs_tick_late_ns(void)
{
	return target_tick_late_ns();
}

uint64_t vs_seed(void)
{
	return target_seed();
}

int vs_steps(int most)
{
	return vs_config.steps ? vs_config.steps : most;
}

void vs_sleep_ns(uint64_t ns)
{
	target_sleep_ns(ns);
}

void *vs_alloc(size_t bytes)
{
	void *p = target_alloc(bytes);

	CHECK_MSG(p, "no memory for %zu bytes", bytes);
	return p;
}

void vs_release(void *p)
{
	target_release(p);
}

struct vs_thread *vs_thread_start(void (*run)(void *arg), void *arg)
{
	struct vs_thread *t = target_thread_start(run, arg);

	CHECK_MSG(t, "no thread");
	return t;
}

void vs_thread_join(struct vs_thread *t)
{
	target_thread_join(t);
}

/* ---- devices -------------------------------------------------------------------------------- */

static struct ibv_device *fixture_device(struct ibv_device **list, int n, int side)
{
	const char *name = vs_config.device[side];

	if (!name && side && vs_config.device[0])
		name = vs_config.device[0];
	if (!name)
		return n > side ? list[side] : list[0];
	for (int i = 0; i < n; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			return list[i];
	FAIL("no device %s", name);
}

struct ibv_context *vs_open(int side)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	CHECK_MSG(list && n > 0, "no RDMA device (%d)", n);
	struct ibv_context *ctx = ibv_open_device(fixture_device(list, n, side));

	CHECK_MSG(ctx, "ibv_open_device: %s", strerror(errno));
	ibv_free_device_list(list);
	return ctx;
}

struct ibv_device_attr vs_device_attr(struct ibv_context *ctx)
{
	struct ibv_device_attr a;

	CHECK_EQ(ibv_query_device(ctx, &a), 0);
	return a;
}

struct ibv_port_attr vs_port_attr(struct ibv_context *ctx)
{
	struct ibv_port_attr a;

	CHECK_EQ(ibv_query_port(ctx, vs_port_num, &a), 0);
	return a;
}

static bool fixture_gid_zero(const union ibv_gid *gid)
{
	static const union ibv_gid zero;

	return !memcmp(gid, &zero, sizeof zero);
}

static bool fixture_gid_ipv4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid->raw, mapped, sizeof mapped);
}

int vs_gid_index(struct ibv_context *ctx)
{
	struct ibv_port_attr port = vs_port_attr(ctx);
	int best = -1, best_rank = -1;

	if (vs_config.gid >= 0)
		return vs_config.gid;
	for (int i = 0; i < port.gid_tbl_len; i++) {
		union ibv_gid gid;
		struct ibv_gid_entry e;

		if (ibv_query_gid(ctx, vs_port_num, i, &gid) || fixture_gid_zero(&gid))
			continue;
		bool v2 = !ibv_query_gid_ex(ctx, vs_port_num, (uint32_t)i, &e, 0) &&
			  e.gid_type == IBV_GID_TYPE_ROCE_V2;
		int rank = 2 * v2 + fixture_gid_ipv4(&gid);

		if (rank > best_rank) {
			best_rank = rank;
			best = i;
		}
	}
	CHECK_MSG(best >= 0, "port %u has no GID", vs_port_num);
	return best;
}

/* ---- making the two ends -------------------------------------------------------------------- */

const struct vs_options vs_defaults = {
	.type = IBV_QPT_RC,
	.cqe = 64,
	.send_wr = 16,
	.recv_wr = 16,
	.sge = 4,
	.inline_bytes = 64,
	.mtu = IBV_MTU_1024,
	.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		  IBV_ACCESS_REMOTE_ATOMIC,
	.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC,
	.timeout = 10, /* 4.2 ms */
	.retry_count = 3,
	.rnr_retry = 3,
	.min_rnr_timer = 12, /* 640 us */
	.rd_atomic = 4,
	.dest_rd_atomic = 4,
	.psn = {0xfffff0, 0x123}, /* one wraps soon */
	.qkey = 0x11111111,
	.buffer_bytes = 1 << 20,
};

struct ibv_qp_init_attr vs_init_attr(const struct vs_pair *p, int side)
{
	const struct vs_options *o = &p->options;

	return (struct ibv_qp_init_attr){
		.send_cq = p->end[side].send_cq,
		.recv_cq = p->end[side].recv_cq,
		.cap = {.max_send_wr = (uint32_t)o->send_wr,
			.max_recv_wr = (uint32_t)o->recv_wr,
			.max_send_sge = (uint32_t)o->sge,
			.max_recv_sge = (uint32_t)o->sge,
			.max_inline_data = (uint32_t)o->inline_bytes},
		.qp_type = o->type,
		.sq_sig_all = o->signal_all,
	};
}

struct ibv_qp *vs_qp(struct vs_pair *p, int side)
{
	struct ibv_qp_init_attr init = vs_init_attr(p, side);
	struct ibv_qp *qp = ibv_create_qp(p->end[side].pd, &init);

	CHECK_MSG(qp, "ibv_create_qp: %s", strerror(errno));
	return qp;
}

static struct ibv_cq *fixture_cq(struct vs_end *e, int cqe)
{
	struct ibv_cq *cq = ibv_create_cq(e->ctx, cqe, e, e->channel, 0);

	CHECK_MSG(cq, "ibv_create_cq: %s", strerror(errno));
	return cq;
}

void vs_end_make(struct vs_pair *p, int side)
{
	const struct vs_options *o = &p->options;
	struct vs_end *e = &p->end[side];

	e->ctx = vs_open(o->one_device ? 0 : side);
	e->pd = ibv_alloc_pd(e->ctx);
	CHECK_MSG(e->pd, "ibv_alloc_pd: %s", strerror(errno));
	if (o->channel) {
		e->channel = ibv_create_comp_channel(e->ctx);
		CHECK_MSG(e->channel, "ibv_create_comp_channel: %s", strerror(errno));
	}
	e->send_cq = fixture_cq(e, o->cqe);
	e->recv_cq = o->one_cq ? e->send_cq : fixture_cq(e, o->cqe);
	e->qp = vs_qp(p, side);
	e->gid_index = vs_probe->gid_index[o->one_device ? 0 : side];
	CHECK_EQ(ibv_query_gid(e->ctx, vs_port_num, e->gid_index, &e->gid), 0);
	e->lid = vs_port_attr(e->ctx).lid;
	e->buffer = vs_alloc(o->buffer_bytes);
	e->mr = ibv_reg_mr(e->pd, e->buffer, o->buffer_bytes, o->mr_access);
	CHECK_MSG(e->mr, "ibv_reg_mr: %s", strerror(errno));
	e->psn = o->psn[side];
}

/* Limits the options to the device's capabilities. */
static void fixture_limit(struct vs_options *o)
{
	const struct ibv_device_attr *d = &vs_probe->device.orig_attr;

	if (o->mtu > vs_probe->port.active_mtu)
		o->mtu = vs_probe->port.active_mtu;
	if (o->rd_atomic > d->max_qp_init_rd_atom)
		o->rd_atomic = d->max_qp_init_rd_atom;
	if (o->dest_rd_atomic > d->max_qp_rd_atom)
		o->dest_rd_atomic = d->max_qp_rd_atom;
	if (d->atomic_cap == IBV_ATOMIC_NONE) {
		o->access &= ~(unsigned int)IBV_ACCESS_REMOTE_ATOMIC;
		o->mr_access &= ~(unsigned int)IBV_ACCESS_REMOTE_ATOMIC;
	}
}

void vs_make(struct vs_pair *p, const struct vs_options *o)
{
	memset(p, 0, sizeof *p);
	p->options = *o;
	fixture_limit(&p->options);
	for (int i = 0; i < 2; i++)
		vs_end_make(p, i);
}

void vs_pair(struct vs_pair *p, const struct vs_options *o)
{
	vs_make(p, o);
	for (int i = 0; i < 2; i++) {
		vs_connect(p, i, IBV_QPS_RTS);
		if (o->type == IBV_QPT_UD)
			p->end[i].ah = vs_ah(p, i);
	}
}

void vs_end_free(struct vs_end *e)
{
	if (e->ah)
		CHECK_EQ(ibv_destroy_ah(e->ah), 0);
	if (e->qp)
		CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	if (e->mr)
		CHECK_EQ(ibv_dereg_mr(e->mr), 0);
	if (e->recv_cq && e->recv_cq != e->send_cq)
		CHECK_EQ(ibv_destroy_cq(e->recv_cq), 0);
	if (e->send_cq)
		CHECK_EQ(ibv_destroy_cq(e->send_cq), 0);
	if (e->channel)
		CHECK_EQ(ibv_destroy_comp_channel(e->channel), 0);
	if (e->pd)
		CHECK_EQ(ibv_dealloc_pd(e->pd), 0);
	if (e->ctx)
		CHECK_EQ(ibv_close_device(e->ctx), 0);
	if (e->buffer)
		vs_release(e->buffer);
}

void vs_free(struct vs_pair *p)
{
	vs_end_free(&p->end[0]);
	vs_end_free(&p->end[1]);
}

/* ---- connecting ----------------------------------------------------------------------------- */

static struct ibv_ah_attr fixture_address(const struct vs_pair *p, int side)
{
	const struct vs_end *me = &p->end[side], *peer = &p->end[!side];

	return (struct ibv_ah_attr){
		.grh = {.dgid = peer->gid, .sgid_index = (uint8_t)me->gid_index, .hop_limit = 64},
		.dlid = peer->lid,
		.is_global = 1,
		.port_num = vs_port_num};
}

struct ibv_qp_attr vs_attr_to(const struct vs_pair *p, int side, uint32_t dest_qpn)
{
	const struct vs_options *o = &p->options;
	int timeout = o->timeout ? o->timeout + vs_config.timeout_shift : 0;

	return (struct ibv_qp_attr){
		.path_mtu = o->mtu,
		.path_mig_state = IBV_MIG_MIGRATED,
		.qkey = o->qkey,
		.rq_psn = p->end[!side].psn,
		.sq_psn = p->end[side].psn,
		.dest_qp_num = dest_qpn,
		.qp_access_flags = o->access,
		.ah_attr = fixture_address(p, side),
		.max_rd_atomic = (uint8_t)o->rd_atomic,
		.max_dest_rd_atomic = (uint8_t)o->dest_rd_atomic,
		.min_rnr_timer = (uint8_t)o->min_rnr_timer,
		.port_num = vs_port_num,
		.timeout = (uint8_t)(timeout > 31 ? 31 : timeout),
		.retry_cnt = (uint8_t)o->retry_count,
		.rnr_retry = (uint8_t)o->rnr_retry,
	};
}

struct ibv_qp_attr vs_attr(const struct vs_pair *p, int side)
{
	return vs_attr_to(p, side, p->end[!side].qp->qp_num);
}

int vs_mask(enum ibv_qp_type type, enum ibv_qp_state to)
{
	bool rc = type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
	bool requester = type != IBV_QPT_XRC_RECV, responder = type != IBV_QPT_XRC_SEND;
	int mask = IBV_QP_STATE;

	switch (to) {
	case IBV_QPS_INIT:
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
		return mask | (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	case IBV_QPS_RTR:
		if (type == IBV_QPT_UD)
			return mask;
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
		if (rc && responder)
			mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		return mask;
	case IBV_QPS_RTS:
		mask |= IBV_QP_SQ_PSN;
		if (rc)
			mask |= IBV_QP_TIMEOUT;
		if (rc && requester)
			mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		return mask;
	default:
		return mask;
	}
}

void vs_raise(struct ibv_qp *qp, struct ibv_qp_attr *a, enum ibv_qp_state state)
{
	for (int s = IBV_QPS_INIT; s <= (int)state; s++) {
		a->qp_state = (enum ibv_qp_state)s;
		int rc = ibv_modify_qp(qp, a, vs_mask(qp->qp_type, a->qp_state));

		CHECK_MSG(!rc, "ibv_modify_qp to state %d: %s", s, strerror(rc));
	}
}

void vs_connect(struct vs_pair *p, int side, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = vs_attr(p, side);

	vs_raise(p->end[side].qp, &a, state);
}

struct ibv_ah *vs_ah(struct vs_pair *p, int side)
{
	struct ibv_ah_attr a = fixture_address(p, side);
	struct ibv_ah *ah = ibv_create_ah(p->end[side].pd, &a);

	CHECK_MSG(ah, "ibv_create_ah: %s", strerror(errno));
	return ah;
}

enum ibv_qp_state vs_state(struct ibv_qp *qp)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;

	CHECK_EQ(ibv_query_qp(qp, &a, IBV_QP_STATE, &init), 0);
	return a.qp_state;
}

void vs_set_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = {.qp_state = state};
	int rc = ibv_modify_qp(qp, &a, IBV_QP_STATE);

	CHECK_MSG(!rc, "ibv_modify_qp to state %d: %s", state, strerror(rc));
}

struct fixture_state {
	struct ibv_qp *qp;
	enum ibv_qp_state state;
};

static bool fixture_in_state(void *arg)
{
	struct fixture_state *s = arg;

	return vs_state(s->qp) == s->state;
}

void vs_await_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct fixture_state s = {qp, state};

	CHECK_MSG(vs_poll_until(fixture_in_state, &s, VS_LONG), "state is %d, expected %d",
		  vs_state(qp), state);
}
