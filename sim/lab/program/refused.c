/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that must be refused: each rank draws its own ones, between its other work, and no other
 * rank takes part in them. The class of the error must be the one that nccl.h has for the mistake,
 * the same from the end of a group that has the call, and ncclGetLastError must have a line.
 * Collectives and messages with one mistake are here, all other calls in refused_others.c.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "sim/lab/program/refused.h"

#define REFUSED_TYPE  ncclInt32
#define REFUSED_WIDTH sizeof(int32_t)
#define REFUSED_COUNT 2u

_Static_assert(LAB_SMALL_BYTES >= 3 << 10, "struct refused promises 3 KiB of the receive buffer");

enum refused_call {
	REFUSED_ALL_REDUCE,
	REFUSED_REDUCE_SCATTER,
	REFUSED_REDUCE,
	REFUSED_REDUCES, /* so many reduce */
	REFUSED_ALL_GATHER = REFUSED_REDUCES,
	REFUSED_ALL_TO_ALL,
	REFUSED_ROOTLESS, /* from here on they have a root or a peer, and ncclReduce has one */
	REFUSED_BROADCAST = REFUSED_ROOTLESS,
	REFUSED_GATHER,
	REFUSED_SCATTER,
	REFUSED_ONE_BUFFER, /* from here on */
	REFUSED_BCAST = REFUSED_ONE_BUFFER,
	REFUSED_SEND,
	REFUSED_RECV,
	REFUSED_CALLS
};

static const char *const refused_names[REFUSED_CALLS] = {
	[REFUSED_ALL_REDUCE] = "ncclAllReduce",
	[REFUSED_REDUCE_SCATTER] = "ncclReduceScatter",
	[REFUSED_REDUCE] = "ncclReduce",
	[REFUSED_ALL_GATHER] = "ncclAllGather",
	[REFUSED_ALL_TO_ALL] = "ncclAlltoAll",
	[REFUSED_BROADCAST] = "ncclBroadcast",
	[REFUSED_GATHER] = "ncclGather",
	[REFUSED_SCATTER] = "ncclScatter",
	[REFUSED_BCAST] = "ncclBcast",
	[REFUSED_SEND] = "ncclSend",
	[REFUSED_RECV] = "ncclRecv",
};

enum refused_mistake {
	REFUSED_COMM_NULL,
	REFUSED_COMM_NONE, /* an address that is no communicator's */
	REFUSED_TYPE_LOW,
	REFUSED_TYPE_HIGH,
	REFUSED_COUNT_MOST,
	REFUSED_COUNT_EDGE, /* one element more than memory can have */
	REFUSED_COUNT_WRAP, /* so many that the bytes of all blocks wrap to a few */
	REFUSED_BUFFER_NULL,
	REFUSED_BUFFER_HOST,
	REFUSED_BUFFER_OTHER, /* memory of another GPU */
	REFUSED_BUFFER_ODD,   /* calls that reduce */
	REFUSED_OP_LOW,
	REFUSED_OP_UNMADE,
	REFUSED_OP_DESTROYED,
	REFUSED_OP_OF_OTHER_TYPE,
	REFUSED_OP_OF_OTHER_COMM,
	REFUSED_ROOT_LOW,
	REFUSED_ROOT_HIGH,
	REFUSED_OVERLAP, /* calls with two buffers */
	REFUSED_MISTAKES
};

/* A call as it is made: right, except for one argument. */
struct refused_args {
	const void *send;
	void *recv;
	size_t count;
	ncclDataType_t type;
	ncclRedOp_t op, made; /* made: to destroy afterwards; ncclSum: none */
	ncclComm_t of;        /* of `made` */
	int root;
	ncclComm_t comm;
};

static ncclResult_t refused_make(enum refused_call call, const struct refused_args *a,
				 cudaStream_t stream)
{
	switch (call) {
	case REFUSED_ALL_REDUCE:
		return ncclAllReduce(a->send, a->recv, a->count, a->type, a->op, a->comm, stream);
	case REFUSED_REDUCE_SCATTER:
		return ncclReduceScatter(a->send, a->recv, a->count, a->type, a->op, a->comm,
					 stream);
	case REFUSED_REDUCE:
		return ncclReduce(a->send, a->recv, a->count, a->type, a->op, a->root, a->comm,
				  stream);
	case REFUSED_ALL_GATHER:
		return ncclAllGather(a->send, a->recv, a->count, a->type, a->comm, stream);
	case REFUSED_ALL_TO_ALL:
		return ncclAlltoAll(a->send, a->recv, a->count, a->type, a->comm, stream);
	case REFUSED_BROADCAST:
		return ncclBroadcast(a->send, a->recv, a->count, a->type, a->root, a->comm, stream);
	case REFUSED_GATHER:
		return ncclGather(a->send, a->recv, a->count, a->type, a->root, a->comm, stream);
	case REFUSED_SCATTER:
		return ncclScatter(a->send, a->recv, a->count, a->type, a->root, a->comm, stream);
	case REFUSED_BCAST:
		return ncclBcast(a->recv, a->count, a->type, a->root, a->comm, stream);
	case REFUSED_SEND:
		return ncclSend(a->send, a->count, a->type, a->root, a->comm, stream);
	case REFUSED_RECV:
	default:
		return ncclRecv(a->recv, a->count, a->type, a->root, a->comm, stream);
	}
}

