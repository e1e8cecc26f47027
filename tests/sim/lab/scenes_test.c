/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scenes, the check of the CUDA state, and the deadline of inits: with a right stack every kind of
 * scene is played and passes; a stack that does one thing wrong is found. The calls that it does
 * wrong are those of this program, which stand before the library's.
 */
#include <check.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "core/include/nccl_device.h"
#include "core/os/os.h"
#include "sim/lab/check/collective.h"
#include "sim/lab/run/runner.h"
#include "tests/suite.h"

#define SCENES_ALL   24
#define SCENES_KINDS 28
#define SCENES_SEEDS 5

#define SCENES_STALL_FIRST 10
#define SCENES_STALL_LAST  450 /* inits have ended by then */

#define SCENES_SLEEP_NS 10000000000ull

static enum spoil {
	SPOIL_NOTHING,
	SPOIL_MODE,     /* a call leaves another mode of captures */
	SPOIL_DEVICE,   /* another device */
	SPOIL_ERROR,    /* an error */
	SPOIL_ESTIMATE, /* a group of two takes half as long */
	SPOIL_REVOKE,   /* is refused */
	SPOIL_SUCCESS,  /* a group that fails returns success */
	SPOIL_ABORT,    /* an abort takes long */
	SPOIL_CAPTURE,  /* a captured call adds nothing to its graph */
	SPOIL_STATE,    /* a suspended communicator is suspended again */
	SPOIL_PARTS,    /* memory that is suspended does not count as memory that can be */
	SPOIL_ROOT,     /* a broadcast has another root */
	SPOIL_OFFSET,   /* the offset of a window's end has an address */
	SPOIL_USE,      /* a window is deregistered that an open group uses */
	SPOIL_SIZE,     /* a simulation takes a struct of its own size alone */
	SPOIL_CLASS,    /* a message that is refused has another error */
	SPOIL_LINE,     /* the line of an error names no rank */
	SPOIL_DEADLINE, /* an init returns long after its deadline */
} spoil;

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	ncclResult_t rc = pncclCommInitRank(comm, nranks, id, rank);

	if (spoil == SPOIL_MODE)
		(void)cudaThreadExchangeStreamCaptureMode(&mode);
	if (spoil == SPOIL_DEVICE)
		(void)cudaSetDevice(rank ? 0 : 1);
	if (spoil == SPOIL_ERROR)
		(void)cudaSetDevice(-1);
	if (spoil == SPOIL_DEADLINE && rank == 0)
		os_sleep_ns(SCENES_SLEEP_NS);
	return rc;
}

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
	if (spoil == SPOIL_SIZE && info->size != sizeof *info) {
		(void)pncclGroupEnd();
		return ncclInvalidArgument;
	}
	ncclResult_t rc = pncclGroupSimulateEnd(info);

	if (spoil == SPOIL_ESTIMATE && info->estimatedTime > 10)
		info->estimatedTime /= 2;
	return rc;
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags)
{
	return spoil == SPOIL_REVOKE ? ncclInvalidUsage : pncclCommRevoke(comm, flags);
}

ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **out)
{
	ncclResult_t rc = pncclGetPeerDevicePointer(window, offset, peer, out);

	if (spoil != SPOIL_OFFSET || rc != ncclInvalidArgument || !offset)
		return rc;
	rc = pncclGetPeerDevicePointer(window, offset - 1, peer, out);
	if (!rc && *out)
		*out = (char *)*out + 1;
	return rc;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
	ncclResult_t rc = pncclCommWindowDeregister(comm, window);

	return spoil == SPOIL_USE && rc == ncclInvalidUsage ? ncclSuccess : rc;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	if (spoil == SPOIL_ABORT)
		os_sleep_ns(SCENES_SLEEP_NS);
	return pncclCommAbort(comm);
}

const char *ncclGetLastError(ncclComm_t comm)
{
	return spoil == SPOIL_LINE ? "a rank is absent" : pncclGetLastError(comm);
}

ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags)
{
	ncclResult_t rc = pncclCommSuspend(comm, flags);

	return spoil == SPOIL_STATE && rc == ncclInvalidUsage ? ncclSuccess : rc;
}

ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value)
{
	ncclResult_t rc = pncclCommMemStats(comm, stat, value);
	uint64_t suspended = 0;

	if (spoil == SPOIL_PARTS && !rc && stat == ncclStatGpuMemSuspend &&
	    !pncclCommMemStats(comm, ncclStatGpuMemSuspended, &suspended) && suspended)
		*value = 0;
	return rc;
}

ncclResult_t ncclGroupEnd(void)
{
	ncclResult_t rc = pncclGroupEnd();

	if (spoil == SPOIL_CLASS && rc == ncclInvalidUsage)
		return ncclInvalidArgument;
	return spoil == SPOIL_SUCCESS ? ncclSuccess : rc;
}

ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count,
			   ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)
{
	int n = 1;

	if (spoil == SPOIL_ROOT && !pncclCommCount(comm, &n))
		root = (root + 1) % n;
	return pncclBroadcast(sendbuff, recvbuff, count, datatype, root, comm, stream);
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
			   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

	if (spoil == SPOIL_CAPTURE)
		(void)cudaStreamIsCapturing(stream, &status);
	if (status != cudaStreamCaptureStatusNone)
		return ncclSuccess;
	return pncclAllReduce(send, recv, count, type, op, comm, stream);
}

/* Plays scenes, and returns whether all passed; adds the kinds that were played. RAS runs if calls
 * have no deadline. */
