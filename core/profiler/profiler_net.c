/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of NCCL, and events of net plugins. A net plugin keeps one pointer for each of its events.
 * It is a struct profiler_net_event_of, which lives from the start to the stop of the event: the
 * callback has no other way to find the profiler.
 */
#include "core/base/log.h"
#include "core/profiler/profiler_internal.h"

const char *profiler_type_name(ncclDataType_t type)
{
	static const char *const names[] = {"ncclInt8",     "ncclUint8",      "ncclInt32",
					    "ncclUint32",   "ncclInt64",      "ncclUint64",
					    "ncclFloat16",  "ncclFloat32",    "ncclFloat64",
					    "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};

	DOPPEL_STATIC_CHECK(ARRAY_LEN(names) == ncclNumTypes, "a name for each type");
	return (unsigned)type < ARRAY_LEN(names) ? names[type] : "Unknown";
}

const char *profiler_func_name(enum dev_func func)
{
	switch (func) {
	case DEV_ALL_REDUCE:
		return "AllReduce";
	case DEV_ALL_GATHER:
		return "AllGather";
	case DEV_REDUCE:
		return "Reduce";
	case DEV_BROADCAST:
		return "Broadcast";
	case DEV_REDUCE_SCATTER:
		return "ReduceScatter";
	case DEV_ALL_TO_ALL:
		return "AlltoAll";
	case DEV_FUNC_COUNT:
		break;
	}
	ASSERT(!"a collective that plugins know");
	return "Unknown";
}

struct profiler_net_event_of {
	struct ncclComm *comm;
	void *event;
};

static void profiler_net_start(void **event, struct profiler_step *step, int64_t id, void *data)
{
	struct profiler_descr d = {.type = PROFILER_NET_PLUGIN};
	struct profiler_net_event_of *of;

	*event = NULL;
	if (!step || !step->comm || !(step->mask & PROFILER_NET_PLUGIN))
		return;
	of = os_alloc(sizeof *of, "event of a net plugin");
	if (!of) {
		INFO(LOG_PROFILE, "rank %d: no memory for an event of the net plugin",
		     step->comm->rank);
		return;
	}
	d.parent = step->event;
	d.net.id = id;
	d.net.data = data;
	of->comm = step->comm;
	of->event = profiler_start(step->comm, &d);
	*event = of;
}

ncclResult_t profiler_net(void **event, int type, void *parent, int64_t id, void *data)
{
	const union profiler_args args = {.net = {data}};
	struct profiler_net_event_of *of;

	if (!event || (!os_thread_is_known() && type != PROFILER_NET_START))
		return ncclSuccess;
	if (type == PROFILER_NET_START) {
		*event = NULL;
		/* a thread of the plugin itself has no process in a world */
		if (os_thread_is_known())
			profiler_net_start(event, parent, id, data);
		return ncclSuccess;
	}
	of = *event;
	if (!of)
		return ncclSuccess;
	if (type == PROFILER_NET_UPDATES || type == PROFILER_NET_UPDATES_STOP)
		profiler_record(of->comm, of->event, PROFILER_NET_UPDATE, &args);
	if (type == PROFILER_NET_UPDATES)
		return ncclSuccess;
	profiler_stop(of->comm, &of->event);
	*event = NULL;
	os_free(of);
	return ncclSuccess;
}
