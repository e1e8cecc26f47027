/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations whose messages are lost or duplicated, and against whose accesses they are
 * atomic: with IBV_ATOMIC_HCA only those of the same HCA. Their results are tested in
 * atomics_cases.c. */
#include "core/base/shared.h"
#include "tests/conformance/verbs/harness/world.h"

#define ATOMIC_ACCESS                                                                              \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* Two ends. The buffer of end 1 is registered for atomics. */
struct atomics {
	struct vs_pair h;
	struct ibv_mr *mr;
	volatile uint64_t *word; /* end 1's */
	uint64_t *result;        /* end 0's */
};

static void atomics_make_with(struct atomics *t, const struct vs_options *options)
{
	vs_pair(&t->h, options);
	t->mr = ibv_reg_mr(t->h.end[1].pd, t->h.end[1].buffer, VW_BUFFER_BYTES, ATOMIC_ACCESS);
	CHECK(t->mr);
	t->word = (volatile uint64_t *)(void *)t->h.end[1].buffer;
	t->result = (uint64_t *)(void *)t->h.end[0].buffer;
}

static void atomics_make(struct atomics *t)
{
	struct vs_options o = vw_defaults;

	o.access |= IBV_ACCESS_REMOTE_ATOMIC;
	atomics_make_with(t, &o);
}

static void atomics_free(struct atomics *t)
{
	CHECK_EQ(ibv_dereg_mr(t->mr), 0);
	vs_free(&t->h);
}

/* Fills in an atomic on the word at `offset` of end 1. The old value goes to the same offset of end
 * 0. */
static void atomic_fill(struct atomics *t, struct vs_wr *w, enum ibv_wr_opcode op, uint64_t offset,
			uint64_t compare_add, uint64_t swap)
{
	vs_fill(w, &t->h, 0, op, 5, offset, 8);
	w->wr.wr.atomic.remote_addr = (uintptr_t)t->h.end[1].buffer + offset;
	w->wr.wr.atomic.rkey = t->mr->rkey;
	w->wr.wr.atomic.compare_add = compare_add;
	w->wr.wr.atomic.swap = swap;
}

/* ---- loss and duplicates -------------------------------------------------------------------- */

