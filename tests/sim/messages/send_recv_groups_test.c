/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * First messages that two ranks group differently: each direction of two ranks is connected when
 * both have called it, in whatever groups and in whatever order of communicators. If no rank can
 * continue, they wait, and the report names the connections for which they wait.
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sample.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define COUNT 3000u /* of int32 */

/* One rank's buffers: a block for each peer, to it and from it. */
struct blocks {
	int32_t rank, nranks;
	int32_t *send, *recv;
	cudaStream_t stream;
};

static int32_t block_value(int32_t from, int32_t to)
{
	return 1000 * from + to + 1;
}

static void blocks_make(struct blocks *b, int32_t rank, int32_t nranks)
{
	size_t bytes = (size_t)nranks * COUNT * sizeof(int32_t);
	int32_t *host = malloc(bytes);

	ck_assert_ptr_nonnull(host);
	*b = (struct blocks){.rank = rank, .nranks = nranks};
	comm_buffers(rank, (void **)&b->send, &b->stream, bytes);
	EXPECT(cudaMalloc((void **)&b->recv, bytes) == cudaSuccess);
	for (int32_t to = 0; to < nranks; to++)
		for (size_t i = 0; i < COUNT; i++)
			host[(size_t)to * COUNT + i] = block_value(rank, to);
	EXPECT(cudaMemcpy(b->send, host, bytes, cudaMemcpyHostToDevice) == cudaSuccess);
	memset(host, 0xff, bytes);
	EXPECT(cudaMemcpy(b->recv, host, bytes, cudaMemcpyHostToDevice) == cudaSuccess);
	free(host);
}

static void blocks_free(struct blocks *b)
{
	comm_buffers_free(b->send, b->stream);
	EXPECT(cudaFree(b->recv) == cudaSuccess);
}

static ncclResult_t block_send(const struct blocks *b, int32_t peer, ncclComm_t comm)
{
	return ncclSend(b->send + (size_t)peer * COUNT, COUNT, ncclInt32, peer, comm, b->stream);
}

static ncclResult_t block_recv(const struct blocks *b, int32_t peer, ncclComm_t comm)
{
	return ncclRecv(b->recv + (size_t)peer * COUNT, COUNT, ncclInt32, peer, comm, b->stream);
}

/* After that the block is as before the message. */
static void block_check(const struct blocks *b, int32_t from)
{
	int32_t host[COUNT], *block = b->recv + (size_t)from * COUNT;

	EXPECT(cudaStreamSynchronize(b->stream) == cudaSuccess);
	EXPECT(cudaMemcpy(host, block, sizeof host, cudaMemcpyDeviceToHost) == cudaSuccess);
	for (size_t i = 0; i < COUNT; i++)
		EXPECT(host[i] == block_value(from, b->rank));
	memset(host, 0xff, sizeof host);
	EXPECT(cudaMemcpy(block, host, sizeof host, cudaMemcpyHostToDevice) == cudaSuccess);
}

/* ---- the kinds of worlds --------------------------------------------------------------------- */

static const char *const env_socket[] = {"NCCL_NET=Socket", "NCCL_NCHANNELS_PER_NET_PEER=8", NULL};
static const char *const env_shm[] = {"NCCL_P2P_DISABLE=1", NULL};
static const char *const env_net[] = {"NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1", NULL};
static const char *const env_cumem[] = {"NCCL_CUMEM_ENABLE=1", NULL};

/* Ways between `n` ranks: p2p, shm, cuMem, one process, verbs, sockets, and hosts of several
 * ranks. */
static struct ranks_config world_of(uint64_t seed, uint32_t n)
{
	static const char *const *const env[] = {NULL,      env_shm, env_net,
						 env_cumem, NULL,    env_socket};
	uint64_t kind = seed % 6;
	bool hosts = kind >= 4;
	struct ranks_config c = {
		.hosts = hosts ? n : 1,
		.per_host = hosts ? 1 : n,
		.per_proc = seed % 4 == 0 && !hosts ? n : 1,
		.seed = seed,
		.env = env[kind],
		.engine = seed % 5 == 4 ? SIM_ENGINE_THREADS : SIM_ENGINE_SIM,
	};

