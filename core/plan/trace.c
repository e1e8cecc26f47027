/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective in the trace file: a slice for the call, and in it a slice "plan" with the program
 * that will run. In a group, "plan" is in the slice of the group's end.
 */
#include <inttypes.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/device/layout/names.h"
#include "core/plan/plan_internal.h"

static void plan_trace_arg(struct os_trace_slice *s, const char *name, uint64_t number,
			   const char *text)
{
	int n = 0;

	while (n < OS_TRACE_ARGS && s->arg[n].name)
		n++;
	ASSERT(n < OS_TRACE_ARGS);
	s->arg[n].name = name;
	s->arg[n].number = number;
	s->arg[n].text = text;
}

void plan_trace_begin(const struct ncclComm *comm, const struct plan_task *task)
{
	struct os_trace_slice s = {.name = task->call};
	char id[17];

	snprintf(id, sizeof id, "%016" PRIx64, comm->id_hash);
	plan_trace_arg(&s, "comm", 0, id);
	plan_trace_arg(&s, "rank", (uint64_t)comm->rank, NULL);
	plan_trace_arg(&s, "number", plan_next_op(comm), NULL);
	plan_trace_arg(&s, "count", task->count, NULL);
	plan_trace_arg(&s, "bytes", plan_bytes(task), NULL);
	plan_trace_arg(&s, "type", 0, plan_type_name(task->type));
	if (task->reduces)
		plan_trace_arg(&s, "op", 0, plan_op_name(task->op));
	if (task->root >= 0)
		plan_trace_arg(&s, "root", (uint64_t)task->root, NULL);
	if (task->options.tag)
		plan_trace_arg(&s, "tag", task->options.tag, NULL);
	os_trace_begin(&s);
}

void plan_trace_choice(const struct ncclComm *comm, const struct plan_task *task)
{
	struct os_trace_slice s = {.name = "plan"};
	const struct dev_work *w = &task->work;

	if (!os_tracing() || !task->count || comm->nranks == 1)
		return;
	plan_trace_arg(&s, "rank", (uint64_t)comm->rank, NULL);
	plan_trace_arg(&s, "number", task->op_count, NULL);
	plan_trace_arg(&s, "algorithm", 0, dev_algo_name(w->program));
	plan_trace_arg(&s, "protocol", 0, dev_proto_name(w->program));
	plan_trace_arg(&s, "channels", (uint64_t)(w->channel_hi - w->channel_lo + 1), NULL);
	plan_trace_arg(&s, "nthreads", task->nthreads, NULL);
	os_trace_span(&s, os_now_ns());
}

void plan_work_log(const struct plan_task *t, const struct dev_work *w)
{
	const char *symmetric = dev_symmetric_name(w->program);

	INFO(LOG_COLL | LOG_TUNING,
	     "%s: opCount %llx: %zu Bytes, %zu of %s, op %s -> Algo %s proto %s "
	     "channel{Lo..Hi}={%u..%u}%s%s",
	     t->call, (unsigned long long)t->op_count, MAX_OF(t->send_bytes, t->recv_bytes),
	     t->count, type_name_any((int)t->type), t->reduces ? redop_name((int)t->op) : "none",
	     dev_algo_name(w->program), dev_proto_name(w->program), w->channel_lo, w->channel_hi,
	     symmetric ? " Symmetric " : "", symmetric ? symmetric : "");
}
