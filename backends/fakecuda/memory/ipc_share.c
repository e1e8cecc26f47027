/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IPC between real processes that share a world (struct world_share). Each process has a range of
 * addresses on every GPU, in a file of its own. A process that opens memory of another one maps
 * that file at the same addresses. The exporter's pages therefore live until the last process that
 * maps them has ended.
 *
 * The file also has the table of exported allocations. Any process may be killed between any two
 * instructions, so the table has no lock. An importer sets its bit and then looks at the state; an
 * exporter sets the state and then looks at the bits: at least one of them sees the other. The bit
 * of a process that has ended does not count.
 */
#include "backends/fakecuda/fakecuda.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHARE_PROCESSES 256u
#define SHARE_EXPORTS   1024u
#define SHARE_FOREIGN   0x80000000u /* in `proc` and `number` of imported memory */

enum export_state { EXPORT_NONE, EXPORT_LIVE, EXPORT_FREED };

struct fc_export {
	uint64_t base, bytes;
	uint64_t opened[SHARE_PROCESSES / 64]; /* bit per process */
	uint32_t number, state;
	char who[FC_WHO_BYTES];
};

struct fc_exports {
	int32_t pid[SHARE_PROCESSES]; /* of importers */
	struct fc_export entry[SHARE_EXPORTS];
};
DOPPEL_STATIC_CHECK(sizeof(struct fc_exports) <= FC_EXPORTS_BYTES, "room in the file");

/* Under fc_lock. */
static struct {
	struct fc_exports *own;
	/* files of other processes, by number */
	struct share_peer {
		struct fc_exports *exports; /* NULL: not opened */
		uint64_t inode;
		int fd;
	} peer[SHARE_PROCESSES];
} share;

bool fc_share_on(void)
{
	return fc.share != 0;
}

/* Maps the table at the end of a file. NULL: failed. */
static struct fc_exports *exports_map(int fd)
{
	void *p = mmap(NULL, FC_EXPORTS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		       (off_t)FC_VA_LIMIT);

	return p == MAP_FAILED ? NULL : p;
}

/* ---- the exporter --------------------------------------------------------------------------- */

static struct fc_export *export_of(const struct fc_alloc *a)
{
	ASSERT(share.own && a->entry && a->entry <= SHARE_EXPORTS);
	return &share.own->entry[a->entry - 1];
}

static struct fc_export *export_take(struct fc_alloc *a)
{
	for (uint32_t i = 0; i < SHARE_EXPORTS; i++) {
		struct fc_export *e = &share.own->entry[i];

		if (e->state != EXPORT_NONE)
			continue;
		memset(e, 0, sizeof *e);
		e->base = a->base;
		e->bytes = a->bytes;
		e->number = a->number;
		snprintf(e->who, sizeof e->who, "%s", a->who);
		__atomic_store_n(&e->state, EXPORT_LIVE, __ATOMIC_SEQ_CST);
		a->entry = i + 1;
		return e;
	}
	fc_report("cudaIpcGetMemHandle: %u allocations have handles already", SHARE_EXPORTS);
	return NULL;
}

bool fc_export(struct fc_alloc *a, struct fc_ipc_handle *h)
{
	struct stat st;

	h->fd = fc_va_file();
	h->pid = getpid();
	if (!share.own)
		share.own = exports_map(h->fd);
	if (!share.own || fstat(h->fd, &st)) {
		fc_report("cudaIpcGetMemHandle: the table of handles cannot be mapped: %s",
			  strerror(errno));
		return false;
	}
	h->inode = (uint64_t)st.st_ino;
	if (!a->entry && !export_take(a))
		return false;
	h->entry = a->entry - 1;
	return true;
}

static bool export_opened_by(const struct fc_export *e, uint32_t process)
{
	uint64_t bits = __atomic_load_n(&e->opened[process / 64], __ATOMIC_SEQ_CST);

	return bits >> process % 64 & 1 &&
	       (kill(share.own->pid[process], 0) == 0 || errno != ESRCH);
}

uint32_t fc_export_opens(const struct fc_alloc *a)
{
	uint32_t n = 0;

	for (uint32_t p = 0; a->entry && p < world_config()->share.processes; p++)
		n += export_opened_by(export_of(a), p);
	return n;
}

void fc_export_freed(const struct fc_alloc *a)
{
	__atomic_store_n(&export_of(a)->state, EXPORT_FREED, __ATOMIC_SEQ_CST);
}

void fc_export_end(struct fc_alloc *a)
{
	__atomic_store_n(&export_of(a)->state, EXPORT_NONE, __ATOMIC_SEQ_CST);
	a->entry = 0;
}

/* ---- the importer --------------------------------------------------------------------------- */

static void import_forget(struct share_peer *p)
{
	munmap(p->exports, FC_EXPORTS_BYTES);
	close(p->fd);
	*p = (struct share_peer){0};
}

