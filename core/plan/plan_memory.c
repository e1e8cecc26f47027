/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of a plan: works and proxy operations, up to the limits of one launch.
 */
#include "core/base/log.h"
#include "core/os/os_grow.h"
#include "core/plan/plan_internal.h"

#define PLAN_ROOM_LEAST 32

void plan_reset(struct plan *p)
{
	*p = (struct plan){
		.work = p->work, .work_room = p->work_room, .op = p->op, .op_room = p->op_room};
}

void plan_free(struct plan *p)
{
	os_free(p->work);
	os_free(p->op);
	*p = (struct plan){.work = NULL};
}

bool plan_fits(const struct plan_state *st, const struct plan *p, const struct plan_need *more)
{
	int32_t works = p->nworks + more->works;

	if (p->nops + more->ops > PROXY_MAX_APPEND)
		return false;
	/* a replay of a graph cannot use the FIFO: its works are overwritten by then */
	if (p->capture.id)
		return works <= st->args_captured;
	return works <= st->args_works || plan_fifo_fits(&st->fifo, works, p->runs + more->runs);
}

/* Makes room for `need` elements. */
#define PLAN_GROW(array, used, room, need, what)                                                   \
	({                                                                                         \
		bool grown_ = (need) <= (room) ||                                                  \
			      OS_GROW(array, used, room, MAX_OF(need, PLAN_ROOM_LEAST), what);     \
		if (!grown_)                                                                       \
			WARN("no memory for the %d %s of a launch", need, what);                   \
		grown_;                                                                            \
	})

ncclResult_t plan_reserve(struct plan *p, const struct plan_need *more)
{
	bool ok = PLAN_GROW(p->work, p->nworks, p->work_room, p->nworks + more->works, "works") &&
		  PLAN_GROW(p->op, p->nops, p->op_room, p->nops + more->ops, "proxy operations");

	return ok ? ncclSuccess : ncclSystemError;
}

void plan_add_work(struct plan *p, const struct dev_work *w)
{
	ASSERT(p->nworks < p->work_room && w->channel_lo <= w->channel_hi);
	p->work[p->nworks++] = *w;
	p->runs += w->channel_hi - w->channel_lo + 1u;
	for (int c = w->channel_lo; c <= w->channel_hi; c++)
		p->channel_mask |= 1ull << c;
}

void plan_add_op(struct plan *p, const struct proxy_op *op)
{
	ASSERT(p->nops < p->op_room && p->nops < PROXY_MAX_APPEND);
	p->op[p->nops++] = *op;
}

struct plan_works plan_works_of(const struct plan *p)
{
	return (struct plan_works){
		.work = p->work, .n = p->nworks, .channel_mask = p->channel_mask};
}
