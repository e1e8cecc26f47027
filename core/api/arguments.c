/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks the arguments of a collective against the row of its call (collective.h). */
#include <stdint.h>

#include "core/api/collective.h"
#include "core/base/log.h"
#include "core/comm/redops.h"
#include "core/device/layout/steps.h"

/* ---- values --------------------------------------------------------------------------------- */

/* Finds an operation that the program created, and copies its factor into the task. */
static ncclResult_t coll_check_made_op(struct api_coll *c)
{
	struct plan_task *t = &c->task;
	const struct comm_op *op = comm_op_find(c->comm, t->call, t->op);

	ASSERT(t->reduces); /* no other call has an operation */
	if (!op)
		return ncclInvalidArgument;
	if (op->type != t->type) {
		WARN("%s: datatype is %s, expected %s: op %d was made for it", t->call,
		     plan_type_name(t->type), plan_type_name(op->type), (int)t->op);
		return ncclInvalidArgument;
	}
	t->factor =
		(struct plan_factor){.used = true, .in_memory = op->in_memory, .bits = op->factor};
	return ncclSuccess;
}

static ncclResult_t coll_check_op(struct api_coll *c)
{
	const struct plan_task *t = &c->task;

	if (!t->reduces || (unsigned)t->op < ncclNumOps)
		return ncclSuccess;
	if ((int)t->op >= ncclNumOps)
		return coll_check_made_op(c);
	WARN("%s: op is %d, expected 0 to %d", t->call, (int)t->op, ncclNumOps - 1);
	return ncclInvalidArgument;
}

static ncclResult_t coll_check_root(const struct api_coll *c)
{
	const struct plan_task *t = &c->task;

	if (!c->row->rooted || (t->root >= 0 && t->root < c->comm->nranks))
		return ncclSuccess;
	WARN("%s: root is %d, expected 0 to %d", t->call, t->root, c->comm->nranks - 1);
	return ncclInvalidArgument;
}

/* Returns the number of blocks of `count` elements in a buffer. */
static size_t coll_blocks(const struct api_coll *c, const struct api_buffer *b)
{
	return b->per_rank ? (size_t)c->comm->nranks : 1;
}

static ncclResult_t coll_check_count(const struct api_coll *c)
{
	const struct plan_task *t = &c->task;
	size_t blocks = MAX_OF(coll_blocks(c, &c->row->send), coll_blocks(c, &c->row->recv));

	return api_check_count(t->call, c->row->count, t->count, t->type, blocks);
}

static bool coll_uses(const struct api_coll *c, const struct api_buffer *b)
{
	ASSERT(!b->root_only || c->row->rooted);
	return !b->root_only || c->task.root == c->comm->rank;
}

ncclResult_t api_coll_check_values(struct api_coll *c)
{
	struct plan_task *t = &c->task;
	ncclResult_t rc = api_check_type(t->call, t->type);

	if (!rc)
		rc = coll_check_op(c);
	if (!rc)
		rc = coll_check_root(c);
	if (!rc)
		rc = coll_check_count(c);
	if (rc)
		return rc;
	size_t block = t->count * steps_type_bytes((int)t->type);
	bool send = coll_uses(c, &c->row->send), recv = coll_uses(c, &c->row->recv);
	ASSERT(send || recv); /* every rank takes part with data */
	t->send = send ? t->send : NULL;
	t->recv = recv ? t->recv : NULL;
	t->send_bytes = send ? block * coll_blocks(c, &c->row->send) : 0;
	t->recv_bytes = recv ? block * coll_blocks(c, &c->row->recv) : 0;
	return ncclSuccess;
}

/* ---- buffers -------------------------------------------------------------------------------- */

/* Returns the offset of the smaller buffer in the larger one if the call is in place. */
static size_t coll_place(const struct api_coll *c)
{
	const struct plan_task *t = &c->task;
	size_t block = MIN_OF(t->send_bytes, t->recv_bytes);

	if (t->send_bytes == t->recv_bytes)
		return 0;
	/* the larger buffer holds a block for each rank */
	ASSERT(MAX_OF(t->send_bytes, t->recv_bytes) == block * (size_t)c->comm->nranks);
	return (size_t)c->comm->rank * block;
}

static bool coll_in_place(const struct api_coll *c)
{
	uintptr_t send = (uintptr_t)c->task.send, recv = (uintptr_t)c->task.recv;

	return c->task.send_bytes <= c->task.recv_bytes ? send == recv + coll_place(c)
							: recv == send + coll_place(c);
}

static ncclResult_t coll_check_overlap(const struct api_coll *c)
{
	const struct plan_task *t = &c->task;
	const struct api_buffer *send = &c->row->send, *recv = &c->row->recv;
	bool send_larger = t->send_bytes > t->recv_bytes;
	uintptr_t s = (uintptr_t)t->send, r = (uintptr_t)t->recv;

	if (coll_in_place(c) || s >= r + t->recv_bytes || r >= s + t->send_bytes)
		return ncclSuccess;
	WARN("%s: %s %p of %zu bytes and %s %p of %zu bytes overlap, expected no overlap, or %s at "
	     "%s + %zu bytes (in place)",
	     t->call, send->name, t->send, t->send_bytes, recv->name, t->recv, t->recv_bytes,
	     send_larger ? recv->name : send->name, send_larger ? send->name : recv->name,
	     coll_place(c));
	return ncclInvalidArgument;
}

static ncclResult_t coll_check_pointer(const struct api_coll *c, const char *name, const void *p)
{
	ncclResult_t rc = api_check_pointer(c->comm, c->task.call, name, p);

	return rc || !c->task.reduces ? rc
				      : api_check_alignment(c->task.call, name, p, c->task.type);
}

ncclResult_t api_coll_check_buffers(const struct api_coll *c)
{
	const struct plan_task *t = &c->task;
	const char *send = c->row->send.name, *recv = c->row->recv.name;
	ncclResult_t rc = ncclSuccess;

	if (t->send_bytes)
		rc = coll_check_pointer(c, send, t->send);
	if (!rc && t->recv_bytes)
		rc = coll_check_pointer(c, recv, t->recv);
	if (!rc && t->send_bytes && t->recv_bytes)
		rc = coll_check_overlap(c);
	if (!rc && t->send_bytes)
		rc = api_check_memory(c->comm, t->call, send, t->send);
	if (!rc && t->recv_bytes && t->recv != t->send)
		rc = api_check_memory(c->comm, t->call, recv, t->recv);
	return rc;
}
