/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of the newer versions of NCCL's interface: properties, memory, the level of the log,
 * the time of a group that is not launched, inits with several ids, and functions that are not
 * built.
 */
#include <check.h>

#include "core/base/log.h"
#include "core/include/nccl_device.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

/* ---- properties ----------------------------------------------------------------------------- */

/* A structure of an older version is shorter: the bytes after it stay. */
static void properties_short(ncclComm_t comm)
{
	ncclCommProperties_t p = NCCL_COMM_PROPERTIES_INITIALIZER;

	p.size = offsetof(ncclCommProperties_t, commHash);
	p.commHash = 0x5a5a;
	EXPECT_NCCL(ncclSuccess, ncclCommQueryProperties(comm, &p));
	EXPECT(p.nRanks == 4 && p.commHash == 0x5a5a);
	p.size = offsetof(ncclCommProperties_t, deviceApiSupport) - 1;
	EXPECT_NCCL(ncclInvalidArgument, ncclCommQueryProperties(comm, &p));
	EXPECT_ERROR_SAYS("NCCL_COMM_PROPERTIES_INITIALIZER");
	p.size = sizeof p;
	p.magic = 0;
	EXPECT_NCCL(ncclInvalidArgument, ncclCommQueryProperties(comm, &p));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommQueryProperties(comm, NULL));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommQueryProperties(NULL, &p));
}

static uint64_t memory_of(ncclComm_t comm, ncclCommMemStat_t stat)
{
	uint64_t value = UINT64_MAX;

	EXPECT_NCCL(ncclSuccess, ncclCommMemStats(comm, stat, &value));
	return value;
}

/* Connections for messages are made by the first message, and need memory. */
static void memory_grows(ncclComm_t comm, int32_t rank, int32_t nranks)
{
	uint64_t before = memory_of(comm, ncclStatGpuMemTotal), value;
	cudaStream_t stream;
	void *mem;

	EXPECT(before ==
	       memory_of(comm, ncclStatGpuMemPersist) + memory_of(comm, ncclStatGpuMemSuspend));
	EXPECT(before > 0);
	EXPECT(memory_of(comm, ncclStatGpuMemSuspended) == 0);
	comm_buffers(rank, &mem, &stream, 65536);
	comm_sum(comm, rank, nranks, mem, stream, 100);
	EXPECT(memory_of(comm, ncclStatGpuMemTotal) == before);
	EXPECT_NCCL(ncclSuccess, ncclAlltoAll(mem, mem, 100, ncclInt32, comm, stream));
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	EXPECT(memory_of(comm, ncclStatGpuMemTotal) > before);
	comm_buffers_free(mem, stream);
	EXPECT_NCCL(ncclInvalidArgument, ncclCommMemStats(comm, ncclStatGpuMemTotal, NULL));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommMemStats(comm, (ncclCommMemStat_t)4, &value));
	EXPECT_ERROR_SAYS("stat is 4, expected 0 to 3");
}

static void properties_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclCommProperties_t p = NCCL_COMM_PROPERTIES_INITIALIZER;
	static uint64_t hash[RANKS_MOST];
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());

	(void)arg;
	memset(&p.rank, 0xff, sizeof p - offsetof(ncclCommProperties_t, rank));
	EXPECT_NCCL(ncclSuccess, ncclCommQueryProperties(comm, &p));
	EXPECT(p.size == sizeof p && p.magic == NCCL_API_MAGIC && p.version == 23203);
	EXPECT(p.rank == rank && p.nRanks == nranks);
	EXPECT(p.cudaDev == (int)comm_device(rank) && p.nvmlDev == p.cudaDev);
	EXPECT(p.deviceApiSupport && !p.multimemSupport && !p.hostRmaSupport);
	EXPECT(p.devCommRuntimeVersionSize == sizeof(ncclDevComm_t));
	EXPECT(p.ginType == NCCL_GIN_TYPE_NONE && !p.ginSupport[NCCL_GIN_TYPE_PROXY]);
	EXPECT(p.nLsaTeams == 2 && !p.cftSupport);
	hash[rank] = p.commHash;
	ranks_barrier();
	EXPECT(p.commHash == hash[0] && p.commHash);
	properties_short(comm);
	memory_grows(comm, rank, nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommQueryProperties(comm, &p));
}

START_TEST(a_communicator_describes_itself)
{
	struct ranks_config c = {.hosts = 2, .per_host = 2, .seed = 1};

	ranks_run(&c, properties_rank, NULL);
}
END_TEST

