/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What may be seen when. Each program here writes with an HCA and looks at memory; a right one is
 * right under every seed, a wrong one, which relies on more than is promised, is caught within a
 * few. Engine `sim`, with the memory-order adversary.
 */
#include "core/base/shared.h"
#include "tests/conformance/verbs_harness.h"

#define SEEDS 40
#define BULK  60000u
#define AT    4096u /* where the data goes, in both buffers */

/* What one run saw: every byte new where it looked, or some that are old. */
static bool saw_old;

static struct {
	unsigned int region; /* access besides the usual */
	uint32_t bytes;
	bool atomic;
} of;

struct program {
	struct vh h;
	struct ibv_mr *mr; /* end 1's, by `of` */
};

static void program_make(struct program *t)
{
	struct vh_options o = vh_defaults;

	o.access |= IBV_ACCESS_REMOTE_ATOMIC;
	vh_pair(&t->h, &o);
	t->mr = ibv_reg_mr(t->h.end[1].pd, t->h.end[1].buffer, VH_BUFFER_BYTES,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				   (int)of.region);
	ck_assert_ptr_nonnull(t->mr);
	memset(t->h.end[0].buffer + AT, 0xee, BULK);
	saw_old = false;
}

static void program_end(struct program *t)
{
	struct ibv_wc wc;

	while (vh_wait(t->h.end[0].send_cq, &wc, 5000000))
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_dereg_mr(t->mr), 0);
	vh_free(&t->h);
}

static void look(const uint8_t *memory, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		saw_old |= memory[i] != 0xee;
}

static void put(struct program *t, enum ibv_wr_opcode op, uint64_t id, uint64_t offset,
		uint32_t bytes)
{
	struct vh_wr w;

	vh_wr_fill(&w, &t->h, 0, op, id, offset, bytes);
	w.wr.wr.rdma.rkey = t->mr->rkey;
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		w.wr.wr.atomic.rkey = t->mr->rkey;
		w.wr.wr.atomic.compare_add = 1;
		w.wr.wr.atomic.swap = 0;
	}
	ck_assert_int_eq(vh_post(t->h.end[0].qp, &w.wr), 0);
}

/* Until the word is no longer 0. */
static void poll_word(const uint8_t *at)
{
	while (!shared_load_u64((const shared_u64 *)(const void *)at, SHARED_ACQUIRE))
		os_sleep_ns(20);
}

/* ---- programs ------------------------------------------------------------------------------- */

/* Right: the completion of the receive, of this message. */
static void by_completion(void)
{
	struct program t;

	program_make(&t);
	vh_recv(&t.h, 1, 3, 0, 0);
	put(&t, IBV_WR_RDMA_WRITE_WITH_IMM, 1, AT, of.bytes);
	vh_expect(t.h.end[1].recv_cq, 3, IBV_WC_SUCCESS, NULL);
	look(t.h.end[1].buffer + AT, of.bytes);
	program_end(&t);
}

/* Right: of a later message of the same queue pair. */
static void by_later_completion(void)
{
	struct program t;

	program_make(&t);
	vh_recv(&t.h, 1, 3, 0, 0);
	put(&t, IBV_WR_RDMA_WRITE, 1, AT, of.bytes);
	put(&t, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 0, 0);
	vh_expect(t.h.end[1].recv_cq, 3, IBV_WC_SUCCESS, NULL);
	look(t.h.end[1].buffer + AT, of.bytes);
	program_end(&t);
}

/* Right: a later atomic of the same queue pair, polled. */
static void by_atomic(void)
{
	struct program t;

	program_make(&t);
	put(&t, IBV_WR_RDMA_WRITE, 1, AT, of.bytes);
	put(&t, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0, 8);
	poll_word(t.h.end[1].buffer);
	look(t.h.end[1].buffer + AT, of.bytes);
	program_end(&t);
}

/* The last word of the data, polled: right for small writes only, and not where order is
 * relaxed. */
