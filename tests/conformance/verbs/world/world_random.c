/* SPDX-License-Identifier: BSD-3-Clause */
/* Random traffic compared with a model: three connections, every kind of request, faults; and many
 * tasks that share HCAs and a completion queue. */
#include "tests/conformance/verbs/harness/world.h"

/* Each connection has a lane of its own in both buffers, so that nothing races across them:
 *   end 0:  source (never changes) | what READs fetch
 *   end 1:  what WRITEs fill       | what SENDs fill, a slot for each receive */
#define LANES      3
#define LANE_BYTES (VW_BUFFER_BYTES / LANES / 64 * 64)
#define PART_BYTES (LANE_BYTES / 2)
#define SLOTS      16
#define SLOT_BYTES (PART_BYTES / SLOTS / 64 * 64)
#define DEPTH      8
#define REQUESTS   120

struct lane {
	struct ibv_qp *qp[2];
	uint8_t *fetched, *written, *received; /* the model: PART_BYTES each */
	uint32_t posted, done;                 /* requests; those that completed */
	bool signaled[REQUESTS];
	uint32_t receives, arrived; /* posted, complete */
	uint32_t arrivals;          /* that the model expects */
	uint32_t length[REQUESTS];
	bool after_read;
};

struct traffic {
	struct vs_pair h;
	struct lane lane[LANES];
	struct sim_rng rng;
};

static uint64_t lane_at(int lane, int part, uint64_t offset)
{
	return (uint64_t)lane * LANE_BYTES + (uint64_t)part * PART_BYTES + offset;
}

static void lane_make(struct traffic *t, int index)
{
	struct lane *l = &t->lane[index];
	struct vs_end *e = t->h.end;

	memset(l, 0, sizeof *l);
	for (int side = 0; side < 2; side++) {
		struct ibv_qp_init_attr init =
			vw_init_attr(&t->h.options, e[side].send_cq, e[side].recv_cq);

		l->qp[side] = ibv_create_qp(e[side].pd, &init);
		CHECK(l->qp[side]);
	}
	for (int side = 0; side < 2; side++) {
		struct ibv_qp_attr a = vw_attr(&t->h.options, &e[!side].gid, l->qp[!side]->qp_num,
					       (uint32_t)(0xfffff0 + side + index),
					       (uint32_t)(0xfffff0 + !side + index));

		vs_raise(l->qp[side], &a, IBV_QPS_RTS);
	}
	l->fetched = os_alloc(PART_BYTES, "model");
	l->written = os_alloc(PART_BYTES, "model");
	l->received = os_alloc(PART_BYTES, "model");
	vs_pattern(e[0].buffer + lane_at(index, 0, 0), PART_BYTES, (uint32_t)index + 40);
}

