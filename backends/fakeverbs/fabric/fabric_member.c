/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This process as a member of a fabric (fabric.h). A process that posts also executes the far end.
 * It reads and writes the far process' memory with process_vm_readv/writev, which the kernel
 * permits to the same user.
 *
 * One thread of each process sleeps on a socket, the bell, and receives a datagram when another
 * process has an event for this one. The same thread holds the mutex `alive`, by which other
 * processes see that this process lives: that check is one load.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "backends/fakeverbs/fabric/counters_sys.h"
#include "backends/fakeverbs/fabric/fabric.h"
#include "backends/fakeverbs/entry/entry.h"
#include "backends/fakeverbs/context/process.h"
#include "core/base/hash.h"

#define FABRIC_LOCK_TRIES 30000 /* attempts, 1 ms apart: many processes of a job join in turn */
/* interval at which the bell's thread looks for tasks whose wake-up was lost */
#define FABRIC_QUIET_US 250000

static struct {
	struct fabric_segment *segment;
	char name[48];
	uint64_t space; /* inode of the PID namespace */
	int fd, name_fd, lock_fd, bell_fd;
	uint32_t reported; /* 1 after the log line that a process' memory is inaccessible */
	/* wake-ups of the bell's thread in FABRIC_QUIET_US; more than 1 if it writes counters */
	uint32_t ticks;
	pthread_barrier_t born;
	pthread_t bell;   /* of fabric_bell */
	uint32_t leaving; /* 1: the bell's thread ends */
} fabric = {.fd = -1, .name_fd = -1, .lock_fd = -1, .bell_fd = -1};

/* ---- members -------------------------------------------------------------------------------- */

DOPPEL_STATIC_CHECK(offsetof(pthread_mutex_t, __data.__lock) == 0, "what the kernel marks");

_Static_assert((FABRIC_MEMBERS & (FABRIC_MEMBERS - 1)) == 0, "places go on where ids wrap");

static struct fabric_member *fabric_member(uint32_t id)
{
	return &fabric.segment->member[id % FABRIC_MEMBERS];
}

/* True if the member's thread holds `alive`. A locked mutex contains its holder's TID, which the
 * kernel removes when that thread ends. */
static bool fabric_holds(const struct fabric_member *m)
{
	return __atomic_load_n((const uint32_t *)&m->alive, __ATOMIC_RELAXED) & FUTEX_TID_MASK &&
	       !__atomic_load_n(&m->gone, __ATOMIC_RELAXED);
}

static bool fabric_alive(uint32_t id)
{
	const struct fabric_member *m = fabric_member(id);

	return __atomic_load_n(&m->id, __ATOMIC_ACQUIRE) == id && fabric_holds(m);
}

/* Returns the state letter of /proc/PID/stat. It follows the last ')', because the program's name
 * may contain any character. */
static char fabric_state(pid_t pid)
{
	char path[64], text[256];

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (fd >= 0)
		close(fd);
	text[MAX_OF(n, 0)] = '\0';
	const char *at = strrchr(text, ')');

	return at && at[1] == ' ' ? at[2] : '?';
}

static bool fabric_stopped(uint32_t id)
{
	static uint32_t logged;
	pid_t pid = fabric_member(id)->pid;
	char state = fabric_state(pid);

	if ((state != 'T' && state != 't') || !fabric_alive(id))
		return false;
	if (__atomic_exchange_n(&logged, id, __ATOMIC_RELAXED) != id)
		fprintf(stderr,
			"doppel: process %d is stopped (%s) in the middle of a message to this "
			"one: "
			"until it goes on or ends, polls find nothing, posts fail with ETIMEDOUT, "
			"and "
			"what is sent to it is lost\n",
			pid, state == 't' ? "by a debugger" : "SIGSTOP");
	return true;
}

static int fabric_copy_failed(uint32_t id, const char *what)
{
	int rc = errno;

	/* The threads of a process end one by one. One without memory may still hold the mutex. */
	if (rc == ESRCH)
		__atomic_store_n(&fabric_member(id)->gone, 1, __ATOMIC_RELAXED);
	if (rc == ESRCH || !fabric_alive(id))
		return EHOSTDOWN;
	if (rc == EPERM && !__atomic_exchange_n(&fabric.reported, 1, __ATOMIC_RELAXED))
		fprintf(stderr,
			"doppel: cannot %s the memory of process %d: %s (kernel.yama.ptrace_scope, "
			"or another user namespace)\n",
			what, fabric_member(id)->pid, strerror(rc));
	return rc == EFAULT ? EFAULT : EACCES;
}

