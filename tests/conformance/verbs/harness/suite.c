/* SPDX-License-Identifier: BSD-3-Clause */
/* The program: command line, choice of cases, a process for each, TAP. */
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/conformance/verbs/harness/target.h"

struct vs_config vs_config;
int vs_param;
uint64_t vs_long_ns;
uint8_t vs_port_num;

static struct vs_case *suite_first;
static uint64_t suite_available; /* needs */
static const char *suite_program;
static int suite_result_fd = -1; /* in the process of a case */

/* In order of file and line within each file: constructors run in that order, files in the
 * linker's; the list is sorted by area. */
void vs_case_add(struct vs_case *c)
{
	struct vs_case **at = &suite_first;

	while (*at && strcmp((*at)->file, c->file) <= 0)
		at = &(*at)->next;
	c->next = *at;
	*at = c;
}

/* ---- in the process of a case --------------------------------------------------------------- */

static void suite_tell(char tag, const char *text)
{
	char out[1200];
	int n = snprintf(out, sizeof out, "%c%s", tag, text);

	if (n >= (int)sizeof out)
		n = sizeof out - 1;
	if (suite_result_fd < 0 && tag != 'P')
		fprintf(stderr, "%s\n", out + 1);
	else if (suite_result_fd >= 0 && write(suite_result_fd, out, (size_t)n) != n)
		fprintf(stderr, "verbs_suite: result lost: %s\n", out);
}

void vs_fail(const char *file, int line, const char *fmt, ...)
{
	char text[900], out[1100];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	const char *base = strrchr(file, '/');

	snprintf(out, sizeof out, "%s%s:%d: %s", target_where(), base ? base + 1 : file, line,
		 text);
	suite_tell('F', out);
	if (vs_config.here)
		abort();
	_exit(1);
}

void vs_skip(const char *fmt, ...)
{
	char text[900];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	suite_tell('S', text);
	_exit(0);
}

/* Decides which features exist: by the device's report, otherwise by the target's list. */
static char suite_list_text[300]; /* where the two do not agree */

static void suite_needs_decide(void)
{
	for (int i = 0; i < VS_NEED_COUNT; i++) {
		bool lacks = suite_listed(false, vs_need_name[i]);
		bool there = vs_probe->reported >> i & 1;

		if (vs_probe->unreported >> i & 1)
			there = !lacks;
		else if (there == lacks && (there || vs_config.strict))
			snprintf(suite_list_text, sizeof suite_list_text,
				 there ? "the device reports %s: remove it from %s"
				       : "the device does not report %s, which is not in %s",
				 vs_need_name[i],
				 vs_config.expected ? vs_config.expected : "a list of its own");
		suite_available |= (uint64_t)there << i;
	}
}

const char *vs_list_wrong(void)
{
	return suite_list_text[0] ? suite_list_text : NULL;
}

bool vs_has(enum vs_need need)
{
	return suite_available >> need & 1;
}

static void suite_case_body(void *arg)
{
	const struct vs_case *c = arg;

	for (int i = 0; i < VS_NEED_COUNT; i++)
		if ((c->needs >> i & 1) && !vs_has((enum vs_need)i))
			vs_skip("no %s (%s)", vs_need_text[i], vs_need_name[i]);
	c->run();
}

static void suite_case_run(struct vs_case *c)
{
	target_run(c, suite_case_body, c);
	suite_tell('P', "passes");
}

/* ---- the parent ----------------------------------------------------------------------------- */

struct suite_outcome {
	char tag; /* 'P', 'F', 'S' */
	char text[1400];
	FILE *output; /* what the case printed */
};

static int64_t suite_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads the result until the case's process closes its end, or its time is over. */
static bool suite_result_read(int fd, char *text, size_t bytes)
{
	int64_t end = suite_now_ms() + vs_config.case_seconds * 1000;
	size_t at = 0;

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int64_t left = end - suite_now_ms();

		if (left <= 0 || poll(&p, 1, (int)left) == 0)
			return false;
		ssize_t n = read(fd, text + at, bytes - 1 - at);

		if (n <= 0)
			break;
		at += (size_t)n;
	}
	text[at] = 0;
	return true;
}

