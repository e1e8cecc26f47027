/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin of a process, its use by communicators, and events. */
#include "core/profiler/profiler.h"

#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/profiler/profiler_internal.h"

/* ---- users of a plugin ---------------------------------------------------------------------- */

void profiler_put(struct profiler *p)
{
	if (!plugin_shared_put(&p->shared))
		return;
	plugin_close(&p->library);
	os_free(p);
}

/* ---- the library ---------------------------------------------------------------------------- */

static bool profiler_table_is_complete(const struct profiler_table *t)
{
	return t->name && t->init.v1 && t->start && t->stop && t->record && t->finalize;
}

/* Opens a library and finds its table. On failure `why` has the reason. */
static bool profiler_try(struct profiler *p, enum plugin_kind kind, const char *setting, char *why,
			 size_t bytes)
{
	const struct profiler_table *t;

	if (plugin_open(kind, setting, &p->library, why, bytes))
		return false;
	t = plugin_table(&p->library, PROFILER_SYMBOL, PROFILER_NEWEST, PROFILER_OLDEST,
			 &p->version);
	p->mask = os_library_word(p->library.library);
	if (t && profiler_table_is_complete(t) && p->mask) {
		p->table = t;
		return true;
	}
	if (!p->mask)
		snprintf(why, bytes, "more than %d plugins are open", OS_LIBRARIES);
	else if (t)
		snprintf(why, bytes,
			 "its table " PROFILER_SYMBOL "%d is not complete, expected name, init, "
			 "startEvent, stopEvent, recordEventState and finalize",
			 p->version);
	else
		snprintf(why, bytes,
			 "it has none of " PROFILER_SYMBOL "%d to _v%d, expected a profiler plugin "
			 "of one of these versions",
			 PROFILER_OLDEST, PROFILER_NEWEST);
	plugin_close(&p->library);
	return false;
}

/* Looks in the libraries of net plugins, as NCCL does. */
static bool profiler_try_net(struct profiler *p)
{
	const char *list = param_str(PARAM_NET_PLUGIN);
	char setting[PLUGIN_SETTING], why[256];

	if (plugin_is_none(list))
		return false;
	if (!list)
		return profiler_try(p, PLUGIN_NET, NULL, why, sizeof why);
	while ((list = plugin_element(list, setting)))
		if (profiler_try(p, PLUGIN_NET, setting, why, sizeof why))
			return true;
	return false;
}

/* Called under the plugin's lock, once. */
static void profiler_load(struct profiler *p)
{
	char why[256], file[sizeof p->library.file];
	bool found = profiler_try(p, PLUGIN_PROFILER, p->shared.setting, why, sizeof why);

	snprintf(file, sizeof file, "%s", p->library.file);
	if (!found && !profiler_try_net(p) && p->shared.setting[0])
		WARN("NCCL_PROFILER_PLUGIN=%s: %s cannot be used: %s; continues without a profiler",
		     p->shared.setting, file, why);
	else if (!p->table)
		INFO(LOG_INIT | LOG_PROFILE, "PROFILER/Plugin: no plugin in %s: %s", file, why);
}

/* ---- a communicator ------------------------------------------------------------------------- */

/* Logs the kinds that the plugin selects, and those that have no events here. */
static void profiler_mask_log(const struct ncclComm *comm, const struct profiler *p)
{
	static const struct {
		uint32_t mask;
		const char *why;
	} none[] = {
		{PROFILER_CE_COLL | PROFILER_CE_SYNC | PROFILER_CE_BATCH,
		 "there are no collectives of copy engines"},
		{PROFILER_KERNEL_PHASE, "there are no phases of symmetric kernels"},
	};
	const uint32_t mask = shared_load_u32(p->mask, SHARED_RELAXED);

	INFO(LOG_INIT | LOG_PROFILE,
	     "PROFILER/Plugin: rank %d uses %s (version %d) of %s, mask of events 0x%x", comm->rank,
	     p->table->name, p->version, p->library.file, mask);
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		if (mask & none[i].mask)
			INFO(LOG_INIT | LOG_PROFILE,
			     "PROFILER/Plugin: rank %d: no event is sent for mask 0x%x: %s",
			     comm->rank, mask & none[i].mask, none[i].why);
}

/* Loads the plugin if no communicator did, and initialises it for this one. */
static bool profiler_begin(struct profiler_comm *pc, const struct ncclComm *comm, int32_t nhosts)
{
	struct profiler *p = pc->of;
	ncclResult_t rc;

	os_mutex_lock(&p->lock);
	if (!p->loaded)
		profiler_load(p);
	p->loaded = true;
	os_mutex_unlock(&p->lock);
	if (!p->table)
		return false;
	rc = profiler_call_init(pc, comm, nhosts);
	if (rc)
		WARN("rank %d: the profiler plugin %s of %s fails in init with %s; the "
		     "communicator continues without a profiler",
		     comm->rank, p->table->name, p->library.file, plugin_result(rc));
	return !rc;
}

void profiler_open(struct ncclComm *comm, const char *comm_name, int32_t nhosts)
{
	const char *setting = param_str(PARAM_PROFILER_PLUGIN);
	struct profiler_comm *pc;

	if (plugin_is_none(setting))
		return;
	pc = os_alloc(sizeof *pc, "profiler of a communicator");
	if (pc)
		pc->of = (struct profiler *)plugin_shared_get(
			REGISTRY_PROFILER, setting ? setting : "", sizeof *pc->of);
	if (!pc || !pc->of) {
		WARN("rank %d: no memory for the profiler; continues without one", comm->rank);
		os_free(pc);
		return;
	}
	pc->comm_name = comm_name;
	if (!profiler_begin(pc, comm, nhosts)) {
		profiler_put(pc->of);
		os_free(pc);
		return;
	}
	comm->profiler = pc;
	profiler_mask_log(comm, pc->of);
	profiler_kernel_open(comm);
}

