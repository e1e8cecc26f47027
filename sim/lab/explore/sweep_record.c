/* SPDX-License-Identifier: BSD-3-Clause */
/* A failing seed, recorded: run once more with everything written down, and compared. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/lab/check/found.h"
#include "sim/lab/explore/sweep_internal.h"

/* The run hangs: the report of a crash shows where. The limit of the other clock must not end that
 * report. */
static void sweep_record_late(int sig)
{
	(void)sig;
	signal(SIGPROF, SIG_IGN);
	signal(SIGALRM, SIG_IGN);
	abort();
}

/* In a child: the seed once more, with everything written down. */
static void sweep_record_child(const struct sweep_config *c, const struct sweep_seed *f)
{
	struct scenario *s = malloc(sizeof *s);
	char dir[FAIL_DIR_BYTES], path[FAIL_DIR_BYTES + 16];
	struct lab_result r;

	ASSERT(s);
	sweep_scenario(c, f->seed, f->side, s);
	signal(SIGINT, SIG_IGN); /* the sweep waits for it */
	signal(SIGTERM, SIG_DFL);
	if (fail_make_dirs(s, c->fail_dir, dir))
		_exit(SIM_PASS);
	snprintf(path, sizeof path, "%s/log", dir);
	int log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
	if (log >= 0) {
		dup2(log, STDOUT_FILENO);
		dup2(log, STDERR_FILENO);
	}
	unsigned seconds = (unsigned)(c->seed_limit_ns / 1000000000 + 1);
	struct itimerval cpu = {.it_value.tv_sec = seconds};
	signal(SIGPROF, sweep_record_late);
	signal(SIGALRM, sweep_record_late);
	setitimer(ITIMER_PROF, &cpu, NULL);
	alarm(SWEEP_LIMIT_REAL * seconds);
	int rc = fail_run(s, c->fail_dir, &r, NULL);
	_exit(rc || !r.failed ? SIM_PASS : SIM_WRONG_RESULT);
}

/* Recorded, it ended by a signal after the same time; what is to be seen is that it hung. */
static void sweep_record_hung(const struct sweep_config *c, struct scenario *s, const char *path)
{
	found_hung(&s->found, c->seed_limit_ns);
	s->found_seconds = (uint32_t)(c->seed_limit_ns / 1000000000);
	scenario_write_file(s, path);
}

/* The same seed fails in the same way, or something is not deterministic. */
static void sweep_record_compare(struct sweep_seed *f, const struct sim_failure *found)
{
	struct sim_failure *was = &f->failure;
	char message[sizeof was->message];

	if (found_compare(was, found) == FOUND_SAME)
		return;
	snprintf(message, sizeof message,
		 "%.24s at step %" PRIu64 ", hash %016" PRIx64 "; recorded, %.24s at step %" PRIu64
		 ", hash %016" PRIx64 ": %.200s",
		 was->kind, was->step, was->hash, found->kind[0] ? found->kind : "nothing",
		 found->step, found->hash, was->message);
	f->outcome = was->verdict = SIM_NOT_DETERMINISTIC;
	snprintf(was->kind, sizeof was->kind, "nondeterminism");
	memcpy(was->message, message, sizeof message);
}

/* Reads the files of the child; its config is the last one that it writes. */
static void sweep_record_read(const struct sweep_config *c, struct sweep_seed *f)
{
	static struct scenario s;
	char path[FAIL_DIR_BYTES + 16];
	bool seen = f->failure.step != 0 && f->outcome != SIM_NOT_DETERMINISTIC;

	snprintf(path, sizeof path, "%s/config", f->dir);
	if (access(path, R_OK) || scenario_read_file(&s, path)) {
		if (seen)
			sweep_record_compare(f, &(struct sim_failure){.rank = -1});
		return;
	}
	f->kept = true;
	if (found_is_hung(&f->failure)) {
		if (s.found.kind[0])
			sweep_record_hung(c, &s, path);
		return;
	}
	if (seen)
		sweep_record_compare(f, &s.found);
	if (!f->failure.step && s.found.kind[0]) /* it took its worker with it */
		f->failure = s.found;
}

int sweep_record(const struct sweep_config *c, struct sweep_seed *f)
{
	static struct scenario s;
	char id[FAIL_ID_BYTES];
	int status = 0;

	ASSERT(c->fail_dir && f->outcome != SIM_PASS && !f->canary);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		sweep_record_child(c, f);
	if (pid < 0)
		return errno;
	while (waitpid(pid, &status, 0) != pid)
		if (errno != EINTR)
			return errno;
	sweep_scenario(c, f->seed, f->side, &s);
	fail_id(&s, id);
	snprintf(f->dir, sizeof f->dir, "%s/%s", c->fail_dir, id);
	/* what was written before the disk was full may be cut off */
	int rc = WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ ? EFBIG
								    : fail_check_room(c->fail_dir);
	if (rc)
		fail_remove(f->dir);
	else
		sweep_record_read(c, f);
	return rc;
}