static void suite_outcome_decide(struct suite_outcome *o, const char *text, int status, bool ended)
{
	o->tag = 'F';
	if (!ended)
		snprintf(o->text, sizeof o->text, "no end after %d s", vs_config.case_seconds);
	else if (WIFSIGNALED(status))
		snprintf(o->text, sizeof o->text, "signal %d (%s) %s", WTERMSIG(status),
			 strsignal(WTERMSIG(status)), text[0] ? text + 1 : "");
	else if (!text[0])
		snprintf(o->text, sizeof o->text, "exit code %d without a result",
			 WEXITSTATUS(status));
	else {
		o->tag = text[0];
		snprintf(o->text, sizeof o->text, "%s", text + 1);
		if (o->tag != 'F' && WEXITSTATUS(status)) {
			o->tag = 'F';
			snprintf(o->text, sizeof o->text, "exit code %d after the end",
				 WEXITSTATUS(status));
		}
	}
}

static void suite_case_fork(struct vs_case *c, struct suite_outcome *o)
{
	char text[1200] = "";
	int fd[2], status = 0;

	o->output = tmpfile();
	if (!o->output || pipe2(fd, O_CLOEXEC)) {
		perror("verbs_suite");
		exit(2);
	}
	fflush(NULL);
	pid_t pid = fork();

	if (pid < 0) {
		perror("verbs_suite: fork");
		exit(2);
	}
	if (!pid) {
		close(fd[0]);
		dup2(fileno(o->output), 1);
		dup2(fileno(o->output), 2);
		suite_result_fd = fd[1];
		suite_case_run(c);
		fflush(NULL);
		_exit(0);
	}
	close(fd[1]);
	bool ended = suite_result_read(fd[0], text, sizeof text);

	close(fd[0]);
	if (!ended)
		kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	suite_outcome_decide(o, text, status, ended);
}

/* The last lines: that is where a sanitizer speaks. */
static void suite_output_show(FILE *f)
{
	char line[600];
	int lines = 0;

	rewind(f);
	while (fgets(line, sizeof line, f))
		lines++;
	rewind(f);
	while (fgets(line, sizeof line, f))
		if (lines-- <= 200)
			printf("#   %s%s", line, strchr(line, '\n') ? "" : "\n");
}

/* The area: the file's base name without _cases.c, or without .c. */
static int suite_area(const char **base, const char *file)
{
	const char *slash = strrchr(file, '/');

	*base = slash ? slash + 1 : file;
	const char *end = strstr(*base, "_cases.");

	return (int)(end ? end - *base : (ptrdiff_t)strcspn(*base, "."));
}

static void suite_full_name(const struct vs_case *c, int param, char *out, size_t bytes)
{
	const char *base;
	int area = suite_area(&base, c->file);
	int n = snprintf(out, bytes, "%.*s.%s", area, base, c->name);

	if (c->count && c->label)
		snprintf(out + n, bytes - (size_t)n, "/%s", c->label(param));
	else if (c->count)
		snprintf(out + n, bytes - (size_t)n, "/%d", param);
}

static struct suite_totals {
	int number, passed, failed, skipped, different;
} suite_totals;

/* The command that runs the failed case again, with the seed that it failed with. */
static void suite_again(const char *name)
{
	const struct vs_config *c = &vs_config;

	printf("# again: %s --seed %llu", suite_program, (unsigned long long)vs_probe->seed);
	if (c->engine)
		printf(" --engine %s", c->engine);
	if (c->steps)
		printf(" --steps %d", c->steps);
	if (c->expected)
		printf(" --expected %s", c->expected);
	printf(" --timeout %d '%s'\n", c->case_seconds, name);
}

static void suite_case_report(const char *name, struct suite_outcome *o)
{
	struct suite_totals *t = &suite_totals;
	struct suite_row *differs = suite_listed(true, name);

	o->text[strcspn(o->text, "\n")] = 0;
	t->number++;
	if (o->tag == 'S' && vs_config.strict && !strncmp(o->text, "the device reports", 18))
		o->tag = 'F'; /* a double has no small tables that are not documented */
	if (o->tag == 'F' && differs) {
		printf("ok %d %s # DIFFERS as documented: %s\n", t->number, name, o->text);
		t->different++;
		differs->fails++;
	} else if (o->tag == 'P') {
		printf("ok %d %s\n", t->number, name);
		t->passed++;
		if (differs)
			differs->passes++;
	} else if (o->tag == 'S') {
		printf("ok %d %s # SKIP %s\n", t->number, name, o->text);
		t->skipped++;
	} else {
		printf("not ok %d %s # %s\n", t->number, name, o->text);
		suite_again(name);
		t->failed++;
	}
	if (o->output && ((o->tag == 'F' && !differs) || vs_config.verbose))
		suite_output_show(o->output);
	fflush(stdout);
}

