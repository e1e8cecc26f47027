/* SPDX-License-Identifier: BSD-3-Clause */
/* A target with any libibverbs.so.1: real time, POSIX threads, descriptors that poll. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "tests/conformance/verbs/harness/target.h"

static uint64_t target_seed_now;

uint64_t target_seed(void)
{
	return target_seed_now;
}

void target_defaults(struct vs_config *config)
{
	config->seed = 1;
	config->timeout_shift = 4; /* others share the CPUs */
}

/* rdma-core looks for its providers when devices are listed first. */
void target_preload(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (list)
		ibv_free_device_list(list);
}

bool target_faults(void)
{
	return false;
}

void target_run(const struct vs_case *c, void (*body)(void *arg), void *arg)
{
	(void)c;
	if (vs_config.engine)
		FAIL("--engine is of verbs_suite_world");
	for (uint64_t i = 0; i < (vs_config.seeds ? vs_config.seeds : 1); i++) {
		target_seed_now = vs_probe->seed = vs_config.seed + i;
		body(arg);
	}
}

const char *target_where(void)
{
	return "";
}

static uint64_t target_clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * VS_SECOND + (uint64_t)t.tv_nsec;
}

uint64_t target_now_ns(void)
{
	return target_clock_ns(CLOCK_MONOTONIC);
}

/* The coarse clock is that of the last tick. */
uint64_t target_tick_late_ns(void)
{
	uint64_t tick_ns = target_clock_ns(CLOCK_MONOTONIC_COARSE);

	return target_now_ns() - tick_ns;
}

void target_sleep_ns(uint64_t ns)
{
	struct timespec t = {.tv_sec = (time_t)(ns / VS_SECOND), .tv_nsec = (long)(ns % VS_SECOND)};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

void *target_alloc(size_t bytes)
{
	size_t whole = (bytes + 4095) & ~(size_t)4095;
	void *p = aligned_alloc(4096, whole);

	if (p)
		memset(p, 0, whole);
	return p;
}

void target_release(void *p)
{
	free(p);
}

struct vs_thread {
	pthread_t thread;
	void (*run)(void *arg);
	void *arg;
};

static void *target_thread_main(void *arg)
{
	struct vs_thread *t = arg;

	t->run(t->arg);
	return NULL;
}

struct vs_thread *target_thread_start(void (*run)(void *arg), void *arg)
{
	struct vs_thread *t = calloc(1, sizeof *t);

	if (!t)
		return NULL;
	t->run = run;
	t->arg = arg;
	if (!pthread_create(&t->thread, NULL, target_thread_main, t))
		return t;
	free(t);
	return NULL;
}

void target_thread_join(struct vs_thread *t)
{
	pthread_join(t->thread, NULL);
	free(t);
}

uint64_t target_mark(const void *object)
{
	(void)object;
	return 0;
}

/* Busy for a while, then nearly asleep: the other end may need this CPU. */
void target_idle(const void *object, uint64_t mark, uint64_t deadline_ns)
{
	static _Thread_local unsigned int misses;

	(void)object;
	(void)mark;
	(void)deadline_ns;
	if (++misses % 64)
		sched_yield();
	else
		target_sleep_ns(20000);
}

static bool target_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1 && (p.revents & POLLIN);
}

bool target_async_pending(struct ibv_context *ctx)
{
	return target_readable(ctx->async_fd);
}

bool target_channel_pending(struct ibv_comp_channel *channel)
{
	return target_readable(channel->fd);
}
