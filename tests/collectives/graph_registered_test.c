/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered buffers in CUDA graphs, between two processes: a captured launch shows them at each
 * replay, they stay open when the program deregisters them, and their memory is freed when the
 * graph has ended. Two real GPUs that NVLink joins: the processes are real and share no world of
 * doubles, for which sim.graphs_test has the same.
 */
#include <check.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/include/nccl.h"
#include "tests/suite.h"

#define RANKS 2
#define COUNT ((size_t)1 << 20)   /* elements that a rank sends */
#define ROOM  ((size_t)256 << 20) /* bytes of a buffer: more than anything else that a rank frees */
#define CALLS 70                  /* after so many a rank has looked at what others have posted */

static struct shared {
	pthread_barrier_t barrier;
	ncclUniqueId id;
} * shared;

struct rank {
	int number;
	ncclComm_t comm;
	cudaStream_t stream;
	int32_t *from, *to; /* `to`: what all send, then what the other rank sends */
	int32_t *host;      /* as large as `to` */
	void *handle[2];
	cudaGraphExec_t graph;
	int32_t round;
};

static void rank_fails(const struct rank *r, const char *what, const char *why)
{
	fprintf(stderr, "graph_registered_test: rank %d, round %d: %s: %s\n", r->number, r->round,
		what, why);
	exit(1);
}

static void cuda_ok(const struct rank *r, cudaError_t e, const char *call)
{
	if (e != cudaSuccess)
		rank_fails(r, call, cudaGetErrorString(e));
}

static void nccl_ok(const struct rank *r, ncclResult_t rc, const char *call)
{
	if (rc != ncclSuccess)
		rank_fails(r, call, ncclGetErrorString(rc));
}

static void meet(void)
{
	pthread_barrier_wait(&shared->barrier);
}

static int32_t value(int number, int32_t round, size_t i)
{
	return number * 1000003 + round * 7919 + (int32_t)i;
}

/* ---- one round ------------------------------------------------------------------------------ */

static void fill(struct rank *r)
{
	r->round++;
	for (size_t i = 0; i < COUNT; i++)
		r->host[i] = value(r->number, r->round, i);
	cuda_ok(r, cudaMemcpy(r->from, r->host, COUNT * 4, cudaMemcpyHostToDevice), "cudaMemcpy");
	cuda_ok(r, cudaMemset(r->to, 0xee, (RANKS + 1) * COUNT * 4), "cudaMemset");
	meet();
}

static void call(struct rank *r, int32_t *from, int32_t *to)
{
	nccl_ok(r, ncclAllGather(from, to, COUNT, ncclInt32, r->comm, r->stream), "ncclAllGather");
	nccl_ok(r, ncclGroupStart(), "ncclGroupStart");
	nccl_ok(r, ncclSend(from, COUNT, ncclInt32, !r->number, r->comm, r->stream), "ncclSend");
	nccl_ok(r, ncclRecv(to + RANKS * COUNT, COUNT, ncclInt32, !r->number, r->comm, r->stream),
		"ncclRecv");
	nccl_ok(r, ncclGroupEnd(), "ncclGroupEnd");
}

static void check(struct rank *r)
{
	cuda_ok(r, cudaStreamSynchronize(r->stream), "cudaStreamSynchronize");
	cuda_ok(r, cudaMemcpy(r->host, r->to, (RANKS + 1) * COUNT * 4, cudaMemcpyDeviceToHost),
		"cudaMemcpy");
	for (size_t i = 0; i < (RANKS + 1) * COUNT; i++) {
		int of = i < RANKS * COUNT ? (int)(i / COUNT) : !r->number;

		if (r->host[i] != value(of, r->round, i % COUNT))
			rank_fails(r, "result", "wrong element");
	}
	meet();
}

static void launch(struct rank *r)
{
	fill(r);
	call(r, r->from, r->to);
	check(r);
}

static void replay(struct rank *r)
{
	fill(r);
	for (int k = 0; k < 3; k++)
		cuda_ok(r, cudaGraphLaunch(r->graph, r->stream), "cudaGraphLaunch");
	check(r);
}

/* ---- a rank --------------------------------------------------------------------------------- */

static void capture(struct rank *r)
{
	cudaGraph_t graph;

	cuda_ok(r, cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal),
		"cudaStreamBeginCapture");
	for (int k = 0; k < 2; k++)
		call(r, r->from, r->to);
	cuda_ok(r, cudaStreamEndCapture(r->stream, &graph), "cudaStreamEndCapture");
	cuda_ok(r, cudaGraphInstantiate(&r->graph, graph, 0), "cudaGraphInstantiate");
	cuda_ok(r, cudaGraphDestroy(graph), "cudaGraphDestroy");
}

static void open_rank(struct rank *r)
{
	cuda_ok(r, cudaSetDevice(r->number), "cudaSetDevice");
	cuda_ok(r, cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking),
		"cudaStreamCreate");
	r->host = malloc((RANKS + 1) * COUNT * 4);
	if (!r->host)
		rank_fails(r, "malloc", "no memory");
	if (r->number == 0)
		nccl_ok(r, ncclGetUniqueId(&shared->id), "ncclGetUniqueId");
	meet();
	nccl_ok(r, ncclCommInitRank(&r->comm, RANKS, shared->id, r->number), "ncclCommInitRank");
}

