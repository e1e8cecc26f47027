/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of other processes' tasks: one on a connection. */
#include "core/base/log.h"
#include "core/ras/ras_internal.h"

#define SERVE_REQUEST_MAX (1u << 20) /* bytes of a request */

static void serve_answer(struct ras *r, struct ras_conn *c, const struct ras_message *m)
{
	struct ras_view view = {.ranks = 0};
	struct ras_text dump = {.bytes = 0}, why = {.bytes = 0};

	r->source->view(&view, ras_query_detail((enum ras_wire_kind)m->head.kind));
	if (m->head.kind == RAS_WIRE_DUMP)
		r->source->dump(&dump, &why, os_now_ns() + RAS_DUMP_NS, &r->stop);
	/* an incomplete answer would be taken for a complete one */
	if (view.lost || dump.lost || why.lost)
		c->out.lost = true;
	else
		ras_wire_answer(&c->out, m, &view, &dump, &why);
	ras_text_free(&why);
	ras_text_free(&dump);
	ras_view_free(&view);
	c->finished = true;
}

static void serve_refuse(struct ras_conn *c, const char *why)
{
	INFO(LOG_RAS, "RAS: a connection from another program is closed: %s", why);
	c->finished = true;
}

/* Acts on another process' verdict. The answer is empty. */
static void serve_fail(struct ras *r, struct ras_conn *c, const struct ras_message *m)
{
	const struct ras_view none = {.ranks = 0};
	const struct ras_text no_text = {.bytes = 0};
	struct ras_text why = {.bytes = 0};

	ras_text_bytes(&why, m->text, m->head.text);
	r->source->fail(m->hash[RAS_FAIL_COMM], (enum ras_phase)m->hash[RAS_FAIL_PHASE],
			(uint32_t)m->hash[RAS_FAIL_ERROR], why.at ? why.at : "", &r->stop);
	ras_text_free(&why);
	ras_wire_answer(&c->out, m, &none, &no_text, &no_text);
	c->finished = true;
}

/* Answers the request once it is complete. */
static void serve_request(struct ras *r, struct ras_conn *c)
{
	const struct ras_head *head = (const struct ras_head *)(const void *)c->in.at;
	size_t bytes = c->in.bytes >= sizeof *head ? ras_wire_bytes(head) : sizeof *head;
	struct ras_message m;

	if (!bytes || bytes > SERVE_REQUEST_MAX || (bytes && c->in.bytes > bytes)) {
		serve_refuse(c, "its request is malformed, or of another version");
		return;
	}
	if (c->in.bytes < bytes || c->in.bytes < sizeof *head)
		return;
	if (!ras_wire_read(c->in.at, bytes, &m))
		m.head.kind = RAS_WIRE_ANSWER;
	if (m.head.kind == RAS_WIRE_FAIL)
		serve_fail(r, c, &m);
	else if (m.head.kind != RAS_WIRE_ANSWER)
		serve_answer(r, c, &m);
	else
		serve_refuse(c, "its request is malformed");
}

bool ras_serve_step(struct ras *r, struct ras_conn *c)
{
	bool moved = ras_conn_move(c, c->finished ? 0 : SERVE_REQUEST_MAX + 1);

	if (!c->finished && moved)
		serve_request(r, c);
	if (!c->finished && (c->ended || os_now_ns() >= c->deadline_ns))
		c->finished = true;
	if (!ras_conn_is_over(c))
		return moved;
	ras_conn_close(r, c);
	return true;
}
