/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A scene of a window at its edges. All ranks register a window of any size, at places of their own
 * memory that differ. Queries have offsets and ranks that are just inside and just outside. Calls
 * have buffers that are the window, a part of it, or reach into it by a byte. While such a call is
 * in an open group, or its kernel runs, the window cannot be deregistered; beside one that does not
 * reach into it, it can. A second task of the rank queries its address all the time.
 */
#include <limits.h>

#include "core/include/nccl_device.h"
#include "sim/lab/scene/scene.h"

enum {
	WINDOW_PAGE = NCCL_WIN_REQUIRED_ALIGNMENT,
	WINDOW_PLACES = 3,             /* of the window in the rank's memory, after one page */
	WINDOW_MOST = 2 * WINDOW_PAGE, /* bytes of a window */
	WINDOW_MEMORY = WINDOW_PLACES * WINDOW_PAGE + WINDOW_MOST + WINDOW_PAGE,
	WINDOW_CALLS = 4,
	WINDOW_QUERIES = 8,
};
_Static_assert((int)WINDOW_MEMORY <= (int)SCENE_BYTES, "the program has room for a copy");

#define WINDOW_ASK_NS 200000ull /* the second task sleeps at most so long between two queries */

enum window_reach {
	REACH_WHOLE,
	REACH_INSIDE,
	REACH_FIRST_BYTE,
	REACH_LAST_BYTE,
	REACH_IN,     /* from before the window into it */
	REACH_OUT,    /* from the window to after it */
	REACH_AROUND, /* from before the window to after it */
	REACH_BEFORE, /* ends where the window begins */
	REACH_AFTER,  /* begins where the window ends */
	REACHES
};

/* The bytes of a call, counted from the first one of the window. */
struct window_range {
	int64_t from, end;
};

struct windows {
	struct scene *s;
	uint8_t *memory, *at; /* of the rank; of its window */
	size_t bytes;
	int flags;
	ncclWindow_t win; /* NULL: deregistered, or the ranks have no direct access */
	bool ok;
	/* the second task */
	struct os_thread *task;
	ncclWindow_t asked; /* atomic; any handle that the window has had */
	shared_u32 over;
	struct sim_rng rng;
};

/* ---- queries --------------------------------------------------------------------------------- */

static ncclResult_t window_ask(bool in_team, ncclWindow_t win, size_t offset, int rank, void **at)
{
	return in_team ? ncclGetLsaDevicePointer(win, offset, rank, at)
		       : ncclGetPeerDevicePointer(win, offset, rank, at);
}

/* The address is known of ranks of this process. */
static void window_judge_address(struct windows *w, const char *call, int rank, size_t offset,
				 const uint8_t *got)
{
	const struct lab_run *run = w->s->me->run;
	const struct lab_rank *it = rank < run->count ? &run->rank[rank] : NULL;

	if (it && it->proc == w->s->me->proc && got != (uint8_t *)it->scene_window + offset)
		scene_report(w->s, call, "gave another address");
}

static void window_query(struct windows *w)
{
	const size_t offsets[] = {0,
				  1,
				  w->bytes - 1,
				  w->bytes,
				  w->bytes + 1,
				  SIZE_MAX,
				  (size_t)sim_rng_below(&w->s->own, w->bytes)};
	const int ranks[] = {-1, 0, w->s->me->rank, w->s->n - 1, w->s->n, INT_MAX};
	size_t offset = offsets[sim_rng_below(&w->s->own, ARRAY_LEN(offsets))];
	int rank = ranks[sim_rng_below(&w->s->own, ARRAY_LEN(ranks))];
	bool in_team = sim_rng_below(&w->s->own, 3) == 0;
	const char *call = in_team ? "ncclGetLsaDevicePointer" : "ncclGetPeerDevicePointer";
	void *at = w;

	if (in_team && rank > 0) /* each team has a first rank, and none has n + 1 */
		rank = w->s->n;
	bool fits = w->win && offset < w->bytes && rank >= 0 && rank < w->s->n;

	scene_judge(w->s, call, window_ask(in_team, w->win, offset, rank, &at),
		    fits ? ncclSuccess : ncclInvalidArgument);
	if (!fits && at)
		scene_report(w->s, call, "gave an address with an error");
	else if (fits && !in_team)
		window_judge_address(w, call, rank, offset, at);
}

/* The address of the rank's own memory. Ranks without direct access have windows that are NULL.
 * Beside ranks with NCCL_WIN_ENABLE=0 all windows are NULL, and a rank that could have some refuses
 * NULL. */
static void window_query_own(struct windows *w)
{
	static const char call[] = "ncclWinGetUserPtr";
	const bool possible = __atomic_load_n(&w->asked, __ATOMIC_ACQUIRE) != NULL;
	void *at = w;
	ncclResult_t rc = ncclWinGetUserPtr(w->s->comm[0], w->win, &at);

	if (w->win || !lab_has_env(w->s->me->run->config, "NCCL_WIN_ENABLE"))
		scene_judge(w->s, call, rc,
			    w->win || !possible ? ncclSuccess : ncclInvalidArgument);
	if (at != (w->win ? w->at : NULL))
		scene_report(w->s, call, "gave another address");
	scene_judge(w->s, call, ncclWinGetUserPtr(w->s->comm[0], w->win, NULL),
		    ncclInvalidArgument);
}

