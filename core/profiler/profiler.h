/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Profiler plugins (profiler_abi.h): a plugin receives the start, the states and the stop of the
 * stack's events. NCCL_PROFILER_PLUGIN names it, as in core/plugin/plugin.h. Without the variable,
 * on a real machine, it is libnccl-profiler.so, else the library of the net plugin if it has a
 * profiler's table. A world has none then.
 *
 * Called by
 *	core/comm       opens and closes the communicator's profiler
 *	core/api        events of API calls (struct profiler_group, struct profiler_call)
 *	core/plan       groups, collectives, messages, launches, works of kernels
 *	core/proxy      operations, steps, control
 *	net_plugin      passes events of a net plugin on (profiler_net)
 *
 *	group API
 *	  +- coll API, p2p API
 *	  |    +- coll, p2p                    also of `group`, which has no parent
 *	  |         +- proxy op
 *	  |         |    +- proxy step
 *	  |         |         +- net plugin
 *	  |         +- kernel channel
 *	  +- kernel launch
 *	proxy control                          no parent
 *
 * An event starts if the mask has its kind or the kind of an event below it. A parent may stop
 * before its children: that of a collective stops when its operations are appended, as in NCCL.
 *
 * A process loads a library once (struct profiler, in the process' registry); each communicator
 * calls its init and finalize. A plugin that does not load or whose init fails is logged, and the
 * communicator continues without a profiler, as with NCCL. A function of the plugin that returns an
 * error later is logged once for each communicator; that event is not recorded.
 *
 * Plugins are called by the task that does the work, with no lock held: a plugin that blocks stops
 * that task. A call that took longer than PROFILER_SLOW_NS is logged once for each communicator.
 *
 * All functions accept a communicator without a profiler and then do nothing. Handles of events are
 * the plugin's; NULL: there is no event. Times are ns, sizes bytes.
 */
#ifndef CORE_PROFILER_PROFILER_H
#define CORE_PROFILER_PROFILER_H

#include "core/profiler/profiler_abi.h"
#include "core/rank/rank.h"

#define PROFILER_SLOW_NS 1000000000ull

/* Kinds that need an event of the kind in the name. */
enum {
	PROFILER_NEED_STEP = PROFILER_PROXY_STEP | PROFILER_NET_PLUGIN,
	PROFILER_NEED_OP = PROFILER_PROXY_OP | PROFILER_NEED_STEP,
	PROFILER_BELOW_TASK = PROFILER_NEED_OP | PROFILER_KERNEL_CH,
	PROFILER_NEED_COLL = PROFILER_COLL | PROFILER_BELOW_TASK,
	PROFILER_NEED_P2P = PROFILER_P2P | PROFILER_BELOW_TASK,
	PROFILER_NEED_GROUP = PROFILER_GROUP | PROFILER_NEED_COLL | PROFILER_NEED_P2P,
	PROFILER_NEED_COLL_API = PROFILER_COLL_API | PROFILER_NEED_COLL,
	PROFILER_NEED_P2P_API = PROFILER_P2P_API | PROFILER_NEED_P2P,
	PROFILER_NEED_GROUP_API = PROFILER_GROUP_API | PROFILER_NEED_COLL_API |
				  PROFILER_NEED_P2P_API | PROFILER_KERNEL_LAUNCH | PROFILER_GROUP,
};

struct profiler;      /* of a process */
struct profiler_comm; /* of a communicator: comm->profiler; NULL: it has no profiler */

/* ---- life ----------------------------------------------------------------------------------- */

/* Sets comm->profiler. Called once, before the communicator has tasks of the proxy. */
void profiler_open(struct ncclComm *comm, const char *comm_name, int32_t nhosts);
/* Called when no task of the communicator and no kernel is left. WAITS for the task that reads the
 * times of kernels. */
void profiler_close(struct ncclComm *comm);

/* ---- events --------------------------------------------------------------------------------- */

/* Returns the kinds of events that the plugin wants now; 0: no profiler. */
uint32_t profiler_mask(const struct ncclComm *comm);
/* Starts an event, whose rank this function sets. NULL: the plugin returned none. */
void *profiler_start(struct ncclComm *comm, struct profiler_descr *d);
/* args may be NULL. */
void profiler_record(struct ncclComm *comm, void *event, enum profiler_state state,
		     const union profiler_args *args);
/* Stops *event and sets it to NULL. */
void profiler_stop(struct ncclComm *comm, void **event);

/* Returns NCCL's name of a data type: "ncclFloat32". */
const char *profiler_type_name(ncclDataType_t type);
/* Returns NCCL's name of a collective: "AllReduce". */
const char *profiler_func_name(enum dev_func func);
/* Returns the number of the next call of the function in the communicator, from 0. */
uint64_t profiler_number(struct ncclComm *comm, enum dev_func func);

/* ---- API calls ------------------------------------------------------------------------------ */

/* The calls of one group, or a call outside of a group. Zeroed memory has no event. It keeps the
 * plugin loaded, also if a communicator of the group ends. */
struct profiler_group {
	struct profiler *of;
	void *event;
	uint32_t mask; /* of the first call, for all calls */
};
/* Starts the group's event at its first call. depth: of groups, this call included. */
void profiler_group_begin(struct profiler_group *g, struct ncclComm *comm, int depth,
			  bool captured);
/* The group's calls are complete; now they are launched. */
void profiler_group_launches(const struct profiler_group *g);
void profiler_group_end(struct profiler_group *g);

/* The events of a call, which its launch needs. Zeroed memory has none. */
struct profiler_call {
	uint32_t mask;
	void *group, *api; /* events of the API */
	void *event;       /* of the collective or message, while it is launched */
};
/* Starts the event of a call; d->type is PROFILER_COLL_API or PROFILER_P2P_API. */
struct profiler_call profiler_call_begin(const struct profiler_group *g, struct ncclComm *comm,
					 struct profiler_descr *d);
/* The call is queued: its event stops. call->api stays, as the parent of later events. */
void profiler_call_end(struct ncclComm *comm, const struct profiler_call *call);

/* ---- the proxy ------------------------------------------------------------------------------ */

/* An operation of the proxy: its parent and its event. Zeroed memory has none. */
struct profiler_op {
	uint32_t mask;
	/* Pid of the process whose call it is, as the plugin's library sees it. An operation of
	 * another process, for which this one relays, has that one's pid and no parent. */
	int32_t pid;
	void *parent;
	void *event;
};

/* A step of an operation. net_plugin passes its address to the net plugin. */
struct profiler_step {
	struct ncclComm *comm; /* NULL: no events */
	uint32_t mask;
	void *event;
	bool ready; /* its data was ready for the network */
};

/* The callback of net plugins. parent: a struct profiler_step, or NULL. */
ncclResult_t profiler_net(void **event, int type, void *parent, int64_t id, void *data);

/* ---- kernels -------------------------------------------------------------------------------- */

/* Returns the memory in which kernels store the times of works; NULL: no profiler. */
struct dev_profile *profiler_kernel_memory(const struct ncclComm *comm);
/* Announces a work on channels lo..hi, before its launch. Each channel has an event for each of the
 * parents that is not NULL. Returns the work's number for the kernel, 24 bits; 0: no events. */
uint32_t profiler_work_expect(struct ncclComm *comm, int lo, int hi, void *const parent[2]);

#endif
