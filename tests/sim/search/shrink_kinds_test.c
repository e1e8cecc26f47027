/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A failure of each kind, found by a sweep of one seed, is shrunk: what its folder records is what
 * shrinking looks for and finds, and what the smaller folder records comes out again. A failure
 * that does not come again is refused, and no folder is left. The faults are wrappers of calls that
 * the lab makes.
 */
#include <check.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/include/nccl.h"
#include "sim/lab/check/found.h"
#include "sim/lab/search/shrink.h"
#include "sim/lab/explore/sweep.h"
#include "tests/suite.h"

enum trick {
	TRICK_NONE,
	TRICK_CRASH,  /* the call fails an assertion */
	TRICK_STACK,  /* it overflows its stack */
	TRICK_HANG,   /* it never reaches a scheduling point again */
	TRICK_WRONG,  /* it moves an element less */
	TRICK_BLAME,  /* it blames its caller */
	TRICK_LEAK,   /* memory is not freed */
	TRICK_MISUSE, /* memory is freed twice */
	TRICK_SKIP,   /* rank 0 never makes the call */
};
static enum trick trick;

static volatile int deeper;

static int overflow(int n)
{
	volatile char page[4096];

	page[0] = (char)n;
	deeper = n;
	return deeper < 0 ? n : overflow(n + 1) + page[0];
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
			   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	ncclResult_t (*real)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
			     cudaStream_t) = dlsym(RTLD_NEXT, "ncclAllReduce");
	int rank = -1;

	ncclCommUserRank(comm, &rank);
	switch (trick) {
	case TRICK_CRASH:
		abort();
	case TRICK_STACK:
		return (ncclResult_t)overflow(0);
	case TRICK_HANG:
		while (deeper >= 0)
			deeper = 1;
		break;
	case TRICK_BLAME:
		return ncclInvalidArgument;
	case TRICK_SKIP:
		if (rank == 0)
			return ncclSuccess;
		break;
	default:
		break;
	}
	return real(send, recv, count - (trick == TRICK_WRONG), type, op, comm, stream);
}

cudaError_t cudaFree(void *p)
{
	cudaError_t (*real)(void *) = dlsym(RTLD_NEXT, "cudaFree");

	if (trick == TRICK_LEAK)
		return cudaSuccess;
	if (trick == TRICK_MISUSE)
		(void)real(p);
	return real(p);
}

static const struct kind {
	const char *kind, *plan, *env;
	enum trick trick;
	enum scenario_expect expect;
	uint32_t hosts;
} kinds[] = {
	{.kind = "crash", .trick = TRICK_CRASH},
	{.kind = "crash", .trick = TRICK_STACK},
	{.kind = "hung", .trick = TRICK_HANG},
	{.kind = "correctness", .trick = TRICK_WRONG},
	{.kind = "misuse", .trick = TRICK_MISUSE},
	{.kind = "leak", .trick = TRICK_LEAK},
	{.kind = "deadlock", .trick = TRICK_SKIP},
	{.kind = "error", .trick = TRICK_BLAME},
	{.kind = "error", .env = "NCCL_NET=nosuch"},
	{.kind = "error", .plan = "cuda.malloc nth=1 fail\n", .expect = SCENARIO_EXPECT_SUCCESS},
	{.kind = "killed",
	 .plan = "os.task rank=1 nth=9 kill\n",
	 .expect = SCENARIO_EXPECT_SUCCESS},
	{.kind = "error-class", .trick = TRICK_BLAME, .plan = "os.alloc nth=100000 fail\n"},
	{.kind = "liveness", .plan = "os.task rank=1 nth=1 starve by=600s\nheal after=50us\n"},
	{.kind = "livelock",
	 .plan = "fabric.packet after=1us count=1000000 drop\n",
	 .env = "NCCL_IB_TIMEOUT=22",
	 .hosts = 2},
};

static char root[] = "/tmp/shrink-kinds-XXXXXX";
static struct sweep_result swept;
static struct shrink_result shrunk;
static struct scenario was, now;

