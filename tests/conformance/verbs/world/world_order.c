/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order in which an HCA's writes become visible. Each program writes with an HCA and reads
 * memory. A correct program reads new bytes with every seed. A program that relies on more than the
 * specification guarantees reads old bytes with one of the first seeds. Engine `sim`, with the
 * memory-order adversary.
 */
#include "core/base/shared.h"
#include "tests/conformance/verbs/harness/world.h"

#define SEEDS 40
#define BULK  60000u
#define AT    4096u /* where the data goes, in both buffers */

/* Did the run read an old byte? */
static bool saw_old;

static struct {
	unsigned int region; /* additional access flags */
	uint32_t bytes;
	bool atomic;
} of;

struct program {
	struct vs_pair h;
	struct ibv_mr *mr; /* end 1's, by `of` */
};

static void program_make(struct program *t)
{
	struct vs_options o = vw_defaults;

	o.access |= IBV_ACCESS_REMOTE_ATOMIC;
	vs_pair(&t->h, &o);
	t->mr = ibv_reg_mr(t->h.end[1].pd, t->h.end[1].buffer, VW_BUFFER_BYTES,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				   (int)of.region);
	CHECK(t->mr);
	memset(t->h.end[0].buffer + AT, 0xee, BULK);
	saw_old = false;
}

static void program_end(struct program *t)
{
	struct ibv_wc wc;

	while (vs_wait(t->h.end[0].send_cq, &wc, 5000000))
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_dereg_mr(t->mr), 0);
	vs_free(&t->h);
}

static void look(const uint8_t *memory, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		saw_old |= memory[i] != 0xee;
}

static void put(struct program *t, enum ibv_wr_opcode op, uint64_t id, uint64_t offset,
		uint32_t bytes)
{
	struct vs_wr w;

	vs_fill(&w, &t->h, 0, op, id, offset, bytes);
	w.wr.wr.rdma.rkey = t->mr->rkey;
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		w.wr.wr.atomic.rkey = t->mr->rkey;
		w.wr.wr.atomic.compare_add = 1;
		w.wr.wr.atomic.swap = 0;
	}
	CHECK_EQ(vs_post(t->h.end[0].qp, &w.wr), 0);
}

/* Waits until the word is not 0. */
static void poll_word(const uint8_t *at)
{
	while (!shared_load_u64((const shared_u64 *)(const void *)at, SHARED_ACQUIRE))
		os_sleep_ns(20);
}

/* ---- programs ------------------------------------------------------------------------------- */

/* Correct: waits for the completion of this message's receive. */
static void by_completion(void)
{
	struct program t;

	program_make(&t);
	vs_recv(&t.h, 1, 3, 0, 0);
	put(&t, IBV_WR_RDMA_WRITE_WITH_IMM, 1, AT, of.bytes);
	vs_expect(t.h.end[1].recv_cq, 3, IBV_WC_SUCCESS, NULL);
	look(t.h.end[1].buffer + AT, of.bytes);
	program_end(&t);
}

/* Correct: waits for the receive of a later message of the same queue pair. */
static void by_later_completion(void)
{
	struct program t;

	program_make(&t);
	vs_recv(&t.h, 1, 3, 0, 0);
	put(&t, IBV_WR_RDMA_WRITE, 1, AT, of.bytes);
	put(&t, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 0, 0);
	vs_expect(t.h.end[1].recv_cq, 3, IBV_WC_SUCCESS, NULL);
	look(t.h.end[1].buffer + AT, of.bytes);
	program_end(&t);
}

/* Correct: polls the word of a later atomic of the same queue pair. */
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

/* Polls the last word of the data: correct for small writes in regions without relaxed order. */
static void by_last_word(void)
{
	struct program t;

	program_make(&t);
	put(&t, IBV_WR_RDMA_WRITE, 1, AT, of.bytes);
	poll_word(t.h.end[1].buffer + AT + of.bytes - 8);
	look(t.h.end[1].buffer + AT, of.bytes);
	program_end(&t);
}

