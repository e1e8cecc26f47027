/* SPDX-License-Identifier: BSD-3-Clause */
/* Access of requests to memory: keys, bounds, rights and domains, for local, remote and receive
 * buffers, and the status of each violation at both ends. */
#include "tests/conformance/verbs/suite.h"

static const struct {
	enum ibv_wr_opcode opcode;
	const char *name;
} operations[] = {
	{IBV_WR_RDMA_WRITE, "write"},
	{IBV_WR_RDMA_WRITE_WITH_IMM, "write_imm"},
	{IBV_WR_RDMA_READ, "read"},
	{IBV_WR_SEND, "send"},
};

/* The violation. The target is a region of BYTES in the middle of the buffer. */
enum violation { BAD_KEY, BEYOND, BEFORE, FAR, STALE, OTHER_DOMAIN, NO_RIGHT, VIOLATIONS };
static const char *const violation_name[] = {"bad_key",  "one_byte_beyond", "one_byte_before",
					     "far_away", "stale_key",       "other_domain",
					     "no_right"};
#define AT    8192
#define BYTES 1000

static const char *label(int param)
{
	static char text[60];

	snprintf(text, sizeof text, "%s_%s", operations[param / VIOLATIONS].name,
		 violation_name[param % VIOLATIONS]);
	return text;
}

/* A region that end `e` made, so spoilt; NULL when it is no more. */
struct target {
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint64_t address;
	uint32_t lkey, rkey;
};

static void target_make(struct target *t, struct vs_end *e, enum violation v, int rights)
{
	int access = v == NO_RIGHT ? IBV_ACCESS_LOCAL_WRITE & ~rights : rights;

	*t = (struct target){.address = (uintptr_t)e->buffer + AT};
	if (v == OTHER_DOMAIN)
		t->pd = ibv_alloc_pd(e->ctx);
	t->mr = ibv_reg_mr(t->pd ? t->pd : e->pd, e->buffer + AT, BYTES, access);
	CHECK_MSG(t->mr, "%s", strerror(errno));
	t->lkey = t->mr->lkey;
	t->rkey = t->mr->rkey;
	if (v == BEYOND)
		t->address += 1;
	if (v == BEFORE)
		t->address -= 1;
	if (v == FAR)
		t->address += 1ull << 40;
	if (v == BAD_KEY) {
		t->lkey ^= 0x5a;
		t->rkey ^= 0x5a;
	}
	if (v == STALE) {
		CHECK_EQ(ibv_dereg_mr(t->mr), 0);
		t->mr = NULL;
	}
}

static void target_free(struct target *t)
{
	if (t->mr)
		CHECK_EQ(ibv_dereg_mr(t->mr), 0);
	if (t->pd)
		CHECK_EQ(ibv_dealloc_pd(t->pd), 0);
}

/* ---- locally -------------------------------------------------------------------------------- */

/* Nothing leaves, nothing arrives. Reading memory here needs no right, so a write may: not a
 * case. */
CASE(local_violations_are_loc_prot, .count = 4 * VIOLATIONS, .label = label)
{
	enum ibv_wr_opcode opcode = operations[vs_param / VIOLATIONS].opcode;
	enum violation v = vs_param % VIOLATIONS;
	struct vs_pair p;
	struct target t;
	struct vs_wr w;
	struct ibv_sge sge[2];

	vs_pair(&p, &vs_defaults);
	bool read = opcode == IBV_WR_RDMA_READ;

	target_make(&t, &p.end[0], v, IBV_ACCESS_LOCAL_WRITE);
	if (v == NO_RIGHT && read) {
		CHECK_EQ(ibv_dereg_mr(t.mr), 0);
		t.mr = ibv_reg_mr(p.end[0].pd, p.end[0].buffer + AT, BYTES, 0);
		CHECK(t.mr);
		t.lkey = t.mr->lkey;
	}
	memset(p.end[0].buffer, 0x21, 65536);
	memset(p.end[1].buffer, 0x22, 65536);
	vs_recv(&p, 1, 9, 0, 8192);
	vs_fill(&w, &p, 0, opcode, 1, 0, 100);
	sge[0] = w.sge; /* the first entry is good, the second is the one */
	sge[1] = (struct ibv_sge){t.address, BYTES, t.lkey};
	w.wr.sg_list = sge;
	w.wr.num_sge = 2;
	if (v == NO_RIGHT && !read) {
		CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
		vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	} else {
		vs_expect_failure(&p, &w, IBV_WC_LOC_PROT_ERR);
		/* what a READ that failed left inside is not defined */
		vs_expect_bytes(p.end[0].buffer + AT - 10, 10, 0x21);
		vs_expect_bytes(p.end[0].buffer + AT + BYTES, 10, 0x21);
	}
	target_free(&t);
	vs_free(&p);
}

