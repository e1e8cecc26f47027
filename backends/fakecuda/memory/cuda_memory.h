/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the GPU double: addresses, allocations, cuMem, rights. fakecuda.h includes this file
 * last, because it uses the structs there. */
#ifndef BACKENDS_FAKECUDA_MEMORY_H
#define BACKENDS_FAKECUDA_MEMORY_H

/* ---- va.c, va_pages.c: addresses of device memory ------------------------------------------- */

#define FC_VA_CHUNK (64ull << 20) /* unit of a GPU's addresses */
/* Returns the bytes of addresses per GPU if the world does not set them: its memory, at most an
 * equal share. */
uint64_t fc_va_slice(uint32_t gpus, uint32_t processes, uint64_t memory_bytes);
/* Prepares the addresses of a world's GPUs. False: failed, with a message. */
bool fc_va_start(uint32_t gpus, uint64_t slice, bool strict);
bool fc_va_map(uint64_t address, uint64_t bytes);
/* Maps the range from a file, at the same addresses: another process' memory, which no other file
 * has. It remains until this process ends. */
bool fc_va_map_file(int fd, uint64_t address, uint64_t bytes);
int fc_va_file(void); /* descriptor of the memory of this process' GPUs */
/* The file ends with struct fc_exports. */
#define FC_EXPORTS_BYTES (256u << 10)
void fc_va_wipe(uint64_t address, uint64_t bytes); /* zeroes the range */
/* Lines of LL128 in the range were read, each by the only thread that reads it. If the GPUs have
 * much memory in use, whole pages of the lines are given back. They are zero then, and no line has
 * the flag zero. */
void fc_va_lines_read(uint64_t address, uint64_t bytes);
/* Lines of LL128 will be written there: records a write, as fc_va_wrote. */
void fc_va_lines_written(uint64_t address, uint64_t bytes);
/* An HCA has read the range for a send that is complete. In private memory, pages with only
 * lines are given back, as after fc_va_lines_read: the HCA is the only reader of such lines. */
void fc_va_lines_sent(uint64_t address, uint64_t bytes);
/* Zeroes the range, for cudaMemset, and narrows it to the pages that were written before, or to one
 * byte. The others are zero and stay untouched. The caller need not call fc_va_wrote. */
void fc_va_zero(uint64_t *address, uint64_t *bytes);
/* Copies. Pages of device memory that are zero before and after stay untouched: a suspended
 * communicator copies hundreds of MiB that it never wrote. The caller need not call
 * fc_va_wrote. */
void fc_va_move(uint64_t dst, uint64_t src, uint64_t bytes);
/* True if the memory is private: its mappings need no window before a range has several homes. */
bool fc_va_is_alone(uint64_t home);
/* Maps whole pages of cuMem in both views, until fc_va_unwindow. The program's view of host memory
 * is inaccessible until fc_va_open. */
bool fc_va_window(uint64_t at, uint64_t home, uint64_t bytes);
void fc_va_open(uint64_t at, uint64_t bytes, bool open);
void fc_va_unwindow(uint64_t at, uint64_t bytes);
extern const uint64_t fc_va_range[2]; /* first address, bytes; for gdb */
extern const uint64_t
	fc_vmm_range[3]; /* of cuMem: first address, bytes, bytes of a page; for gdb */
bool fc_va_is_device(uint64_t address);
const void *fc_va_resolve(const void *address);
const void *fc_va_home(const void *address);

/* ---- alloc.c -------------------------------------------------------------------------------- */

struct fc_device *fc_device_at(uint64_t address); /* NULL: not device memory */
/* Returns the GPU, or the host, that owns the memory at the address; NULL: not such memory. */
struct fc_device *fc_memory_at(uint64_t address);
/* "gpu" 3, "host" 0 */
static inline const char *fc_memory_kind(const struct fc_device *dev)
{
	return dev->gpu ? "gpu" : "host";
}
static inline uint32_t fc_memory_number(const struct fc_device *dev)
{
	return dev->gpu ? dev->index : dev->host;
}
cudaError_t fc_alloc_new(struct fc_ctx *ctx, uint64_t bytes, uint64_t *address);
/* Returns the allocation that contains the address, live or freed but still open elsewhere; NULL:
 * not allocated. */
