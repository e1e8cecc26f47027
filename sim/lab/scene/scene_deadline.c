/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scenes of deadlines. The time of a launch begins when its stream has reached it: a series of
 * short launches may take any time. A launch of several calls has the shortest of their times, and
 * an init that of the process. Ranks whose calls differ get that verdict instead of a timeout, in
 * each process.
 */
#include <stdio.h>
#include <string.h>

#include "sim/lab/scene/scene.h"

#define DEADLINE_LAUNCHES 6
#define DEADLINE_LONG     60  /* a call that is not the one which ends first, as many times */
#define DEADLINE_CALL_MS  100 /* shortest deadline of a call */
#define DEADLINE_DOUBLES  7   /* the longest one: less than 2^7 times that */
#define DEADLINE_CALL_NS  1500000000ull /* turns of the ranks, and requests to all processes */
#define DEADLINE_ROOT_NS  1000000000ull /* ranks try to reach a root that has ended */
#define DEADLINE_AFTER    8 /* calls after one that differs: more than its data could end */

/* At most a quarter of the deadline later, and the rest of what the documents allow. */
static uint64_t deadline_bound_ns(uint64_t ms)
{
	return ms * 1250000 + DEADLINE_CALL_NS;
}

/* True if the line may be that of another error: without a communicator it is the process's latest
 * one. A rank that had the deadline earlier has closed its connections; a call that sees this logs
 * it after the line of the deadline. */
static bool deadline_may_be_other(const struct scene *s, const char *line)
{
	return !s->comm[0] && (s->me->run->config->ranks_per_proc > 1 ||
			       strstr(line, "(bootstrap: it failed, or was aborted)"));
}

/* The line of the error must name the culprit. Ranks of a process share one. */
static void deadline_names(struct scene *s, const char *call, int32_t rank, const char *does)
{
	const char *line = ncclGetLastError(s->comm[0]);
	char want[48], text[400];

	ASSERT(rank >= 0 && rank < s->n);
	snprintf(want, sizeof want, "rank %d%s", rank, does);
	if (strstr(line, want) || deadline_may_be_other(s, line))
		return;
	snprintf(text, sizeof text, "ncclGetLastError is \"%s\", expected that %s", line, want);
	scene_report(s, call, text);
}

/* In each launch another rank is late by three eighths of the time. All together take twice the
 * time, and so does the pause after the first messages have connected the ranks. */
void scene_short_launches(struct scene *s)
{
	bool messages = sim_rng_below(&s->drawn, 2);
	ncclResult_t async = ncclInternalError;

	ASSERT(s->timeout_ms > 0); /* SCENE_TIMED */
	if (!scene_open(s, 0) || (messages && !scene_ring(s, 0)))
		return;
	for (int32_t i = 0; i < DEADLINE_LAUNCHES; i++) {
		if ((s->culprit + i) % s->n == s->me->rank)
			os_sleep_ns(s->timeout_ms * 375000);
		if (!scene_sum(s, 0, SCENE_COUNT, NULL))
			return;
	}
	os_sleep_ns(s->timeout_ms * 1500000);
	scene_judge(s, "ncclCommGetAsyncError", ncclCommGetAsyncError(s->comm[0], &async),
		    ncclSuccess);
	scene_judge(s, "an asynchronous error", async, ncclSuccess);
	if (lab_barrier(s->me))
		scene_destroy(s, 0);
}

static ncclResult_t deadline_call(struct scene *s, int ms)
{
	int32_t *result = s->mem + SCENE_BYTES / 2 / sizeof *s->mem;
	ncclConfigExt_t ext = {
		.key = {.vendorId = NCCL_DOPPEL_VENDOR, .optionId = NCCL_DOPPEL_OPTION_TIMEOUT_MS},
		.val.i = ms};
	ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;

	config.ext = &ext;
	return ncclAllReduceConfig(s->mem, result, SCENE_COUNT, ncclInt32, ncclSum, s->comm[0],
				   s->stream[0], &config);
}

/* Deadlines of all sizes: as many from 0.2 to 0.4 s as from 6.4 to 12.8 s. */
static int deadline_draw_ms(struct scene *s)
{
	uint64_t least = (uint64_t)DEADLINE_CALL_MS << sim_rng_below(&s->drawn, DEADLINE_DOUBLES);

	return (int)(least + sim_rng_below(&s->drawn, least));
}

/* One group of two calls. The culprit comes when the shorter time is over, and the longer one is
 * not. No call ends before its time. */
