/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scheduling half of os.h on POSIX threads and the real clock. The `threads` engine builds its
 * host tasks on it. This file *implements* waiting; it therefore reads waited-on words with plain
 * atomics, below shared.h. Its thread-local variable and its counters are its own.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/os/os.h"
#include "core/os/os_ops.h"

#define POSIX_NAME_BYTES   48
#define POSIX_EVENT_SLOTS  1024 /* a power of two; objects may share one slot */
#define POSIX_SPINS        100  /* rounds with a pause instruction before the first yield */
#define POSIX_YIELDS       20   /* rounds with a yield before the first sleep */
#define POSIX_SLEEP_NS     20000
#define POSIX_SLEEP_MAX_NS 200000

struct os_thread {
	struct os_self self; /* must be first */
	pthread_t thread;
	char name[POSIX_NAME_BYTES];
	void (*fn)(void *arg);
	void *arg;
	bool detached;
};

static struct os_proc posix_proc = {.name = "self"};
static pthread_once_t posix_once = PTHREAD_ONCE_INIT;
static pthread_key_t posix_key; /* its destructor frees the record of an adopted thread */
static uint32_t posix_next_id;
static uint64_t posix_events[POSIX_EVENT_SLOTS];
static __thread struct os_thread *posix_current;

/* Frees the record of an adopted thread when the thread ends. Later destructors of that thread
 * adopt it anew. */
static void posix_forget(void *thread)
{
	posix_current = NULL;
	free(thread);
}

