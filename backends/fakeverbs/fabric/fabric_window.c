/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows: registered memory that the other processes map. A registration moves the whole pages
 * inside the region into a memfd, and maps the memfd in their place. The program sees the same
 * bytes at the same addresses, and other processes access them without a system call. The region's
 * edges, and all memory that cannot be moved, are accessed by process_vm_writev (fabric_member.c).
 *
 * Moving copies the pages, so nothing may write to them meanwhile. Pages are therefore moved only
 * while the program has one thread, with signals blocked. Nor may they contain another region of
 * the program that an HCA may write. Pages of files, of other mappings and of stacks are not moved,
 * nor are more than WINDOW_MAX_BYTES. A child of fork() receives its own copies, as of any private
 * memory.
 *
 * Other threads cannot be kept from writing unseen. Write protection makes their system calls fail
 * (read(2) into such a page returns EFAULT). userfaultfd(2) in the mode that also stops system
 * calls requires a privilege. A helper that stops threads with ptrace(2) makes epoll_wait(2) and
 * similar calls return EINTR, and fails if a debugger is attached.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/fakeverbs/fabric/fabric.h"
#include "backends/fakeverbs/objects/objects.h"

#define WINDOW_NAME        "doppel-region"
#define WINDOW_MAX_BYTES   (256ull << 20)
#define WINDOW_FILES       256
#define WINDOW_PAGE        4096ull
#define WINDOW_OWN_THREADS 2 /* threads of timers and of the bell */
#define WINDOW_CACHE       1024u

/* Memfds of pages that were moved and are registered. */
static struct window_file {
	uint64_t inode;
	uint32_t users;
	int fd;
} window_file[WINDOW_FILES];
static pthread_mutex_t window_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- mappings of this process --------------------------------------------------------------- */

struct window_map {
	uint64_t start, end, offset, inode;
	bool plain; /* private, anonymous, readable and writable */
	bool ours;
};

static bool window_map_parse(const char *line, struct window_map *m)
{
	char perms[8], name[256] = "";
	unsigned long long start, end, offset, inode;

	if (sscanf(line, "%llx-%llx %7s %llx %*s %llu %255s", &start, &end, perms, &offset, &inode,
		   name) < 5)
		return false;
	*m = (struct window_map){.start = start, .end = end, .offset = offset, .inode = inode};
	m->plain = !strcmp(perms, "rw-p") && !inode && (!name[0] || !strcmp(name, "[heap]"));
	m->ours = !strcmp(perms, "rw-s") && !strcmp(name, "/memfd:" WINDOW_NAME);
	return true;
}

/* Finds the mapping of [first, end). True if all of the range is plain, or lies in one mapping of a
 * window. */
static bool window_find(uint64_t first, uint64_t end, struct window_map *out)
{
	FILE *f = fopen("/proc/self/maps", "re");
	uint64_t at = first;
	struct window_map m;
	char line[512];
	bool good = true;

	while (f && good && at < end && fgets(line, sizeof line, f)) {
		if (!window_map_parse(line, &m) || m.end <= at)
			continue;
		good = m.start <= at && (m.plain || (m.ours && m.start <= first && m.end >= end));
		*out = m;
		at = m.end;
	}
	if (f)
		fclose(f);
	return good && at >= end;
}

static bool window_alone(void)
{
	DIR *d = opendir("/proc/self/task");
	int threads = 0;

	if (!d)
		return false;
	for (const struct dirent *e; (e = readdir(d));)
		threads += e->d_name[0] != '.';
	closedir(d);
	return threads <= WINDOW_OWN_THREADS + 1;
}

/* ---- move ----------------------------------------------------------------------------------- */

static int window_move(uint64_t first, uint64_t bytes)
{
	int fd = memfd_create(WINDOW_NAME, MFD_CLOEXEC);
	void *p = MAP_FAILED;

	ASSERT(first % WINDOW_PAGE == 0 && bytes > 0 && bytes % WINDOW_PAGE == 0);
	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		goto err;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		goto err;
	memcpy(p, (const void *)(uintptr_t)first, bytes);
	if (mremap(p, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(uintptr_t)first) ==
	    MAP_FAILED) {
		munmap(p, bytes);
		goto err;
	}
	return fd;
err:
	if (fd >= 0)
		close(fd);
	return -1;
}

static struct window_file *window_file_of(uint64_t inode)
{
	for (int i = 0; i < WINDOW_FILES; i++)
		if (window_file[i].users && window_file[i].inode == inode)
			return &window_file[i];
	return NULL;
}

static struct window_file *window_file_new(uint64_t first, uint64_t bytes)
{
	struct window_file *f = window_file;
	struct stat st;
	sigset_t all, before;

	while (f < window_file + WINDOW_FILES && f->users)
		f++;
	if (f == window_file + WINDOW_FILES || bytes > WINDOW_MAX_BYTES || !window_alone())
		return NULL;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int fd = window_move(first, bytes);

	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (fd < 0 || fstat(fd, &st)) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	f->fd = fd;
	f->inode = (uint64_t)st.st_ino;
	return f;
}