static void lane_receive(struct traffic *t, int index)
{
	struct lane *l = &t->lane[index];
	struct vs_end *e = &t->h.end[1];
	uint64_t slot = lane_at(index, 1, (uint64_t)(l->receives % SLOTS) * SLOT_BYTES);
	struct ibv_sge sge = {(uintptr_t)e->buffer + slot, SLOT_BYTES, e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = (uint64_t)index << 32 | l->receives,
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;

	CHECK_EQ(ibv_post_recv(l->qp[1], &wr, &bad), 0);
	l->receives++;
}

/* Applies the request to the model. */
static void lane_model(struct traffic *t, int index, enum ibv_wr_opcode op, uint64_t from,
		       uint64_t to, uint32_t bytes)
{
	struct lane *l = &t->lane[index];
	const uint8_t *source = t->h.end[0].buffer + lane_at(index, 0, 0);

	switch (op) {
	case IBV_WR_RDMA_READ:
		memcpy(l->fetched + to, l->written + from, bytes);
		break;
	case IBV_WR_SEND:
		memcpy(l->received + (uint64_t)(l->arrivals % SLOTS) * SLOT_BYTES, source + from,
		       bytes);
		l->length[l->arrivals++] = bytes;
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		l->length[l->arrivals++] = bytes;
		/* fall through */
	default:
		memcpy(l->written + to, source + from, bytes);
	}
}

static void lane_post(struct traffic *t, int index)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						 IBV_WR_RDMA_READ, IBV_WR_SEND};
	struct lane *l = &t->lane[index];
	enum ibv_wr_opcode op = ops[sim_rng_below(&t->rng, 4)];
	bool small = sim_rng_ratio(&t->rng, 1, 2);
	uint32_t most = op == IBV_WR_SEND ? SLOT_BYTES : small ? 64 : PART_BYTES / 2;
	uint32_t bytes = (uint32_t)sim_rng_below(&t->rng, most + 1);
	uint64_t from = sim_rng_below(&t->rng, PART_BYTES - bytes + 1);
	uint64_t to = sim_rng_below(&t->rng, PART_BYTES - bytes + 1);
	bool read = op == IBV_WR_RDMA_READ;
	bool signaled = sim_rng_ratio(&t->rng, 1, 3) || l->posted % DEPTH == DEPTH - 1 ||
			l->posted == REQUESTS - 1;
	struct vs_wr w;

	vs_fill(&w, &t->h, 0, op, (uint64_t)index << 32 | l->posted, 0, bytes);
	w.sge.addr = (uintptr_t)t->h.end[0].buffer +
		     (read ? lane_at(index, 1, to) : lane_at(index, 0, from));
	w.wr.wr.rdma.remote_addr =
		(uintptr_t)t->h.end[1].buffer + lane_at(index, 0, read ? from : to);
	w.wr.imm_data = htobe32(l->posted);
	w.wr.send_flags = (signaled ? IBV_SEND_SIGNALED : 0) |
			  /* only a fence orders a READ before later requests */
			  (l->after_read && !read ? IBV_SEND_FENCE : 0) |
			  (bytes <= 64 && !read && small ? IBV_SEND_INLINE : 0);
	CHECK_EQ(vs_post(l->qp[0], &w.wr), 0);
	lane_model(t, index, op, from, to, bytes);
	l->after_read = read || (l->after_read && !(w.wr.send_flags & IBV_SEND_FENCE));
	l->signaled[l->posted++] = signaled;
}

static void traffic_sent(struct traffic *t, const struct ibv_wc *wc)
{
	struct lane *l = &t->lane[wc->wr_id >> 32];

	CHECK_MSG(wc->status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc->status));
	while (!l->signaled[l->done])
		l->done++;
	CHECK_EQ((uint32_t)wc->wr_id, l->done);
	l->done++;
}

static void traffic_arrived(struct traffic *t, const struct ibv_wc *wc)
{
	int index = (int)(wc->wr_id >> 32);
	struct lane *l = &t->lane[index];

	CHECK_EQ(wc->status, IBV_WC_SUCCESS);
	CHECK_EQ((uint32_t)wc->wr_id, l->arrived);
	CHECK_EQ(wc->byte_len, l->length[l->arrived]);
	l->arrived++;
}

/* Polls all completions; if `block`, waits for at least one. */
static void traffic_poll(struct traffic *t, bool block)
{
	struct vs_end *e = t->h.end;
	struct ibv_wc wc;

	if (block) {
		CHECK(vs_wait(e[0].send_cq, &wc, 60 * VS_SECOND));
		traffic_sent(t, &wc);
	}
	while (ibv_poll_cq(e[0].send_cq, 1, &wc) == 1)
		traffic_sent(t, &wc);
	while (ibv_poll_cq(e[1].recv_cq, 1, &wc) == 1)
		traffic_arrived(t, &wc);
}

/* Posts receives before the model expects a message, at most half of the slots. A slot is used
 * again only after its SEND arrived, so the model has each slot's last content. */
static void traffic_receives(struct traffic *t)
{
	for (int i = 0; i < LANES; i++)
		while (t->lane[i].receives - t->lane[i].arrived < SLOTS / 2)
			lane_receive(t, i);
}

