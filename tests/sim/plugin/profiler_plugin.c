/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A profiler plugin for profiler_test.sh, of version PROF_VERSION. It checks each call: an event is
 * stopped once, has states only before that, and its parent is an event of a kind that the
 * interface allows. When the library is closed it prints one line of counts:
 *
 *	profiler vN: KIND started ... bytes sent S received R, bad B, open O, cut C, finalize F of I
 *
 * PROF_FAULT: init (fails), start (each start fails), garbage (the same handle for all events),
 * none (no handles), context (NULL), slow (a start takes 1.2 s), once (only the first init sets the
 * mask). PROF_MASK: the kinds, by default all. PROF_TAG: from version 5 on, the tag of each
 * collective.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/profiler/profiler_abi.h"

#define PROF_MAGIC 0x70726f66u
#define PROF_KINDS 16

struct prof_event {
	uint32_t magic;
	uint64_t type;
	int stopped, states, is_send;
	int last; /* state */
	size_t bytes;
	uint64_t ns;
	struct prof_event *next;
};

static struct {
	pthread_mutex_t lock;
	struct prof_event *events;
	int started[PROF_KINDS], stopped[PROF_KINDS];
	size_t sent, received;
	int bad, cut, inits, finals; /* cut: steps that did not reach their last state */
} prof = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const prof_kinds[PROF_KINDS] = {
	"group",     "coll",     "p2p",     "op",     "step", "ctrl", "kernel", "net",
	"group_api", "coll_api", "p2p_api", "launch", "ce",   "sync", "batch",  "phase"};

static int prof_fault(const char *what)
{
	const char *fault = getenv("PROF_FAULT");

	return fault && !strcmp(fault, what);
}

#define PROF_BAD(...)                                                                              \
	do {                                                                                       \
		if (!prof.bad++)                                                                   \
			fprintf(stderr, "profiler bad: " __VA_ARGS__);                             \
	} while (0)

static int prof_kind(uint64_t type)
{
	return type ? __builtin_ctzll(type) : 0;
}

/* The kinds that the parent of an event may have; 0: it has none. */
static uint64_t prof_parents(uint64_t type)
{
	switch (type) {
	case PROFILER_COLL:
		return PROF_VERSION < 5 ? PROFILER_GROUP : PROFILER_COLL_API;
	case PROFILER_P2P:
		return PROF_VERSION < 5 ? PROFILER_GROUP : PROFILER_P2P_API;
	case PROFILER_PROXY_OP:
	case PROFILER_KERNEL_CH:
		return PROFILER_COLL | PROFILER_P2P;
	case PROFILER_PROXY_STEP:
		return PROFILER_PROXY_OP;
	case PROFILER_NET_PLUGIN:
		return PROFILER_PROXY_STEP;
	case PROFILER_COLL_API:
	case PROFILER_P2P_API:
	case PROFILER_KERNEL_LAUNCH:
		return PROFILER_GROUP_API;
	default:
		return 0;
	}
}

static struct prof_event *prof_find(const void *event)
{
	struct prof_event *e = prof.events;

	while (e && e != event)
		e = e->next;
	return e;
}

/* ---- what descriptors have ------------------------------------------------------------------ */

#if PROF_VERSION == 1
typedef struct profiler_descr_v1 prof_descr;
#elif PROF_VERSION == 2
typedef struct profiler_descr_v2 prof_descr;
#elif PROF_VERSION == 3
typedef struct profiler_descr_v3 prof_descr;
#elif PROF_VERSION == 4
typedef struct profiler_descr_v4 prof_descr;
#else
typedef struct profiler_descr prof_descr;
#endif

static void prof_check_coll(const prof_descr *d)
{
#if PROF_VERSION == 1
	if (d->coll.func > 4 || d->coll.type > 11 || d->coll.proto > 2)
		PROF_BAD("coll: function %d type %d proto %d\n", d->coll.func, d->coll.type,
			 d->coll.proto);
#else
	static const char names[] = "AllReduce AllGather Reduce Broadcast ReduceScatter";

	if (!strstr(names, d->coll.func) || strncmp(d->coll.type, "nccl", 4) != 0 ||
	    !strstr("LL128 SIMPLE", d->coll.proto) || !d->coll.algo[0])
		PROF_BAD("coll: %s %s %s %s\n", d->coll.func, d->coll.type, d->coll.proto,
			 d->coll.algo);
#endif
#if PROF_VERSION <= 3
	if (!d->coll.comm || !d->coll.name)
		PROF_BAD("coll: no communicator\n");
#endif
#if PROF_VERSION >= 5
	if (getenv("PROF_TAG") && d->coll.tag != strtoull(getenv("PROF_TAG"), NULL, 0))
		PROF_BAD("coll: tag %llu\n", (unsigned long long)d->coll.tag);
	if (!prof_find(d->coll.group))
		PROF_BAD("coll: no group\n");
#endif
	if (!d->coll.nchannels || !d->coll.count)
		PROF_BAD("coll: %d channels, %zu elements\n", d->coll.nchannels, d->coll.count);
}

