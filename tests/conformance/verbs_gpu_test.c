/* SPDX-License-Identifier: BSD-3-Clause */
/* GPU memory under the HCA: both doubles together. What an HCA may reach, and what a running kernel
 * sees of it before and after the flush. Needs fakecuda. */
#ifdef DOPPEL_FAKECUDA
#include <cuda.h>
#include <unistd.h>

#include "tests/conformance/cuda_harness.h"
#include "tests/conformance/verbs_harness.h"

#define GPU_BYTES  300000
#define GPU_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct gpu_end {
	uint8_t *memory;
	struct ibv_mr *mr;
};

static void gpu_make(struct gpu_end *g, struct vh *h, int side, int device)
{
	CU(cudaSetDevice(device));
	g->memory = ch_malloc(GPU_BYTES);
	CU(cudaMemset(g->memory, 0, GPU_BYTES));
	CU(cudaDeviceSynchronize());
	g->mr = ibv_reg_mr(h->end[side].pd, g->memory, GPU_BYTES, GPU_ACCESS);
	ck_assert_ptr_nonnull(g->mr);
}

static void gpu_free(struct gpu_end *g)
{
	ck_assert_int_eq(ibv_dereg_mr(g->mr), 0);
	CU(cudaFree(g->memory));
}

static void post_between(struct vh *h, enum ibv_wr_opcode opcode, const struct gpu_end *from,
			 const struct gpu_end *to, uint32_t bytes)
{
	struct vh_wr w;

	vh_wr_fill(&w, h, 0, opcode, 1, 0, bytes);
	w.sge.addr = (uintptr_t)from->memory;
	w.sge.lkey = from->mr->lkey;
	w.wr.wr.rdma.remote_addr = (uintptr_t)to->memory;
	w.wr.wr.rdma.rkey = to->mr->rkey;
	ck_assert_int_eq(vh_post(h->end[0].qp, &w.wr), 0);
	vh_expect(h->end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
}

CH_TEST(bytes_go_from_gpu_to_gpu_and_back)
{
	struct vh h;
	struct gpu_end a, b;
	static uint8_t host[GPU_BYTES];

	vh_pair(&h, &vh_defaults);
	gpu_make(&a, &h, 0, 0);
	gpu_make(&b, &h, 1, 1);
	ch_pattern(host, GPU_BYTES, 1);
	CU(cudaMemcpy(a.memory, host, GPU_BYTES, cudaMemcpyHostToDevice));
	post_between(&h, IBV_WR_RDMA_WRITE, &a, &b, GPU_BYTES);
	memset(host, 0, GPU_BYTES);
	CU(cudaMemcpy(host, b.memory, GPU_BYTES, cudaMemcpyDeviceToHost));
	ch_expect(host, GPU_BYTES, 1);
	CU(cudaMemset(a.memory, 0, GPU_BYTES));
	CU(cudaDeviceSynchronize());
	post_between(&h, IBV_WR_RDMA_READ, &a, &b, GPU_BYTES);
	CU(cudaMemcpy(host, a.memory, GPU_BYTES, cudaMemcpyDeviceToHost));
	ch_expect(host, GPU_BYTES, 1);
	gpu_free(&a);
	gpu_free(&b);
	vh_free(&h);
}

CH_TEST(a_send_lands_in_a_gpu_receive)
{
	struct vh h;
	struct gpu_end b;
	static uint8_t host[GPU_BYTES];

	vh_pair(&h, &vh_defaults);
	gpu_make(&b, &h, 1, 3);
	struct ibv_sge sge = {(uintptr_t)b.memory + 8, 70000, b.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 9, .sg_list = &sge, .num_sge = 1}, *bad;

	ck_assert_int_eq(ibv_post_recv(h.end[1].qp, &wr, &bad), 0);
	ch_pattern(h.end[0].buffer, 70000, 4);
	vh_send(&h, 0, IBV_WR_SEND, 1, 0, 70000);
	vh_expect(h.end[1].recv_cq, 9, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	CU(cudaMemcpy(host, b.memory, 80000, cudaMemcpyDeviceToHost));
	ch_expect(host + 8, 70000, 4);
	vh_expect_zero(host + 8 + 70000, 1000);
	gpu_free(&b);
	vh_free(&h);
}

CH_TEST(only_memory_of_one_live_allocation_is_registered)
{
	struct vh h;
	struct ch_capture quiet;

	vh_make(&h, &vh_defaults);
	char *p = ch_malloc(4096);

	sim_expect_misuse("which is not one allocation of its own");
	ch_capture_begin(&quiet);
	errno = 0;
	ck_assert_ptr_null(ibv_reg_mr(h.end[0].pd, p, 4097, GPU_ACCESS));
	ck_assert_int_eq(errno, EFAULT);
	CU(cudaFree(p));
	errno = 0;
	ck_assert_ptr_null(ibv_reg_mr(h.end[0].pd, p, 4096, GPU_ACCESS));
	ck_assert_int_eq(errno, EFAULT);
	ch_capture_end(&quiet);
	vh_free(&h);
}

/* A kernel that runs until its word is 1. */
struct until_args {
	uint64_t word;
};
CH_KERNEL(until, 0)
{
	ch_wait_word(d, a->word, 1);
}

CH_TEST(a_running_kernel_sees_a_write_after_a_read_by_the_same_hca, .machine = "a100-4nic")
{
	struct vh h;
	struct gpu_end b;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	gpu_make(&b, &h, 1, 0);
	struct until_args args = {(uintptr_t)b.memory};
	cudaStream_t stream;

	CU(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CU(ch_launch_on(&until_w1, 1, 1, &args, stream));
	os_sleep_ns(300000); /* it runs by now */
	*(uint64_t *)(void *)h.end[0].buffer = 1;
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	w.wr.wr.rdma.remote_addr = (uintptr_t)b.memory;
	w.wr.wr.rdma.rkey = b.mr->rkey;
	ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	os_sleep_ns(5000000);
	ck_assert_int_eq(cudaStreamQuery(stream), cudaErrorNotReady);
	/* any byte of that GPU will do; here the other end reads, so end 1's HCA does it */
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_READ, 2, 64, 4);
	w.wr.wr.rdma.remote_addr = (uintptr_t)b.memory + 128;
	w.wr.wr.rdma.rkey = b.mr->rkey;
	ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
	vh_expect(h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	CU(cudaStreamSynchronize(stream));
	CU(cudaStreamDestroy(stream));
	gpu_free(&b);
	vh_free(&h);
}

/* What a fetch-and-add did is seen after the next one, which reads: it is its own flush. */
CH_TEST(atomics_reach_gpu_memory_and_flush_it, .machine = "a100-4nic")
{
	struct vh_options o = vh_defaults;
	struct vh h;
	struct gpu_end b;
	struct vh_wr w;
	uint64_t word;

	o.access |= IBV_ACCESS_REMOTE_ATOMIC;
	vh_pair(&h, &o);
	gpu_make(&b, &h, 1, 0);
	struct ibv_mr *mr =
		ibv_reg_mr(h.end[1].pd, b.memory, GPU_BYTES, GPU_ACCESS | IBV_ACCESS_REMOTE_ATOMIC);

	ck_assert_ptr_nonnull(mr);
	struct until_args args = {(uintptr_t)b.memory};
	cudaStream_t stream;

	CU(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CU(ch_launch_on(&until_w1, 1, 1, &args, stream));
	os_sleep_ns(300000);
	for (uint64_t i = 0; i < 3; i++) {
		vh_wr_fill(&w, &h, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, i, 64 * i, 8);
		w.wr.wr.atomic.remote_addr = (uintptr_t)b.memory + (i == 2 ? 8 : 0);
		w.wr.wr.atomic.rkey = mr->rkey;
		w.wr.wr.atomic.compare_add = i == 0 ? 1 : 0;
		ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
		vh_expect(h.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
		memcpy(&word, h.end[0].buffer + 64 * i, sizeof word);
		ck_assert_uint_eq(word, i == 1);
		if (i == 0) {
			os_sleep_ns(1000000);
			ck_assert_int_eq(cudaStreamQuery(stream), cudaErrorNotReady);
		} else {
			CU(cudaStreamSynchronize(stream));
		}
	}
	CU(cudaStreamDestroy(stream));
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	gpu_free(&b);
	vh_free(&h);
}

/* ---- dma-buf -------------------------------------------------------------------------------- */

CH_TEST(gpu_memory_is_registered_by_descriptor)
{
	struct vh h;
	struct gpu_end b;
	struct vh_wr w;
	static uint8_t host[8192];
	int fd = -1, supported = 0;

	vh_pair(&h, &vh_defaults);
	gpu_make(&b, &h, 1, 1);
	CUdeviceptr page = ((uintptr_t)b.memory + 4095) & ~4095ull;

	ck_assert_int_eq(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 1),
			 CUDA_SUCCESS);
	ck_assert_int_eq(supported, 1);
	ck_assert_int_eq(cuMemGetHandleForAddressRange(&fd, page, 16384,
						       CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
			 CUDA_SUCCESS);
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(h.end[1].pd, 4096, 8192, 0x10000, fd, GPU_ACCESS);

	ck_assert_msg(mr != NULL, "%s", strerror(errno));
	ck_assert_uint_eq(mr->length, 8192);
	ck_assert_int_eq(close(fd), 0); /* the region keeps what it needs */
	ch_pattern(h.end[0].buffer, 1000, 3);
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 1000);
	w.wr.wr.rdma.rkey = mr->rkey;
	w.wr.wr.rdma.remote_addr = 0x10000 + 8192 - 1000;
	ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	CU(cudaMemcpy(host, (void *)(uintptr_t)(page + 4096), 8192, cudaMemcpyDeviceToHost));
	vh_expect_zero(host, 7192);
	ch_expect(host + 7192, 1000, 3);
	ck_assert_int_eq(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	w.wr.wr.rdma.remote_addr++;
	vh_expect_failure(&h, &w, IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	gpu_free(&b);
	vh_free(&h);
}

CH_TEST(descriptors_are_of_whole_pages_and_live_memory)
{
	struct vh h;
	int fd = -1;

	vh_make(&h, &vh_defaults);
	CU(cudaSetDevice(0));
	char *p = ch_malloc(1 << 16);
	CUdeviceptr page = ((uintptr_t)p + 4095) & ~4095ull;
	const CUmemRangeHandleType type = CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;

	ck_assert_int_eq(cuMemGetHandleForAddressRange(&fd, page + 64, 4096, type, 0),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(cuMemGetHandleForAddressRange(&fd, page, 100, type, 0),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(cuMemGetHandleForAddressRange(&fd, page, 1 << 20, type, 0),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(fd, -1);
	ck_assert_int_eq(cuMemGetHandleForAddressRange(&fd, page, 8192, type, 0), CUDA_SUCCESS);
	errno = 0;
	ck_assert_ptr_null(ibv_reg_dmabuf_mr(h.end[0].pd, 4096, 8192, 0, fd, GPU_ACCESS));
	ck_assert_int_eq(errno, EINVAL); /* beyond its end */
	CU(cudaFree(p));
	errno = 0;
	ck_assert_ptr_null(ibv_reg_dmabuf_mr(h.end[0].pd, 0, 4096, 0, fd, GPU_ACCESS));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(close(fd), 0);
	vh_free(&h);
}

int main(void)
{
	TCase *t = tcase_create("gpu memory");

	CH_ADD(t, bytes_go_from_gpu_to_gpu_and_back);
	CH_ADD(t, a_send_lands_in_a_gpu_receive);
	CH_ADD(t, only_memory_of_one_live_allocation_is_registered);
	CH_ADD(t, a_running_kernel_sees_a_write_after_a_read_by_the_same_hca);
	CH_ADD(t, atomics_reach_gpu_memory_and_flush_it);
	CH_ADD(t, gpu_memory_is_registered_by_descriptor);
	CH_ADD(t, descriptors_are_of_whole_pages_and_live_memory);
	return vh_suite_run("verbs gpu memory", t);
}
#else
#include <stdio.h>

int main(void)
{
	printf("skipped: the GPUs of this build are real\n");
	return 77;
}
#endif
