/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any text as NCCL_ALGO (up to the first end of line) and as NCCL_PROTO (the rest): it allows at
 * least one program, the same ones when an empty list follows it, or it is refused with a line that
 * begins with one of the two. For libFuzzer (clang -fsanitize=fuzzer); see fuzz_main.h for a driver
 * without it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tune/allowed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void fuzz_refused(const char *error)
{
	ASSERT(!strncmp(error, "NCCL_ALGO=", 10) || !strncmp(error, "NCCL_PROTO=", 11));
}

/* An empty list at the end changes nothing. */
static void fuzz_allowed(char *algo, const char *proto, uint64_t programs)
{
	char error[1024];
	uint64_t again;

	ASSERT(programs && !(programs & ~TUNE_ALL_PROGRAMS));
	if (*algo)
		strcat(algo, ";");
	ASSERT(tune_allowed_parse(algo, proto, &again, error, sizeof error));
	ASSERT(again == programs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = calloc(1, bytes + 2), *algo = malloc(bytes + 2), *proto, error[1024];
	uint64_t programs;

	ASSERT(text && algo);
	memcpy(text, data, bytes);
	proto = strchr(text, '\n');
	if (proto)
		*proto++ = '\0';
	strcpy(algo, text);
	if (tune_allowed_parse(algo, proto, &programs, error, sizeof error))
		fuzz_allowed(algo, proto, programs);
	else
		fuzz_refused(error);
	free(algo);
	free(text);
	return 0;
}

#include "tests/fuzz/fuzz_main.h"