static void prof_check(struct prof_event *e, const prof_descr *d)
{
	const int relayed = d->type == PROFILER_PROXY_OP && d->op.pid != getpid();
	const uint64_t parents = relayed ? 0 : prof_parents(d->type);
	const struct prof_event *parent = prof_find(d->parent);

	if (!!d->parent != !!parents || (parents && !(parent && parent->type & parents)))
		PROF_BAD("%s has parent %p of %s\n", prof_kinds[prof_kind(d->type)], d->parent,
			 parent ? prof_kinds[prof_kind(parent->type)] : "nothing");
	if (d->type == PROFILER_COLL)
		prof_check_coll(d);
	if (d->type == PROFILER_PROXY_OP) {
		e->is_send = d->op.is_send;
		if (!d->op.pid || d->op.nsteps < 1 || d->op.chunk_bytes < 1)
			PROF_BAD("op: pid %d steps %d bytes %d\n", d->op.pid, d->op.nsteps,
				 d->op.chunk_bytes);
	}
	if (d->type == PROFILER_PROXY_STEP)
		e->is_send = parent ? parent->is_send : 0;
#if PROF_VERSION >= 4
	if (d->type == PROFILER_KERNEL_CH)
		e->ns = d->kernel.ns;
	if (d->type == PROFILER_KERNEL_CH && !d->kernel.ns)
		PROF_BAD("kernel: no time\n");
#endif
}

/* ---- the plugin's functions ----------------------------------------------------------------- */

static ncclResult_t prof_start(void *context, void **event, void *descr)
{
	const struct timespec pause = {.tv_sec = 1, .tv_nsec = 200000000};
	const prof_descr *d = descr;
	struct prof_event *e;

	if (context != &prof && !prof_fault("context"))
		abort();
	*event = NULL;
	if (prof_fault("start"))
		return ncclInternalError;
	if (prof_fault("none"))
		return ncclSuccess;
	if (prof_fault("slow") && d->type == PROFILER_GROUP)
		nanosleep(&pause, NULL);
	*event = &prof;
	if (prof_fault("garbage"))
		return ncclSuccess;
	e = calloc(1, sizeof *e);
	if (!e)
		return ncclSystemError;
	e->magic = PROF_MAGIC;
	e->type = d->type;
	e->last = -1;
	pthread_mutex_lock(&prof.lock);
	prof.started[prof_kind(d->type)]++;
	prof_check(e, d);
	e->next = prof.events;
	prof.events = e;
	pthread_mutex_unlock(&prof.lock);
	*event = e;
	return ncclSuccess;
}

static ncclResult_t __attribute__((unused)) prof_stop(void *event)
{
	struct prof_event *e = event;

	if (prof_fault("garbage"))
		return event == &prof ? ncclSuccess : (abort(), ncclSuccess);
	pthread_mutex_lock(&prof.lock);
	if (e->magic != PROF_MAGIC || e->stopped++)
		PROF_BAD("a stop of what is not running\n");
	prof.stopped[prof_kind(e->type)]++;
	if (e->type == PROFILER_PROXY_STEP && PROF_VERSION >= 4) {
		*(e->is_send ? &prof.sent : &prof.received) += e->bytes;
		prof.cut += e->last != (e->is_send ? PROFILER_SEND_WAIT : PROFILER_RECV_GPU_WAIT);
	}
	pthread_mutex_unlock(&prof.lock);
	return ncclSuccess;
}

/* The order of a step's states. */
static int prof_order(int state)
{
	static const int order[] = {PROFILER_SEND_GPU_WAIT,   PROFILER_SEND_PEER_WAIT,
				    PROFILER_SEND_WAIT,       PROFILER_RECV_WAIT,
				    PROFILER_RECV_FLUSH_WAIT, PROFILER_RECV_GPU_WAIT};

	for (int i = 0; i < 6; i++)
		if (order[i] == state)
			return i;
	return -1;
}

