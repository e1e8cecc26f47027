/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations: what they do, what refuses them, and their place in the order. */
#include "tests/conformance/verbs/suite.h"

struct atomics {
	struct vs_pair p;
	volatile uint64_t *word; /* end 1's */
	uint64_t *result;        /* end 0's */
};

static void atomics_make_with(struct atomics *t, const struct vs_options *o)
{
	vs_pair(&t->p, o);
	t->word = (volatile uint64_t *)(void *)t->p.end[1].buffer;
	t->result = (uint64_t *)(void *)t->p.end[0].buffer;
}

static void atomics_make(struct atomics *t)
{
	atomics_make_with(t, &vs_defaults);
}

static void atomics_free(struct atomics *t)
{
	vs_free(&t->p);
}

/* On the word at `offset` of end 1, the old value to the same offset of end 0. */
static void atomic_fill(struct atomics *t, struct vs_wr *w, enum ibv_wr_opcode op, uint64_t offset,
			uint64_t compare_add, uint64_t swap)
{
	vs_fill(w, &t->p, 0, op, 5, offset, 8);
	w->wr.wr.atomic.remote_addr = (uintptr_t)t->p.end[1].buffer + offset;
	w->wr.wr.atomic.rkey = t->p.end[1].mr->rkey;
	w->wr.wr.atomic.compare_add = compare_add;
	w->wr.wr.atomic.swap = swap;
}

static uint64_t atomic_do(struct atomics *t, enum ibv_wr_opcode op, uint64_t offset,
			  uint64_t compare_add, uint64_t swap)
{
	struct ibv_wc wc;
	struct vs_wr w;

	atomic_fill(t, &w, op, offset, compare_add, swap);
	CHECK_EQ(vs_post(t->p.end[0].qp, &w.wr), 0);
	vs_expect(t->p.end[0].send_cq, 5, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.opcode, op == IBV_WR_ATOMIC_CMP_AND_SWP ? IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD);
	CHECK_EQ(wc.byte_len, 8);
	return t->result[offset / 8];
}

CASE(fetch_and_add_adds_and_returns_what_was, .needs = NEED(ATOMIC))
{
	struct atomics t;

	atomics_make(&t);
	t.word[1] = 40;
	CHECK_EQ(atomic_do(&t, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 2, 0), 40);
	CHECK_EQ(t.word[1], 42);
	CHECK_EQ(atomic_do(&t, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, UINT64_MAX, 0), 42);
	CHECK_EQ(t.word[1], 41);
	CHECK_EQ(t.word[0], 0);
	CHECK_EQ(t.word[2], 0);
	atomics_free(&t);
}

CASE(compare_and_swap_swaps_only_what_is_equal, .needs = NEED(ATOMIC))
{
	struct atomics t;

	atomics_make(&t);
	t.word[0] = 0x1122334455667788;
	CHECK_EQ(atomic_do(&t, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 1, 9), 0x1122334455667788);
	CHECK_EQ(t.word[0], 0x1122334455667788);
	CHECK_EQ(atomic_do(&t, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 0x1122334455667788, 9),
		 0x1122334455667788);
	CHECK_EQ(t.word[0], 9);
	atomics_free(&t);
}

CASE(the_result_may_be_scattered, .needs = NEED(ATOMIC))
{
	struct atomics t;
	struct vs_wr w;

	atomics_make(&t);
	t.word[0] = 0x0807060504030201;
	struct ibv_sge sge[2] = {{(uintptr_t)t.p.end[0].buffer + 100, 3, t.p.end[0].mr->lkey},
				 {(uintptr_t)t.p.end[0].buffer + 200, 5, t.p.end[0].mr->lkey}};

	atomic_fill(&t, &w, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 0);
	w.wr.sg_list = sge;
	w.wr.num_sge = 2;
	CHECK_EQ(vs_post(t.p.end[0].qp, &w.wr), 0);
	vs_expect(t.p.end[0].send_cq, 5, IBV_WC_SUCCESS, NULL);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(t.p.end[0].buffer[i < 3 ? 100 + i : 200 + i - 3], i + 1);
	atomics_free(&t);
}

CASE(an_atomic_write_writes_eight_bytes, .needs = NEED(ATOMIC) | NEED(ATOMIC_WRITE))
{
	struct atomics t;
	struct ibv_wc wc;
	struct vs_wr w;

	atomics_make(&t);
	t.result[3] = 77;
	vs_fill(&w, &t.p, 0, IBV_WR_ATOMIC_WRITE, 5, 24, 8);
	CHECK_EQ(vs_post(t.p.end[0].qp, &w.wr), 0);
	vs_expect(t.p.end[0].send_cq, 5, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.opcode, IBV_WC_ATOMIC_WRITE);
	CHECK_EQ(t.word[3], 77);
	vs_fill(&w, &t.p, 0, IBV_WR_ATOMIC_WRITE, 6, 24, 16);
	vs_expect_failure(&t.p, &w, IBV_WC_LOC_LEN_ERR);
	atomics_free(&t);
}

