/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A profiler plugin that writes a timeline in Chrome's trace format: one file for each rank of a
 * communicator. README.md has its variables and what the file shows. It needs nothing of the
 * library that loads it: it runs with NCCL, and with Doppel on GPUs or on doubles.
 *
 * A line is written when an event begins, has a new state, or ends, so the file of a run that hangs
 * shows what has not ended. Any thread may call the plugin. Times are us of the file's own clock:
 * the host's monotonic one, or the virtual one under Doppel's simulator (os_now_ns).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/profiler/profiler_abi.h"

#define CHROME_FILE "nccl-chrome-%c-%r.json"
/* All kinds except control and copy engines. */
#define CHROME_MASK 0xfdfu
/* Most time that lines stay in memory. */
#define CHROME_FLUSH_NS 100000000ull

/* The clock of a run, in Doppel's runtime. NULL without it. */
extern uint64_t os_now_ns(void) __attribute__((weak));

/* A rank of a communicator. */
struct chrome {
	FILE *file;
	pthread_mutex_t lock; /* of the file and of `events` */
	profiler_log log;
	char path[1024];
	int rank;
	uint64_t events;      /* numbers events */
	uint64_t gpu_from_ns; /* GPU's time and host's time of the first kernel event */
	uint64_t host_from_ns, flushed_ns;
	int failed; /* a write failed, which was logged */
};

struct chrome_event {
	struct chrome *of;
	uint64_t id, type;
	uint64_t gpu_ns; /* of a kernel: its begin, then its end */
	char name[32];
};

