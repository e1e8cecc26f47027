/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HCAs whose queue pairs belong to several processes of a machine. The tables lie in memory that
 * all of them have mapped; the process that posts a request runs what follows from it, at the far
 * end too, and needs help with three things: bytes in another process' memory, waking a thread
 * there, and distinguishing a dead process from a slow one. backends/dropin provides it; NULL: all
 * queue pairs are in this process.
 *
 * A process of a world that is shared so has the id MEMBER << 8 | its number. Who is dead sends and
 * receives nothing more, holds no lock, and its objects go when the next process comes.
 */
#ifndef BACKENDS_FAKEVERBS_FAR_H
#define BACKENDS_FAKEVERBS_FAR_H

#include <stdbool.h>
#include <stdint.h>

struct hca_world;
struct hca_context;
struct hca_mr;

/* Memory of a region that other processes can map; in the region's record. */
struct hca_window {
	int32_t fd; /* in the owner; -1: none */
	uint32_t pad0;
	uint64_t inode;
	uint64_t at, bytes; /* in the owner's memory; whole pages */
	uint64_t offset;    /* of `at` in the file */
};

struct hca_far {
	uint32_t self; /* member */
	bool (*alive)(uint32_t member);
	/* It is alive, but does not run: SIGSTOP, a debugger. Slow; logged once. */
	bool (*stopped)(uint32_t member);
	/* `at` is an address in the process of the region. EHOSTDOWN: it is dead. EFAULT: nothing
	 * there. */
	int (*write)(const struct hca_mr *mr, uint64_t at, const void *data, uint64_t bytes);
	int (*read)(const struct hca_mr *mr, uint64_t at, void *data, uint64_t bytes);
	/* Memory of this process is registered: can others map it? And it is no more. `still`: no
	 * HCA writes there meanwhile, so it may be moved. */
	void (*open)(uint64_t address, uint64_t bytes, bool still, struct hca_window *out);
	void (*close)(struct hca_window *w);
	/* It looks at its completion channels and contexts. */
	void (*ring)(uint32_t member);
	/* The tables that are there, or `make`'s, of which only one is ever made. */
	struct hca_world *(*world)(struct hca_world *(*make)(void));
};

#pragma GCC visibility push(hidden)

extern const struct hca_far *hca_far;

#define HCA_FAR_NUMBER_BITS 8
#define HCA_FAR_ORPHAN      UINT32_MAX /* of no process: what outlives its maker */
#define HCA_FAR_NO_PROC     0xffu      /* a number that no process has: the member's packets */

static inline bool hca_is_here(uint32_t proc)
{
	return !hca_far || proc >> HCA_FAR_NUMBER_BITS == hca_far->self;
}
static inline bool hca_is_alive(uint32_t proc)
{
	return !hca_far || proc >> HCA_FAR_NUMBER_BITS == hca_far->self || proc == HCA_FAR_ORPHAN ||
	       hca_far->alive(proc >> HCA_FAR_NUMBER_BITS);
}

/* A poll found nothing: now and then the processor is given to other processes. True: that was now,
 * and the poll looks again: its result must not be older than what the program queries next (the
 * peer's goodbye, which came after its last message). */
bool hca_far_idle(void);
#pragma GCC visibility pop
#endif