static void level_rank(int32_t rank, int32_t nranks, void *arg)
{
	(void)rank, (void)nranks, (void)arg;
	EXPECT(!log_wanted(LOG_LEVEL_INFO, LOG_NET));
	EXPECT(world_proc_setenv(os_proc(), "NCCL_DEBUG", "INFO") == 0);
	EXPECT(world_proc_setenv(os_proc(), "NCCL_DEBUG_SUBSYS", "NET,COLL") == 0);
	ncclResetDebugInit();
	EXPECT(log_wanted(LOG_LEVEL_INFO, LOG_NET) && !log_wanted(LOG_LEVEL_INFO, LOG_INIT));
	EXPECT(world_proc_setenv(os_proc(), "NCCL_DEBUG", "") == 0);
	pncclResetDebugInit();
	EXPECT(!log_wanted(LOG_LEVEL_INFO, LOG_NET) && !log_wanted(LOG_LEVEL_WARN, LOG_ALL));
}

START_TEST(the_level_of_the_log_is_read_again)
{
	struct ranks_config c = {.hosts = 1, .per_host = 1, .seed = 1};

	ranks_run(&c, level_rank, NULL);
}
END_TEST

/* ---- groups that are not launched ----------------------------------------------------------- */

/* Returns the estimate for n all-reduces of `count` elements. */
static float estimate(ncclComm_t comm, void *mem, size_t count, int n, cudaStream_t stream)
{
	ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;

	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	for (int i = 0; i < n; i++)
		EXPECT_NCCL(ncclSuccess,
			    ncclAllReduce(mem, mem, count, ncclInt32, ncclSum, comm, stream));
	EXPECT_NCCL(ncclSuccess, ncclGroupSimulateEnd(&info));
	return info.estimatedTime;
}

static void simulate_wrong(ncclComm_t comm, void *mem, cudaStream_t stream)
{
	ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER, unset = {0};

	EXPECT_NCCL(ncclInvalidUsage, ncclGroupSimulateEnd(&info));
	EXPECT_ERROR_SAYS("ncclGroupSimulateEnd: no ncclGroupStart before it");
	EXPECT_NCCL(ncclInvalidArgument, ncclGroupSimulateEnd(NULL));
	EXPECT_NCCL(ncclInvalidArgument, ncclGroupSimulateEnd(&unset));
	EXPECT_ERROR_SAYS("NCCL_SIM_INFO_INITIALIZER");
	/* an error of a call is the result, and there is no estimate */
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclAllReduce(mem, mem, 9, ncclInt32, ncclSum, comm, stream));
	EXPECT_NCCL(ncclInvalidArgument,
		    ncclAllReduce(NULL, mem, 9, ncclInt32, ncclSum, comm, stream));
	EXPECT_NCCL(ncclInvalidArgument, ncclGroupSimulateEnd(&info));
	EXPECT(info.estimatedTime < 0);
	/* messages have no model */
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclSend(mem, 9, ncclInt32, 0, comm, stream));
	EXPECT_NCCL(ncclSuccess, ncclGroupSimulateEnd(&info));
	EXPECT(info.estimatedTime < 0);
}

static void simulate_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	cudaStream_t stream;
	void *mem;
	float one, more;

	(void)arg;
	comm_buffers(rank, &mem, &stream, 4 << 20);
	one = estimate(comm, mem, 1000, 1, stream);
	more = estimate(comm, mem, 1 << 20, 1, stream);
	EXPECT(one > 0 && more > 2 * one);
	EXPECT(estimate(comm, mem, 1000, 3, stream) == 3 * one);
	EXPECT(estimate(comm, mem, 0, 2, stream) == 0);
	/* an inner end has no effect */
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclGroupSimulateEnd(&info));
	EXPECT(info.estimatedTime < 0);
	EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
	simulate_wrong(comm, mem, stream);
	/* nothing was launched: the ranks still agree */
	if (rank == 0)
		(void)estimate(comm, mem, 7, 1, stream);
	comm_sum(comm, rank, nranks, mem, stream, 100);
	comm_buffers_free(mem, stream);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(a_simulated_group_launches_nothing)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2, .per_host = 2, .seed = seed};

		ranks_run(&c, simulate_rank, NULL);
	}
}
END_TEST

/* ---- several ids ---------------------------------------------------------------------------- */

