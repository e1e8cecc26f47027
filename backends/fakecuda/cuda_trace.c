/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The GPU in the trace file. Each stream has a track. Its operations run one after the other, so
 * their slices never overlap. A kernel's slice contains the collectives on which block 0 works.
 * Other blocks work on them at other times, and one track can show only one block. Called only if
 * os_tracing().
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdio.h>

#include "core/device/layout/names.h"
#include "core/device/layout/steps.h"

#define TRACE_STREAM_TEXT 48

static void trace_name(const struct CUstream_st *s, char name[TRACE_STREAM_TEXT])
{
	snprintf(name, TRACE_STREAM_TEXT, "gpu %u stream %u", s->ctx->dev->index, s->number);
}

static const struct sim_track *trace_track(struct CUstream_st *s, int32_t rank)
{
	char name[TRACE_STREAM_TEXT];

	trace_name(s, name);
	sim_track_open(&s->track, SIM_TRACK_RANK, rank, name);
	return &s->track;
}

void fc_trace_kernel_begins(struct fc_kernel *k)
{
	k->op->started_ns = sim_now_ns();
	sim_trace_begin(trace_track(k->op->stream, k->rank),
			&(struct os_trace_slice){.name = k->func->kernel->name,
						 .arg = {{"kernel", k->number, NULL},
							 {"blocks", k->blocks, NULL},
							 {"threads", k->threads, NULL}}});
}

/* Records the stream's throughput: bytes of the collectives over the time of their kernel. A block
 * records only its own send/receive messages, so kernels of messages have no throughput. */
static void trace_throughput(struct fc_kernel *k, const struct sim_track *track)
{
	uint64_t from = k->op->started_ns, now = sim_now_ns();
	char name[TRACE_STREAM_TEXT];

	if (k->shown_of_pair || !k->shown_bytes || now == from)
		return;
	trace_name(k->op->stream, name);
	sim_trace_counter(track, name, "GB/s", from, k->shown_bytes * 1000 / (now - from));
	sim_trace_counter(track, name, "GB/s", now, 0);
}

/* Ends the kernel's slice with the collectives that it executed. */
void fc_trace_kernel_ends(struct fc_kernel *k)
{
	const struct sim_track *track = trace_track(k->op->stream, k->rank);
	struct os_trace_slice s = {.name = k->func->kernel->name};

	if (k->shown_name)
		s = (struct os_trace_slice){.name = s.name,
					    .arg = {{"collective", 0, k->shown_name},
						    {"collectives", k->shown_works, NULL},
						    {"bytes", k->shown_bytes, NULL},
						    {"algorithm", 0, k->shown_algorithm},
						    {"protocol", 0, k->shown_protocol}}};
	sim_trace_end(track, &s);
	trace_throughput(k, track);
}

void fc_trace_copy(struct CUstream_st *s, const struct fc_op *op)
{
	uint64_t now = sim_now_ns();

	sim_trace_span(trace_track(s, op->rank),
		       &(struct os_trace_slice){.name = op->kind == FC_OP_SET ? "set" : "copy",
						.arg = {{"bytes", op->copy.bytes, NULL}}},
		       op->started_ns, now - op->started_ns);
}

/* ---- inside a kernel ------------------------------------------------------------------------ */

/* Records the first messages of a block for all of its batch. */
static void fc_trace_pair_begins(struct fc_kernel *k, const char *name, const struct dev_work *w)
{
	k->shown_name = name;
	k->shown_of_pair = true;
	k->shown_algorithm = "PAIR";
	k->shown_protocol =
		dev_proto_text(w->pair.send_conn ? w->pair.send_proto : w->pair.recv_proto);
	k->shown_works++;
	k->shown_bytes += w->pair.send_bytes;
	sim_trace_begin(trace_track(k->op->stream, k->rank),
			&(struct os_trace_slice){.name = name,
						 .arg = {{"sent", w->pair.send_bytes, NULL},
							 {"received", w->pair.recv_bytes, NULL},
							 {"protocol", 0, k->shown_protocol},
							 {"channel", w->channel_lo, NULL},
							 {"nth", w->pair.nth, NULL}}});
}

void fc_trace_work_begins(struct fc_kernel *k, const char *name, const struct dev_work *w)
{
	uint64_t bytes;

	if (w->kind == DEV_WORK_SEND_RECV) {
		fc_trace_pair_begins(k, name, w);
		return;
	}
	bytes = w->count * steps_type_bytes(w->type);

	k->shown_name = name;
	k->shown_algorithm = dev_algo_name(w->program);
	k->shown_protocol = dev_proto_name(w->program);
	k->shown_works++;
	k->shown_bytes += bytes;
	sim_trace_begin(trace_track(k->op->stream, k->rank),
			&(struct os_trace_slice){
				.name = name,
				.arg = {{"number", w->op_count, NULL},
					{"count", w->count, NULL},
					{"bytes", bytes, NULL},
					{"type", 0, dev_type_name(w->type)},
					{"op", 0, dev_op_name(w->op)},
					{"algorithm", 0, k->shown_algorithm},
					{"protocol", 0, k->shown_protocol},
					{"channels", w->channel_hi - w->channel_lo + 1u, NULL},
					{"warps", w->nwarps, NULL},
					{"of block", 0, NULL}, /* the only block that is shown */
					{w->root < 0 ? NULL : "root", (uint64_t)w->root, NULL}}});
}

void fc_trace_work_ends(struct fc_kernel *k, const char *name)
{
	sim_trace_end(trace_track(k->op->stream, k->rank), &(struct os_trace_slice){.name = name});
}

/* Separates the flows of slots from those of proxies' messages, which have the same channel and
 * step. */
#define TRACE_SLOT_FLOW (1ull << 63)

void fc_trace_slot(struct fc_kernel *k, const struct dev_comm *comm, const struct dev_conn *c,
		   uint64_t step, bool sent)
{
	sim_trace_span(trace_track(k->op->stream, k->rank),
		       &(struct os_trace_slice){
			       .name = sent ? "first slot filled" : "first slot received",
			       .arg = {{sent ? "to" : "from", (uint64_t)c->peer, NULL},
				       {"channel", (uint64_t)c->channel, NULL},
				       {"step", step, NULL}},
			       .flow = os_trace_flow(
				       comm->id | TRACE_SLOT_FLOW, sent ? comm->rank : c->peer,
				       sent ? c->peer : comm->rank,
				       c->channel + DEV_MAX_CHANNELS * (int32_t)c->index, step),
			       .flow_in = !sent,
			       .flow_out = sent},
		       sim_now_ns(), 0);
}
