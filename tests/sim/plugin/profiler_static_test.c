/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A profiler plugin in the program itself (STATIC_PLUGIN). It receives the tags of calls, one group
 * event for a group, and the sequence numbers of a function.
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "core/profiler/profiler_abi.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

enum { COUNT = 256, BYTES = 2 * COUNT * 4 };

/* Counts of the plugin. Engine sim has one thread. */
static struct {
	uint64_t tags[8], numbers[8];
	int ntags, ncolls, groups, depth, captured, launches, open, contexts;
	int calls_of_group; /* API events with the group's event as parent */
	void *group;
} seen;

static ncclResult_t static_init(void **context, uint64_t comm, int *mask, const char *name,
				int nhosts, int nranks, int rank, profiler_log log)
{
	(void)comm;
	(void)log;
	EXPECT(nhosts == 1 && nranks == 2 && name && !strcmp(name, "static"));
	*mask = 0xffff;
	*context = &seen.tags[rank];
	seen.contexts++;
	return ncclSuccess;
}

static void static_api(const struct profiler_descr *d)
{
	const bool coll = d->type == PROFILER_COLL_API;

	seen.captured += coll ? d->coll_api.captured : d->p2p_api.captured;
	seen.calls_of_group += d->parent == seen.group;
	if (!coll)
		EXPECT(!strcmp(d->p2p_api.func, "AlltoAll"));
	if (d->rank == 0 && seen.ntags < 8)
		seen.tags[seen.ntags++] = coll ? d->coll_api.tag : d->p2p_api.tag;
}

static ncclResult_t static_start(void *context, void **event, void *descr)
{
	const struct profiler_descr *d = descr;

	EXPECT(context == &seen.tags[d->rank]);
	*event = malloc(1);
	seen.open++;
	if (d->type == PROFILER_GROUP_API && d->rank == 0) {
		seen.groups++;
		seen.depth = d->group_api.depth;
		seen.group = *event;
	}
	if (d->type == PROFILER_COLL_API || d->type == PROFILER_P2P_API)
		static_api(d);
	if (d->type == PROFILER_COLL && d->rank == 0 && seen.ncolls < 8)
		seen.numbers[seen.ncolls++] = d->coll.number;
	seen.launches += d->type == PROFILER_KERNEL_LAUNCH && d->rank == 0;
	return ncclSuccess;
}

static ncclResult_t static_stop(void *event)
{
	seen.open--;
	free(event);
	return ncclSuccess;
}

static ncclResult_t static_record(void *event, int state, void *args)
{
	(void)event;
	(void)args;
	EXPECT(state >= PROFILER_SEND_GPU_WAIT && state <= PROFILER_GROUP_END_START);
	return ncclSuccess;
}

static ncclResult_t static_finalize(void *context)
{
	EXPECT(context);
	seen.contexts--;
	return ncclSuccess;
}

extern const struct profiler_table static_table __asm__("ncclProfiler_v7")
	__attribute__((visibility("default")));
const struct profiler_table static_table = {
	.name = "static",
	.init = {.v5 = static_init},
	.start = static_start,
	.stop = static_stop,
	.record = static_record,
	.finalize = static_finalize,
};

/* ---- ranks ---------------------------------------------------------------------------------- */

struct rank {
	ncclComm_t comm;
	cudaStream_t stream;
	int32_t *send, *recv;
	void *mem;
};

static struct rank rank_begin(int32_t rank, int32_t nranks)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	struct rank t;

	config.commName = "static";
	EXPECT(cudaSetDevice(rank) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess,
		    ncclCommInitRankConfig(&t.comm, nranks, ranks_id(), rank, &config));
	EXPECT(cudaMalloc(&t.mem, 2 * BYTES) == cudaSuccess);
	EXPECT(cudaStreamCreateWithFlags(&t.stream, cudaStreamNonBlocking) == cudaSuccess);
	t.send = t.mem;
	t.recv = t.send + BYTES / 4;
	return t;
}

