/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pool of p2p that a rank of the same process finds is that rank's to use, also when its owner
 * ends between the find and the use: the reference is taken under the registry's lock, and ranks of
 * one communicator and process are released together. The registry's unlock, which ends the find,
 * is stretched here.
 */
#include <check.h>

#include "core/mem/cumem.h"
#include "core/rank/registry.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define STRETCH_NS 1000000000ull
#define FREED_MOST 64

static struct {
	const struct os_self *stretched; /* its unlocks are; NULL: none */
	uint32_t nfreed, used_after;
	void *freed[FREED_MOST];
} watch;

void __real_registry_unlock(struct registry_node *first);
void __wrap_registry_unlock(struct registry_node *first);
ncclResult_t __real_cumem_free(void *mem, size_t bytes, const char *what);
ncclResult_t __wrap_cumem_free(void *mem, size_t bytes, const char *what);
ncclResult_t __real_cumem_allow(void *mem, size_t bytes, int device, const char *what);
ncclResult_t __wrap_cumem_allow(void *mem, size_t bytes, int device, const char *what);

void __wrap_registry_unlock(struct registry_node *first)
{
	__real_registry_unlock(first);
	if (watch.stretched && watch.stretched == os_self())
		os_sleep_ns(STRETCH_NS);
}

ncclResult_t __wrap_cumem_free(void *mem, size_t bytes, const char *what)
{
	EXPECT(watch.nfreed < FREED_MOST);
	watch.freed[watch.nfreed++] = mem;
	return __real_cumem_free(mem, bytes, what);
}

ncclResult_t __wrap_cumem_allow(void *mem, size_t bytes, int device, const char *what)
{
	for (uint32_t i = 0; i < watch.nfreed; i++)
		watch.used_after += watch.freed[i] == mem;
	return __real_cumem_allow(mem, bytes, device, what);
}

/* Rank 0 connects slowly; rank 1 gives up after a while. */
static void pool_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t state = ncclInProgress, rc;
	ncclComm_t comm;
	void *mem;

	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT(cudaMalloc(&mem, 4096) == cudaSuccess);
	config.blocking = rank == 0;
	rc = ncclCommInitRankConfig(&comm, nranks, ranks_id(), rank, &config);
	EXPECT(rc == ncclSuccess || rc == ncclInProgress);
	while (state == ncclInProgress)
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &state));
	EXPECT_NCCL(ncclSuccess, state);
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, rank ? ncclRecv(mem, 16, ncclInt8, 0, comm, NULL)
				      : ncclSend(mem, 16, ncclInt8, 1, comm, NULL));
	if (!rank)
		watch.stretched = os_self();
	rc = ncclGroupEnd();
	watch.stretched = rank ? watch.stretched : NULL;
	EXPECT(rank ? rc == ncclInProgress : rc != ncclInProgress);
	if (rank)
		os_sleep_ns(*(const uint64_t *)arg);
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	EXPECT(cudaFree(mem) == cudaSuccess);
}

START_TEST(a_pool_that_was_found_stays_until_it_is_used)
{
	static const char *const env[] = {"NCCL_CUMEM_ENABLE=1", "NCCL_DEBUG=NONE", NULL};

	for (uint64_t at = 0; at < 12; at++) {
		uint64_t gives_up_ns = STRETCH_NS / 2 + at * STRETCH_NS;
		struct ranks_config config = {.per_host = 2, .per_proc = 2, .seed = 1, .env = env};

		watch.nfreed = watch.used_after = 0;
		ranks_run(&config, pool_rank, &gives_up_ns);
		EXPECT(!watch.used_after);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("p2p_pool");
	TCase *tc = tcase_create("p2p_pool");

	tcase_add_test(tc, a_pool_that_was_found_stays_until_it_is_used);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
