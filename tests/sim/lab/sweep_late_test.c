/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sweep whose own process gets no time: each failing worker reports its seed and ends just when
 * the campaign has looked for reports and not yet for workers that died. No worker is waited for
 * twice, and each seed is counted once.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "core/base/macros.h"
#include "sim/lab/explore/sweep.h"
#include "tests/suite.h"

enum { LATE_SEEDS = 8, LATE_TRIES = 300 };

/* In the place of libc's: no report comes while the campaign waits for one, */
int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	(void)fds, (void)n, (void)timeout_ms;
	return 0;
}

/* and when it queries whether a worker has ended, the worker usually had the time to end. */
pid_t waitpid(pid_t pid, int *status, int options)
{
	siginfo_t info;

	if (options & WNOHANG)
		for (int i = 0; i < LATE_TRIES; i++) {
			memset(&info, 0, sizeof info);
			if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) ||
			    info.si_pid)
				break;
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		}
	return wait4(pid, status, options, NULL);
}

START_TEST(a_worker_that_ends_while_nobody_looks_is_waited_for_once)
{
	static struct sweep_config c;
	struct sweep_result r;

	sweep_config_default(&c);
	c.swarm = false;
	c.base.lab.gpus = 2;
	c.base.lab.bytes_min = c.base.lab.bytes_max = 64;
	snprintf(c.base.plan, sizeof c.base.plan,
		 "os.task rank=1 nth=1 starve by=600s\nheal after=50us\n");
	c.count = LATE_SEEDS;
	c.jobs = 2;
	ck_assert_int_eq(sweep_run(&c, &r), 0);
	ck_assert_int_eq((int)r.seeds, LATE_SEEDS);
	ck_assert_int_eq((int)r.failure_n, LATE_SEEDS);
	for (uint32_t i = 0; i < r.failure_n; i++)
		ck_assert_str_eq(r.failure[i].failure.kind, "liveness");
	ck_assert_int_eq(wait4(-1, NULL, WNOHANG, NULL), -1); /* no worker is left */
	sweep_result_free(&r);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("a sweep that comes late");
	TCase *t = tcase_create("late");

	tcase_add_test(t, a_worker_that_ends_while_nobody_looks_is_waited_for_once);
	suite_add_tcase(s, t);
	return suite_run(s);
}
