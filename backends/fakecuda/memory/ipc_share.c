/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IPC between real processes that share a world (struct world_share). Each process has a range of
 * addresses on every GPU, and of host memory of cuMem, in a file of its own. A process that opens
 * memory of another one maps that file at the same addresses. The exporter's pages therefore live
 * until the last process that maps them has ended.
 *
 * A descriptor of memory of cuMem is the exporter's file, opened once more. Its position is that of
 * the entry in the table. A lock on the entry's first byte belongs to the open file, so it exists
 * until the last duplicate is closed, in any process or message.
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
#define SHARE_MAGIC     0x646f7070u
#define SHARE_FILE      (FC_VA_LIMIT + FC_EXPORTS_BYTES) /* size of a file */

enum export_state { EXPORT_NONE, EXPORT_LIVE, EXPORT_FREED };

struct fc_export {
	uint64_t base, bytes;
	uint64_t opened[SHARE_PROCESSES / 64]; /* bit per process */
	uint32_t number, state, device;
	uint32_t handle_types; /* cuMem only, as the fields below */
	int32_t numa;
	uint8_t vmm, rdma, pad0[2];
	char who[FC_WHO_BYTES];
};

struct fc_exports {
	uint32_t magic, process;
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

static struct fc_export *export_take(const char *call, const struct fc_device *dev,
				     struct fc_alloc *a)
{
	for (uint32_t i = 0; i < SHARE_EXPORTS; i++) {
		struct fc_export *e = &share.own->entry[i];

		if (e->state != EXPORT_NONE)
			continue;
		memset(e, 0, sizeof *e);
		e->base = a->base;
		e->bytes = a->bytes;
		e->number = a->number;
		e->device = dev->index;
		e->handle_types = a->handle_types;
		e->numa = a->numa;
		e->vmm = a->vmm;
		e->rdma = a->rdma;
		snprintf(e->who, sizeof e->who, "%s", a->who);
		__atomic_store_n(&e->state, EXPORT_LIVE, __ATOMIC_SEQ_CST);
		a->entry = i + 1;
		return e;
	}
	fc_report("%s: %u allocations have handles already", call, SHARE_EXPORTS);
	return NULL;
}

static bool export_map_own(const char *call)
{
	if (share.own)
		return true;
	share.own = exports_map(fc_va_file());
	if (!share.own) {
		fc_report("%s: the table of handles cannot be mapped: %s", call, strerror(errno));
		return false;
	}
	share.own->process = world_config()->share.process;
	share.own->magic = SHARE_MAGIC;
	return true;
}

bool fc_export(const char *call, const struct fc_device *dev, struct fc_alloc *a,
	       struct fc_ipc_handle *h)
{
	struct stat st;

	h->fd = fc_va_file();
	h->pid = getpid();
	if (!export_map_own(call))
		return false;
	if (fstat(h->fd, &st)) {
		fc_report("%s: the file of GPU memory: %s", call, strerror(errno));
		return false;
	}
	h->inode = (uint64_t)st.st_ino;
	if (!a->entry && !export_take(call, dev, a))
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

/* Opens a process' file once more. */
static int share_open(int32_t pid, int fd)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* Opens the file of the exporter's GPU memory. False: the exporter has ended. */
static bool import_peer_open(struct share_peer *p, const struct fc_ipc_handle *h)
{
	struct stat st;

	p->fd = share_open(h->pid, h->fd);
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
				.vmm = e->vmm,
				.rdma = e->rdma,
				.handle_types = e->handle_types,
				.numa = e->vmm ? e->numa : -1};

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
	const struct fc_device *dev = &fc.device[h->device];
	int64_t ahead = (int64_t)h->proc - world_config()->share.process;
	uint64_t first = dev->base + (uint64_t)ahead * (dev->gpu ? fc.share : fc.host_share);

