/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares collectives of one or two libraries with NCCL's ABI. Each library is opened by its path,
 * so that one program measures Doppel and NCCL on the same GPUs in the same run.
 *
 *   nccl_compare [-g GPUS] [-b BYTES] [-e BYTES] [-f FACTOR] [-c COLLECTIVE,...] [-m MODE,...] [-R]
 *         [-w WAIT] LIB [LIB]
 *
 * MODE selects the tasks that drive the ranks, as in nccl-tests: "one" thread for all GPUs with
 * grouped calls (-g), "threads", one per GPU (-t), or "processes", one per GPU. "one-graph",
 * "threads-graph" and "processes-graph" launch a CUDA graph of GRAPH_OPS collectives (-G).
 *
 * Sizes (the last one is that of -e) and bus bandwidths are those of nccl-tests; A/B is the ratio
 * of bandwidths. The time is that of the slowest task. Up to 64 MiB it is the median of SAMPLES: a
 * delay of the host affects only one sample (nccl-tests has one mean). The first size is first
 * measured once without a row, while the GPUs' clocks rise. Every result is checked. With -R each
 * library allocates its buffers (ncclMemAlloc) and registers them with its communicators
 * (ncclCommRegister). -w selects the wait for calls without graphs (nccl_compare_wait.h). Exit
 * status: 0; 1: usage, or a call failed; 11: a wrong result.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/nccl_compare_collectives.h"
#include "tests/bench/nccl_compare_wait.h"

#define MOST_GPUS  16
#define MOST_LIBS  2
#define GRAPH_OPS  20
#define WARMUP_OPS 5
#define SAMPLES    5

/* SIM_WRONG_RESULT, whose header a program for real GPUs cannot include */
enum { WRONG_RESULT = 11 };

/* One GPU of a task. */
struct rank {
	int number;
	float *host;
	struct buffers {
		float *send, *recv;
		void *send_handle, *recv_handle;
	} buffers[MOST_LIBS];
	cudaStream_t stream;
	ncclComm_t comm[MOST_LIBS];
	cudaGraphExec_t graph;
};

/* Data that the tasks of all processes share. */
struct shared {
	pthread_barrier_t barrier;
	ncclUniqueId id;
	double us[MOST_GPUS];
	uint64_t wrong[MOST_GPUS];
};

/* A thread or process that drives `ranks` GPUs. */
struct task {
	int number, ranks;
	struct rank rank[MOST_GPUS];
};

/* ---- the command line ----------------------------------------------------------------------- */

static int gpus = 2;
static size_t bytes_min = 8, bytes_max = 64 << 20, factor = 2;
static const char *collectives, *modes = "one";
static struct nccl_lib lib[MOST_LIBS];
static int libs, tasks;
static struct shared *shared;
static bool registered;
static enum wait_kind wait_kind;

/* True if the list, separated by commas, contains `name`. */
static bool listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, name, n) && (at[n] == ',' || !at[n]))
			return true;
	}
	return false;
}

static void cuda_ok(cudaError_t e, const char *what)
{
	if (e == cudaSuccess)
		return;
	fprintf(stderr, "nccl_compare: %s: %s\n", what, cudaGetErrorString(e));
	_exit(1);
}

static void nccl_ok(const struct nccl_lib *l, ncclResult_t r, const char *what)
{
	if (r == ncclSuccess)
		return;
	fprintf(stderr, "nccl_compare: %s: %s: %s\n", l->path, what, l->error(r));
	_exit(1);
}

/* ---- a task --------------------------------------------------------------------------------- */

static void meet(void)
{
	pthread_barrier_wait(&shared->barrier);
}

static void task_device(const struct rank *r)
{
	cuda_ok(cudaSetDevice(r->number), "cudaSetDevice");
}

static void task_sync(struct task *t)
{
	for (int i = 0; i < t->ranks; i++) {
		task_device(&t->rank[i]);
		cuda_ok(cudaStreamSynchronize(t->rank[i].stream), "cudaStreamSynchronize");
	}
}

