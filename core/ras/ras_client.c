/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients: lines in, text out. While a client waits for a query, its further lines stay in the
 * socket. Its connection closes after the report, as NCCL's does.
 */
#include <cuda_runtime_api.h>
#include <string.h>

#include "core/base/log.h"
#include "core/include/nccl.h"
#include "core/ras/ras_internal.h"

static void client_query(struct ras *r, struct ras_conn *c, enum ras_wire_kind kind)
{
	c->finished = !ras_query_begin(r, c, kind, c->timeout_ns);
	if (c->finished)
		ras_text_add(&c->out, "ERROR: There is no memory for a query\n");
}

static void client_command(struct ras *r, struct ras_conn *c, const struct ras_command *cmd)
{
	switch (cmd->verb) {
	case RAS_VERB_PROTOCOL:
		ras_text_add(&c->out, "SERVER PROTOCOL %d\n", RAS_PROTOCOL);
		return;
	case RAS_VERB_TIMEOUT:
		c->timeout_ns = cmd->timeout_s * 1000000000ull;
		break;
	case RAS_VERB_FORMAT:
		c->json = cmd->json;
		break;
	case RAS_VERB_STATUS:
		c->verbose = cmd->verbose;
		client_query(r, c, RAS_WIRE_REPORT);
		return;
	case RAS_VERB_DUMP:
		client_query(r, c, RAS_WIRE_DUMP);
		return;
	case RAS_VERB_MONITOR:
		c->groups = cmd->groups;
		break;
	case RAS_VERB_BAD:
		ras_text_add(&c->out, "%s\n", cmd->error);
		return;
	}
	ras_text_add(&c->out, "OK\n");
}

/* Executes the first line, if it is complete. */
static bool client_line(struct ras *r, struct ras_conn *c)
{
	const char *end = c->in.bytes ? memchr(c->in.at, '\n', c->in.bytes) : NULL;
	struct ras_command cmd;

	if (end) {
		ras_command_parse(c->in.at, (size_t)(end - c->in.at), &cmd);
		ras_text_drop(&c->in, (size_t)(end - c->in.at) + 1);
		client_command(r, c, &cmd);
		return true;
	}
	if (c->in.bytes >= RAS_LINE_BYTES) {
		INFO(LOG_RAS, "RAS: a client sent %zu bytes without a newline; it is disconnected",
		     c->in.bytes);
		ras_text_add(&c->out, "ERROR: The line is too long; expected up to %d bytes\n",
			     RAS_LINE_BYTES);
		c->finished = true;
	}
	return false;
}

bool ras_client_step(struct ras *r, struct ras_conn *c)
{
	bool reads = !c->query && !c->finished;
	bool moved = ras_conn_move(c, reads ? RAS_LINE_BYTES : 0);

	while (!c->query && !c->finished && client_line(r, c))
		moved = true;
	/* half a line of a client that has ended is no command */
	if (c->ended && !c->query && !c->finished)
		c->finished = true;
	if (c->query || !ras_conn_is_over(c))
		return moved;
	ras_conn_close(r, c);
	return true;
}

static void client_write(struct ras_text *out, struct ras_query *q, bool verbose)
{
	struct ras_job *j = &q->job;

	if (q->kind == RAS_WIRE_DUMP)
		ras_dump_causes(out, j);
	ras_text_add(out, "NCCL version %d.%d.%d compiled with CUDA %d.%d\n", NCCL_MAJOR,
		     NCCL_MINOR, NCCL_PATCH, CUDART_VERSION / 1000, CUDART_VERSION / 10 % 100);
	ras_text_add(out, "CUDA runtime version %d, driver version %d\n\n", j->cuda_runtime,
		     j->cuda_driver);
	ras_status_write(out, j, verbose);
	if (q->kind == RAS_WIRE_DUMP)
		ras_dump_write(out, j);
}

void ras_client_report(struct ras_conn *c, struct ras_query *q)
{
	struct ras_text report = {.bytes = 0};

	if (c->json)
		ras_json_write(&report, &q->job, q->kind == RAS_WIRE_DUMP);
	else
		client_write(&report, q, c->verbose);
	if (report.lost || q->job.lost)
		ras_text_add(&c->out, "ERROR: There is no memory for the report\n");
	else
		ras_text_bytes(&c->out, report.at, report.bytes);
	ras_text_free(&report);
	c->query = NULL;
	c->finished = true;
}

void ras_log_report(struct ras_query *q)
{
	struct ras_text report = {.bytes = 0};
	char *line, *end;

	client_write(&report, q, false);
	if (report.lost || q->job.lost)
		WARN("RAS: there is no memory for the report");
	else
		for (line = report.at; (end = strchr(line, '\n')); line = end + 1) {
			*end = '\0';
			os_log_line(line);
		}
	ras_text_free(&report);
}
