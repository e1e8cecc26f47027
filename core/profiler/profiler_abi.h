/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of profiler plugins, versions 1 to 7, as in NCCL 2.23 to 2.32: a shared library
 * with a table under the name PROFILER_SYMBOL with the number. Layouts are those of 64-bit Linux.
 * C17 and C++17. A plugin may include this header, or NCCL's own. core/profiler/profiler.h calls
 * plugins.
 *
 *	version  events                                      descriptor of an event
 *	1        group, coll, p2p, proxy op, step, control   profiler_descr_v1: functions as numbers
 *	2        the same                                    profiler_descr_v2: functions as text
 *	3        and kernel channel, net plugin              profiler_descr_v3
 *	4        the same                                    profiler_descr_v4: init has the names
 *	5        and API calls, kernel launch                profiler_descr: parents are API calls
 *	6        and copy engine, which are never sent       the same
 *	7        and kernel phases, which are never sent     the same, with the user's tag
 *
 * The descriptors of versions 5 and 6 are beginnings of version 7's. Times of kernels are ns of the
 * GPU's global timer, on the double virtual ns.
 */
#ifndef CORE_PROFILER_PROFILER_ABI_H
#define CORE_PROFILER_PROFILER_ABI_H

#include <stdbool.h>

#include "core/base/macros.h"
#include "core/include/nccl.h"

#define PROFILER_SYMBOL "ncclProfiler_v"
enum { PROFILER_OLDEST = 1, PROFILER_NEWEST = 7 };

/* Kinds of events, bits of the mask that a plugin sets. */
enum profiler_type {
	PROFILER_GROUP = 1 << 0,
	PROFILER_COLL = 1 << 1,
	PROFILER_P2P = 1 << 2,
	PROFILER_PROXY_OP = 1 << 3,
	PROFILER_PROXY_STEP = 1 << 4,
	PROFILER_PROXY_CTRL = 1 << 5,
	PROFILER_KERNEL_CH = 1 << 6,
	PROFILER_NET_PLUGIN = 1 << 7,
	PROFILER_GROUP_API = 1 << 8,
	PROFILER_COLL_API = 1 << 9,
	PROFILER_P2P_API = 1 << 10,
	PROFILER_KERNEL_LAUNCH = 1 << 11,
	PROFILER_CE_COLL = 1 << 12,
	PROFILER_CE_SYNC = 1 << 13,
	PROFILER_CE_BATCH = 1 << 14,
	PROFILER_KERNEL_PHASE = 1 << 15,
};

/* States of events. States of proxy operations below 8 are not sent since version 4. */
enum profiler_state {
	PROFILER_SEND_GPU_WAIT = 8,
	PROFILER_SEND_WAIT = 9,
	PROFILER_RECV_WAIT = 10,
	PROFILER_RECV_FLUSH_WAIT = 11,
	PROFILER_RECV_GPU_WAIT = 12,
	PROFILER_CTRL_IDLE = 13,
	PROFILER_CTRL_ACTIVE = 14,
	PROFILER_CTRL_SLEEP = 15,
	PROFILER_CTRL_WAKEUP = 16,
	PROFILER_CTRL_APPEND = 17,
	PROFILER_CTRL_APPEND_END = 18,
	PROFILER_OP_IN_PROGRESS = 19,
	PROFILER_SEND_PEER_WAIT = 20,
	PROFILER_NET_UPDATE = 21,
	PROFILER_KERNEL_CH_STOP = 22,
	PROFILER_GROUP_START_STOP = 23,
	PROFILER_GROUP_END_START = 24,
};

/* Types of calls of a net plugin's callback. */
enum profiler_net_call {
	PROFILER_NET_START = 0,
	PROFILER_NET_STOP = 1,
	PROFILER_NET_UPDATES = 2,
	PROFILER_NET_UPDATES_STOP = 3,
};

/* ---- descriptors ---------------------------------------------------------------------------- */

/* The same in each version. */
struct profiler_proxy_op {
	int pid; /* of the process whose call it is: the parent is valid in this one only */
	uint8_t channel;
	int peer, nsteps;
	int chunk_bytes; /* most bytes of a step */
	int is_send;
};
struct profiler_net_event {
	int64_t id; /* of the net plugin, with the version of `data` */
	void *data;
};

/* Version 5 to 7. */
struct profiler_descr {
	uint64_t type;
	void *parent;
	int rank;
	union {
		struct {
			bool captured;
			int depth;
		} group_api;
		struct {
			const char *func;
			size_t count;
			const char *type;
			int root;
			void *stream;
			bool captured;
			uint64_t tag; /* from version 7 on, as in the members below */
		} coll_api;
		struct {
			const char *func;
			size_t count;
			const char *type;
			void *stream;
			bool captured;
			uint64_t tag;
		} p2p_api;
		struct {
			void *stream;
		} launch;
		struct {
			uint64_t number; /* of the function's calls in the communicator */
			const char *func;
			const void *send;
			void *recv;
			size_t count;
			int root;
			const char *type;
			uint8_t nchannels, nwarps;
			const char *algo, *proto;
			void *group;         /* the parent up to version 4 */
			const char *variant; /* from version 7 on */
			bool symmetric;
			uint64_t tag;
		} coll;
		struct {
			const char *func;
			void *buffer;
			const char *type;
			size_t count;
			int peer;
			uint8_t nchannels;
			void *group;
			uint64_t tag;
		} p2p;
		struct profiler_proxy_op op;
		struct {
			int step;
		} step;
		struct {
			uint8_t channel;
			uint64_t ns;
		} kernel;
		struct profiler_net_event net;
	};
};
DOPPEL_CHECK_OFFSET(struct profiler_descr, coll, 24);
DOPPEL_CHECK_OFFSET(struct profiler_descr, coll.count, 56);
DOPPEL_CHECK_OFFSET(struct profiler_descr, coll.nchannels, 80);
DOPPEL_CHECK_OFFSET(struct profiler_descr, coll.group, 104);
DOPPEL_CHECK_OFFSET(struct profiler_descr, coll.tag, 128);
DOPPEL_CHECK_OFFSET(struct profiler_descr, p2p.group, 64);
DOPPEL_CHECK_OFFSET(struct profiler_descr, coll_api.captured, 64);
DOPPEL_CHECK_OFFSET(struct profiler_descr, coll_api.tag, 72);
DOPPEL_CHECK_OFFSET(struct profiler_descr, op.is_send, 44);
DOPPEL_CHECK_OFFSET(struct profiler_descr, kernel.ns, 32);

