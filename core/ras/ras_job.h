/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collection of a query: the processes of the job, their ranks, and the members of their
 * communicators. After ras_job_sort it has the communicators too. The reports are made from it.
 *
 * A process is known by the address of its RAS task. States:
 *
 *	NEW --connect--> RUNNING --answer--> ANSWERED
 *	 |                  |
 *	 |                  +-- no answer by the deadline, or the connection ended: SILENT
 *	 |                  +-- connection refused: DEAD
 *	 +-- silent for too long in earlier queries: DEAD
 *
 * NONE: the process has no RAS task.
 */
#ifndef CORE_RAS_RAS_JOB_H
#define CORE_RAS_RAS_JOB_H

#include "core/ras/ras_wire.h"

enum ras_state { RAS_NEW, RAS_RUNNING, RAS_ANSWERED, RAS_SILENT, RAS_DEAD, RAS_NONE };

struct ras_process {
	struct os_addr addr;
	int32_t pid;
	enum ras_state state;
	uint64_t gpus, nvml; /* bits, by device */
	uint32_t node;       /* first process of its host */
	struct ras_text dump, why;
};

struct ras_job_rank {
	struct ras_rank r;
	uint32_t process;
};

/* Status and errors of a communicator, as bits; the highest status is shown. */
enum {
	RAS_STATUS_NOCOMM = 1,
	RAS_STATUS_INIT = 2,
	RAS_STATUS_RUNNING = 4,
	RAS_STATUS_FINALIZE = 8,
	RAS_STATUS_ABORT = 16,
	RAS_ERROR_MISMATCH = 1,
	RAS_ERROR_ERROR = 2,
	RAS_ERROR_INCOMPLETE = 4,
};

struct ras_comm {
	uint64_t hash;
	int32_t size;
	const struct ras_job_rank *rank; /* [ranks], by rank: ranks that have answered */
	uint32_t ranks;
	const struct ras_member *member; /* [members], by rank */
	uint32_t members;
	const struct ras_call *call; /* [calls], by rank and number */
	uint32_t calls;
	const struct ras_pair *pair; /* [pairs], by rank, peer and direction */
	uint32_t pairs;
	uint32_t missing, incomplete; /* ranks without an answer; those whose process has none */
	uint32_t status, errors;      /* RAS_STATUS_, RAS_ERROR_ */
	uint32_t nodes, per_node_min, per_node_max;
	/* Communicators with the same size, nodes, status and errors form a group. */
	uint32_t group, number;
};

struct ras_job {
	struct ras_process *process;
	struct ras_job_rank *rank;
	struct ras_member *member;
	struct ras_call *call;
	struct ras_pair *pair;
	uint64_t *hash; /* communicators whose members are in `member` */
	struct ras_comm *comm;
	uint32_t processes, ranks, members, calls, pairs, hashes, comms;
	uint32_t process_room, rank_room, member_room, call_room, pair_room, hash_room;
	uint32_t last;     /* process that was found last */
	uint32_t timeouts; /* processes without an answer by the deadline */
	uint64_t took_ns;
	int cuda_runtime, cuda_driver; /* versions in this process */
	bool lost;                     /* no memory for all */
};

/* Adds the process of that address unless it is known. Returns its index; UINT32_MAX: no memory. */
uint32_t ras_job_process(struct ras_job *j, const struct os_addr *addr, int32_t pid);
/* Adds what `process` has answered. */
void ras_job_merge(struct ras_job *j, uint32_t process, const struct ras_message *m);
/* Ends the collection: sorts, and makes the communicators, the largest first. */
void ras_job_sort(struct ras_job *j);
void ras_job_free(struct ras_job *j);

/* ras_comm.c: makes j->comm from sorted ranks and members. */
void ras_comms_make(struct ras_job *j);
uint32_t ras_status_of(const struct ras_rank *r);
/* Name of the highest bit. */
const char *ras_status_name(uint32_t status);

