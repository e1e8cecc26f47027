/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs that hang for different reasons, most of them a program's error, and the one line with which
 * the explanation begins: which rank waits for what, and because of which rank's state.
 */
#include "tests/sim/comm/comm_rank.h"
#include "tests/sim/lab/explain_run.h"
#include "tests/suite.h"

#define CAUSES_BYTES (4u << 20)

/* The state of one rank. */
struct party {
	int32_t rank, nranks;
	ncclComm_t comm;
	cudaStream_t stream;
	char *mem;
};

static void wait_for(const struct party *me)
{
	EXPECT(cudaStreamSynchronize(me->stream) == cudaSuccess);
}

static ncclResult_t reduce(const struct party *me, ncclComm_t comm, size_t count)
{
	return ncclAllReduce(me->mem, me->mem, count, ncclInt32, ncclSum, comm, me->stream);
}

static ncclResult_t to(const struct party *me, int peer, size_t bytes)
{
	return ncclSend(me->mem, bytes, ncclInt8, peer, me->comm, me->stream);
}

static ncclResult_t from(const struct party *me, int peer, size_t bytes)
{
	return ncclRecv(me->mem, bytes, ncclInt8, peer, me->comm, me->stream);
}

/* Both ranks are connected for messages. */
static void exchange(const struct party *me)
{
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int r = 0; r < me->nranks; r++) {
		if (r == me->rank)
			continue;
		EXPECT_NCCL(ncclSuccess, to(me, r, 64));
		EXPECT_NCCL(ncclSuccess, from(me, r, 64));
	}
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	wait_for(me);
}

static void no_receive(const struct party *me)
{
	exchange(me);
	if (me->rank == 0)
		EXPECT_NCCL(ncclSuccess, to(me, 1, CAUSES_BYTES));
}

static void no_send(const struct party *me)
{
	exchange(me);
	if (me->rank == 1)
		EXPECT_NCCL(ncclSuccess, from(me, 0, CAUSES_BYTES));
}

/* 0 -> 1, which waits for 2 first. */
static void chain_of_messages(const struct party *me)
{
	exchange(me);
	if (me->rank == 0)
		EXPECT_NCCL(ncclSuccess, to(me, 1, CAUSES_BYTES));
	if (me->rank == 1) {
		EXPECT_NCCL(ncclSuccess, from(me, 2, CAUSES_BYTES));
		EXPECT_NCCL(ncclSuccess, from(me, 0, CAUSES_BYTES));
	}
}

static void one_call_less(const struct party *me)
{
	EXPECT_NCCL(ncclSuccess, reduce(me, me->comm, 100));
	wait_for(me);
	if (me->rank != 1)
		EXPECT_NCCL(ncclSuccess, reduce(me, me->comm, 100));
}

static void one_leaves(const struct party *me)
{
	EXPECT_NCCL(ncclSuccess, reduce(me, me->comm, 100));
	wait_for(me);
	if (me->rank == 1)
		return;
	EXPECT_NCCL(ncclSuccess, reduce(me, me->comm, 100));
	wait_for(me);
}

static void one_sleeps(const struct party *me)
{
	if (me->rank == 1)
		for (;;)
			os_sleep_ns(1000000000000);
	EXPECT_NCCL(ncclSuccess, reduce(me, me->comm, 100));
	wait_for(me);
}

static void one_polls(const struct party *me)
{
	cudaStream_t other;

	EXPECT(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess);
	if (me->rank == 1) {
		EXPECT_NCCL(ncclSuccess, from(me, 0, 64));
		while (cudaStreamQuery(me->stream) == cudaErrorNotReady)
			;
	}
	EXPECT_NCCL(ncclSuccess, reduce(me, me->comm, 100));
	wait_for(me);
}

static void other_root(const struct party *me)
{
	(void)ncclBroadcast(me->mem, me->mem, CAUSES_BYTES / 4, ncclInt32, me->rank, me->comm,
			    me->stream);
}

static void other_count(const struct party *me)
{
	(void)reduce(me, me->comm, 100 + (size_t)me->rank);
}

static void other_collective(const struct party *me)
{
	if (me->rank == 0)
		(void)reduce(me, me->comm, 100);
	else
		(void)ncclBroadcast(me->mem, me->mem, 100, ncclInt32, 0, me->comm, me->stream);
}

static void endless(const struct party *me)
{
	for (;;) {
		EXPECT_NCCL(ncclSuccess, reduce(me, me->comm, 20000));
		wait_for(me);
	}
}

