/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os.h: the host seam. Core and the doubles reach the operating system only through these
 * functions: threads, clocks, sleep, sockets, random numbers, environment, files and shared memory.
 *
 * Two halves implement it. Each is a table of operations (os_ops.h), set once at start-up by
 * os_install():
 *
 *   scheduling   threads, waiting, time        `posix` (core/os/os_posix.c), `sim` (sim/engine)
 *   world        identity, env, files, sockets `real`  (core/os/os_real.c),  `world` (sim/world)
 *
 * Without os_install() the pair posix + real is in force, so an ordinary program needs no set-up.
 *
 * Errors: 0, or a positive errno; outputs are set only on success, unless a function's comment
 * differs. `errno` itself is never set or read across a wait. Time is in ns.
 *
 * Any task may call every function. A function marked WAITS may switch to another task, so
 * the caller holds no half-updated state there. Files, sockets, shared memory and os_event_seq are
 * calls of the outside: each is a scheduling point before it acts, like an access to a shared word.
 * os_thread_start is a scheduling point after the new task can run. Any other function neither
 * waits nor switches.
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

/* The slots replace static and thread-local variables. Process state is in os_proc.slot, task state
 * in os_self.slot. Each user has a slot, which no other user touches. Slots start NULL. */
enum os_slot {
	OS_SLOT_CORE,   /* core/api: comm list, group depth, last error */
	OS_SLOT_LOG,    /* core/base/log */
	OS_SLOT_CUDA,   /* backends/fakecuda or backends/cuda */
	OS_SLOT_VERBS,  /* backends/fakeverbs or backends/verbs */
	OS_SLOT_WORLD,  /* sim/world */
	OS_SLOT_PLUGIN, /* plugins/net */
	OS_SLOT_TEST,   /* the engine's user: the command line, a test */
	OS_SLOT_COUNT,
};

/* A process, simulated or real: the unit of memory ownership, descriptors and death. */
struct os_proc {
	uint32_t id;      /* 0.. in order of creation; the real world has one process, 0 */
	uint32_t host;    /* index of its host */
	int32_t pid;      /* result of getpid; unique on its host within its pid_space */
	const char *name; /* "host0/p3"; owned by the world */
	/* The pid namespace of the process. Each container of a host has its own. */
	uint64_t pid_space;
	uint64_t net_space; /* the network namespace, which scopes mailbox names */
	bool dying;         /* a fault kills it; its tasks end soon */
	void *slot[OS_SLOT_COUNT];
};

/* A task: one thread of control. */
struct os_self {
	uint32_t id; /* 0.. in order of creation */
	struct os_proc *proc;
	const char *name; /* "rank3 main", "rank3 proxy progress" */
	int32_t rank;     /* the rank that the task works for; -1: no rank */
	/* Range of ranks [driven_first, driven_end) that covers every rank of the task's
	 * os_work_for calls. */
	int32_t driven_first, driven_end;
	/* Step of the operation that the task works on, as a fault plan addresses it; -1: no step.
	 * Set by the proxy. */
	int64_t step;
	/* In the trace file: flow of the messages that the task sends; 0: no flow. */
	uint64_t flow;
	/* Name and number of the collective that a kernel's task works on. NULL: no collective. */
	const char *work;
	uint64_t work_number;
	/* Error text of the task's latest call of the stack, or NULL if that call succeeded. Other
	 * ranks may wait in vain because of this error. */
	const char *refused;
	/* In an os_wait of several waits: array with the rank of each wait, parallel to the waits.
	 * NULL: all are for `rank`. A task that works for several ranks sets it before the wait and
	 * clears it after. */
	const int32_t *wait_ranks;
	void *slot[OS_SLOT_COUNT];
};

/* Return the calling task and its process, never NULL. os_self is not inlined: a task may move
 * between OS threads across a wait, and an inlined thread-local read would be stale. `posix` adopts
 * a thread that os_thread_start did not create; `sim` prints a message and aborts. */
