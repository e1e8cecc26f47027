/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os.h: the host seam. Everything that core, and the doubles, ask of an operating system, and the
 * only way to ask: threads, clocks, sleep, sockets, random numbers, environment, files and shared
 * memory are reached through these functions and no others.
 *
 * There are two halves behind it, each a table of operations (os_ops.h), set once at start-up by
 * os_install():
 *
 *   scheduling   threads, waiting, time        `posix` (core/os/os_posix.c), `sim` (sim/engine)
 *   world        identity, env, files, sockets `real`  (core/os/os_real.c),  `world` (sim/world)
 *
 * Without os_install() the pair posix + real is in force, so an ordinary program needs no set-up.
 *
 * Errors: 0, or a positive errno; outputs are set only on success, unless a function's comment has
 * more. `errno` itself is never set or read across a wait. Time is in ns. Every function may be
 * called from any task of a process; those marked WAITS may switch to another task, so the caller
 * holds no half-updated state there. Files, sockets and shared memory are calls of the outside:
 * each is a scheduling point before it acts, as an access to a shared word is, and os_event_seq;
 * os_thread_start is one after the new task can run. Any other function neither waits nor switches.
 */
#ifndef CORE_OS_OS_H
#define CORE_OS_OS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/shared.h"
#include "core/base/wait.h"
#include "core/os/site.h"

/* ---- tasks and processes -------------------------------------------------------------------- */

/* What would be a static in another library hangs off the process; what would be thread-local
 * hangs off the task. Each user has a slot, which no other user touches. Slots start NULL. */
enum os_slot {
	OS_SLOT_CORE,  /* core/api: comm list, group depth, last error */
	OS_SLOT_LOG,   /* core/base/log */
	OS_SLOT_CUDA,  /* backends/fakecuda or backends/cuda */
	OS_SLOT_VERBS, /* backends/fakeverbs or backends/verbs */
	OS_SLOT_WORLD, /* sim/world */
	OS_SLOT_TEST,  /* what runs the engine: the command line, a test */
	OS_SLOT_COUNT,
};

/* A process, simulated or real: unit of memory ownership, descriptors and death. */
struct os_proc {
	uint32_t id;      /* 0.. in order of creation; the real world has one, 0 */
	uint32_t host;    /* index of the host that it runs on */
	int32_t pid;      /* what getpid returns; unique on its host within its pid_space */
	const char *name; /* "host0/p3"; owned by the world */
	uint64_t
		pid_space; /* the pid namespace of the process: containers of a host have their own */
	uint64_t net_space; /* the network namespace, in which mailboxes have their names */
	void *slot[OS_SLOT_COUNT];
};

/* A task: one thread of control. */
struct os_self {
	uint32_t id; /* 0.. in order of creation */
	struct os_proc *proc;
	const char *name; /* "rank3 main", "rank3 proxy progress" */
	int32_t rank;     /* that it works for; -1: none */
	/* All ranks from driven_first up to driven_end (excluded) that os_work_for named. */
	int32_t driven_first, driven_end;
	/* Step of the operation that the task works on, as a fault plan addresses it; -1: none. Set
	 * by the code that works on steps, the proxy. */
	int64_t step;
	/* In the trace file: messages that the task sends belong to this flow; 0: to none. */
	uint64_t flow;
	/* The collective that a kernel's task works on, and its number. NULL: none. */
	const char *work;
	uint64_t work_number;
	/* The result, in words, of the task's latest call of the stack, if that was an error: what
	 * other ranks may wait for in vain. NULL: it was none. */
	const char *refused;
	/* In an os_wait of several waits: the rank that each of them is for, as a list beside the
	 * waits. NULL: all are for `rank`. Set before the wait and cleared after it, by a task that
	 * works for several ranks. */
	const int32_t *wait_ranks;
	void *slot[OS_SLOT_COUNT];
};

/* Never NULL. Not inlined: a task may move between OS threads across a wait, and an inlined
 * thread-local read would go stale. In `posix` a thread that was not announced is adopted here;
 * `sim` refuses it: prints and aborts. */