static void count_to_twenty(void)
{
	struct vs_options o = vw_defaults;
	struct atomics t;
	struct vs_wr w;

	o.access |= IBV_ACCESS_REMOTE_ATOMIC;
	o.retry_count = 7;
	atomics_make_with(&t, &o);
	for (uint64_t i = 0; i < 20; i++) {
		atomic_fill(&t, &w, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 0);
		w.wr.wr_id = i;
		w.sge.addr += i * 8;
		if (i >= 12)
			vs_expect(t.h.end[0].send_cq, i - 12, IBV_WC_SUCCESS, NULL);
		CHECK_EQ(vs_post(t.h.end[0].qp, &w.wr), 0);
	}
	for (uint64_t i = 8; i < 20; i++)
		vs_expect(t.h.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	for (uint64_t i = 0; i < 20; i++)
		CHECK_EQ(t.result[i], i);
	CHECK_EQ(t.word[0], 20);
	atomics_free(&t);
}

/* Each message of the traffic is lost once: requests, and responses to requests that were
 * executed. */
CASE(what_is_lost_is_not_done_twice, .engine = "sim", .worlds = true)
{
	uint64_t again = 0;
	char plan[64];

	for (int nth = 1; nth <= 40; nth++) {
		const struct sim_probe_stat *stat;

		snprintf(plan, sizeof plan, "fabric.packet nth=%d drop\n", nth);
		vw_run(SIM_ENGINE_SIM, 1, plan, 1, count_to_twenty);
		for (uint32_t i = 0, n = sim_probe_stats(&stat); i < n; i++)
			if (strcmp(stat[i].name, "hca.atomic_again") == 0)
				again += stat[i].hits;
	}
	CHECK_GE(again, 20); /* half of the lost messages are responses */
}

CASE(what_comes_twice_or_late_is_not_done_twice, .engine = "sim", .worlds = true, .count = 12)
{
	static const char plan[] = "fabric.packet prob=1/8 forever duplicate by=20us\n"
				   "fabric.packet prob=1/16 forever drop\n"
				   "fabric.packet prob=1/8 forever reorder by=20us\n";

	vw_run(SIM_ENGINE_SIM, (uint64_t)vs_param + 1, plan, 1, count_to_twenty);
}

/* ---- the scope of atomicity ---------------------------------------------------------------- */

/* Two connections increment end 1's word at the same time, `each` times each. */
static uint64_t rivals_count(struct atomics *t, uint64_t each)
{
	struct vs_end *a = &t->h.end[0], *b = &t->h.end[1];
	struct ibv_qp_init_attr init = vw_init_attr(&t->h.options, a->send_cq, a->recv_cq);
	struct ibv_qp_init_attr init_b = vw_init_attr(&t->h.options, b->send_cq, b->recv_cq);
	struct ibv_qp *one = ibv_create_qp(a->pd, &init), *two = ibv_create_qp(b->pd, &init_b);
	struct ibv_qp_attr to_b = vw_attr(&t->h.options, &b->gid, two->qp_num, 7, 9);
	struct ibv_qp_attr to_a = vw_attr(&t->h.options, &a->gid, one->qp_num, 9, 7);
	struct vs_wr w;

	vs_raise(one, &to_b, IBV_QPS_RTS);
	vs_raise(two, &to_a, IBV_QPS_RTS);
	for (uint64_t i = 0; i < each; i++) {
		for (int k = 0; k < 2; k++) {
			atomic_fill(t, &w, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 0);
			w.sge.addr += 8 * (i * 2 + (uint64_t)k);
			CHECK_EQ(vs_post(k ? one : a->qp, &w.wr), 0);
		}
	}
	for (uint64_t i = 0; i < 2 * each; i++)
		vs_expect(a->send_cq, 5, IBV_WC_SUCCESS, NULL);
	CHECK_EQ(ibv_destroy_qp(one), 0);
	CHECK_EQ(ibv_destroy_qp(two), 0);
	return t->word[0];
}

CASE(two_queue_pairs_of_an_hca_lose_nothing)
{
	struct atomics t;
	bool seen[20] = {false};

	atomics_make(&t);
	CHECK_EQ(rivals_count(&t, 10), 20);
	for (int i = 0; i < 20; i++) {
		CHECK(t.result[i] < 20);
		CHECK(!seen[t.result[i]]);
		seen[t.result[i]] = true;
	}
	atomics_free(&t);
}

/* A processor increments the same word with its own atomic instruction. */
static uint64_t mixed_total;

static void count_with_the_processor(void)
{
	struct atomics t;
	struct vs_wr w;

	atomics_make(&t);
	for (uint64_t i = 0; i < 10; i++) {
		atomic_fill(&t, &w, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 0);
		CHECK_EQ(vs_post(t.h.end[0].qp, &w.wr), 0);
	}
	for (int i = 0; i < 100; i++) {
		shared_add_u64((shared_u64 *)(void *)t.h.end[1].buffer, 1, SHARED_ACQ_REL);
		os_sleep_ns(50);
	}
	for (uint64_t i = 0; i < 10; i++)
		vs_expect(t.h.end[0].send_cq, 5, IBV_WC_SUCCESS, NULL);
	mixed_total = t.word[0];
	atomics_free(&t);
}

CASE(an_hca_atomic_loses_updates_of_the_processor, .engine = "sim", .worlds = true)
{
	int lost = 0;

	for (uint64_t seed = 1; seed <= 8; seed++) {
		vw_run(SIM_ENGINE_SIM, seed, NULL, 1, count_with_the_processor);
		CHECK(mixed_total <= 110);
		CHECK_GE(mixed_total, 10);
		lost += mixed_total < 110;
	}
	CHECK_GE(lost, 3);
}

CASE(a_global_atomic_loses_nothing, .engine = "sim", .worlds = true)
{
	setenv("DOPPEL_HCA_ATOMIC", "mlx5_1=glob,hca", 1);
	for (uint64_t seed = 1; seed <= 8; seed++) {
		vw_run(SIM_ENGINE_SIM, seed, NULL, 1, count_with_the_processor);
		CHECK_EQ(mixed_total, 110);
	}
	vw_run(SIM_ENGINE_THREADS, 1, NULL, 1, count_with_the_processor);
	CHECK_EQ(mixed_total, 110);
}

static void what_devices_say(void)
{
	static const enum ibv_atomic_cap want[] = {IBV_ATOMIC_NONE, IBV_ATOMIC_GLOB,
						   IBV_ATOMIC_HCA};

	for (int i = 0; i < 3; i++) {
		struct ibv_context *ctx = vw_open(i);
		struct ibv_device_attr a;

		CHECK_EQ(ibv_query_device(ctx, &a), 0);
		CHECK_EQ(a.atomic_cap, want[i]);
		CHECK_EQ(ibv_close_device(ctx), 0);
	}
}

CASE(each_hca_reports_its_atomics, .engine = "sim", .worlds = true)
{
	setenv("DOPPEL_HCA_ATOMIC", "mlx5_0=none,mlx5_1=glob", 1);
	vw_run(SIM_ENGINE_SIM, 1, NULL, 1, what_devices_say);
}
