/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports the user's buffers to a world that watches them (os_use), and to windows: of a
 * collective, of a message, and of all that one launch contains. The world takes the stream's next
 * operation for the one that uses them, so each report directly precedes the launch or the copy.
 */
#include "core/os/check.h"
#include "core/plan/messages.h"
#include "core/plan/plan_internal.h"
#include "core/transport/windows.h"

static void plan_factor_uses(const struct ncclComm *comm, const struct plan_task *t,
			     cudaStream_t stream)
{
	const struct os_use use = {
		.stream = stream,
		.read = (const void *)(uintptr_t)t->factor.bits,
		.read_bytes = steps_type_bytes((int)t->type),
		.what = t->name,
		.number = t->op_count,
		.comm = comm->id_hash,
		.caller = t->caller,
	};

	os_use(&use);
}

void plan_task_uses(const struct ncclComm *comm, const struct plan_task *t, cudaStream_t stream)
{
	const struct os_use use = {
		.stream = stream,
		.read = t->send,
		.write = t->recv,
		.read_bytes = t->send_bytes,
		.write_bytes = t->recv_bytes,
		.what = t->name,
		.number = t->op_count,
		.comm = comm->id_hash,
		.caller = t->caller,
	};

	os_use(&use);
	transport_windows_use(comm, t->send, t->send_bytes);
	transport_windows_use(comm, t->recv, t->recv_bytes);
	if (t->factor.used && t->factor.in_memory)
		plan_factor_uses(comm, t, stream);
}

void plan_message_uses(const struct ncclComm *comm, const struct plan_queued_message *m,
		       cudaStream_t stream)
{
	struct os_use use = {
		.stream = stream,
		.what = m->call.is_send ? "send" : "recv",
		.number = m->number,
		.comm = comm->id_hash,
		.caller = m->call.caller,
	};

	if (m->call.is_send) {
		use.read = m->call.buffer;
		use.read_bytes = m->bytes;
	} else {
		use.write = m->call.buffer;
		use.write_bytes = m->bytes;
	}
	os_use(&use);
	transport_windows_use(comm, m->call.buffer, m->bytes);
}

static void plan_rounds_use(const struct ncclComm *comm, const struct plan_messages *ms,
			    const struct plan *p)
{
	for (int32_t i = 0; i < p->rounds; i++) {
		const struct plan_round *r = &ms->rounds[ms->next + i];

		if (r->send >= 0)
			plan_message_uses(comm, &ms->queue[r->send], p->stream);
		if (r->recv >= 0)
			plan_message_uses(comm, &ms->queue[r->recv], p->stream);
	}
}

void plan_uses(const struct ncclComm *comm, const struct plan_state *st, const struct plan *p)
{
	for (int32_t i = st->launched; i < st->launched + p->taken; i++)
		if (!plan_task_is_empty(comm, &st->queue[i]))
			plan_task_uses(comm, &st->queue[i], p->stream);
	if (p->rounds)
		plan_rounds_use(comm, st->messages, p);
}

static bool plan_ranges_meet(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
	const uint8_t *p = a, *q = b;

	return a_bytes && b_bytes && p < q + b_bytes && q < p + a_bytes;
}

bool plan_queue_uses(const struct ncclComm *comm, const void *at, size_t bytes)
{
	const struct plan_state *st = comm->plan;
	const struct plan_messages *ms = st->messages;
	bool uses = false;

	for (int32_t i = st->launched; i < st->queued; i++)
		uses = uses ||
		       plan_ranges_meet(at, bytes, st->queue[i].send, st->queue[i].send_bytes) ||
		       plan_ranges_meet(at, bytes, st->queue[i].recv, st->queue[i].recv_bytes);
	for (int32_t i = 0; ms && i < ms->queued; i++)
		uses = uses ||
		       plan_ranges_meet(at, bytes, ms->queue[i].call.buffer, ms->queue[i].bytes);
	return uses;
}
