/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of a profiler plugin's functions whose types, or whose structs, differ between versions. */
#include <string.h>

#include "core/profiler/profiler_internal.h"

/* ---- start of a plugin ---------------------------------------------------------------------- */

ncclResult_t profiler_call_init(struct profiler_comm *pc, const struct ncclComm *comm,
				int32_t nhosts)
{
	const struct profiler_table *t = pc->of->table;
	int *mask = (int *)(void *)pc->of->mask;
	const char *name = pc->comm_name[0] ? pc->comm_name : NULL;

	pc->context = NULL;
	if (pc->of->version >= 5)
		return t->init.v5(&pc->context, comm->id_hash, mask, name, nhosts, comm->nranks,
				  comm->rank, plugin_log);
	if (pc->of->version == 4)
		return t->init.v4(&pc->context, mask, name, comm->id_hash, nhosts, comm->nranks,
				  comm->rank, plugin_log);
	return t->init.v1(&pc->context, mask);
}

/* ---- numbers of version 1 ------------------------------------------------------------------- */

#define PROFILER_V1_UNKNOWN 255 /* a function or an algorithm without a number */

/* Returns the place of a text in a list. */
static uint8_t profiler_v1_number(const char *text, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (text && !strcmp(text, names[i]))
			return (uint8_t)i;
	return PROFILER_V1_UNKNOWN;
}

static uint8_t profiler_v1_func(const char *func)
{
	static const char *const names[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
					    "AllReduce", "SendRecv", "Send",      "Recv"};

	return profiler_v1_number(func, names, ARRAY_LEN(names));
}

