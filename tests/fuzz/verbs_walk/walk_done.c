/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks completions and events against the records of requests. The caller holds the client's
 * lock. */
#include "tests/fuzz/verbs_walk/walk.h"

/* ---- reports of failures -------------------------------------------------------------------- */

static void queue_note(struct queue *s, const struct ibv_wc *wc)
{
	s->came[s->count % 8].seq = (uint32_t)wc->wr_id & ~ID_RECV;
	s->came[s->count++ % 8].status = (uint32_t)wc->status;
}

static const char *queue_text(const struct walk_qp *q, const struct queue *s)
{
	static char text[400];
	int n = snprintf(text, sizeof text, "type %d%s%s%s, %u..%u, came:", q->type,
			 q->extended ? ", ibv_wr_*" : "", q->srq ? ", shared receives" : "",
			 s->loose ? ", any order" : "", s->tail, s->head);

	for (uint32_t i = s->count > 8 ? s->count - 8 : 0; i != s->count; i++)
		n += snprintf(text + n, sizeof text - (size_t)n, " %u/%u", s->came[i % 8].seq,
			      s->came[i % 8].status);
	return text;
}

/* ---- sends ---------------------------------------------------------------------------------- */

static bool is_local(const struct request *r)
{
	return r->kind == BIND || r->kind == INV || r->kind == BIND_1 || r->kind == BAD_BIND ||
	       r->kind == BAD_LOCAL;
}

/* True if a request of this kind may complete with this status. */
static bool may_end(const struct walk_qp *q, const struct request *r, enum ibv_wc_status status)
{
	bool uc = q->type == IBV_QPT_UC, send = r->kind == SEND || r->kind == SEND_INV;

	switch (status) {
	case IBV_WC_SUCCESS:
		return r->kind != BAD_LOCAL && r->kind != BAD_BIND && !r->dead &&
		       (r->kind != BAD_REMOTE || uc);
	case IBV_WC_WR_FLUSH_ERR:
		return true;
	case IBV_WC_LOC_PROT_ERR:
		return r->kind == BAD_LOCAL;
	case IBV_WC_MW_BIND_ERR: /* the peer may have invalidated it earlier */
		return r->kind == BAD_BIND || r->kind == INV;
	case IBV_WC_REM_ACCESS_ERR:
		return !uc &&
		       (r->kind == BAD_REMOTE || r->windowed || r->dead || r->kind == SEND_INV);
	case IBV_WC_RETRY_EXC_ERR: /* the peer is gone, or in error */
		return !uc && !is_local(r);
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return !uc && (send || r->kind == WRITE_IMM);
	case IBV_WC_REM_OP_ERR: /* the receive was bad, or too small */
	case IBV_WC_REM_INV_REQ_ERR:
		return !uc && send;
	default:
		return false;
	}
}

static void check_atomic(struct walk_qp *q, const struct request *r, const uint8_t *message)
{
	uint64_t found;

	memcpy(&found, message, sizeof found);
	CHECK_MSG(!r->known || found == r->count, "counter is %llu, expected %llu",
		  (unsigned long long)found, (unsigned long long)r->count);
	if (r->known || q->count_known)
		return;
	/* from here on the values that later atomics must find are known */
	q->count_known = true;
	q->count = found + 1 + r->key;
	for (uint32_t i = r->seq + 1; i != q->send.head; i++)
		if (q->send.r[i % DEPTH].kind == ADD)
			q->count += 1 + q->send.r[i % DEPTH].key;
}

/* Handles a successful request: updates windows and checks the data that it returned. */
static void send_succeeded(struct walker *w, struct walker *owner, struct walk_qp *q,
			   struct request *r, bool seen)
{
	const uint8_t *message = message_of(owner, q, false, r->seq);

	w->done[r->kind]++;
	if (r->kind == BIND && q->mw_state == MW_BINDING && r->number == q->mw_key)
		q->mw_state = MW_BOUND;
	if (r->kind == INV && q->mw_state == MW_ENDING && r->number == q->mw_key)
		q->mw_state = MW_FREE;
	r->known |= r->kind == BIND_1;
	if (!seen)
		return;
	if (r->kind == ADD || r->kind == CAS)
		check_atomic(q, r, message);
	/* a later write may overtake the read */
	if (r->kind == READ && r->known && r->count == q->writes) {
		CHECK_MSG(!memcmp(message, q->shadow, r->bytes),
			  "what was read is not what was written");
		w->compared++;
	}
}

