/* SPDX-License-Identifier: BSD-3-Clause */
/* A program for tests/sim/programs/trials_test.sh: loops of queries, with limits of their own:
 * trial_waits WHAT. */
#include <pthread.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "trial.h"

#define GPUS 4

static ncclComm_t comm[GPUS];
static ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

static double now(void)
{
	struct timespec t;

	need(!clock_gettime(CLOCK_MONOTONIC, &t), "clock_gettime");
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static ncclResult_t state(ncclComm_t c)
{
	ncclResult_t error = ncclInternalError;

	need(!ncclCommGetAsyncError(c, &error), "ncclCommGetAsyncError");
	return error;
}

/* A communicator of two ranks, of which this is one and the other does not come. */
static void begin_without_peer(void)
{
	ncclUniqueId id;

	config.blocking = 0;
	need(!ncclGetUniqueId(&id), "ncclGetUniqueId");
	need(ncclCommInitRankConfig(&comm[0], 2, id, 0, &config) == ncclInProgress, "init");
}

static void give_up(void)
{
	need(state(comm[0]) == ncclInProgress, "a communicator that is in progress");
	need(!ncclCommAbort(comm[0]), "ncclCommAbort");
	printf("gave up\n");
}

/* A health check, again and again, while nothing is under way. */
static void health(void)
{
	need(!ncclCommInitAll(comm, GPUS, NULL), "ncclCommInitAll");
	for (int i = 0; i < 1000; i++)
		need(state(comm[i % GPUS]) == ncclSuccess, "a healthy communicator");
	for (int i = 0; i < GPUS; i++)
		need(!ncclCommDestroy(comm[i]), "ncclCommDestroy");
	printf("healthy\n");
}

/* The least time of a query, of many: none waits, whatever else the machine does. */
static void cost(void)
{
	double least = 1;

	need(!ncclCommInitAll(comm, GPUS, NULL), "ncclCommInitAll");
	for (int i = 0; i < 1000; i++) {
		double begin = now(), took;

		need(state(comm[0]) == ncclSuccess, "a healthy communicator");
		took = now() - begin;
		least = took < least ? took : least;
	}
	for (int i = 0; i < GPUS; i++)
		need(!ncclCommDestroy(comm[i]), "ncclCommDestroy");
	need(least < 50e-6, "a query within 50 us");
	printf("cheap\n");
}

static void until_ready(ncclResult_t rc)
{
	need(rc == ncclSuccess || rc == ncclInProgress, "a call");
	for (int i = 0; i < GPUS; i++)
		while ((rc = state(comm[i])) == ncclInProgress)
			;
	need(rc == ncclSuccess, "communicators");
}

/* One task queries one communicator after another. */
static void several(void)
{
	ncclUniqueId id;

	config.blocking = 0;
	need(!ncclGetUniqueId(&id) && !ncclGroupStart(), "a group");
	for (int i = 0; i < GPUS; i++) {
		need(!cudaSetDevice(i), "cudaSetDevice");
		(void)ncclCommInitRankConfig(&comm[i], GPUS, id, i, &config);
	}
	until_ready(ncclGroupEnd());
	for (int i = 0; i < GPUS; i++)
		(void)ncclCommFinalize(comm[i]);
	until_ready(ncclSuccess);
	for (int i = 0; i < GPUS; i++)
		need(!ncclCommDestroy(comm[i]), "ncclCommDestroy");
	printf("all ready\n");
}

static void limit_count(void)
{
	begin_without_peer();
	for (int i = 0; i < 20000 && state(comm[0]) == ncclInProgress; i++)
		;
	give_up();
}

static void limit_clock(void)
{
	begin_without_peer();
	double end = now() + 2;

	while (now() < end && state(comm[0]) == ncclInProgress)
		;
	give_up();
}

static void limit_sleep(void)
{
	begin_without_peer();
	for (int i = 0; i < 20 && state(comm[0]) == ncclInProgress; i++)
		usleep(100000);
	give_up();
}

static void for_ever(void)
{
	begin_without_peer();
	while (state(comm[0]) == ncclInProgress)
		;
}

static void blocked(void)
{
	ncclUniqueId id;

	need(!ncclGetUniqueId(&id), "ncclGetUniqueId");
	(void)ncclCommInitRank(&comm[0], 2, id, 0);
}

static void *abort_later(void *arg)
{
	(void)arg;
	usleep(300000);
	(void)ncclCommAbort(comm[0]);
	return NULL;
}

/* Rank 0 alone begins a collective, and a thread of the program ends it. */
static void aborted(void)
{
	const int devices[] = {0, 1};
	pthread_t thread;
	void *mem;

	need(!ncclCommInitAll(comm, 2, devices), "ncclCommInitAll");
	need(!cudaMalloc(&mem, 4096), "cudaMalloc");
	need(!ncclAllReduce(mem, mem, 16, ncclInt32, ncclSum, comm[0], NULL), "ncclAllReduce");
	need(!pthread_create(&thread, NULL, abort_later, NULL), "pthread_create");
	need(!cudaStreamSynchronize(NULL), "cudaStreamSynchronize");
	pthread_join(thread, NULL);
	need(!ncclCommAbort(comm[1]), "ncclCommAbort");
	need(!cudaFree(mem), "cudaFree");
	printf("aborted\n");
}

/* Every sleep is as long as the clocks show. */
static void clocks(void)
{
	const struct timespec half = {.tv_nsec = 500000000};
	struct timeval wall[2];
	int n;

	need(!cudaGetDeviceCount(&n), "cudaGetDeviceCount");
	time_t date = time(NULL);
	double begin = now();

	gettimeofday(&wall[0], NULL);
	sleep(1);
	usleep(250000);
	nanosleep(&half, NULL);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &half, NULL);
	gettimeofday(&wall[1], NULL);
	double steady = now() - begin;
	double walls = (double)(wall[1].tv_sec - wall[0].tv_sec) +
		       (double)(wall[1].tv_usec - wall[0].tv_usec) / 1e6;

	need(steady >= 2.2499 && walls >= 2.2499, "a clock that saw the sleeps");
	need(time(NULL) - date >= 2, "time");
	printf("slept %.3f s\n", steady);
}

/* Rank 0 waits for a rank that never joins, and ends. */
static void absent(void)
{
	if (rank == 0)
		limit_sleep();
	else
		sleep(4);
}

int main(int argc, char **argv)
{
	static const struct trial all[] = {
		{"health", health},           {"cost", cost},
		{"several", several},         {"limit_count", limit_count},
		{"limit_clock", limit_clock}, {"limit_sleep", limit_sleep},
		{"for_ever", for_ever},       {"blocked", blocked},
		{"clocks", clocks},           {"absent", absent},
		{"aborted", aborted},         {0}};

	return trial_main(argc, argv, all);
}
