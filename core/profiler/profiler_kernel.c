/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times of works in kernels. A kernel stores the time and the mark of a work, at its begin and at
 * its end on each channel, into rings in pinned memory (struct dev_profile). A task of the
 * communicator reads them and makes the events.
 *
 *	main      profiler_work_expect: clears the work's entries, appends it to `posted`
 *	kernel    stores the time, then the mark
 *	task      waits for the entries of the oldest works, starts and stops their events
 *
 * The task exists from the first such work on. NCCL reads the rings in its proxy; here also
 * communicators without a proxy have such events. A ring has DEV_PROFILE_ENTRIES entries. If more
 * works are launched, an entry has the marks of several, one after the other. A work whose entry is
 * in use again before the task has read it has no event; the number of these is logged at the end.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/mem/mem.h"
#include "core/os/os_waits.h"
#include "core/profiler/profiler_internal.h"

/* A work on its channels. A bit of the masks for each channel. */
struct profiler_work {
	struct profiler_work *next;
	uint32_t number;
	uint64_t waits, runs; /* channels that have not begun; that have not ended */
	void *parent[2];
	void *event[DEV_MAX_CHANNELS][2];
};

struct profiler_kernel {
	struct dev_profile *rings; /* [DEV_MAX_CHANNELS], pinned */
	uint32_t number;           /* main: of the last work */
	struct os_thread *task;    /* main */

	struct os_mutex lock; /* of `posted` */
	struct profiler_work *posted, **posted_end;
	shared_u32 posts; /* works so far */
	shared_u32 stop;

	/* task */
	struct profiler_work *works; /* oldest first */
	uint64_t lost;
};

static struct dev_profile_entry *profiler_entry(struct dev_profile_entry *ring, uint32_t number)
{
	return &ring[number % DEV_PROFILE_ENTRIES];
}

/* ---- the task ------------------------------------------------------------------------------- */

static void profiler_channel_begins(struct ncclComm *comm, struct profiler_work *w, int c,
				    uint64_t ns)
{
	for (int i = 0; i < 2; i++) {
		struct profiler_descr d = {.type = PROFILER_KERNEL_CH, .parent = w->parent[i]};

		d.kernel.channel = (uint8_t)c;
		d.kernel.ns = ns;
		if (w->parent[i])
			w->event[c][i] = profiler_start(comm, &d);
	}
}

static void profiler_channel_ends(struct ncclComm *comm, struct profiler_work *w, int c,
				  uint64_t ns)
{
	const union profiler_args args = {.kernel = {ns}};

	for (int i = 0; i < 2; i++) {
		if (ns)
			profiler_record(comm, w->event[c][i], PROFILER_KERNEL_CH_STOP, &args);
		profiler_stop(comm, &w->event[c][i]);
	}
}

/* Returns true if the entry with this mark is filled, for a work after this one. Numbers wrap. */
static bool profiler_mark_is_later(uint64_t mark, uint32_t number)
{
	const uint32_t after = DEV_PROFILE_NUMBER(mark - number);

	return mark && after && after < 1u << 23;
}

/* Returns true if the kernel has filled the entry for the work, and sets *ns. *lost: a later work
 * has filled it, or has begun to: the time is that work's. */
static bool profiler_entry_read(struct dev_profile_entry *ring, uint32_t number, uint64_t *ns,
				bool *lost)
{
	struct dev_profile_entry *e = profiler_entry(ring, number);
	const uint64_t mark = shared_load_u64(&e->mark, SHARED_ACQUIRE);
	uint64_t at;

	*lost = profiler_mark_is_later(mark, number);
	if (DEV_PROFILE_NUMBER(mark) != number)
		return false;
	at = shared_load_u64(&e->ns, SHARED_RELAXED);
	*lost = DEV_PROFILE_MARK(number, at) != mark;
	if (!*lost)
		*ns = at;
	return !*lost;
}