struct os_self *os_self(void);
struct os_proc *os_proc(void);
/* False: the calling thread is not a task, and os_self would end the process. It is the only call
 * that any thread may make, such as one that a plugin started. */
bool os_thread_is_known(void);

/* Makes the calling task work for `rank` and returns the previous rank. A task may drive several
 * ranks in sequence. Its launches, and the faults that it meets, are attributed to the current
 * rank. */
int32_t os_work_for(int32_t rank);

/* Names an object (any address: a QP, a connection, a stream) for wait-for graphs, traces and fault
 * addresses. The label is copied. A second label replaces the first. Call os_unlabel before the
 * object's memory is reused. Real world: no-ops. */
struct os_label {
	const char *what; /* "proxy send", "qp"; a string constant */
	int32_t rank, peer, channel;
	int64_t number; /* qp number, connection index...; -1: no number */
};
void os_label(const void *object, const struct os_label *label);
void os_unlabel(const void *object);

/* ---- threads -------------------------------------------------------------------------------- */

struct os_thread; /* opaque, owned by the implementation until joined */

struct os_thread_attr {
	const char *name; /* copied; gdb and the hang explainer show it */
	int32_t rank;     /* -1: no rank */
	bool background;  /* does not keep the world alive: keep-alives, watchdogs */
	bool detached;    /* no task joins it: its record is freed when it ends */
};

/* Starts a task in the caller's process. EAGAIN: no more threads. *t is not set for a detached
 * task. */
int os_thread_start(struct os_thread **t, const struct os_thread_attr *attr, void (*fn)(void *arg),
		    void *arg);
/* os_thread_start for a task of a rank, named "rank2 launch"; sets *t to NULL on an error. */
int os_task_start(struct os_thread **t, int32_t rank, const char *what, void (*fn)(void *arg),
		  void *arg);
/* WAITS until the thread has ended and frees it. Exactly once per started thread. */
int os_thread_join(struct os_thread *t);

/* ---- waiting -------------------------------------------------------------------------------- */

/* WAITS until one of the n waits is true. Returns 0 and sets *index (may be NULL) to the first true
 * wait in array order. ETIMEDOUT: the earliest non-zero deadline has passed. ECANCELED: *abort (may
 * be NULL) is non-zero; this is checked first. An OBJECT wait may report itself true early. n may
 * be 0 only with a non-NULL abort. The waits are only read and must live until the return. */
int os_wait(const struct wait *const *w, int n, const shared_u32 *abort, int *index);
/* os_wait for one wait. */
int os_wait_one(const struct wait *w, const shared_u32 *abort);

/* The agent of a wait that belongs to no step. */
static inline struct wait_from wait_by(int32_t rank, int32_t channel, const char *object)
{
	return (struct wait_from){.rank = rank, .channel = channel, .step = -1, .object = object};
}
/* A wait without a deadline: on a word, or on an event count that was `seq`. */
static inline struct wait wait_word(const void *on, uint8_t bytes, enum wait_kind kind,
				    uint64_t want, const char *why, struct wait_from from)
{
	return (struct wait){.on = on,
			     .want = want,
			     .mask = WAIT_MASK_ALL,
			     .kind = (uint8_t)kind,
			     .bytes = bytes,
			     .why = why,
			     .from = from};
}
static inline struct wait wait_object(const void *on, uint64_t seq, const char *why,
				      struct wait_from from)
{
	return (struct wait){.on = on, .want = seq, .kind = WAIT_OBJECT, .why = why, .from = from};
}

/* Event counts serve waits that are not on one word (a CQ, a socket, a mailbox). The owner posts on
 * the object's address; the waiter compares sequences. Any address works without creation.
 * Different objects may share a count, which only ends waits early. */
/* Call os_event_seq before the check that decides about a wait. A count that is read after the
 * check misses a change between the two. */
uint64_t os_event_seq(const void *object);
void os_event_post(const void *object);

