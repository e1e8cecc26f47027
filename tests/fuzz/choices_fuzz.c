/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes the choices of a whole run: two ranks on two hosts all-reduce. In every order the result
 * must be right, all tasks must end, and nothing may leak. Byte 0 is the strategy and the knobs'
 * seed, byte 1 the size, the rest are choices (sim/engine/order/choice.c).
 *
 * With libFuzzer, coverage guides the search for schedules, and -minimize_crash=1 shrinks them:
 * docs/sim/shrink.md has the commands. fuzz_main.h has a driver without libFuzzer.
 */
#include "tests/fuzz/world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static int fuzz_run(const uint8_t *data, size_t bytes, struct lab_result *result)
{
	static const enum sim_strategy strategies[] = {SIM_UNIFORM, SIM_PCT, SIM_STARVE};
	static const char *const env[] = {"NCCL_BUFFSIZE=32768", NULL};
	struct lab_config c;

	fuzz_world(&c, env);
	c.iterations = 2;
	c.bytes_min = c.bytes_max = 1024ull << (data[1] % 3 * 3); /* 1, 8 or 64 KiB */
	c.sim.seed = data[0] >> 2;
	c.sim.strategy = strategies[data[0] % 3];
	c.sim.choice_bytes = data + 2;
	c.sim.choice_bytes_n = bytes - 2;
	c.sim.budget_events = 200000;
	return lab_run(&c, result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct lab_result result;

	if (bytes < 2)
		return 0;
	struct fuzz_aside aside = fuzz_aside_begin();
	int rc = fuzz_run(data, bytes, &result);
	bool bad = rc || result.verdict != SIM_PASS || result.error != ncclSuccess;

	(void)fuzz_aside_end(&aside);
	fuzz_aside_free(&aside, bad);
	if (bad) {
		fprintf(stderr, "choices: rc %d verdict %d error %d rank %d %s\n", rc,
			(int)result.verdict, (int)result.error, result.error_rank,
			result.explanation);
		abort();
	}
	return 0;
}

#include "tests/fuzz/fuzz_main.h"
