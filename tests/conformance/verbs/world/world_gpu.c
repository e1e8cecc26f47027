/* SPDX-License-Identifier: BSD-3-Clause */
/* GPU memory that an HCA accesses, on both doubles: registration, and visibility of an HCA's write
 * to a running kernel before and after the flush. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include "tests/conformance/cuda/cuda_kernel.h"
#include "tests/conformance/verbs/harness/world.h"

#define GPU_BYTES  300000
#define GPU_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

#define CU(call) CHECK_EQ(call, cudaSuccess)

static const struct world_config gpu_world = {
	.hosts = 1, .machine = "a100-4nic", .strict_device_view = true, .warp_width = 1};

static void *gpu_alloc(size_t bytes)
{
	void *p = NULL;

	CU(cudaMalloc(&p, bytes));
	CHECK(p);
	return p;
}

struct gpu_end {
	uint8_t *memory;
	struct ibv_mr *mr;
};

static void gpu_make(struct gpu_end *g, struct vs_pair *h, int side, int device)
{
	CU(cudaSetDevice(device));
	g->memory = gpu_alloc(GPU_BYTES);
	CU(cudaMemset(g->memory, 0, GPU_BYTES));
	CU(cudaDeviceSynchronize());
	g->mr = ibv_reg_mr(h->end[side].pd, g->memory, GPU_BYTES, GPU_ACCESS);
	CHECK(g->mr);
}

static void gpu_free(struct gpu_end *g)
{
	CHECK_EQ(ibv_dereg_mr(g->mr), 0);
	CU(cudaFree(g->memory));
}

static void post_between(struct vs_pair *h, enum ibv_wr_opcode opcode, const struct gpu_end *from,
			 const struct gpu_end *to, uint32_t bytes)
{
	struct vs_wr w;

	vs_fill(&w, h, 0, opcode, 1, 0, bytes);
	w.sge.addr = (uintptr_t)from->memory;
	w.sge.lkey = from->mr->lkey;
	w.wr.wr.rdma.remote_addr = (uintptr_t)to->memory;
	w.wr.wr.rdma.rkey = to->mr->rkey;
	CHECK_EQ(vs_post(h->end[0].qp, &w.wr), 0);
	vs_expect(h->end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
}

CASE(bytes_go_from_gpu_to_gpu_and_back, .world = &gpu_world)
{
	struct vs_pair h;
	struct gpu_end a, b;
	static uint8_t host[GPU_BYTES];

	vs_pair(&h, &vw_defaults);
	gpu_make(&a, &h, 0, 0);
	gpu_make(&b, &h, 1, 1);
	vs_pattern(host, GPU_BYTES, 1);
	CU(cudaMemcpy(a.memory, host, GPU_BYTES, cudaMemcpyHostToDevice));
	post_between(&h, IBV_WR_RDMA_WRITE, &a, &b, GPU_BYTES);
	memset(host, 0, GPU_BYTES);
	CU(cudaMemcpy(host, b.memory, GPU_BYTES, cudaMemcpyDeviceToHost));
	vs_expect_pattern(host, GPU_BYTES, 1);
	CU(cudaMemset(a.memory, 0, GPU_BYTES));
	CU(cudaDeviceSynchronize());
	post_between(&h, IBV_WR_RDMA_READ, &a, &b, GPU_BYTES);
	CU(cudaMemcpy(host, a.memory, GPU_BYTES, cudaMemcpyDeviceToHost));
	vs_expect_pattern(host, GPU_BYTES, 1);
	gpu_free(&a);
	gpu_free(&b);
	vs_free(&h);
}

CASE(a_send_lands_in_a_gpu_receive, .world = &gpu_world)
{
	struct vs_pair h;
	struct gpu_end b;
	static uint8_t host[GPU_BYTES];

	vs_pair(&h, &vw_defaults);
	gpu_make(&b, &h, 1, 3);
	struct ibv_sge sge = {(uintptr_t)b.memory + 8, 70000, b.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 9, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK_EQ(ibv_post_recv(h.end[1].qp, &wr, &bad), 0);
	vs_pattern(h.end[0].buffer, 70000, 4);
	vs_send(&h, 0, IBV_WR_SEND, 1, 0, 70000);
	vs_expect(h.end[1].recv_cq, 9, IBV_WC_SUCCESS, NULL);
	vs_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	CU(cudaMemcpy(host, b.memory, 80000, cudaMemcpyDeviceToHost));
	vs_expect_pattern(host + 8, 70000, 4);
	vs_expect_bytes(host + 8 + 70000, 1000, 0);
	gpu_free(&b);
	vs_free(&h);
}

CASE(only_memory_of_one_live_allocation_is_registered, .world = &gpu_world)
{
	struct vs_pair h;
	struct ch_capture quiet;

	vs_make(&h, &vw_defaults);
	char *p = gpu_alloc(4096);

	sim_expect_misuse("which is not one allocation of its own");
	ch_capture_begin(&quiet);
	errno = 0;
	CHECK(!ibv_reg_mr(h.end[0].pd, p, 4097, GPU_ACCESS));
	CHECK_EQ(errno, EFAULT);
	CU(cudaFree(p));
	errno = 0;
	CHECK(!ibv_reg_mr(h.end[0].pd, p, 4096, GPU_ACCESS));
	CHECK_EQ(errno, EFAULT);
	ch_capture_end(&quiet);
	vs_free(&h);
}

/* A kernel that runs until its word is 1. */
struct until_args {
	uint64_t word;
};
CH_KERNEL(until, 0)
{
	ch_wait_word(d, a->word, 1);
}

