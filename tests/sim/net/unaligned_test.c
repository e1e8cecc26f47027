/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that only move elements take buffers that are not aligned to their type, in every protocol,
 * between processes, between hosts and into the same memory. Calls that reduce refuse them.
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sample.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define MOST_RANKS 4
#define MOST_COUNT 70001u
#define ROOM       (MOST_RANKS * MOST_COUNT * sizeof(double) + 64)
#define FILLER     0xa5

/* One rank's side of a call. */
struct moved {
	int32_t rank, nranks;
	ncclComm_t comm;
	cudaStream_t stream;
	ncclDataType_t type;
	size_t bytes, count; /* of a block; count: in elements */
	size_t skew;
	uint8_t *send, *recv, *host;
};

/* Byte k of the block of rank `from` for rank `to`. */
static uint8_t moved_byte(int32_t from, int32_t to, size_t k)
{
	return (uint8_t)((size_t)from * 37 + (size_t)to * 11 + k * 13 + (k >> 8));
}

/* Blocks of this rank for ranks first..first+n-1, at `to`. */
static void moved_fill(const struct moved *m, uint8_t *to, int32_t first, int32_t n)
{
	for (size_t i = 0; i < (size_t)n * m->bytes; i++)
		m->host[i] = moved_byte(m->rank, first + (int32_t)(i / m->bytes), i % m->bytes);
	EXPECT(cudaMemcpy(to, m->host, (size_t)n * m->bytes, cudaMemcpyHostToDevice) ==
	       cudaSuccess);
}

static void moved_clear(const struct moved *m)
{
	EXPECT(cudaMemset(m->recv, FILLER, ROOM) == cudaSuccess);
	EXPECT(cudaDeviceSynchronize() == cudaSuccess);
}

/* The receive buffer has at `skew` block i of rank from + i * step, for rank `to`, n blocks, and
 * filler around them. */
static void moved_check(const struct moved *m, const char *call, int32_t from, int32_t step,
			int32_t to, int32_t n)
{
	size_t end = m->skew + (size_t)n * m->bytes;

	EXPECT(cudaStreamSynchronize(m->stream) == cudaSuccess);
	EXPECT(cudaMemcpy(m->host, m->recv, end + 16, cudaMemcpyDeviceToHost) == cudaSuccess);
	for (size_t i = 0; i < end + 16; i++) {
		size_t at = i - m->skew;
		uint8_t want = FILLER;

		if (i >= m->skew && i < end)
			want = moved_byte(from + step * (int32_t)(at / m->bytes), to,
					  at % m->bytes);
		if (m->host[i] == want)
			continue;
		fprintf(stderr,
			"%s: rank %d, type %d, %zu elements, %zu bytes skew: byte %zd is %#x, "
			"expected %#x\n",
			call, m->rank, (int)m->type, m->count, m->skew, (ssize_t)at, m->host[i],
			want);
		abort();
	}
}

#define MOVED(m, call, from, step, to, n)                                                          \
	do {                                                                                       \
		moved_clear(m);                                                                    \
		EXPECT_NCCL(ncclSuccess, call);                                                    \
		moved_check(m, #call, from, step, to, n);                                          \
	} while (0)

static ncclResult_t moved_circle(const struct moved *m, const uint8_t *send, uint8_t *recv)
{
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclSend(send, m->count, m->type, (m->rank + 1) % m->nranks,
					  m->comm, m->stream));
	EXPECT_NCCL(ncclSuccess,
		    ncclRecv(recv, m->count, m->type, (m->rank + m->nranks - 1) % m->nranks,
			     m->comm, m->stream));
	return ncclGroupEnd();
}

