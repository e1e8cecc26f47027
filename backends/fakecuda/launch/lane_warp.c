/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barriers and warp operations of kernels from PTX (ptx/lane.h).
 *
 * The lanes of a mask meet: each brings a value and waits, and the last one computes the result of
 * each. Lanes of one warp can meet in several groups at the same time, with masks that share no
 * lane. A group takes one of the warp's 32 places while its lanes come. A lane gets its result with
 * its arrival, so that the next group can use the place before all have resumed.
 */
#include "backends/fakecuda/launch/lane_run.h"

/* ---- meetings ------------------------------------------------------------------------------- */

static uint32_t lane_exited(const struct dev *d)
{
	return __atomic_load_n(&d->blk->warp[d->thread / 32].gone, __ATOMIC_RELAXED);
}

uint32_t ptx_lanes(struct ptx_lane *l)
{
	const struct dev *d = lane_dev(l);
	uint32_t first = d->thread - d->thread % 32, n = MIN_OF(d->nthreads - first, 32u);

	return n == 32 ? ~0u : (1u << n) - 1;
}

/* The place where lanes of this mask come, or a free one. Places never run out: each has a lane. */
static struct lane_meeting *lane_meeting_find(struct run_warp *w, uint32_t mask)
{
	struct lane_meeting *unused = NULL;

	for (size_t i = 0; i < ARRAY_LEN(w->meeting); i++) {
		struct lane_meeting *m = &w->meeting[i];
		if (m->here && m->mask == mask)
			return m;
		if (!m->here && !unused)
			unused = m;
	}
	ASSERT(unused);
	unused->mask = mask;
	return unused;
}

/* Lanes that are not in the mask, or that have exited, never come. */
static uint32_t lane_mask_check(struct ptx_lane *l, uint32_t mask, const char *what)
{
	uint32_t present = mask & ptx_lanes(l), exited = present & lane_exited(lane_dev(l));

	if (!(mask >> l->laneid & 1))
		lane_trap(l, cudaErrorLaunchFailure,
			  "%s: lane %u calls with mask 0x%x, which it is not in", what, l->laneid,
			  mask);
	if (exited)
		lane_trap(l, cudaErrorLaunchFailure,
			  "%s: mask 0x%x has lanes 0x%x, which have exited", what, mask, exited);
	return present;
}

static void lane_meeting_end(struct lane_meeting *m)
{
	for (uint32_t i = 0; i < 32; i++) {
		struct lane_arrival *a = m->lane[i];
		if (a)
			a->result = a->how(m, a);
	}
	for (uint32_t i = 0; i < 32; i++)
		m->lane[i] = NULL;
	m->here = 0;
	__atomic_store_n(&m->phase.v_, m->phase.v_ + 1, __ATOMIC_RELEASE);
	sim_wrote(&m->phase, sizeof m->phase);
}

static uint32_t lane_meet(struct ptx_lane *l, uint32_t mask, struct lane_arrival *a,
			  const char *what)
{
	struct dev *d = lane_dev(l);

	run_enter(d, "dev.warp");
	run_lines_done(d);
	mask = lane_mask_check(l, mask, what);
	struct lane_meeting *m = lane_meeting_find(&d->blk->warp[d->thread / 32], mask);
	uint32_t phase = __atomic_load_n(&m->phase.v_, __ATOMIC_ACQUIRE);
	/* neighbouring rounds are two objects of the memory model: memory.h */
	const void *round = (const char *)m + (phase & 1);

	a->lane = l->laneid;
	m->lane[l->laneid] = a;
	m->here |= 1u << l->laneid;
	mem_barrier_arrive(round);
	if (m->here == mask) {
		lane_lines_write(&d->blk->warp[d->thread / 32], mask);
		lane_meeting_end(m);
	} else {
		const struct wait w = {
			.on = &m->phase,
			.want = phase,
			.mask = WAIT_MASK_ALL,
			.kind = WAIT_NE,
			.bytes = 4,
			.why = what,
			.from = {d->blk->kernel->rank, (int32_t)d->block, -1, "lanes of the warp"}};
		run_park(d, &m->phase, phase);
		run_wait(d, &w, NULL, NULL);
	}
	mem_barrier_leave(round);
	return a->result;
}

/* ---- results -------------------------------------------------------------------------------- */