static bool refused_has_root(enum refused_call call)
{
	return call >= REFUSED_ROOTLESS || call == REFUSED_REDUCE;
}

static bool refused_is_per_rank(enum refused_call call)
{
	return call == REFUSED_REDUCE_SCATTER || call == REFUSED_ALL_GATHER ||
	       call == REFUSED_ALL_TO_ALL || call == REFUSED_GATHER || call == REFUSED_SCATTER;
}

static bool refused_fits(enum refused_call call, enum refused_mistake mistake)
{
	if (mistake >= REFUSED_BUFFER_ODD && mistake <= REFUSED_OP_OF_OTHER_COMM)
		return call < REFUSED_REDUCES;
	if (mistake == REFUSED_ROOT_LOW || mistake == REFUSED_ROOT_HIGH)
		return refused_has_root(call);
	return mistake != REFUSED_OVERLAP || call < REFUSED_ONE_BUFFER;
}

/* Memory of another GPU that the process has; NULL: none. */
static void *refused_foreign(const struct refused *r)
{
	const struct lab_run *run = r->me->run;

	for (int32_t k = 0; k < run->count; k++)
		if (run->rank[k].proc == r->me->proc && run->rank[k].device != r->me->device)
			return __atomic_load_n(&run->rank[k].recv, __ATOMIC_ACQUIRE);
	return NULL;
}

/* One of the buffers. */
static void refused_buffer(struct refused *r, enum refused_call call, struct refused_args *a,
			   void *wrong)
{
	bool send =
		call == REFUSED_SEND || (call < REFUSED_ONE_BUFFER && sim_rng_below(&r->rng, 2));

	if (send)
		a->send = wrong;
	else
		a->recv = wrong;
}

static ncclResult_t refused_op(struct refused *r, struct refused_args *a,
			       enum refused_mistake mistake)
{
	bool type = mistake == REFUSED_OP_OF_OTHER_TYPE;
	uint64_t factor = 0;
	ncclResult_t rc;

	ASSERT(mistake >= REFUSED_OP_DESTROYED && mistake <= REFUSED_OP_OF_OTHER_COMM);
	a->of = mistake == REFUSED_OP_OF_OTHER_COMM ? lab_comms_pick(r->me, 1) : r->comm;
	ASSERT(mistake != REFUSED_OP_OF_OTHER_COMM || a->of != r->comm); /* the run has two */
	rc = ncclRedOpCreatePreMulSum(&a->made, &factor, type ? ncclFloat32 : REFUSED_TYPE,
				      ncclScalarHostImmediate, a->of);
	a->op = a->made;
	if (rc || mistake != REFUSED_OP_DESTROYED)
		return rc;
	rc = ncclRedOpDestroy(a->op, a->of);
	a->made = ncclSum;
	if (rc || sim_rng_below(&r->rng, 2))
		return rc;
	/* another operation takes the place of the destroyed one */
	return ncclRedOpCreatePreMulSum(&a->made, &factor, REFUSED_TYPE, ncclScalarHostImmediate,
					a->of);
}

static ncclResult_t refused_spoil(struct refused *r, enum refused_call call,
				  enum refused_mistake mistake, struct refused_args *a)
{
	size_t blocks = refused_is_per_rank(call) ? (size_t)r->n : 1;

