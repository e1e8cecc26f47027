/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a seed once more, in the conditions of another user: the program is started anew, with
 * another environment, so that code, heap and stacks lie elsewhere. The scenario goes there as
 * text, as in fail/<id>/config, and the hashes come back through memory that both map. Each second
 * of these runs writes a timeline, too.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/lab/explore/sweep_internal.h"

enum { AGAIN_TEXT_BYTES = SCENARIO_PLAN_BYTES + SCENARIO_MAX_ENV * SCENARIO_ENV_BYTES + 16384 };

struct again_board {
	uint64_t bytes; /* of all of it; checked by the other side */
	char text[AGAIN_TEXT_BYTES];
	struct sim_hash_log log; /* its samples are those below */
	bool over;
	struct lab_result result;
	struct sim_hash_sample sample[];
};

static struct again_board *again_map(int fd, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int again_write(struct again_board *b, const struct scenario *s)
{
	FILE *f = fmemopen(b->text, sizeof b->text, "w");

	if (!f)
		return errno;
	scenario_write(s, f);
	int bad = ferror(f) || fflush(f);
	fclose(f);
	return bad ? E2BIG : 0;
}

/* In the child of a fork: another environment, then another program image. */
static void again_exec(const struct sweep_config *c, const struct scenario *s, int fd)
{
	char number[16], padding[4096];
	size_t n = 1 + s->lab.sim.seed * 37 % (sizeof padding - 1);

	memset(padding, 'x', n - 1);
	padding[n - 1] = 0;
	setenv("SWEEP_PADDING", padding, 1);
	snprintf(number, sizeof number, "%d", fd);
	execl("/proc/self/exe", "doppel", c->again, number, (char *)NULL);
	_exit(SIM_USAGE);
}

static int again_wait(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == SIM_PASS ? 0 : ECHILD;
}

int sweep_again(const struct sweep_config *c, const struct scenario *s, struct sim_hash_log *log,
		struct lab_result *result)
{
	size_t bytes = sizeof(struct again_board) + log->cap * sizeof *log->sample;
	int fd = memfd_create("sweep-again", 0);
	struct again_board *b = NULL;
	int rc = fd < 0 || ftruncate(fd, (off_t)bytes) ? errno : 0;

	if (!rc && !(b = again_map(fd, bytes)))
		rc = errno;
	if (rc || !b)
		goto out;
	b->bytes = bytes;
	b->log = *log;
	rc = again_write(b, s);
	if (rc)
		goto out;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		again_exec(c, s, fd);
	rc = again_wait(pid);
	if (!rc && !b->over)
		rc = ECHILD;
	if (rc)
		goto out;
	*result = b->result;
	log->n = b->log.n;
	log->every = b->log.every;
	memcpy(log->sample, b->sample, log->n * sizeof *log->sample);
out:
	if (b)
		munmap(b, bytes);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* ---- the other side ------------------------------------------------------------------------- */

static void again_failed(const struct lab_result *r, void *arg)
{
	struct again_board *b = arg;

	b->result = *r;
	b->over = true;
	_exit(SIM_PASS);
}

int sweep_again_main(const char *number, void (*tweak)(struct scenario *s))
{
	static struct scenario s;
	char *end;
	long fd = strtol(number, &end, 10);
	off_t bytes = *end ? -1 : lseek((int)fd, 0, SEEK_END);
	struct again_board *b = NULL;

	if (bytes > (off_t)sizeof *b)
		b = again_map((int)fd, (size_t)bytes);
	if (!b || b->bytes != (uint64_t)bytes ||
	    b->log.cap > (b->bytes - sizeof *b) / sizeof b->sample[0] ||
	    scenario_parse(&s, b->text, strnlen(b->text, sizeof b->text), "the seed"))
		return SIM_USAGE;
	b->log.sample = b->sample;
	if (tweak)
		tweak(&s);
	s.lab.sim.hash_log = &b->log;
	s.lab.sim.fault_stats = true;
	if (s.lab.sim.seed % 2) /* a timeline changes nothing */
		s.lab.sim.trace_path = "/dev/null";
	s.lab.on_failed = again_failed;
	s.lab.on_failed_arg = b;
	int rc = lab_run(scenario_lab(&s), &b->result);
	b->over = !rc;
	return rc ? SIM_USAGE : SIM_PASS;
}
