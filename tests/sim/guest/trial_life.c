/* SPDX-License-Identifier: BSD-3-Clause */
/* A program for tests/sim/programs/trials_test.sh: how communicators begin and end: trial_life
 * KIND. Each process drives one rank, but for the kinds group_*, where it drives two. */
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

#include "trial.h"

#define GPUS  2
#define COUNT 1024

static ncclComm_t comm[2];
static cudaStream_t stream;
static float *data;

static void begin(void)
{
	for (int i = 0; i < 2; i++)
		comm[i] = make_comm();
	need(!cudaStreamCreate(&stream) && !cudaMalloc((void **)&data, COUNT * sizeof *data),
	     "cudaMalloc");
}

static void sum(ncclComm_t c)
{
	need(!ncclAllReduce(data, data, COUNT, ncclFloat, ncclSum, c, stream), "a sum");
}

static void end(void)
{
	need(!cudaFree(data) && !cudaStreamDestroy(stream), "cudaFree");
	printf("rank %d: ended\n", rank);
}

/* ---- destroy
 * ------------------------------------------------------------------------------------- */

/* Ranks of different hosts destroy two communicators in different orders; those of one host in one
 * order. */
static void destroy_order(void)
{
	int host = rank / local_size();

	begin();
	sum(comm[0]);
	sum(comm[1]);
	need(!cudaStreamSynchronize(stream), "the stream");
	for (int i = 0; i < 2; i++)
		need(!ncclCommDestroy(comm[(host + i) % 2]), "ncclCommDestroy");
	end();
}

/* One host destroys the first communicator before it uses the second one, the others after it. */
static void destroy_before_use(void)
{
	int host = rank / local_size();

	begin();
	if (host == 0)
		need(!ncclCommDestroy(comm[0]), "ncclCommDestroy");
	sum(comm[1]);
	need(!cudaStreamSynchronize(stream), "the stream");
	if (host != 0)
		need(!ncclCommDestroy(comm[0]), "ncclCommDestroy");
	need(!ncclCommDestroy(comm[1]), "ncclCommDestroy");
	end();
}

/* After ncclCommFinalize a destroy waits for no other rank. */
static void destroy_finalized(void)
{
	begin();
	sum(comm[0]);
	need(!ncclCommFinalize(comm[0]), "ncclCommFinalize");
	if (rank == 0)
		need(!ncclCommDestroy(comm[0]), "ncclCommDestroy");
	sum(comm[1]);
	need(!cudaStreamSynchronize(stream), "the stream");
	if (rank != 0)
		need(!ncclCommDestroy(comm[0]), "ncclCommDestroy");
	need(!ncclCommDestroy(comm[1]), "ncclCommDestroy");
	end();
}

static void until_ready(ncclResult_t rc)
{
	need(rc == ncclSuccess || rc == ncclInProgress, "a call");
	for (int g = 0; g < GPUS; g++)
		do
			need(!ncclCommGetAsyncError(comm[g], &rc), "ncclCommGetAsyncError");
		while (rc == ncclInProgress);
	need(!rc, "communicators");
}

static void ends_in_group(int blocking, int finalize)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id;

	config.blocking = blocking;
	need(!ncclGetUniqueId(&id) && !ncclGroupStart(), "a group");
	for (int g = 0; g < GPUS; g++) {
		need(!cudaSetDevice(device_of(g, GPUS)), "cudaSetDevice");
		(void)ncclCommInitRankConfig(&comm[g], GPUS * ranks, id, GPUS * rank + g, &config);
	}
	until_ready(ncclGroupEnd());
	if (finalize) {
		need(!ncclGroupStart(), "a group");
		for (int g = 0; g < GPUS; g++)
			(void)ncclCommFinalize(comm[g]);
		until_ready(ncclGroupEnd());
	}
	need(!ncclGroupStart(), "a group");
	for (int g = 0; g < GPUS; g++)
		(void)ncclCommDestroy(comm[g]);
	ncclResult_t rc = ncclGroupEnd();

	need(rc == ncclSuccess || rc == ncclInProgress, "a group of ncclCommDestroy");
	printf("rank %d: ended\n", rank);
}

static void group_destroy(void)
{
	ends_in_group(1, 0);
}

static void group_finalize(void)
{
	ends_in_group(1, 1);
}

static void group_destroy_nonblocking(void)
{
	ends_in_group(0, 0);
}

static void group_finalize_nonblocking(void)
{
	ends_in_group(0, 1);
}

/* ---- abort
 * ---------------------------------------------------------------------------------------- */

static void *abort_later(void *arg)
{
	(void)arg;
	usleep(300000);
	for (int g = 0; g < GPUS; g++)
		need(!ncclCommAbort(comm[g]), "ncclCommAbort");
	return NULL;
}

/* Rank 1 makes no call; another thread aborts both communicators while rank 0 waits. Then a new
 * communicator. */