/* Copies with process_vm_writev (`write`) or process_vm_readv. */
static int fabric_copy(uint32_t id, uint64_t at, uint8_t *data, uint64_t bytes, bool write)
{
	pid_t pid = fabric_member(id)->pid;

	while (bytes) {
		const struct iovec here = {data, bytes}, there = {(void *)(uintptr_t)at, bytes};
		ssize_t n = write ? process_vm_writev(pid, &here, 1, &there, 1, 0)
				  : process_vm_readv(pid, &here, 1, &there, 1, 0);

		if (n <= 0)
			return fabric_copy_failed(id, write ? "write" : "read");
		data += n;
		at += (uint64_t)n;
		bytes -= (uint64_t)n;
	}
	return 0;
}

/* Copies bytes to or from another process' region, in rising order. Accesses the bytes inside the
 * region's window directly, and the bytes beside it through the kernel. */
static int fabric_move(const struct hca_mr *mr, uint64_t at, uint8_t *data, uint64_t bytes,
		       bool write)
{
	uint32_t id = mr->item.proc >> HCA_MEMBER_NUMBER_BITS, ticket;
	const struct hca_window *w = &mr->window;
	uint64_t head = at < w->at ? MIN_OF(w->at - at, bytes) : 0;
	uint8_t *base = fabric_window_get(fabric_member(id)->pid, mr, &ticket);

	if (!base)
		return fabric_copy(id, at, data, bytes, write);
	int rc = head ? fabric_copy(id, at, data, head, write) : 0;
	uint64_t off = at + head - w->at;
	uint64_t inside = off < w->bytes ? MIN_OF(bytes - head, w->bytes - off) : 0;

	if (!rc && inside)
		(write ? hca_host_write(base + off, data + head, inside)
		       : hca_host_read(data + head, base + off, inside));
	fabric_window_put(ticket);
	head += inside;
	if (!rc && head < bytes)
		rc = fabric_copy(id, at + head, data + head, bytes - head, write);
	return rc;
}

static int fabric_write(const struct hca_mr *mr, uint64_t at, const void *data, uint64_t bytes)
{
	return fabric_move(mr, at, (uint8_t *)(uintptr_t)data, bytes, true);
}

static int fabric_read(const struct hca_mr *mr, uint64_t at, void *data, uint64_t bytes)
{
	return fabric_move(mr, at, data, bytes, false);
}

/* ---- the bell ------------------------------------------------------------------------------- */

/* Sends a byte to the member's bell. Ignores a full queue: the bytes in it wake that process. */
static void fabric_ring(uint32_t id)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int n = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "doppel-bell/%u/%llu/%d",
			 (unsigned)geteuid(), (unsigned long long)fabric.space,
			 fabric_member(id)->pid);

	(void)sendto(fabric.bell_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL,
		     (const struct sockaddr *)&at,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n));
}

static void *fabric_bell(void *member)
{
	struct fabric_member *m = member;
	int fd = fabric.bell_fd;
	uint32_t quiet = 0;
	char byte;

	pthread_mutex_lock(&m->alive);
	pthread_barrier_wait(&fabric.born);
	while (!__atomic_load_n(&fabric.leaving, __ATOMIC_ACQUIRE)) {
		ssize_t n = recv(fd, &byte, 1, 0);

		counters_show(false);
		if (n < 0 && errno == EAGAIN) {
			if (++quiet < __atomic_load_n(&fabric.ticks, __ATOMIC_RELAXED))
				continue;
			quiet = 0;
			hca_member_silent();
			continue;
		}
		if (n < 0 && errno != EINTR)
			break; /* the program closed this socket, which it did not open */
		while (recv(fd, &byte, 1, MSG_DONTWAIT) > 0)
			;
		hca_member_notified();
	}
	while (!__atomic_load_n(&fabric.leaving, __ATOMIC_ACQUIRE))
		pause(); /* keeps `alive` locked until the process ends */
	pthread_mutex_unlock(&m->alive);
	return NULL;
}

