/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's collectives: all types, operations, roots and sizes, timed, and checked. */
#include <cuda_runtime_api.h>
#include <string.h>

#include "sim/lab/program/transient.h"
#include "sim/lab/queries/queries.h"
#include "sim/lab/run/runner_internal.h"

#define RANK_QUERIES   4 /* moments of a series with queries, at most */
#define LAB_HURRY_SALT 0x68757272ull

bool lab_barrier(struct lab_rank *me)
{
	struct lab_run *run = me->run;
	uint64_t round = ++me->arrivals;
	if (shared_add_u64(&run->arrived, 1, SHARED_ACQ_REL) + 1 == round * (uint64_t)run->count)
		shared_store_u64(&run->met, round, SHARED_RELEASE);
	struct wait w =
		wait_word(&run->met, 8, WAIT_GE, round, "harness: all ranks between two operations",
			  wait_by(-1, -1, NULL));
	return os_wait_one(&w, &run->failed) == 0;
}

/* One part of the row's collective. `alone`: not in a group, where a call that is refused is made
 * again without options. *name: the call that failed. */
static ncclResult_t rank_part(struct lab_rank *me, const struct lab_row *row, uint32_t part,
			      bool alone, const char **name)
{
	uint64_t at = lab_buffer_at(me->run->config, row);
	uint8_t *recv = me->recv + at, *send = row->in_place ? recv : me->send + at;
	struct lab_row call = *row;
	struct lab_options options;
	ncclComm_t comm = lab_comms_pick(me, part);
	ncclResult_t r = lab_factor_begin(me, row, lab_factor_at(me, row), comm, &call.op);

	*name = "ncclRedOpCreatePreMulSum";
	if (r)
		return r;
	*name = row->collective->call;
	lab_call(me, *name);
	if (lab_options_draw(me, row->payload.salt, row, alone, &options))
		call.config = &options.config;
	r = lab_row_start(&call, part, me->rank, send, recv, comm, lab_streams_pick(me, part));
	if (call.config && lab_options_refused(&options, r)) {
		call.config = NULL;
		r = lab_row_start(&call, part, me->rank, send, recv, comm,
				  lab_streams_pick(me, part));
	}
	r = lab_comms_settle(me, r);
	lab_call(me, NULL);
	if (r)
		return r;
	*name = "ncclRedOpDestroy";
	return lab_factor_end(me, row, comm, call.op);
}

/* Parts from first on, or that part so often, in a group when there may be several. A group that
 * was begun ends. */
static ncclResult_t rank_group(struct lab_rank *me, const struct lab_row *row, uint32_t first,
			       uint32_t n, const char **name)
{
	bool grouped = me->run->config->group > 1 || n > 1;
	ncclResult_t r = grouped ? ncclGroupStart() : ncclSuccess, end;

	ASSERT(n > 0 && first < row->parts);
	*name = "ncclGroupStart";
	if (r)
		return r;
	for (uint32_t i = 0; !r && i < n; i++)
		r = rank_part(me, row, (first + i) % row->parts, !grouped && !me->team, name);
	if (!grouped)
		return r;
	lab_call(me, "ncclGroupEnd");
	end = lab_comms_settle(me, ncclGroupEnd());
	lab_call(me, NULL);
	if (!r)
		*name = "ncclGroupEnd";
	return r ? r : end;
}

static bool lab_rank_group(struct lab_rank *me, const struct lab_row *row, uint32_t first,
			   uint32_t n)
{
	const char *name;
	ncclResult_t r = rank_group(me, row, first, n, &name);

	if (r && lab_may_try_again(me, r)) {
		me->run->error_taken = true;
		r = rank_group(me, row, first, n, &name);
	}
	if (r)
		lab_rank_fail(me, r, name);
	return r == ncclSuccess;
}

struct rank_parts {
	const struct lab_row *row;
	uint32_t first, n;
};

/* Each failure was reported at its place. */
static ncclResult_t rank_drive_parts(struct lab_rank *it, void *arg)
{
	const struct rank_parts *p = arg;

	return lab_rank_group(it, p->row, p->first, p->n) ? ncclSuccess : ncclInternalError;
}

