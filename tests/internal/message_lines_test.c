/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Up to how many bytes a channel's part of a message goes in LL or LL128: by where the two ranks
 * are, and how many ranks there are. Both ends of a message have the same.
 */
#include <check.h>

#include "core/transport/transport_internal.h"
#include "tests/internal/sum.h"
#include "tests/suite.h"

/* Without it the doubles run SIMPLE alone. */
#define ALL_PROTOCOLS "NCCL_PROTO=LL,LL128,Simple"

static const char *const defaults[] = {ALL_PROTOCOLS, NULL};
static const char *const no_p2p[] = {ALL_PROTOCOLS, "NCCL_P2P_DISABLE=1", NULL};
static const char *const given[] = {ALL_PROTOCOLS, "NCCL_P2P_LL_THRESHOLD=4096",
				    "DOPPEL_P2P_LL128_THRESHOLD=65536", NULL};

static const struct layout {
	uint32_t hosts, per_host, per_proc;
	const char *const *env;
	uint32_t ll, ll128;
} layouts[] = {
	{1, 2, 1, defaults, 32 << 10, 0},    {1, 2, 2, defaults, 16 << 10, 0},
	{1, 3, 1, defaults, 16 << 10, 0},    {2, 1, 1, defaults, 16 << 10, 0},
	{1, 2, 1, no_p2p, 16 << 10, 0},      {1, 3, 1, given, 4 << 10, 64 << 10},
	{1, 2, 1, given, 4 << 10, 64 << 10},
};

static void send_round(struct ncclComm *comm, int32_t next, int32_t prev)
{
	cudaStream_t s;
	char *mem;

	EXPECT(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
	EXPECT(cudaMalloc((void **)&mem, 16) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclSend(mem, 8, ncclInt8, next, comm, s));
	EXPECT_NCCL(ncclSuccess, ncclRecv(mem + 8, 8, ncclInt8, prev, comm, s));
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	EXPECT(cudaStreamSynchronize(s) == cudaSuccess);
	EXPECT(cudaFree(mem) == cudaSuccess);
	EXPECT(cudaStreamDestroy(s) == cudaSuccess);
}

static void ends_are_as(const struct ncclComm *comm, int32_t peer, bool is_send,
			const struct layout *want)
{
	int found = 0;

	for (int32_t c = 0; c < comm->pair_channels; c++) {
		const struct conn *conn =
			transport_conn_find(comm, &(struct conn_want){.channel = c,
								      .peer = peer,
								      .is_send = is_send,
								      .index = CONN_PAIR});

		if (!conn)
			continue;
		found++;
		EXPECT(conn->ll_bytes == want->ll && conn->ll128_bytes == want->ll128);
	}
	EXPECT(found == transport_pair_channels(comm, peer));
}

static void sends(int32_t rank, int32_t nranks, void *arg)
{
	const int32_t next = (rank + 1) % nranks, prev = (rank + nranks - 1) % nranks;
	ncclComm_t comm;

	EXPECT_NCCL(ncclSuccess, sum_init(rank, nranks, &comm));
	send_round(comm, next, prev);
	ends_are_as(comm, next, true, arg);
	ends_are_as(comm, prev, false, arg);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(lines_are_for_parts_of_so_many_bytes)
{
	struct layout want = layouts[_i];
	const struct ranks_config c = {.hosts = want.hosts,
				       .per_host = want.per_host,
				       .per_proc = want.per_proc,
				       .env = want.env,
				       .seed = 1};

	ranks_run(&c, sends, &want);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("message_lines");
	TCase *t = tcase_create("message_lines");

	tcase_add_loop_test(t, lines_are_for_parts_of_so_many_bytes, 0, (int)ARRAY_LEN(layouts));
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