/* Ranks 0 to n - 1 each make an id. */
static void ids_make(int32_t rank, int n, ncclUniqueId *ids)
{
	if (rank < n)
		EXPECT_NCCL(ncclSuccess, ncclGetUniqueId(&ids[rank]));
	ranks_barrier();
}

static void scalable_rank(int32_t rank, int32_t nranks, void *arg)
{
	static ncclUniqueId ids[RANKS_MOST];
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	const int n = *(const int *)arg;
	cudaStream_t stream;
	ncclComm_t comm;
	void *mem;

	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	ids_make(rank, n, ids);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRankScalable(&comm, nranks, rank, n, ids, &config));
	comm_buffers(rank, &mem, &stream, 4096);
	comm_sum(comm, rank, nranks, mem, stream, 100);
	comm_buffers_free(mem, stream);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(several_ids_make_one_communicator)
{
	for (int n = 1; n <= 4; n++) {
		struct ranks_config c = {.hosts = 2, .per_host = 2, .seed = (uint64_t)n};

		ranks_run(&c, scalable_rank, &n);
	}
}
END_TEST

static void scalable_wrong_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclUniqueId ids[2] = {{{0}}};
	ncclComm_t comm = NULL;

	(void)arg;
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRankScalable(NULL, 1, 0, 1, ids, NULL));
	EXPECT_ERROR_SAYS("ncclCommInitRankScalable: newcomm is NULL");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRankScalable(&comm, 0, 0, 1, ids, NULL));
	EXPECT_ERROR_SAYS("nranks is 0");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRankScalable(&comm, 2, 2, 1, ids, NULL));
	EXPECT_ERROR_SAYS("myrank is 2, expected 0 to 1");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRankScalable(&comm, 2, 0, 1, NULL, NULL));
	EXPECT_ERROR_SAYS("commIds is NULL");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRankScalable(&comm, 2, 0, 0, ids, NULL));
	EXPECT_ERROR_SAYS("nId is 0, expected 1 to 2");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRankScalable(&comm, 2, 0, 3, ids, NULL));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRankScalable(&comm, 2, 1, 2, ids, NULL));
	EXPECT_ERROR_SAYS("commIds[0] does not come from ncclGetUniqueId");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRankScalable(&comm, 1, 0, 1, ids, NULL));
	EXPECT_ERROR_SAYS("the unique id does not come from ncclGetUniqueId");
	EXPECT(!comm);
	/* a rank that fails by its arguments ends the init of the others */
	ids[0] = ids[1] = ranks_id();
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT_NCCL(rank ? ncclInvalidArgument : ncclRemoteError,
		    ncclCommInitRankScalable(&comm, nranks, rank, rank ? 9 : 1, ids, NULL));
	EXPECT(!comm);
}

START_TEST(wrong_ids_are_named)
{
	struct ranks_config c = {.hosts = 1, .per_host = 2, .seed = 1};

	ranks_run(&c, scalable_wrong_rank, NULL);
}
END_TEST

/* ---- config --------------------------------------------------------------------------------- */

