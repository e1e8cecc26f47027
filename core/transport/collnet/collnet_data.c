/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions and flushes of a group, as requests of its two ends (collnet_internal.h). */
#include <limits.h>

#include "core/device/layout/steps.h"
#include "core/transport/collnet/collnet_internal.h"

static struct net_request *collnet_req(struct net_request *r, struct collnet_group *g,
				       struct collnet_op *op, enum collnet_end end)
{
	ASSERT(!r->used);
	*r = (struct net_request){.group = g, .op = op, .end = end, .used = true};
	return r;
}

/* ---- the receiving end: the place of a sum -------------------------------------------------- */

ncclResult_t collnet_irecv(void *recv_comm, const struct net_buffer *b, int n,
			   struct net_request **req, struct wait *w)
{
	struct collnet_group *g = ((const struct collnet_conn *)recv_comm)->group;
	uint32_t at = (uint32_t)(g->posted % NET_MAX_REQUESTS);
	const struct net_plugin_mr *mr = b->mr;
	struct collnet_op *op = &g->op[at];

	ASSERT(n == 1);
	*req = NULL;
	if (g->end.failed)
		return g->end.failed;
	if (op->state != COLLNET_FREE || g->send[at].used || g->recv[at].used) {
		collnet_wait(g, "an earlier reduction of the channel", w);
		return ncclSuccess;
	}
	*op = (struct collnet_op){.state = COLLNET_POSTED,
				  .recv = b->data,
				  .recv_mr = mr->mr,
				  .recv_gpu = mr->gpu,
				  .recv_bytes = b->bytes};
	g->posted++;
	os_event_post(g); /* the sending end may wait for it */
	*req = collnet_req(&g->recv[at], g, op, COLLNET_RECV);
	return ncclSuccess;
}

/* ---- the sending end: this head's part ------------------------------------------------------ */

static ncclResult_t collnet_call_reduce(struct collnet_group *g, struct collnet_op *op,
					const struct net_buffer *b, size_t count)
{
	const struct collnet_plugin *p = g->of->plugin;
	const ncclDataType_t type = (ncclDataType_t)b->type;
	const ncclRedOp_t with = (ncclRedOp_t)b->op;
	void *mr = ((const struct net_plugin_mr *)b->mr)->mr;

	op->request = NULL;
	if (p->version >= 9)
		return p->abi->iallreduce.v9(g->coll, b->data, op->recv, count, type, with, mr,
					     op->recv_mr, &op->request);
	return p->abi->iallreduce.v8(g->coll, b->data, op->recv, (int)count, type, with, mr,
				     op->recv_mr, &op->request);
}

/* Starts the oldest reduction that is not started. */
static ncclResult_t collnet_start(struct collnet_group *g, struct collnet_op *op,
				  const struct net_buffer *b)
{
	const size_t element = steps_type_bytes(b->type);
	ncclResult_t rc;

	if (b->bytes % element || b->bytes > op->recv_bytes)
		return plugin_end_refuse(&g->end,
					 "a reduction of %zu bytes in elements of %zu, expected at "
					 "most %zu bytes",
					 b->bytes, element, op->recv_bytes);
	if (!((const struct net_plugin_mr *)b->mr)->gpu)
		shared_note_read(b->data, b->bytes);
	rc = collnet_call_reduce(g, op, b, b->bytes / element);
	if (rc)
		return plugin_end_failed(&g->end, "iallreduce", rc);
	if (!op->request)
		return ncclSuccess;
	op->bytes = b->bytes;
	op->state = COLLNET_RUNNING;
	g->started++;
	g->end.misses = 0;
	os_event_post(g); /* the receiving end may wait for it */
	return ncclSuccess;
}

ncclResult_t collnet_isend(void *send_comm, const struct net_buffer *b, struct net_request **req,
			   struct wait *w)
{
	struct collnet_group *g = ((const struct collnet_conn *)send_comm)->group;
	uint32_t at = (uint32_t)(g->started % NET_MAX_REQUESTS);
	struct collnet_op *op = &g->op[at];
	ncclResult_t rc = g->end.failed;

	*req = NULL;
	if (rc)
		return rc;
	if (g->started == g->posted) {
		collnet_wait(g, "a free slot for the sum", w);
		w->deadline_ns = 0; /* the receiving end reports it */
		w->from.rank = g->end.rank;
		return ncclSuccess;
	}
	rc = collnet_start(g, op, b);
	if (rc)
		return rc;
	if (op->state == COLLNET_RUNNING)
		*req = collnet_req(&g->send[at], g, op, COLLNET_SEND);
	else
		collnet_wait(g, "the plugin to take a reduction", w);
	return ncclSuccess;
}

