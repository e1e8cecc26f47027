/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GPU memory as a descriptor: a dma-buf for an HCA's driver (ibv_reg_dmabuf_mr), or memory of cuMem
 * for another process (cuMemImportFromShareableHandle). The descriptor is an empty memory file, so
 * the program may duplicate, pass on and close it like any other. The file's sealed size encodes
 * its index in the table of exported ranges. When an HCA requests a range, the range is checked
 * against the allocations of that moment.
 *
 * The files of the first ranges stay open for the next world, because creating a file costs five
 * times as much as duplicating one. Descriptors that a process leaves open are closed when it ends
 * (fc_dmabuf_close_newest). A duplicate that the program made and that outlives its world would
 * name the range with the same index in the next world.
 */
#include "backends/fakecuda/fakecuda.h"
#include "backends/peermem.h"

#include <cuda.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DMABUF_PAGE 4096u
#define DMABUF_SIZE                                                                                \
	(0x646dull << 32) /* size of the file of range 0; each further range adds a byte */
#define DMABUF_PROCESS 24 /* shift of the real process' number in the size */
#define DMABUF_SEALS   (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)
/* CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE selects a mapping; the double has one kind of
 * mapping. */
#define DMABUF_FLAGS 1ull

/* Returns the size of the file of range `number` of this real process. */
static uint64_t dmabuf_size(uint64_t number)
{
	return DMABUF_SIZE + ((uint64_t)world_config()->share.process << DMABUF_PROCESS) + number;
}

/* ---- ranges --------------------------------------------------------------------------------- */

struct dmabuf_range {
	uint64_t address, bytes;
	uint32_t device, number; /* identify the allocation */
	bool memory;             /* for cuMem: all of the allocation */
	bool open, closed;       /* a descriptor was found by the last search; none will be */
};

#define DMABUF_FILES 512
/* Only files with smaller descriptors stay open. */
#define DMABUF_FILE_FDS 4096

/* The ranges exported in this world, and the files of the first ranges, which all worlds share. */
static struct {
	struct dmabuf_range *range;
	uint64_t count, room;
	int file[DMABUF_FILES];                 /* descriptor + 1; 0: not created yet */
	uint64_t is_file[DMABUF_FILE_FDS / 64]; /* bits by descriptor: it is one of file[] */
	/* [fds]: the last export with this descriptor; NULL: no export, or it was closed. */
	struct fc_dmabuf **by_fd;
	int fds;
} dmabuf;

static bool dmabuf_range_add(const struct dmabuf_range *range, uint64_t *number)
{
	if (dmabuf.count == dmabuf.room) {
		uint64_t room = dmabuf.room ? 2 * dmabuf.room : 64;
		struct dmabuf_range *more = realloc(dmabuf.range, room * sizeof *more);

		if (!more)
			return false;
		dmabuf.range = more;
		dmabuf.room = room;
	}
	*number = dmabuf.count;
	dmabuf.range[dmabuf.count++] = *range;
	return true;
}

void fc_dmabufs_end(void)
{
	free(dmabuf.range);
	dmabuf.range = NULL;
	dmabuf.count = dmabuf.room = 0;
	free(dmabuf.by_fd);
	dmabuf.by_fd = NULL;
	dmabuf.fds = 0;
}

/* ---- open descriptors ----------------------------------------------------------------------- */

/* A descriptor exported to the program, which closes it without notice. The entry is valid
 * while the file's size encodes its number. An export with the same descriptor replaces it. */
struct fc_dmabuf {
	struct fc_dmabuf *next, **link; /* of the process' list; link: points to this entry */
	struct fc_proc *proc;
	int fd;
	uint64_t number;
	char who[FC_WHO_BYTES];
};

static bool dmabuf_is_open(const struct fc_dmabuf *d)
{
	struct stat s;

	return fstat(d->fd, &s) == 0 && (uint64_t)s.st_size == dmabuf_size(d->number);
}

static struct fc_dmabuf *dmabuf_find(int fd)
{
	return fd >= 0 && fd < dmabuf.fds ? dmabuf.by_fd[fd] : NULL;
}

static void dmabuf_link(struct fc_proc *proc, struct fc_dmabuf *d)
{
	d->proc = proc;
	d->next = proc->dmabufs;
	d->link = &proc->dmabufs;
	if (d->next)
		d->next->link = &d->next;
	proc->dmabufs = d;
}

static void dmabuf_unlink(struct fc_dmabuf *d)
{
	*d->link = d->next;
	if (d->next)
		d->next->link = d->link;
}

static void dmabuf_drop(struct fc_dmabuf *d)
{
	ASSERT(dmabuf.by_fd[d->fd] == d);
	dmabuf.by_fd[d->fd] = NULL;
	dmabuf_unlink(d);
	free(d);
}

/* Makes room for a descriptor in the table. */
static bool dmabuf_fds_grow(int fd)
{
	int fds = MAX_OF(dmabuf.fds, 64);

	while (fds <= fd)
		fds *= 2;
	struct fc_dmabuf **more = realloc(dmabuf.by_fd, (size_t)fds * sizeof *more);

	if (!more)
		return false;
	memset(more + dmabuf.fds, 0, (size_t)(fds - dmabuf.fds) * sizeof *more);
	dmabuf.by_fd = more;
	dmabuf.fds = fds;
	return true;
}