static uint32_t result_shuffle(const struct lane_meeting *m, const struct lane_arrival *a)
{
	const struct lane_arrival *from = m->lane[a->source];

	return from ? (uint32_t)from->value : (uint32_t)a->value;
}

static uint32_t result_votes(const struct lane_meeting *m, const struct lane_arrival *a)
{
	uint32_t votes = 0;

	(void)a;
	for (uint32_t i = 0; i < 32; i++)
		votes |= (uint32_t)(m->lane[i] && m->lane[i]->value) << i;
	return votes;
}

/* The lanes that have the same value. */
static uint32_t result_match(const struct lane_meeting *m, const struct lane_arrival *a)
{
	uint32_t same = 0;

	for (uint32_t i = 0; i < 32; i++)
		same |= (uint32_t)(m->lane[i] && m->lane[i]->value == a->value) << i;
	return same;
}

static uint32_t reduce_two(enum ptx_reduction op, uint32_t a, uint32_t b)
{
	switch (op) {
	case PTX_ADD:
		return a + b;
	case PTX_MIN:
		return MIN_OF(a, b);
	case PTX_MAX:
		return MAX_OF(a, b);
	case PTX_MIN_S:
		return (int32_t)a < (int32_t)b ? a : b;
	case PTX_MAX_S:
		return (int32_t)a > (int32_t)b ? a : b;
	case PTX_AND:
		return a & b;
	case PTX_OR:
		return a | b;
	default:
		return a ^ b;
	}
}

static uint32_t result_reduce(const struct lane_meeting *m, const struct lane_arrival *a)
{
	uint32_t result = 0;
	bool first = true;

	for (uint32_t i = 0; i < 32; i++) {
		if (!m->lane[i])
			continue;
		uint32_t v = (uint32_t)m->lane[i]->value;
		result = first ? v : reduce_two((enum ptx_reduction)a->source, result, v);
		first = false;
	}
	return result;
}

uint32_t ptx_shuffle(struct ptx_lane *l, uint32_t mask, uint32_t value, uint32_t source)
{
	struct lane_arrival a = {.value = value, .source = source, .how = result_shuffle};

	if (!(mask >> source & 1))
		lane_trap(l, cudaErrorLaunchFailure,
			  "shuffle: lane %u reads lane %u, which is not in mask 0x%x", l->laneid,
			  source, mask);
	return lane_meet(l, mask, &a, "shuffle");
}

uint32_t ptx_ballot(struct ptx_lane *l, uint32_t mask, bool predicate)
{
	struct lane_arrival a = {.value = predicate, .how = result_votes};

	return lane_meet(l, mask, &a, "warp vote");
}

uint32_t ptx_match(struct ptx_lane *l, uint32_t mask, uint64_t value, bool all, bool *same)
{
	struct lane_arrival a = {.value = value, .how = result_match};
	uint32_t lanes = lane_meet(l, mask, &a, "match");

	*same = lanes == (mask & ptx_lanes(l));
	return !all ? lanes : *same ? lanes : 0;
}

uint32_t ptx_redux(struct ptx_lane *l, uint32_t mask, uint32_t value, enum ptx_reduction op)
{
	struct lane_arrival a = {.value = value, .source = op, .how = result_reduce};

	return lane_meet(l, mask, &a, "redux");
}

/* ---- barriers of the block ------------------------------------------------------------------ */

uint32_t ptx_barrier(struct ptx_lane *l, uint32_t id, uint32_t threads, bool predicate)
{
	if (id >= RUN_BARRIERS)
		lane_trap(l, cudaErrorLaunchFailure, "barrier %u; expected 0..%d", id,
			  RUN_BARRIERS - 1);
	lane_lines_settle(lane_dev(l));
	return fakedev_barrier(lane_dev(l), (int)id, (int)threads, predicate);
}

void ptx_barrier_arrive(struct ptx_lane *l, uint32_t id, uint32_t threads)
{
	if (id >= RUN_BARRIERS || !threads)
		lane_trap(l, cudaErrorLaunchFailure,
			  "arrival at barrier %u of %u threads; expected 0..%d and a number", id,
			  threads, RUN_BARRIERS - 1);
	lane_lines_settle(lane_dev(l));
	fakedev_barrier_arrive(lane_dev(l), (int)id, (int)threads);
}
