/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes a command line, one argument per line. The program's parsers must accept it and reach the
 * run that it describes, or refuse it with a message. This file includes the command's files. It
 * replaces the calls that would end the program or start the run: each jumps back to the target. In
 * a parser, each jumps to argp first, which frees its memory: a jump past argp would leak a
 * kilobyte per run.
 *
 * With libFuzzer, coverage guides the search. fuzz_main.h has a driver without it.
 */
#include <argp.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/topo/topo.h"
#include "sim/cli/options.h"
#include "dropin/cli/verbs_run.h"
#include "sim/lab/explore/exhaust.h"
#include "sim/lab/search/fail.h"
#include "sim/lab/search/scenario.h"
#include "sim/lab/search/shrink.h"
#include "sim/lab/explore/sweep.h"
#include "sim/world/program/job.h"
#include "sim/world/world.h"
#include "tests/fuzz/world.h"

enum { FUZZ_ARGS = 64 };
enum fuzz_end { FUZZ_RETURNED, FUZZ_REFUSED, FUZZ_RUNS };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static jmp_buf fuzz_back, fuzz_parser_back;
static bool fuzz_in_parser;
static enum fuzz_end fuzz_parser_end; /* FUZZ_RETURNED: no parser has ended the run */

static void __attribute__((noreturn)) fuzz_exit(int code)
{
	enum fuzz_end end = code ? FUZZ_REFUSED : FUZZ_RUNS;

	if (!fuzz_in_parser)
		longjmp(fuzz_back, end);
	if (fuzz_parser_end == FUZZ_RETURNED)
		fuzz_parser_end = end;
	longjmp(fuzz_parser_back, 1);
}

static void __attribute__((noreturn, format(printf, 2, 3)))
fuzz_argp_error(const struct argp_state *state, const char *fmt, ...)
{
	va_list ap;

	(void)state;
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fuzz_exit(SIM_USAGE);
}

/* ---- argp: wrappers of a command's parsers -------------------------------------------------- */

enum { FUZZ_PARSERS = 4 };
static argp_parser_t fuzz_parsers[FUZZ_PARSERS];
static int fuzz_parsers_used;

static error_t fuzz_parse(argp_parser_t parser, int key, char *arg, struct argp_state *state)
{
	error_t rc = EINVAL;

	fuzz_in_parser = true;
	if (setjmp(fuzz_parser_back) == 0)
		rc = parser(key, arg, state);
	fuzz_in_parser = false;
	return rc;
}

#define FUZZ_PARSER(i)                                                                             \
	static error_t fuzz_parser_##i(int key, char *arg, struct argp_state *state)               \
	{                                                                                          \
		return fuzz_parse(fuzz_parsers[i], key, arg, state);                               \
	}
FUZZ_PARSER(0)
FUZZ_PARSER(1)
FUZZ_PARSER(2)
FUZZ_PARSER(3)

/* Returns a copy of `argp` whose parsers are wrapped. Nested children do not occur. */
static const struct argp *fuzz_wrap(const struct argp *argp)
{
	static const argp_parser_t wrapper[FUZZ_PARSERS] = {fuzz_parser_0, fuzz_parser_1,
							    fuzz_parser_2, fuzz_parser_3};
	static struct argp made[FUZZ_PARSERS];
	static struct argp_child child[FUZZ_PARSERS];
	int me = fuzz_parsers_used++, n = 0;

	if (me == FUZZ_PARSERS)
		abort();
	made[me] = *argp;
	if (argp->parser) {
		fuzz_parsers[me] = argp->parser;
		made[me].parser = wrapper[me];
	}
	if (argp->children) {
		for (; argp->children[n].argp; n++) {
			child[n] = argp->children[n];
			child[n].argp = fuzz_wrap(argp->children[n].argp);
		}
		child[n] = (struct argp_child){0};
		made[me].children = child;
	}
	return &made[me];
}

/* Parses like argp_parse. Help ends a command; argp has already printed its own errors. */
static error_t fuzz_argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags,
			       int *index, void *input)
{
	fuzz_parsers_used = 0;
	fuzz_parser_end = FUZZ_RETURNED;
	error_t rc = argp_parse(fuzz_wrap(argp), argc, argv, flags | ARGP_NO_EXIT, index, input);

	if (fuzz_parser_end != FUZZ_RETURNED)
		fuzz_exit(fuzz_parser_end == FUZZ_REFUSED ? SIM_USAGE : SIM_PASS);
	if (rc)
		fuzz_exit(SIM_USAGE);
	return rc;
}

