/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random walks over verbs calls: several clients, each a task with its own context, make, connect,
 * use, break, reset and destroy queue pairs between each other, mostly rightly. Oracles: no crash, no
 * sanitizer, no complaint of the verbs sanitizer, nothing left behind; and of each completion that
 * its request was outstanding, in order, and may end like that; that what arrives is what was sent;
 * that memory read back is what was written, and that atomics count.
 *
 * A case of the conformance suite's harness, so it runs where that runs (suite.h):
 *
 *     verbs_walk_world --seeds 100                            virtual time, deterministic
 *     verbs_walk_world --engine threads --seeds 100 --steps 3000 --timeout 900
 *     verbs_walk --seed 7                                     behind libibverbs.so.1
 */
#include "tests/conformance/verbs/suite.h"

#define CLIENTS      4
#define QPS          6   /* of a client */
#define DEPTH        16  /* of each queue */
#define MESSAGE      512 /* bytes at most */
#define SLOT         256 /* of remote memory, of one connection: a counter, then data */
#define GENERATIONS  8   /* of connections of one queue pair that have slots of their own */
#define RECV_AT      (CLIENTS * QPS * GENERATIONS * SLOT)
#define SEND_AT      (RECV_AT + QPS * DEPTH * MESSAGE)
#define BUFFER_BYTES (SEND_AT + QPS * DEPTH * MESSAGE)

enum kind { SEND, WRITE, WRITE_IMM, READ, ADD, BAD_LOCAL, BAD_REMOTE, KINDS };

struct request {
	uint32_t seq;
	enum kind kind;
	bool signaled;
	uint32_t bytes, key; /* of its pattern */
	uint64_t count;      /* ADD: what it must find; READ: the writes before it */
	bool known;          /* ADD, READ: there is something to compare with */
};

struct queue {
	struct request r[DEPTH];
	uint32_t head, tail; /* tail: oldest that is outstanding */
	bool failed;         /* what follows is flushed */
};

enum life { NONE, FRESH, CONNECTED, BROKEN };

struct walk_qp {
	struct ibv_qp *qp;
	enum life life;
	bool uc, broken; /* a completion said so, or we */
	uint32_t serial, generation;
	int peer; /* client */
	struct queue send, recv;
	uint8_t shadow[SLOT]; /* the data of its slot, if all writes were done */
	uint64_t writes;
	bool data_known, count_known;
	uint64_t count;
};

/* What others may see of a queue pair; under the board's lock. */
struct advert {
	bool free, asked;
	uint32_t qpn, psn;
	bool uc;
	int peer; /* who asked: client, its qpn and first packet number */
	uint32_t peer_qpn, peer_psn;
};

struct client {
	int number;
	struct walk *walk;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq[2];
	struct ibv_mr *mr;
	uint8_t *buffer;
	union ibv_gid gid;
	int gid_index;
	uint64_t random;
	uint32_t serial;
	struct walk_qp qp[QPS];
	struct advert advert[QPS];
	uint64_t done[KINDS], errors, connections, received, compared;
};

struct walk {
	struct client client[CLIENTS];
	int lock, ready, ended;
	int steps;
};

/* ---- small things --------------------------------------------------------------------------- */

static uint32_t pick(struct client *c, uint32_t n)
{
	c->random ^= c->random << 13;
	c->random ^= c->random >> 7;
	c->random ^= c->random << 17;
	return (uint32_t)((c->random >> 11) % n);
}

/* Held for a few assignments, never across a call. */
static void board_lock(struct walk *w)
{
	while (__atomic_exchange_n(&w->lock, 1, __ATOMIC_ACQUIRE))
		vs_sleep_ns(1000);
}

static void board_unlock(struct walk *w)
{
	__atomic_store_n(&w->lock, 0, __ATOMIC_RELEASE);
}

/* serial, send or receive, number in its queue */
static uint64_t id_of(const struct walk_qp *q, bool recv, uint32_t seq)
{
	return (uint64_t)q->serial << 32 | (uint64_t)recv << 31 | (seq & 0x7fffffff);
}

static uint64_t slot_of(const struct client *c, const struct walk_qp *q)
{
	uint64_t index = (uint64_t)(q - c->qp);

	return (((uint64_t)c->number * QPS + index) * GENERATIONS + q->generation % GENERATIONS) *
	       SLOT;
}

