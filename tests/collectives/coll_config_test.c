/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives with options: results, wrong options, the effect of a selection on the choice,
 * and the event that a call records.
 */
#include <check.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

enum { COUNT = 600, BYTES = 32 << 10 };

/* A rank with its communicator, and buffers with room for a block of each rank. */
struct conf {
	int32_t rank, nranks;
	ncclComm_t comm;
	cudaStream_t stream;
	int32_t *send, *recv;
	void *mem;
};

static ncclCollConfig_t config_new(void)
{
	const ncclCollConfig_t c = NCCL_COLLCONFIG_INITIALIZER;

	return c;
}

static void conf_begin(struct conf *t, int32_t rank, int32_t nranks)
{
	*t = (struct conf){.rank = rank, .nranks = nranks};
	t->comm = comm_open(rank, nranks, ranks_id());
	comm_buffers(rank, &t->mem, &t->stream, 2 * BYTES);
	t->send = t->mem;
	t->recv = t->send + BYTES / 4;
}

static void conf_end(struct conf *t)
{
	comm_buffers_free(t->mem, t->stream);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(t->comm));
}

/* Sets element i of block b of the send buffer to 1000 * rank + 100 * b + i % 7. */
static void conf_fill(struct conf *t)
{
	static int32_t host[RANKS_MOST][4 * COUNT];
	int32_t *mine = host[t->rank];

	for (int b = 0; b < t->nranks; b++)
		for (int i = 0; i < COUNT; i++)
			mine[b * COUNT + i] = 1000 * t->rank + 100 * b + i % 7;
	EXPECT(cudaMemcpyAsync(t->send, mine, (size_t)(t->nranks * COUNT) * 4,
			       cudaMemcpyHostToDevice, t->stream) == cudaSuccess);
	EXPECT(cudaMemsetAsync(t->recv, 0xff, BYTES, t->stream) == cudaSuccess);
}

/* Expects block `at` of the receive buffer to be `sum` + n * (100 * block + i % 7). */
static void conf_expect(struct conf *t, int at, int32_t sum, int32_t n, int block)
{
	int32_t host[COUNT];

	EXPECT(cudaMemcpyAsync(host, t->recv + at * COUNT, sizeof host, cudaMemcpyDeviceToHost,
			       t->stream) == cudaSuccess);
	EXPECT(cudaStreamSynchronize(t->stream) == cudaSuccess);
	for (int i = 0; i < COUNT; i++)
		EXPECT(host[i] == sum + n * (100 * block + i % 7));
}

static void conf_reductions(struct conf *t, const ncclCollConfig_t *c)
{
	const int32_t n = t->nranks, sum = 1000 * n * (n - 1) / 2;

	conf_fill(t);
	EXPECT_NCCL(ncclSuccess, ncclAllReduceConfig(t->send, t->recv, COUNT, ncclInt32, ncclSum,
						     t->comm, t->stream, c));
	conf_expect(t, 0, sum, n, 0);
	conf_fill(t);
	EXPECT_NCCL(ncclSuccess, ncclReduceScatterConfig(t->send, t->recv, COUNT, ncclInt32,
							 ncclSum, t->comm, t->stream, c));
	conf_expect(t, 0, sum, n, t->rank);
	conf_fill(t);
	EXPECT_NCCL(ncclSuccess, ncclReduceConfig(t->send, t->recv, COUNT, ncclInt32, ncclSum, 1,
						  t->comm, t->stream, c));
	if (t->rank == 1)
		conf_expect(t, 0, sum, n, 0);
}

static void conf_movers(struct conf *t, const ncclCollConfig_t *c)
{
	conf_fill(t);
	EXPECT_NCCL(ncclSuccess,
		    ncclAllGatherConfig(t->send, t->recv, COUNT, ncclInt32, t->comm, t->stream, c));
	for (int r = 0; r < t->nranks; r++)
		conf_expect(t, r, 1000 * r, 1, 0);
	conf_fill(t);
	EXPECT_NCCL(ncclSuccess, ncclBroadcastConfig(t->send, t->recv, COUNT, ncclInt32, 1, t->comm,
						     t->stream, c));
	conf_expect(t, 0, 1000, 1, 0);
}

