/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups and reductions. A group is found by the handle of its first member. The n-th reduction of
 * each member is the n-th of the group. It runs when all members have called it, in the test of any
 * of them. A member's data is copied when it calls, and the sum in its own test: no member touches
 * memory of another one, which may have ended.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/lab/plugin/collnet_plugin.h"

#define COLL_MAGIC 0x636f6c6cu

enum { COLL_MEMBERS = 32, COLL_WINDOW = 64, COLL_SLOW_CALLS = 40 };

struct coll_handle {
	uint32_t magic, number;
};

struct coll_listen {
	struct coll_handle handle;
};

/* A reduction of the group, by its number. */
struct coll_round {
	int called, left; /* members that have started it, and that have not seen its end */
	bool done;
	size_t count;
	ncclDataType_t type;
	ncclRedOp_t op;
	uint8_t *part[COLL_MEMBERS]; /* copies; part 0 becomes the sum */
};

struct coll_group {
	struct coll_group *next;
	uint32_t number;
	int members, joined, open, calls;
	struct coll_round round[COLL_WINDOW];
};

struct coll_req {
	struct coll_comm *comm;
	struct coll_round *round;
	size_t bytes;
	int polls;
	void *recv, *recv_mr;
};

struct coll_comm {
	int rank;
	struct coll_group *group;
	uint64_t started;
	struct coll_req req[COLL_WINDOW];
};

static pthread_mutex_t coll_lock = PTHREAD_MUTEX_INITIALIZER;
static struct coll_group *coll_groups;
static uint32_t coll_listeners;
static long coll_started;
static uint32_t coll_late_calls;

/* ---- faults --------------------------------------------------------------------------------- */

static bool coll_is_member(int member)
{
	int only = plug_number("COLL_MEMBER", -1);

	return only < 0 || member < 0 || member == only;
}

bool coll_fault(const char *what, int member)
{
	const char *text = plug_setting("COLL_FAULT");

	return text && !strcmp(text, what) && coll_is_member(member);
}

long coll_fault_number(const char *name)
{
	const char *text = plug_setting("COLL_FAULT");
	size_t n = strlen(name);

	return text && !strncmp(text, name, n) && text[n] == '=' ? atol(text + n + 1) : -1;
}

/* ---- sums ----------------------------------------------------------------------------------- */

#define COLL_VALUE(T, op, a, b)                                                                    \
	((op) == ncclSum    ? (T)((a) + (b))                                                       \
	 : (op) == ncclProd ? (T)((a) * (b))                                                       \
	 : (op) == ncclMax  ? ((a) > (b) ? (a) : (b))                                              \
			    : ((a) < (b) ? (a) : (b)))

/* One function for each type. Unsigned arithmetic for integers, which wraps. */
#define COLL_REDUCE(name, T)                                                                       \
	static void coll_reduce_##name(const struct coll_group *g, struct coll_round *r)           \
	{                                                                                          \
		T *sum = (T *)r->part[0];                                                          \
		for (int m = 1; m < g->members; m++)                                               \
			for (size_t i = 0; i < r->count; i++)                                      \
				sum[i] = COLL_VALUE(T, r->op, sum[i], ((T *)r->part[m])[i]);       \
	}
COLL_REDUCE(i8, int8_t)
COLL_REDUCE(u8, uint8_t)
COLL_REDUCE(i32, int32_t)
COLL_REDUCE(u32, uint32_t)
COLL_REDUCE(i64, int64_t)
COLL_REDUCE(u64, uint64_t)
COLL_REDUCE(f32, float)
COLL_REDUCE(f64, double)

static const struct coll_type {
	size_t bytes; /* 0: not supported */
	bool is_float;
	void (*reduce)(const struct coll_group *g, struct coll_round *r);
} coll_types[ncclNumTypes] = {
	[ncclInt8] = {1, false, coll_reduce_i8},    [ncclUint8] = {1, false, coll_reduce_u8},
	[ncclInt32] = {4, false, coll_reduce_i32},  [ncclUint32] = {4, false, coll_reduce_u32},
	[ncclInt64] = {8, false, coll_reduce_i64},  [ncclUint64] = {8, false, coll_reduce_u64},
	[ncclFloat32] = {4, true, coll_reduce_f32}, [ncclFloat64] = {8, true, coll_reduce_f64},
};

