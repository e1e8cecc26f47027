/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GPU memory as a dma-buf: a descriptor that an HCA's driver takes (ibv_reg_dmabuf_mr). Here it is a
 * sealed memory file that names the range of the allocation that it stands for, so it may be
 * duplicated, passed on and closed as any other; its contents are checked against the allocations of
 * this moment when an HCA requests it.
 */
#include "backends/fakecuda/fakecuda.h"
#include "backends/peermem.h"

#include <cuda.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DMABUF_MAGIC 0x6675626d61646c70ull /* "plamdbuf" */
#define DMABUF_PAGE  4096u
#define DMABUF_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
/* CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE: how it is to be mapped; all the same here. */
#define DMABUF_FLAGS 1ull

struct dmabuf_text {
	uint64_t magic;
	uint64_t address, bytes;
	uint32_t device, number; /* of the allocation */
};

/* ---- descriptors that are open ---------------------------------------------------------------- */

/* One that was handed out. The program closes it without this module's knowledge: the number is its own
 * as long as the file is the same. */
struct fc_dmabuf {
	struct fc_dmabuf *next;
	int fd;
	dev_t device;
	ino_t inode;
	char who[FC_WHO_BYTES];
};

static bool dmabuf_is_open(const struct fc_dmabuf *d)
{
	struct stat s;

	return fstat(d->fd, &s) == 0 && s.st_dev == d->device && s.st_ino == d->inode;
}

/* Forgets those that were closed. */
static void dmabuf_prune(struct fc_proc *proc)
{
	struct fc_dmabuf **at = &proc->dmabufs;

	while (*at) {
		struct fc_dmabuf *d = *at;

		if (dmabuf_is_open(d)) {
			at = &d->next;
			continue;
		}
		*at = d->next;
		free(d);
	}
}

static bool dmabuf_note(struct fc_proc *proc, int fd)
{
	struct fc_dmabuf *d = malloc(sizeof *d);
	struct stat s;

	if (!d || fstat(fd, &s)) {
		free(d);
		return false;
	}
	dmabuf_prune(proc);
	*d = (struct fc_dmabuf){
		.next = proc->dmabufs, .fd = fd, .device = s.st_dev, .inode = s.st_ino};
	fc_who(d->who);
	proc->dmabufs = d;
	return true;
}

bool fc_dmabuf_take(struct fc_proc *proc, char *who, size_t bytes)
{
	struct fc_dmabuf *d;

	dmabuf_prune(proc);
	d = proc->dmabufs;
	if (!d)
		return false;
	snprintf(who, bytes, "%s", d->who);
	proc->dmabufs = d->next;
	close(d->fd);
	free(d);
	return true;
}

/* ---- handing out ---------------------------------------------------------------------------- */

static int dmabuf_make(const struct dmabuf_text *t)
{
	int fd = memfd_create("doppel-dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 && write(fd, t, sizeof *t) == (ssize_t)sizeof *t &&
	    fcntl(fd, F_ADD_SEALS, DMABUF_SEALS) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static CUresult dmabuf_of(struct fc_proc *proc, CUdeviceptr ptr, size_t bytes,
			  struct dmabuf_text *t)
{
	struct fc_device *dev = fc_device_at(ptr);
	struct fc_alloc *a = dev ? fc_access_alloc(proc, dev, ptr, bytes) : NULL;

	if (!a)
		return CUDA_ERROR_INVALID_VALUE;
	if (!dev->gpu->gdr || !fc_rdma_has("dmabuf"))
		return CUDA_ERROR_NOT_SUPPORTED;
	*t = (struct dmabuf_text){.magic = DMABUF_MAGIC,
				  .address = ptr,
				  .bytes = bytes,
				  .device = dev->index,
				  .number = a->number};
	return CUDA_SUCCESS;
}

static CUresult dmabuf_give(struct fc_proc *proc, const struct dmabuf_text *t, int *handle)
{
	int fd = dmabuf_make(t);
	bool noted;

	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	fc_lock();
	noted = dmabuf_note(proc, fd);
	fc_unlock();
	if (!noted) {
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
	struct dmabuf_text t;
	CUresult rc = (CUresult)fc_enter("cuMemGetHandleForAddressRange", &proc);

	if (!rc && (!handle || !size || dptr % DMABUF_PAGE || size % DMABUF_PAGE ||
		    handleType != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || (flags & ~DMABUF_FLAGS)))
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc) {
		fc_lock();
		rc = dmabuf_of(proc, dptr, size, &t);
		fc_unlock();
	}
	if (!rc)
		rc = dmabuf_give(proc, &t, handle);
	sim_events_drain();
	return rc;
}

/* ---- for an HCA ----------------------------------------------------------------------------- */

static int dmabuf_read(int fd, struct dmabuf_text *t)
{
	if (fcntl(fd, F_GETFD) < 0)
		return EBADF;
	if (fcntl(fd, F_GET_SEALS) != DMABUF_SEALS ||
	    pread(fd, t, sizeof *t, 0) != (ssize_t)sizeof *t || t->magic != DMABUF_MAGIC ||
	    t->device >= fc.device_count)
		return EINVAL;
	return 0;
}

int fc_dmabuf_pin(struct os_proc *proc, int fd, uint64_t offset, uint64_t bytes,
		  struct peermem_region *r)
{
	struct dmabuf_text t;
	int rc = dmabuf_read(fd, &t);

	if (!rc && (!bytes || offset > t.bytes || bytes > t.bytes - offset))
		rc = EINVAL;
	if (rc)
		return rc;
	fc_lock();
	struct fc_alloc *a = fc_alloc_by_number(&fc.device[t.device], t.number);

	if (!a || a->freed || fc.device[t.device].host != proc->host || t.address < a->base ||
	    t.address + t.bytes > a->base + a->bytes) {
		rc = EINVAL; /* of memory that is gone, or of another world */
	} else {
		a->pins++;
		*r = (struct peermem_region){.device = t.device,
					     .cookie = a->number,
					     .address = t.address + offset,
					     .bytes = bytes};
	}
	fc_unlock();
	return rc;
}
