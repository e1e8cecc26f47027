/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a fault plan meets the HCA (faults.c).
 */
#ifndef BACKENDS_FAKEVERBS_FAULTS_H
#define BACKENDS_FAKEVERBS_FAULTS_H

#include "backends/fakeverbs/objects/objects.h"
#include "core/base/macros.h"
#include "sim/engine/sim.h"

#pragma GCC visibility push(hidden)

#define HCA_NO_PORT UINT32_MAX
bool hca_fault_visit(const char *site, const void *object, uint32_t port, int64_t step,
		     struct os_fault *f);
int hca_call_fault_visit(const char *site, const void *object, uint32_t port, int state);
int hca_post_fault_visit(struct hca_qp *qp, const char *site, const struct ibv_qp *ibv);
/* A visit of a fault site that is more than a call that fails. */
static inline bool hca_fault(const char *site, const void *object, uint32_t port, int64_t step,
			     struct os_fault *f)
{
	return UNLIKELY(sim_mode.faults) && hca_fault_visit(site, object, port, step, f);
}
/* Does this call fail? The errno, or 0. Under no lock; state: of modify_qp, else -1. A command is
 * what a dead device refuses (EIO). */
static inline int hca_call_fault(const char *site, const void *object, uint32_t port, int state)
{
	return UNLIKELY(sim_mode.faults) ? hca_call_fault_visit(site, object, port, state) : 0;
}
int hca_command_fault(const char *site, const void *object, uint32_t port, int state);
/* The same for a post, where the device or the queue pair may die besides. */
static inline int hca_post_fault(struct hca_qp *qp, const char *site, const struct ibv_qp *ibv)
{
	return UNLIKELY(sim_mode.faults) ? hca_post_fault_visit(qp, site, ibv) : 0;
}

#pragma GCC visibility pop

#endif