struct os_self *os_self(void);
struct os_proc *os_proc(void);

/* The calling task works for `rank` from here on, and not for the one that is returned. A task may
 * drive several ranks in turn; what it launches, and the faults that it meets, are of the rank that
 * it works for. */
int32_t os_work_for(int32_t rank);

/* Names an object (any address: a QP, a connection, a stream) for wait-for graphs, traces and
 * fault addresses. The label is copied. Relabelling replaces; os_unlabel before the object's
 * memory is reused. Real world: no-ops. */
struct os_label {
	const char *what; /* "proxy send", "qp"; a string constant */
	int32_t rank, peer, channel;
	int64_t number; /* qp number, connection index...; -1: none */
};
void os_label(const void *object, const struct os_label *label);
void os_unlabel(const void *object);

/* ---- threads -------------------------------------------------------------------------------- */

struct os_thread; /* opaque, owned by the implementation until joined */

struct os_thread_attr {
	const char *name; /* copied; what gdb and the hang explainer show */
	int32_t rank;     /* -1: none */
	bool background;  /* does not keep the world alive: keep-alives, watchdogs */
	bool detached;    /* no task joins it: it frees itself when it ends */
};

/* The new task belongs to the caller's process. EAGAIN: no more threads. *t is not set where the
 * task is detached. */
int os_thread_start(struct os_thread **t, const struct os_thread_attr *attr, void (*fn)(void *arg),
		    void *arg);
/* WAITS until it ended and frees it. Exactly once per started thread. */
int os_thread_join(struct os_thread *t);

/* ---- waiting -------------------------------------------------------------------------------- */

/* WAITS until one of the n waits is true and returns 0 with *index (may be NULL) set to the first
 * true one, in order of the array; ETIMEDOUT when the earliest non-zero deadline has passed;
 * ECANCELED when *abort (may be NULL) is non-zero, which is also checked first. An OBJECT wait may
 * report itself true early. n may be 0 only with a non-NULL abort. The waits are read only; they
 * live until return. */
int os_wait(const struct wait *const *w, int n, const shared_u32 *abort, int *index);
/* The same for one wait. */
int os_wait_one(const struct wait *w, const shared_u32 *abort);

/* Event counts, for things that are not one word (a CQ, a socket, a mailbox): the owner posts on
 * the object's address, the waiter compares sequences. Any address will do; nothing to create.
 * Different objects may share a count: that only causes early ends. */
/* Before the look that decides about a wait: what changes after the look is missed by a count that
 * is taken later. */
uint64_t os_event_seq(const void *object);
void os_event_post(const void *object);

/* A program's query (of a stream, an event, a communicator's state) had no result: `why` names what
 * it polls. A query does not wait: how its caller waits is the caller's choice. `posix` MUST return
 * immediately, always. `threads` MAY give the processor away, and MUST NOT sleep. `sim` WAITS,
 * because no time passes there otherwise: a miss costs virtual time; after some in a row by one
 * task, the task sleeps until something in the world changes. A poll with a result calls
 * os_poll_hit() to end the row. Not for loops of the stack itself: those wait by os_wait. */
void os_poll_miss(const char *why);
void os_poll_hit(void);

/* A lock for state shared by tasks of one process. Zeroed memory is an unlocked mutex; nothing to
 * destroy. os_mutex_lock WAITS. Not recursive; owner unlocks. */
struct os_mutex {
	shared_u32 word;
};
void os_mutex_lock(struct os_mutex *m);
void os_mutex_unlock(struct os_mutex *m);

/* ---- time ----------------------------------------------------------------------------------- */

uint64_t os_now_ns(void);      /* monotonic; virtual under sim */
void os_sleep_ns(uint64_t ns); /* WAITS */

/* What work costs in virtual time. A charge delays the caller at its next scheduling point; real
 * scheduling ignores it. */
