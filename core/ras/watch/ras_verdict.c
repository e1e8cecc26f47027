/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Verdicts: a query has shown that a communicator cannot go on, and all its ranks get the same
 * error. It goes to their processes in two phases, each a request to all of them:
 *
 *	query --judge--> PREPARE --all have answered, or late--> COMMIT
 *
 * An error of one rank soon reaches others as ncclRemoteError, over the bootstrap's ring. After
 * PREPARE every error of these ranks becomes the verdict, so the order does not matter.
 */
#include "core/include/nccl.h"
#include "core/ras/ras_internal.h"

/* ---- judging -------------------------------------------------------------------------------- */

static const struct ras_late *verdict_late(const struct ras_query *q, uint64_t comm)
{
	for (int i = 0; i < q->lates; i++)
		if (q->late[i].comm == comm)
			return &q->late[i];
	return NULL;
}

/* True if any rank that has answered still runs. */
static bool verdict_is_open(const struct ras_comm *c)
{
	for (uint32_t i = 0; i < c->ranks; i++)
		if (!c->rank[i].r.aborted && !c->rank[i].r.destroyed)
			return true;
	return false;
}

/* Returns the error for the communicator, and its reason; ncclSuccess: it goes on. */
static ncclResult_t verdict_of(struct ras_query *q, const struct ras_comm *c, struct ras_text *why)
{
	const struct ras_late *late = verdict_late(q, c->hash);

	if (!verdict_is_open(c))
		return ncclSuccess;
	if (late)
		ras_text_add(why, "%s; ", late->text);
	if (ras_calls_differ(why, c))
		return ncclInvalidUsage;
	if (!late)
		return ncclSuccess;
	if (why->bytes > 2)
		ras_text_cut(why, why->bytes - 2);
	if (late->collective && !ras_calls_absent(why, &q->job, c, late->number))
		ras_text_add(why, "; all ranks have called it");
	if (late->forms && !ras_formed_absent(why, c, late->number))
		ras_text_add(why, "; all ranks have called one");
	return ncclTimeout;
}

/* ---- making it known ------------------------------------------------------------------------ */

/* Adds the processes of the communicator's ranks, except this one. */
static void verdict_processes(struct ras *r, const struct ras_query *q, const struct ras_comm *c,
			      struct ras_query *v)
{
	uint32_t own = ras_job_process(&v->job, &r->address, os_proc()->pid);

	if (own != UINT32_MAX)
		v->job.process[own].state = RAS_ANSWERED;
	for (uint32_t i = 0; i < c->ranks; i++) {
		const struct ras_process *p = &q->job.process[c->rank[i].process];

		(void)ras_job_process(&v->job, &p->addr, p->pid);
	}
}

static void verdict_phase(struct ras *r, struct ras_query *v, enum ras_phase phase)
{
	v->fail[RAS_FAIL_PHASE] = phase;
	v->began_ns = os_now_ns();
	v->deadline_ns = v->began_ns + ras_seconds(r, RAS_ANSWER_S);
	v->begun = 0;
	r->source->fail(v->fail[RAS_FAIL_COMM], phase, (uint32_t)v->fail[RAS_FAIL_ERROR], v->why.at,
			&r->stop);
}

static void verdict_begin(struct ras *r, const struct ras_query *q, const struct ras_comm *c,
			  ncclResult_t error, struct ras_text *why)
{
	struct ras_query *v = os_alloc(sizeof *v, "RAS verdict");

	if (!v || why->lost) { /* the next look finds the same */
		os_free(v);
		ras_text_free(why);
		return;
	}
	if (why->bytes > RAS_FAIL_TEXT_MAX)
		ras_text_cut(why, RAS_FAIL_TEXT_MAX);
	v->kind = RAS_WIRE_FAIL;
	v->why = *why;
	v->fail[RAS_FAIL_COMM] = c->hash;
	v->fail[RAS_FAIL_ERROR] = error;
	verdict_processes(r, q, c, v);
	verdict_phase(r, v, RAS_PREPARE);
	v->next = r->queries;
	r->queries = v;
}

void ras_verdict_judge(struct ras *r, struct ras_query *q)
{
	for (uint32_t i = 0; i < q->job.comms; i++) {
		struct ras_text why = {.bytes = 0};
		ncclResult_t error = verdict_of(q, &q->job.comm[i], &why);

		if (error)
			verdict_begin(r, q, &q->job.comm[i], error, &why);
		else
			ras_text_free(&why);
	}
}

bool ras_verdict_next(struct ras *r, struct ras_query *v)
{
	if (v->fail[RAS_FAIL_PHASE] == RAS_COMMIT)
		return false;
	for (uint32_t i = 0; i < v->job.processes; i++) {
		struct ras_process *p = &v->job.process[i];

		/* the first is this process */
		if (i && p->state == RAS_ANSWERED)
			p->state = RAS_NEW;
	}
	verdict_phase(r, v, RAS_COMMIT);
	return true;
}