void scene_shortest_deadline(struct scene *s)
{
	int ms = deadline_draw_ms(s);
	uint64_t start_ns;
	ncclResult_t rc, one, two;

	ASSERT(s->n > 1); /* the culprit is late for others */
	if (!scene_open(s, 0) || !scene_sum(s, 0, SCENE_COUNT, NULL) || !lab_barrier(s->me))
		return;
	if (s->mine) {
		os_sleep_ns(2 * deadline_bound_ns((uint64_t)ms));
		scene_learn(s, 0, 0, ncclTimeout);
		scene_judge(s, "ncclAllReduce", deadline_call(s, ms), ncclTimeout);
	} else {
		start_ns = os_now_ns();
		rc = ncclGroupStart();
		one = deadline_call(s, ms);
		two = deadline_call(s, DEADLINE_LONG * ms);
		lab_call(s->me, "ncclGroupEnd");
		rc = rc ? rc : ncclGroupEnd();
		lab_call(s->me, NULL);
		scene_judge(s, "ncclGroupEnd", one ? one : two ? two : rc, ncclSuccess);
		scene_learn(s, 0, deadline_bound_ns((uint64_t)ms), ncclTimeout);
		if (os_now_ns() - start_ns < (uint64_t)ms * 1000000)
			scene_report(s, "ncclGroupEnd", "has timed out before the deadline");
	}
	if (lab_barrier(s->me))
		scene_abort(s, 0);
}

/* The root reports at the deadline of the first rank. The culprit comes when the others have left.
 * In half of the scenes those come one by one, which does not make the time longer. */
void scene_absent(struct scene *s)
{
	const uint64_t gap_ns = sim_rng_below(&s->drawn, 2) * s->timeout_ms * 750000;
	int32_t turn = (s->me->rank + s->n - s->culprit - 1) % s->n; /* the culprit's is the last */
	uint64_t late_ns = s->timeout_ms * 1125000 + DEADLINE_ROOT_NS;
	uint64_t start_ns, ns;
	ncclComm_t comm = NULL;
	ncclResult_t rc;

	os_sleep_ns(s->mine ? s->n * gap_ns + 2 * deadline_bound_ns(s->timeout_ms)
			    : (uint64_t)turn * gap_ns);
	start_ns = os_now_ns();
	lab_call(s->me, "ncclCommInitRank with an absent rank");
	rc = scene_init(s, 0, &comm);
	lab_call(s->me, NULL);
	ns = os_now_ns() - start_ns;
	/* a rank that comes when others have left may find no root */
	if ((!s->mine && turn * gap_ns < s->timeout_ms * 1000000) || rc != ncclRemoteError)
		scene_judge(s, "ncclCommInitRank with an absent rank", rc, ncclTimeout);
	if (!s->mine && !gap_ns && rc == ncclTimeout)
		deadline_names(s, "ncclCommInitRank with an absent rank", s->culprit,
			       " has not called");
	if (comm)
		scene_report(s, "ncclCommInitRank with an absent rank", "left a communicator");
	/* the time of several roots begins with the first rank of each */
	if (s->roots > 1)
		late_ns += (uint64_t)s->n * gap_ns;
	if (turn == 0 && ns > late_ns)
		scene_report(s, "ncclCommInitRank with an absent rank",
			     "has returned long after the deadline");
}

/* The end of a message at the culprit, or at its neighbour. */
static ncclResult_t deadline_message(struct scene *s, bool sends, int32_t peer)
{
	int32_t *result = s->mem + SCENE_BYTES / 2 / sizeof *s->mem;
	ncclResult_t rc;

	lab_call(s->me, sends ? "ncclSend" : "ncclRecv");
	rc = sends ? ncclSend(s->mem, SCENE_COUNT, ncclInt32, peer, s->comm[0], s->stream[0])
		   : ncclRecv(result, SCENE_COUNT, ncclInt32, peer, s->comm[0], s->stream[0]);
	lab_call(s->me, NULL);
	return rc;
}

enum lonely {
	LONELY_CONNECTED, /* the next rank receives from the culprit; their kernel waits */
	LONELY_ONE,       /* the culprit has a message of the next rank */
	LONELY_ALIKE,     /* both of them send, or receive */
	LONELY_ALL,       /* all others have a message of the culprit */
	LONELY_KINDS
};

/* True if the line is that of a message of rank `of` and of `peer`. */
static bool lonely_is_of(const char *line, int32_t of, int32_t peer)
{
	char from[32], to[32];

	snprintf(from, sizeof from, "rank %d: nccl", of);
	snprintf(to, sizeof to, " rank %d, message", peer);
	const char *at = strstr(line, from);

	return at && strstr(at, to);
}

/* The line that all ranks have must be that of a message which waits. */
static void lonely_named(struct scene *s, const char *call, enum lonely kind)
{
	int32_t next = (s->culprit + 1) % s->n;
	const char *line = ncclGetLastError(s->comm[0]);
	bool named = deadline_may_be_other(s, line);
	char text[400];

	if (kind == LONELY_ONE || kind == LONELY_ALIKE)
		named |= lonely_is_of(line, s->culprit, next);
	if (kind == LONELY_CONNECTED || kind == LONELY_ALIKE)
		named |= lonely_is_of(line, next, s->culprit);
	for (int32_t r = 0; r < s->n && kind == LONELY_ALL; r++)
		named |= lonely_is_of(line, r, s->culprit);
	snprintf(text, sizeof text, "ncclGetLastError is \"%s\", expected the two ranks", line);
	if (!named)
		scene_report(s, call, text);
}

