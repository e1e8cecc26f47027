/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The world: N hosts, each a machine read from an NCCL topology XML, a fabric that joins their
 * NICs, and processes that run on them. It implements the world half of os.h (identity,
 * environment, files, sockets, shared memory, per-process memory) for the tasks inside, under both
 * engines, and gives the doubles the hardware of a host. Called by the doubles, the lab and the
 * command line, never by core.
 *
 * One world per process at a time: world_create ... world_destroy. Units: ns, MB/s (1e6 bytes/s).
 * Errors: 0 or a positive errno; what is wrong with input is explained on stderr with file, line
 * and attribute.
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

struct world_gpu {
	int32_t dev;         /* index on its host, in order of the file's `dev` */
	uint32_t sm;         /* compute capability, 80 = 8.0 */
	int32_t gfx;         /* AMD's graphics core, gfx90a: 0x90a; 0: of another vendor */
	char bus_id[24];     /* "0000:13:00.0", lower case */
	uint32_t pci_device; /* device << 16 | vendor, as NVML has it */
	int32_t numa;        /* -1: unknown */
	bool gdr;            /* HCAs may reach its memory */
	int32_t host;        /* of an NVLink domain; 0 where the machine is one host */
	int32_t half;        /* 1 + the number of the half of a GPU that it is; 0: the whole */
	uint32_t nvlinks;    /* total count */
	bool nvswitch;       /* links go to switches: every pair is connected */
	uint64_t pci_mbps;
	uint64_t nvlink_mbps;               /* per direction, all links */
	uint32_t pci_generation, pci_width; /* of its PCI link now; 0: unknown */
	int32_t first_nvlink, nvlink_count; /* in the machine's nvlink[] */
	uint32_t c2c, c2c_mbps;             /* links to the CPU, and what each has */
};

/* Links of one GPU to one place. */
struct world_nvlink {
	char target[24]; /* lower case; "": a switch that a virtual machine does not see */
	uint32_t count;
	uint32_t class; /* PCI class of the target; 0: unknown */
	bool xgmi;      /* a link of AMD's */
};

struct world_nic {
	int32_t dev;
	int32_t host;    /* as of a GPU */
	char name[32];   /* "mlx5_0" */
	char bus_id[24]; /* of its PCI function; "" when the file has none */
	uint64_t guid;
	uint32_t port;
	uint64_t mbps; /* from `speed`, in bytes: 200000 Mb/s -> 25000 */
	int32_t numa;
	char personality[16]; /* of the HCA's double; "": the environment's */
	bool gdr;             /* reaches the memory of GPUs */
	char pkeys[80];       /* its P_Key table, as 0xffff,0x8001; "": the same */
	bool is_rdma; /* an HCA; false: an Ethernet port (name eth*, or gdr="0" and guid 0x0) */
};

struct world_machine {
	const char *path; /* where it came from */
	const char *xml;  /* the text, as a host sees it under NCCL_TOPO_FILE */
	size_t xml_bytes;
	int32_t hosts; /* more than one: of one NVLink domain, which no host of a world can be */
	struct world_gpu *gpu;
	int32_t gpu_count;
	struct world_nic *nic;
	int32_t nic_count;
	struct world_nvlink *nvlink;
	int32_t nvlink_count;
};

/* Finds NAME.xml among the machines that come with Doppel, or reads a file. A topology without a
 * GPU is an error here. */
int world_machine_load(const char *name_or_path, struct world_machine **machine);
void world_machine_free(struct world_machine *machine);
/* The machines that come with Doppel: "a, b, c", for the caller to free. NULL: out of memory. */
char *world_machine_names(void);

/* ---- environment ---------------------------------------------------------------------------- */

/* Is "NAME=VALUE" one that a world may have? World creation looks at its configuration's itself; a
 * command that makes many worlds looks once, before. EINVAL: explained. */
int world_env_check(const char *assignment);
/* What the table cannot know: a double registers a check of its own when it is loaded. */
void world_env_on_check(int p, bool (*fits)(const char *value));
/* The same for the DOPPEL_* of this process, which the doubles read. */
int world_env_check_real(void);
/* A line for each DOPPEL_* that the table does not have, with the nearest name. */
void world_env_warn_unknown(const char *const *env);

/* ---- life ----------------------------------------------------------------------------------- */

struct world_config {
	uint32_t hosts;
	const char *machine;         /* one for all hosts; NULL: DOPPEL_MACHINE */
	const char *const *machines; /* or one per host; NULL: `machine` */
	const char *const *env; /* "NAME=value" for every process, NULL-terminated; may be NULL */
	uint64_t fabric_latency_ns; /* one way, NIC to NIC; 0: default 1,500 */
	uint64_t gpu_va_bytes;      /* address range per GPU; 0: its memory, or what fits */
	bool strict_device_view;
	void *arena; /* WORLD_ARENA_BYTES that other processes have mapped too; NULL: the world's own */
	uint32_t warp_width; /* 1 or 32; 0: DOPPEL_WARP, else 1 */
	uint32_t gpu_sms;    /* at most, of a GPU: blocks wait for one; 0: as the model has */
	/* The program lives in the real world: its environment (to which `env` is added, and
	 * NCCL_TOPO_FILE where it is not set), files, sockets and memory are those of this process.
	 * The world has one host, whose machine is what the doubles are made of. */
	bool real;
};

/* Between sim_start and sim_run. Installs the world half of os.h. */
int world_create(const struct world_config *config);
/* After sim_run. Counts what is left, prints each kind that is not zero as
 * "leak: KIND COUNT (first: ...)", and returns the sum. Ends processes that still exist. */
