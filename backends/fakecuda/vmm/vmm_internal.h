/* SPDX-License-Identifier: BSD-3-Clause */
/* cuMem: what vmm.c and vmm_access.c share. */
#ifndef BACKENDS_FAKECUDA_VMM_INTERNAL_H
#define BACKENDS_FAKECUDA_VMM_INTERNAL_H

#include "backends/fakecuda/fakecuda.h"

#pragma GCC visibility push(hidden)

CUresult vmm_enter(const char *call, struct fc_proc **proc); /* fc_enter with a CUresult */
/* True if address and size are whole pages. */
bool vmm_whole(uint64_t address, uint64_t bytes);
/* Under fc_lock. vmm_handle_get returns the process' handle of that value; NULL: reported. */
struct fc_vmm_handle *vmm_handle_get(const char *call, const struct fc_proc *proc, uint64_t value);
struct fc_vmm_handle *vmm_handle_new(struct fc_proc *proc, const struct fc_device *dev,
				     struct fc_alloc *a);
/* Checks that the process sees the GPU or NUMA node. */
CUresult vmm_check_location(const char *call, const struct fc_proc *proc, const CUmemLocation *at);
/* The process' first mapping of a range that is mapped as a whole; NULL: it is not. */
struct fc_vmm_map *vmm_maps_of(const struct fc_proc *proc, uint64_t address, uint64_t bytes);

#pragma GCC visibility pop

#endif
