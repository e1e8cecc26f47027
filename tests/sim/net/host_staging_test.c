/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the buffers of network connections are registered: as a dma-buf, by a peer-memory module, or
 * in host memory, because the GPU's memory cannot be registered or is not to be.
 */
#include <check.h>

#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

static void sum_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = NULL;
	cudaStream_t stream;
	void *mem;

	(void)arg;
	comm_buffers(rank, &mem, &stream, 4096);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, ranks_id(), rank));
	for (int i = 0; i < 3; i++)
		comm_sum(comm, rank, nranks, mem, stream, 1000);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	comm_buffers_free(mem, stream);
}

/* The words of an error that one rank gets; the other fails with it. */
static void refused_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = NULL;
	ncclUniqueId id = ranks_id();

	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT_NCCL(rank == 0 ? ncclSystemError : ncclRemoteError,
		    ncclCommInitRank(&comm, nranks, id, rank));
	if (rank == 0)
		EXPECT_ERROR_SAYS((const char *)arg);
	EXPECT(!comm);
}

/* On the first machine GPU memory is flushed, on the other it is not. */
static const char *const machines[] = {"a100-4nic", "h100-8nic"};

static uint64_t run(const char *plan, const char *machine, const char *const *env,
		    void (*fn)(int32_t rank, int32_t nranks, void *arg), void *arg)
{
	uint64_t fired = 0;
	struct ranks_config c = {.hosts = 2,
				 .per_host = 1,
				 .machine = machine,
				 .env = env,
				 .fault_plan = plan,
				 .fired = &fired};

	ranks_run(&c, fn, arg);
	return fired;
}

/* ---- ways ----------------------------------------------------------------------------------- */

enum way { DMABUF, PEER, STAGED, NOT_TRIED };

static const char *const probes[] = {"net.dmabuf", "net.peer_memory", "proxy.staged_in_host"};

static uint64_t probe_hits(const char *name)
{
	const struct sim_probe_stat *stats;
	uint32_t n = sim_probe_stats(&stats);

	for (uint32_t i = 0; i < n; i++)
		if (strcmp(stats[i].name, name) == 0)
			return stats[i].hits;
	ck_abort_msg("no probe %s", name);
}

/* All buffers went this way, and no other. */
static void expect_way(enum way way)
{
	for (int i = 0; i < (int)ARRAY_LEN(probes); i++)
		ck_assert_msg((probe_hits(probes[i]) != 0) == (i == (int)way),
			      "%s: %llu hits, expected way %d", probes[i],
			      (unsigned long long)probe_hits(probes[i]), (int)way);
}

static const struct {
	const char *env[3];
	enum way has_dmabuf, lacks_it; /* the HCA */
} ways[] = {
	{{NULL}, DMABUF, PEER},
	{{"DOPPEL_GPU_RDMA=dmabuf"}, DMABUF, STAGED},
	{{"DOPPEL_GPU_RDMA=peermem"}, PEER, PEER},
	{{"DOPPEL_GPU_RDMA=none"}, STAGED, STAGED},
	{{"NCCL_DMABUF_ENABLE=0"}, PEER, PEER},
	{{"DOPPEL_GPU_RDMA=dmabuf", "NCCL_DMABUF_ENABLE=0"}, STAGED, STAGED},
	{{"NCCL_NET_GDR_LEVEL=LOC"}, NOT_TRIED, NOT_TRIED},
};

static const struct {
	const char *env;
	bool dmabuf;
} hcas[] = {
	{"DOPPEL_HCA_PERSONALITY=spec", true},
	{"DOPPEL_HCA_PERSONALITY=mlx5", true},
	{"DOPPEL_HCA_PERSONALITY=mlx5-ib", true},
	{"DOPPEL_HCA_PERSONALITY=rxe", false},
};

START_TEST(buffers_are_registered_in_the_first_way_that_works)
{
	static const char *const protocols[] = {"NCCL_PROTO=Simple", "NCCL_PROTO=LL128"};

	for (size_t h = 0; h < ARRAY_LEN(hcas); h++)
		for (size_t p = 0; p < ARRAY_LEN(protocols); p++) {
			const char *env[] = {
				"NCCL_ALGO=Ring", "NCCL_MAX_CTAS=2", hcas[h].env, protocols[p],
				ways[_i].env[0],  ways[_i].env[1],   NULL};

			run(NULL, machines[(h + p) % 2], env, sum_rank, NULL);
			expect_way(hcas[h].dmabuf ? ways[_i].has_dmabuf : ways[_i].lacks_it);
		}
}
END_TEST

/* ---- refusals ------------------------------------------------------------------------------- */