static uint8_t *message_of(struct client *c, const struct walk_qp *q, bool recv, uint32_t seq)
{
	uint64_t index = (uint64_t)(q - c->qp);

	return c->buffer + (recv ? RECV_AT : SEND_AT) + (index * DEPTH + seq % DEPTH) * MESSAGE;
}

/* ---- life of a queue pair ------------------------------------------------------------------- */

static void withdraw(struct client *c, struct walk_qp *q)
{
	board_lock(c->walk);
	c->advert[q - c->qp] = (struct advert){.free = false};
	board_unlock(c->walk);
}

static void qp_make(struct client *c, struct walk_qp *q)
{
	bool uc = pick(c, 5) == 0 && vs_has(VS_NEED_UC);
	struct ibv_qp_init_attr init = {.send_cq = c->cq[0],
					.recv_cq = c->cq[pick(c, 2)],
					.cap = {DEPTH, DEPTH, 2, 2, 32},
					.qp_type = uc ? IBV_QPT_UC : IBV_QPT_RC};

	*q = (struct walk_qp){.life = FRESH, .uc = uc, .serial = ++c->serial};
	q->qp = ibv_create_qp(c->pd, &init);
	CHECK_MSG(q->qp, "ibv_create_qp: %s", strerror(errno));
	uint32_t psn = pick(c, 1 << 24);

	board_lock(c->walk);
	c->advert[q - c->qp] =
		(struct advert){.free = true, .qpn = q->qp->qp_num, .psn = psn, .uc = uc};
	board_unlock(c->walk);
}

static void qp_destroy(struct client *c, struct walk_qp *q)
{
	withdraw(c, q);
	CHECK_EQ(ibv_destroy_qp(q->qp), 0);
	*q = (struct walk_qp){.life = NONE};
}

static void recv_post(struct client *c, struct walk_qp *q)
{
	struct queue *r = &q->recv;

	if (r->head - r->tail == DEPTH)
		return;
	uint32_t seq = r->head++;
	bool bad = pick(c, 200) == 0;

	r->r[seq % DEPTH] = (struct request){.seq = seq,
					     .kind = bad ? BAD_LOCAL : SEND,
					     .signaled = true,
					     .bytes = pick(c, 8) ? MESSAGE : pick(c, MESSAGE)};
	struct ibv_sge sge = {(uintptr_t)message_of(c, q, true, seq), r->r[seq % DEPTH].bytes,
			      c->mr->lkey ^ (bad ? 0x5a : 0)};
	struct ibv_recv_wr wr = {.wr_id = id_of(q, true, seq), .sg_list = &sge, .num_sge = 1}, *b;

	CHECK_EQ(ibv_post_recv(q->qp, &wr, &b), 0);
}

static void qp_connect(struct client *c, struct walk_qp *q, int peer, uint32_t peer_qpn,
		       uint32_t psn, uint32_t peer_psn)
{
	const struct client *p = &c->walk->client[peer];
	struct ibv_qp_attr a = {
		.path_mtu = IBV_MTU_256,
		.rq_psn = peer_psn,
		.sq_psn = psn,
		.dest_qp_num = peer_qpn,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   (vs_has(VS_NEED_ATOMIC) ? IBV_ACCESS_REMOTE_ATOMIC : 0),
		.ah_attr = {.grh = {.dgid = p->gid,
				    .sgid_index = (uint8_t)c->gid_index,
				    .hop_limit = 64},
			    .is_global = 1,
			    .port_num = vs_port_num},
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1 + (uint8_t)pick(c, 12),
		.port_num = vs_port_num,
		.timeout = 12,
		.retry_cnt = (uint8_t)pick(c, 3),
		.rnr_retry = (uint8_t)pick(c, 7),
	};

	vs_raise(q->qp, &a, IBV_QPS_INIT);
	for (uint32_t n = pick(c, DEPTH); n; n--)
		recv_post(c, q);
	vs_set_state(q->qp, IBV_QPS_RESET); /* and once more: queues are empty again */
	q->recv = (struct queue){.head = 0};
	q->serial = ++c->serial;
	vs_raise(q->qp, &a, IBV_QPS_INIT);
	for (uint32_t n = pick(c, DEPTH); n; n--)
		recv_post(c, q);
	a.qp_state = IBV_QPS_RTR;
	CHECK_EQ(ibv_modify_qp(q->qp, &a, vs_mask(q->qp->qp_type, IBV_QPS_RTR)), 0);
	a.qp_state = IBV_QPS_RTS;
	int rc = ibv_modify_qp(q->qp, &a, vs_mask(q->qp->qp_type, IBV_QPS_RTS));

	if (rc) { /* the peer's first message may have ended it */
		CHECK_EQ(rc, EINVAL);
		CHECK_EQ(vs_state(q->qp), IBV_QPS_ERR);
		q->life = BROKEN;
		return;
	}
	q->life = CONNECTED;
	q->peer = peer;
	q->generation++;
	q->broken = q->data_known = q->count_known = false;
	c->connections++;
}