enum os_cost {
	OS_COST_CALL,       /* amount: calls of an API entry point */
	OS_COST_PROXY_PASS, /* amount: passes of a progress loop */
	OS_COST_COPY,       /* amount: bytes copied by the CPU */
	OS_COST_NS,         /* amount: nanoseconds */
};
void os_charge(enum os_cost what, uint64_t amount);

/* ---- choices, faults, trace ----------------------------------------------------------------- */

/* One of 0..n-1, drawn by the engine, recorded and replayed; 0 in the real world. `site` is a
 * string constant that names the choice. */
uint32_t os_choose(const char *site, uint32_t n);

/* A fault point: the outside may fail here. `site` is a string constant "layer.operation"
 * ("os.alloc", "verbs.reg_mr", "fabric.packet") of the engine's tables; `object` (may be NULL)
 * finds the label whose rank, peer and channel address the fault, else the calling task's rank
 * does. Returns false, nearly always, or true with *f filled in. Real world: false. */
enum os_fault_kind {
	OS_FAULT_FAIL,      /* fail the call; arg: errno, or 0 for the site's usual */
	OS_FAULT_DROP,      /* lose it; */
	OS_FAULT_DELAY,     /* arg: ns */
	OS_FAULT_RESET,     /* break the connection */
	OS_FAULT_DOWN,      /* arg: ns until it heals, 0: never */
	OS_FAULT_ERROR,     /* complete with a status; arg: the status */
	OS_FAULT_KILL,      /* end the task's process here */
	OS_FAULT_SPURIOUS,  /* fail a weak compare-and-swap */
	OS_FAULT_DUPLICATE, /* do it twice; arg: ns until the second one */
	OS_FAULT_REORDER,   /* later than what comes behind it; arg: ns */
	OS_FAULT_CORRUPT,   /* arg: 0 found out below, 1 not */
	OS_FAULT_CLOG,      /* hold everything for left_ns, then all comes */
	OS_FAULT_PARTITION, /* lose everything for left_ns */
	OS_FAULT_SLOW,      /* arg: times slower, for left_ns */
	OS_FAULT_FLAP,      /* down and up again; arg: times, more: ns down, and ns up */
	OS_FAULT_LIMIT,     /* nothing larger gets through; arg: bytes, for left_ns */
	OS_FAULT_PARTIAL,   /* do a part of it; arg: how much, more: ns until the rest shows */
	OS_FAULT_LATE,      /* done, but it shows later; arg: ns */
	OS_FAULT_FATAL,     /* the object is broken from here on */
	OS_FAULT_FLUSH,     /* end everything outstanding with an error */
	OS_FAULT_REFUSE,    /* say no to the peer; arg: why */
	OS_FAULT_NOT_READY, /* say "later" to the peer, for left_ns */
	OS_FAULT_STARVE,    /* arg: ns in which the task does not run */
	OS_FAULT_GARBAGE,   /* another program connects and sends garbage; arg: ns from now */
	OS_FAULT_SILENT,    /* another program connects and sends nothing; arg: ns from now */
	OS_FAULT_CLOSE,     /* the end of a stream, in order; a stranger's: arg: ns from now */
	OS_FAULT_STICKY,    /* fail this call and all later ones; arg: the error */
	OS_FAULT_HOLD,      /* let all others go first */
};
struct os_fault {
	enum os_fault_kind kind;
	uint64_t arg, more; /* the action's parameters */
	uint64_t left_ns;   /* of what lasts: how much longer; UINT64_MAX: until faults heal */
};
bool os_fault(const char *site, const void *object, struct os_fault *f);

/* A trace record: goes into the rolling hash and into the trace file. `kind` is a string constant;
 * a, b, c are object numbers and sizes, never addresses. */
void os_trace(const char *kind, uint64_t a, uint64_t b, uint64_t c);
/* The same for payload: hashes the bytes. */
void os_trace_bytes(const char *kind, uint64_t a, const void *bytes, size_t n);
/* The timeline of the trace file, for people. It is not in the hash, is no scheduling point, and
 * changes nothing of the run. A slice is an interval with a name and arguments on the track of the
 * calling task; slices on one track nest. An arrow leads from each slice that has a flow out to
 * each slice with the same flow in. */