/* ---- flushes -------------------------------------------------------------------------------- */

/* A plugin that returns no request needs no flush: the operation is done. */
ncclResult_t collnet_iflush(void *recv_comm, void *data, size_t bytes, void *mr,
			    struct net_request **req, struct wait *w)
{
	struct collnet_group *g = ((const struct collnet_conn *)recv_comm)->group;
	int size = (int)MIN_OF(bytes, (size_t)INT_MAX);
	struct collnet_op *op = &g->flush;
	ncclResult_t rc = g->end.failed;

	*req = NULL;
	if (rc)
		return rc;
	if (g->flush_req.used) {
		collnet_wait(g, "an earlier flush of the channel", w);
		return ncclSuccess;
	}
	*op = (struct collnet_op){.bytes = bytes};
	rc = g->of->plugin->abi->iflush(g->coll, data, size, ((struct net_plugin_mr *)mr)->mr,
					&op->request);
	if (rc)
		return plugin_end_failed(&g->end, "iflush", rc);
	op->state = op->request ? COLLNET_RUNNING : COLLNET_DONE;
	*req = collnet_req(&g->flush_req, g, op, COLLNET_FLUSH);
	return ncclSuccess;
}

/* ---- tests ---------------------------------------------------------------------------------- */

/* Calls the test of the plugin for a running operation. */
static ncclResult_t collnet_op_test(struct collnet_group *g, struct collnet_op *op, bool flush)
{
	int finished = 0, bytes = (int)op->bytes;
	ncclResult_t rc = g->of->plugin->abi->test(op->request, &finished, &bytes);

	if (rc)
		return plugin_end_failed(&g->end, "test", rc);
	if (!finished)
		return ncclSuccess;
	if (!flush && (bytes < 0 || (size_t)bytes > op->bytes))
		return plugin_end_refuse(&g->end, "test reports %d bytes of a reduction of %zu",
					 bytes, op->bytes);
	if (!flush && !op->recv_gpu)
		shared_note_write(op->recv, op->bytes);
	op->state = COLLNET_DONE;
	g->end.misses = 0;
	os_event_post(g); /* for the other end */
	return ncclSuccess;
}

static void collnet_test_wait(const struct net_request *r, struct wait *w)
{
	struct collnet_group *g = r->group;

	if (r->op->state == COLLNET_RUNNING) {
		collnet_wait(g,
			     r->end == COLLNET_FLUSH ? "the plugin to flush"
						     : "the reduction of all hosts' heads",
			     w);
		return;
	}
	collnet_wait(g, "this head's own chunk, which begins the reduction", w);
	w->deadline_ns = 0; /* the sending end reports it */
	w->from.rank = g->end.rank;
}

/* Frees the operation when both ends have seen it. */
static void collnet_req_end(struct net_request *r)
{
	struct collnet_group *g = r->group;
	size_t at = (size_t)(r->op - g->op);

	r->used = false;
	if (r->end != COLLNET_FLUSH && !g->send[at].used && !g->recv[at].used)
		r->op->state = COLLNET_FREE;
}

ncclResult_t collnet_test(struct net_request *r, bool *done, size_t *bytes, struct wait *w)
{
	struct collnet_group *g = r->group;
	ncclResult_t rc = g->end.failed;

	ASSERT(r->used && r->op->state != COLLNET_FREE);
	*done = false;
	if (!rc && r->op->state == COLLNET_RUNNING)
		rc = collnet_op_test(g, r->op, r->end == COLLNET_FLUSH);
	if (rc)
		return rc;
	if (r->op->state != COLLNET_DONE) {
		collnet_test_wait(r, w);
		return ncclSuccess;
	}
	*bytes = r->op->bytes;
	*done = true;
	collnet_req_end(r);
	return ncclSuccess;
}

/* A plugin has no function that looks for failures: they show in the next reduction. */
ncclResult_t collnet_check(void *net_comm, bool busy, struct wait *w)
{
	struct collnet_group *g = ((const struct collnet_conn *)net_comm)->group;

	(void)busy;
	*w = wait_object(g, os_event_seq(g), "a failure of the group",
			 wait_by(g->end.peer, g->end.channel, NULL));
	return g->end.failed;
}
