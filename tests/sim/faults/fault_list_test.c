/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An all-reduce of two hosts with two GPUs each under every kind of fault of the fabric and of
 * verbs: it ends with the right sums, or ranks see the error that belongs to the fault and every
 * rank can abort. No run hangs, leaks, or has a wrong sum without an error.
 */
#include <check.h>
#include <cuda_runtime_api.h>

#include "tests/ranks.h"
#include "tests/sample.h"
#include "tests/suite.h"

enum { LIST_COUNT = 100000, LIST_ROUNDS = 6 };

enum list_end {
	LIST_RIGHT, /* repaired by a lower layer, without an error */
	LIST_ERROR, /* some rank receives an error */
	LIST_EITHER /* depends on the moment */,
	LIST_WRONG, /* undetected corruption: the check of the sums must find it */
};

struct list_case {
	const char *plan;
	enum list_end end;
};

static const struct list_case list_cases[] = {
	{"fabric.packet prob=1/20 drop\n", LIST_RIGHT},
	{"fabric.packet prob=1/8 delay by=30us\n", LIST_RIGHT},
	{"fabric.packet prob=1/20 duplicate by=40us\n", LIST_RIGHT},
	{"fabric.packet nth=9 count=3 reorder by=40us\n", LIST_RIGHT},
	{"fabric.packet nth=9 count=2 corrupt\n", LIST_RIGHT},
	{"fabric.link port=1 after=4ms slow factor=20\n", LIST_RIGHT},
	{"fabric.link host=0 nth=12 clog for=900us\n", LIST_RIGHT},
	{"fabric.path host=0 peer_host=1 nth=12 clog for=900us\n", LIST_RIGHT},
	{"fabric.path host=0 peer_host=1 nth=12 partition for=900us\n", LIST_RIGHT},
	{"fabric.link nth=12 down for=900us\n", LIST_RIGHT},
	{"fabric.link nth=12 flap times=4 each=200us\n", LIST_RIGHT},
	{"fabric.link nth=12 down\n", LIST_ERROR},
	{"fabric.link nth=12 down for=900us gid=1\n", LIST_ERROR},
	{"fabric.path host=1 peer_host=0 nth=12 partition\n", LIST_ERROR},
	{"fabric.link nth=1 mtu bytes=1024\n", LIST_ERROR},
	{"verbs.poll_cq prob=1/3 short\n", LIST_RIGHT},
	{"verbs.poll_cq prob=1/3 empty\n", LIST_RIGHT},
	{"verbs.poll_cq nth=40 fail\n", LIST_ERROR},
	{"verbs.cqe prob=1/4 late by=40us\n", LIST_RIGHT},
	{"verbs.recv_cqe prob=1/4 late by=40us\n", LIST_RIGHT},
	{"verbs.request prob=1/16 not_ready for=50us\n", LIST_RIGHT},
	{"verbs.request nth=12 refuse why=ACCESS\n", LIST_ERROR},
	{"verbs.request nth=12 refuse why=INVALID\n", LIST_ERROR},
	{"verbs.start nth=12 error\n", LIST_ERROR},
	{"verbs.cqe nth=12 error status=REM_OP_ERR\n", LIST_ERROR},
	{"verbs.cqe nth=12 error status=RETRY_EXC_ERR\n", LIST_ERROR},
	{"verbs.recv_cqe nth=7 error status=LOC_PROT_ERR\n", LIST_ERROR},
	{"verbs.post_send nth=12 fail\n", LIST_ERROR},
	{"verbs.post_recv nth=7 fail\n", LIST_ERROR},
	{"verbs.post_send rank=2 peer=0 channel=0 step=4 fail errno=EIO\n", LIST_ERROR},
	{"verbs.cqe rank=2 peer=0 channel=0 step=2 error\n", LIST_ERROR},
	{"verbs.qp nth=20 flush\n", LIST_ERROR},
	{"verbs.qp nth=20 fatal\n", LIST_ERROR},
	{"verbs.cq nth=12 overrun\n", LIST_ERROR},
	{"verbs.device host=1 nth=90 fatal\n", LIST_EITHER},
	{"verbs.device host=0 nth=150 fatal\n", LIST_EITHER},
	{"verbs.get_async_event fail\n", LIST_RIGHT},
	{"verbs.inline limit bytes=16\n", LIST_ERROR},
	{"verbs.modify_qp state=INIT fail errno=EINVAL\n", LIST_ERROR},
	{"verbs.modify_qp state=RTR fail errno=ETIMEDOUT\n", LIST_RIGHT},
	{"verbs.modify_qp state=RTS nth=2 fail errno=EIO\n", LIST_ERROR},
	{"verbs.create_qp fail\n", LIST_ERROR},
	{"verbs.create_cq nth=2 fail\n", LIST_ERROR},
	{"verbs.alloc_pd fail\n", LIST_ERROR},
	{"verbs.get_device_list fail\n", LIST_ERROR},
	{"verbs.query_device fail\n", LIST_RIGHT},
	{"verbs.destroy_qp forever fail\nverbs.destroy_cq forever fail\nverbs.dereg_mr forever "
	 "fail\n"
	 "verbs.dealloc_pd forever fail\nverbs.close_device forever fail\n",
	 LIST_RIGHT},
	{"fabric.packet rank=2 peer=0 channel=0 nth=3 corrupt undetected=1\n", LIST_WRONG},
};

