/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of reliable connections: the bytes that each moves, and the fields of its
 * completions. */
#include <sys/mman.h>

#include "tests/conformance/verbs/suite.h"

/* ---- operations and sizes ------------------------------------------------------------------- */

static const struct {
	enum ibv_wr_opcode opcode;
	enum ibv_wc_opcode sender;
	const char *name;
	bool receives, imm;
	enum ibv_wc_opcode receiver;
} operations[] = {
	{IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, "write", false, false, 0},
	{IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE, "write_imm", true, true,
	 IBV_WC_RECV_RDMA_WITH_IMM},
	{IBV_WR_SEND, IBV_WC_SEND, "send", true, false, IBV_WC_RECV},
	{IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, "send_imm", true, true, IBV_WC_RECV},
	{IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, "read", false, false, 0},
};
#define OPERATIONS (int)(sizeof operations / sizeof operations[0])

/* In path MTUs (512 bytes) and bytes more or less. */
static const struct {
	const char *name;
	int mtus, bytes;
} sizes[] = {
	{"0", 0, 0},        {"1", 0, 1},        {"7", 0, 7},       {"mtu-1", 1, -1},
	{"mtu", 1, 0},      {"mtu+1", 1, 1},    {"2mtu-1", 2, -1}, {"2mtu", 2, 0},
	{"3mtu+5", 3, 5},   {"64K-1", 128, -1}, {"64K", 128, 0},   {"64K+1", 128, 1},
	{"1M-4K", 2040, 0},
};
#define SIZES (int)(sizeof sizes / sizeof sizes[0])

static const char *size_label(int param)
{
	static char text[40];

	snprintf(text, sizeof text, "%s_%s", operations[param / SIZES].name,
		 sizes[param % SIZES].name);
	return text;
}

/* The bytes arrive, nothing around them is touched, and both ends get the completions that they
 * should. */
static void move(struct vs_pair *p, int op, uint32_t bytes, uint32_t key)
{
	const uint64_t at = 2048;
	bool read = operations[op].opcode == IBV_WR_RDMA_READ;
	uint8_t *from = p->end[read ? 1 : 0].buffer, *to = p->end[read ? 0 : 1].buffer;
	uint64_t room = p->options.buffer_bytes;
	struct ibv_wc wc;

	memset(to, 0x11, room);
	vs_pattern(from + at, bytes, key);
	if (operations[op].receives) {
		bool scatter = !strncmp(operations[op].name, "send", 4);

		vs_recv(p, 1, 50 + key, at, scatter ? bytes : 0);
	}
	vs_send(p, 0, operations[op].opcode, 0xfedc1234, at, bytes);
	vs_expect(p->end[0].send_cq, 0xfedc1234, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.opcode, operations[op].sender);
	CHECK_EQ(wc.qp_num, p->end[0].qp->qp_num);
	if (read)
		CHECK_EQ(wc.byte_len, bytes);
	if (operations[op].receives) {
		vs_expect(p->end[1].recv_cq, 50 + key, IBV_WC_SUCCESS, &wc);
		CHECK_EQ(wc.opcode, operations[op].receiver);
		CHECK_EQ(wc.qp_num, p->end[1].qp->qp_num);
		CHECK_EQ(wc.byte_len, bytes);
		CHECK_EQ(!!(wc.wc_flags & IBV_WC_WITH_IMM), operations[op].imm);
		if (operations[op].imm)
			CHECK_EQ(be32toh(wc.imm_data), 0xfedc1234);
	}
	vs_expect_bytes(to, at, 0x11);
	vs_expect_pattern(to + at, bytes, key);
	vs_expect_bytes(to + at + bytes, room - at - bytes, 0x11);
	vs_expect_pattern(from + at, bytes, key);
	vs_expect_none(p->end[0].send_cq);
	vs_expect_none(p->end[1].recv_cq);
}