static void aborted(void)
{
	pthread_t thread;
	float *buffer[GPUS];
	cudaStream_t streams[GPUS];

	need(!ncclCommInitAll(comm, GPUS, NULL), "ncclCommInitAll");
	for (int g = 0; g < GPUS; g++)
		need(!cudaSetDevice(g) && !cudaMalloc((void **)&buffer[g], COUNT * sizeof(float)) &&
			     !cudaStreamCreate(&streams[g]),
		     "cudaMalloc");
	need(!cudaSetDevice(0), "cudaSetDevice");
	need(!ncclAllReduce(buffer[0], buffer[0], COUNT, ncclFloat, ncclSum, comm[0], streams[0]),
	     "a sum");
	need(!pthread_create(&thread, NULL, abort_later, NULL), "pthread_create");
	(void)cudaStreamSynchronize(streams[0]);
	need(!pthread_join(thread, NULL), "pthread_join");
	need(!ncclCommInitAll(comm, GPUS, NULL) && !ncclGroupStart(), "another ncclCommInitAll");
	for (int g = 0; g < GPUS; g++)
		need(!ncclAllReduce(buffer[g], buffer[g], COUNT, ncclFloat, ncclSum, comm[g],
				    streams[g]),
		     "a sum");
	need(!ncclGroupEnd(), "the group");
	for (int g = 0; g < GPUS; g++)
		need(!cudaSetDevice(g) && !cudaStreamSynchronize(streams[g]) &&
			     !ncclCommDestroy(comm[g]) && !cudaFree(buffer[g]) &&
			     !cudaStreamDestroy(streams[g]),
		     "the end");
	printf("ended\n");
}

/* ---- configs and environments
 * ---------------------------------------------------------------------- */

static ncclResult_t init_with(ncclConfig_t *config)
{
	ncclUniqueId id;

	need(!cudaSetDevice(device_of(0, 1)) && !ncclGetUniqueId(&id), "ncclGetUniqueId");
	ncclResult_t rc = ncclCommInitRankConfig(&comm[0], ranks, id, rank, config);

	printf("rank %d: %s: %s\n", rank, ncclGetErrorString(rc), rc ? ncclGetLastError(NULL) : "");
	return rc;
}

static void init_and_end(void *config)
{
	need(!init_with(config) && !ncclCommDestroy(comm[0]), "init with that config");
}

/* The layouts of two older releases; what the compiler put between and after their fields is not
 * theirs. */
static void config_2_18(void)
{
	struct {
		size_t size;
		unsigned magic, version;
		int blocking, cga, min_ctas, max_ctas;
		const char *net;
		int share;
	} old;

	memset(&old, 0x5a, sizeof old);
	old.size = sizeof old;
	old.magic = 0xcafebeef;
	old.version = NCCL_VERSION(2, 18, 5);
	old.blocking = old.cga = old.min_ctas = old.max_ctas = old.share = INT_MIN;
	old.net = NULL;
	init_and_end(&old);
}

static void config_2_14(void)
{
	struct {
		size_t size;
		unsigned magic, version;
		int blocking;
	} old;

	memset(&old, 0x5a, sizeof old);
	old.size = sizeof old;
	old.magic = 0xcafebeef;
	old.version = NCCL_VERSION(2, 14, 3);
	old.blocking = 1;
	init_and_end(&old);
}

/* Values that NCCL caps. */
static void capped(void)
{
	ncclConfig_t ctas = NCCL_CONFIG_INITIALIZER, share = NCCL_CONFIG_INITIALIZER;

	ctas.maxCTAs = 128;
	init_and_end(&ctas);
	share.splitShare = 2;
	init_and_end(&share);
}

/* NCCL_MIN_NCHANNELS of the environment is above it. */
static void few_channels(void)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.maxCTAs = 16;
	init_and_end(&config);
}

/* The last rank's init is refused: for its config, or for its environment. */
static void refused_config(void)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	if (rank == ranks - 1)
		config.netName = "NoSuchNet";
	(void)init_with(&config);
}

static void refused_environment(void)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	if (rank == ranks - 1)
		need(!setenv("NCCL_ALGO", "bogus", 1), "setenv");
	(void)init_with(&config);
}

/* The process that the others connect to comes later. */
static void late_root(void)
{
	if (rank == 0)
		sleep(8);
	comm[0] = make_comm();
	need(!ncclCommDestroy(comm[0]), "ncclCommDestroy");
	printf("rank %d: ended\n", rank);
}

int main(int argc, char **argv)
{
	static const struct trial all[] = {
		{"destroy_order", destroy_order},
		{"destroy_before_use", destroy_before_use},
		{"destroy_finalized", destroy_finalized},
		{"group_destroy", group_destroy},
		{"group_finalize", group_finalize},
		{"group_destroy_nonblocking", group_destroy_nonblocking},
		{"group_finalize_nonblocking", group_finalize_nonblocking},
		{"aborted", aborted},
		{"config_2_18", config_2_18},
		{"config_2_14", config_2_14},
		{"capped", capped},
		{"few_channels", few_channels},
		{"refused_config", refused_config},
		{"refused_environment", refused_environment},
		{"late_root", late_root},
		{0}};

	return trial_main(argc, argv, all);
}
