/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the runner's files: runner.c (world and processes), rank*.c (what each rank's tasks
 * do), placement.c (where the ranks are), drive.c (one task for all ranks of a process),
 * row_table.c (the nccl-tests table). The harness stands outside the simulated processes, as a
 * launcher does: its memory is seen by all ranks, through shared words.
 */
#ifndef SIM_LAB_RUNNER_INTERNAL_H
#define SIM_LAB_RUNNER_INTERNAL_H

#include "core/base/macros.h"
#include "core/base/shared.h"
#include "sim/lab/check/collective.h"
#include "sim/lab/life/life.h"
#include "sim/lab/run/runner.h"

struct lab_rank;
struct lab_team;

/* A call that each rank of a process makes: into one group, if it can be. */
struct lab_drive {
	ncclResult_t (*fn)(struct lab_rank *it, void *arg);
	void *arg;
	const char *name;
	bool grouped;
	bool ends; /* the communicators: it is made whether the rank's device can be set or not */
};

struct lab_rank {
	struct lab_run *run;
	int32_t rank, device;
	struct os_proc *proc;
	struct os_thread *thread;
	uint64_t arrivals; /* at the harness' barrier, so far */
	ncclComm_t comm;
	ncclComm_t other[LAB_MAX_COMMS - 1]; /* comms.c */
	void *stream;                        /* cudaStream_t */
	void *start, *end;                   /* cudaEvent_t: around a timed series */
	void *more[LAB_MAX_STREAMS], *join[LAB_MAX_STREAMS], *fork; /* rank_streams.c; NULL: none */
	uint8_t *send, *recv, *staging;
	size_t send_bytes, recv_bytes;
	void *registered[LAB_MAX_COMMS][2]; /* rank_register.c: handles of both buffers */
	ncclWindow_t window[LAB_MAX_COMMS][2];
	uint32_t renewals;            /* of both */
	void *factor;                 /* of PAYLOAD_MULSUM, in GPU memory; NULL: no row has it */
	uint8_t *staged, *copied_out; /* rank_streams.c; NULL: not used */
	uint64_t elapsed_ns;          /* of the last timed series */
	uint64_t launch_ns;           /* and of its calls */
	void **tick;                  /* ticks.c: cudaEvent_t after each iteration; NULL: none */
	uint64_t *tick_ns;            /* of each iteration of the last timed series */
	bool timing;                  /* the series is timed */
	uint64_t digest;              /* of the last result that was checked */
	bool dead;                    /* its process was killed */
	struct os_thread *watch;      /* in runs with faults */
	shared_u32 done;              /* for the watch: it has left its communicator */
	shared_u32 watch_aborted;     /* by its watch */
	shared_u32 quiet_over;        /* quiet.c */
	bool arrived;                 /* at the meeting of those that survive */

	/* comms.c: the number of communicators that are destroyed, or being destroyed; atomic */
	uint32_t comms_ended;
	uint32_t comms_aborted; /* a bit for each that was: no second time */

	struct lab_mixed *mixed;          /* mixed.c's */
	uint64_t pauses;                  /* pause.c: moments so far */
	uint32_t suspended;               /* suspends.c: times so far */
	uint64_t queries;                 /* queries.c: moments so far */
	size_t free_before;               /* of its GPU, before its communicators; 0: not known */
	struct os_thread *poller, *idler; /* watchdog.c, idle.c; NULL: none */
	shared_u32 poll_over;
	struct os_thread *ras_client; /* queries_ras.c; NULL: none */
	shared_u32 ras_over;

	/* transient.c */
	void *transient_stream, *transient_memory;
	ncclComm_t transient_comm; /* for the watch; NULL: none */
	uint64_t transients;       /* so far, with those that it was not in */
	bool transient_begins;     /* it is in the init of one */
	shared_u32 transient_on;   /* it is busy with them: its watch looks after the others */

	ncclComm_t scene_comm[2]; /* scene.c, for other tasks of the process */
	void *scene_memory, *scene_program, *scene_window;
	bool scene_stored;     /* walk.c: memory for messages of other ranks was missed once */
	const char *cuda_call; /* cuda_state.c: what it is in; NULL: nothing that is checked */
	const struct os_self *cuda_task;            /* that which makes it */
	int32_t cuda_device, cuda_mode, cuda_error; /* of the task, before it */

	/* drive.c; NULL: the rank's own task makes its calls */
	struct lab_team *team;
	const struct lab_drive *drive; /* what it makes at the next meeting */
	ncclResult_t drive_result;

