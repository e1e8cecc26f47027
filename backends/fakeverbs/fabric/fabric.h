/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric joins the programs of one user on one machine: all of them map one memory, which holds
 * the world's arena. There is no daemon and no file. Each process that maps the memory binds a
 * socket to an abstract name, from which other processes find the memory. Nothing reads from that
 * socket:
 *
 *   @doppel-fabric/UID/NS/NAME/PID/FD     the memory is /proc/PID/fd/FD
 *   @doppel-fabric-lock/UID/NS/NAME       a process is joining
 *   @doppel-bell/UID/NS/PID               wakes the process' threads (fabric_member.c)
 *
 * NS is the inode of /proc/self/ns/pid, in which the PIDs are valid. Programs in different PID
 * namespaces do not meet. Names and memory vanish with the last process, however it ends.
 */
#ifndef BACKENDS_FAKEVERBS_FABRIC_H
#define BACKENDS_FAKEVERBS_FABRIC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/world/world.h"

#pragma GCC visibility push(hidden)

#define FABRIC_MAGIC   0x6661627269632d31ull
#define FABRIC_VERSION 2u
#define FABRIC_MEMBERS 256u

struct fabric_member {
	/* Robust mutex that the member's bell thread holds while the process lives. The kernel
	 * marks it when that thread ends. No thread ever waits for it. */
	pthread_mutex_t alive;
	uint32_t id; /* never reused; index is id % FABRIC_MEMBERS. 0: free */
	int32_t pid;
	uint32_t gone; /* 1 if another process found the memory inaccessible (ESRCH) */
};

/* Head of the shared memory. */
struct fabric_segment {
	struct world_arena_head arena; /* must be the first field */
	uint64_t magic;
	uint32_t version, members;
	uint64_t layout;  /* hash of the layouts of the shared structs */
	uint64_t machine; /* hash of the machine file's text */
	uint64_t world;   /* offset of struct hca_world; 0: not yet created */
	uint32_t next_id, pad0;
	struct fabric_member member[FABRIC_MEMBERS];
};

/* Finds or creates the memory, and keeps other processes from joining until fabric_joined. Returns
 * NULL on failure, which it logs. */
struct fabric_segment *fabric_join(void);
/* Makes this process a member, after the caller created the world in the memory. Frees the objects
 * of members that died. Returns an errno. */
int fabric_joined(void);
/* Ends the thread that other members wake. They then treat this process as dead. Call before
 * world_destroy. WAITS for that thread. */
void fabric_leave(void);
/* Leaves the fabric in the child after a fork. */
void fabric_forget(void);

struct hca_mr;
struct hca_window;

/* fabric_window.c */
void fabric_window_open(uint64_t address, uint64_t bytes, bool still, struct hca_window *out);
void fabric_window_close(struct hca_window *w);
/* Returns this process' mapping of the window of another process' region, valid until
 * fabric_window_put(*ticket). The caller holds the region. NULL: not mapped. */
uint8_t *fabric_window_get(int32_t pid, const struct hca_mr *mr, uint32_t *ticket);
void fabric_window_put(uint32_t ticket);
void fabric_window_forked(void);

/* fabric_find.c. Returns the inode of this process' PID namespace, which the names contain. */
uint64_t fabric_namespace(void);
/* Binds a datagram socket to the abstract name. Returns its descriptor; -1 if the name is taken. */
int fabric_name_bind(int flags, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Maps the memory of the fabric `name` and stores its descriptor in *fd. Returns NULL if no process
 * has that memory. */
struct fabric_segment *fabric_find(const char *name, uint64_t layout, int *fd);
struct fabric_segment *fabric_make(uint64_t layout, int *fd);

/* fabric_check.c. The first checks a descriptor, the second the mapped memory, before this process
 * trusts them as a fabric's. They return a description of the error; NULL if there is no error. */
#define FABRIC_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
const char *fabric_check_file(int fd);
const char *fabric_check(const struct fabric_segment *s, uint64_t layout);

#pragma GCC visibility pop
#endif