CASE(moves, .count = OPERATIONS * SIZES, .label = size_label)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	int s = vs_param % SIZES;

	o.mtu = IBV_MTU_512;
	vs_pair(&p, &o);
	move(&p, vs_param / SIZES, (uint32_t)(sizes[s].mtus * 512 + sizes[s].bytes), 1);
	vs_free(&p);
}

static const char *mtu_label(int param)
{
	static const char *const name[] = {"256", "512", "1024", "2048", "4096"};

	return name[param];
}

CASE(moves_in_packets_of, .count = 5, .label = mtu_label)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;

	o.mtu = (enum ibv_mtu)(IBV_MTU_256 + vs_param);
	vs_pair(&p, &o); /* not more than the port's */
	for (int op = 0; op < OPERATIONS; op++)
		move(&p, op, 20000, (uint32_t)op);
	vs_free(&p);
}

CASE(many_sizes_one_after_the_other)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;

	o.mtu = IBV_MTU_256;
	o.buffer_bytes = 8192;
	vs_pair(&p, &o);
	for (uint32_t i = 0; i < 60; i++)
		move(&p, (int)(i % OPERATIONS), i * 37 % 3000, i);
	vs_free(&p);
}

CASE(both_ends_move_at_once)
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	for (int s = 0; s < 2; s++)
		vs_pattern(p.end[s].buffer + 100000 * s, 100000, (uint32_t)s);
	for (uint64_t i = 0; i < 8; i++)
		for (int s = 0; s < 2; s++)
			vs_send(&p, s, IBV_WR_RDMA_WRITE, i, 100000 * (uint64_t)s + 12500 * i,
				12500);
	for (uint64_t i = 0; i < 8; i++)
		for (int s = 0; s < 2; s++)
			vs_expect(p.end[s].send_cq, i, IBV_WC_SUCCESS, NULL);
	for (int s = 0; s < 2; s++)
		vs_expect_pattern(p.end[!s].buffer + 100000 * s, 100000, (uint32_t)s);
	vs_free(&p);
}

CASE(within_one_device)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;

	o.one_device = true;
	vs_pair(&p, &o);
	for (int op = 0; op < OPERATIONS; op++)
		move(&p, op, 5000, (uint32_t)op);
	vs_free(&p);
}

/* A queue pair that is its own peer. Stacks flush GPU memory with one. */
CASE(a_queue_pair_is_its_own_peer)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct vs_wr w;

	o.one_device = true;
	o.psn[1] = o.psn[0];
	vs_make(&p, &o);
	struct ibv_qp_attr a = vs_attr_to(&p, 0, p.end[0].qp->qp_num);

	vs_raise(p.end[0].qp, &a, IBV_QPS_RTS);
	vs_pattern(p.end[0].buffer, 3000, 5);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_READ, 1, 0, 3000);
	w.sge.addr += 8192;
	w.wr.wr.rdma.remote_addr = (uintptr_t)p.end[0].buffer;
	w.wr.wr.rdma.rkey = p.end[0].mr->rkey;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[0].buffer + 8192, 3000, 5);
	vs_free(&p);
}

CASE(packet_numbers_go_round)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;

	o.psn[0] = o.psn[1] = 0xffffff;
	o.mtu = IBV_MTU_256;
	vs_pair(&p, &o);
	for (int op = 0; op < OPERATIONS; op++)
		move(&p, op, 5000, (uint32_t)op);
	vs_free(&p);
}

CASE(more_requests_than_the_queue_holds_when_polled)
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	vs_pattern(p.end[0].buffer, 200 * 256, 1);
	for (uint64_t i = 0; i < 200; i++) {
		if (i >= 16)
			vs_expect(p.end[0].send_cq, i - 16, IBV_WC_SUCCESS, NULL);
		vs_send(&p, 0, IBV_WR_RDMA_WRITE, i, 256 * i, 256);
	}
	for (uint64_t i = 184; i < 200; i++)
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer, 200 * 256, 1);
	vs_free(&p);
}