/* Opens the file of the exporter's GPU memory. False: the exporter has ended. */
static bool import_peer_open(struct share_peer *p, const struct fc_ipc_handle *h)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof path, "/proc/%d/fd/%d", h->pid, h->fd);
	p->fd = open(path, O_RDWR | O_CLOEXEC);
	if (p->fd < 0)
		return false;
	if (!fstat(p->fd, &st) && (uint64_t)st.st_ino == h->inode)
		p->exports = exports_map(p->fd);
	if (!p->exports) {
		close(p->fd);
		return false;
	}
	p->inode = h->inode;
	return true;
}

static struct share_peer *import_peer(const struct fc_ipc_handle *h)
{
	struct share_peer *p = &share.peer[h->proc];

	if (p->exports && p->inode == h->inode)
		return p;
	if (p->exports)
		import_forget(p);
	return import_peer_open(p, h) ? p : NULL;
}

static void import_mark(struct fc_export *e, bool opened)
{
	uint32_t self = world_config()->share.process;
	uint64_t bit = 1ull << self % 64, *bits = &e->opened[self / 64];

	if (opened)
		__atomic_fetch_or(bits, bit, __ATOMIC_SEQ_CST);
	else
		__atomic_fetch_and(bits, ~bit, __ATOMIC_SEQ_CST);
}

/* Marks the allocation as open, and checks that it lives. */
static bool import_claim(struct share_peer *p, const struct fc_ipc_handle *h)
{
	struct fc_export *e = &p->exports->entry[h->entry];

	p->exports->pid[world_config()->share.process] = getpid();
	import_mark(e, true);
	if (__atomic_load_n(&e->state, __ATOMIC_SEQ_CST) == EXPORT_LIVE && e->base == h->base &&
	    e->number == h->number)
		return true;
	import_mark(e, false);
	return false;
}

static cudaError_t import_add(struct share_peer *p, const struct fc_ipc_handle *h, uint32_t number,
			      struct fc_alloc **a)
{
	struct fc_export *e = &p->exports->entry[h->entry];
	struct fc_alloc made = {.base = h->base,
				.bytes = h->bytes,
				.when_ns = os_now_ns(),
				.number = number,
				.proc = SHARE_FOREIGN | h->proc,
				.imported = 1,
				.numa = -1};

	memcpy(made.who, e->who, sizeof made.who);
	made.who[sizeof made.who - 1] = '\0';
	if (!fc_va_map_file(p->fd, h->base, h->bytes)) {
		import_mark(e, false);
		return cudaErrorMemoryAllocation;
	}
	*a = fc_alloc_import(&fc.device[h->device], &made);
	return cudaSuccess;
}

/* True if the handle's numbers can be those of another process of this job. */
static bool import_fits(const struct fc_ipc_handle *h)
{
	uint64_t first = FC_VA_BASE + h->proc * fc.share + h->device * fc.slice;

	return h->proc < world_config()->share.processes && h->entry < SHARE_EXPORTS &&
	       h->base >= first && h->base - first < fc.slice && h->bytes &&
	       h->bytes <= fc.slice - (h->base - first);
}

cudaError_t fc_import(const struct fc_ipc_handle *h, struct fc_alloc **a)
{
	if (!import_fits(h)) {
		fc_report("cudaIpcOpenMemHandle: the handle is of another job: process %u, %llu "
			  "bytes at 0x%llx",
			  h->proc, (unsigned long long)h->bytes, (unsigned long long)h->base);
		return cudaErrorInvalidValue;
	}
	uint32_t number = SHARE_FOREIGN | h->proc << 16 | h->entry;
	struct share_peer *p = import_peer(h);

	*a = fc_alloc_by_number(&fc.device[h->device], number);
	if (p && *a)
		return cudaSuccess;
	if (!p) {
		fc_report("cudaIpcOpenMemHandle: process %u (pid %d), which made the handle, has "
			  "ended",
			  h->proc, h->pid);
		return cudaErrorInvalidResourceHandle;
	}
	if (import_claim(p, h))
		return import_add(p, h, number, a);
	fc_report("cudaIpcOpenMemHandle: gpu %u #%u of process %u was freed since the handle was "
		  "made",
		  h->device, h->number, h->proc);
	return cudaErrorInvalidResourceHandle;
}

void fc_import_close(const struct fc_alloc *a)
{
	struct share_peer *p = &share.peer[a->proc & (SHARE_PROCESSES - 1)];

	if (p->exports)
		import_mark(&p->exports->entry[a->number & (SHARE_EXPORTS - 1)], false);
}

void fc_share_end(void)
{
	for (uint32_t i = 0; i < SHARE_PROCESSES; i++)
		if (share.peer[i].exports)
			import_forget(&share.peer[i]);
	if (share.own)
		munmap(share.own, FC_EXPORTS_BYTES);
	share.own = NULL;
}
