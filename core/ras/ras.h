/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RAS: reliability, availability, serviceability. One background task of each process that has a
 * communicator listens at two addresses. At the first it answers clients in NCCL's text protocol
 * (ras_command.h), and at the second the RAS tasks of other processes. A client's STATUS or DUMP is
 * sent to all processes of the job, and the answers are merged. docs/ras.md has the user's view.
 *
 * core/comm calls ras_join and ras_leave and provides struct ras_source, by which the task reads
 * this process' communicators. The task reads nothing else of them. It makes no call that waits for
 * a kernel, and takes no lock except the registry's.
 *
 * The first process of a host that listens at NCCL_RAS_ADDR has the clients of that host. If it
 * ends, another one takes the address.
 *
 * Errors of RAS never reach a communicator: they are logged at INFO, and clients get them as text.
 */
#ifndef CORE_RAS_RAS_H
#define CORE_RAS_RAS_H

#include "core/os/os.h"
#include "core/ras/ras_text.h"

struct ras;

/* The collectives whose launches are counted, in the order of NCCL's report. */
enum ras_func {
	RAS_BROADCAST,
	RAS_REDUCE,
	RAS_ALL_GATHER,
	RAS_REDUCE_SCATTER,
	RAS_ALL_REDUCE,
	RAS_FUNCS,
};

/* A rank as its own process sees it. Crosses the wire. */
struct ras_rank {
	uint64_t comm;             /* hash of the communicator */
	uint64_t first_host;       /* rank 0's hash of host... */
	uint64_t first_pid;        /* ...and of process; 0: not known yet */
	uint64_t count[RAS_FUNCS]; /* launched collectives, by enum ras_func */
	int32_t rank, nranks;
	int32_t cuda_dev, nvml_dev;
	uint32_t init_state, async_error; /* ncclResult_t */
	uint8_t finalized, destroyed, aborted, pad[5];
};
DOPPEL_CHECK_SIZE(struct ras_rank, 96);

/* A rank as the other ranks of its communicator know it. Crosses the wire. */
struct ras_member {
	uint64_t comm;
	struct os_addr addr; /* of its RAS task; port 0: it has none */
	int32_t rank, pid;
	int32_t cuda_dev, nvml_dev;
};
DOPPEL_CHECK_SIZE(struct ras_member, 48);

/* Ranks of this process, and members of their communicators. */
struct ras_view {
	struct ras_rank *rank;
	struct ras_member *member;
	uint32_t ranks, members;
	uint32_t rank_room, member_room;
	bool lost; /* no memory for all */
};
/* Add a zeroed element and return it. NULL: no memory. */
struct ras_rank *ras_view_rank(struct ras_view *v);
struct ras_member *ras_view_member(struct ras_view *v);
void ras_view_free(struct ras_view *v);

/* Functions by which the RAS task reads this process. They run on that task. */
struct ras_source {
	void (*view)(struct ras_view *v);
	/* Adds a text with the pending operations of this process. May wait, until the deadline or
	 * until *stop is not 0. */
	void (*dump)(struct ras_text *out, uint64_t deadline_ns, const shared_u32 *stop);
};

/* Joins the process' RAS task; the first call starts it. WAITS until the task's address is known.
 * NULL: RAS is disabled, or cannot run (logged). `source` must remain valid. */
struct ras *ras_join(const struct ras_source *source);
/* Returns the address at which the process' task answers other processes. */
struct os_addr ras_address(const struct ras *r);
/* The last call ends the task and WAITS for its end. Accepts NULL. */
void ras_leave(struct ras *r);

#endif
