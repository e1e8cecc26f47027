/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sweep's second run of a seed finds what is not deterministic: here a program whose ranks sleep
 * for as many nanoseconds as their process' number. Both hashes and the step are named; the same
 * without the sleep passes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/lab/explore/sweep.h"

#define EXPECT(x)                                                                                  \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #x);          \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static void test_impure(int32_t rank, ncclComm_t comm, void *arg)
{
	if (rank == 0)
		os_sleep_ns(1000 + (uint64_t)getpid() % 100000);
}

static void test_tweak(struct scenario *s)
{
	s->lab.on_ready = test_impure;
}

static void test_sweep(const char *again, bool impure, struct sweep_result *r)
{
	static struct sweep_config c;

	sweep_config_default(&c);
	c.swarm = false;
	c.base.lab.gpus = 2;
	c.base.lab.bytes_min = c.base.lab.bytes_max = 64;
	if (impure)
		test_tweak(&c.base);
	c.first = 10;
	c.count = 1;
	c.jobs = 1;
	c.again = again;
	EXPECT(sweep_run(&c, r) == 0);
	EXPECT(r->seeds == 1);
}

int main(int argc, char **argv)
{
	struct sweep_result r;
	unsigned long long before, step;

	if (argc == 3 && strcmp(argv[1], "again") == 0)
		return sweep_again_main(argv[2], NULL);
	if (argc == 3 && strcmp(argv[1], "again-impure") == 0)
		return sweep_again_main(argv[2], test_tweak);
	if (argc > 1)
		return 1;

	test_sweep("again", false, &r);
	EXPECT(r.passed == 1 && r.twice == 1 && r.verdict == SIM_PASS);
	sweep_result_free(&r);

	test_sweep(NULL, true, &r); /* alone it is nothing to be seen */
	EXPECT(r.passed == 1 && r.twice == 0 && r.verdict == SIM_PASS);
	sweep_result_free(&r);

	test_sweep("again-impure", true, &r);
	EXPECT(r.twice == 1 && r.failure_n == 1 && r.verdict == SIM_NOT_DETERMINISTIC);
	const struct sim_failure *f = &r.failure[0].failure;
	fprintf(stderr, "%s\n", f->message);
	EXPECT(strcmp(f->kind, "nondeterminism") == 0);
	EXPECT(sscanf(strstr(f->message, "first differ"), "first differ between step %llu and %llu",
		      &before, &step) == 2);
	EXPECT(before < step && step - before < 64 && step == f->step);
	sweep_result_free(&r);

	test_sweep("no-such-word", false, &r); /* it must get to its end there */
	EXPECT(r.failure_n == 1 && r.verdict == SIM_NOT_DETERMINISTIC);
	sweep_result_free(&r);
	return 0;
}