static void conf_messages(struct conf *t, const ncclCollConfig_t *c)
{
	conf_fill(t);
	EXPECT_NCCL(ncclSuccess,
		    ncclAlltoAllConfig(t->send, t->recv, COUNT, ncclInt32, t->comm, t->stream, c));
	for (int r = 0; r < t->nranks; r++)
		conf_expect(t, r, 1000 * r, 1, t->rank);
	conf_fill(t);
	EXPECT_NCCL(ncclSuccess,
		    ncclGatherConfig(t->send, t->recv, COUNT, ncclInt32, 0, t->comm, t->stream, c));
	for (int r = 0; r < t->nranks && t->rank == 0; r++)
		conf_expect(t, r, 1000 * r, 1, 0);
	conf_fill(t);
	EXPECT_NCCL(ncclSuccess, ncclScatterConfig(t->send, t->recv, COUNT, ncclInt32, 1, t->comm,
						   t->stream, c));
	conf_expect(t, 0, 1000, 1, t->rank);
}

static void results_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfigExt_t second = {.key = {.vendorId = 77, .optionId = 2}, .val = {.s = "text"}};
	ncclConfigExt_t first = {&second, .key = {.vendorId = 77, .optionId = 1}, .val = {.i = 5}};
	ncclCollConfig_t c = config_new();
	struct conf t;

	(void)arg;
	conf_begin(&t, rank, nranks);
	conf_reductions(&t, NULL);
	conf_movers(&t, NULL);
	conf_messages(&t, NULL);
	c.ext = &first;
	c.minCTAs = 2;
	c.maxCTAs = 3;
	c.nvlsCTAs = 1;
	c.cgaClusterSize = 2;
	c.CTAPolicy = NCCL_CTA_POLICY_ZERO;
	c.userProfilerTag = (uint64_t)rank + 1;
	conf_messages(&t, &c);
	conf_reductions(&t, &c);
	conf_movers(&t, &c);
	c.algSelection = "ring";
	c.cgaClusterSize = 0;
	conf_reductions(&t, &c);
	conf_movers(&t, &c);
	/* no reduce has this algorithm, and any other may be used instead */
	c.algSelection = "nvls";
	c.forceAlgSelection = 0;
	conf_reductions(&t, &c);
	conf_messages(&t, &c);
	conf_end(&t);
}

START_TEST(results_do_not_depend_on_options)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct ranks_config c = {.hosts = seed == 3 ? 2 : 1,
					 .per_host = seed == 3 ? 1 : 1 + (uint32_t)seed,
					 .seed = seed};

		ranks_run(&c, results_rank, NULL);
	}
}
END_TEST

/* ---- wrong options -------------------------------------------------------------------------- */

static void expect_refused(struct conf *t, const ncclCollConfig_t *c, const char *words)
{
	EXPECT_NCCL(ncclInvalidArgument, ncclAllReduceConfig(t->send, t->recv, COUNT, ncclInt32,
							     ncclSum, t->comm, t->stream, c));
	EXPECT_ERROR_SAYS("ncclAllReduceConfig: config");
	EXPECT_ERROR_SAYS(words);
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAlltoAllConfig(t->send, t->recv, COUNT, ncclInt32, t->comm, t->stream, c));
	EXPECT_ERROR_SAYS("ncclAlltoAllConfig: config");
}

static void refuse_values(struct conf *t)
{
	static const struct {
		size_t offset;
		int value;
		const char *words;
	} bad[] = {
		{offsetof(ncclCollConfig_t, minCTAs), 0, "minCTAs is 0, expected 1 to "},
		{offsetof(ncclCollConfig_t, minCTAs), 65, "minCTAs is 65, expected 1 to 64"},
		{offsetof(ncclCollConfig_t, maxCTAs), 65, "maxCTAs is 65, expected 1 to 64"},
		{offsetof(ncclCollConfig_t, nvlsCTAs), -1, "nvlsCTAs is -1"},
		{offsetof(ncclCollConfig_t, cgaClusterSize), 9, "cgaClusterSize is 9, expected 0"},
		{offsetof(ncclCollConfig_t, forceAlgSelection), 2, "forceAlgSelection is 2"},
		{offsetof(ncclCollConfig_t, CTAPolicy), 4, "CTAPolicy is 4, expected 0 to 3"},
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		ncclCollConfig_t c = config_new();

		*(int *)((char *)&c + bad[i].offset) = bad[i].value;
		expect_refused(t, &c, bad[i].words);
	}
}

static void refuse_layouts(struct conf *t)
{
	ncclCollConfig_t c = config_new();
	ncclConfigExt_t endless = {&endless, .key = {1, 1}};

	c.magic = 1;
	expect_refused(t, &c, "NCCL_COLLCONFIG_INITIALIZER");
	c = config_new();
	c.size = 16;
	expect_refused(t, &c, "size 16");
	c = config_new();
	c.minCTAs = 3;
	c.maxCTAs = 2;
	expect_refused(t, &c, "minCTAs is 3, more than maxCTAs, 2");
	c = config_new();
	c.ext = &endless;
	expect_refused(t, &c, "expected a list that ends with NULL");
}

