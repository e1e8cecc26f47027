/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deadlines of this process' communicators, for the RAS task: operations and inits that are late,
 * and the end of communicators that have got a verdict (core/ras/watch/ras_verdict.c).
 *
 * Rank 0 reports its late operation immediately. A higher rank waits a little longer, because all
 * ranks are late at nearly the same time, and one query is enough. The others then get the verdict.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/base/type_name.h"
#include "core/comm/comm_internal.h"
#include "core/proxy/proxy.h"
#include "core/rank/cuda_result.h"
#include "core/ras/ras_job.h"

#define LATE_COMMS       256       /* most communicators that one look reads */
#define LATE_STAGGER_NS  20000000u /* between the reports of two ranks */
#define LATE_STAGGER_MAX 50        /* ranks that report one after another */
#define LATE_WAITS       2         /* most waits that a rank logs */
#define LATE_DUMP_NS     500000000ull
/* Time after which a rank does not wait for the second phase of a verdict. */
#define LATE_COMMIT_NS 10000000000ull
/* The root reports the ranks that are absent at the deadline of an init. An init that has got no
 * such report ends after this time, and a quarter of the deadline more. */
#define LATE_INIT_NS 1000000000ull

ncclResult_t comm_watch_make(struct ncclComm *comm)
{
	ncclResult_t rc = ras_join(&comm_ras_source, &comm->ras);

	if (rc || !comm->ras)
		return rc;
	comm->calls = os_alloc(sizeof *comm->calls, "last calls of a rank");
	if (!comm->calls) {
		WARN("no memory for the last calls of rank %d", comm->rank);
		ras_leave(comm->ras);
		return ncclSystemError;
	}
	comm->launch_order = ras_launch_order(comm->ras);
	comm->timeout_ns = (uint64_t)param_i64(PARAM_TIMEOUT_MS) * 1000000ull;
	if (comm->timeout_ns)
		ras_watch(comm->ras, comm->timeout_ns);
	return ncclSuccess;
}

bool comm_is_judged(const struct ncclComm *comm)
{
	return comm->ras && shared_load_u32(&comm->verdict, SHARED_ACQUIRE) &&
	       os_now_ns() < shared_load_u64(&comm->verdict_until_ns, SHARED_RELAXED);
}

static int late_comms(struct ncclComm *comm[LATE_COMMS], bool *leads)
{
	struct registry_node *first = registry_lock();
	int n = 0;

	*leads = false;
	for (struct registry_node *node = first; node && n < LATE_COMMS; node = node->next) {
		struct ncclComm *c = comm_of(node);

		if (!c || !c->ras)
			continue;
		*leads = *leads || (c->rank == 0 && c->nranks > 1 && c->ras_peers);
		comm[n++] = c;
	}
	registry_unlock(first);
	return n;
}

/* ---- inits ---------------------------------------------------------------------------------- */

const char *comm_init_step_name(uint32_t step)
{
	static const char *const names[] = {
		[COMM_STEP_JOIN] = "joining the other ranks",
		[COMM_STEP_GATHER] = "gathering the identities of all ranks",
		[COMM_STEP_CONNECT] = "finding the topology and connecting ranks",
		[COMM_STEP_AGREE] = "waiting for all ranks in its last barrier",
	};

	return step < ARRAY_LEN(names) ? names[step] : "in an unknown step";
}

static void late_init_log(const struct ncclComm *comm, uint64_t ns)
{
	WARN("rank %d of %d: the init has taken %.3f s (DOPPEL_TIMEOUT_MS %.3f s) and is %s",
	     comm->rank, comm->nranks, (double)ns * 1e-9, (double)comm->timeout_ns * 1e-9,
	     comm_init_step_name(shared_load_u32(&comm->life->init_step, SHARED_RELAXED)));
}

/* Another rank's deadline may have passed a little earlier, and its end is the error here. */
ncclResult_t comm_init_error(const struct ncclComm *comm, ncclResult_t rc)
{
	uint64_t ns;

	/* The task may have stalled after its last wait, and the deadline passed meanwhile. */
	if (!rc && comm->timeout_ns && comm->ras && comm_is_aborted(comm))
		return (ncclResult_t)shared_load_u32(&comm->verdict, SHARED_ACQUIRE);
	if (rc != ncclRemoteError || !comm->timeout_ns || !comm->ras)
		return rank_error(comm, rc);
	ns = os_now_ns() - shared_load_u64(&comm->life->init_ns, SHARED_RELAXED);
	if (ns < comm->timeout_ns)
		return rank_error(comm, rc);
	late_init_log(comm, ns);
	return ncclTimeout;
}

