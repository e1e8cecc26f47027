/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tuner plugin for tuner_test.sh. TUNER_TEST is what it does: fail or constants in init; in a
 * call error, last (the last program that can run costs nothing), channels (two of them), uneven
 * (one more channel for each communicator that was made before), or wild (what cannot run costs
 * nothing, and there are 1,000 channels). It logs what it is given.
 */
#include <stdlib.h>
#include <string.h>

#include "core/tune/tuner_abi.h"

struct tuner_test {
	tuner_log log;
	const char *what;
	int number;
};

static int tuner_tests;

extern const struct tuner_v5 tuner_test_plugin __asm__(TUNER_V5_SYMBOL)
	__attribute__((visibility("default")));

#define SAY(t, ...) (t)->log(3, ~0ul, "tuner_plugin.c", __LINE__, __VA_ARGS__)

static ncclResult_t tuner_test_init(void **context, uint64_t comm_id, size_t nranks, size_t nhosts,
				    tuner_log log, struct tuner_domains *domains,
				    struct tuner_constants *constants)
{
	struct tuner_test *t = calloc(1, sizeof *t);
	const char *what = getenv("TUNER_TEST");

	if (!t || !comm_id)
		return ncclInternalError;
	*t = (struct tuner_test){.log = log, .what = what ? what : "", .number = tuner_tests++};
	*context = t;
	SAY(t,
	    "tuner test init: %zu ranks, %zu hosts, %d domains of %d to %d; Ring/LL %.1f + %.1f us",
	    nranks, nhosts, domains->count, domains->least_ranks, domains->most_ranks,
	    constants->kernel_us[1][0], constants->hop_us[0][1][0]);
	if (!strcmp(t->what, "constants"))
		constants->ll_gbps[0][0] *= 2;
	if (strcmp(t->what, "fail"))
		return ncclSuccess;
	free(t);
	return ncclSystemError;
}

static void tuner_test_last(struct tuner_test *t, float (*cost_us)[TUNER_PROTOS], int algos)
{
	float *last = NULL;

	for (int a = 0; a < algos; a++)
		for (int p = 0; p < TUNER_PROTOS; p++)
			if (cost_us[a][p] >= 0)
				last = &cost_us[a][p];
	if (last)
		*last = 0;
	SAY(t, "tuner test last: %d", last ? (int)(last - cost_us[0]) : -1);
}

static void tuner_test_wild(float (*cost_us)[TUNER_PROTOS], int algos, int *nchannels)
{
	for (int a = 0; a < algos; a++)
		for (int p = 0; p < TUNER_PROTOS; p++)
			if (cost_us[a][p] < 0)
				cost_us[a][p] = 0;
	*nchannels = 1000;
}

static ncclResult_t tuner_test_call(void *context, int func, size_t bytes, int pipelined,
				    float **table, int algos, int protos, int registered,
				    int *nchannels)
{
	float(*cost_us)[TUNER_PROTOS] = (float(*)[TUNER_PROTOS])table;
	struct tuner_test *t = context;

	if (algos != TUNER_ALGOS || protos != TUNER_PROTOS || pipelined < 1 || registered ||
	    *nchannels)
		abort();
	SAY(t, "tuner test call: function %d, %zu bytes, Ring/Simple %.1f us", func, bytes,
	    (double)cost_us[1][2]);
	if (!strcmp(t->what, "error")) {
		*nchannels = 2;
		return ncclInternalError;
	}
	if (!strcmp(t->what, "last"))
		tuner_test_last(t, cost_us, algos);
	if (!strcmp(t->what, "channels"))
		*nchannels = 2;
	if (!strcmp(t->what, "uneven"))
		*nchannels = 1 + t->number;
	if (!strcmp(t->what, "wild"))
		tuner_test_wild(cost_us, algos, nchannels);
	return ncclSuccess;
}

static ncclResult_t tuner_test_finalize(void *context)
{
	struct tuner_test *t = context;

	SAY(t, "tuner test finalize");
	free(t);
	return ncclSuccess;
}

const struct tuner_v5 tuner_test_plugin = {
	"test",
	tuner_test_init,
	tuner_test_call,
	tuner_test_finalize,
};
