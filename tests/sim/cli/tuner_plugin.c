/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tuner plugin of version TUNER_VERSION for tuner_test.sh. TUNER_TEST is what it does: fail or
 * constants in init; in a call error, last (the last program that can run costs nothing), channels
 * (two of them), uneven (one more channel for each communicator that was made before), or wild
 * (what cannot run costs nothing, and there are 1,000 channels). It logs what it is given.
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

#define TUNER_TEST_NAME_(v)   "ncclTunerPlugin_v" #v
#define TUNER_TEST_NAME(v)    TUNER_TEST_NAME_(v)
#define TUNER_TEST_STRUCT_(v) struct tuner_v##v
#define TUNER_TEST_STRUCT(v)  TUNER_TEST_STRUCT_(v)
extern const TUNER_TEST_STRUCT(TUNER_VERSION) tuner_test_plugin
	__asm__(TUNER_TEST_NAME(TUNER_VERSION)) __attribute__((visibility("default")));

#define SAY(t, ...) (t)->log(3, ~0ul, "tuner_plugin.c", __LINE__, __VA_ARGS__)

static ncclResult_t tuner_test_begin(void **context, tuner_log log)
{
	struct tuner_test *t = calloc(1, sizeof *t);
	const char *what = getenv("TUNER_TEST");

	if (!t)
		return ncclInternalError;
	*t = (struct tuner_test){.log = log, .what = what ? what : "", .number = tuner_tests++};
	*context = t;
	if (strcmp(t->what, "fail"))
		return ncclSuccess;
	free(t);
	return ncclSystemError;
}

#if TUNER_VERSION >= 5
static ncclResult_t tuner_test_init(void **context, uint64_t comm_id, size_t nranks, size_t nhosts,
				    tuner_log log, struct tuner_domains *domains,
				    struct tuner_constants *constants)
{
	ncclResult_t rc = comm_id ? tuner_test_begin(context, log) : ncclInternalError;
	struct tuner_test *t = *context;

	if (rc)
		return rc;
	SAY(t,
	    "tuner test init: %zu ranks, %zu hosts, %d domains of %d to %d; Ring/LL %.1f + %.1f us",
	    nranks, nhosts, domains->count, domains->least_ranks, domains->most_ranks,
	    constants->kernel_us[1][0], constants->hop_us[0][1][0]);
	if (!strcmp(t->what, "constants"))
		constants->ll_gbps[0][0] *= 2;
	return ncclSuccess;
}
#else
static ncclResult_t tuner_test_init(size_t nranks, size_t nhosts, tuner_log log, void **context)
{
	ncclResult_t rc = tuner_test_begin(context, log);

	if (!rc)
		SAY((struct tuner_test *)*context, "tuner test init: %zu ranks, %zu hosts", nranks,
		    nhosts);
	return rc;
}
#endif

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

static ncclResult_t __attribute__((unused))
tuner_test_choose(void *context, int func, size_t bytes, int pipelined, float **table, int algos,
		  int protos, int registered, int *nchannels)
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

#if TUNER_VERSION == 2
/* Chooses Ring with protocol Simple; `wild` an algorithm that does not exist. */
static ncclResult_t tuner_test_call(void *context, int func, size_t bytes, int collnet, int nvls,
				    int pipelined, int *algo, int *proto, int *nchannels)
{
	struct tuner_test *t = context;

	if (*algo != -1 || *proto != -1 || pipelined < 1 || *nchannels)
		abort();
	SAY(t, "tuner test call: function %d, %zu bytes, collnet %d, nvls %d", func, bytes, collnet,
	    nvls);
	if (!strcmp(t->what, "error"))
		return ncclInternalError;
	*algo = strcmp(t->what, "wild") ? 1 : 99;
	*proto = 2;
	if (!strcmp(t->what, "channels"))
		*nchannels = 2;
	return ncclSuccess;
}
#elif TUNER_VERSION == 3
static ncclResult_t tuner_test_call(void *context, int func, size_t bytes, int pipelined,
				    float **table, int algos, int protos, int *nchannels)
{
	return tuner_test_choose(context, func, bytes, pipelined, table, algos, protos, 0,
				 nchannels);
}
#else
#define tuner_test_call tuner_test_choose
#endif

#if TUNER_VERSION == 6
/* TUNER_CHUNK: the size of chunks. */
static ncclResult_t tuner_test_chunk(void *context, int func, size_t bytes, int algo, int proto,
				     int nchannels, size_t *chunk)
{
	const char *wanted = getenv("TUNER_CHUNK");

	SAY((struct tuner_test *)context,
	    "tuner test chunk: function %d, %zu bytes, algo %d, proto %d, %d channels, chunk %zu",
	    func, bytes, algo, proto, nchannels, *chunk);
	if (wanted)
		*chunk = strtoul(wanted, NULL, 0);
	return ncclSuccess;
}
#endif

static ncclResult_t tuner_test_finalize(void *context)
{
	struct tuner_test *t = context;

	SAY(t, "tuner test finalize");
	free(t);
	return ncclSuccess;
}

const TUNER_TEST_STRUCT(TUNER_VERSION) tuner_test_plugin = {
#if TUNER_VERSION == 6
	{"test", tuner_test_init, tuner_test_call, tuner_test_finalize},
	tuner_test_chunk,
#else
	"test",
	tuner_test_init,
	tuner_test_call,
	tuner_test_finalize,
#endif
};