/* Reports that a program's query (of a stream, an event, a communicator's state) had no result;
 * `why` names the polled object. A query does not wait; its caller chooses how to wait.
 *
 * - `posix` MUST return immediately, always.
 * - `threads` MAY yield the processor, and MUST NOT sleep.
 * - `sim` WAITS, because a polling loop would otherwise stop virtual time: a miss costs virtual
 *   time. After several misses in a row the task sleeps until something in the world changes.
 *
 * A poll with a result calls os_poll_hit() to end the row. Loops of the stack itself use os_wait
 * instead. */
void os_poll_miss(const char *why);
void os_poll_hit(void);

/* A lock for state shared by tasks of one process. Zeroed memory is an unlocked mutex; it needs no
 * destruction. os_mutex_lock WAITS. Not recursive; only the owner unlocks. */
struct os_mutex {
	shared_u32 word;
};
void os_mutex_lock(struct os_mutex *m);
/* Locks it if it is free. False: a task owns it. */
bool os_mutex_try_lock(struct os_mutex *m);
void os_mutex_unlock(struct os_mutex *m);

/* ---- time ----------------------------------------------------------------------------------- */

uint64_t os_now_ns(void);      /* monotonic; virtual under sim */
void os_sleep_ns(uint64_t ns); /* WAITS */
/* Returns the date: ns since 1970 in UTC. Virtual under sim, where each world begins at the same
 * date. For people only: it may jump, and no wait uses it. */
uint64_t os_date_ns(void);

/* Units of work that cost virtual time. A charge delays the caller at its next scheduling point;
 * real scheduling ignores it. */
enum os_cost {
	OS_COST_CALL,       /* amount: calls of an API entry point */
	OS_COST_PROXY_PASS, /* amount: passes of a progress loop */
	OS_COST_COPY,       /* amount: bytes copied by the CPU */
	OS_COST_NS,         /* amount: nanoseconds */
};
void os_charge(enum os_cost what, uint64_t amount);

/* ---- choices, faults, trace ----------------------------------------------------------------- */

/* Returns one of 0..n-1, drawn by the engine, recorded and replayed; 0 in the real world. `site` is
 * a string constant that names the choice. */
uint32_t os_choose(const char *site, uint32_t n);

/* A fault point: a place where the outside may fail. `site` is a string constant "layer.operation"
 * ("os.alloc", "verbs.reg_mr", "fabric.packet") of the engine's tables. The label of `object` (may
 * be NULL) holds the rank, peer and channel that address the fault. Without a label the calling
 * task's rank does. Returns true with *f filled in, or false, as in nearly all calls. Real world:
 * false. */
