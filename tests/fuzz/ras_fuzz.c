/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes RAS: the bytes as lines of a client, and as an answer of another process. Each line gives
 * a command or an error that explains it. An answer is refused, or all reports can be made from it.
 */
#include <stdlib.h>
#include <string.h>

#include "core/ras/ras_command.h"
#include "core/ras/ras_job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void fuzz_command(const char *line, size_t n)
{
	struct ras_command c;

	ras_command_parse(line, n, &c);
	if (c.verb == RAS_VERB_BAD) {
		size_t shown = strnlen(c.error, sizeof c.error);

		if (strncmp(c.error, "ERROR: ", 7) != 0 || shown == sizeof c.error ||
		    memchr(c.error, '\n', shown) || !strstr(c.error, "expected"))
			abort();
	} else if (c.verb > RAS_VERB_BAD || c.error[0] || c.timeout_s > RAS_TIMEOUT_MAX_S ||
		   (c.verb == RAS_VERB_MONITOR) != (c.groups != 0)) {
		abort();
	}
}

static void fuzz_lines(const char *text, size_t bytes)
{
	const char *end;

	for (; (end = memchr(text, '\n', bytes)); text = end + 1) {
		fuzz_command(text, (size_t)(end - text));
		bytes -= (size_t)(end - text) + 1;
	}
}

static void fuzz_report(void (*write)(struct ras_text *out, struct ras_job *j), struct ras_job *j)
{
	struct ras_text out = {.bytes = 0};

	write(&out, j);
	if (out.lost || !out.bytes || memchr(out.at, '\0', out.bytes))
		abort();
	ras_text_free(&out);
}

static void fuzz_brief(struct ras_text *out, struct ras_job *j)
{
	ras_status_write(out, j, false);
}

static void fuzz_verbose(struct ras_text *out, struct ras_job *j)
{
	ras_status_write(out, j, true);
}

static void fuzz_json(struct ras_text *out, struct ras_job *j)
{
	ras_json_write(out, j, true);
}

/* The texts of verdicts. */
static void fuzz_verdict(struct ras_text *out, struct ras_job *j)
{
	for (uint32_t i = 0; i < j->comms; i++) {
		(void)ras_calls_differ(out, &j->comm[i]);
		(void)ras_calls_absent(out, j, &j->comm[i], 2);
		(void)ras_formed_absent(out, &j->comm[i], 1);
	}
}

static void fuzz_answer(const struct ras_message *m)
{
	const struct os_addr own = {.family = 4, .port = 1, .ip = {127, 0, 0, 1}};
	struct ras_job j = {.ranks = 0};
	uint32_t process = ras_job_process(&j, &own, 1);

	ras_job_merge(&j, process, m);
	ras_job_merge(&j, process, m); /* a process that answers twice */
	for (uint32_t i = 0; i < j.processes; i++)
		if (j.process[i].state == RAS_NEW)
			j.process[i].state = i % 2 ? RAS_DEAD : RAS_SILENT;
	ras_job_sort(&j);
	fuzz_report(fuzz_brief, &j);
	fuzz_report(fuzz_verbose, &j);
	fuzz_report(fuzz_json, &j);
	fuzz_report(ras_dump_causes, &j);
	fuzz_report(ras_dump_write, &j);
	fuzz_report(fuzz_verdict, &j);
	ras_job_free(&j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint64_t *copy = malloc(bytes + 8); /* aligned, as a received message is */
	struct ras_message m;

	if (!copy)
		abort();
	memcpy(copy, data, bytes);
	fuzz_lines((const char *)copy, bytes);
	if (ras_wire_read(copy, bytes, &m) && m.head.kind == RAS_WIRE_ANSWER)
		fuzz_answer(&m);
	free(copy);
	return 0;
}

#include "tests/fuzz/fuzz_main.h"