void os_real_identify(struct os_proc *proc)
{
	struct stat st;

	proc->pid = (int32_t)getpid();
	proc->pid_space = stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
	proc->net_space = stat("/proc/self/ns/net", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* Runs in the child of a fork. The child is a process of its own, perhaps in another pid namespace.
 * The parent's tasks do not exist in the child, so its communicators and roots are dropped. */
static void posix_forked(void)
{
	os_real_identify(&posix_proc);
	posix_proc.slot[OS_SLOT_CORE] = NULL;
}

static void posix_init(void)
{
	os_real_identify(&posix_proc);
	int rc = pthread_key_create(&posix_key, posix_forget);
	ASSERT(rc == 0);
	rc = pthread_atfork(NULL, NULL, posix_forked);
	ASSERT(rc == 0);
}

static void posix_thread_init(struct os_thread *t, const char *name, int32_t rank)
{
	pthread_once(&posix_once, posix_init);
	strncpy(t->name, name, sizeof t->name - 1);
	t->self.id = __atomic_fetch_add(&posix_next_id, 1, __ATOMIC_RELAXED);
	t->self.proc = &posix_proc;
	t->self.name = t->name;
	t->self.rank = rank;
	t->self.step = -1;
}

static struct os_thread *posix_adopt(void)
{
	struct os_thread *t = calloc(1, sizeof *t);
	ASSERT(t);
	posix_thread_init(t, "thread", -1);
	t->thread = pthread_self();
	pthread_setspecific(posix_key, t);
	posix_current = t;
	return t;
}

static struct os_thread *posix_thread(void)
{
	return posix_current ? posix_current : posix_adopt();
}

static __attribute__((noinline)) struct os_self *posix_self(void)
{
	return &posix_thread()->self;
}

static void *posix_thread_main(void *arg)
{
	struct os_thread *t = arg;
	posix_current = t;
	t->fn(t->arg);
	if (t->detached) {
		posix_current = NULL;
		free(t);
	}
	return NULL;
}

static int posix_thread_start(struct os_thread **out, const struct os_thread_attr *attr,
			      void (*fn)(void *), void *arg)
{
	struct os_thread *t = calloc(1, sizeof *t);
	if (!t)
		return ENOMEM;
	posix_thread_init(t, attr->name, attr->rank);
	t->self.proc = posix_self()->proc;
	t->fn = fn;
	t->arg = arg;
	t->detached = attr->detached;
	pthread_t thread;
	int rc = pthread_create(&thread, NULL, posix_thread_main, t);
	if (rc) {
		free(t);
		return rc == EAGAIN ? EAGAIN : rc;
	}
	char brief[16]; /* the kernel's limit for thread names */
	snprintf(brief, sizeof brief, "%s", attr->name);
	pthread_setname_np(thread, brief);
	/* The thread may have ended and freed its record, so only the local handle is valid. */
	if (attr->detached)
		return pthread_detach(thread);
	t->thread = thread;
	*out = t;
	return 0;
}

static int posix_thread_join(struct os_thread *t)
{
	int rc = pthread_join(t->thread, NULL);
	if (rc == 0)
		free(t);
	return rc;
}

/* ---- waiting -------------------------------------------------------------------------------- */

static uint64_t *posix_event(const void *object)
{
	uint64_t x = (uint64_t)(uintptr_t)object * 0x9e3779b97f4a7c15ull;
	return &posix_events[x >> 54]; /* the top 10 bits index POSIX_EVENT_SLOTS */
}
DOPPEL_STATIC_CHECK(POSIX_EVENT_SLOTS == 1 << 10, "shift of posix_event");

static uint64_t posix_event_seq(const void *object)
{
	return __atomic_load_n(posix_event(object), __ATOMIC_ACQUIRE);
}

static void posix_event_post(const void *object)
{
	__atomic_fetch_add(posix_event(object), 1, __ATOMIC_RELEASE);
}

static bool posix_line_true(const struct wait *w)
{
	const uint32_t *line = w->on;
	uint32_t flag1 = __atomic_load_n(&line[1], __ATOMIC_ACQUIRE);
	uint32_t flag2 = __atomic_load_n(&line[3], __ATOMIC_ACQUIRE);
	return flag1 == (uint32_t)w->want && flag2 == (uint32_t)w->want;
}

static bool posix_wait_true(const struct wait *w)
{
	if (w->kind == WAIT_OBJECT)
		return posix_event_seq(w->on) != w->want;
	if (w->kind == WAIT_LINE16)
		return posix_line_true(w);
	ASSERT(w->bytes == 4 || w->bytes == 8);
	uint64_t v = w->bytes == 4 ? __atomic_load_n((const uint32_t *)w->on, __ATOMIC_ACQUIRE)
				   : __atomic_load_n((const uint64_t *)w->on, __ATOMIC_ACQUIRE);
	v &= w->mask;
	switch ((enum wait_kind)w->kind) {
	case WAIT_EQ:
		return v == w->want;
	case WAIT_NE:
		return v != w->want;
	case WAIT_GE:
		return v >= w->want;
	case WAIT_GE_CYCLIC:
		return wait_ge_cyclic(v, w->want, w->bytes);
	default:
		doppel_assert_fail("unknown kind of wait", __FILE__, __LINE__);
	}
}

static uint64_t posix_now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static uint64_t posix_date_ns(uint64_t now_ns)
{
	struct timespec t;

	(void)now_ns;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void posix_sleep_ns(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull)};
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
		;
}

/* Idles: pauses, then yields, then sleeps longer with each round. True once it has slept. */
static bool posix_idle(uint32_t round)
{
	if (round < POSIX_SPINS) {
#if defined(__x86_64__)
		__builtin_ia32_pause();
#elif defined(__aarch64__)
		__asm__ volatile("yield");
#endif
		return false;
	}
	if (round < POSIX_SPINS + POSIX_YIELDS) {
		sched_yield();
		return false;
	}
	uint64_t ns = POSIX_SLEEP_NS * (uint64_t)(round - POSIX_SPINS - POSIX_YIELDS + 1);
	posix_sleep_ns(MIN_OF(ns, POSIX_SLEEP_MAX_NS));
	return true;
}

/* Checks all waits once. Returns 0 with *found, ETIMEDOUT, ECANCELED, or EAGAIN. After a sleep an
 * OBJECT wait counts as true early, because no task posts for a real socket. */
static int posix_wait_look(const struct wait *const *w, int n, const shared_u32 *abort, bool slept,
			   int *found)
{
	if (abort && __atomic_load_n(&abort->v_, __ATOMIC_ACQUIRE))
		return ECANCELED;
	uint64_t deadline = 0;
	for (int i = 0; i < n; i++) {
		if (posix_wait_true(w[i])) {
			*found = i;
			return 0;
		}
		if (w[i]->deadline_ns && (!deadline || w[i]->deadline_ns < deadline))
			deadline = w[i]->deadline_ns;
	}
	if (deadline && posix_now_ns() >= deadline)
		return ETIMEDOUT;
	for (int i = 0; slept && i < n; i++) {
		if (w[i]->kind == WAIT_OBJECT) {
			*found = i;
			return 0;
		}
	}
	return EAGAIN;
}

static int posix_wait(const struct wait *const *w, int n, const shared_u32 *abort, int *index)
{
	bool slept = false;
	for (uint32_t round = 0;; round++) {
		int found = 0;
		int rc = posix_wait_look(w, n, abort, slept, &found);
		if (rc == 0 && index)
			*index = found;
		if (rc != EAGAIN)
			return rc;
		slept = posix_idle(round);
	}
}

/* Does nothing: a query of a real system returns immediately, and its caller decides how to
 * wait. */
static void posix_poll_miss(const char *why)
{
}

static void posix_poll_hit(void)
{
}

/* ---- choices, faults and traces: no-ops ----------------------------------------------------- */

static void posix_charge(enum os_cost what, uint64_t amount)
{
}

static uint32_t posix_choose(const char *site, uint32_t n)
{
	return 0;
}

static bool posix_fault(const char *site, const void *object, struct os_fault *f)
{
	return false;
}

static bool posix_buggify(const struct os_site *site)
{
	return false;
}

static void posix_probe(const struct os_site *site)
{
}

static void posix_trace(const char *kind, uint64_t a, uint64_t b, uint64_t c)
{
}

static void posix_trace_bytes(const char *kind, uint64_t a, const void *bytes, size_t n)
{
}

static bool posix_tracing(void)
{
	return false;
}

static void posix_trace_slice(char phase, const struct os_trace_slice *slice, uint64_t from_ns)
{
}

static void posix_progress(void)
{
}

static void posix_label(const void *object, const struct os_label *label)
{
}

static void posix_unlabel(const void *object)
{
}

const struct os_sched_ops os_posix_ops = {
	.name = "posix",
	.self = posix_self,
	.thread_start = posix_thread_start,
	.thread_join = posix_thread_join,
	.wait = posix_wait,
	.event_seq = posix_event_seq,
	.event_post = posix_event_post,
	.poll_miss = posix_poll_miss,
	.poll_hit = posix_poll_hit,
	.now_ns = posix_now_ns,
	.date_ns = posix_date_ns,
	.sleep_ns = posix_sleep_ns,
	.charge = posix_charge,
	.choose = posix_choose,
	.fault = posix_fault,
	.buggify = posix_buggify,
	.probe = posix_probe,
	.trace = posix_trace,
	.trace_bytes = posix_trace_bytes,
	.tracing = posix_tracing,
	.trace_slice = posix_trace_slice,
	.progress = posix_progress,
	.label = posix_label,
	.unlabel = posix_unlabel,
	.shared_point = NULL,
	.shared_store = NULL,
	.shared_wrote = NULL,
	.shared_note = NULL,
};
