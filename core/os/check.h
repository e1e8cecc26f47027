/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A test oracle. Ranks report what they are about to do; a world of doubles compares the ranks'
 * reports and sees what one rank alone cannot. No result of the stack depends on it: outside such a
 * world every function here returns 0 and does nothing. Implemented by the world behind os.h
 * (os_ops.h); called by core/comm and core/plan.
 */
#ifndef CORE_OS_CHECK_H
#define CORE_OS_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Do all ranks do the same? The first caller with (key, seq) deposits `text`; a later one whose
 * `text` differs gets EINVAL with the first one's rank and text in *other. Without a text the
 * caller takes its deposit back, because the call has failed. `caller` is a return address of the
 * program, NULL when not known: both callers' places come in *other, in words. */
struct os_agree_other {
	int32_t rank;
	char text[160];
	char where[96]; /* the first one's: "main+0x2a"; "?": not known */
	char here[96];  /* this caller's */
};
int os_agree(uint64_t key, uint64_t seq, int32_t rank, const char *text, const void *caller,
	     struct os_agree_other *other);
/* Does the world compare? Where it does not, a caller need not print the text. */
bool os_agrees(void);

/* The same for the order between keys. An agent of the calling process, a GPU, is a member of a key
 * from `in` until not; what it does under all its keys has one order, and agents that are members
 * of the same two keys do what is under these two in the same order. The caller that comes second
 * with something else at that place gets EINVAL, and *other as above. seq: counts the operations of
 * the key from 0. An agent that is not a member is not compared. Without a text: as above, and the
 * latest first. */
void os_agree_member(uint64_t key, uint64_t agent, bool in);
int os_agree_order(uint64_t key, uint64_t agent, uint64_t seq, int32_t rank, const char *text,
		   const void *caller, struct os_agree_other *other);

/* What the operation that is queued next in a stream uses until the stream has done it. A world
 * with doubles for GPUs sees which other operations touch it without an order between them, and
 * names both with their call sites. The current device is the stream's, NULL its legacy one. No
 * scheduling point. */
struct os_use {
	const void *stream;       /* cudaStream_t */
	const void *read, *write; /* NULL: nothing */
	size_t read_bytes, write_bytes;
	const char *what; /* "all_reduce": up to 47 characters are kept; its number, and in what */
	uint64_t number, comm;
	const void *caller; /* a return address of the program */
};
void os_use(const struct os_use *use);

#endif