	/* survive.c */
	enum lab_phase phase, error_phase;
	bool worked;      /* its communicators were made */
	const char *call; /* what it is in that must return; NULL: nothing */
	uint64_t call_ns, calls;
	const char *error_call; /* which one gave its first error; NULL: none did */
	ncclResult_t error;
	bool outside;               /* that error is not the stack's: cudaMalloc of the program */
	bool lost;                  /* its GPU is dead, and so the program */
	struct lab_life_self *self; /* life.c's; its task's own memory */
};

/* row_progress.c: what is under way, and when that was last shown. */
struct lab_progress {
	bool on; /* `row` is */
	struct lab_row row;
	uint64_t start_ns, shown_ns; /* real time */
};

/* placement.c */
struct lab_slot {
	uint32_t host, local; /* the GPU, by index, or the place in --devices */
};

#define LAB_MORE_IDS 3
/* transient.c: handed from one member to the others */
struct lab_transient_id {
	ncclUniqueId id;
	ncclUniqueId more[LAB_MORE_IDS]; /* of an init with several */
	shared_u64 ready;                /* 1 + the number of the communicator whose id it is */
	shared_u64 met[3];               /* odd_ends.c: members that have come to its meetings */
};

/* machines.c: what a world of several machines is made of, as long as it stands; one machine:
 * empty. */
struct lab_machines {
	const char **of_host;
	char *text;
};

struct lab_run {
	const struct lab_config *config;
	struct lab_machines machines;
	uint32_t *gpus;        /* of each host's machine */
	struct lab_slot *slot; /* of each rank */
	int32_t nranks;        /* of the communicator */
	int32_t count; /* of them in this process: rank[0..count-1]; less than all when spread */
	struct lab_rank *rank;
	struct os_proc **proc;
	struct lab_team **team; /* of each process, where one task drives its ranks */
	uint32_t proc_count, team_count;
	int rc;

	ncclUniqueId id, other_id[LAB_MAX_COMMS - 1], root_id[LAB_MORE_IDS];
	struct lab_transient_id transient_id[LAB_MAX_TRANSIENT], idle_id[LAB_MAX_TRANSIENT];
	struct lab_transient_id family_id[LAB_MAX_TRANSIENT]; /* family.c */
	ncclUniqueId fails_id[LAB_MAX_TRANSIENT];             /* init_fails.c */
	shared_u32 id_ready;
	shared_u32 lost_late; /* a GPU was found dead when all had come */
	/* Harness barrier: a count of arrivals, and the barriers that all ranks have reached. A
	 * write looks at every wait of its 64 bytes, and all ranks wait for `met` and `failed`. */
	shared_u64 arrived;
	uint8_t apart_of_arrived[64];
	shared_u64 met;
	uint8_t apart_of_met[64];
	shared_u32 failed;    /* some rank gave up: all abort */
	uint32_t scenes;      /* kinds that were played; the first rank writes */
	shared_u64 disagreed; /* disagree.c: rounds in which a rank has reported it */

	uint8_t *expect; /* the reduced send buffers; NULL: none, or each rank reduces its pieces */
	struct os_mutex lock; /* the fields below */
	uint64_t wrong, guard_wrong, row_wrong[2], operations, virtual_ns;
	/* of a row's results that are the same on all ranks; digest_rank: whose, -1: none yet */
	uint64_t digest;
	int32_t digest_rank;
	ncclResult_t error;
	int32_t error_rank;
	uint32_t killed; /* ranks */
	bool ends;       /* all ranks have ended: a process that goes now was not killed */
	double busbw_sum;
	uint32_t busbw_rows;
	char line[160];       /* of the table, not yet whole */
	double *iteration_us; /* row_table.c: room for those of a row; NULL: not wanted */
	FILE *later; /* lines that follow the line when it is whole, in later_text; NULL: none */
	char *later_text;
	size_t later_bytes;
	int line_n;
	struct lab_progress progress;
	bool reported; /* on_result was called */
	char explanation[256];

	/* survive.c */
	bool armed; /* there are faults */
	uint64_t failed_ns, healed_ns;
	bool error_taken; /* a call returned an error, and the program went on */
	enum sim_verdict judged;

	uint64_t comm_hash[LAB_MAX_COMMS]; /* queries_comm.c; under `lock`; 0: not known */

