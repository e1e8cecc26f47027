/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of world_check.c on reliable connections. */
#include <cuda_runtime_api.h>

#include "tests/conformance/verbs/world/world_check.h"

void change_what_is_being_sent(void)
{
	struct vs_pair h;

	vs_pair(&h, &vw_defaults);
	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 300000);
	if (check_bad)
		h.end[0].buffer[299999]++;
	vs_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	h.end[0].buffer[299999]++;
	vs_free(&h);
}

/* The peer writes to the buffer that is being sent. An HCA's write is not a finding. */
void answer_into_what_is_being_sent(void)
{
	struct vs_pair h;

	check_bad = false;
	vs_pair(&h, &vw_defaults);
	memset(h.end[1].buffer, 7, 300000);
	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 300000);
	vs_send(&h, 1, IBV_WR_RDMA_WRITE, 2, 0, 300000);
	vs_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(h.end[1].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_free(&h);
}

void deregister_what_is_in_use(void)
{
	struct vs_pair h;

	vs_pair(&h, &vw_defaults);
	struct ibv_mr *mr = ibv_reg_mr(h.end[0].pd, h.end[0].buffer, 64, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)h.end[0].buffer, 64, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *refused;

	CHECK_EQ(ibv_post_recv(h.end[0].qp, &wr, &refused), 0);
	if (!check_bad) {
		vs_send(&h, 1, IBV_WR_SEND, 2, 0, 64);
		vs_expect(h.end[0].recv_cq, 1, IBV_WC_SUCCESS, NULL);
		vs_expect(h.end[1].send_cq, 2, IBV_WC_SUCCESS, NULL);
	}
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&h);
}

void fill_a_queue(void)
{
	struct vs_pair h;
	struct vs_wr w;

	vs_pair(&h, &vw_defaults);
	for (int i = 0; i < 17; i++) {
		vs_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, (uint64_t)i, 0, 8);
		w.wr.send_flags = i == 15 && !check_bad ? IBV_SEND_SIGNALED : 0;
		CHECK_EQ(vs_post(h.end[0].qp, &w.wr), i < 16 ? 0 : ENOMEM);
	}
	os_sleep_ns(VS_SECOND / 10);
	vs_free(&h);
}

void make_a_small_queue(void)
{
	struct vs_options o = vw_defaults;
	struct vs_pair h;

	o.cqe = check_bad ? 8 : 16;
	vs_make(&h, &o);
	vs_free(&h);
}

void overrun_a_queue(void)
{
	struct vs_options o = vw_defaults;
	struct vs_pair h;

	o.cqe = check_bad ? 4 : 8;
	o.recv_wr = 1;
	vs_pair(&h, &o);
	for (uint32_t i = 0; i < 8; i++)
		vs_send(&h, 0, IBV_WR_RDMA_WRITE, i, 0, 8);
	os_sleep_ns(VS_SECOND / 10);
	vs_free(&h);
}

void send_what_a_read_brings(void)
{
	struct vs_pair h;
	struct vs_wr w;

	vs_pair(&h, &vw_defaults);
	vs_send(&h, 0, IBV_WR_RDMA_READ, 1, 0, 64);
	vs_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 2, 0, 64);
	w.wr.wr.rdma.remote_addr += 4096;
	if (!check_bad)
		w.wr.send_flags |= IBV_SEND_FENCE;
	CHECK_EQ(vs_post(h.end[0].qp, &w.wr), 0);
	vs_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_free(&h);
}

void modify_with_a_bit_too_few(void)
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	struct ibv_qp_attr a = vs_attr(&h, 0);

	a.qp_state = IBV_QPS_INIT;
	CHECK_EQ(ibv_modify_qp(h.end[0].qp, &a, VW_INIT_MASK & ~(check_bad ? IBV_QP_PORT : 0)),
		 check_bad ? EINVAL : 0);
	vs_free(&h);
}

void modify_with_a_value_unset(void)
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	vs_connect(&h, 0, IBV_QPS_INIT);
	struct ibv_qp_attr a = vs_attr(&h, 0);

	a.qp_state = IBV_QPS_RTR;
	if (check_bad)
		a.path_mtu = 0;
	CHECK_EQ(ibv_modify_qp(h.end[0].qp, &a, VW_RTR_MASK), check_bad ? EINVAL : 0);
	vs_free(&h);
}