/* Answers who asked, or asks somebody. */
static void qp_pair(struct client *c, struct walk_qp *q)
{
	struct walk *w = c->walk;
	struct advert *mine = &c->advert[q - c->qp], found = {.free = false};
	int peer = (int)pick(c, CLIENTS), slot = (int)pick(c, QPS);

	board_lock(w);
	uint32_t psn = mine->psn;

	if (mine->asked) {
		found = *mine;
		peer = mine->peer;
		mine->free = mine->asked = false;
	} else {
		struct advert *theirs = &w->client[peer].advert[slot];

		if (theirs != mine && theirs->free && !theirs->asked && theirs->uc == q->uc) {
			found = (struct advert){
				.asked = true, .peer_qpn = theirs->qpn, .peer_psn = theirs->psn};
			theirs->asked = true;
			theirs->peer = c->number;
			theirs->peer_qpn = mine->qpn;
			theirs->peer_psn = mine->psn;
			mine->free = false;
		}
	}
	board_unlock(w);
	if (found.asked)
		qp_connect(c, q, peer, found.peer_qpn, psn, found.peer_psn);
}

/* ---- sending -------------------------------------------------------------------------------- */

static const enum ibv_wr_opcode opcode_of[] = {
	[SEND] = IBV_WR_SEND,
	[WRITE] = IBV_WR_RDMA_WRITE,
	[WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
	[READ] = IBV_WR_RDMA_READ,
	[ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	[BAD_LOCAL] = IBV_WR_SEND,
	[BAD_REMOTE] = IBV_WR_RDMA_WRITE,
};

static enum kind kind_draw(struct client *c, const struct walk_qp *q)
{
	uint32_t n = pick(c, 100);

	if (n < 2)
		return BAD_LOCAL;
	if (n < 4)
		return BAD_REMOTE;
	if (n < 30)
		return SEND;
	if (n < 55)
		return WRITE;
	if (n < 70 || q->uc)
		return WRITE_IMM;
	return n < 85 || !vs_has(VS_NEED_ATOMIC) ? READ : ADD;
}

/* The request that it is, and what the shadow says of it. */
static void send_fill(struct client *c, struct walk_qp *q, struct request *r,
		      struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	const struct client *p = &c->walk->client[q->peer];
	uint64_t slot = (uintptr_t)p->buffer + slot_of(c, q);
	uint8_t *message = message_of(c, q, false, r->seq);

	*sge = (struct ibv_sge){(uintptr_t)message, r->bytes, c->mr->lkey};
	wr->wr.rdma.remote_addr = slot + 8;
	wr->wr.rdma.rkey = p->mr->rkey;
	switch (r->kind) {
	case ADD:
		sge->length = 8;
		wr->wr.atomic.remote_addr = slot;
		wr->wr.atomic.compare_add = 1 + r->key;
		wr->wr.atomic.rkey = p->mr->rkey;
		r->known = q->count_known;
		r->count = q->count;
		q->count += 1 + r->key;
		return;
	case READ:
		r->known = q->data_known;
		r->count = q->writes;
		memset(message, 0xcc, r->bytes);
		break;
	case WRITE:
	case WRITE_IMM:
		vs_pattern(message, r->bytes, r->key);
		if (r->bytes == SLOT - 8)
			q->data_known = true;
		memcpy(q->shadow, message, r->bytes);
		q->writes++;
		break;
	case BAD_LOCAL:
		sge->lkey ^= 0x5a;
		break;
	case BAD_REMOTE:
		wr->wr.rdma.rkey ^= 0x5a;
		break;
	default:
		vs_pattern(message, r->bytes, r->key);
	}
	wr->imm_data = htobe32(r->key);
}

static void send_post(struct client *c, struct walk_qp *q)
{
	struct queue *s = &q->send;
	uint32_t held = s->head - s->tail;

	if (held == DEPTH)
		return;
	enum kind kind = kind_draw(c, q);
	uint32_t seq = s->head++, most = kind == SEND ? MESSAGE : SLOT - 8;
	struct request *r = &s->r[seq % DEPTH];
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = id_of(q, false, seq), .sg_list = &sge, .num_sge = 1},
			   *bad;

	*r = (struct request){.seq = seq, .kind = kind, .key = pick(c, 200)};
	r->bytes = pick(c, 3) ? most : 1 + pick(c, most);
	r->signaled = held >= DEPTH - 2 || pick(c, 3) || kind == READ || kind == ADD;
	wr.opcode = opcode_of[kind];
	if (r->signaled)
		wr.send_flags |= IBV_SEND_SIGNALED;
	if (pick(c, 8) == 0)
		wr.send_flags |= IBV_SEND_FENCE;
	if (pick(c, 8) == 0)
		wr.send_flags |= IBV_SEND_SOLICITED;
	send_fill(c, q, r, &wr, &sge);
	if (r->bytes <= 32 && (kind == SEND || kind == WRITE))
		wr.send_flags |= IBV_SEND_INLINE;
	CHECK_EQ(ibv_post_send(q->qp, &wr, &bad), 0);
}

/* ---- completions ---------------------------------------------------------------------------- */

/* May a request of this kind end so? */
static bool may_end(const struct walk_qp *q, const struct request *r, enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return r->kind != BAD_LOCAL && (r->kind != BAD_REMOTE || q->uc);
	case IBV_WC_WR_FLUSH_ERR:
		return true;
	case IBV_WC_LOC_PROT_ERR:
		return r->kind == BAD_LOCAL;
	case IBV_WC_REM_ACCESS_ERR:
		return r->kind == BAD_REMOTE && !q->uc;
	case IBV_WC_RETRY_EXC_ERR: /* the peer is gone, or in error */
		return !q->uc && r->kind != BAD_LOCAL;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return !q->uc && (r->kind == SEND || r->kind == WRITE_IMM);
	case IBV_WC_REM_OP_ERR: /* the receive was bad, or too small */
	case IBV_WC_REM_INV_REQ_ERR:
		return !q->uc && r->kind == SEND;
	default:
		return false;
	}
}

