/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests of the hang explainer: runs ranks (tests/ranks.h) that hang, in a process of their own,
 * and returns what the explainer prints: why nothing moves, and in *tasks (not NULL) the list of
 * tasks. The text stays until the next call.
 */
#ifndef TESTS_SIM_EXPLAIN_RUN_H
#define TESTS_SIM_EXPLAIN_RUN_H

#include <check.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ranks.h"

static inline const char *explain_run(const struct ranks_config *config,
				      void (*fn)(int32_t rank, int32_t nranks, void *arg),
				      void *arg, const char **tasks)
{
	static char text[1 << 16];
	FILE *log = tmpfile();
	int status = 0;

	ck_assert_ptr_nonnull(log);
	pid_t pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		dup2(fileno(log), STDERR_FILENO);
		ranks_run(config, fn, arg);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status != 0, "the ranks did not hang");
	ssize_t n = pread(fileno(log), text, sizeof text - 1, 0);
	fclose(log);
	text[n > 0 ? n : 0] = 0;
	char *end = strstr(text, " tasks are alive");
	ck_assert_msg(end != NULL, "no list of tasks in:\n%s", text);
	*end = 0;
	*tasks = end + 1;
	return text;
}

#endif
