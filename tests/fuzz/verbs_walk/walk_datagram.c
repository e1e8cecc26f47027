/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams between the walkers' UD queue pairs. Each walker has one, which may be a member of two
 * groups. A received datagram must be one that a walker sent, and must arrive once. */
#include "tests/fuzz/verbs_walk/walk.h"

#define QKEY  0x1234567u
#define GRH   40u
#define MLID  0xc001
#define MAGIC 0xd47a64a3u

/* Header of a datagram; the pattern follows. */
struct ud_head {
	uint32_t magic, from, serial, seq, bytes, key, qpn;
};

static const union ibv_gid ud_group[2] = {
	{.raw = {0xff, 0x0e, [10] = 0xff, 0xff, 239, 1, 2, 3}},
	{.raw = {0xff, 0x0e, [10] = 0xff, 0xff, 239, 1, 2, 4}},
};

static uint8_t *ud_memory(const struct walker *w, bool recv, uint32_t seq)
{
	return w->client->buffer + UD_AT +
	       (((uint32_t)w->number * 2 + recv) * UD_DEPTH + seq % UD_DEPTH) * UD_ROOM;
}

/* ---- create and destroy --------------------------------------------------------------------- */

static void ud_raise(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qkey = QKEY, .port_num = vs_port_num};

	vs_raise(qp, &a, IBV_QPS_RTS);
}

static void ud_show(struct walker *w, uint32_t qpn)
{
	board_lock(w->client->walk);
	w->client->advert_ud[w->number].qpn = qpn;
	board_unlock(w->client->walk);
}

void ud_make(struct walker *w)
{
	struct client *c = w->client;
	bool loose = once_in(w, 2);
	struct ibv_cq *cq = c->cq[loose ? SHARED_CQ : w->number].cq;
	struct ibv_qp_init_attr a = {.send_cq = cq,
				     .recv_cq = cq,
				     .cap = {DEPTH, DEPTH, 2, 2, 64},
				     .qp_type = IBV_QPT_UD};
	struct walk_ud *u = &w->ud, made = {.send = {.loose = loose}, .recv = {.loose = loose}};

	made.serial = SERIAL_UD | __atomic_add_fetch(&c->serial, 1, __ATOMIC_RELAXED);
	made.qp = ibv_create_qp(w->pd, &a);
	CHECK_MSG(made.qp, "ibv_create_qp: %s", strerror(errno));
	made.qpn = made.qp->qp_num;
	ud_raise(made.qp);
	client_lock(c);
	*u = made;
	client_unlock(c);
	ud_show(w, made.qp->qp_num);
}

void ud_destroy(struct walker *w)
{
	struct walk_ud *u = &w->ud;

	ud_show(w, 0);
	for (int i = 0; i < 2; i++)
		if (u->member[i])
			CHECK_EQ(ibv_detach_mcast(u->qp, &ud_group[i], MLID), 0);
	gate_shut(w->client);
	CHECK_EQ(ibv_destroy_qp(u->qp), 0);
	gate_open(w->client);
	client_lock(w->client);
	u->serial = 0;
	client_unlock(w->client);
	for (int i = 0; i < UD_DEPTH; i++)
		if (u->ah[i])
			CHECK_EQ(ibv_destroy_ah(u->ah[i]), 0);
}

static void ud_membership(struct walker *w)
{
	struct walk_ud *u = &w->ud;
	uint32_t i = pick(w, 2);

	if (!vs_has(VS_NEED_MCAST))
		return;
	if (u->member[i])
		CHECK_EQ(ibv_detach_mcast(u->qp, &ud_group[i], MLID), 0);
	else
		CHECK_EQ(ibv_attach_mcast(u->qp, &ud_group[i], MLID), 0);
	u->member[i] = !u->member[i];
}

/* Repairs the queue pair: from SQE back to RTS when all requests are flushed; after ERR makes a new
 * one. */
static void ud_repair(struct walker *w)
{
	struct walk_ud *u = &w->ud;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS};

	client_lock(w->client);
	bool empty = u->send.head == u->send.tail, recv_failed = u->recv.failed;

	client_unlock(w->client);
	if (!empty)
		return;
	if (!recv_failed && vs_state(u->qp) == IBV_QPS_SQE &&
	    !ibv_modify_qp(u->qp, &a, IBV_QP_STATE)) {
		client_lock(w->client);
		u->send.failed = u->broken = false;
		client_unlock(w->client);
		return;
	}
	ud_destroy(w);
	ud_make(w);
}

/* ---- posts ---------------------------------------------------------------------------------- */

