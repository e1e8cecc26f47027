/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/lab/plugin/profiler_plugin.h"

#include <pthread.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "core/profiler/profiler_abi.h"
#include "sim/lab/plugin/plugin_host.h"

#ifndef PROF_VERSION
#define PROF_VERSION 7
#endif
#define PROF_EVENT_MAGIC   0x70726f66u
#define PROF_CONTEXT_MAGIC 0x70726f63u
#define PROF_BUCKETS       4096

/* A communicator. It lives until prof_reset: events may have ended after it. */
struct prof_context {
	uint32_t magic;
	int rank, open, *mask; /* rank -1: the version does not give it; open: its events */
	struct prof_context *next;
};

struct prof_event {
	uint32_t magic;
	uint64_t type;
	int stopped, is_send, below; /* below: events that have to end before it */
	int last;                    /* state */
	size_t bytes;
	uint64_t ns;
	struct prof_context *context;
	struct prof_event *parent, *next;
};

static struct {
	pthread_mutex_t lock;
	struct prof_event *bucket[PROF_BUCKETS];
	struct prof_context *contexts;
	int starts;
} prof = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct prof_counts prof_counts;

const char *const prof_kinds[PROF_KINDS] = {
	"group",     "coll",     "p2p",     "op",     "step", "ctrl", "kernel", "net",
	"group_api", "coll_api", "p2p_api", "launch", "ce",   "sync", "batch",  "phase"};

static int prof_fault(const char *what)
{
	return plug_setting_is("PROF_FAULT", what);
}