static bool lab_rank_parts(struct lab_rank *me, struct rank_parts parts)
{
	const struct lab_drive call = {.fn = rank_drive_parts,
				       .arg = &parts,
				       .name = parts.row->collective->call,
				       .grouped = true};
	cudaError_t e = cudaSuccess;
	ncclResult_t r;

	lab_pause(me);
	for (uint32_t i = 0; !e && i < parts.n; i++)
		e = (cudaError_t)lab_streams_copy_in(me, parts.row, parts.first + i);
	if (!lab_rank_check_cuda(me, e, "cudaMemcpyAsync") || !lab_drive(me, &call, &r))
		return false;
	if (r != ncclSuccess && !me->error_call)
		lab_rank_fail(me, r, "ncclGroupEnd");
	for (uint32_t i = 0; !r && !e && i < parts.n; i++)
		e = (cudaError_t)lab_streams_copy_out(me, parts.row, parts.first + i);
	return r == ncclSuccess && lab_rank_check_cuda(me, e, "cudaMemcpyAsync");
}

/* One collective: its parts, or whole ones in a group. */
static bool lab_rank_once(struct lab_rank *me, const struct lab_row *row, uint32_t aggregate)
{
	uint32_t parts = row->parts, group = MAX_OF(me->run->config->group, 1u);
	bool ok = true;

	if (aggregate > 1) {
		ASSERT(parts == 1);
		return lab_rank_parts(me, (struct rank_parts){row, 0, aggregate});
	}
	for (uint32_t part = 0; ok && part < parts; part += group)
		ok = lab_rank_parts(me,
				    (struct rank_parts){row, part, MIN_OF(group, parts - part)});
	return ok;
}

static bool lab_rank_block(struct lab_rank *me)
{
	switch (me->run->config->blocking) {
	case LAB_BLOCKING_MEET:
		return lab_rank_sync(me) && lab_barrier(me);
	case LAB_BLOCKING_WAIT:
		return lab_rank_sync(me);
	default:
		return true;
	}
}

static bool lab_rank_enqueue(struct lab_rank *me, const struct lab_row *row, uint32_t times,
			     uint32_t aggregate)
{
	bool ok = lab_rank_check_cuda(me, lab_streams_fork(me), "streams that fork");

	for (uint32_t i = 0; ok && i < times; i++)
		ok = lab_rank_once(me, row, aggregate) &&
		     lab_rank_check_cuda(me, lab_ticks_record(me, i), "cudaEventRecord") &&
		     lab_rank_block(me);
	return ok && lab_rank_check_cuda(me, lab_streams_join(me), "streams that join");
}

/* With -G the series is in a CUDA graph; NULL: it is not. */
static bool lab_rank_capture(struct lab_rank *me, const struct lab_row *row, uint32_t times,
			     uint32_t aggregate, void **graph)
{
	*graph = NULL;
	if (!me->run->config->graph_launches)
		return true;
	return lab_graph_begin(me) &&
	       lab_graph_end(me, lab_rank_enqueue(me, row, times, aggregate), graph);
}

static bool lab_rank_collective(struct lab_rank *me, const struct lab_row *row, uint32_t times,
				uint32_t aggregate)
{
	void *graph;
	bool ok = lab_rank_capture(me, row, times, aggregate, &graph) && lab_rank_bring(me, row) &&
		  (graph ? lab_graph_launch(me, graph, 1)
			 : lab_rank_enqueue(me, row, times, aggregate)) &&
		  lab_rank_spend(me, row) && lab_transients(me) && lab_rank_sync(me);

	lab_graph_free(graph);
	return ok;
}

/* The calls of a timed series. */
static bool lab_rank_timed_calls(struct lab_rank *me, const struct lab_row *row, void *graph,
				 uint32_t launches)
{
	const struct lab_config *c = me->run->config;
	uint64_t start_ns = os_now_ns();

	ASSERT(launches > 0);

	me->timing = true;
	bool ok = graph ? lab_graph_launch(me, graph, launches)
			: lab_rank_enqueue(me, row, c->iterations, c->aggregate);

	me->timing = false;
	me->launch_ns = (os_now_ns() - start_ns) / launches;
	return ok;
}