/* ---- refusals ------------------------------------------------------------------------------- */

static const enum ibv_wr_opcode both[] = {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD};

CASE(an_address_that_is_not_a_multiple_of_eight_is_an_invalid_request, .needs = NEED(ATOMIC))
{
	for (int i = 0; i < 2; i++) {
		struct atomics t;
		struct vs_wr w;

		atomics_make(&t);
		atomic_fill(&t, &w, both[i], 0, 1, 0);
		w.wr.wr.atomic.remote_addr += 4;
		vs_expect_failure(&t.p, &w, IBV_WC_REM_INV_REQ_ERR);
		CHECK_EQ(vs_state(t.p.end[1].qp), IBV_QPS_ERR);
		CHECK_EQ(t.word[0] | t.word[1], 0);
		atomics_free(&t);
	}
}

CASE(without_the_queue_pairs_flag_it_is_an_invalid_request, .needs = NEED(ATOMIC))
{
	struct vs_options o = vs_defaults;

	o.access &= ~(unsigned int)IBV_ACCESS_REMOTE_ATOMIC;
	for (int i = 0; i < 2; i++) {
		struct atomics t;
		struct vs_wr w;

		atomics_make_with(&t, &o);
		atomic_fill(&t, &w, both[i], 0, 0, 1);
		vs_expect_failure(&t.p, &w, IBV_WC_REM_INV_REQ_ERR);
		CHECK_EQ(t.word[0], 0);
		atomics_free(&t);
	}
}

CASE(a_responder_without_resources_refuses, .needs = NEED(ATOMIC))
{
	struct vs_options o = vs_defaults;
	struct atomics t;
	struct vs_wr w;

	o.dest_rd_atomic = 0;
	atomics_make_with(&t, &o);
	atomic_fill(&t, &w, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 0);
	vs_expect_failure(&t.p, &w, IBV_WC_REM_INV_REQ_ERR);
	atomics_free(&t);
}

CASE(a_requester_without_resources_fails_itself, .needs = NEED(ATOMIC))
{
	struct vs_options o = vs_defaults;
	struct atomics t;
	struct vs_wr w;

	o.rd_atomic = 0;
	atomics_make_with(&t, &o);
	atomic_fill(&t, &w, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 0);
	vs_expect_failure(&t.p, &w, IBV_WC_LOC_QP_OP_ERR);
	CHECK_EQ(t.word[0], 0);
	atomics_free(&t);
}

CASE(without_the_regions_right_it_is_an_access_error, .needs = NEED(ATOMIC))
{
	struct vs_options o = vs_defaults;

	o.mr_access &= ~(unsigned int)IBV_ACCESS_REMOTE_ATOMIC;
	for (int i = 0; i < 2; i++) {
		struct atomics t;
		struct vs_wr w;

		atomics_make_with(&t, &o);
		atomic_fill(&t, &w, both[i], 0, 0, 1);
		vs_expect_failure(&t.p, &w, IBV_WC_REM_ACCESS_ERR);
		CHECK_EQ(vs_state(t.p.end[1].qp), IBV_QPS_ERR);
		atomics_free(&t);
	}
}

CASE(outside_of_the_region_it_is_an_access_error, .needs = NEED(ATOMIC))
{
	struct atomics t;
	struct vs_wr w;

	atomics_make(&t);
	atomic_fill(&t, &w, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 0);
	w.wr.wr.atomic.remote_addr += t.p.options.buffer_bytes;
	vs_expect_failure(&t.p, &w, IBV_WC_REM_ACCESS_ERR);
	atomics_free(&t);
}

static const uint32_t result_sizes[] = {0, 4, 7, 9, 16, 64, 4096};

static const char *size_label(int param)
{
	static const char *const names[] = {"0", "4", "7", "9", "16", "64", "4096"};

	return names[param];
}

CASE(a_result_of_another_size_is_a_local_length_error, .needs = NEED(ATOMIC), .count = 7,
     .label = size_label)
{
	struct atomics t;
	struct vs_wr w;

	atomics_make(&t);
	atomic_fill(&t, &w, both[vs_param % 2], 0, 0, 1);
	w.sge.length = result_sizes[vs_param];
	vs_expect_failure(&t.p, &w, IBV_WC_LOC_LEN_ERR);
	CHECK_EQ(t.word[0], 0);
	atomics_free(&t);
}