/* Walks the ranks of a communicator without an answer. Begin with a zeroed `at`. */
struct ras_missing {
	int32_t next; /* rank to look at next */
	uint32_t rank_at, member_at;
	int32_t rank;                    /* out */
	const struct ras_member *member; /* out; NULL: nothing is known of it */
	uint32_t process;                /* out; UINT32_MAX: unknown */
	bool answered;                   /* out: its process has answered, without this rank */
};
bool ras_missing_next(struct ras_job *j, const struct ras_comm *c, struct ras_missing *at);

/* ras_status.c, ras_json.c: reports in NCCL's form. */
void ras_status_write(struct ras_text *out, struct ras_job *j, bool verbose);
void ras_json_write(struct ras_text *out, struct ras_job *j, bool dump);
/* ras_calls.c: writes which ranks have launched different calls of the same number, the first one
 * that differs. False: all ranks have launched the same, as far as it is known. */
bool ras_calls_differ(struct ras_text *out, const struct ras_comm *c);
/* Writes the ranks that are absent from the collective of that number: "; rank 3 has not called it
 * (its last call is ...)". Returns their number. */
uint32_t ras_calls_absent(struct ras_text *out, struct ras_job *j, const struct ras_comm *c,
			  uint64_t number);
/* The same for the call of that number, from 1, that forms communicators. */
uint32_t ras_formed_absent(struct ras_text *out, const struct ras_comm *c, uint64_t number);
/* Writes a call: "ncclAllReduce of 1024 float sum". */
void ras_call_write(struct ras_text *out, const struct ras_call *call);

/* ras_dump.c: the causes of waits; absent ranks, and the texts of all processes. */
void ras_dump_causes(struct ras_text *out, struct ras_job *j);
void ras_dump_write(struct ras_text *out, struct ras_job *j);

/* ras_sort.c: as qsort does. */
void ras_sort(void *array, size_t n, size_t size, int (*order)(const void *a, const void *b));

/* watch/ras_cause.c: writes a line for each reason why a rank waits for another one: which rank has
 * not made which call, and which ranks wait for it. Returns the number of lines. */
uint32_t ras_causes_write(struct ras_text *out, struct ras_job *j);
/* watch/ras_order.c: the same for ranks that launch calls of two communicators in different
 * orders. */
uint32_t ras_orders_write(struct ras_text *out, const struct ras_job *j);
/* True if the rank waits: its kernels run, or it is in a call that waits for other ranks. */
static inline bool ras_rank_waits(const struct ras_rank *r)
{
	return r->busy || r->call[0];
}
/* ras_calls.c: the last call of a rank; the one of that number. NULL: it is not kept. */
const struct ras_call *ras_call_last(const struct ras_comm *c, int32_t rank);
const struct ras_call *ras_call_find(const struct ras_comm *c, uint64_t number);

/* A list of ranks in ascending order: "0-2, 5". Begin with first -1. */
struct ras_list {
	struct ras_text *out;
	int32_t first, last; /* the range that is not written yet; first -1: none */
	uint32_t n;
};
void ras_list_add(struct ras_list *l, int32_t rank);
void ras_list_end(struct ras_list *l);

#define RAS_HOST_BYTES 48
#define RAS_DATE_BYTES 32
/* Write the address without its port, a device list such as "0,1 (NVML 2,3)", the present date in
 * UTC, and the collective's name in NCCL's reports. */
const char *ras_host_print(const struct os_addr *addr, char out[RAS_HOST_BYTES]);
const char *ras_gpus_print(uint64_t gpus, uint64_t nvml, char *out, size_t bytes);
const char *ras_date_print(char out[RAS_DATE_BYTES]);
const char *ras_func_name(int func);
static inline uint64_t ras_gpu_bit(int32_t dev)
{
	return dev >= 0 && dev < 64 ? 1ull << dev : 0;
}

#endif