	if (hosts && n % 2 == 0 && seed % 12 >= 6) {
		c.hosts = 2;
		c.per_host = n / 2;
	}
	return c;
}

/* The ranks of these tests connect while kernels of theirs wait for others. An allocation on the
 * way may wait for kernels, as CUDA allows; exploring runs of the double make some do, fifo and the
 * engine threads none. */

/* ---- one communicator ------------------------------------------------------------------------ */

/* Rank 0 calls one after the other what rank 1 calls in one group. */
static void split_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	struct blocks b;

	(void)arg;
	blocks_make(&b, rank, nranks);
	for (int again = 0; again < 2; again++) {
		if (rank == 0) {
			EXPECT_NCCL(ncclSuccess, block_send(&b, 1, comm));
			EXPECT_NCCL(ncclSuccess, block_recv(&b, 1, comm));
			block_check(&b, 1);
		} else {
			EXPECT_NCCL(ncclSuccess, ncclGroupStart());
			EXPECT_NCCL(ncclSuccess, block_send(&b, 0, comm));
			EXPECT_NCCL(ncclSuccess, block_recv(&b, 0, comm));
			EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
			block_check(&b, 0);
		}
	}
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	blocks_free(&b);
}

START_TEST(each_direction_is_connected_when_both_ranks_have_called_it)
{
	for (uint64_t seed = 1; seed <= 48; seed += SAMPLE_THIN) {
		struct ranks_config c = world_of(seed, 2);

		c.strategy = SIM_FIFO;
		ranks_run(&c, split_rank, NULL);
	}
}
END_TEST

/* Every message of an all-to-all of three ranks, in groups of each rank's own. Rank 0 sends first,
 * then receives; rank 1 does both in one group; rank 2 receives from 0, then all else. */
static void uneven_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	struct blocks b;

	(void)arg;
	blocks_make(&b, rank, nranks);
	if (rank == 0) {
		EXPECT_NCCL(ncclSuccess, block_send(&b, 2, comm));
		EXPECT_NCCL(ncclSuccess, block_send(&b, 1, comm));
		EXPECT_NCCL(ncclSuccess, block_recv(&b, 2, comm));
		EXPECT_NCCL(ncclSuccess, block_recv(&b, 1, comm));
	}
	if (rank == 2)
		EXPECT_NCCL(ncclSuccess, block_recv(&b, 0, comm));
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, block_send(&b, rank, comm));
	EXPECT_NCCL(ncclSuccess, block_recv(&b, rank, comm));
	for (int32_t peer = 0; rank && peer < nranks; peer++) {
		if (peer != rank)
			EXPECT_NCCL(ncclSuccess, block_send(&b, peer, comm));
		if (peer != rank && !(rank == 2 && peer == 0))
			EXPECT_NCCL(ncclSuccess, block_recv(&b, peer, comm));
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	for (int32_t peer = 0; peer < nranks; peer++)
		block_check(&b, peer);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	blocks_free(&b);
}

START_TEST(an_all_to_all_in_uneven_groups_arrives)
{
	for (uint64_t seed = 1; seed <= 36; seed += SAMPLE_THIN) {
		struct ranks_config c = world_of(seed, 3);

		c.strategy = SIM_FIFO;
		ranks_run(&c, uneven_rank, NULL);
	}
}
END_TEST

/* ---- several communicators ------------------------------------------------------------------- */

#define COMMS 3

struct orders {
	/* [rank]: the communicators in the order of the rank's calls; -1: all in one group */
	int8_t order[3][COMMS];
	bool nonblocking;
};