/* ---- cases and main ------------------------------------------------------------------------- */

/* Queries the device, in a process of its own like any case. */
static void suite_probe(void)
{
	struct vs_case probe = {.name = "probe", .file = "suite.c", .run = vs_probe_run};
	struct suite_outcome o = {.tag = 'P'};

	vs_probe = mmap(NULL, sizeof *vs_probe, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (vs_probe == MAP_FAILED) {
		perror("verbs_suite");
		exit(2);
	}
	if (vs_config.here)
		suite_case_run(&probe);
	else
		suite_case_fork(&probe, &o);
	if (o.tag != 'P') {
		printf("Bail out! %s\n", o.text);
		suite_output_show(o.output);
		exit(2);
	}
	if (o.output)
		fclose(o.output);
	suite_needs_decide();
}

static void suite_list(const struct vs_case *c, const char *name)
{
	printf("%s", name);
	for (int i = 0; i < VS_NEED_COUNT; i++)
		if (c->needs >> i & 1)
			printf(" %s", vs_need_name[i]);
	printf("\n");
}

static bool suite_wanted(const char *name, char **patterns, int n)
{
	if (vs_config.except && !fnmatch(vs_config.except, name, 0))
		return false;
	for (int i = 0; i < n; i++)
		if (!fnmatch(patterns[i], name, 0))
			return true;
	return !n;
}

/* list: only names. Returns how many there were. */
static int suite_each(bool list, char **patterns, int n)
{
	char name[200];
	int seen = 0;

	for (struct vs_case *c = suite_first; c; c = c->next) {
		for (vs_param = 0; vs_param < (c->count ? c->count : 1); vs_param++) {
			suite_full_name(c, vs_param, name, sizeof name);
			if (!suite_wanted(name, patterns, n))
				continue;
			seen++;
			if (list) {
				suite_list(c, name);
			} else if (vs_config.here) {
				suite_case_run(c);
				printf("ok %s\n", name);
			} else {
				struct suite_outcome o;

				int64_t from_ms = suite_now_ms();

				vs_long_ns =
					suite_listed(true, name) ? VS_SECOND : vs_config.long_ns;

				suite_case_fork(c, &o);
				suite_case_report(name, &o);
				if (vs_config.times)
					printf("# %lld ms\n",
					       (long long)(suite_now_ms() - from_ms));
				fclose(o.output);
			}
		}
	}
	return seen;
}

int main(int argc, char **argv)
{
	bool list = false;
	int patterns = 0;

	vs_config = (struct vs_config){
		.port = 1, .gid = -1, .case_seconds = 30, .long_ns = 20 * VS_SECOND};
	target_defaults(&vs_config);
	suite_program = argv[0];
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--list")) {
			list = true;
		} else if (!strcmp(argv[i], "--help")) {
			suite_usage(stdout);
			return 0;
		} else if (argv[i][0] == '-') {
			if (!suite_option(argc, argv, &i)) {
				fprintf(stderr, "verbs_suite: what is %s?\n", argv[i]);
				suite_usage(stderr);
				return 2;
			}
		} else {
			argv[1 + patterns++] = argv[i];
		}
	}
	vs_port_num = (uint8_t)vs_config.port;
	vs_long_ns = vs_config.long_ns;
	if (vs_config.preload)
		target_preload();
	if (!list)
		suite_probe();
	int seen = suite_each(list, argv + 1, patterns);
	const struct suite_totals *t = &suite_totals;

	if (!seen) {
		fprintf(stderr, "verbs_suite: no case has such a name\n");
		return 2;
	}
	if (list || vs_config.here)
		return 0;
	suite_totals.failed += suite_rows_check(!patterns, &suite_totals.number);
	printf("1..%d\n", t->number);
	if (t->different)
		printf("# %d differ as documented\n", t->different);
	printf("%d passed, %d failed, %d skipped\n", t->passed + t->different, t->failed,
	       t->skipped);
	return t->failed ? 1 : 0;
}