void wait_for_too_long(void)
{
	struct vs_options o = vw_defaults;
	struct vs_pair h;

	o.timeout = check_bad ? 22 : 20;
	o.retry_count = 7;
	vs_pair(&h, &o);
	vs_free(&h);
}

void arm_and_do_not_poll(void)
{
	struct vs_pair h;
	struct ibv_cq *cq;
	void *context;

	vs_pair(&h, &vw_defaults);
	struct ibv_comp_channel *ch = ibv_create_comp_channel(h.end[0].ctx);
	struct ibv_cq *mine = ibv_create_cq(h.end[0].ctx, 16, NULL, ch, 0);
	struct ibv_qp_init_attr init = vw_init_attr(&h.options, mine, h.end[0].recv_cq);

	CHECK_EQ(ibv_destroy_qp(h.end[0].qp), 0);
	h.end[0].qp = ibv_create_qp(h.end[0].pd, &init);
	vs_set_state(h.end[1].qp, IBV_QPS_RESET);
	vs_connect(&h, 0, IBV_QPS_RTS);
	vs_connect(&h, 1, IBV_QPS_RTS);
	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	os_sleep_ns(VS_SECOND / 10);
	CHECK_EQ(ibv_req_notify_cq(mine, 0), 0);
	if (!check_bad)
		vs_expect(mine, 1, IBV_WC_SUCCESS, NULL);
	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 2, 0, 8); /* ends the wait below */
	CHECK_EQ(ibv_get_cq_event(ch, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	CHECK_EQ(ibv_destroy_qp(h.end[0].qp), 0);
	CHECK_EQ(ibv_destroy_cq(mine), 0);
	CHECK_EQ(ibv_destroy_comp_channel(ch), 0);
	init = vw_init_attr(&h.options, h.end[0].send_cq, h.end[0].recv_cq);
	h.end[0].qp = ibv_create_qp(h.end[0].pd, &init);
	vs_free(&h);
}

void use_a_key_that_is_gone(void)
{
	struct vs_pair h;
	struct vs_wr w;

	vs_pair(&h, &vw_defaults);
	struct ibv_mr *mr = ibv_reg_mr(h.end[1].pd, h.end[1].buffer, 64,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	vs_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 64);
	w.wr.wr.rdma.rkey = mr->rkey;
	if (check_bad)
		CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(vs_post(h.end[0].qp, &w.wr), 0);
	vs_expect(h.end[0].send_cq, 1, check_bad ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS, NULL);
	if (!check_bad)
		CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&h);
}

void register_without_local_write(void)
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	struct ibv_mr *mr =
		ibv_reg_mr(h.end[0].pd, h.end[0].buffer, 64,
			   IBV_ACCESS_REMOTE_WRITE | (check_bad ? 0 : IBV_ACCESS_LOCAL_WRITE));

	CHECK_EQ(!mr, check_bad);
	if (mr)
		CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&h);
}

void write_over_the_end(void)
{
	struct vs_pair h;
	struct vs_wr w;

	vs_pair(&h, &vw_defaults);
	vs_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 64);
	w.wr.wr.rdma.remote_addr += VW_BUFFER_BYTES - (check_bad ? 63 : 64);
	CHECK_EQ(vs_post(h.end[0].qp, &w.wr), 0);
	vs_expect(h.end[0].send_cq, 1, check_bad ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS, NULL);
	vs_free(&h);
}

void send_from_another_domain(void)
{
	struct vs_pair h;
	struct vs_wr w;

	vs_pair(&h, &vw_defaults);
	struct ibv_pd *pd = ibv_alloc_pd(h.end[0].ctx);
	struct ibv_mr *mr = ibv_reg_mr(check_bad ? pd : h.end[0].pd, h.end[0].buffer, 64, 0);

	vs_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 64);
	w.sge.lkey = mr->lkey;
	CHECK_EQ(vs_post(h.end[0].qp, &w.wr), 0);
	vs_expect(h.end[0].send_cq, 1, check_bad ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS, NULL);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	vs_free(&h);
}

