/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a test program's main: runs a suite of Check, frees it, and gives the exit code.
 * CK_VERBOSITY sets how much is printed. */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>

static inline int suite_run(Suite *s)
{
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* How often the calling thread has given its processor away to wait: a count, where a time would
 * depend on the machine's load. */
static inline uint64_t suite_sleeps(void)
{
	struct rusage u;

	return getrusage(RUSAGE_THREAD, &u) ? 0 : (uint64_t)u.ru_nvcsw;
}

#endif