static void refuse_selections(struct conf *t)
{
	ncclCollConfig_t c = config_new();

	c.algSelection = "rong";
	expect_refused(t, &c, "algSelection=rong");
	c.algSelection = "nvls";
	expect_refused(t, &c, "algSelection=nvls");
	c.algSelection = "pat";
	expect_refused(t, &c, "algSelection=pat");
	EXPECT_NCCL(ncclInvalidArgument, ncclAllReduceConfig(t->send, t->recv, COUNT, ncclInt32,
							     ncclSum, t->comm, t->stream, &c));
	EXPECT_ERROR_SAYS("allows no algorithm that can run all_reduce");
}

static void wrong_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct conf t;

	(void)arg;
	conf_begin(&t, rank, nranks);
	refuse_values(&t);
	refuse_layouts(&t);
	refuse_selections(&t);
	EXPECT_NCCL(ncclInvalidArgument, ncclReduceConfig(t.send, t.recv, COUNT, ncclInt32, ncclSum,
							  nranks, t.comm, t.stream, NULL));
	EXPECT_ERROR_SAYS("ncclReduceConfig: root is 2, expected 0 to 1");
	/* none of these was an operation */
	conf_reductions(&t, NULL);
	conf_end(&t);
}

START_TEST(wrong_options_are_named)
{
	struct ranks_config c = {.hosts = 1, .per_host = 2, .seed = 1};

	ranks_run(&c, wrong_rank, NULL);
}
END_TEST

/* ---- effects -------------------------------------------------------------------------------- */

/* Two ranks select two algorithms: the line of the rank that comes second has both choices. */
static void differ_rank(int32_t rank, int32_t nranks, void *arg)
{
	shared_u32 *found = arg;
	ncclCollConfig_t c = config_new();
	ncclResult_t rc;
	struct conf t;

	conf_begin(&t, rank, nranks);
	c.algSelection = rank ? "tree" : "allgather:tree;allreduce:ring";
	c.minCTAs = c.maxCTAs = 2;
	rc = ncclAllReduceConfig(t.send, t.recv, COUNT, ncclInt32, ncclSum, t.comm, t.stream, &c);
	EXPECT(rc == ncclSuccess || rc == ncclInvalidUsage);
	if (rc == ncclInvalidUsage) {
		EXPECT_ERROR_SAYS("program=Ring/Simple channels=2");
		EXPECT_ERROR_SAYS("program=Tree/Simple channels=2");
		shared_add_u32(found, 1, SHARED_RELAXED);
	}
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(t.comm));
	comm_buffers_free(t.mem, t.stream);
}

START_TEST(a_selection_decides_the_algorithm)
{
	static const char *const env[] = {"NCCL_PROTO=Simple", NULL};
	struct ranks_config c = {.hosts = 2, .per_host = 1, .seed = 1, .env = env};
	shared_u32 found = {0};

	ranks_run(&c, differ_rank, &found);
	ck_assert_uint_eq(shared_load_u32(&found, SHARED_RELAXED), 1);
}
END_TEST

static void tag_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclCollConfig_t c = config_new();
	struct conf t;

	(void)arg;
	conf_begin(&t, rank, nranks);
	c.userProfilerTag = 71117;
	EXPECT_NCCL(ncclSuccess, ncclAllReduceConfig(t.send, t.recv, COUNT, ncclInt32, ncclSum,
						     t.comm, t.stream, &c));
	c.userProfilerTag = 71118;
	EXPECT_NCCL(ncclSuccess,
		    ncclAlltoAllConfig(t.send, t.recv, COUNT, ncclInt32, t.comm, t.stream, &c));
	c.userProfilerTag = 0;
	EXPECT_NCCL(ncclSuccess,
		    ncclAllGatherConfig(t.send, t.recv, COUNT, ncclInt32, t.comm, t.stream, &c));
	conf_end(&t);
}

/* Returns the number of lines of the file with both words; of all lines if `a` is "". */
static int lines_with(const char *path, const char *a, const char *b)
{
	static char line[1 << 16];
	FILE *f = fopen(path, "r");
	int n = 0;

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof line, f))
		n += strstr(line, a) && strstr(line, b);
	fclose(f);
	return n;
}

START_TEST(the_tag_of_a_call_is_in_the_trace_file)
{
	char path[] = "/tmp/coll_config_XXXXXX";
	struct ranks_config c = {.per_host = 2, .seed = 1, .trace_path = path};
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd);
	ranks_run(&c, tag_rank, NULL);
	ck_assert_int_eq(lines_with(path, "ncclAllReduceConfig", "\"tag\":71117"), 2);
	ck_assert_int_eq(lines_with(path, "ncclAlltoAllConfig", "\"tag\":71118"), 2);
	ck_assert_int_eq(lines_with(path, "", "\"tag\":"), 4);
	remove(path);
}
END_TEST