	/* life.c and recover.c; a death changes them in event context, and no task waits in
	 * between */
	shared_u32 trouble; /* deaths, and errors outside the stack: what a launcher sees */
	shared_u32 go;      /* the meeting is over: `survivor` is complete */
	int32_t survivor[LAB_LIFE_RANKS], survivors;
	ncclUniqueId second_id;
	shared_u32 second_id_ready;
};

/* A call that has not returned so long after the faults have healed never will. An HCA's timer for
 * acknowledges, the slowest thing that then still helps, is 4.3 s, and fires after as many as
 * four. */
#define LAB_LIVENESS_NS 40000000000ull
#define LAB_QUIET_NS    2000000000ull
/* A launcher waits for faults that heal by then, since virtual time is free. */
#define LAB_PATIENCE_NS 100000000000ull

/* The launcher aborts ranks that do not notice a failure so long after it: virtual time is free. */
#define LAB_LAUNCHER_REAL_NS 5000000000ull
static inline uint64_t lab_launcher_ns(void)
{
	return sim_engine_kind() == SIM_ENGINE_SIM ? LAB_LAUNCHER_NS : LAB_LAUNCHER_REAL_NS;
}

/* LAB_STAGING_BYTES is more than cudaMemcpyAsync copies before it returns. */
#define LAB_SMALL_BYTES   (LAB_RECOVER_COUNT * sizeof(int32_t)) /* of a buffer, at least */
#define LAB_RECOVER_COUNT 1000u /* elements of the second communicator's collective */
#define LAB_GUARD_BYTES   256   /* before and after each buffer */
#define LAB_STAGING_BYTES (128u << 10)

void lab_rank_main(void *arg);
void lab_rank_fail(struct lab_rank *me, ncclResult_t error, const char *what);
bool lab_rank_alloc(struct lab_rank *me);
void lab_rank_free(struct lab_rank *me);
void lab_life_main(void *arg);
/* False: the CUDA call failed, which was printed and ends the run. `error` is a cudaError_t. */
bool lab_rank_check_cuda(struct lab_rank *me, int error, const char *what);
/* Notes a failure of that kind (sim_note_failure), prints it, and sets the verdict of the run.
 * SIM_WRONG_RESULT counts as one wrong element. */
void lab_judge(const struct lab_rank *me, enum sim_verdict verdict, const char *kind,
	       const char *fmt, ...) __attribute__((format(printf, 4, 5)));
bool lab_rank_sync(struct lab_rank *me);
bool lab_rank_copy(struct lab_rank *me, void *dst, const void *src, size_t bytes, bool to_gpu);

/* The first rank of this process: it does once what is done for all of them. */
static inline bool lab_leads(const struct lab_rank *me)
{
	return me == me->run->rank;
}

/* rank_series.c: false: a rank failed. */
bool lab_rank_series(struct lab_rank *me);
/* All ranks' tasks meet; false when a rank failed instead. */
bool lab_barrier(struct lab_rank *me);
/* One more, that no task waits for: the communicator is destroyed while it runs. */
bool lab_rank_hurry(struct lab_rank *me, struct lab_row *row);
/* rank_watch.c: in a run with faults; nothing in others. The rank joins me->watch. */
bool lab_rank_watch_start(struct lab_rank *me);

/* rank_check.c: the same. The input with its guards; the receive buffer with its guards, which has
 * no result yet; the same without the guards; results and guards as they must be. */
bool lab_rank_fill(struct lab_rank *me, const struct lab_row *row);
/* With windows, in the stream: input and an empty output before a series; other input after it. */
bool lab_rank_bring(struct lab_rank *me, const struct lab_row *row);
bool lab_rank_spend(struct lab_rank *me, const struct lab_row *row);
bool lab_rank_recv_prepare(struct lab_rank *me, const struct lab_row *row);
bool lab_rank_unwrite(struct lab_rank *me, const struct lab_row *row);
bool lab_rank_check(struct lab_rank *me, const struct lab_row *row);

/* survive.c: what must hold when faults are about */
void lab_survive_start(struct lab_run *run);
bool lab_has_env(const struct lab_config *c, const char *name);
/* True if the number of the variable is `least` or more: the stack ignores a lower one. */
bool lab_env_reaches(const struct lab_config *c, const char *name, int64_t least);
/* DOPPEL_TIMEOUT_MS of the run; 0: none, or longer than a program waits. */
uint64_t lab_timeout_ms(const struct lab_config *c);
void lab_call(struct lab_rank *me, const char *call); /* NULL: it has returned */
void lab_survive_error(struct lab_rank *me, ncclResult_t error, const char *call, bool outside);
void lab_survive_learn(struct lab_rank *me);
/* When the launcher aborts the ranks that have no error, after the first failure. */
uint64_t lab_survive_launcher_at(const struct lab_run *run);
/* The launcher aborts a rank: ends the run if the stack owed the rank an error. */
void lab_survive_unreported(const struct lab_rank *it);
void lab_survive_second(struct lab_rank *me);
/* Has the rank's GPU a sticky error? And has any, when all have come: then no rank goes on. */
bool lab_gpu_dead(const struct lab_rank *me);
bool lab_gpu_dead_late(const struct lab_rank *me);
void lab_survive_judge(struct lab_run *run);

