/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two tables that os.c forwards os.h, mailbox.h and check.h to. os.c includes it, and each file
 * that implements a half: core/os/os_posix.c and os_real.c here, sim/engine and sim/world in fake
 * builds. Each slot implements the function of the same name, under the same contract, and passes
 * tests/conformance/os_conformance*_test.c. No slot is NULL, except where a comment allows it.
 */
#ifndef CORE_OS_OS_OPS_H
#define CORE_OS_OS_OPS_H

#include "core/os/check.h"
#include "core/os/os.h"

struct os_sched_ops {
	const char *name; /* "posix", "sim", "threads" */
	struct os_self *(*self)(void);
	int (*thread_start)(struct os_thread **, const struct os_thread_attr *, void (*)(void *),
			    void *);
	int (*thread_join)(struct os_thread *);
	int (*wait)(const struct wait *const *, int, const shared_u32 *, int *);
	uint64_t (*event_seq)(const void *);
	void (*event_post)(const void *);
	void (*poll_miss)(const char *);
	void (*poll_hit)(void);
	uint64_t (*now_ns)(void);
	uint64_t (*date_ns)(uint64_t now_ns); /* the date at that os_now_ns */
	void (*sleep_ns)(uint64_t);
	void (*charge)(enum os_cost, uint64_t);
	uint32_t (*choose)(const char *, uint32_t);
	bool (*fault)(const char *, const void *, struct os_fault *);
	bool (*buggify)(const struct os_site *);
	void (*probe)(const struct os_site *);
	void (*trace)(const char *, uint64_t, uint64_t, uint64_t);
	void (*trace_bytes)(const char *, uint64_t, const void *, size_t);
	bool (*tracing)(void);
	/* 'B': os_trace_begin, 'E': os_trace_end, 'X': os_trace_span; only 'X' uses the time */
	void (*trace_slice)(char phase, const struct os_trace_slice *, uint64_t);
	void (*progress)(void);
	void (*label)(const void *, const struct os_label *);
	void (*unlabel)(const void *);
	/* NULL: every thread is a task, or becomes one. */
	bool (*thread_is_known)(void);
	/* True if it zeroed the memory without looking at it. NULL: never. */
	bool (*zero)(void *, size_t);
	/* Hooks of shared.h; NULL: does nothing (plain `posix`). */
	void (*shared_point)(const void *, size_t, enum shared_access, enum shared_order);
	bool (*shared_store)(void *, size_t, uint64_t, enum shared_order);
	void (*shared_wrote)(const void *, size_t, enum shared_access);
	void (*shared_note)(const void *, size_t, enum shared_access);
};

struct base_state; /* core/base/base_state.h */

struct os_world_ops {
	const char *name; /* "real", "world" */
	struct base_state *(*base_state)(void);
	void *(*alloc)(size_t, const char *);
	void (*free)(void *);
	const void *(*memo)(const char *, const void *, size_t,
			    void *(*)(const void *, size_t, void *), void *);
	const char *(*env)(const char *);
	const char *(*env_at)(int);
	void (*host_name)(char *, size_t);
	void (*boot_id)(char *, size_t);
	int (*shm_device)(uint64_t *);
	int (*descriptors_raise)(uint64_t *);
	void (*random)(void *, size_t);
	int (*file_read)(const char *, char **, size_t *);
	int (*file_write)(const char *, const char *, size_t);
	int (*dir_list)(const char *, char **, int *);
	int (*real_path)(const char *, char *);
	void (*log_line)(const char *);
	void (*code_name)(const void *at, char *out, size_t bytes);
	/* NULL (all three): the world compares nothing */
	int (*agree)(uint64_t, uint64_t, int32_t, const char *, const void *,
		     struct os_agree_other *);
	void (*agree_member)(uint64_t, uint64_t, bool);
	int (*agree_order)(uint64_t, uint64_t, uint64_t, int32_t, const char *, const void *,
			   struct os_agree_other *);
	void (*use)(const struct os_use *);
	int (*interface)(int, char *, size_t, struct os_addr *);
	int (*resolve)(const char *, uint16_t, struct os_addr *);
	int (*listen)(const struct os_addr *, int *, struct os_addr *);
	int (*connect)(const struct os_addr *, int *);
	int (*connected)(int);
	int (*accept)(int, int *, struct os_addr *);
	int (*send)(int, const void *, size_t, size_t *);
	int (*recv)(int, void *, size_t, size_t *);
	int (*close)(int);
	const void *(*socket_object)(int);
	bool (*socket_changed)(int, uint64_t);
	int (*shm_create)(const char *, size_t, void **);
	int (*shm_open)(const char *, size_t, void **, size_t *);
	int (*shm_unlink)(const char *);
	int (*shm_unmap)(void *, size_t);
	int (*mailbox_open)(const char *, int *);
	void (*mailbox_close)(int);
	int (*mailbox_post)(const char *, uint64_t, int);
	int (*mailbox_take)(int, uint64_t *, int *);
	const void *(*mailbox_object)(int);
};

extern const struct os_sched_ops os_posix_ops;
extern const struct os_world_ops os_real_ops;

/* Installs both halves; NULL keeps the current half. Call only while no other task runs. */
void os_install(const struct os_sched_ops *sched, const struct os_world_ops *world);
/* Registers `begin` for programs that do not know about worlds. os.c calls `begin` when a caller
 * requests its task or memory while `posix` schedules, and until `begin` has returned true once.
 * Calls of other threads wait inside `begin` while one thread runs it. `begin` may install other
 * tables, which then serve the request. */
void os_on_first_call(bool (*begin)(void));
/* Returns the log level and the parameters of the calling process. Never NULL; no scheduling
 * point. */
struct base_state *os_base_state(void);

/* Returns the number of os_alloc blocks not yet freed in the real world. Sets *first (may be NULL)
 * to the label of the oldest block. */
uint64_t os_real_alloc_count(const char **first);

/* The real world then reads no configuration file that no variable names (os_conf.h). Call before
 * any read of a parameter. */
void os_real_conf_named_only(void);

/* Sets pid, pid_space and net_space from the real process. */
void os_real_identify(struct os_proc *proc);

/* Return the tables in force, for tests and for labels ("times are virtual"). */
const struct os_sched_ops *os_sched_in_force(void);
const struct os_world_ops *os_world_in_force(void);

/* os_library.c: os_code_name in the real world. */
void os_code_name_real(const void *at, char *out, size_t bytes);

#endif
