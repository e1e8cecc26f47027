/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State that the files of the world share and no other room sees. There is one instance, `world`,
 * while a world exists. Owner of each part: world.c life, hosts, leaks and the table of
 * operations; machine.c topology files; proc.c processes, environment and memory; socket.c and
 * world_stream.c sockets; world_shm.c shared memory; host.c identity, files, memo; sys.c each
 * machine's /sys, in a tree of files.c; world_agree.c agreements; fabric.c ports; world_arena.c
 * the arena.
 *
 * Locks: under `sim` no function here switches tasks between its scheduling point and its return.
 * No lock is needed then. Under `threads` each part has one os_mutex. No thread holds two of them,
 * with one exception: allocation locks the process under any of them. No thread waits while it
 * holds one.
 */
#ifndef SIM_WORLD_WORLD_INTERNAL_H
#define SIM_WORLD_WORLD_INTERNAL_H

#include "core/base/base_state.h"
#include "core/base/macros.h"
#include "core/base/memo_table.h"
#include "core/os/os_ops.h"
#include "sim/engine/memory/memory.h"
#include "sim/world/world.h"

#pragma GCC visibility push(hidden)

#define WORLD_NAME_BYTES 48
#define WORLD_TOPO_PATH  "/topo/machine.xml"
#define WORLD_HOOKS      8

struct world_proc;

/* ---- machine.c ------------------------------------------------------------------------------ */

/* Writes a PCI address as the kernel and CUDA print it: lower case, with the parts that the file
 * omits. False: `text` is not a PCI address. */
bool world_address(const char *text, char out[24]);

/* ---- memory --------------------------------------------------------------------------------- */

struct world_block {
	struct world_block *next, *prev;
	struct world_proc *owner;
	const char *what;
	size_t bytes;
	uint64_t magic;
};
DOPPEL_STATIC_CHECK(sizeof(struct world_block) % 16 == 0, "blocks keep malloc's alignment");
#define WORLD_BLOCK_MAGIC 0xb10cb10cb10cb10cull

/* ---- processes ------------------------------------------------------------------------------ */

struct world_env {
	struct world_env *next; /* next older; replaced values stay valid */
	const char *value;      /* in text, after the '=' */
	size_t name_bytes;
	bool of_file; /* from a configuration file */
	bool gone;    /* not in the environment any longer; pointers to it stay valid */
	char text[];  /* "NAME=value" */
};

struct world_socket;
struct world_mapping;

struct world_proc {
	struct os_proc own; /* unused for process 0, whose os_proc is the engine's */
	struct os_proc *proc;
	char name[WORLD_NAME_BYTES];
	bool alive, killed;
	bool log_begun;            /* NCCL_DEBUG_FILE has a line of this process */
	struct os_mutex lock;      /* protects blocks, environment and random numbers */
	struct world_block blocks; /* list head; newest first */
	struct world_env *env;
	struct conf *conf; /* lines of configuration files; NULL: none */
	struct sim_rng rng;
	struct world_socket **fd; /* by index; under world.socket_lock */
	uint32_t fd_count;
	struct world_mapping *mappings; /* under world.shm_lock */
	struct world_letter *taken;     /* received from mailboxes; under world.shm_lock */
	struct world_member *members;   /* under world.lock */
	struct base_state base;
};

struct world_segment;

struct world_host {
	const struct world_machine *machine;
	uint32_t first_port;
	uint16_t next_tcp_port;
	uint64_t lan_free_ns;           /* time at which its interface has sent all queued bytes */
	struct world_socket *listeners; /* under world.socket_lock */
	struct world_segment *segments; /* under world.shm_lock */
	struct world_box *boxes;        /* under world.shm_lock */
};

struct world_leak {
	struct world_leak *next; /* sorted by kind */
	char kind[48];
	char first[160];
	uint64_t count;
};

struct world_conn;
struct world_agreement;
struct world_member;

/* A real file that a variable of the configuration names. path NULL: no such file. */
struct world_file {
	const char *path;
	char *data;
	size_t bytes;
	int rc; /* errno if it could not be read: `data` is NULL */
};
enum { WORLD_FILES = 6 };

/* env.c: reads the files that the environment names. world_files_find returns the file of that
 * path; NULL: not one of them. */
int world_files_start(void);
const struct world_file *world_files_find(const char *path);
void world_files_free(void);

struct world {
	struct world_config config;
	bool locking;         /* true in engine threads */
	struct os_mutex lock; /* process table, leaks, memo, agreements, arena, ports */
	struct world_host *host;
	struct world_machine **machine; /* loaded files; each file once */
	struct files **sys;             /* per machine, built at its first use; under `lock` */
	uint32_t machine_count;
	struct world_file file[WORLD_FILES];
	char *user_conf;          /* path of ~/.nccl.conf; NULL: it is not read */
	struct world_proc **proc; /* by id */
	uint32_t proc_count, proc_cap;
	struct world_proc *no_proc; /* owner of memory that event steps and the lab allocate */
	struct world_leak *leaks;
	struct memo_table memo;
	struct world_agreement *agreements;
	struct os_mutex socket_lock, shm_lock;
	int box_last;
	struct world_conn *conns;
	struct foreign_client
		*foreign_clients; /* foreign clients that are connecting; under socket_lock */
	uint64_t conn_serial;
	uint8_t *arena;
	struct world_fabric_port *port;
	uint32_t port_count;
	struct world_held *held, **held_end; /* messages in a clog, oldest first */
};

