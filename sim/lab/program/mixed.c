/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups of different calls: collectives of the table with their own types, operations, roots and
 * sizes, and messages from each rank to another one, or from one rank alone, on several streams and
 * communicators. Some buffers lie side by side, and some operations have factors. Some groups are
 * of many messages. All ranks draw the same groups, from the run's seed, and half of these are
 * called by each rank in an order of its own (mixed_order.c). Each call has buffers of its own
 * (mixed_memory.c). Its input is brought by a stream of the group, and its result is taken by
 * one: a group waits for all streams that its calls on one communicator use, and all of them wait
 * for it.
 */
#include <cuda_runtime_api.h>

#include "sim/lab/program/mixed.h"

static bool mixed_sends(const struct lab_rank *me, const struct mixed_call *call)
{
	return call->only < 0 || call->only == me->rank;
}

static bool mixed_receives(const struct lab_rank *me, const struct mixed_call *call)
{
	return call->only < 0 || (call->only + call->distance) % me->run->nranks == me->rank;
}

/* ---- calls -------------------------------------------------------------------------------- */

static cudaError_t mixed_bring(const struct lab_rank *me, const struct mixed_call *call, uint32_t i)
{
	const struct lab_row *row = &call->row;
	struct lab_mixed *m = me->mixed;
	cudaStream_t stream = m->stream[call->from];
	size_t width = payload_type_bytes(row->payload.type);
	uint8_t *send = mixed_send_at(me, call, i);
	cudaError_t e =
		cudaMemsetAsync(mixed_recv_at(me, call, i), LAB_UNWRITTEN, MIXED_BYTES, stream);
	struct lab_span span;

	for (uint32_t k = 0; !e && lab_row_span(row, LAB_SEND, me->rank, k, &span); k++) {
		ASSERT(span.n * width <= MIXED_BYTES); /* mixed_bytes */
		payload_fill(&row->payload, me->rank, span.first, span.n, m->host);
		e = cudaMemcpyAsync(send + span.at * width, m->host, span.n * width,
				    cudaMemcpyHostToDevice, stream);
	}
	if (e || row->payload.moved || row->payload.op != PAYLOAD_MULSUM)
		return e;
	payload_factor(&row->payload, me->rank, m->host);
	return cudaMemcpyAsync(mixed_factor_at(me, i), m->host, width, cudaMemcpyHostToDevice,
			       stream);
}

static ncclResult_t mixed_message(const struct lab_rank *me, const struct mixed_call *call,
				  uint32_t i, ncclComm_t comm, cudaStream_t stream)
{
	const struct lab_row *row = &call->row;
	/* an empty message needs no buffer */
	void *send = row->count ? mixed_send_at(me, call, i) : NULL;
	void *recv = row->count ? mixed_recv_at(me, call, i) : NULL;
	int32_t n = row->payload.nranks;
	ncclResult_t rc = ncclSuccess;

	ASSERT(call->distance >= 0 && call->distance < n);
	for (int part = 0; part < 2 && !rc; part++) {
		bool sends = (part == 0) != call->recv_first;

		if (sends && mixed_sends(me, call))
			rc = ncclSend(send, row->count, row->payload.type,
				      (me->rank + call->distance) % n, comm, stream);
		if (!sends && mixed_receives(me, call))
			rc = ncclRecv(recv, row->count, row->payload.type,
				      (me->rank + n - call->distance) % n, comm, stream);
	}
	return rc;
}

static ncclResult_t mixed_start(struct lab_rank *me, const struct mixed_call *call, uint32_t i)
{
	ncclComm_t comm = lab_comms_pick(me, call->comm);
	cudaStream_t stream = me->mixed->stream[call->stream];
	struct lab_row row = call->row;
	struct lab_options options;
	ncclResult_t rc;

	if (call->distance >= 0)
		return mixed_message(me, call, i, comm, stream);
	if (lab_options_draw(me, call->options, &row, false, &options) || call->completes)
		row.config = &options.config;
	if (call->completes) {
		ASSERT(me->mixed->complete[call->comm]); /* mixed_completion_make */
		options.config.size = sizeof options.config;
		options.config.launchCompletionEvent = me->mixed->complete[call->comm];
	}
	rc = lab_factor_begin(me, &call->row, mixed_factor_at(me, i), comm, &row.op);
	if (rc)
		return rc;
	rc = lab_row_start(&row, 0, me->rank, mixed_send_at(me, call, i),
			   mixed_recv_at(me, call, i), comm, stream);
	return rc ? rc : lab_factor_end(me, &call->row, comm, row.op);
}

static ncclResult_t mixed_post_one(struct lab_rank *me, const struct mixed_call *call, uint32_t i)
{
	ncclResult_t rc = call->nested ? ncclGroupStart() : ncclSuccess, end;

	if (rc)
		return rc;
	rc = mixed_start(me, call, i);
	end = call->nested ? ncclGroupEnd() : ncclSuccess;
	return rc ? rc : end;
}