static void task_comms(struct task *t, int which)
{
	const struct nccl_lib *l = &lib[which];

	if (t->number == 0)
		nccl_ok(l, l->get_id(&shared->id), "ncclGetUniqueId");
	meet();
	nccl_ok(l, l->group_start(), "ncclGroupStart");
	for (int i = 0; i < t->ranks; i++) {
		task_device(&t->rank[i]);
		nccl_ok(l,
			l->init_rank(&t->rank[i].comm[which], gpus, shared->id, t->rank[i].number),
			"ncclCommInitRank");
	}
	nccl_ok(l, l->group_end(), "ncclGroupEnd");
	meet();
}

/* Allocates the buffers of a library. Without registration all libraries use those of the first. */
static void rank_buffers_make(struct rank *r, int which)
{
	const struct nccl_lib *l = &lib[which];
	struct buffers *b = &r->buffers[which];

	task_device(r);
	if (registered) {
		nccl_ok(l, l->mem_alloc((void **)&b->send, bytes_max), "ncclMemAlloc");
		nccl_ok(l, l->mem_alloc((void **)&b->recv, bytes_max), "ncclMemAlloc");
		nccl_ok(l, l->enter(r->comm[which], b->send, bytes_max, &b->send_handle),
			"ncclCommRegister");
		nccl_ok(l, l->enter(r->comm[which], b->recv, bytes_max, &b->recv_handle),
			"ncclCommRegister");
	} else if (which) {
		*b = r->buffers[0];
		return;
	} else {
		cuda_ok(cudaMalloc((void **)&b->send, bytes_max), "cudaMalloc");
		cuda_ok(cudaMalloc((void **)&b->recv, bytes_max), "cudaMalloc");
	}
	cuda_ok(cudaMemcpy(b->send, r->host, bytes_max, cudaMemcpyHostToDevice), "cudaMemcpy");
}

static void rank_buffers_free(const struct rank *r, int which)
{
	const struct nccl_lib *l = &lib[which];
	const struct buffers *b = &r->buffers[which];

	if (registered) {
		nccl_ok(l, l->leave(r->comm[which], b->send_handle), "ncclCommDeregister");
		nccl_ok(l, l->leave(r->comm[which], b->recv_handle), "ncclCommDeregister");
		nccl_ok(l, l->mem_free(b->send), "ncclMemFree");
		nccl_ok(l, l->mem_free(b->recv), "ncclMemFree");
	} else if (!which) {
		cuda_ok(cudaFree(b->send), "cudaFree");
		cuda_ok(cudaFree(b->recv), "cudaFree");
	}
}

static void task_open(struct task *t)
{
	for (int i = 0; i < t->ranks; i++) {
		struct rank *r = &t->rank[i];

		task_device(r);
		cuda_ok(cudaMallocHost((void **)&r->host, bytes_max), "cudaMallocHost");
		content_fill(input_of(r->number), r->host, bytes_max / FLOAT);
		cuda_ok(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking),
			"cudaStreamCreateWithFlags");
	}
	for (int i = 0; i < libs; i++)
		task_comms(t, i);
	for (int i = 0; i < t->ranks; i++)
		for (int k = 0; k < libs; k++)
			rank_buffers_make(&t->rank[i], k);
	meet();
}

static void task_close(struct task *t)
{
	for (int i = 0; i < t->ranks; i++) {
		struct rank *r = &t->rank[i];

		task_device(r);
		for (int k = 0; k < libs; k++)
			rank_buffers_free(r, k);
	}
	meet();
	for (int i = 0; i < t->ranks; i++) {
		struct rank *r = &t->rank[i];

		task_device(r);
		for (int k = 0; k < libs; k++)
			nccl_ok(&lib[k], lib[k].destroy(r->comm[k]), "ncclCommDestroy");
		cuda_ok(cudaStreamDestroy(r->stream), "cudaStreamDestroy");
		cuda_ok(cudaFreeHost(r->host), "cudaFreeHost");
	}
}

static struct call rank_call_of(const struct rank *r, int which, size_t n)
{
	return (struct call){.rank = r->number,
			     .ranks = gpus,
			     .send = r->buffers[which].send,
			     .recv = r->buffers[which].recv,
			     .n = n,
			     .comm = r->comm[which],
			     .stream = r->stream};
}

