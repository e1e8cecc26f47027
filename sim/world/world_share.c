/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several real processes that share a world. Everything is that of the real process, except shared
 * memory: a segment is a memfd of the process that made it, and its name is in a table in the
 * arena. No segment therefore remains in /dev/shm, however the processes end.
 *
 * Any process may be killed between any two instructions. The table has no lock: an entry changes
 * its state by one compare-and-swap, and an entry of a dead process is found by its descriptor,
 * which no longer exists.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/world/machine/installed.h"
#include "sim/world/world_internal.h"

#define SHARE_NAME_BYTES 40
#define SHARE_ENTRIES    4096u

/* FREE -> FILLING -> NAMED -> FREE. A process that dies in FILLING loses the entry for the job. */
enum share_state { SHARE_FREE, SHARE_FILLING, SHARE_NAMED };

struct share_entry {
	uint64_t inode; /* of the memfd, which distinguishes it from a later one of that number */
	uint64_t bytes;
	uint32_t state;
	uint32_t host;
	int32_t pid, fd;
	char name[SHARE_NAME_BYTES];
};
DOPPEL_STATIC_CHECK(sizeof(struct share_entry) == 72, "shared by processes");

/* Bytes that one process leaves for all others, once. */
struct share_note {
	uint32_t ready, bytes;
	uint8_t data[WORLD_NOTE_BYTES];
};

struct share_table {
	struct share_entry entry[SHARE_ENTRIES];
	struct share_note note;
};
DOPPEL_STATIC_CHECK(sizeof(struct share_table) <= WORLD_SEGMENTS_BYTES, "room in the arena");

static struct {
	const struct world_joiner *joiner;
	struct share_table *table; /* NULL: the process is alone */
	struct os_world_ops ops;
	int fd[SHARE_ENTRIES]; /* descriptors of this process, by entry; 0: none */
} share;

/* ---- entries -------------------------------------------------------------------------------- */

static uint32_t share_state(const struct share_entry *e)
{
	return __atomic_load_n(&e->state, __ATOMIC_ACQUIRE);
}

static bool share_change(struct share_entry *e, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&e->state, &from, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

/* Opens the memory of an entry. Returns ENOENT if its process has ended or closed it. */
static int share_entry_open(const struct share_entry *e, int *fd)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof path, "/proc/%d/fd/%d", e->pid, e->fd);
	*fd = open(path, O_RDWR | O_CLOEXEC);
	if (*fd < 0)
		return errno == ESRCH ? ENOENT : errno;
	if (!fstat(*fd, &st) && (uint64_t)st.st_ino == e->inode)
		return 0;
	close(*fd);
	return ENOENT;
}

/* Returns the entry of that name on this process' host, with its memory opened; NULL: none. Frees
 * the entries of that name that dead processes left. */
static struct share_entry *share_find(const char *name, int *fd)
{
	for (uint32_t i = 0; i < SHARE_ENTRIES; i++) {
		struct share_entry *e = &share.table->entry[i];

		if (share_state(e) != SHARE_NAMED || e->host != world->config.share.host ||
		    strncmp(e->name, name, SHARE_NAME_BYTES) != 0)
			continue;
		int rc = share_entry_open(e, fd);
		if (rc) {
			(void)share_change(e, SHARE_NAMED, SHARE_FREE);
			continue;
		}
		/* another process may have removed the name and used the entry meanwhile */
		if (share_state(e) == SHARE_NAMED && strncmp(e->name, name, SHARE_NAME_BYTES) == 0)
			return e;
		close(*fd);
	}
	return NULL;
}

static int share_name_check(const char *name)
{
	if (!*name || strchr(name, '/'))
		return EINVAL;
	return strlen(name) < SHARE_NAME_BYTES ? 0 : ENAMETOOLONG;
}

/* Closes descriptors whose names other processes removed. */
static void share_sweep(void)
{
	for (uint32_t i = 0; i < SHARE_ENTRIES; i++) {
		const struct share_entry *e = &share.table->entry[i];

		if (!share.fd[i] || (share_state(e) == SHARE_NAMED && e->pid == getpid()))
			continue;
		close(share.fd[i]);
		share.fd[i] = 0;
	}
}

/* ---- operations ----------------------------------------------------------------------------- */

static int share_memory(size_t bytes, int *fd, void **mem)
{
	int rc;

	*fd = memfd_create("doppel-segment", MFD_CLOEXEC);
	if (*fd < 0)
		return errno;
	rc = posix_fallocate(*fd, 0, (off_t)bytes);
	if (!rc)
		*mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (!rc && *mem == MAP_FAILED)
		rc = errno;
	if (rc)
		close(*fd);
	return rc;
}

/* Names the memory. The entry's fields are complete before the state is NAMED. */
static bool share_name_it(const char *name, size_t bytes, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return false;
	for (uint32_t i = 0; i < SHARE_ENTRIES; i++) {
		struct share_entry *e = &share.table->entry[i];

		if (share_state(e) != SHARE_FREE || !share_change(e, SHARE_FREE, SHARE_FILLING))
			continue;
		e->inode = (uint64_t)st.st_ino;
		e->bytes = bytes;
		e->host = world->config.share.host;
		e->pid = getpid();
		e->fd = fd;
		snprintf(e->name, sizeof e->name, "%s", name);
		if (share.fd[i]) /* of a name that another process removed just now */
			close(share.fd[i]);
		share.fd[i] = fd;
		__atomic_store_n(&e->state, SHARE_NAMED, __ATOMIC_RELEASE);
		return true;
	}
	return false;
}

