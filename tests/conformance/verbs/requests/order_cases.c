/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of operations: within a send queue, between both ends, with and without fences. */
#include "tests/conformance/verbs/suite.h"

CASE(receives_are_taken_in_the_order_of_their_posts)
{
	struct vs_pair p;
	struct ibv_wc wc;

	vs_pair(&p, &vs_defaults);
	for (uint64_t i = 0; i < 10; i++)
		vs_recv(&p, 1, 100 + i, 1000 * i, 1000);
	for (uint64_t i = 0; i < 10; i++) {
		vs_pattern(p.end[0].buffer + 1000 * i, 1000, (uint32_t)i);
		vs_send(&p, 0, IBV_WR_SEND_WITH_IMM, i, 1000 * i, 500 + 10 * (uint32_t)i);
	}
	for (uint64_t i = 0; i < 10; i++) {
		vs_expect(p.end[1].recv_cq, 100 + i, IBV_WC_SUCCESS, &wc);
		CHECK_EQ(be32toh(wc.imm_data), i);
		CHECK_EQ(wc.byte_len, 500 + 10 * i);
		vs_expect_pattern(p.end[1].buffer + 1000 * i, 500 + 10 * i, (uint32_t)i);
	}
	vs_free(&p);
}

/* Bytes written before a SEND on the same queue pair are visible when the SEND's receive
 * completes. */
CASE(writes_are_seen_before_the_send_behind_them)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct vs_wr w;

	o.mtu = IBV_MTU_256;
	vs_pair(&p, &o);
	for (uint32_t round = 1; round <= 8; round++) {
		vs_pattern(p.end[0].buffer, 50000, round);
		vs_recv(&p, 1, round, 100000, 8);
		for (uint64_t i = 0; i < 5; i++) {
			vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, i, 10000 * i, 10000);
			w.wr.send_flags = 0;
			CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
		}
		vs_send(&p, 0, IBV_WR_SEND, round, 200000, 8);
		vs_expect(p.end[1].recv_cq, round, IBV_WC_SUCCESS, NULL);
		vs_expect_pattern(p.end[1].buffer, 50000, round);
		vs_expect(p.end[0].send_cq, round, IBV_WC_SUCCESS, NULL);
	}
	vs_free(&p);
}

CASE(a_write_is_seen_before_its_own_immediate)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;

	o.mtu = IBV_MTU_256;
	vs_pair(&p, &o);
	for (uint32_t round = 1; round <= 8; round++) {
		vs_pattern(p.end[0].buffer, 70000, round);
		vs_recv(&p, 1, round, 0, 0);
		vs_send(&p, 0, IBV_WR_RDMA_WRITE_WITH_IMM, round, 0, 70000);
		vs_expect(p.end[1].recv_cq, round, IBV_WC_SUCCESS, NULL);
		vs_expect_pattern(p.end[1].buffer, 70000, round);
		vs_expect(p.end[0].send_cq, round, IBV_WC_SUCCESS, NULL);
	}
	vs_free(&p);
}

CASE(data_before_an_immediate_alone)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	for (uint32_t round = 1; round <= 8; round++) {
		vs_pattern(p.end[0].buffer, 30000, round);
		vs_recv(&p, 1, round, 0, 0);
		vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, round, 0, 30000);
		w.wr.send_flags = 0;
		CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
		vs_send(&p, 0, IBV_WR_RDMA_WRITE_WITH_IMM, round, 0, 0);
		vs_expect(p.end[1].recv_cq, round, IBV_WC_SUCCESS, NULL);
		vs_expect_pattern(p.end[1].buffer, 30000, round);
		vs_expect(p.end[0].send_cq, round, IBV_WC_SUCCESS, NULL);
	}
	vs_free(&p);
}

CASE(a_later_write_wins)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	for (uint32_t i = 0; i < 10; i++) {
		memset(p.end[0].buffer + 4096 * i, (int)(i + 1), 4096);
		vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, i, 4096 * i, 4096);
		w.wr.wr.rdma.remote_addr = (uintptr_t)p.end[1].buffer;
		CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	}
	for (uint64_t i = 0; i < 10; i++)
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	vs_expect_bytes(p.end[1].buffer, 4096, 10);
	vs_free(&p);
}