static bool lab_rank_timed_series(struct lab_rank *me, const struct lab_row *row, void *graph,
				  uint32_t launches)
{
	float ms = 0;

	lab_pause_late(me);
	if (!lab_rank_check_cuda(me, cudaEventRecord(me->start, me->stream), "cudaEventRecord") ||
	    !lab_rank_timed_calls(me, row, graph, launches) ||
	    !lab_rank_check_cuda(me, cudaEventRecord(me->end, me->stream), "cudaEventRecord"))
		return false;
	if (me->queries < RANK_QUERIES)
		lab_queries_of_run(me);
	if (!lab_transients(me) || !lab_rank_sync(me) ||
	    !lab_rank_check_cuda(me, cudaEventElapsedTime(&ms, me->start, me->end),
				 "cudaEventElapsedTime"))
		return false;
	me->elapsed_ns = (uint64_t)((double)ms * 1e6 / launches + 0.5);
	return lab_rank_check_cuda(me, lab_ticks_read(me), "cudaEventElapsedTime");
}

/* Timed by events in the stream: the host's polling, which is coarse, is not in the figure. For
 * several launches of a graph the figure is their mean. */
static bool lab_rank_timed(struct lab_rank *me, const struct lab_row *row)
{
	const struct lab_config *c = me->run->config;
	void *graph;
	bool ok = lab_rank_capture(me, row, c->iterations, c->aggregate, &graph) &&
		  lab_rank_timed_series(me, row, graph, MAX_OF(c->graph_launches, 1u));

	lab_graph_free(graph);
	return ok;
}

/* Other buffers, where the run wants them. */
static bool lab_rank_renew(struct lab_rank *me, const struct lab_row *row)
{
	return me->run->config->local_register != LAB_REGISTER_RENEW ||
	       (lab_register_renew(me) && lab_rank_recv_prepare(me, row));
}

/* Other work in the stream would hide the time of the first launch of a timed series. */
static bool lab_rank_ready(struct lab_rank *me, const struct lab_row *row)
{
	return !lab_has_windows(me->run->config) || (lab_rank_bring(me, row) && lab_rank_sync(me));
}

/* Timed first, then once more with fresh buffers and checked, as nccl-tests does. */
static bool lab_rank_row(struct lab_rank *me, const struct lab_row *row)
{
	const struct lab_config *c = me->run->config;

	if (!lab_rank_fill(me, row))
		return false;
	if (c->warmup &&
	    (!lab_barrier(me) || !lab_rank_collective(me, row, c->warmup, c->aggregate)))
		return false;
	if (!lab_rank_ready(me, row) || !lab_barrier(me) || !lab_rank_timed(me, row))
		return false;
	lab_bound_check(me, row);
	if (!c->check)
		return lab_barrier(me);
	/* One timed run of fresh data is its own check; else run once more. */
	bool fresh = c->iterations == 1 && c->warmup == 0 && c->graph_launches <= 1 &&
		     c->aggregate <= 1 && !lab_has_windows(c);
	if (!fresh) {
		if (!lab_barrier(me) || !lab_rank_renew(me, row) || !lab_rank_fill(me, row))
			return false;
		if (!row->in_place && !lab_rank_unwrite(me, row))
			return false;
		if (!lab_rank_sync(me) || !lab_barrier(me) || !lab_rank_collective(me, row, 1, 1))
			return false;
	}
	return lab_rank_check(me, row) && lab_barrier(me);
}

static bool lab_rank_row_place(struct lab_rank *me, struct lab_row *row, bool in_place)
{
	struct lab_run *run = me->run;
	ASSERT(!in_place || !row->collective->never_in_place);
	row->in_place = in_place;
	if (lab_leads(me)) {
		run->digest_rank = -1;
		lab_progress_row(run, row);
	}
	if (!lab_register_renew(me) || !lab_rank_recv_prepare(me, row) || !lab_rank_row(me, row))
		return false;
	if (lab_leads(me)) {
		run->operations++;
		if (row->collective == run->config->collective)
			lab_table_row(run, row);
	}
	return lab_barrier(me) && lab_suspends(me);
}

