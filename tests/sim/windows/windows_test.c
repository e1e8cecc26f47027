/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows: the addresses of the buffers of other ranks, groups, non-blocking communicators, and
 * calls whose buffers lie in windows. Every byte is checked.
 */
#include <check.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "core/include/nccl_device.h"
#include "tests/sample.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define BEFORE 8192u  /* of a window in its memory */
#define BYTES  65536u /* of a window */
#define OFFSET 4000u  /* of a place in a window */

static uint64_t probe_hits(const char *name)
{
	const struct sim_probe_stat *stats;
	uint32_t n = sim_probe_stats(&stats);

	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(stats[i].name, name))
			return stats[i].hits;
	return 0;
}

static uint8_t *window_memory(void)
{
	void *mem;

	EXPECT_NCCL(ncclSuccess, ncclMemAlloc(&mem, BEFORE + BYTES));
	return mem;
}

static uint8_t window_byte(int32_t rank, size_t k)
{
	return (uint8_t)((size_t)rank * 31 + k * 13 + (k >> 8) + 1);
}

static void window_fill(uint8_t *at, int32_t rank)
{
	uint8_t host[BYTES];

	for (size_t k = 0; k < BYTES; k++)
		host[k] = window_byte(rank, k);
	EXPECT(cudaMemcpy(at, host, BYTES, cudaMemcpyHostToDevice) == cudaSuccess);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void window_read(ncclWindow_t win, int32_t peer)
{
	uint8_t host[BYTES - OFFSET];
	void *p = NULL;

	EXPECT_NCCL(ncclSuccess, ncclGetPeerDevicePointer(win, OFFSET, peer, &p));
	EXPECT(p);
	EXPECT(cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost) == cudaSuccess);
	for (size_t k = 0; k < sizeof host; k++)
		EXPECT(host[k] == window_byte(peer, OFFSET + k));
}

/* Each rank writes its number into a byte of every other rank's window. */
static void window_write(ncclWindow_t win, int32_t rank, int32_t peer)
{
	uint8_t number = (uint8_t)(100 + rank);
	void *p = NULL;

	EXPECT_NCCL(ncclSuccess, ncclGetPeerDevicePointer(win, (size_t)rank, peer, &p));
	EXPECT(cudaMemcpy(p, &number, 1, cudaMemcpyHostToDevice) == cudaSuccess);
}

static void window_written(const uint8_t *at, int32_t first, int32_t n)
{
	uint8_t host[RANKS_MOST];

	EXPECT(cudaMemcpy(host, at, RANKS_MOST, cudaMemcpyDeviceToHost) == cudaSuccess);
	for (int32_t r = first; r < first + n; r++)
		EXPECT(host[r] == 100 + r);
}

static void addresses_check(ncclComm_t comm, ncclWindow_t win, int32_t rank, int32_t nranks)
{
	const int32_t n = (int32_t)ranks_self()->all->config->per_host, first = rank / n * n;
	ncclCommProperties_t props = NCCL_COMM_PROPERTIES_INITIALIZER;
	void *p, *q;

	for (int32_t r = 0; r < nranks; r++) {
		if (r >= first && r < first + n) {
			window_read(win, r);
			EXPECT_NCCL(ncclSuccess, ncclGetPeerDevicePointer(win, 7, r, &p));
			EXPECT_NCCL(ncclSuccess, ncclGetLsaDevicePointer(win, 7, r - first, &q));
			EXPECT(p == q);
		} else {
			p = &p;
			EXPECT_NCCL(ncclSuccess, ncclGetPeerDevicePointer(win, OFFSET, r, &p));
			EXPECT(!p);
		}
	}
	EXPECT_NCCL(ncclInvalidArgument, ncclGetLsaDevicePointer(win, 0, n, &p));
	EXPECT_NCCL(ncclSuccess, ncclCommQueryProperties(comm, &props));
	EXPECT(props.nLsaTeams == nranks / n);
	ranks_barrier();
	for (int32_t r = first; r < first + n; r++)
		window_write(win, rank, r);
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclWinGetUserPtr(comm, win, &p));
	window_written(p, first, n);
}

