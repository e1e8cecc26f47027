/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of the ends, the bytes that they move, and their completions and events. */
#include "tests/conformance/verbs/harness/target.h"

/* ---- completions and events ----------------------------------------------------------------- */

bool vs_wait(struct ibv_cq *cq, struct ibv_wc *wc, uint64_t ns)
{
	uint64_t deadline_ns = vs_now_ns() + ns;

	for (;;) {
		uint64_t now_ns = vs_now_ns(), mark = target_mark(cq);
		int n = ibv_poll_cq(cq, 1, wc);

		CHECK_GE(n, 0);
		if (n || now_ns >= deadline_ns)
			return n == 1;
		target_idle(cq, mark, deadline_ns);
	}
}

void vs_expect_at(const char *file, int line, struct ibv_cq *cq, uint64_t wr_id,
		  enum ibv_wc_status status, struct ibv_wc *out)
{
	struct ibv_wc wc;
	unsigned long long id = wr_id;

	if (!out)
		out = &wc;
	if (!vs_wait(cq, out, VS_LONG))
		vs_fail(file, line, "no completion of wr_id %llu", id);
	if (out->wr_id != wr_id)
		vs_fail(file, line, "completion of wr_id %llu (%s), expected %llu",
			(unsigned long long)out->wr_id, ibv_wc_status_str(out->status), id);
	if (out->status != status)
		vs_fail(file, line, "wr_id %llu: %s, expected %s", id,
			ibv_wc_status_str(out->status), ibv_wc_status_str(status));
}

void vs_expect_none_at(const char *file, int line, struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(cq, 1, &wc);

	if (n)
		vs_fail(file, line, "%d completions (wr_id %llu, %s), expected none", n,
			(unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
}

bool vs_poll_until(bool (*done)(void *arg), void *arg, uint64_t ns)
{
	uint64_t deadline_ns = vs_now_ns() + ns, step_ns = 1000;

	for (;;) {
		bool last = vs_now_ns() >= deadline_ns;

		if (done(arg))
			return true;
		if (last)
			return false;
		vs_sleep_ns(step_ns);
		if (step_ns < VS_MS)
			step_ns *= 2;
	}
}

bool vs_async(struct ibv_context *ctx, struct ibv_async_event *event, uint64_t ns)
{
	uint64_t deadline_ns = vs_now_ns() + ns;

	for (;;) {
		uint64_t now_ns = vs_now_ns(), mark = target_mark(ctx);

		if (target_async_pending(ctx)) {
			CHECK_EQ(ibv_get_async_event(ctx, event), 0);
			return true;
		}
		if (now_ns >= deadline_ns)
			return false;
		target_idle(ctx, mark, deadline_ns);
	}
}

void vs_expect_async_at(const char *file, int line, struct ibv_context *ctx,
			enum ibv_event_type type, struct ibv_async_event *event)
{
	struct ibv_async_event e;

	if (!event)
		event = &e;
	for (;;) {
		if (!vs_async(ctx, event, VS_LONG))
			vs_fail(file, line, "no event %s", ibv_event_type_str(type));
		ibv_ack_async_event(event);
		if (event->event_type == type)
			return;
	}
}

struct ibv_cq *vs_cq_event(struct ibv_comp_channel *channel, uint64_t ns)
{
	uint64_t deadline_ns = vs_now_ns() + ns;
	struct ibv_cq *cq = NULL;
	void *context;

	for (;;) {
		uint64_t now_ns = vs_now_ns(), mark = target_mark(channel);

		if (target_channel_pending(channel)) {
			CHECK_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
			CHECK(cq && context == cq->cq_context);
			return cq;
		}
		if (now_ns >= deadline_ns)
			return NULL;
		target_idle(channel, mark, deadline_ns);
	}
}

/* ---- requests ------------------------------------------------------------------------------- */

void vs_fill(struct vs_wr *w, const struct vs_pair *p, int side, enum ibv_wr_opcode opcode,
	     uint64_t wr_id, uint64_t offset, uint32_t bytes)
{
	const struct vs_end *me = &p->end[side], *peer = &p->end[!side];

	w->sge = (struct ibv_sge){
		.addr = (uintptr_t)me->buffer + offset, .length = bytes, .lkey = me->mr->lkey};
	w->wr = (struct ibv_send_wr){.wr_id = wr_id,
				     .sg_list = &w->sge,
				     .num_sge = 1,
				     .opcode = opcode,
				     .send_flags = IBV_SEND_SIGNALED,
				     .imm_data = htobe32((uint32_t)wr_id)};
	if (p->options.type == IBV_QPT_UD) {
		w->wr.wr.ud.ah = me->ah;
		w->wr.wr.ud.remote_qpn = peer->qp->qp_num;
		w->wr.wr.ud.remote_qkey = p->options.qkey;
	} else {
		w->wr.wr.rdma.remote_addr = (uintptr_t)peer->buffer + offset;
		w->wr.wr.rdma.rkey = peer->mr->rkey;
	}
}

int vs_post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;

	return ibv_post_send(qp, wr, &bad);
}

void vs_send(struct vs_pair *p, int side, enum ibv_wr_opcode opcode, uint64_t wr_id,
	     uint64_t offset, uint32_t bytes)
{
	struct vs_wr w;

	vs_fill(&w, p, side, opcode, wr_id, offset, bytes);
	CHECK_EQ(vs_post(p->end[side].qp, &w.wr), 0);
}

int vs_recv_try(struct vs_pair *p, int side, uint64_t wr_id, uint64_t offset, uint32_t bytes)
{
	struct vs_end *e = &p->end[side];
	struct ibv_sge sge = {
		.addr = (uintptr_t)e->buffer + offset, .length = bytes, .lkey = e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = bytes != 0}, *bad;

	return ibv_post_recv(e->qp, &wr, &bad);
}

void vs_recv(struct vs_pair *p, int side, uint64_t wr_id, uint64_t offset, uint32_t bytes)
{
	CHECK_EQ(vs_recv_try(p, side, wr_id, offset, bytes), 0);
}

void vs_expect_failure_at(const char *file, int line, struct vs_pair *p, struct vs_wr *w,
			  enum ibv_wc_status status)
{
	int rc = vs_post(p->end[0].qp, &w->wr);

	if (rc)
		vs_fail(file, line, "ibv_post_send: %s, expected a completion with %s",
			strerror(rc), ibv_wc_status_str(status));
	vs_expect_at(file, line, p->end[0].send_cq, w->wr.wr_id, status, NULL);
	if (vs_state(p->end[0].qp) != IBV_QPS_ERR)
		vs_fail(file, line, "state %d after %s, expected ERR", vs_state(p->end[0].qp),
			ibv_wc_status_str(status));
}

/* ---- bytes ---------------------------------------------------------------------------------- */

static uint8_t fixture_byte(size_t i, uint32_t key)
{
	return (uint8_t)((i * 2654435761u >> 13) + key * 97 + (i >> 12));
}

void vs_pattern(uint8_t *p, size_t n, uint32_t key)
{
	for (size_t i = 0; i < n; i++)
		p[i] = fixture_byte(i, key);
}

void vs_expect_pattern_at(const char *file, int line, const uint8_t *p, size_t n, uint32_t key)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != fixture_byte(i, key))
			vs_fail(file, line, "byte %zu of %zu is 0x%02x, expected 0x%02x", i, n,
				p[i], fixture_byte(i, key));
}

void vs_expect_bytes_at(const char *file, int line, const uint8_t *p, size_t n, uint8_t value)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != value)
			vs_fail(file, line, "byte %zu of %zu is 0x%02x, expected 0x%02x", i, n,
				p[i], value);
}