	return h->proc < world_config()->share.processes && h->entry < SHARE_EXPORTS &&
	       h->base >= first && h->base - first < dev->bytes && h->bytes &&
	       h->bytes <= dev->bytes - (h->base - first);
}

cudaError_t fc_import(const char *call, const struct fc_ipc_handle *h, struct fc_alloc **a)
{
	if (!import_fits(h)) {
		fc_report("%s: the handle is of another job: process %u, %llu bytes at 0x%llx",
			  call, h->proc, (unsigned long long)h->bytes, (unsigned long long)h->base);
		return cudaErrorInvalidValue;
	}
	uint32_t number = SHARE_FOREIGN | h->proc << 16 | h->entry;
	struct share_peer *p = import_peer(h);

	*a = fc_alloc_by_number(&fc.device[h->device], number);
	if (p && *a)
		return cudaSuccess;
	if (!p) {
		fc_report("%s: process %u (pid %d), which made the handle, has ended", call,
			  h->proc, h->pid);
		return cudaErrorInvalidResourceHandle;
	}
	if (import_claim(p, h))
		return import_add(p, h, number, a);
	fc_report("%s: gpu %u #%u of process %u was freed since the handle was made", call,
		  h->device, h->number, h->proc);
	return cudaErrorInvalidResourceHandle;
}

void fc_import_close(const struct fc_alloc *a)
{
	struct share_peer *p = &share.peer[a->proc & (SHARE_PROCESSES - 1)];

	if (p->exports)
		import_mark(&p->exports->entry[a->number & (SHARE_EXPORTS - 1)], false);
}

/* ---- descriptors of cuMem ------------------------------------------------------------------- */

static uint64_t share_place(uint32_t entry)
{
	return FC_VA_LIMIT + offsetof(struct fc_exports, entry) + entry * sizeof(struct fc_export);
}

static struct flock share_lock(uint32_t entry, short type)
{
	return (struct flock){.l_type = type,
			      .l_whence = SEEK_SET,
			      .l_start = (off_t)share_place(entry),
			      .l_len = 1};
}

int fc_share_file(uint64_t home)
{
	uint64_t process = home >= FC_HOST_BASE ? (home - FC_HOST_BASE) / fc.host_share
						: (home - FC_VA_BASE) / fc.share;

	return process == world_config()->share.process ? fc_va_file() : share.peer[process].fd;
}

CUresult fc_share_export(const char *call, const struct fc_device *dev, struct fc_alloc *a,
			 int *handle)
{
	struct fc_ipc_handle h = {.entry = a->number & (SHARE_EXPORTS - 1)};

	if (!a->imported && !fc_export(call, dev, a, &h))
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct flock lock = share_lock(h.entry, F_RDLCK);
	int fd = share_open(getpid(), fc_share_file(a->base));

	if (fd >= 0 && lseek(fd, (off_t)share_place(h.entry), SEEK_SET) >= 0 &&
	    fcntl(fd, F_OFD_SETLK, &lock) == 0) {
		*handle = fd;
		return CUDA_SUCCESS;
	}
	fc_report("%s: no descriptor: %s", call, strerror(errno));
	if (fd >= 0)
		close(fd);
	return CUDA_ERROR_OPERATING_SYSTEM;
}

bool fc_share_holds(const struct fc_alloc *a)
{
	struct flock lock = share_lock(a->entry - 1, F_WRLCK);

	return a->entry && (fc_export_opens(a) || fcntl(fc_va_file(), F_OFD_GETLK, &lock) ||
			    lock.l_type != F_UNLCK);
}

/* Opens the file of a descriptor once more, and maps its table: a mapping by the descriptor itself
 * would keep its lock. False: not a file of GPU memory. */
static bool share_peer_of(int fd, struct share_peer *p)
{
	struct stat st;

	*p = (struct share_peer){.fd = -1};
	if (fstat(fd, &st) || (uint64_t)st.st_size != SHARE_FILE)
		return false;
	p->inode = (uint64_t)st.st_ino;
	p->fd = share_open(getpid(), fd);
	p->exports = p->fd < 0 ? NULL : exports_map(p->fd);
	if (p->exports && p->exports->magic == SHARE_MAGIC &&
	    p->exports->process < world_config()->share.processes)
		return true;
	if (p->exports)
		import_forget(p);
	else if (p->fd >= 0)
		close(p->fd);
	return false;
}

/* Keeps the file of another process, unless it is known. */
static void share_keep(struct share_peer *p)
{
	struct share_peer *known = &share.peer[p->exports->process];

	if (p->exports->process == world_config()->share.process ||
	    (known->exports && known->inode == p->inode)) {
		import_forget(p);
		return;
	}
	if (known->exports)
		import_forget(known);
	*known = *p;
}

/* Reads the handle that a position of a file stands for. EINVAL: none. */
static int share_read(const struct share_peer *p, uint64_t at, struct fc_ipc_handle *h)
{
	uint64_t entry = (at - share_place(0)) / sizeof(struct fc_export);

	if (at < share_place(0) || entry >= SHARE_EXPORTS || at != share_place((uint32_t)entry))
		return EINVAL;
	const struct fc_export e = p->exports->entry[entry];

	*h = (struct fc_ipc_handle){.base = e.base,
				    .bytes = e.bytes,
				    .proc = p->exports->process,
				    .device = e.device,
				    .number = e.number,
				    .inode = p->inode,
				    .entry = (uint32_t)entry};
	return e.vmm && e.device < fc.memory_count ? 0 : EINVAL;
}

/* Returns the handle that a descriptor stands for. EINVAL: it is not memory of cuMem. */
static int share_handle(int fd, struct fc_ipc_handle *h)
{
	struct share_peer p;

	if (!share_peer_of(fd, &p))
		return EINVAL;
	int rc = share_read(&p, (uint64_t)lseek(fd, 0, SEEK_CUR), h);

	if (rc)
		import_forget(&p);
	else
		share_keep(&p);
	return rc;
}

CUresult fc_share_import(const char *call, const struct fc_proc *proc, int fd,
			 struct fc_device **dev, struct fc_alloc **a)
{
	struct fc_ipc_handle h;

	if (share_handle(fd, &h)) {
		fc_report("%s: descriptor %d is not memory of cuMem", call, fd);
		return CUDA_ERROR_INVALID_VALUE;
	}
	*dev = &fc.device[h.device];
	if ((*dev)->host != proc->os->host) {
		fc_report("%s: the memory of descriptor %d is of another host", call, fd);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (h.proc != world_config()->share.process)
		return (CUresult)fc_import(call, &h, a);
	*a = fc_alloc_by_number(*dev, h.number);
	if (*a)
		return CUDA_SUCCESS;
	fc_report("%s: the memory of descriptor %d is gone", call, fd);
	return CUDA_ERROR_INVALID_VALUE;
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