static void traffic_check(struct traffic *t)
{
	for (int i = 0; i < LANES; i++) {
		struct lane *l = &t->lane[i];

		CHECK_EQ(l->arrived, l->arrivals);
		CHECK(!memcmp(t->h.end[0].buffer + lane_at(i, 1, 0), l->fetched, PART_BYTES));
		CHECK(!memcmp(t->h.end[1].buffer + lane_at(i, 0, 0), l->written, PART_BYTES));
		CHECK(!memcmp(t->h.end[1].buffer + lane_at(i, 1, 0), l->received, PART_BYTES));
	}
}

static void traffic_free(struct traffic *t)
{
	for (int i = 0; i < LANES; i++) {
		for (int side = 0; side < 2; side++)
			CHECK_EQ(ibv_destroy_qp(t->lane[i].qp[side]), 0);
		os_free(t->lane[i].fetched);
		os_free(t->lane[i].written);
		os_free(t->lane[i].received);
	}
	vs_free(&t->h);
}

static void random_traffic(void)
{
	static struct traffic t;
	struct vs_options o = vw_defaults;
	uint32_t left = LANES * REQUESTS;

	o.rnr_retry = 7;
	o.retry_count = 7;
	o.timeout = 9;
	o.cqe = 256;
	memset(&t, 0, sizeof t);
	sim_rng_init(&t.rng, "test.traffic");
	o.mtu = (enum ibv_mtu)(IBV_MTU_256 + sim_rng_below(&t.rng, 5));
	vs_make(&t.h, &o);
	for (int i = 0; i < LANES; i++)
		lane_make(&t, i);
	while (left) {
		int i = (int)sim_rng_below(&t.rng, LANES);
		struct lane *l = &t.lane[i];

		traffic_receives(&t);
		if (l->posted < REQUESTS && l->posted - l->done < DEPTH) {
			lane_post(&t, i);
			left--;
		} else if (l->posted < REQUESTS) {
			traffic_poll(&t, true);
		}
		traffic_poll(&t, false);
	}
	for (int i = 0; i < LANES; i++)
		while (t.lane[i].done < REQUESTS) {
			traffic_receives(&t);
			traffic_poll(&t, true);
		}
	traffic_poll(&t, false);
	traffic_check(&t);
	traffic_free(&t);
}

CASE(random_requests_do_what_the_model_says, .worlds = true)
{
	if (vw_threads()) {
		vw_run(SIM_ENGINE_THREADS, 1, NULL, 1, random_traffic);
		return;
	}
	for (uint64_t seed = 1; seed <= 40; seed++)
		vw_run(SIM_ENGINE_SIM, seed, NULL, 1, random_traffic);
}

CASE(random_requests_survive_loss_and_delay, .worlds = true)
{
	static const char plan[] = "fabric.packet prob=1/24 drop\n"
				   "fabric.packet prob=1/24 delay by=3ms\n";

	if (vw_threads()) {
		vw_run(SIM_ENGINE_THREADS, 1, plan, 1, random_traffic);
		return;
	}
	for (uint64_t seed = 1; seed <= 40; seed++)
		vw_run(SIM_ENGINE_SIM, seed, plan, 1, random_traffic);
}

/* ---- many tasks ----------------------------------------------------------------------------- */

#define TASKS       4
#define TASK_WRITES 300
#define TASK_BYTES  4096
#define TASK_DEPTH  8

struct crowd {
	struct vs_pair h;
	struct ibv_qp *qp[TASKS][2];
	shared_u32 done[TASKS]; /* completions of each, by any poller */
};
static struct crowd crowd;

struct member {
	int index;
};

/* Polls until the queue is empty: the event count only covers later completions. */
static void crowd_poll(void)
{
	struct ibv_wc wc[4];
	int n;

	while ((n = ibv_poll_cq(crowd.h.end[0].send_cq, 4, wc)) > 0)
		for (int i = 0; i < n; i++) {
			CHECK_MSG(wc[i].status == IBV_WC_SUCCESS, "%s",
				  ibv_wc_status_str(wc[i].status));
			shared_add_u32(&crowd.done[wc[i].wr_id], 1, SHARED_ACQ_REL);
		}
}

