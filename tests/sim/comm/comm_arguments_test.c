/* SPDX-License-Identifier: BSD-3-Clause */
/* Bad arguments of communicators and collectives, and a missing topology file: what is named. */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

static void init_arguments_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = NULL;
	ncclUniqueId id, zero = {{0}};
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	int n, twice[2] = {1, 1};

	EXPECT_NCCL(ncclInvalidArgument, ncclGetVersion(NULL));
	EXPECT_NCCL(ncclSuccess, ncclGetVersion(&n));
	EXPECT(n == 23203);
	EXPECT_NCCL(ncclInvalidArgument, ncclGetUniqueId(NULL));
	EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&id));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRank(NULL, 1, id, 0));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRank(&comm, 0, id, 0));
	EXPECT_ERROR_SAYS("nranks is 0, expected at least 1");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRank(&comm, -1, id, 0));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRank(&comm, 2, id, -1));
	EXPECT_ERROR_SAYS("rank is -1, expected 0 to 1");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRank(&comm, 2, id, 2));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRank(&comm, 1, zero, 0));
	EXPECT_ERROR_SAYS("unique id");
	EXPECT(comm == NULL);
	config.magic = 1;
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
	EXPECT_ERROR_SAYS("NCCL_CONFIG_INITIALIZER");
	config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
	config.blocking = 2;
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
	EXPECT_ERROR_SAYS("blocking is 2, expected 0 to 1");
	config.blocking = 1;
	config.minCTAs = 8;
	config.maxCTAs = 4;
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
	EXPECT_ERROR_SAYS("minCTAs");
	config.maxCTAs = 8;
	config.netName = "Sockets";
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
	EXPECT_ERROR_SAYS("netName is 'Sockets'");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitAll(NULL, 2, NULL));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitAll(&comm, 0, NULL));
	EXPECT_NCCL(ncclInvalidUsage, ncclCommInitAll(&comm, 9, NULL));
	EXPECT_ERROR_SAYS("device 8 of rank 8 does not exist");
	EXPECT_NCCL(ncclInvalidUsage, ncclCommInitAll(&comm, 2, twice));
	EXPECT_ERROR_SAYS("device 1 is listed for ranks 0 and 1");
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(NULL));
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(NULL));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommFinalize(NULL));
	/* the same id, to the end */
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, 1, id, 0));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(init_names_what_is_wrong)
{
	struct ranks_config c = {.hosts = 1, .per_host = 1, .seed = 1};
	ranks_run(&c, init_arguments_rank, NULL);
}
END_TEST

/* ---- layouts of other versions
 * ------------------------------------------------------------------ */

/* The layout of a version has `bytes`, of which those from `used` on are padding. */
static const struct {
	unsigned version;
	size_t used, bytes;
} layouts[] = {
	{NCCL_VERSION(2, 14, 3), 20, 24}, {NCCL_VERSION(2, 17, 1), 40, 40},
	{NCCL_VERSION(2, 18, 5), 44, 48}, {NCCL_VERSION(2, 24, 3), 44, 48},
	{NCCL_VERSION(2, 26, 2), 48, 48}, {NCCL_VERSION(2, 27, 7), 72, 72},
	{NCCL_VERSION(2, 28, 9), 80, 80}, {NCCL_VERSION(2, 29, 2), 88, 88},
	{NCCL_VERSION(2, 30, 7), 96, 96}, {NCCL_VERSION(2, 32, 3), 116, 120},
};

