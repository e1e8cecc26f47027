/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/lab/search/fail.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/macros.h"

static const char *const fail_files[] = {"config",      "choices",    "trace.json", "tasks.core",
					 "explain.txt", "waits.json", "log",        "report.html"};

enum { FAIL_ROOM_BYTES = 64 << 10 };
#define FAIL_TRACE_BYTES (64u << 20) /* of the end of a recorded run's trace */

_Static_assert(FAIL_ID_BYTES >= sizeof "0123456789abcdef-0123", "a seed of 64 bits, and a digest");

/* One recorded run; the engine calls back with it when a signal ends the program. */
struct fail_record {
	struct scenario *scenario;
	const char *dir; /* NULL: nothing is kept */
};

void fail_id(const struct scenario *s, char id[FAIL_ID_BYTES])
{
	snprintf(id, FAIL_ID_BYTES, "%" PRIx64 "-%04x", s->lab.sim.seed,
		 scenario_digest(s) & 0xffff);
}

int fail_severity(enum sim_verdict outcome)
{
	static const enum sim_verdict order[] = {
		SIM_USAGE,       SIM_ERROR,  SIM_LEAK,         SIM_NOT_DETERMINISTIC,
		SIM_NO_PROGRESS, SIM_MISUSE, SIM_WRONG_RESULT, SIM_CRASH};

	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		if (order[i] == outcome)
			return (int)i + 1;
	return 0;
}

void fail_print(FILE *out, const struct scenario *s, const struct sim_failure *f, const char *dir)
{
	char vtime[32];

	sim_format_ns(vtime, f->vtime_ns);
	fprintf(out,
		"FAIL %s rank=%d step=%" PRIu64 " vtime=%s seed=0x%" PRIx64
		" commit=%s cfg=%s:%08x hash=%016" PRIx64 "\n",
		f->kind, f->rank, f->step, vtime, s->lab.sim.seed, build_commit(),
		s->origin[0] ? s->origin : "file", scenario_digest(s), f->hash);
	if (dir) {
		fprintf(out,
			"replay: doppel replay %s\n"
			"gdb:    doppel replay %s --gdb --until %" PRIu64 "\n"
			"files:  %s/{config,choices,trace.json,tasks.core,explain.txt}\n",
			dir, dir, f->before ? f->before : f->step, dir);
	} else {
		fprintf(out, "replay: the same command; with --fail-dir DIR it leaves files for "
			     "doppel replay\n");
	}
	fflush(out);
}

static void fail_keep(const struct fail_record *r, const struct sim_failure *f)
{
	char path[FAIL_DIR_BYTES + 16];

	ASSERT(f->kind[0]); /* found of kind "" is not known */
	r->scenario->found = *f;
	if (r->dir) {
		snprintf(path, sizeof path, "%s/config", r->dir);
		scenario_write_file(r->scenario, path);
	}
	sim_fault_print_plan(stderr);
	fail_print(stderr, r->scenario, f, r->dir);
}

static void fail_last_words(void *arg)
{
	const struct fail_record *r = arg;

	if (sim_failure())
		fail_keep(r, sim_failure());
}

static int fail_make_dir(const char *path)
{
	if (mkdir(path, 0777) == 0 || errno == EEXIST)
		return 0;
	fprintf(stderr, "doppel: cannot make %s: %s\n", path, strerror(errno));
	return errno;
}

int fail_check_room(const char *root)
{
	static const char zeros[4096];
	_Static_assert(FAIL_ROOM_BYTES % sizeof zeros == 0, "whole blocks fill the room");
	char path[FAIL_DIR_BYTES];
	int rc = 0;

	snprintf(path, sizeof path, "%s/.room-%d", root, (int)getpid());
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		return errno;
	for (int i = 0; i < FAIL_ROOM_BYTES / (int)sizeof zeros && !rc; i++) {
		ssize_t n = write(fd, zeros, sizeof zeros);
		rc = n == (ssize_t)sizeof zeros ? 0 : n < 0 ? errno : ENOSPC;
	}
	if (close(fd) && !rc)
		rc = errno;
	unlink(path);
	return rc;
}