enum os_fault_kind {
	OS_FAULT_FAIL,      /* fail the call; arg: errno, or 0 for the site's usual */
	OS_FAULT_DROP,      /* lose the message */
	OS_FAULT_DELAY,     /* arg: ns */
	OS_FAULT_RESET,     /* break the connection */
	OS_FAULT_DOWN,      /* arg: ns until it heals, 0: never; more: 1: another address then */
	OS_FAULT_ERROR,     /* complete with a status; arg: the status */
	OS_FAULT_KILL,      /* end the task's process here */
	OS_FAULT_SPURIOUS,  /* fail a weak compare-and-swap */
	OS_FAULT_DUPLICATE, /* deliver it twice; arg: ns until the second copy */
	OS_FAULT_REORDER,   /* later messages overtake it; arg: ns of delay */
	OS_FAULT_CORRUPT,   /* arg: 0 the checksum detects it, 1 it does not */
	OS_FAULT_CLOG,      /* hold all messages for left_ns, then deliver them */
	OS_FAULT_PARTITION, /* lose all messages for left_ns */
	OS_FAULT_SLOW,      /* arg: factor by which it is slower, for left_ns */
	OS_FAULT_FLAP,      /* link down and up repeatedly; arg: times, more: ns of each */
	OS_FAULT_LIMIT,     /* lose or refuse all that is larger; arg: bytes, for left_ns */
	OS_FAULT_PARTIAL,   /* do a part of it; arg: how much, more: ns until the rest is visible */
	OS_FAULT_LATE,      /* done, but visible later; arg: ns */
	OS_FAULT_FATAL,     /* the object is broken from here on */
	OS_FAULT_FLUSH,     /* end everything outstanding with an error */
	OS_FAULT_REFUSE,    /* refuse the peer's request; arg: the reason */
	OS_FAULT_NOT_READY, /* reply "not ready" to the peer, for left_ns */
	OS_FAULT_STARVE,    /* arg: ns during which the task does not run */
	OS_FAULT_GARBAGE,   /* another program connects and sends garbage; arg: ns from now */
	OS_FAULT_SILENT,    /* another program connects and sends nothing; arg: ns from now */
	/* The stream ends in order. At a listener: another program connects and closes; arg: ns
	 * from now. */
	OS_FAULT_CLOSE,
	OS_FAULT_STICKY, /* fail this call and all later ones; arg: the error */
	OS_FAULT_HOLD,   /* let all other blocks run first */
};
struct os_fault {
	enum os_fault_kind kind;
	uint64_t arg, more; /* parameters of the action */
	uint64_t left_ns;   /* remaining time of a lasting fault; UINT64_MAX: until faults heal */
};
bool os_fault(const char *site, const void *object, struct os_fault *f);

/* Adds a trace record to the rolling hash and to the trace file. `kind` is a string constant; a, b,
 * c are object numbers and sizes, never addresses. */
void os_trace(const char *kind, uint64_t a, uint64_t b, uint64_t c);
/* os_trace for payload: hashes the bytes. */
void os_trace_bytes(const char *kind, uint64_t a, const void *bytes, size_t n);
/* The timeline of the trace file, for people. It is not in the hash, is no scheduling point, and
 * does not change the run. A slice is an interval with a name and arguments on the track of the
 * calling task; slices on one track nest. An arrow leads from each slice with flow_out to each
 * slice of the same flow with flow_in. */
#define OS_TRACE_ARGS 14
struct os_trace_slice {
	const char *name;
	struct {
		const char *name; /* NULL: end of the arguments */
		uint64_t number;
		const char *text; /* NULL: the number is the value */
	} arg[OS_TRACE_ARGS];
	uint64_t flow; /* result of os_trace_flow; 0: no flow */
	bool flow_in, flow_out;
};
/* True if a trace file is written. If not, the functions below do nothing. Callers check first,
 * because the arguments cost time. */
bool os_tracing(void);
void os_trace_begin(const struct os_trace_slice *slice);
/* Ends the slice and adds these arguments to those of os_trace_begin. */
void os_trace_end(const struct os_trace_slice *slice);
/* Records a whole slice, from from_ns until now. */
void os_trace_span(const struct os_trace_slice *slice, uint64_t from_ns);
/* Returns the flow of a step from one rank to another on a channel of a communicator. Both ends
 * compute the same value. It is not 0 and has 44 bits: enough for a file, and short. */
uint64_t os_trace_flow(uint64_t comm, int32_t from, int32_t to, int32_t channel, uint64_t step);

/* Reports progress towards the end of the run (a step, a CQE, a message). Resets the budget after
 * which the engine reports a livelock. */
void os_progress(void);

/* ---- memory --------------------------------------------------------------------------------- */

/* Allocates zeroed memory from the process' arena. Killing a process frees its arena. Blocks that
 * remain at its orderly end are reported as leaks, by `what`. NULL: out of memory (a fault point).
 * os_free(NULL) is allowed. */
void *os_alloc(size_t bytes, const char *what);
void os_free(void *p);

/* Zeroes memory that no other agent uses yet. Pages that are zero are not written: large memory
 * that is new from the system stays without pages. In `sim` no device pins memory, and whole pages
 * may be given back to the system. */