/* Makes the bell's thread wake `ticks` times in FABRIC_QUIET_US even if no byte arrives. */
static void fabric_bell_tick(uint32_t ticks)
{
	ASSERT(ticks > 0 && ticks <= FABRIC_QUIET_US); /* a time of 0 would be none */
	const struct timeval quiet = {.tv_usec = FABRIC_QUIET_US / ticks};

	(void)setsockopt(fabric.bell_fd, SOL_SOCKET, SO_RCVTIMEO, &quiet, sizeof quiet);
	__atomic_store_n(&fabric.ticks, ticks, __ATOMIC_RELAXED);
}

static int fabric_bell_start(struct fabric_member *m)
{
	pthread_mutexattr_t attr;
	int rc;

	fabric.bell_fd = fabric_name_bind(0, "doppel-bell/%u/%llu/%d", (unsigned)geteuid(),
					  (unsigned long long)fabric.space, (int)getpid());
	if (fabric.bell_fd < 0)
		return errno;
	fabric_bell_tick(1);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	memset(&m->alive, 0, sizeof m->alive);
	rc = pthread_mutex_init(&m->alive, &attr);
	pthread_mutexattr_destroy(&attr);
	pthread_barrier_init(&fabric.born, NULL, 2);
	if (!rc)
		rc = pthread_create(&fabric.bell, NULL, fabric_bell, m);
	if (rc)
		return rc;
	pthread_barrier_wait(&fabric.born);
	return 0;
}

/* ---- joining -------------------------------------------------------------------------------- */

static struct hca_world *fabric_world(struct hca_world *(*make)(void))
{
	struct fabric_segment *s = fabric.segment;

	if (!s->world) {
		struct hca_world *w = make();

		__atomic_store_n(&s->world, world_arena_offset(w), __ATOMIC_RELEASE);
	}
	return world_arena_at(s->world);
}

static struct hca_members fabric_members = {.alive = fabric_alive,
					    .stopped = fabric_stopped,
					    .write = fabric_write,
					    .read = fabric_read,
					    .open = fabric_window_open,
					    .close = fabric_window_close,
					    .ring = fabric_ring,
					    .world = fabric_world};

/* Returns a hash of the layouts of all shared structs. Builds that differ in any of them must not
 * share memory. */
static uint64_t fabric_layout(void)
{
	const uint64_t sizes[] = {sizeof(struct fabric_segment),
				  sizeof(struct hca_world),
				  sizeof(struct hca_port),
				  sizeof(struct hca_slab),
				  sizeof(struct hca_qp),
				  sizeof(struct hca_cq),
				  sizeof(struct hca_srq),
				  sizeof(struct hca_mr),
				  sizeof(struct hca_pd),
				  sizeof(struct hca_channel),
				  sizeof(struct hca_context),
				  sizeof(struct hca_event),
				  sizeof(struct hca_packet),
				  sizeof(struct hca_wqe),
				  sizeof(struct hca_cqe),
				  sizeof(struct hca_ah),
				  sizeof(struct hca_member),
				  sizeof(struct hca_mw),
				  sizeof(struct hca_xrcd),
				  sizeof(struct hca_xrcd_open),
				  sizeof(struct hca_qp_open),
				  sizeof(struct hca_buffer_small),
				  sizeof(struct hca_buffer_large),
				  offsetof(struct hca_qp, sq),
				  offsetof(struct hca_qp, req),
				  offsetof(struct hca_qp, resp),
				  offsetof(struct hca_mr, address),
				  offsetof(struct hca_mr, window)};
	uint64_t h = FABRIC_VERSION;

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		h = hash64_combine(h, sizes[i]);
	return h;
}

static bool fabric_lock(void)
{
	const struct timespec t = {.tv_nsec = 1000000};

	for (int i = 0; i < FABRIC_LOCK_TRIES; i++) {
		fabric.lock_fd =
			fabric_name_bind(0, "doppel-fabric-lock/%u/%llu/%s", (unsigned)geteuid(),
					 (unsigned long long)fabric.space, fabric.name);
		if (fabric.lock_fd >= 0)
			return true;
		nanosleep(&t, NULL);
	}
	fprintf(stderr, "doppel: another program has been joining fabric %s for 30 s: stopped?\n",
		fabric.name);
	return false;
}

struct fabric_segment *fabric_join(void)
{
	const char *name = getenv("DOPPEL_FABRIC");
	uint64_t layout = fabric_layout();