CASE(a_running_kernel_sees_a_write_after_a_read_by_the_same_hca, .world = &gpu_world)
{
	struct vs_pair h;
	struct gpu_end b;
	struct vs_wr w;

	vs_pair(&h, &vw_defaults);
	gpu_make(&b, &h, 1, 0);
	struct until_args args = {(uintptr_t)b.memory};
	cudaStream_t stream;

	CU(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CU(ch_launch_on(&until_w1, 1, 1, &args, stream));
	os_sleep_ns(300000); /* it runs by now */
	*(uint64_t *)(void *)h.end[0].buffer = 1;
	vs_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	w.wr.wr.rdma.remote_addr = (uintptr_t)b.memory;
	w.wr.wr.rdma.rkey = b.mr->rkey;
	CHECK_EQ(vs_post(h.end[0].qp, &w.wr), 0);
	vs_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	os_sleep_ns(5000000);
	CHECK_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
	/* the READ of any byte of that GPU flushes it; end 0 reads, so end 1's HCA executes it */
	vs_fill(&w, &h, 0, IBV_WR_RDMA_READ, 2, 64, 4);
	w.wr.wr.rdma.remote_addr = (uintptr_t)b.memory + 128;
	w.wr.wr.rdma.rkey = b.mr->rkey;
	CHECK_EQ(vs_post(h.end[0].qp, &w.wr), 0);
	vs_expect(h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	CU(cudaStreamSynchronize(stream));
	CU(cudaStreamDestroy(stream));
	gpu_free(&b);
	vs_free(&h);
}

/* An atomic reads GPU memory, so a second one flushes the result of the first. */
CASE(atomics_reach_gpu_memory_and_flush_it, .world = &gpu_world)
{
	struct vs_options o = vw_defaults;
	struct vs_pair h;
	struct gpu_end b;
	struct vs_wr w;
	uint64_t word;

	o.access |= IBV_ACCESS_REMOTE_ATOMIC;
	vs_pair(&h, &o);
	gpu_make(&b, &h, 1, 0);
	struct ibv_mr *mr =
		ibv_reg_mr(h.end[1].pd, b.memory, GPU_BYTES, GPU_ACCESS | IBV_ACCESS_REMOTE_ATOMIC);

	CHECK(mr);
	struct until_args args = {(uintptr_t)b.memory};
	cudaStream_t stream;

	CU(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CU(ch_launch_on(&until_w1, 1, 1, &args, stream));
	os_sleep_ns(300000);
	for (uint64_t i = 0; i < 3; i++) {
		vs_fill(&w, &h, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, i, 64 * i, 8);
		w.wr.wr.atomic.remote_addr = (uintptr_t)b.memory + (i == 2 ? 8 : 0);
		w.wr.wr.atomic.rkey = mr->rkey;
		w.wr.wr.atomic.compare_add = i == 0 ? 1 : 0;
		CHECK_EQ(vs_post(h.end[0].qp, &w.wr), 0);
		vs_expect(h.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
		memcpy(&word, h.end[0].buffer + 64 * i, sizeof word);
		CHECK_EQ(word, i == 1);
		if (i == 0) {
			os_sleep_ns(1000000);
			CHECK_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
		} else {
			CU(cudaStreamSynchronize(stream));
		}
	}
	CU(cudaStreamDestroy(stream));
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	gpu_free(&b);
	vs_free(&h);
}

/* ---- dma-buf -------------------------------------------------------------------------------- */

CASE(gpu_memory_is_registered_by_descriptor, .world = &gpu_world)
{
	struct vs_pair h;
	struct gpu_end b;
	struct vs_wr w;
	static uint8_t host[8192];
	int fd = -1, supported = 0;

	vs_pair(&h, &vw_defaults);
	gpu_make(&b, &h, 1, 1);
	CUdeviceptr page = ((uintptr_t)b.memory + 4095) & ~4095ull;

	CHECK_EQ(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 1),
		 CUDA_SUCCESS);
	CHECK_EQ(supported, 1);
	CHECK_EQ(cuMemGetHandleForAddressRange(&fd, page, 16384,
					       CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
		 CUDA_SUCCESS);
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(h.end[1].pd, 4096, 8192, 0x10000, fd, GPU_ACCESS);

	CHECK_MSG(mr != NULL, "%s", strerror(errno));
	CHECK_EQ(mr->length, 8192);
	CHECK_EQ(close(fd), 0); /* the region keeps the memory */
	vs_pattern(h.end[0].buffer, 1000, 3);
	vs_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 1000);
	w.wr.wr.rdma.rkey = mr->rkey;
	w.wr.wr.rdma.remote_addr = 0x10000 + 8192 - 1000;
	CHECK_EQ(vs_post(h.end[0].qp, &w.wr), 0);
	vs_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	CU(cudaMemcpy(host, (void *)(uintptr_t)(page + 4096), 8192, cudaMemcpyDeviceToHost));
	vs_expect_bytes(host, 7192, 0);
	vs_expect_pattern(host + 7192, 1000, 3);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
		 IBV_REREG_MR_ERR_INPUT);
	w.wr.wr.rdma.remote_addr++;
	vw_expect_failure(&h, &w, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	gpu_free(&b);
	vs_free(&h);
}

CASE(descriptors_are_of_whole_pages_and_live_memory, .world = &gpu_world)
{
	struct vs_pair h;
	int fd = -1;

	vs_make(&h, &vw_defaults);
	CU(cudaSetDevice(0));
	char *p = gpu_alloc(1 << 16);
	CUdeviceptr page = ((uintptr_t)p + 4095) & ~4095ull;
	const CUmemRangeHandleType type = CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;

	CHECK_EQ(cuMemGetHandleForAddressRange(&fd, page + 64, 4096, type, 0),
		 CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(cuMemGetHandleForAddressRange(&fd, page, 100, type, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(cuMemGetHandleForAddressRange(&fd, page, 1 << 20, type, 0),
		 CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(fd, -1);
	CHECK_EQ(cuMemGetHandleForAddressRange(&fd, page, 8192, type, 0), CUDA_SUCCESS);
	errno = 0;
	CHECK(!ibv_reg_dmabuf_mr(h.end[0].pd, 4096, 8192, 0, fd, GPU_ACCESS));
	CHECK_EQ(errno, EINVAL); /* beyond the descriptor's end */
	CU(cudaFree(p));
	errno = 0;
	CHECK(!ibv_reg_dmabuf_mr(h.end[0].pd, 0, 4096, 0, fd, GPU_ACCESS));
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(close(fd), 0);
	vs_free(&h);
}
