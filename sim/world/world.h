/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The world: N hosts, a fabric that joins their NICs, and processes that run on the hosts. Each
 * host is a machine read from an NCCL topology XML. The world implements the world half of os.h
 * (identity, environment, files, sockets, shared memory, per-process memory) for the tasks inside,
 * under both engines. It also provides the doubles with the hardware of a host. The doubles, the
 * lab and the command line call it; core never does.
 *
 * A process has one world at a time: world_create ... world_destroy. Units: ns, MB/s (1e6 bytes/s).
 * Errors: 0 or a positive errno. Invalid input is explained on stderr with file, line and
 * attribute.
 */
#ifndef SIM_WORLD_WORLD_H
#define SIM_WORLD_WORLD_H

#include <stdio.h>

#include "core/base/param.h"
#include "core/os/check.h"
#include "core/os/os.h"
#include "sim/engine/sim.h"
#include "sim/world/params.h"

/* ---- machines ------------------------------------------------------------------------------- */

#define WORLD_DESCRIPTORS 16381u /* of a process, at most */

struct world_gpu {
	int32_t dev;         /* index on its host, in order of the file's `dev` */
	uint32_t sm;         /* compute capability, 80 = 8.0 */
	int32_t gfx;         /* AMD's graphics core, gfx90a: 0x90a; 0: another vendor */
	char bus_id[24];     /* "0000:13:00.0", lower case */
	uint32_t pci_device; /* device << 16 | vendor, as in NVML */
	int32_t numa;        /* -1: unknown */
	bool gdr;            /* HCAs can access its memory */
	int32_t host;        /* index in an NVLink domain; 0 if the machine is one host */
	int32_t half;        /* 1 + index of this half of a GPU; 0: a whole GPU */
	uint32_t nvlinks;    /* total count */
	bool nvswitch;       /* its links connect to switches: every pair is connected */
	uint64_t pci_mbps;
	uint64_t nvlink_mbps;               /* per direction, all links */
	uint32_t pci_generation, pci_width; /* of its PCI link at present; 0: unknown */
	int32_t first_nvlink, nvlink_count; /* in the machine's nvlink[] */
	uint32_t c2c, c2c_mbps;             /* links to the CPU, and the bandwidth of each */
};

/* Links from one GPU to one target. */
struct world_nvlink {
	char target[24]; /* lower case; "": a switch that a virtual machine cannot see */
	uint32_t count;
	uint32_t class; /* PCI class of the target; 0: unknown */
	bool xgmi;      /* an AMD link */
};

struct world_nic {
	int32_t dev;
	int32_t host;    /* as in world_gpu */
	char name[32];   /* "mlx5_0" */
	char bus_id[24]; /* of its PCI function; "": the file has none */
	uint64_t guid;
	uint32_t port;
	uint64_t mbps; /* from `speed`, in bytes: 200000 Mb/s -> 25000 */
	int32_t numa;
	char personality[16]; /* of the HCA's double; "": the environment decides */
	bool gdr;             /* can access the memory of GPUs */
	char pkeys[80];       /* its P_Key table, as 0xffff,0x8001; "": the environment's */
	bool is_rdma; /* an HCA; false: an Ethernet port (name eth*, or gdr="0" and guid 0x0) */
};

struct world_machine {
	const char *path; /* file that it was read from */
	const char *xml;  /* the file's text, which hosts see under NCCL_TOPO_FILE */
	size_t xml_bytes;
	int32_t hosts; /* more than one: hosts of one NVLink domain; a world refuses it */
	struct world_gpu *gpu;
	int32_t gpu_count;
	struct world_nic *nic;
	int32_t nic_count;
	struct world_nvlink *nvlink;
	int32_t nvlink_count;
};

/* Finds NAME.xml among Doppel's own machines, or reads a file. Here a topology without a GPU is an
 * error. */
int world_machine_load(const char *name_or_path, struct world_machine **machine);
void world_machine_free(struct world_machine *machine);
/* Returns the names of Doppel's own machines as "a, b, c". The caller frees it. NULL: out of
 * memory. */
char *world_machine_names(void);

/* ---- environment ---------------------------------------------------------------------------- */

/* Checks that a world may have the variable "NAME=VALUE". World creation checks its configuration
 * itself. A command that makes many worlds checks once, beforehand. Returns 0 or EINVAL, which it
 * has explained. */
int world_env_check(const char *assignment);
/* Registers a check of variable p, for rules that the parameter table cannot express. Doubles call
 * this when they are loaded. */
