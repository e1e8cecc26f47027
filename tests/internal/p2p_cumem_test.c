/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of p2p connections that is of cuMem (NCCL_CUMEM_ENABLE=1): between processes by
 * descriptors, within one by access of each GPU; what is named when its calls fail, and what a rank
 * that dies leaves.
 */
#include <check.h>

#include "core/transport/local/p2p_internal.h"
#include "tests/internal/cumem_faults.h"
#include "tests/suite.h"

static const char *const on[] = {"NCCL_CUMEM_ENABLE=1", "NCCL_DEBUG=NONE", NULL};
static const char *const automatic[] = {"NCCL_CUMEM_ENABLE=-1", "NCCL_DEBUG=NONE", NULL};
static const char *const off[] = {"NCCL_CUMEM_ENABLE=0", "NCCL_DEBUG=NONE", NULL};

struct expected {
	bool cumem;
	uint32_t in_process, of_others; /* imports of a rank, at least */
};

static void reduces(int32_t rank, int32_t nranks, void *arg)
{
	const struct expected *want = arg;
	uint32_t in_process = 0, of_others = 0;
	ncclComm_t comm;

	EXPECT_NCCL(ncclSuccess, sum_init(rank, nranks, &comm));
	EXPECT(comm->p2p && comm->p2p->pools->cumem == want->cumem);
	for (const struct p2p_import *im = comm->p2p->imports; im; im = im->next) {
		in_process += im->pool != NULL;
		of_others += !im->pool;
		EXPECT(!im->cumem_bytes == (im->pool || !want->cumem));
	}
	EXPECT(in_process >= want->in_process && of_others >= want->of_others);
	sum_is_right(comm);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

static const struct {
	enum sim_engine engine;
	uint32_t per_proc;
	const char *const *env;
	struct expected want;
} layouts[] = {
	{SIM_ENGINE_SIM, 1, on, {true, 0, 1}},     {SIM_ENGINE_SIM, 4, on, {true, 1, 0}},
	{SIM_ENGINE_SIM, 2, on, {true, 0, 1}},     {SIM_ENGINE_SIM, 1, automatic, {true, 0, 1}},
	{SIM_ENGINE_SIM, 1, off, {false, 0, 1}},   {SIM_ENGINE_THREADS, 1, on, {true, 0, 1}},
	{SIM_ENGINE_THREADS, 4, on, {true, 1, 0}},
};

START_TEST(pools_are_of_cuMem_where_it_is_enabled)
{
	struct ranks_config c = {.engine = layouts[_i].engine,
				 .per_host = 4,
				 .per_proc = layouts[_i].per_proc,
				 .env = layouts[_i].env};
	struct expected want = layouts[_i].want;

	for (c.seed = 1; c.seed <= (c.engine == SIM_ENGINE_SIM ? 5 : 1); c.seed++)
		ranks_run(&c, reduces, &want);
}
END_TEST

/* ---- what fails ----------------------------------------------------------------------------- */

static const struct cumem_refusal refusals[] = {
	{"cuda.cu_mem_create nth=1 fail\n", "cuMemCreate of p2p connection memory"},
	{"cuda.cu_mem_address_reserve nth=1 fail\n",
	 "cuMemAddressReserve of p2p connection memory"},
	{"cuda.cu_mem_map nth=1 fail\n", "cuMemMap of p2p connection memory"},
	{"cuda.cu_mem_set_access nth=1 fail\n", "cuMemSetAccess of p2p connection memory"},
	{"cuda.cu_mem_export nth=1 fail\n",
	 "cuMemExportToShareableHandle of p2p connection memory"},
	{"cuda.cu_mem_import nth=1 fail\n", "cuMemImportFromShareableHandle of a neighbour's p2p"},
	{"cuda.cu_mem_map nth=3 fail\n", "cuMemMap of a neighbour's p2p connection memory"},
	{"os.mailbox nth=1 fail\n", "no mailbox nccl-"},
	{"os.mailbox nth=3 fail\n",
	 "the descriptor of its p2p connection memory does not reach rank"},
};

START_TEST(what_cuMem_refuses_is_named)
{
	cumem_refusal_is_named(on, &refusals[_i]);
}
END_TEST

START_TEST(a_rank_that_dies_leaves_no_memory_and_no_mailbox)
{
	cumem_death_leaves_nothing(on, _i);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("p2p_cumem");
	TCase *t = tcase_create("p2p_cumem");

	tcase_add_loop_test(t, pools_are_of_cuMem_where_it_is_enabled, 0, (int)ARRAY_LEN(layouts));
	tcase_add_loop_test(t, what_cuMem_refuses_is_named, 0, (int)ARRAY_LEN(refusals));
	tcase_add_loop_test(t, a_rank_that_dies_leaves_no_memory_and_no_mailbox, 0, CUMEM_DEATHS);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
