/* SPDX-License-Identifier: BSD-3-Clause */
/* A memory window of end 1, for windows_cases.c and window_type2_cases.c. */
#ifndef TESTS_CONFORMANCE_VERBS_OBJECTS_WINDOW_H
#define TESTS_CONFORMANCE_VERBS_OBJECTS_WINDOW_H

#include "tests/conformance/verbs/suite.h"

#define READ_WRITE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* A window of end 1, over a region that gives peers nothing itself. */
struct window {
	struct vs_pair p;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
};

static inline void window_make_with(struct window *t, enum ibv_mw_type type, unsigned int mr_access)
{
	vs_pair(&t->p, &vs_defaults);
	t->mr = ibv_reg_mr(t->p.end[1].pd, t->p.end[1].buffer, t->p.options.buffer_bytes,
			   (int)mr_access);
	CHECK_MSG(t->mr, "%s", strerror(errno));
	t->mw = ibv_alloc_mw(t->p.end[1].pd, type);
	CHECK_MSG(t->mw, "%s", strerror(errno));
}

static inline void window_make(struct window *t, enum ibv_mw_type type)
{
	window_make_with(t, type, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
}

static inline void window_free(struct window *t)
{
	if (t->mw)
		CHECK_EQ(ibv_dealloc_mw(t->mw), 0);
	CHECK_EQ(ibv_dereg_mr(t->mr), 0);
	vs_free(&t->p);
}

static inline void bind_fill(const struct window *t, struct ibv_send_wr *wr, uint64_t offset,
			     uint64_t bytes, unsigned int access)
{
	*wr = (struct ibv_send_wr){
		.wr_id = 50,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {.mw = t->mw,
			    .rkey = ibv_inc_rkey(t->mw->rkey),
			    .bind_info = {.mr = t->mr,
					  .addr = (uintptr_t)t->p.end[1].buffer + offset,
					  .length = bytes,
					  .mw_access_flags = access}}};
}

/* Binds by what the type has for it; gives the new key. */
static inline uint32_t window_bind_as(struct window *t, uint64_t offset, uint64_t bytes,
				      unsigned int access, enum ibv_wc_status status)
{
	struct vs_end *b = &t->p.end[1];
	struct ibv_send_wr wr;
	struct ibv_wc wc;
	uint32_t rkey;

	bind_fill(t, &wr, offset, bytes, access);
	if (t->mw->type == IBV_MW_TYPE_2) {
		CHECK_EQ(vs_post(b->qp, &wr), 0);
		rkey = wr.bind_mw.rkey;
	} else {
		struct ibv_mw_bind bind = {.wr_id = 50,
					   .send_flags = IBV_SEND_SIGNALED,
					   .bind_info = wr.bind_mw.bind_info};

		if (!bytes)
			bind.bind_info = (struct ibv_mw_bind_info){.mr = NULL};
		CHECK_EQ(ibv_bind_mw(b->qp, t->mw, &bind), 0);
		rkey = t->mw->rkey;
	}
	vs_expect(b->send_cq, 50, status, &wc);
	if (status == IBV_WC_SUCCESS)
		CHECK_EQ(wc.opcode, IBV_WC_BIND_MW);
	return rkey;
}

static inline uint32_t window_bind(struct window *t, uint64_t offset, uint64_t bytes,
				   unsigned int access)
{
	return window_bind_as(t, offset, bytes, access, IBV_WC_SUCCESS);
}

static inline void window_use(struct window *t, enum ibv_wr_opcode op, uint32_t rkey,
			      uint64_t address, uint32_t bytes, enum ibv_wc_status status)
{
	struct vs_wr w;

	vs_fill(&w, &t->p, 0, op, 4, 0, bytes);
	w.wr.wr.rdma.rkey = rkey;
	w.wr.wr.rdma.remote_addr = address;
	if (status == IBV_WC_SUCCESS) {
		CHECK_EQ(vs_post(t->p.end[0].qp, &w.wr), 0);
		vs_expect(t->p.end[0].send_cq, 4, IBV_WC_SUCCESS, NULL);
	} else {
		vs_expect_failure(&t->p, &w, status);
	}
}

static inline uint64_t window_at(const struct window *t, uint64_t offset)
{
	return (uintptr_t)t->p.end[1].buffer + offset;
}

#endif