CASE(more_reads_than_may_be_outstanding)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;

	o.rd_atomic = 1;
	o.dest_rd_atomic = 1;
	vs_pair(&p, &o);
	vs_pattern(p.end[1].buffer, 16 * 5000, 1);
	for (uint64_t i = 0; i < 16; i++)
		vs_send(&p, 0, IBV_WR_RDMA_READ, i, 5000 * i, 5000);
	for (uint64_t i = 0; i < 16; i++)
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[0].buffer, 16 * 5000, 1);
	vs_free(&p);
}

/* ---- nothing, and a lot --------------------------------------------------------------------- */

CASE(an_immediate_alone)
{
	struct vs_pair p;
	struct vs_wr w;
	struct ibv_wc wc;

	vs_pair(&p, &vs_defaults);
	memset(p.end[1].buffer, 0x44, 100);
	vs_recv(&p, 1, 2, 0, 100);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 0);
	w.wr.sg_list = NULL;
	w.wr.num_sge = 0;
	w.wr.imm_data = htobe32(0x80000001);
	w.wr.wr.rdma.remote_addr = 0;
	w.wr.wr.rdma.rkey = 0;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[1].recv_cq, 2, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQ(wc.byte_len, 0);
	CHECK_EQ(be32toh(wc.imm_data), 0x80000001);
	vs_expect_bytes(p.end[1].buffer, 100, 0x44); /* a receive's memory is not for writes */
	vs_free(&p);
}

CASE(a_write_with_immediate_does_not_touch_the_receives_memory)
{
	struct vs_pair p;
	struct ibv_wc wc;

	vs_pair(&p, &vs_defaults);
	memset(p.end[1].buffer + 50000, 0x44, 1000);
	vs_recv(&p, 1, 2, 50000, 1000);
	vs_pattern(p.end[0].buffer, 3000, 1); /* more than the receive could hold */
	vs_send(&p, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 3000);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[1].recv_cq, 2, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.byte_len, 3000);
	vs_expect_pattern(p.end[1].buffer, 3000, 1);
	vs_expect_bytes(p.end[1].buffer + 50000, 1000, 0x44);
	vs_free(&p);
}

CASE(the_longest_message)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct ibv_context *ctx = vs_open(0);
	uint32_t bytes = vs_port_attr(ctx).max_msg_sz;

	CHECK_EQ(ibv_close_device(ctx), 0);
	if (bytes > 8u << 20)
		bytes = 8u << 20; /* long enough */
	o.buffer_bytes = bytes;
	o.timeout = 14;
	vs_pair(&p, &o);
	vs_pattern(p.end[0].buffer, bytes, 1);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, bytes);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer, bytes, 1);
	vs_free(&p);
}

/* One byte more than the port carries: refused by the post, or completed with a length error. */
CASE(a_message_longer_than_the_port_allows)
{
	struct vs_pair p;
	struct vs_wr w;
	struct ibv_sge sge[4];

	vs_pair(&p, &vs_defaults);
	uint64_t limit = vs_port_attr(p.end[0].ctx).max_msg_sz, part = limit / 4 + 1;
	void *m = mmap(NULL, part, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(m != MAP_FAILED);
	struct ibv_mr *mr = ibv_reg_mr(p.end[0].pd, m, part, IBV_ACCESS_LOCAL_WRITE);

	CHECK_MSG(mr, "%s", strerror(errno));
	for (int i = 0; i < 4; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)m, (uint32_t)part, mr->lkey};
	vs_fill(&w, &p, 0, IBV_WR_SEND, 1, 0, 0);
	w.wr.sg_list = sge;
	w.wr.num_sge = 4;
	vs_recv(&p, 1, 2, 0, 100);
	int rc = vs_post(p.end[0].qp, &w.wr);

	CHECK(rc == 0 || rc == EINVAL);
	if (!rc)
		vs_expect(p.end[0].send_cq, 1, IBV_WC_LOC_LEN_ERR, NULL);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	munmap(m, part);
	vs_free(&p);
}
