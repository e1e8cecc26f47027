/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions beyond registering: the null region, re-registration, pages that are not there. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/conformance/verbs/suite.h"

#define FULL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* ---- the null region ------------------------------------------------------------------------ */

CASE(a_null_region_swallows_what_is_read, .needs = NEED(NULL_MR))
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	struct ibv_mr *null = ibv_alloc_null_mr(p.end[0].pd);

	CHECK_MSG(null, "%s", strerror(errno));
	CHECK(null->pd == p.end[0].pd && null->context == p.end[0].ctx);
	vs_pattern(p.end[1].buffer, 64, 1);
	struct ibv_sge sge[3] = {{(uintptr_t)p.end[0].buffer, 16, p.end[0].mr->lkey},
				 {0, 32, null->lkey},
				 {(uintptr_t)p.end[0].buffer + 100, 16, p.end[0].mr->lkey}};

	vs_fill(&w, &p, 0, IBV_WR_RDMA_READ, 1, 0, 64);
	w.wr.sg_list = sge;
	w.wr.num_sge = 3;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	CHECK(!memcmp(p.end[0].buffer, p.end[1].buffer, 16));
	CHECK(!memcmp(p.end[0].buffer + 100, p.end[1].buffer + 48, 16));
	vs_expect_bytes(p.end[0].buffer + 16, 84, 0);
	CHECK_EQ(ibv_dereg_mr(null), 0);
	vs_free(&p);
}

CASE(a_null_region_holds_its_domain, .needs = NEED(NULL_MR), .misuse = true)
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	struct ibv_pd *pd = ibv_alloc_pd(p.end[0].ctx);
	struct ibv_mr *null = pd ? ibv_alloc_null_mr(pd) : NULL;

	CHECK(null);
	CHECK_EQ(ibv_dealloc_pd(pd), EBUSY);
	CHECK_EQ(ibv_dereg_mr(null), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	vs_free(&p);
}

CASE(a_null_region_reads_as_zeroes, .needs = NEED(NULL_MR))
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	struct ibv_mr *null = ibv_alloc_null_mr(p.end[0].pd);

	CHECK_MSG(null, "%s", strerror(errno));
	memset(p.end[1].buffer, 7, 200);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	w.sge.lkey = null->lkey;
	w.sge.addr = 0x1234;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect_bytes(p.end[1].buffer, 100, 0);
	vs_expect_bytes(p.end[1].buffer + 100, 100, 7);
	CHECK_EQ(ibv_dereg_mr(null), 0);
	vs_free(&p);
}

CASE(a_null_region_takes_receives, .needs = NEED(NULL_MR))
{
	struct vs_pair p;
	struct ibv_wc wc;

	vs_pair(&p, &vs_defaults);
	struct ibv_mr *null = ibv_alloc_null_mr(p.end[1].pd);

	CHECK_MSG(null, "%s", strerror(errno));
	struct ibv_sge sge = {0, 5000, null->lkey};
	struct ibv_recv_wr wr = {.wr_id = 3, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK_EQ(ibv_post_recv(p.end[1].qp, &wr, &bad), 0);
	vs_pattern(p.end[0].buffer, 5000, 1);
	vs_send(&p, 0, IBV_WR_SEND, 1, 0, 5000);
	vs_expect(p.end[1].recv_cq, 3, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.byte_len, 5000);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect_bytes(p.end[1].buffer, 5000, 0);
	CHECK_EQ(ibv_dereg_mr(null), 0);
	vs_free(&p);
}

CASE(a_null_region_is_not_for_peers, .needs = NEED(NULL_MR))
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	struct ibv_mr *null = ibv_alloc_null_mr(p.end[1].pd);

	CHECK_MSG(null, "%s", strerror(errno));
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	w.wr.wr.rdma.rkey = null->lkey;
	w.wr.wr.rdma.remote_addr = 0;
	vs_expect_failure(&p, &w, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, FULL),
		 IBV_REREG_MR_ERR_INPUT);
	CHECK_EQ(ibv_dereg_mr(null), 0);
	vs_free(&p);
}

/* ---- pages ---------------------------------------------------------------------------------- */

