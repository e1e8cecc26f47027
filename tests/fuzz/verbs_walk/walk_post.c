/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends: drawn, recorded, and posted as a list or through ibv_wr_*. */

#include "tests/fuzz/verbs_walk/walk.h"

static const enum ibv_wr_opcode post_opcode[] = {
	[SEND] = IBV_WR_SEND,
	[SEND_INV] = IBV_WR_SEND_WITH_INV,
	[WRITE] = IBV_WR_RDMA_WRITE,
	[WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
	[READ] = IBV_WR_RDMA_READ,
	[ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	[CAS] = IBV_WR_ATOMIC_CMP_AND_SWP,
	[BIND] = IBV_WR_BIND_MW,
	[INV] = IBV_WR_LOCAL_INV,
	[BAD_LOCAL] = IBV_WR_SEND,
	[BAD_REMOTE] = IBV_WR_RDMA_WRITE,
	[BAD_BIND] = IBV_WR_LOCAL_INV,
};

/* ---- regions and windows of one request ----------------------------------------------------- */

void trash_request(struct walker *owner, struct request *r)
{
	if (!r->own && !r->window)
		return;
	CHECK(owner->trash_count < TRASH);
	owner->trash[owner->trash_count++] =
		(struct trash){.mw = r->window, .mr = r->own, .busy = r->known && r->window};
	r->own = NULL;
	r->window = NULL;
}

void trash_empty(struct walker *w)
{
	for (;;) {
		struct trash t = {.mr = NULL};

		client_lock(w->client);
		if (w->trash_count)
			t = w->trash[--w->trash_count];
		client_unlock(w->client);
		if (!t.mr)
			return;
		if (t.busy)
			CHECK_CODE(ibv_dereg_mr(t.mr), EBUSY);
		if (t.mw)
			CHECK_EQ(ibv_dealloc_mw(t.mw), 0);
		CHECK_EQ(ibv_dereg_mr(t.mr), 0);
	}
}

/* Registers a region for this memory alone, directly or by rereg of another region. */
static struct ibv_mr *post_own_region(struct walker *w, uint8_t *at, size_t bytes)
{
	int access = IBV_ACCESS_LOCAL_WRITE;
	bool again = vs_has(VS_NEED_REREG) && once_in(w, 3);
	struct ibv_mr *mr = ibv_reg_mr(w->client->pd, again ? w->client->buffer : at, bytes,
				       again ? 0 : access);

	CHECK_MSG(mr, "ibv_reg_mr: %s", strerror(errno));
	if (again) {
		uint32_t old = mr->lkey;

		CHECK_EQ(ibv_rereg_mr(mr,
				      IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS,
				      NULL, at, bytes, access),
			 0);
		CHECK(mr->lkey != old);
	}
	return mr;
}

/* ---- draw a send ---------------------------------------------------------------------------- */

/* Publishes this queue pair's bound window, and returns the peer's; 0 if the peer has no window. */
static uint32_t window_look(struct walker *w, struct walk_qp *q)
{
	struct walk *walk = w->client->walk;
	struct advert *theirs = &walk->client[q->peer].advert[q->peer_slot];
	uint32_t found = 0;

	client_lock(w->client);
	uint32_t own = q->mw_state == MW_BOUND ? q->mw_key : 0;

	client_unlock(w->client);
	board_lock(walk);
	if (own != q->mw_shown) {
		struct advert *mine = &w->client->advert[slot_index(w, q)];

		mine->window = own;
		mine->qpn = q->qp->qp_num;
		q->mw_shown = own;
	}
	if (theirs->qpn == q->peer_qpn && !theirs->free)
		found = theirs->window;
	board_unlock(walk);
	return found;
}

static enum kind kind_draw(struct walker *w, const struct walk_qp *q, uint32_t window)
{
	uint32_t n = pick(w, 100);
	bool rc = q->type == IBV_QPT_RC, bad = has(w, F_BAD);

	if (n < 1)
		return bad ? BAD_LOCAL : SEND;
	if (n < 2)
		return bad ? BAD_REMOTE : WRITE;
	if (n < 3)
		return bad && rc && has(w, F_WINDOW) && once_in(w, 3) ? BAD_BIND : SEND;
	if (n < 6)
		return window ? SEND_INV : SEND;
	if (n < 30)
		return SEND;
	if (n < 55)
		return WRITE;
	if (n < 70 || q->type == IBV_QPT_UC)
		return WRITE_IMM;
	if (n < 85 || !has(w, F_ATOMIC))
		return READ;
	return n < 95 ? ADD : CAS;
}

struct built {
	struct ibv_send_wr wr[CHAIN];
	struct ibv_sge sge[CHAIN][2];
};

static void fill_atomic(struct walk_qp *q, struct request *r, struct ibv_send_wr *wr, uint64_t at,
			uint32_t rkey)
{
	wr->wr.atomic.remote_addr = at;
	wr->wr.atomic.rkey = rkey;
	r->bytes = 8;
	if (r->kind == CAS && !q->count_known) {
		r->kind = ADD;
		wr->opcode = post_opcode[ADD];
	}
	r->known = q->count_known;
	r->count = q->count;
	if (r->kind == ADD) {
		wr->wr.atomic.compare_add = 1 + r->key;
		q->count += 1 + r->key;
	} else {
		wr->wr.atomic.compare_add = q->count;
		wr->wr.atomic.swap = r->key;
		q->count = r->key;
	}
}

/* Writes the request's pattern; a request of the null region sends zeroes. */
static void fill_pattern(struct walker *w, const struct walk_qp *q, const struct request *r)
{
	uint8_t *message = message_of(w, q, false, r->seq);

	if (!r->null)
		vs_pattern(message, r->bytes, r->key);
}

static void fill_write(struct walker *w, struct walk_qp *q, struct request *r)
{
	fill_pattern(w, q, r);
	if (r->dead)
		return;
	if (r->bytes == SLOT - 8)
		q->data_known = true;
	if (r->null)
		memset(q->shadow, 0, r->bytes);
	else
		memcpy(q->shadow, message_of(w, q, false, r->seq), r->bytes);
	q->writes++;
}

/* Returns the key of the peer for a write or read: a window's, an invalidated one, or 0 for the
 * region. */
static uint32_t fill_key(struct walker *w, struct walk_qp *q, struct request *r, uint32_t window)
{
	if (r->kind != WRITE && r->kind != READ)
		return 0;
	if (q->dead_key && r->kind == WRITE && has(w, F_BAD) && once_in(w, 20)) {
		r->dead = true;
		return q->dead_key;
	}
	r->windowed = window && once_in(w, 2);
	return r->windowed ? window : 0;
}

/* Completes the request and its record. The caller holds the client's lock. */
static void fill_kind(struct walker *w, struct walk_qp *q, struct request *r,
		      struct ibv_send_wr *wr, uint32_t window)
{
	const struct client *p = &w->client->walk->client[q->peer];
	uint64_t slot = (uintptr_t)p->buffer +
			slot_offset(w->client->number, slot_index(w, q), q->generation);
	uint32_t key = fill_key(w, q, r, window);

	wr->wr.rdma.remote_addr = slot + 8;
	wr->wr.rdma.rkey = key ? key : p->mr->rkey;
	switch (r->kind) {
	case ADD:
	case CAS:
		fill_atomic(q, r, wr, slot, p->mr->rkey);
		break;
	case READ:
		r->known = q->data_known && !r->null;
		r->count = q->writes;
		if (!r->null)
			memset(message_of(w, q, false, r->seq), 0xcc, r->bytes);
		break;
	case WRITE_IMM:
		r->number = q->messages++;
		wr->imm_data = htobe32(r->number);
		fill_write(w, q, r);
		break;
	case WRITE:
		fill_write(w, q, r);
		break;
	case SEND_INV:
		wr->invalidate_rkey = q->dead_key = window;
		r->number = q->messages++;
		fill_pattern(w, q, r);
		break;
	case SEND:
		if (r->with_imm)
			wr->opcode = IBV_WR_SEND_WITH_IMM;
		r->number = q->messages++;
		wr->imm_data = htobe32(r->number);
		fill_pattern(w, q, r);
		break;
	case BAD_REMOTE:
		wr->wr.rdma.rkey = p->mr->rkey ^ 0x5a;
		break;
	case BAD_BIND:
		wr->invalidate_rkey = 0xfffffff0;
		break;
	default:
		break;
	}
}

static void fill_entries(struct walker *w, const struct walk_qp *q, const struct request *r,
			 struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	const struct client *c = w->client;
	uintptr_t at = (uintptr_t)message_of(w, q, false, r->seq);
	uint32_t lkey = r->own ? r->own->lkey : r->null ? c->null->lkey : c->mr->lkey;
	uint32_t half = r->bytes > 1 && once_in(w, 4) ? 1 + pick(w, r->bytes - 1) : r->bytes;

	if (r->kind == BAD_LOCAL)
		lkey ^= 0x5a;
	if (r->kind == ADD || r->kind == CAS)
		half = r->bytes;
	wr->sg_list = sge;
	wr->num_sge = half < r->bytes ? 2 : 1;
	sge[0] = (struct ibv_sge){at, half, lkey};
	sge[1] = (struct ibv_sge){at + half, r->bytes - half, lkey};
	if (r->kind == BAD_BIND)
		wr->num_sge = 0;
	bool plain = r->kind == SEND || r->kind == WRITE || r->kind == WRITE_IMM;

	if (plain && r->bytes <= 32 && !r->null)
		wr->send_flags |= IBV_SEND_INLINE;
}

static void send_fill(struct walker *w, struct walk_qp *q, struct request *r,
		      struct ibv_send_wr *wr, struct ibv_sge *sge, uint32_t window)
{
	*wr = (struct ibv_send_wr){.wr_id = id_make(q->serial, false, r->seq),
				   .opcode = post_opcode[r->kind]};
	if (q->type == IBV_QPT_XRC_SEND)
		wr->qp_type.xrc.remote_srqn = q->peer_srqn;
	fill_kind(w, q, r, wr, window);
	if (r->signaled)
		wr->send_flags |= IBV_SEND_SIGNALED;
	if (once_in(w, 8))
		wr->send_flags |= IBV_SEND_FENCE;
	if (once_in(w, 8))
		wr->send_flags |= IBV_SEND_SOLICITED;
	fill_entries(w, q, r, wr, sge);
}

static struct request send_draw(struct walker *w, const struct walk_qp *q, uint32_t seq,
				uint32_t held, uint32_t window)
{
	enum kind kind = kind_draw(w, q, window);
	bool message = kind == SEND || kind == SEND_INV || kind == BAD_LOCAL;
	uint32_t most = message ? MESSAGE : SLOT - 8;
	struct request r = {.seq = seq, .kind = kind, .key = pick(w, 200)};

	r.bytes = once_in(w, 3) ? 1 + pick(w, most) : most;
	if (kind == SEND && once_in(w, 30))
		r.bytes = 0;
	r.with_imm = once_in(w, 2);
	/* an error cannot be attributed after an unsignaled request, unless completions are seen in
	 * order */
	r.signaled = q->send.loose || held >= DEPTH - 2 || !once_in(w, 3) || kind == READ ||
		     kind == ADD || kind == CAS;
	bool data = message || kind == WRITE || kind == READ;

	if (kind == SEND || kind == WRITE || kind == READ)
		r.null = has(w, F_NULL_MR) && once_in(w, 40);
	if (data && kind != BAD_LOCAL && !r.null && r.bytes && has(w, F_TEMPORARY) &&
	    once_in(w, 20))
		r.own = post_own_region(w, message_of(w, q, false, seq), r.bytes);
	return r;
}

/* ---- posts ---------------------------------------------------------------------------------- */

static void post_builder_op(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(ex);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(ex, wr->imm_data);
		break;
	case IBV_WR_SEND_WITH_INV:
		ibv_wr_send_inv(ex, wr->invalidate_rkey);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
				      wr->wr.atomic.compare_add, wr->wr.atomic.swap);
		break;
	case IBV_WR_BIND_MW:
		ibv_wr_bind_mw(ex, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		break;
	case IBV_WR_LOCAL_INV:
		ibv_wr_local_inv(ex, wr->invalidate_rkey);
		break;
	default:
		FAIL("no builder for opcode %d", wr->opcode);
	}
}

static void post_builder_data(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
	if (wr->send_flags & IBV_SEND_INLINE) {
		struct ibv_data_buf list[2];

		for (int i = 0; i < wr->num_sge; i++)
			list[i] = (struct ibv_data_buf){(void *)(uintptr_t)wr->sg_list[i].addr,
							wr->sg_list[i].length};
		ibv_wr_set_inline_data_list(ex, (size_t)wr->num_sge, list);
	} else if (wr->num_sge == 1) {
		ibv_wr_set_sge(ex, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
	} else {
		ibv_wr_set_sge_list(ex, (size_t)wr->num_sge, wr->sg_list);
	}
}

static void post_build(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr, bool xrc)
{
	ex->wr_id = wr->wr_id;
	ex->wr_flags = wr->send_flags & ~(unsigned int)IBV_SEND_INLINE;
	post_builder_op(ex, wr);
	if (wr->num_sge)
		post_builder_data(ex, wr);
	if (xrc)
		ibv_wr_set_xrc_srqn(ex, wr->qp_type.xrc.remote_srqn);
}

int post_list(struct walker *w, struct walk_qp *q, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	struct ibv_qp_ex *ex = q->extended && !once_in(w, 4) ? ibv_qp_to_qp_ex(q->qp) : NULL;

	if (!ex)
		return ibv_post_send(q->qp, wr, &bad);
	bool twice = once_in(w, 10);

	ibv_wr_start(ex);
	for (const struct ibv_send_wr *i = wr; i; i = i->next) {
		post_build(ex, i, q->type == IBV_QPT_XRC_SEND);
		if (twice) { /* starts, aborts, and starts again */
			ibv_wr_abort(ex);
			ibv_wr_start(ex);
			twice = false;
			i = wr;
			post_build(ex, i, q->type == IBV_QPT_XRC_SEND);
		}
	}
	return ibv_wr_complete(ex);
}

void send_post(struct walker *w, struct walk_qp *q)
{
	struct client *c = w->client;
	struct queue *s = &q->send;
	struct built b;
	struct request made[CHAIN];
	uint32_t window = q->type == IBV_QPT_RC && has(w, F_WINDOW) ? window_look(w, q) : 0;

	client_lock(c);
	uint32_t held = s->head - s->tail, n = 1 + pick(w, CHAIN);

	client_unlock(c);
	if (n > DEPTH - held)
		n = DEPTH - held;
	if (!n)
		return;
	for (uint32_t i = 0; i < n; i++)
		made[i] = send_draw(w, q, s->head + i, held + i, window);
	client_lock(c);
	for (uint32_t i = 0; i < n; i++) {
		struct request *r = &s->r[made[i].seq % DEPTH];

		*r = made[i];
		send_fill(w, q, r, &b.wr[i], b.sge[i], window);
		if (i)
			b.wr[i - 1].next = &b.wr[i];
		if (r->kind == SEND_INV)
			window = 0;
	}
	s->head += n;
	client_unlock(c);
	CHECK_EQ(post_list(w, q, b.wr), 0);
}

void send_post_last(struct walker *w, struct walk_qp *q)
{
	struct client *c = w->client;
	struct queue *s = &q->send;
	struct built b;
	bool room;

	client_lock(c);
	room = s->head - s->tail < DEPTH;
	if (room) {
		struct request *r = &s->r[s->head % DEPTH];

		*r = (struct request){.seq = s->head++, .kind = SEND, .signaled = true, .bytes = 1};
		send_fill(w, q, r, b.wr, b.sge[0], 0);
	}
	client_unlock(c);
	if (room)
		CHECK_EQ(post_list(w, q, b.wr), 0);
}