	switch (mistake) {
	case REFUSED_COMM_NULL:
		a->comm = NULL;
		break;
	case REFUSED_COMM_NONE:
		a->comm = (ncclComm_t)(void *)r->host;
		break;
	case REFUSED_TYPE_LOW:
		a->type = (ncclDataType_t)-1;
		break;
	case REFUSED_TYPE_HIGH:
		a->type = ncclNumTypes;
		break;
	case REFUSED_COUNT_MOST:
		a->count = SIZE_MAX - sim_rng_below(&r->rng, 4);
		break;
	case REFUSED_COUNT_EDGE:
		a->count = (size_t)PTRDIFF_MAX / REFUSED_WIDTH / blocks + 1;
		break;
	case REFUSED_COUNT_WRAP:
		a->count = SIZE_MAX / REFUSED_WIDTH / blocks + 1;
		break;
	case REFUSED_BUFFER_NULL:
		refused_buffer(r, call, a, NULL);
		break;
	case REFUSED_BUFFER_HOST:
		refused_buffer(r, call, a, r->host);
		break;
	case REFUSED_BUFFER_OTHER:
		refused_buffer(r, call, a, refused_foreign(r));
		break;
	case REFUSED_BUFFER_ODD:
		refused_buffer(r, call, a, r->gpu + 1);
		break;
	case REFUSED_OP_LOW:
		a->op = (ncclRedOp_t)-1;
		break;
	case REFUSED_OP_UNMADE:
		a->op = sim_rng_below(&r->rng, 2) ? ncclNumOps : ncclMaxRedOp;
		break;
	case REFUSED_ROOT_LOW:
		a->root = -1;
		break;
	case REFUSED_ROOT_HIGH:
		a->root = r->n;
		break;
	case REFUSED_OVERLAP:
		a->send = (uint8_t *)a->recv + REFUSED_WIDTH;
		break;
	default:
		return refused_op(r, a, mistake);
	}
	return ncclSuccess;
}

/* Both buffers count at the root. */
static ncclResult_t refused_collective(struct refused *r, const char **name, const char **why)
{
	static const char *const whys[] = {"comm NULL",
					   "comm none",
					   "type -1",
					   "type too high",
					   "count most",
					   "count too high",
					   "count that wraps",
					   "buffer NULL",
					   "host memory",
					   "other GPU",
					   "misaligned",
					   "op -1",
					   "op never made",
					   "op destroyed",
					   "op of another type",
					   "op of another comm",
					   "root -1",
					   "root too high",
					   "overlap"};
	_Static_assert(ARRAY_LEN(whys) == REFUSED_MISTAKES, "each mistake has a name");
	enum refused_call call = (enum refused_call)sim_rng_below(&r->rng, REFUSED_CALLS);
	uint64_t mistake = sim_rng_below(&r->rng, REFUSED_MISTAKES);
	struct refused_args a = {.send = r->gpu + 2048,
				 .recv = r->gpu,
				 .count = REFUSED_COUNT,
				 .type = REFUSED_TYPE,
				 .op = ncclSum,
				 .made = ncclSum,
				 .root = r->me->rank,
				 .comm = r->comm};
	ncclResult_t rc;

	while (!refused_fits(call, (enum refused_mistake)mistake) ||
	       (mistake == REFUSED_OP_OF_OTHER_COMM && lab_comms(r->me->run->config) < 2))
		mistake = (mistake + 1) % REFUSED_MISTAKES;
	*name = refused_names[call];
	*why = whys[mistake];
	rc = refused_spoil(r, call, (enum refused_mistake)mistake, &a);
	if (rc)
		return rc;
	rc = refused_make(call, &a, (cudaStream_t)r->me->stream);
	if (a.made != ncclSum && ncclRedOpDestroy(a.made, a.of))
		return ncclSuccess; /* which is reported */
	return rc;
}

/* ---- one of them ----------------------------------------------------------------------------- */

void lab_refused_report(struct lab_rank *me, const char *call, const char *why, const char *text)
{
	lab_judge(me, SIM_ERROR, "refused", "%s (%s): %s", call, why, text);
}

void lab_refused_judge(struct lab_rank *me, const char *call, const char *why, ncclResult_t got,
		       ncclResult_t want)
{
	char text[160];

	if (got == want)
		return;
	snprintf(text, sizeof text, "returned \"%s\", expected \"%s\"", ncclGetErrorString(got),
		 ncclGetErrorString(want));
	lab_refused_report(me, call, why, text);
}

/* Faults may be the reason why a call fails. */
static bool refused_is_excused(const struct refused *r, ncclResult_t got)
{
	return r->me->run->armed && got != ncclSuccess && got != ncclInProgress;
}

/* The line is of the call that failed last in the process, in whichever task. */
static void refused_line(struct refused *r, const char *call, const char *why)
{
	if (!*ncclGetLastError(r->comm))
		lab_refused_report(r->me, call, why, "ncclGetLastError has no line");
}

/* A right init of one rank in the group of a wrong call, blocking or not. The group ends with the
 * error of the wrong call. */
static void refused_beside(struct refused *r, ncclComm_t *comm)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id;
	ncclResult_t rc = ncclGetUniqueId(&id);

	config.blocking = (int)sim_rng_below(&r->rng, 2);
	if (!rc)
		rc = ncclCommInitRankConfig(comm, 1, id, 0, &config);
	if (rc != ncclInProgress && !refused_is_excused(r, rc))
		lab_refused_judge(r->me, "ncclCommInitRankConfig", "in a group with a wrong call",
				  rc, ncclSuccess);
}