CASE(memory_that_is_not_there_is_efault)
{
	struct vs_pair p;
	uint8_t *hole =
		mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	vs_make(&p, &vs_defaults);
	CHECK(hole != MAP_FAILED);
	CHECK_EQ(munmap(hole + 4096, 4096), 0);
	CHECK_NULL(ibv_reg_mr(p.end[0].pd, hole, 3 * 4096, FULL), EFAULT);
	CHECK_NULL(ibv_reg_mr(p.end[0].pd, hole + 4000, 200, FULL), EFAULT);
	CHECK_NULL(ibv_reg_mr(p.end[0].pd, hole + 4096, 1, 0), EFAULT);
	struct ibv_mr *mr = ibv_reg_mr(p.end[0].pd, hole, 4096, FULL);

	CHECK_MSG(mr, "%s", strerror(errno));
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(munmap(hole, 3 * 4096), 0);
	vs_free(&p);
}

CASE(memory_that_is_read_only_cannot_be_written)
{
	struct vs_pair p;
	void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	vs_make(&p, &vs_defaults);
	CHECK(page != MAP_FAILED);
	CHECK_NULL(ibv_reg_mr(p.end[0].pd, page, 4096, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	CHECK_EQ(munmap(page, 4096), 0);
	vs_free(&p);
}

CASE(an_address_of_its_own_keeps_the_offset_in_the_page)
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	CHECK_NULL(ibv_reg_mr_iova(p.end[0].pd, p.end[0].buffer, 4096,
				   (uintptr_t)p.end[0].buffer + 64, FULL),
		   EINVAL);
	vs_free(&p);
}

/* ---- dma-buf
 * ---------------------------------------------------------------------------------- */

CASE(a_bad_descriptor_says_that_dma_bufs_are_taken, .needs = NEED(DMABUF))
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	CHECK_NULL(ibv_reg_dmabuf_mr(p.end[0].pd, 0, 0, 0, -1, 0), EBADF);
	vs_free(&p);
}

CASE(a_descriptor_of_something_else_is_einval, .needs = NEED(DMABUF))
{
	struct vs_pair p;
	int fd = open("/dev/null", O_RDWR);

	vs_make(&p, &vs_defaults);
	CHECK(fd >= 0);
	CHECK_NULL(ibv_reg_dmabuf_mr(p.end[0].pd, 0, 4096, 0, fd, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	CHECK_EQ(close(fd), 0);
	vs_free(&p);
}

CASE(a_dma_buf_has_the_flags_that_it_has, .needs = NEED(DMABUF))
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	CHECK_NULL(ibv_reg_dmabuf_mr(p.end[0].pd, 0, 4096, 0, -1, IBV_ACCESS_MW_BIND), EINVAL);
	CHECK_NULL(ibv_reg_dmabuf_mr(p.end[0].pd, 0, 4096, 0, -1, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	CHECK_NULL(ibv_reg_dmabuf_mr(p.end[0].pd, 64, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	vs_free(&p);
}

/* ---- re-registration ------------------------------------------------------------------------ */

/* Writes of end 0 that must reach end 1's region at `address`, or be refused. */
static void write_to(struct vs_pair *p, uint32_t rkey, uint64_t address, bool fits)
{
	struct vs_wr w;

	vs_fill(&w, p, 0, IBV_WR_RDMA_WRITE, 4, 0, 64);
	w.wr.wr.rdma.rkey = rkey;
	w.wr.wr.rdma.remote_addr = address;
	if (fits) {
		CHECK_EQ(vs_post(p->end[0].qp, &w.wr), 0);
		vs_expect(p->end[0].send_cq, 4, IBV_WC_SUCCESS, NULL);
	} else {
		vs_expect_failure(p, &w, IBV_WC_REM_ACCESS_ERR);
	}
}

CASE(a_region_moves_to_other_memory, .needs = NEED(REREG))
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	struct vs_end *b = &p.end[1];
	struct ibv_mr *mr = ibv_reg_mr(b->pd, b->buffer, 4096, FULL);

	CHECK(mr);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, b->buffer + 8192, 100, 0),
		 0);
	CHECK(mr->addr == b->buffer + 8192 && mr->length == 100);
	vs_pattern(p.end[0].buffer, 64, 1);
	write_to(&p, mr->rkey, (uintptr_t)b->buffer + 8192, true);
	vs_expect_pattern(b->buffer + 8192, 64, 1);
	write_to(&p, mr->rkey, (uintptr_t)b->buffer, false);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&p);
}

CASE(a_region_takes_and_loses_rights, .needs = NEED(REREG))
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	struct vs_end *b = &p.end[1];
	struct ibv_mr *mr = ibv_reg_mr(b->pd, b->buffer, 4096, IBV_ACCESS_REMOTE_READ);

	CHECK(mr);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, FULL), 0);
	write_to(&p, mr->rkey, (uintptr_t)b->buffer, true);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
		 0);
	write_to(&p, mr->rkey, (uintptr_t)b->buffer, false);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&p);
}

