/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations when messages are lost or doubled, and what they are atomic against: by
 * IBV_ATOMIC_HCA those of the same HCA only. What they do is in verbs/atomics.c. */
#include "core/base/shared.h"
#include "tests/conformance/verbs_harness.h"

#define ATOMIC_ACCESS                                                                              \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* Two ends, and a region of end 1 that takes atomics: its buffer. */
struct atomics {
	struct vh h;
	struct ibv_mr *mr;
	volatile uint64_t *word; /* end 1's */
	uint64_t *result;        /* end 0's */
};

static void atomics_make_with(struct atomics *t, const struct vh_options *options)
{
	vh_pair(&t->h, options);
	t->mr = ibv_reg_mr(t->h.end[1].pd, t->h.end[1].buffer, VH_BUFFER_BYTES, ATOMIC_ACCESS);
	ck_assert_ptr_nonnull(t->mr);
	t->word = (volatile uint64_t *)(void *)t->h.end[1].buffer;
	t->result = (uint64_t *)(void *)t->h.end[0].buffer;
}

static void atomics_make(struct atomics *t)
{
	struct vh_options o = vh_defaults;

	o.access |= IBV_ACCESS_REMOTE_ATOMIC;
	atomics_make_with(t, &o);
}

static void atomics_free(struct atomics *t)
{
	ck_assert_int_eq(ibv_dereg_mr(t->mr), 0);
	vh_free(&t->h);
}

/* On the word at `offset` of end 1, the old value to the same offset of end 0. */
static void atomic_fill(struct atomics *t, struct vh_wr *w, enum ibv_wr_opcode op, uint64_t offset,
			uint64_t compare_add, uint64_t swap)
{
	vh_wr_fill(w, &t->h, 0, op, 5, offset, 8);
	w->wr.wr.atomic.remote_addr = (uintptr_t)t->h.end[1].buffer + offset;
	w->wr.wr.atomic.rkey = t->mr->rkey;
	w->wr.wr.atomic.compare_add = compare_add;
	w->wr.wr.atomic.swap = swap;
}

/* ---- loss and duplicates -------------------------------------------------------------------- */