static void layouts_rank(int32_t rank, int32_t nranks, void *arg)
{
	union {
		ncclConfig_t config;
		int32_t word[32];
		uint8_t byte[128];
	} c;
	const ncclConfig_t unset = NCCL_CONFIG_INITIALIZER;
	ncclComm_t comm;

	(void)arg;
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	for (size_t i = 0; i < ARRAY_LEN(layouts); i++) {
		for (size_t k = 0; k < ARRAY_LEN(c.word); k++)
			c.word[k] = NCCL_CONFIG_UNDEF_INT;
		c.config = unset;
		memset(c.byte + layouts[i].used, 0x5a, sizeof c - layouts[i].used);
		c.config.size = layouts[i].bytes;
		c.config.version = layouts[i].version;
		EXPECT_NCCL(ncclSuccess,
			    ncclCommInitRankConfig(&comm, nranks, ranks_id(), rank, &c.config));
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	}
	EXPECT(!strstr(ncclGetLastError(NULL), "config:"));
	/* a field of a later version that is set is named, and has no effect */
	c.config.version = NCCL_VERSION(2, 99, 0);
	c.config.size = 128;
	c.word[29] = 8;
	c.word[30] = NCCL_CONFIG_UNDEF_INT;
	EXPECT_NCCL(ncclSuccess,
		    ncclCommInitRankConfig(&comm, nranks, ranks_id(), rank, &c.config));
	EXPECT_ERROR_SAYS("byte 116 of 128 is of a field that this version does not have, with the "
			  "value 8");
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(the_layouts_of_all_versions_are_read)
{
	struct ranks_config c = {.hosts = 1, .per_host = 1, .seed = 1};

	ranks_run(&c, layouts_rank, NULL);
}
END_TEST

/* Values that NCCL replaces by another one, from the program and from the environment. */
static void capped_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config[3] = {NCCL_CONFIG_INITIALIZER, NCCL_CONFIG_INITIALIZER,
				  NCCL_CONFIG_INITIALIZER};
	ncclComm_t comm;

	(void)arg;
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	config[0].maxCTAs = 16;
	config[1].maxCTAs = 128;
	config[2].splitShare = 2;
	for (size_t i = 0; i < ARRAY_LEN(config); i++) {
		EXPECT_NCCL(ncclSuccess,
			    ncclCommInitRankConfig(&comm, nranks, ranks_id(), rank, &config[i]));
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	}
}

START_TEST(values_that_are_too_large_are_capped)
{
	static const char *const env[][2] = {{NULL},
					     {"NCCL_MIN_NCHANNELS=32"},
					     {"NCCL_MIN_NCHANNELS=112"},
					     {"NCCL_MAX_CTAS=999"}};

	for (size_t i = 0; i < ARRAY_LEN(env); i++) {
		struct ranks_config c = {.hosts = 1, .per_host = 1, .seed = 1, .env = env[i]};

		ranks_run(&c, capped_rank, NULL);
	}
}
END_TEST

static void coll_arguments_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = NULL;
	cudaStream_t stream;
	void *mem, *other, *pinned;
	int n;
	int32_t on_host[4] = {0};
	ncclResult_t async;
	comm_buffers(rank, &mem, &stream, 4096);
	EXPECT(cudaSetDevice(1) == cudaSuccess);
	EXPECT(cudaMalloc(&other, 4096) == cudaSuccess);
	EXPECT(cudaSetDevice(0) == cudaSuccess);
	EXPECT(cudaHostAlloc(&pinned, 64, 0) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));

	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(mem, mem, 4, ncclInt32, ncclSum, NULL, stream));
	EXPECT_ERROR_SAYS("ncclAllReduce: comm is NULL");
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(NULL, mem, 4, ncclInt32, ncclSum, comm, stream));
	EXPECT_ERROR_SAYS("sendbuff is NULL");
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(mem, NULL, 4, ncclInt32, ncclSum, comm, stream));
	EXPECT_ERROR_SAYS("recvbuff is NULL");
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(mem, mem, 4, (ncclDataType_t)12, ncclSum, comm, stream));
	EXPECT_ERROR_SAYS("datatype is 12, expected 0 to 11");
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(mem, mem, 4, (ncclDataType_t)-1, ncclSum, comm, stream));
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(mem, mem, 4, ncclInt32, (ncclRedOp_t)5, comm, stream));
	EXPECT_ERROR_SAYS("op is 5, which was not made for this communicator, expected 0 to 4 or");
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(mem, mem, SIZE_MAX / 2, ncclInt32, ncclSum, comm, stream));
	EXPECT_ERROR_SAYS("count is");
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(mem, on_host, 4, ncclInt32, ncclSum, comm, stream));
	EXPECT_ERROR_SAYS("is host memory, expected memory of device 0");
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(other, mem, 4, ncclInt32, ncclSum, comm, stream));
	EXPECT_ERROR_SAYS("is memory of device 1");
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce((char *)mem + 1, mem, 4, ncclInt32, ncclSum, comm, stream));
	EXPECT_ERROR_SAYS("not aligned");
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce((char *)mem + 4, mem, 4, ncclInt32, ncclSum, comm, stream));
	EXPECT_ERROR_SAYS("overlap");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommCount(comm, NULL));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommGetAsyncError(comm, NULL));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommCount((ncclComm_t)(void *)on_host, &n));
	EXPECT_ERROR_SAYS("not a communicator of this process");
	/* none of this is an operation */
	EXPECT_NCCL(ncclSuccess, ncclAllReduce(NULL, NULL, 0, ncclInt32, ncclSum, comm, stream));
	comm_sum(comm, rank, nranks, mem, stream, 10);
	EXPECT_NCCL(ncclSuccess,
		    ncclAllReduce(pinned, pinned, 4, ncclInt32, ncclSum, comm, stream));

	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommDestroy(comm));
	EXPECT_ERROR_SAYS("destroyed");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommAbort(comm));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommGetAsyncError(comm, &async));
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(mem, mem, 4, ncclInt32, ncclSum, comm, stream));
	EXPECT(cudaFree(other) == cudaSuccess);
	comm_buffers_free(mem, stream);
	EXPECT(cudaFreeHost(pinned) == cudaSuccess);
}

