/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The HCA double, from inside. The outside is <infiniband/verbs.h> of rdma-core, unchanged.
 *
 * What another process' HCA reads (queue pairs, completion queues, memory regions, ports) lies in
 * the world arena as plain data: indices and generations, no pointers. A `handle` in there is the
 * owner's verbs object, kept as a number: it is posted on and labelled, never looked into by
 * others. What only the owner sees (struct ibv_qp and the like) is in the owner's os_alloc memory.
 *
 * Who runs: entry points (on a task) begin with sim_point, act under locks without waiting, and
 * end with sim_events_drain. Everything else is an event of the engine: hca_qp_transmit,
 * hca_packet_arrive, hca_qp_timer; these never wait.
 *
 * Locks are words in the arena, spun on (under `sim` they are always free). Order, outermost first:
 *
 *   queue pair -> shared receive queue -> completion queue -> completion channel, context (async events)
 *   a port's atomics: under a queue pair, over memory
 *   leaves, taken under any of these and holding nothing more: memory region, port, slab, memory
 *
 * Two queue pairs are never locked together: requester and responder speak by packets only.
 *
 * The parts, each with a header of its own: arena.h (tables, memory, locks), objects.h (what is in
 * the tables), handles.h (what the owner holds), packet.h, memory.h, port.h, queues.h, transport.h;
 * check.h is the sanitizer, personality.h what devices do differently.
 *
 * Facts: InfiniBand Architecture 1.x volume 1, chapters 9 to 11, by way of the rdma-core manual
 * pages; times in ns, sizes in bytes, rates in MB/s; errors 0 or a positive errno.
 */
#ifndef BACKENDS_FAKEVERBS_HCA_H
#define BACKENDS_FAKEVERBS_HCA_H

#include <endian.h>
#include <infiniband/verbs.h>

#include "backends/fakeverbs/arena.h"
#include "backends/fakeverbs/far.h"
#include "backends/fakeverbs/handles.h"
#include "backends/fakeverbs/hca_ready.h"
#include "backends/fakeverbs/memory.h"
#include "backends/fakeverbs/objects.h"
#include "backends/fakeverbs/packet.h"
#include "backends/fakeverbs/port.h"
#include "backends/fakeverbs/queues.h"
#include "backends/fakeverbs/transport.h"
#include "backends/peermem.h"
#include "core/base/macros.h"
#include "core/os/os.h"
#include "sim/engine/memory.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"

#pragma GCC visibility push(hidden)

/* What things take inside an HCA; round numbers of a current one. */
#define HCA_DOORBELL_NS 150u
#define HCA_LOOPBACK_NS 300u
#define HCA_POST_NS     50u
#define HCA_POLL_NS     20u
#define HCA_CONTROL_NS  5000u
#define HCA_REG_NS      20000u

/* ---- faults.c ---- */

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

/* ---- the data path's own, for when nobody looks ---- */

/* An entry point's beginning. */
static inline void hca_point(const char *site, uint64_t ns)
{
	if (LIKELY(sim_is_calm()))
		return;
	sim_point(site);
	sim_charge_ns(ns);
}
static inline void hca_charge(uint64_t ns)
{
	if (UNLIKELY(!sim_is_calm()))
		sim_charge_ns(ns);
}
/* A poll found something. */
static inline void hca_poll_hit(void)
{
	if (UNLIKELY(sim_misses_are_counted()))
		os_poll_hit();
}
static inline void hca_trace(const char *kind, uint64_t a, uint64_t b, uint64_t c)
{
	if (!sim_is_plain())
		os_trace(kind, a, b, c);
}

/* ---- world.c ---- */

/* Did a failure end the run? One that was only noted did not. */
bool hca_run_ended(void);
/* One line: "fakeverbs: h0 mlx5_0 qp 0x101: ...". */
void hca_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same for what verbs leave undefined: fails the run (sim_misuse). */
void hca_misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#pragma GCC visibility pop

#endif