extern struct world *world; /* NULL: no world */

static inline void world_lock(struct os_mutex *m)
{
	if (world->locking)
		os_mutex_lock(m);
}
static inline void world_unlock(struct os_mutex *m)
{
	if (world->locking)
		os_mutex_unlock(m);
}
/* Marks the scheduling point at the start of an entry point. Does nothing in event steps. Entry
 * points are system calls: they release the caller's stores. */
static inline void world_point(const char *site)
{
	if (!sim_task_self())
		return;
	sim_point(site);
	mem_release(NULL);
}

/* ---- proc.c */
bool world_describe(const void *at, char *out,
		    size_t bytes);   /* a block of os_alloc; for mem_on_describe */
struct world_proc *world_self(void); /* of the calling task; in event steps: world->no_proc */
struct world_proc *world_proc_of(const struct os_proc *proc);
int world_procs_start(void);
void world_procs_end(void);
void world_procs_free(void);
void *world_alloc(size_t bytes, const char *what);
void world_free(void *p);
const char *world_env_get(const char *name);
void world_random(void *out, size_t bytes);
struct base_state *world_base_state(void);
uint64_t world_blocks_free(struct world_proc *wp, const char **first);

/* ---- host.c */
const void *world_memo(const char *kind, const void *key, size_t key_bytes,
		       void *(*make)(const void *, size_t, void *), void *arg);
void world_host_name(char *out, size_t bytes);
void world_boot_id(char *out, size_t bytes);
int world_file_read(const char *path, char **data, size_t *bytes);
int world_file_write(const char *path, const char *data, size_t bytes);
int world_dir_list(const char *path, char **names, int *count);
int world_real_path(const char *path, char *out);
void world_log_line(const char *line);

/* ---- sys.c: builds the /sys of that machine; NULL: out of memory */
struct files *world_sys_make(const struct world_machine *m);
/* sys_kfd.c: adds the files of AMD's driver if the machine has AMD GPUs. `cpus`: number of CPU
 * nodes. */
void world_sys_kfd(struct files *f, const struct world_machine *m, int32_t cpus);

/* ---- world_agree.c */
int world_agree(uint64_t key, uint64_t seq, int32_t rank, const char *text, const void *caller,
		struct os_agree_other *other);
void world_agree_member(uint64_t key, uint64_t agent, bool in);
int world_agree_order(uint64_t key, uint64_t agent, uint64_t seq, int32_t rank, const char *text,
		      const void *caller, struct os_agree_other *other);
void world_agreements_free(void);
void world_members_free(struct world_proc *wp);
void world_use(const struct os_use *use);

/* ---- socket.c */
const char *world_env_at(int index);
int world_interface(int index, char *name, size_t name_bytes, struct os_addr *addr);
int world_resolve(const char *name, uint16_t family, struct os_addr *addr);
int world_listen(const struct os_addr *at, int *fd, struct os_addr *bound);
int world_connect(const struct os_addr *to, int *fd);
int world_connected(int fd);
int world_accept(int fd, int *conn, struct os_addr *peer);
int world_send(int fd, const void *data, size_t n, size_t *done);
int world_recv(int fd, void *data, size_t n, size_t *done);
int world_close(int fd);
const void *world_socket_object(int fd);
bool world_socket_changed(int fd, uint64_t seq);
/* Closes the process' sockets, returns their number, and describes the first one in `first`. */
uint64_t world_sockets_close(struct world_proc *wp, char *first, size_t bytes);
void world_sockets_free(void);
int world_descriptors_raise(uint64_t *most);

/* ---- proc_memory.c: copies the configured environment into a process that is made. */
int proc_env_start(struct world_proc *wp);
void proc_env_free(struct world_proc *wp);

/* ---- world_shm.c */
int world_shm_create(const char *name, size_t bytes, void **mem);
int world_shm_open(const char *name, size_t bytes, void **mem, size_t *found);
int world_shm_device(uint64_t *device);
int world_shm_unlink(const char *name);
int world_shm_unmap(void *mem, size_t bytes);
uint64_t world_mappings_close(struct world_proc *wp, char *first, size_t bytes);
void world_segments_free(void); /* segments that were not unlinked are leaks */

/* ---- world_share.c: worlds of several real processes. Each does nothing if the process is alone
 * ---- */
int world_share_check(const struct world_config *c); /* EINVAL: explained */
/* Gets the arena, before the world is made. */
int world_share_join(struct world_config *c);
/* Installs operations whose segments of shared memory are in no file. The world exists. */
int world_share_start(void);
void world_share_leave(void); /* no other process calls this one any longer */
void world_share_end(void);   /* closes what this process still has named */

/* ---- mailbox.c */
int world_mailbox_open(const char *name, int *box);
void world_mailbox_close(int box);
int world_mailbox_post(const char *name, uint64_t what, int fd);
int world_mailbox_take(int box, uint64_t *what, int *fd);
const void *world_mailbox_object(int box);
uint64_t world_mailboxes_close(struct world_proc *wp, char *first, size_t bytes);

/* ---- fabric.c, world_arena.c */
int world_fabric_start(void);
void world_fabric_free(void);
int world_arena_start(void);
void world_arena_free(void);

#pragma GCC visibility pop
#endif