#define PROF_BAD(...)                                                                              \
	do {                                                                                       \
		if (!prof_counts.bad++)                                                            \
			plug_wrong("profiler bad: " __VA_ARGS__);                                  \
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

static struct prof_event **prof_bucket(const void *event)
{
	return &prof.bucket[(uintptr_t)event / 16 % PROF_BUCKETS];
}

static struct prof_event *prof_find(const void *event)
{
	struct prof_event *e = *prof_bucket(event);

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
	/* 255: an all-to-all on windows, which this version has no number for */
	if ((d->coll.func > 4 && d->coll.func != 255) || d->coll.type > 11 || d->coll.proto > 2)
		PROF_BAD("coll: function %d type %d proto %d", d->coll.func, d->coll.type,
			 d->coll.proto);
#else
	static const char names[] = "AllReduce AllGather Reduce Broadcast ReduceScatter AlltoAll";

	if (!strstr(names, d->coll.func) || strncmp(d->coll.type, "nccl", 4) != 0 ||
	    !strstr("LL128 SIMPLE", d->coll.proto) || !d->coll.algo[0])
		PROF_BAD("coll: %s %s %s %s", d->coll.func, d->coll.type, d->coll.proto,
			 d->coll.algo);
#endif
#if PROF_VERSION <= 3
	if (!d->coll.comm || !d->coll.name)
		PROF_BAD("coll: no communicator");
#endif
#if PROF_VERSION >= 5
	const char *tag = plug_setting("PROF_TAG");

	if (tag && d->coll.tag != strtoull(tag, NULL, 0))
		PROF_BAD("coll: tag %llu", (unsigned long long)d->coll.tag);
	if (!prof_find(d->coll.group) && !prof_fault("some"))
		PROF_BAD("coll: no group");
#endif
	if (!d->coll.nchannels || !d->coll.count)
		PROF_BAD("coll: %d channels, %zu elements", d->coll.nchannels, d->coll.count);
}

/* More channels than a setting allows. */
static void prof_check_channels(const char *setting, const char *kind, int channels)
{
	int most = plug_number(setting, 0);

	if (most && channels > most)
		PROF_BAD("%s: %d channels, expected at most %d", kind, channels, most);
}

/* A parent whose start has failed is missing. */
static void prof_check_parent(struct prof_event *e, const prof_descr *d)
{
	const int relayed = d->type == PROFILER_PROXY_OP && d->op.pid != getpid();
	const uint64_t parents = relayed ? 0 : prof_parents(d->type);
	struct prof_event *parent = prof_find(d->parent);

	if (!d->parent && prof_fault("some"))
		return;
	if (!!d->parent != !!parents || (parents && !(parent && parent->type & parents)))
		PROF_BAD("%s has parent %p of %s", prof_kinds[prof_kind(d->type)], d->parent,
			 parent ? prof_kinds[prof_kind(parent->type)] : "nothing");
	if (!parent || !(d->type & (PROFILER_PROXY_STEP | PROFILER_NET_PLUGIN)))
		return;
	if (parent->stopped)
		PROF_BAD("%s starts after the end of its %s", prof_kinds[prof_kind(d->type)],
			 prof_kinds[prof_kind(parent->type)]);
	e->is_send = parent->is_send;
	e->parent = parent;
	parent->below++;
}

static void prof_check(struct prof_event *e, const prof_descr *d)
{
	if (e->context->rank >= 0 && d->rank != e->context->rank)
		PROF_BAD("%s of rank %d in a communicator of rank %d",
			 prof_kinds[prof_kind(d->type)], d->rank, e->context->rank);
	prof_check_parent(e, d);
	if (d->type == PROFILER_COLL) {
		prof_check_coll(d);
		prof_check_channels("PROF_CHANNELS", "coll", d->coll.nchannels);
	}
#if PROF_VERSION >= 4
	if (d->type == PROFILER_P2P && d->p2p.peer != d->rank)
		prof_check_channels("PROF_P2P_CHANNELS", "p2p", d->p2p.nchannels);
#endif
	if (d->type == PROFILER_PROXY_OP) {
		e->is_send = d->op.is_send;
		if (!d->op.pid || d->op.nsteps < 1 || d->op.chunk_bytes < 1)
			PROF_BAD("op: pid %d steps %d bytes %d", d->op.pid, d->op.nsteps,
				 d->op.chunk_bytes);
	}
#if PROF_VERSION >= 4
	if (d->type == PROFILER_KERNEL_CH)
		e->ns = d->kernel.ns;
	if (d->type == PROFILER_KERNEL_CH && !d->kernel.ns)
		PROF_BAD("kernel: no time");
#endif
}

/* ---- the plugin's functions ----------------------------------------------------------------- */

/* Returns true if this start has no event. */
static bool prof_start_fails(const prof_descr *d, ncclResult_t *rc)
{
	const struct timespec pause = {.tv_sec = 1, .tv_nsec = 200000000};
	const bool some = prof_fault("some") && prof.starts % 8 == 5;

	*rc = prof_fault("start") || some ? ncclInternalError : ncclSuccess;
	if (prof_fault("slow") && d->type == PROFILER_GROUP)
		nanosleep(&pause, NULL);
	return *rc || prof_fault("none");
}

/* Under the lock. */
static void prof_mask_later(const struct prof_context *c)
{
	const char *later = plug_setting("PROF_LATER");

	if (++prof.starts == plug_number("PROF_AFTER", 0) && later)
		__atomic_store_n(c->mask, (int)strtol(later, NULL, 0), __ATOMIC_RELAXED);
}

/* Enters an event. Under the lock. */
static void prof_enter(struct prof_event *e, struct prof_context *c, const prof_descr *d)
{
	struct prof_event **bucket = prof_bucket(e);

	*e = (struct prof_event){
		.magic = PROF_EVENT_MAGIC, .type = d->type, .last = -1, .context = c};
	prof_counts.started[prof_kind(d->type)]++;
	if (c->magic != PROF_CONTEXT_MAGIC)
		PROF_BAD("%s starts after finalize", prof_kinds[prof_kind(d->type)]);
	prof_check(e, d);
	c->open += e->type != PROFILER_GROUP_API;
	e->next = *bucket;
	*bucket = e;
	prof_mask_later(c);
}

static ncclResult_t prof_start(void *context, void **event, void *descr)
{
	const prof_descr *d = descr;
	struct prof_event *e;
	ncclResult_t rc;

	if (!context && !prof_fault("context"))
		abort();
	*event = NULL;
	if (prof_start_fails(d, &rc)) {
		pthread_mutex_lock(&prof.lock);
		prof.starts++;
		pthread_mutex_unlock(&prof.lock);
		return rc;
	}
	*event = &prof;
	if (prof_fault("garbage"))
		return ncclSuccess;
	e = calloc(1, sizeof *e);
	if (!e)
		return ncclSystemError;
	pthread_mutex_lock(&prof.lock);
	prof_enter(e, context ? context : prof.contexts, d);
	pthread_mutex_unlock(&prof.lock);
	*event = e;
	return ncclSuccess;
}

/* The end of a step. */
static void prof_stop_step(struct prof_event *e)
{
	*(e->is_send ? &prof_counts.sent : &prof_counts.received) += e->bytes;
	prof_counts.cut += e->last != (e->is_send ? PROFILER_SEND_WAIT : PROFILER_RECV_GPU_WAIT);
}

static ncclResult_t __attribute__((unused)) prof_stop(void *event)
{
	struct prof_event *e = event;

	if (prof_fault("garbage"))
		return event == &prof ? ncclSuccess : (abort(), ncclSuccess);
	pthread_mutex_lock(&prof.lock);
	if (e->magic != PROF_EVENT_MAGIC || e->stopped++)
		PROF_BAD("a stop of what is not running");
	if (e->below)
		PROF_BAD("%s ends before %d events below it", prof_kinds[prof_kind(e->type)],
			 e->below);
	prof_counts.stopped[prof_kind(e->type)]++;
	e->context->open -= e->type != PROFILER_GROUP_API;
	if (e->parent)
		e->parent->below--;
	if (e->type == PROFILER_PROXY_STEP && PROF_VERSION >= 4)
		prof_stop_step(e);
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

/* The states of each kind; those of an event come in this order. */
static bool prof_state_fits(const struct prof_event *e, int state)
{
	switch (e->type) {
	case PROFILER_PROXY_STEP:
		return prof_order(state) > prof_order(e->last);
	case PROFILER_PROXY_OP:
		return state == PROFILER_OP_IN_PROGRESS && e->last < state;
	case PROFILER_PROXY_CTRL:
		return state >= PROFILER_CTRL_IDLE && state <= PROFILER_CTRL_APPEND_END &&
		       e->last < state;
	case PROFILER_KERNEL_CH:
		return state == PROFILER_KERNEL_CH_STOP && e->last < state;
	case PROFILER_NET_PLUGIN:
		return state == PROFILER_NET_UPDATE;
	case PROFILER_GROUP_API:
		return (state == PROFILER_GROUP_START_STOP || state == PROFILER_GROUP_END_START) &&
		       e->last < state;
	default:
		return false;
	}
}

static ncclResult_t prof_record(void *event, int state, void *args)
{
	struct prof_event *e = event;

	if (prof_fault("garbage"))
		return event == &prof ? ncclSuccess : (abort(), ncclSuccess);
	pthread_mutex_lock(&prof.lock);
	if (e->magic != PROF_EVENT_MAGIC || e->stopped)
		PROF_BAD("a state of what is not running");
	if (!prof_state_fits(e, state))
		PROF_BAD("%s: state %d after %d", prof_kinds[prof_kind(e->type)], state, e->last);
	if (e->type == PROFILER_PROXY_STEP && PROF_VERSION >= 4 && args)
		e->bytes = ((union profiler_args *)args)->step.bytes;
	if (e->type == PROFILER_KERNEL_CH && PROF_VERSION >= 4 &&
	    ((union profiler_args *)args)->kernel.ns < e->ns)
		PROF_BAD("kernel: it ends before it begins");
	e->last = state;
	pthread_mutex_unlock(&prof.lock);
	return ncclSuccess;
}

static ncclResult_t prof_begin(void **context, int *mask, int rank)
{
	struct prof_context *c = calloc(1, sizeof *c);

	if (!c)
		return ncclSystemError;
	pthread_mutex_lock(&prof.lock);
	*c = (struct prof_context){
		.magic = PROF_CONTEXT_MAGIC, .rank = rank, .mask = mask, .next = prof.contexts};
	prof.contexts = c;
	if (!prof_counts.inits++ || !prof_fault("once"))
		__atomic_store_n(mask, plug_number("PROF_MASK", 0xffff), __ATOMIC_RELAXED);
	pthread_mutex_unlock(&prof.lock);
	*context = prof_fault("context") ? NULL : c;
	return prof_fault("init") ? ncclSystemError : ncclSuccess;
}

static ncclResult_t prof_finalize(void *context)
{
	struct prof_context *c = context;

	if (!c)
		abort();
	pthread_mutex_lock(&prof.lock);
	if (c->magic != PROF_CONTEXT_MAGIC)
		PROF_BAD("a second finalize");
	c->magic = 0;
	if (c->open)
		PROF_BAD("%d events have not ended at finalize", c->open);
	prof_counts.finals++;
	pthread_mutex_unlock(&prof.lock);
	return ncclSuccess;
}

void prof_reset(void)
{
	for (int i = 0; i < PROF_BUCKETS; i++)
		while (prof.bucket[i]) {
			struct prof_event *e = prof.bucket[i];

			prof.bucket[i] = e->next;
			free(e);
		}
	while (prof.contexts) {
		struct prof_context *c = prof.contexts;

		prof.contexts = c->next;
		free(c);
	}
	prof.starts = 0;
	prof_counts = (struct prof_counts){.bad = 0};
}

#if PROF_VERSION <= 3
static ncclResult_t prof_init(void **context, int *mask)
{
	return prof_begin(context, mask, -1);
}
#else
#if PROF_VERSION == 4
static ncclResult_t prof_init(void **context, int *mask, const char *name, uint64_t comm,
			      int nhosts, int nranks, int rank, profiler_log log)
#else
static ncclResult_t prof_init(void **context, uint64_t comm, int *mask, const char *name,
			      int nhosts, int nranks, int rank, profiler_log log)
#endif
{
	(void)name;
	log(3, ~0ul, "profiler_plugin.c", __LINE__,
	    "profiler init: hash %d, %d hosts, rank %d of %d", comm != 0, nhosts, rank, nranks);
	return prof_begin(context, mask, rank);
}
#endif

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