struct fc_alloc *fc_alloc_find(struct fc_device *dev, uint64_t address);
struct fc_alloc *fc_alloc_by_number(struct fc_device *dev, uint32_t number);
void fc_alloc_free(struct fc_device *dev, struct fc_alloc *a);
void fc_alloc_release(struct fc_device *dev, struct fc_alloc *a); /* removes one IPC opening */
/* Adds memory of another process to the table of the GPU. */
struct fc_alloc *fc_alloc_import(struct fc_device *dev, const struct fc_alloc *a);
/* "64 bytes past the end of gpu 3 #12, 4194304 bytes from cudaMalloc by rank3 main (live)". */
void fc_alloc_describe_nearest(uint64_t address, char *out, size_t bytes);
void fc_alloc_describe(const struct fc_device *dev, const struct fc_alloc *a, char *out,
		       size_t bytes);

/* ---- ipc.c, ipc_share.c: IPC, within this process and between real processes ---------------- */

struct fc_ipc_handle {
	uint64_t magic;
	uint64_t base, bytes;
	uint32_t host, proc, device, number;
	/* between real processes: the file of the exporter's GPU memory, and the entry in it */
	uint64_t inode;
	int32_t pid, fd;
	uint32_t entry;
	uint8_t pad0[4];
};
DOPPEL_CHECK_SIZE(struct fc_ipc_handle, CUDA_IPC_HANDLE_SIZE);

/* True if real processes share the world. `proc` of a handle is then the process' number. */
bool fc_share_on(void);
/* Publishes the allocation, and fills in the last fields of its handle. False: no entry is left. */
bool fc_export(const char *call, const struct fc_device *dev, struct fc_alloc *a,
	       struct fc_ipc_handle *h);
/* Returns the number of living processes that have the exported allocation open. */
uint32_t fc_export_opens(const struct fc_alloc *a);
/* The owner freed the allocation: it cannot be opened any longer. */
void fc_export_freed(const struct fc_alloc *a);
/* Releases the entry. No process has it open. */
void fc_export_end(struct fc_alloc *a);
/* Opens another process' memory, once; reports an error. */
cudaError_t fc_import(const char *call, const struct fc_ipc_handle *h, struct fc_alloc **a);
void fc_import_close(const struct fc_alloc *a);
/* Returns the descriptor of the file that has this memory, of this process or of another one. */
int fc_share_file(uint64_t home);
/* Memory of cuMem as a descriptor, for other processes; and such a descriptor as memory. Both
 * report errors. */
CUresult fc_share_export(const char *call, const struct fc_device *dev, struct fc_alloc *a,
			 int *handle);
CUresult fc_share_import(const char *call, const struct fc_proc *proc, int fd,
			 struct fc_device **dev, struct fc_alloc **a);
/* True if another process has the exported memory open, or a descriptor of it exists anywhere. */
bool fc_share_holds(const struct fc_alloc *a);
void fc_share_end(void); /* of the world */

/* Allocates whole pages of cuMem on a GPU or a host. */
cudaError_t fc_alloc_new_vmm(const struct fc_proc *proc, struct fc_device *dev, uint64_t bytes,
			     struct fc_alloc **a);

/* ---- vmm_space.c, vmm.c: memory of cuMem
 * ------------------------------------------------------ */

/* vmm.c: a process' reference to cuMemCreate memory. It exists until the program released it and no
 * mapping uses it. */
struct fc_vmm_handle {
	struct fc_vmm_handle *next;
	uint64_t value;          /* the program's handle */
	uint32_t device, number; /* identify the allocation */
	uint32_t refs, maps;     /* references of the program; number of mappings */
	char who[FC_WHO_BYTES];
};

struct fc_vmm_map {
	struct fc_vmm_map *next; /* next by address in the reservation */
	uint64_t base, bytes, home;
	struct fc_vmm_handle *handle;
	bool access[FC_MAX_VISIBLE]; /* indexed by visible ordinal */
	bool host_access;            /* for host memory only */
	bool shown;                  /* it has a view of its own (fc_va_window) */
	struct fc_clock used;        /* operations whose kernels, of this process, accessed it */
};

/* A reservation of cuMemAddressReserve. */
struct fc_vmm_space {
	struct fc_vmm_space *prev, *next;
	struct fc_proc *proc;
	uint64_t base, bytes;
	struct fc_vmm_map *maps;
	char who[FC_WHO_BYTES];
};

/* Reserves addresses. Returns false if there is no room. *base is the program's wish, used if
 * possible; 0: anywhere. */
bool fc_vmm_reserve(struct fc_proc *proc, uint64_t bytes, uint64_t align, uint64_t *base);
struct fc_vmm_space *fc_vmm_space_at(uint64_t address);           /* in any process */
struct fc_vmm_space *fc_vmm_space_of(const struct fc_proc *proc); /* the process' first one */
void fc_vmm_space_free(struct fc_vmm_space *space);
bool fc_vmm_map_add(struct fc_vmm_space *space, uint64_t base, uint64_t bytes, uint64_t home,
		    struct fc_vmm_handle *h);
