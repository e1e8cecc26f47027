/* SPDX-License-Identifier: BSD-3-Clause */
/* A run in a child process with an engine of its own: it may fail, crash or hang, and the test
 * reads its standard error afterwards. Included once by a test program. */
#ifndef TESTS_UNIT_ENGINE_CHILD_H
#define TESTS_UNIT_ENGINE_CHILD_H

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/engine/sim.h"

static char said[1 << 16]; /* stderr of the last child, and a last line "hash HEX" */

/* The child's exit code, which is the verdict; SIM_BY_SIGNAL plus the signal that ended it. */
static int child_run(struct sim_config c, void (*fn)(void *), void *arg)
{
	char path[] = "/tmp/doppel_said_XXXXXX";
	int fd = mkstemp(path), status = 0;

	ck_assert_int_ge(fd, 0);
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		dup2(fd, STDERR_FILENO);
		if (sim_start(&c))
			_exit(SIM_USAGE);
		int verdict = sim_run(fn, arg);
		fprintf(stderr, "hash %" PRIx64 "\n", sim_hash());
		sim_stop();
		_exit(verdict);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ssize_t n = pread(fd, said, sizeof said - 1, 0);
	said[n > 0 ? n : 0] = 0;
	close(fd);
	unlink(path);
	return WIFSIGNALED(status) ? SIM_BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

#endif
