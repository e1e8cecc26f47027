/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After trouble: those that live meet, faults heal, and the survivors make a new communicator. This
 * file keeps a launcher's knowledge: the ranks that died, and those that came.
 */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/run/runner_internal.h"
#include "sim/world/world.h"

/* The run whose deaths are watched; hooks of the world are hung once and have no argument. */
static struct lab_run *recover_run;

void lab_word_set(shared_u32 *word, uint32_t value)
{
	__atomic_store_n(&word->v_, value, __ATOMIC_RELEASE);
	sim_wrote(word, sizeof *word);
}

/* Have all that live come? Called by the rank that comes last, or when the one that was missing
 * dies. */
static void recover_meet_check(struct lab_run *run)
{
	int32_t n = 0;
	if (run->go.v_)
		return;
	for (int32_t r = 0; r < run->count; r++) {
		const struct lab_rank *it = &run->rank[r];
		if (it->dead || it->lost || (it->proc && it->proc->dying))
			continue;
		if (!it->arrived)
			return;
		ASSERT(n < LAB_LIFE_RANKS);
		run->survivor[n++] = r;
	}
	run->survivors = n;
	if (run->config->life)
		run->config->life->healed_ns = sim_now_ns();
	sim_faults_heal();
	lab_word_set(&run->go, 1);
}

/* Prints a launcher's message about a process that ended by a signal. */
static void recover_report_death(struct lab_run *run, const struct lab_rank *it)
{
	char where[64];

	if (it->phase == LAB_OVER)
		snprintf(where, sizeof where, "after its last call");
	else
		snprintf(where, sizeof where, "in %s",
			 it->call ? it->call : lab_phase_name(it->phase));
	run->killed++;
	fprintf(stderr,
		"doppel: rank %d was killed %s; ranks that do not notice are aborted %d s "
		"later\n",
		it->rank, where, (int)(lab_launcher_ns() / 1000000000));
	if (!run->config->errors_allowed)
		sim_note_tolerated("killed", it->rank, "rank %d was killed %s", it->rank, where);
}

static void recover_proc_gone(struct os_proc *proc, bool killed)
{
	struct lab_run *run = recover_run;
	uint32_t deaths = 0;
	/* what is left at the end is swept away, as a bootstrap's root that has not quite ended: no
	 * fault has killed it */
	if (!run || !killed || run->ends || !sim_running())
		return;
	for (int32_t r = 0; r < run->count; r++) {
		struct lab_rank *it = &run->rank[r];
		if (it->proc != proc || it->dead)
			continue;
		it->dead = true;
		if (run->config->life)
			run->config->life->rank[r].dead = true;
		else
			recover_report_death(run, it);
		deaths++;
	}
	if (!deaths)
		return;
	lab_word_set(&run->trouble, run->trouble.v_ + deaths);
	if (run->config->life || run->config->recover)
		recover_meet_check(run);
	if (!run->config->life && !run->failed.v_) {
		run->failed_ns = MAX_OF(sim_now_ns(), 1ull); /* 0: nothing failed */
		lab_word_set(&run->failed, 1);
	}
}

void lab_watch_deaths(struct lab_run *run)
{
	static bool hung;
	if (!hung)
		world_on_proc_exit(recover_proc_gone);
	hung = true;
	recover_run = run;
}

bool lab_wait_survivors(struct lab_rank *me)
{
	struct lab_run *run = me->run;
	struct wait w = wait_word(&run->go, 4, WAIT_EQ, 1,
				  "harness: all survivors to leave the communicator",
				  wait_by(-1, -1, NULL));
	ASSERT(!me->arrived && !me->lost); /* a rank comes to the meeting once, or never */
	me->arrived = true;
	recover_meet_check(run);
	return os_wait_one(&w, NULL) == 0;
}

void lab_leave(struct lab_rank *me)
{
	ASSERT(!me->arrived);
	me->lost = true;
	recover_meet_check(me->run);
}

/* ---- the second communicator ---------------------------------------------------------------- */

static ncclResult_t recover_id(struct lab_rank *me)
{
	struct lab_run *run = me->run;
	struct wait w =
		wait_word(&run->second_id_ready, 4, WAIT_NE, 0, "harness: the survivors' unique id",
			  wait_by(run->survivor[0], -1, NULL));
	if (run->survivor[0] == me->rank) {
		ncclResult_t rc = ncclGetUniqueId(&run->second_id);
		/* 2: no id exists, do not wait for it */
		shared_store_u32(&run->second_id_ready, rc ? 2 : 1, SHARED_RELEASE);
		return rc;
	}
	(void)os_wait_one(&w, NULL);
	return shared_load_u32(&run->second_id_ready, SHARED_ACQUIRE) == 1 ? ncclSuccess
									   : ncclRemoteError;
}