static void task_call(struct task *t, int which, const struct collective *c, size_t n)
{
	const struct nccl_lib *l = &lib[which];

	if (t->ranks > 1)
		nccl_ok(l, l->group_start(), "ncclGroupStart");
	for (int i = 0; i < t->ranks; i++) {
		struct call one = rank_call_of(&t->rank[i], which, n);

		nccl_ok(l, c->call(l, &one), c->name);
	}
	if (t->ranks > 1)
		nccl_ok(l, l->group_end(), "ncclGroupEnd");
}

static void task_capture(struct task *t, int which, const struct collective *c, size_t n)
{
	cudaGraph_t graph[MOST_GPUS];

	for (int i = 0; i < t->ranks; i++)
		cuda_ok(cudaStreamBeginCapture(t->rank[i].stream, cudaStreamCaptureModeThreadLocal),
			"cudaStreamBeginCapture");
	for (int k = 0; k < GRAPH_OPS; k++)
		task_call(t, which, c, n);
	for (int i = 0; i < t->ranks; i++) {
		task_device(&t->rank[i]);
		cuda_ok(cudaStreamEndCapture(t->rank[i].stream, &graph[i]), "cudaStreamEndCapture");
	}
	/* no stream of this thread may be capturing */
	for (int i = 0; i < t->ranks; i++) {
		task_device(&t->rank[i]);
		cuda_ok(cudaGraphInstantiate(&t->rank[i].graph, graph[i], 0),
			"cudaGraphInstantiate");
		cuda_ok(cudaGraphDestroy(graph[i]), "cudaGraphDestroy");
	}
}

static void task_replay(struct task *t)
{
	for (int i = 0; i < t->ranks; i++) {
		if (t->ranks > 1)
			task_device(&t->rank[i]);
		cuda_ok(cudaGraphLaunch(t->rank[i].graph, t->rank[i].stream), "cudaGraphLaunch");
	}
}

/* The result of one rank, which a thread compares. */
struct result {
	const struct rank *rank;
	const struct collective *collective;
	struct call call;
	uint64_t wrong;
	pthread_t thread;
};

static void *result_compare(void *arg)
{
	struct result *e = arg;
	const struct collective *c = e->collective;
	size_t piece = c->parted ? e->call.n / (size_t)gpus : e->call.n;
	int parts = c->parted && !c->part ? gpus : 1;

	task_device(e->rank);
	cuda_ok(cudaMemcpy(e->rank->host, e->call.recv, (size_t)parts * piece * FLOAT,
			   cudaMemcpyDeviceToHost),
		"cudaMemcpy");
	for (int i = 0; i < parts; i++)
		e->wrong += content_wrong(c->want(&e->call, i), e->rank->host + (size_t)i * piece,
					  piece);
	return NULL;
}

/* Compares the results of a task's ranks. Large ones use a thread each: there may be eight, of 2
 * GiB. Returns the number of wrong elements. */
static uint64_t task_wrong(struct task *t, int which, const struct collective *c, size_t n)
{
	const bool threads = t->ranks > 1 && n * FLOAT >= 64 << 20;
	struct result result[MOST_GPUS];
	uint64_t wrong = 0;

	for (int i = 0; i < t->ranks; i++) {
		result[i] = (struct result){.rank = &t->rank[i],
					    .collective = c,
					    .call = rank_call_of(&t->rank[i], which, n)};
		if (!threads) {
			result_compare(&result[i]);
		} else if (pthread_create(&result[i].thread, NULL, result_compare, &result[i])) {
			fprintf(stderr, "nccl_compare: no thread to compare results\n");
			exit(1);
		}
	}
	for (int i = 0; i < t->ranks; i++) {
		if (threads)
			pthread_join(result[i].thread, NULL);
		wrong += result[i].wrong;
	}
	return wrong;
}

/* Returns the number of calls that are timed together: enough to hide the cost of the last wait, or
 * as few as in nccl-tests. */
static int task_times(size_t bytes)
{
	int calls = wait_kind == WAIT_POLL ? 20
		    : bytes <= 1 << 20     ? 400
		    : bytes <= 64 << 20    ? 80
					   : 20;
	const char *fewer = getenv("NCCL_COMPARE_CALLS"); /* for runs that do not measure */

	return fewer ? atoi(fewer) : calls;
}