void os_zero(void *p, size_t bytes);

/* A pure cache keyed by content. It is the only state that simulated processes share; the value
 * must therefore be immutable and a function of the key alone. Returns the cached value for this
 * key. On a miss it calls make(key, key_bytes, arg), which returns a malloc block, or NULL on error
 * (not cached). The cache owns the block. Real world: one cache per process. */
const void *os_memo(const char *kind, const void *key, size_t key_bytes,
		    void *(*make)(const void *key, size_t key_bytes, void *arg), void *arg);

/* ---- world: identity and environment -------------------------------------------------------- */

/* Returns the value in the calling process' environment, or NULL. Valid while the process lives. */
const char *os_env(const char *name);
/* Returns the variable with that index as "NAME=value"; NULL after the last. */
const char *os_env_at(int index);
/* Writes the host name, NUL-terminated, cut to `bytes`. */
void os_host_name(char *out, size_t bytes);
/* Writes /proc/sys/kernel/random/boot_id, which identifies a host. At most 63 characters. */
void os_boot_id(char *out, size_t bytes);
/* Sets *device to the number of the device that holds /dev/shm, not 0. Two processes of a host with
 * the same number see each other's segments. Each container may have its own. ENOENT: no
 * /dev/shm. */
int os_shm_device(uint64_t *device);
/* Raises the process' limit of open descriptors to its hard limit and sets *most to the new limit.
 * May be called repeatedly. A positive errno: the limit is unchanged. A simulated world has no
 * limit. */
int os_descriptors_raise(uint64_t *most);
/* Writes random bytes for identifiers; in a simulated world from the seed's named stream. */
void os_random(void *out, size_t bytes);

/* Reads a whole file of the process' view (its /sys root included). *data is allocated with
 * os_alloc, with a NUL after its *bytes. ENOENT, EACCES, EISDIR, EIO, ENOMEM, EFBIG (> 16 MiB). */
int os_file_read(const char *path, char **data, size_t *bytes);
/* Creates or replaces a file with these bytes. In a world, too, the file is in the real machine's
 * file system, as the log is. ENOENT, EACCES, ENOSPC (no room on the disk, or in the user's quota),
 * EIO. */
int os_file_write(const char *path, const char *data, size_t bytes);
/* Lists the names in a directory of the process' view, without "." and "..", sorted by byte. *names
 * holds them one after another, each with its NUL; it is allocated with os_alloc. ENOENT, ENOTDIR,
 * EACCES, EIO, ENOMEM, EFBIG (more than OS_DIR_BYTES of names). */
#define OS_DIR_BYTES (1u << 20)
int os_dir_list(const char *path, char **names, int *count);
/* Resolves every link, "." and ".." of the path. ENOENT, ENOTDIR, ELOOP, EACCES, EIO, ENAMETOOLONG
 * (longer than `out`). */
#define OS_PATH_BYTES 1024
int os_real_path(const char *path, char out[OS_PATH_BYTES]);

/* A shared library, by its path or by a name that the loader resolves; NULL: the program, with the
 * libraries that it is linked with. It is always a library of the real machine; in a world all
 * processes share one copy of its variables. ENOENT: `why` receives the loader's reason.
 * os_library_symbol returns NULL for an unknown symbol. */
int os_library_open(const char *name, void **library, char *why, size_t bytes);
void *os_library_symbol(void *library, const char *name);
void os_library_close(void *library); /* NULL is allowed */
/* Returns a word that lives as long as the library is open, 0 at first. In a world all processes
 * share it, like the library's variables. NULL: OS_LIBRARIES others are open. */
#define OS_LIBRARIES 16
shared_u32 *os_library_word(void *library);
/* Returns what getpid returns in a library: in a world the pid of the real machine. */
int32_t os_library_pid(void);
/* Writes the name of the function at an address of the program, such as "main+0x2a", or the file
 * and offset if it has no name; "?": unknown. NUL-terminated, cut to `bytes`. */
