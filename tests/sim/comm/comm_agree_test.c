/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that call different things of a communicator, or communicators in another order. */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

static void mismatch_rank(int32_t rank, int32_t nranks, void *arg)
{
	static const struct {
		size_t count;
		ncclDataType_t type;
		ncclRedOp_t op;
	} calls[] = {{4, ncclInt32, ncclSum},
		     {5, ncclInt32, ncclSum},
		     {4, ncclFloat32, ncclSum},
		     {4, ncclInt32, ncclMax},
		     {0, ncclInt32, ncclSum}};
	int which = rank == 1 ? *(int *)arg : 0;
	ncclComm_t comm = NULL;
	cudaStream_t stream;
	void *mem;
	comm_buffers(rank, &mem, &stream, 4096);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	if (rank == 1)
		ranks_barrier();
	ncclResult_t rc = ncclAllReduce(mem, mem, calls[which].count, calls[which].type,
					calls[which].op, comm, stream);
	if (rank == 0)
		ranks_barrier();
	EXPECT(rc == (rank == 1 ? ncclInvalidUsage : ncclSuccess));
	if (rank == 1) {
		EXPECT_ERROR_SAYS("ranks 1 and 0 disagree on operation 0 of communicator ");
		EXPECT_ERROR_SAYS(" at mismatch_rank+0x"); /* its own place, and */
		EXPECT_ERROR_SAYS("rank 0 called all_reduce count=4 type=int32 op=sum at "
				  "mismatch_rank+0x");
	}
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	comm_buffers_free(mem, stream);
}

START_TEST(ranks_that_call_different_things_are_named)
{
	for (int which = 1; which < 5; which++) {
		struct ranks_config c = {.hosts = 1, .per_host = 2, .seed = 1};
		ranks_run(&c, mismatch_rank, &which);
		c.hosts = 2;
		c.per_host = 1;
		ranks_run(&c, mismatch_rank, &which);
	}
}
END_TEST

/* Two communicators of the same ranks, used in another order by rank 1. `calls` of each of them. */
struct order_case {
	int calls;
	bool grouped;
};

static ncclResult_t order_call(ncclComm_t comm, void *mem, cudaStream_t stream)
{
	return ncclAllReduce(mem, mem, 4, ncclInt32, ncclSum, comm, stream);
}

static void order_abort(void *arg)
{
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(arg));
}

static void order_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct os_thread_attr attr = {.name = "aborter", .rank = rank};
	struct os_thread *aborter;
	const struct order_case *o = arg;
	ncclComm_t comm[2] = {NULL, NULL};
	cudaStream_t stream;
	void *mem;
	comm_buffers(rank, &mem, &stream, 4096);
	ncclUniqueId first = ranks_id();
	ranks_barrier();
	ncclUniqueId second = ranks_id();
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm[0], nranks, first, rank));
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm[1], nranks, second, rank));
	if (rank == 1)
		ranks_barrier();
	if (o->grouped)
		EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	ncclResult_t rc = order_call(comm[rank == 1], mem, stream);
	if (o->calls == 2 && !rc)
		rc = order_call(comm[rank != 1], mem, stream);
	if (o->grouped)
		rc = ncclGroupEnd();
	if (rank == 0)
		ranks_barrier();
	EXPECT(rc == (rank == 1 ? ncclInvalidUsage : ncclSuccess));
	if (rank == 1) {
		EXPECT_ERROR_SAYS("disagree on the order of communicators: rank 1 launches "
				  "all_reduce, operation 0 of communicator ");
		EXPECT_ERROR_SAYS("called at order_"); /* the compiler may inline the call */
		EXPECT_ERROR_SAYS("where rank 0 of its communicator launched all_reduce, "
				  "operation 0 of communicator ");
	}
	ranks_barrier();
	/* together: closing the memory of either waits for what runs on the GPU */
	EXPECT(os_thread_start(&aborter, &attr, order_abort, comm[1]) == 0);
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm[0]));
	EXPECT(os_thread_join(aborter) == 0);
	comm_buffers_free(mem, stream);
}

