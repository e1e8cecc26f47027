/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of a reliable connection with several scatter/gather entries, and with inline data. */
#include "tests/conformance/verbs/suite.h"

/* ---- lists of entries ----------------------------------------------------------------------- */

static const struct {
	uint64_t at;
	uint32_t bytes;
} pieces[] = {{100, 1}, {3000, 1000}, {8000, 37}, {9000, 4096}};

/* Four odd pieces of end `side`'s buffer, as a list. */
static uint32_t list_of(const struct vs_end *e, struct ibv_sge *sge)
{
	uint32_t bytes = 0;

	for (int i = 0; i < 4; i++) {
		sge[i] = (struct ibv_sge){(uintptr_t)e->buffer + pieces[i].at, pieces[i].bytes,
					  e->mr->lkey};
		bytes += pieces[i].bytes;
	}
	return bytes;
}

static void list_fill(const struct vs_end *e, uint8_t *whole, uint32_t key)
{
	uint32_t at = 0;

	for (int i = 0; i < 4; at += pieces[i++].bytes)
		;
	vs_pattern(whole, at, key);
	at = 0;
	for (int i = 0; i < 4; at += pieces[i++].bytes)
		memcpy(e->buffer + pieces[i].at, whole + at, pieces[i].bytes);
}

static void list_expect(const struct vs_end *e, uint32_t key)
{
	static uint8_t whole[8192];
	uint32_t at = 0;

	for (int i = 0; i < 4; at += pieces[i++].bytes)
		memcpy(whole + at, e->buffer + pieces[i].at, pieces[i].bytes);
	vs_expect_pattern(whole, at, key);
	vs_expect_bytes(e->buffer + pieces[0].at + 1, 2899, 0); /* between the pieces */
	vs_expect_bytes(e->buffer + 4000, 4000, 0);
}

CASE(a_write_gathers)
{
	static uint8_t whole[8192];
	struct vs_pair p;
	struct ibv_sge sge[4];
	struct vs_wr w;

	NEEDS_AT_LEAST(4, 4);
	vs_pair(&p, &vs_defaults);
	list_fill(&p.end[0], whole, 3);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 1, 0, 0);
	uint32_t bytes = list_of(&p.end[0], sge);

	w.wr.sg_list = sge;
	w.wr.num_sge = 4;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer, bytes, 3);
	vs_expect_bytes(p.end[1].buffer + bytes, 5000, 0);
	vs_free(&p);
}

CASE(a_read_scatters)
{
	struct vs_pair p;
	struct ibv_sge sge[4];
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_READ, 1, 0, 0);
	uint32_t bytes = list_of(&p.end[0], sge);

	vs_pattern(p.end[1].buffer, bytes, 4);
	w.wr.sg_list = sge;
	w.wr.num_sge = 4;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	list_expect(&p.end[0], 4);
	vs_free(&p);
}

CASE(a_send_gathers_and_its_receive_scatters)
{
	static uint8_t whole[8192];
	struct vs_pair p;
	struct ibv_sge from[4], to[4];
	struct ibv_recv_wr recv = {.wr_id = 9, .sg_list = to, .num_sge = 4}, *bad;
	struct ibv_wc wc;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	list_fill(&p.end[0], whole, 5);
	uint32_t bytes = list_of(&p.end[0], from);

	list_of(&p.end[1], to);
	CHECK_EQ(ibv_post_recv(p.end[1].qp, &recv, &bad), 0);
	vs_fill(&w, &p, 0, IBV_WR_SEND, 1, 0, 0);
	w.wr.sg_list = from;
	w.wr.num_sge = 4;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[1].recv_cq, 9, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.byte_len, bytes);
	list_expect(&p.end[1], 5);
	vs_free(&p);
}