static void orders_open(ncclComm_t comms[COMMS], int32_t rank, int32_t nranks, bool nonblocking)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t state;

	config.blocking = !nonblocking;
	for (int i = 0; i < COMMS; i++) {
		ncclUniqueId id = ranks_id();
		ncclResult_t rc;

		EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
		rc = ncclCommInitRankConfig(&comms[i], nranks, id, rank, &config);
		EXPECT(rc == ncclSuccess || (nonblocking && rc == ncclInProgress));
		do
			EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comms[i], &state));
		while (state == ncclInProgress);
		EXPECT(state == ncclSuccess);
		ranks_barrier(); /* the next id */
	}
}

static void orders_wait(ncclComm_t comm)
{
	ncclResult_t state;

	do
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &state));
	while (state == ncclInProgress);
	EXPECT(state == ncclSuccess);
}

/* A message around the ring of ranks, in communicator `comm`. */
static void orders_call(const struct blocks *b, ncclComm_t comm)
{
	ncclResult_t rc;

	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	rc = block_send(b, (b->rank + 1) % b->nranks, comm);
	EXPECT(rc == ncclSuccess || rc == ncclInProgress);
	rc = block_recv(b, (b->rank + b->nranks - 1) % b->nranks, comm);
	EXPECT(rc == ncclSuccess || rc == ncclInProgress);
	rc = ncclGroupEnd();
	EXPECT(rc == ncclSuccess || rc == ncclInProgress);
}

/* Rank 0 calls all communicators in one group; the others one after the other, each in its order,
 * and wait for no message in between. */
static void orders_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct orders *o = arg;
	bool together = o->order[rank][0] < 0;
	ncclComm_t comms[COMMS];
	struct blocks b[COMMS];

	orders_open(comms, rank, nranks, o->nonblocking);
	for (int i = 0; i < COMMS; i++)
		blocks_make(&b[i], rank, nranks);
	if (together)
		EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < COMMS; i++) {
		int k = together ? i : o->order[rank][i];

		orders_call(&b[k], comms[k]);
	}
	if (together) {
		ncclResult_t rc = ncclGroupEnd();

		EXPECT(rc == ncclSuccess || (o->nonblocking && rc == ncclInProgress));
	}
	for (int i = 0; i < COMMS; i++) {
		orders_wait(comms[i]);
		block_check(&b[i], (rank + nranks - 1) % nranks);
	}
	for (int i = 0; i < COMMS; i++)
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comms[i]));
	for (int i = 0; i < COMMS; i++)
		blocks_free(&b[i]);
}

/* In other orders than the group's, where kernels find room on the GPU beside those that wait. */
START_TEST(communicators_that_ranks_call_in_other_orders_are_connected)
{
	struct orders two = {.order = {{-1}, {2, 0, 1}}},
		      three = {.order = {{-1}, {2, 1, 0}, {2, 1, 0}}};
	struct orders free = {.order = {{-1}, {2, 1, 0}, {1, 0, 2}}, .nonblocking = true};

	for (uint64_t seed = 1; seed <= 12; seed += SAMPLE_THIN) {
		struct ranks_config c = world_of(seed, 2), d = world_of(seed, 3);

		c.per_proc = d.per_proc = 1;
		c.strategy = d.strategy = SIM_FIFO;
		ranks_run(&c, orders_rank, &two);
		ranks_run(&d, orders_rank, seed % 2 ? &free : &three);
	}
}
END_TEST

START_TEST(communicators_of_a_group_are_connected_independently_of_each_other)
{
	/* each GPU launches them in the order of the calls */
	struct orders o = {.order = {{-1}, {0, 1, 2}, {0, 1, 2}}};

	for (uint64_t seed = 1; seed <= 24; seed += SAMPLE_THIN) {
		struct ranks_config c = world_of(seed, 2), d = world_of(seed, 3);

		c.per_proc = d.per_proc = 1;
		o.nonblocking = seed / 2 % 2;
		ranks_run(seed % 2 ? &c : &d, orders_rank, &o);
	}
}
END_TEST

/* ---- errors ---------------------------------------------------------------------------------- */

struct alike {
	bool recv;
	ncclComm_t comm[2];
};

