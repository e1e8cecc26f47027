/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of a walk, with the states that allow them. The table is that of
 * docs/communicators.md. */
#include "sim/lab/scene/walk.h"

#define IN(s) (1u << WALK_##s)

static int32_t *walk_result(struct walk *w)
{
	return w->s->mem + SCENE_BYTES / 2 / sizeof *w->s->mem;
}

ncclResult_t walk_launch(struct walk *w, struct walk_comm *c)
{
	return ncclAllReduce(w->s->mem, walk_result(w), SCENE_COUNT, ncclInt32, ncclSum, c->comm,
			     w->s->stream[0]);
}

static ncclResult_t walk_ring(struct walk *w, struct walk_comm *c)
{
	int32_t to = (c->index + 1) % c->n, from = (c->index + c->n - 1) % c->n;
	ncclResult_t rc = ncclGroupStart(), end;

	if (!rc)
		rc = ncclSend(w->s->mem, SCENE_COUNT, ncclInt32, to, c->comm, w->s->stream[0]);
	if (!rc)
		rc = ncclRecv(walk_result(w), SCENE_COUNT, ncclInt32, from, c->comm,
			      w->s->stream[0]);
	end = ncclGroupEnd();
	return rc ? rc : end;
}

static ncclResult_t walk_suspend(struct walk *w, struct walk_comm *c)
{
	(void)w;
	return ncclCommSuspend(c->comm, NCCL_SUSPEND_MEM);
}

static ncclResult_t walk_resume(struct walk *w, struct walk_comm *c)
{
	(void)w;
	return ncclCommResume(c->comm);
}

static ncclResult_t walk_finalize(struct walk *w, struct walk_comm *c)
{
	(void)w;
	return ncclCommFinalize(c->comm);
}

static ncclResult_t walk_revoke(struct walk *w, struct walk_comm *c)
{
	(void)w;
	return ncclCommRevoke(c->comm, NCCL_REVOKE_DEFAULT);
}

static ncclResult_t walk_split(struct walk *w, struct walk_comm *c)
{
	return ncclCommSplit(c->comm, 0, c->index, &w->child->comm, NULL);
}

static ncclResult_t walk_halve(struct walk *w, struct walk_comm *c)
{
	return ncclCommSplit(c->comm, c->index % 2, c->index, &w->child->comm, NULL);
}

/* The rank that is left out does not call. */
static ncclResult_t walk_shrink(struct walk *w, struct walk_comm *c)
{
	int out = w->out;

	return c->index == out ? ncclSuccess
			       : ncclCommShrink(c->comm, &out, 1, &w->child->comm, NULL,
						NCCL_SHRINK_DEFAULT);
}

/* It revokes for itself instead. */
static ncclResult_t walk_shrink_abort(struct walk *w, struct walk_comm *c)
{
	int out = w->out;

	return c->index == out
		       ? ncclCommRevoke(c->comm, NCCL_REVOKE_DEFAULT)
		       : ncclCommShrink(c->comm, &out, 1, &w->child->comm, NULL, NCCL_SHRINK_ABORT);
}

static ncclResult_t walk_destroy(struct walk *w, struct walk_comm *c)
{
	(void)w;
	return ncclCommDestroy(c->comm);
}

static ncclResult_t walk_abort(struct walk *w, struct walk_comm *c)
{
	(void)w;
	return ncclCommAbort(c->comm);
}

const struct walk_row walk_rows[] = {
	{"ncclAllReduce", walk_launch, IN(READY), .next = WALK_STAYS, .launches = true},
	{"ncclGroupEnd of messages", walk_ring, IN(READY), .next = WALK_STAYS, .launches = true,
	 .connects = true},
	{"ncclCommSuspend", walk_suspend, IN(READY), .next = WALK_SUSPENDED, .local = true},
	{"ncclCommResume", walk_resume, IN(SUSPENDED), .next = WALK_READY, .local = true},
	{"ncclCommFinalize", walk_finalize, IN(READY) | IN(SUSPENDED), .next = WALK_FINALIZED},
	{"ncclCommRevoke", walk_revoke, IN(READY) | IN(SUSPENDED) | IN(REVOKED),
	 .next = WALK_REVOKED, .meets = true},
	{"ncclCommSplit", walk_split, IN(READY) | IN(REVOKED), .next = WALK_STAYS, .makes = true},
	{"ncclCommSplit in two", walk_halve, IN(READY) | IN(REVOKED), .next = WALK_STAYS,
	 .makes = true},
	{"ncclCommShrink", walk_shrink, IN(READY) | IN(REVOKED), .next = WALK_STAYS, .makes = true},
	{"ncclCommShrink with NCCL_SHRINK_ABORT", walk_shrink_abort,
	 IN(READY) | IN(SUSPENDED) | IN(REVOKED), .next = WALK_REVOKED, .makes = true,
	 .meets = true},
	{"ncclCommDestroy", walk_destroy, ~0u, .next = WALK_OVER, .ends = true},
	{"ncclCommAbort", walk_abort, ~0u, .next = WALK_OVER, .ends = true, .meets = true},
};
const size_t walk_nrows = ARRAY_LEN(walk_rows);

bool walk_fits(const struct walk *w, const struct walk_comm *c, const struct walk_row *row)
{
	bool leaves_out = row->make == walk_shrink || row->make == walk_shrink_abort;

	if (row->makes && w->comms == WALK_COMMS)
		return false;
	/* All ranks must have the same answer, and halves have other members on each. A rank that
	 * is left out must leave another one. */
	return !((leaves_out || row->make == walk_ring) && (!c->known || c->n < 2));
}

struct walk_comm *walk_child(struct walk *w, const struct walk_comm *c, const struct walk_row *row)
{
	struct walk_comm *child = &w->of[w->comms++];
	bool halves = row->make == walk_halve, all = row->make == walk_split || halves;

	ASSERT(w->comms <= WALK_COMMS);
	*child = (struct walk_comm){.state = WALK_READY, .known = c->known && !halves, .index = -1};
	if (c->index < 0 && !c->known)
		return child;
	for (int32_t i = 0; i < c->n; i++) {
		if ((!all && i == w->out) || (halves && i % 2 != c->index % 2))
			continue;
		if (i == c->index)
			child->index = child->n;
		child->member[child->n++] = c->member[i];
	}
	return child;
}

ncclResult_t walk_call(struct walk *w, struct walk_comm *c, const struct walk_row *row,
		       bool grouped, bool settles)
{
	struct lab_rank *me = w->s->me;
	ncclResult_t rc, end;

	lab_call(me, row->call);
	rc = grouped ? ncclGroupStart() : ncclSuccess;
	if (!rc)
		rc = row->make(w, c);
	if (grouped) {
		end = ncclGroupEnd();
		rc = rc && rc != ncclInProgress ? rc : end;
	}
	if (settles && !row->ends)
		rc = lab_comm_settle(me, c->comm, rc);
	lab_call(me, NULL);
	return rc;
}