static void count_to_twenty(void)
{
	struct vh_options o = vh_defaults;
	struct atomics t;
	struct vh_wr w;

	o.access |= IBV_ACCESS_REMOTE_ATOMIC;
	o.retry_count = 7;
	atomics_make_with(&t, &o);
	for (uint64_t i = 0; i < 20; i++) {
		atomic_fill(&t, &w, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 0);
		w.wr.wr_id = i;
		w.sge.addr += i * 8;
		if (i >= 12)
			vh_expect(t.h.end[0].send_cq, i - 12, IBV_WC_SUCCESS, NULL);
		ck_assert_int_eq(vh_post(t.h.end[0].qp, &w.wr), 0);
	}
	for (uint64_t i = 8; i < 20; i++)
		vh_expect(t.h.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	for (uint64_t i = 0; i < 20; i++)
		ck_assert_uint_eq(t.result[i], i);
	ck_assert_uint_eq(t.word[0], 20);
	atomics_free(&t);
}

/* Each message of the traffic is lost once: requests, and answers of what was done. */
START_TEST(what_is_lost_is_not_done_twice)
{
	uint64_t again = 0;
	char plan[64];

	for (int nth = 1; nth <= 40; nth++) {
		const struct sim_probe_stat *stat;

		snprintf(plan, sizeof plan, "fabric.packet nth=%d drop\n", nth);
		vh_run_once(SIM_ENGINE_SIM, 1, plan, 1, count_to_twenty);
		for (uint32_t i = 0, n = sim_probe_stats(&stat); i < n; i++)
			if (strcmp(stat[i].name, "hca.atomic_again") == 0)
				again += stat[i].hits;
	}
	ck_assert_uint_ge(again, 20); /* an answer was lost in half of them */
}
END_TEST

START_TEST(what_comes_twice_or_late_is_not_done_twice)
{
	static const char plan[] = "fabric.packet prob=1/8 forever duplicate by=20us\n"
				   "fabric.packet prob=1/16 forever drop\n"
				   "fabric.packet prob=1/8 forever reorder by=20us\n";

	vh_run_once(SIM_ENGINE_SIM, (uint64_t)_i + 1, plan, 1, count_to_twenty);
}
END_TEST

/* ---- atomic against whom -------------------------------------------------------------------- */

/* end 1's word is counted up by `rivals` connections at the same time. */
static uint64_t rivals_count(struct atomics *t, uint64_t each)
{
	struct vh_end *a = &t->h.end[0], *b = &t->h.end[1];
	struct ibv_qp_init_attr init = vh_init_attr(&t->h.options, a->send_cq, a->recv_cq);
	struct ibv_qp_init_attr init_b = vh_init_attr(&t->h.options, b->send_cq, b->recv_cq);
	struct ibv_qp *one = ibv_create_qp(a->pd, &init), *two = ibv_create_qp(b->pd, &init_b);
	struct ibv_qp_attr to_b = vh_attr(&t->h.options, &b->gid, two->qp_num, 7, 9);
	struct ibv_qp_attr to_a = vh_attr(&t->h.options, &a->gid, one->qp_num, 9, 7);
	struct vh_wr w;

	vh_connect(one, &to_b, IBV_QPS_RTS);
	vh_connect(two, &to_a, IBV_QPS_RTS);
	for (uint64_t i = 0; i < each; i++) {
		for (int k = 0; k < 2; k++) {
			atomic_fill(t, &w, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 0);
			w.sge.addr += 8 * (i * 2 + (uint64_t)k);
			ck_assert_int_eq(vh_post(k ? one : a->qp, &w.wr), 0);
		}
	}
	for (uint64_t i = 0; i < 2 * each; i++)
		vh_expect(a->send_cq, 5, IBV_WC_SUCCESS, NULL);
	ck_assert_int_eq(ibv_destroy_qp(one), 0);
	ck_assert_int_eq(ibv_destroy_qp(two), 0);
	return t->word[0];
}

VH_TEST(two_queue_pairs_of_an_hca_lose_nothing)
{
	struct atomics t;
	bool seen[20] = {false};

	atomics_make(&t);
	ck_assert_uint_eq(rivals_count(&t, 10), 20);
	for (int i = 0; i < 20; i++) {
		ck_assert_uint_lt(t.result[i], 20);
		ck_assert(!seen[t.result[i]]);
		seen[t.result[i]] = true;
	}
	atomics_free(&t);
}

/* A processor counts on the same word, atomically for itself. */
static uint64_t mixed_total;

static void count_with_the_processor(void)
{
	struct atomics t;
	struct vh_wr w;

	atomics_make(&t);
	for (uint64_t i = 0; i < 10; i++) {
		atomic_fill(&t, &w, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 0);
		ck_assert_int_eq(vh_post(t.h.end[0].qp, &w.wr), 0);
	}
	for (int i = 0; i < 100; i++) {
		shared_add_u64((shared_u64 *)(void *)t.h.end[1].buffer, 1, SHARED_ACQ_REL);
		os_sleep_ns(50);
	}
	for (uint64_t i = 0; i < 10; i++)
		vh_expect(t.h.end[0].send_cq, 5, IBV_WC_SUCCESS, NULL);
	mixed_total = t.word[0];
	atomics_free(&t);
}

START_TEST(an_hca_atomic_loses_updates_of_the_processor)
{
	int lost = 0;

	for (uint64_t seed = 1; seed <= 8; seed++) {
		vh_run_once(SIM_ENGINE_SIM, seed, NULL, 1, count_with_the_processor);
		ck_assert_uint_le(mixed_total, 110);
		ck_assert_uint_ge(mixed_total, 10);
		lost += mixed_total < 110;
	}
	ck_assert_int_ge(lost, 3);
}
END_TEST

START_TEST(a_global_atomic_loses_nothing)
{
	setenv("DOPPEL_HCA_ATOMIC", "mlx5_1=glob,hca", 1);
	for (uint64_t seed = 1; seed <= 8; seed++) {
		vh_run_once(SIM_ENGINE_SIM, seed, NULL, 1, count_with_the_processor);
		ck_assert_uint_eq(mixed_total, 110);
	}
	vh_run_once(SIM_ENGINE_THREADS, 1, NULL, 1, count_with_the_processor);
	ck_assert_uint_eq(mixed_total, 110);
}
END_TEST

static void what_devices_say(void)
{
	static const enum ibv_atomic_cap want[] = {IBV_ATOMIC_NONE, IBV_ATOMIC_GLOB,
						   IBV_ATOMIC_HCA};

	for (int i = 0; i < 3; i++) {
		struct ibv_context *ctx = vh_open(i);
		struct ibv_device_attr a;

		ck_assert_int_eq(ibv_query_device(ctx, &a), 0);
		ck_assert_int_eq(a.atomic_cap, want[i]);
		ck_assert_int_eq(ibv_close_device(ctx), 0);
	}
}

START_TEST(each_hca_reports_its_atomics)
{
	setenv("DOPPEL_HCA_ATOMIC", "mlx5_0=none,mlx5_1=glob", 1);
	vh_run_once(SIM_ENGINE_SIM, 1, NULL, 1, what_devices_say);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("atomics");

	tcase_add_test(t, what_is_lost_is_not_done_twice);
	tcase_add_loop_test(t, what_comes_twice_or_late_is_not_done_twice, 0, 12);
	VH_ADD(t, two_queue_pairs_of_an_hca_lose_nothing);
	tcase_add_test(t, an_hca_atomic_loses_updates_of_the_processor);
	tcase_add_test(t, a_global_atomic_loses_nothing);
	tcase_add_test(t, each_hca_reports_its_atomics);
	return vh_suite_run("verbs atomics", t);
}