static int fuzz_run(void)
{
	fuzz_exit(SIM_PASS);
}

static int fuzz_execvp(const char *file, char *const *args)
{
	(void)file, (void)args;
	return fuzz_run();
}

static int fuzz_setenv(const char *name, const char *value, int over)
{
	(void)name, (void)value, (void)over;
	return 0;
}

/* a fuzzed name must not create a file */
static int fuzz_path_check(const char *what, const char *path)
{
	(void)what, (void)path;
	return 0;
}

static FILE *fuzz_output_open(const char *what, const char *path)
{
	(void)what, (void)path;
	return fopen("/dev/null", "w");
}

static int fuzz_job(const struct world_job *job)
{
	(void)job;
	return fuzz_run();
}

/* a fuzzed name need not be a program */
static bool fuzz_check_program(const char *name)
{
	(void)name;
	return true;
}

#define FUZZ_RUN(...) fuzz_run()

#define argp_error         fuzz_argp_error
#define argp_parse         fuzz_argp_parse
#define exit               fuzz_exit
#define sim_exit           fuzz_exit
#define main               fuzz_doppel_main
#define fail_run           FUZZ_RUN
#define fail_run_plain     FUZZ_RUN
#define lab_run            FUZZ_RUN
#define lab_check          FUZZ_RUN
#define sweep_run          FUZZ_RUN
#define exhaust_run        FUZZ_RUN
#define shrink_run         FUZZ_RUN
#define sweep_again_main   FUZZ_RUN
#define world_job_run      fuzz_job
#define execvp             fuzz_execvp
#define alarm(s)           FUZZ_RUN()
#define output_check       fuzz_path_check
#define exec_check_program fuzz_check_program
#define output_open        fuzz_output_open
/* one command must not change the environment of the next */
#define setenv fuzz_setenv

int fuzz_doppel_main(int argc, char **argv);

/* clang-format off */
#include "sim/cli/environment.c"
#include "sim/cli/rules.c"
#include "sim/cli/options_table.c"
#include "sim/cli/options_cases.c"
#include "sim/cli/options_rules.c"
#include "sim/cli/options_collective.c"
#include "sim/cli/cli_output.c"
#include "sim/cli/run/plot.c"
#include "sim/cli/run/exec.c"
#include "sim/cli/run/exhaust_command.c"
#include "sim/cli/lists.c"
#include <netdb.h>
/* no name of a drawn line is looked up */
#define getaddrinfo(host, port, hints, found) (*(found) = NULL, (void)(hints), EAI_FAIL)
#include "sim/cli/ras_report.c"
#undef getaddrinfo
#include "sim/cli/run/replay.c"
#include "sim/cli/run/rows.c"
#include "sim/cli/run/run.c"
#include "sim/cli/run/shrink_command.c"
#include "sim/cli/run/sweep_command.c"
#include "sim/cli/run/sweep_merge_command.c"
#include "sim/cli/svg.c"
#include "sim/cli/topo/topo_command.c"
#include "sim/cli/topo/topo_check.c"
#include "sim/cli/topo/topo_check_pci.c"
#include "sim/cli/topo/topo_diff.c"
#include "sim/cli/topo/topo_dot.c"
#include "sim/cli/topo/topo_heads.c"
#include "sim/cli/topo/topo_plot.c"
#include "sim/cli/topo/topo_plot_boxes.c"
#include "sim/cli/topo/topo_why.c"
#include "sim/cli/run/tune.c"
#include "sim/cli/run/tune_measure.c"
#include "sim/cli/run/tune_print.c"
#include "sim/cli/cc/cc.c"
#include "sim/cli/cc/nvcc.c"
#include "sim/cli/cc/nvcc_options.c"
#include "dropin/cli/verbs_run.c"
#include "sim/cli/main.c"
/* clang-format on */

/* Functions that only runs of commands call; none of them is reached. */
bool cli_self(char out[CLI_SELF_BYTES])
{
	snprintf(out, CLI_SELF_BYTES, "/nonexistent/doppel");
	return true;
}

bool cli_gdb_commands(char out[PATH_MAX])
{
	out[0] = '\0';
	return false;
}