static void event_of_group(struct conf *t, const ncclCollConfig_t *c)
{
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclAllReduceConfig(t->send, t->recv, COUNT, ncclInt32, ncclSum,
						     t->comm, t->stream, c));
	EXPECT_NCCL(ncclInvalidUsage,
		    ncclAllGatherConfig(t->send, t->recv, COUNT, ncclInt32, t->comm, t->stream, c));
	EXPECT_ERROR_SAYS("another call of the group on this communicator has one");
	EXPECT_NCCL(ncclInvalidUsage, ncclGroupEnd());
}

/* Another stream that waits for the event sees the result. */
static void event_of_call(struct conf *t, cudaStream_t other, const ncclCollConfig_t *c,
			  ncclResult_t (*call)(struct conf *t, const ncclCollConfig_t *c))
{
	static int32_t host[RANKS_MOST][COUNT];
	int32_t *mine = host[t->rank];

	conf_fill(t);
	EXPECT_NCCL(ncclSuccess, call(t, c));
	EXPECT(cudaStreamWaitEvent(other, c->launchCompletionEvent, 0) == cudaSuccess);
	EXPECT(cudaMemcpyAsync(mine, t->recv, COUNT * 4, cudaMemcpyDeviceToHost, other) ==
	       cudaSuccess);
	EXPECT(cudaStreamSynchronize(other) == cudaSuccess);
	for (int i = 0; i < COUNT; i++)
		EXPECT(mine[i] == 100 * t->rank + i % 7); /* block of this rank, from rank 0 */
}

static ncclResult_t event_scatter(struct conf *t, const ncclCollConfig_t *c)
{
	return ncclScatterConfig(t->send, t->recv, COUNT, ncclInt32, 0, t->comm, t->stream, c);
}

static ncclResult_t event_all_to_all(struct conf *t, const ncclCollConfig_t *c)
{
	return ncclAlltoAllConfig(t->send, t->recv, COUNT, ncclInt32, t->comm, t->stream, c);
}

static ncclResult_t event_reduce_scatter(struct conf *t, const ncclCollConfig_t *c)
{
	return ncclReduceScatterConfig(t->send, t->recv, COUNT, ncclInt32, ncclMin, t->comm,
				       t->stream, c);
}

static void event_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclCollConfig_t c = config_new();
	cudaStream_t other;
	struct conf t;

	(void)arg;
	conf_begin(&t, rank, nranks);
	EXPECT(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess);
	EXPECT(cudaEventCreateWithFlags(&c.launchCompletionEvent, cudaEventDisableTiming) ==
	       cudaSuccess);
	event_of_call(&t, other, &c, event_scatter);
	event_of_call(&t, other, &c, event_all_to_all);
	event_of_call(&t, other, &c, event_reduce_scatter);
	event_of_group(&t, &c);
	/* calls without elements record it, too, and the next call may have one */
	for (int i = 0; i < 2; i++) {
		EXPECT_NCCL(ncclSuccess, ncclAllGatherConfig(t.send, t.recv, 0, ncclInt32, t.comm,
							     t.stream, &c));
		EXPECT_NCCL(ncclSuccess,
			    ncclAlltoAllConfig(t.send, t.recv, 0, ncclInt32, t.comm, t.stream, &c));
	}
	EXPECT(cudaEventSynchronize(c.launchCompletionEvent) == cudaSuccess);
	event_of_call(&t, other, &c, event_scatter);
	EXPECT(cudaEventDestroy(c.launchCompletionEvent) == cudaSuccess);
	EXPECT(cudaStreamDestroy(other) == cudaSuccess);
	conf_end(&t);
}

START_TEST(the_event_is_recorded_after_the_call)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct ranks_config c = {
			.hosts = 1 + seed % 2, .per_host = 1 + seed / 3, .seed = seed};

		ranks_run(&c, event_rank, NULL);
	}
}
END_TEST

static Suite *coll_config_suite(void)
{
	Suite *s = suite_create("coll_config");
	TCase *t = tcase_create("coll_config");

	tcase_set_timeout(t, 240);
	tcase_add_test(t, results_do_not_depend_on_options);
	tcase_add_test(t, wrong_options_are_named);
	tcase_add_test(t, a_selection_decides_the_algorithm);
	tcase_add_test(t, the_tag_of_a_call_is_in_the_trace_file);
	tcase_add_test(t, the_event_is_recorded_after_the_call);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return suite_run(coll_config_suite());
}
