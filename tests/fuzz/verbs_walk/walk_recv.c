/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives: of a queue pair and of a shared queue. */
#include "tests/fuzz/verbs_walk/walk.h"

static struct ibv_sge recv_entry(struct walker *w, uint8_t *at, uint32_t bytes, bool bad, bool null)
{
	const struct client *c = w->client;

	return (struct ibv_sge){(uintptr_t)at, bytes,
				(null ? c->null->lkey : c->mr->lkey) ^ (bad ? 0x5a : 0)};
}

void recv_post(struct walker *w, struct walk_qp *q)
{
	struct client *c = w->client;
	struct queue *r = &q->recv;
	uint32_t seq = r->head;
	struct request made = {.seq = seq,
			       .kind = has(w, F_BAD) && once_in(w, 200) ? BAD_LOCAL : SEND,
			       .signaled = true,
			       .bytes = once_in(w, 8) ? pick(w, MESSAGE) : MESSAGE,
			       .null = has(w, F_NULL_MR) && once_in(w, 30)};

	if (made.null)
		made.kind = SEND;
	client_lock(c);
	bool full = r->head - r->tail == DEPTH;

	if (!full) {
		r->r[seq % DEPTH] = made;
		r->head++;
	}
	client_unlock(c);
	if (full)
		return;
	struct ibv_sge sge = recv_entry(w, message_of(w, q, true, seq), made.bytes,
					made.kind == BAD_LOCAL, made.null);
	struct ibv_recv_wr wr = {.wr_id = id_make(q->serial, true, seq),
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;

	CHECK_EQ(ibv_post_recv(q->qp, &wr, &bad), 0);
}

/* Returns a free place of the shared queue, or a place that a destroyed queue pair may have taken.
 * Returns -1 if all places are out. */
static int srq_place(struct walker *w, struct walk_srq *s)
{
	int from = (int)pick(w, SRQ_DEPTH);

	for (int i = 0; i < SRQ_DEPTH; i++)
		if (!s->r[(from + i) % SRQ_DEPTH].out)
			return (from + i) % SRQ_DEPTH;
	if (s->doubts >= 4 * s->deaths || s->given_up++ % 16 != 15)
		return -1;
	s->doubts++;
	s->r[from].doubtful = true;
	return from;
}

void srq_post(struct walker *w, int which)
{
	struct client *c = w->client;
	struct walk_srq *s = &c->srq[which];
	bool bad = has(w, F_BAD) && once_in(w, 300);
	uint32_t bytes = once_in(w, 8) ? pick(w, MESSAGE) : MESSAGE, round = 0;

	client_lock(c);
	int at = srq_place(w, s);
	bool doubtful = at >= 0 && s->r[at].out, doubts = s->doubts;

	if (at >= 0) {
		s->r[at].out = true;
		s->r[at].bad = bad;
		s->r[at].bytes = bytes;
		round = ++s->r[at].round;
		s->posted++;
	}
	client_unlock(c);
	if (at < 0)
		return;
	uint8_t *p = c->buffer + SRQ_AT + ((uint32_t)which * SRQ_DEPTH + (uint32_t)at) * MESSAGE;
	struct ibv_sge sge = recv_entry(w, p, bytes, bad, false);
	uint32_t id = round * SRQ_DEPTH + (uint32_t)at;
	struct ibv_recv_wr wr = {.wr_id = id_make(SERIAL_SRQ | (uint32_t)which, true, id),
				 .sg_list = &sge,
				 .num_sge = 1},
			   *refused;
	int rc = ibv_post_srq_recv(s->srq, &wr, &refused);

	if (!rc)
		return;
	/* it may be full if more receives are out than it has places */
	CHECK_MSG(doubts && rc == ENOMEM, "ibv_post_srq_recv: %s", strerror(rc));
	client_lock(c);
	s->r[at].out = doubtful;
	client_unlock(c);
}

void srq_limit(struct walker *w, int which)
{
	struct walk_srq *s = &w->client->srq[which];
	struct ibv_srq_attr a = {.srq_limit = 1 + pick(w, SRQ_DEPTH / 2)};

	client_lock(w->client);
	s->limits++;
	client_unlock(w->client);
	CHECK_EQ(ibv_modify_srq(s->srq, &a, IBV_SRQ_LIMIT), 0);
}