void os_code_name(const void *at, char *out, size_t bytes);
/* Closes a descriptor that a driver made, such as one of a dma-buf. It is always a descriptor of
 * the real machine, in a world, too. */
void os_descriptor_close(int fd);

/* Counts deliveries of a signal to the real process in **count, instead of the signal's effect,
 * until the process ends. EINVAL: no such signal, or it cannot be caught. EBUSY: the program has a
 * handler for it. No task is woken: a caller that wants the count looks at it. */
int os_signal_count(int number, const shared_u32 **count);

/* Writes one whole formatted line of log output. Real world: to stderr or NCCL_DEBUG_FILE. */
void os_log_line(const char *line);

/* ---- world: sockets ------------------------------------------------------------------------- */

/* Stream sockets, always non-blocking. Descriptors are small integers that belong to the
 * process. */
struct os_addr {
	uint16_t family; /* 4 or 6; 0: unset */
	uint16_t port;   /* host order */
	uint32_t scope;
	uint8_t ip[16]; /* network order; family 4 uses the first 4 bytes */
};
DOPPEL_CHECK_SIZE(struct os_addr, 24);

/* Sets *addr and `name` to those of interface number `index` of this host. Loopback interfaces,
 * which other hosts cannot reach, have the last numbers. The caller applies NCCL_SOCKET_IFNAME.
 * `index` counts from 0; ENOENT after the last. `name`: at least 16 bytes. */
int os_interface(int index, char *name, size_t name_bytes, struct os_addr *addr);

/* Resolves a name, or a numeric text with or without %scope, to an address with port 0. `family` is
 * 4, 6, or 0 for any. May wait for the system's name service. ENOENT: unknown name. */
int os_resolve(const char *name, uint16_t family, struct os_addr *addr);

int os_listen(const struct os_addr *at, int *fd, struct os_addr *bound); /* port 0: any port */
/* Starts a connection. ECONNREFUSED may be returned here or by os_connected. ENOBUFS: the kernel
 * has no resources for it, EAGAIN of connect(2). */
int os_connect(const struct os_addr *to, int *fd);
int os_connected(int fd); /* 0: connected; EAGAIN: pending; else the error */
int os_accept(int fd, int *conn, struct os_addr *peer); /* EAGAIN: no connection */
/* Sends *done bytes, perhaps fewer than n. EAGAIN: no room now. EPIPE or ECONNRESET: broken. */
int os_send(int fd, const void *data, size_t n, size_t *done);
/* Receives *done bytes, perhaps fewer than n. EAGAIN: no data now. 0 with *done 0: the peer
 * closed. */
int os_recv(int fd, void *data, size_t n, size_t *done);
int os_close(int fd);
/* Returns the object for an OBJECT wait. A post follows when the socket may have become readable,
 * writable or broken. */
const void *os_socket_object(int fd);
/* True if a call that returned EAGAIN may succeed now. `seq` is the object's count, read before
 * that call. A world that posts no events for sockets returns true. */
bool os_socket_changed(int fd, uint64_t seq);

/* ---- world: shared memory ------------------------------------------------------------------- */

/* The host's directory of segments. */
#define OS_SHM_DIR "/dev/shm"
/* Segments of the host's /dev/shm. The name has no slash.
 *
 * - os_shm_create makes a new segment (EEXIST) and maps it zeroed. It allocates all bytes: ENOSPC
 *   if they do not fit, and no later access fails.
 * - os_shm_open maps an existing segment (ENOENT; EINVAL if its size is not `bytes`). It sets
 *   *found (may be NULL) to the size of the segment, or to 0 if no segment exists.
 * - os_shm_unlink removes the name. The last unmap frees the memory. */
int os_shm_create(const char *name, size_t bytes, void **mem);
int os_shm_open(const char *name, size_t bytes, void **mem, size_t *found);
int os_shm_unlink(const char *name);
int os_shm_unmap(void *mem, size_t bytes);

#endif
