/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A test oracle. Ranks report each operation before they start it. A world of doubles compares the
 * reports of all ranks and finds differences that one rank alone cannot see. No result of the stack
 * depends on it: outside such a world every function here returns 0 and does nothing. The world
 * table of os_ops.h implements it; core/comm and core/plan call it.
 */
#ifndef CORE_OS_CHECK_H
#define CORE_OS_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Compares the operations of all ranks. The first caller with (key, seq) deposits `text`. A later
 * caller whose `text` differs gets EINVAL, with the first caller's rank and text in *other. With a
 * NULL text the caller withdraws its deposit, because its call has failed. `caller` is a return
 * address of the program, NULL if unknown. *other also receives the call sites of both callers, as
 * text. */
struct os_agree_other {
	int32_t rank;
	char text[256];
	char where[96]; /* call site of the first caller: "main+0x2a"; "?": unknown */
	char here[96];  /* call site of this caller */
};
int os_agree(uint64_t key, uint64_t seq, int32_t rank, const char *text, const void *caller,
	     struct os_agree_other *other);
/* True if the world compares reports. If not, a caller need not format the text. */
bool os_agrees(void);

/* Compares the order of operations between keys. An agent is a GPU of the calling process. It is a
 * member of a key from the call with `in` true until the call with `in` false.
 *
 * All operations of an agent, over all its keys, have one order. Agents that share two keys must
 * run the operations of these two keys in the same order. The second caller with another operation
 * at the same place gets EINVAL, and *other as in os_agree. `seq` counts the operations of the key
 * from 0. An agent that is not a member is not compared. A NULL text withdraws a deposit as in
 * os_agree; the agent withdraws its latest deposit first. */
void os_agree_member(uint64_t key, uint64_t agent, bool in);
int os_agree_order(uint64_t key, uint64_t agent, uint64_t seq, int32_t rank, const char *text,
		   const void *caller, struct os_agree_other *other);

/* Declares the memory that the next operation queued in a stream uses until the stream has executed
 * it. A world with GPU doubles detects other operations that touch this memory without an order
 * between them, and reports both with their call sites. The stream belongs to the current device;
 * NULL is its legacy stream. No scheduling point. */
struct os_use {
	const void *stream;       /* cudaStream_t */
	const void *read, *write; /* NULL: no such memory */
	size_t read_bytes, write_bytes;
	/* Name of the operation, "all_reduce"; up to 47 characters are kept. With its number and
	 * the communicator's hash. */
	const char *what;
	uint64_t number, comm;
	const void *caller; /* a return address of the program */
};
void os_use(const struct os_use *use);

#endif
