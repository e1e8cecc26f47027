/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which verbs objects there are, as the program holds them. A handle has a head after its public
 * struct, which names its kind while it lives. Its memory is never given back: when the
 * object is destroyed the head is wiped, what follows it is made useless, and the memory rests
 * until HCA_REST later ones of that kind and size have ended. The public struct stays as it was, so
 * that inline functions of verbs.h (qp->context->ops.post_send) come here all the same.
 *
 * So a handle that is destroyed, of another kind, of another process, NULL or no handle at all is
 * an EINVAL and a sentence of the rule verbs-bad-handle, with the call sites of the use and of the
 * destruction; not a crash. Beyond the rest a stale handle looks like whatever is there now.
 *
 * Called by the entry points, after their scheduling point. Memory of the process' books (os_alloc)
 * stands for each handle: a fault point, and a leak if it stays. Not kept between processes of a
 * fabric: each has its own. Under no lock, except where noted.
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
	HCA_KIND_DEVICES, /* those of a process, in one piece; each has a mark of its own */
	HCA_KINDS
};

#define HCA_ALIVE(kind) (0x48630a00u + (uint32_t)(kind))

struct hca_head {
	uint32_t alive; /* HCA_ALIVE of its kind, or 0 */
	uint32_t proc;  /* hca_proc_id of its owner */
	const void *self;
};

/* Zeroed memory of a handle, with a living head; `bytes` may be more than the handle has. NULL. */
void *hca_handle_take(enum hca_kind kind, size_t bytes, const char *what);
/* It is destroyed; caller: the call site, or 0: its create call fails. NULL is fine. */
void hca_handle_end(void *handle, uint64_t caller);
/* It goes with its process, killed or not; then all others that this process still has. */
void hca_handle_sweep(void *handle, bool killed);
void hca_handles_sweep(uint32_t proc);
/* With the world. In the child of a fork: nothing that the parent had is the child's. */
void hca_handles_end(bool forked);

/* Is it one of that kind, living or not? Slow. */
bool hca_handle_was(const void *object, enum hca_kind kind);

/* It is not what it should be: logs why, sets errno, and returns EINVAL. */
int hca_bad_handle(const void *object, enum hca_kind kind, const char *call, uint64_t caller);
/* The same for a part of what a call makes: of another context. */
int hca_bad_context(const void *object, enum hca_kind kind, const struct ibv_context *context,
		    const char *call, uint64_t caller);

static inline bool hca_is_dead(const struct hca_head *head, enum hca_kind kind)
{
	return UNLIKELY(__atomic_load_n(&head->alive, __ATOMIC_RELAXED) != HCA_ALIVE(kind));
}
/* For post and poll, which have the handle in hand. Processes that share an address space are those
 * of a simulated world: only there may it belong to another process. hca_bad of handles.h is for
 * the rest. */
static inline bool hca_is_not_mine(const struct hca_head *head, enum hca_kind kind)
{
	return hca_is_dead(head, kind) || (hca_alone && UNLIKELY(head->proc != os_proc()->id));
}

#pragma GCC visibility pop

#endif
