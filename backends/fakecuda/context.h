/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, contexts, and what a task has of them. fakecuda.h includes this file last, because it
 * uses the structs there. */
#ifndef BACKENDS_FAKECUDA_CONTEXT_H
#define BACKENDS_FAKECUDA_CONTEXT_H

/* ---- fakecuda.c ------------------------------------------------------------------------------ */

/* Creates it if missing; the slot of a primary context is the device's visible ordinal. */
struct fc_ctx *fc_ctx_get(struct fc_proc *proc, int32_t slot);
struct fc_ctx *fc_ctx_of_device(struct fc_proc *proc, const struct fc_device *dev);
int32_t fc_current(void); /* slot of the task's current context, or of the last one */
static inline int32_t fc_current_device(const struct fc_proc *proc)
{
	return fc_current() < proc->slots ? proc->primary[fc_current()].device : fc_current();
}
void fc_ctx_reset(struct fc_ctx *ctx); /* frees everything that the process has on that GPU */
void fc_map_changed(void);
uint64_t fc_map_generation(void);
struct fc_proc *fc_proc_get(void); /* the caller's process; NULL without a world with a GPU */

/* ---- device_calls.c, device_attribute.c ------------------------------------------------------ */

struct fc_pci {
	unsigned int domain, bus, device, function;
};
bool fc_device_pci_parse(const char *text, struct fc_pci *pci);
const char *fc_device_name(const struct fc_device *dev);
void fc_device_uuid(const struct fc_device *dev, CUuuid *uuid);
/* `attr` is one of CUDA 13.0. */
int fc_device_attribute(const struct fc_device *dev, CUdevice_attribute attr);
/* True if peer access is possible. */
bool fc_device_peers(const struct fc_device *a, const struct fc_device *b);

/* ---- context.c, context_stack.c: contexts of the driver -------------------------------------- */

#define FC_NO_CONTEXT (-1)
/* Returns the slot of a handle; FC_NO_CONTEXT: not a context of this process. */
int32_t fc_context_slot(const struct fc_proc *proc, CUcontext ctx);
/* Returns the visible ordinal of its device; -1: the same. */
int32_t fc_context_ordinal(const struct fc_proc *proc, CUcontext ctx);
/* Enters a call that takes a context. Sets *slot on success; FC_NO_CONTEXT for NULL. */
CUresult fc_context_arg(const char *call, CUcontext ctx, struct fc_proc **proc, int32_t *slot);
CUcontext fc_context_handle(struct fc_proc *proc, int32_t slot);
/* The task's current context: its slot, or FC_NO_CONTEXT. */
int32_t fc_context_current(void);
void fc_context_set(int32_t slot);
/* Checks flags of a context; reports an error. */
CUresult fc_context_flags(const char *call, unsigned int flags);
/* Waits for the context's work and frees all that it has. After a sticky error the wait fails, and
 * only the end of the process helps; an H200 behaves the same. */
void fc_context_destroy(struct fc_proc *proc, int32_t slot, const char *call);
/* Returns the handle of the device's primary context; NULL: no such device. */
CUcontext fc_context_of(int32_t ordinal);
/* Checks for a call that the task has a current context, or makes one current. Reports a context
 * that is missing. The caller holds fc_lock. */
cudaError_t fc_context_enter(const char *call, struct fc_proc *proc);
void fc_contexts_end(struct fc_proc *proc); /* frees the stacks of its tasks */

/* ---- errors.c ------------------------------------------------------------------------------- */

/* Makes the device's primary context current. */
void fc_task_set_device(int32_t device);
/* False: the task has no current context. fc_task_device is then the runtime's device. */
bool fc_task_has_context(void);
void fc_task_drop_context(void);
/* Sets the capture mode of the calling thread; returns the previous one. */
enum cudaStreamCaptureMode fc_task_mode(void);
enum cudaStreamCaptureMode fc_task_exchange_mode(enum cudaStreamCaptureMode mode);
int32_t fc_task_device(void);
void fc_task_set_error(cudaError_t error);
cudaError_t fc_task_error(void);

#endif
