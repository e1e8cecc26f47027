/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric that joins the programs of one user on one machine: the world's arena in memory that
 * all of them have mapped. There is no daemon and no file. A process that has the memory holds a
 * socket bound to an abstract name, which names the place of the memory, and never reads it:
 *
 *	@doppel-fabric/UID/NS/NAME/PID/FD     the memory is /proc/PID/fd/FD
 *	@doppel-fabric-lock/UID/NS/NAME       a process is joining
 *	@doppel-bell/UID/NS/PID               wakes its threads (fabric.c)
 *
 * NS is the inode of /proc/self/ns/pid: what the PIDs mean. Programs in different PID namespaces do
 * not meet. Names and memory go with the last process, however it ends.
 */
#ifndef BACKENDS_DROPIN_FABRIC_H
#define BACKENDS_DROPIN_FABRIC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/world/world.h"

#pragma GCC visibility push(hidden)

#define FABRIC_MAGIC   0x6661627269632d31ull
#define FABRIC_VERSION 1u
#define FABRIC_MEMBERS 256u

struct fabric_member {
	/* Held by a thread of it as long as it lives; the kernel marks it when that thread is gone.
	 * Nobody ever waits for it. */
	pthread_mutex_t alive;
	uint32_t id; /* never used again; its place is id % FABRIC_MEMBERS. 0: free */
	int32_t pid;
	uint32_t gone; /* found to be dying, by a process that could not reach its memory */
};

/* At the front of the memory. */
struct fabric_segment {
	struct world_arena_head arena; /* first */
	uint64_t magic;
	uint32_t version, members;
	uint64_t layout;  /* hash of the layouts of everything after */
	uint64_t machine; /* hash of the machine file's text */
	uint64_t world;   /* offset of struct hca_world; 0: not made yet */
	uint32_t next_id, pad0;
	struct fabric_member member[FABRIC_MEMBERS];
};

/* Finds or makes the memory; no other process joins until fabric_joined. NULL: the reason is
 * logged. */
struct fabric_segment *fabric_join(void);
/* The world stands in it: this process becomes a member, and what dead ones left goes. */
int fabric_joined(void);
/* After a fork, in the child. */
void fabric_forget(void);

struct hca_mr;
struct hca_window;

/* fabric_window.c */
void fabric_window_open(uint64_t address, uint64_t bytes, bool still, struct hca_window *out);
void fabric_window_close(struct hca_window *w);
/* The window of another process' region (held by the caller), mapped here until the ticket is given
 * back; NULL: there is none. */
uint8_t *fabric_window_get(int32_t pid, const struct hca_mr *mr, uint32_t *ticket);
void fabric_window_put(uint32_t ticket);
void fabric_window_forked(void);

/* fabric_find.c. The PID namespace of this process, as the names have it. */
uint64_t fabric_namespace(void);
/* Binds the abstract name; -1: taken. */
int fabric_name_bind(int flags, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The memory of this fabric, mapped; NULL with *rc 0: there is none yet. */
struct fabric_segment *fabric_find(const char *name, uint64_t layout, int *fd);
struct fabric_segment *fabric_make(uint64_t layout, int *fd);

/* fabric_check.c. What is wrong with a descriptor that should be a fabric's memory, and with the
 * memory, all of it mapped; NULL: nothing. */
#define FABRIC_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
const char *fabric_check_file(int fd);
const char *fabric_check(const struct fabric_segment *s, uint64_t layout);

#pragma GCC visibility pop
#endif
