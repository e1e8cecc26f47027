/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes what `doppel report` reads of a folder: the text as JSON (waits.json), as a trace
 * (trace.json), and as text of a page. Each is accepted or refused; no text ends a tag or a script.
 * For libFuzzer (clang -fsanitize=fuzzer); fuzz_main.h has a driver without it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/cli/report/report_escape.h"
#include "sim/cli/report/report_json.h"
#include "sim/cli/report/report_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static char *fuzz_text(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes + 1);

	ASSERT(text);
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	return text;
}

static void fuzz_json(const uint8_t *data, size_t bytes)
{
	char *text = fuzz_text(data, bytes);
	struct json j = {0};
	int rc = json_read(&j, text);

	ASSERT(rc == 0 || rc == EINVAL);
	ASSERT(rc == 0 || (j.wrong && j.at >= text && j.at <= text + bytes));
	for (int32_t i = 0; !rc && i < j.n; i++) {
		int32_t next = j.node[i].next, first = j.node[i].first;

		ASSERT(next < 0 || (next > i && next < j.n));
		ASSERT(first < 0 || (first > i && first < j.n));
	}
	json_free(&j);
	free(text);
}

static void fuzz_trace(const uint8_t *data, size_t bytes)
{
	struct report_trace t;
	int rc = report_trace_read(&t, fuzz_text(data, bytes), bytes, "fuzz");

	ASSERT(rc == 0 || rc == EINVAL);
	for (size_t i = 0; !rc && i < t.n; i++) {
		ASSERT(t.slice[i].track >= 0 && t.slice[i].track < t.tracks);
		ASSERT(!i || t.slice[i - 1].at_ns <= t.slice[i].at_ns);
		(void)report_detail(&t.slice[i], "bytes", 0);
	}
	report_trace_free(&t);
}

/* No byte that could end a text is left in it. */
static void fuzz_escape(const uint8_t *data, size_t bytes)
{
	char *in = fuzz_text(data, bytes), *html = NULL, *json = NULL;
	size_t html_n, json_n;
	FILE *f = open_memstream(&html, &html_n), *g = open_memstream(&json, &json_n);

	ASSERT(f && g);
	html_bytes(f, in, bytes);
	html_json(g, in);
	fclose(f);
	fclose(g);
	ASSERT(!strpbrk(html, "<>\"'") && strlen(html) == html_n);
	ASSERT(!strpbrk(json, "<>&\n") && strlen(json) == json_n);
	free(html);
	free(json);
	free(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	int quiet = open("/dev/null", O_WRONLY), real = dup(2);

	ASSERT(quiet >= 0 && real >= 0);
	dup2(quiet, 2); /* discards the messages about lines */
	fuzz_json(data, bytes);
	fuzz_trace(data, bytes);
	fuzz_escape(data, bytes);
	dup2(real, 2);
	close(real);
	close(quiet);
	return 0;
}

#include "tests/fuzz/fuzz_main.h"