#define OS_TRACE_ARGS 14
struct os_trace_slice {
	const char *name;
	struct {
		const char *name; /* NULL: no more arguments */
		uint64_t number;
		const char *text; /* NULL: the number is the value */
	} arg[OS_TRACE_ARGS];
	uint64_t flow; /* of os_trace_flow; 0: none */
	bool flow_in, flow_out;
};
/* Is a trace file written? The functions below do nothing if not; callers check first, because
 * the arguments cost time. */
bool os_tracing(void);
void os_trace_begin(const struct os_trace_slice *slice);
/* Adds the arguments to those of the beginning. */
void os_trace_end(const struct os_trace_slice *slice);
/* A whole slice, which ends now. */
void os_trace_span(const struct os_trace_slice *slice, uint64_t from_ns);
/* What goes from one rank to another on a channel of a communicator, as a flow. The same on both
 * ends, not 0, and of 44 bits: enough for a file, and short. */
uint64_t os_trace_flow(uint64_t comm, int32_t from, int32_t to, int32_t channel, uint64_t step);

/* Progress towards the end of the run was made (a step, a CQE, a message): resets the budget after
 * which the engine calls it a livelock. */
void os_progress(void);

/* ---- memory --------------------------------------------------------------------------------- */

/* Zeroed memory from the process' arena: killing a process frees it wholesale, and what is left
 * at its orderly end is reported as a leak, by `what`. NULL: out of memory (a fault point).
 * os_free(NULL) is fine. */
void *os_alloc(size_t bytes, const char *what);
void os_free(void *p);

/* A pure cache keyed by content, the one thing that simulated processes may share: the value must
 * be a function of the key alone and is immutable. Returns the cached value for this key, or calls
 * make(key, arg), which returns one allocated with malloc, or NULL on error (not cached). The
 * cache owns it. Real world: one cache a process. */
const void *os_memo(const char *kind, const void *key, size_t key_bytes,
		    void *(*make)(const void *key, size_t key_bytes, void *arg), void *arg);

/* ---- world: identity and environment -------------------------------------------------------- */

/* The value in the calling process' environment, or NULL. Valid while the process lives. */
const char *os_env(const char *name);
/* The variable of that index, "NAME=value"; NULL past the last. */
const char *os_env_at(int index);
/* Host name; NUL-terminated, cut to `bytes`. */
void os_host_name(char *out, size_t bytes);
/* /proc/sys/kernel/random/boot_id: tells hosts apart. At most 63 characters. */
void os_boot_id(char *out, size_t bytes);
/* Number of the device that /dev/shm is on, not 0: two processes of a host that have the same one
 * see each other's segments; containers may have one each. ENOENT: there is none. */
int os_shm_device(uint64_t *device);
/* Lets the process have as many descriptors open as the system allows it (its hard limit); *most:
 * how many that are. Any number of times. A positive errno: the limit is as before. A simulated
 * world has no limit. */
int os_descriptors_raise(uint64_t *most);
int32_t os_cpu(void); /* CPU the task runs on, or -1 */
/* Random bytes for identifiers; from the named stream of the seed in a simulated world. */
void os_random(void *out, size_t bytes);

/* Reads a whole file of the process' view (its /sys root included): *data is allocated with
 * os_alloc, NUL-terminated behind its *bytes. ENOENT, EACCES, EIO, ENOMEM, EFBIG (> 16 MiB). */
int os_file_read(const char *path, char **data, size_t *bytes);
/* Makes a file, or replaces one, with those bytes. A file that a process of a world writes is one
 * of the real machine, as its log is. ENOENT, EACCES, ENOSPC (no room on the disk, or in the user's
 * quota), EIO. */
int os_file_write(const char *path, const char *data, size_t bytes);
/* The names in a directory of the process' view, without "." and "..", sorted by byte: each with
 * its NUL, one after the other, in *names, which is allocated with os_alloc. ENOENT, ENOTDIR,
 * EACCES, EIO, ENOMEM, EFBIG (more than OS_DIR_BYTES of names). */