static const struct cause_case {
	const char *name;
	void (*fn)(const struct party *me);
	const char *who, *because; /* parts of the line, in this order */
	uint32_t hosts, nranks;
	bool no_init; /* rank 1 makes no communicator */
	bool no_meet; /* ranks return instead of waiting for one another */
	const char *plan;
} cases[] = {
	{.name = "a receive is missing",
	 .fn = no_receive,
	 .who = "rank 0 (",
	 .because = "because rank 1 (host0/p1) has not called ncclRecv from rank 0; its task "
		    "\"rank1 main\""},
	{.name = "a receive is missing, on two hosts",
	 .fn = no_receive,
	 .who = "rank 0 (host0/p0) waits",
	 .because = "because rank 1 (host1/p0) has not called ncclRecv from rank 0; its task",
	 .hosts = 2},
	{.name = "a send is missing",
	 .fn = no_send,
	 .who = "rank 1 (",
	 .because = "because rank 0 (host0/p0) has not called ncclSend to rank 1; its task \"rank0 "
		    "main\""},
	{.name = "a chain of messages",
	 .fn = chain_of_messages,
	 .who = "rank ",
	 .because = "because rank 2 (host0/p2) has not called ncclSend to rank 1",
	 .nranks = 3},
	{.name = "a rank makes one call less",
	 .fn = one_call_less,
	 .who = "rank 0 (",
	 .because = "because rank 1 (host0/p1) has not launched all_reduce #1; its task \"rank1 "
		    "main\" waits"},
	{.name = "a rank makes one call less, on two hosts",
	 .fn = one_call_less,
	 .who = "rank 0 (",
	 .because = "because rank 1 (host1/p0) has not launched operation #1; its task \"rank1 "
		    "main\" waits",
	 .hosts = 2},
	{.name = "a rank leaves",
	 .fn = one_leaves,
	 .who = "rank 0 (",
	 .because = "because rank 1 (host0/p1) is gone",
	 .no_meet = true},
	{.name = "a rank sleeps",
	 .fn = one_sleeps,
	 .who = "rank 0 (",
	 .because = "because rank 1 (host0/p1) has not launched all_reduce #0; its task \"rank1 "
		    "main\" is asleep"},
	{.name = "a rank polls",
	 .fn = one_polls,
	 .who = "rank ",
	 .because = "has not called ncclSend to rank 1"},
	{.name = "another root",
	 .fn = other_root,
	 .who = "rank ",
	 .because = "whose latest call returned \"invalid usage"},
	{.name = "another count",
	 .fn = other_count,
	 .who = "rank ",
	 .because = "whose latest call returned \"invalid usage"},
	{.name = "another collective",
	 .fn = other_collective,
	 .who = "rank ",
	 .because = "whose latest call returned \"invalid usage"},
	{"a rank makes no communicator", one_call_less, "rank 0 (host0/p0) waits for \"bootstrap",
	 "because ", .no_init = true},
	{.name = "a link was down for too long, and no program looked",
	 .fn = endless,
	 .who = "rank ",
	 .because = "proxy progress\" has nothing under way for it",
	 .hosts = 2,
	 .plan = "fabric.link host=1 after=50ms down\n"},
};

static void cause_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct cause_case *c = arg;
	struct party me = {.rank = rank, .nranks = nranks};
	void *mem;

	comm_buffers(rank, &mem, &me.stream, CAUSES_BYTES);
	me.mem = mem;
	if (!c->no_init || rank != 1) {
		EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&me.comm, nranks, ranks_id(), rank));
		c->fn(&me);
		if (!c->no_meet)
			wait_for(&me);
	}
	if (!c->no_meet)
		ranks_barrier();
}

START_TEST(the_first_line_names_the_cause)
{
	static const char *const env[] = {"NCCL_BUFFSIZE=65536", "NCCL_MAX_CTAS=1",
					  "NCCL_IB_TIMEOUT=22",  "NCCL_ALGO=Ring",
					  "NCCL_PROTO=Simple",   NULL};
	const struct cause_case *c = &cases[_i];
	uint32_t hosts = c->hosts ? c->hosts : 1, nranks = c->nranks ? c->nranks : 2;
	struct ranks_config config = {.hosts = hosts,
				      .per_host = nranks / hosts,
				      .seed = 1,
				      .env = env,
				      .fault_plan = c->plan};
	const char *tasks, *text = explain_run(&config, cause_rank, (void *)c, &tasks);
	const char *why = strstr(text, "why nothing moves"), *line = why ? why - 1 : text;

	ck_assert_msg(why, "%s: no explanation in:\n%s", c->name, text);
	while (line > text && line[-1] != '\n')
		line--;
	const char *who = strstr(line, c->who), *because = who ? strstr(who, c->because) : NULL;
	ck_assert_msg(because && because < why, "%s: the line has no '%s...%s':\n%s", c->name,
		      c->who, c->because, line);
	/* what ranks of one another wait for is the one cycle */
	ck_assert_msg(!strstr(line, "cycle") || strstr(line, "wait for one another"), "%s: %s",
		      c->name, line);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("explain_causes");
	TCase *t = tcase_create("explain_causes");

	tcase_add_loop_test(t, the_first_line_names_the_cause, 0, sizeof cases / sizeof cases[0]);
	suite_add_tcase(s, t);
	return suite_run(s);
}
