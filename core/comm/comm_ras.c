/* SPDX-License-Identifier: BSD-3-Clause */
/* The view that the RAS task has of this process: its ranks, and their pending operations. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm/comm_internal.h"
#include "core/device/layout/names.h"
#include "core/device/layout/steps.h"
#include "core/proxy/proxy.h"
#include "core/rank/cuda_result.h"
#include "core/ras/ras_job.h"

#define RAS_COMMS 256 /* most communicators of a process whose operations are described */

static const uint8_t comm_ras_funcs[DEV_FUNC_COUNT] = {
	[DEV_BROADCAST] = RAS_BROADCAST,   [DEV_REDUCE] = RAS_REDUCE,
	[DEV_ALL_GATHER] = RAS_ALL_GATHER, [DEV_REDUCE_SCATTER] = RAS_REDUCE_SCATTER,
	[DEV_ALL_REDUCE] = RAS_ALL_REDUCE, [DEV_ALL_TO_ALL] = RAS_ALL_TO_ALL,
};

struct ras_call comm_ras_call(uint64_t comm, int32_t rank, const struct rank_call *c)
{
	return (struct ras_call){
		.comm = comm,
		.number = c->number,
		.count = c->count,
		.chain = c->chain,
		.order = c->order,
		.stream = c->stream,
		.rank = rank,
		.root = c->root,
		.func = comm_ras_funcs[c->func],
		.type = c->type,
		.op = c->op,
	};
}

/* ---- the view ------------------------------------------------------------------------------- */

int32_t comm_nvml_dev(int32_t cuda_dev)
{
	const char *list = os_env("CUDA_VISIBLE_DEVICES");
	char *end;
	long dev;

	if (!list || !*list)
		return cuda_dev;
	for (int32_t i = 0; i < cuda_dev && list; i++) {
		list = strchr(list, ',');
		list = list ? list + 1 : NULL;
	}
	if (!list)
		return -1;
	dev = strtol(list, &end, 10);
	return end != list && (*end == ',' || !*end) && dev >= 0 && dev < 64 ? (int32_t)dev : -1;
}

static void comm_ras_rank(const struct ncclComm *c, struct ras_rank *r)
{
	r->comm = c->id_hash;
	r->rank = c->rank;
	r->nranks = c->nranks;
	r->calls = c->calls ? rank_calls_next(c->calls) : 0;
	r->cuda_dev = c->cuda_dev;
	r->nvml_dev = comm_nvml_dev(c->cuda_dev);
	r->init_state = c->life->state == COMM_INIT ? ncclInProgress : ncclSuccess;
	r->async_error = shared_load_u32(&c->async_error, SHARED_ACQUIRE);
	r->finalized = c->life->state == COMM_FINALIZING || c->life->state == COMM_FINALIZED;
	r->destroyed = c->life->claimed;
	r->aborted = shared_load_u32(c->abort, SHARED_ACQUIRE) != 0;
	r->reached = rank_timed_reached(&c->timed, r->calls);
	r->formed = shared_load_u64(&c->timed.formed, SHARED_ACQUIRE);
	r->awaited = -1;
	for (int f = 0; f < DEV_FUNC_COUNT; f++)
		r->count[comm_ras_funcs[f]] =
			shared_load_u64(&c->launches.count[f], SHARED_RELAXED);
	if (!c->ras_peers)
		return;
	r->first_host = c->peers[0].host_hash;
	r->first_pid = c->peers[0].pid_hash;
}

static void comm_ras_members(const struct ncclComm *c, struct ras_view *v)
{
	for (int32_t i = 0; i < c->nranks; i++) {
		const struct rank_ras_peer *p = &c->ras_peers[i];
		struct ras_member *m = ras_view_member(v);

		if (!m)
			return;
		*m = (struct ras_member){.comm = c->id_hash,
					 .addr = p->addr,
					 .rank = i,
					 .pid = p->pid,
					 .cuda_dev = c->peers[i].cuda_dev,
					 .nvml_dev = p->nvml_dev};
	}
}