CASE(a_result_without_local_write_is_a_protection_error, .needs = NEED(ATOMIC))
{
	struct atomics t;
	struct vs_wr w;

	atomics_make(&t);
	struct ibv_mr *mr = ibv_reg_mr(t.p.end[0].pd, t.p.end[0].buffer, 4096, 0);

	CHECK(mr);
	atomic_fill(&t, &w, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 0);
	w.sge.lkey = mr->lkey;
	vs_expect_failure(&t.p, &w, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(t.word[0], 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	atomics_free(&t);
}

CASE(a_result_under_a_bad_key_is_a_protection_error, .needs = NEED(ATOMIC))
{
	struct atomics t;
	struct vs_wr w;

	atomics_make(&t);
	atomic_fill(&t, &w, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 0);
	w.sge.lkey ^= 0x5a;
	vs_expect_failure(&t.p, &w, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(t.word[0], 0);
	atomics_free(&t);
}

CASE(inline_makes_no_sense, .needs = NEED(ATOMIC))
{
	struct atomics t;
	struct vs_wr w;

	atomics_make(&t);
	atomic_fill(&t, &w, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 0);
	w.wr.send_flags |= IBV_SEND_INLINE;
	CHECK_EQ(vs_post(t.p.end[0].qp, &w.wr), EINVAL);
	atomics_free(&t);
}

/* ---- order ---------------------------------------------------------------------------------- */

/* Many together, more than max_rd_atomic allows: each sees what the one before left. */
CASE(atomics_of_a_queue_pair_are_executed_in_order, .needs = NEED(ATOMIC))
{
	struct atomics t;
	struct vs_wr w;

	atomics_make(&t);
	for (uint64_t i = 0; i < 12; i++) {
		atomic_fill(&t, &w, both[i % 2], 0, i % 2 ? 1 : i, i + 1);
		w.wr.wr_id = i;
		w.sge.addr += i * 8;
		CHECK_EQ(vs_post(t.p.end[0].qp, &w.wr), 0);
	}
	for (uint64_t i = 0; i < 12; i++) {
		vs_expect(t.p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
		CHECK_EQ(t.result[i], i);
	}
	CHECK_EQ(t.word[0], 12);
	atomics_free(&t);
}

/* WRITE, atomic, WRITE of one word: the responder does them in order of packet numbers. */
CASE(writes_around_an_atomic_keep_their_places, .needs = NEED(ATOMIC))
{
	struct atomics t;
	struct vs_wr w;

	atomics_make(&t);
	t.result[0] = 100, t.result[1] = 200;
	vs_fill(&w, &t.p, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	CHECK_EQ(vs_post(t.p.end[0].qp, &w.wr), 0);
	atomic_fill(&t, &w, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 5, 0);
	w.sge.addr += 16;
	CHECK_EQ(vs_post(t.p.end[0].qp, &w.wr), 0);
	atomic_fill(&t, &w, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 6, 0);
	w.sge.addr += 24;
	CHECK_EQ(vs_post(t.p.end[0].qp, &w.wr), 0);
	vs_fill(&w, &t.p, 0, IBV_WR_RDMA_WRITE, 2, 8, 8);
	w.wr.wr.rdma.remote_addr -= 8;
	CHECK_EQ(vs_post(t.p.end[0].qp, &w.wr), 0);
	vs_expect(t.p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(t.p.end[0].send_cq, 5, IBV_WC_SUCCESS, NULL);
	vs_expect(t.p.end[0].send_cq, 5, IBV_WC_SUCCESS, NULL);
	vs_expect(t.p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	CHECK_EQ(t.result[2], 100);
	CHECK_EQ(t.result[3], 105);
	CHECK_EQ(t.word[0], 200);
	atomics_free(&t);
}

/* A fence makes a SEND wait for the atomic's result, which it sends. */
CASE(a_fence_waits_for_atomics, .needs = NEED(ATOMIC))
{
	struct atomics t;
	struct vs_wr w;

	atomics_make(&t);
	t.word[0] = 0xabcdef;
	vs_recv(&t.p, 1, 3, 4096, 8);
	atomic_fill(&t, &w, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 0);
	CHECK_EQ(vs_post(t.p.end[0].qp, &w.wr), 0);
	vs_fill(&w, &t.p, 0, IBV_WR_SEND, 6, 0, 8);
	w.wr.send_flags |= IBV_SEND_FENCE;
	CHECK_EQ(vs_post(t.p.end[0].qp, &w.wr), 0);
	vs_expect(t.p.end[1].recv_cq, 3, IBV_WC_SUCCESS, NULL);
	CHECK_EQ(t.word[512], 0xabcdef);
	vs_expect(t.p.end[0].send_cq, 5, IBV_WC_SUCCESS, NULL);
	vs_expect(t.p.end[0].send_cq, 6, IBV_WC_SUCCESS, NULL);
	atomics_free(&t);
}