void world_env_on_check(int p, bool (*fits)(const char *value));
/* Checks the DOPPEL_* variables of this process, which the doubles read. */
int world_env_check_real(void);
/* Prints a line for each DOPPEL_* variable that the table does not have, with the nearest name. */
void world_env_warn_unknown(const char *const *env);

/* ---- creation and end ------------------------------------------------------------------------ */

/* One of several real processes that share a world: its arena, and with it HCAs, GPUs and segments
 * of shared memory. `process` is its number among `processes`; 0 processes: it is alone. */
struct world_share {
	uint32_t process, processes;
	uint32_t host;
};

struct world_config {
	uint32_t hosts;
	const char *machine;         /* machine of all hosts; NULL: DOPPEL_MACHINE */
	const char *const *machines; /* or a machine per host; NULL: `machine` */
	const char *const *env; /* "NAME=value" for every process, NULL-terminated; may be NULL */
	uint64_t fabric_latency_ns; /* one direction, NIC to NIC; 0: default 1,500 */
	uint64_t gpu_va_bytes;      /* address range per GPU; 0: its memory, or as much as fits */
	bool strict_device_view;
	void *arena; /* WORLD_ARENA_BYTES shared with other processes; NULL: allocate */
	/* The calls of ranks are not compared when they are made (core/os/check.h), as in a real
	 * job. */
	bool uncompared;
	uint32_t warp_width; /* 1 or 32; 0: DOPPEL_WARP, else 1 */
	uint32_t gpu_sms;    /* maximum SMs of a GPU; 0: as many as the model has */
	/* The program lives in the real world. Its files, sockets and memory are those of this
	 * process. Its environment is that of this process plus `env`, and NCCL_TOPO_FILE if it is
	 * not set. The world has one host, unless processes share it; the doubles simulate the
	 * host's machine. */
	bool real;
	struct world_share share; /* needs `real`; the joiner provides the arena */
	/* Processes read /etc/nccl.conf and ~/.nccl.conf of this machine. Otherwise they read only
	 * the configuration files that NCCL_CONF_FILE and DOPPEL_ETC_CONF name. */
	bool real_conf;
};

/* Creates the world and installs the world half of os.h. Call between sim_start and sim_run. */
int world_create(const struct world_config *config);
/* Destroys the world after sim_run. Ends processes that still exist. Counts leaked objects, prints
 * each kind that is not zero as "leak: KIND COUNT (first: ...)", and returns the sum. */
uint64_t world_destroy(void);
/* Joins processes that share a world. The HCA double registers it, once, when it is loaded. `join`
 * finds or makes the memory of WORLD_ARENA_BYTES, and keeps other processes from joining until
 * `joined`; NULL: failed. world_destroy calls `leave` first. All explain their errors. */
struct world_joiner {
	void *(*join)(void);
	int (*joined)(void);
	void (*leave)(void);
};
void world_on_join(const struct world_joiner *joiner);
/* Leaves bytes for the other processes that share the world. False: there are some, explained. */
#define WORLD_NOTE_BYTES 128
bool world_share_note(const void *data, size_t bytes);
/* Copies the bytes that a process left. False: none of this size yet. */
bool world_share_noted(void *data, size_t bytes);
/* Forgets the world in a child made by fork, which has no world even if its parent had one. */
void world_forget(void);
const struct world_config *world_config(void);

uint32_t world_host_count(void);
const struct world_machine *world_host_machine(uint32_t host);

/* ---- processes ------------------------------------------------------------------------------ */

/* Creates a process on a host. The process that runs the simulation (command line, test main) is
 * process 0, on host 0. */
int world_proc_create(uint32_t host, const char *name, struct os_proc **proc);
int world_proc_setenv(struct os_proc *proc, const char *name, const char *value);
/* Starts the first thread of another process, for the launcher. Otherwise as os_thread_start. */
int world_thread_start(struct os_proc *proc, struct os_thread **t,
		       const struct os_thread_attr *attr, void (*fn)(void *), void *arg);
/* Waits until the detached tasks of a process have ended: libraries use them to finish work after
 * the program's main. The wait is bounded. */
void world_proc_finish(struct os_proc *proc);
/* Ends a process in order: waits as world_proc_finish does, runs the doubles' exit hooks
 * (contexts, QPs, mappings), closes descriptors, and counts the remaining objects as leaks. No
 * foreground task of the process may be alive. If a background task is alive, it ends here, and
 * nothing is counted. */
void world_proc_exit(struct os_proc *proc);
/* Ends a process whose program has exited. Its tasks stop where they are. All its objects are
 * closed as by a kernel and counted as leaks. True: it had a communicator. No task of the process
 * may call this. */
