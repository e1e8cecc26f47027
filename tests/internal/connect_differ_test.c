/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that joins the hosts' graphs in another way than the others: init ends on every rank, with
 * the same message. The linker makes a rank of another build: it replaces the stack's functions by
 * those of this file (--wrap, tests/CMakeLists.txt). A rank with another graph has a graph file of
 * its own.
 */
#include <check.h>
#include <limits.h>
#include <unistd.h>

#include "core/rank/rank.h"
#include "core/topo/topo.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

enum differ_kind {
	DIFFER_NOTHING,
	DIFFER_RING,
	DIFFER_TREE,
	DIFFER_CHANNELS,
	DIFFER_NEIGHBOUR, /* the rank's own: all ranks have the same ring */
	DIFFER_LINK,      /* likewise of a tree */
	DIFFER_MESSAGES
};

/* The rank of another build, and its difference, in the running test. */
static struct {
	enum differ_kind kind;
	int32_t rank;
} differ;

ncclResult_t __real_topo_connect_rings(const struct topo_rank_info *all, int nranks, int rank,
				       struct topo_rings *rings, int32_t *order);
ncclResult_t __wrap_topo_connect_rings(const struct topo_rank_info *all, int nranks, int rank,
				       struct topo_rings *rings, int32_t *order);
ncclResult_t __real_topo_connect_trees(const struct topo_rank_info *all, int nranks, int rank,
				       struct topo_trees *trees, int32_t *parent);
ncclResult_t __wrap_topo_connect_trees(const struct topo_rank_info *all, int nranks, int rank,
				       struct topo_trees *trees, int32_t *parent);

/* Its last ring has two ranks exchanged; or it has a channel less. */
ncclResult_t __wrap_topo_connect_rings(const struct topo_rank_info *all, int nranks, int rank,
				       struct topo_rings *rings, int32_t *order)
{
	ncclResult_t rc = __real_topo_connect_rings(all, nranks, rank, rings, order);
	int32_t *last = order + (size_t)(rings->distinct - 1) * (size_t)nranks;

	if (rc || rank != differ.rank)
		return rc;
	if (differ.kind == DIFFER_RING) {
		int32_t first = last[1];

		last[1] = last[2];
		last[2] = first;
	}
	if (differ.kind == DIFFER_CHANNELS)
		rings->nchannels--;
	if (differ.kind == DIFFER_NEIGHBOUR)
		rings->next[0] = rings->prev[0];
	return rc;
}

/* In its first tree it has no child; a leaf has no parent. */
static void differ_link(struct topo_trees *trees)
{
	for (int i = 0; i < TOPO_TREE_DOWN; i++) {
		if (trees->down[0][i] < 0)
			continue;
		trees->down[0][i] = -1;
		return;
	}
	trees->up[0] = -1;
}

/* In its second tree rank 2 has another parent. */
ncclResult_t __wrap_topo_connect_trees(const struct topo_rank_info *all, int nranks, int rank,
				       struct topo_trees *trees, int32_t *parent)
{
	ncclResult_t rc = __real_topo_connect_trees(all, nranks, rank, trees, parent);
	int32_t *second = parent + nranks;

	if (!rc && rank == differ.rank && differ.kind == DIFFER_TREE)
		second[2] = second[2] == 3 ? 1 : 3;
	if (!rc && rank == differ.rank && differ.kind == DIFFER_LINK)
		differ_link(trees);
	return rc;
}

/* The first rank that is not as rank 0 is; the rank itself, where its own ends differ. */
static int32_t differ_named(void)
{
	return differ.rank || differ.kind >= DIFFER_NEIGHBOUR ? differ.rank : 1;
}