CASE(a_region_goes_to_another_domain, .needs = NEED(REREG))
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	struct vs_end *b = &p.end[1];
	struct ibv_pd *other = ibv_alloc_pd(b->ctx);
	struct ibv_mr *mr = ibv_reg_mr(other, b->buffer, 4096, FULL);

	CHECK(other && mr);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, b->pd, NULL, 0, 0), 0);
	CHECK(mr->pd == b->pd);
	CHECK_EQ(ibv_dealloc_pd(other), 0); /* nothing of it is left */
	write_to(&p, mr->rkey, (uintptr_t)b->buffer, true);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&p);
}

CASE(everything_changes_at_once, .needs = NEED(REREG))
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	struct vs_end *b = &p.end[1];
	struct ibv_pd *other = ibv_alloc_pd(b->ctx);
	struct ibv_mr *mr = ibv_reg_mr(other, b->buffer, 4096, 0);

	CHECK(other && mr);
	CHECK_EQ(ibv_rereg_mr(mr,
			      IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS |
				      IBV_REREG_MR_CHANGE_TRANSLATION,
			      b->pd, b->buffer + 4096, 64, FULL),
		 0);
	write_to(&p, mr->rkey, (uintptr_t)b->buffer + 4096, true);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_dealloc_pd(other), 0);
	vs_free(&p);
}

CASE(a_key_of_before_does_not_fit_any_more, .needs = NEED(REREG))
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	struct vs_end *b = &p.end[1];
	struct ibv_mr *mr = ibv_reg_mr(b->pd, b->buffer, 4096, FULL);

	CHECK(mr);
	uint32_t before = mr->rkey;

	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, b->buffer, 8192, 0), 0);
	CHECK(mr->rkey != before);
	write_to(&p, mr->rkey, (uintptr_t)b->buffer, true);
	write_to(&p, before, (uintptr_t)b->buffer, false);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&p);
}

CASE(what_makes_no_sense_leaves_the_region_as_it_is, .needs = NEED(REREG))
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	struct vs_end *b = &p.end[1];
	struct ibv_mr *mr = ibv_reg_mr(b->pd, b->buffer, 4096, FULL);

	CHECK(mr);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 4096, 0),
		 IBV_REREG_MR_ERR_INPUT);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, b->buffer, 0, 0),
		 IBV_REREG_MR_ERR_INPUT);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, b->pd, NULL, 0, FULL),
		 IBV_REREG_MR_ERR_INPUT);
	CHECK_EQ(ibv_rereg_mr(mr, 1 << 7, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	write_to(&p, mr->rkey, (uintptr_t)b->buffer, true);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&p);
}

CASE(a_refused_change_can_be_deregistered_or_repaired, .needs = NEED(REREG))
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	struct vs_end *b = &p.end[1];
	struct ibv_mr *mr = ibv_reg_mr(b->pd, b->buffer, 4096, FULL);

	CHECK(mr);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			      IBV_ACCESS_REMOTE_WRITE),
		 IBV_REREG_MR_ERR_CMD);
	CHECK_EQ(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_CMD);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION,
			      NULL, b->buffer, 4096, FULL),
		 0);
	write_to(&p, mr->rkey, (uintptr_t)b->buffer, true);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&p);
}

/* ---- advice --------------------------------------------------------------------------------- */

