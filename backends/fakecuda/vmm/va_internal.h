/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of device memory and its pages: what va.c (mappings) and va_pages.c (pages
 * that were written) share. Units: bytes, unless a name has pages or chunks.
 */
#ifndef BACKENDS_FAKECUDA_VA_INTERNAL_H
#define BACKENDS_FAKECUDA_VA_INTERNAL_H

#include "backends/fakecuda/fakecuda.h"

#pragma GCC visibility push(hidden)

#define VA_CHUNK  FC_VA_CHUNK
#define VA_CHUNKS (FC_VA_LIMIT / VA_CHUNK)
#define VA_PAGE   4096u
#define VA_WORDS  (VA_CHUNK / VA_PAGE / 64)

struct va_chunk {
	bool alone; /* private: no view of the program, no bytes in the file */
	/* One bit per page; atomic. NULL: no page of the chunk was written. */
	struct va_pages {
		uint64_t written[VA_WORDS]; /* pages that this world wrote */
		uint64_t lines[VA_WORDS];   /* private memory: only lines of LL128 are there */
		uint64_t kept[VA_WORDS];    /* present since some world wrote it */
		uint64_t kept_pages;
		uint64_t
			touched[VA_WORDS / 64]; /* bits for the words of `written` that are not 0 */
	} * pages;
};

struct va_state {
	int fd; /* 0: not opened yet */
	bool strict;
	bool alone;              /* new chunks of GPUs are private */
	struct va_chunk **chunk; /* NULL: not mapped */
	uint64_t chunks_end;
	uint64_t written_pages; /* of this world; atomic */
};
extern struct va_state va;

/* Frees all pages of the chunk and forgets that they were written. */
void va_chunk_drop(uint64_t number);

#pragma GCC visibility pop

#endif