static void addresses_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	uint8_t *mem = window_memory();
	ncclWindow_t win = NULL;
	void *p;

	(void)arg;
	window_fill(mem + BEFORE, rank);
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommWindowRegister(comm, mem + BEFORE, BYTES, &win,
							NCCL_WIN_COLL_SYMMETRIC));
	EXPECT(win);
	EXPECT_NCCL(ncclSuccess, ncclWinGetUserPtr(comm, win, &p));
	EXPECT(p == mem + BEFORE);
	EXPECT_NCCL(ncclSuccess, ncclGetPeerDevicePointer(win, OFFSET, rank, &p));
	EXPECT(p == mem + BEFORE + OFFSET);
	addresses_check(comm, win, rank, nranks);
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(comm, win));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT_NCCL(ncclSuccess, ncclMemFree(mem));
}

START_TEST(every_rank_of_a_host_reaches_the_windows_of_the_others)
{
	static const char *const staged[] = {"NCCL_P2P_DIRECT_DISABLE=1", NULL};
	static const char *const local[] = {"NCCL_LOCAL_REGISTER=0", NULL};
	const struct ranks_config runs[] = {
		{.hosts = 2, .per_host = 3, .seed = 1},
		{.hosts = 2, .per_host = 4, .per_proc = 2, .seed = 2},
		{.hosts = 1, .per_host = 4, .per_proc = 4, .seed = 3},
		{.hosts = 3, .per_host = 1, .seed = 4},
		{.hosts = 1, .per_host = 1, .seed = 5},
		{.hosts = 1, .per_host = 3, .seed = 6, .env = staged},
		{.hosts = 1, .per_host = 3, .per_proc = 2, .seed = 7, .env = local},
	};

	ranks_run(&runs[_i], addresses_rank, NULL);
}
END_TEST

/* ---- several windows in a group -------------------------------------------------------------- */

/* Two communicators, which odd ranks call in the other order. The handles are there after the
 * group. A collective of the group is launched after that. */
static void groups_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm[2] = {comm_open(rank, nranks, ranks_id())};
	ncclWindow_t win[2][2] = {{NULL}};
	uint8_t *mem[2] = {window_memory(), window_memory()};
	cudaStream_t stream;
	void *sum;

	(void)arg;
	EXPECT_NCCL(ncclSuccess, ncclCommSplit(comm[0], 0, -rank, &comm[1], NULL));
	comm_buffers(rank, &sum, &stream, 4000);
	window_fill(mem[0] + BEFORE, rank);
	window_fill(mem[1] + BEFORE, rank);
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < 4; i++) {
		int c = (i / 2) ^ (rank % 2);

		EXPECT_NCCL(ncclSuccess, ncclCommWindowRegister(comm[c], mem[i % 2] + BEFORE, BYTES,
								&win[c][i % 2], 0));
		EXPECT(!win[c][i % 2]);
	}
	EXPECT_NCCL(ncclSuccess,
		    ncclAllReduce(sum, sum, 1000, ncclInt32, ncclSum, comm[0], stream));
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	for (int32_t r = 0; r < nranks; r++)
		for (int w = 0; w < 2; w++) {
			void *p, *q;

			window_read(win[0][w], r);
			EXPECT_NCCL(ncclSuccess, ncclGetPeerDevicePointer(win[0][w], 0, r, &p));
			EXPECT_NCCL(ncclSuccess,
				    ncclGetPeerDevicePointer(win[1][w], 0, nranks - 1 - r, &q));
			EXPECT(r != rank || (p == q && p == mem[w] + BEFORE));
		}
	ranks_barrier();
	comm_buffers_free(sum, stream);
	for (int i = 0; i < 4; i++)
		EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(comm[i % 2], win[i % 2][i / 2]));
	for (int i = 0; i < 2; i++) {
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[i]));
		EXPECT_NCCL(ncclSuccess, ncclMemFree(mem[i]));
	}
}

START_TEST(group_registers_several_windows_of_several_communicators)
{
	for (uint64_t seed = 1; seed <= 10; seed += SAMPLE_THIN) {
		ranks_run(&(struct ranks_config){.hosts = 1, .per_host = 3, .seed = seed},
			  groups_rank, NULL);
		ranks_run(
			&(struct ranks_config){
				.hosts = 1, .per_host = 4, .per_proc = 2, .seed = seed},
			groups_rank, NULL);
	}
}
END_TEST