CASE(a_read_sees_the_write_before_it)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	for (uint32_t round = 1; round <= 6; round++) {
		vs_pattern(p.end[0].buffer, 9000, round);
		vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 1, 0, 9000);
		w.wr.send_flags = 0;
		CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
		vs_fill(&w, &p, 0, IBV_WR_RDMA_READ, 2, 20000, 9000);
		w.wr.wr.rdma.remote_addr = (uintptr_t)p.end[1].buffer;
		CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
		vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
		vs_expect_pattern(p.end[0].buffer + 20000, 9000, round);
	}
	vs_free(&p);
}

/* Without the fence the WRITE might carry what was there before the READ. */
CASE(a_fence_waits_for_the_read)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	for (uint32_t round = 1; round <= 6; round++) {
		vs_pattern(p.end[1].buffer, 9000, round);
		memset(p.end[0].buffer, 0, 9000);
		vs_send(&p, 0, IBV_WR_RDMA_READ, 1, 0, 9000);
		vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 2, 0, 9000);
		w.wr.wr.rdma.remote_addr += 20000;
		w.wr.send_flags |= IBV_SEND_FENCE;
		CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
		vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
		vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
		vs_expect_pattern(p.end[1].buffer + 20000, 9000, round);
	}
	vs_free(&p);
}

CASE(a_fence_before_a_send)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	vs_pattern(p.end[1].buffer, 9000, 1);
	vs_recv(&p, 1, 9, 30000, 9000);
	vs_send(&p, 0, IBV_WR_RDMA_READ, 1, 0, 9000);
	vs_fill(&w, &p, 0, IBV_WR_SEND, 2, 0, 9000);
	w.wr.send_flags |= IBV_SEND_FENCE;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[1].recv_cq, 9, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer + 30000, 9000, 1);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

CASE(a_fence_without_a_read_is_no_matter)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	for (uint64_t i = 0; i < 4; i++) {
		vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, i, 0, 100);
		w.wr.send_flags |= IBV_SEND_FENCE;
		CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	}
	for (uint64_t i = 0; i < 4; i++)
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

/* A small READ after a large one does not overtake it, nor does a WRITE complete first. */
CASE(completions_do_not_overtake)
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	vs_send(&p, 0, IBV_WR_RDMA_READ, 1, 0, 500000);
	vs_send(&p, 0, IBV_WR_RDMA_READ, 2, 600000, 1);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 3, 700000, 1);
	vs_send(&p, 0, IBV_WR_RDMA_READ, 4, 600000, 1);
	for (uint64_t i = 1; i <= 4; i++)
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

/* The completion of a WRITE means that the peer's HCA has it: the peer may read it. */
CASE(a_completed_write_is_in_the_peers_memory)
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	for (uint32_t round = 1; round <= 20; round++) {
		vs_pattern(p.end[0].buffer, 3000, round);
		vs_send(&p, 0, IBV_WR_RDMA_WRITE, round, 0, 3000);
		vs_expect(p.end[0].send_cq, round, IBV_WC_SUCCESS, NULL);
		vs_expect_pattern(p.end[1].buffer, 3000, round);
	}
	vs_free(&p);
}

/* A buffer is the program's again when its request is complete. */
CASE(a_completed_buffer_is_free)
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	for (uint32_t round = 0; round < 30; round++) {
		vs_pattern(p.end[0].buffer, 2000, round);
		vs_recv(&p, 1, round, 0, 2000);
		vs_send(&p, 0, IBV_WR_SEND, round, 0, 2000);
		vs_expect(p.end[0].send_cq, round, IBV_WC_SUCCESS, NULL);
		memset(p.end[0].buffer, 0xff, 2000);
		vs_expect(p.end[1].recv_cq, round, IBV_WC_SUCCESS, NULL);
		vs_expect_pattern(p.end[1].buffer, 2000, round);
	}
	vs_free(&p);
}

/* A word that travels back and forth, each end answering in its own thread. */
struct rally {
	struct vs_pair p;
	int rounds;
};

