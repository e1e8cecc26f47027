/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: bound and invalidated by requests of a queue pair. */
#include "tests/fuzz/verbs_walk/walk.h"

static struct request *bind_begin(struct walk_qp *q, enum kind kind)
{
	struct queue *s = &q->send;

	if (s->head - s->tail == DEPTH)
		return NULL;
	struct request *r = &s->r[s->head % DEPTH];

	*r = (struct request){.seq = s->head++, .kind = kind, .signaled = true};
	return r;
}

/* Binds a window of type 1 on a region that is registered only for it. */
static void bind_type_1(struct walker *w, struct walk_qp *q)
{
	struct client *c = w->client;

	client_lock(c);
	uint32_t held = q->send.head - q->send.tail;

	client_unlock(c);
	if (held == DEPTH)
		return;
	uint8_t *at = message_of(w, q, false, q->send.head);
	struct ibv_mr *mr =
		ibv_reg_mr(w->pd, at, MESSAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(w->pd, IBV_MW_TYPE_1);

	CHECK(mr && mw);
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {.mr = mr,
						 .addr = (uintptr_t)at,
						 .length = MESSAGE,
						 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};

	client_lock(c);
	struct request *r = bind_begin(q, BIND_1);

	r->own = mr;
	r->window = mw;
	bind.wr_id = id_make(q->serial, false, r->seq);
	client_unlock(c);
	CHECK_EQ(ibv_bind_mw(q->qp, mw, &bind), 0);
}

/* Binds a window of type 2 on the memory to which this queue pair's peer writes. */
static void bind_type_2(struct walker *w, struct walk_qp *q)
{
	struct client *c = w->client;
	uint64_t at = (uintptr_t)c->buffer + slot_offset(q->peer, q->peer_slot, q->peer_generation);

	if (!q->mw) {
		q->mw = ibv_alloc_mw(w->pd, IBV_MW_TYPE_2);
		CHECK_MSG(q->mw, "ibv_alloc_mw: %s", strerror(errno));
		q->mw_key = q->mw->rkey;
	}
	uint32_t key = ibv_inc_rkey(q->mw_key);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {.mw = q->mw,
			    .rkey = key,
			    .bind_info = {.mr = c->mr,
					  .addr = at,
					  .length = SLOT,
					  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE |
							     IBV_ACCESS_REMOTE_READ}}};

	client_lock(c);
	struct request *r = bind_begin(q, BIND);

	if (r) {
		wr.wr_id = id_make(q->serial, false, r->seq);
		r->number = key;
		q->mw_key = key;
		q->mw_state = MW_BINDING;
	}
	client_unlock(c);
	if (r)
		CHECK_EQ(post_list(w, q, &wr), 0);
}

static void bind_undo(struct walker *w, struct walk_qp *q)
{
	struct client *c = w->client;
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV,
				 .send_flags = IBV_SEND_SIGNALED,
				 .invalidate_rkey = q->mw_key};

	client_lock(c);
	struct request *r = bind_begin(q, INV);

	if (r) {
		wr.wr_id = id_make(q->serial, false, r->seq);
		r->number = q->mw_key;
		q->mw_state = MW_ENDING;
	}
	client_unlock(c);
	if (r)
		CHECK_EQ(post_list(w, q, &wr), 0);
}

void bind_post(struct walker *w, struct walk_qp *q)
{
	if (q->type != IBV_QPT_RC)
		return;
	if (vs_has(VS_NEED_MW1) && once_in(w, 3)) {
		bind_type_1(w, q);
		return;
	}
	client_lock(w->client);
	bool is_free = q->mw_state == MW_FREE, is_bound = q->mw_state == MW_BOUND;

	client_unlock(w->client);
	if (is_free)
		bind_type_2(w, q);
	else if (is_bound)
		bind_undo(w, q);
}