static void window_queries(struct windows *w)
{
	window_query_own(w);
	for (int i = 0; i < WINDOW_QUERIES; i++)
		window_query(w);
}

/* Every window of the scene has the same buffer. */
static void window_task(void *arg)
{
	struct windows *w = arg;

	while (!shared_load_u32(&w->over, SHARED_ACQUIRE)) {
		ncclWindow_t win = __atomic_load_n(&w->asked, __ATOMIC_ACQUIRE);
		size_t offset = (size_t)sim_rng_below(&w->rng, w->bytes);
		void *at = NULL;
		ncclResult_t rc = ncclGetPeerDevicePointer(win, offset, w->s->me->rank, &at);

		if (rc ? rc != ncclInvalidArgument : at != w->at + offset)
			scene_report(w->s, "ncclGetPeerDevicePointer in another task",
				     "gave another answer");
		os_sleep_ns(1 + sim_rng_below(&w->rng, WINDOW_ASK_NS));
	}
}

/* ---- the window ------------------------------------------------------------------------------ */

static void window_register(struct windows *w)
{
	lab_call(w->s->me, "ncclCommWindowRegister");
	ncclResult_t rc = ncclCommWindowRegister(w->s->comm[0], w->at, w->bytes, &w->win, w->flags);

	lab_call(w->s->me, NULL);
	scene_judge(w->s, "ncclCommWindowRegister", rc, ncclSuccess);
	w->ok = w->ok && rc == ncclSuccess;
	if (w->win)
		__atomic_store_n(&w->asked, w->win, __ATOMIC_RELEASE);
}

