/* SPDX-License-Identifier: BSD-3-Clause */
/* The network that the ranks of a communicator use, and the message if they cannot agree. */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/ranks.h"
#include "tests/suite.h"

static const char *const mixed[] = {"pcie-4gpu", "workstation-2gpu"}; /* host 1 has no HCA */

/* The network that rank 0's configuration names, and the ranks' results. */
struct choice {
	const char *machine; /* of both hosts; NULL: mixed */
	const char *env[2];
	const char *named;
	ncclResult_t want[2];
	const char *error; /* rank 0's */
};

static uint32_t choice_as_wanted; /* ranks, of a run */

/* If both ranks fail, one may receive the other's error before it fails itself. */
static bool choice_was_overtaken(const struct choice *choice, ncclResult_t rc)
{
	return choice->want[0] == ncclInvalidUsage && choice->want[1] == ncclInvalidUsage &&
	       rc == ncclRemoteError;
}

static void choice_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct choice *choice = arg;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id = ranks_id();
	ncclComm_t comm = NULL;

	config.netName = rank == 0 ? choice->named : NULL;
	EXPECT(cudaSetDevice(0) == cudaSuccess);
	ncclResult_t rc = ncclCommInitRankConfig(&comm, nranks, id, rank, &config);
	bool overtaken = choice_was_overtaken(choice, rc);

	choice_as_wanted += !overtaken;
	if (!overtaken)
		EXPECT_NCCL(choice->want[rank], rc);
	if (choice->error && rank == 0 && !overtaken)
		EXPECT_ERROR_SAYS(choice->error);
	if (comm && choice->want[rank])
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	else
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

static const struct choice choices[] = {
	{"pcie-4gpu", {NULL}, NULL, {0}, NULL},
	{"pcie-4gpu", {NULL}, "socket", {0}, NULL},
	{"pcie-4gpu", {"NCCL_NET=Socket"}, NULL, {0}, NULL},
	{"pcie-4gpu", {"NCCL_IB_DISABLE=1"}, NULL, {0}, NULL},
	{"workstation-2gpu", {NULL}, NULL, {0}, NULL},
	{NULL, {NULL}, NULL, {0}, NULL},
	{"workstation-2gpu",
	 {"NCCL_NET=IB"},
	 NULL,
	 {ncclInvalidUsage, ncclInvalidUsage},
	 "the network IB, which NCCL_NET names, has no device with an active port"},
	{"pcie-4gpu",
	 {"NCCL_IB_HCA=mlx4"},
	 "IB",
	 {ncclInvalidUsage, ncclRemoteError},
	 "the network IB, which the configuration names, has no device with an active port among "
	 "NCCL_IB_HCA=mlx4"},
	{NULL,
	 {NULL},
	 "IB",
	 {ncclInvalidUsage, ncclRemoteError},
	 "its network is IB, and that of rank 1 is Socket"},
};

START_TEST(ranks_agree_on_a_network_or_name_what_is_missing)
{
	const struct choice *choice = &choices[_i];

	for (uint64_t seed = 1; seed <= 3; seed++) {
		choice_as_wanted = 0;
		ranks_run(&(struct ranks_config){.hosts = 2,
						 .seed = seed,
						 .machine = choice->machine,
						 .machines = choice->machine ? NULL : mixed,
						 .env = choice->env},
			  choice_rank, (void *)choice);
		ck_assert_uint_ge(choice_as_wanted, 1);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("network_choice");
	TCase *t = tcase_create("choice");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, ranks_agree_on_a_network_or_name_what_is_missing, 0,
			    (int)(sizeof choices / sizeof choices[0]));
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