static void send_check_data(struct client *c, struct walk_qp *q, const struct request *r)
{
	const uint8_t *message = message_of(c, q, false, r->seq);

	if (r->kind == ADD) {
		uint64_t found;

		memcpy(&found, message, sizeof found);
		CHECK_MSG(!r->known || found == r->count, "counter is %llu, expected %llu",
			  (unsigned long long)found, (unsigned long long)r->count);
		if (!r->known && !q->count_known) {
			/* what those behind it must find is known from here on */
			q->count_known = true;
			q->count = found + 1 + r->key;
			for (uint32_t i = r->seq + 1; i != q->send.head; i++)
				if (q->send.r[i % DEPTH].kind == ADD)
					q->count += 1 + q->send.r[i % DEPTH].key;
		}
	}
	/* a later write may overtake the read */
	if (r->kind == READ && r->known && r->count == q->writes) {
		CHECK_MSG(!memcmp(message, q->shadow, r->bytes),
			  "what was read is not what was written");
		c->compared++;
	}
	c->done[r->kind]++;
}

static void send_done(struct client *c, struct walk_qp *q, const struct ibv_wc *wc)
{
	struct queue *s = &q->send;
	uint32_t seq = (uint32_t)wc->wr_id & 0x7fffffff;

	CHECK_MSG(seq - s->tail < s->head - s->tail, "send %u is not outstanding (%u..%u)", seq,
		  s->tail, s->head);
	for (; s->tail != seq; s->tail++) { /* those before it, in silence: all went well */
		const struct request *r = &s->r[s->tail % DEPTH];

		CHECK_MSG(!r->signaled, "send %u completes before %u", seq, s->tail);
		CHECK_MSG(may_end(q, r, IBV_WC_SUCCESS) && !s->failed,
			  "send %u (kind %d) must have failed, and was silent", r->seq, r->kind);
		c->done[r->kind]++;
	}
	const struct request *r = &s->r[s->tail++ % DEPTH];

	CHECK_MSG(may_end(q, r, wc->status), "send %u of kind %d (%s): %s", seq, r->kind,
		  q->uc ? "UC" : "RC", ibv_wc_status_str(wc->status));
	CHECK_MSG(!s->failed || wc->status == IBV_WC_WR_FLUSH_ERR, "%s behind an error",
		  ibv_wc_status_str(wc->status));
	if (wc->status) {
		s->failed = q->broken = true;
		c->errors++;
	} else {
		CHECK_MSG(r->signaled, "a completion that nobody asked for");
		send_check_data(c, q, r);
	}
}

