/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes on two hosts: traffic between them, objects that one may not use, the death of one,
 * and runs that a seed repeats. */
#include "tests/conformance/verbs/harness/world.h"

#define HOSTS_BYTES 300000

/* The data that a side gives the other out of band. They are complete when `ready` is set. */
struct card {
	union ibv_gid gid;
	uint32_t qpn, psn, rkey;
	uint64_t address;
	shared_u32 ready, connected;
};

struct meeting {
	struct card card[2];
	shared_u32 done[2];
	bool dies; /* side 1 is killed instead of answering */
	struct ibv_device *foreign;
	enum ibv_wc_status died_status;
};

struct side {
	struct meeting *m;
	int index;
	struct vs_end e;
};

static struct meeting meeting;

static void side_meet(struct side *s)
{
	struct card *mine = &s->m->card[s->index], *theirs = &s->m->card[!s->index];
	struct vs_options o = vw_defaults;

	o.rnr_retry = 7;                  /* the reader posts its receive when its thread runs */
	vw_end_make(&s->e, s->index, &o); /* the sides use different HCAs of their hosts */
	mine->gid = s->e.gid;
	mine->qpn = s->e.qp->qp_num;
	mine->psn = s->e.psn;
	mine->rkey = s->e.mr->rkey;
	mine->address = (uintptr_t)s->e.buffer;
	shared_store_u32(&mine->ready, 1, SHARED_RELEASE);
	vw_wait_word(&theirs->ready);
	struct ibv_qp_attr a = vw_attr(&o, &theirs->gid, theirs->qpn, mine->psn, theirs->psn);

	vs_raise(s->e.qp, &a, IBV_QPS_RTS);
	shared_store_u32(&mine->connected, 1, SHARED_RELEASE);
	vw_wait_word(&theirs->connected);
}

static void side_leave(struct side *s)
{
	shared_store_u32(&s->m->done[s->index], 1, SHARED_RELEASE);
	vw_wait_word(&s->m->done[!s->index]);
	vs_end_free(&s->e);
}

static void side_rdma(struct side *s, enum ibv_wr_opcode opcode, uint64_t wr_id, uint64_t offset,
		      uint32_t bytes)
{
	const struct card *peer = &s->m->card[!s->index];
	struct ibv_sge sge = {(uintptr_t)s->e.buffer + offset, bytes, s->e.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = htobe32(77)};

	wr.wr.rdma.remote_addr = peer->address + offset;
	wr.wr.rdma.rkey = peer->rkey;
	CHECK_EQ(vs_post(s->e.qp, &wr), 0);
}

/* Side 0 writes, sends an immediate, then writes 48 bytes that end with a flag word. */
static void writer(void *arg)
{
	struct side s = {.m = arg, .index = 0};

	side_meet(&s);
	vs_pattern(s.e.buffer, HOSTS_BYTES, 1);
	side_rdma(&s, IBV_WR_RDMA_WRITE, 1, 0, HOSTS_BYTES);
	side_rdma(&s, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 0, 0);
	for (uint32_t i = 0; i < 12; i++)
		((uint32_t *)(void *)(s.e.buffer + 400000))[i] = i;
	((uint32_t *)(void *)(s.e.buffer + 400000))[11] = 1; /* the flag is the last word */
	side_rdma(&s, IBV_WR_RDMA_WRITE, 3, 400000, 48);
	for (uint64_t id = 1; id <= 3; id++)
		vs_expect(s.e.send_cq, id, IBV_WC_SUCCESS, NULL);
	side_leave(&s);
}

