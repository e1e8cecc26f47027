/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kills one of two processes that know only each other's queue pair. The survivor must learn of it
 * from its HCA: there is no socket, no pipe, no signal. Both post WRITE, WRITE_WITH_IMM, SEND, READ
 * and FETCH_ADD as fast as they can, and SIGKILL strikes at a random moment: while a process joins
 * the fabric, while it creates queue pairs, and mostly inside a post. The survivor
 *
 *   - gets IBV_WC_RETRY_EXC_ERR for its oldest request, and for others only WR_FLUSH_ERR. The error
 *     occurs after at least retry_cnt + 1 timeouts of 4.096 us << timeout, and at most four times
 *     that after the kill (the specification's limit). The timeouts start with the kill, or earlier
 *     if no answer has arrived since: with the last answer, or the post if that is later. The time
 *     of an answer is known from two polls, of which the first did not have it. Such errors are
 *     counted as "silence before";
 *   - sees each request complete once, in order; requests and receives after the failed one are
 *     flushed;
 *   - received the messages that were sent, complete and without a gap;
 *   - destroys all its objects without an error.
 *
 * Timeouts are short, so that a kill takes some milliseconds. A third program may stay on the
 * fabric meanwhile (--resident): then later processes must clear the objects of dead ones. With
 * --stops the victim is first stopped for a while (SIGSTOP), and the survivor must continue.
 *
 * Usage: kill_peers [--kills N] [--seed N] [--resident] [--stops] [--slack SECONDS] [--verbose]
 * Links libibverbs and libc. Exit code 1: one of these conditions was violated.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dropin/tests/killed/kill_peers.h"

struct shared *shared;

struct options {
	int kills;
	uint64_t seed;
	double slack;
	bool resident, verbose, stops;
};

struct totals {
	int unborn, errors, lost;
	int silent; /* errors whose silence began before the kill */
	double silent_ms;
	int stuck; /* survivors that did not continue while the victim was stopped */
	uint64_t sends, receives;
	double *late_ms; /* per error: time from the kill to the error, less the retries */
};

static uint64_t retries_ns(void)
{
	return (4096ull << shared->style.timeout) * (shared->style.retry_cnt + 1);
}

static void style_draw(const struct options *o, uint64_t *rng)
{
	struct style *s = &shared->style;

	s->timeout = 8 + (uint32_t)draw(rng, 5);
	s->retry_cnt = (uint32_t)draw(rng, 4);
	s->depth = 1 + (uint32_t)draw(rng, DEPTH_MAX);
	s->events = draw(rng, 3) == 0;
	s->srq = draw(rng, 4) == 0;
	s->two_entries = draw(rng, 4) == 0;
	s->two_hosts = draw(rng, 3) == 0;
	s->unaligned = draw(rng, 4) == 0;
	s->stops = o->stops;
	if (s->stops) /* a stopped process may sleep until the kill */
		s->events = false;
}

static void style_print(const struct style *s)
{
	printf("timeout %u, retry_cnt %u, depth %u%s%s%s%s%s\n", s->timeout, s->retry_cnt, s->depth,
	       s->events ? ", events" : ", polls", s->srq ? ", shared receives" : "",
	       s->two_entries ? ", scatter lists" : "", s->two_hosts ? ", two hosts" : ", one HCA",
	       s->unaligned ? ", memory by the kernel" : "");
}

static pid_t parent_start(int me, uint64_t seed)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(peer_run(me, seed));
	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	return pid;
}

/* Waits for the moment of the kill. One victim in four is killed before its first post, the others
 * after it. */
static void parent_await_moment(uint64_t *rng)
{
	bool early = draw(rng, 4) == 0;
	unsigned int us = (unsigned int)draw(rng, early ? 8000 : 5000);

	for (int i = 0; !early && i < 200000; i++) {
		if (__atomic_load_n(&shared->posting[0], __ATOMIC_ACQUIRE) &&
		    __atomic_load_n(&shared->posting[1], __ATOMIC_ACQUIRE))
			break;
		usleep(100);
	}
	usleep(us);
}

/* Returns the survivor's exit status; -1 if it did not end in time. */
static int parent_await(pid_t pid, double seconds)
{
	uint64_t until = now_ns() + (uint64_t)(seconds * 1e9);
	int status;

	while (now_ns() < until) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return status;
		usleep(200);
	}
	return -1;
}