static void ud_recv_post(struct walker *w)
{
	struct walk_ud *u = &w->ud;
	struct queue *r = &u->recv;
	uint32_t seq = r->head;
	struct request made = {.seq = seq, .kind = SEND, .signaled = true, .bytes = UD_ROOM};

	if (has(w, F_BAD) && once_in(w, 300))
		made.bytes = GRH + 10;
	client_lock(w->client);
	bool full = r->head - r->tail == DEPTH;

	if (!full) {
		r->r[seq % DEPTH] = made;
		r->head++;
	}
	client_unlock(w->client);
	if (full)
		return;
	struct ibv_sge sge = {(uintptr_t)ud_memory(w, true, seq), made.bytes, w->client->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id_make(u->serial, true, seq),
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;

	CHECK_EQ(ibv_post_recv(u->qp, &wr, &bad), 0);
}

/* Returns the address handle of a random destination: a walker's queue pair, or a group. */
static struct ibv_ah *ud_address(struct walker *w, uint32_t *qpn)
{
	struct client *c = w->client;
	const struct client *to = &c->walk->client[pick(w, CLIENTS)];
	struct ibv_ah_attr a = address_of(c, &to->gid, to->lid);

	board_lock(c->walk);
	*qpn = to->advert_ud[pick(w, WALKERS)].qpn;
	board_unlock(c->walk);
	if (once_in(w, 3) && vs_has(VS_NEED_MCAST)) {
		a = address_of(c, &ud_group[pick(w, 2)], MLID);
		*qpn = 0xffffff;
	}
	struct ibv_ah *ah = ibv_create_ah(w->pd, &a);

	CHECK_MSG(ah, "ibv_create_ah: %s", strerror(errno));
	return ah;
}

static void ud_write(struct walker *w, const struct request *r)
{
	uint8_t *p = ud_memory(w, false, r->seq);
	const struct ud_head head = {.magic = MAGIC,
				     .from = (uint32_t)(w->client->number * WALKERS + w->number),
				     .serial = w->ud.serial,
				     .seq = r->seq,
				     .bytes = r->bytes,
				     .key = r->key,
				     .qpn = w->ud.qp->qp_num};

	memcpy(p, &head, sizeof head);
	vs_pattern(p + sizeof head, r->bytes - (uint32_t)sizeof head, r->key);
}

static void ud_send_post(struct walker *w)
{
	struct walk_ud *u = &w->ud;
	struct queue *s = &u->send;
	uint32_t seq = s->head, qpn;

	client_lock(w->client);
	uint32_t held = s->head - s->tail;

	client_unlock(w->client);
	if (held == DEPTH)
		return;
	if (u->ah[seq % UD_DEPTH])
		CHECK_EQ(ibv_destroy_ah(u->ah[seq % UD_DEPTH]), 0);
	u->ah[seq % UD_DEPTH] = ud_address(w, &qpn);
	struct request made = {.seq = seq,
			       .kind = has(w, F_BAD) && once_in(w, 200) ? BAD_LOCAL : SEND,
			       .key = pick(w, 200),
			       .signaled = s->loose || held >= DEPTH - 2 || !once_in(w, 3),
			       .with_imm = once_in(w, 3)};

	made.bytes = (uint32_t)sizeof(struct ud_head) +
		     pick(w, DATAGRAM - (uint32_t)sizeof(struct ud_head));
	ud_write(w, &made);
	client_lock(w->client);
	s->r[seq % DEPTH] = made;
	s->head++;
	client_unlock(w->client);
	struct ibv_sge sge = {(uintptr_t)ud_memory(w, false, seq), made.bytes,
			      w->client->mr->lkey ^ (made.kind == BAD_LOCAL ? 0x5a : 0)};
	struct ibv_send_wr wr = {.wr_id = id_make(u->serial, false, seq),
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = made.with_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
				 .send_flags = made.signaled ? IBV_SEND_SIGNALED : 0,
				 .imm_data = htobe32(made.key)},
			   *bad;

	wr.wr.ud.ah = u->ah[seq % UD_DEPTH];
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = QKEY;
	if (made.bytes <= 64 && made.kind == SEND)
		wr.send_flags |= IBV_SEND_INLINE;
	CHECK_EQ(ibv_post_send(u->qp, &wr, &bad), 0);
}

void ud_step(struct walker *w)
{
	struct walk_ud *u = &w->ud;
	uint32_t n = pick(w, 200);

	client_lock(w->client);
	bool broken = u->broken;

	client_unlock(w->client);
	if (broken && n < 20) {
		ud_repair(w);
	} else if (n == 0) {
		ud_destroy(w);
		ud_make(w);
	} else if (n == 1) {
		vs_set_state(u->qp, IBV_QPS_ERR);
		client_lock(w->client);
		u->broken = u->recv.failed = u->send.failed = true;
		client_unlock(w->client);
	} else if (n < 10) {
		ud_membership(w);
	} else if (n < 100) {
		ud_recv_post(w);
	} else {
		ud_send_post(w);
	}
}

/* ---- completions ---------------------------------------------------------------------------- */

/* Checks a datagram that arrived. The caller holds the client's lock. */
static void ud_arrived(struct walker *w, struct walker *owner, const struct ibv_wc *wc,
		       uint32_t seq)
{
	struct walk_ud *u = &owner->ud;
	const uint8_t *p = ud_memory(owner, true, seq) + GRH;
	struct ud_head head;

	CHECK_EQ(wc->opcode, IBV_WC_RECV);
	CHECK_MSG(wc->byte_len >= GRH + sizeof head, "%u bytes", wc->byte_len);
	memcpy(&head, p, sizeof head);
	CHECK_EQ(head.magic, MAGIC);
	CHECK_EQ(wc->byte_len, GRH + head.bytes);
	CHECK_EQ(wc->src_qp, head.qpn);
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		CHECK_EQ(be32toh(wc->imm_data), head.key);
	vs_expect_pattern(p + sizeof head, head.bytes - sizeof head, head.key);
	uint64_t id = (uint64_t)head.from << 58 ^ (uint64_t)head.serial << 26 ^ head.seq;

	for (uint32_t i = 0; i < 64 && i < u->seen_count; i++)
		CHECK_MSG(u->seen[i] != id, "datagram %u of %u comes twice", head.seq, head.from);
	u->seen[u->seen_count++ % 64] = id;
	w->datagrams++;
}

static void ud_recv_done(struct walker *w, struct walker *owner, const struct ibv_wc *wc,
			 uint32_t seq)
{
	struct queue *s = &owner->ud.recv;
	struct request *r = &s->r[seq % DEPTH];

	CHECK_MSG(s->loose ? seq - s->tail < s->head - s->tail && !r->done
			   : s->tail != s->head && seq == s->tail,
		  "receive %u of a datagram is not outstanding (%u..%u)", seq, s->tail, s->head);
	if (wc->status == IBV_WC_SUCCESS)
		ud_arrived(w, owner, wc, seq);
	else if (wc->status == IBV_WC_LOC_LEN_ERR)
		CHECK(r->bytes < UD_ROOM);
	else
		CHECK_MSG(wc->status == IBV_WC_WR_FLUSH_ERR, "datagram: %s",
			  ibv_wc_status_str(wc->status));
	if (wc->status)
		s->failed = owner->ud.broken = true;
	r->done = true;
	while (s->tail != s->head && s->r[s->tail % DEPTH].done)
		s->tail++;
}

static void ud_send_done(struct walker *owner, const struct ibv_wc *wc, uint32_t seq)
{
	struct queue *s = &owner->ud.send;
	struct request *r = &s->r[seq % DEPTH];

	CHECK_MSG(seq - s->tail < s->head - s->tail && !r->done,
		  "datagram %u is not outstanding (%u..%u)", seq, s->tail, s->head);
	for (uint32_t i = s->tail; i != seq && !s->loose; i++)
		CHECK_MSG(!s->r[i % DEPTH].signaled || s->r[i % DEPTH].done,
			  "datagram %u completes before %u", seq, i);
	CHECK_MSG(wc->status == IBV_WC_WR_FLUSH_ERR ||
			  wc->status ==
				  (r->kind == BAD_LOCAL ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS),
		  "datagram: %s", ibv_wc_status_str(wc->status));
	if (wc->status)
		s->failed = owner->ud.broken = true;
	r->done = true;
	if ((int32_t)(seq + 1 - s->top) > 0)
		s->top = seq + 1;
	while (s->tail != s->head &&
	       (s->r[s->tail % DEPTH].done ||
		(!s->r[s->tail % DEPTH].signaled && (int32_t)(s->top - s->tail) > 0)))
		s->tail++;
}

void ud_done(struct walker *w, struct walker *owner, const struct ibv_wc *wc)
{
	uint32_t seq = (uint32_t)wc->wr_id & ~ID_RECV;

	CHECK_EQ(wc->qp_num, owner->ud.qpn);
	if (wc->wr_id & ID_RECV)
		ud_recv_done(w, owner, wc, seq);
	else
		ud_send_done(owner, wc, seq);
}
