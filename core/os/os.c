/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Forwards every function of os.h, check.h and mailbox.h to the table in force. The two table
 * pointers below are the one exception to "no mutable globals in core": an engine sets them before
 * tasks exist.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/os/os.h"
#include "core/os/mailbox.h"
#include "core/os/os_ops.h"

static const struct os_sched_ops *os_sched = &os_posix_ops;
static const struct os_world_ops *os_world = &os_real_ops;

static bool (*os_begin)(void);
/* True if os_begin has returned true: the tables are in force, and no thread installs others. */
static bool os_begun;

void os_on_first_call(bool (*begin)(void))
{
	os_begin = begin;
}

/* Calls os_begin before the first task or memory block is created, because both belong to one of
 * the worlds. */
static inline void os_first_call(void)
{
	if (!os_begin)
		return;
	if (!__atomic_load_n(&os_begun, __ATOMIC_ACQUIRE) || os_sched == &os_posix_ops)
		if (os_begin())
			__atomic_store_n(&os_begun, true, __ATOMIC_RELEASE);
}

void os_install(const struct os_sched_ops *sched, const struct os_world_ops *world)
{
	if (sched)
		os_sched = sched;
	if (world)
		os_world = world;
}

const struct os_sched_ops *os_sched_in_force(void)
{
	return os_sched;
}

const struct os_world_ops *os_world_in_force(void)
{
	return os_world;
}

void doppel_assert_fail(const char *what, const char *file, int line)
{
	fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, what);
	fflush(stderr);
	/* The engine's SIGABRT handler, if installed, names the task and dumps all tasks. */
	abort();
}

#ifdef DOPPEL_FAKE
void shared_hook_point(const void *addr, size_t bytes, enum shared_access access,
		       enum shared_order order)
{
	if (os_sched->shared_point)
		os_sched->shared_point(addr, bytes, access, order);
}

bool shared_hook_store(void *addr, size_t bytes, uint64_t value, enum shared_order order)
{
	return os_sched->shared_store && os_sched->shared_store(addr, bytes, value, order);
}

void shared_hook_wrote(const void *addr, size_t bytes, enum shared_access access)
{
	if (os_sched->shared_wrote)
		os_sched->shared_wrote(addr, bytes, access);
}

bool shared_hook_cas_spurious(const void *addr)
{
	struct os_fault f;
	/* A fault lookup costs time; plain posix has no faults. */
	return os_sched->shared_point && os_sched->fault("shared.cas", addr, &f) &&
	       f.kind == OS_FAULT_SPURIOUS;
}

void shared_hook_note(const void *addr, size_t bytes, enum shared_access access)
{
	if (os_sched->shared_note)
		os_sched->shared_note(addr, bytes, access);
}
#endif

/* ---- scheduling half ------------------------------------------------------------------------ */

struct os_self *os_self(void)
{
	os_first_call();
	return os_sched->self();
}

struct os_proc *os_proc(void)
{
	os_first_call();
	return os_sched->self()->proc;
}

int32_t os_work_for(int32_t rank)
{
	struct os_self *self = os_self();
	int32_t before = self->rank;

	self->rank = rank;
	if (rank < 0)
		return before;
	if (self->driven_first == self->driven_end) {
		self->driven_first = rank;
		self->driven_end = rank + 1;
	}
	self->driven_first = MIN_OF(self->driven_first, rank);
	self->driven_end = MAX_OF(self->driven_end, rank + 1);
	return before;
}

void os_label(const void *object, const struct os_label *label)
{
	os_sched->label(object, label);
}

void os_unlabel(const void *object)
{
	os_sched->unlabel(object);
}

int os_thread_start(struct os_thread **t, const struct os_thread_attr *attr, void (*fn)(void *arg),
		    void *arg)
{
	ASSERT(attr && attr->name && fn && (t || attr->detached));
	return os_sched->thread_start(t, attr, fn, arg);
}

int os_thread_join(struct os_thread *t)
{
	ASSERT(t);
	return os_sched->thread_join(t);
}