static bool parent_judge(const struct options *o, int survivor, int status, struct totals *t)
{
	const struct result *r = &shared->result[survivor];
	uint64_t retries = retries_ns(), from = r->post_ns;

	if (status == -1)
		printf("the survivor still runs\n");
	else if (r->wrong[0])
		printf("the survivor: %s\n", r->wrong);
	else if (status)
		printf("the survivor ended with status 0x%x\n", status);
	if (status)
		return false;
	if (!r->failed_ns) { /* it never connected to the other */
		t->unborn++;
		return true;
	}
	t->sends += r->sends;
	t->receives += r->receives;
	if (from < r->clear_ns)
		from = r->clear_ns;
	if (r->failed_ns < from + retries) {
		printf("its error came %.3f ms after the last answer or the post, before its "
		       "retries of %.3f ms; %.3f ms after the kill\n",
		       (double)(r->failed_ns - from) / 1e6, (double)retries / 1e6,
		       ((double)r->failed_ns - (double)shared->kill_ns) / 1e6);
		return false;
	}
	if (r->failed_ns < shared->killed_ns) {
		t->lost++;
		return true;
	}
	if (r->failed_ns < shared->kill_ns + retries) {
		double ms = (double)(shared->kill_ns - from) / 1e6;

		t->silent++;
		t->silent_ms = ms > t->silent_ms ? ms : t->silent_ms;
	}
	if (from < shared->killed_ns)
		from = shared->killed_ns;
	double after_ms = (double)(r->failed_ns - from) / 1e6;

	t->late_ms[t->errors++] = after_ms - (double)retries / 1e6;
	if (after_ms * 1e6 > 4 * (double)retries + o->slack * 1e9) {
		printf("its error came %.3f ms after the kill; its retries are %.3f ms\n", after_ms,
		       (double)retries / 1e6);
		return false;
	}
	return true;
}

/* True if the fabric has no name in /proc/net/unix, because no member lives. */
static bool parent_gone(const char *fabric)
{
	FILE *f = fopen("/proc/net/unix", "r");
	char line[512];
	bool gone = true;

	while (f && fgets(line, sizeof line, f))
		if (strstr(line, "@doppel-fabric") && strstr(line, fabric)) {
			printf("left: %s", line);
			gone = false;
		}
	if (f)
		fclose(f);
	return gone;
}

/* Stops the victim. Returns true if the other process continues, wherever the victim was
 * stopped. */
static bool parent_stop(pid_t victim, int other, bool goes_on)
{
	uint64_t turns;
	bool turned = false;

	kill(victim, SIGSTOP);
	waitpid(victim, NULL, WUNTRACED);
	turns = __atomic_load_n(&shared->turns[other], __ATOMIC_RELAXED);
	for (int i = 0; i < 5000 && !turned; i++) { /* 5 s, where 1 ms should be enough */
		usleep(1000);
		/* the other may have ended, or not yet be posting */
		turned = __atomic_load_n(&shared->turns[other], __ATOMIC_RELAXED) > turns + 1 ||
			 shared->result[other].failed_ns || !shared->posting[other];
	}
	if (goes_on) {
		kill(victim, SIGCONT);
		usleep(3000);
	}
	return turned;
}

static bool parent_kill_one(const struct options *o, uint64_t *rng, struct totals *t)
{
	memset(shared, 0, sizeof *shared);
	style_draw(o, rng);
	int victim = (int)draw(rng, 2);
	pid_t pid[2];

	for (int i = 0; i < 2; i++)
		pid[i] = parent_start(i, draw(rng, 1ull << 30));
	parent_await_moment(rng);
	if (o->stops)
		t->stuck += !parent_stop(pid[victim], !victim, draw(rng, 2));
	shared->kill_ns = now_ns();
	kill(pid[victim], SIGKILL);
	__atomic_store_n(&shared->killed_ns, now_ns(), __ATOMIC_RELEASE);
	waitpid(pid[victim], NULL, 0);
	int status = parent_await(pid[!victim], (double)retries_ns() * 4e-9 + o->slack + 10);
	bool good = parent_judge(o, !victim, status, t);

	if (o->verbose || !good)
		style_print(&shared->style);
	if (status == -1) {
		printf("it is process %d\n", pid[!victim]);
		if (getenv("KILL_PEERS_STAY"))
			pause();
		kill(pid[!victim], SIGKILL);
		waitpid(pid[!victim], NULL, 0);
	}
	return good;
}

