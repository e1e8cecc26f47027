/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that the files of core/comm share. */
#ifndef CORE_COMM_COMM_INTERNAL_H
#define CORE_COMM_COMM_INTERNAL_H

#include "core/comm/comm.h"
#include "core/ras/ras.h"

/* Returns the communicator of a node of the registry; NULL if the node is another object. */
static inline struct ncclComm *comm_of(struct registry_node *n)
{
	return n->kind == REGISTRY_COMM ? (struct ncclComm *)n : NULL;
}

static inline bool comm_is_aborted(const struct ncclComm *comm)
{
	return shared_load_u32(comm->abort, SHARED_ACQUIRE) != 0;
}

/* Layout of the device's view of a communicator, one allocation. It consists of dev_comm, channels,
 * `room` connections, the ranks of the rings, and the places of ranks in the trees. dev_comm and
 * channels are staged in pinned memory with the same layout. */
struct comm_dev_layout {
	size_t channels, conns, ranks; /* offsets */
};
struct comm_dev_layout comm_dev_layout(int32_t channels, uint32_t room);
/* comm_device.c: makes the device's copy of the communicator. */
ncclResult_t comm_dev_make(struct ncclComm *comm);

/* topology.c: sets comm->topo, including the network's devices if the network is open. */
ncclResult_t comm_topology_find(struct ncclComm *comm);
/* True if no file has the complete topology of this host. One such rank makes all ranks of its host
 * detect. Keeps the file's text for comm_topology_find. */
bool comm_topology_must_detect(struct ncclComm *comm);

/* Shared by the tasks that release communicators together and the call that waits for them. The
 * last user frees it. */
struct comm_release {
	shared_u32 left; /* number of communicators not yet released */
	shared_u32 users;
};

void comm_state_set(struct ncclComm *comm, enum comm_state state);
/* Waits for launched collectives. Kernels end by themselves once the abort word is set. */
ncclResult_t comm_drain(struct ncclComm *comm);
/* Waits for them while other ranks may fail. After a failure nothing more completes, and the wait
 * ends. */
ncclResult_t comm_drain_watching(struct ncclComm *comm);
/* Waits until a separate task has launched its collectives, or has failed. The caller has set the
 * abort word, which ends the task and the kernels for which it may wait. */
void comm_launch_wait(const struct ncclComm *comm);
/* Checks launched collectives once: complete, ncclInProgress, or an error. */
ncclResult_t comm_drain_look(struct ncclComm *comm);
/* cudaErrorNotReady while launched collectives run. */
cudaError_t comm_launches_query(const struct ncclComm *comm);
/* busy.c: true if kernels of another communicator, which is not ending, run on this one's GPU.
 * CUDA calls that free or close memory wait for them. */
bool comm_others_are_busy(const struct ncclComm *comm);
/* busy.c: waits while kernels of other communicators run on the GPU. Returns false if they still
 * run at `until_ns`. 0: a task of its own waits, which may block in CUDA later; returns true after
 * a limited time, and after an abort immediately. */
bool comm_let_others_end(const struct ncclComm *comm, uint64_t until_ns);
/* For a rank that failed or was aborted, after its kernels have ended. Reports the failure to the
 * other ranks. Stops using their memory, then shows them that it has left. If kernels of another
 * communicator keep it from closing that memory, its release does both. */
void comm_leave_others(struct ncclComm *comm);

/* Callback of bootstrap_look, from the end of the init to the release; a call of communicator `arg`
 * waits. Handles failures in the rings of parked ranks of its process. Returns true if there are
 * any. */
bool comm_look_at_parked(void *arg);

/* peers.c: gathers the other ranks' identities. Sets peers and local ranks; checks that they fit
 * together. */
ncclResult_t comm_peers_gather(struct ncclComm *comm);
/* Reports graphs of a host that do not fit together. ncclInvalidUsage: two of its ranks differ in a
 * setting, which is logged. ncclRemoteError: they differ in detected hardware, for example because
 * a device failed to open. */
ncclResult_t comm_settings_blame(const struct ncclComm *comm);
/* network.c: selects one network for all ranks from those that each has opened. *differed, the same
 * on all ranks: some have changed their network, and `all` describes rings for different ones. */
struct topo_rank_info;
ncclResult_t comm_network_agree(struct ncclComm *comm, const struct topo_rank_info *all,
				bool *differed);
/* chains.c: CollNet. `open` opens the network's collective network if all ranks want CollNet; its
 * devices are then part of the topology. `make` connects the heads of all hosts and sets the
 * channels' chains and the chains' graph in comm->summary, or leaves both empty on all ranks.
 * Channels and summary are otherwise complete. `all` is that of the gathering. */
void comm_collnet_open(struct ncclComm *comm);
ncclResult_t comm_collnet_make(struct ncclComm *comm, const struct topo_rank_info *all);
/* graphs.c: finds the graphs of comm->topo, and writes them to NCCL_GRAPH_DUMP_FILE. */
ncclResult_t comm_graphs_find(struct ncclComm *comm);
/* comm_ras.c: the view that the RAS task has of this process. */
extern const struct ras_source comm_ras_source;
enum { COMM_CODE_BYTES = 96 }; /* of a call site */
struct ras_call comm_ras_call(uint64_t comm, int32_t rank, const struct rank_call *c);
/* ras_waits.c: adds to ranks of the view what they wait for, and their messages. */
void comm_ras_waits(struct ras_view *v);
/* Writes causes that only this process knows: ranks that are absent from the inits of its ranks. */
void comm_ras_why(struct ras_text *why, uint64_t deadline_ns);
/* Writes what an operation of the proxy waits for. */
void comm_ras_wait_write(struct ras_text *out, const char *why, const struct wait_from *from);
/* comm_late.c: joins the RAS task, with the communicator's part in it. */
ncclResult_t comm_watch_make(struct ncclComm *comm);
/* Returns the error of an init, or ncclTimeout if it failed after its deadline. */
ncclResult_t comm_init_error(const struct ncclComm *comm, ncclResult_t rc);
/* Name of an enum comm_init_step: "joining the other ranks". */
const char *comm_init_step_name(uint32_t step);
/* True if the RAS task is about to fail this rank. The ring may already be broken by ranks that it
 * has failed before. */
bool comm_is_judged(const struct ncclComm *comm);
/* `late` and `fail` of struct ras_source. */
int comm_late_find(struct ras_late *late, int most, bool *leads);
void comm_late_fail(uint64_t hash, enum ras_phase phase, uint32_t error, const char *text,
		    const shared_u32 *stop);
/* Returns the physical number of a CUDA device from CUDA_VISIBLE_DEVICES; -1: it is not a list of
 * numbers. */
int32_t comm_nvml_dev(int32_t cuda_dev);
/* close.c: true if kernels of the communicator, which may have ended, still run. */
bool comm_is_busy(struct ncclComm *comm);
/* channels.c: makes topology, rings and channels. */
ncclResult_t comm_channels_make(struct ncclComm *comm);
/* For a single rank: finds topology and graphs if a file for them is named. */
ncclResult_t comm_channels_alone(struct ncclComm *comm);

#endif
