/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels of a pair of ranks on two hosts share a connection of the network, and receive
 * together. */
#include <check.h>
#include <stdlib.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define MOST (3u << 20)

/* A short message has one channel. The long ones need the others, which connect and register their
 * buffers while the first is in use; the last two are of one group. */
static const size_t sizes[] = {1000, MOST, 70000, MOST - 77, 600001};

static void fill(uint8_t *host, int32_t from, size_t bytes)
{
	for (size_t k = 0; k < bytes; k++)
		host[k] = (uint8_t)((size_t)from * 31 + bytes + k * 13 + (k >> 8));
}

static void expect_message(const uint8_t *mem, int32_t from, size_t bytes)
{
	uint8_t *want = malloc(bytes), *got = malloc(bytes);

	ck_assert_ptr_nonnull(want);
	ck_assert_ptr_nonnull(got);
	fill(want, from, bytes);
	EXPECT(cudaMemcpy(got, mem, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
	EXPECT(memcmp(got, want, bytes) == 0);
	free(want);
	free(got);
}

struct end {
	uint8_t *out[ARRAY_LEN(sizes)], *in[ARRAY_LEN(sizes)];
	cudaStream_t stream;
	ncclComm_t comm;
};

static void end_open(struct end *e, int32_t rank, int32_t nranks)
{
	uint8_t *host = malloc(MOST);

	ck_assert_ptr_nonnull(host);
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&e->comm, nranks, ranks_id(), rank));
	EXPECT(cudaStreamCreateWithFlags(&e->stream, cudaStreamNonBlocking) == cudaSuccess);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		EXPECT(cudaMalloc((void **)&e->out[i], sizes[i]) == cudaSuccess);
		EXPECT(cudaMalloc((void **)&e->in[i], sizes[i]) == cudaSuccess);
		fill(host, rank, sizes[i]);
		EXPECT(cudaMemcpy(e->out[i], host, sizes[i], cudaMemcpyHostToDevice) ==
		       cudaSuccess);
	}
	free(host);
}

static void end_close(struct end *e, int32_t peer)
{
	EXPECT(cudaStreamSynchronize(e->stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(e->comm));
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		expect_message(e->in[i], peer, sizes[i]);
		EXPECT(cudaFree(e->out[i]) == cudaSuccess);
		EXPECT(cudaFree(e->in[i]) == cudaSuccess);
	}
	EXPECT(cudaStreamDestroy(e->stream) == cudaSuccess);
}

static void exchange(const struct end *e, int32_t peer, size_t i)
{
	EXPECT_NCCL(ncclSuccess,
		    ncclSend(e->out[i], sizes[i], ncclUint8, peer, e->comm, e->stream));
	EXPECT_NCCL(ncclSuccess, ncclRecv(e->in[i], sizes[i], ncclUint8, peer, e->comm, e->stream));
}

static void rank_main(int32_t rank, int32_t nranks, void *arg)
{
	struct end e;

	(void)arg;
	end_open(&e, rank, nranks);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		const bool two = i + 2 == ARRAY_LEN(sizes);

		EXPECT_NCCL(ncclSuccess, ncclGroupStart());
		exchange(&e, 1 - rank, i);
		if (two)
			exchange(&e, 1 - rank, ++i);
		EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	}
	end_close(&e, 1 - rank);
}

static uint64_t probe_hits(const char *name)
{
	const struct sim_probe_stat *stats;
	uint32_t n = sim_probe_stats(&stats);

	for (uint32_t i = 0; i < n; i++)
		if (strcmp(stats[i].name, name) == 0)
			return stats[i].hits;
	ck_abort_msg("no probe %s", name);
}

static const struct {
	const char *env;
	bool shared;
} ways[] = {
	{"NCCL_NET_SHARED_COMMS=1", true}, {"NCCL_NET_SHARED_COMMS=0", false},
	{"DOPPEL_GPU_RDMA=none", true},    {"NCCL_IB_QPS_PER_CONNECTION=3", true},
	{"NCCL_NET=Socket", false},
};

START_TEST(channels_share_a_connection_where_the_network_has_tags)
{
	const char *env[] = {"NCCL_MIN_NCHANNELS=4",
			     "NCCL_NCHANNELS_PER_NET_PEER=4",
			     "NCCL_BUFFSIZE=131072",
			     ways[_i].env,
			     "NCCL_ALGO=Ring",
			     "NCCL_PROTO=Simple",
			     NULL};

	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct ranks_config c = {.hosts = 2, .per_host = 1, .seed = seed, .env = env};

		ranks_run(&c, rank_main, NULL);
		ck_assert_int_eq(probe_hits("proxy.link_shared") != 0, ways[_i].shared);
		ck_assert_int_eq(probe_hits("proxy.recv_together") != 0, ways[_i].shared);
	}
}
END_TEST

/* ---- messages of a group that needs several launches
 * ------------------------------------------- */

#define SCATTERED 131072u

static void scatter_main(int32_t rank, int32_t nranks, void *arg)
{
	size_t all = rank == 0 ? (size_t)nranks * SCATTERED : SCATTERED;
	uint8_t *host = malloc(all), *out = NULL, *in;
	cudaStream_t stream;
	ncclComm_t comm;

	(void)arg;
	ck_assert_ptr_nonnull(host);
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
	EXPECT(cudaMalloc((void **)&in, SCATTERED) == cudaSuccess);
	for (int32_t r = 0; rank == 0 && r < nranks; r++)
		fill(host + (size_t)r * SCATTERED, r, SCATTERED);
	if (rank == 0) {
		EXPECT(cudaMalloc((void **)&out, all) == cudaSuccess);
		EXPECT(cudaMemcpy(out, host, all, cudaMemcpyHostToDevice) == cudaSuccess);
	}
	EXPECT_NCCL(ncclSuccess, ncclScatter(out, in, SCATTERED, ncclUint8, 0, comm, stream));
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	expect_message(in, rank, SCATTERED);
	EXPECT(cudaFree(in) == cudaSuccess);
	EXPECT(cudaFree(out) == cudaSuccess);
	EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
	free(host);
}

/* The root's launches end between messages over the network: a receiver that takes both parts of
 * one together waits for both. */
static const char *const per_peer[] = {"NCCL_NCHANNELS_PER_NET_PEER=-2",
				       "NCCL_NCHANNELS_PER_NET_PEER=5",
				       "NCCL_NCHANNELS_PER_NET_PEER=64"};

START_TEST(a_launch_has_all_parts_of_a_message_over_the_network)
{
	const char *const env[] = {
		"NCCL_MIN_NCHANNELS=8",      "NCCL_MAX_NCHANNELS=8", "NCCL_WORK_ARGS_BYTES=0",
		"NCCL_WORK_FIFO_BYTES=4096", "NCCL_BUFFSIZE=8192",   "NCCL_ALGO=Ring",
		"NCCL_PROTO=Simple",         per_peer[_i],           NULL};

	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct ranks_config c = {.hosts = 2, .per_host = 3, .seed = seed, .env = env};

		ranks_run(&c, scatter_main, NULL);
		ck_assert(probe_hits("proxy.recv_together") != 0);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("shared_link");
	TCase *t = tcase_create("pair");

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, channels_share_a_connection_where_the_network_has_tags, 0,
			    (int)ARRAY_LEN(ways));
	tcase_add_loop_test(t, a_launch_has_all_parts_of_a_message_over_the_network, 0,
			    (int)ARRAY_LEN(per_peer));
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