#define OS_DIR_BYTES (1u << 20)
int os_dir_list(const char *path, char **names, int *count);
/* The path with every link followed and without "." and "..". ENOENT, ENOTDIR, ELOOP, EACCES, EIO,
 * ENAMETOOLONG (more than fits). */
#define OS_PATH_BYTES 1024
int os_real_path(const char *path, char out[OS_PATH_BYTES]);

/* A shared library, by its path or as the loader finds its name. It is one of the real machine: in
 * a world, too, and there all processes have one copy of its variables. ENOENT: `why` gets the
 * loader's reason. os_library_symbol: NULL if there is none of that name. */
int os_library_open(const char *name, void **library, char *why, size_t bytes);
void *os_library_symbol(void *library, const char *name);
void os_library_close(void *library); /* NULL is fine */
/* A descriptor that a driver made, as of a dma-buf: one of the real machine, in a world, too. */
void os_descriptor_close(int fd);

/* Log output: whole lines, already formatted. Real world: stderr or NCCL_DEBUG_FILE. */
void os_log_line(const char *line);

/* ---- world: sockets ------------------------------------------------------------------------- */

/* Stream sockets, never blocking. Descriptors are small integers that belong to the process. */
struct os_addr {
	uint16_t family; /* 4 or 6; 0: unset */
	uint16_t port;   /* host order */
	uint32_t scope;
	uint8_t ip[16]; /* network order; the first 4 for family 4 */
};
DOPPEL_CHECK_SIZE(struct os_addr, 24);

/* The address of an interface of this host that others can reach; NCCL_SOCKET_IFNAME is the
 * caller's business. index counts from 0; ENOENT past the last. name: at least 16 bytes. */
int os_interface(int index, char *name, size_t name_bytes, struct os_addr *addr);

/* The address of a name, or of a numeric text with or without %scope; family 4 or 6, 0: any. Port
 * 0. May wait for the system's name service. ENOENT: it has none. */
int os_resolve(const char *name, uint16_t family, struct os_addr *addr);

int os_listen(const struct os_addr *at, int *fd, struct os_addr *bound); /* port 0: any */
/* Starts a connection. ECONNREFUSED may come now or from os_connected. */
int os_connect(const struct os_addr *to, int *fd);
int os_connected(int fd);                               /* 0: yes; EAGAIN: not yet; else why not */
int os_accept(int fd, int *conn, struct os_addr *peer); /* EAGAIN: nobody */
/* *done bytes were taken, maybe fewer than n; EAGAIN: none now. EPIPE or ECONNRESET: broken. */
int os_send(int fd, const void *data, size_t n, size_t *done);
/* *done bytes came, maybe fewer than n; EAGAIN: none now. 0 with *done 0: the peer closed. */
int os_recv(int fd, void *data, size_t n, size_t *done);
int os_close(int fd);
/* The OBJECT to wait on: posted when the socket may have become readable, writable or broken. */
const void *os_socket_object(int fd);
/* May a call that found nothing, or no room, find it now? `seq` is the object's count, read before
 * that call. A port that posts no events for sockets answers true. */
bool os_socket_changed(int fd, uint64_t seq);

/* ---- world: shared memory ------------------------------------------------------------------- */

/* Where the host keeps its segments. */
#define OS_SHM_DIR "/dev/shm"
/* A segment of the host's /dev/shm: create makes a new one (EEXIST) and maps it zeroed. All its
 * bytes are allocated there: ENOSPC where they do not fit, and no access fails later. Open maps an
 * existing one (ENOENT; EINVAL when its size is not `bytes`), and sets *found (may be NULL) to its
 * size whenever it exists, else to 0. The name has no slash. Unlink removes the name; memory goes
 * with the last unmap. */
int os_shm_create(const char *name, size_t bytes, void **mem);
int os_shm_open(const char *name, size_t bytes, void **mem, size_t *found);
int os_shm_unlink(const char *name);
int os_shm_unmap(void *mem, size_t bytes);

#endif
