/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered buffers in plans. Other processes map the receive buffers and outputs of a group
 * before its first launch, because CUDA may wait for kernels when it maps memory. A collective uses
 * them if its results go directly from output to output: a ring in SIMPLE
 * (core/device/prims/prims_result.h). Also programs on windows.
 */
#include <stdio.h>

#include "core/plan/messages.h"
#include "core/rank/cuda_result.h"
#include "core/transport/windows.h"

struct registered_recv plan_registered_recv(const struct plan_queued_message *m)
{
	return (struct registered_recv){m->call.peer, m->call.buffer, m->bytes};
}

/* A task without elements has no work, and so no program. */
static bool plan_task_has_results(const struct plan_task *t)
{
	struct dev_program_row row = steps_program(t->work.program);

	return t->count && row.algo == DEV_RING && row.proto == DEV_SIMPLE &&
	       (row.func == DEV_ALL_REDUCE || row.func == DEV_ALL_GATHER);
}

bool plan_registers(const struct ncclComm *comm)
{
	const struct plan_state *st = comm->plan;

	if (!comm->registered)
		return false;
	if (plan_messages_pending(st->messages))
		return true;
	for (int32_t i = st->launched; i < st->queued; i++)
		if (plan_task_has_results(&st->queue[i]))
			return true;
	return false;
}

uint64_t plan_message_next(const struct ncclComm *comm, int32_t peer)
{
	const struct plan_messages *ms = comm->plan->messages;

	return ms ? ms->received[peer] + ms->receives[peer] : 0;
}

/* Returns true at the first call with this number (struct dev_ring), if registered buffers are
 * possible for it. */
static bool plan_rank_is_new(uint32_t *met, uint32_t number)
{
	const uint32_t bit = 1u << number;
	const bool is_new = number < DEV_WORK_RANKS && !(*met & bit);

	*met |= bit;
	return is_new;
}

static ncclResult_t plan_task_ask(struct ncclComm *comm, const struct plan_task *t)
{
	ncclResult_t rc = ncclSuccess;
	uint32_t met = 0;

	for (int32_t c = t->work.channel_lo; c <= t->work.channel_hi && !rc; c++) {
		const struct channel *ch = &comm->channels[c];
		const struct registered_recv r = {ch->ring_prev, t->recv, t->recv_bytes};

		if (plan_rank_is_new(&met, ch->ring_prev_number))
			rc = transport_registered_ask(comm, &r,
						      plan_message_next(comm, ch->ring_prev));
	}
	return rc;
}

static ncclResult_t plan_messages_ask(struct ncclComm *comm, const struct plan_messages *ms)
{
	ncclResult_t rc = ncclSuccess;

	for (int32_t i = 0; ms && i < ms->queued && !rc; i++) {
		const struct registered_recv r = plan_registered_recv(&ms->queue[i]);

		if (ms->queue[i].bytes && !ms->queue[i].call.is_send)
			rc = transport_registered_ask(comm, &r, ms->queue[i].number);
	}
	return rc;
}

ncclResult_t plan_registered_exchange(struct ncclComm *comm)
{
	struct plan_state *st = comm->plan;
	ncclResult_t rc;

	if (!plan_registers(comm))
		return ncclSuccess;
	rc = cuda_result(cudaSetDevice(comm->cuda_dev), "cudaSetDevice to map registered buffers");
	if (!rc)
		rc = plan_captures_release(comm, &st->captures);
	if (!rc)
		rc = transport_registered_take(comm);
	if (!rc)
		rc = plan_messages_ask(comm, st->messages);
	for (int32_t i = st->launched; i < st->queued && !rc; i++)
		if (plan_task_has_results(&st->queue[i]))
			rc = plan_task_ask(comm, &st->queue[i]);
	return rc;
}

uint64_t plan_registered_at(struct ncclComm *comm, const struct plan_capture *capture,
			    const struct registered_recv *r)
{
	struct registered_export *of;
	uint64_t at = transport_registered_at(comm, r, &of);

	if (at && capture->id && !plan_capture_keep(comm, &comm->plan->captures, capture, of))
		return 0;
	return at;
}

/* Lets the previous rank on the channel write into the output. */
static void plan_output_offer(struct ncclComm *comm, const struct channel *ch, struct plan_task *t,
			      const struct plan_capture *capture)
{
	const struct registered_recv r = {ch->ring_prev, t->recv, t->recv_bytes};
	struct registered_results results =
		transport_registered_results(comm, ch->ring_prev, t->op_count);
	uint64_t at = plan_registered_at(comm, capture, &r);

	OS_PROBE("registered.early",
		 "the rank before has launched this collective already, and does not look",
		 at && !results.addressed);
	at = results.addressed ? at : 0;
	OS_PROBE("registered.result", "results go straight into an output of another process",
		 at != 0);
	t->work.offers |= (uint8_t)(results.offers << ch->ring_prev_number);
	t->work.mapped[ch->ring_prev_number] = at;
}

static void plan_output_take(const struct ncclComm *comm, const struct channel *ch,
			     struct plan_task *t)
{
	struct registered_results results =
		transport_registered_results(comm, ch->ring_next, t->op_count);

	t->work.takes |= (uint8_t)(results.takes << ch->ring_next_number);
}