/* ---- from afar ------------------------------------------------------------------------------ */

static int rights_for(enum ibv_wr_opcode opcode)
{
	return IBV_ACCESS_LOCAL_WRITE |
	       (opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
}

/* Makes the violation; the queue pairs are left as they are then. */
static void violate(struct vs_pair *p, struct target *t, enum ibv_wr_opcode opcode,
		    enum violation v)
{
	struct vs_wr w;

	vs_pair(p, &vs_defaults);
	target_make(t, &p->end[1], v, rights_for(opcode));
	if (v == NO_RIGHT) { /* every right but that one */
		CHECK_EQ(ibv_dereg_mr(t->mr), 0);
		t->mr = ibv_reg_mr(p->end[1].pd, p->end[1].buffer + AT, BYTES,
				   IBV_ACCESS_LOCAL_WRITE |
					   (opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_WRITE
								       : IBV_ACCESS_REMOTE_READ));
		CHECK(t->mr);
		t->rkey = t->mr->rkey;
	}
	memset(p->end[0].buffer, 0x21, 65536);
	memset(p->end[1].buffer, 0x22, 65536);
	if (opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		vs_recv(p, 1, 9, 0, 0);
	vs_fill(&w, p, 0, opcode, 1, 0, BYTES);
	w.wr.wr.rdma.remote_addr = t->address;
	w.wr.wr.rdma.rkey = t->rkey;
	vs_expect_failure(p, &w, IBV_WC_REM_ACCESS_ERR);
}

CASE(remote_violations_are_rem_access, .count = 3 * VIOLATIONS, .label = label)
{
	struct vs_pair p;
	struct target t;

	violate(&p, &t, operations[vs_param / VIOLATIONS].opcode, vs_param % VIOLATIONS);
	vs_expect_bytes(p.end[0].buffer, 65536, 0x21);
	vs_expect_bytes(p.end[1].buffer, 65536, 0x22);
	target_free(&t);
	vs_free(&p);
}

static const char *violation_label(int param)
{
	return violation_name[param];
}

CASE(the_violated_end_is_in_error, .count = VIOLATIONS, .label = violation_label)
{
	struct vs_pair p;
	struct target t;

	violate(&p, &t, IBV_WR_RDMA_WRITE, vs_param);
	vs_await_state(p.end[1].qp, IBV_QPS_ERR);
	target_free(&t);
	vs_free(&p);
}

/* The request is refused before it takes a receive, which the end in error then flushes. */
CASE(a_refused_write_with_immediate_flushes_its_receive, .count = VIOLATIONS,
     .label = violation_label)
{
	struct vs_pair p;
	struct target t;

	violate(&p, &t, IBV_WR_RDMA_WRITE_WITH_IMM, vs_param);
	vs_expect(p.end[1].recv_cq, 9, IBV_WC_WR_FLUSH_ERR, NULL);
	target_free(&t);
	vs_free(&p);
}

CASE(the_violated_end_has_an_access_event)
{
	struct vs_pair p;
	struct target t;
	struct ibv_async_event e;

	violate(&p, &t, IBV_WR_RDMA_WRITE, BAD_KEY);
	vs_expect_async(p.end[1].ctx, IBV_EVENT_QP_ACCESS_ERR, &e);
	CHECK(e.element.qp == p.end[1].qp);
	target_free(&t);
	vs_free(&p);
}

CASE(the_bounds_are_exact)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	struct ibv_mr *mr = ibv_reg_mr(p.end[1].pd, p.end[1].buffer + AT, BYTES,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_REMOTE_READ);

	CHECK(mr);
	for (int i = 0; i < 4; i++) {
		vs_fill(&w, &p, 0, i & 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, (uint64_t)i, 0,
			i < 2 ? BYTES : 1);
		w.wr.wr.rdma.remote_addr =
			(uintptr_t)p.end[1].buffer + AT + (i < 2 ? 0 : BYTES - 1);
		w.wr.wr.rdma.rkey = mr->rkey;
		CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
		vs_expect(p.end[0].send_cq, (uint64_t)i, IBV_WC_SUCCESS, NULL);
	}
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&p);
}