START_TEST(ranks_that_use_communicators_in_another_order_are_named)
{
	for (int i = 0; i < 4; i++) {
		struct ranks_config c = {.hosts = 1 + i % 2u, .per_host = 2 - i % 2u, .seed = 1};
		struct order_case o = {.calls = 1 + i / 2, .grouped = i / 2};
		ranks_run(&c, order_rank, &o);
	}
}
END_TEST

/* The same order, in groups on one rank and one by one on the other; a third communicator, of rank
 * 0 alone, goes in between. */
static void order_same_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm[2] = {NULL, NULL}, own = NULL;
	ncclUniqueId id[2], alone;
	cudaStream_t stream;
	void *mem;
	(void)arg;
	comm_buffers(rank, &mem, &stream, 4096);
	for (int i = 0; i < 2; i++) {
		id[i] = ranks_id();
		ranks_barrier();
	}
	EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&alone));
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&own, 1, alone, 0));
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm[0], nranks, id[0], rank));
	if (rank == 0)
		EXPECT_NCCL(ncclSuccess, order_call(own, mem, stream));
	EXPECT_NCCL(ncclSuccess, order_call(comm[0], mem, stream));
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm[1], nranks, id[1], rank));
	for (int i = 0; i < 3; i++) {
		if (rank == 0)
			EXPECT_NCCL(ncclSuccess, ncclGroupStart());
		EXPECT_NCCL(ncclSuccess, order_call(comm[1], mem, stream));
		if (rank == 0 || i == 1)
			EXPECT_NCCL(ncclSuccess, order_call(own, mem, stream));
		EXPECT_NCCL(ncclSuccess, order_call(comm[0], mem, stream));
		if (rank == 0)
			EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	}
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[0]));
	ranks_barrier(); /* freeing the memory of one waits for the kernels of the other */
	EXPECT_NCCL(ncclSuccess, order_call(comm[1], mem, stream));
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[1]));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(own));
	comm_buffers_free(mem, stream);
}

START_TEST(communicators_that_all_use_in_one_order_are_fine)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2,
					 .per_host = 2 - seed % 2,
					 .per_proc = 1 + (seed / 2) % 2,
					 .seed = seed};
		ranks_run(&c, order_same_rank, NULL);
	}
}
END_TEST

struct channels_case {
	int config[2]; /* nChannelsPerNetPeer of each rank */
	bool agree;
};

/* Ranks that send a message's parts over different channels would wait for each other. */
static void channels_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct channels_case *c = arg;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t comm = NULL;
	ncclResult_t rc;

	config.nChannelsPerNetPeer = c->config[rank];
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	rc = ncclCommInitRankConfig(&comm, nranks, ranks_id(), rank, &config);
	EXPECT((rc == ncclSuccess) == c->agree);
	if (rc == ncclSuccess)
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	else if (rank == 1)
		EXPECT_ERROR_SAYS("channels of messages");
}

START_TEST(ranks_with_other_channels_of_messages_are_named)
{
	static const struct channels_case cases[] = {{{4, 4}, true},
						     {{4, 3}, false},
						     {{NCCL_CONFIG_UNDEF_INT, 2}, true},
						     {{NCCL_CONFIG_UNDEF_INT, 1}, false}};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct ranks_config c = {.hosts = 2, .per_host = 1, .seed = 1 + i};
		struct channels_case each = cases[i];

		ranks_run(&c, channels_rank, &each);
	}
}
END_TEST

static Suite *comm_agree_suite(void)
{
	Suite *s = suite_create("comm_agree");
	TCase *t = tcase_create("comm_agree");
	tcase_set_timeout(t, 120);
	tcase_add_test(t, ranks_that_call_different_things_are_named);
	tcase_add_test(t, ranks_that_use_communicators_in_another_order_are_named);
	tcase_add_test(t, communicators_that_all_use_in_one_order_are_fine);
	tcase_add_test(t, ranks_with_other_channels_of_messages_are_named);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return suite_run(comm_agree_suite());
}
