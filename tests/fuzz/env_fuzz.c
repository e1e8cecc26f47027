/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes a rank's environment, one NAME=VALUE per line, in an all-reduce of two ranks on two hosts.
 * It succeeds, or a call returns an error with a message. No task may hang, nothing may leak, and
 * no result may be wrong. A value that a world refuses must be refused with a message; its line is
 * then skipped. Lines with names that are not the stack's are skipped, and so are those in
 * not_here.
 *
 * With libFuzzer, coverage guides the search. fuzz_main.h has a driver without it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world/world.h"
#include "tests/fuzz/world.h"

#define FUZZ_LINES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static bool fuzz_is_ours(const char *line)
{
	/* Names of files to write and of code to load. NCCL_COMM_ID: ranks would wait for a root
	 * that does not exist. NCCL_GDR_FLUSH_DISABLE: without its flush the stack is wrong, as on
	 * hardware. */
	static const char *const not_here[] = {
		"NCCL_DEBUG_FILE=",      "DOPPEL_TRACE=",    "DOPPEL_FAULTS=",
		"DOPPEL_MACHINE_DIR=",   "NCCL_COMM_ID=",    "NCCL_GDR_FLUSH_DISABLE=",
		"NCCL_TOPO_FILE=",       "NCCL_GRAPH_FILE=", "NCCL_TUNER_PLUGIN=",
		"NCCL_GRAPH_DUMP_FILE=", "NCCL_NET_PLUGIN="};

	if (!strchr(line, '=') || (strncmp(line, "NCCL_", 5) && strncmp(line, "DOPPEL_", 7)))
		return false;
	for (size_t i = 0; i < sizeof not_here / sizeof not_here[0]; i++)
		if (!strncmp(line, not_here[i], strlen(not_here[i])))
			return false;
	return true;
}

/* True if a world accepts the line; otherwise it must log a message. stderr is a file here. */
static bool fuzz_is_allowed(const char *line)
{
	off_t before = lseek(2, 0, SEEK_CUR);

	if (!world_env_check(line))
		return true;
	if (lseek(2, 0, SEEK_CUR) == before)
		abort();
	return false;
}

/* Splits `text` into lines, in place. */
static void fuzz_split(char *text, const char *env[FUZZ_LINES + 1])
{
	char *rest = NULL;
	size_t n = 0;

	for (char *line = strtok_r(text, "\n", &rest); line && n < FUZZ_LINES;
	     line = strtok_r(NULL, "\n", &rest))
		if (fuzz_is_ours(line) && fuzz_is_allowed(line))
			env[n++] = line;
	env[n] = NULL;
}

static int fuzz_run(const char *const *env, struct lab_result *result)
{
	struct lab_config c;

	fuzz_world(&c, env);
	c.bytes_min = c.bytes_max = 1024;
	c.errors_allowed = true;
	c.sim.seed = 1;
	c.sim.budget_events = 1000000;
	return lab_run(&c, result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const char *env[FUZZ_LINES + 1];
	struct lab_result result;
	char *text = malloc(bytes + 1);

	if (!text)
		abort();
	memcpy(text, data, bytes);
	text[bytes] = 0;
	struct fuzz_aside aside = fuzz_aside_begin();
	fuzz_split(text, env);
	off_t before = lseek(2, 0, SEEK_CUR);
	int rc = fuzz_run(env, &result);
	bool silent = fuzz_aside_end(&aside) == before && result.error != ncclSuccess;
	/* more P_Keys than the port has */
	bool refused = result.failed && !strcmp(result.failure.kind, "misuse");
	bool bad = rc || (result.verdict != SIM_PASS && !refused) || silent;

	fuzz_aside_free(&aside, bad);
	if (bad) {
		for (size_t i = 0; env[i]; i++)
			fprintf(stderr, "env: %s\n", env[i]);
		fprintf(stderr, "env: verdict %d error %d rank %d %s\n", (int)result.verdict,
			(int)result.error, result.error_rank,
			silent ? "(and no line gives the reason)" : result.explanation);
		abort();
	}
	free(text);
	return 0;
}

#include "tests/fuzz/fuzz_main.h"