/* ---- non-blocking communicators -------------------------------------------------------------- */

static void nonblocking_wait(ncclComm_t comm, ncclResult_t rc)
{
	EXPECT(rc == ncclSuccess || rc == ncclInProgress);
	while (rc == ncclInProgress)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &rc));
	EXPECT_NCCL(ncclSuccess, rc);
}

/* A group that launches, too, has the window at its end. */
static void nonblocking_launch(ncclComm_t comm, uint8_t *mem, ncclWindow_t *win)
{
	cudaStream_t stream;
	void *sum;

	EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
	EXPECT(cudaMalloc(&sum, 4096) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclCommWindowRegister(comm, mem + BEFORE, BYTES, win, 0));
	EXPECT_NCCL(ncclSuccess, ncclAllReduce(sum, sum, 1024, ncclInt32, ncclSum, comm, stream));
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	EXPECT(*win);
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	EXPECT(cudaFree(sum) == cudaSuccess);
	EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
}

static void nonblocking_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id = ranks_id();
	ncclWindow_t win[4] = {NULL};
	uint8_t *mem;
	ncclComm_t comm;

	(void)arg;
	config.blocking = 0;
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	mem = window_memory();
	window_fill(mem + BEFORE, rank);
	nonblocking_wait(comm, ncclCommInitRankConfig(&comm, nranks, id, rank, &config));
	ranks_barrier();
	nonblocking_wait(comm, ncclCommWindowRegister(comm, mem + BEFORE, BYTES, &win[0], 0));
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 1; i < 3; i++)
		EXPECT_NCCL(ncclSuccess,
			    ncclCommWindowRegister(comm, mem + BEFORE, BYTES, &win[i], 0));
	nonblocking_wait(comm, ncclGroupEnd());
	nonblocking_launch(comm, mem, &win[3]);
	for (int i = 0; i < 4; i++)
		for (int32_t r = 0; r < nranks; r++)
			window_read(win[i], r);
	ranks_barrier();
	for (int i = 0; i < 4; i++)
		EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(comm, win[i]));
	nonblocking_wait(comm, ncclCommFinalize(comm));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT_NCCL(ncclSuccess, ncclMemFree(mem));
}

START_TEST(nonblocking_communicator_registers_windows_in_progress)
{
	for (uint64_t seed = 1; seed <= 10; seed += SAMPLE_THIN)
		ranks_run(&(struct ranks_config){.hosts = 1, .per_host = 3, .seed = seed},
			  nonblocking_rank, NULL);
}
END_TEST

/* ---- calls in windows ------------------------------------------------------------------------ */

#define ROUNDS 6
#define COUNT  2000u /* bytes of a block */

enum call { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, ALL_TO_ALL, CALLS };

struct traffic {
	enum call call;
	bool in_place;
};

/* Block b of what the rank sends has this value. */
static uint8_t block_value(int32_t rank, int32_t b, int round)
{
	return (uint8_t)(rank * 7 + b * 3 + round + 1);
}

static uint8_t block_result(enum call call, int32_t rank, int32_t nranks, int32_t b, int round)
{
	uint8_t sum = 0;

	switch (call) {
	case ALL_REDUCE:
	case REDUCE_SCATTER:
		for (int32_t r = 0; r < nranks; r++)
			sum += block_value(r, call == ALL_REDUCE ? b : rank, round);
		return sum;
	case ALL_GATHER:
		return block_value(b, 0, round);
	case ALL_TO_ALL:
		return block_value(b, rank, round);
	default:
		return block_value(0, b, round);
	}
}

static size_t traffic_blocks(enum call call, int32_t nranks, bool sends)
{
	if (call == ALL_GATHER)
		return sends ? 1 : (size_t)nranks;
	if (call == REDUCE_SCATTER)
		return sends ? (size_t)nranks : 1;
	return (size_t)nranks;
}