static void moved_calls(const struct moved *m)
{
	const int32_t n = m->nranks, root = n - 1, before = (m->rank + n - 1) % n;
	uint8_t *send = m->send + 8 - m->skew, *recv = m->recv + m->skew;

	moved_fill(m, send, 0, n);
	MOVED(m, ncclAllGather(send, recv, m->count, m->type, m->comm, m->stream), 0, 1, 0, n);
	MOVED(m, ncclBroadcast(send, recv, m->count, m->type, root, m->comm, m->stream), root, 0, 0,
	      1);
	MOVED(m, ncclAlltoAll(send, recv, m->count, m->type, m->comm, m->stream), 0, 1, m->rank, n);
	MOVED(m, ncclGather(send, recv, m->count, m->type, root, m->comm, m->stream), 0, 1, 0,
	      m->rank == root ? n : 0);
	MOVED(m, moved_circle(m, send, recv), before, 0, 0, 1);
	moved_clear(m);
	EXPECT_NCCL(ncclSuccess,
		    ncclScatter(send, recv, m->count, m->type, root, m->comm, m->stream));
	moved_check(m, "ncclScatter", root, 0, m->rank, 1);
	moved_clear(m);
	moved_fill(m, recv, 0, n);
	EXPECT_NCCL(ncclSuccess, ncclAlltoAll(recv, recv, m->count, m->type, m->comm, m->stream));
	moved_check(m, "ncclAlltoAll in place", 0, 1, m->rank, n);
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(send, recv, m->count, m->type, ncclSum, m->comm, m->stream));
	EXPECT_ERROR_SAYS("is not aligned to its type");
}

static void moved_rank(int32_t rank, int32_t nranks, void *arg)
{
	static const struct {
		ncclDataType_t type;
		size_t count, skew;
	} rows[] = {
		{ncclFloat32, 5, 1},     {ncclFloat64, 1025, 3}, {ncclFloat16, 4099, 7},
		{ncclFloat32, 70001, 2}, {ncclInt64, 9001, 4},
	};
	struct moved m = {
		.rank = rank, .nranks = nranks, .comm = comm_open(rank, nranks, ranks_id())};

	(void)arg;
	m.host = malloc(ROOM);
	EXPECT(m.host && cudaMalloc((void **)&m.send, ROOM) == cudaSuccess);
	EXPECT(cudaMalloc((void **)&m.recv, ROOM) == cudaSuccess);
	EXPECT(cudaStreamCreateWithFlags(&m.stream, cudaStreamNonBlocking) == cudaSuccess);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		m.type = rows[i].type;
		m.count = rows[i].count;
		m.skew = rows[i].skew;
		m.bytes = m.count * (m.type == ncclFloat16 ? 2 : m.type == ncclFloat32 ? 4 : 8);
		moved_calls(&m);
	}
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(m.comm));
	EXPECT(cudaFree(m.send) == cudaSuccess && cudaFree(m.recv) == cudaSuccess);
	EXPECT(cudaStreamDestroy(m.stream) == cudaSuccess);
	free(m.host);
}

static const char *const lines[] = {"NCCL_PROTO=LL", NULL};
static const char *const lines128[] = {"NCCL_PROTO=LL128", NULL};
static const char *const direct[] = {"NCCL_ALGO=Ring,PAT,OneShot,TwoShot",
				     "NCCL_PROTO=LL,LL128,Simple", NULL};
static const char *const sockets[] = {"NCCL_NET=Socket", "NCCL_SHM_DISABLE=1", "NCCL_P2P_DISABLE=1",
				      NULL};
static const char *const trees[] = {"NCCL_ALGO=Tree;allgather:PAT", NULL};

static const struct {
	struct ranks_config config;
} moved_worlds[] = {
	{{.hosts = 1, .per_host = 3}},
	{{.hosts = 1, .per_host = 4, .per_proc = 4}},
	{{.hosts = 2, .per_host = 2}},
	{{.hosts = 2, .per_host = 1, .env = sockets}},
	{{.hosts = 1, .per_host = 3, .env = lines}},
	{{.hosts = 2, .per_host = 2, .env = lines}},
	{{.hosts = 1, .per_host = 2, .env = lines128}},
	{{.hosts = 2, .per_host = 1, .env = lines128}},
	{{.hosts = 1, .per_host = 4, .env = direct}},
	{{.hosts = 4, .per_host = 1, .env = trees}},
	{{.hosts = 2, .per_host = 2, .engine = SIM_ENGINE_THREADS}},
};

START_TEST(data_movers_take_unaligned_elements)
{
	struct ranks_config config = moved_worlds[_i].config;

	config.seed = (uint64_t)_i + 1;
	ranks_run(&config, moved_rank, NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("unaligned");
	TCase *tc = tcase_create("unaligned");

	tcase_add_loop_test(tc, data_movers_take_unaligned_elements, 0,
			    (int)ARRAY_LEN(moved_worlds));
	suite_add_tcase(s, tc);
	return suite_run(s);
}
