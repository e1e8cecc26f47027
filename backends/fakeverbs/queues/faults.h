/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Effects of a fault plan on the HCA (faults.c).
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
/* Visits a fault site whose effect is more than a failing call. */
static inline bool hca_fault(const char *site, const void *object, uint32_t port, int64_t step,
			     struct os_fault *f)
{
	return UNLIKELY(sim_mode.faults) && hca_fault_visit(site, object, port, step, f);
}
/* Returns the errno with which a fault plan fails this call, or 0. Under no lock. state: the target
 * state of modify_qp, else -1. hca_command_fault is for commands, which a dead device refuses
 * (EIO). */
static inline int hca_call_fault(const char *site, const void *object, uint32_t port, int state)
{
	return UNLIKELY(sim_mode.faults) ? hca_call_fault_visit(site, object, port, state) : 0;
}
int hca_command_fault(const char *site, const void *object, uint32_t port, int state);
/* The same for a post. The device or the queue pair may die as well. */
static inline int hca_post_fault(struct hca_qp *qp, const char *site, const struct ibv_qp *ibv)
{
	return UNLIKELY(sim_mode.faults) ? hca_post_fault_visit(qp, site, ibv) : 0;
}

#pragma GCC visibility pop

#endif