CASE(a_message_of_many_packets_that_does_not_fit_writes_nothing)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	memset(p.end[1].buffer, 0x22, 65536);
	struct ibv_mr *mr = ibv_reg_mr(p.end[1].pd, p.end[1].buffer, 20000,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	CHECK(mr);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 1, 0, 20001); /* its first packets would */
	w.wr.wr.rdma.rkey = mr->rkey;
	vs_expect_failure(&p, &w, IBV_WC_REM_ACCESS_ERR);
	vs_expect_bytes(p.end[1].buffer, 65536, 0x22);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&p);
}

CASE(nothing_needs_no_key, .count = 3, .label = NULL)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	if (operations[vs_param].opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		vs_recv(&p, 1, 9, 0, 0);
	vs_fill(&w, &p, 0, operations[vs_param].opcode, 1, 0, 0);
	w.wr.num_sge = 0;
	w.wr.wr.rdma.remote_addr = 0xdead;
	w.wr.wr.rdma.rkey = 0xbeef;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

/* ---- what the queue pair allows ------------------------------------------------------------- */

static const char *operation_label(int param)
{
	return operations[param].name;
}

/* The peer's queue pair allows every operation except this one. */
static void disallowed(struct vs_pair *p, enum ibv_wr_opcode opcode)
{
	struct vs_wr w;
	unsigned int without =
		opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;

	vs_make(p, &vs_defaults);
	struct ibv_qp_attr a = vs_attr(p, 1);

	a.qp_access_flags &= ~without;
	vs_raise(p->end[1].qp, &a, IBV_QPS_RTS);
	vs_connect(p, 0, IBV_QPS_RTS);
	memset(p->end[1].buffer, 0x22, 4096);
	vs_recv(p, 1, 9, 0, 0);
	vs_fill(&w, p, 0, opcode, 1, 0, 100);
	vs_expect_failure(p, &w, IBV_WC_REM_INV_REQ_ERR);
	vs_expect_bytes(p->end[1].buffer, 4096, 0x22);
}

CASE(what_the_queue_pair_does_not_allow_is_rem_inv_req, .count = 3, .label = operation_label)
{
	struct vs_pair p;

	disallowed(&p, operations[vs_param].opcode);
	vs_free(&p);
}

CASE(a_queue_pair_that_got_an_invalid_request_is_in_error)
{
	struct vs_pair p;

	disallowed(&p, IBV_WR_RDMA_WRITE);
	vs_await_state(p.end[1].qp, IBV_QPS_ERR);
	vs_expect(p.end[1].recv_cq, 9, IBV_WC_WR_FLUSH_ERR, NULL);
	vs_free(&p);
}

CASE(a_queue_pair_that_allows_nothing_still_receives)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;

	o.access = 0;
	vs_pair(&p, &o);
	vs_recv(&p, 1, 9, 0, 100);
	vs_send(&p, 0, IBV_WR_SEND, 1, 0, 100);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[1].recv_cq, 9, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

CASE(a_right_is_given_and_taken_while_connected)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct vs_wr w;

	o.access = 0;
	vs_pair(&p, &o);
	struct ibv_qp_attr a = {.qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	CHECK_EQ(ibv_modify_qp(p.end[1].qp, &a, IBV_QP_ACCESS_FLAGS), 0);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	a.qp_access_flags = 0;
	CHECK_EQ(ibv_modify_qp(p.end[1].qp, &a, IBV_QP_ACCESS_FLAGS), 0);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 2, 0, 100);
	vs_expect_failure(&p, &w, IBV_WC_REM_INV_REQ_ERR);
	vs_free(&p);
}

