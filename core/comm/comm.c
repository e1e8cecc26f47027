/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates a communicator, enters and leaves it, and keeps its errors. */
#include "core/comm/comm.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/log.h"
#include "core/comm/comm_internal.h"
#include "core/mem/mem.h"
#include "core/proxy/proxy.h"
#include "core/rank/cuda_result.h"
#include "core/ras/ras.h"
#include "core/transport/nets.h"
#include "core/tune/allowed.h"

/* Time in which kernels may end after a neighbour has ended its communicator. */
#define COMM_STUCK_NS 100000000ull

/* Allocates a communicator with what its end needs. */
static struct ncclComm *comm_alloc(int rank)
{
	struct ncclComm *comm = os_alloc(sizeof *comm + sizeof(struct comm_life), "communicator");
	struct comm_release *release = os_alloc(sizeof *release, "release of communicators");

	if (comm && release) {
		comm->life = (struct comm_life *)(comm + 1);
		comm->life->release_made = release;
		return comm;
	}
	WARN("no memory for the communicator of rank %d", rank);
	os_free(release);
	os_free(comm);
	return NULL;
}

/* Allocates pinned host memory for the abort word, which kernels can see. The rest of the block
 * stages copies to the device. */
static ncclResult_t comm_pinned_alloc(struct ncclComm *comm)
{
	void *mem = NULL;
	size_t staging = comm_dev_layout(DEV_MAX_CHANNELS, TRANSPORT_COPY_CONNS).ranks;
	size_t bytes = COMM_PINNED_ABORT_BYTES + staging;
	ncclResult_t rc = mem_host_alloc(&mem, bytes, "the abort word");
	if (rc)
		return rc;
	memset(mem, 0, bytes);
	comm->abort = mem;
	comm->staging = (char *)mem + COMM_PINNED_ABORT_BYTES;
	return ncclSuccess;
}

