/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A scene of a rank that is late for a call of all ranks. It requests DUMP from RAS until the
 * answer names it, its call and the ranks that wait. Then it makes the call, and all succeed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/queries/queries.h"
#include "sim/lab/scene/scene.h"

#define LATE_LOOK_NS 20000000ull
#define LATE_LOOKS   250 /* a rank may reach its call seconds later */

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
		whole = lab_ras_dump(s->me, answer);
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
