/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives: checks and enqueues them; launches them immediately or at the end of the group.
 */
#include "core/api/collective.h"

#include "core/base/log.h"
#include "core/base/type_name.h"
#include "core/device/layout/steps.h"

/* ---- the calls ------------------------------------------------------------------------------ */

/* clang-format off */
static const struct api_coll_row api_colls[] = {
	/* call, the same with options, func, count, reduces, rooted, and the send buffer and the
	 * receive buffer: {name, per rank, root only} */
	[API_ALL_REDUCE] =
		{"ncclAllReduce", "ncclAllReduceConfig", DEV_ALL_REDUCE, "count", true, false,
		 {"sendbuff", false, false}, {"recvbuff", false, false}},
	[API_ALL_GATHER] =
		{"ncclAllGather", "ncclAllGatherConfig", DEV_ALL_GATHER, "sendcount", false, false,
		 {"sendbuff", false, false}, {"recvbuff", true,  false}},
	[API_REDUCE] =
		{"ncclReduce", "ncclReduceConfig", DEV_REDUCE, "count", true, true,
		 {"sendbuff", false, false}, {"recvbuff", false, true}},
	[API_BROADCAST] =
		{"ncclBroadcast", "ncclBroadcastConfig", DEV_BROADCAST, "count", false, true,
		 {"sendbuff", false, true},  {"recvbuff", false, false}},
	[API_BCAST] =
		{"ncclBcast", NULL, DEV_BROADCAST, "count", false, true,
		 {"buff",     false, true},  {"buff",     false, false}},
	[API_REDUCE_SCATTER] =
		{"ncclReduceScatter", "ncclReduceScatterConfig", DEV_REDUCE_SCATTER, "recvcount",
		 true, false, {"sendbuff", true,  false}, {"recvbuff", false, false}},
};
/* clang-format on */
DOPPEL_STATIC_CHECK(ARRAY_LEN(api_colls) == API_BCAST + 1, "a row for each call");

/* ---- to the plan ---------------------------------------------------------------------------- */

/* Starts the events of the call for a profiler plugin. */
static void coll_profile(struct api_coll *c, struct profiler_group *own)
{
	struct profiler_descr d = {.type = PROFILER_COLL_API};
	struct plan_task *t = &c->task;
	bool captured;
	const struct profiler_group *g =
		api_profile_begin(own, c->comm, t->call, t->stream, &captured);

	if (!c->comm->profiler)
		return;
	d.coll_api.func = profiler_func_name(t->func);
	d.coll_api.count = t->count;
	d.coll_api.type = profiler_type_name(t->type);
	d.coll_api.root = t->root;
	d.coll_api.stream = t->stream;
	d.coll_api.captured = captured;
	d.coll_api.tag = t->options.tag;
	t->profile = profiler_call_begin(g, c->comm, &d);
}

static ncclResult_t coll_submit(struct api_coll *c)
{
	struct api_submission s = {c->task.call, c->task.stream, c->completion, {.of = NULL}};
	struct api_group *g = api_group();
	ncclResult_t rc = api_coll_check_buffers(c);

	if (!rc && g)
		rc = api_group_add_comm(g, c->comm, true);
	if (!rc)
		coll_profile(c, &s.own);
	if (!rc)
		rc = plan_enqueue(c->comm, &c->task);
	profiler_call_end(c->comm, &c->task.profile);
	ASSERT(rc || !g || g->nmembers > 0); /* ncclGroupEnd launches the members' queues */
	return api_submitted(c->comm, &s, rc);
}

static ncclResult_t coll_submit_traced(struct api_coll *c)
{
	bool traced = os_tracing();
	ncclResult_t rc;

	if (traced)
		plan_trace_begin(c->comm, &c->task);
	rc = coll_submit(c);
	if (traced)
		os_trace_end(&(struct os_trace_slice){.name = c->task.call,
						      .arg = {{"result", (uint64_t)rc, NULL}}});
	return rc;
}

static void coll_log(const struct api_coll *c)
{
	const struct plan_task *t = &c->task;

	INFO(LOG_COLL | LOG_CALL,
	     "%s: opCount %llx sendbuff %p recvbuff %p count %zu datatype %s op %s root %d comm %p "
	     "[nranks=%d] stream %p rank %d",
	     t->call, (unsigned long long)plan_next_op(c->comm), t->send, t->recv, t->count,
	     type_name_any((int)t->type), t->reduces ? redop_name((int)t->op) : "none", t->root,
	     (const void *)c->comm, c->comm->nranks, (void *)t->stream, c->comm->rank);
}

ncclResult_t api_coll_call(struct api_coll *c, enum api_coll_call call, const void *caller)
{
	c->row = &api_colls[call];
	c->task.caller = caller;
	c->task.func = c->row->func;
	c->task.call = c->configured ? c->row->config_call : c->row->call;
	c->task.name = steps_func_name(c->row->func);
	c->task.reduces = c->row->reduces;

	ASSERT(c->row->rooted || c->task.root == -1);
	ASSERT(c->task.call && (c->configured || !c->config)); /* ncclBcast has no options */
	ncclResult_t rc = comm_enter(c->comm, c->task.call, COMM_NEED_READY);
	if (rc)
		return api_return(rc);
	coll_log(c);
	int32_t rank = os_work_for(c->comm->rank);
	rc = api_coll_check_values(c);
	if (!rc && c->config)
		rc = api_options_of_coll(c);
	if (!rc)
		rc = plan_check(c->comm, &c->task);
	if (!rc)
		rc = coll_submit_traced(c);
	(void)os_work_for(rank);
	comm_leave(c->comm);
	return api_return(rc);
}

/* ---- entry points: arguments as the program passes them ------------------------------------- */

API_TWIN(ncclAllReduce);
API_WEAK ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count,
				    ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
				    cudaStream_t stream)
{
	struct api_coll c = api_coll_of(sendbuff, recvbuff, count, datatype, op, -1, comm, stream);

	return api_coll_call(&c, API_ALL_REDUCE, __builtin_return_address(0));
}

API_TWIN(ncclAllGather);
API_WEAK ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount,
				    ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
	struct api_coll c =
		api_coll_of(sendbuff, recvbuff, sendcount, datatype, ncclSum, -1, comm, stream);

	return api_coll_call(&c, API_ALL_GATHER, __builtin_return_address(0));
}

API_TWIN(ncclReduceScatter);
API_WEAK ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
					ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
					cudaStream_t stream)
{
	struct api_coll c =
		api_coll_of(sendbuff, recvbuff, recvcount, datatype, op, -1, comm, stream);

	return api_coll_call(&c, API_REDUCE_SCATTER, __builtin_return_address(0));
}

API_TWIN(ncclReduce);
API_WEAK ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count,
				 ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
				 cudaStream_t stream)
{
	struct api_coll c =
		api_coll_of(sendbuff, recvbuff, count, datatype, op, root, comm, stream);

	return api_coll_call(&c, API_REDUCE, __builtin_return_address(0));
}

API_TWIN(ncclBroadcast);
API_WEAK ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count,
				    ncclDataType_t datatype, int root, ncclComm_t comm,
				    cudaStream_t stream)
{
	struct api_coll c =
		api_coll_of(sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream);

	return api_coll_call(&c, API_BROADCAST, __builtin_return_address(0));
}

API_TWIN(ncclBcast);
API_WEAK ncclResult_t ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root,
				ncclComm_t comm, cudaStream_t stream)
{
	struct api_coll c = api_coll_of(buff, buff, count, datatype, ncclSum, root, comm, stream);

	return api_coll_call(&c, API_BCAST, __builtin_return_address(0));
}