CASE(advice_on_a_region_is_taken, .needs = NEED(ADVICE))
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	struct ibv_mr *whole = p.end[0].mr,
		      *read = ibv_reg_mr(p.end[0].pd, p.end[0].buffer, 4096, 0);
	uint64_t at = (uintptr_t)p.end[0].buffer;

	CHECK_MSG(read, "%s", strerror(errno));
	struct ibv_sge sge[2] = {{at + 5000, 100, whole->lkey}, {at, 4096, read->lkey}};

	for (uint32_t flags = 0; flags <= IBV_ADVISE_MR_FLAG_FLUSH; flags++) {
		CHECK_EQ(ibv_advise_mr(p.end[0].pd, IBV_ADVISE_MR_ADVICE_PREFETCH, flags, sge, 2),
			 0);
		CHECK_EQ(ibv_advise_mr(p.end[0].pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, flags,
				       sge, 2),
			 0);
		CHECK_EQ(ibv_advise_mr(p.end[0].pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, flags, sge,
				       1),
			 0);
	}
	CHECK_EQ(ibv_dereg_mr(read), 0);
	vs_free(&p);
}

/* One entry, and the result of the call. */
static int advise(struct vs_pair *p, enum ibv_advise_mr_advice advice, uint64_t at, uint32_t bytes,
		  uint32_t lkey)
{
	struct ibv_sge sge = {at, bytes, lkey};

	return ibv_advise_mr(p->end[0].pd, advice, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
}

CASE(advice_that_does_not_fit_the_region_is_efault, .needs = NEED(ADVICE))
{
	const enum ibv_advise_mr_advice read = IBV_ADVISE_MR_ADVICE_PREFETCH,
					write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	uint64_t at = (uintptr_t)p.end[0].buffer;
	struct ibv_pd *other = ibv_alloc_pd(p.end[0].ctx);
	struct ibv_mr *mr = ibv_reg_mr(p.end[0].pd, p.end[0].buffer, 4096, 0);
	struct ibv_mr *far = other ? ibv_reg_mr(other, p.end[0].buffer, 4096, FULL) : NULL;

	CHECK_MSG(mr && far, "%s", strerror(errno));
	CHECK_EQ(advise(&p, read, at, 4096, mr->lkey), 0);
	CHECK_EQ(advise(&p, read, at, 4097, mr->lkey), EFAULT);
	CHECK_EQ(advise(&p, read, at - 1, 2, mr->lkey), EFAULT);
	CHECK_EQ(advise(&p, read, UINT64_MAX, 2, mr->lkey), EFAULT);
	CHECK_EQ(advise(&p, write, at, 1, mr->lkey), EFAULT); /* registered for reading */
	CHECK_EQ(advise(&p, read, at, 1, far->lkey), EFAULT);
	CHECK_EQ(advise(&p, read, at, 1, 0xffffff00), EFAULT);
	uint32_t gone = mr->lkey;

	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(advise(&p, read, at, 1, gone), EFAULT);
	struct ibv_sge sge[2] = {{at, 1, p.end[0].mr->lkey}, {at, 1, gone}}; /* the second, too */

	CHECK_EQ(ibv_advise_mr(p.end[0].pd, read, 0, sge, 2), EFAULT);
	CHECK_EQ(ibv_dereg_mr(far), 0);
	CHECK_EQ(ibv_dealloc_pd(other), 0);
	vs_free(&p);
}

CASE(advice_that_nobody_knows_is_refused, .needs = NEED(ADVICE))
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	struct ibv_sge sge = {(uintptr_t)p.end[0].buffer, 1, p.end[0].mr->lkey};
	struct ibv_pd *pd = p.end[0].pd;

	CHECK_EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 2, &sge, 1), EINVAL);
	CHECK_EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 0), EINVAL);
	CHECK_EQ(ibv_advise_mr(pd, (enum ibv_advise_mr_advice)77, 0, &sge, 1), ENOTSUP);
	vs_free(&p);
}

CASE(advice_is_taken_or_not_known)
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	struct ibv_sge sge = {(uintptr_t)p.end[0].buffer, 4096, p.end[0].mr->lkey};
	int rc = ibv_advise_mr(p.end[0].pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1);

	CHECK_MSG(rc == 0 || rc == EOPNOTSUPP || rc == ENOTSUP, "%d", rc);
	vs_free(&p);
}
