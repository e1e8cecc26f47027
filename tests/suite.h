/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a test program's main: runs a suite of Check, frees it, and gives the exit code.
 * CK_VERBOSITY says how much is printed. */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <check.h>
#include <stdlib.h>

static inline int suite_run(Suite *s)
{
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