static void by_last_word(void)
{
	struct program t;

	program_make(&t);
	put(&t, IBV_WR_RDMA_WRITE, 1, AT, of.bytes);
	poll_word(t.h.end[1].buffer + AT + of.bytes - 8);
	look(t.h.end[1].buffer + AT, of.bytes);
	program_end(&t);
}

/* The sender's completion, which the receiver learns by other means. */
static void by_acknowledge(void)
{
	struct program t;

	program_make(&t);
	put(&t, IBV_WR_RDMA_WRITE, 1, AT, of.bytes);
	vh_expect(t.h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	look(t.h.end[1].buffer + AT, of.bytes);
	program_end(&t);
}

/* A flag of its own, written after the data. */
static void by_flag(void)
{
	struct program t;

	program_make(&t);
	put(&t, IBV_WR_RDMA_WRITE, 1, AT, of.bytes);
	memset(t.h.end[0].buffer, 1, 8);
	put(&t, IBV_WR_RDMA_WRITE, 2, 0, 8);
	poll_word(t.h.end[1].buffer);
	look(t.h.end[1].buffer + AT, of.bytes);
	program_end(&t);
}

/* The completion of a receive of another queue pair. */
static void by_another_queue_pair(void)
{
	struct program t;
	struct ibv_qp *qp[2];

	program_make(&t);
	for (int i = 0; i < 2; i++) {
		struct vh_end *e = &t.h.end[i];
		struct ibv_qp_init_attr init = vh_init_attr(&t.h.options, e->send_cq, e->recv_cq);

		qp[i] = ibv_create_qp(e->pd, &init);
		ck_assert_ptr_nonnull(qp[i]);
	}
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr a =
			vh_attr(&t.h.options, &t.h.end[!i].gid, qp[!i]->qp_num, 5, 5);

		vh_connect(qp[i], &a, IBV_QPS_RTS);
	}
	struct ibv_recv_wr recv = {.wr_id = 3}, *bad;
	struct ibv_send_wr imm = {.wr_id = 2, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM};

	ck_assert_int_eq(ibv_post_recv(qp[1], &recv, &bad), 0);
	put(&t, IBV_WR_RDMA_WRITE, 1, AT, of.bytes);
	os_sleep_ns(4000); /* it is on its way */
	ck_assert_int_eq(vh_post(qp[0], &imm), 0);
	vh_expect(t.h.end[1].recv_cq, 3, IBV_WC_SUCCESS, NULL);
	look(t.h.end[1].buffer + AT, of.bytes);
	vh_expect(t.h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ibv_destroy_qp(qp[i]), 0);
	program_end(&t);
}

