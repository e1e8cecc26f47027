/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes NCCL_ALGO (the input up to the first end of line) and NCCL_PROTO (the rest). The parser
 * either allows at least one program, and the same ones if an empty list follows. Or it refuses the
 * text with a line that begins with one of the two names. For libFuzzer (clang -fsanitize=fuzzer);
 * fuzz_main.h has a driver without it.
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

/* Checks that an empty list at the end changes nothing. */
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