/* Compiling and linking run clang. They return, so that the lists of words are freed. */
int cc_compile(const struct cc *c, enum cc_kind kind, const char *file, const char *object)
{
	(void)c, (void)kind, (void)file, (void)object;
	return 0;
}

int cc_ptx(const struct cc *c, const char *file, const char *ptx)
{
	(void)c, (void)file, (void)ptx;
	return 0;
}

int cc_print(const struct cc *c, const char *file)
{
	(void)c, (void)file;
	return 0;
}

int cc_device_link(const struct cc *c, const struct cc_words *objects, const char *out, bool *any)
{
	(void)c, (void)objects, (void)out;
	*any = true;
	return 0;
}

int cc_link(const struct cc *c, const struct cc_words *objects)
{
	(void)c, (void)objects;
	return 0;
}

int cli_processes(int argc, char **argv, const struct cli_options *o)
{
	(void)argc, (void)argv, (void)o;
	return FUZZ_RUN();
}

int cli_process(struct cli_options *o)
{
	(void)o;
	return FUZZ_RUN();
}

int cli_procs(int argc, char **argv, struct cli_options *o)
{
	(void)argc, (void)argv, (void)o;
	return FUZZ_RUN();
}

int cli_procs_one(struct cli_options *o)
{
	(void)o;
	return FUZZ_RUN();
}

int exec_procs(uint32_t count, uint32_t hosts, bool hcas, char **program)
{
	(void)count, (void)hosts, (void)hcas, (void)program;
	return FUZZ_RUN();
}

/* The fuzzer stays in its namespace. */
void cli_hcas_show(uint32_t host)
{
	(void)host;
}

/* No launcher started this process. */
bool cli_launch_find(struct cli_place *place)
{
	*place = (struct cli_place){0};
	return true;
}

int cli_topo_detect(int argc, char **argv)
{
	(void)argc, (void)argv;
	return FUZZ_RUN();
}

int cli_gdb(char **program, const char *const *then)
{
	(void)program, (void)then;
	return FUZZ_RUN();
}

int verbs_pair_run(char **server, char **client)
{
	(void)server, (void)client;
	return FUZZ_RUN();
}

int cli_under_gdb(int argc, char **argv, const char *const *then)
{
	(void)argc, (void)argv, (void)then;
	return FUZZ_RUN();
}

void verbs_space_enter(const struct verbs_run *r)
{
	(void)r;
	FUZZ_RUN();
}

/* Splits `text` into lines, in place. */
static int fuzz_split(char *text, char *argv[FUZZ_ARGS + 2])
{
	int argc = 0;

	argv[argc++] = (char *)"doppel";
	for (char *line; argc <= FUZZ_ARGS && (line = strsep(&text, "\n"));)
		if (*line || text) /* the last line ends with a newline, too */
			argv[argc++] = line;
	argv[argc] = NULL;
	return argc;
}

/* True for inputs with paths whose files might block, such as a terminal. */
static bool fuzz_is_left_out(const char *text)
{
	return strstr(text, "/dev/") || strstr(text, "/proc/");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static char *argv[FUZZ_ARGS + 2], *text;
	static volatile int code, argc;
	struct fuzz_aside aside;

	text = malloc(bytes + 1);
	if (!text)
		abort();
	memcpy(text, data, bytes);
	text[bytes] = 0;
	argc = fuzz_is_left_out(text) ? 0 : fuzz_split(text, argv);
	memset(&exhaust_given, 0, sizeof exhaust_given);
	memset(&replay, 0, sizeof replay);
	aside = fuzz_aside_begin();
	int end = setjmp(fuzz_back);
	code = end == FUZZ_REFUSED ? SIM_USAGE : SIM_PASS;
	if (end == FUZZ_RETURNED && argc)
		code = cli_main(argc, argv);
	fflush(stderr);
	bool silent = !fuzz_aside_end(&aside) && code == SIM_USAGE;

	fuzz_aside_free(&aside, silent);
	if (silent) {
		for (int i = 1; i < argc; i++)
			fprintf(stderr, "argument: %s\n", argv[i]);
		fprintf(stderr, "refused without a message\n");
		abort();
	}
	free(text);
	return 0;
}

#undef main
#undef exit
#include "tests/fuzz/fuzz_main.h"