ncclResult_t coll_reduce_support(ncclDataType_t type, ncclRedOp_t op, int *supported)
{
	const char *only = plug_setting("COLL_TYPES"), *ops = plug_setting("COLL_OPS");

	*supported = (unsigned)type < ncclNumTypes && coll_types[type].bytes && op < ncclAvg &&
		     !(only && !strcmp(only, "int") && coll_types[type].is_float) &&
		     !(ops && !strcmp(ops, "sum") && op != ncclSum);
	return coll_fault("support", -1) ? ncclInternalError : ncclSuccess;
}

int coll_rank(const void *comm)
{
	return ((const struct coll_comm *)comm)->rank;
}

/* ---- groups --------------------------------------------------------------------------------- */

ncclResult_t coll_listen(int dev, void *handle, void **listen_comm)
{
	struct coll_listen *l = malloc(sizeof *l);

	(void)dev;
	l->handle = (struct coll_handle){
		COLL_MAGIC, 1 + __atomic_fetch_add(&coll_listeners, 1, __ATOMIC_RELAXED)};
	memcpy(handle, &l->handle, sizeof l->handle);
	if (coll_fault("nolisten", -1)) {
		free(l);
		return ncclSuccess;
	}
	*listen_comm = l;
	return coll_fault("listen", -1) ? ncclSystemError : ncclSuccess;
}

ncclResult_t coll_close_listen(void *listen_comm)
{
	free(listen_comm);
	return coll_fault("closelisten", -1) ? ncclInternalError : ncclSuccess;
}

/* Finds or makes the group of these handles. Under the lock. */
static struct coll_group *coll_group_of(uint32_t number, int members)
{
	struct coll_group *g = coll_groups;

	while (g && g->number != number)
		g = g->next;
	if (g)
		return g;
	g = calloc(1, sizeof *g);
	g->next = coll_groups;
	g->number = number;
	g->members = members;
	coll_groups = g;
	return g;
}

/* A handle whose magic is marked has joined: the stack gives the same handles to each call. */
static ncclResult_t coll_join(struct coll_handle *own, const struct coll_handle *first, int count,
			      int rank, void **comm)
{
	struct coll_group *g = coll_group_of(first->number, count);
	struct coll_comm *c;

	if (g->members != count)
		return ncclInternalError;
	if (own->magic == COLL_MAGIC) {
		own->magic++;
		g->joined++;
	}
	if (coll_fault("lost", rank) ||
	    (coll_fault("slow", rank) && g->calls++ < COLL_SLOW_CALLS) || g->joined < g->members)
		return ncclSuccess;
	c = calloc(1, sizeof *c);
	c->group = g;
	c->rank = rank;
	g->open++;
	*comm = c;
	return coll_fault("both", rank) ? ncclSystemError : ncclSuccess;
}

ncclResult_t coll_connect(void **handles, int count, int rank, void *listen_comm, void **comm)
{
	struct coll_handle *own = handles[rank];
	const struct coll_handle *first = handles[0];
	const struct coll_listen *l = listen_comm;
	ncclResult_t rc;

	if (count < 2 || count > COLL_MEMBERS || own->number != l->handle.number)
		return ncclInternalError;
	if (coll_fault("connect", rank))
		return ncclRemoteError;
	pthread_mutex_lock(&coll_lock);
	rc = coll_join(own, first, count, rank, comm);
	pthread_mutex_unlock(&coll_lock);
	return rc;
}

/* Under the lock. */
static void coll_group_free(struct coll_group *g)
{
	struct coll_group **at = &coll_groups;

	while (*at != g)
		at = &(*at)->next;
	*at = g->next;
	for (int i = 0; i < COLL_WINDOW * COLL_MEMBERS; i++)
		free(g->round[i / COLL_MEMBERS].part[i % COLL_MEMBERS]);
	free(g);
}

ncclResult_t coll_close(void *comm)
{
	struct coll_comm *c = comm;

	pthread_mutex_lock(&coll_lock);
	if (!--c->group->open)
		coll_group_free(c->group);
	pthread_mutex_unlock(&coll_lock);
	free(c);
	return coll_fault("closecoll", -1) ? ncclSystemError : ncclSuccess;
}

/* ---- reductions ----------------------------------------------------------------------------- */

static bool coll_is_late(void)
{
	return coll_fault("late", -1) &&
	       __atomic_fetch_add(&coll_late_calls, 1, __ATOMIC_RELAXED) * 2654435761u >> 31;
}