/* Ends an init that is late although the root has reported no absent rank. */
static void late_init(struct ncclComm *comm)
{
	uint64_t began_ns = shared_load_u64(&comm->life->init_ns, SHARED_ACQUIRE);
	uint64_t limit_ns = comm->timeout_ns + comm->timeout_ns / 4 + LATE_INIT_NS;
	uint64_t ns = os_now_ns() - began_ns;

	if (!began_ns || !comm->timeout_ns || ns < limit_ns || comm_is_aborted(comm))
		return;
	late_init_log(comm, ns);
	shared_store_u32(&comm->verdict, ncclTimeout, SHARED_RELEASE);
	/* The init may just have ended with success. Kernels that the abort ends need an error. */
	rank_set_async_error(comm, ncclTimeout);
	shared_store_u32(comm->abort, 1, SHARED_RELEASE);
}

/* ---- launches ------------------------------------------------------------------------------- */

static void late_collectives_write(struct ras_text *out, const struct ncclComm *comm,
				   const struct rank_launch *l)
{
	struct rank_call call;
	struct ras_call known;

	if (comm->calls && rank_calls_read(comm->calls, l->first, &call)) {
		known = comm_ras_call(comm->id_hash, comm->rank, &call);
		ras_call_write(out, &known);
	} else {
		ras_text_add(out, "a collective");
	}
	ras_text_add(out, ", call %" PRIu64, l->first);
	if (l->calls > 1)
		ras_text_add(out, " and %d more in its launch", l->calls - 1);
}

static void late_messages_write(struct ras_text *out, const struct rank_launch *l)
{
	ras_text_add(out, "%s of %" PRIu64 " %s %s rank %d, message %" PRIu64,
		     l->is_send ? "ncclSend" : "ncclRecv", l->count, type_name_any(l->type),
		     l->is_send ? "to" : "from", l->peer, l->number);
	if (l->messages > 1)
		ras_text_add(out, " and %d more in its group", l->messages - 1);
	if (l->connects)
		ras_text_add(out, ", for which rank %d has not connected,", l->peer);
}

static void late_launch_write(struct ras_text *out, const struct ncclComm *comm,
			      const struct rank_launch *l, uint64_t ns)
{
	char at[COMM_CODE_BYTES];

	ras_text_add(out, "rank %d: ", comm->rank);
	if (l->calls)
		late_collectives_write(out, comm, l);
	else if (l->messages)
		late_messages_write(out, l);
	else
		ras_text_add(out, "call %" PRIu64 " (split, shrink, grow, suspend, resume, window)",
			     l->number);
	os_code_name(l->caller, at, sizeof at);
	ras_text_add(out, " of communicator %016" PRIx64, comm->id_hash);
	if (l->caller)
		ras_text_add(out, ", called at %s,", at);
	ras_text_add(out, " has waited %.3f s (limit %.3f s)", (double)ns * 1e-9,
		     (double)l->timeout_ns * 1e-9);
}

/* Fills in the operation if it is late enough to be reported by this rank. */
static bool late_launch(struct ncclComm *comm, struct ras_late *late)
{
	uint64_t stagger_ns = (uint64_t)MIN_OF(comm->rank, LATE_STAGGER_MAX) * LATE_STAGGER_NS;
	struct ras_text text = {.bytes = 0};
	struct rank_launch l;
	uint64_t ns = rank_timed_look(&comm->timed, &l);

	if (!ns || ns < l.timeout_ns + stagger_ns || comm_is_aborted(comm))
		return false;
	*late = (struct ras_late){.comm = comm->id_hash,
				  .rank = comm->rank,
				  .collective = l.calls > 0,
				  .forms = l.forms,
				  .number = l.forms ? l.number : l.first};
	late_launch_write(&text, comm, &l, ns);
	snprintf(late->text, sizeof late->text, "%s", text.at ? text.at : "");
	ras_text_free(&text);
	return true;
}

/* True if the communicator has a late operation. Afterwards it may no longer exist. */
static bool late_comm(struct ncclComm *comm, struct ras_late *late)
{
	bool found = false;

	if (comm_enter(comm, NULL, COMM_NEED_ANY))
		return false;
	if (comm_in_init(comm))
		late_init(comm);
	else
		found = late_launch(comm, late);
	comm_leave(comm);
	return found;
}

