/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries: one request to each process of the job. The answers name further processes, of
 * communicators that this process is not in; they get the request too.
 */
#include <cuda_runtime_api.h>
#include <errno.h>
#include <string.h>

#include "core/base/log.h"
#include "core/bootstrap/sock.h"
#include "core/ras/ras_internal.h"

/* ---- one process ---------------------------------------------------------------------------- */

static void query_log(const struct ras_process *p, const char *what)
{
	char at[SOCK_TEXT_BYTES];

	INFO(LOG_RAS, "RAS: process %d at %s: %s", p->pid, sock_addr_print(&p->addr, at), what);
}

/* Ends the request to a process. error: errno, or 0 if the connection was closed or malformed. */
static void query_process_end(struct ras_query *q, uint32_t process, int error)
{
	struct ras_process *p = &q->job.process[process];
	char text[96];

	p->state = error == ECONNREFUSED ? RAS_DEAD : RAS_SILENT;
	query_log(p, error ? strerror_r(error, text, sizeof text) : "no answer");
}

static void query_process_begin(struct ras *r, struct ras_query *q, uint32_t process)
{
	struct ras_process *p = &q->job.process[process];
	struct ras_conn *c = NULL;
	int fd, e;

	if (ras_known_is_dead(r, &p->addr)) {
		p->state = RAS_DEAD;
		return;
	}
	e = os_connect(&p->addr, &fd);
	if (!e) {
		c = ras_conn_add(r, RAS_CONN_REQUEST, fd);
		e = c ? 0 : ENOMEM;
	}
	if (e) {
		query_process_end(q, process, e);
		return;
	}
	p->state = RAS_RUNNING;
	c->connecting = true;
	c->query = q;
	c->process = process;
	c->deadline_ns = q->deadline_ns;
	if (q->kind == RAS_WIRE_FAIL)
		ras_wire_request(&c->out, q->kind, q->fail, RAS_FAIL_WORDS, &q->why);
	else
		ras_wire_request(&c->out, q->kind, q->job.hash, q->job.hashes, NULL);
	q->running++;
}

/* Takes the answer if it is complete. Returns false if more bytes must come. */
static bool query_answer(struct ras_query *q, struct ras_conn *c)
{
	const struct ras_head *head = (const struct ras_head *)(const void *)c->in.at;
	struct ras_message m;
	size_t bytes;

	if (c->in.bytes < sizeof *head)
		return false;
	bytes = ras_wire_bytes(head);
	if (bytes && c->in.bytes < bytes)
		return false;
	if (bytes == c->in.bytes && ras_wire_read(c->in.at, bytes, &m) &&
	    m.head.kind == RAS_WIRE_ANSWER)
		ras_job_merge(&q->job, c->process, &m);
	else
		query_process_end(q, c->process, 0);
	return true;
}

bool ras_request_step(struct ras *r, struct ras_conn *c)
{
	struct ras_query *q = c->query;
	bool moved = ras_conn_move(c, RAS_WIRE_MAX);
	bool late = c->deadline_ns && os_now_ns() >= c->deadline_ns;

	if (!query_answer(q, c)) {
		if (!c->ended && !c->out.lost && !late)
			return moved;
		q->job.timeouts += late && !c->ended;
		query_process_end(q, c->process, late && !c->ended ? ETIMEDOUT : c->error);
	}
	q->running--;
	ras_conn_close(r, c);
	return true;
}

/* ---- a query -------------------------------------------------------------------------------- */

/* Adds what this process knows. */
static void query_own(struct ras *r, struct ras_query *q)
{
	struct ras_view view = {.ranks = 0};
	struct ras_message m = {.hash = NULL};
	uint32_t own = ras_job_process(&q->job, &r->address, os_proc()->pid);
	struct ras_text dump = {.bytes = 0}, why = {.bytes = 0};

	r->source->view(&view, ras_query_detail(q->kind));
	if (q->kind == RAS_WIRE_DUMP)
		r->source->dump(&dump, &why, os_now_ns() + RAS_DUMP_NS, &r->stop);
	m.head.ranks = view.ranks;
	m.head.members = view.members;
	m.head.calls = view.calls;
	m.head.pairs = view.pairs;
	m.head.text = (uint32_t)dump.bytes;
	m.head.why = (uint32_t)why.bytes;
	m.rank = view.rank;
	m.member = view.member;
	m.call = view.call;
	m.pair = view.pair;
	m.text = dump.at;
	m.why = why.at;
	if (own != UINT32_MAX)
		ras_job_merge(&q->job, own, &m);
	q->job.lost = q->job.lost || view.lost || dump.lost || why.lost;
	ras_text_free(&why);
	ras_text_free(&dump);
	ras_view_free(&view);
}

struct ras_query *ras_query_begin(struct ras *r, struct ras_conn *client, enum ras_wire_kind kind,
				  uint64_t timeout_ns)
{
	struct ras_query *q = os_alloc(sizeof *q, "RAS query");

	if (!q)
		return NULL;
	q->client = client;
	q->kind = kind;
	q->began_ns = os_now_ns();
	q->deadline_ns = timeout_ns ? q->began_ns + timeout_ns : 0;
	q->next = r->queries;
	r->queries = q;
	if (client)
		client->query = q;
	(void)cudaRuntimeGetVersion(&q->job.cuda_runtime);
	(void)cudaDriverGetVersion(&q->job.cuda_driver);
	query_own(r, q);
	return q;
}

static void query_free(struct ras *r, struct ras_query *q)
{
	struct ras_query **at = &r->queries;

	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
	ras_job_free(&q->job);
	ras_text_free(&q->why);
	os_free(q);
}

static void query_end(struct ras *r, struct ras_query *q)
{
	if (q->kind == RAS_WIRE_FAIL) {
		if (!ras_verdict_next(r, q))
			query_free(r, q);
		return;
	}
	q->job.took_ns = os_now_ns() - q->began_ns;
	ras_job_sort(&q->job);
	ras_monitor_learn(r, q);
	if (q->judged && !q->job.lost)
		ras_verdict_judge(r, q);
	if (q->client)
		ras_client_report(q->client, q);
	if (q->log)
		ras_log_report(q);
	query_free(r, q);
}

bool ras_query_step(struct ras *r, struct ras_query *q)
{
	bool late = q->deadline_ns && os_now_ns() >= q->deadline_ns, moved = false;

	while (q->begun < q->job.processes && q->running < RAS_QUERY_RUNNING) {
		uint32_t process = q->begun++;

		moved = true;
		if (q->job.process[process].state != RAS_NEW)
			continue;
		if (!late) {
			query_process_begin(r, q, process);
			continue;
		}
		q->job.timeouts++;
		query_process_end(q, process, ETIMEDOUT);
	}
	if (q->running || q->begun < q->job.processes)
		return moved;
	query_end(r, q);
	return true;
}

void ras_queries_free(struct ras *r)
{
	while (r->queries)
		query_free(r, r->queries);
}