/* A second task reads the line of two ranks that both send, or both receive, long before the
 * deadline. */
struct alike {
	struct scene *s;
	char want[96], line[200];
	struct os_thread *task;
};

static void alike_task(void *arg)
{
	struct alike *a = arg;

	os_sleep_ns(a->s->timeout_ms * 500000);
	snprintf(a->line, sizeof a->line, "%s", ncclGetLastError(a->s->comm[0]));
}

static void alike_start(struct alike *a, int32_t peer, bool sends)
{
	const struct lab_config *c = a->s->me->run->config;
	const int32_t rank = a->s->me->rank;

	if (c->polls && c->queries)
		return; /* the task that polls makes refused calls (lab_queries_beside) */
	snprintf(a->want, sizeof a->want, "rank %d and rank %d both %s; neither has called %s",
		 MIN_OF(rank, peer), MAX_OF(rank, peer), sends ? "send" : "receive",
		 sends ? "ncclRecv" : "ncclSend");
	if (os_task_start(&a->task, rank, "reads", alike_task, a))
		scene_report(a->s, "ncclGetLastError", "has no task");
}

static void alike_end(struct alike *a)
{
	char text[400];

	if (!a->task)
		return;
	os_thread_join(a->task);
	snprintf(text, sizeof text, "is \"%s\" before the deadline, expected that %s", a->line,
		 a->want);
	if (!strstr(a->line, a->want))
		scene_report(a->s, "ncclGetLastError", text);
}

/* A message that has one end, or two of the same direction. The call itself waits if its ranks are
 * not connected. A short send to a connected rank would not. All ranks learn of the deadline. */
void scene_lonely(struct scene *s)
{
	static const enum lonely kinds[] = {LONELY_CONNECTED, LONELY_ONE, LONELY_ALIKE,
					    LONELY_ALIKE, LONELY_ALL};
	enum lonely kind = kinds[sim_rng_below(&s->drawn, ARRAY_LEN(kinds))];
	bool sends = sim_rng_below(kind == LONELY_ALL ? &s->own : &s->drawn, 2);
	int32_t next = (s->culprit + 1) % s->n, peer = s->mine ? next : s->culprit;
	bool is_next = s->me->rank == next;
	const bool calls[LONELY_KINDS] = {is_next, s->mine, s->mine || is_next, !s->mine};
	const char *call = "a message without its other end";
	struct alike alike = {.s = s};
	uint64_t start_ns;
	ncclResult_t rc = ncclSuccess;

	if (!scene_open(s, 0) || (kind == LONELY_CONNECTED && !scene_ring(s, 0)) ||
	    !lab_barrier(s->me))
		return;
	start_ns = os_now_ns();
	if (kind == LONELY_ALIKE && calls[kind])
		alike_start(&alike, peer, sends);
	if (calls[kind])
		rc = deadline_message(s, sends && kind != LONELY_CONNECTED, peer);
	scene_judge(s, call, rc,
		    kind == LONELY_CONNECTED || !calls[kind] ? ncclSuccess : ncclTimeout);
	if (os_now_ns() - start_ns > deadline_bound_ns(s->timeout_ms))
		scene_report(s, call, "has returned long after the deadline");
	alike_end(&alike);
	scene_learn(s, 0, deadline_bound_ns(s->timeout_ms), ncclTimeout);
	lonely_named(s, call, kind);
	if (lab_barrier(s->me))
		scene_abort(s, 0);
}

enum differ { DIFFER_COUNT, DIFFER_OP, DIFFER_TYPE, DIFFER_CALL, DIFFER_ROOT, DIFFERS };

/* `differs`: the call of the one rank. Collectives with a root differ in it. */
static ncclResult_t differ_call(struct scene *s, enum differ how, bool differs, bool reduces)
{
	int32_t *result = s->mem + SCENE_BYTES / 2 / sizeof *s->mem;
	size_t count = differs && how == DIFFER_COUNT ? SCENE_COUNT / 2 : SCENE_COUNT;
	ncclRedOp_t op = differs && how == DIFFER_OP ? ncclMax : ncclSum;
	ncclDataType_t type = differs && how == DIFFER_TYPE ? ncclFloat32 : ncclInt32;
	int32_t root = differs ? (s->culprit + 1) % s->n : s->culprit;

	if (how == DIFFER_ROOT && reduces)
		return ncclReduce(s->mem, result, count, type, op, root, s->comm[0], s->stream[0]);
	if (how == DIFFER_ROOT || (how == DIFFER_CALL && differs))
		return ncclBroadcast(s->mem, result, count, type, root, s->comm[0], s->stream[0]);
	return ncclAllReduce(s->mem, result, count, type, op, s->comm[0], s->stream[0]);
}