START_TEST(collectives_name_what_is_wrong)
{
	struct ranks_config c = {.hosts = 1, .per_host = 1, .seed = 1};
	ranks_run(&c, coll_arguments_rank, NULL);
}
END_TEST

/* A world whose configuration names it is not made, so the process sets it. */
static void topo_file_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm[2] = {NULL};
	EXPECT(world_proc_setenv(os_proc(), "NCCL_TOPO_FILE", "/no/such/topology.xml") == 0);
	EXPECT_NCCL(ncclSystemError, ncclCommInitAll(comm, 2, NULL));
	EXPECT(comm[0] == NULL && comm[1] == NULL);
	EXPECT_ERROR_SAYS("/no/such/topology.xml cannot be read");
	/* one rank needs no topology */
	EXPECT_NCCL(ncclSuccess, ncclCommInitAll(comm, 1, NULL));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm[0]));
}

START_TEST(a_missing_topology_file_is_named)
{
	struct ranks_config c = {.hosts = 1, .per_host = 1, .seed = 1};
	ranks_run(&c, topo_file_rank, NULL);
}
END_TEST

/* The variable that only rank 1 sets, and the names of the ranks in the message. */
static const struct choice_setting {
	const char *name, *value, *error;
} choice_settings[] = {
	{"NCCL_ALGO", "nvlstree;allreduce:ring",
	 "rank 0 allows all_gather with Ring/Simple, rank 1 does not"},
	{"NCCL_PAT_ENABLE", "1", "NCCL_PAT_ENABLE: rank 1 has 1, rank 0 has another value"},
};

struct choice_case {
	const struct choice_setting *setting;
	shared_u32 named; /* ranks that named the others */
};

static void choice_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct choice_case *c = arg;
	ncclComm_t comm = NULL;

	if (rank == 1)
		EXPECT(world_proc_setenv(os_proc(), c->setting->name, c->setting->value) == 0);
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	ncclResult_t rc = ncclCommInitRank(&comm, nranks, ranks_id(), rank);
	/* one that fails first may be an error for the other */
	EXPECT(rc == ncclInvalidUsage || rc == ncclRemoteError);
	EXPECT(comm == NULL);
	if (rc == ncclRemoteError)
		return;
	shared_add_u32(&c->named, 1, SHARED_RELAXED);
	EXPECT_ERROR_SAYS(c->setting->error);
}

START_TEST(ranks_that_allow_different_programs_are_named)
{
	for (uint64_t seed = 1; seed <= 4 * ARRAY_LEN(choice_settings); seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2, .per_host = 2, .seed = seed};
		struct choice_case choice = {.setting = &choice_settings[(seed - 1) / 4]};

		ranks_run(&c, choice_rank, &choice);
		ck_assert_uint_gt(shared_load_u32(&choice.named, SHARED_RELAXED), 0);
	}
}
END_TEST

static Suite *comm_arguments_suite(void)
{
	Suite *s = suite_create("comm_arguments");
	TCase *t = tcase_create("comm_arguments");
	tcase_set_timeout(t, 120);
	tcase_add_test(t, init_names_what_is_wrong);
	tcase_add_test(t, the_layouts_of_all_versions_are_read);
	tcase_add_test(t, values_that_are_too_large_are_capped);
	tcase_add_test(t, collectives_name_what_is_wrong);
	tcase_add_test(t, a_missing_topology_file_is_named);
	tcase_add_test(t, ranks_that_allow_different_programs_are_named);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return suite_run(comm_arguments_suite());
}