int os_wait(const struct wait *const *w, int n, const shared_u32 *abort, int *index)
{
	ASSERT(n > 0 || abort);
	return os_sched->wait(w, n, abort, index);
}

int os_wait_one(const struct wait *w, const shared_u32 *abort)
{
	return os_wait(&w, 1, abort, NULL);
}

uint64_t os_event_seq(const void *object)
{
	return os_sched->event_seq(object);
}

void os_event_post(const void *object)
{
	os_sched->event_post(object);
}

void os_poll_miss(const char *why)
{
	os_sched->poll_miss(why);
}

void os_poll_hit(void)
{
	os_sched->poll_hit();
}

uint64_t os_now_ns(void)
{
	return os_sched->now_ns();
}

uint64_t os_date_ns(void)
{
	return os_sched->date_ns(os_sched->now_ns());
}

void os_sleep_ns(uint64_t ns)
{
	os_sched->sleep_ns(ns);
}

void os_charge(enum os_cost what, uint64_t amount)
{
	os_sched->charge(what, amount);
}

uint32_t os_choose(const char *site, uint32_t n)
{
	ASSERT(n > 0);
	uint32_t chosen = os_sched->choose(site, n);
	ASSERT(chosen < n);
	return chosen;
}

bool os_fault(const char *site, const void *object, struct os_fault *f)
{
	return os_sched->fault(site, object, f);
}

#ifdef DOPPEL_FAKE
bool os_buggify(const struct os_site *site)
{
	return os_sched->buggify(site);
}

void os_probe(const struct os_site *site)
{
	os_sched->probe(site);
}
#endif

void os_trace(const char *kind, uint64_t a, uint64_t b, uint64_t c)
{
	os_sched->trace(kind, a, b, c);
}

void os_trace_bytes(const char *kind, uint64_t a, const void *bytes, size_t n)
{
	os_sched->trace_bytes(kind, a, bytes, n);
}

bool os_tracing(void)
{
	return os_sched->tracing();
}

void os_trace_begin(const struct os_trace_slice *slice)
{
	os_sched->trace_slice('B', slice, 0);
}

void os_trace_end(const struct os_trace_slice *slice)
{
	os_sched->trace_slice('E', slice, 0);
}

void os_trace_span(const struct os_trace_slice *slice, uint64_t from_ns)
{
	os_sched->trace_slice('X', slice, from_ns);
}

uint64_t os_trace_flow(uint64_t comm, int32_t from, int32_t to, int32_t channel, uint64_t step)
{
	const uint64_t part[] = {(uint64_t)from << 32 | (uint32_t)to, (uint64_t)channel, step};
	uint64_t h = comm;

	for (size_t i = 0; i < ARRAY_LEN(part); i++) {
		h = (h ^ part[i]) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 29;
	}
	return (h >> 20) + 1;
}

void os_progress(void)
{
	os_sched->progress();
}

/* ---- world half ----------------------------------------------------------------------------- */

struct base_state *os_base_state(void)
{
	os_first_call();
	return os_world->base_state();
}

void *os_alloc(size_t bytes, const char *what)
{
	ASSERT(what);
	os_first_call();
	return os_world->alloc(bytes, what);
}

void os_free(void *p)
{
	if (p)
		os_world->free(p);
}

const void *os_memo(const char *kind, const void *key, size_t key_bytes,
		    void *(*make)(const void *key, size_t key_bytes, void *arg), void *arg)
{
	ASSERT(kind && make);
	return os_world->memo(kind, key, key_bytes, make, arg);
}

const char *os_env(const char *name)
{
	return os_world->env(name);
}

const char *os_env_at(int index)
{
	return os_world->env_at(index);
}

void os_host_name(char *out, size_t bytes)
{
	ASSERT(bytes > 0);
	os_world->host_name(out, bytes);
}

void os_boot_id(char *out, size_t bytes)
{
	ASSERT(bytes > 0);
	os_world->boot_id(out, bytes);
}

int os_shm_device(uint64_t *device)
{
	return os_world->shm_device(device);
}