static void rally_answer(void *arg)
{
	struct rally *r = arg;

	for (int i = 0; i < r->rounds; i++) {
		vs_expect(r->p.end[1].recv_cq, (uint64_t)i, IBV_WC_SUCCESS, NULL);
		vs_expect_bytes(r->p.end[1].buffer, 512, (uint8_t)i);
		memset(r->p.end[1].buffer + 4096, i, 512);
		if (i + 2 < r->rounds)
			vs_recv(&r->p, 1, (uint64_t)i + 2, 0, 512);
		vs_send(&r->p, 1, IBV_WR_SEND, (uint64_t)i, 4096, 512);
		vs_expect(r->p.end[1].send_cq, (uint64_t)i, IBV_WC_SUCCESS, NULL);
	}
}

CASE(two_threads_play_ping_pong)
{
	static struct rally r;

	r.rounds = 40;
	vs_pair(&r.p, &vs_defaults);
	vs_recv(&r.p, 1, 0, 0, 512);
	vs_recv(&r.p, 1, 1, 0, 512);
	struct vs_thread *t = vs_thread_start(rally_answer, &r);

	for (int i = 0; i < r.rounds; i++) {
		memset(r.p.end[0].buffer, i, 512);
		vs_recv(&r.p, 0, (uint64_t)i, 4096, 512);
		vs_send(&r.p, 0, IBV_WR_SEND, (uint64_t)i, 0, 512);
		vs_expect(r.p.end[0].send_cq, (uint64_t)i, IBV_WC_SUCCESS, NULL);
		vs_expect(r.p.end[0].recv_cq, (uint64_t)i, IBV_WC_SUCCESS, NULL);
		vs_expect_bytes(r.p.end[0].buffer + 4096, 512, (uint8_t)i);
	}
	vs_thread_join(t);
	vs_free(&r.p);
}

/* Posts from two threads to two queue pairs that share their completion queue. */
struct worker {
	struct vs_pair *p;
	struct ibv_qp *qp;
	int number, posts;
};

static void worker_run(void *arg)
{
	struct worker *k = arg;

	for (int i = 0; i < k->posts; i++) {
		struct vs_wr w;

		vs_fill(&w, k->p, 0, IBV_WR_RDMA_WRITE, (uint64_t)(k->number * 100 + i),
			(uint64_t)(k->number * 10000 + 500 * i), 500);
		CHECK_EQ(vs_post(k->qp, &w.wr), 0);
	}
}

CASE(threads_post_to_queue_pairs_that_share_a_queue)
{
	static struct vs_pair p;
	static struct worker k[2];
	struct ibv_qp *far[2];
	struct vs_thread *t[2];
	struct ibv_wc wc;
	uint64_t next[2] = {0, 100};

	vs_pair(&p, &vs_defaults);
	vs_pattern(p.end[0].buffer, 20000, 1);
	for (int i = 0; i < 2; i++) {
		k[i] = (struct worker){&p, vs_qp(&p, 0), i, 16};
		far[i] = vs_qp(&p, 1);
		struct ibv_qp_attr a = vs_attr_to(&p, 0, far[i]->qp_num);
		struct ibv_qp_attr b = vs_attr_to(&p, 1, k[i].qp->qp_num);

		vs_raise(far[i], &b, IBV_QPS_RTS);
		vs_raise(k[i].qp, &a, IBV_QPS_RTS);
	}
	for (int i = 0; i < 2; i++)
		t[i] = vs_thread_start(worker_run, &k[i]);
	for (int i = 0; i < 32; i++) {
		CHECK(vs_wait(p.end[0].send_cq, &wc, VS_LONG));
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, next[wc.qp_num == k[1].qp->qp_num]++);
	}
	for (int i = 0; i < 2; i++) {
		vs_thread_join(t[i]);
		vs_expect_bytes(p.end[1].buffer + 10000 * i + 8000, 2000, 0);
		CHECK(!memcmp(p.end[1].buffer + 10000 * i, p.end[0].buffer + 10000 * i, 8000));
		CHECK_EQ(ibv_destroy_qp(k[i].qp), 0);
		CHECK_EQ(ibv_destroy_qp(far[i]), 0);
	}
	vs_free(&p);
}