int comm_late_find(struct ras_late *late, int most, bool *leads)
{
	struct ncclComm **comm = os_alloc(LATE_COMMS * sizeof(struct ncclComm *), "RAS look");
	enum cudaStreamCaptureMode mode = cuda_capture_mode(cudaStreamCaptureModeRelaxed);
	int comms, n = 0;

	*leads = false;
	comms = comm ? late_comms(comm, leads) : 0;
	for (int i = 0; i < comms && n < most; i++)
		n += late_comm(comm[i], &late[n]);
	(void)cuda_capture_mode(mode);
	os_free(comm);
	return n;
}

/* ---- the end -------------------------------------------------------------------------------- */

/* The waits of one rank's operations. */
struct late_waits {
	const struct ncclComm *comm;
	struct ras_text text;
	int n;
};

static void late_wait_add(void *arg, const struct proxy_report_op *op)
{
	struct late_waits *w = arg;

	if (op->comm != w->comm->id_hash || op->rank != w->comm->rank || !op->began_ns ||
	    !op->nwaits || w->n >= LATE_WAITS)
		return;
	w->n++;
	ras_text_add(&w->text, "; channel %d %s rank %d ", op->channel,
		     op->is_send ? "send to" : "receive from", op->peer);
	comm_ras_wait_write(&w->text, op->wait[0].why, &op->wait[0].from);
}

/* Writes which rank ends, and the verdict. */
static void late_ends(struct ras_text *to, const struct ncclComm *comm, ncclResult_t error,
		      const char *text)
{
	ras_text_add(to, "rank %d: ends with %s: %s", comm->rank,
		     error == ncclTimeout ? "ncclTimeout" : "ncclInvalidUsage", text);
}

/* Logs the verdict with the waits of this rank, and keeps this longer text as the cause. */
static void late_log(struct ncclComm *comm, ncclResult_t error, const char *text,
		     const shared_u32 *stop)
{
	struct late_waits w = {.comm = comm};
	uint32_t cut;

	late_ends(&w.text, comm, error, text);
	(void)proxy_report(late_wait_add, &w, os_now_ns() + LATE_DUMP_NS, stop, &cut);
	if (!w.n)
		ras_text_add(&w.text, "; rank %d %s", comm->rank,
			     comm->launched && comm_launches_query(comm) == cudaErrorNotReady
				     ? "has a kernel that waits, and no operation of the network"
				     : "has no kernel that runs");
	WARN("%s", w.text.at ? w.text.at : text);
	if (w.text.at)
		rank_cause_keep(comm, w.text.at);
	ras_text_free(&w.text);
}

static void late_commit(struct ncclComm *comm, const char *text, const shared_u32 *stop)
{
	ncclResult_t error = (ncclResult_t)shared_load_u32(&comm->verdict, SHARED_ACQUIRE);

	if (comm_is_aborted(comm))
		return;
	late_log(comm, error, text, stop);
	rank_set_async_error(comm, error);
	shared_store_u32(comm->abort, 1, SHARED_RELEASE);
}

/* The first verdict stays, and so does its text. */
static void late_prepare(struct ncclComm *comm, uint32_t error, const char *text)
{
	uint32_t none = shared_load_u32(&comm->verdict, SHARED_ACQUIRE);
	struct ras_text cause = {.bytes = 0};

	shared_store_u64(&comm->verdict_until_ns, os_now_ns() + LATE_COMMIT_NS, SHARED_RELAXED);
	if (none != ncclSuccess)
		return;
	late_ends(&cause, comm, (ncclResult_t)error, text);
	rank_cause_keep(comm, cause.at ? cause.at : text);
	ras_text_free(&cause);
	while (none == ncclSuccess &&
	       !shared_cas_weak_u32(&comm->verdict, &none, error, SHARED_ACQ_REL))
		;
}

void comm_late_fail(uint64_t hash, enum ras_phase phase, uint32_t error, const char *text,
		    const shared_u32 *stop)
{
	struct ncclComm **comm = os_alloc(LATE_COMMS * sizeof(struct ncclComm *), "RAS verdict");
	bool leads;
	int n = comm ? late_comms(comm, &leads) : 0;

	for (int i = 0; i < n; i++) {
		if (comm_enter(comm[i], NULL, COMM_NEED_ANY))
			continue;
		if (comm[i]->id_hash == hash)
			late_prepare(comm[i], error, text);
		if (comm[i]->id_hash == hash && phase == RAS_COMMIT)
			late_commit(comm[i], text, stop);
		comm_leave(comm[i]);
	}
	os_free(comm);
}
