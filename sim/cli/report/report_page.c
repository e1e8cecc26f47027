/* SPDX-License-Identifier: BSD-3-Clause */
/* The page: HTML with its style, its script and its data inside. Without JavaScript, only the
 * timeline is missing. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/cli/report/report.h"
#include "sim/cli/report/report_escape.h"

enum { PAGE_LOG_MOST = 256 << 10, PAGE_NCCL_MOST = 64 << 10, PAGE_EXPLAIN_MOST = 512 << 10 };

/* The text of a file in this folder, with a NUL. */
#define PAGE_FILE(symbol, file)                                                                    \
	extern const char symbol[];                                                                \
	__asm__(".section .rodata\n"                                                               \
		".global " #symbol "\n"                                                            \
		".hidden " #symbol "\n" #symbol ": .incbin \"" DOPPEL_SOURCE_DIR                   \
		"/sim/cli/report/" file "\"\n"                                                     \
		".byte 0\n"                                                                        \
		".previous\n")
PAGE_FILE(report_css, "report.css");
PAGE_FILE(report_js, "report.js");

/* ---- head ----------------------------------------------------------------------------------- */

static void page_head(const struct report *r, FILE *out)
{
	const struct sim_failure *f = &r->scenario.found;

	fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
	      "<title>",
	      out);
	html_print(out, "doppel report: %s, seed 0x%" PRIx64, f->kind, r->scenario.lab.sim.seed);
	fputs("</title>\n<style>\n", out);
	fputs(report_css, out);
	fputs("</style></head><body>\n", out);
}

static void page_missing(const struct report *r, FILE *out)
{
	const struct {
		const char *name;
		bool there;
	} file[] = {{"explain.txt", r->explain},
		    {"waits.json", r->waits.n},
		    {"trace.json", r->has_trace},
		    {"log", r->log}};

	fputs("<p class=\"remark\">The folder has no ", out);
	for (size_t i = 0, n = 0; i < ARRAY_LEN(file); i++)
		if (!file[i].there)
			fprintf(out, "%s%s", n++ ? ", " : "", file[i].name);
	fputs(". ", out);
	html_text(out, r->remark);
	fputs("</p>\n", out);
}

static void page_verdict(const struct report *r, FILE *out)
{
	const struct sim_failure *f = &r->scenario.found;
	char at[32];

	sim_format_ns(at, f->vtime_ns);
	fputs("<header><h1><span class=\"kind\">", out);
	html_text(out, f->kind);
	fputs("</span> ", out);
	html_text(out, f->message);
	fputs("</h1>\n<p class=\"sum\">", out);
	html_text(out, json_text(&r->waits, report_cause(r), "summary", ""));
	fputs("</p>\n<p class=\"run\">", out);
	if (f->rank >= 0)
		fprintf(out, "rank %d, ", f->rank);
	html_print(out, "step %" PRIu64 ", virtual time %s, seed 0x%" PRIx64 ", hash %016" PRIx64,
		   f->step, at, r->scenario.lab.sim.seed, f->hash);
	html_print(out, ", commit %s, folder %s", r->scenario.commit, r->dir);
	fputs("</p>\n", out);
	if (r->remark[0])
		page_missing(r, out);
	fputs("</header>\n", out);
}

static void page_glance(const struct report *r, FILE *out)
{
	fputs("<h2>At a glance</h2>\n<table class=\"glance\"><tbody>\n", out);
	for (size_t i = 0; i < report_questions_n; i++) {
		const struct report_question *q = &report_questions[i];
		char *answer = report_answer(r, q);

		fprintf(out, "<tr id=\"q-%s\"><th scope=\"row\">%s</th><td>", q->key, q->text);
		html_text(out, answer ? answer : "(no memory)");
		fputs("</td></tr>\n", out);
		free(answer);
	}
	fputs("</tbody></table>\n", out);
}

/* ---- sections ------------------------------------------------------------------------------- */

static void page_section(FILE *out, const char *id, const char *title)
{
	fprintf(out, "<h2 id=\"%s\">%s</h2>\n", id, title);
}

/* Prints the chain of explain.txt: its lines before the list of all tasks. */
static void page_chain(const struct report *r, FILE *out)
{
	const char *from = r->explain ? strstr(r->explain, "why nothing moves") : NULL;

	if (!from)
		return;
	const char *line = strchr(from, '\n'), *end = line ? line + 1 : from + strlen(from);
	while (*end == ' ')
		end += strcspn(end, "\n") + (strchr(end, '\n') ? 1 : 0);
	fputs("<pre>", out);
	html_bytes(out, from, (size_t)(end - from));
	fputs("</pre>\n", out);
}

static void page_why(const struct report *r, FILE *out)
{
	page_section(out, "why", report_is_hang(r) ? "Why nothing moves" : "Waits at the failure");
	if (!report_cause(r))
		fputs("<p>No task waits for another rank.</p>\n", out);
	page_chain(r, out);
	report_graph(r, out);
}