/* A peer without read resources refuses reads. */
CASE(a_read_that_the_peer_has_no_resources_for_is_rem_inv_req)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct vs_wr w;

	o.dest_rd_atomic = 0;
	vs_pair(&p, &o);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_READ, 1, 0, 100);
	vs_expect_failure(&p, &w, IBV_WC_REM_INV_REQ_ERR);
	vs_free(&p);
}

/* ---- receives ------------------------------------------------------------------------------- */

CASE(receives_that_may_not_be_written, .count = VIOLATIONS, .label = violation_label)
{
	struct vs_pair p;
	struct target t;
	struct ibv_wc wc;

	vs_pair(&p, &vs_defaults);
	target_make(&t, &p.end[1], vs_param, IBV_ACCESS_LOCAL_WRITE);
	if (vs_param == NO_RIGHT) {
		CHECK_EQ(ibv_dereg_mr(t.mr), 0);
		t.mr = ibv_reg_mr(p.end[1].pd, p.end[1].buffer + AT, BYTES, IBV_ACCESS_REMOTE_READ);
		CHECK(t.mr);
		t.lkey = t.mr->lkey;
	}
	struct ibv_sge sge = {t.address, BYTES, t.lkey};
	struct ibv_recv_wr wr = {.wr_id = 9, .sg_list = &sge, .num_sge = 1}, *bad;

	memset(p.end[1].buffer, 0x22, 65536);
	CHECK_EQ(ibv_post_recv(p.end[1].qp, &wr, &bad), 0);
	vs_send(&p, 0, IBV_WR_SEND, 1, 0, BYTES);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_REM_OP_ERR, NULL);
	vs_expect(p.end[1].recv_cq, 9, IBV_WC_LOC_PROT_ERR, &wc);
	CHECK_EQ(wc.qp_num, p.end[1].qp->qp_num);
	vs_expect_bytes(p.end[1].buffer, 65536, 0x22);
	vs_await_state(p.end[1].qp, IBV_QPS_ERR);
	target_free(&t);
	vs_free(&p);
}

static const char *too_long_label(int param)
{
	static const char *const name[] = {"by_one", "by_packets", "no_room_at_all"};

	return name[param];
}

CASE(a_message_longer_than_its_receive, .count = 3, .label = too_long_label)
{
	const uint32_t rooms[] = {99, 100, 0}, bytes[] = {100, 20000, 1};
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	memset(p.end[1].buffer, 0x22, 65536);
	vs_recv(&p, 1, 9, 0, rooms[vs_param]);
	vs_send(&p, 0, IBV_WR_SEND, 1, 0, bytes[vs_param]);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_REM_INV_REQ_ERR, NULL);
	vs_expect(p.end[1].recv_cq, 9, IBV_WC_LOC_LEN_ERR, NULL);
	vs_expect_bytes(p.end[1].buffer + rooms[vs_param], 65536 - rooms[vs_param], 0x22);
	vs_await_state(p.end[1].qp, IBV_QPS_ERR);
	vs_await_state(p.end[0].qp, IBV_QPS_ERR);
	vs_free(&p);
}
