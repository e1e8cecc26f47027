/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scenes of a rank that is late for a call of all ranks. In one it requests DUMP from RAS until the
 * answer names it, its call and the ranks that wait. In the other it requests the status, which has
 * the collective of which it has made fewer calls. Then it makes the call, and all succeed. In the
 * third it receives messages of ranks that have ended.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/queries/queries.h"
#include "sim/lab/scene/scene.h"

#define LATE_LOOK_NS 20000000ull
#define LATE_LOOKS   250         /* a rank may reach its call seconds later */
#define LATE_RECV_NS 50000000ull /* a receiver comes at most so late */
#define COUNTS_LOOKS 8           /* all ranks have made their calls; an answer may be late */

enum { LATE_SENDERS = 32, LATE_COUNT = SCENE_COUNT };
_Static_assert(LATE_SENDERS *LATE_COUNT * sizeof(int32_t) <= SCENE_BYTES / 2, "results fit");

enum late_call { LATE_SUM, LATE_INIT, LATE_SPLIT, LATE_RING, LATE_CALLS };

static const char *const late_names[LATE_CALLS] = {
	[LATE_SUM] = "has not called ncclAllReduce",
	[LATE_INIT] = "has not called ncclCommInitRank",
	[LATE_SPLIT] = "has not called ncclCommSplit",
	[LATE_RING] = "has not called ncclRecv",
};

/* "0-2", "1-3", "0, 2-3": the ranks without one. */
static void late_others(const struct scene *s, char *text, size_t bytes)
{
	int32_t runs[][2] = {{0, s->culprit - 1}, {s->culprit + 1, s->n - 1}};
	size_t at = 0;

	ASSERT(bytes > 0);
	text[0] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(runs); i++) {
		const int32_t *r = runs[i];
		const char *comma = at ? ", " : "";

		if (r[0] == r[1])
			at += (size_t)snprintf(text + at, bytes - at, "%s%d", comma, r[0]);
		else if (r[0] < r[1])
			at += (size_t)snprintf(text + at, bytes - at, "%s%d-%d", comma, r[0], r[1]);
		ASSERT(at < bytes);
	}
}

/* True if a line of the causes has the late rank, its call and all ranks that wait. */
static bool late_is_named(const struct scene *s, enum late_call call, const char *answer)
{
	const char *end = strstr(answer, "\nNCCL version ");
	char others[64], one[96], all[96];

	late_others(s, others, sizeof others);
	snprintf(one, sizeof one, ": rank %d %s", s->culprit, late_names[call]);
	if (call == LATE_RING)
		snprintf(all, sizeof all, "rank %d waits", (s->culprit + s->n - 1) % s->n);
	else
		snprintf(all, sizeof all, s->n > 2 ? "ranks %s wait" : "rank %s waits", others);
	for (const char *at = strstr(answer, one); at && at < end; at = strstr(at + 1, one)) {
		const char *line = strchr(at, '\n'), *waits = strstr(at, all);

		if (waits && waits < line)
			return true;
	}
	return false;
}

static void late_look(struct scene *s, enum late_call call)
{
	char *answer = malloc(LAB_RAS_BYTES);
	bool whole = answer != NULL, named = false;

	for (int i = 0; i < LATE_LOOKS && whole && !named; i++) {
		os_sleep_ns(LATE_LOOK_NS);
		whole = lab_ras_ask(s->me, "DUMP\n", answer);
		named = whole && late_is_named(s, call, answer);
	}
	if (!named) {
		scene_report(s, "DUMP", whole ? "does not name the late rank" : "has no answer");
		fprintf(stderr, "doppel: RAS answered:\n%s\n", answer ? answer : "");
	}
	free(answer);
}

static void late_split(struct scene *s)
{
	ncclResult_t rc;

	lab_call(s->me, "ncclCommSplit");
	rc = ncclCommSplit(s->comm[0], 0, s->me->rank, &s->comm[1], NULL);
	lab_call(s->me, NULL);
	scene_judge(s, "ncclCommSplit", rc, ncclSuccess);
}

static bool late_call(struct scene *s, enum late_call call)
{
	if (call == LATE_RING)
		return scene_ring(s, 0);
	if (call == LATE_SPLIT)
		late_split(s);
	if (call == LATE_INIT)
		(void)scene_open(s, 1);
	return call == LATE_SUM ? scene_sum(s, 0, SCENE_COUNT, NULL)
				: s->comm[1] && scene_sum(s, 1, SCENE_COUNT, NULL);
}

void scene_late(struct scene *s)
{
	enum late_call call = (enum late_call)sim_rng_below(&s->drawn, LATE_CALLS);

	if (!scene_open(s, 0) || !scene_sum(s, 0, SCENE_COUNT, NULL) || !lab_barrier(s->me))
		return;
	if (s->mine)
		late_look(s, call);
	if (late_call(s, call) && lab_barrier(s->me)) {
		scene_destroy(s, 1);
		scene_destroy(s, 0);
	}
}

/* ---- counts ---------------------------------------------------------------------------------- */

enum counts_call {
	COUNTS_BROADCAST,
	COUNTS_REDUCE,
	COUNTS_ALL_GATHER,
	COUNTS_REDUCE_SCATTER,
	COUNTS_ALL_REDUCE,
	COUNTS_CALLS
};

/* The names of the report. */
static const char *const counts_names[COUNTS_CALLS] = {
	[COUNTS_BROADCAST] = "Broadcast",  [COUNTS_REDUCE] = "Reduce",
	[COUNTS_ALL_GATHER] = "AllGather", [COUNTS_REDUCE_SCATTER] = "ReduceScatter",
	[COUNTS_ALL_REDUCE] = "AllReduce",
};

