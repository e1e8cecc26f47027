/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that leave through another rank of the host (PXN), in programs that hang if the relay,
 * or the rank that sends through it, waits for what the program does later. Every call of CUDA that
 * may wait for kernels does so (DOPPEL_CUDA_WAITS=1).
 */
#include <check.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define COUNT 30000 /* several times the slots of a connection */
#define PARTS 3     /* of a rank's memory: what it sends, and two that it receives */

struct end {
	ncclComm_t comm;
	cudaStream_t stream;
	int32_t *mem, rank;
};

static int32_t *end_part(const struct end *e, int part)
{
	return e->mem + (size_t)part * COUNT;
}

static void end_open(struct end *e, int32_t rank, int32_t nranks)
{
	int32_t *host = malloc(COUNT * sizeof *host);

	ck_assert_ptr_nonnull(host);
	e->rank = rank;
	comm_buffers(rank, (void **)&e->mem, &e->stream, PARTS * COUNT * sizeof *e->mem);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&e->comm, nranks, ranks_id(), rank));
	for (int32_t i = 0; i < COUNT; i++)
		host[i] = 100000 * (1 + rank) + i;
	EXPECT(cudaMemcpy(e->mem, host, COUNT * sizeof *host, cudaMemcpyHostToDevice) ==
	       cudaSuccess);
	free(host);
}

static void end_close(struct end *e)
{
	EXPECT(cudaStreamSynchronize(e->stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(e->comm));
	comm_buffers_free(e->mem, e->stream);
}

static void send_to(const struct end *e, int32_t peer)
{
	EXPECT_NCCL(ncclSuccess, ncclSend(e->mem, COUNT, ncclInt32, peer, e->comm, e->stream));
}

static void recv_from(const struct end *e, int part, int32_t peer)
{
	EXPECT_NCCL(ncclSuccess,
		    ncclRecv(end_part(e, part), COUNT, ncclInt32, peer, e->comm, e->stream));
}

static void expect_from(const struct end *e, int part, int32_t from)
{
	int32_t *host = malloc(COUNT * sizeof *host);

	ck_assert_ptr_nonnull(host);
	EXPECT(cudaStreamSynchronize(e->stream) == cudaSuccess);
	EXPECT(cudaMemcpy(host, end_part(e, part), COUNT * sizeof *host, cudaMemcpyDeviceToHost) ==
	       cudaSuccess);
	for (int32_t i = 0; i < COUNT; i++)
		EXPECT(host[i] == 100000 * (1 + from) + i);
	free(host);
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

/* Hosts of two ranks: to the even ranks of other hosts, odd ones send through the even one of their
 * host. */
static void run(uint32_t hosts, void (*fn)(int32_t rank, int32_t nranks, void *arg),
		const char *variable)
{
	const char *const env[] = {"DOPPEL_CUDA_WAITS=1", "NCCL_BUFFSIZE=65536", variable, NULL};

	for (uint32_t i = 0; i < 4; i++) {
		struct ranks_config config = {.hosts = hosts,
					      .per_host = 2,
					      .per_proc = 1 + i % 2,
					      .seed = 1 + i,
					      .env = env};

		ranks_run(&config, fn, NULL);
		ck_assert_uint_gt(probe_hits("relay.ops_taken"), 0);
		ck_assert_uint_eq(probe_hits("relay.no_room"), 0);
	}
}

/* Rank 0 is the relay. Its kernel waits for rank 1, and it connects with rank 2 itself, for which
 * it allocates memory, while rank 1 connects through it. */
static void busy_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct end e;

	(void)arg;
	end_open(&e, rank, nranks);
	switch (rank) {
	case 0:
		recv_from(&e, 1, 1);
		expect_from(&e, 1, 1); /* the two are connected */
		recv_from(&e, 2, 1);
		send_to(&e, 2);
		expect_from(&e, 2, 1);
		break;
	case 1:
		send_to(&e, 0);
		send_to(&e, 2);
		send_to(&e, 0);
		break;
	case 2:
		recv_from(&e, 1, 1);
		recv_from(&e, 2, 0);
		expect_from(&e, 1, 1);
		expect_from(&e, 2, 0);
		break;
	}
	end_close(&e);
}

START_TEST(a_relay_that_allocates_behind_its_kernel_takes_requests)
{
	run(2, busy_rank, NULL);
}
END_TEST

/* Rank 1 connects with ranks 2 and 4 through rank 0 in one group. Rank 2 is there when it is
 * connected with rank 3, rank 3 when it is with rank 4, and rank 4 after it is with rank 1. */
static void chain_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct end e;

	(void)arg;
	end_open(&e, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	switch (rank) {
	case 1:
		send_to(&e, 2);
		send_to(&e, 4);
		break;
	case 2:
		recv_from(&e, 1, 1);
		recv_from(&e, 2, 3);
		break;
	case 3:
		send_to(&e, 2);
		recv_from(&e, 1, 4);
		break;
	case 4:
		recv_from(&e, 1, 1);
		break;
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	if (rank == 4)
		send_to(&e, 3);
	if (rank == 2 || rank == 4)
		expect_from(&e, 1, 1);
	if (rank == 2)
		expect_from(&e, 2, 3);
	if (rank == 3)
		expect_from(&e, 1, 4);
	end_close(&e);
}

START_TEST(connections_through_a_relay_do_not_wait_for_each_other)
{
	run(3, chain_rank, NULL);
}
END_TEST

/* The relays have room for the two channels of one communicator. */
static void rooms_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct end e[2];

	(void)arg;
	for (int i = 0; i < 2; i++)
		end_open(&e[i], rank, nranks);
	for (int i = 0; i < 2; i++) {
		if (rank == 1)
			send_to(&e[i], 2);
		if (rank == 2) {
			recv_from(&e[i], 1, 1);
			expect_from(&e[i], 1, 1);
		}
		end_close(&e[i]);
		ranks_barrier();
	}
}

START_TEST(room_goes_back_when_a_communicator_ends)
{
	run(2, rooms_rank, "DOPPEL_PXN_CONNECTIONS=2");
}
END_TEST

static size_t free_memory(void)
{
	size_t now, total;

	EXPECT(cudaMemGetInfo(&now, &total) == cudaSuccess);
	return now;
}

/* A communicator over sockets keeps the proxy of the GPU. The user may be about to close memory of
 * the relay. */
static void store_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t stays;
	struct end e;
	size_t before;

	(void)arg;
	config.netName = "Socket";
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRankConfig(&stays, nranks, ranks_id(), rank, &config));
	ranks_barrier();
	before = free_memory();
	ranks_barrier();
	end_open(&e, rank, nranks);
	if (rank == 1)
		send_to(&e, 2);
	if (rank == 2) {
		recv_from(&e, 1, 1);
		expect_from(&e, 1, 1);
	}
	end_close(&e);
	for (int i = 0; i < 100 && free_memory() != before; i++)
		os_sleep_ns(10000000);
	EXPECT(free_memory() == before);
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(stays));
}

START_TEST(memory_for_messages_goes_back_when_no_communicator_has_relays)
{
	run(2, store_rank, NULL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("message_relay");
	TCase *t = tcase_create("message_relay");

	tcase_add_test(t, a_relay_that_allocates_behind_its_kernel_takes_requests);
	tcase_add_test(t, connections_through_a_relay_do_not_wait_for_each_other);
	tcase_add_test(t, room_goes_back_when_a_communicator_ends);
	tcase_add_test(t, memory_for_messages_goes_back_when_no_communicator_has_relays);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