static void read_config(struct scenario *s, const char *dir)
{
	char path[FAIL_DIR_BYTES + 16];

	snprintf(path, sizeof path, "%s/config", dir);
	ck_assert_int_eq(scenario_read_file(s, path), 0);
}

static void sweep_one(const struct kind *k, const char *dir)
{
	static struct sweep_config c;

	sweep_config_default(&c);
	c.swarm = false;
	c.base.lab.hosts = k->hosts ? k->hosts : 1;
	c.base.lab.gpus = 2;
	c.base.lab.bytes_min = c.base.lab.bytes_max = 4096;
	c.base.expect = k->expect;
	c.base.lab.check = k->trick != TRICK_SKIP;
	snprintf(c.base.plan, sizeof c.base.plan, "%s", k->plan ? k->plan : "");
	if (k->env)
		ck_assert_int_eq(scenario_set_env(&c.base, k->env), 0);
	if (k->hosts)
		c.base.lab.sim.budget_ns = 1000000000;
	c.count = 1;
	c.jobs = 1;
	c.twice_one_of = 0;
	c.seed_limit_ns = k->trick == TRICK_HANG ? 1000000000 : c.seed_limit_ns;
	c.fail_dir = dir;
	trick = k->trick;
	ck_assert_int_eq(sweep_run(&c, &swept), 0);
	ck_assert_int_eq((int)swept.failure_n, 1);
	ck_assert_msg(!strcmp(swept.failure[0].failure.kind, k->kind), "found %s (%s), expected %s",
		      swept.failure[0].failure.kind, swept.failure[0].failure.message, k->kind);
	ck_assert(swept.failure[0].kept);
}

static bool is_there(const char *dir, const char *suffix)
{
	char path[FAIL_DIR_BYTES + 16];
	struct stat st;

	snprintf(path, sizeof path, "%s%s", dir, suffix);
	return stat(path, &st) == 0;
}

START_TEST(a_failure_of_this_kind_is_shrunk)
{
	const struct kind *k = &kinds[_i];
	struct shrink_config c = {.time_ns = 1000000000, .seeds = 3};

	ck_assert_ptr_nonnull(mkdtemp(root));
	sweep_one(k, root);
	c.dir = swept.failure[0].dir;
	read_config(&was, c.dir);
	ck_assert_str_eq(was.found.message, swept.failure[0].failure.message);
	ck_assert_str_eq(was.found.kind, k->kind);

	ck_assert_int_eq(shrink_run(&c, &shrunk), 0);
	ck_assert(!is_there(c.dir, "-min.part"));
	read_config(&now, shrunk.dir);
	ck_assert_int_ge(found_compare(&was.found, &now.found), FOUND_SAME_WAY);
	ck_assert_int_eq(found_compare(&shrunk.failure, &now.found), FOUND_SAME);
	ck_assert(is_there(shrunk.dir, "/choices") && is_there(shrunk.dir, "/explain.txt"));
}
END_TEST

/* The program was mended. */
START_TEST(a_failure_that_does_not_come_again_leaves_no_folder)
{
	const struct kind *k = &kinds[_i];
	struct shrink_config c = {.time_ns = 1000000000, .seeds = 3};

	if (!k->trick)
		return;
	ck_assert_ptr_nonnull(mkdtemp(root));
	sweep_one(k, root);
	c.dir = swept.failure[0].dir;
	trick = TRICK_NONE;
	ck_assert_int_ne(shrink_run(&c, &shrunk), 0);
	ck_assert(!is_there(c.dir, "-min") && !is_there(c.dir, "-min.part"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("shrink_kinds");
	TCase *t = tcase_create("shrink_kinds");
	int n = sizeof kinds / sizeof kinds[0];

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, a_failure_of_this_kind_is_shrunk, 0, n);
	tcase_add_loop_test(t, a_failure_that_does_not_come_again_leaves_no_folder, 0, n);
	suite_add_tcase(s, t);
	return suite_run(s);
}