static bool scenes_pass(enum spoil what, const char *deadline, uint32_t per_proc, uint64_t seed,
			uint32_t *played)
{
	const char *env[] = {"NCCL_MIN_NCHANNELS=1", "NCCL_MAX_NCHANNELS=2", "NCCL_DEBUG=NONE",
			     deadline ? deadline : "NCCL_RAS_ENABLE=1", NULL};
	struct lab_config c;
	struct lab_result r;

	lab_config_default(&c);
	c.collective = lab_collective_find("all_reduce", strlen("all_reduce"));
	c.machine = "h100-8nic";
	c.hosts = 1;
	c.gpus = 3;
	c.ranks_per_proc = per_proc;
	c.bytes_min = c.bytes_max = 64;
	c.env = env;
	c.sim.seed = seed;
	c.scenes = SCENES_ALL;
	c.ras = deadline ? 0 : 1;
	c.uncompared = deadline != NULL;
	c.cuda_state = true;
	spoil = what;
	ck_assert_int_eq(lab_run(&c, &r), 0);
	spoil = SPOIL_NOTHING;
	*played |= r.scenes;
	return lab_outcome(&c, &r) == SIM_PASS;
}

START_TEST(every_scene_is_played_and_passes)
{
	const uint32_t all = (1u << SCENES_KINDS) - 1;
	uint32_t played = 0;

	for (uint64_t seed = 1; seed <= 3 || (seed <= 12 && played != all); seed++) {
		ck_assert(scenes_pass(SPOIL_NOTHING, NULL, 1, seed, &played));
		ck_assert(scenes_pass(SPOIL_NOTHING, NULL, 3, seed, &played));
		ck_assert(scenes_pass(SPOIL_NOTHING, "DOPPEL_TIMEOUT_MS=1000", 1, seed, &played));
	}
	ck_assert_uint_eq(played, all);
}
END_TEST

START_TEST(what_is_done_wrong_is_found)
{
	uint32_t played = 0;

	for (enum spoil what = SPOIL_MODE; what <= SPOIL_CLASS; what++) {
		bool passes = true;

		/* a seed may not draw the scene that finds it */
		for (uint64_t seed = 1; seed <= SCENES_SEEDS && passes; seed++)
			passes = scenes_pass(what, NULL, 3, seed, &played);
		ck_assert_msg(!passes, "spoil %d is not found", (int)what);
	}
}
END_TEST

START_TEST(an_error_that_names_no_rank_is_found)
{
	bool passes = true;
	uint32_t played = 0;

	for (uint64_t seed = 1; seed <= SCENES_SEEDS && passes; seed++)
		passes = scenes_pass(SPOIL_LINE, "DOPPEL_TIMEOUT_MS=1000", 1, seed, &played);
	ck_assert(!passes);
}
END_TEST

/* Rank 1 stalls in its init for longer than the deadline. */
static void scenes_stall_config(struct lab_config *c, uint64_t seed, const char *plan)
{
	static const char *const env[] = {"DOPPEL_TIMEOUT_MS=1000", "NCCL_DEBUG=NONE", NULL};

	lab_config_default(c);
	c->collective = lab_collective_find("all_reduce", strlen("all_reduce"));
	c->machine = "h100-8nic";
	c->hosts = 1;
	c->gpus = 3;
	c->bytes_min = c->bytes_max = 64;
	c->env = env;
	c->sim.seed = seed;
	c->sim.fault_plan = plan;
	c->errors_allowed = true;
}

static enum sim_verdict scenes_stall_run(const struct lab_config *c)
{
	struct lab_result r;

	ck_assert_int_eq(lab_run(c, &r), 0);
	return lab_outcome(c, &r);
}

static enum sim_verdict scenes_stall(enum spoil what, uint64_t seed)
{
	struct lab_config c;

	scenes_stall_config(&c, seed, "os.task rank=1 nth=100 starve by=30s\n");
	spoil = what;
	enum sim_verdict v = scenes_stall_run(&c);

	spoil = SPOIL_NOTHING;
	return v;
}

START_TEST(an_init_with_a_deadline_does_not_wait_for_a_rank_that_stalls)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		ck_assert_int_eq(scenes_stall(SPOIL_NOTHING, seed), SIM_PASS);
		ck_assert_int_eq(scenes_stall(SPOIL_DEADLINE, seed), SIM_NO_PROGRESS);
	}
}
END_TEST

/* One of two ranks of a process stalls while the task of RAS starts, while it has a lock of the
 * other rank, or after its init's last wait. */
START_TEST(an_init_does_not_wait_for_a_rank_of_its_process_that_stalls)
{
	for (unsigned nth = SCENES_STALL_FIRST; nth < SCENES_STALL_LAST;
	     nth += nth == 20 ? 360 : 1) {
		struct lab_config c;
		char plan[64];

		snprintf(plan, sizeof plan, "os.task rank=%u nth=%u starve by=30s\n", nth % 2, nth);
		scenes_stall_config(&c, nth, plan);
		c.gpus = 2;
		c.ranks_per_proc = 2;
		c.nonblocking = nth % 4 < 2;
		enum sim_verdict v = scenes_stall_run(&c);
		ck_assert_msg(v == SIM_PASS, "%s: verdict %d", plan, (int)v);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("scenes");
	TCase *t = tcase_create("scenes");

	tcase_set_timeout(t, 300);
	tcase_add_test(t, every_scene_is_played_and_passes);
	tcase_add_test(t, what_is_done_wrong_is_found);
	tcase_add_test(t, an_error_that_names_no_rank_is_found);
	tcase_add_test(t, an_init_with_a_deadline_does_not_wait_for_a_rank_that_stalls);
	tcase_add_test(t, an_init_does_not_wait_for_a_rank_of_its_process_that_stalls);
	suite_add_tcase(s, t);
	return suite_run(s);
}