void plan_task_register(struct ncclComm *comm, struct plan_task *t,
			const struct plan_capture *capture)
{
	uint32_t before = 0, after = 0;

	if (!comm->registered || !plan_task_has_results(t))
		return;
	t->work.offers = t->work.takes = 0;
	for (int32_t c = t->work.channel_lo; c <= t->work.channel_hi; c++) {
		const struct channel *ch = &comm->channels[c];

		if (plan_rank_is_new(&before, ch->ring_prev_number))
			plan_output_offer(comm, ch, t, capture);
		if (plan_rank_is_new(&after, ch->ring_next_number))
			plan_output_take(comm, ch, t);
	}
}

/* ---- programs on windows (core/algo/symmetric.c) ------------------------------------------------
 *
 * NCCL requires that the ranks of a call use the same window, registered with
 * NCCL_WIN_COLL_SYMMETRIC, and the same offset in it. Each rank therefore decides by its own
 * buffers. A world that compares calls reports ranks that differ (agree.c).
 */

void plan_task_windows(const struct ncclComm *comm, struct plan_task *t)
{
	t->in_windows = !t->count || (transport_window_memory(comm, NULL) &&
				      transport_window_each(comm, t->send, t->send_bytes, NULL) &&
				      transport_window_each(comm, t->recv, t->recv_bytes, NULL));
}

/* In SIMPLE a rank reads the inputs of other ranks. It does not know their factors, which the
 * program chose. An all-to-all in SIMPLE stores into outputs while other ranks read inputs. */
uint64_t plan_symmetric_programs(const struct plan_task *t)
{
	uint64_t programs = t->in_windows ? DEV_SYMMETRIC_BITS : 0;

	if (t->factor.used)
		programs &= ~(1ull << DEV_ALL_REDUCE_SYM_SIMPLE |
			      1ull << DEV_REDUCE_SCATTER_SYM_SIMPLE);
	if (t->func == DEV_ALL_TO_ALL && t->send == t->recv)
		programs &= ~(1ull << DEV_ALL_TO_ALL_SYM_SIMPLE);
	return programs;
}

static const struct plan_task *plan_symmetric_task(const struct plan_state *st,
						   const struct plan *p)
{
	const uint64_t number = p->work[0].op_count;
	int32_t i = st->launched;

	while (!st->queue[i].count || st->queue[i].work.op_count != number)
		i++;
	ASSERT(i < st->queued);
	return &st->queue[i];
}

void plan_symmetric_args(const struct ncclComm *comm, struct plan_state *st, const struct plan *p)
{
	const struct plan_task *t = plan_symmetric_task(st, p);
	struct dev_sym_args *args = &st->symmetric;
	void *mem[DEV_SYM_RANKS], *send[DEV_SYM_RANKS], *recv[DEV_SYM_RANKS];
	bool all = transport_window_memory(comm, mem);

	all = transport_window_each(comm, t->send, t->send_bytes, send) && all;
	all = transport_window_each(comm, t->recv, t->recv_bytes, recv) && all;
	ASSERT(all && comm->nranks <= DEV_SYM_RANKS); /* a window that a call uses stays */
	OS_PROBE("windows.program_lines", "a call on windows pushes lines",
		 steps_program(t->work.program).proto == DEV_LL);
	OS_PROBE("windows.program_loads", "a call on windows loads and stores directly",
		 steps_program(t->work.program).proto == DEV_SIMPLE);
	*args = (struct dev_sym_args){.magic = DEV_COMM_MAGIC,
				      .warp_width = st->warp_width,
				      .rank = comm->rank,
				      .nranks = comm->nranks,
				      .abort = comm->dev_abort,
				      .profile = profiler_kernel_memory(comm),
				      .work = p->work[0]};
	for (int32_t r = 0; r < comm->nranks; r++)
		args->of[r] = (struct dev_sym_rank){mem[r], send[r], recv[r]};
}

void plan_symmetric_text(const struct ncclComm *comm, const struct plan_task *t, char *text,
			 size_t bytes)
{
	const enum dev_program p = (enum dev_program)t->work.program;
	const bool reads = p == DEV_ALL_REDUCE_SYM_SIMPLE || p == DEV_REDUCE_SCATTER_SYM_SIMPLE;
	const bool writes = p == DEV_ALL_REDUCE_SYM_SIMPLE || p == DEV_ALL_GATHER_SYM_SIMPLE ||
			    p == DEV_ALL_TO_ALL_SYM_SIMPLE;
	uint32_t number[2] = {0, 0};
	size_t offset[2] = {0, 0};

	text[0] = '\0';
	if (!t->in_windows || !plan_work_is_symmetric(&t->work))
		return;
	number[0] = transport_window_number(comm, t->send, t->send_bytes, &offset[0]);
	number[1] = transport_window_number(comm, t->recv, t->recv_bytes, &offset[1]);
	if (reads && writes)
		snprintf(text, bytes, " windows=%u+%zu,%u+%zu", number[0], offset[0], number[1],
			 offset[1]);
	else if (reads || writes)
		snprintf(text, bytes, " window=%u+%zu", number[writes], offset[writes]);
	else
		snprintf(text, bytes, " windows");
}