/* One rank has another call, and then none: calls of some kinds end although they differ. The data
 * that two roots have sent, and no rank has received, may end the next call of the others as well.
 * The culprit is the first rank, the last one, or any. */
void scene_differ(struct scene *s)
{
	int32_t ends[] = {0, s->n - 1, s->culprit};
	int32_t culprit = ends[sim_rng_below(&s->drawn, ARRAY_LEN(ends))];
	bool mine = culprit == s->me->rank, reduces = sim_rng_below(&s->drawn, 2);
	enum differ how = (enum differ)sim_rng_below(&s->drawn, DIFFERS);
	ncclResult_t rc;

	ASSERT(s->me->run->config->uncompared); /* else the call itself is refused */
	if (!scene_open(s, 0) || !scene_sum(s, 0, SCENE_COUNT, NULL) || !lab_barrier(s->me))
		return;
	rc = differ_call(s, how, mine, reduces);
	if (!rc && !mine)
		rc = differ_call(s, DIFFERS, false, false);
	scene_judge(s, "a call that differs", rc, ncclSuccess);
	/* a launch may wait until the deadline for room in a queue */
	for (int i = 1; i < DEADLINE_AFTER && !rc && !mine; i++)
		rc = differ_call(s, DIFFERS, false, false);
	if (rc)
		scene_judge(s, "a call after one that differs", rc, ncclInvalidUsage);
	scene_learn(s, 0, 4 * deadline_bound_ns(s->timeout_ms), ncclInvalidUsage);
	deadline_names(s, "a call that differs", culprit, ": call 1 is");
	if (lab_barrier(s->me))
		scene_abort(s, 0);
}

enum absent_from {
	ABSENT_SUM,
	ABSENT_SPLIT,
	ABSENT_SUSPEND,  /* ranks of one host meet in it */
	ABSENT_FINALIZE, /* waits for a collective */
	ABSENT_DESTROY,
	ABSENT_CALLS
};

static ncclResult_t absent_make(struct scene *s, enum absent_from call)
{
	int32_t *result = s->mem + SCENE_BYTES / 2 / sizeof *s->mem;
	ncclResult_t rc = ncclSuccess;

	if (call != ABSENT_SPLIT && call != ABSENT_SUSPEND)
		rc = ncclAllReduce(s->mem, result, SCENE_COUNT, ncclInt32, ncclSum, s->comm[0],
				   s->stream[0]);
	if (rc)
		return rc;
	switch (call) {
	case ABSENT_SPLIT:
		rc = ncclCommSplit(s->comm[0], 0, s->me->rank, &s->comm[1], NULL);
		break;
	case ABSENT_SUSPEND:
		return ncclCommSuspend(s->comm[0], NCCL_SUSPEND_MEM);
	case ABSENT_FINALIZE:
		return ncclCommFinalize(s->comm[0]);
	case ABSENT_DESTROY:
		rc = ncclCommDestroy(s->comm[0]);
		s->comm[0] = NULL;
		break;
	default:
		break;
	}
	return rc;
}

/* The culprit does not make a call in which the others wait for it. All learn of the deadline, and
 * the streams are free. */
void scene_absent_call(struct scene *s)
{
	enum absent_from call = (enum absent_from)sim_rng_below(&s->drawn, ABSENT_CALLS);
	const char *name = "a call with an absent rank";
	uint64_t start_ns;
	ncclResult_t rc = ncclSuccess;

	if (call == ABSENT_SUSPEND && s->me->run->config->hosts > 1)
		call = ABSENT_SPLIT;
	if (!scene_open(s, 0) || !scene_sum(s, 0, SCENE_COUNT, NULL) || !lab_barrier(s->me))
		return;
	start_ns = os_now_ns();
	lab_call(s->me, name);
	if (!s->mine)
		rc = absent_make(s, call);
	lab_call(s->me, NULL);
	scene_judge(s, name, rc, s->mine || call == ABSENT_SUM ? ncclSuccess : ncclTimeout);
	if (s->comm[1])
		scene_report(s, name, "gave a communicator");
	if (os_now_ns() - start_ns > deadline_bound_ns(s->timeout_ms))
		scene_report(s, name, "has returned long after the deadline");
	if (s->comm[0])
		scene_learn(s, 0, deadline_bound_ns(s->timeout_ms), ncclTimeout);
	if (!s->mine)
		deadline_names(s, name, s->culprit, " has not called");
	if (scene_sync(s, 0) && lab_barrier(s->me))
		scene_abort(s, 0);
}