static bool lab_rank_size(struct lab_rank *me, const struct lab_collective *which,
			  const struct payload *p, int32_t root, uint64_t bytes)
{
	struct lab_run *run = me->run;
	const struct lab_config *c = run->config;
	struct lab_row row = lab_row_make(which, p, root, bytes, lab_parts(c));

	ASSERT(row.bytes <= c->bytes_max); /* what the buffers hold */

	if (lab_leads(me)) {
		memset(run->row_wrong, 0, sizeof run->row_wrong);
		if (c->check && run->expect && which->reduces)
			lab_row_reduce(&row, run->expect);
	}
	if (!lab_barrier(me))
		return false;
	if (lab_collective_out_of_place(which, c->out_of_place) &&
	    !lab_rank_row_place(me, &row, false))
		return false;
	return !lab_collective_in_place(which, c->in_place) || lab_rank_row_place(me, &row, true);
}

static uint64_t lab_next_size(const struct lab_config *c, uint64_t bytes)
{
	if (c->factor >= 2)
		return bytes ? bytes * c->factor : 1;
	return bytes + MAX_OF(c->bytes_step, (uint64_t)1);
}

/* All sizes of one type, operation and root. */
static bool lab_rank_sizes(struct lab_rank *me, const struct lab_collective *which,
			   struct payload *p, int32_t root)
{
	const struct lab_config *c = me->run->config;

	for (uint64_t b = c->bytes_min; b <= c->bytes_max; b = lab_next_size(c, b)) {
		p->salt++;
		if (!lab_rank_size(me, which, p, root, b))
			return false;
	}
	return true;
}

/* Each type with each operation, where the collective has one, and each root, where it has one. */
static bool lab_rank_rows(struct lab_rank *me, const struct lab_collective *which,
			  struct payload *p)
{
	const struct lab_config *c = me->run->config;
	bool all = c->root == LAB_ALL_ROOTS && lab_collective_has_root(which);
	int32_t first = all ? 0 : MAX_OF(c->root, 0), end = all ? me->run->nranks : first + 1;
	uint32_t ops = which->reduces ? c->op_count : 1;

	ASSERT(c->type_count > 0 && ops > 0 && first < end);

	for (uint32_t t = 0; t < c->type_count; t++)
		for (uint32_t o = 0; o < ops; o++)
			for (int32_t root = first; root < end; root++) {
				p->type = c->types[t];
				p->op = c->ops[o];
				if (!lab_rank_sizes(me, which, p, root))
					return false;
			}
	return true;
}

bool lab_rank_series(struct lab_rank *me)
{
	const struct lab_config *c = me->run->config;
	struct payload p = {.nranks = me->run->nranks, .any = c->any_numbers};
	bool ok = !c->before || lab_rank_rows(me, c->before, &p);

	for (uint32_t i = 0; ok && i < MAX_OF(c->cycles, 1u); i++)
		ok = lab_rank_rows(me, c->collective, &p);
	return ok;
}

/* One more, that no task waits for: the communicator is destroyed while it runs. */
bool lab_rank_hurry(struct lab_rank *me, struct lab_row *row)
{
	const struct lab_config *c = me->run->config;
	const struct payload p = {.type = c->types[0],
				  .op = c->ops[0],
				  .nranks = me->run->nranks,
				  .salt = LAB_HURRY_SALT,
				  .any = c->any_numbers};

	*row = lab_row_make(c->collective, &p, MAX_OF(c->root, 0), c->bytes_max, lab_parts(c));
	row->in_place = lab_collective_in_place(c->collective, true);
	if (lab_leads(me))
		me->run->digest_rank = -1;
	if (lab_leads(me) && me->run->expect && c->collective->reduces)
		lab_row_reduce(row, me->run->expect);
	/* the row before may be of another type, and so of another size */
	return (row->in_place || lab_rank_recv_prepare(me, row)) && lab_rank_fill(me, row) &&
	       lab_barrier(me) && lab_rank_bring(me, row) && lab_rank_enqueue(me, row, 1, 1);
}