/* Waits until fewer than `most` of this member's writes are outstanding. */
static void member_wait(int me, uint32_t posted, uint32_t most)
{
	struct ibv_cq *cq = crowd.h.end[0].send_cq;

	for (;;) {
		const struct wait on_cq = {.on = cq,
					   .want = os_event_seq(cq),
					   .kind = WAIT_OBJECT,
					   .why = "a completion (test)",
					   .from = {-1, -1, -1, "HCA"}};
		uint32_t done = shared_load_u32(&crowd.done[me], SHARED_ACQUIRE);
		const struct wait on_word = {.on = &crowd.done[me],
					     .want = done,
					     .mask = WAIT_MASK_ALL,
					     .kind = WAIT_NE,
					     .bytes = 4,
					     .why = "another task that polls (test)",
					     .from = {-1, -1, -1, "test"}};
		const struct wait *const both[] = {&on_cq, &on_word};

		if (posted - done < most)
			return;
		crowd_poll();
		if (posted - shared_load_u32(&crowd.done[me], SHARED_ACQUIRE) < most)
			return;
		os_wait(both, 2, NULL, NULL);
	}
}

static void member_main(void *arg)
{
	int me = ((struct member *)arg)->index;
	struct vs_wr w;

	for (uint32_t i = 0; i < TASK_WRITES; i++) {
		member_wait(me, i, TASK_DEPTH);
		vs_fill(&w, &crowd.h, 0, IBV_WR_RDMA_WRITE, (uint64_t)me,
			(uint64_t)me * 4 * TASK_BYTES + i % 4 * TASK_BYTES,
			1 + i * 13 % TASK_BYTES);
		CHECK_EQ(vs_post(crowd.qp[me][0], &w.wr), 0);
	}
	member_wait(me, TASK_WRITES, 1);
}

static void crowd_main(void)
{
	static struct member member[TASKS];
	struct os_thread *thread[TASKS];
	struct vs_options o = vw_defaults;

	o.cqe = TASKS * TASK_DEPTH;
	memset(&crowd, 0, sizeof crowd);
	vs_make(&crowd.h, &o);
	struct vs_end *e = crowd.h.end;

	vs_pattern(e[0].buffer, TASKS * 4 * TASK_BYTES, 77);
	for (int i = 0; i < TASKS; i++) {
		for (int side = 0; side < 2; side++) {
			struct ibv_qp_init_attr init =
				vw_init_attr(&o, e[side].send_cq, e[side].recv_cq);

			crowd.qp[i][side] = ibv_create_qp(e[side].pd, &init);
		}
		for (int side = 0; side < 2; side++) {
			struct ibv_qp_attr a =
				vw_attr(&o, &e[!side].gid, crowd.qp[i][!side]->qp_num, 1, 1);

			vs_raise(crowd.qp[i][side], &a, IBV_QPS_RTS);
		}
	}
	for (int i = 0; i < TASKS; i++) {
		const struct os_thread_attr attr = {.name = "crowd", .rank = i};

		member[i].index = i;
		CHECK_EQ(os_thread_start(&thread[i], &attr, member_main, &member[i]), 0);
	}
	for (int i = 0; i < TASKS; i++)
		CHECK_EQ(os_thread_join(thread[i]), 0);
	/* the written bytes are those of the source, for every length of the last write */
	for (int i = 0; i < TASKS; i++)
		for (int k = 0; k < 4; k++) {
			uint64_t at = (uint64_t)(i * 4 + k) * TASK_BYTES;

			CHECK(!memcmp(e[1].buffer + at, e[0].buffer + at, TASK_BYTES / 2));
		}
	for (int i = 0; i < TASKS; i++)
		for (int side = 0; side < 2; side++)
			CHECK_EQ(ibv_destroy_qp(crowd.qp[i][side]), 0);
	vs_free(&crowd.h);
}

CASE(many_tasks_share_hcas_and_a_completion_queue)
{
	crowd_main();
}
