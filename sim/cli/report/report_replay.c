/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a failed run again for a page, in a child, with everything recorded and its output kept. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/cli/report/report.h"
#include "sim/lab/check/found.h"
#include "sim/lab/search/fail.h"

static bool replay_can(struct report *r)
{
	if (found_is_hung(&r->scenario.found)) {
		snprintf(r->remark, sizeof r->remark,
			 "The run hung in real time, so it was not replayed.");
		return false;
	}
	char *differs = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&differs, &bytes);
	int n = f ? scenario_print_differences(&r->scenario, f) : 1;

	if (f)
		fclose(f);
	if (n)
		snprintf(r->remark, sizeof r->remark,
			 "Another build or machine file recorded the run, so it was not replayed: "
			 "%s",
			 differs ? differs : "");
	free(differs);
	return n == 0;
}

/* In the child. Output of the run goes to the folder's log. */
static void replay_child(struct report *r, const char *root)
{
	struct scenario *s = &r->scenario;
	char dir[FAIL_DIR_BYTES], path[FAIL_DIR_BYTES + 16];
	struct lab_result result;

	if (fail_make_dirs(s, root, dir))
		_exit(SIM_USAGE);
	snprintf(path, sizeof path, "%s/log", dir);
	int log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
	if (log < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
		_exit(SIM_USAGE);
	snprintf(path, sizeof path, "%s/choices", r->dir);
	s->lab.sim.choices_in = access(path, R_OK) == 0 ? path : NULL;
	int rc = fail_run(s, root, &result, NULL);
	fflush(NULL);
	_exit(rc ? SIM_USAGE : SIM_PASS);
}

static bool replay_wait(pid_t pid)
{
	int status = 0;

	if (pid < 0)
		return false;
	while (waitpid(pid, &status, 0) != pid)
		if (errno != EINTR)
			return false;
	return true;
}

/* Is the failure of the replay the recorded one? */
static bool replay_is_same(struct report *r, const char *dir)
{
	struct scenario *again = calloc(1, sizeof *again);
	char path[FAIL_DIR_BYTES + 16];

	snprintf(path, sizeof path, "%s/config", dir);
	bool same = again && access(path, R_OK) == 0 && !scenario_read_file(again, path) &&
		    found_compare(&r->scenario.found, &again->found) == FOUND_SAME;
	free(again);
	if (!same)
		snprintf(r->remark, sizeof r->remark,
			 "The replay did not fail in the same way, so its files are not used.");
	return same;
}

static char *replay_dir(const struct report *r, const char *root)
{
	char id[FAIL_ID_BYTES], *dir;

	fail_id(&r->scenario, id);
	return asprintf(&dir, "%s/%s", root, id) < 0 ? NULL : dir;
}

char *report_replay(struct report *r)
{
	const char *tmp = getenv("TMPDIR");
	char root[FAIL_DIR_BYTES];

	if (!replay_can(r))
		return NULL;
	int n = snprintf(root, sizeof root, "%s/doppel-report-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	char *dir = n < (int)sizeof root && mkdtemp(root) ? replay_dir(r, root) : NULL;
	if (!dir) {
		snprintf(r->remark, sizeof r->remark,
			 "No folder for a replay could be made in TMPDIR.");
		return NULL;
	}
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		replay_child(r, root);
	if (replay_wait(pid) && replay_is_same(r, dir))
		return dir;
	if (!r->remark[0])
		snprintf(r->remark, sizeof r->remark, "The replay could not be started.");
	report_replay_remove(dir);
	return NULL;
}

int report_replay_rename(char **text, const char *from, const char *to)
{
	size_t bytes, n = strlen(from);
	char *renamed = NULL;
	FILE *f = open_memstream(&renamed, &bytes);

	if (!f)
		return ENOMEM;
	const char *at = *text, *found;
	for (; (found = strstr(at, from)); at = found + n) {
		fwrite(at, 1, (size_t)(found - at), f);
		fputs(to, f);
	}
	fputs(at, f);
	if (fclose(f)) {
		free(renamed);
		return ENOMEM;
	}
	free(*text);
	*text = renamed;
	return 0;
}

void report_replay_remove(char *dir)
{
	if (!dir)
		return;
	fail_remove(dir);
	*strrchr(dir, '/') = '\0';
	rmdir(dir);
	free(dir);
}