int os_descriptors_raise(uint64_t *most)
{
	return os_world->descriptors_raise(most);
}

void os_random(void *out, size_t bytes)
{
	os_world->random(out, bytes);
}

int os_file_read(const char *path, char **data, size_t *bytes)
{
	ASSERT(path && data && bytes);
	return os_world->file_read(path, data, bytes);
}

int os_file_write(const char *path, const char *data, size_t bytes)
{
	ASSERT(path && (data || !bytes));
	return os_world->file_write(path, data, bytes);
}

int os_dir_list(const char *path, char **names, int *count)
{
	ASSERT(path && names && count);
	return os_world->dir_list(path, names, count);
}

int os_real_path(const char *path, char out[OS_PATH_BYTES])
{
	ASSERT(path && out);
	return os_world->real_path(path, out);
}

void os_log_line(const char *line)
{
	os_world->log_line(line);
}

int os_agree(uint64_t key, uint64_t seq, int32_t rank, const char *text, const void *caller,
	     struct os_agree_other *other)
{
	return os_world->agree ? os_world->agree(key, seq, rank, text, caller, other) : 0;
}

bool os_agrees(void)
{
	return os_world->agree != NULL;
}

void os_agree_member(uint64_t key, uint64_t agent, bool in)
{
	if (os_world->agree_member)
		os_world->agree_member(key, agent, in);
}

int os_agree_order(uint64_t key, uint64_t agent, uint64_t seq, int32_t rank, const char *text,
		   const void *caller, struct os_agree_other *other)
{
	return os_world->agree_order
		       ? os_world->agree_order(key, agent, seq, rank, text, caller, other)
		       : 0;
}

void os_use(const struct os_use *use)
{
	os_world->use(use);
}

int os_interface(int index, char *name, size_t name_bytes, struct os_addr *addr)
{
	return os_world->interface(index, name, name_bytes, addr);
}

int os_resolve(const char *name, uint16_t family, struct os_addr *addr)
{
	return os_world->resolve(name, family, addr);
}

int os_listen(const struct os_addr *at, int *fd, struct os_addr *bound)
{
	return os_world->listen(at, fd, bound);
}

int os_connect(const struct os_addr *to, int *fd)
{
	return os_world->connect(to, fd);
}

int os_connected(int fd)
{
	return os_world->connected(fd);
}

int os_accept(int fd, int *conn, struct os_addr *peer)
{
	return os_world->accept(fd, conn, peer);
}

int os_send(int fd, const void *data, size_t n, size_t *done)
{
	return os_world->send(fd, data, n, done);
}

int os_recv(int fd, void *data, size_t n, size_t *done)
{
	return os_world->recv(fd, data, n, done);
}

int os_close(int fd)
{
	return os_world->close(fd);
}

const void *os_socket_object(int fd)
{
	return os_world->socket_object(fd);
}

bool os_socket_changed(int fd, uint64_t seq)
{
	return os_world->socket_changed(fd, seq);
}

int os_shm_create(const char *name, size_t bytes, void **mem)
{
	return os_world->shm_create(name, bytes, mem);
}

int os_shm_open(const char *name, size_t bytes, void **mem, size_t *found)
{
	size_t none;

	found = found ? found : &none;
	*found = 0;
	return os_world->shm_open(name, bytes, mem, found);
}

int os_shm_unlink(const char *name)
{
	return os_world->shm_unlink(name);
}

int os_shm_unmap(void *mem, size_t bytes)
{
	return os_world->shm_unmap(mem, bytes);
}

int os_mailbox_open(const char *name, int *box)
{
	return os_world->mailbox_open(name, box);
}

void os_mailbox_close(int box)
{
	os_world->mailbox_close(box);
}

int os_mailbox_post(const char *name, uint64_t what, int fd)
{
	return os_world->mailbox_post(name, what, fd);
}

int os_mailbox_take(int box, uint64_t *what, int *fd)
{
	return os_world->mailbox_take(box, what, fd);
}

const void *os_mailbox_object(int box)
{
	return os_world->mailbox_object(box);
}
