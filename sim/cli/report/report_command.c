/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel report: a failed run as one page. */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/cli/cli.h"
#include "sim/cli/report/report.h"
#include "sim/cli/rules.h"
#include "sim/engine/base/output.h"
#include "sim/lab/search/fail.h"

struct report_options {
	const char *dir, *out;
};

static const struct argp_option report_argp_options[] = {
	{"output", 'o', "FILE", 0, "write the page to FILE (default: report.html in the folder)",
	 0},
	{0},
};

static error_t report_parse(int key, char *arg, struct argp_state *state)
{
	struct report_options *o = state->input;

	cli_take(state, report_argp_options, NULL, key, arg);
	switch (key) {
	case 'o':
		o->out = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (o->dir)
			argp_error(state, "one run at a time; '%s' is too much", arg);
		o->dir = arg;
		return 0;
	case ARGP_KEY_SUCCESS:
		if (!o->dir)
			argp_error(state, "which run? a folder such as fail/2a-1f3c");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int report_write(const struct report *r, const char *path)
{
	FILE *out = output_open("report", path);

	if (!out)
		return EIO;
	report_page(r, out);
	return output_close(out, "report", path);
}

int cli_report_dir(const char *dir, const char *path)
{
	struct report *r = calloc(1, sizeof *r);
	char *own = NULL;
	int rc = r ? report_read(r, dir) : ENOMEM;

	if (!rc)
		rc = report_conclude(r);
	if (!rc && !path && asprintf(&own, "%s/report.html", dir) < 0)
		rc = ENOMEM;
	if (!rc)
		rc = report_write(r, path ? path : own);
	if (rc == ENOMEM)
		fprintf(stderr, "doppel report: %s\n", strerror(rc));
	else if (!rc)
		printf("%s\n", path ? path : own);
	free(own);
	if (r)
		report_free(r);
	free(r);
	return rc ? SIM_USAGE : SIM_PASS;
}

/* When a run has written its config into the folder; 0: it has none. */
static struct timespec report_config_time(const char *dir)
{
	char path[FAIL_DIR_BYTES + 16];
	struct stat st;

	snprintf(path, sizeof path, "%s/config", dir);
	return stat(path, &st) ? (struct timespec){0, 0} : st.st_mtim;
}

static bool report_is_new(const char *dir, struct timespec before)
{
	struct timespec now = report_config_time(dir);

	return now.tv_sec != before.tv_sec || now.tv_nsec != before.tv_nsec;
}

bool cli_report_after(const struct scenario *s, const char *root, const char *path, int *code)
{
	char id[FAIL_ID_BYTES], dir[FAIL_DIR_BYTES];
	int status = 0;

	fail_id(s, id);
	snprintf(dir, sizeof dir, "%s/%s", root, id);
	struct timespec before = report_config_time(dir);
	fflush(NULL);
	pid_t pid = fork();
	*code = SIM_USAGE;
	if (pid == 0)
		return true;
	if (pid < 0) {
		fprintf(stderr, "doppel run: --report: cannot start a process: %s\n",
			strerror(errno));
		return false;
	}
	while (waitpid(pid, &status, 0) != pid)
		if (errno != EINTR)
			return false;
	*code = WIFSIGNALED(status) ? SIM_BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
	if (*code != SIM_PASS && *code != SIM_USAGE && report_is_new(dir, before) &&
	    cli_report_dir(dir, path) != SIM_PASS)
		*code = SIM_USAGE;
	return false;
}

int cli_report(int argc, char **argv)
{
	static const struct argp argp = {
		.options = report_argp_options,
		.parser = report_parse,
		.args_doc = "DIR",
		.doc = "Makes one HTML page of a failed run, from its folder: what happened, which "
		       "rank, call and channel, a timeline, and the commands to go on. The page "
		       "needs no network. Files that the folder lacks come from a replay.\vExit "
		       "status: 0; 1 when the folder is not that of a failed run, of another "
		       "version or damaged.",
	};
	struct report_options o = {0};

	cli_parse(&argp, 0, argc, argv, &o);
	return cli_report_dir(o.dir, o.out);
}