/* The offset of a row's buffers in their memory. */
static inline uint64_t lab_buffer_at(const struct lab_config *c, const struct lab_row *row)
{
	return LAB_GUARD_BYTES + (uint64_t)c->unalign * payload_type_bytes(row->payload.type);
}

/* Calls that one collective of the series is made of. */
static inline uint32_t lab_parts(const struct lab_config *c)
{
	return MAX_OF(MAX_OF(c->streams, c->group), MAX_OF(c->comms, 1u));
}

/* graph.c; false: reported */
bool lab_graph_begin(struct lab_rank *me);
bool lab_graph_end(struct lab_rank *me, bool ok, void **exec); /* cudaGraphExec_t */
bool lab_graph_launch(struct lab_rank *me, void *exec, uint32_t times);
void lab_graph_free(void *exec); /* NULL: nothing */
/* rank_streams.c: the streams after a rank's first one; nothing where it has but one. */
int lab_streams_make(struct lab_rank *me); /* cudaError_t, all of them */
void lab_streams_free(struct lab_rank *me);
int lab_streams_fork(struct lab_rank *me);
int lab_streams_join(struct lab_rank *me);
void *lab_streams_pick(const struct lab_rank *me, uint32_t part); /* cudaStream_t */
/* cudaError_t. The first moves the input to me->staged and overwrites the buffer that held it. Each
 * part's stream copies it in before the call, and the result to me->copied_out after the call. */
int lab_streams_stage(struct lab_rank *me, void *buffer, size_t bytes);
int lab_streams_copy_in(struct lab_rank *me, const struct lab_row *row, uint32_t part);
int lab_streams_copy_out(struct lab_rank *me, const struct lab_row *row, uint32_t part);

/* factor.c: PAYLOAD_MULSUM */
int lab_factor_make(struct lab_rank *me); /* cudaError_t */
/* The place of a row's factor in GPU memory; NULL: no row has one. */
void *lab_factor_at(const struct lab_rank *me, const struct lab_row *row);
void lab_factor_free(struct lab_rank *me);
bool lab_factor_fill(struct lab_rank *me, const struct lab_row *row); /* before a row */
/* The operation of one call, *op, and its end after the call: nothing for other operations. */
ncclResult_t lab_factor_begin(struct lab_rank *me, const struct lab_row *row, void *on_gpu,
			      ncclComm_t comm, ncclRedOp_t *op);
/* Is the factor of that row read from the memory `on_gpu`, or passed by its value? */
bool lab_factor_on_gpu(const struct lab_rank *me, const struct lab_row *row);
ncclResult_t lab_factor_end(struct lab_rank *me, const struct lab_row *row, ncclComm_t comm,
			    ncclRedOp_t op);

/* comms.c: the communicators of a rank, me->comm and what --comms adds. */
uint32_t lab_comms(const struct lab_config *c);
/* Number of them that are made from an id; the others are made from the first. */
uint32_t lab_comms_inits(const struct lab_rank *me);
int32_t lab_roots(const struct lab_rank *me); /* unique ids of the first communicator */
ncclComm_t lab_comms_pick(struct lab_rank *me, uint32_t part);
void lab_comms_none(struct lab_rank *me);         /* its init failed: it has none, or aborts it */
bool lab_comms_any(struct lab_rank *me);          /* is there one? Any task */
ncclResult_t lab_comms_init(struct lab_rank *me); /* those that failed are NULL */
/* Returns NCCL_COMM_BLOCKING of the run's environment; -1: not set. */
long lab_comm_blocking(const struct lab_config *c);
/* The final result of a call that returned r; ncclInProgress if the run has failed meanwhile. */
ncclResult_t lab_comm_settle(struct lab_rank *me, ncclComm_t comm, ncclResult_t r);
/* For all communicators of a rank, or of all `n` of the task in turn: the first error of any. */
ncclResult_t lab_comms_settle(struct lab_rank *me, ncclResult_t r);
ncclResult_t lab_comms_settle_all(struct lab_rank *const *rank, int32_t n, ncclResult_t r);
ncclResult_t lab_comms_error(struct lab_rank *me); /* the first error of any of them */
ncclResult_t lab_comms_destroy(struct lab_rank *me);
/* The next one to destroy, NULL: none is left; its handle stays where the watch finds it. */
ncclComm_t lab_comms_next_to_end(struct lab_rank *me, uint32_t k);
ncclResult_t lab_comms_abort(struct lab_rank *me); /* a transient one, too; any task */