bool world_proc_leave(struct os_proc *proc);
/* Kills a process: its tasks never run again. Its objects are closed, but none counts as a leak. */
void world_proc_kill(struct os_proc *proc);
bool world_proc_alive(const struct os_proc *proc);
struct os_proc *world_proc_by_id(uint32_t id); /* NULL: no such process */

/* Registers a double's per-process cleanup, once, when the double is loaded. killed: do not count
 * leaks. */
void world_on_proc_exit(void (*hook)(struct os_proc *proc, bool killed));
/* Registers the one hook that is called for each os_use. */
void world_on_use(void (*hook)(const struct os_use *use));
/* Registers the one hook that is called before a process unmaps its segment at `mem`. */
void world_on_unmap(void (*hook)(struct os_proc *proc, const void *mem, size_t bytes));
/* Registers a hook of world_destroy: a double calls world_leak in it for each kind of leak. */
void world_on_destroy(void (*hook)(void));
void world_leak(const char *kind, uint64_t count, const char *first);

/* ---- arena ---------------------------------------------------------------------------------- */

/* Memory for state that another process' HCA or GPU reads. It is zeroed, never moves, and is freed
 * with the world. Store indices and offsets in it, never pointers. A handle that is passed outside
 * carries a generation. */
#define WORLD_ARENA_BYTES    (4ull << 30)
#define WORLD_SEGMENTS_BYTES (512ull << 10) /* of the table of shared segments */
#define WORLD_ARENA_FIRST    64ull          /* size of the head; allocations are aligned to it */
struct world_arena_head {
	uint64_t used;     /* bytes allocated from the front; all others are zero */
	uint64_t segments; /* offset of struct share_table (world_share.c); 0: none yet */
};
void *world_arena_alloc(size_t bytes, const char *what);
uint64_t world_arena_offset(const void *p);
extern uint8_t *world_arena_base; /* NULL: no arena */
static inline void *world_arena_at(uint64_t offset)
{
	ASSERT(offset >= WORLD_ARENA_FIRST && offset < WORLD_ARENA_BYTES);
	return world_arena_base + offset;
}

/* ---- fabric ---------------------------------------------------------------------------------- */

/* A port is one NIC of one host. Ports are numbered by host, then by the order in the file. */
struct world_port {
	uint32_t index;
	uint32_t host;
	const struct world_nic *nic;
	uint8_t ipv4[4];
	bool up;
	uint64_t changed_ns; /* time of the last change of `up`; 0: never */
	uint32_t moves;      /* changes of `ipv4` */
};
uint32_t world_port_count(void);
struct world_port *world_port(uint32_t index);
struct world_port *world_port_of(uint32_t host, int32_t nic_index);
/* Describes the port as fault plans name it: its host, its index there, its NIC. */
struct sim_fault_place;
void world_port_place(const struct world_port *port, struct sim_fault_place *at);

/* A message from one port to another. */
struct world_message {
	const struct world_port *from, *to;
	uint64_t bytes;        /* bytes on the wire, headers included */
	uint32_t packet_bytes; /* payload of the largest packet; 0: link limits do not matter */
	const void *order; /* messages with the same order arrive in order; NULL: in any order */
	uint64_t later_ns; /* extra delay after the links deliver it */
	const void *label; /* object whose label addresses faults; may be NULL */
	void (*arrive)(void *object, uint64_t arg); /* called in an event at the receiving port */
	void *object;
	uint64_t arg;
	const char *what; /* name in the trace file; NULL: not shown */
	uint64_t flow;    /* flow of os_trace_flow; 0: none */
	/* for faults; NULL: that fault does not change this message */
	void *(*copy)(void *object);                    /* makes a duplicate; NULL: cannot */
	void (*corrupt)(void *object, uint32_t choice); /* changes its payload */
};
/* Reserves time on both links, draws faults (layer `fabric`), and posts the event that calls
 * arrive. False: the message is lost (the link is down, or a fault dropped it) and arrive is never
 * called. */
bool world_fabric_send_message(const struct world_message *m);
/* Sends a message without a payload that a fault could change. */
bool world_fabric_send(const struct world_port *from, const struct world_port *to, uint64_t bytes,
		       const void *order, void (*arrive)(void *object, uint64_t arg), void *object,
		       uint64_t arg);
/* Sets a link's state, for a fault or a test. The hooks inform HCAs (async port events). */
void world_port_set(struct world_port *port, bool up);
/* Gives the port another address. An HCA has the GIDs of it when the link comes up next. Engine sim
 * only. */
void world_port_move(struct world_port *port);
void world_on_port_change(void (*hook)(struct world_port *port));

#endif