void read_more_than_the_peer_takes(void)
{
	struct vs_options o = vw_defaults;
	struct vs_pair h;

	o.rd_atomic = check_bad ? 8 : 1;
	o.dest_rd_atomic = 1;
	vs_pair(&h, &o);
	for (uint32_t i = 0; i < 8; i++)
		vs_send(&h, 0, IBV_WR_RDMA_READ, i, i * 65536, 65536);
	os_sleep_ns(VS_SECOND / 10);
	CHECK_EQ(vs_state(h.end[0].qp), check_bad ? IBV_QPS_ERR : IBV_QPS_RTS);
	vs_free(&h);
}

void let_the_peer_wait(void)
{
	struct vs_options o = vw_defaults;
	struct vs_pair h;

	o.rnr_retry = 7;
	vs_pair(&h, &o);
	if (!check_bad)
		vs_recv(&h, 1, 1, 0, 64);
	vs_send(&h, 0, IBV_WR_SEND, 1, 0, 64);
	os_sleep_ns(VS_SECOND / 100);
	if (check_bad)
		vs_recv(&h, 1, 1, 0, 64);
	vs_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_free(&h);
}

void write_with_immediate_to_nobody(void)
{
	struct vs_pair h;

	vs_pair(&h, &vw_defaults);
	if (!check_bad)
		vs_recv(&h, 1, 1, 0, 0);
	vs_send(&h, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 64);
	vs_expect(h.end[0].send_cq, 1, check_bad ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_SUCCESS, NULL);
	vs_free(&h);
}

void destroy_the_queue_first(void)
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	if (check_bad)
		CHECK_EQ(ibv_destroy_cq(h.end[0].send_cq), EBUSY);
	vs_free(&h);
}

void close_with_something_open(void)
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	if (check_bad)
		CHECK_EQ(ibv_close_device(h.end[0].ctx), EBUSY);
	vs_free(&h);
}

void add_across_words(void)
{
	struct vs_options o = vw_defaults;
	struct vs_pair h;
	struct vs_wr w;

	o.access |= IBV_ACCESS_REMOTE_ATOMIC;
	vs_pair(&h, &o);
	struct ibv_mr *mr = ibv_reg_mr(h.end[1].pd, h.end[1].buffer, 64,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	vs_fill(&w, &h, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 8);
	w.wr.wr.atomic.remote_addr = (uintptr_t)h.end[1].buffer + (check_bad ? 4 : 8);
	w.wr.wr.atomic.rkey = mr->rkey;
	w.wr.wr.atomic.compare_add = 1;
	CHECK_EQ(vs_post(h.end[0].qp, &w.wr), 0);
	os_sleep_ns(VS_SECOND / 10);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&h);
}

/* An HCA reports the scope of its atomics for host memory. GPU memory has none. */
void add_globally_to_a_gpu(void)
{
	struct vs_options o = vw_defaults;
	struct vs_pair h;
	struct vs_wr w;
	void *gpu = NULL;

	setenv("DOPPEL_HCA_ATOMIC", "glob", 1);
	o.access |= IBV_ACCESS_REMOTE_ATOMIC;
	vs_pair(&h, &o);
	CHECK_EQ(cudaMalloc(&gpu, 4096), cudaSuccess);
	void *where = check_bad ? gpu : h.end[1].buffer;
	struct ibv_mr *mr = ibv_reg_mr(h.end[1].pd, where, 64,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	CHECK(mr);
	vs_fill(&w, &h, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 8);
	w.wr.wr.atomic.remote_addr = (uintptr_t)where;
	w.wr.wr.atomic.rkey = mr->rkey;
	w.wr.wr.atomic.compare_add = 1;
	CHECK_EQ(vs_post(h.end[0].qp, &w.wr), 0);
	vs_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(cudaFree(gpu), cudaSuccess);
	vs_free(&h);
	unsetenv("DOPPEL_HCA_ATOMIC");
}

void send_too_much_inline(void)
{
	struct vs_pair h;
	struct vs_wr w;

	vs_pair(&h, &vw_defaults);
	vs_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, check_bad ? 65 : 64);
	w.wr.send_flags |= IBV_SEND_INLINE;
	CHECK_EQ(vs_post(h.end[0].qp, &w.wr), check_bad ? EINVAL : 0);
	os_sleep_ns(VS_SECOND / 10);
	vs_free(&h);
}
