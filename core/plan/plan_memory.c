/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of a plan: works and proxy operations, up to the limits of one launch.
 */
#include <string.h>

#include "core/base/log.h"
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

/* Makes room for `need` elements of `each` bytes. Memory grows at least twofold. */
static ncclResult_t plan_grow(void **mem, int32_t *room, int32_t used, int32_t need, size_t each,
			      const char *what)
{
	int32_t more = MAX_OF(MAX_OF(need, 2 * *room), PLAN_ROOM_LEAST);
	void *grown;

	if (need <= *room)
		return ncclSuccess;
	grown = os_alloc((size_t)more * each, what);
	if (!grown) {
		WARN("no memory for the %d %s of a launch", more, what);
		return ncclSystemError;
	}
	if (used)
		memcpy(grown, *mem, (size_t)used * each);
	os_free(*mem);
	*mem = grown;
	*room = more;
	return ncclSuccess;
}

ncclResult_t plan_reserve(struct plan *p, const struct plan_need *more)
{
	void *work = p->work, *op = p->op;
	ncclResult_t rc = plan_grow(&work, &p->work_room, p->nworks, p->nworks + more->works,
				    sizeof *p->work, "works");

	p->work = work;
	if (!rc)
		rc = plan_grow(&op, &p->op_room, p->nops, p->nops + more->ops, sizeof *p->op,
			       "proxy operations");
	p->op = op;
	return rc;
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
