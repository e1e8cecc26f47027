/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cases of CUDA graphs, for the GPU double and for real GPUs: they use the runtime API only. A
 * program of cases compiles with the double's headers and with the Toolkit's:
 *
 *    gcc -I$CUDA/include graph_capture_test.c -L$CUDA/lib64 -lcudart -lpthread
 *
 * Each case has streams and events of its own and leaves nothing. The expected results are those of
 * an H200 with CUDA 13.0 and driver 580. On the double, a program runs in a world of its own for
 * each engine: the environment starts it (sim/world/program/world_guest.h).
 */
#ifndef TESTS_CONFORMANCE_GRAPHS_GRAPH_CASES_H
#define TESTS_CONFORMANCE_GRAPHS_GRAPH_CASES_H

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES      4096
#define NODES_MOST 32

/* ---- state of a case ------------------------------------------------------------------------ */

static struct {
	const char *name;
	int failed, checks;
	cudaStream_t a, b, blocking; /* a and b are non-blocking */
	cudaEvent_t e, f;
	unsigned char *dev, *pinned;
	int added;    /* by host functions */
	char log[64]; /* letters of host functions, in order */
	int logged;
} now;

#define IS(want, expr)                                                                             \
	do {                                                                                       \
		long got_ = (long)(expr), want_ = (long)(want);                                    \
		now.checks++;                                                                      \
		if (got_ == want_)                                                                 \
			break;                                                                     \
		now.failed++;                                                                      \
		printf("%s:%d: %s: %s is %ld, expected %ld\n", __FILE__, __LINE__, now.name,       \
		       #expr, got_, want_);                                                        \
	} while (0)
#define OK(call) IS(cudaSuccess, call)

static inline void add_one(void *arg)
{
	__atomic_add_fetch(&now.added, arg ? (int)(size_t)arg : 1, __ATOMIC_SEQ_CST);
}

static inline void log_letter(void *arg)
{
	int at = __atomic_fetch_add(&now.logged, 1, __ATOMIC_SEQ_CST);

	usleep(200);
	if (at < (int)sizeof now.log - 1)
		now.log[at] = (char)(size_t)arg;
}

static inline int added(void)
{
	return __atomic_load_n(&now.added, __ATOMIC_SEQ_CST);
}

/* Waits up to 5 s until host functions have added that much: a destructor runs later. */
static inline int added_at_last(int want)
{
	for (int i = 0; i < 5000 && added() < want; i++) {
		usleep(1000);
		(void)cudaGetLastError(); /* lets the double's tasks run */
	}
	return added();
}

static inline void case_open(const char *name)
{
	int failed = now.failed, checks = now.checks;
	unsigned char *dev = now.dev, *pinned = now.pinned;

	memset(&now, 0, sizeof now);
	now.name = name;
	now.failed = failed;
	now.checks = checks;
	now.dev = dev;
	now.pinned = pinned;
	OK(cudaStreamCreateWithFlags(&now.a, cudaStreamNonBlocking));
	OK(cudaStreamCreateWithFlags(&now.b, cudaStreamNonBlocking));
	OK(cudaStreamCreate(&now.blocking));
	OK(cudaEventCreateWithFlags(&now.e, cudaEventDisableTiming));
	OK(cudaEventCreateWithFlags(&now.f, cudaEventDisableTiming));
}

static inline int status(cudaStream_t s)
{
	enum cudaStreamCaptureStatus st = cudaStreamCaptureStatusNone;
	cudaError_t rc = cudaStreamIsCapturing(s, &st);

	return rc ? -(int)rc : (int)st;
}

static inline void case_close(void)
{
	cudaStream_t s[3];
	cudaGraph_t g = NULL;

	s[0] = now.a;
	s[1] = now.b;
	s[2] = now.blocking;
	for (int i = 0; i < 3; i++)
		if (status(s[i]) > 0 && !cudaStreamEndCapture(s[i], &g) && g)
			OK(cudaGraphDestroy(g));
	(void)cudaGetLastError();
	OK(cudaDeviceSynchronize());
	for (int i = 0; i < 3; i++)
		OK(cudaStreamDestroy(s[i]));
	OK(cudaEventDestroy(now.e));
	OK(cudaEventDestroy(now.f));
}

/* ---- short forms ---------------------------------------------------------------------------- */

static inline cudaError_t begin(cudaStream_t s)
{
	return cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
}

static inline cudaError_t host(cudaStream_t s)
{
	return cudaLaunchHostFunc(s, add_one, NULL);
}

/* The capture's first stream is a; b joins it. */
static inline void fork_b(void)
{
	OK(cudaEventRecord(now.e, now.a));
	OK(cudaStreamWaitEvent(now.b, now.e, 0));
}

static inline void join_b(void)
{
	OK(cudaEventRecord(now.f, now.b));
	OK(cudaStreamWaitEvent(now.a, now.f, 0));
}

static inline size_t node_count(cudaGraph_t g)
{
	size_t n = 99;

	OK(cudaGraphGetNodes(g, NULL, &n));
	return n;
}

static inline int node_type(cudaGraph_t g, int i)
{
	cudaGraphNode_t nodes[NODES_MOST];
	size_t n = NODES_MOST;
	enum cudaGraphNodeType type = cudaGraphNodeTypeMemFree;

	OK(cudaGraphGetNodes(g, nodes, &n));
	OK(cudaGraphNodeGetType(nodes[i], &type));
	return (int)type;
}

static inline cudaGraphNode_t add_host(cudaGraph_t g, cudaGraphNode_t after, cudaHostFn_t fn,
				       size_t arg)
{
	struct cudaHostNodeParams p;
	cudaGraphNode_t n = NULL;

	p.fn = fn;
	p.userData = (void *)arg;
	OK(cudaGraphAddHostNode(&n, g, after ? &after : NULL, after ? 1 : 0, &p));
	return n;
}

static inline cudaGraphExec_t exec_of(cudaGraph_t g)
{
	cudaGraphExec_t x = NULL;

	OK(cudaGraphInstantiate(&x, g, 0));
	return x;
}

static inline void launch_and_wait(cudaGraphExec_t x, cudaStream_t s)
{
	OK(cudaGraphLaunch(x, s));
	OK(cudaStreamSynchronize(s));
}

/* Runs fn in a thread of its own. */
static inline void in_thread(void *(*fn)(void *), void *arg)
{
	pthread_t t;

	IS(0, pthread_create(&t, NULL, fn, arg));
	IS(0, pthread_join(t, NULL));
}

/* ---- programs ------------------------------------------------------------------------------- */

struct graph_case {
	const char *name;
	void (*body)(void);
	int threads; /* it needs threads, which a world of the engine `sim` does not run */
};
#define CASE(name)                                                                                 \
	{                                                                                          \
#name, name, 0                                                                     \
	}
#define CASE_THREADS(name)                                                                         \
	{                                                                                          \
#name, name, 1                                                                     \
	}

/* The case that runs, for the process that waits for its end; NULL: none yet. */
static const char **case_now;

static inline int cases_run(const struct graph_case *cases, int count, const char *only,
			    int threads)
{
	OK(cudaMalloc((void **)&now.dev, BYTES));
	OK(cudaHostAlloc((void **)&now.pinned, BYTES, cudaHostAllocDefault));
	for (int i = 0; i < count; i++) {
		if ((only && strcmp(only, cases[i].name)) || (cases[i].threads && !threads))
			continue;
		*case_now = cases[i].name;
		case_open(cases[i].name);
		cases[i].body();
		case_close();
	}
	OK(cudaFree(now.dev));
	OK(cudaFreeHost(now.pinned));
	printf("%d checks, %d failed\n", now.checks, now.failed);
	return now.failed != 0;
}

/* In a process of its own: a world ends with its program, and a crash of a driver leaves the lines
 * before it. NULL: a GPU instead of a world. Returns 1 if it failed. */
static inline int cases_in_process(const struct graph_case *cases, int count, const char *only,
				   const char *engine)
{
	int code = 0;
	pid_t pid;

	case_now = (const char **)mmap(NULL, sizeof *case_now, PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (case_now == MAP_FAILED)
		return 1;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setvbuf(stdout, NULL, _IOLBF, 0);
		if (engine) {
			setenv("DOPPEL_MACHINE", "a100-4nic", 1);
			setenv("DOPPEL_ENGINE", engine, 1);
		}
		exit(cases_run(cases, count, only, !engine || strcmp(engine, "threads") == 0));
	}
	if (pid > 0 && waitpid(pid, &code, 0) == pid && WIFEXITED(code) && !WEXITSTATUS(code))
		return 0;
	printf("%s: status %#x, in case %s\n", engine ? engine : "the GPU", (unsigned)code,
	       *case_now ? *case_now : "(none began)");
	return 1;
}

/* argv[1]: the name of the only case; all if absent. */
static inline int cases_main(const struct graph_case *cases, int count, int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;

#ifdef DOPPEL_FAKECUDA
	int failed = cases_in_process(cases, count, only, "threads");

	return cases_in_process(cases, count, only, "sim") || failed;
#else
	return cases_in_process(cases, count, only, NULL);
#endif
}

#endif