struct list {
	const struct list_case *c;
	shared_u32 failed; /* some rank saw an error: all give up, as a watchdog would have them */
	uint32_t told, wrong;
};

static ncclResult_t list_poll(struct list *all, ncclComm_t comm)
{
	ncclResult_t state = ncclSuccess;

	EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(comm, &state));
	if ((state == ncclSuccess || state == ncclInProgress) &&
	    shared_load_u32(&all->failed, SHARED_ACQUIRE))
		return ncclInvalidUsage; /* an error of another rank, which is not reported here */
	return state;
}

static ncclResult_t list_init(struct list *all, int32_t rank, int32_t nranks, ncclComm_t *comm)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	config.blocking = 0;
	ncclResult_t rc =
		ncclCommInitRankConfig(comm, nranks, ranks_self()->all->id, rank, &config);

	while (rc == ncclInProgress)
		rc = list_poll(all, *comm);
	return rc;
}

static ncclResult_t list_round(struct list *all, ncclComm_t comm, int32_t *mem, int32_t *host,
			       int32_t rank, cudaStream_t stream)
{
	cudaError_t e;

	for (int i = 0; i < LIST_COUNT; i++)
		host[i] = i + rank;
	EXPECT(cudaMemcpy(mem, host, LIST_COUNT * 4, cudaMemcpyHostToDevice) == cudaSuccess);
	ncclResult_t rc = ncclAllReduce(mem, mem, LIST_COUNT, ncclInt32, ncclSum, comm, stream);
	while (rc == ncclInProgress || rc == ncclSuccess) {
		e = cudaStreamQuery(stream);
		if (rc == ncclSuccess && e == cudaSuccess)
			break;
		rc = list_poll(all, comm);
	}
	if (rc)
		return rc;
	EXPECT(cudaMemcpy(host, mem, LIST_COUNT * 4, cudaMemcpyDeviceToHost) == cudaSuccess);
	for (int i = 0; i < LIST_COUNT; i++)
		all->wrong += host[i] != 4 * i + 6;
	return ncclSuccess;
}

static void list_rank_main(int32_t rank, int32_t nranks, void *arg)
{
	struct list *all = arg;
	ncclComm_t comm = NULL;
	cudaStream_t stream;
	int32_t *mem, *host = os_alloc(LIST_COUNT * 4, "test values");

	EXPECT(host && cudaSetDevice(rank % 2) == cudaSuccess);
	EXPECT(cudaMalloc((void **)&mem, LIST_COUNT * 4) == cudaSuccess);
	EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
	(void)ranks_id();
	ncclResult_t rc = list_init(all, rank, nranks, &comm);
	for (int i = 0; i < LIST_ROUNDS && !rc; i++)
		rc = list_round(all, comm, mem, host, rank, stream);
	if (rc) {
		EXPECT(rc == ncclSystemError || rc == ncclRemoteError || rc == ncclInvalidUsage ||
		       rc == ncclInternalError);
		all->told += rc != ncclInvalidUsage;
		shared_store_u32(&all->failed, 1, SHARED_RELEASE);
	}
	if (comm && rc)
		EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	else if (comm) {
		ncclResult_t end = ncclCommFinalize(comm);

		while (end == ncclInProgress)
			end = list_poll(all, comm);
		(void)(end ? ncclCommAbort(comm) : ncclCommDestroy(comm));
	}
	EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
	EXPECT(cudaFree(mem) == cudaSuccess);
	os_free(host);
}

static void list_run(const struct list_case *c, uint64_t seed)
{
	static const char *const env[] = {"NCCL_IB_TIMEOUT=8", NULL};
	/* a wrong byte in a flag of a line is a hang */
	static const char *const without_lines[] = {"NCCL_IB_TIMEOUT=8", "NCCL_PROTO=Simple", NULL};
	uint64_t fired = 0;
	struct list all = {.c = c};
	struct ranks_config config = {.hosts = 2,
				      .per_host = 2,
				      .seed = seed,
				      .env = c->end == LIST_WRONG ? without_lines : env,
				      .fault_plan = c->plan,
				      .fired = &fired};

	ranks_run(&config, list_rank_main, &all);
	bool right = !all.told && !all.wrong, error = all.told && !all.wrong;
	bool good = c->end == LIST_RIGHT   ? right
		    : c->end == LIST_ERROR ? error
		    : c->end == LIST_WRONG ? all.wrong > 0
					   : right || error;
	ck_assert_msg(good, "seed %llu, %s: %u ranks were told, %u values wrong",
		      (unsigned long long)seed, c->plan, all.told, all.wrong);
	ck_assert_msg(fired > 0, "seed %llu: never came by: %s", (unsigned long long)seed, c->plan);
}

START_TEST(each_fault_ends_as_expected)
{
	for (uint64_t seed = 1; seed <= 2; seed += SAMPLE_THIN)
		list_run(&list_cases[_i], seed);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fault_list");
	TCase *t = tcase_create("fault_list");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, each_fault_ends_as_expected, 0, (int)ARRAY_LEN(list_cases));
	suite_add_tcase(s, t);
	return suite_run(s);
}