/* True if a communicator before this one in the list is of the same id and knows its members. */
static bool comm_ras_is_listed(struct registry_node *first, const struct ncclComm *c)
{
	for (struct registry_node *n = first; n != &c->node; n = n->next) {
		const struct ncclComm *other = comm_of(n);

		if (other && other->id_hash == c->id_hash && other->ras_peers)
			return true;
	}
	return false;
}

static void comm_ras_calls(const struct ncclComm *c, struct ras_view *v)
{
	uint64_t next = rank_calls_next(c->calls);
	struct rank_call call;

	for (uint64_t n = next < RANK_CALLS ? 0 : next - RANK_CALLS; n < next; n++) {
		struct ras_call *out =
			rank_calls_read(c->calls, n, &call) ? ras_view_call(v) : NULL;

		if (out)
			*out = comm_ras_call(c->id_hash, c->rank, &call);
	}
}

static void comm_ras_view(struct ras_view *v, enum ras_detail detail)
{
	struct registry_node *first = registry_lock();

	for (struct registry_node *n = first; n; n = n->next) {
		const struct ncclComm *c = comm_of(n);
		struct ras_rank *r = c ? ras_view_rank(v) : NULL;

		if (!r)
			continue;
		comm_ras_rank(c, r);
		if (detail != RAS_RANKS && c->calls)
			comm_ras_calls(c, v);
		if (c->ras_peers && !comm_ras_is_listed(first, c))
			comm_ras_members(c, v);
	}
	registry_unlock(first);
	if (detail == RAS_WAITS)
		comm_ras_waits(v);
}

/* ---- pending operations --------------------------------------------------------------------- */

static double comm_ras_since(uint64_t from_ns)
{
	return (double)(os_now_ns() - from_ns) * 1e-9;
}

struct comm_ras_launch {
	struct ncclComm *comm; /* may have ended; comm_is_busy checks it */
	uint64_t hash, launched, last_ns;
	int32_t rank, nranks;
	uint64_t init_ns; /* begin of the init that runs; 0: none runs */
	uint32_t init_step;
	uint32_t last, async_error;
	bool called; /* `call` is the last collective */
	struct rank_call call;
};

/* Reads the last call. False: it is not known. */
static bool comm_ras_last(const struct ncclComm *c, struct rank_call *call)
{
	uint64_t next = c->calls ? rank_calls_next(c->calls) : 0;

	return next && rank_calls_read(c->calls, next - 1, call);
}

static int comm_ras_launches(struct comm_ras_launch *l)
{
	struct registry_node *first = registry_lock();
	int n = 0;

	for (struct registry_node *node = first; node && n < RAS_COMMS; node = node->next) {
		struct ncclComm *c = comm_of(node);

		if (!c)
			continue;
		l[n++] = (struct comm_ras_launch){
			.comm = c,
			.hash = c->id_hash,
			.launched = shared_load_u64(&c->ops_seen, SHARED_ACQUIRE),
			.last_ns = shared_load_u64(&c->launches.last_ns, SHARED_ACQUIRE),
			.rank = c->rank,
			.nranks = c->nranks,
			.last = shared_load_u32(&c->launches.last, SHARED_RELAXED),
			.async_error = shared_load_u32(&c->async_error, SHARED_ACQUIRE),
		};
		l[n - 1].called = comm_ras_last(c, &l[n - 1].call);
		if (c->life->state == COMM_INIT)
			l[n - 1].init_ns = shared_load_u64(&c->life->init_ns, SHARED_ACQUIRE);
		l[n - 1].init_step = shared_load_u32(&c->life->init_step, SHARED_RELAXED);
	}
	registry_unlock(first);
	return n;
}

static void comm_ras_call_write(struct ras_text *out, const struct comm_ras_launch *l)
{
	struct ras_call call = comm_ras_call(l->hash, l->rank, &l->call);
	char at[COMM_CODE_BYTES];

	os_code_name((const void *)(uintptr_t)l->call.caller, at, sizeof at);
	ras_text_add(out, "    call %" PRIu64 " is ", call.number);
	ras_call_write(out, &call);
	ras_text_add(out, ", called at %s\n", at);
}

