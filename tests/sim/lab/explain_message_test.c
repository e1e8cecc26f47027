/* SPDX-License-Identifier: BSD-3-Clause */
/* The hang explainer's conclusion if one rank calls its end of a message and the other one does
 * not. */
#include "tests/sim/comm/comm_rank.h"
#include "tests/sim/lab/explain_run.h"
#include "tests/suite.h"

#define LONE_BYTES (4u << 20)

struct lone {
	bool sends;     /* rank 0; else it receives */
	bool connected; /* the two ranks have sent to each other before */
	bool put;       /* of one process: straight into the receiver's buffer */
	uint32_t hosts;
};

static void lone_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct lone *l = arg;
	cudaStream_t stream;
	ncclComm_t comm;
	void *mem;

	comm_buffers(rank, &mem, &stream, LONE_BYTES);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	if (l->connected) {
		EXPECT_NCCL(ncclSuccess, ncclGroupStart());
		EXPECT_NCCL(ncclSuccess, ncclSend(mem, 100, ncclInt8, 1 - rank, comm, stream));
		EXPECT_NCCL(ncclSuccess,
			    ncclRecv((char *)mem + 100, 100, ncclInt8, 1 - rank, comm, stream));
		EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	}
	if (rank == 0 && l->sends)
		EXPECT_NCCL(ncclSuccess, ncclSend(mem, LONE_BYTES, ncclInt8, 1, comm, stream));
	if (rank == 0 && !l->sends)
		EXPECT_NCCL(ncclSuccess, ncclRecv(mem, LONE_BYTES, ncclInt8, 1, comm, stream));
	comm_sum(comm, rank, nranks, mem, stream, 100);
}

static const char *lone_run(const struct lone *l)
{
	static const char *const env[] = {"NCCL_BUFFSIZE=65536", NULL};
	struct ranks_config config = {.hosts = l->hosts,
				      .per_host = 2 / l->hosts,
				      .per_proc = l->put ? 2 : 1,
				      .seed = 1,
				      .env = env};
	const char *tasks;

	return explain_run(&config, lone_rank, (void *)l, &tasks);
}

START_TEST(the_rank_that_did_not_call_is_named)
{
	const struct lone l = {.sends = _i & 1, .connected = _i & 2, .hosts = _i & 4 ? 2 : 1};
	const char *why = lone_run(&l);
	const char *want = l.sends ? "  <- rank 1 has not called ncclRecv from rank 0; its calls "
				     "come from task 2 \"rank1 main\", which waits for "
				     "\"cudaMemcpyAsync stream 1 of gpu "
				   : "  <- rank 1 has not called ncclSend to rank 0; its calls "
				     "come from task 2 \"rank1 main\", which waits for "
				     "\"cudaMemcpyAsync stream 1 of gpu ";

	ck_assert_msg(strstr(why, want), "no line '%s' in:\n%s", want, why);
	ck_assert_msg(!strstr(why, "cycle"), "%s", why);
}
END_TEST

/* A sender waits for the buffer; a receiver, which has offered its own, for the data. */
START_TEST(wait_of_a_message_that_is_put_is_named)
{
	const struct lone l = {.sends = _i, .connected = true, .put = true, .hosts = 1};
	const char *why = lone_run(&l);
	const char *want =
		l.sends ? "waits for \"send: receive buffer\": is 0, wants >= 1, from rank 1"
			: "waits for \"recv: data in buffer\": is 0, wants >= 1, from rank 1";
	const char *call = l.sends ? "  <- rank 1 has not called ncclRecv from rank 0"
				   : "  <- rank 1 has not called ncclSend to rank 0";

	ck_assert_msg(strstr(why, want), "no '%s' in:\n%s", want, why);
	ck_assert_msg(strstr(why, call), "no '%s' in:\n%s", call, why);
}
END_TEST

/* Each sends first, alone: neither gets to its next call, of which a kernel or a connection is the
 * reason. */
static void both_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct lone *l = arg;
	cudaStream_t stream;
	ncclComm_t comm;
	void *mem;

	comm_buffers(rank, &mem, &stream, LONE_BYTES);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	if (l->sends) {
		EXPECT_NCCL(ncclSuccess,
			    ncclSend(mem, LONE_BYTES, ncclInt8, 1 - rank, comm, stream));
		EXPECT_NCCL(ncclSuccess,
			    ncclRecv(mem, LONE_BYTES, ncclInt8, 1 - rank, comm, stream));
	} else {
		EXPECT_NCCL(ncclSuccess,
			    ncclRecv(mem, LONE_BYTES, ncclInt8, 1 - rank, comm, stream));
		EXPECT_NCCL(ncclSuccess,
			    ncclSend(mem, LONE_BYTES, ncclInt8, 1 - rank, comm, stream));
	}
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
}

START_TEST(two_ranks_that_both_send_are_named)
{
	const struct lone l = {.sends = _i & 1, .hosts = _i & 2 ? 2 : 1};
	const char *tasks;
	struct ranks_config config = {.hosts = l.hosts, .per_host = 2 / l.hosts, .seed = 1};
	const char *why = explain_run(&config, both_rank, (void *)&l, &tasks);
	const char *want = l.sends ? "  <- rank 0 and rank 1 both send; neither has called ncclRecv"
				   : "  <- rank 0 and rank 1 both receive; neither has called "
				     "ncclSend";

	ck_assert_msg(strstr(why, want), "no line '%s' in:\n%s", want, why);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("explain_message");
	TCase *t = tcase_create("explain_message");

	tcase_add_loop_test(t, the_rank_that_did_not_call_is_named, 0, 8);
	tcase_add_loop_test(t, wait_of_a_message_that_is_put_is_named, 0, 2);
	tcase_add_loop_test(t, two_ranks_that_both_send_are_named, 0, 4);
	suite_add_tcase(s, t);
	return suite_run(s);
}