static void differ_rank(int32_t rank, int32_t nranks, void *arg)
{
	static const char *const words[] = {[DIFFER_RING] = "its ring of all ranks has the hash",
					    [DIFFER_TREE] = "its tree of all ranks has the hash",
					    [DIFFER_CHANNELS] = " channels of ",
					    [DIFFER_NEIGHBOUR] = "channel 0, ring: rank ",
					    [DIFFER_LINK] = "channel 0, tree: rank "};
	ncclComm_t comm = NULL;
	cudaStream_t stream;
	char name[16];
	void *mem;

	(void)arg;
	comm_buffers(rank, &mem, &stream, 4096);
	ncclResult_t rc = ncclCommInitRank(&comm, nranks, ranks_id(), rank);

	if (differ.kind == DIFFER_NOTHING) {
		EXPECT_NCCL(ncclSuccess, rc);
		comm_sum(comm, rank, nranks, mem, stream, 1000);
		EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	} else {
		EXPECT_NCCL(ncclInternalError, rc);
		EXPECT(comm == NULL);
		snprintf(name, sizeof name, "rank %d", differ_named());
		EXPECT_ERROR_SAYS(name);
		EXPECT_ERROR_SAYS(words[differ.kind]);
		EXPECT_ERROR_SAYS("all ranks must be of one build");
	}
	comm_buffers_free(mem, stream);
}

START_TEST(a_rank_of_another_build_ends_the_init_of_all_with_what_differs)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		bool trees = _i ==
			     DIFFER_LINK; /* several hosts have some, with programs that use them */
		uint32_t hosts = trees ? 2 : 1 + seed % 2;
		struct ranks_config c = {.hosts = hosts,
					 .per_host = 4 / hosts,
					 .per_proc = 1 + seed / 3 % 2,
					 .seed = seed,
					 .machine = "a100-4nic",
					 .env = trees ? (const char *[]){"NCCL_ALGO=Tree", NULL}
						      : (const char *[]){"NCCL_ALGO=Ring", NULL}};

		if (seed % 3 == 0)
			c.engine = SIM_ENGINE_THREADS;
		differ.kind = (enum differ_kind)_i;
		differ.rank = (int32_t)(seed % 4);
		ranks_run(&c, differ_rank, NULL);
	}
}
END_TEST

/* ---- messages -------------------------------------------------------------------------------- */

int32_t __real_transport_pair_channels(const struct ncclComm *comm, int32_t peer);
int32_t __wrap_transport_pair_channels(const struct ncclComm *comm, int32_t peer);

/* It sends and receives over one channel. */
int32_t __wrap_transport_pair_channels(const struct ncclComm *comm, int32_t peer)
{
	int32_t n = __real_transport_pair_channels(comm, peer);

	return differ.kind == DIFFER_MESSAGES && comm->rank == differ.rank ? 1 : n;
}

/* The rank that is second may learn of the first one's end alone. */
static void messages_rank(int32_t rank, int32_t nranks, void *arg)
{
	shared_u32 *named = arg;
	ncclComm_t comm = NULL;
	cudaStream_t stream;
	ncclResult_t rc;
	char text[64];
	void *mem;

	comm_buffers(rank, &mem, &stream, 4096);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	ranks_barrier();
	rc = rank ? ncclRecv(mem, 9, ncclInt8, 0, comm, stream)
		  : ncclSend(mem, 9, ncclInt8, 1, comm, stream);
	EXPECT(rc == ncclInternalError || rc == ncclRemoteError);
	if (rc == ncclInternalError) {
		snprintf(text, sizeof text, "rank 0 sends to rank 1 over %d channels (mask 0x",
			 differ.rank ? 2 : 1);
		EXPECT_ERROR_SAYS(text);
		snprintf(text, sizeof text, "which receives over %d channels (mask 0x",
			 differ.rank ? 1 : 2);
		EXPECT_ERROR_SAYS(text);
		shared_add_u32(named, 1, SHARED_RELAXED);
	}
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	comm_buffers_free(mem, stream);
}