/* A READ's last word, polled; and, right, its completion. */
static void read_back(bool polled)
{
	struct program t;

	program_make(&t);
	memset(t.h.end[1].buffer + AT, 0xee, BULK);
	memset(t.h.end[0].buffer + AT, 0, BULK);
	put(&t, IBV_WR_RDMA_READ, 1, AT, of.bytes);
	if (polled)
		poll_word(t.h.end[0].buffer + AT + of.bytes - 8);
	else
		vh_expect(t.h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	look(t.h.end[0].buffer + AT, of.bytes);
	program_end(&t);
}
static void read_by_last_word(void)
{
	read_back(true);
}
static void read_by_completion(void)
{
	read_back(false);
}

/* A receive's memory, polled before its completion. */
static void receive_by_last_word(void)
{
	struct program t;
	struct ibv_wc wc;

	program_make(&t);
	vh_recv(&t.h, 1, 3, AT, BULK);
	put(&t, IBV_WR_SEND, 1, AT, of.bytes);
	poll_word(t.h.end[1].buffer + AT + of.bytes - 8);
	look(t.h.end[1].buffer + AT, of.bytes);
	ck_assert(vh_wait(t.h.end[1].recv_cq, &wc, 5000000));
	program_end(&t);
}

/* ---- seeds ---------------------------------------------------------------------------------- */

enum verdict { RIGHT, WRONG };

static const struct {
	const char *name;
	void (*run)(void);
	unsigned int region;
	uint32_t bytes;
	const char *order;
	enum verdict verdict;
} programs[] = {
	{"completion", by_completion, 0, BULK, "acknowledge", RIGHT},
	{"completion, relaxed", by_completion, IBV_ACCESS_RELAXED_ORDERING, BULK, "completion",
	 RIGHT},
	{"later completion", by_later_completion, 0, BULK, "completion", RIGHT},
	{"later completion, relaxed", by_later_completion, IBV_ACCESS_RELAXED_ORDERING, BULK,
	 "completion", RIGHT},
	{"atomic", by_atomic, 0, BULK, "completion", RIGHT},
	{"atomic, relaxed", by_atomic, IBV_ACCESS_RELAXED_ORDERING, BULK, "completion", RIGHT},
	{"last word, small", by_last_word, 0, 256, "completion", RIGHT},
	{"last word, 32 bytes", by_last_word, 0, 32, "completion", RIGHT},
	{"last word, 32 bytes, relaxed", by_last_word, IBV_ACCESS_RELAXED_ORDERING, 32,
	 "acknowledge", WRONG},
	{"last word, small, relaxed", by_last_word, IBV_ACCESS_RELAXED_ORDERING, 512, "acknowledge",
	 WRONG},
	{"last word, bulk", by_last_word, 0, BULK, "acknowledge", WRONG},
	{"last word, bulk, relaxed", by_last_word, IBV_ACCESS_RELAXED_ORDERING, BULK, "acknowledge",
	 WRONG},
	{"acknowledge", by_acknowledge, 0, BULK, "acknowledge", RIGHT},
	{"acknowledge, by the word of the specification", by_acknowledge, 0, BULK, "completion",
	 WRONG},
	{"flag", by_flag, 0, BULK, "acknowledge", RIGHT},
	{"flag, by the word of the specification", by_flag, 0, BULK, "completion", WRONG},
	{"another queue pair", by_another_queue_pair, 0, BULK, "acknowledge", WRONG},
	{"read, completion", read_by_completion, 0, BULK, "completion", RIGHT},
	{"read, last word", read_by_last_word, 0, BULK, "acknowledge", WRONG},
	{"receive, last word", receive_by_last_word, 0, BULK, "acknowledge", WRONG},
};

static void order_run(uint64_t seed, void (*run)(void))
{
	const struct sim_config config = {
		.engine = SIM_ENGINE_SIM, .seed = seed, .memory_order = SIM_MEMORY_ON};
	const struct world_config world = {.hosts = 1, .machine = VH_MACHINE};
	struct vh_run body = {run};

	ck_assert_int_eq(sim_start(&config), 0);
	ck_assert_int_eq(world_create(&world), 0);
	ck_assert_int_eq(sim_run(vh_main, &body), SIM_PASS);
	ck_assert_uint_eq(world_destroy(), 0);
	sim_stop();
}

START_TEST(what_is_promised_holds_and_nothing_else)
{
	int caught = 0, first = 0;

	of.region = programs[_i].region;
	of.bytes = programs[_i].bytes;
	setenv("DOPPEL_HCA_ORDER", programs[_i].order, 1);
	for (int seed = 1; seed <= SEEDS; seed++) {
		order_run((uint64_t)seed, programs[_i].run);
		caught += saw_old;
		if (saw_old && !first)
			first = seed;
	}
	printf("%-48s %2d of %d seeds, first %d\n", programs[_i].name, caught, SEEDS, first);
	if (programs[_i].verdict == RIGHT)
		ck_assert_msg(!caught, "%s: seed %d saw old bytes", programs[_i].name, first);
	else
		ck_assert_msg(first && first <= 8, "%s: first caught at %d", programs[_i].name,
			      first);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("order");

	tcase_add_loop_test(t, what_is_promised_holds_and_nothing_else, 0,
			    (int)(sizeof programs / sizeof programs[0]));
	return vh_suite_run("verbs order", t);
}