static ncclResult_t counts_make(struct scene *s, enum counts_call call)
{
	const size_t few = SCENE_COUNT / (size_t)s->n;
	int32_t *out = s->mem + SCENE_BYTES / 2 / sizeof *s->mem;
	ncclComm_t comm = s->comm[0];
	cudaStream_t stream = s->stream[0];

	switch (call) {
	case COUNTS_BROADCAST:
		return ncclBroadcast(s->mem, out, few, ncclInt32, s->culprit, comm, stream);
	case COUNTS_REDUCE:
		return ncclReduce(s->mem, out, few, ncclInt32, ncclSum, s->culprit, comm, stream);
	case COUNTS_ALL_GATHER:
		return ncclAllGather(s->mem, out, few, ncclInt32, comm, stream);
	case COUNTS_REDUCE_SCATTER:
		return ncclReduceScatter(s->mem, out, few, ncclInt32, ncclSum, comm, stream);
	default:
		return ncclAllReduce(s->mem, out, few, ncclInt32, ncclSum, comm, stream);
	}
}

/* Requests the status, until it has the line or lacks it. */
static void counts_look(struct scene *s, const char *line, bool has)
{
	const char *lines = sim_rng_below(&s->own, 2) ? "STATUS\n" : "VERBOSE STATUS\n";
	char *answer = malloc(LAB_RAS_BYTES), text[120];
	bool whole = answer != NULL, right = false;

	for (int i = 0; i < COUNTS_LOOKS && whole && !right; i++) {
		whole = lab_ras_ask(s->me, lines, answer);
		right = whole && (strstr(answer, line) != NULL) == has;
	}
	if (!right) {
		snprintf(text, sizeof text, "%s \"%s\"", has ? "lacks" : "has", line);
		scene_report(s, "STATUS", whole ? text : "has no answer");
		fprintf(stderr, "doppel: RAS answered:\n%s\n", answer ? answer : "");
	}
	free(answer);
}

/* The others have made their calls when the rank requests the status, and all have when it does so
 * again. */
void scene_counts(struct scene *s)
{
	enum counts_call call = (enum counts_call)sim_rng_below(&s->drawn, COUNTS_CALLS);
	ncclResult_t rc = ncclSuccess;
	char line[80];

	snprintf(line, sizeof line, "Communicator ranks have different %s operation counts",
		 counts_names[call]);
	if (!scene_open(s, 0) || !scene_sum(s, 0, SCENE_COUNT, NULL))
		return;
	if (!s->mine)
		rc = counts_make(s, call);
	if (!lab_barrier(s->me))
		return;
	if (s->mine) {
		counts_look(s, line, true);
		rc = counts_make(s, call);
	}
	scene_judge(s, "a collective", rc, ncclSuccess);
	if (rc || !scene_sync(s, 0) || !lab_barrier(s->me))
		return;
	if (s->mine)
		counts_look(s, line, false);
	if (lab_barrier(s->me))
		scene_destroy(s, 0);
}

/* ---- messages of ranks that have ended ------------------------------------------------------- */

/* The culprit receives from each other rank. */
static ncclResult_t receiver_messages(struct scene *s)
{
	int32_t *out = s->mem + SCENE_BYTES / 2 / sizeof *s->mem;
	ncclResult_t rc = ncclGroupStart(), end;

	for (int32_t r = 0; r < s->n && !rc; r++) {
		int32_t *at = s->mine ? out + (size_t)r * LATE_COUNT : s->mem;

		if (r == s->culprit)
			continue;
		if (s->mine)
			rc = ncclRecv(at, LATE_COUNT, ncclInt32, r, s->comm[0], s->stream[0]);
		else if (r == s->me->rank)
			rc = ncclSend(at, LATE_COUNT, ncclInt32, s->culprit, s->comm[0],
				      s->stream[0]);
	}
	lab_call(s->me, "ncclGroupEnd");
	end = ncclGroupEnd();
	lab_call(s->me, NULL);
	return rc ? rc : end;
}

static void receiver_check(struct scene *s)
{
	const int32_t *out = s->mem + SCENE_BYTES / 2 / sizeof *s->mem;
	cudaError_t e = cudaMemcpyAsync(s->host, out, LATE_COUNT * (size_t)s->n * sizeof *out,
					cudaMemcpyDefault, s->stream[0]);

	if (!s->mine || !scene_cuda(s, e, "cudaMemcpyAsync") || !scene_sync(s, 0))
		return;
	for (int32_t i = 0; i < s->n * LATE_COUNT; i++)
		if (i / LATE_COUNT != s->culprit && s->host[i] != i / LATE_COUNT + 1) {
			scene_report(s, "ncclRecv of a rank that has ended", "gave a wrong result");
			return;
		}
}

/* The messages of the others are on the way when these destroy the communicator. */
void scene_late_receiver(struct scene *s)
{
	uint64_t late_ns = sim_rng_below(&s->own, LATE_RECV_NS);
	ncclResult_t rc = ncclSuccess;

	if (s->n > LATE_SENDERS || !scene_open(s, 0) || !scene_fill(s, LATE_COUNT, s->me->rank + 1))
		return;
	for (int i = 0; i < 2 && !rc; i++) {
		if (!lab_barrier(s->me))
			return;
		if (s->mine)
			os_sleep_ns(late_ns);
		rc = receiver_messages(s);
		scene_judge(s, "ncclGroupEnd of messages", rc, ncclSuccess);
		if (rc || !scene_sync(s, 0))
			return;
	}
	receiver_check(s);
	scene_destroy(s, 0);
}