static size_t memory_left(const struct rank *r)
{
	size_t left = 0, all;

	cuda_ok(r, cudaMemGetInfo(&left, &all), "cudaMemGetInfo");
	return left;
}

static void buffers_make(struct rank *r)
{
	nccl_ok(r, ncclMemAlloc((void **)&r->from, ROOM), "ncclMemAlloc");
	nccl_ok(r, ncclMemAlloc((void **)&r->to, ROOM), "ncclMemAlloc");
	nccl_ok(r, ncclCommRegister(r->comm, r->from, ROOM, &r->handle[0]), "ncclCommRegister");
	nccl_ok(r, ncclCommRegister(r->comm, r->to, ROOM, &r->handle[1]), "ncclCommRegister");
}

/* Calls with other memory, which is not registered. */
static void others(struct rank *r)
{
	int32_t *from, *to;

	cuda_ok(r, cudaMalloc((void **)&from, COUNT * 4), "cudaMalloc");
	cuda_ok(r, cudaMalloc((void **)&to, (RANKS + 1) * COUNT * 4), "cudaMalloc");
	for (int k = 0; k < 3 * CALLS; k++) {
		call(r, from, to);
		cuda_ok(r, cudaStreamSynchronize(r->stream), "cudaStreamSynchronize");
	}
	cuda_ok(r, cudaFree(from), "cudaFree");
	cuda_ok(r, cudaFree(to), "cudaFree");
	meet();
}

static void run_rank(int number)
{
	struct rank r = {.number = number};
	size_t before, after;

	open_rank(&r);
	others(&r); /* allocates what the calls need */
	before = memory_left(&r);
	buffers_make(&r);
	for (int k = 0; k < CALLS; k++) /* at the end both ranks have mapped the other one's */
		launch(&r);
	capture(&r);
	for (int k = 0; k < 3; k++)
		replay(&r);
	launch(&r);
	replay(&r);
	for (int b = 0; b < 2; b++)
		nccl_ok(&r, ncclCommDeregister(r.comm, r.handle[b]), "ncclCommDeregister");
	meet();
	others(&r);
	replay(&r);
	launch(&r);
	replay(&r);
	cuda_ok(&r, cudaGraphExecDestroy(r.graph), "cudaGraphExecDestroy");
	nccl_ok(&r, ncclMemFree(r.from), "ncclMemFree");
	nccl_ok(&r, ncclMemFree(r.to), "ncclMemFree");
	meet();
	others(&r);
	after = memory_left(&r);
	if (before > after && before - after > ROOM / 2)
		rank_fails(&r, "memory of the buffers", "is not freed after the graph's end");
	nccl_ok(&r, ncclCommDestroy(r.comm), "ncclCommDestroy");
	exit(0);
}

/* ---- the log -------------------------------------------------------------------------------- */

static int lines_with(const char *file, const char *text)
{
	FILE *f = fopen(file, "r");
	char line[1024];
	int n = 0;

	ck_assert_msg(f != NULL, "%s is not there", file);
	while (fgets(line, sizeof line, f))
		n += strstr(line, text) != NULL;
	fclose(f);
	return n;
}

START_TEST(a_graph_keeps_registered_buffers_open)
{
	char file[RANKS][64];
	pthread_barrierattr_t attr;
	pid_t pid[RANKS];

	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	ck_assert(shared != MAP_FAILED);
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->barrier, &attr, RANKS);
	setenv("NCCL_ALGO", "Ring", 1);
	setenv("NCCL_PROTO", "Simple", 1);
	setenv("NCCL_DEBUG", "INFO", 1);
	setenv("NCCL_DEBUG_SUBSYS", "REG", 1);
	for (int i = 0; i < RANKS; i++) {
		snprintf(file[i], sizeof file[i], "/tmp/graph_registered_test.%d.%d", getpid(), i);
		setenv("NCCL_DEBUG_FILE", file[i], 1);
		pid[i] = fork();
		ck_assert(pid[i] >= 0);
		if (!pid[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			run_rank(i);
		}
	}
	for (int i = 0, status; i < RANKS; i++) {
		ck_assert(wait(&status) > 0);
		ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "a rank: status %#x",
			      (unsigned)status);
	}
	for (int i = 0; i < RANKS; i++) {
		ck_assert_int_eq(lines_with(file[i], "a CUDA graph keeps a registered buffer"), 1);
		ck_assert_int_eq(lines_with(file[i], "no CUDA graph uses a buffer any longer"), 1);
		unlink(file[i]);
	}
}
END_TEST

/* In a process of its own: CUDA may not be in use where a process forks. */
static int gpus(void)
{
	pid_t pid = fork();
	int status = 0;

	if (!pid) {
		int n = 0;

		exit(cudaGetDeviceCount(&n) == cudaSuccess ? n : 0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
									       : 0;
}

int main(void)
{
#ifdef DOPPEL_FAKECUDA
	printf("graph_registered_test: skipped: needs two real GPUs; sim.graphs_test has a "
	       "world\n");
	return 77;
#endif
	if (gpus() < RANKS) {
		printf("graph_registered_test: skipped: needs two GPUs\n");
		return 77;
	}
	Suite *suite = suite_create("graph_registered");
	TCase *t = tcase_create("graph_registered");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_graph_keeps_registered_buffers_open);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
