/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles of verbs objects, as the program holds them. A handle has a head after its public struct;
 * the head names the handle's kind while it is alive. Its memory is never freed. When the object is
 * destroyed, the head is wiped and the rest is made useless. The memory rests until HCA_REST later
 * handles of that kind and size have ended. The public struct keeps its values, so that inline
 * functions of verbs.h (qp->context->ops.post_send) still reach this code.
 *
 * A bad handle is therefore EINVAL and a report of the rule verbs-bad-handle, not a crash. The
 * report has the call sites of the use and of the destruction. Bad handles are: destroyed, of
 * another kind, of another process, NULL, or not a handle. After the rest a stale handle looks like
 * its successor.
 *
 * Entry points call these functions after their scheduling point. A block of the process' memory
 * (os_alloc) represents each handle: it is a fault point, and a leak if it is not freed. Processes
 * of a fabric do not share this list. No lock is held, except where noted.
 */
#ifndef BACKENDS_FAKEVERBS_ALIVE_H
#define BACKENDS_FAKEVERBS_ALIVE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/fakeverbs/arena/arena.h"
#include "core/base/macros.h"
#include "core/os/os.h"

#pragma GCC visibility push(hidden)

#define HCA_REST 64

enum hca_kind {
	HCA_KIND_NONE,
	HCA_KIND_CONTEXT,
	HCA_KIND_PD,
	HCA_KIND_TD,
	HCA_KIND_MR,
	HCA_KIND_MW,
	HCA_KIND_AH,
	HCA_KIND_CHANNEL,
	HCA_KIND_CQ,
	HCA_KIND_SRQ,
	HCA_KIND_QP,
	HCA_KIND_XRCD,
	HCA_KIND_DEVICES, /* the devices of a process, in one piece; each has a mark of its own */
	HCA_KINDS
};

#define HCA_ALIVE(kind) (0x48630a00u + (uint32_t)(kind))

struct hca_head {
	uint32_t alive; /* HCA_ALIVE of its kind, or 0 */
	uint32_t proc;  /* hca_proc_id of its owner */
	const void *self;
};

/* Allocates the zeroed memory of a handle, with a living head. The block may be larger than
 * `bytes`. NULL: no memory. */
void *hca_handle_alloc(enum hca_kind kind, size_t bytes, const char *what);
/* Ends a handle. caller: call site of the destroy call; 0: the create call failed. NULL is
 * ignored. */
void hca_handle_end(void *handle, uint64_t caller);
/* End a handle together with its process; end all handles that the process still has. `killed`: the
 * process did not exit by itself. */
void hca_handle_sweep(void *handle, bool killed);
void hca_handles_sweep(uint32_t proc);
/* Ends all handles, with the world. `forked`: in the child of a fork, which owns no handle of its
 * parent. */
void hca_handles_end(bool forked);

/* True if the object is a handle of that kind, living or ended. Slow. */
bool hca_handle_was(const void *object, enum hca_kind kind);

/* Logs what is wrong with the handle, sets errno, and returns EINVAL. */
int hca_bad_handle(const void *object, enum hca_kind kind, const char *call, uint64_t caller);
/* The same for an argument that belongs to another context. */
int hca_bad_context(const void *object, enum hca_kind kind, const struct ibv_context *context,
		    const char *call, uint64_t caller);

static inline bool hca_is_dead(const struct hca_head *head, enum hca_kind kind)
{
	return UNLIKELY(__atomic_load_n(&head->alive, __ATOMIC_RELAXED) != HCA_ALIVE(kind));
}
/* Check for post and poll. Processes that share an address space belong to a simulated world: only
 * there may a handle belong to another process. All other calls use hca_bad of handles.h. */
static inline bool hca_is_not_mine(const struct hca_head *head, enum hca_kind kind)
{
	return hca_is_dead(head, kind) || (hca_alone && UNLIKELY(head->proc != os_proc()->id));
}

#pragma GCC visibility pop

#endif