/* Reads the entries of a channel. */
static void profiler_channel_read(struct ncclComm *comm, struct profiler_work *w, int c)
{
	struct profiler_kernel *k = comm->profiler->kernel;
	struct dev_profile *ring = &k->rings[c];
	const uint64_t bit = 1ull << c;
	bool lost = false;
	uint64_t ns = 0;

	if (w->waits & bit && profiler_entry_read(ring->began, w->number, &ns, &lost)) {
		w->waits &= ~bit;
		profiler_channel_begins(comm, w, c, ns);
	}
	if (!(w->waits & bit) && profiler_entry_read(ring->ended, w->number, &ns, &lost)) {
		w->runs &= ~bit;
		profiler_channel_ends(comm, w, c, ns);
	}
	if (!lost)
		return;
	k->lost++;
	w->waits &= ~bit;
	w->runs &= ~bit;
	profiler_channel_ends(comm, w, c, 0);
}

static void profiler_works_take(struct profiler_kernel *k)
{
	struct profiler_work **end = &k->works;

	os_mutex_lock(&k->lock);
	while (*end)
		end = &(*end)->next;
	*end = k->posted;
	k->posted = NULL;
	k->posted_end = &k->posted;
	os_mutex_unlock(&k->lock);
}

/* Makes one pass over all works. Frees those that have ended. */
static void profiler_works_read(struct ncclComm *comm)
{
	struct profiler_work **at = &comm->profiler->kernel->works, *w;

	while ((w = *at)) {
		for (int c = 0; c < DEV_MAX_CHANNELS; c++)
			if (w->runs >> c & 1)
				profiler_channel_read(comm, w, c);
		if (w->runs) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		os_free(w);
	}
}

static struct wait profiler_word_wait(const struct ncclComm *comm, const void *on, uint8_t bytes,
				      enum wait_kind kind, uint64_t want, const char *why)
{
	return wait_word(on, bytes, kind, want, why, wait_by(comm->rank, -1, "kernel"));
}

/* Returns the mark of an earlier work, which the entry still has, or 0. */
static uint64_t profiler_mark_before(struct dev_profile_entry *e, uint32_t number)
{
	const uint64_t mark = shared_load_u64(&e->mark, SHARED_RELAXED);
	const bool due = DEV_PROFILE_NUMBER(mark) == number || profiler_mark_is_later(mark, number);

	return due ? 0 : mark;
}

/* WAITS for the entries of the oldest work, for a new work, or for the end. Works of one channel
 * run in order, and later ones are read in the same pass. */
static void profiler_kernel_wait(struct ncclComm *comm, uint32_t posts)
{
	struct profiler_kernel *k = comm->profiler->kernel;
	struct wait wait[DEV_MAX_CHANNELS + 2];
	const struct wait *waits[DEV_MAX_CHANNELS + 2];
	const struct profiler_work *w = k->works;
	int n = 0;

	wait[n++] = profiler_word_wait(comm, &k->posts, 4, WAIT_NE, posts,
				       "works whose times the profiler receives");
	wait[n++] = profiler_word_wait(comm, &k->stop, 4, WAIT_NE, 0, "the profiler to end");
	for (int c = 0; w && c < DEV_MAX_CHANNELS; c++) {
		struct dev_profile *ring = &k->rings[c];
		struct dev_profile_entry *e =
			profiler_entry(w->waits >> c & 1 ? ring->began : ring->ended, w->number);

		if (!(w->runs >> c & 1))
			continue;
		wait[n] = profiler_word_wait(comm, &e->mark, 8, WAIT_NE,
					     profiler_mark_before(e, w->number),
					     "the kernel to begin or end a work");
		wait[n++].from.channel = c;
	}
	for (int i = 0; i < n; i++)
		waits[i] = &wait[i];
	(void)os_wait(waits, n, NULL, NULL);
}

static void profiler_kernel_main(void *arg)
{
	struct ncclComm *comm = arg;
	struct profiler_kernel *k = comm->profiler->kernel;

	for (;;) {
		bool stopping = shared_load_u32(&k->stop, SHARED_ACQUIRE) != 0;
		uint32_t posts = shared_load_u32(&k->posts, SHARED_ACQUIRE);

		profiler_works_take(k);
		profiler_works_read(comm);
		if (stopping)
			return;
		profiler_kernel_wait(comm, posts);
	}
}

