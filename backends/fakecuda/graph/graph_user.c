/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * User objects: memory of the program that lives as long as a graph, a copy of it or an executable
 * graph needs it. The last reference may end anywhere, also in an event. The destructor therefore
 * runs in a task of its own, as in the driver's thread. The program cannot wait for that task, so
 * the end of the process does.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>

static struct CUuserObject_st *object_get(struct fc_proc *p, cudaUserObject_t handle,
					  const char *call)
{
	struct CUuserObject_st *o = p->graphs ? p->graphs->objects : NULL;

	while (o && o != handle)
		o = o->next;
	if (!o)
		fc_graphs_no_handle(p, call, "user object", handle);
	return o;
}

cudaError_t fc_object_make(struct fc_proc *p, void *ptr, cudaHostFn_t destroy, unsigned int refs,
			   unsigned int flags, cudaUserObject_t *object)
{
	struct fc_graphs *all = fc_graphs_get(p);
	struct CUuserObject_st *o;

	if (!object || !destroy || !refs || flags != cudaUserObjectNoDestructorSync) {
		fc_report("user object: %s", !object    ? "no place for it"
					     : !destroy ? "no destructor"
					     : !refs    ? "0 references; expected at least 1"
							: "flags other than NoDestructorSync");
		return cudaErrorInvalidValue;
	}
	o = calloc(1, sizeof *o);
	ASSERT(o);
	o->magic = FC_OBJECT_MAGIC;
	o->proc = p;
	o->number = ++all->object_last;
	o->refs = refs;
	o->rank = os_self()->rank;
	o->ptr = ptr;
	o->destroy = destroy;
	fc_who(o->who);
	o->next = all->objects;
	all->objects = o;
	*object = o;
	return cudaSuccess;
}

static void object_end(void *arg)
{
	struct CUuserObject_st *o = arg;

	mem_acquire(o);
	o->destroy(o->ptr);
	mem_forget(o);
	o->magic = 0;
	free(o);
	sim_events_drain();
}

static void object_spawn(struct CUuserObject_st *o)
{
	const struct sim_task_attr attr = {.name = "cuda destructor",
					   .kind = SIM_TASK_WARP,
					   .proc = o->proc->os,
					   .rank = o->rank,
					   .detached = true,
					   .device = -1,
					   .kernel = -1,
					   .block = -1,
					   .warp = -1,
					   .lane = -1};
	struct sim_task *task;
	int rc;

	mem_release(o);
	rc = sim_task_spawn(&task, &attr, object_end, o);
	ASSERT(rc == 0);
}

void fc_object_drop(struct CUuserObject_st *o, uint32_t count)
{
	struct fc_graphs *all = o->proc->graphs;
	struct CUuserObject_st **at = &all->objects;

	ASSERT(o->refs >= count);
	o->refs -= count;
	if (o->refs)
		return;
	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	fc_graphs_note_gone(o->proc, o, "user object", o->number);
	if (all->ending)
		free(o);
	else
		object_spawn(o);
}

cudaError_t fc_object_retain(struct fc_proc *p, cudaUserObject_t object, unsigned int count,
			     const char *call)
{
	struct CUuserObject_st *o = object_get(p, object, call);

	if (!o || !count)
		return cudaErrorInvalidValue;
	o->refs += count;
	return cudaSuccess;
}

cudaError_t fc_object_release(struct fc_proc *p, cudaUserObject_t object, unsigned int count,
			      const char *call)
{
	struct CUuserObject_st *o = object_get(p, object, call);

	if (!o || !count)
		return cudaErrorInvalidValue;
	if (count > o->refs) {
		fc_misuse("%s: %u references to user object %u by %s, which has %llu", call, count,
			  o->number, o->who, (unsigned long long)o->refs);
		return cudaErrorInvalidValue;
	}
	fc_object_drop(o, count);
	return cudaSuccess;
}

/* ---- what graphs keep ----------------------------------------------------------------------- */

static void kept_add(struct CUgraph_st *g, struct CUuserObject_st *o, uint32_t count)
{
	for (uint32_t i = 0; i < g->kept_count; i++) {
		if (g->kept[i].object == o) {
			g->kept[i].count += count;
			return;
		}
	}
	g->kept = realloc(g->kept, (g->kept_count + 1) * sizeof *g->kept);
	ASSERT(g->kept);
	g->kept[g->kept_count++] = (struct fc_kept){o, count};
}

cudaError_t fc_graph_keep(struct fc_proc *p, cudaGraph_t graph, cudaUserObject_t object,
			  unsigned int count, unsigned int flags, const char *call)
{
	struct CUgraph_st *g = fc_graph_get(p, graph, call);
	struct CUuserObject_st *o = g ? object_get(p, object, call) : NULL;

	if (!o || !count || flags & ~(unsigned int)cudaGraphUserObjectMove)
		return cudaErrorInvalidValue;
	if (!flags)
		o->refs += count;
	kept_add(g, o, count);
	return cudaSuccess;
}

cudaError_t fc_graph_unkeep(struct fc_proc *p, cudaGraph_t graph, cudaUserObject_t object,
			    unsigned int count, const char *call)
{
	struct CUgraph_st *g = fc_graph_get(p, graph, call);
	struct CUuserObject_st *o = g ? object_get(p, object, call) : NULL;

	for (uint32_t i = 0; o && count && i < g->kept_count; i++) {
		if (g->kept[i].object != o)
			continue;
		if (g->kept[i].count < count)
			break;
		g->kept[i].count -= count;
		if (!g->kept[i].count)
			g->kept[i] = g->kept[--g->kept_count];
		fc_object_drop(o, count);
		return cudaSuccess;
	}
	if (o)
		fc_report("%s: graph %u has not %u references to user object %u", call, g->number,
			  count, o->number);
	return cudaErrorInvalidValue;
}

void fc_kept_copy(struct CUgraph_st *to, const struct CUgraph_st *from)
{
	for (uint32_t i = 0; i < from->kept_count; i++) {
		from->kept[i].object->refs += from->kept[i].count;
		kept_add(to, from->kept[i].object, from->kept[i].count);
	}
}

void fc_kept_free(struct CUgraph_st *g)
{
	for (uint32_t i = 0; i < g->kept_count; i++)
		fc_object_drop(g->kept[i].object, g->kept[i].count);
	free(g->kept);
	g->kept = NULL;
	g->kept_count = 0;
}