/* mixed.c: its memory, cudaError_t; all groups of a run, false: a rank failed. */
int lab_mixed_make(struct lab_rank *me);
void lab_mixed_free(struct lab_rank *me);
bool lab_mixed(struct lab_rank *me);

/* refused.c: so many wrong calls as the run has, which leave no trace; `when` names the draw.
 * Reports. */
void lab_refused(struct lab_rank *me, const char *when);
void lab_refused_finalized(struct lab_rank *me, ncclComm_t comm);
void lab_refused_gone(struct lab_rank *me, ncclComm_t comm); /* it was destroyed, or aborted */

/* init_fails.c: those before the first init, or those after the series; false: a rank failed.
 * One of them, by all ranks, with an id of its own. */
bool lab_init_fails(struct lab_rank *me, bool first);
void lab_init_fail(struct lab_rank *me, uint64_t round, ncclUniqueId id);

/* queries.c: a moment at which the rank makes its queries, where the run has them: of one of the
 * run's communicators, or of another one in which it is rank `rank` of `n`. `ends`: that one takes
 * no collectives. And the moment before the rank's first communicator. They report. */
void lab_queries_memory_start(struct lab_rank *me);
/* After the end of the rank's last communicator: has its GPU the memory of that moment again? */
void lab_queries_memory_end(struct lab_rank *me);
void lab_queries_of_run(struct lab_rank *me);
void lab_queries(struct lab_rank *me, ncclComm_t comm, int32_t n, int32_t rank, bool ends);
/* The same between two calls of a group; and by another task of the rank, of the process alone. */
void lab_queries_in_group(struct lab_rank *me, ncclComm_t comm);
void lab_queries_beside(struct lab_rank *me, uint64_t look);

/* call_options.c: the options of one call; `config` may point into it. */
struct lab_options {
	ncclCollConfig_t config;
	ncclConfigExt_t ext[2];
};
/* Draws them, the same on all ranks for a `salt`. False: the call has none. `forces`: it may be
 * refused with ncclInvalidArgument, which lab_options_refused detects. */
bool lab_options_draw(const struct lab_rank *me, uint64_t salt, const struct lab_row *row,
		      bool forces, struct lab_options *out);
bool lab_options_refused(const struct lab_options *o, ncclResult_t r);

/* scene.c: plays the scenes of the run; false: a rank failed. */
bool lab_scenes(struct lab_rank *me);

/* cuda_state.c: at the start of the rank's task; and at the begin and the end (NULL) of a call. */
void lab_cuda_state_start(struct lab_rank *me);
void lab_cuda_state(struct lab_rank *me, const char *call);

/* pause.c: a moment at which the rank may sleep. */
void lab_pause(struct lab_rank *me);

/* leave.c: ends the communicators of a rank that has had an error, as the run has it. */
ncclResult_t lab_leave_trouble(struct lab_rank *me, const char **call);
bool lab_may_try_again(struct lab_rank *me, ncclResult_t error);

/* watchdog.c, idle.c: another task of the rank, where the run has one; false: reported. Its end is
 * waited for. */
bool lab_polls_start(struct lab_rank *me);
void lab_polls_end(struct lab_rank *me);
bool lab_idle_start(struct lab_rank *me);
void lab_idle_end(struct lab_rank *me);

/* queries_ras.c: the same for a client of RAS, which ends before ranks do; and requests when all
 * ranks meet. False: a rank failed. */
bool lab_ras_start(struct lab_rank *me);
void lab_ras_end(struct lab_rank *me);
bool lab_ras_meet(struct lab_rank *me);