	snprintf(fabric.name, sizeof fabric.name, "%s", name && *name ? name : "default");
	if (strchr(fabric.name, '/')) {
		fprintf(stderr, "doppel: DOPPEL_FABRIC is '%s', expected a name without '/'\n",
			name);
		return NULL;
	}
	fabric.space = fabric_namespace();
	if (!fabric_lock())
		return NULL;
	fabric.segment = fabric_find(fabric.name, layout, &fabric.fd);
	if (!fabric.segment)
		fabric.segment = fabric_make(layout, &fabric.fd);
	return fabric.segment;
}

static int fabric_check_machine(void)
{
	const struct world_machine *m = world_host_machine(0);
	uint64_t hash = hash64(m->xml, m->xml_bytes) | 1;

	if (!fabric.segment->machine)
		fabric.segment->machine = hash;
	if (fabric.segment->machine == hash)
		return 0;
	fprintf(stderr,
		"doppel: fabric %s is of another machine than %s: choose another name for it "
		"(DOPPEL_FABRIC, verbs-run --fabric)\n",
		fabric.name, m->path);
	return EINVAL;
}

static struct fabric_member *fabric_place(uint32_t *id)
{
	struct fabric_segment *s = fabric.segment;

	for (uint32_t i = 0; i < FABRIC_MEMBERS; i++) {
		*id = s->next_id++;
		if (*id && !fabric_member(*id)->id)
			return fabric_member(*id);
	}
	fprintf(stderr, "doppel: fabric %s has %u programs already\n", fabric.name, FABRIC_MEMBERS);
	return NULL;
}

static void fabric_reap(uint32_t self)
{
	for (uint32_t i = 0; i < FABRIC_MEMBERS; i++) {
		struct fabric_member *m = &fabric.segment->member[i];

		if (!m->id || m->id == self || fabric_holds(m))
			continue;
		hca_member_reap(m->id);
		__atomic_store_n(&m->id, 0, __ATOMIC_RELEASE);
	}
}

/* Starts the counters in /sys and wakes the bell's thread often enough that no value is older than
 * COUNTERS_LIFESPAN_MS. */
static void fabric_show_counters(void)
{
	struct stat st;

	if (fstat(fabric.fd, &st) || !counters_start((uint64_t)st.st_ino))
		return;
	fabric_bell_tick(FABRIC_QUIET_US / 1000 / COUNTERS_LIFESPAN_MS);
	fabric_ring(fabric_members.self); /* the thread still sleeps for the old interval */
}

int fabric_joined(void)
{
	uint32_t id;
	int rc = fabric_check_machine();

	if (rc)
		return rc;
	struct fabric_member *m = fabric_place(&id);

	if (!m)
		return EAGAIN;
	m->pid = getpid();
	m->gone = 0;
	rc = fabric_bell_start(m);
	if (rc) {
		fprintf(stderr, "doppel: cannot start the thread that wakes this program: %s\n",
			strerror(rc));
		return rc;
	}
	__atomic_store_n(&m->id, id, __ATOMIC_RELEASE);
	/* Yama's ptrace_scope may require it for process_vm_readv */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	fabric_members.self = id;
	hca_members = &fabric_members;
	(void)hca_world();
	fabric_reap(id);
	fabric.name_fd = fabric_name_bind(0, "doppel-fabric/%u/%llu/%s/%d/%d", (unsigned)geteuid(),
					  (unsigned long long)fabric.space, fabric.name,
					  (int)getpid(), fabric.fd);
	if (fabric.name_fd < 0)
		fprintf(stderr, "doppel: other programs will not find this one: %s\n",
			strerror(errno));
	close(fabric.lock_fd);
	fabric.lock_fd = -1;
	fabric_show_counters();
	return 0;
}

void fabric_leave(void)
{
	if (!hca_members)
		return;
	__atomic_store_n(&fabric.leaving, 1, __ATOMIC_RELEASE);
	fabric_ring(fabric_members.self);
	pthread_join(fabric.bell, NULL);
}

/* Closes the child's copies of the descriptors. The parent's names and memory remain. */
void fabric_forget(void)
{
	fabric_window_forked();
	counters_forget();
	int *const fds[] = {&fabric.fd, &fabric.name_fd, &fabric.lock_fd, &fabric.bell_fd};

	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
	fabric.segment = NULL; /* remains mapped: the parent's objects point into it */
}
