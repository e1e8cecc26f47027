/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments of the shm transport by themselves: two ranks whose communicator stands make one more
 * and look for it as the other rank finds it: with another size, gone, not readable. And its names.
 */
#include <check.h>

#include "core/transport/local/shm_internal.h"
#include "tests/ranks.h"
#include "tests/suite.h"

static const char *const no_p2p[] = {"NCCL_P2P_DISABLE=1", "NCCL_DEBUG=NONE", NULL};

enum { PAGE = 4096, BYTES = 2 * PAGE };

static struct ncclComm *shm_comm(int32_t rank, int32_t nranks)
{
	ncclUniqueId id = ranks_id();
	ncclComm_t comm;

	EXPECT(cudaSetDevice(rank) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, id, rank));
	return comm;
}

static struct shm_key shm_key_of(uint32_t number)
{
	return (struct shm_key){.owner = 0, .user = 1, .index = CONN_PAIR, .number = number};
}

static void shm_open_twice(int32_t rank, int32_t nranks, void *arg)
{
	struct ncclComm *comm = shm_comm(rank, nranks);
	struct conn c = {.comm = comm, .peer = !rank, .is_send = rank, .index = CONN_PAIR};
	struct shm_key key = shm_key_of(0), none = shm_key_of(1);
	struct shm_use *use, *again;
	struct wait w;

	(void)arg;
	if (rank == 0) {
		EXPECT_NCCL(ncclSuccess, shm_segment_make(&c, PAGE, BYTES - PAGE));
		shm_segment_of(&c)->mem[BYTES - 1] = 42;
	}
	ranks_barrier();
	if (rank == 1) {
		EXPECT_NCCL(ncclSystemError, shm_use_get(&c, &key, BYTES / 2, &use, &w));
		EXPECT_ERROR_SAYS("/dev/shm/nccl-");
		EXPECT_ERROR_SAYS("of rank 0 has 8192 bytes, expected 4096");
		EXPECT_NCCL(ncclSystemError, shm_use_get(&c, &none, BYTES, &use, &w));
		EXPECT_ERROR_SAYS("8192 bytes of rank 0, cannot be opened: No such file");
		EXPECT_NCCL(ncclSuccess, shm_use_get(&c, &key, BYTES, &use, &w));
		EXPECT(use->mem[BYTES - 1] == 42);
		EXPECT_NCCL(ncclSuccess, shm_use_get(&c, &key, BYTES, &again, &w));
		EXPECT(use == again);
	}
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(a_segment_of_another_size_or_none_is_named)
{
	struct ranks_config c = {.per_host = 2, .env = no_p2p};

	ranks_run(&c, shm_open_twice, NULL);
}
END_TEST

/* No user comes: the owner removes the name. */
static void shm_not_opened(int32_t rank, int32_t nranks, void *arg)
{
	struct ncclComm *comm = shm_comm(rank, nranks);
	struct conn c = {.comm = comm, .peer = !rank, .is_send = rank, .index = CONN_PAIR};

	(void)arg;
	EXPECT_NCCL(ncclSuccess, shm_segment_make(&c, PAGE, BYTES - PAGE));
	EXPECT_NCCL(ncclSuccess, shm_segment_make(&c, PAGE, 2 * BYTES - PAGE));
	EXPECT(shm_segment_of(&c)->bytes == 2 * BYTES);
	EXPECT(shm_segment_of(&c)->key.number == 1);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(a_segment_that_no_rank_opens_is_removed)
{
	struct ranks_config c = {.per_host = 2, .env = no_p2p};

	ranks_run(&c, shm_not_opened, NULL);
	c.per_proc = 2;
	ranks_run(&c, shm_not_opened, NULL);
}
END_TEST

/* The process that made it ends without a chance; the other rank removes the name. */
static void shm_owner_dies(int32_t rank, int32_t nranks, void *arg)
{
	struct ncclComm *comm = shm_comm(rank, nranks);
	struct conn c = {.comm = comm, .peer = !rank, .is_send = rank, .index = CONN_PAIR};
	struct os_proc **dead = arg;

	if (rank == 0) {
		EXPECT_NCCL(ncclSuccess, shm_segment_make(&c, PAGE, BYTES - PAGE));
		*dead = os_proc();
		ranks_barrier();
		os_sleep_ns(UINT32_MAX);
		abort();
	}
	ranks_barrier();
	world_proc_kill(*dead);
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
}

START_TEST(a_segment_of_a_dead_rank_is_removed)
{
	struct ranks_config c = {.per_host = 2, .env = no_p2p};
	struct os_proc *dead;

	ranks_run(&c, shm_owner_dies, &dead);
}
END_TEST

static const struct {
	const char *plan, *says;
} refusals[] = {
	{"os.shm nth=1 fail errno=ENOSPC\n",
	 "do not fit: No space left on device; make /dev/shm larger"},
	{"os.shm nth=1 fail errno=EACCES\n", "cannot make a segment"},
	{"os.shm nth=5 fail errno=EACCES\n", "must run as one user"},
	{"cuda.host_register nth=1 fail\n", "cudaHostRegister of a segment of /dev/shm"},
};

static void shm_refused(int32_t rank, int32_t nranks, void *arg)
{
	ncclUniqueId id = ranks_id();
	shared_u32 *said = arg;
	ncclResult_t rc;
	ncclComm_t comm = NULL;

	EXPECT(cudaSetDevice(rank) == cudaSuccess);
	rc = ncclCommInitRank(&comm, nranks, id, rank);
	EXPECT(rc != ncclSuccess && !comm);
	for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
		if (strstr(ncclGetLastError(NULL), refusals[i].says))
			shared_store_u32(said, 1u << i, SHARED_RELEASE);
}

/* The first four calls of os.shm are those that make segments: two of each rank. */
START_TEST(what_the_system_refuses_is_named)
{
	shared_u32 said = {0};
	struct ranks_config c = {.per_host = 2, .env = no_p2p, .fault_plan = refusals[_i].plan};

	ranks_run(&c, shm_refused, &said);
	ck_assert_uint_eq(shared_quiet_load_u32(&said), 1u << _i);
}
END_TEST

/* Two containers of a host, each with a /dev/shm of its own, or one that does not want it. */
static void shm_reachable(int32_t rank, int32_t nranks, void *arg)
{
	struct ncclComm *comm = shm_comm(rank, nranks);
	uint64_t device = comm->peers[1].shm_device;

	(void)arg;
	EXPECT(device && device == comm->peers[0].shm_device);
	EXPECT(transport_of(comm, 0, 1) == &transport_shm);
	comm->peers[1].shm_device = device + 1;
	EXPECT(strcmp(transport_of(comm, 0, 1)->name, "NET") == 0);
	EXPECT(strcmp(transport_of(comm, 1, 0)->name, "NET") == 0);
	comm->peers[1].shm_device = 0;
	EXPECT(strcmp(transport_of(comm, 0, 1)->name, "NET") == 0);
	comm->peers[1].shm_device = device;
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(ranks_of_one_dev_shm_reach_each_other)
{
	struct ranks_config c = {.per_host = 2, .env = no_p2p};

	ranks_run(&c, shm_reachable, NULL);
}
END_TEST

struct shm_difference {
	const char *name;
	shared_u32 named;
};

/* One rank's environment differs. The first one to see it leaves, so the other one may see that
 * only. */
static void shm_disagreed(int32_t rank, int32_t nranks, void *arg)
{
	struct shm_difference *d = arg;
	ncclComm_t comm = NULL;
	ncclUniqueId id;
	ncclResult_t rc;

	if (rank == 1)
		EXPECT(world_proc_setenv(os_proc(), d->name, "1") == 0);
	id = ranks_id();
	EXPECT(cudaSetDevice(rank) == cudaSuccess);
	rc = ncclCommInitRank(&comm, nranks, id, rank);
	if (rc == ncclSuccess) {
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
		return;
	}
	EXPECT(rc == ncclInvalidUsage || rc == ncclRemoteError);
	if (rc == ncclRemoteError)
		return;
	/* their graphs differ, which is seen before the transports are compared */
	EXPECT_ERROR_SAYS("NCCL_P2P_DISABLE, NCCL_P2P_LEVEL");
	shared_add_u32(&d->named, 1, SHARED_RELAXED);
}

START_TEST(ranks_that_disagree_are_named)
{
	struct shm_difference p2p = {.name = "NCCL_P2P_DISABLE"};
	struct shm_difference shm = {.name = "NCCL_SHM_DISABLE"};
	struct ranks_config c = {.per_host = 2};

	ranks_run(&c, shm_disagreed, &p2p);
	ck_assert_uint_gt(shared_quiet_load_u32(&p2p.named), 0);
	c.env = no_p2p;
	ranks_run(&c, shm_disagreed, &shm); /* both use the network */
	ck_assert_uint_eq(shared_quiet_load_u32(&shm.named), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("shm");
	TCase *t = tcase_create("shm");

	tcase_set_timeout(t, 100);
	tcase_add_test(t, a_segment_of_another_size_or_none_is_named);
	tcase_add_test(t, a_segment_that_no_rank_opens_is_removed);
	tcase_add_test(t, a_segment_of_a_dead_rank_is_removed);
	tcase_add_test(t, ranks_of_one_dev_shm_reach_each_other);
	tcase_add_test(t, ranks_that_disagree_are_named);
	tcase_add_loop_test(t, what_the_system_refuses_is_named, 0, (int)ARRAY_LEN(refusals));
	suite_add_tcase(s, t);
	return suite_run(s);
}
