/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A driver for fuzz targets without libFuzzer. With -DFUZZ_MAIN it makes a program that runs the
 * given files, or, with a number N first, N mutations of each. Include it last; the target is
 * LLVMFuzzerTestOneInput.
 */
#ifndef TESTS_FUZZ_FUZZ_MAIN_H
#define TESTS_FUZZ_FUZZ_MAIN_H

#ifdef FUZZ_MAIN
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t fuzz_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Overwrites, copies, deletes or doubles a short piece of the text. */
static size_t fuzz_mutate_once(uint8_t *text, size_t bytes, size_t room, uint64_t *state)
{
	size_t len = 1 + fuzz_next(state) % 40;
	size_t at = fuzz_next(state) % (bytes - len);
	size_t to = fuzz_next(state) % (bytes - len);
	switch (fuzz_next(state) % 4) {
	case 0:
		text[at] = (uint8_t)("0123456789-x\"<>/ af&!"[fuzz_next(state) % 21]);
		return bytes;
	case 1:
		memmove(text + to, text + at, len);
		return bytes;
	case 2:
		memmove(text + at, text + at + len, bytes - at - len);
		return bytes - len;
	default:
		if (bytes + len > room)
			return bytes;
		memmove(text + at + len, text + at, bytes - at);
		return bytes + len;
	}
}

int main(int argc, char **argv)
{
	enum { ROOM = 1 << 18, SHORTEST = 128 };
	static uint8_t file[ROOM], text[ROOM];
	long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
	for (int i = rounds > 0 ? 2 : 1; i < argc; i++) {
		FILE *f = fopen(argv[i], "rb");
		if (!f) {
			perror(argv[i]);
			return 1;
		}
		size_t bytes = fread(file, 1, ROOM / 2, f);
		uint64_t state = 0x9e3779b97f4a7c15u + (uint64_t)i;
		fclose(f);
		LLVMFuzzerTestOneInput(file, bytes);
		for (long k = 0; k < rounds; k++) {
			size_t n = bytes;
			memcpy(text, file, bytes);
			for (uint64_t m = 1 + fuzz_next(&state) % 4; m && n > SHORTEST; m--)
				n = fuzz_mutate_once(text, n, ROOM, &state);
			LLVMFuzzerTestOneInput(text, n);
		}
	}
	return 0;
}
#endif
#endif