static ncclResult_t prof_record(void *event, int state, void *args)
{
	struct prof_event *e = event;

	if (prof_fault("garbage"))
		return event == &prof ? ncclSuccess : (abort(), ncclSuccess);
	pthread_mutex_lock(&prof.lock);
	if (e->magic != PROF_MAGIC || e->stopped)
		PROF_BAD("a state of what is not running\n");
	if (e->type == PROFILER_PROXY_STEP) {
		if (prof_order(state) <= prof_order(e->last))
			PROF_BAD("step: state %d after %d\n", state, e->last);
		if (PROF_VERSION >= 4 && args)
			e->bytes = ((union profiler_args *)args)->step.bytes;
	}
	if (e->type == PROFILER_KERNEL_CH && PROF_VERSION >= 4 &&
	    ((union profiler_args *)args)->kernel.ns < e->ns)
		PROF_BAD("kernel: it ends before it begins\n");
	e->last = state;
	e->states++;
	pthread_mutex_unlock(&prof.lock);
	return ncclSuccess;
}

static ncclResult_t prof_begin(void **context, int *mask)
{
	const char *wanted = getenv("PROF_MASK");

	pthread_mutex_lock(&prof.lock);
	if (!prof.inits++ || !prof_fault("once"))
		*mask = wanted ? (int)strtol(wanted, NULL, 0) : 0xffff;
	pthread_mutex_unlock(&prof.lock);
	*context = prof_fault("context") ? NULL : &prof;
	return prof_fault("init") ? ncclSystemError : ncclSuccess;
}

static ncclResult_t prof_finalize(void *context)
{
	if (context != &prof)
		abort();
	pthread_mutex_lock(&prof.lock);
	prof.finals++;
	pthread_mutex_unlock(&prof.lock);
	return ncclSuccess;
}

#if PROF_VERSION <= 3
static ncclResult_t prof_init(void **context, int *mask)
{
	return prof_begin(context, mask);
}
#elif PROF_VERSION == 4
static ncclResult_t prof_init(void **context, int *mask, const char *name, uint64_t comm,
			      int nhosts, int nranks, int rank, profiler_log log)
{
	(void)name;
	log(3, ~0ul, "profiler_plugin.c", __LINE__,
	    "profiler init: hash %d, %d hosts, rank %d of %d", comm != 0, nhosts, rank, nranks);
	return prof_begin(context, mask);
}
#else
static ncclResult_t prof_init(void **context, uint64_t comm, int *mask, const char *name,
			      int nhosts, int nranks, int rank, profiler_log log)
{
	(void)name;
	log(3, ~0ul, "profiler_plugin.c", __LINE__,
	    "profiler init: hash %d, %d hosts, rank %d of %d", comm != 0, nhosts, rank, nranks);
	return prof_begin(context, mask);
}
#endif

/* At the close of the library. */
static void __attribute__((destructor)) prof_print(void)
{
	char line[512];
	int n = 0, open = 0;

	if (!prof.inits)
		return;
	for (int i = 0; i < PROF_KINDS; i++) {
		open += prof.started[i] - prof.stopped[i];
		if (prof.started[i])
			n += snprintf(line + n, sizeof line - (size_t)n, " %s %d", prof_kinds[i],
				      prof.started[i]);
	}
	line[n] = '\0';
	fprintf(stderr,
		"profiler v%d:%s, bytes sent %zu received %zu, bad %d, open %d, cut %d, finalize "
		"%d of "
		"%d\n",
		PROF_VERSION, line, prof.sent, prof.received, prof.bad, open, prof.cut, prof.finals,
		prof.inits);
	while (prof.events) {
		struct prof_event *e = prof.events;

		prof.events = e->next;
		free(e);
	}
}

#define PROF_NAME_(v) "ncclProfiler_v" #v
#define PROF_NAME(v)  PROF_NAME_(v)
extern const struct profiler_table prof_table __asm__(PROF_NAME(PROF_VERSION))
	__attribute__((visibility("default")));
const struct profiler_table prof_table = {
	.name = "prof",
#if PROF_VERSION <= 3
	.init = {.v1 = prof_init},
#elif PROF_VERSION == 4
	.init = {.v4 = prof_init},
#else
	.init = {.v5 = prof_init},
#endif
	.start = prof_start,
#ifndef PROF_WITHOUT_STOP
	.stop = prof_stop,
#endif
	.record = prof_record,
	.finalize = prof_finalize,
};
