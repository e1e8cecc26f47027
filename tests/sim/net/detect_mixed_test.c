/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of one host of which some have a topology file and others detect, and what goes wrong on
 * the way. */
#include <check.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

static const char *const detect_env[] = {"NCCL_TOPO_FILE=", NULL};

struct mixed {
	int32_t with_file; /* rank */
	const char *file;
	bool fails;
};

static void mixed_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct mixed *m = arg;
	ncclComm_t comm = NULL;
	cudaStream_t stream;
	void *mem;

	if (rank == m->with_file)
		EXPECT(world_proc_setenv(os_proc(), "NCCL_TOPO_FILE", m->file) == 0);
	comm_buffers(rank, &mem, &stream, 4096);
	ncclResult_t rc = ncclCommInitRank(&comm, nranks, ranks_id(), rank);
	if (m->fails) {
		/* the others for its sake */
		EXPECT_NCCL(rank == m->with_file ? ncclSystemError : ncclRemoteError, rc);
		EXPECT(comm == NULL);
		if (rank == m->with_file)
			EXPECT_ERROR_SAYS("/no/such/file.xml cannot be read");
	} else {
		EXPECT_NCCL(ncclSuccess, rc);
		comm_sum(comm, rank, nranks, mem, stream, 1000);
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	}
	comm_buffers_free(mem, stream);
}

START_TEST(one_rank_without_a_file_makes_its_host_detect)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct mixed m = {(int32_t)(seed % 4), "/topo/machine.xml", false};
		struct ranks_config c = {
			.hosts = 1 + seed % 2, .per_host = 4, .seed = seed, .env = detect_env};
		ranks_run(&c, mixed_rank, &m);
	}
}
END_TEST

START_TEST(a_file_that_is_not_there_ends_the_init_of_all)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct mixed m = {(int32_t)(seed % 4), "/no/such/file.xml", true};
		struct ranks_config c = {
			.hosts = 1 + seed % 2, .per_host = 4, .seed = seed, .env = detect_env};
		ranks_run(&c, mixed_rank, &m);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("detect_mixed");
	TCase *t = tcase_create("detect_mixed");
	suite_add_tcase(suite, t);
	tcase_add_test(t, one_rank_without_a_file_makes_its_host_detect);
	tcase_add_test(t, a_file_that_is_not_there_ends_the_init_of_all);
	return suite_run(suite);
}