static bool dmabuf_note(struct fc_proc *proc, int fd, uint64_t number)
{
	if (fd >= dmabuf.fds && !dmabuf_fds_grow(fd))
		return false;
	struct fc_dmabuf *d = dmabuf.by_fd[fd];

	if (d)
		dmabuf_unlink(d);
	else
		d = malloc(sizeof *d);
	if (!d)
		return false;
	d->fd = fd;
	d->number = number;
	fc_who(d->who);
	dmabuf_link(proc, d);
	dmabuf.by_fd[fd] = d;
	return true;
}

bool fc_dmabuf_close_newest(struct fc_proc *proc, char *who, size_t bytes)
{
	struct fc_dmabuf *d;

	while ((d = proc->dmabufs) && !dmabuf_is_open(d))
		dmabuf_drop(d);
	if (!d)
		return false;
	snprintf(who, bytes, "%s", d->who);
	close(d->fd);
	dmabuf_drop(d);
	return true;
}

/* ---- export --------------------------------------------------------------------------------- */

static int dmabuf_make(uint64_t number)
{
	int fd = memfd_create("doppel-dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 && ftruncate(fd, (off_t)dmabuf_size(number)) == 0 &&
	    fcntl(fd, F_ADD_SEALS, DMABUF_SEALS) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Returns a new descriptor of the range's file, or -1. */
static int dmabuf_open(uint64_t number)
{
	int *file = &dmabuf.file[number % DMABUF_FILES];

	if (number >= DMABUF_FILES || !*file) {
		int fd = dmabuf_make(number);

		if (number >= DMABUF_FILES || fd < 0 || fd >= DMABUF_FILE_FDS)
			return fd;
		*file = fd + 1;
		dmabuf.is_file[fd / 64] |= 1ull << fd % 64;
	}
	return fcntl(*file - 1, F_DUPFD_CLOEXEC, 0);
}

static CUresult dmabuf_of(struct fc_proc *proc, CUdeviceptr ptr, size_t bytes,
			  struct dmabuf_range *range)
{
	struct fc_device *dev = fc_device_at(ptr);
	struct fc_alloc *a = dev ? fc_access_alloc(proc, dev, ptr, bytes) : NULL;

	if (!a)
		return CUDA_ERROR_INVALID_VALUE;
	if (!dev->gpu->gdr || (a->vmm && !a->rdma) || a->pooled || !fc_rdma_has("dmabuf"))
		return CUDA_ERROR_NOT_SUPPORTED;
	uint64_t home;

	if (fc_vmm_piece(ptr, bytes, &home) < bytes || home + bytes > a->base + a->bytes) {
		fc_report("cuMemGetHandleForAddressRange: %zu bytes at 0x%llx span several "
			  "allocations",
			  bytes, ptr);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	*range = (struct dmabuf_range){
		.address = home, .bytes = bytes, .device = dev->index, .number = a->number};
	return CUDA_SUCCESS;
}

static CUresult dmabuf_export_range(struct fc_proc *proc, const struct dmabuf_range *range,
				    int *handle)
{
	uint64_t number;

	if (!dmabuf_range_add(range, &number))
		return CUDA_ERROR_OUT_OF_MEMORY;
	int fd = dmabuf_open(number);

	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (!dmabuf_note(proc, fd, number)) {
		close(fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*handle = fd;
	return CUDA_SUCCESS;
}

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
				       CUmemRangeHandleType handleType, unsigned long long flags)
{
	struct fc_proc *proc;
	struct dmabuf_range range;
	CUresult rc = (CUresult)fc_enter("cuMemGetHandleForAddressRange", &proc);

	if (!rc && (!handle || !size || dptr % DMABUF_PAGE || size % DMABUF_PAGE ||
		    handleType != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || (flags & ~DMABUF_FLAGS)))
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc) {
		fc_lock();
		rc = dmabuf_of(proc, dptr, size, &range);
		if (!rc)
			rc = dmabuf_export_range(proc, &range, handle);
		fc_unlock();
	}
	sim_events_drain();
	return rc;
}

/* ---- import by an HCA ----------------------------------------------------------------------- */

/* Reads the range of a descriptor. EBADF: it is not open; EINVAL: it is another file. Another
 * thread may close it meanwhile, which is no race: ThreadSanitizer does not look at system calls
 * that are made directly. */
static int dmabuf_read(int fd, const struct dmabuf_range **range)
{
	long seals = syscall(SYS_fcntl, fd, F_GET_SEALS), size;

	if (seals != DMABUF_SEALS)
		return seals < 0 && errno == EBADF ? EBADF : EINVAL;
	size = syscall(SYS_lseek, fd, 0, SEEK_END);
	uint64_t i = (uint64_t)size - dmabuf_size(0);

	if (size < 0 || i >= dmabuf.count)
		return EINVAL;
	*range = &dmabuf.range[i];
	return 0;
}

/* ---- import by another process -------------------------------------------------------------- */

CUresult fc_dmabuf_export(struct fc_proc *proc, struct fc_device *dev, struct fc_alloc *a, int *fd)
{
	const struct dmabuf_range range = {.address = a->base,
					   .bytes = a->bytes,
					   .device = dev->index,
					   .number = a->number,
					   .memory = true};
	CUresult rc = dmabuf_export_range(proc, &range, fd);

	if (!rc)
		a->exports++;
	return rc;
}

/* Returns the process, other than `proc`, that holds this descriptor; NULL if no other holds it. */
static const struct fc_proc *dmabuf_stranger(const struct fc_proc *proc, int fd)
{
	const struct fc_dmabuf *d = dmabuf_find(fd);

	return d && d->proc != proc && dmabuf_is_open(d) ? d->proc : NULL;
}

CUresult fc_dmabuf_import(struct fc_proc *proc, int fd, struct fc_device **dev, struct fc_alloc **a)
{
	const char *call = "cuMemImportFromShareableHandle";
	const struct dmabuf_range *range;
	const struct fc_proc *owner = dmabuf_stranger(proc, fd);

	if (owner) {
		fc_report("%s: descriptor %d belongs to process %s", call, fd, owner->os->name);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (dmabuf_read(fd, &range) || !range->memory) {
		fc_report("%s: descriptor %d is not memory of cuMem", call, fd);
		return CUDA_ERROR_INVALID_VALUE;
	}
	*dev = &fc.device[range->device];
	*a = fc_alloc_by_number(*dev, range->number);
	if (!*a || (*dev)->host != proc->os->host) {
		fc_report("%s: the memory of descriptor %d %s", call, fd,
			  *a ? "is of another host" : "is gone");
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (range->closed) { /* it was in a message between real processes */
		dmabuf.range[range - dmabuf.range].closed = false;
		(*a)->exports++;
	}
	return CUDA_SUCCESS;
}

/* True if it is a file that stays open for all worlds. */
static bool dmabuf_is_file(int fd)
{
	uint32_t bit = (uint32_t)fd % 64;

	return fd < DMABUF_FILE_FDS && dmabuf.is_file[fd / 64] >> bit & 1;
}

/* Marks the ranges that open descriptors of the real process have, which all simulated processes
 * share: a descriptor in transit between two of them is in neither's list. */
static bool dmabuf_mark_open(void)
{
	DIR *all = opendir("/proc/self/fd");

	if (!all)
		return false;
	for (struct dirent *e; (e = readdir(all));) {
		const struct dmabuf_range *range;
		int fd = atoi(e->d_name);

		if (e->d_name[0] != '.' && !dmabuf_is_file(fd) && !dmabuf_read(fd, &range))
			dmabuf.range[range - dmabuf.range].open = true;
	}
	closedir(all);
	return true;
}

/* Finds the exports of memory whose descriptors were closed, duplicates included. They cannot be
 * opened again, so a search settles them for good, and most worlds need one search. */
static void dmabuf_find_closed(void)
{
	for (uint64_t i = 0; i < dmabuf.count; i++)
		dmabuf.range[i].open = false;
	if (!dmabuf_mark_open())
		return;
	for (uint64_t i = 0; i < dmabuf.count; i++) {
		struct dmabuf_range *r = &dmabuf.range[i];
		struct fc_alloc *a;

		if (!r->memory || r->open || r->closed)
			continue;
		r->closed = true;
		a = fc_alloc_by_number(&fc.device[r->device], r->number);
		if (a)
			a->exports--;
	}
}

bool fc_dmabuf_holds(const struct fc_alloc *a)
{
	if (a->exports)
		dmabuf_find_closed();
	return a->exports;
}

/* Pins `bytes` from `offset` of the range. */
static int dmabuf_pin(const struct os_proc *proc, const struct dmabuf_range *from, uint64_t offset,
		      uint64_t bytes, struct peermem_region *r)
{
	struct fc_alloc *a = fc_alloc_by_number(&fc.device[from->device], from->number);

	if (from->memory || !bytes || offset > from->bytes || bytes > from->bytes - offset)
		return EINVAL;
	if (!a || a->freed || fc.device[from->device].host != proc->host ||
	    from->address < a->base || from->address + from->bytes > a->base + a->bytes)
		return EINVAL; /* the memory was freed */
	a->pins++;
	*r = (struct peermem_region){.device = from->device,
				     .cookie = a->number,
				     .address = from->address + offset,
				     .home = from->address + offset,
				     .bytes = bytes};
	return 0;
}

int fc_dmabuf_pin(struct os_proc *proc, int fd, uint64_t offset, uint64_t bytes,
		  struct peermem_region *r)
{
	const struct dmabuf_range *range;

	fc_lock();
	int rc = dmabuf_read(fd, &range);

	if (!rc)
		rc = dmabuf_pin(proc, range, offset, bytes, r);
	fc_unlock();
	return rc;
}