static void comm_ras_launch_write(struct ras_text *out, const struct comm_ras_launch *l)
{
	ras_text_add(out, "  communicator %016" PRIx64 " rank %d of %d: ", l->hash, l->rank,
		     l->nranks);
	if (l->async_error)
		ras_text_add(out, "failed with error %u; ", l->async_error);
	if (l->init_ns) {
		ras_text_add(out, "its init runs since %.3f s, %s\n", comm_ras_since(l->init_ns),
			     comm_init_step_name(l->init_step));
		return;
	}
	if (!l->last_ns) {
		ras_text_add(out, "no collective launched\n");
		return;
	}
	ras_text_add(out, "%" PRIu64 " collectives launched, the last (%s) %.3f s ago; %s\n",
		     l->launched, steps_func_name((int)l->last), comm_ras_since(l->last_ns),
		     comm_is_busy(l->comm) ? "its kernels run" : "its kernels have ended");
	if (l->called)
		comm_ras_call_write(out, l);
}

void comm_ras_wait_write(struct ras_text *out, const char *why, const struct wait_from *from)
{
	ras_text_add(out, "waits for %s", why);
	if (from->rank >= 0)
		ras_text_add(out, ", from rank %d", from->rank);
	if (from->object)
		ras_text_add(out, " (%s)", from->object);
	if (from->step >= 0)
		ras_text_add(out, ", step %" PRId64, from->step);
}

static void comm_ras_op_write(void *arg, const struct proxy_report_op *op)
{
	struct ras_text *out = arg;

	ras_text_add(out,
		     "    communicator %016" PRIx64 " rank %d channel %d %s rank %d: ", op->comm,
		     op->rank, op->channel, op->is_send ? "send to" : "receive from", op->peer);
	if (op->began_ns) {
		ras_text_add(out,
			     "operation %" PRIu64 " since %.3f s: %" PRIu64 " steps, posted "
			     "%" PRIu64 ", ",
			     op->op_count, comm_ras_since(op->began_ns), op->nsteps, op->posted);
		if (!op->is_send)
			ras_text_add(out, "received %" PRIu64 ", flushed %" PRIu64 ", ",
				     op->received, op->flushed);
		ras_text_add(out, "transmitted %" PRIu64 ", done %" PRIu64, op->transmitted,
			     op->done);
	} else {
		ras_text_add(out, "not begun");
	}
	ras_text_add(out, "; %u more operations queued%s\n", op->queued,
		     op->failed ? "; the connection has failed" : "");
	for (uint32_t i = 0; i < op->nwaits; i++) {
		ras_text_add(out, "      ");
		comm_ras_wait_write(out, op->wait[i].why, &op->wait[i].from);
		ras_text_add(out, "\n");
	}
}

static void comm_ras_dump(struct ras_text *out, struct ras_text *why, uint64_t deadline_ns,
			  const shared_u32 *stop)
{
	struct comm_ras_launch *l = os_alloc(RAS_COMMS * sizeof *l, "RAS launches");
	enum cudaStreamCaptureMode mode = cuda_capture_mode(cudaStreamCaptureModeRelaxed);
	int n = l ? comm_ras_launches(l) : 0, silent;
	uint32_t cut;

	comm_ras_why(why, os_now_ns() + (deadline_ns - os_now_ns()) / 2);
	for (int i = 0; i < n; i++)
		comm_ras_launch_write(out, &l[i]);
	(void)cuda_capture_mode(mode);
	os_free(l);
	silent = proxy_report(comm_ras_op_write, out, deadline_ns, stop, &cut);
	if (silent)
		ras_text_add(out, "    %d progress task%s gave no answer\n", silent,
			     silent > 1 ? "s" : "");
	if (cut)
		ras_text_add(out, "    %u further operations are not listed\n", cut);
}

const struct ras_source comm_ras_source = {
	.view = comm_ras_view,
	.dump = comm_ras_dump,
	.late = comm_late_find,
	.fail = comm_late_fail,
};