uint64_t world_destroy(void);
/* In a child made by fork: there is no world in it, whatever the parent had. */
void world_forget(void);
const struct world_config *world_config(void);

uint32_t world_host_count(void);
const struct world_machine *world_host_machine(uint32_t host);

/* ---- processes ------------------------------------------------------------------------------ */

/* The process that runs the show (command line, test main) is process 0, on host 0. */
int world_proc_create(uint32_t host, const char *name, struct os_proc **proc);
int world_proc_setenv(struct os_proc *proc, const char *name, const char *value);
/* A first thread in another process: as os_thread_start, for the launcher. */
int world_thread_start(struct os_proc *proc, struct os_thread **t,
		       const struct os_thread_attr *attr, void (*fn)(void *), void *arg);
/* The program of the process has ended: WAITS for the detached tasks by which a library finishes
 * what it began, and not for ever. */
void world_proc_finish(struct os_proc *proc);
/* Orderly end: finishes, runs the doubles' exit hooks (contexts, QPs, mappings), closes
 * descriptors, counts what the process left as leaks. No foreground task of it may be alive; with a
 * background one, which ends here, nothing is counted. */
void world_proc_exit(struct os_proc *proc);
/* The program of the process has ended: so its tasks end where they are, and all that it has is
 * closed, as a kernel does it, and counted as left. True: it had a communicator. Not by a task of
 * the process. */
bool world_proc_leave(struct os_proc *proc);
/* Death: tasks never run again, then as above but nothing counts as a leak. */
void world_proc_kill(struct os_proc *proc);
bool world_proc_alive(const struct os_proc *proc);
struct os_proc *world_proc_by_id(uint32_t id); /* NULL: none */

/* Doubles hang their per-process cleanup here, once, at load. killed: do not count leaks. */
void world_on_proc_exit(void (*hook)(struct os_proc *proc, bool killed));
/* The one double that is called for each os_use. */
void world_on_use(void (*hook)(const struct os_use *use));
/* The one double that is called before a process unmaps its segment at `mem`. */
void world_on_unmap(void (*hook)(struct os_proc *proc, const void *mem, size_t bytes));
/* Doubles report what is left at world_destroy: hook calls world_leak for each kind. */
void world_on_destroy(void (*hook)(void));
void world_leak(const char *kind, uint64_t count, const char *first);

/* ---- arena ---------------------------------------------------------------------------------- */

/* State that another process' HCA or GPU reads lives here: zeroed, never moves, freed with the
 * world. What is stored inside are indices and offsets, never pointers; a handle that leaves
 * carries a generation. */
#define WORLD_ARENA_BYTES (4ull << 30)
#define WORLD_ARENA_FIRST 64ull /* below it is the head; what is taken is aligned to it */
struct world_arena_head {
	uint64_t used; /* bytes from the front on; the rest is zero */
};
void *world_arena_alloc(size_t bytes, const char *what);
uint64_t world_arena_offset(const void *p);
extern uint8_t *world_arena_base; /* NULL: none */
static inline void *world_arena_at(uint64_t offset)
{
	ASSERT(offset >= WORLD_ARENA_FIRST && offset < WORLD_ARENA_BYTES);
	return world_arena_base + offset;
}

/* ---- fabric -----------------------------------------------------------------------------------
 */

/* A port is one NIC of one host. Index: order of hosts, then of the file. */
struct world_port {
	uint32_t index;
	uint32_t host;
	const struct world_nic *nic;
	uint8_t ipv4[4];
	bool up;
	uint64_t changed_ns; /* when the link went up or down last; 0: never */
};
uint32_t world_port_count(void);
struct world_port *world_port(uint32_t index);
struct world_port *world_port_of(uint32_t host, int32_t nic_index);
/* The port as fault plans name it: its host, its index there, its NIC. */
struct sim_fault_place;
void world_port_place(const struct world_port *port, struct sim_fault_place *at);

/* What goes from one port to another. */
struct world_message {
	const struct world_port *from, *to;
	uint64_t bytes;        /* on the wire, headers included */
	uint32_t packet_bytes; /* payload of its largest packet; 0: no limit on a link matters */
	const void *order;     /* messages with one order arrive in order; NULL: any */
	uint64_t later_ns;     /* than the links bring it */
	const void *label;     /* object whose label addresses faults; may be NULL */
	void (*arrive)(void *object, uint64_t arg); /* in an event, at the far side */
	void *object;
	uint64_t arg;
	const char *what; /* in the trace file; NULL: not shown */
	uint64_t flow;    /* of os_trace_flow; 0: none */
	/* for faults; NULL: that fault does nothing to this message */
	void *(*copy)(void *object);                    /* another one like it; NULL: cannot */
	void (*corrupt)(void *object, uint32_t choice); /* changes its payload */
};
/* Books both links, draws faults (layer `fabric`), and posts the event that calls arrive. False:
 * lost (the link is down, or a fault ate it); nothing is called then. */
bool world_fabric_send_message(const struct world_message *m);
/* The same for a message without payload that a fault could change. */
bool world_fabric_send(const struct world_port *from, const struct world_port *to, uint64_t bytes,
		       const void *order, void (*arrive)(void *object, uint64_t arg), void *object,
		       uint64_t arg);
/* Sets a link's state, as a fault or a test does; hooks inform HCAs (async port events). */
void world_port_set(struct world_port *port, bool up);
void world_on_port_change(void (*hook)(struct world_port *port));

#endif
