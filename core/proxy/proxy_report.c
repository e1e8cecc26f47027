/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports of the operations that the progress tasks run, for people. Only a progress task may read
 * its connections. Another task therefore posts a report as it posts operations, and the progress
 * task fills it in. Without a report this costs nothing. The last user of a report frees it: the
 * progress task may answer after its deadline.
 */
#include "core/proxy/proxy_internal.h"

#define REPORT_OPS     512
#define REPORT_PROXIES 32 /* GPUs of a process */

DOPPEL_STATIC_CHECK(PROXY_REPORT_WAITS == PROXY_RUN_WAITS, "a report has all waits of a run");

struct proxy_report {
	struct proxy_slot slot; /* first; its conn and relay are NULL */
	shared_u32 users;       /* the task that posted it, and progress */
	shared_u32 answered;
	uint32_t n, cut;
	struct proxy_report_op op[REPORT_OPS];
};

/* ---- progress ------------------------------------------------------------------------------- */

static uint32_t report_queued(const struct proxy_conn *pc)
{
	uint32_t n = 0;

	for (const struct proxy_slot *s = pc->queue_first; s;
	     s = (const struct proxy_slot *)s->node.next)
		n++;
	return n;
}

static void report_op(struct proxy_report_op *op, const struct proxy_conn *pc)
{
	const struct proxy_run *run = &pc->run;

	*op = (struct proxy_report_op){
		.comm = pc->comm->id_hash,
		.rank = pc->rank,
		.peer = pc->peer,
		.channel = pc->channel,
		.is_send = pc->is_send,
		.failed = pc->failed,
		.queued = report_queued(pc),
	};
	if (!run->active)
		return;
	op->protocol = run->op.protocol;
	op->op_count = run->op.op_count;
	op->nsteps = run->op.nsteps;
	op->posted = run->posted;
	op->received = run->received;
	op->flushed = run->flushed;
	op->transmitted = run->transmitted;
	op->done = run->done;
	op->began_ns = run->began_ns;
	op->nwaits = (uint32_t)run->nwaits;
	for (int i = 0; i < run->nwaits; i++) {
		op->wait[i].why = run->wait[i].why;
		op->wait[i].from = run->wait[i].from;
	}
}

static void report_drop(struct proxy_report *r)
{
	if (shared_add_u32(&r->users, ~0u, SHARED_ACQ_REL) == 1)
		os_free(r);
}

void proxy_report_answer(const struct proxy_gpu *p, struct proxy_slot *slot)
{
	struct proxy_report *r = (struct proxy_report *)slot;

	for (const struct proxy_state *m = p->members; m; m = m->next)
		for (const struct proxy_conn *pc = m->active; pc; pc = pc->active_next) {
			if (r->n < REPORT_OPS)
				report_op(&r->op[r->n++], pc);
			else
				r->cut++;
		}
	shared_store_u32(&r->answered, 1, SHARED_RELEASE);
	report_drop(r);
}

/* ---- the task that wants it ----------------------------------------------------------------- */

/* Posts a report to each proxy. A proxy in the registry takes all that is posted to it before its
 * progress task ends. Returns their number. */
static int reports_post(struct proxy_report *report[REPORT_PROXIES], int *unposted)
{
	struct registry_node *first = registry_lock();
	int n = 0;

	*unposted = 0;
	for (struct registry_node *node = first; node; node = node->next) {
		struct proxy_gpu *p = (struct proxy_gpu *)node;
		struct proxy_report *r;

		if (node->kind != REGISTRY_PROXY)
			continue;
		r = n < REPORT_PROXIES ? os_alloc(sizeof *r, "proxy report") : NULL;
		*unposted += !r;
		if (!r)
			continue;
		shared_store_u32(&r->users, 2, SHARED_RELAXED);
		report[n++] = r;
		proxy_posted_push(&p->posted, &r->slot.node, &r->slot.node);
	}
	registry_unlock(first);
	return n;
}

static bool report_wait(const struct proxy_report *r, uint64_t deadline_ns, const shared_u32 *stop)
{
	const struct wait w = {
		.on = &r->answered,
		.want = 1,
		.mask = WAIT_MASK_ALL,
		.kind = WAIT_EQ,
		.bytes = 4,
		.why = "a report of the operations of a proxy",
		.from = {.rank = -1, .channel = -1, .step = -1, .object = "proxy progress"},
		.deadline_ns = deadline_ns,
	};

	return os_wait_one(&w, stop) == 0;
}

int proxy_report(void (*each)(void *arg, const struct proxy_report_op *op), void *arg,
		 uint64_t deadline_ns, const shared_u32 *stop, uint32_t *cut)
{
	struct proxy_report *report[REPORT_PROXIES];
	int silent, n = reports_post(report, &silent);

	*cut = 0;
	for (int i = 0; i < n; i++) {
		bool answered = report_wait(report[i], deadline_ns, stop);

		silent += !answered;
		for (uint32_t k = 0; answered && k < report[i]->n; k++)
			each(arg, &report[i]->op[k]);
		*cut += answered ? report[i]->cut : 0;
		report_drop(report[i]);
	}
	return silent;
}