/* Marks the earlier requests that have no completion: they must have succeeded unsignaled. */
static void send_silent(struct walker *w, struct walker *owner, struct walk_qp *q, uint32_t seq)
{
	struct queue *s = &q->send;

	for (uint32_t i = s->tail; i != seq; i++) {
		struct request *r = &s->r[i % DEPTH];

		if (r->done)
			continue;
		CHECK_MSG(!r->signaled || s->loose, "send %u completes before %u (%s)", seq, i,
			  queue_text(q, s));
		if (r->signaled)
			continue;
		CHECK_MSG(may_end(q, r, IBV_WC_SUCCESS) && !s->failed,
			  "send %u (kind %d) must have failed, and was silent (%s)", r->seq,
			  r->kind, queue_text(q, s));
		send_succeeded(w, owner, q, r, false);
		r->done = true;
		trash_request(owner, r);
	}
}

/* Removes the oldest requests that are done from the queue. */
static void send_advance(struct walker *owner, struct walk_qp *q)
{
	struct queue *s = &q->send;

	while (s->tail != s->head) {
		struct request *r = &s->r[s->tail % DEPTH];

		if (!r->done)
			return;
		trash_request(owner, r);
		s->tail++;
	}
}

static void send_done(struct walker *w, struct walker *owner, struct walk_qp *q,
		      const struct ibv_wc *wc)
{
	struct queue *s = &q->send;
	uint32_t seq = (uint32_t)wc->wr_id & ~ID_RECV;
	struct request *r = &s->r[seq % DEPTH];

	queue_note(s, wc);
	CHECK_MSG(seq - s->tail < s->head - s->tail && !r->done, "send %u is not outstanding (%s)",
		  seq, queue_text(q, s));
	CHECK_EQ(r->seq, seq);
	send_silent(w, owner, q, seq);
	CHECK_MSG(may_end(q, r, wc->status), "send %u of kind %d: %s (%s)", seq, r->kind,
		  ibv_wc_status_str(wc->status), queue_text(q, s));
	CHECK_MSG(!s->failed || s->loose || wc->status == IBV_WC_WR_FLUSH_ERR, "%s behind an error",
		  ibv_wc_status_str(wc->status));
	if (wc->status) {
		s->failed = q->broken = true;
		w->errors++;
	} else {
		CHECK_MSG(r->signaled, "a completion that was not requested");
		send_succeeded(w, owner, q, r, true);
	}
	r->done = true;
	trash_request(owner, r);
	send_advance(owner, q);
}

/* ---- receives ------------------------------------------------------------------------------- */

static void check_message(const uint8_t *m, uint32_t bytes)
{
	uint32_t key = 0;
	uint8_t first[1];
	bool zero = true;

	for (uint32_t i = 0; i < bytes; i++)
		zero &= !m[i];
	if (zero) /* from the null region */
		return;
	do /* the first byte identifies the key */
		vs_pattern(first, 1, key);
	while (first[0] != m[0] && ++key < 256);
	vs_expect_pattern(m, bytes, key);
}

/* Checks that messages arrive once and in order. The immediate data of most is their number. */
static void check_arrival(struct walk_qp *q, const struct ibv_wc *wc)
{
	uint32_t number = be32toh(wc->imm_data);
	bool told = wc->wc_flags & IBV_WC_WITH_IMM;

	if (q->recv.loose || q->type == IBV_QPT_XRC_RECV)
		return;
	if (q->type == IBV_QPT_RC) {
		CHECK_MSG(!told || number == q->arrived,
			  "srq %d ext %d op %d: message %u arrives, expected %u", q->srq,
			  q->extended, wc->opcode, number, q->arrived);
		q->arrived++;
	} else if (told) {
		CHECK_MSG(number >= q->arrived, "message %u arrives after %u", number, q->arrived);
		q->arrived = number + 1;
	}
}