/* Destroys one of the program's operations, any of them. */
static ncclResult_t mixed_op_destroy(struct lab_mixed *m, ncclComm_t comm, struct sim_rng *rng)
{
	uint32_t k = (uint32_t)sim_rng_below(rng, m->ops);
	ncclRedOp_t op = m->op[k];

	m->op[k] = m->op[--m->ops];
	return ncclRedOpDestroy(op, comm);
}

/* Operations come and go in any order, and some are left for the group. */
static ncclResult_t mixed_ops_begin(struct lab_rank *me, const struct mixed_group *g,
				    struct sim_rng *rng)
{
	ncclComm_t comm = lab_comms_pick(me, g->call[0].comm);
	struct lab_mixed *m = me->mixed;
	ncclResult_t rc = ncclSuccess;
	float factor = 2;

	m->ops = 0;
	for (uint32_t i = 0; i < g->ops && !rc; i++) {
		if (m->ops == MIXED_OPS_LIVE || (m->ops && sim_rng_below(rng, 3) == 0)) {
			rc = mixed_op_destroy(m, comm, rng);
			continue;
		}
		rc = ncclRedOpCreatePreMulSum(&m->op[m->ops], &factor, ncclFloat32,
					      ncclScalarHostImmediate, comm);
		m->ops += !rc;
	}
	return rc;
}

static ncclResult_t mixed_ops_end(struct lab_rank *me, const struct mixed_group *g,
				  struct sim_rng *rng)
{
	ncclComm_t comm = lab_comms_pick(me, g->call[0].comm);
	ncclResult_t rc = ncclSuccess;

	while (me->mixed->ops && !rc)
		rc = mixed_op_destroy(me->mixed, comm, rng);
	return rc;
}

static ncclResult_t mixed_post_group(struct lab_rank *me, const struct mixed_group *g)
{
	ncclResult_t rc = ncclGroupStart(), end;

	if (rc)
		return rc;
	for (uint32_t i = 0; i < g->n && !rc; i++) {
		rc = mixed_post_one(me, &g->call[g->order[i]], g->order[i]);
		if (!rc && i == 0)
			lab_queries_in_group(me, lab_comms_pick(me, g->call[0].comm));
	}
	lab_call(me, "ncclGroupEnd of different calls");
	end = lab_comms_settle(me, ncclGroupEnd());
	lab_call(me, NULL);
	return rc ? rc : end;
}

static ncclResult_t mixed_post(struct lab_rank *me, void *arg)
{
	const struct mixed_group *g = arg;
	struct sim_rng rng;

	sim_rng_seed(&rng, me->run->config->sim.seed + g->ops + (uint64_t)me->rank,
		     "lab.mixed_ops");
	ncclResult_t rc = mixed_ops_begin(me, g, &rng);
	if (!rc)
		rc = mixed_post_group(me, g);
	return rc ? rc : mixed_ops_end(me, g, &rng);
}

/* A group with a wrong call launches nothing, and the program goes on. */
static ncclResult_t mixed_post_refused(struct lab_rank *me, void *arg)
{
	const struct mixed_group *g = arg;
	const struct mixed_call *call = &g->call[0];
	ncclComm_t comm = lab_comms_pick(me, call->comm);
	void *mem = mixed_at(me, 0, MIXED_RECV);
	ncclResult_t rc = ncclGroupStart(), wrong, end;

	ASSERT(g->refused >= 0 && (uint32_t)g->refused <= g->n);
	if (rc)
		return rc;
	for (int32_t i = 0; i < g->refused && !rc; i++)
		rc = mixed_post_one(me, &g->call[g->order[i]], g->order[i]);
	wrong = ncclBroadcast(mem, mem, 1, ncclInt8, call->row.payload.nranks, comm,
			      me->mixed->stream[call->stream]);
	lab_call(me, "ncclGroupEnd of a group with a wrong call");
	end = lab_comms_settle(me, ncclGroupEnd());
	lab_call(me, NULL);
	me->mixed->valid = rc;
	if (rc)
		return rc;
	return wrong != ncclInvalidArgument ? ncclInternalError : end;
}

/* The result of a call, by a stream of its group or by one that its completion event alone orders
 * after it. */
static cudaError_t mixed_take(struct lab_rank *me, const struct mixed_call *call, uint32_t i)
{
	struct lab_mixed *m = me->mixed;
	cudaStream_t stream = call->after ? m->after : m->stream[call->to];
	cudaError_t e = cudaSuccess;

	ASSERT(!call->after || m->after); /* both are of a run with options */
	if (call->after)
		e = cudaStreamWaitEvent(stream, m->complete[call->comm], 0);
	return e ? e
		 : cudaMemcpyAsync(mixed_at(me, i, MIXED_TAKEN), mixed_recv_at(me, call, i),
				   MIXED_BYTES, cudaMemcpyDeviceToDevice, stream);
}

/* The rank's first stream goes on after all others. */
static cudaError_t mixed_copy_out(struct lab_rank *me, const struct mixed_group *g)
{
	const int n = (int)mixed_streams(me->run->config);
	struct lab_mixed *m = me->mixed;
	cudaError_t e = cudaSuccess;

	for (uint32_t i = 0; i < g->n && !e; i++)
		e = mixed_take(me, &g->call[i], i);
	for (int i = 0; i < n + (m->after != NULL) && !e; i++) {
		e = cudaEventRecord(m->join, i < n ? m->stream[i] : m->after);
		if (!e)
			e = cudaStreamWaitEvent((cudaStream_t)me->stream, m->join, 0);
	}
	if (e || !g->renews)
		return e;
	mixed_streams_free(m);
	return mixed_streams_make(me);
}