/* The communicators and streams of a task's ranks. */
struct handles {
	ncclComm_t comm[MOST_GPUS];
	cudaStream_t stream[MOST_GPUS];
};

static struct handles task_handles(const struct task *t, int which)
{
	struct handles h = {0};

	for (int i = 0; i < t->ranks; i++) {
		h.comm[i] = t->rank[i].comm[which];
		h.stream[i] = t->rank[i].stream;
	}
	return h;
}

/* Makes the calls and waits for them. dog: NULL without a watchdog. */
static void task_calls(struct task *t, int which, const struct collective *c, size_t n, int calls,
		       struct watchdog *dog)
{
	for (int k = 0; k < calls; k++) {
		task_call(t, which, c, n);
		if (dog)
			watchdog_calls(dog, t->ranks);
	}
	if (wait_kind == WAIT_POLL) {
		struct handles h = task_handles(t, which);

		wait_poll(&lib[which], h.stream, h.comm, t->ranks);
	} else {
		task_sync(t);
	}
}

static void task_replays(struct task *t, int launches)
{
	for (int k = 0; k < launches; k++)
		task_replay(t);
	task_sync(t);
}

/* Returns the time of a call, of the slowest task. */
static double task_sample(struct task *t, int which, const struct collective *c, size_t bytes,
			  bool graph)
{
	int calls = task_times(bytes), launches = (calls + GRAPH_OPS - 1) / GRAPH_OPS;
	struct handles h = task_handles(t, which);
	struct watchdog dog = {.lib = &lib[which], .comm = h.comm, .comms = t->ranks};
	bool watched = !graph && wait_kind == WAIT_WATCHDOG;
	double start, us = 0;

	if (watched)
		watchdog_start(&dog);
	meet();
	start = nccl_lib_now_us();
	if (graph)
		task_replays(t, launches);
	else
		task_calls(t, which, c, bytes / FLOAT, calls, watched ? &dog : NULL);
	shared->us[t->number] = (nccl_lib_now_us() - start) /
				(graph ? (double)launches * GRAPH_OPS : (double)calls);
	if (watched)
		watchdog_end(&dog);
	meet();
	for (int i = 0; i < tasks; i++)
		us = shared->us[i] > us ? shared->us[i] : us;
	return us;
}

static int us_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Returns the median time of a call, and stores this task's number of wrong elements in
 * shared->wrong. */
static double task_measure(struct task *t, int which, const struct collective *c, size_t bytes,
			   bool graph)
{
	size_t n = bytes / FLOAT;
	int samples = bytes <= 64 << 20 ? SAMPLES : 1;
	double us[SAMPLES];

	for (int i = 0; i < t->ranks; i++) {
		task_device(&t->rank[i]);
		cuda_ok(cudaMemsetAsync(t->rank[i].buffers[which].recv, 0xff, bytes,
					t->rank[i].stream),
			"cudaMemsetAsync");
	}
	for (int k = 0; k < WARMUP_OPS; k++)
		task_call(t, which, c, n);
	if (graph)
		task_capture(t, which, c, n);
	for (int k = 0; graph && k < 2; k++)
		task_replay(t);
	task_sync(t);
	for (int i = 0; i < samples; i++)
		us[i] = task_sample(t, which, c, bytes, graph);
	qsort(us, (size_t)samples, sizeof *us, us_compare);
	shared->wrong[t->number] = task_wrong(t, which, c, n);
	for (int i = 0; graph && i < t->ranks; i++)
		cuda_ok(cudaGraphExecDestroy(t->rank[i].graph), "cudaGraphExecDestroy");
	meet();
	return us[samples / 2];
}

static double bus_bandwidth(const struct collective *c, size_t bytes, double us)
{
	double part = (double)(gpus - 1) / gpus;

	return (double)bytes / us / 1e3 * (c->sent ? c->sent * part : 1.0);
}