void profiler_close(struct ncclComm *comm)
{
	struct profiler_comm *pc = comm->profiler;
	uint64_t from_ns;
	ncclResult_t rc;

	if (!pc)
		return;
	profiler_kernel_close(comm);
	from_ns = os_now_ns();
	/* a plugin without a context has nothing to end, as in NCCL */
	rc = pc->context ? pc->of->table->finalize(pc->context) : ncclSuccess;
	profiler_check(pc, comm->rank, "finalize", rc, from_ns);
	INFO(LOG_DESTROY | LOG_PROFILE, "PROFILER/Plugin: rank %d ends %s", comm->rank,
	     pc->of->table->name);
	comm->profiler = NULL;
	profiler_put(pc->of);
	os_free(pc);
}

/* ---- events --------------------------------------------------------------------------------- */

uint32_t profiler_mask(const struct ncclComm *comm)
{
	return comm->profiler ? shared_load_u32(comm->profiler->of->mask, SHARED_RELAXED) : 0;
}

void profiler_check(struct profiler_comm *pc, int32_t rank, const char *function, ncclResult_t rc,
		    uint64_t from_ns)
{
	const uint64_t ns = os_now_ns() - from_ns;
	const char *name = pc->of->table->name;

	if (rc && !shared_quiet_exchange_u32(&pc->refused, 1))
		WARN("rank %d: the profiler plugin %s: %s fails with %s; the event is not "
		     "recorded, and later failures are not logged",
		     rank, name, function, plugin_result(rc));
	if (ns >= PROFILER_SLOW_NS && !shared_quiet_exchange_u32(&pc->slow, 1))
		WARN("rank %d: the profiler plugin %s: %s took %llu ms, and the rank or its proxy "
		     "waited for it; later calls are not timed in the log",
		     rank, name, function, (unsigned long long)ns / 1000000);
}

void *profiler_start(struct ncclComm *comm, struct profiler_descr *d)
{
	struct profiler_comm *pc = comm->profiler;
	void *event = NULL;
	uint64_t from_ns;
	ncclResult_t rc;

	if (!pc)
		return NULL;
	d->rank = comm->rank;
	from_ns = os_now_ns();
	rc = profiler_call_start(pc, comm->id_hash, d, &event);
	profiler_check(pc, comm->rank, "startEvent", rc, from_ns);
	return rc ? NULL : event;
}

void profiler_record(struct ncclComm *comm, void *event, enum profiler_state state,
		     const union profiler_args *args)
{
	struct profiler_comm *pc = comm->profiler;
	uint64_t from_ns;

	if (!pc || !event)
		return;
	from_ns = os_now_ns();
	profiler_check(pc, comm->rank, "recordEventState",
		       profiler_call_record(pc->of, event, state, args), from_ns);
}

void profiler_stop(struct ncclComm *comm, void **event)
{
	struct profiler_comm *pc = comm->profiler;
	uint64_t from_ns;
	void *which = *event;

	*event = NULL;
	if (!pc || !which)
		return;
	from_ns = os_now_ns();
	profiler_check(pc, comm->rank, "stopEvent", pc->of->table->stop(which), from_ns);
}

uint64_t profiler_number(struct ncclComm *comm, enum dev_func func)
{
	return comm->profiler ? comm->profiler->number[func]++ : 0;
}

/* ---- API calls ------------------------------------------------------------------------------ */

void profiler_group_begin(struct profiler_group *g, struct ncclComm *comm, int depth, bool captured)
{
	struct profiler_descr d = {.type = PROFILER_GROUP_API};

	if (g->of || !comm->profiler)
		return;
	g->mask = profiler_mask(comm);
	if (!(g->mask & PROFILER_NEED_GROUP_API))
		return;
	g->of = comm->profiler->of;
	plugin_shared_hold(&g->of->shared);
	d.group_api.depth = depth;
	d.group_api.captured = captured;
	g->event = profiler_start(comm, &d);
	profiler_record(comm, g->event, PROFILER_GROUP_START_STOP, NULL);
}

void profiler_group_launches(const struct profiler_group *g)
{
	if (g->event)
		(void)profiler_call_record(g->of, g->event, PROFILER_GROUP_END_START, NULL);
}

void profiler_group_end(struct profiler_group *g)
{
	if (g->event)
		(void)g->of->table->stop(g->event);
	if (g->of)
		profiler_put(g->of);
	*g = (struct profiler_group){.of = NULL};
}

struct profiler_call profiler_call_begin(const struct profiler_group *g, struct ncclComm *comm,
					 struct profiler_descr *d)
{
	const uint32_t need =
		d->type == PROFILER_COLL_API ? PROFILER_NEED_COLL_API : PROFILER_NEED_P2P_API;
	struct profiler_call call = {.mask = g->mask, .group = g->event};

	if (!comm->profiler)
		return (struct profiler_call){.mask = 0};
	d->parent = g->event;
	if (g->mask & need)
		call.api = profiler_start(comm, d);
	return call;
}

void profiler_call_end(struct ncclComm *comm, const struct profiler_call *call)
{
	void *event = call->api;

	profiler_stop(comm, &event);
}