int fail_check_root(const char *root)
{
	bool made, there;
	int rc;

	do {
		made = mkdir(root, 0777) == 0;
		there = !made && errno == EEXIST;
		rc = made || there ? fail_check_room(root) : errno;
		if (made)
			rmdir(root);
	} while (there && rc == ENOENT); /* another program that checks has removed it */
	if (rc)
		fprintf(stderr,
			"doppel: --fail-dir %s: %s; expected a folder, or the name of a new one, "
			"with room for files\n",
			root, strerror(rc));
	return rc;
}

int fail_make_dirs(const struct scenario *s, const char *root, char dir[FAIL_DIR_BYTES])
{
	char id[FAIL_ID_BYTES];

	fail_id(s, id);
	snprintf(dir, FAIL_DIR_BYTES, "%s/%s", root, id);
	int rc = fail_make_dir(root);
	return rc ? rc : fail_make_dir(dir);
}

void fail_remove(const char *dir)
{
	char path[FAIL_DIR_BYTES + 16];

	for (size_t i = 0; i < ARRAY_LEN(fail_files); i++) {
		snprintf(path, sizeof path, "%s/%s", dir, fail_files[i]);
		unlink(path);
	}
	rmdir(dir);
}

int fail_move(const char *from, const char *to)
{
	char old[FAIL_DIR_BYTES + 16], path[FAIL_DIR_BYTES + 16];
	int rc = fail_make_dir(to);

	for (size_t i = 0; i < ARRAY_LEN(fail_files) && !rc; i++) {
		snprintf(old, sizeof old, "%s/%s", from, fail_files[i]);
		snprintf(path, sizeof path, "%s/%s", to, fail_files[i]);
		if (rename(old, path) == 0)
			continue;
		if (errno == ENOENT)
			unlink(path);
		else
			rc = errno;
	}
	if (rc)
		fprintf(stderr, "doppel: cannot move %s to %s: %s\n", from, to, strerror(rc));
	else
		rmdir(from);
	return rc;
}

static void fail_on_failed(const struct lab_result *result, void *arg)
{
	/* the run's own hash; that of the last lines is the failure's */
	printf("# trace hash 0x%016" PRIx64 "\n", result->hash);
	fflush(stdout);
	fail_keep(arg, &result->failure);
	sim_exit((int)result->verdict);
}

static int fail_run_as(const struct fail_record *r, struct lab_result *result)
{
	struct sim_config *sim = &r->scenario->lab.sim;
	struct fail_record own = *r;

	ASSERT(!sim->last_words); /* those of another recorder would be lost */
	sim->last_words = fail_last_words;
	sim->last_words_arg = &own;
	r->scenario->lab.on_failed = fail_on_failed;
	r->scenario->lab.on_failed_arg = &own;
	int rc = lab_run(scenario_lab(r->scenario), result);
	sim->last_words = NULL;
	sim->last_words_arg = NULL;
	if (!rc && result->failed)
		fail_keep(r, &result->failure);
	return rc;
}

int fail_run_plain(struct scenario *s, struct lab_result *result)
{
	return fail_run_as(&(struct fail_record){.scenario = s}, result);
}

int fail_run(struct scenario *s, const char *root, struct lab_result *result,
	     char dir_out[FAIL_DIR_BYTES])
{
	struct sim_config *sim = &s->lab.sim;
	char dir[FAIL_DIR_BYTES], path[FAIL_DIR_BYTES + 16], trace[FAIL_DIR_BYTES + 16];
	struct fail_record record = {.scenario = s, .dir = dir};
	bool own_trace = sim->trace_path != NULL;

	int rc = scenario_stamp(s);
	if (!rc)
		rc = fail_check_root(root);
	if (!rc)
		rc = fail_make_dirs(s, root, dir);
	if (rc)
		return rc;
	snprintf(path, sizeof path, "%s/config", dir);
	snprintf(trace, sizeof trace, "%s/trace.json", dir);
	rc = scenario_write_file(s, path);
	if (rc)
		return rc;
	sim->fail_dir = dir;
	if (!own_trace) {
		sim->trace_path = trace;
		sim->trace_last_bytes = FAIL_TRACE_BYTES;
	}
	rc = fail_run_as(&record, result);
	sim->fail_dir = NULL;
	if (!own_trace) {
		sim->trace_path = NULL;
		sim->trace_last_bytes = 0;
	}
	if (rc || !result->failed)
		fail_remove(dir);
	if (dir_out)
		snprintf(dir_out, FAIL_DIR_BYTES, "%s", dir);
	return rc;
}
