/* SPDX-License-Identifier: BSD-3-Clause */
/* Lengths of a request's entries whose sum overflows 32 bits. The post fails if the data are
 * inline; otherwise an error completion follows. No byte is written. */
#include <errno.h>

#include "pair.h"

static const uint32_t lengths[][3] = {{0x80000000u, 0x80000000u, 16},
				      {0xfffffff0u, 32, 0},
				      {0xffffffffu, 1, 0},
				      {0x80000000u, 0x80000000u, 0}};

static int post(struct pair *p, const uint32_t length[3], unsigned int flags)
{
	struct ibv_sge sge[3];
	struct ibv_send_wr wr = {.sg_list = sge,
				 .num_sge = 3,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED | flags,
				 .wr.rdma = {(uintptr_t)p->memory + 2048, p->mr->rkey}};
	struct ibv_send_wr *bad = NULL;

	for (int i = 0; i < 3; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)p->memory, length[i], p->mr->lkey};
	int rc = ibv_post_send(p->qp[0], &wr, &bad);

	pair_need(!rc || bad == &wr, "the refused request");
	return rc;
}

static void extended(struct pair *p)
{
	struct ibv_qp_init_attr_ex a = {.send_cq = p->cq,
					.recv_cq = p->cq,
					.qp_type = IBV_QPT_RC,
					.cap = {16, 16, 4, 4, 64},
					.pd = p->pd,
					.comp_mask = IBV_QP_INIT_ATTR_PD |
						     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};
	struct ibv_data_buf buf[3] = {
		{p->memory, 1ul << 63}, {p->memory, 1ul << 63}, {p->memory, 16}};
	struct ibv_qp *qp = ibv_create_qp_ex(p->context, &a);

	pair_need(qp && !pair_to_init(qp) && !pair_to_rts(p, qp, qp->qp_num),
		  "a queue pair that is its own peer");
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, p->mr->rkey, (uintptr_t)p->memory + 2048);
	ibv_wr_set_inline_data_list(ex, 3, buf);
	pair_need(ibv_wr_complete(ex) != 0, "2^64 + 16 inline bytes are refused");
}

int main(void)
{
	struct pair p;

	pair_open(&p);
	memset(p.memory, 1, 2048);
	for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
		pair_connect(&p);
		int rc = post(&p, lengths[i], IBV_SEND_INLINE);

		pair_need(rc == EINVAL || rc == ENOMEM, "that many inline bytes are refused");
		pair_need(!post(&p, lengths[i], 0), "a list of regions is taken");
		pair_need(pair_wait(&p).status != IBV_WC_SUCCESS, "and fails");
		pair_disconnect(&p);
	}
	extended(&p);
	for (int i = 2048; i < PAIR_BYTES; i++)
		pair_need(!p.memory[i], "memory that was not written");
	return 0;
}
