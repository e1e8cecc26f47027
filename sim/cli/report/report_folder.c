/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the files of a failed run, and checks them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/cli/report/report.h"
#include "sim/lab/check/found.h"
#include "sim/lab/search/fail.h"

#define REPORT_FILE_MOST (256u << 20)

static int report_file_read(FILE *f, const char *path, char **text, size_t *bytes)
{
	struct stat st;

	if (fstat(fileno(f), &st) || !S_ISREG(st.st_mode) || st.st_size > REPORT_FILE_MOST) {
		fprintf(stderr, "doppel report: %s: expected a file of at most %u bytes\n", path,
			REPORT_FILE_MOST);
		return EINVAL;
	}
	size_t n = (size_t)st.st_size;
	char *to = malloc(n + 1);
	if (!to) {
		fprintf(stderr, "doppel report: %s: %s\n", path, strerror(ENOMEM));
		return ENOMEM;
	}
	n = fread(to, 1, n, f);
	to[n] = '\0';
	*text = to;
	*bytes = n;
	return 0;
}

int report_file(const char *dir, const char *name, char **text, size_t *bytes)
{
	char path[FAIL_DIR_BYTES + 16];

	*text = NULL;
	*bytes = 0;
	snprintf(path, sizeof path, "%s/%s", dir, name);
	FILE *f = fopen(path, "re");
	if (!f && errno == ENOENT)
		return 0;
	if (!f) {
		int rc = errno;

		fprintf(stderr, "doppel report: %s: %s\n", path, strerror(rc));
		return rc;
	}
	int rc = report_file_read(f, path, text, bytes);
	fclose(f);
	return rc;
}

/* Reads the rest of a position: line and column, for the message. */
static int report_waits_wrong(const char *dir, const char *text, const struct json *j)
{
	size_t line = 1;

	for (const char *at = text; at < j->at; at++)
		line += *at == '\n';
	fprintf(stderr,
		"doppel report: %s/waits.json:%zu: expected %s; the file is damaged or cut off\n",
		dir, line, j->wrong);
	return EINVAL;
}

static int report_read_waits(struct report *r, const char *dir)
{
	size_t bytes;

	if (r->waits.n)
		return 0;
	int rc = report_file(dir, "waits.json", &r->waits_text, &bytes);
	if (rc || !r->waits_text)
		return rc;
	rc = json_read(&r->waits, r->waits_text);
	if (rc == EINVAL)
		return report_waits_wrong(dir, r->waits_text, &r->waits);
	if (rc)
		fprintf(stderr, "doppel report: %s\n", strerror(rc));
	return rc;
}

static int report_read_trace(struct report *r, const char *dir)
{
	char path[FAIL_DIR_BYTES + 16], *text;
	size_t bytes;

	if (r->has_trace)
		return 0;
	int rc = report_file(dir, "trace.json", &text, &bytes);
	if (rc || !text)
		return rc;
	snprintf(path, sizeof path, "%s/trace.json", dir);
	r->has_trace = true;
	return report_trace_read(&r->trace, text, bytes, path);
}

/* Reads the files that `r` does not have yet. */
static int report_read_files(struct report *r, const char *dir)
{
	size_t bytes;
	int rc = 0;

	if (!r->explain)
		rc = report_file(dir, "explain.txt", &r->explain, &bytes);
	if (!rc && !r->log)
		rc = report_file(dir, "log", &r->log, &bytes);
	if (!rc)
		rc = report_read_waits(r, dir);
	return rc ? rc : report_read_trace(r, dir);
}

static bool report_is_complete(const struct report *r)
{
	return r->explain && r->log && r->waits.n && r->has_trace;
}

static int report_read_config(struct report *r)
{
	char path[FAIL_DIR_BYTES + 16];
	struct stat st;
	size_t bytes;

	if (strlen(r->dir) > SCENARIO_PATH_BYTES) {
		fprintf(stderr, "doppel report: the name of the folder is longer than %d bytes\n",
			SCENARIO_PATH_BYTES);
		return ENAMETOOLONG;
	}
	if (stat(r->dir, &st) || !S_ISDIR(st.st_mode)) {
		fprintf(stderr,
			"doppel report: %s is not a folder; expected the folder of a failed run, "
			"such as fail/2a-1f3c\n",
			r->dir);
		return ENOTDIR;
	}
	int rc = report_file(r->dir, "config", &r->config, &bytes);
	if (rc)
		return rc;
	if (!r->config) {
		fprintf(stderr,
			"doppel report: %s has no file config; expected the folder of a failed "
			"run, "
			"such as fail/2a-1f3c\n",
			r->dir);
		return ENOENT;
	}
	snprintf(path, sizeof path, "%s/config", r->dir);
	return scenario_parse(&r->scenario, r->config, bytes, path);
}

int report_read(struct report *r, const char *dir)
{
	r->dir = dir;
	int rc = report_read_config(r);
	if (rc)
		return rc;
	if (!r->scenario.found.kind[0]) {
		fprintf(stderr,
			"doppel report: %s/config has no failure (the key \"found\"); expected the "
			"folder of a run that failed\n",
			dir);
		return EINVAL;
	}
	rc = report_read_files(r, dir);
	if (rc || report_is_complete(r))
		return rc;
	bool logged = r->log != NULL;
	char *again = report_replay(r);
	if (again)
		rc = report_read_files(r, again);
	if (again && !rc && r->log && !logged)
		rc = report_replay_rename(&r->log, again, dir);
	report_replay_remove(again);
	return rc;
}

void report_free(struct report *r)
{
	free(r->config);
	free(r->explain);
	free(r->log);
	free(r->waits_text);
	json_free(&r->waits);
	report_trace_free(&r->trace);
	free(r->rank);
	free(r->link);
}
