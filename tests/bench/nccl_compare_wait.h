/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ways in which programs wait for collectives, for nccl_compare.c. No other figure shows the cost
 * of a query of a communicator.
 *
 *   sync      cudaStreamSynchronize
 *   poll      nccl-tests: queries each stream, then its communicator for an asynchronous error,
 *             until all streams are done
 *   watchdog  PyTorch: another thread queries, under a lock, the communicator of each pending call;
 *             the caller takes the lock at each call. The last wait is cudaStreamSynchronize
 */
#ifndef TESTS_BENCH_NCCL_COMPARE_WAIT_H
#define TESTS_BENCH_NCCL_COMPARE_WAIT_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/bench/nccl_lib.h"

#define WATCHDOG_PERIOD_NS 1000000

enum wait_kind { WAIT_SYNC, WAIT_POLL, WAIT_WATCHDOG, WAIT_KINDS };

static const char *const wait_names[WAIT_KINDS] = {"sync", "poll", "watchdog"};

/* The calls of one task that are not known to have ended. */
struct watchdog {
	const struct nccl_lib *lib;
	const ncclComm_t *comm; /* [comms]; calls use them one after the other */
	int comms;
	pthread_t thread;
	pthread_mutex_t lock;
	int pending; /* number of calls; under the lock, like `ended` */
	bool ended;
};

/* Checks that the communicator has no asynchronous error; otherwise ends the process. */
static inline void wait_comm_ok(const struct nccl_lib *l, ncclComm_t comm)
{
	ncclResult_t error = ncclInternalError, rc = l->async_error(comm, &error);

	if (!rc && !error)
		return;
	fprintf(stderr, "%s: %s: ncclCommGetAsyncError: %s, the error is %s\n",
		program_invocation_short_name, l->path, l->error(rc), l->error(error));
	_exit(1);
}

/* Queries a stream and, if it is not done, its communicator. Returns true if the stream is done. */
static inline bool wait_poll_stream(const struct nccl_lib *l, cudaStream_t stream, ncclComm_t comm)
{
	cudaError_t e = cudaStreamQuery(stream);

	if (e == cudaSuccess)
		return true;
	if (e != cudaErrorNotReady) {
		fprintf(stderr, "%s: cudaStreamQuery: %s\n", program_invocation_short_name,
			cudaGetErrorString(e));
		_exit(1);
	}
	wait_comm_ok(l, comm);
	return false;
}

static inline void wait_poll(const struct nccl_lib *l, const cudaStream_t *stream,
			     const ncclComm_t *comm, int n)
{
	bool done[64] = {false};

	for (int left = n; left;) {
		for (int i = 0; i < n; i++)
			if (!done[i] && (done[i] = wait_poll_stream(l, stream[i], comm[i])))
				left--;
		if (left)
			sched_yield();
	}
}

static inline void *watchdog_main(void *arg)
{
	struct watchdog *w = arg;

	for (bool ended = false; !ended;) {
		pthread_mutex_lock(&w->lock);
		for (int i = 0; i < w->pending; i++)
			wait_comm_ok(w->lib, w->comm[i % w->comms]);
		ended = w->ended;
		pthread_mutex_unlock(&w->lock);
		nanosleep(&(struct timespec){.tv_nsec = WATCHDOG_PERIOD_NS}, NULL);
	}
	return NULL;
}

static inline void watchdog_start(struct watchdog *w)
{
	pthread_mutex_init(&w->lock, NULL);
	if (!pthread_create(&w->thread, NULL, watchdog_main, w))
		return;
	fprintf(stderr, "%s: no thread for a watchdog\n", program_invocation_short_name);
	_exit(1);
}

static inline void watchdog_calls(struct watchdog *w, int calls)
{
	pthread_mutex_lock(&w->lock);
	w->pending += calls;
	pthread_mutex_unlock(&w->lock);
}

static inline void watchdog_end(struct watchdog *w)
{
	pthread_mutex_lock(&w->lock);
	w->ended = true;
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	pthread_mutex_destroy(&w->lock);
}

#endif