/* ---- results ------------------------------------------------------------------------------ */

static void mixed_report(struct lab_rank *me, const struct mixed_call *call, uint64_t where,
			 const uint8_t *got)
{
	size_t width = payload_type_bytes(call->row.payload.type);
	char what[LAB_ROW_TEXT], why[200] = "a message";

	lab_row_text(&call->row, what);
	if (call->distance < 0)
		lab_row_explain(&call->row, me->rank, where, 1, got + where * width, why,
				sizeof why);
	lab_judge(me, SIM_WRONG_RESULT, "correctness",
		  "wrong result in a group of different calls, %s: %s",
		  call->distance < 0 ? what : "ncclSend and ncclRecv", why);
}

static size_t mixed_wrong(const struct lab_rank *me, const struct mixed_call *call, uint8_t *got,
			  uint8_t *want, uint64_t *where)
{
	const struct lab_row *row = &call->row;
	int32_t n = row->payload.nranks;
	uint64_t elements = lab_row_elements(row, LAB_RECV);

	if (call->distance < 0)
		return lab_row_compare(row, me->rank, 0, elements, got, NULL, want, where);
	payload_fill(&row->payload, (me->rank + n - call->distance) % n, 0, elements, want);
	return payload_compare(&row->payload, 0, elements, got, want, where);
}

/* The stretches of a receive buffer in place lie between those of other ranks. */
static bool mixed_check(struct lab_rank *me, const struct mixed_call *call, uint32_t i)
{
	const struct lab_row *row = &call->row;
	size_t width = payload_type_bytes(row->payload.type);
	uint8_t *got = me->mixed->host, *want = got + MIXED_BYTES;
	uint64_t end = lab_row_most(row) * width, where = 0;
	struct lab_span span;

	ASSERT(end <= MIXED_BYTES);
	if (!lab_rank_copy(me, got, mixed_at(me, i, MIXED_TAKEN), MIXED_BYTES, false))
		return false;
	for (uint64_t k = end; k < MIXED_BYTES; k++)
		if (got[k] != LAB_UNWRITTEN) {
			mixed_report(me, call, 0, got);
			return true;
		}
	if (!lab_row_span(row, LAB_RECV, me->rank, 0, &span) || !row->count ||
	    !mixed_receives(me, call))
		return true;
	got += span.at * width;
	if (mixed_wrong(me, call, got, want, &where))
		mixed_report(me, call, where, got);
	return true;
}

static bool mixed_refused(struct lab_rank *me, struct mixed_group *g)
{
	const struct lab_drive call = {.fn = mixed_post_refused,
				       .arg = g,
				       .name = "ncclGroupEnd of a group with a wrong call",
				       .grouped = true};
	ncclResult_t r;

	if (g->refused < 0)
		return true;
	if (!lab_drive(me, &call, &r))
		return false;
	/* the group of a process has one result, which may be the wrong call's of another rank */
	if (me->mixed->valid)
		r = me->mixed->valid;
	if (r != ncclInvalidArgument && r != ncclInvalidUsage) {
		lab_rank_fail(me, r ? r : ncclInternalError, call.name);
		return false;
	}
	if (!g->refused_apart)
		return true;
	mixed_streams_free(me->mixed);
	return lab_rank_check_cuda(me, mixed_streams_make(me), "cudaStreamCreateWithFlags");
}

static bool mixed_run(struct lab_rank *me, struct mixed_group *g)
{
	const struct lab_drive call = {.fn = mixed_post,
				       .arg = g,
				       .name = "ncclGroupEnd of different calls",
				       .grouped = true};
	cudaError_t e = cudaSuccess;
	ncclResult_t r;

	lab_pause(me);
	if (!mixed_refused(me, g))
		return false;
	for (uint32_t i = 0; i < g->n && !e; i++)
		e = mixed_bring(me, &g->call[i], i);
	if (!lab_rank_check_cuda(me, e, "cudaMemcpyAsync") || !lab_drive(me, &call, &r))
		return false;
	if (r) {
		lab_rank_fail(me, r, "ncclGroupEnd of different calls");
		return false;
	}
	if (!lab_rank_check_cuda(me, mixed_copy_out(me, g), "cudaMemcpyAsync") ||
	    !lab_rank_sync(me))
		return false;
	for (uint32_t i = 0; i < g->n; i++)
		if (!mixed_check(me, &g->call[i], i))
			return false;
	return true;
}

bool lab_mixed(struct lab_rank *me)
{
	bool ok = true;

	for (uint32_t k = 0; ok && k < me->run->config->mixed; k++) {
		struct mixed_group g;

		mixed_draw(me->run, k, &g);
		mixed_draw_order(me, k, &g);
		ok = mixed_run(me, &g);
	}
	return ok;
}