void fc_vmm_map_remove(struct fc_vmm_space *space, struct fc_vmm_map *m);
struct fc_vmm_map *fc_vmm_map_at(const struct fc_proc *proc, uint64_t address);
/* True if [address, address + bytes) is mapped without a gap from mapping `m` on, with access for
 * visible device `ordinal`. FC_VMM_BY_HOST checks the host's access, FC_VMM_MAPPED checks no
 * access. */
enum { FC_VMM_MAPPED = -1, FC_VMM_BY_HOST = -2 };
bool fc_vmm_map_covers(const struct fc_vmm_map *m, uint64_t address, uint64_t bytes, int ordinal);
struct fc_alloc *fc_vmm_alloc(const struct fc_vmm_handle *h);
/* Returns the allocation that the process has mapped there; NULL: not completely mapped. */
struct fc_alloc *fc_vmm_access(const struct fc_proc *proc, uint64_t address, uint64_t bytes);
/* True if the range is mapped and is host memory. */
bool fc_vmm_is_host(const struct fc_proc *proc, uint64_t address, uint64_t bytes);
struct fc_range;
bool fc_vmm_may_kernel(const struct fc_ctx *ctx, uint64_t address, uint64_t bytes,
		       struct fc_range *range);
bool fc_vmm_may_copy(const struct fc_proc *proc, uint64_t address, uint64_t bytes);
void fc_vmm_describe(uint64_t address, char *out, size_t n);
/* Describes why kernels of that device, or copies (FC_VMM_MAPPED), may not use the range. */
void fc_vmm_explain(const struct fc_proc *proc, int ordinal, uint64_t address, uint64_t bytes,
		    char *out, size_t n);
void fc_vmm_proc_gone(struct fc_proc *proc); /* frees everything of cuMem that it has */
void fc_vmm_sweep(void);                     /* frees memory whose last descriptor was closed */

/* ---- access.c: rights of processes and kernels ---------------------------------------------- */

enum fc_range_kind { FC_RANGE_LOCAL, FC_RANGE_PEER, FC_RANGE_HOST };
struct fc_range {
	uint64_t lo, hi;
	uint64_t generation;
	enum fc_range_kind kind;
};
/* True if kernels of this context may access [address, address + bytes). The caller holds
 * fc_lock. */
bool fc_access_kernel(struct fc_ctx *ctx, uint64_t address, uint64_t bytes, struct fc_range *range);
/* Describes why they may not. */
void fc_access_explain(struct fc_ctx *ctx, uint64_t address, uint64_t bytes, char *out,
		       size_t out_bytes);
/* Checks that the process may copy to or from the range; reports an error. *dev: the GPU, or NULL
 * for host memory. */
cudaError_t fc_access_copy(struct fc_proc *proc, const char *call, const char *which,
			   uint64_t address, uint64_t bytes, struct fc_device **dev);
/* Returns the allocation if the process owns it or has opened it; NULL otherwise. */
struct fc_alloc *fc_access_alloc(struct fc_proc *proc, struct fc_device *dev, uint64_t address,
				 uint64_t bytes);
struct fc_host_range *fc_host_find(struct fc_proc *proc, uint64_t address, uint64_t bytes);
/* True if GPUs access the host memory directly: pinned, or of cuMem. */
bool fc_host_is_pinned(struct fc_proc *proc, uint64_t address, uint64_t bytes);
/* False: a part is pinned already. The device of `ctx` becomes that of the range. */
bool fc_host_add(const struct fc_ctx *ctx, uint64_t base, uint64_t bytes, unsigned int flags,
		 bool registered);
void fc_host_remove(struct fc_proc *proc, struct fc_host_range *range);
/* Allocates zeroed memory, as fresh; NULL: no room. */
void *fc_host_new(uint64_t bytes);
/* frees memory of cudaHostAlloc; bytes as requested */
void fc_host_delete(void *mem, uint64_t bytes);
/* managed.c. True if managed memory begins there, which fc_managed_free frees; it waits. */
bool fc_managed_is(struct fc_proc *proc, uint64_t address);
cudaError_t fc_managed_free(struct fc_ctx *ctx, uint64_t address, const struct fc_at *at);
/* The process unmaps a shared segment: misuse if it still has the segment registered. */
void fc_host_unmapped(struct os_proc *os, const void *mem, size_t bytes);

#endif
