/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments of shm that are host memory of cuMem (NCCL_CUMEM_HOST_ENABLE=1): where they are, which
 * ranks share one, whose letter is for which, what is named when a call fails, and what a rank that
 * dies leaves.
 */
#include <check.h>

#include "core/transport/local/letters.h"
#include "core/transport/local/shm_internal.h"
#include "tests/internal/cumem_faults.h"
#include "tests/suite.h"

static const char *const on[] = {"NCCL_P2P_DISABLE=1", "NCCL_CUMEM_HOST_ENABLE=1",
				 "NCCL_DEBUG=NONE", NULL};
static const char *const automatic[] = {"NCCL_P2P_DISABLE=1", "NCCL_CUMEM_HOST_ENABLE=-1",
					"NCCL_DEBUG=NONE", NULL};
static const char *const no_cumem[] = {"NCCL_P2P_DISABLE=1", "NCCL_CUMEM_HOST_ENABLE=1",
				       "NCCL_CUMEM_ENABLE=0", "NCCL_DEBUG=NONE", NULL};

enum { PAGE = 4096 };

/* ---- where they are ------------------------------------------------------------------------- */

/* The kinds of a rank's segments, and of the segments that it uses. */
static uint32_t kinds_of(const struct ncclComm *comm)
{
	uint32_t kinds = 0;

	for (const struct shm_segment *s = comm->shm->segments; s; s = s->next) {
		kinds |= 1u << s->kind;
		EXPECT(s->given == (s->kind == SHM_CUMEM));
		EXPECT(s->kind != SHM_CUMEM || s->bytes % (2u << 20) == 0);
	}
	for (const struct shm_use *use = comm->shm->uses; use; use = use->next) {
		kinds |= 1u << use->kind;
		EXPECT(!use->segment == (use->kind != SHM_PINNED));
	}
	return kinds;
}