static void recv_done(struct client *c, struct walk_qp *q, const struct ibv_wc *wc)
{
	struct queue *s = &q->recv;
	uint32_t seq = (uint32_t)wc->wr_id & 0x7fffffff;
	const struct request *r = &s->r[s->tail % DEPTH];

	CHECK_MSG(s->tail != s->head && seq == s->tail, "receive %u completes, expected %u", seq,
		  s->tail);
	CHECK_MSG(!s->failed || wc->status == IBV_WC_WR_FLUSH_ERR, "receive: %s behind an error",
		  ibv_wc_status_str(wc->status));
	s->tail++;
	switch (wc->status) {
	case IBV_WC_SUCCESS:
		if (wc->opcode == IBV_WC_RECV) {
			const uint8_t *m = message_of(c, q, true, seq);
			/* any key: the first byte tells it */
			uint32_t key = 0;
			uint8_t first[1];

			CHECK(r->kind != BAD_LOCAL && wc->byte_len <= r->bytes);
			do
				vs_pattern(first, 1, key);
			while (first[0] != m[0] && ++key < 256);
			vs_expect_pattern(m, wc->byte_len, key);
		} else {
			CHECK_EQ(wc->opcode, IBV_WC_RECV_RDMA_WITH_IMM);
			CHECK(wc->wc_flags & IBV_WC_WITH_IMM);
			CHECK(be32toh(wc->imm_data) < 200);
		}
		c->received++;
		break;
	case IBV_WC_LOC_PROT_ERR:
		CHECK(r->kind == BAD_LOCAL);
		break;
	case IBV_WC_LOC_LEN_ERR:
		CHECK(r->bytes < MESSAGE);
		break;
	default:
		CHECK_MSG(wc->status == IBV_WC_WR_FLUSH_ERR, "receive: %s",
			  ibv_wc_status_str(wc->status));
	}
	if (wc->status)
		s->failed = q->broken = true;
}

static void poll(struct client *c, int which)
{
	struct ibv_wc wc[8];
	int n = ibv_poll_cq(c->cq[which], 1 + (int)pick(c, 8), wc);

	CHECK_GE(n, 0);
	for (int i = 0; i < n; i++) {
		struct walk_qp *q = NULL;

		for (int k = 0; k < QPS; k++)
			if (c->qp[k].life != NONE && c->qp[k].serial == wc[i].wr_id >> 32)
				q = &c->qp[k];
		if (!q) /* of a queue pair that was reset or destroyed since */
			continue;
		CHECK_EQ(wc[i].qp_num, q->qp->qp_num);
		if (wc[i].wr_id >> 31 & 1)
			recv_done(c, q, &wc[i]);
		else
			send_done(c, q, &wc[i]);
		if (q->broken)
			q->life = BROKEN;
	}
}

/* ---- the walk ------------------------------------------------------------------------------- */

/* Objects that come and go, and questions. */
static void noise(struct client *c)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	struct walk_qp *q = &c->qp[pick(c, QPS)];

	switch (pick(c, 6)) {
	case 0: {
		struct ibv_cq *cq = ibv_create_cq(c->ctx, 1 + (int)pick(c, 100), NULL, NULL, 0);

		CHECK(cq);
		CHECK_EQ(ibv_destroy_cq(cq), 0);
		break;
	}
	case 1: {
		struct ibv_mr *mr = ibv_reg_mr(c->pd, c->buffer + pick(c, 1000), 1 + pick(c, 5000),
					       IBV_ACCESS_LOCAL_WRITE);

		CHECK(mr);
		CHECK_EQ(ibv_dereg_mr(mr), 0);
		break;
	}
	case 2:
		if (q->life != NONE)
			CHECK_EQ(ibv_query_qp(q->qp, &a, VS_QP_ALL, &init), 0);
		break;
	case 3:
		CHECK_EQ(ibv_req_notify_cq(c->cq[pick(c, 2)], (int)pick(c, 2)), 0);
		break;
	case 4:
		CHECK_EQ(vs_port_attr(c->ctx).state, IBV_PORT_ACTIVE);
		break;
	default: {
		struct ibv_pd *pd = ibv_alloc_pd(c->ctx);

		CHECK(pd);
		CHECK_EQ(ibv_dealloc_pd(pd), 0);
	}
	}
}