/* Measures one size; task 0 prints the row. Returns the number of wrong elements. */
static uint64_t task_row(struct task *t, const struct collective *c, size_t bytes, bool graph)
{
	uint64_t wrong[MOST_LIBS] = {0};
	double us[MOST_LIBS] = {0};

	for (int which = 0; which < libs; which++) {
		us[which] = task_measure(t, which, c, bytes, graph);
		for (int i = 0; i < tasks; i++)
			wrong[which] += shared->wrong[i];
	}
	if (t->number == 0) {
		printf("%12zu %10.2f %8.2f %8" PRIu64, bytes, us[0], bus_bandwidth(c, bytes, us[0]),
		       wrong[0]);
		if (libs > 1)
			printf(" %10.2f %8.2f %8" PRIu64 " %6.2f", us[1],
			       bus_bandwidth(c, bytes, us[1]), wrong[1], us[1] / us[0]);
		printf("\n");
		fflush(stdout);
	}
	return wrong[0] + wrong[1];
}

static uint64_t task_table(struct task *t, const char *mode, const struct collective *c)
{
	size_t least = c->parted ? FLOAT * (size_t)gpus : FLOAT;
	bool graph = strstr(mode, "-graph") != NULL, warm = false;
	uint64_t wrong = 0;

	if (t->number == 0) {
		printf("# %s, %s\n#%11s %10s %8s %8s", c->name, mode, "bytes", "A us", "A GB/s",
		       "A wrong");
		if (libs > 1)
			printf(" %10s %8s %8s %6s", "B us", "B GB/s", "B wrong", "A/B");
		printf("\n");
	}
	for (size_t bytes = bytes_min;; bytes *= factor) {
		bytes = bytes < bytes_max ? bytes : bytes_max;
		if (bytes % least == 0) {
			for (int which = 0; which < libs && !warm; which++)
				task_measure(t, which, c, bytes, graph);
			warm = true;
			wrong += task_row(t, c, bytes, graph);
		}
		if (bytes == bytes_max)
			return wrong;
	}
}

/* Runs a task that drives `ranks` GPUs from `number` on. */
static int task_main(const char *mode, int number, int ranks)
{
	static struct task all[MOST_GPUS];
	struct task *t = &all[number];
	uint64_t wrong = 0;

	*t = (struct task){.number = number, .ranks = ranks};
	for (int i = 0; i < ranks; i++)
		t->rank[i].number = number + i;
	task_open(t);
	for (int i = 0; i < COLLECTIVES; i++)
		if (!collectives || listed(collectives, collective[i].name))
			wrong += task_table(t, mode, &collective[i]);
	task_close(t);
	return wrong ? WRONG_RESULT : 0;
}

/* ---- modes ---------------------------------------------------------------------------------- */

struct thread {
	pthread_t thread;
	const char *mode;
	int number, rc;
};

static void *thread_main(void *arg)
{
	struct thread *t = arg;

	t->rc = task_main(t->mode, t->number, 1);
	return NULL;
}

static int run_threads(const char *mode)
{
	struct thread t[MOST_GPUS];
	int rc = 0;

	for (int i = 0; i < gpus; i++) {
		t[i] = (struct thread){.mode = mode, .number = i};
		if (pthread_create(&t[i].thread, NULL, thread_main, &t[i])) {
			fprintf(stderr, "nccl_compare: no thread for GPU %d\n", i);
			_exit(1);
		}
	}
	for (int i = 0; i < gpus; i++) {
		pthread_join(t[i].thread, NULL);
		rc = t[i].rc ? t[i].rc : rc;
	}
	return rc;
}

/* Runs a mode in child processes, because a process that uses CUDA must not fork. */
static int run(const char *mode)
{
	bool threads = !strncmp(mode, "threads", 7), processes = !strncmp(mode, "processes", 9);
	int children = processes ? gpus : 1, rc = 0, status;
	pthread_barrierattr_t attr;

	tasks = threads || processes ? gpus : 1;
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->barrier, &attr, (unsigned)tasks);
	for (int i = 0; i < children; i++) {
		pid_t pid = fork();

		if (pid < 0) {
			perror("nccl_compare: fork");
			exit(1);
		}
		if (pid)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int k = 0; k < libs; k++)
			nccl_lib_open(&lib[k]);
		exit(threads ? run_threads(mode) : task_main(mode, i, gpus / children));
	}
	for (int i = 0; i < children && wait(&status) > 0; i++) {
		int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;

		/* the remaining children, which wait for it, end with this process */
		if (code && code != WRONG_RESULT)
			exit(code);
		rc = code ? code : rc;
	}
	return rc;
}