static uint64_t chrome_now_ns(void)
{
	struct timespec now;

	if (os_now_ns)
		return os_now_ns();
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Writes a line of an event. `phase` is Chrome's: b begins, n is an instant within, e ends. */
static void chrome_line(struct chrome *c, const struct chrome_event *e, char phase,
			const char *name, uint64_t ns, const char *args)
{
	pthread_mutex_lock(&c->lock);
	fprintf(c->file,
		"{\"ph\":\"%c\",\"cat\":\"nccl\",\"name\":\"%s\",\"id\":%llu,\"pid\":%d,\"tid\":0,"
		"\"ts\":%llu.%03u%s%s%s},\n",
		phase, name, (unsigned long long)e->id, c->rank, (unsigned long long)ns / 1000,
		(unsigned)(ns % 1000), args[0] ? ",\"args\":{" : "", args, args[0] ? "}" : "");
	if (ns > c->flushed_ns + CHROME_FLUSH_NS) {
		c->flushed_ns = ns;
		fflush(c->file);
	}
	if (ferror(c->file) && !c->failed) {
		c->failed = 1;
		if (c->log)
			c->log(2, ~0ul, __FILE__, __LINE__,
			       "profiler plugin chrome: %s cannot be written, the file is "
			       "incomplete",
			       c->path);
	}
	pthread_mutex_unlock(&c->lock);
}

/* Appends to a text of arguments. */
static void chrome_arg(char text[512], const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void chrome_arg(char text[512], const char *format, ...)
{
	size_t n = strlen(text);
	va_list args;

	if (n + 2 >= 512)
		return;
	if (n)
		text[n++] = ',';
	va_start(args, format);
	vsnprintf(text + n, 512 - n, format, args);
	va_end(args);
}

/* ---- what an event shows -------------------------------------------------------------------- */

static const char *chrome_text(const char *text)
{
	return text ? text : "";
}

static void chrome_name(struct chrome_event *e, const char *kind, const char *func)
{
	snprintf(e->name, sizeof e->name, "%s%s%s", kind, kind[0] && func[0] ? " " : "", func);
}

static void chrome_coll(struct chrome_event *e, const struct profiler_descr *d, char args[512])
{
	chrome_name(e, "", chrome_text(d->coll.func));
	chrome_arg(args, "\"number\":%llu", (unsigned long long)d->coll.number);
	chrome_arg(args, "\"count\":%zu,\"type\":\"%s\",\"root\":%d", d->coll.count,
		   chrome_text(d->coll.type), d->coll.root);
	chrome_arg(args, "\"algorithm\":\"%s\",\"protocol\":\"%s\",\"channels\":%u,\"warps\":%u",
		   chrome_text(d->coll.algo), chrome_text(d->coll.proto), d->coll.nchannels,
		   d->coll.nwarps);
}

static void chrome_proxy_op(struct chrome_event *e, const struct profiler_descr *d, char args[512])
{
	chrome_name(e, "proxy", d->op.is_send ? "send" : "receive");
	chrome_arg(args, "\"channel\":%u,\"peer\":%d,\"steps\":%d,\"most bytes\":%d", d->op.channel,
		   d->op.peer, d->op.nsteps, d->op.chunk_bytes);
}

/* Sets name and arguments. */
static void chrome_describe(struct chrome_event *e, const struct profiler_descr *d, char args[512])
{
	switch (d->type) {
	case PROFILER_GROUP_API:
		chrome_name(e, "group API", "");
		chrome_arg(args, "\"depth\":%d", d->group_api.depth);
		break;
	case PROFILER_COLL_API:
		chrome_name(e, "API", chrome_text(d->coll_api.func));
		chrome_arg(args, "\"count\":%zu,\"type\":\"%s\",\"captured\":%d", d->coll_api.count,
			   chrome_text(d->coll_api.type), d->coll_api.captured);
		break;
	case PROFILER_P2P_API:
		chrome_name(e, "API", chrome_text(d->p2p_api.func));
		chrome_arg(args, "\"count\":%zu,\"type\":\"%s\",\"captured\":%d", d->p2p_api.count,
			   chrome_text(d->p2p_api.type), d->p2p_api.captured);
		break;
	case PROFILER_COLL:
		chrome_coll(e, d, args);
		break;
	case PROFILER_P2P:
		chrome_name(e, "", chrome_text(d->p2p.func));
		chrome_arg(args, "\"count\":%zu,\"type\":\"%s\",\"peer\":%d,\"channels\":%u",
			   d->p2p.count, chrome_text(d->p2p.type), d->p2p.peer, d->p2p.nchannels);
		break;
	case PROFILER_PROXY_OP:
		chrome_proxy_op(e, d, args);
		break;
	case PROFILER_PROXY_STEP:
		chrome_name(e, "step", "");
		chrome_arg(args, "\"step\":%d", d->step.step);
		break;
	case PROFILER_KERNEL_CH:
		chrome_name(e, "kernel", "");
		chrome_arg(args, "\"channel\":%u,\"gpu ns\":%llu", d->kernel.channel,
			   (unsigned long long)d->kernel.ns);
		break;
	case PROFILER_NET_PLUGIN:
		chrome_name(e, "net plugin", "");
		chrome_arg(args, "\"id\":%lld", (long long)d->net.id);
		break;
	default:
		chrome_name(e, d->type == PROFILER_GROUP ? "group" : "launch", "");
		break;
	}
}

/* Returns the tag of the program's call; version 7 only. */
static uint64_t chrome_tag(const struct profiler_descr *d)
{
	switch (d->type) {
	case PROFILER_COLL_API:
		return d->coll_api.tag;
	case PROFILER_P2P_API:
		return d->p2p_api.tag;
	case PROFILER_COLL:
		return d->coll.tag;
	case PROFILER_P2P:
		return d->p2p.tag;
	default:
		return 0;
	}
}

/* Most time between the begin of a work and its event, if host and GPU have one clock. */
#define CHROME_LATE_NS 1000000000ull

/* Returns the host's time of a GPU's time. On doubles they have one clock. On GPUs both clocks
 * advance alike from the first event on. */
static uint64_t chrome_gpu_to_host(struct chrome *c, uint64_t gpu_ns, uint64_t now_ns)
{
	uint64_t ns;

	pthread_mutex_lock(&c->lock);
	if (!c->gpu_from_ns) {
		c->gpu_from_ns = gpu_ns;
		c->host_from_ns = now_ns - gpu_ns < CHROME_LATE_NS ? gpu_ns : now_ns;
	}
	ns = c->host_from_ns + (gpu_ns - c->gpu_from_ns);
	pthread_mutex_unlock(&c->lock);
	return ns;
}

static const char *chrome_state(int state)
{
	static const char *const names[] = {
		[PROFILER_SEND_GPU_WAIT] = "waits for the GPU",
		[PROFILER_SEND_WAIT] = "waits for the network",
		[PROFILER_RECV_WAIT] = "waits for data",
		[PROFILER_RECV_FLUSH_WAIT] = "waits for the flush",
		[PROFILER_RECV_GPU_WAIT] = "waits for the GPU to read",
		[PROFILER_CTRL_IDLE] = "idle",
		[PROFILER_CTRL_ACTIVE] = "active",
		[PROFILER_CTRL_SLEEP] = "sleeps",
		[PROFILER_CTRL_WAKEUP] = "wakes",
		[PROFILER_CTRL_APPEND] = "appends",
		[PROFILER_CTRL_APPEND_END] = "has appended",
		[PROFILER_OP_IN_PROGRESS] = "in progress",
		[PROFILER_SEND_PEER_WAIT] = "waits for the peer",
		[PROFILER_NET_UPDATE] = "updated",
		[PROFILER_GROUP_START_STOP] = "calls",
		[PROFILER_GROUP_END_START] = "launches",
	};

	if (state < 0 || (size_t)state >= sizeof names / sizeof *names || !names[state])
		return "state";
	return names[state];
}

/* ---- the plugin's functions ----------------------------------------------------------------- */

static ncclResult_t chrome_start(struct chrome *c, void **event, const struct profiler_descr *d,
				 uint64_t tag)
{
	struct chrome_event *e = calloc(1, sizeof *e);
	uint64_t ns = chrome_now_ns();
	char args[512] = "";

	*event = NULL;
	if (!e)
		return ncclSystemError;
	e->of = c;
	e->type = d->type;
	pthread_mutex_lock(&c->lock);
	e->id = ++c->events;
	pthread_mutex_unlock(&c->lock);
	chrome_describe(e, d, args);
	if (tag)
		chrome_arg(args, "\"tag\":%llu", (unsigned long long)tag);
	if (d->type == PROFILER_KERNEL_CH) {
		e->gpu_ns = d->kernel.ns;
		ns = chrome_gpu_to_host(c, d->kernel.ns, ns);
	}
	chrome_line(c, e, 'b', e->name, ns, args);
	*event = e;
	return ncclSuccess;
}

static ncclResult_t chrome_start_v5(void *context, void **event, void *descr)
{
	return chrome_start(context, event, descr, 0);
}

static ncclResult_t chrome_start_v7(void *context, void **event, void *descr)
{
	return chrome_start(context, event, descr, chrome_tag(descr));
}

static ncclResult_t chrome_stop(void *event)
{
	struct chrome_event *e = event;
	uint64_t ns = chrome_now_ns();

	if (e->type == PROFILER_KERNEL_CH)
		ns = chrome_gpu_to_host(e->of, e->gpu_ns, ns);
	chrome_line(e->of, e, 'e', e->name, ns, "");
	free(e);
	return ncclSuccess;
}

static ncclResult_t chrome_record(void *event, int state, void *args)
{
	const union profiler_args *a = args;
	struct chrome_event *e = event;
	char text[512] = "";

	if (state == PROFILER_KERNEL_CH_STOP) {
		e->gpu_ns = a ? a->kernel.ns : e->gpu_ns;
		return ncclSuccess;
	}
	if (e->type == PROFILER_PROXY_STEP && a && a->step.bytes)
		chrome_arg(text, "\"bytes\":%zu", a->step.bytes);
	if (e->type == PROFILER_PROXY_CTRL && a)
		chrome_arg(text, "\"appended\":%d", a->ctrl.appended);
	chrome_line(e->of, e, 'n', chrome_state(state), chrome_now_ns(), text);
	return ncclSuccess;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Writes the name of the file: %c communicator, %r rank, %p process. */
static void chrome_path(struct chrome *c, uint64_t comm)
{
	const char *pattern = getenv("PROFILER_CHROME_FILE");
	size_t n = 0, most = sizeof c->path - 24;

	for (pattern = pattern ? pattern : CHROME_FILE; *pattern && n < most; pattern++) {
		char kind = *pattern == '%' ? pattern[1] : '\0';

		if (kind == 'c')
			n += (size_t)sprintf(c->path + n, "%016llx", (unsigned long long)comm);
		else if (kind == 'r')
			n += (size_t)sprintf(c->path + n, "%d", c->rank);
		else if (kind == 'p')
			n += (size_t)sprintf(c->path + n, "%d", (int)getpid());
		else
			c->path[n++] = *pattern;
		if (kind == 'c' || kind == 'r' || kind == 'p')
			pattern++;
	}
	c->path[n] = '\0';
}

static ncclResult_t chrome_open(struct chrome *c, uint64_t comm, const char *comm_name)
{
	chrome_path(c, comm);
	c->file = fopen(c->path, "w");
	if (!c->file) {
		if (c->log)
			c->log(2, ~0ul, __FILE__, __LINE__,
			       "profiler plugin chrome: PROFILER_CHROME_FILE: %s cannot be "
			       "created: %m",
			       c->path);
		return ncclSystemError;
	}
	fprintf(c->file,
		"[\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":"
		"\"rank %d of %016llx%s%s\"}},\n",
		c->rank, c->rank, (unsigned long long)comm, comm_name && comm_name[0] ? " " : "",
		comm_name ? comm_name : "");
	return ncclSuccess;
}

static ncclResult_t chrome_init(void **context, uint64_t comm, int *mask, const char *comm_name,
				int nhosts, int nranks, int rank, profiler_log log)
{
	const char *wanted = getenv("PROFILER_CHROME_MASK");
	struct chrome *c = calloc(1, sizeof *c);
	ncclResult_t rc;

	(void)nhosts;
	(void)nranks;
	*context = NULL;
	if (!c)
		return ncclSystemError;
	c->rank = rank;
	c->log = log;
	pthread_mutex_init(&c->lock, NULL);
	rc = chrome_open(c, comm, comm_name);
	if (rc) {
		free(c);
		return rc;
	}
	*mask = (int)(wanted ? strtoul(wanted, NULL, 0) : CHROME_MASK);
	*context = c;
	return ncclSuccess;
}

static ncclResult_t chrome_finalize(void *context)
{
	struct chrome *c = context;
	int bad;

	/* the last line has no comma after it */
	fprintf(c->file,
		"{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_sort_index\",\"args\":{"
		"\"sort_index\":%d}}\n]\n",
		c->rank, c->rank);
	bad = ferror(c->file) != 0;
	bad |= fclose(c->file) != 0;
	pthread_mutex_destroy(&c->lock);
	free(c);
	return bad ? ncclSystemError : ncclSuccess;
}

#define CHROME_TABLE(version, start_of)                                                            \
	extern const struct profiler_table chrome_v##version __asm__("ncclProfiler_v" #version)    \
		__attribute__((visibility("default")));                                            \
	const struct profiler_table chrome_v##version = {                                          \
		.name = "chrome",                                                                  \
		.init = {.v5 = chrome_init},                                                       \
		.start = start_of,                                                                 \
		.stop = chrome_stop,                                                               \
		.record = chrome_record,                                                           \
		.finalize = chrome_finalize,                                                       \
	};
CHROME_TABLE(5, chrome_start_v5)
CHROME_TABLE(6, chrome_start_v5)
CHROME_TABLE(7, chrome_start_v7)