/* Waits for the sender's completion, which the sender could send to the receiver. */
static void by_acknowledge(void)
{
	struct program t;

	program_make(&t);
	put(&t, IBV_WR_RDMA_WRITE, 1, AT, of.bytes);
	vs_expect(t.h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	look(t.h.end[1].buffer + AT, of.bytes);
	program_end(&t);
}

/* Polls a flag that is written after the data. */
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

/* Waits for a receive of another queue pair. */
static void by_another_queue_pair(void)
{
	struct program t;
	struct ibv_qp *qp[2];

	program_make(&t);
	for (int i = 0; i < 2; i++) {
		struct vs_end *e = &t.h.end[i];
		struct ibv_qp_init_attr init = vw_init_attr(&t.h.options, e->send_cq, e->recv_cq);

		qp[i] = ibv_create_qp(e->pd, &init);
		CHECK(qp[i]);
	}
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr a =
			vw_attr(&t.h.options, &t.h.end[!i].gid, qp[!i]->qp_num, 5, 5);

		vs_raise(qp[i], &a, IBV_QPS_RTS);
	}
	struct ibv_recv_wr recv = {.wr_id = 3}, *bad;
	struct ibv_send_wr imm = {.wr_id = 2, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM};

	CHECK_EQ(ibv_post_recv(qp[1], &recv, &bad), 0);
	put(&t, IBV_WR_RDMA_WRITE, 1, AT, of.bytes);
	os_sleep_ns(4000); /* its packets are in the network */
	CHECK_EQ(vs_post(qp[0], &imm), 0);
	vs_expect(t.h.end[1].recv_cq, 3, IBV_WC_SUCCESS, NULL);
	look(t.h.end[1].buffer + AT, of.bytes);
	vs_expect(t.h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(ibv_destroy_qp(qp[i]), 0);
	program_end(&t);
}

/* Polls a READ's last word; or waits for its completion, which is correct. */
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
		vs_expect(t.h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
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

/* Polls a receive's memory before its completion. */
static void receive_by_last_word(void)
{
	struct program t;
	struct ibv_wc wc;

	program_make(&t);
	vs_recv(&t.h, 1, 3, AT, BULK);
	put(&t, IBV_WR_SEND, 1, AT, of.bytes);
	poll_word(t.h.end[1].buffer + AT + of.bytes - 8);
	look(t.h.end[1].buffer + AT, of.bytes);
	CHECK(vs_wait(t.h.end[1].recv_cq, &wc, 5000000));
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
	const struct vw_run r = {
		.sim = {.engine = SIM_ENGINE_SIM, .seed = seed, .memory_order = SIM_MEMORY_ON},
		.world = {.hosts = 1, .machine = VW_MACHINE},
	};

	vw_run_with(&r, run);
}

CASE(what_is_promised_holds_and_nothing_else, .engine = "sim", .worlds = true,
     .count = (int)(sizeof programs / sizeof programs[0]))
{
	int caught = 0, first = 0;

	of.region = programs[vs_param].region;
	of.bytes = programs[vs_param].bytes;
	setenv("DOPPEL_HCA_ORDER", programs[vs_param].order, 1);
	for (int seed = 1; seed <= SEEDS; seed++) {
		order_run((uint64_t)seed, programs[vs_param].run);
		caught += saw_old;
		if (saw_old && !first)
			first = seed;
	}
	printf("%-48s %2d of %d seeds, first %d\n", programs[vs_param].name, caught, SEEDS, first);
	if (programs[vs_param].verdict == RIGHT)
		CHECK_MSG(!caught, "%s: seed %d saw old bytes", programs[vs_param].name, first);
	else
		CHECK_MSG(first && first <= 8, "%s: first caught at %d", programs[vs_param].name,
			  first);
}