void fabric_window_open(uint64_t address, uint64_t bytes, bool still, struct hca_window *out)
{
	uint64_t first = ALIGN_UP(address, WINDOW_PAGE);
	uint64_t end = (address + bytes) / WINDOW_PAGE * WINDOW_PAGE;
	struct window_file *f = NULL;
	struct window_map m;

	*out = (struct hca_window){.fd = -1};
	if (end <= first)
		return;
	pthread_mutex_lock(&window_lock);
	if (window_find(first, end, &m)) {
		f = m.ours ? window_file_of(m.inode) : NULL;
		if (f) {
			out->offset = m.offset + (first - m.start);
		} else if (still) {
			f = window_file_new(first, end - first);
		}
	}
	if (f) {
		f->users++;
		out->at = first;
		out->bytes = end - first;
		out->inode = f->inode;
		out->fd = f->fd;
	}
	pthread_mutex_unlock(&window_lock);
}

void fabric_window_close(struct hca_window *w)
{
	if (w->fd < 0)
		return;
	pthread_mutex_lock(&window_lock);
	struct window_file *f = window_file_of(w->inode);

	if (f && --f->users == 0)
		close(f->fd);
	pthread_mutex_unlock(&window_lock);
	w->fd = -1;
}

/* ---- windows of other processes ------------------------------------------------------------- */

/* Cache of mapped windows, indexed by region index modulo WINDOW_CACHE. `base` is NULL if the
 * window cannot be mapped. */
static struct window_view {
	uint32_t lock, users;
	uint32_t region, generation; /* region: index + 1 */
	uint8_t *base;
	uint64_t bytes;
} window_view[WINDOW_CACHE];

static uint8_t *window_map_theirs(int32_t pid, const struct hca_window *w)
{
	uint64_t skip = w->offset % WINDOW_PAGE;
	struct stat st;
	char path[64];
	void *p = MAP_FAILED;

	snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, w->fd);
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	if (!skip && !fstat(fd, &st) && (uint64_t)st.st_ino == w->inode &&
	    (uint64_t)st.st_size >= w->offset + w->bytes)
		p = mmap(NULL, w->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)w->offset);
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

static void window_view_fill(struct window_view *v, int32_t pid, const struct hca_mr *mr)
{
	ASSERT(!v->users); /* no task uses what is unmapped */
	if (v->base)
		munmap(v->base, v->bytes);
	v->base = window_map_theirs(pid, &mr->window);
	v->bytes = mr->window.bytes;
	v->region = mr->item.index + 1;
	v->generation = mr->item.generation;
}

/* The caller holds the region, so its window does not change. */
uint8_t *fabric_window_get(int32_t pid, const struct hca_mr *mr, uint32_t *ticket)
{
	uint32_t place = mr->item.index % WINDOW_CACHE;
	struct window_view *v = &window_view[place];
	uint8_t *base = NULL;

	if (mr->window.fd < 0)
		return NULL;
	hca_lock(&v->lock);
	bool fits = v->region == mr->item.index + 1 && v->generation == mr->item.generation;

	if (!fits && !v->users) {
		window_view_fill(v, pid, mr);
		fits = true;
	}
	if (fits && v->base) {
		base = v->base;
		v->users++;
		*ticket = place;
	}
	hca_unlock(&v->lock);
	return base;
}

void fabric_window_put(uint32_t ticket)
{
	struct window_view *v = &window_view[ticket];

	hca_lock(&v->lock);
	ASSERT(v->users > 0); /* one for each fabric_window_get */
	v->users--;
	hca_unlock(&v->lock);
}

/* ---- fork ----------------------------------------------------------------------------------- */

static void window_unshare(const struct window_map *m)
{
	uint64_t bytes = m->end - m->start;
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return;
	memcpy(p, (const void *)(uintptr_t)m->start, bytes);
	mremap(p, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(uintptr_t)m->start);
}

/* Copies this process' windows into private memory. The parent's views of other processes' windows
 * are not the child's memory. */
void fabric_window_forked(void)
{
	FILE *f = window_file[0].inode ? fopen("/proc/self/maps", "re") : NULL;
	struct window_map m, list[WINDOW_FILES];
	char line[512];
	int n = 0;

	while (f && n < WINDOW_FILES && fgets(line, sizeof line, f))
		if (window_map_parse(line, &m) && m.ours)
			list[n++] = m;
	if (f)
		fclose(f);
	for (int i = 0; i < n; i++)
		window_unshare(&list[i]);
	for (int i = 0; i < WINDOW_FILES; i++) {
		if (window_file[i].users)
			close(window_file[i].fd);
		window_file[i] = (struct window_file){0};
	}
	memset(window_view, 0, sizeof window_view);
	pthread_mutex_init(&window_lock, NULL);
}