/* Side 1 takes the immediate, polls the flag in memory, and reads back. */
static void reader(void *arg)
{
	struct side s = {.m = arg, .index = 1};
	struct ibv_recv_wr wr = {.wr_id = 50}, *bad;
	struct ibv_wc wc;

	side_meet(&s);
	CHECK_EQ(ibv_post_recv(s.e.qp, &wr, &bad), 0);
	vs_expect(s.e.recv_cq, 50, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(be32toh(wc.imm_data), 77);
	vs_expect_pattern(s.e.buffer, HOSTS_BYTES, 1);
	const uint32_t *words = (const uint32_t *)(const void *)(s.e.buffer + 400000);

	vw_wait_word((const shared_u32 *)(const void *)&words[11]);
	for (uint32_t i = 0; i < 11; i++)
		CHECK_EQ(words[i], i);
	memset(s.e.buffer, 0, HOSTS_BYTES);
	side_rdma(&s, IBV_WR_RDMA_READ, 4, 0, HOSTS_BYTES);
	vs_expect(s.e.send_cq, 4, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(s.e.buffer, HOSTS_BYTES, 1);
	side_leave(&s);
}

static void two_start(void (*fn)(void *), uint32_t host, struct os_proc **proc,
		      struct os_thread **thread)
{
	const struct os_thread_attr attr = {.name = host ? "side 1" : "side 0",
					    .rank = (int32_t)host};

	CHECK_EQ(world_proc_create(host, NULL, proc), 0);
	CHECK_EQ(world_thread_start(*proc, thread, &attr, fn, &meeting), 0);
}

static void two_run(void (*zero)(void *), void (*one)(void *))
{
	struct os_proc *proc[2];
	struct os_thread *thread[2];

	memset(&meeting, 0, sizeof meeting);
	two_start(zero, 0, &proc[0], &thread[0]);
	two_start(one, 1, &proc[1], &thread[1]);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(os_thread_join(thread[i]), 0);
	for (int i = 0; i < 2; i++)
		world_proc_exit(proc[i]);
}

static void two_main(void)
{
	two_run(writer, reader);
}

CASE(two_processes_on_two_hosts_write_signal_poll_and_read, .worlds = true)
{
	if (vw_threads()) {
		vw_run(SIM_ENGINE_THREADS, 1, NULL, 2, two_main);
		return;
	}
	for (uint64_t seed = 1; seed <= 20; seed++)
		vw_run(SIM_ENGINE_SIM, seed, NULL, 2, two_main);
}

static uint64_t run_hash(uint64_t seed, enum sim_strategy strategy)
{
	uint64_t hash = 0;
	const struct vw_run r = {
		.sim = {.seed = seed, .strategy = strategy},
		.world = {.hosts = 2, .machine = VW_MACHINE},
		.hash = &hash,
	};

	vw_run_with(&r, two_main);
	return hash;
}

CASE(a_seed_repeats_its_run_and_seeds_differ, .engine = "sim", .worlds = true)
{
	uint64_t hash[20];
	int distinct = 0;

	for (uint64_t seed = 0; seed < 20; seed++) {
		hash[seed] = run_hash(seed + 1, SIM_PORTFOLIO);
		CHECK_EQ(hash[seed], run_hash(seed + 1, SIM_PORTFOLIO));
		bool is_new = true;

		for (uint64_t k = 0; k < seed; k++)
			is_new &= hash[k] != hash[seed];
		distinct += is_new;
	}
	CHECK_GE(distinct, 10);
	CHECK_EQ(run_hash(1, SIM_FIFO), run_hash(2, SIM_FIFO));
}

/* ---- death ---------------------------------------------------------------------------------- */

static void outlives(void *arg)
{
	struct side s = {.m = arg, .index = 0};
	struct ibv_wc wc;

	side_meet(&s);
	vw_wait_word(&s.m->done[1]);
	for (uint64_t id = 1; id <= 8; id++)
		side_rdma(&s, IBV_WR_RDMA_WRITE, id, 0, HOSTS_BYTES);
	CHECK(vs_wait(s.e.send_cq, &wc, 60 * VS_SECOND));
	while (wc.status == IBV_WC_SUCCESS)
		CHECK(vs_wait(s.e.send_cq, &wc, 60 * VS_SECOND));
	s.m->died_status = wc.status;
	vs_end_free(&s.e);
}

static void dies(void *arg)
{
	struct side s = {.m = arg, .index = 1};

	side_meet(&s);
	shared_store_u32(&s.m->done[1], 1, SHARED_RELEASE);
	for (;;)
		os_sleep_ns(1000);
}

static void death_main(void)
{
	struct os_proc *proc[2];
	struct os_thread *thread[2];

	memset(&meeting, 0, sizeof meeting);
	two_start(outlives, 0, &proc[0], &thread[0]);
	two_start(dies, 1, &proc[1], &thread[1]);
	vw_wait_word(&meeting.done[1]);
	os_sleep_ns(20000); /* while the writes are outstanding */
	world_proc_kill(proc[1]);
	CHECK_EQ(os_thread_join(thread[0]), 0);
	CHECK_EQ(meeting.died_status, IBV_WC_RETRY_EXC_ERR);
	world_proc_exit(proc[0]);
}

CASE(a_peer_that_is_killed_is_a_retry_exceeded_and_leaves_nothing, .engine = "sim", .worlds = true)
{
	for (uint64_t seed = 1; seed <= 10; seed++)
		vw_run(SIM_ENGINE_SIM, seed, NULL, 2, death_main);
}

/* ---- borders -------------------------------------------------------------------------------- */

static void lends(void *arg)
{
	struct meeting *m = arg;
	struct ibv_device **list = ibv_get_device_list(NULL);

	m->foreign = list[0];
	shared_store_u32(&m->done[0], 1, SHARED_RELEASE);
	vw_wait_word(&m->done[1]);
	ibv_free_device_list(list);
}

static void borrows(void *arg)
{
	struct meeting *m = arg;

	vw_wait_word(&m->done[0]);
	errno = 0;
	CHECK(!ibv_open_device(m->foreign));
	CHECK_EQ(errno, ENODEV);
	shared_store_u32(&m->done[1], 1, SHARED_RELEASE);
}

static void borders_main(void)
{
	two_run(lends, borrows);
}

CASE(a_device_of_another_host_cannot_be_opened, .worlds = true)
{
	vw_run(vw_threads() ? SIM_ENGINE_THREADS : SIM_ENGINE_SIM, 1, NULL, 2, borders_main);
}

/* ---- leaks ---------------------------------------------------------------------------------- */

static struct vs_end left;

static void leaves(void *arg)
{
	vw_end_make(&left, 0, &vw_defaults);
	vs_release(left.buffer);
	CHECK(ibv_create_comp_channel(left.ctx));
}

static void leak_main(void)
{
	struct os_proc *proc;
	struct os_thread *thread;

	two_start(leaves, 0, &proc, &thread);
	CHECK_EQ(os_thread_join(thread), 0);
	world_proc_exit(proc);
}

CASE(what_a_process_leaves_behind_is_counted_by_kind, .worlds = true)
{
	const struct vw_run r = {
		.sim = {.engine = vw_threads() ? SIM_ENGINE_THREADS : SIM_ENGINE_SIM},
		.world = {.hosts = 1, .machine = VW_MACHINE},
		/* queue pair, two completion queues, region, domain, channel, context */
		.left = 7,
	};

	vw_run_with(&r, leak_main);
}
