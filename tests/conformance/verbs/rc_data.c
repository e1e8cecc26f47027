/* SPDX-License-Identifier: BSD-3-Clause */
/* What each operation of a reliable connection moves, and what its completions say. */
#include "tests/conformance/verbs/suite.h"

CASE(write_moves_bytes)
{
	struct vs_pair p;
	struct ibv_wc wc;

	vs_pair(&p, &vs_defaults);
	vs_pattern(p.end[0].buffer, 100, 1);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 7, 0, 100);
	vs_expect(p.end[0].send_cq, 7, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
	CHECK_EQ(wc.qp_num, p.end[0].qp->qp_num);
	vs_expect_pattern(p.end[1].buffer, 100, 1);
	vs_expect_bytes(p.end[1].buffer + 100, 4096, 0);
	vs_expect_none(p.end[1].recv_cq);
	vs_free(&p);
}