/* `used`: a call that has not ended uses it. */
static void window_deregister(struct windows *w, bool used)
{
	ncclResult_t rc = ncclCommWindowDeregister(w->s->comm[0], w->win);

	scene_judge(w->s, "ncclCommWindowDeregister", rc,
		    used && w->win ? ncclInvalidUsage : ncclSuccess);
	w->ok = w->ok && rc == (used && w->win ? ncclInvalidUsage : ncclSuccess);
	if (!rc)
		w->win = NULL;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int64_t window_below(struct windows *w, size_t n)
{
	return (int64_t)sim_rng_below(&w->s->drawn, n);
}

/* The same on all ranks. */
static struct window_range window_draw(struct windows *w)
{
	const int64_t end = (int64_t)w->bytes, before = -1 - window_below(w, WINDOW_PAGE);
	const int64_t in = window_below(w, w->bytes), after = end + 1 + window_below(w, 100);

	switch ((enum window_reach)window_below(w, REACHES)) {
	case REACH_INSIDE:
		return (struct window_range){in, in + 1 + window_below(w, w->bytes - (size_t)in)};
	case REACH_FIRST_BYTE:
		return (struct window_range){0, 1};
	case REACH_LAST_BYTE:
		return (struct window_range){end - 1, end};
	case REACH_IN:
		return (struct window_range){before, in + 1};
	case REACH_OUT:
		return (struct window_range){in, after};
	case REACH_AROUND:
		return (struct window_range){before, after};
	case REACH_BEFORE:
		return (struct window_range){before, 0};
	case REACH_AFTER:
		return (struct window_range){end, after};
	default:
		return (struct window_range){0, end};
	}
}

static bool window_is_used(const struct windows *w, const struct window_range *r)
{
	return r->from < (int64_t)w->bytes && r->end > 0;
}

static bool window_fill(struct windows *w)
{
	return scene_cuda(
		w->s,
		cudaMemsetAsync(w->memory, w->s->me->rank + 1, WINDOW_MEMORY, w->s->stream[0]),
		"cudaMemsetAsync");
}

static ncclResult_t window_sum(struct windows *w, const struct window_range *r)
{
	uint8_t *at = w->at + r->from;

	ASSERT(at >= w->memory && w->at + r->end <= w->memory + WINDOW_MEMORY);
	return ncclAllReduce(at, at, (size_t)(r->end - r->from), ncclUint8, ncclSum, w->s->comm[0],
			     w->s->stream[0]);
}

/* The sum is in the bytes of the call; the others are as they were. */
static void window_check(struct windows *w, const struct window_range *r)
{
	const uint8_t *got = (const uint8_t *)w->s->host, mine = (uint8_t)(w->s->me->rank + 1);
	const uint8_t sum = (uint8_t)(w->s->n * (w->s->n + 1) / 2);
	const int64_t first = w->at - w->memory;
	cudaError_t e = cudaMemcpyAsync(w->s->host, w->memory, WINDOW_MEMORY, cudaMemcpyDefault,
					w->s->stream[0]);

	w->ok = scene_cuda(w->s, e, "cudaMemcpyAsync") && scene_sync(w->s, 0) && w->ok;
	for (int64_t i = -first; i < WINDOW_MEMORY - first && w->ok; i++) {
		bool in = i >= r->from && i < r->end;

		w->ok = got[first + i] == (in ? sum : mine);
		if (!w->ok)
			scene_report(w->s, "ncclAllReduce", "gave a wrong result");
	}
}

/* A group with a refused call launches nothing. */
static void window_in_group(struct windows *w, const struct window_range *r)
{
	const struct window_range nothing = {0};
	bool refused = window_is_used(w, r) && w->win;
	ncclResult_t rc = ncclGroupStart(), end;

	if (!rc)
		rc = window_sum(w, r);
	scene_judge(w->s, "ncclAllReduce in a group", rc, ncclSuccess);
	window_deregister(w, refused);
	lab_call(w->s->me, "ncclGroupEnd");
	end = ncclGroupEnd();
	lab_call(w->s->me, NULL);
	scene_judge(w->s, "ncclGroupEnd after ncclCommWindowDeregister", end,
		    refused ? ncclInvalidUsage : ncclSuccess);
	w->ok = w->ok && end == (refused ? ncclInvalidUsage : ncclSuccess);
	window_check(w, refused ? &nothing : r);
}

/* The kernels of the others wait for the culprit. */
static void window_in_kernel(struct windows *w, const struct window_range *r)
{
	if (w->s->mine)
		w->ok = lab_barrier(w->s->me) && w->ok;
	ncclResult_t rc = window_sum(w, r);

	scene_judge(w->s, "ncclAllReduce", rc, ncclSuccess);
	w->ok = w->ok && rc == ncclSuccess;
	if (!w->s->mine) {
		window_deregister(w, window_is_used(w, r));
		w->ok = lab_barrier(w->s->me) && w->ok;
	}
	window_check(w, r);
}

/* ---- the scene ------------------------------------------------------------------------------- */

/* A whole number of pages, or any number of bytes. */
static size_t window_draw_bytes(struct scene *s)
{
	const size_t bytes[] = {WINDOW_PAGE, WINDOW_MOST, 1,
				1 + (size_t)sim_rng_below(&s->drawn, WINDOW_MOST)};

	return bytes[sim_rng_below(&s->drawn, ARRAY_LEN(bytes))];
}

static bool window_begin(struct windows *w)
{
	struct scene *s = w->s;
	ncclResult_t rc = ncclMemAlloc((void **)&w->memory, WINDOW_MEMORY);

	scene_judge(s, "ncclMemAlloc", rc, ncclSuccess);
	if (rc)
		return false;
	w->at = w->memory + WINDOW_PAGE * (1 + sim_rng_below(&s->own, WINDOW_PLACES));
	w->bytes = window_draw_bytes(s);
	/* a call uses a program on windows if its buffers are in windows of all ranks */
	w->flags = sim_rng_below(&s->drawn, 2) ? NCCL_WIN_COLL_SYMMETRIC : NCCL_WIN_DEFAULT;
	sim_rng_seed(&w->rng, sim_rng_u64(&s->own), "lab.window_task");
	s->me->scene_window = w->at;
	if (os_task_start(&w->task, s->me->rank, "asks", window_task, w))
		scene_report(s, "ncclGetPeerDevicePointer", "has no task");
	return w->task && lab_barrier(s->me);
}

static void window_end(struct windows *w)
{
	shared_store_u32(&w->over, 1, SHARED_RELEASE);
	if (w->task)
		os_thread_join(w->task);
	if (w->ok)
		window_deregister(w, false);
	if (w->ok && lab_barrier(w->s->me))
		scene_destroy(w->s, 0);
	scene_abort(w->s, 0);
	if (w->memory)
		scene_judge(w->s, "ncclMemFree", ncclMemFree(w->memory), ncclSuccess);
}

static void window_round(struct windows *w)
{
	const struct window_range r = window_draw(w);
	bool in_group = sim_rng_below(&w->s->drawn, 2);

	if (!w->win)
		window_register(w);
	window_queries(w);
	w->ok = w->ok && window_fill(w) && scene_sync(w->s, 0) && lab_barrier(w->s->me);
	if (!w->ok)
		return;
	if (in_group)
		window_in_group(w, &r);
	else
		window_in_kernel(w, &r);
	if (w->ok && w->win)
		window_deregister(w, false);
	window_queries(w);
	/* the window of another rank of the process is its memory */
	w->ok = w->ok && lab_barrier(w->s->me);
}

void scene_window(struct scene *s)
{
	struct windows w = {.s = s, .ok = true};

	if (!scene_open(s, 0) || !scene_sum(s, 0, SCENE_COUNT, NULL))
		return;
	w.ok = window_begin(&w);
	for (int i = 0; i < WINDOW_CALLS && w.ok; i++)
		window_round(&w);
	window_end(&w);
}