static void page_timeline(FILE *out)
{
	page_section(out, "timeline", "Timeline");
	fputs("<div id=\"lanes\"><p class=\"need\">The timeline needs JavaScript. The tables below "
	      "do not.</p></div>\n",
	      out);
}

static void page_links(const struct report *r, FILE *out)
{
	page_section(out, "links", "Links");
	if (!r->links) {
		fputs("<p>No message of a queue pair has crossed a link between hosts.</p>\n", out);
		return;
	}
	fputs("<div id=\"flows\"></div>\n", out);
	report_print_links(r, out);
}

/* Prints a row: `before`, the folder, `after`. */
static void page_command(FILE *out, const char *does, const char *before, const char *dir,
			 const char *after)
{
	fprintf(out, "<tr><th scope=\"row\">%s</th><td><code>", does);
	html_print(out, "%s %s%s", before, dir, after);
	fputs("</code></td></tr>\n", out);
}

static void page_commands(const struct report *r, FILE *out)
{
	const struct sim_failure *f = &r->scenario.found;
	char *word = shell_word(r->dir), until[48];
	const char *dir = word ? word : "FOLDER";

	snprintf(until, sizeof until, " --gdb --until %" PRIu64, f->before ? f->before : f->step);
	page_section(out, "commands", "Commands");
	fputs("<table class=\"commands\"><tbody>\n", out);
	page_command(out, "the same run again", "doppel replay", dir, "");
	page_command(out, "under gdb, at that moment", "doppel replay", dir, until);
	page_command(out, "the smallest run that fails like it", "doppel shrink", dir, "");
	page_command(out, "all tasks at the end, in gdb",
		     "gdb -x sim/gdb/doppel.py build/fake/doppel", dir, "/tasks.core");
	page_command(out, "a timeline for ui.perfetto.dev", "doppel replay", dir,
		     " --trace t.json");
	fputs("</tbody></table>\n", out);
	free(word);
}

static void page_text(FILE *out, const char *title, const char *text, size_t most, bool open)
{
	size_t n = strlen(text), skip = n > most ? n - most : 0;

	fprintf(out, "<details%s><summary>%s</summary><pre>", open ? " open" : "", title);
	if (skip)
		fprintf(out, "(the last %zu of %zu bytes)\n", most, n);
	html_bytes(out, text + skip, n - skip);
	fputs("</pre></details>\n", out);
}

static void page_configuration(const struct report *r, FILE *out)
{
	page_section(out, "configuration", "Configuration");
	fputs("<h3>Environment</h3><pre>", out);
	for (uint32_t i = 0; i < r->scenario.env_count; i++) {
		html_text(out, r->scenario.env[i]);
		fputc('\n', out);
	}
	if (r->scenario.env_odd[0]) {
		html_print(out, "%s in every other process\n", r->scenario.env_odd);
	}
	fputs("</pre>\n<h3>Plan of faults</h3><pre>", out);
	html_text(out, r->scenario.plan[0] ? r->scenario.plan : "none");
	fputs("</pre>\n", out);
	page_text(out, "The whole configuration", r->config, PAGE_LOG_MOST, false);
}

/* Prints the lines that the stack itself has logged, as NCCL would. */
static void page_nccl(const char *log, FILE *out)
{
	size_t printed = 0;

	fputs("<pre id=\"nccl\">", out);
	for (const char *at = log; *at && printed < PAGE_NCCL_MOST;) {
		size_t n = strcspn(at, "\n");
		const char *mark = memmem(at, n, " NCCL ", 6);

		if (mark) {
			html_bytes(out, at, n);
			fputc('\n', out);
			printed += n + 1;
		}
		at += n + (at[n] ? 1 : 0);
	}
	fputs(printed ? "</pre>\n" : "It logged no line at this NCCL_DEBUG.</pre>\n", out);
}

static void page_log(const struct report *r, FILE *out)
{
	page_section(out, "log", "Log of NCCL");
	if (!r->log) {
		fputs("<p>It is not recorded.</p>\n", out);
		return;
	}
	page_nccl(r->log, out);
	page_text(out, "The whole output of the run", r->log, PAGE_LOG_MOST, false);
}

static void page_script(const struct report *r, FILE *out)
{
	fputs("<script type=\"application/json\" id=\"data\">", out);
	report_data(r, out);
	fputs("</script>\n<script>\n", out);
	fputs(report_js, out);
	fputs("</script>\n</body></html>\n", out);
}

void report_page(const struct report *r, FILE *out)
{
	page_head(r, out);
	page_verdict(r, out);
	page_glance(r, out);
	page_commands(r, out);
	page_why(r, out);
	page_timeline(out);
	page_section(out, "topology", "Ranks and edges");
	report_topology(r, out);
	page_links(r, out);
	page_section(out, "tasks", "Last steps of the tasks that matter");
	report_tasks(r, out);
	page_configuration(r, out);
	page_log(r, out);
	if (r->explain)
		page_text(out, "All tasks at the end (explain.txt)", r->explain, PAGE_EXPLAIN_MOST,
			  false);
	page_script(r, out);
}