/* bytes: size of the receive; memory: NULL if its contents are not checked. */
static void recv_succeeded(struct walker *w, struct walk_qp *q, const struct ibv_wc *wc,
			   uint32_t bytes, bool bad, const uint8_t *memory)
{
	if (wc->opcode == IBV_WC_RECV) {
		CHECK_MSG((!bad || !wc->byte_len) && wc->byte_len <= bytes,
			  "%u bytes in a receive of %u%s", wc->byte_len, bytes,
			  bad ? " with a bad key" : "");
		if (memory)
			check_message(memory, wc->byte_len);
	} else {
		CHECK_EQ(wc->opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		CHECK(wc->wc_flags & IBV_WC_WITH_IMM);
	}
	if (q && (wc->wc_flags & IBV_WC_WITH_INV)) {
		/* or an older key, which was released before the message arrived */
		CHECK_EQ(wc->invalidated_rkey >> 8, q->mw_key >> 8);
		if (q->mw_state == MW_BOUND && wc->invalidated_rkey == q->mw_key)
			q->mw_state = MW_FREE;
	}
	if (q)
		check_arrival(q, wc);
	w->received++;
}

static void recv_check(struct walker *w, struct walk_qp *q, const struct ibv_wc *wc, uint32_t bytes,
		       bool bad, const uint8_t *memory)
{
	switch (wc->status) {
	case IBV_WC_SUCCESS:
		recv_succeeded(w, q, wc, bytes, bad, memory);
		break;
	case IBV_WC_LOC_PROT_ERR:
		CHECK(bad);
		break;
	case IBV_WC_LOC_LEN_ERR:
		CHECK(bytes < MESSAGE);
		break;
	case IBV_WC_REM_INV_REQ_ERR: /* it invalidates a window that was invalidated before */
		CHECK(has(w, F_WINDOW));
		break;
	default:
		CHECK_MSG(wc->status == IBV_WC_WR_FLUSH_ERR, "receive: %s",
			  ibv_wc_status_str(wc->status));
	}
}

static void recv_done(struct walker *w, struct walker *owner, struct walk_qp *q,
		      const struct ibv_wc *wc)
{
	struct queue *s = &q->recv;
	uint32_t seq = (uint32_t)wc->wr_id & ~ID_RECV;
	struct request *r = &s->r[seq % DEPTH];

	if (s->loose)
		CHECK_MSG(seq - s->tail < s->head - s->tail && !r->done && r->seq == seq,
			  "receive %u is not outstanding (%u..%u)", seq, s->tail, s->head);
	else
		CHECK_MSG(s->tail != s->head && seq == s->tail, "receive %u completes, expected %u",
			  seq, s->tail);
	CHECK_MSG(!s->failed || s->loose || wc->status == IBV_WC_WR_FLUSH_ERR,
		  "receive: %s behind an error", ibv_wc_status_str(wc->status));
	recv_check(w, q, wc, r->bytes, r->kind == BAD_LOCAL,
		   r->null ? NULL : message_of(owner, q, true, seq));
	r->done = true;
	while (s->tail != s->head && s->r[s->tail % DEPTH].done)
		s->tail++;
	if (wc->status)
		s->failed = q->broken = true;
}

/* ---- owners of completions ------------------------------------------------------------------ */

static struct walk_qp *qp_find(struct client *c, struct walker **owner, uint32_t serial,
			       uint32_t qpn)
{
	for (int i = 0; i < CLIENT_QPS; i++) {
		struct walk_qp *q = &c->walker[i / QPS].qp[i % QPS];

		*owner = &c->walker[i / QPS];
		if (q->life == NONE || !q->serial)
			continue;
		if (serial ? q->serial == serial : q->qpn == qpn)
			return q;
	}
	return NULL;
}

static void srq_done(struct walker *w, int which, const struct ibv_wc *wc)
{
	struct client *c = w->client;
	struct walk_srq *s = &c->srq[which];
	uint32_t id = (uint32_t)wc->wr_id & ~ID_RECV, at = id % SRQ_DEPTH;
	struct walker *owner;
	struct walk_qp *q = qp_find(c, &owner, 0, wc->qp_num);
	bool this_one = s->r[at].out && s->r[at].round == id / SRQ_DEPTH;

	CHECK_MSG(this_one || s->r[at].doubtful, "receive %u of a shared queue is not outstanding",
		  id);
	if (s->r[at].doubtful && !wc->status)
		recv_succeeded(w, q, wc, MESSAGE, false, NULL);
	else if (!s->r[at].doubtful)
		recv_check(w, q, wc, s->r[at].bytes, s->r[at].bad,
			   c->buffer + SRQ_AT + ((uint32_t)which * SRQ_DEPTH + at) * MESSAGE);
	if (this_one)
		s->r[at].out = false;
	if (q && wc->status)
		q->broken = true;
}

static void wc_done(struct walker *w, const struct ibv_wc *wc)
{
	struct client *c = w->client;
	uint32_t serial = (uint32_t)(wc->wr_id >> 32);
	struct walker *owner;

	if (serial & SERIAL_SRQ) {
		srq_done(w, (int)(serial & 1), wc);
		return;
	}
	if (serial & SERIAL_UD) {
		for (int i = 0; i < WALKERS; i++)
			if (c->walker[i].ud.serial == serial)
				ud_done(w, &c->walker[i], wc);
		return;
	}
	struct walk_qp *q = qp_find(c, &owner, serial, 0);

	if (!q) /* its queue pair was reset or destroyed meanwhile */
		return;
	CHECK_EQ(wc->qp_num, q->qpn);
	if (wc->wr_id & ID_RECV)
		recv_done(w, owner, q, wc);
	else
		send_done(w, owner, q, wc);
}

/* ---- polls ---------------------------------------------------------------------------------- */

static void poll_read(struct walk_cq *q, struct ibv_wc *wc, bool own)
{
	struct ibv_cq_ex *ex = q->ex;

	*wc = (struct ibv_wc){
		.wr_id = ex->wr_id, .status = ex->status, .qp_num = ibv_wc_read_qp_num(ex)};
	if (wc->status)
		return;
	wc->opcode = ibv_wc_read_opcode(ex);
	wc->byte_len = ibv_wc_read_byte_len(ex);
	wc->wc_flags = ibv_wc_read_wc_flags(ex);
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		wc->imm_data = ibv_wc_read_imm_data(ex);
	if (wc->wc_flags & IBV_WC_WITH_INV)
		wc->invalidated_rkey = ibv_wc_read_invalidated_rkey(ex);
	wc->src_qp = ibv_wc_read_src_qp(ex);
	if (!own || !vs_has(VS_NEED_TIMESTAMP))
		return;
	uint64_t stamp = ibv_wc_read_completion_ts(ex);

	CHECK(stamp >= q->stamp);
	q->stamp = stamp;
}

static int poll_extended(struct walk_cq *q, struct ibv_wc *wc, int most, bool own)
{
	struct ibv_poll_cq_attr none = {0};
	int n = 0, rc = ibv_start_poll(q->ex, &none);

	if (rc == ENOENT)
		return 0;
	CHECK_EQ(rc, 0);
	for (;;) {
		poll_read(q, &wc[n++], own);
		if (n == most)
			break;
		rc = ibv_next_poll(q->ex);
		if (rc == ENOENT)
			break;
		CHECK_EQ(rc, 0);
	}
	ibv_end_poll(q->ex);
	return n;
}

static int poll_some(struct walker *w, int which)
{
	struct walk_cq *q = &w->client->cq[which];
	struct ibv_wc wc[8];
	int most = 1 + (int)pick(w, 8);
	int n = q->ex ? poll_extended(q, wc, most, which != SHARED_CQ)
		      : ibv_poll_cq(q->cq, most, wc);

	CHECK_GE(n, 0);
	client_lock(w->client);
	for (int i = 0; i < n; i++)
		wc_done(w, &wc[i]);
	client_unlock(w->client);
	return n;
}

void walk_poll(struct walker *w, int which)
{
	struct walk_cq *q = &w->client->cq[which];
	int n = poll_some(w, which);

	if (!n || which == SHARED_CQ || !q->armed)
		return;
	uint64_t before = q->events;

	q->armed = false;
	channel_look(w, which);
	CHECK_MSG(q->events > before, "an armed queue got a completion, and there is no event");
}

/* ---- events --------------------------------------------------------------------------------- */

void arm(struct walker *w, int which)
{
	struct walk_cq *q = &w->client->cq[which];
	bool solicited = once_in(w, 3);

	if (!q->channel)
		return;
	__atomic_add_fetch(&q->arms, 1, __ATOMIC_RELAXED);
	CHECK_EQ(ibv_req_notify_cq(q->cq, solicited), 0);
	if (which == SHARED_CQ)
		return;
	uint64_t before = q->events;

	channel_look(w, which);
	/* armed by an earlier call; still valid if no event has arrived since */
	bool armed = q->armed && q->events == before;

	q->armed = !poll_some(w, which) && (armed || !solicited);
}

void channel_look(struct walker *w, int which)
{
	struct walk_cq *q = &w->client->cq[which];
	struct ibv_cq *cq;

	if (!q->channel)
		return;
	while ((cq = vs_cq_event(q->channel, 0))) {
		CHECK(cq == q->cq);
		q->events++;
		ibv_ack_cq_events(cq, 1);
		CHECK_GE(__atomic_load_n(&q->arms, __ATOMIC_RELAXED), q->events);
	}
}

static void async_srq(struct client *c, const struct ibv_srq *srq)
{
	struct walk_srq *s = &c->srq[srq == c->srq[1].srq];

	CHECK(srq == s->srq);
	client_lock(c);
	s->limit_events++;
	CHECK_MSG(s->limit_events <= s->limits, "%u limit events, armed %u times", s->limit_events,
		  s->limits);
	client_unlock(c);
}

void async_look(struct client *c)
{
	struct ibv_async_event e;

	gate_shut(c);
	while (vs_async(c->ctx, &e, 0)) {
		c->events++;
		switch (e.event_type) {
		case IBV_EVENT_SRQ_LIMIT_REACHED:
			async_srq(c, e.element.srq);
			break;
		case IBV_EVENT_COMM_EST:
		case IBV_EVENT_SQ_DRAINED:
		case IBV_EVENT_QP_LAST_WQE_REACHED:
		case IBV_EVENT_QP_ACCESS_ERR:
		case IBV_EVENT_QP_REQ_ERR:
			CHECK_EQ(e.element.qp->context == c->ctx, 1);
			break;
		default:
			FAIL("event %s", ibv_event_type_str(e.event_type));
		}
		ibv_ack_async_event(&e);
	}
	gate_open(c);
}
