/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HCAs whose queue pairs belong to several processes of a machine. All these processes map the
 * memory of the tables. The process that posts a request also executes it at the far end. It needs
 * help with three things: bytes in another process' memory, waking a thread there, and
 * distinguishing a dead process from a slow one. dropin/ibverbs provides it in `hca_members`; NULL:
 * all queue pairs are in this process.
 *
 * A process of such a shared world has the id MEMBER << 8 | its number. A dead process sends and
 * receives nothing, and holds no lock. The next process that joins frees its objects.
 */
#ifndef BACKENDS_FAKEVERBS_MEMBERS_H
#define BACKENDS_FAKEVERBS_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

struct hca_world;
struct hca_context;
struct hca_mr;

/* Memory of a region that other processes can map. Part of the region's record. */
struct hca_window {
	int32_t fd; /* descriptor in the owner's process; -1: not mappable */
	uint32_t pad0;
	uint64_t inode;
	uint64_t at, bytes; /* range in the owner's memory; whole pages */
	uint64_t offset;    /* offset of `at` in the file */
};

struct hca_members {
	uint32_t self; /* member number of this process */
	bool (*alive)(uint32_t member);
	/* True if the member is alive but does not run (SIGSTOP, a debugger). Slow; logged once. */
	bool (*stopped)(uint32_t member);
	/* Copies bytes to or from another process. `at` is an address in the region's process.
	 * EHOSTDOWN: that process is dead. EFAULT: no memory at that address. */
	int (*write)(const struct hca_mr *mr, uint64_t at, const void *data, uint64_t bytes);
	int (*read)(const struct hca_mr *mr, uint64_t at, void *data, uint64_t bytes);
	/* Called when memory of this process is registered (open) and deregistered (close). `open`
	 * fills `out` if other processes can map the memory. `still`: no HCA writes there
	 * meanwhile, and the memory may be moved. */
	void (*open)(uint64_t address, uint64_t bytes, bool still, struct hca_window *out);
	void (*close)(struct hca_window *w);
	/* Makes the member check its completion channels and contexts. */
	void (*ring)(uint32_t member);
	/* Returns the existing tables, else those that `make` creates. Only one call of `make` ever
	 * creates tables. */
	struct hca_world *(*world)(struct hca_world *(*make)(void));
};

#pragma GCC visibility push(hidden)

extern const struct hca_members *hca_members;

#define HCA_MEMBER_NUMBER_BITS 8
#define HCA_ORPHAN_PROC        UINT32_MAX /* of objects that outlive the process that made them */
#define HCA_NO_PROC            0xffu /* number that no process has; marks the member's packets */

static inline bool hca_is_here(uint32_t proc)
{
	return !hca_members || proc >> HCA_MEMBER_NUMBER_BITS == hca_members->self;
}
static inline bool hca_is_alive(uint32_t proc)
{
	return !hca_members || proc >> HCA_MEMBER_NUMBER_BITS == hca_members->self ||
	       proc == HCA_ORPHAN_PROC || hca_members->alive(proc >> HCA_MEMBER_NUMBER_BITS);
}

/* Called after a poll that found nothing. Yields the processor now and then. True if it yielded:
 * the caller polls again. The result must not be older than the program's next query, such as a
 * peer's goodbye sent after its last message. */
bool hca_members_idle(void);
#pragma GCC visibility pop
#endif