/* ---- main ----------------------------------------------------------------------------------- */

void profiler_kernel_open(struct ncclComm *comm)
{
	struct profiler_kernel *k;
	const size_t bytes = DEV_MAX_CHANNELS * sizeof *k->rings;
	void *mem;

	if (comm->nranks == 1)
		return; /* its collectives are copies */
	k = os_alloc(sizeof *k, "times of kernels");
	if (!k || mem_host_alloc(&mem, bytes, "times of kernels")) {
		WARN("rank %d: no memory for the times of kernels: the profiler plugin receives no "
		     "events of kernel channels",
		     comm->rank);
		os_free(k);
		return;
	}
	memset(mem, 0, bytes);
	k->rings = mem;
	k->posted_end = &k->posted;
	comm->profiler->kernel = k;
}

/* Stops the events of works that have not ended, after an abort. */
static void profiler_works_drop(struct ncclComm *comm)
{
	struct profiler_kernel *k = comm->profiler->kernel;
	struct profiler_work *w;

	profiler_works_take(k);
	while ((w = k->works)) {
		for (int c = 0; c < DEV_MAX_CHANNELS; c++)
			profiler_channel_ends(comm, w, c, 0);
		k->works = w->next;
		os_free(w);
	}
}

void profiler_kernel_close(struct ncclComm *comm)
{
	struct profiler_kernel *k = comm->profiler->kernel;

	if (!k)
		return;
	shared_store_u32(&k->stop, 1, SHARED_RELEASE);
	if (k->task)
		os_thread_join(k->task);
	profiler_works_drop(comm);
	if (k->lost)
		INFO(LOG_PROFILE,
		     "rank %d: %llu events of kernel channels are missing: their times were "
		     "overwritten before they were read",
		     comm->rank, (unsigned long long)k->lost);
	(void)mem_host_free(k->rings, "times of kernels");
	os_free(k);
	comm->profiler->kernel = NULL;
}

struct dev_profile *profiler_kernel_memory(const struct ncclComm *comm)
{
	return comm->profiler && comm->profiler->kernel ? comm->profiler->kernel->rings : NULL;
}

static bool profiler_task_start(struct ncclComm *comm, struct profiler_kernel *k)
{
	int e;

	if (k->task)
		return true;
	e = os_task_start(&k->task, comm->rank, "profiler", profiler_kernel_main, comm);
	if (!e)
		return true;
	INFO(LOG_PROFILE, "rank %d: the task that reads the times of kernels cannot be started: %s",
	     comm->rank, strerror(e));
	return false;
}

static void profiler_work_post(struct profiler_kernel *k, struct profiler_work *w)
{
	os_mutex_lock(&k->lock);
	*k->posted_end = w;
	k->posted_end = &w->next;
	os_mutex_unlock(&k->lock);
	shared_add_u32(&k->posts, 1, SHARED_RELEASE);
}

uint32_t profiler_work_expect(struct ncclComm *comm, int lo, int hi, void *const parent[2])
{
	struct profiler_kernel *k = comm->profiler ? comm->profiler->kernel : NULL;
	struct profiler_work *w;

	if (!k || (!parent[0] && !parent[1]) || !profiler_task_start(comm, k))
		return 0;
	w = os_alloc(sizeof *w, "work for the profiler");
	if (!w) {
		INFO(LOG_PROFILE, "rank %d: no memory for the times of a kernel", comm->rank);
		return 0;
	}
	k->number = k->number % ((1u << 24) - 1) + 1;
	w->number = k->number;
	w->parent[0] = parent[0];
	w->parent[1] = parent[1];
	for (int c = lo; c <= hi; c++) {
		struct dev_profile *ring = &k->rings[c];

		w->waits |= 1ull << c;
		shared_store_u64(&profiler_entry(ring->began, w->number)->mark, 0, SHARED_RELAXED);
		shared_store_u64(&profiler_entry(ring->ended, w->number)->mark, 0, SHARED_RELAXED);
	}
	w->runs = w->waits;
	profiler_work_post(k, w);
	return w->number;
}
