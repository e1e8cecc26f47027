/* SPDX-License-Identifier: BSD-3-Clause */
/* All-to-all, gather and scatter, which consist of messages. */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sample.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

/* ---- collectives ---------------------------------------------------------------------------- */

/* Blocks of `count` int32, block r of rank q filled with 1000 q + r. */
static int32_t *blocks_make(int32_t rank, int32_t blocks, size_t count, bool filled)
{
	size_t bytes = (size_t)blocks * count * 4;
	int32_t *mem, *host = calloc(1, bytes);

	ck_assert_ptr_nonnull(host);
	for (size_t i = 0; filled && i < (size_t)blocks * count; i++)
		host[i] = 1000 * rank + (int32_t)(i / count);
	EXPECT(cudaMalloc((void **)&mem, bytes) == cudaSuccess);
	EXPECT(cudaMemcpy(mem, host, bytes, cudaMemcpyHostToDevice) == cudaSuccess);
	free(host);
	return mem;
}

/* Block b holds `first` + b * `step`. */
static void blocks_check(const char *what, const int32_t *mem, int32_t blocks, size_t count,
			 int32_t first, int32_t step)
{
	size_t bytes = (size_t)blocks * count * 4;
	int32_t *host = malloc(bytes);

	ck_assert_ptr_nonnull(host);
	EXPECT(cudaMemcpy(host, mem, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
	for (size_t i = 0; i < (size_t)blocks * count; i++) {
		int32_t want = first + (int32_t)(i / count) * step;

		if (host[i] == want)
			continue;
		fprintf(stderr, "%s: element %zu of block %zu is %d, expected %d\n", what,
			i % count, i / count, host[i], want);
		abort();
	}
	free(host);
}

static void blocks_rank(int32_t rank, int32_t nranks, void *arg)
{
	size_t count = *(const size_t *)arg;
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	int32_t *in = blocks_make(rank, nranks, count, true);
	int32_t *out = blocks_make(rank, nranks, count, false);
	int32_t root = nranks - 1;
	cudaStream_t stream;

	EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
	EXPECT(cudaDeviceSynchronize() == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclAlltoAll(in, out, count, ncclInt32, comm, stream));
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	blocks_check("all-to-all", out, nranks, count, rank, 1000);

	EXPECT_NCCL(ncclSuccess, ncclScatter(in, out, count, ncclInt32, root, comm, stream));
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	blocks_check("scatter", out, 1, count, 1000 * root + rank, 0);

	EXPECT_NCCL(ncclSuccess,
		    ncclGather(in, rank ? NULL : out, count, ncclInt32, 0, comm, stream));
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	if (rank == 0)
		blocks_check("gather", out, nranks, count, 0, 1000);

	/* in place: the root's block is where it belongs */
	EXPECT_NCCL(ncclSuccess, ncclGather(in + (size_t)rank * count, in, count, ncclInt32, root,
					    comm, stream));
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	if (rank == root)
		blocks_check("gather in place", in, nranks, count, 0, 1001);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT(cudaFree(in) == cudaSuccess && cudaFree(out) == cudaSuccess);
	EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
}

START_TEST(all_to_all_gather_and_scatter_are_right)
{
	static size_t counts[] = {1, 1025, 200000};

	for (uint64_t seed = 1; seed <= 6; seed += SAMPLE_THIN) {
		struct ranks_config config = {.hosts = 1 + (uint32_t)(seed % 3),
					      .per_host = 1 + (uint32_t)(seed % 4),
					      .seed = seed};

		ranks_run(&config, blocks_rank, &counts[seed % 3]);
	}
}
END_TEST

/* Without a wait in between: what is sent in place then needs more memory while it is under way. */
static void in_place_rank(int32_t rank, int32_t nranks, void *arg)
{
	static const size_t counts[] = {3, 1025, 150000, 150000, 77};
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	int32_t *mem[ARRAY_LEN(counts)];
	cudaStream_t stream;

	(void)arg;
	EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
	for (size_t i = 0; i < ARRAY_LEN(counts); i++)
		mem[i] = blocks_make(rank, nranks, counts[i], true);
	EXPECT(cudaDeviceSynchronize() == cudaSuccess);
	for (size_t i = 0; i < 3; i++)
		EXPECT_NCCL(ncclSuccess,
			    ncclAlltoAll(mem[i], mem[i], counts[i], ncclInt32, comm, stream));
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (size_t i = 3; i < 5; i++)
		EXPECT_NCCL(ncclSuccess,
			    ncclAlltoAll(mem[i], mem[i], counts[i], ncclInt32, comm, stream));
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		blocks_check("all-to-all in place", mem[i], nranks, counts[i], rank, 1000);
		EXPECT(cudaFree(mem[i]) == cudaSuccess);
	}
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
}

START_TEST(all_to_all_in_place_is_right)
{
	for (uint64_t seed = 1; seed <= 6; seed += SAMPLE_THIN) {
		struct ranks_config config = {.hosts = 1 + (uint32_t)(seed % 3),
					      .per_host = 1 + (uint32_t)(seed % 4),
					      .seed = seed};

		ranks_run(&config, in_place_rank, NULL);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("send_recv");
	TCase *tc = tcase_create("send_recv");

	tcase_add_test(tc, all_to_all_gather_and_scatter_are_right);
	tcase_add_test(tc, all_to_all_in_place_is_right);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
