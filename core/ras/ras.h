/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RAS: reliability, availability, serviceability. One background task of each process that has a
 * communicator listens at two addresses. At the first it answers clients in NCCL's text protocol
 * (ras_command.h), and at the second the RAS tasks of other processes. A client's STATUS or DUMP is
 * sent to all processes of the job, and the answers are merged. docs/ras.md has the user's view.
 *
 * The task also watches deadlines, and compares the calls of the ranks (core/ras/watch).
 *
 * core/comm calls ras_join and ras_leave and provides struct ras_source, by which the task reads
 * this process' communicators, and fails them. The task uses nothing else of them. It makes no call
 * that waits for a kernel.
 *
 * The first process of a host that listens at NCCL_RAS_ADDR has the clients of that host. If it
 * ends, another one takes the address.
 *
 * Errors of RAS itself never reach a communicator: they are logged at INFO, and clients get them as
 * text.
 */
#ifndef CORE_RAS_RAS_H
#define CORE_RAS_RAS_H

#include "core/include/nccl.h"
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
	RAS_ALL_TO_ALL, /* on windows */
	RAS_FUNCS,
};

#define RAS_CALL_BYTES 20 /* of the name of a public function */

/* A rank as its own process sees it. Crosses the wire. */
struct ras_rank {
	uint64_t comm;             /* hash of the communicator */
	uint64_t first_host;       /* rank 0's hash of host... */
	uint64_t first_pid;        /* ...and of process; 0: not known yet */
	uint64_t count[RAS_FUNCS]; /* launched collectives, by enum ras_func */
	uint64_t calls;            /* collectives of any kind; the next call has this number */
	uint64_t reached; /* of these, launches that its stream has reached, as far as known */
	uint64_t formed;  /* calls that form communicators, if the process has a deadline */
	int32_t rank, nranks;
	int32_t cuda_dev, nvml_dev;
	uint32_t init_state, async_error; /* ncclResult_t */
	uint8_t finalized, destroyed, aborted;
	uint8_t busy; /* only for DUMP: its kernels run */
	uint32_t pad0;
	/* Only for DUMP: the call in which the rank waits for other ranks, and for how long.
	 * Empty: it is in no such call. awaited -1: it waits for several. */
	uint64_t waits_ns;
	int32_t awaited;
	char call[RAS_CALL_BYTES];
};
DOPPEL_CHECK_SIZE(struct ras_rank, 160);

/* A collective that a rank has launched, one of its last. Crosses the wire. */
struct ras_call {
	uint64_t comm;
	uint64_t number, count;
	uint64_t chain;         /* hash of this call and of all before it */
	uint64_t order, stream; /* as in struct rank_call */
	int32_t rank;
	int32_t root; /* -1: has none */
	uint8_t func; /* enum ras_func */
	uint8_t type; /* ncclDataType_t */
	uint8_t op;   /* as in struct rank_call */
	uint8_t pad[5];
};
DOPPEL_CHECK_SIZE(struct ras_call, 64);

/* The messages of a rank with one peer in one direction: their number, and the last one. Crosses
 * the wire. */
struct ras_pair {
	uint64_t comm;
	uint64_t called, count;
	uint64_t order, stream; /* as in struct rank_call */
	int32_t rank, peer;
	uint8_t is_send, type, pad[2];
	char call[RAS_CALL_BYTES];
};
DOPPEL_CHECK_SIZE(struct ras_pair, 72);

/* A rank as the other ranks of its communicator know it. Crosses the wire. */
struct ras_member {
	uint64_t comm;
	struct os_addr addr; /* of its RAS task; port 0: it has none */
	int32_t rank, pid;
	int32_t cuda_dev, nvml_dev;
};
DOPPEL_CHECK_SIZE(struct ras_member, 48);

/* Ranks of this process with their last calls and messages, and members of their communicators. */
struct ras_view {
	struct ras_rank *rank;
	struct ras_member *member;
	struct ras_call *call;
	struct ras_pair *pair;
	uint32_t ranks, members, calls, pairs;
	uint32_t rank_room, member_room, call_room, pair_room;
	bool lost; /* no memory for all */
};
/* Add a zeroed element and return it. NULL: no memory. */
struct ras_rank *ras_view_rank(struct ras_view *v);
struct ras_member *ras_view_member(struct ras_view *v);
struct ras_call *ras_view_call(struct ras_view *v);
struct ras_pair *ras_view_pair(struct ras_view *v);
void ras_view_free(struct ras_view *v);

/* An operation that has exceeded its deadline. */
#define RAS_LATE_BYTES 320
struct ras_late {
	uint64_t comm;
	int32_t rank;
	bool collective; /* `number` is that of the first collective that it waits in */
	bool forms;      /* `number` is that of the call that forms communicators, from 1 */
	uint64_t number;
	char text[RAS_LATE_BYTES]; /* the rank, the operation, its time and its deadline */
};

/* A verdict is made known to all ranks of a communicator before any of them acts on it. */
enum ras_phase { RAS_PREPARE, RAS_COMMIT };

/* CALLS adds the ranks' last calls; WAITS also their messages, and what they wait for. */
enum ras_detail { RAS_RANKS, RAS_CALLS, RAS_WAITS };

/* Functions by which the RAS task reads this process, and ends its communicators. They run on that
 * task. */
struct ras_source {
	/* Adds the ranks and members, and as much more as `detail` demands. */
	void (*view)(struct ras_view *v, enum ras_detail detail);
	/* Adds a text with the pending operations of this process to `out`, and to `why` lines with
	 * causes of waits that only this process knows. May wait, until the deadline or until *stop
	 * is not 0. */
	void (*dump)(struct ras_text *out, struct ras_text *why, uint64_t deadline_ns,
		     const shared_u32 *stop);
	/* Finds up to `most` operations that have exceeded their deadlines, and returns their
	 * number. Fails inits that have. *leads: the process has a rank 0 of other ranks. */
	int (*late)(struct ras_late *late, int most, bool *leads);
	/* Commit: fails this process' ranks of the communicator with `error`, an ncclResult_t, and
	 * stops their operations. Each logs `text`, and what it waits for. Prepare: from now on any
	 * error of these ranks becomes this one. WAITS as `dump` does. */
	void (*fail)(uint64_t comm, enum ras_phase phase, uint32_t error, const char *text,
		     const shared_u32 *stop);
};

/* True if the environment has a deadline or a period of comparisons. */
bool ras_is_watching(void);
/* Joins the process' RAS task; the first call starts it. WAITS until the task's address is known.
 * *joined is NULL if RAS is disabled, or cannot run (logged). ncclTimeout: another rank has not
 * started the task within DOPPEL_TIMEOUT_MS (logged). `source` must remain valid. The task runs
 * also without NCCL_RAS_ENABLE if ras_is_watching. */
ncclResult_t ras_join(const struct ras_source *source, struct ras **joined);
/* From now on the task calls the source's `late` in time for a deadline of timeout_ns. Any task may
 * call it. */
void ras_watch(struct ras *r, uint64_t timeout_ns);
/* Returns the word that counts the launched calls of all communicators of the process. */
shared_u64 *ras_launch_order(struct ras *r);
/* Returns the address at which the process' task answers other processes. */
struct os_addr ras_address(const struct ras *r);
/* The last call ends the task and WAITS for its end. Accepts NULL. */
void ras_leave(struct ras *r);

#endif
