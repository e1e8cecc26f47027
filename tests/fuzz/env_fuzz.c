/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any text as a rank's environment, a NAME=VALUE a line: two ranks on two hosts all-reduce with it, and
 * it works, or a call returns an error that says something, or an HCA double refuses what it is told
 * to be; nobody hangs, nothing leaks, no result is wrong. Lines with other names than the stack's are left out, and those in not_here.
 *
 * With libFuzzer, coverage searches the parsers. Without, see fuzz_main.h.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/lab/runner.h"

#define FUZZ_LINES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static bool fuzz_is_ours(const char *line)
{
	/* Files to write; a root that is waited for where it is not; and without its flush the stack
	 * is wrong, as it is on hardware. */
	static const char *const not_here[] = {
		"NCCL_DEBUG_FILE=",    "DOPPEL_TRACE=", "DOPPEL_FAULTS=",
		"DOPPEL_MACHINE_DIR=", "NCCL_COMM_ID=", "NCCL_GDR_FLUSH_DISABLE="};

	if (!strchr(line, '=') || (strncmp(line, "NCCL_", 5) && strncmp(line, "DOPPEL_", 7)))
		return false;
	for (size_t i = 0; i < sizeof not_here / sizeof not_here[0]; i++)
		if (!strncmp(line, not_here[i], strlen(not_here[i])))
			return false;
	return true;
}

/* Cuts `text` into lines, in place. */
static void fuzz_split(char *text, const char *env[FUZZ_LINES + 1])
{
	char *rest = NULL;
	size_t n = 0;

	for (char *line = strtok_r(text, "\n", &rest); line && n < FUZZ_LINES;
	     line = strtok_r(NULL, "\n", &rest))
		if (fuzz_is_ours(line))
			env[n++] = line;
	env[n] = NULL;
}

static int fuzz_run(const char *const *env, struct lab_result *result)
{
	struct lab_config c;

	lab_config_default(&c);
	c.machine = "a100-4nic";
	c.hosts = 2;
	c.gpus = 1;
	c.warp_width = 1;
	c.env = env;
	c.out_of_place = false;
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
	char report[8192];
	char *text = malloc(bytes + 1);

	if (!text)
		abort();
	memcpy(text, data, bytes);
	text[bytes] = 0;
	fuzz_split(text, env);
	/* What a failing run says is shown; what the others say is not looked at. */
	int real = dup(2), quiet = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (real < 0 || quiet < 0)
		abort();
	dup2(quiet, 2);
	int rc = fuzz_run(env, &result);

	dup2(real, 2);
	close(real);
	off_t said = lseek(quiet, 0, SEEK_END);
	bool silent = result.error != ncclSuccess && said == 0;

	bool refused = result.failed && !strcmp(result.failure.kind, "misuse");

	if (!rc && ((result.verdict != SIM_PASS && !refused) || silent)) {
		ssize_t n;

		lseek(quiet, 0, SEEK_SET);
		while ((n = read(quiet, report, sizeof report)) > 0)
			fwrite(report, 1, (size_t)n, stderr);
		for (size_t i = 0; env[i]; i++)
			fprintf(stderr, "env: %s\n", env[i]);
		fprintf(stderr, "env: verdict %d error %d rank %d %s\n", (int)result.verdict,
			(int)result.error, result.error_rank,
			silent ? "(and no line says why)" : result.explanation);
		abort();
	}
	close(quiet);
	free(text);
	return 0;
}

#include "tests/fuzz/fuzz_main.h"