static const char *const two_channels[] = {"NCCL_MAX_CTAS=2", "NCCL_ALGO=Ring", "NCCL_PROTO=Simple",
					   NULL};
/* The seventh registration of rank 0 by address is a connection's buffer in GPU memory: rings of
 * connections come before it. */
static const char *const by_address[] = {"NCCL_MAX_CTAS=2", "DOPPEL_GPU_RDMA=peermem",
					 "NCCL_ALGO=Ring", "NCCL_PROTO=Simple", NULL};

START_TEST(a_buffer_that_the_hca_refuses_moves_to_host_memory)
{
	static const char *const refusal[] = {"EFAULT", "ENODEV", "EINVAL", "EOPNOTSUPP"};
	char plan[96];

	for (size_t i = 0; i < ARRAY_LEN(refusal); i++)
		for (size_t m = 0; m < ARRAY_LEN(machines); m++) {
			snprintf(plan, sizeof plan, "verbs.reg_mr rank=0 nth=7 fail errno=%s\n",
				 refusal[i]);
			ck_assert_uint_eq(run(plan, machines[m], by_address, sum_rank, NULL), 1);
			ck_assert_uint_eq(probe_hits("proxy.staged_in_host"), 1);
		}
}
END_TEST

START_TEST(too_little_locked_memory_is_an_error_that_names_the_limit)
{
	static char words[] = "of GPU memory on device mlx5_0 failed: Cannot allocate memory (the "
			      "limit of locked memory, ulimit -l";

	ck_assert_uint_gt(run("verbs.reg_mr rank=0 nth=5 fail errno=ENOMEM\n", "a100-4nic",
			      by_address, refused_rank, words),
			  0);
}
END_TEST

/* Both ends of both channels attempt it, unless the first error shows that the HCA has none. */
START_TEST(an_hca_without_dma_bufs_shows_it_once)
{
	static const struct {
		const char *error;
		uint64_t attempts;
	} refusal[] = {
		{"EOPNOTSUPP", 1}, {"EPROTONOSUPPORT", 1}, {"ENOSYS", 1},
		{"EINVAL", 4},     {"ENOMEM", 4},
	};
	char plan[96];

	for (size_t i = 0; i < ARRAY_LEN(refusal); i++) {
		snprintf(plan, sizeof plan, "verbs.reg_dmabuf_mr rank=0 forever fail errno=%s\n",
			 refusal[i].error);
		ck_assert_uint_eq(run(plan, machines[i % 2], two_channels, sum_rank, NULL),
				  refusal[i].attempts);
		ck_assert_uint_eq(probe_hits("net.peer_memory"), 4);
	}
}
END_TEST

START_TEST(a_driver_without_dma_bufs_is_no_error)
{
	ck_assert_uint_eq(run("cuda.cu_mem_get_handle_for_address_range rank=0 forever fail\n",
			      "a100-4nic", two_channels, sum_rank, NULL),
			  4);
	ck_assert_uint_eq(probe_hits("net.peer_memory"), 4);
}
END_TEST

/* ---- relaxed ordering ----------------------------------------------------------------------- */

static const struct {
	const char *wish;
	bool passes;
} wishes[] = {
	{"NCCL_IB_PCI_RELAXED_ORDERING=1", false},
	{"NCCL_IB_PCI_RELAXED_ORDERING=2", true},
};

START_TEST(a_library_without_relaxed_ordering_is_an_error_where_it_is_demanded)
{
	static char words[] = "NCCL_IB_PCI_RELAXED_ORDERING=1 needs ibv_reg_mr_iova2";
	const char *const env[] = {"NCCL_MAX_CTAS=2", by_address[1],       wishes[_i].wish,
				   "NCCL_ALGO=Ring",  "NCCL_PROTO=Simple", NULL};

	/* the seventh; the flush word is another one */
	ck_assert_uint_eq(run("verbs.reg_mr rank=0 nth=7 fail errno=ENOSYS\n", "a100-4nic", env,
			      wishes[_i].passes ? sum_rank : refused_rank, words),
			  1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("host_staging");
	TCase *t = tcase_create("registration");

	tcase_add_loop_test(t, buffers_are_registered_in_the_first_way_that_works, 0,
			    (int)ARRAY_LEN(ways));
	tcase_add_test(t, an_hca_without_dma_bufs_shows_it_once);
	tcase_add_test(t, a_driver_without_dma_bufs_is_no_error);
	tcase_add_loop_test(t, a_library_without_relaxed_ordering_is_an_error_where_it_is_demanded,
			    0, (int)ARRAY_LEN(wishes));
	tcase_add_test(t, a_buffer_that_the_hca_refuses_moves_to_host_memory);
	tcase_add_test(t, too_little_locked_memory_is_an_error_that_names_the_limit);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
