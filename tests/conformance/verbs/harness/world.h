/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cases that need a world: links that go down, plans of faults, environments, several hosts, what
 * the HCA double logs. Used by tests/conformance/verbs/world alone, which is in verbs_suite_world.
 * A case with `.worlds` makes its worlds with the functions below; any other runs in a world of the
 * target. Times in ns.
 */
#ifndef TESTS_CONFORMANCE_VERBS_HARNESS_WORLD_H
#define TESTS_CONFORMANCE_VERBS_HARNESS_WORLD_H

#include "core/base/macros.h"
#include "core/os/os.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"
#include "tests/conformance/verbs/suite.h"

#define VW_MACHINE      "h100-8nic"
#define VW_SEEDS        6
#define VW_BUFFER_BYTES (1 << 20) /* of vw_defaults */

/* For a case's .world: one host of VW_MACHINE with these variables, "NAME=value". */
#define VW_ENV(...)                                                                                \
	&(const struct world_config)                                                               \
	{                                                                                          \
		.hosts = 1, .machine = VW_MACHINE, .env = (const char *const[])                    \
		{                                                                                  \
			__VA_ARGS__, NULL                                                          \
		}                                                                                  \
	}

/* ---- worlds --------------------------------------------------------------------------------- */

struct vw_run {
	struct sim_config sim;
	struct world_config world;
	uint64_t left;  /* objects that the world must count when it ends */
	bool misuse;    /* the program may break rules */
	uint64_t *hash; /* receives the trace hash; NULL: not used */
};

/* Runs `body` in a world of its own. Ends the case if the run fails or leaves other objects. */
void vw_run_world(const struct vw_run *r, void (*body)(void *arg), void *arg);
/* The same for a program without an argument. */
void vw_run_with(const struct vw_run *r, void (*program)(void));
/* The same on VW_MACHINE. plan: of faults; NULL: none. */
void vw_run(enum sim_engine engine, uint64_t seed, const char *plan, uint32_t hosts,
	    void (*program)(void));
/* Is the case run for the engine threads? Otherwise for sim. */
bool vw_threads(void);
/* Engine sim, seeds 1 to VW_SEEDS. */
void vw_run_seeds(const char *plan, void (*program)(void));

/* Runs the program and stores what it logs on standard error in vw_logged. check: the variable
 * DOPPEL_VERBS_CHECK=..., or NULL. True: the run failed. */
bool vw_listen(enum sim_engine engine, void (*program)(void), const char *check);
extern char vw_logged[1 << 18];

/* ---- ends ----------------------------------------------------------------------------------- */

/* vs_defaults with short waits for receivers, and without rights to atomics. */
extern const struct vs_options vw_defaults;

/* In place of vs_mask, for reliable connections. */
#define VW_INIT_MASK vs_mask(IBV_QPT_RC, IBV_QPS_INIT)
#define VW_RTR_MASK  vs_mask(IBV_QPT_RC, IBV_QPS_RTR)
#define VW_RTS_MASK  vs_mask(IBV_QPT_RC, IBV_QPS_RTS)

struct ibv_context *vw_open(int device);
void vw_end_make(struct vs_end *e, int side, const struct vs_options *o);
struct ibv_qp_init_attr vw_init_attr(const struct vs_options *o, struct ibv_cq *send,
				     struct ibv_cq *recv);
/* Every field filled in towards a peer that is not in a struct vs_pair. */
struct ibv_qp_attr vw_attr(const struct vs_options *o, const union ibv_gid *peer, uint32_t peer_qpn,
			   uint32_t sq_psn, uint32_t rq_psn);
/* Both ends in RTS again, with other packet numbers. */
void vw_again(struct vs_pair *p);
/* vs_expect_failure; the completion also has the queue pair's number and a vendor's error. */
void vw_expect_failure_at(const char *file, int line, struct vs_pair *p, struct vs_wr *w,
			  enum ibv_wc_status status);
#define vw_expect_failure(p, w, status) vw_expect_failure_at(__FILE__, __LINE__, p, w, status)
/* Takes the link of a device of host 0 down, or up. */
void vw_link(int device, bool up);
/* Waits until the word is 1. */
void vw_wait_word(const shared_u32 *word);

#endif
