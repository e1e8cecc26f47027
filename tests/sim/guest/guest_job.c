/* SPDX-License-Identifier: BSD-3-Clause */
/* A program for tests/sim/programs/job_test.sh, on several hosts: job WHAT. One rank in each
 * process. */
#include <cuda_runtime.h>
#include <getopt.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <unistd.h>

static int rank, ranks, local;
static ncclComm_t comm;
static cudaStream_t stream;
static int *data;
static int counted; /* another host's program must not see it */

static void need(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "rank %d: %s failed\n", rank, what);
	exit(9);
}

static int number(const char *name)
{
	const char *text = getenv(name);

	need(text != NULL, name);
	return atoi(text);
}

static void begin(void)
{
	ncclUniqueId id;

	need(!cudaSetDevice(local), "cudaSetDevice");
	need(!ncclGetUniqueId(&id), "ncclGetUniqueId");
	need(!ncclCommInitRank(&comm, ranks, id, rank), "ncclCommInitRank");
	need(!cudaStreamCreate(&stream), "cudaStreamCreate");
	need(!cudaMalloc((void **)&data, sizeof *data), "cudaMalloc");
}

/* The sum over all ranks. */
static int sum(int value)
{
	need(!cudaMemcpy(data, &value, sizeof value, cudaMemcpyHostToDevice), "cudaMemcpy to");
	need(!ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, stream), "ncclAllReduce");
	need(!cudaStreamSynchronize(stream), "cudaStreamSynchronize");
	need(!cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost), "cudaMemcpy from");
	return value;
}

static void end(void)
{
	need(!ncclCommDestroy(comm), "ncclCommDestroy");
	need(!cudaStreamDestroy(stream), "cudaStreamDestroy");
	need(!cudaFree(data), "cudaFree");
}

static int sums(void)
{
	begin();
	for (int i = 0; i < 20; i++)
		need(sum(rank + i) == ranks * (ranks - 1) / 2 + ranks * i, "the sum");
	end();
	printf("rank %d: right\n", rank);
	return 0;
}

/* Each program counts its own calls, and changes its own environment. */
static int own_state(void)
{
	char name[64], text[16];

	begin();
	for (int i = 0; i < 5; i++)
		need(sum(++counted) == ranks * (i + 1), "a variable of its own");
	snprintf(text, sizeof text, "%d", rank);
	need(!setenv("MINE", text, 1), "setenv");
	(void)sum(0);
	need(number("MINE") == rank, "an environment of its own");
	need(!unsetenv("MINE") && !getenv("MINE"), "unsetenv");
	need(!gethostname(name, sizeof name), "gethostname");
	need(number("RANK") == rank && number("WORLD_SIZE") == ranks, "torchrun's variables");
	need(number("LOCAL_RANK") == local, "LOCAL_RANK");
	printf("rank %d: on %s, local %d of %d\n", rank, name, local,
	       number("OMPI_COMM_WORLD_LOCAL_SIZE"));
	end();
	return 0;
}

/* A call of a double between two options: the others parse theirs meanwhile. */
static int options(int argc, char **argv)
{
	int c, n, as = 0;

	while ((c = getopt(argc, argv, "a:bc")) != -1) {
		need(!cudaGetDeviceCount(&n), "cudaGetDeviceCount");
		as += c == 'a' ? atoi(optarg) : 0;
	}
	printf("rank %d: a %d, rest %s\n", rank, as, optind < argc ? argv[optind] : "-");
	return 0;
}

static void free_late(void)
{
	printf("rank %d: freed late: %d\n", rank, cudaFree(data));
}

static int late(void)
{
	atexit(free_late);
	need(!cudaMalloc((void **)&data, 4), "cudaMalloc");
	exit(0);
}

static int leak(void)
{
	return rank ? 0 : cudaMalloc((void **)&data, 100);
}

/* Ends with 0 whatever the communicator's state. */
static int tolerates(void)
{
	ncclUniqueId id;

	need(!ncclGetUniqueId(&id), "ncclGetUniqueId");
	if (ncclCommInitRank(&comm, ranks, id, rank))
		printf("rank %d: no communicator\n", rank);
	return 0;
}

/* The others are in a collective without it. */
static int leaves(int status)
{
	begin();
	(void)sum(0); /* the others have their communicator, too */
	if (rank == ranks - 1)
		exit(status);
	(void)sum(1);
	return 0;
}

static int crash(void)
{
	begin();
	return rank == 1 ? *(volatile int *)data : sum(1);
}

/* Rank 0 waits for a file that the last rank writes. */
static int sleeps(const char *path)
{
	FILE *f;

	if (rank == ranks - 1) {
		sleep(1);
		f = fopen(path, "w");
		need(f && !fclose(f), "fopen");
	}
	while (access(path, R_OK))
		usleep(1000);
	printf("rank %d: waited\n", rank);
	return 0;
}

static void *thread_main(void *arg)
{
	(void)sums();
	return arg;
}

static int thread(void)
{
	pthread_t t;

	need(!pthread_create(&t, NULL, thread_main, NULL), "pthread_create");
	need(!pthread_join(t, NULL), "pthread_join");
	return 0;
}

static int c11_thread_main(void *arg)
{
	(void)arg;
	return sums();
}

static int c11_thread(void)
{
	thrd_t t;

	need(thrd_create(&t, c11_thread_main, NULL) == thrd_success, "thrd_create");
	need(thrd_join(t, NULL) == thrd_success, "thrd_join");
	return 0;
}

static int deep(int n)
{
	volatile char room[100000];

	room[0] = (char)n;
	return n ? deep(n - 1) + room[0] - (char)n : 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	rank = number("OMPI_COMM_WORLD_RANK");
	ranks = number("OMPI_COMM_WORLD_SIZE");
	local = number("OMPI_COMM_WORLD_LOCAL_RANK");
	if (!strcmp(what, "sums"))
		return sums();
	if (!strcmp(what, "own_state"))
		return own_state();
	if (!strcmp(what, "options"))
		return options(argc - 1, argv + 1);
	if (!strcmp(what, "late"))
		return late();
	if (!strcmp(what, "leak"))
		return leak();
	if (!strcmp(what, "tolerates"))
		return tolerates();
	if (!strcmp(what, "leaves"))
		return leaves(argc > 2 ? atoi(argv[2]) : 0);
	if (!strcmp(what, "crash"))
		return crash();
	if (!strcmp(what, "sleeps"))
		return sleeps(argv[2]);
	if (!strcmp(what, "thread"))
		return thread();
	if (!strcmp(what, "c11_thread"))
		return c11_thread();
	if (!strcmp(what, "deep"))
		return deep(50) || sums();
	fprintf(stderr, "usage: job WHAT\n");
	return 8;
}