/* The group has undone a blocking init. Any other one goes on. */
static void refused_beside_end(struct refused *r, ncclComm_t comm)
{
	bool aborts = sim_rng_below(&r->rng, 2);
	ncclResult_t rc = ncclSuccess;

	if (!comm)
		return;
	if (!aborts)
		rc = lab_comm_settle(r->me, comm, ncclInProgress);
	ncclResult_t end = aborts || rc ? ncclCommAbort(comm) : ncclCommDestroy(comm);

	rc = rc ? rc : end;
	if (!refused_is_excused(r, rc))
		lab_refused_judge(r->me, "an init", "in a group with a wrong call", rc,
				  ncclSuccess);
}

static void refused_one(struct refused *r)
{
	bool grouped = sim_rng_below(&r->rng, 3) == 0, other = sim_rng_below(&r->rng, 2) == 0;
	const char *name = "ncclGroupStart", *why = "a group";
	bool beside = sim_rng_below(&r->rng, 2) && !lab_has_env(r->me->run->config, "NCCL_COMM_ID");
	ncclResult_t want = ncclInvalidArgument, got, end;
	ncclComm_t comm = NULL;

	r->grouped = grouped;
	if (grouped && ncclGroupStart())
		return;
	if (grouped && beside)
		refused_beside(r, &comm);
	got = other ? lab_refused_other(r, grouped, &name, &why, &want)
		    : refused_collective(r, &name, &why);
	end = grouped ? ncclGroupEnd() : got;
	if (!refused_is_excused(r, got))
		lab_refused_judge(r->me, name, why, got, want);
	if (!refused_is_excused(r, end))
		lab_refused_judge(r->me, "ncclGroupEnd", why, end, want);
	refused_line(r, name, why);
	refused_beside_end(r, comm);
}

void lab_refused(struct lab_rank *me, const char *when)
{
	const struct lab_config *c = me->run->config;
	struct refused r = {
		.me = me,
		.comm = me->comm,
		.gpu = me->recv + LAB_GUARD_BYTES,
		.host = me->staging,
		.n = me->run->nranks,
	};

	sim_rng_seed(&r.rng, c->sim.seed + (uint64_t)me->rank * LAB_MAX_DEVICES, when);
	for (uint32_t k = 0; k < c->refused; k++) {
		refused_one(&r);
		lab_refused_queries(&r);
	}
}

/* ---- a communicator at its end --------------------------------------------------------------- */

void lab_refused_finalized(struct lab_rank *me, ncclComm_t comm)
{
	ncclResult_t async = ncclSystemError;
	int n = 0;

	if (!me->run->config->refused || me->run->armed)
		return;
	lab_refused_judge(me, "ncclCommFinalize", "finalized", ncclCommFinalize(comm),
			  ncclInvalidUsage);
	lab_refused_judge(me, "ncclAllReduce", "finalized",
			  ncclAllReduce(me->recv, me->recv, 1, ncclInt8, ncclSum, comm,
					(cudaStream_t)me->stream),
			  ncclInvalidUsage);
	lab_refused_judge(me, "ncclCommCount", "finalized", ncclCommCount(comm, &n), ncclSuccess);
	lab_refused_judge(me, "ncclCommGetAsyncError", "finalized",
			  ncclCommGetAsyncError(comm, &async), ncclSuccess);
	lab_refused_judge(me, "an asynchronous error", "finalized", async, ncclSuccess);
	if (n != me->run->nranks)
		lab_refused_report(me, "ncclCommCount", "finalized", "gave another number");
}

void lab_refused_gone(struct lab_rank *me, ncclComm_t comm)
{
	ncclResult_t async = ncclSuccess;
	int n = 0;

	/* other communicators of the process may have come to the same address */
	if (!me->run->config->refused || !comm || me->run->armed || me->run->config->idle ||
	    me->run->config->transient)
		return;
	lab_refused_judge(me, "ncclCommGetAsyncError", "destroyed",
			  ncclCommGetAsyncError(comm, &async), ncclInvalidArgument);
	lab_refused_judge(me, "ncclCommCount", "destroyed", ncclCommCount(comm, &n),
			  ncclInvalidArgument);
	lab_refused_judge(me, "ncclCommFinalize", "destroyed", ncclCommFinalize(comm),
			  ncclInvalidArgument);
	lab_refused_judge(me, "ncclCommDestroy", "destroyed", ncclCommDestroy(comm),
			  ncclInvalidArgument);
	lab_refused_judge(me, "ncclCommRevoke", "destroyed",
			  ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclInvalidArgument);
	lab_refused_judge(me, "ncclAllReduce", "destroyed",
			  ncclAllReduce(me->recv, me->recv, 0, ncclInt8, ncclSum, comm,
					(cudaStream_t)me->stream),
			  ncclInvalidArgument);
}