static void alike_abort(void *arg)
{
	os_sleep_ns(50000000);
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(arg));
}

/* Both ranks send, or both receive, until other tasks abort them. */
static void alike_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct alike *a = arg;
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	struct os_thread_attr attr = {.name = "aborter", .rank = rank};
	struct os_thread *aborter;
	struct blocks b;
	ncclResult_t rc;

	blocks_make(&b, rank, nranks);
	ranks_barrier();
	EXPECT(os_thread_start(&aborter, &attr, alike_abort, comm) == 0);
	rc = a->recv ? block_recv(&b, 1 - rank, comm) : block_send(&b, 1 - rank, comm);
	EXPECT(rc == ncclInternalError || rc == ncclRemoteError || rc == ncclInvalidArgument);
	EXPECT_ERROR_SAYS(a->recv ? "rank 0 and rank 1 both receive; neither has called ncclSend"
				  : "rank 0 and rank 1 both send; neither has called ncclRecv");
	os_thread_join(aborter);
	blocks_free(&b);
}

START_TEST(ranks_that_both_send_wait_and_are_named)
{
	for (uint64_t seed = 1; seed <= 8; seed += SAMPLE_THIN) {
		struct alike a = {.recv = seed % 2};
		struct ranks_config c = {
			.hosts = 1 + (uint32_t)(seed / 2 % 2), .per_host = 1, .seed = seed};

		c.per_host = c.hosts == 1 ? 2 : 1;
		ranks_run(&c, alike_rank, &a);
	}
}
END_TEST

/* A group of two communicators waits for the second one, whose peer does not come; another task
 * aborts it. */
static void abort_one_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t one = comm_open(rank, nranks, ranks_id()), other;
	struct os_thread_attr attr = {.name = "aborter", .rank = rank};
	struct os_thread *aborter = NULL;
	struct blocks b, c;

	(void)arg;
	ranks_barrier();
	other = comm_open(rank, nranks, ranks_id());
	blocks_make(&b, rank, nranks);
	blocks_make(&c, rank, nranks);
	ranks_barrier();
	if (rank == 0) {
		EXPECT(os_thread_start(&aborter, &attr, alike_abort, other) == 0);
		EXPECT_NCCL(ncclSuccess, ncclGroupStart());
		EXPECT_NCCL(ncclSuccess, block_send(&b, 1, one));
		EXPECT_NCCL(ncclSuccess, block_send(&c, 1, other));
		EXPECT(ncclGroupEnd() != ncclSuccess);
	} else {
		(void)block_recv(&b, 0, one); /* an error, if the group ends before */
	}
	/* a kernel of it may run, which the end of the other one waits for */
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(one));
	if (aborter)
		os_thread_join(aborter);
	else
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(other));
	blocks_free(&b);
	blocks_free(&c);
}

START_TEST(an_abort_of_one_communicator_ends_the_group)
{
	for (uint64_t seed = 1; seed <= 12; seed += SAMPLE_THIN) {
		struct ranks_config c = {
			.hosts = 1 + (uint32_t)(seed % 2), .per_host = 1, .seed = seed};

		c.per_host = c.hosts == 1 ? 2 : 1;
		if (seed % 3 == 2)
			c.engine = SIM_ENGINE_THREADS;
		ranks_run(&c, abort_one_rank, NULL);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("send_recv_groups");
	TCase *t = tcase_create("send_recv_groups");

	suite_add_tcase(suite, t);
	tcase_set_timeout(t, 240);
	tcase_add_test(t, each_direction_is_connected_when_both_ranks_have_called_it);
	tcase_add_test(t, an_all_to_all_in_uneven_groups_arrives);
	tcase_add_test(t, communicators_of_a_group_are_connected_independently_of_each_other);
	tcase_add_test(t, communicators_that_ranks_call_in_other_orders_are_connected);
	tcase_add_test(t, ranks_that_both_send_wait_and_are_named);
	tcase_add_test(t, an_abort_of_one_communicator_ends_the_group);
	return suite_run(suite);
}
