/* SPDX-License-Identifier: BSD-3-Clause */
/* A task of nccl_compare: communicators, buffers, calls, times, results. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/nccl_compare.h"
#include "tests/bench/nccl_compare_collectives.h"

#define GRAPH_OPS  20
#define WARMUP_OPS 5
#define SAMPLES    5

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

/* A thread or process that drives `ranks` GPUs. */
struct task {
	int number, ranks;
	struct rank rank[MOST_GPUS];
};

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

int task_main(const char *mode, int number, int ranks)
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