/* rank_register.c: false: a rank failed. The rank's two buffers; one of them, at *mem. */
bool lab_buffers_alloc(struct lab_rank *me);
bool lab_buffer_alloc(struct lab_rank *me, uint8_t **mem, size_t bytes);
void lab_buffer_free(struct lab_rank *me, uint8_t **mem);
/* On each of its communicators, where the run registers buffers. */
bool lab_register(struct lab_rank *me);
bool lab_deregister(struct lab_rank *me);
/* Half of the programs that finalize deregister between that and the destroy. */
bool lab_deregisters_late(const struct lab_rank *me);
ncclResult_t lab_deregister_late(struct lab_rank *me, ncclComm_t comm);
/* Other buffers, without contents, where the run renews them. */
bool lab_register_renew(struct lab_rank *me);

/* machines.c */
bool lab_machines_make(struct lab_machines *m, const struct lab_config *c);
void lab_machines_free(struct lab_machines *m);
/* The GPUs of each host of the world that stands; free() it. NULL: no memory. */
uint32_t *lab_world_gpus(void);

/* placement.c: the slot of each rank; free() it. NULL: no memory. */
struct lab_slot *lab_layout(const struct lab_config *c, const uint32_t *machine_gpus);
/* The GPU of the rank in slot `local` of its host. */
int32_t lab_device(const struct lab_config *c, uint32_t local);

/* drive.c */
struct lab_team *lab_team_make(void); /* of a process; free() it */
void lab_team_join(struct lab_team *team, struct lab_rank *me);
/* Makes the call, by the task that drives the rank. False: it was not made, since another rank
 * failed. True: *result is what it returned for this rank, or what its group did. */
bool lab_drive(struct lab_rank *me, const struct lab_drive *call, ncclResult_t *result);
/* With faults a rank's error is one of its whole program; without, one of the run
 * (lab_run.failed). */
void lab_team_trouble(struct lab_rank *me);
bool lab_team_troubled(const struct lab_rank *me); /* false without a team */
/* Were communicators aborted by the rank's watch, or by that of a rank that one task calls together
 * with it? */
bool lab_team_watch_aborted(const struct lab_rank *me);
/* Called by all ranks of the team, once, whether they have communicators left or not: aborts those
 * of all. Returns the result of the rank's own. */
ncclResult_t lab_team_abort(struct lab_rank *me);

/* suspends.c: nothing runs. Suspends and resumes, if the run wants that. False: a call failed. */
bool lab_suspends(struct lab_rank *me);

/* quiet.c: the quiet rank's part of waiting for its stream; nothing for others. */
void lab_quiet_wait(struct lab_rank *me);

/* recover.c */
void lab_watch_deaths(struct lab_run *run);   /* NULL: no more */
bool lab_wait_survivors(struct lab_rank *me); /* until all have left the communicator */
void lab_leave(struct lab_rank *me);          /* instead of that wait: its program ends */
bool lab_recover_alloc(struct lab_rank *me);  /* its buffers and stream, if it lacks some */
ncclResult_t lab_recover(struct lab_rank *me, const char **call);
/* A word that tasks wait on, written where no task runs. */
void lab_word_set(shared_u32 *word, uint32_t value);
/* capacity.c: does a run with so many ranks fit in this computer? Explained. */
int lab_capacity_check(const struct lab_config *c, uint32_t ranks);
/* Is a reduced result of the largest size kept whole? Else it takes no memory. */
bool lab_expect_is_whole(const struct lab_config *c);
/* Bytes of a rank's send buffer: few if it is large and all that it sends is in its receive
 * buffer. */
uint64_t lab_send_bytes(const struct lab_config *c);

/* bound.c: the longest that a collective may take, in exact virtual time; reports a timed series
 * that took longer. */
uint64_t lab_bound_ns(const struct lab_run *run, const struct lab_row *row);
void lab_bound_check(struct lab_rank *me, const struct lab_row *row);

void lab_progress_start(struct lab_run *run);
void lab_progress_tick(void *run);
void lab_progress_row(struct lab_run *run, const struct lab_row *row);
void lab_progress_clear(struct lab_run *run);

void lab_table_header(const struct lab_run *run);
/* Reports a row that all ranks have done: in the table, and by on_row. */
void lab_table_row(struct lab_run *run, const struct lab_row *row);
void lab_table_footer(struct lab_run *run);

/* ticks.c: with config.per_iteration. Errors: a cudaError_t. */
int lab_ticks_make(struct lab_rank *me);
void lab_ticks_free(struct lab_rank *me);
int lab_ticks_record(struct lab_rank *me, uint32_t iteration);
/* After the stream's end. */
int lab_ticks_read(struct lab_rank *me);

/* runner_check.c. A positive errno: explained. `gpus`: of each host's machine; NULL: not needed. */
int lab_check_config(const struct lab_config *c, const uint32_t *gpus);

#endif