ncclResult_t comm_create(struct ncclComm **out, int nranks, const ncclUniqueId *id, int rank,
			 const ncclConfig_t *config)
{
	struct comm_life *life;
	struct ncclComm *comm;
	uint64_t allowed;
	ncclResult_t rc = tune_allowed_read(&allowed);

	if (rc)
		return rc;
	comm = comm_alloc(rank);
	if (!comm)
		return ncclSystemError;
	life = comm->life;
	comm->node.kind = REGISTRY_COMM;
	comm->magic = COMM_MAGIC;
	comm->rank = rank;
	comm->nranks = nranks;
	life->id = *id;
	life->made_by = "ncclCommInitRank";
	comm->id_hash = bootstrap_id_hash(id);
	comm->config = *config;
	comm->allowed = allowed;
	comm->bootstrap_taken = true; /* taken by the init */
	comm->network = &transport_net;
	if (config->netName)
		net_want(comm, config->netName);
	if (config->commName)
		strncpy(life->name, config->commName, sizeof life->name - 1);
	rc = cuda_result(cudaGetDevice(&comm->cuda_dev), "cudaGetDevice");
	if (!rc)
		rc = cuda_result(
			cudaDeviceGetPCIBusId(comm->bus_id, sizeof comm->bus_id, comm->cuda_dev),
			"cudaDeviceGetPCIBusId");
	for (char *p = comm->bus_id; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	if (!rc)
		rc = comm_pinned_alloc(comm);
	if (rc) {
		os_free(life->release_made);
		os_free(comm);
		return rc;
	}
	rc = comm_watch_make(comm);
	if (rc) {
		(void)mem_host_free(comm->abort, "the abort word");
		os_free(life->release_made);
		os_free(comm);
		return rc;
	}
	shared_store_u32(&life->users, 1, SHARED_RELAXED);
	registry_add(&comm->node);
	*out = comm;
	return ncclSuccess;
}

/* ---- entering ----------------------------------------------------------------------------------
 */

/* Returns `comm` if it is in the list, else NULL. The caller holds the lock. */
static struct ncclComm *comm_find(struct registry_node *first, const struct ncclComm *comm)
{
	for (struct registry_node *n = first; n; n = n->next)
		if (n->kind == REGISTRY_COMM && (const struct ncclComm *)n == comm)
			return (struct ncclComm *)n;
	return NULL;
}

/* Returns the asynchronous error that a call meets. A finalized communicator has done all its work:
 * an error that comes later is that of other ranks, and is only passed on. The caller holds the
 * lock. */
static uint32_t comm_error_met(const struct ncclComm *comm)
{
	return comm->life->state == COMM_FINALIZED
		       ? ncclSuccess
		       : shared_load_u32(&comm->async_error, SHARED_ACQUIRE);
}

/* Returns the result of a call that needs the communicator, after an asynchronous error. Logs no
 * WARN: the last one, which ncclGetLastError returns, has the cause. */
static ncclResult_t comm_failed(struct ncclComm *comm, const char *call, uint32_t error)
{
	OS_PROBE("comm.call_after_error", "a call finds that its communicator has failed",
		 error != ncclSuccess);
	if (error) {
		shared_store_u32(&comm->error_given, 1, SHARED_RELAXED);
		INFO(LOG_COLL,
		     "%s: rank %d: the communicator has failed with %u; call ncclCommAbort", call,
		     comm->rank, error);
	}
	return (ncclResult_t)error;
}

/* Describes why a call must wait, or is too late. */
static const char *comm_state_print(enum comm_state state)
{
	switch (state) {
	case COMM_INIT:
		return "not initialised yet; poll ncclCommGetAsyncError until it is";
	case COMM_FINALIZING:
		return "being finalized; poll ncclCommGetAsyncError until it is, or call "
		       "ncclCommDestroy or ncclCommAbort";
	case COMM_FINALIZED:
		return "finalized; only ncclCommDestroy or ncclCommAbort may follow";
	case COMM_REVOKED:
		return "revoked; only ncclCommSplit, ncclCommShrink, ncclCommDestroy or "
		       "ncclCommAbort may follow";
	case COMM_CHANGING:
		return "being suspended or resumed; poll ncclCommGetAsyncError until it is, or "
		       "call ncclCommAbort";
	case COMM_SUSPENDED:
		return "suspended; call ncclCommResume first";
	case COMM_READY:
		break;
	}
	return "ready, expected a suspended one";
}

/* `error`: the communicator's asynchronous error. It is the reason, if there is one: a program
 * that has learned of it by polling is not refused as one that has not polled. */
static ncclResult_t comm_refuse(const struct ncclComm *comm, const char *call, bool found,
				uint32_t error, const char *why)
{
	if (error)
		return (ncclResult_t)error;
	if (!comm) {
		WARN("%s: comm is NULL", call);
		return ncclInvalidArgument;
	}
	if (!found) {
		WARN("%s: comm is not a communicator of this process, or it was destroyed or "
		     "aborted",
		     call);
		return ncclInvalidArgument;
	}
	WARN("%s: the communicator is %s", call, why);
	return ncclInvalidUsage;
}

/* Returns the launch that a separate task executes; NULL if there is no such launch. The caller
 * holds the lock. */
static const struct comm_launch *comm_launch_now(const struct ncclComm *comm)
{
	bool on = shared_load_u32(&comm->life->launching, SHARED_RELAXED);

	return on ? comm->life->launch : NULL;
}

/* True if a call with this need may enter, as the task of `launch` if that is not NULL. The caller
 * holds the lock. */
static bool comm_may_enter(const struct ncclComm *comm, enum comm_need need,
			   const struct comm_launch *launch)
{
	enum comm_state state = comm->life->state;
	const struct comm_launch *now = comm_launch_now(comm);

	if (comm->life->claimed || (launch && now != launch))
		return false;
	switch (need) {
	case COMM_NEED_ANY:
		return true;
	case COMM_NEED_ALIVE:
		return state == COMM_READY || state == COMM_REVOKED || state == COMM_SUSPENDED;
	case COMM_NEED_INIT:
		return now == launch && state != COMM_INIT && state != COMM_FINALIZING;
	case COMM_NEED_PARENT:
		return now == launch && (state == COMM_READY || state == COMM_REVOKED);
	case COMM_NEED_SUSPENDED:
		return now == launch && state == COMM_SUSPENDED;
	case COMM_NEED_FINALIZE:
		return now == launch && (state == COMM_READY || state == COMM_SUSPENDED);
	case COMM_NEED_READY:
		return now == launch && state == COMM_READY;
	}
	return false;
}

static const char *comm_busy_print(const struct ncclComm *comm)
{
	return comm_launch_now(comm) ? "connecting ranks for a launch; poll ncclCommGetAsyncError "
				       "until it is done"
				     : comm_state_print(comm->life->state);
}

ncclResult_t comm_enter_launch(struct ncclComm *comm, const char *call, enum comm_need need,
			       const struct comm_launch *launch)
{
	struct registry_node *first = registry_lock();
	struct ncclComm *c = comm_find(first, comm);
	bool found = c && !c->life->claimed;
	bool ok = found && comm_may_enter(c, need, launch);
	const char *why = found ? comm_busy_print(c) : "";
	uint32_t error = found ? comm_error_met(c) : ncclSuccess;

	ASSERT(!found || c->magic == COMM_MAGIC);
	if (ok)
		shared_add_u32(&c->life->users, 1, SHARED_ACQ_REL);
	registry_unlock(first);
	if (!ok)
		return call ? comm_refuse(comm, call, found, error, why) : ncclInvalidArgument;
	bool given = shared_load_u32(&comm->error_given, SHARED_RELAXED) != 0;
	bool always = need == COMM_NEED_ANY || need == COMM_NEED_ALIVE ||
		      (need == COMM_NEED_FINALIZE && !given);
	ncclResult_t rc = always ? ncclSuccess : comm_failed(comm, call, error);
	if (rc)
		comm_leave(comm);
	return rc;
}

ncclResult_t comm_enter(struct ncclComm *comm, const char *call, enum comm_need need)
{
	return comm_enter_launch(comm, call, need, NULL);
}

void comm_leave(struct ncclComm *comm)
{
	uint32_t before = shared_add_u32(&comm->life->users, ~0u, SHARED_ACQ_REL);
	ASSERT(before > 0);
}

void comm_state_set(struct ncclComm *comm, enum comm_state state)
{
	struct registry_node *first = registry_lock();
	comm->life->state = state;
	registry_unlock(first);
}

static enum comm_state comm_state(struct ncclComm *comm)
{
	struct registry_node *first = registry_lock();
	enum comm_state state = comm->life->state;

	registry_unlock(first);
	return state;
}

bool comm_in_init(struct ncclComm *comm)
{
	return comm_state(comm) == COMM_INIT;
}

bool comm_is_finalized(struct ncclComm *comm)
{
	return comm_state(comm) == COMM_FINALIZED;
}

bool comm_finalizes(struct ncclComm *comm)
{
	enum comm_state state = comm_state(comm);

	return state == COMM_FINALIZING || state == COMM_FINALIZED;
}

ncclResult_t comm_progress(struct ncclComm *comm)
{
	ncclResult_t rc = ncclInProgress;

	switch (comm_state(comm)) {
	case COMM_INIT:
		return ncclInProgress;
	case COMM_FINALIZING:
		break;
	case COMM_READY:
	case COMM_FINALIZED:
	case COMM_REVOKED:
	case COMM_CHANGING:
	case COMM_SUSPENDED:
		return ncclSuccess;
	}
	rc = comm_drain_look(comm);
	if (!rc)
		comm_state_set(comm, COMM_FINALIZED);
	else if (rc != ncclInProgress)
		rank_set_async_error(comm, rc);
	return rc;
}

/* ---- a launch in a separate task ------------------------------------------------------------- */

ncclResult_t comm_launch_begin(struct ncclComm *comm, const char *call, enum comm_need need,
			       struct comm_launch *launch)
{
	struct registry_node *first = registry_lock();
	struct ncclComm *c = comm_find(first, comm);
	bool found = c && !c->life->claimed;
	bool ok = found && comm_may_enter(c, need, NULL);
	const char *why = found ? comm_busy_print(c) : "";
	uint32_t error = found ? comm_error_met(c) : ncclSuccess;
	struct comm_launch *before = NULL;

	if (ok) {
		before = c->life->launch;
		c->life->launch = launch;
		shared_add_u32(&launch->users, 1, SHARED_RELAXED);
		shared_store_u32(&c->life->launching, 1, SHARED_RELEASE);
	}
	registry_unlock(first);
	comm_launch_drop(before);
	return ok ? ncclSuccess : comm_refuse(comm, call, found, error, why);
}

void comm_launch_end(struct ncclComm *comm, const struct comm_launch *launch, ncclResult_t error)
{
	struct registry_node *first = registry_lock();
	struct ncclComm *c = comm_find(first, comm);
	bool mine = c && comm_launch_now(c) == launch;

	if (mine)
		shared_add_u32(&c->life->users, 1, SHARED_ACQ_REL);
	registry_unlock(first);
	if (!mine)
		return;
	if (error) /* must precede the word that shows a poll the end */
		rank_set_call_error(c, error);
	first = registry_lock();
	shared_store_u32(&c->life->launching, 0, SHARED_RELEASE);
	registry_unlock(first);
	comm_leave(c);
}

bool comm_is_launching(struct ncclComm *comm)
{
	return shared_load_u32(&comm->life->launching, SHARED_ACQUIRE) != 0;
}

bool comm_claim(struct ncclComm *comm)
{
	struct registry_node *first = registry_lock();
	struct ncclComm *c = comm_find(first, comm);
	bool mine = c && !c->life->claimed;
	if (mine)
		c->life->claimed = true;
	registry_unlock(first);
	return mine;
}

/* ---- errors --------------------------------------------------------------------------------- */

bool comm_abort_set(struct ncclComm *comm)
{
	struct registry_node *first = registry_lock();
	struct ncclComm *c = comm_find(first, comm);
	if (c)
		shared_store_u32(c->abort, 1, SHARED_RELEASE);
	registry_unlock(first);
	return c != NULL;
}

/* Finds the communicators of this process that have the id of `comm` and have finished their init,
 * `comm` included. None of them is released while the caller is inside `comm` (close.c). */
static int comm_ranks_here(const struct ncclComm *comm, struct ncclComm *out[TOPO_MAX_LOCAL])
{
	struct registry_node *first = registry_lock();
	int n = 0;

	for (struct registry_node *at = first; at && n < TOPO_MAX_LOCAL; at = at->next) {
		struct ncclComm *c = at->kind == REGISTRY_COMM ? (struct ncclComm *)at : NULL;

		if (c && c->id_hash == comm->id_hash && c->life->state != COMM_INIT)
			out[n++] = c;
	}
	registry_unlock(first);
	return n;
}

static bool comm_is_parked(const struct ncclComm *comm)
{
	struct registry_node *first = registry_lock();
	bool parked = comm->life->parked;

	registry_unlock(first);
	return parked;
}

/* Checks whether a neighbour has ended its communicator before collectives that this rank has
 * launched. A root's buffers may hold all that the neighbour never receives: its kernels end. */
static ncclResult_t comm_ended_check(const struct ncclComm *comm)
{
	uint64_t ops = shared_load_u64(&comm->ops_seen, SHARED_ACQUIRE), after, now_ns;
	int32_t rank;
	bool runs;

	if (!bootstrap_ended_before(comm->bootstrap, ops, &rank, &after))
		return ncclSuccess;
	now_ns = os_now_ns();
	runs = !comm->launched || comm_launches_query(comm) == cudaErrorNotReady;
	os_poll_hit(); /* the check has a limit of its own */
	if (!runs || !comm->life->stuck_ns)
		comm->life->stuck_ns = runs ? now_ns : 0;
	if (!runs || now_ns - comm->life->stuck_ns < COMM_STUCK_NS)
		return ncclSuccess;
	WARN("rank %d: rank %d has destroyed the communicator after %" PRIu64
	     " collectives; this rank has called %" PRIu64,
	     comm->rank, rank, after, ops);
	return ncclRemoteError;
}

/* Sets the asynchronous error if the ring or a relay shows that a rank failed. Only a caller that
 * polls may skip a look: it has no `must`. */
static void comm_watch_ring(struct ncclComm *comm, bool must)
{
	ncclResult_t rc = ncclSuccess;

	if (!comm->bootstrap || comm_state(comm) == COMM_REVOKED || comm_is_judged(comm) ||
	    !rank_watch_lock(comm, must))
		return;
	if (!comm->bootstrap_taken &&
	    shared_load_u32(&comm->async_error, SHARED_ACQUIRE) == ncclSuccess) {
		rc = bootstrap_watch(comm->bootstrap);
		rc = rc ? rc : comm_ended_check(comm);
	}
	if (!rc)
		rc = proxy_relays_error(comm);
	os_mutex_unlock(&comm->watch);
	if (rc)
		rank_set_async_error(comm, rc);
}

bool comm_look_at_parked(void *arg)
{
	const struct ncclComm *comm = arg;
	struct ncclComm *here[TOPO_MAX_LOCAL];
	int n = comm_ranks_here(comm, here);
	bool some = false;

	for (int i = 0; i < n; i++) {
		if (here[i] == comm || !comm_is_parked(here[i]))
			continue;
		comm_watch_ring(here[i], true);
		some = true;
	}
	return some;
}

ncclResult_t comm_async_error(struct ncclComm *comm)
{
	struct ncclComm *here[TOPO_MAX_LOCAL];
	int n = comm_ranks_here(comm, here);

	/* Each rank must forward a failure. Possibly no task watches the other ranks of this
	 * process: one task may drive them all, or they were destroyed and wait for this one. An
	 * init uses the bootstrap, and finds out by itself. */
	for (int i = 0; i < n; i++)
		comm_watch_ring(here[i], false);
	return (ncclResult_t)shared_load_u32(&comm->async_error, SHARED_ACQUIRE);
}