static ncclResult_t recover_sync(ncclComm_t comm, cudaStream_t stream)
{
	for (;;) {
		cudaError_t e = cudaStreamQuery(stream);
		ncclResult_t async = ncclSuccess, rc;
		if (e != cudaErrorNotReady)
			return e == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
		rc = ncclCommGetAsyncError(comm, &async);
		if (rc || async)
			return rc ? rc : async;
	}
}

static ncclResult_t recover_copy(struct lab_rank *me, void *to, const void *from, size_t elements,
				 enum cudaMemcpyKind kind, const char **call)
{
	*call = "cudaMemcpyAsync";
	cudaError_t e = cudaMemcpyAsync(to, from, elements * sizeof(int32_t), kind,
					(cudaStream_t)me->stream);
	return e == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

static struct lab_row recover_row(const struct lab_run *run)
{
	const struct lab_config *c = run->config;
	struct payload p = {.type = ncclInt32, .op = ncclSum, .nranks = run->survivors, .salt = 77};
	int32_t root = MIN_OF(MAX_OF(c->root, 0), run->survivors - 1);

	ASSERT(run->survivors > 0);
	struct lab_row row =
		lab_row_make(c->collective, &p, root, LAB_RECOVER_COUNT * sizeof(int32_t), 1);

	row.in_place = lab_collective_in_place(c->collective, true);
	return row;
}

static void recover_check(struct lab_rank *me, const struct lab_row *row, int32_t rank)
{
	uint64_t where = 0;

	if (!lab_row_wrong(row, rank, me->staging, me->staging + LAB_STAGING_BYTES, &where))
		return;
	lab_judge(me, SIM_WRONG_RESULT, "correctness",
		  "wrong result of %s over the second communicator, element %" PRIu64,
		  row->collective->name, where);
}

static ncclResult_t recover_collective(struct lab_rank *me, int32_t rank, ncclComm_t comm,
				       cudaStream_t stream, const char **call)
{
	struct lab_row row = recover_row(me->run);
	struct lab_span in, out;
	bool spans = lab_row_span(&row, LAB_SEND, rank, 0, &in) &&
		     lab_row_span(&row, LAB_RECV, rank, 0, &out);
	uint8_t *send = row.in_place ? me->recv : me->send;
	ncclResult_t rc;

	ASSERT(spans);
	payload_fill(&row.payload, rank, in.first, in.n, me->staging);
	rc = recover_copy(me, send + in.at * sizeof(int32_t), me->staging, in.n,
			  cudaMemcpyHostToDevice, call);
	if (rc)
		return rc;
	*call = row.collective->call;
	rc = lab_row_start(&row, 0, rank, send, me->recv, comm, stream);
	if (!rc)
		rc = recover_sync(comm, stream);
	if (!rc)
		rc = recover_copy(me, me->staging, me->recv + out.at * sizeof(int32_t), out.n,
				  cudaMemcpyDeviceToHost, call);
	if (!rc)
		rc = recover_sync(comm, stream);
	if (!rc)
		recover_check(me, &row, rank);
	return rc;
}

bool lab_recover_alloc(struct lab_rank *me)
{
	if (me->staging && me->stream && me->send && me->recv)
		return true;
	lab_rank_free(me);
	me->stream = me->start = me->end = NULL;
	me->send = me->recv = NULL;
	return lab_rank_alloc(me);
}

ncclResult_t lab_recover(struct lab_rank *me, const char **call)
{
	struct lab_run *run = me->run;
	ncclComm_t comm = NULL;
	int32_t rank = 0;
	ncclResult_t rc, end;

	ASSERT(me->staging && me->stream && me->send && me->recv); /* lab_recover_alloc */
	while (rank < run->survivors && run->survivor[rank] != me->rank)
		rank++;
	ASSERT(rank < run->survivors);
	*call = "ncclGetUniqueId";
	rc = recover_id(me);
	if (rc)
		return rc;
	*call = "cudaSetDevice";
	if (cudaSetDevice(me->device) != cudaSuccess)
		return ncclUnhandledCudaError;
	/* the series may have filled the buffers in any of its streams */
	*call = "cudaDeviceSynchronize";
	if (cudaDeviceSynchronize() != cudaSuccess)
		return ncclUnhandledCudaError;
	*call = "ncclCommInitRank";
	rc = ncclCommInitRank(&comm, run->survivors, run->second_id, rank);
	if (rc)
		return rc;
	rc = recover_collective(me, rank, comm, me->stream, call);
	end = rc ? ncclCommAbort(comm) : ncclCommDestroy(comm);
	if (end && !rc)
		*call = "ncclCommDestroy";
	return rc ? rc : end;
}