/* The second entry of the receive begins in the middle of a packet. */
CASE(a_receive_is_filled_entry_by_entry)
{
	struct vs_pair p;
	struct ibv_sge to[3];
	struct ibv_recv_wr recv = {.wr_id = 9, .sg_list = to, .num_sge = 3}, *bad;

	vs_pair(&p, &vs_defaults);
	for (int i = 0; i < 3; i++)
		to[i] = (struct ibv_sge){(uintptr_t)p.end[1].buffer + 10000 * (uint64_t)i, 1500,
					 p.end[1].mr->lkey};
	CHECK_EQ(ibv_post_recv(p.end[1].qp, &recv, &bad), 0);
	vs_pattern(p.end[0].buffer, 2000, 6);
	vs_send(&p, 0, IBV_WR_SEND, 1, 0, 2000);
	vs_expect(p.end[1].recv_cq, 9, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	memmove(p.end[1].buffer + 1500, p.end[1].buffer + 10000, 500);
	vs_expect_pattern(p.end[1].buffer, 2000, 6);
	vs_expect_bytes(p.end[1].buffer + 10500, 9500, 0);
	vs_expect_bytes(p.end[1].buffer + 20000, 1500, 0); /* the third is not needed */
	vs_free(&p);
}

CASE(a_receive_larger_than_its_message_keeps_its_end)
{
	struct vs_pair p;
	struct ibv_wc wc;

	vs_pair(&p, &vs_defaults);
	memset(p.end[1].buffer, 0x33, 8192);
	vs_pattern(p.end[0].buffer, 1234, 7);
	vs_recv(&p, 1, 9, 0, 8192);
	vs_send(&p, 0, IBV_WR_SEND, 1, 0, 1234);
	vs_expect(p.end[1].recv_cq, 9, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.byte_len, 1234);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer, 1234, 7);
	vs_expect_bytes(p.end[1].buffer + 1234, 8192 - 1234, 0x33);
	vs_free(&p);
}

/* ---- inline --------------------------------------------------------------------------------- */

CASE(inline_data_is_taken_at_the_post)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	for (uint32_t i = 0; i < 8; i++) {
		vs_pattern(p.end[0].buffer, 64, i);
		vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, i, 0, 64);
		w.wr.wr.rdma.remote_addr += 64 * i;
		w.wr.send_flags |= IBV_SEND_INLINE;
		CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	}
	memset(p.end[0].buffer, 0, 64);
	for (uint32_t i = 0; i < 8; i++)
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	for (uint32_t i = 0; i < 8; i++)
		vs_expect_pattern(p.end[1].buffer + 64 * i, 64, i);
	vs_free(&p);
}

CASE(inline_data_needs_no_key_and_no_region)
{
	struct vs_pair p;
	struct vs_wr w;
	uint8_t stack[40];

	vs_pair(&p, &vs_defaults);
	vs_pattern(stack, sizeof stack, 1);
	vs_fill(&w, &p, 0, IBV_WR_SEND, 1, 0, sizeof stack);
	w.sge.addr = (uintptr_t)stack;
	w.sge.lkey = 0x12345678;
	w.wr.send_flags |= IBV_SEND_INLINE;
	vs_recv(&p, 1, 2, 0, 64);
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[1].recv_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer, sizeof stack, 1);
	vs_free(&p);
}

CASE(inline_data_from_several_entries)
{
	struct vs_pair p;
	struct vs_wr w;
	struct ibv_sge sge[3];

	vs_pair(&p, &vs_defaults);
	vs_pattern(p.end[0].buffer, 60, 1);
	for (uint32_t i = 0; i < 3; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)p.end[0].buffer + 20 * i, 20, 0};
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 1, 0, 0);
	w.wr.sg_list = sge;
	w.wr.num_sge = 3;
	w.wr.send_flags |= IBV_SEND_INLINE;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer, 60, 1);
	vs_free(&p);
}

CASE(inline_with_immediate)
{
	struct vs_pair p;
	struct vs_wr w;
	struct ibv_wc wc;

	vs_pair(&p, &vs_defaults);
	vs_pattern(p.end[0].buffer, 64, 1);
	vs_recv(&p, 1, 2, 0, 0);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 64);
	w.wr.send_flags |= IBV_SEND_INLINE;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[1].recv_cq, 2, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(be32toh(wc.imm_data), 1);
	CHECK_EQ(wc.byte_len, 64);
	vs_expect_pattern(p.end[1].buffer, 64, 1);
	vs_free(&p);
}

CASE(nothing_inline)
{
	struct vs_pair p;
	struct vs_wr w;
	struct ibv_wc wc;

	vs_pair(&p, &vs_defaults);
	vs_recv(&p, 1, 2, 0, 0);
	vs_fill(&w, &p, 0, IBV_WR_SEND, 1, 0, 0);
	w.wr.num_sge = 0;
	w.wr.send_flags |= IBV_SEND_INLINE;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[1].recv_cq, 2, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.byte_len, 0);
	vs_free(&p);
}
