/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeps and clocks of programs. In engine sim a sleep takes virtual time, during which other tasks
 * run, and clocks show virtual time. A loop with a time limit therefore ends as on a real machine.
 * A thread without a task, and a program after its end, use libc's functions.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/world/program/world_guest.h"
#include "sim/world/program/job_internal.h"

#define NS_PER_S 1000000000ull

/* Real clocks at a guest's start. Zero: a job, whose clocks start with its world. */
static uint64_t time_steady_ns, time_wall_ns;

static bool time_is_virtual(void)
{
	return sim_engine_kind() == SIM_ENGINE_SIM && (job_self() || world_guest_runs());
}

static uint64_t time_of(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * NS_PER_S + (uint64_t)t->tv_nsec;
}

static uint64_t time_real(clockid_t clock)
{
	struct timespec t = {0};

	(void)clock_gettime(clock, &t);
	return time_of(&t);
}

void program_time_continue(void)
{
	time_steady_ns = time_real(CLOCK_MONOTONIC);
	time_wall_ns = time_real(CLOCK_REALTIME);
}

/* ---- clocks --------------------------------------------------------------------------------- */

/* Reads a virtual clock. False: a clock of another kind, for example of processor time. */
static bool time_read(clockid_t clock, uint64_t *ns)
{
	switch (clock) {
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_BOOTTIME:
		*ns = time_steady_ns + sim_clock_read();
		return true;
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
		*ns = sim_clock_read();
		*ns = time_wall_ns ? time_wall_ns + *ns : sim_wall_ns(*ns);
		return true;
	default:
		return false;
	}
}

static int call_clock_gettime(clockid_t clock, struct timespec *t)
{
	uint64_t ns;

	if (!time_is_virtual() || !t || !time_read(clock, &ns))
		return clock_gettime(clock, t);
	*t = (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
	return 0;
}

static int call_timespec_get(struct timespec *t, int base)
{
	if (base != TIME_UTC || !time_is_virtual())
		return timespec_get(t, base);
	return call_clock_gettime(CLOCK_REALTIME, t) ? 0 : base;
}

static int call_gettimeofday(struct timeval *t, void *zone)
{
	struct timespec now;

	if (!time_is_virtual() || !t || zone)
		return gettimeofday(t, zone);
	(void)call_clock_gettime(CLOCK_REALTIME, &now);
	*t = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
	return 0;
}

static time_t call_time(time_t *out)
{
	struct timespec now;

	if (!time_is_virtual())
		return time(out);
	(void)call_clock_gettime(CLOCK_REALTIME, &now);
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}

/* ---- sleeps --------------------------------------------------------------------------------- */

static bool time_is_valid(const struct timespec *t)
{
	return t && t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < (long)NS_PER_S;
}

static int call_nanosleep(const struct timespec *t, struct timespec *left)
{
	if (!time_is_virtual() || !time_is_valid(t))
		return nanosleep(t, left);
	os_sleep_ns(time_of(t));
	return 0;
}

static int call_clock_nanosleep(clockid_t clock, int flags, const struct timespec *t,
				struct timespec *left)
{
	uint64_t now;

	if (!time_is_virtual() || !time_is_valid(t) || !time_read(clock, &now))
		return clock_nanosleep(clock, flags, t, left);
	uint64_t ns = time_of(t);

	if (flags & TIMER_ABSTIME)
		ns -= MIN_OF(ns, now);
	os_sleep_ns(ns);
	return 0;
}

static int call_usleep(useconds_t us)
{
	const struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L};

	return call_nanosleep(&t, NULL);
}

static unsigned call_sleep(unsigned s)
{
	const struct timespec t = {.tv_sec = s};

	return call_nanosleep(&t, NULL) ? s : 0;
}

/* poll and select without descriptors are sleeps. */
static int call_poll(struct pollfd *fds, nfds_t n, int ms)
{
	if (n || ms < 0 || !time_is_virtual())
		return poll(fds, n, ms);
	os_sleep_ns((uint64_t)ms * 1000000);
	return 0;
}

static int call_select(int n, fd_set *in, fd_set *out, fd_set *error, struct timeval *t)
{
	if (n || !t || t->tv_sec < 0 || t->tv_usec < 0 || !time_is_virtual())
		return select(n, in, out, error, t);
	os_sleep_ns((uint64_t)t->tv_sec * NS_PER_S + (uint64_t)t->tv_usec * 1000);
	return 0;
}

static int call_sched_yield(void)
{
	if (!time_is_virtual())
		return sched_yield();
	os_poll_miss("sched_yield");
	return 0;
}

void *program_time_call(const char *name)
{
	/* clang-format off */
	static const struct {
		const char *name;
		void *call;
	} all[] = {
		{"clock_gettime",   (void *)call_clock_gettime},
		{"clock_nanosleep", (void *)call_clock_nanosleep},
		{"gettimeofday",    (void *)call_gettimeofday},
		{"nanosleep",       (void *)call_nanosleep},
		{"poll",            (void *)call_poll},
		{"sched_yield",     (void *)call_sched_yield},
		{"select",          (void *)call_select},
		{"sleep",           (void *)call_sleep},
		{"time",            (void *)call_time},
		{"timespec_get",    (void *)call_timespec_get},
		{"usleep",          (void *)call_usleep},
	};
	/* clang-format on */
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (strcmp(all[i].name, name) == 0)
			return all[i].call;
	return NULL;
}