static void step_connected(struct client *c, struct walk_qp *q)
{
	uint32_t n = pick(c, 1000);

	if (n < 3) {
		vs_set_state(q->qp, IBV_QPS_ERR);
		q->broken = true;
		q->life = BROKEN;
	} else if (n < 5) {
		qp_destroy(c, q);
	} else if (n < 400) {
		recv_post(c, q);
	} else {
		send_post(c, q);
	}
}

static void step(struct client *c)
{
	struct walk_qp *q = &c->qp[pick(c, QPS)];

	if (pick(c, 3) == 0) {
		poll(c, (int)pick(c, 2));
		return;
	}
	if (pick(c, 40) == 0) {
		noise(c);
		return;
	}
	switch (q->life) {
	case NONE:
		qp_make(c, q);
		break;
	case FRESH:
		qp_pair(c, q);
		break;
	case CONNECTED:
		step_connected(c, q);
		break;
	default: /* what is posted now is flushed; then a new one */
		if (pick(c, 4))
			recv_post(c, q);
		else
			qp_destroy(c, q);
	}
}

static void client_open(struct walk *w, int number, uint64_t seed)
{
	struct client *c = &w->client[number];

	*c = (struct client){.number = number, .walk = w};
	c->random = (seed * CLIENTS + (uint64_t)number + 1) * 0x9e3779b97f4a7c15ull;
	c->ctx = vs_open(number % 2);
	c->pd = ibv_alloc_pd(c->ctx);
	CHECK(c->pd);
	for (int i = 0; i < 2; i++) {
		c->cq[i] = ibv_create_cq(c->ctx, 4 * QPS * DEPTH + 4000, NULL, NULL, 0);
		CHECK(c->cq[i]);
	}
	c->buffer = vs_alloc(BUFFER_BYTES);
	c->mr = ibv_reg_mr(c->pd, c->buffer, BUFFER_BYTES,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ |
				   (vs_has(VS_NEED_ATOMIC) ? IBV_ACCESS_REMOTE_ATOMIC : 0));
	CHECK(c->mr);
	c->gid_index = vs_gid_index(c->ctx);
	CHECK_EQ(ibv_query_gid(c->ctx, vs_port_num, c->gid_index, &c->gid), 0);
}

static void client_run(void *arg)
{
	struct client *c = arg;

	for (int i = 0; i < c->walk->steps; i++)
		step(c);
	for (int i = 0; i < QPS; i++)
		if (c->qp[i].life != NONE)
			qp_destroy(c, &c->qp[i]);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(ibv_destroy_cq(c->cq[i]), 0);
}

static void client_close(struct client *c)
{
	CHECK_EQ(ibv_dereg_mr(c->mr), 0);
	CHECK_EQ(ibv_dealloc_pd(c->pd), 0);
	CHECK_EQ(ibv_close_device(c->ctx), 0);
	vs_release(c->buffer);
}

CASE(several_clients)
{
	static struct walk w;
	struct vs_thread *t[CLIENTS];
	uint64_t done = 0;

	memset(&w, 0, sizeof w);
	w.steps = vs_steps(4000);
	for (int i = 0; i < CLIENTS; i++)
		client_open(&w, i, vs_seed());
	for (int i = 0; i < CLIENTS; i++)
		t[i] = vs_thread_start(client_run, &w.client[i]);
	for (int i = 0; i < CLIENTS; i++)
		vs_thread_join(t[i]);
	for (int i = 0; i < CLIENTS; i++) {
		const struct client *c = &w.client[i];

		printf("client %d: %llu connections, %llu sends %llu writes %llu reads (%llu "
		       "compared) %llu adds, "
		       "%llu received, %llu errors\n",
		       i, (unsigned long long)c->connections, (unsigned long long)c->done[SEND],
		       (unsigned long long)(c->done[WRITE] + c->done[WRITE_IMM]),
		       (unsigned long long)c->done[READ], (unsigned long long)c->compared,
		       (unsigned long long)c->done[ADD], (unsigned long long)c->received,
		       (unsigned long long)c->errors);
		for (int k = 0; k < KINDS; k++)
			done += c->done[k];
	}
	CHECK_MSG(done > 0, "nothing was ever done");
	for (int i = 0; i < CLIENTS; i++)
		client_close(&w.client[i]);
}