static const char *const mode_names[] = {"one",           "one-graph", "threads",
					 "threads-graph", "processes", "processes-graph"};

static size_t parse_bytes(const char *arg)
{
	char *end;
	size_t n = strtoull(arg, &end, 10);

	n <<= *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
	return end == arg || (*end && end[1]) ? 0 : n;
}

static int usage(const char *program)
{
	fprintf(stderr,
		"usage: %s [-g GPUS] [-b BYTES] [-e BYTES] [-f FACTOR] [-c COLLECTIVE,...] "
		"[-m MODE,...] [-R] [-w WAIT] LIB [LIB]\n"
		"GPUS: 1 to %d; BYTES: at least 4, with K, M or G; FACTOR: at least 2\n"
		"COLLECTIVE:",
		program, MOST_GPUS);
	for (int i = 0; i < COLLECTIVES; i++)
		fprintf(stderr, " %s", collective[i].name);
	fprintf(stderr, "; default all\nMODE: all");
	for (size_t i = 0; i < sizeof mode_names / sizeof mode_names[0]; i++)
		fprintf(stderr, " %s", mode_names[i]);
	fprintf(stderr, "; default one\nWAIT:");
	for (int i = 0; i < WAIT_KINDS; i++)
		fprintf(stderr, " %s", wait_names[i]);
	fprintf(stderr, "; default sync\n");
	return 1;
}

/* True if each name of the list is known. */
static bool names_known(const char *list, bool (*known)(const char *name, size_t n))
{
	for (const char *at = list; at && *at;) {
		size_t n = strcspn(at, ",");

		if (!known(at, n))
			return false;
		at += n + (at[n] == ',');
	}
	return true;
}

static bool is_collective(const char *name, size_t n)
{
	for (int i = 0; i < COLLECTIVES; i++)
		if (strlen(collective[i].name) == n && !strncmp(collective[i].name, name, n))
			return true;
	return false;
}

static bool is_mode(const char *name, size_t n)
{
	for (size_t i = 0; i < sizeof mode_names / sizeof mode_names[0]; i++)
		if (strlen(mode_names[i]) == n && !strncmp(mode_names[i], name, n))
			return true;
	return n == 3 && !strncmp(name, "all", n);
}

static bool wait_parse(const char *name)
{
	for (int i = 0; i < WAIT_KINDS; i++)
		if (!strcmp(name, wait_names[i])) {
			wait_kind = (enum wait_kind)i;
			return true;
		}
	return false;
}

int main(int argc, char **argv)
{
	int option, rc = 0;

	while ((option = getopt(argc, argv, "g:b:e:f:c:m:Rw:")) != -1) {
		if (option == 'g')
			gpus = atoi(optarg);
		else if (option == 'b')
			bytes_min = parse_bytes(optarg);
		else if (option == 'e')
			bytes_max = parse_bytes(optarg);
		else if (option == 'f')
			factor = parse_bytes(optarg);
		else if (option == 'c')
			collectives = optarg;
		else if (option == 'm')
			modes = optarg;
		else if (option == 'R')
			registered = true;
		else if (option == 'w' && wait_parse(optarg))
			continue;
		else
			return usage(argv[0]);
	}
	libs = argc - optind;
	if (libs < 1 || libs > MOST_LIBS || gpus < 1 || gpus > MOST_GPUS || factor < 2 ||
	    bytes_min < FLOAT || bytes_max < bytes_min ||
	    !names_known(collectives, is_collective) || !names_known(modes, is_mode))
		return usage(argv[0]);
	for (int i = 0; i < libs; i++)
		lib[i].path = argv[optind + i];
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED) {
		perror("nccl_compare: mmap");
		return 1;
	}
	printf("# float sum, %d GPUs, out of place, wait %s; A = %s%s%s\n", gpus,
	       wait_names[wait_kind], lib[0].path, libs > 1 ? ", B = " : "",
	       libs > 1 ? lib[1].path : "");
	fflush(stdout);
	for (size_t i = 0; i < sizeof mode_names / sizeof mode_names[0]; i++)
		if (listed(modes, mode_names[i]) || listed(modes, "all")) {
			int mode_rc = run(mode_names[i]);

			rc = mode_rc ? mode_rc : rc;
		}
	return rc;
}