static uint8_t profiler_v1_algo(const char *algo)
{
	static const char *const names[] = {
		"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};

	return profiler_v1_number(algo, names, ARRAY_LEN(names));
}

static uint8_t profiler_v1_proto(const char *proto)
{
	static const char *const names[] = {"LL", "LL128", "SIMPLE"};

	return profiler_v1_number(proto, names, ARRAY_LEN(names));
}

static uint8_t profiler_v1_type(const char *type)
{
	for (int i = 0; i < ncclNumTypes; i++)
		if (type && !strcmp(type, profiler_type_name((ncclDataType_t)i)))
			return (uint8_t)i;
	return PROFILER_V1_UNKNOWN;
}

/* ---- events of each version ----------------------------------------------------------------- */

/* Fills in what the structs of versions 2 to 4 have alike; TO and FROM are descriptors. */
#define PROFILER_COPY_COLL(to, from)                                                               \
	do {                                                                                       \
		(to)->coll.number = (from)->coll.number;                                           \
		(to)->coll.func = (from)->coll.func;                                               \
		(to)->coll.send = (from)->coll.send;                                               \
		(to)->coll.recv = (from)->coll.recv;                                               \
		(to)->coll.count = (from)->coll.count;                                             \
		(to)->coll.root = (from)->coll.root;                                               \
		(to)->coll.type = (from)->coll.type;                                               \
		(to)->coll.nchannels = (from)->coll.nchannels;                                     \
		(to)->coll.nwarps = (from)->coll.nwarps;                                           \
		(to)->coll.algo = (from)->coll.algo;                                               \
		(to)->coll.proto = (from)->coll.proto;                                             \
		(to)->parent = (from)->coll.group;                                                 \
	} while (0)
#define PROFILER_COPY_P2P(to, from)                                                                \
	do {                                                                                       \
		(to)->p2p.func = (from)->p2p.func;                                                 \
		(to)->p2p.buffer = (from)->p2p.buffer;                                             \
		(to)->p2p.type = (from)->p2p.type;                                                 \
		(to)->p2p.count = (from)->p2p.count;                                               \
		(to)->p2p.peer = (from)->p2p.peer;                                                 \
		(to)->parent = (from)->p2p.group;                                                  \
	} while (0)
/* Up to version 3 an event has the communicator's name and hash. */
#define PROFILER_COPY_COMM(to, member, pc, id)                                                     \
	do {                                                                                       \
		(to)->member.name = (pc)->comm_name;                                               \
		(to)->member.comm = (id);                                                          \
	} while (0)

static ncclResult_t profiler_start_v4(const struct profiler_comm *pc,
				      const struct profiler_descr *d, void **event)
{
	struct profiler_descr_v4 v4 = {
		.type = (uint8_t)d->type, .parent = d->parent, .rank = d->rank};

	if (d->type == PROFILER_COLL) {
		PROFILER_COPY_COLL(&v4, d);
	} else if (d->type == PROFILER_P2P) {
		PROFILER_COPY_P2P(&v4, d);
		v4.p2p.nchannels = d->p2p.nchannels;
	} else if (d->type == PROFILER_PROXY_OP) {
		v4.op = d->op;
	} else if (d->type == PROFILER_PROXY_STEP) {
		v4.step.step = d->step.step;
	} else if (d->type == PROFILER_KERNEL_CH) {
		v4.kernel.channel = d->kernel.channel;
		v4.kernel.ns = d->kernel.ns;
	} else if (d->type == PROFILER_NET_PLUGIN) {
		v4.net = d->net;
	}
	return pc->of->table->start(pc->context, event, &v4);
}

static ncclResult_t profiler_start_v3(const struct profiler_comm *pc, uint64_t comm_id,
				      const struct profiler_descr *d, void **event)
{
	struct profiler_descr_v3 v3 = {
		.type = (uint8_t)d->type, .parent = d->parent, .rank = d->rank};

	if (d->type == PROFILER_COLL) {
		PROFILER_COPY_COMM(&v3, coll, pc, comm_id);
		PROFILER_COPY_COLL(&v3, d);
	} else if (d->type == PROFILER_P2P) {
		PROFILER_COPY_COMM(&v3, p2p, pc, comm_id);
		PROFILER_COPY_P2P(&v3, d);
	} else if (d->type == PROFILER_PROXY_OP) {
		v3.op = d->op;
	} else if (d->type == PROFILER_PROXY_STEP) {
		v3.step.step = d->step.step;
	} else if (d->type == PROFILER_KERNEL_CH) {
		v3.kernel.channel = d->kernel.channel;
	} else if (d->type == PROFILER_NET_PLUGIN) {
		v3.net = d->net;
	}
	return pc->of->table->start(pc->context, event, &v3);
}

static ncclResult_t profiler_start_v2(const struct profiler_comm *pc, uint64_t comm_id,
				      const struct profiler_descr *d, void **event)
{
	struct profiler_descr_v2 v2 = {
		.type = (uint8_t)d->type, .parent = d->parent, .rank = d->rank};

	if (d->type == PROFILER_COLL) {
		PROFILER_COPY_COMM(&v2, coll, pc, comm_id);
		PROFILER_COPY_COLL(&v2, d);
	} else if (d->type == PROFILER_P2P) {
		PROFILER_COPY_COMM(&v2, p2p, pc, comm_id);
		PROFILER_COPY_P2P(&v2, d);
	} else if (d->type == PROFILER_PROXY_OP) {
		v2.op = d->op;
	} else if (d->type == PROFILER_PROXY_STEP) {
		v2.step.step = d->step.step;
	}
	return pc->of->table->start(pc->context, event, &v2);
}

static void profiler_coll_v1(struct profiler_descr_v1 *v1, const struct profiler_descr *d)
{
	v1->parent = d->coll.group;
	v1->coll.number = d->coll.number;
	v1->coll.func = profiler_v1_func(d->coll.func);
	v1->coll.send = d->coll.send;
	v1->coll.recv = d->coll.recv;
	v1->coll.count = d->coll.count;
	v1->coll.root = d->coll.root;
	v1->coll.type = profiler_v1_type(d->coll.type);
	v1->coll.nchannels = d->coll.nchannels;
	v1->coll.nwarps = d->coll.nwarps;
	v1->coll.algo = profiler_v1_algo(d->coll.algo);
	v1->coll.proto = profiler_v1_proto(d->coll.proto);
}

static ncclResult_t profiler_start_v1(const struct profiler_comm *pc, uint64_t comm_id,
				      const struct profiler_descr *d, void **event)
{
	struct profiler_descr_v1 v1 = {
		.type = (uint8_t)d->type, .parent = d->parent, .rank = d->rank};

	if (d->type == PROFILER_COLL) {
		PROFILER_COPY_COMM(&v1, coll, pc, comm_id);
		profiler_coll_v1(&v1, d);
	} else if (d->type == PROFILER_P2P) {
		PROFILER_COPY_COMM(&v1, p2p, pc, comm_id);
		v1.parent = d->p2p.group;
		v1.p2p.func = profiler_v1_func(d->p2p.func);
		v1.p2p.buffer = d->p2p.buffer;
		v1.p2p.type = profiler_v1_type(d->p2p.type);
		v1.p2p.count = d->p2p.count;
		v1.p2p.peer = d->p2p.peer;
	} else if (d->type == PROFILER_PROXY_OP) {
		v1.op = d->op;
	} else if (d->type == PROFILER_PROXY_STEP) {
		v1.step.step = d->step.step;
	}
	return pc->of->table->start(pc->context, event, &v1);
}

/* Returns the kinds of events that a version knows. */
static uint64_t profiler_kinds(int version)
{
	if (version <= 2)
		return PROFILER_KERNEL_CH - 1;
	return version <= 4 ? PROFILER_GROUP_API - 1 : ~0ull;
}

ncclResult_t profiler_call_start(const struct profiler_comm *pc, uint64_t comm_id,
				 const struct profiler_descr *d, void **event)
{
	struct profiler_descr v5 = *d;

	*event = NULL;
	if (!(d->type & profiler_kinds(pc->of->version)))
		return ncclSuccess;
	switch (pc->of->version) {
	case 1:
		return profiler_start_v1(pc, comm_id, d, event);
	case 2:
		return profiler_start_v2(pc, comm_id, d, event);
	case 3:
		return profiler_start_v3(pc, comm_id, d, event);
	case 4:
		return profiler_start_v4(pc, d, event);
	default:
		return pc->of->table->start(pc->context, event, &v5);
	}
}

/* ---- states of each version ----------------------------------------------------------------- */

/* Returns true if the version knows the state. */
static bool profiler_state_is_known(int version, enum profiler_state state)
{
	if (version <= 3)
		return state < PROFILER_OP_IN_PROGRESS;
	return version >= 5 || state < PROFILER_GROUP_START_STOP;
}

ncclResult_t profiler_call_record(const struct profiler *p, void *event, enum profiler_state state,
				  const union profiler_args *args)
{
	union profiler_args v4 = {.step = {0}};
	union profiler_args_v3 v3 = {.op = {0}};

	if (!profiler_state_is_known(p->version, state))
		return ncclSuccess;
	if (args)
		v4 = *args;
	if (p->version > 3)
		return p->table->record(event, (int)state, args ? &v4 : NULL);
	if (args && state >= PROFILER_CTRL_IDLE)
		v3.ctrl.appended = args->ctrl.appended;
	return p->table->record(event, (int)state, &v3);
}