static void reduces(int32_t rank, int32_t nranks, void *arg)
{
	const uint32_t *kinds = arg;
	ncclComm_t comm;

	EXPECT_NCCL(ncclSuccess, sum_init(rank, nranks, &comm));
	EXPECT(kinds_of(comm) == *kinds);
	EXPECT(!comm->letters == !(*kinds & 1u << SHM_CUMEM));
	sum_is_right(comm);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

static const struct {
	enum sim_engine engine;
	uint32_t per_proc;
	const char *const *env;
	uint32_t kinds;
} layouts[] = {
	{SIM_ENGINE_SIM, 1, on, 1u << SHM_CUMEM},
	{SIM_ENGINE_SIM, 2, on, 1u << SHM_CUMEM | 1u << SHM_PINNED},
	{SIM_ENGINE_SIM, 4, on, 1u << SHM_PINNED},
	{SIM_ENGINE_SIM, 1, automatic, 1u << SHM_FILE},
	{SIM_ENGINE_SIM, 1, no_cumem, 1u << SHM_FILE},
	{SIM_ENGINE_THREADS, 1, on, 1u << SHM_CUMEM},
	{SIM_ENGINE_THREADS, 4, on, 1u << SHM_PINNED},
};

START_TEST(segments_are_of_cuMem_where_it_is_enabled)
{
	struct ranks_config c = {.engine = layouts[_i].engine,
				 .per_host = 4,
				 .per_proc = layouts[_i].per_proc,
				 .env = layouts[_i].env};
	uint32_t kinds = layouts[_i].kinds;

	for (c.seed = 1; c.seed <= (c.engine == SIM_ENGINE_SIM ? 5 : 1); c.seed++)
		ranks_run(&c, reduces, &kinds);
}
END_TEST

/* A rank without it has files with all others, which have cuMem among themselves. */
static void one_without(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm;

	(void)arg;
	if (rank == 1)
		EXPECT(world_proc_setenv(os_proc(), "NCCL_CUMEM_HOST_ENABLE", "0") == 0);
	EXPECT_NCCL(ncclSuccess, sum_init(rank, nranks, &comm));
	EXPECT(shm_kind_between(comm, 0, 2) == SHM_CUMEM);
	EXPECT(shm_kind_between(comm, 0, 1) == SHM_FILE);
	EXPECT(shm_kind_between(comm, 1, 0) == SHM_FILE);
	sum_is_right(comm);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(a_rank_without_it_has_files)
{
	struct ranks_config c = {.per_host = 4, .env = on};

	for (c.seed = 1; c.seed <= 5; c.seed++)
		ranks_run(&c, one_without, NULL);
}
END_TEST

/* Containers of a host: each with a /dev/shm, or a network namespace, of its own. */
static void reachable(int32_t rank, int32_t nranks, void *arg)
{
	struct peer_info *other;
	ncclComm_t comm;

	(void)arg;
	EXPECT_NCCL(ncclSuccess, sum_init(rank, nranks, &comm));
	other = &comm->peers[1];
	EXPECT(shm_kind_between(comm, 0, 1) == SHM_CUMEM);
	other->shm_device++;
	EXPECT(shm_kind_between(comm, 0, 1) == SHM_CUMEM);
	EXPECT(transport_of(comm, 1, 0) == &transport_shm);
	other->cumem_host++;
	EXPECT(shm_kind_between(comm, 0, 1) == SHM_NONE);
	EXPECT(transport_of(comm, 1, 0) != &transport_shm);
	other->shm_device--;
	EXPECT(shm_kind_between(comm, 0, 1) == SHM_FILE);
	EXPECT(transport_of(comm, 1, 0) == &transport_shm);
	other->cumem_host--;
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(ranks_without_a_common_dev_shm_reach_each_other)
{
	struct ranks_config c = {.per_host = 2, .env = on};

	ranks_run(&c, reachable, NULL);
}
END_TEST

/* ---- letters -------------------------------------------------------------------------------- */

enum { SEGMENTS = 6 };

static struct conn conn_of(struct ncclComm *comm, uint32_t i)
{
	return (struct conn){.comm = comm,
			     .peer = !comm->rank,
			     .is_send = i % 2 != 0,
			     .index = i % 4 < 2 ? CONN_PAIR : CONN_TREE,
			     .transport = &transport_shm};
}

/* The numbers of segments that the communicator has made already. */
static uint32_t number_after(const struct ncclComm *comm, uint32_t i)
{
	struct conn c = conn_of((struct ncclComm *)comm, i);
	const struct shm_segment *s = shm_segment_of(&c);

	return s ? s->key.number + 1 : 0;
}

static void gives(struct ncclComm *comm)
{
	struct shm_segment *made[SEGMENTS];

	for (uint32_t i = 0; i < SEGMENTS; i++) {
		struct conn c = conn_of(comm, i);

		EXPECT_NCCL(ncclSuccess, shm_segment_make(&c, PAGE, PAGE));
		made[i] = shm_segment_of(&c);
		made[i]->mem[PAGE] = (uint8_t)(10 + i);
	}
	for (uint32_t i = SEGMENTS; i-- > 0;) {
		struct conn c = conn_of(comm, i);

		EXPECT_NCCL(ncclSuccess, shm_segment_give(&c, made[i]));
	}
}

static void takes(struct ncclComm *comm, const uint32_t first[SEGMENTS])
{
	struct shm_use *use[SEGMENTS], *again;
	struct wait w;

	for (uint32_t i = 0; i < SEGMENTS; i++) {
		struct conn c = conn_of(comm, i);
		const struct shm_key key = {.owner = 0,
					    .user = 1,
					    .is_send = c.is_send,
					    .index = c.index,
					    .number = first[i] + i / 4};

		EXPECT_NCCL(ncclSuccess, shm_use_get(&c, &key, 2u << 20, &use[i], &w));
		EXPECT(use[i]->mem[PAGE] == 10 + i);
		EXPECT_NCCL(ncclSuccess, shm_use_get(&c, &key, 2u << 20, &again, &w));
		EXPECT(again == use[i]);
	}
}

static void letters_for_segments(int32_t rank, int32_t nranks, void *arg)
{
	uint32_t *first = arg;
	struct conn c;
	struct shm_use *use;
	struct wait w;
	ncclComm_t comm;

	EXPECT_NCCL(ncclSuccess, sum_init(rank, nranks, &comm));
	for (uint32_t i = 0; i < SEGMENTS && rank == 0; i++)
		first[i] = number_after(comm, i);
	ranks_barrier();
	c = conn_of(comm, 0);
	const struct shm_key none = {0, 1, .index = c.index, .number = SHM_SEGMENTS_MOST - 1};

	if (rank == 1) { /* nothing has come */
		EXPECT_NCCL(ncclInProgress, shm_use_get(&c, &none, 2u << 20, &use, &w));
		EXPECT(w.kind == WAIT_OBJECT && w.from.rank == 0);
	}
	ranks_barrier();
	if (rank == 0)
		gives(comm);
	ranks_barrier();
	if (rank == 1)
		takes(comm, first);
	ranks_barrier();
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
}

START_TEST(each_letter_is_for_one_segment)
{
	struct ranks_config c = {.per_host = 2, .env = on};
	uint32_t first[SEGMENTS];

	for (c.seed = 1; c.seed <= 5; c.seed++)
		ranks_run(&c, letters_for_segments, first);
}
END_TEST

/* ---- what fails ----------------------------------------------------------------------------- */

/* Two ranks make two segments each, and map two. */
static const struct cumem_refusal refusals[] = {
	{"cuda.cu_mem_create nth=1 fail\n", "cuMemCreate of shm connection memory"},
	{"cuda.cu_mem_address_reserve nth=1 fail\n",
	 "cuMemAddressReserve of shm connection memory"},
	{"cuda.cu_mem_map nth=1 fail\n", "cuMemMap of shm connection memory"},
	{"cuda.cu_mem_set_access nth=1 fail\n", "cuMemSetAccess of shm connection memory"},
	{"cuda.cu_mem_export nth=1 fail\n",
	 "cuMemExportToShareableHandle of shm connection memory"},
	{"cuda.cu_mem_import nth=1 fail\n",
	 "cuMemImportFromShareableHandle of a neighbour's shm connection memory"},
	{"cuda.cu_mem_map nth=5 fail\n", "cuMemMap of a neighbour's shm connection memory"},
	{"os.mailbox nth=1 fail\n", "no mailbox nccl-"},
	{"os.mailbox nth=3 fail\n",
	 "the descriptor of its shm connection memory does not reach rank"},
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
	Suite *suite = suite_create("shm_cumem");
	TCase *t = tcase_create("shm_cumem");

	tcase_add_loop_test(t, segments_are_of_cuMem_where_it_is_enabled, 0,
			    (int)ARRAY_LEN(layouts));
	tcase_add_test(t, a_rank_without_it_has_files);
	tcase_add_test(t, ranks_without_a_common_dev_shm_reach_each_other);
	tcase_add_test(t, each_letter_is_for_one_segment);
	tcase_add_loop_test(t, what_cuMem_refuses_is_named, 0, (int)ARRAY_LEN(refusals));
	tcase_add_loop_test(t, a_rank_that_dies_leaves_no_memory_and_no_mailbox, 0, CUMEM_DEATHS);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