static pid_t parent_resident(void)
{
	pid_t pid = fork();

	if (pid == 0)
		peer_stay();
	for (int i = 0; i < 120000; i++) { /* two minutes */
		if (__atomic_load_n(&shared->resident_ready, __ATOMIC_ACQUIRE))
			return pid;
		if (pid < 0 || waitpid(pid, NULL, WNOHANG))
			break;
		usleep(1000);
	}
	printf("the one that stays does not come: %s\n", shared->result[0].wrong);
	if (pid > 0)
		kill(pid, SIGKILL);
	exit(1);
}

static bool parent_options(int argc, char **argv, struct options *o)
{
	static const struct option known[] = {{"kills", required_argument, NULL, 'k'},
					      {"seed", required_argument, NULL, 's'},
					      {"slack", required_argument, NULL, 'l'},
					      {"resident", no_argument, NULL, 'r'},
					      {"stops", no_argument, NULL, 'p'},
					      {"verbose", no_argument, NULL, 'v'},
					      {NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
		switch (c) {
		case 'k':
			o->kills = atoi(optarg);
			break;
		case 's':
			o->seed = strtoull(optarg, NULL, 0);
			break;
		case 'l':
			o->slack = atof(optarg);
			break;
		case 'r':
			o->resident = true;
			break;
		case 'p':
			o->stops = true;
			break;
		case 'v':
			o->verbose = true;
			break;
		default:
			return false;
		}
	return optind == argc;
}

static int totals_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void totals_print(const struct options *o, const struct totals *t)
{
	int n = t->errors, all = n + t->lost;

	printf("%d kills: %d survivors with a transport error, %d that never knew the other; %llu "
	       "requests and %llu messages, each accounted for\n",
	       all + t->unborn, all, t->unborn, (unsigned long long)t->sends,
	       (unsigned long long)t->receives);
	if (!n)
		return;
	printf("%d of them before the kill: the other was stopped, or the machine busy, for longer "
	       "than "
	       "the retries\n",
	       t->lost);
	printf("%d of them sooner than the retries after the kill: silence before, of %.2f ms at "
	       "most\n",
	       t->silent, t->silent_ms);
	if (o->stops)
		printf("%d were stuck while the other was stopped\n", t->stuck);
	qsort(t->late_ms, (size_t)n, sizeof t->late_ms[0], totals_compare);
	printf("the error came so much after kill + timeout * (retry_cnt + 1): median %.2f ms, 99 "
	       "of "
	       "100 %.2f ms, all %.2f ms\n",
	       t->late_ms[n / 2], t->late_ms[n * 99 / 100], t->late_ms[n - 1]);
}

int main(int argc, char **argv)
{
	struct options o = {.kills = 20, .seed = 1, .slack = 20};
	struct totals t = {0};
	char fabric[32];
	pid_t resident = 0;
	bool good = true;

	if (!parent_options(argc, argv, &o))
		return 2;
	t.late_ms = calloc((size_t)o.kills + 1, sizeof t.late_ms[0]);
	if (!t.late_ms)
		return 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(fabric, sizeof fabric, "kill-peers-%d", (int)getpid());
	setenv("DOPPEL_FABRIC", fabric, 1);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	if (o.resident)
		resident = parent_resident();
	for (int i = 0; good && i < o.kills; i++) {
		uint64_t rng = o.seed * 1000003 + (uint64_t)i;

		draw(&rng, 2);
		good = parent_kill_one(&o, &rng, &t);
		if (!good)
			printf("kill %d of seed %llu\n", i, (unsigned long long)o.seed);
	}
	if (resident) {
		kill(resident, SIGKILL);
		waitpid(resident, NULL, 0);
	}
	good = parent_gone(fabric) && good;
	/* a process waits for one that is stopped inside the lock of a table, which is held for
	 * nanoseconds */
	good = good && t.stuck <= o.kills / 4 && (t.errors || o.kills < 20);
	totals_print(&o, &t);
	return good ? 0 : 1;
}