START_TEST(a_rank_with_other_channels_of_messages_is_named)
{
	shared_u32 named;

	differ.kind = DIFFER_MESSAGES;
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct ranks_config c = {.hosts = 1 + seed % 2,
					 .per_host = 2 / (1 + seed % 2),
					 .seed = seed,
					 .machine = "a100-4nic",
					 .env = (const char *[]){"NCCL_MAX_P2P_NCHANNELS=2",
								 "NCCL_ALGO=Ring", NULL}};

		differ.rank = (int32_t)(seed / 2 % 2);
		if (seed % 4 == 0)
			c.engine = SIM_ENGINE_THREADS;
		shared_store_u32(&named, 0, SHARED_RELAXED);
		ranks_run(&c, messages_rank, &named);
		ck_assert_uint_gt(shared_load_u32(&named, SHARED_RELAXED), 0);
	}
}
END_TEST

/* ---- another graph -------------------------------------------------------------------------- */

static char foreign[PATH_MAX + 64]; /* NCCL_GRAPH_FILE=FILE */

/* A graph file of four GPUs, with the ring 0 2 1 3. */
static void foreign_write(void)
{
	FILE *f;

	strcpy(foreign, "NCCL_GRAPH_FILE=");
	ck_assert_ptr_nonnull(getcwd(foreign + strlen(foreign), PATH_MAX));
	strcat(foreign, "/connect_differ_graph.xml");
	f = fopen(strchr(foreign, '=') + 1, "w");
	ck_assert_ptr_nonnull(f);
	fputs("<graphs version=\"1\"><graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"1\" "
	      "speedintra=\"10\" speedinter=\"10\" latencyinter=\"0\" typeintra=\"SYS\" "
	      "typeinter=\"SYS\" samechannels=\"1\"><channel><gpu dev=\"0\"/><gpu dev=\"2\"/>"
	      "<gpu dev=\"1\"/><gpu dev=\"3\"/></channel></graph></graphs>",
	      f);
	fclose(f);
}

static void foreign_rank(int32_t rank, int32_t nranks, void *arg)
{
	/* logged by the rank with the file: the sender, the receiver and the sender that the
	 * receiver expects */
	static const char *const words[] = {"rank 0 sends to rank 2, which expects rank 1",
					    "rank 0 sends to rank 1, which expects rank 2",
					    "rank 1 sends to rank 2, which expects rank 0",
					    "rank 2 sends to rank 3, which expects rank 1"};
	ncclComm_t comm = NULL;
	cudaStream_t stream;
	void *mem;

	if (rank != *(int32_t *)arg)
		EXPECT(world_proc_setenv(os_proc(), "NCCL_GRAPH_FILE", "") == 0);
	comm_buffers(rank, &mem, &stream, 4096);
	EXPECT_NCCL(ncclRemoteError, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	EXPECT(comm == NULL);
	EXPECT_ERROR_SAYS("channel 0: ");
	EXPECT_ERROR_SAYS(words[*(int32_t *)arg]);
	comm_buffers_free(mem, stream);
}

START_TEST(a_rank_with_another_graph_ends_the_init_of_all_with_what_differs)
{
	foreign_write();
	differ.kind = DIFFER_NOTHING;
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct ranks_config c = {.hosts = 1,
					 .per_host = 4,
					 .seed = seed,
					 .machine = "pcie-4gpu",
					 .env = (const char *[]){foreign, "NCCL_ALGO=Ring", NULL}};
		int32_t rank = (int32_t)(seed % 4);

		if (seed > 4)
			c.engine = SIM_ENGINE_THREADS;
		ranks_run(&c, foreign_rank, &rank);
	}
	remove(strchr(foreign, '=') + 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("connect_differ");
	TCase *t = tcase_create("connect_differ");

	suite_add_tcase(suite, t);
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, a_rank_of_another_build_ends_the_init_of_all_with_what_differs,
			    DIFFER_NOTHING, DIFFER_MESSAGES);
	tcase_add_test(t, a_rank_with_other_channels_of_messages_is_named);
	tcase_add_test(t, a_rank_with_another_graph_ends_the_init_of_all_with_what_differs);
	return suite_run(suite);
}