static int share_create(const char *name, size_t bytes, void **mem)
{
	int rc = bytes ? share_name_check(name) : EINVAL, fd;

	if (rc)
		return rc;
	world_lock(&world->shm_lock);
	share_sweep();
	if (share_find(name, &fd)) {
		close(fd);
		rc = EEXIST;
	} else {
		rc = share_memory(bytes, &fd, mem);
	}
	if (!rc && !share_name_it(name, bytes, fd)) {
		munmap(*mem, bytes);
		close(fd);
		rc = ENOSPC;
	}
	world_unlock(&world->shm_lock);
	return rc;
}

static int share_open(const char *name, size_t bytes, void **mem, size_t *found)
{
	int rc = bytes ? share_name_check(name) : EINVAL, fd;
	struct stat st;

	if (rc)
		return rc;
	if (!share_find(name, &fd))
		return ENOENT;
	*found = fstat(fd, &st) ? 0 : (size_t)st.st_size;
	if (*found != bytes)
		rc = EINVAL;
	if (!rc)
		*mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (!rc && *mem == MAP_FAILED)
		rc = errno;
	close(fd);
	return rc;
}

static int share_unlink(const char *name)
{
	int rc = share_name_check(name), fd;

	if (rc)
		return rc;
	world_lock(&world->shm_lock);
	struct share_entry *e = share_find(name, &fd);
	if (e) {
		close(fd);
		rc = share_change(e, SHARE_NAMED, SHARE_FREE) ? 0 : ENOENT;
	}
	share_sweep();
	world_unlock(&world->shm_lock);
	return e ? rc : ENOENT;
}

static int share_device(uint64_t *device)
{
	*device = 1 + (uint64_t)world->config.share.host;
	return 0;
}

bool world_share_note(const void *data, size_t bytes)
{
	struct share_note *n = &share.table->note;

	ASSERT(bytes <= sizeof n->data);
	if (__atomic_load_n(&n->ready, __ATOMIC_ACQUIRE)) {
		fprintf(stderr, "world: processes of an earlier job of the same name still run; "
				"expected that they end first\n");
		return false;
	}
	memcpy(n->data, data, bytes);
	n->bytes = (uint32_t)bytes;
	__atomic_store_n(&n->ready, 1, __ATOMIC_RELEASE);
	return true;
}

bool world_share_noted(void *data, size_t bytes)
{
	const struct share_note *n = &share.table->note;

	if (!__atomic_load_n(&n->ready, __ATOMIC_ACQUIRE) || n->bytes != bytes)
		return false;
	memcpy(data, n->data, bytes);
	return true;
}

/* ---- start and end -------------------------------------------------------------------------- */

void world_on_join(const struct world_joiner *joiner)
{
	ASSERT(!share.joiner);
	share.joiner = joiner;
}

/* A program that has no library of ours with HCAs gets them now: they have the fabric. */
static bool share_joiner_load(void)
{
	char path[PATH_MAX];

	if (!share.joiner && world_installed(WORLD_HCAS, path) &&
	    !dlopen(path, RTLD_NOW | RTLD_NODELETE))
		fprintf(stderr, "world: %s\n", dlerror());
	return share.joiner;
}

int world_share_check(const struct world_config *c)
{
	const struct world_share *s = &c->share;

	if (!s->processes)
		return 0;
	if (c->real && s->process < s->processes && s->host < c->hosts && share_joiner_load())
		return 0;
	fprintf(stderr,
		"world: process %u of %u on host %u of %u, expected smaller numbers, a real "
		"process, and the HCA double\n",
		s->process, s->processes, s->host, c->hosts);
	return EINVAL;
}

int world_share_join(struct world_config *c)
{
	if (!c->share.processes)
		return 0;
	c->arena = share.joiner->join();
	return c->arena ? 0 : EIO;
}

int world_share_start(void)
{
	struct world_arena_head *head = (struct world_arena_head *)world->arena;

	if (!world->config.share.processes)
		return 0;
	if (!head->segments) {
		void *table = world_arena_alloc(WORLD_SEGMENTS_BYTES, "shared segments");

		if (!table)
			return ENOMEM;
		head->segments = world_arena_offset(table);
	}
	share.table = world_arena_at(head->segments);
	share.ops = os_real_ops;
	share.ops.shm_create = share_create;
	share.ops.shm_open = share_open;
	share.ops.shm_unlink = share_unlink;
	share.ops.shm_device = share_device;
	os_install(NULL, &share.ops);
	return share.joiner->joined();
}

void world_share_leave(void)
{
	if (share.table)
		share.joiner->leave();
}

void world_share_end(void)
{
	for (uint32_t i = 0; share.table && i < SHARE_ENTRIES; i++) {
		struct share_entry *e = &share.table->entry[i];

		if (!share.fd[i])
			continue;
		if (share_state(e) == SHARE_NAMED && e->pid == getpid()) {
			world_leak("shared memory segment", 1, e->name);
			(void)share_change(e, SHARE_NAMED, SHARE_FREE);
		}
		close(share.fd[i]);
		share.fd[i] = 0;
	}
	share.table = NULL;
}