struct profiler_descr_v4 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			uint64_t number;
			const char *func;
			const void *send;
			void *recv;
			size_t count;
			int root;
			const char *type;
			uint8_t nchannels, nwarps;
			const char *algo, *proto;
		} coll;
		struct {
			const char *func;
			void *buffer;
			const char *type;
			size_t count;
			int peer;
			uint8_t nchannels;
		} p2p;
		struct profiler_proxy_op op;
		struct {
			int step;
		} step;
		struct {
			uint8_t channel;
			uint64_t ns;
		} kernel;
		struct profiler_net_event net;
	};
};
DOPPEL_CHECK_SIZE(struct profiler_descr_v4, 104);

struct profiler_descr_v3 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t comm, number;
			const char *func;
			const void *send;
			void *recv;
			size_t count;
			int root;
			const char *type;
			uint8_t nchannels, nwarps;
			const char *algo, *proto;
		} coll;
		struct {
			const char *name;
			uint64_t comm;
			const char *func;
			void *buffer;
			const char *type;
			size_t count;
			int peer;
		} p2p;
		struct profiler_proxy_op op;
		struct {
			int step;
		} step;
		struct {
			uint8_t channel;
		} kernel;
		struct profiler_net_event net;
	};
};
DOPPEL_CHECK_SIZE(struct profiler_descr_v3, 120);

struct profiler_descr_v2 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t comm, number;
			const char *func;
			const void *send;
			void *recv;
			size_t count;
			int root;
			const char *type;
			size_t traffic_bytes; /* 0 */
			uint8_t nchannels, nwarps;
			const char *algo, *proto;
		} coll;
		struct {
			const char *name;
			uint64_t comm;
			const char *func;
			void *buffer;
			const char *type;
			size_t count;
			int peer;
		} p2p;
		struct profiler_proxy_op op;
		struct {
			int step;
		} step;
	};
};
DOPPEL_CHECK_SIZE(struct profiler_descr_v2, 128);

struct profiler_descr_v1 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t comm, number;
			uint8_t func;
			const void *send;
			void *recv;
			size_t count;
			int root;
			uint8_t type;
			uint32_t op;          /* 0 */
			size_t traffic_bytes; /* 0 */
			uint8_t nchannels, nwarps, algo, proto;
			int collnet, nvls; /* 0 */
		} coll;
		struct {
			const char *name;
			uint64_t comm;
			uint8_t func;
			void *buffer;
			uint8_t type;
			size_t count;
			int peer;
		} p2p;
		struct profiler_proxy_op op;
		struct {
			int step;
		} step;
	};
};
DOPPEL_CHECK_SIZE(struct profiler_descr_v1, 120);

/* ---- arguments of states -------------------------------------------------------------------- */

/* From version 4 on. */
union profiler_args {
	struct {
		size_t bytes; /* that the step transfers */
	} step;
	struct {
		int appended;
	} ctrl;
	struct {
		void *data;
	} net;
	struct {
		uint64_t ns;
	} kernel;
};
DOPPEL_CHECK_SIZE(union profiler_args, 8);

/* Up to version 3. */
union profiler_args_v3 {
	struct {
		size_t bytes; /* 0 */
		int steps;
	} op;
	struct {
		int appended;
	} ctrl;
};
DOPPEL_CHECK_SIZE(union profiler_args_v3, 16);

/* ---- the table ------------------------------------------------------------------------------ */

/* `level` is as in NCCL_DEBUG: 1 VERSION, 2 WARN, 3 INFO, 4 ABORT, 5 TRACE. */
typedef void (*profiler_log)(int level, unsigned long flags, const char *file, int line,
			     const char *format, ...);

/* The same for each version, except the types of init, of the descriptor and of the arguments. A
 * plugin keeps the address of `mask` and may change the word later. */
struct profiler_table {
	const char *name;
	union {
		ncclResult_t (*v1)(void **context, int *mask);
		ncclResult_t (*v4)(void **context, int *mask, const char *comm_name, uint64_t comm,
				   int nhosts, int nranks, int rank, profiler_log log);
		ncclResult_t (*v5)(void **context, uint64_t comm, int *mask, const char *comm_name,
				   int nhosts, int nranks, int rank, profiler_log log);
	} init;
	/* descr: struct profiler_descr of the version */
	ncclResult_t (*start)(void *context, void **event, void *descr);
	ncclResult_t (*stop)(void *event);
	/* args: union profiler_args of the version, or NULL */
	ncclResult_t (*record)(void *event, int state, void *args);
	ncclResult_t (*finalize)(void *context);
};
DOPPEL_CHECK_SIZE(struct profiler_table, 48);

#endif