static void rank_end(struct rank *t)
{
	EXPECT(cudaStreamSynchronize(t->stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(t->comm));
	EXPECT(cudaStreamDestroy(t->stream) == cudaSuccess);
	EXPECT(cudaFree(t->mem) == cudaSuccess);
}

static void tags_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclCollConfig_t c = NCCL_COLLCONFIG_INITIALIZER;
	struct rank t = rank_begin(rank, nranks);

	(void)arg;
	c.userProfilerTag = 71117;
	EXPECT_NCCL(ncclSuccess, ncclAllReduceConfig(t.send, t.recv, COUNT, ncclInt32, ncclSum,
						     t.comm, t.stream, &c));
	c.userProfilerTag = 71118;
	EXPECT_NCCL(ncclSuccess,
		    ncclAlltoAllConfig(t.send, t.recv, COUNT, ncclInt32, t.comm, t.stream, &c));
	EXPECT_NCCL(ncclSuccess,
		    ncclAllReduce(t.send, t.recv, COUNT, ncclInt32, ncclSum, t.comm, t.stream));
	EXPECT_NCCL(ncclSuccess,
		    ncclReduce(t.send, t.recv, COUNT, ncclInt32, ncclSum, 0, t.comm, t.stream));
	rank_end(&t);
}

static void group_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct rank t = rank_begin(rank, nranks);

	(void)arg;
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < 3; i++)
		EXPECT_NCCL(ncclSuccess, ncclAllReduce(t.send, t.recv, COUNT, ncclInt32, ncclSum,
						       t.comm, t.stream));
	/* a call that fails has its events ended, too */
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(NULL, t.recv, COUNT, ncclInt32, ncclSum, t.comm, t.stream));
	EXPECT_NCCL(ncclInvalidArgument, ncclGroupEnd());
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < 3; i++)
		EXPECT_NCCL(ncclSuccess, ncclAllReduce(t.send, t.recv, COUNT, ncclInt32, ncclSum,
						       t.comm, t.stream));
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	rank_end(&t);
}

static void run(void (*fn)(int32_t, int32_t, void *))
{
	static const char *const env[] = {"NCCL_PROFILER_PLUGIN=STATIC_PLUGIN", NULL};
	const struct ranks_config c = {.per_host = 2, .seed = 1, .env = env};

	memset(&seen, 0, sizeof seen);
	ranks_run(&c, fn, NULL);
	ck_assert_int_eq(seen.open, 0);
	ck_assert_int_eq(seen.contexts, 0);
}

START_TEST(calls_have_their_tags_and_numbers)
{
	run(tags_rank);
	ck_assert_int_eq(seen.ntags, 4);
	ck_assert_uint_eq(seen.tags[0], 71117);
	ck_assert_uint_eq(seen.tags[1], 71118);
	ck_assert_uint_eq(seen.tags[2], 0);
	ck_assert_int_eq(seen.ncolls, 3);
	ck_assert_uint_eq(seen.numbers[0], 0); /* of AllReduce */
	ck_assert_uint_eq(seen.numbers[1], 1);
	ck_assert_uint_eq(seen.numbers[2], 0); /* of Reduce */
	ck_assert_int_eq(seen.groups, 4);
	ck_assert_int_eq(seen.depth, 1);
	ck_assert_int_eq(seen.launches, 4);
	ck_assert_int_eq(seen.captured, 0);
}
END_TEST

START_TEST(a_group_has_one_event_for_all_its_calls)
{
	run(group_rank);
	ck_assert_int_eq(seen.groups, 2);
	ck_assert_int_eq(seen.depth, 2);
	ck_assert_int_eq(seen.calls_of_group, 6); /* of rank 0 */
	ck_assert_int_eq(seen.ncolls, 3);         /* the group that failed launched none */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("profiler_static");
	TCase *t = tcase_create("profiler_static");

	tcase_add_test(t, calls_have_their_tags_and_numbers);
	tcase_add_test(t, a_group_has_one_event_for_all_its_calls);
	suite_add_tcase(s, t);
	return suite_run(s);
}