/* Enters a member's part. 1: members differ in what they reduce. Under the lock. */
static int coll_enter(struct coll_comm *c, struct coll_round *r, const struct coll_round *part)
{

	if (!r->called) {
		*r = (struct coll_round){.left = c->group->members,
					 .count = part->count,
					 .type = part->type,
					 .op = part->op};
	} else if (r->count != part->count || r->type != part->type || r->op != part->op) {
		fprintf(stderr,
			"collnet plugin: members reduce %zu and %zu elements, or other types\n",
			r->count, part->count);
		return 1;
	}
	r->part[c->rank] = part->part[0];
	r->called++;
	c->started++;
	return 0;
}

ncclResult_t coll_iallreduce(void *comm, void *send, void *recv, size_t count, ncclDataType_t type,
			     ncclRedOp_t op, void *send_mr, void *recv_mr, void **request)
{
	struct coll_round part = {.count = count, .type = type, .op = op};
	long most = coll_fault_number("reduce"), before;
	struct coll_comm *c = comm;
	struct coll_round *r = &c->group->round[c->started % COLL_WINDOW];
	struct coll_req *q;
	int supported = 0, wrong;

	(void)coll_reduce_support(type, op, &supported);
	if (!supported || !send_mr || !recv_mr || *request || !count)
		return ncclInternalError;
	before = __atomic_fetch_add(&coll_started, 1, __ATOMIC_RELAXED);
	if (most >= 0 && before >= most)
		return ncclRemoteError;
	if (coll_is_late())
		return ncclSuccess;
	part.part[0] = malloc(count * coll_types[type].bytes);
	coll_read(send_mr, send, part.part[0], count * coll_types[type].bytes);
	pthread_mutex_lock(&coll_lock);
	wrong = coll_enter(c, r, &part);
	pthread_mutex_unlock(&coll_lock);
	if (wrong)
		return ncclInternalError;
	q = &c->req[c->started % COLL_WINDOW];
	*q = (struct coll_req){.comm = c,
			       .round = r,
			       .recv = recv,
			       .recv_mr = recv_mr,
			       .bytes = count * coll_types[type].bytes,
			       .polls = c->started % 2 ? plug_number("COLL_POLLS", 0) : 0};
	*request = q;
	return ncclSuccess;
}

/* Runs the reduction if all members have called it. Under the lock. */
static bool coll_advance(const struct coll_req *q)
{
	struct coll_round *r = q->round;

	if (!r->done && r->called == q->comm->group->members) {
		coll_types[r->type].reduce(q->comm->group, r);
		r->done = true;
	}
	return r->done;
}

/* The last member that has seen the end frees the number. Under the lock. */
static void coll_leave(const struct coll_req *q)
{
	struct coll_round *r = q->round;

	if (--r->left)
		return;
	for (int m = 0; m < q->comm->group->members; m++)
		free(r->part[m]);
	memset(r, 0, sizeof *r);
}

void *coll_flush_request(void)
{
	static struct coll_req flush; /* of no member */

	return &flush;
}

ncclResult_t coll_test(void *request, int *done, int *bytes)
{
	struct coll_req *q = request;
	bool ended = false;

	*done = !q->comm;
	if (!q->comm)
		return ncclSuccess;
	if (coll_fault("test", q->comm->rank))
		return ncclInternalError;
	if (coll_fault("never", q->comm->rank) || q->polls-- > 0)
		return ncclSuccess;
	pthread_mutex_lock(&coll_lock);
	ended = coll_advance(q);
	pthread_mutex_unlock(&coll_lock);
	if (!ended)
		return ncclSuccess;
	coll_write(q->recv_mr, q->recv, q->round->part[0], q->bytes);
	pthread_mutex_lock(&coll_lock);
	coll_leave(q);
	pthread_mutex_unlock(&coll_lock);
	*done = 1;
	*bytes = coll_fault("size", q->comm->rank) ? 1 << 30 : (int)q->bytes;
	return ncclSuccess;
}

bool coll_end(bool passed)
{
	const bool used = coll_started > 0;

	if (passed && coll_groups && coll_groups->open)
		plug_wrong("collnet: a group of %d members has %d that are not closed",
			   coll_groups->members, coll_groups->open);
	while (coll_groups)
		coll_group_free(coll_groups);
	coll_listeners = coll_late_calls = 0;
	coll_started = 0;
	return used;
}