static void fields_rank(int32_t rank, int32_t nranks, void *arg)
{
	static const struct {
		size_t offset;
		int good, bad;
		const char *words;
	} field[] = {
#define FIELD(name, good, bad, words) {offsetof(ncclConfig_t, name), good, bad, words}
		FIELD(graphUsageMode, 1, 3, "graphUsageMode is 3, expected 0 to 2"),
		FIELD(numRmaCtx, 0, -1, "numRmaCtx is -1"),
		FIELD(maxP2pPeers, 8, 0, "maxP2pPeers is 0, expected 1"),
		FIELD(graphStreamOrdering, 0, 2, "graphStreamOrdering is 2, expected 0 to 1"),
		FIELD(launchOrderImplicit, 1, -3, "launchOrderImplicit is -3"),
		FIELD(numRmaSig, 4, 0, "numRmaSig is 0"),
		FIELD(rmaEagerInit, 1, 2, "rmaEagerInit is 2"),
		FIELD(hostCftMode, ncclHostCftFallback, 0, "hostCftMode is 0, expected 1 to 3"),
		FIELD(nvlsHostMode, ncclNvlsHostModeDisable, -1, "nvlsHostMode is -1"),
	};
	ncclConfig_t all = NCCL_CONFIG_INITIALIZER;
	ncclComm_t comm;

	(void)rank, (void)nranks, (void)arg;
	for (size_t i = 0; i < ARRAY_LEN(field); i++) {
		ncclConfig_t c = NCCL_CONFIG_INITIALIZER;

		*(int *)((char *)&all + field[i].offset) = field[i].good;
		*(int *)((char *)&c + field[i].offset) = field[i].bad;
		EXPECT_NCCL(ncclInvalidArgument,
			    ncclCommInitRankConfig(&comm, 1, ranks_id(), 0, &c));
		EXPECT_ERROR_SAYS(field[i].words);
	}
	EXPECT_NCCL(ncclSuccess, ncclCommInitRankConfig(&comm, 1, ranks_id(), 0, &all));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(fields_of_newer_versions_are_checked)
{
	struct ranks_config c = {.hosts = 1, .per_host = 1, .seed = 1};

	ranks_run(&c, fields_rank, NULL);
}
END_TEST

/* ---- functions that are not built ----------------------------------------------------------- */

#define EXPECT_ABSENT(call)                                                                        \
	do {                                                                                       \
		char name_[64];                                                                    \
                                                                                                   \
		snprintf(name_, sizeof name_, "%.*s is not implemented", (int)strcspn(#call, "("), \
			 #call);                                                                   \
		EXPECT_NCCL(ncclInvalidUsage, call);                                               \
		EXPECT_ERROR_SAYS(name_);                                                          \
	} while (0)

static void absent_windows(ncclComm_t comm)
{
	ncclWindow_t win = (ncclWindow_t)&win;
	size_t offset = 1;
	ncclCftLeId le = 1;
	void *p = &win;

	EXPECT_ABSENT(ncclGetLsaMultimemDevicePointer(win, 0, &p));
	EXPECT(!p);
	EXPECT_ABSENT(ncclGetPeerDeviceLeInfo(win, 0, 0, &le, &offset));
	EXPECT(!le && !offset);
	EXPECT_ABSENT(ncclPutSignal(p, 1, ncclInt8, 0, win, 0, 0, 0, 0, comm, NULL));
	EXPECT_ABSENT(ncclSignal(0, 0, 0, 0, comm, NULL));
	EXPECT_ABSENT(ncclWaitSignal(0, NULL, comm, NULL));
}

static void absent_device(ncclComm_t comm)
{
	ncclDevResourceRequirements_t req = {.bufferSize = 5};
	ncclTeam_t team = ncclTeamCft(comm, NCCL_CFT_TEAM_FLAT);

	EXPECT_ERROR_SAYS("ncclTeamCft is not implemented");
	EXPECT(team.nRanks == 0);
	EXPECT_ABSENT(ncclGinBarrierCreateRequirement(comm, team, 1, NULL, &req));
	EXPECT(req.bufferSize == 0);
}

static void absent_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclEncryptionConfig_t encryption = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());

	(void)arg;
	absent_windows(comm);
	absent_device(comm);
	EXPECT_NCCL(ncclSuccess, ncclSetEncryption(&encryption));
	encryption.mode = NCCL_ENCRYPTION_MODE_PSK;
	EXPECT_ABSENT(ncclSetEncryption(&encryption));
	encryption.magic = 0;
	EXPECT_NCCL(ncclInvalidArgument, ncclSetEncryption(&encryption));
	EXPECT_NCCL(ncclInvalidArgument, ncclSetEncryption(NULL));
	/* such a call is the error of its group */
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_ABSENT(ncclGinBarrierCreateRequirement(comm, ncclTeamWorld(comm), 1, NULL, NULL));
	EXPECT_NCCL(ncclInvalidUsage, ncclGroupEnd());
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(functions_that_are_not_built_are_named)
{
	struct ranks_config c = {.hosts = 1, .per_host = 1, .seed = 1};

	ranks_run(&c, absent_rank, NULL);
}
END_TEST

static Suite *interface_suite(void)
{
	Suite *s = suite_create("interface");
	TCase *t = tcase_create("interface");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_communicator_describes_itself);
	tcase_add_test(t, the_level_of_the_log_is_read_again);
	tcase_add_test(t, a_simulated_group_launches_nothing);
	tcase_add_test(t, several_ids_make_one_communicator);
	tcase_add_test(t, wrong_ids_are_named);
	tcase_add_test(t, fields_of_newer_versions_are_checked);
	tcase_add_test(t, functions_that_are_not_built_are_named);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return suite_run(interface_suite());
}