static ncclResult_t traffic_call(const struct traffic *t, int32_t nranks, const uint8_t *send,
				 uint8_t *recv, ncclComm_t comm, cudaStream_t stream)
{
	const size_t all = COUNT * (size_t)nranks;

	switch (t->call) {
	case ALL_REDUCE:
		return ncclAllReduce(send, recv, all, ncclUint8, ncclSum, comm, stream);
	case ALL_GATHER:
		return ncclAllGather(send, recv, COUNT, ncclUint8, comm, stream);
	case REDUCE_SCATTER:
		return ncclReduceScatter(send, recv, COUNT, ncclUint8, ncclSum, comm, stream);
	case ALL_TO_ALL:
		return ncclAlltoAll(send, recv, COUNT, ncclUint8, comm, stream);
	default:
		return ncclBroadcast(send, recv, all, ncclUint8, 0, comm, stream);
	}
}

static void traffic_round(const struct traffic *t, int32_t rank, int32_t nranks, int round,
			  uint8_t *mem, ncclComm_t comm, cudaStream_t stream)
{
	const size_t half = BYTES / 2;
	uint8_t host[BYTES / 2];
	uint8_t *send = mem + BEFORE + 64, *recv = t->in_place ? send : send + half;
	const size_t in = traffic_blocks(t->call, nranks, true);
	const size_t out = traffic_blocks(t->call, nranks, false);

	if (t->in_place && t->call == ALL_GATHER)
		send += (size_t)rank * COUNT;
	if (t->in_place && t->call == REDUCE_SCATTER)
		recv += (size_t)rank * COUNT;
	for (size_t b = 0; b < in; b++)
		memset(host + b * COUNT, block_value(rank, (int32_t)b, round), COUNT);
	EXPECT(cudaMemcpy(send, host, in * COUNT, cudaMemcpyHostToDevice) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, traffic_call(t, nranks, send, recv, comm, stream));
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	EXPECT(cudaMemcpy(host, recv, out * COUNT, cudaMemcpyDeviceToHost) == cudaSuccess);
	for (size_t k = 0; k < out * COUNT; k++)
		EXPECT(host[k] == block_result(t->call, rank, nranks, (int32_t)(k / COUNT), round));
}

static void traffic_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct traffic *t = arg;
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	uint8_t *mem = window_memory();
	ncclWindow_t win = NULL;
	cudaStream_t stream;

	EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommWindowRegister(comm, mem + BEFORE, BYTES, &win,
							NCCL_WIN_COLL_SYMMETRIC));
	EXPECT(win);
	for (int round = 0; round < ROUNDS; round++)
		traffic_round(t, rank, nranks, round, mem, comm, stream);
	EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(comm, win));
	EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT_NCCL(ncclSuccess, ncclMemFree(mem));
}

START_TEST(calls_in_windows_are_right_and_go_straight_where_registered_buffers_do)
{
	static const char *const simple[] = {"NCCL_PROTO=Simple", "NCCL_ALGO=Ring",
					     "NCCL_P2P_LL_THRESHOLD=0", NULL};
	static const char *const probe[CALLS] = {[ALL_REDUCE] = "registered.result",
						 [ALL_GATHER] = "registered.result",
						 [ALL_TO_ALL] = "registered.put"};
	struct traffic t = {.call = (enum call)(_i / 2), .in_place = _i % 2};
	const char *name = probe[t.call];

	for (uint64_t seed = 1; seed <= 6; seed += SAMPLE_THIN) {
		ranks_run(
			&(struct ranks_config){
				.hosts = 1, .per_host = 4, .seed = seed, .env = simple},
			traffic_rank, &t);
		if (name)
			ck_assert_uint_gt(probe_hits(name), 0);
		ranks_run(
			&(struct ranks_config){
				.hosts = 2, .per_host = 4, .per_proc = 2, .seed = seed},
			traffic_rank, &t);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("windows");
	TCase *t = tcase_create("windows");

	tcase_set_timeout(t, 0);
	tcase_add_loop_test(t, every_rank_of_a_host_reaches_the_windows_of_the_others, 0, 7);
	tcase_add_test(t, group_registers_several_windows_of_several_communicators);
	tcase_add_test(t, nonblocking_communicator_registers_windows_in_progress);
	tcase_add_loop_test(t,
			    calls_in_windows_are_right_and_go_straight_where_registered_buffers_do,
			    0, 2 * CALLS);
	suite_add_tcase(s, t);
	return suite_run(s);
}
