/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes: environment, memory, random numbers, creation and end. Process 0 is the engine's main
 * process and belongs to host 0. This file creates the others. A process that ends in order reports
 * its leaks; a killed process is cleaned up silently.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world/world_internal.h"

#define PROC_FIRST_PID 1000
/* Longest wait of an ending process for its detached tasks, and the shortest and longest pause
 * between two checks. */
#define PROC_FINISH_NS       130000000000ull
#define PROC_FINISH_LOOK_NS  1000000ull
#define PROC_FINISH_PAUSE_NS 1000000000ull

/* Hooks are registered once, at load, and outlive worlds. */
static void (*proc_hook[WORLD_HOOKS])(struct os_proc *proc, bool killed);
static uint32_t proc_hooks;

struct world_proc *world_proc_of(const struct os_proc *proc)
{
	struct world_proc *wp = proc->slot[OS_SLOT_WORLD];
	ASSERT(wp && wp->proc == proc);
	return wp;
}

struct world_proc *world_self(void)
{
	const struct sim_task *t = sim_task_self();
	return t ? world_proc_of(t->self.proc) : world->no_proc;
}

struct base_state *world_base_state(void)
{
	return &world_self()->base;
}

/* ---- creation -------------------------------------------------------------------------------- */

static struct world_proc *proc_new(struct os_proc *proc, uint32_t id, uint32_t host,
				   const char *name)
{
	struct world_proc *wp = calloc(1, sizeof *wp);
	if (!wp)
		return NULL;
	char stream[32];
	snprintf(stream, sizeof stream, "os.random.%u", id);
	sim_rng_init(&wp->rng, stream);
	snprintf(wp->name, sizeof wp->name, "%s", name);
	wp->blocks.next = wp->blocks.prev = &wp->blocks;
	wp->alive = true;
	wp->proc = proc ? proc : &wp->own;
	wp->proc->id = id;
	wp->proc->host = host;
	wp->proc->pid = (int32_t)(PROC_FIRST_PID + id);
	if (world->config.real)
		os_real_identify(wp->proc);
	wp->proc->name = wp->name;
	wp->proc->slot[OS_SLOT_WORLD] = wp;
	if (proc_env_start(wp) == 0)
		return wp;
	wp->proc->slot[OS_SLOT_WORLD] = NULL;
	proc_env_free(wp);
	free(wp);
	return NULL;
}

static void proc_free(struct world_proc *wp)
{
	proc_env_free(wp);
	world_members_free(wp);
	memset(wp->proc->slot, 0, sizeof wp->proc->slot);
	wp->proc->name = "gone";
	free(wp->fd);
	free(wp);
}

/* Reserves a slot in the process table and returns its index. The caller holds world->lock. */
static int proc_slot_take(uint32_t *id)
{
	if (world->proc_count == world->proc_cap) {
		uint32_t cap = world->proc_cap ? 2 * world->proc_cap : 64;
		struct world_proc **more = realloc(world->proc, cap * sizeof(struct world_proc *));
		if (!more)
			return ENOMEM;
		world->proc = more;
		world->proc_cap = cap;
	}
	*id = world->proc_count++;
	world->proc[*id] = NULL;
	return 0;
}

static int proc_add(struct os_proc *own, uint32_t host, const char *name, struct world_proc **out)
{
	uint32_t id;
	char made[WORLD_NAME_BYTES];
	world_lock(&world->lock);
	int rc = proc_slot_take(&id);
	world_unlock(&world->lock);
	if (rc)
		return rc;
	if (!name) {
		snprintf(made, sizeof made, "host%u/p%u", host, id);
		name = made;
	}
	struct world_proc *wp = proc_new(own, id, host, name);
	if (!wp)
		return ENOMEM; /* the index stays unused */
	world_lock(&world->lock);
	world->proc[id] = wp;
	world_unlock(&world->lock);
	*out = wp;
	return 0;
}

int world_proc_create(uint32_t host, const char *name, struct os_proc **proc)
{
	ASSERT(world && proc);
	if (host >= world->config.hosts) {
		fprintf(stderr, "world: process on host %u, expected a host below %u\n", host,
			world->config.hosts);
		return EINVAL;
	}
	struct world_proc *wp;
	int rc = proc_add(NULL, host, name, &wp);
	if (rc)
		return rc;
	os_trace("proc.create", wp->proc->id, host, 0);
	*proc = wp->proc;
	return 0;
}

int world_procs_start(void)
{
	struct world_proc *main_proc;
	world->no_proc = proc_new(NULL, UINT32_MAX, 0, "world");
	if (!world->no_proc)
		return ENOMEM;
	const struct world_share *share = &world->config.share;
	char name[WORLD_NAME_BYTES] = "host0/main";
	if (share->processes)
		snprintf(name, sizeof name, "host%u/p%u", share->host, share->process);
	return proc_add(sim_main_proc(), share->host, name, &main_proc);
}

struct os_proc *world_proc_by_id(uint32_t id)
{
	world_lock(&world->lock);
	struct world_proc *wp = id < world->proc_count ? world->proc[id] : NULL;
	world_unlock(&world->lock);
	return wp ? wp->proc : NULL;
}

bool world_proc_alive(const struct os_proc *proc)
{
	const struct world_proc *wp = world_proc_of(proc);
	world_lock(&world->lock);
	bool alive = wp->alive;
	world_unlock(&world->lock);
	return alive;
}

int world_thread_start(struct os_proc *proc, struct os_thread **t,
		       const struct os_thread_attr *attr, void (*fn)(void *), void *arg)
{
	ASSERT(world_proc_of(proc)->alive);
	const struct sim_task_attr a = {
		.name = attr->name,
		.kind = SIM_TASK_HOST,
		.proc = proc,
		.rank = attr->rank,
		.background = attr->background,
		.device = -1,
		.kernel = -1,
		.block = -1,
		.warp = -1,
		.lane = -1,
	};
	struct sim_task *task;
	int rc = sim_task_spawn(&task, &a, fn, arg);
	if (rc == 0)
		*t = (struct os_thread *)task; /* the engine's os_thread is its task */
	return rc;
}

/* ---- ending --------------------------------------------------------------------------------- */

void world_on_proc_exit(void (*hook)(struct os_proc *proc, bool killed))
{
	ASSERT(proc_hooks < WORLD_HOOKS);
	proc_hook[proc_hooks++] = hook;
}

/* Returns a task of the process that has not ended, a foreground task before a background one. */
static const struct sim_task *proc_live_task(const struct os_proc *proc)
{
	const struct sim_task *background = NULL;
	for (const struct sim_task *t = sim_task_first(); t; t = t->next) {
		if (t->self.proc != proc || t->state == SIM_TASK_DONE ||
		    t->state == SIM_TASK_KILLED)
			continue;
		if (!t->background)
			return t;
		background = t;
	}
	return background;
}

/* Runs the exit hooks, then frees the rest. Doubles are first: their objects hold descriptors and
 * memory of the process. */
static void proc_sweep(struct world_proc *wp, bool killed)
{
	char first[160] = "";
	for (uint32_t i = proc_hooks; i-- > 0;)
		proc_hook[i](wp->proc, killed);
	uint64_t n = world_sockets_close(wp, first, sizeof first);
	if (n && !killed)
		world_leak("descriptor", n, first);
	n = world_mappings_close(wp, first, sizeof first);
	if (n && !killed)
		world_leak("shared memory mapping", n, first);
	n = world_mailboxes_close(wp, first, sizeof first);
	if (n && !killed)
		world_leak("mailbox", n, first);
	const char *what = "";
	n = world_blocks_free(wp, &what);
	if (n && !killed) {
		snprintf(first, sizeof first, "%s of %s", what, wp->name);
		world_leak("memory", n, first);
	}
}

/* True for the task that ends the process: only the first caller does. */
static bool proc_end_begin(struct world_proc *wp)
{
	world_lock(&world->lock);
	bool was = wp->alive;
	wp->alive = false;
	world_unlock(&world->lock);
	return was;
}

void world_proc_finish(struct os_proc *proc)
{
	const uint64_t until_ns = os_now_ns() + PROC_FINISH_NS;
	uint64_t pause_ns = PROC_FINISH_LOOK_NS;

	while (sim_running() && sim_proc_finishes(proc) && os_now_ns() < until_ns) {
		os_sleep_ns(pause_ns);
		pause_ns = MIN_OF(2 * pause_ns, PROC_FINISH_PAUSE_NS);
	}
}

void world_proc_exit(struct os_proc *proc)
{
	struct world_proc *wp = world_proc_of(proc);

	world_proc_finish(proc);
	if (!proc_end_begin(wp))
		return;
	const struct sim_task *t = world->locking ? NULL : proc_live_task(proc);
	if (t && t->background && t != sim_task_self()) {
		/* Background tasks end with their process (the root of an unused unique id). Their
		 * objects cannot be distinguished from those that the program did not free. */
		wp->killed = true;
		sim_kill_proc(proc);
		os_trace("proc.exit", proc->id, 1, 0);
		proc_sweep(wp, true);
		return;
	}
	if (t && t != sim_task_self()) {
		fprintf(stderr, "world: process %s ends while its task %u \"%s\" is alive\n",
			wp->name, t->self.id, t->name);
		ASSERT(!"a process ends after its tasks");
	}
	os_trace("proc.exit", proc->id, 0, 0);
	proc_sweep(wp, false);
}

static bool proc_has_memory(struct world_proc *wp, const char *what)
{
	bool has = false;
	world_lock(&wp->lock);
	for (const struct world_block *b = wp->blocks.next; b != &wp->blocks && !has; b = b->next)
		has = strcmp(b->what, what) == 0;
	world_unlock(&wp->lock);
	return has;
}

bool world_proc_leave(struct os_proc *proc)
{
	struct world_proc *wp = world_proc_of(proc);
	bool serves = sim_proc_has_tasks(proc), comm = proc_has_memory(wp, "communicator");

	if (!proc_end_begin(wp))
		return false;
	if (serves) {
		wp->killed = true;
		sim_kill_proc(proc);
	}
	os_trace("proc.exit", proc->id, serves, 0);
	/* Without a communicator the tasks are the root of an unused unique id, which no call could
	 * end. */
	proc_sweep(wp, serves && !comm);
	return comm;
}

void world_proc_kill(struct os_proc *proc)
{
	struct world_proc *wp = world_proc_of(proc);
	if (!proc_end_begin(wp))
		return;
	wp->killed = true;
	sim_kill_proc(proc);
	os_trace("proc.kill", proc->id, 0, 0);
	proc_sweep(wp, true);
}

/* Counts tasks that were not joined, and background tasks that still run, as leaks. Exceptions:
 * tasks whose process was killed, and detached tasks that are about to free themselves. A failed
 * run is not counted: all its tasks hang, and the failure has been explained. Call outside sim_run
 * only. */
static void procs_count_tasks(void)
{
	const struct sim_task *first = NULL;
	uint64_t n = 0;
	for (const struct sim_task *t = sim_task_first(); t; t = t->next) {
		bool ended = t->state == SIM_TASK_DONE || t->state == SIM_TASK_KILLED;
		if (!ended && !t->background && t->state != SIM_TASK_NEW)
			return;
		if (t->state == SIM_TASK_KILLED || t->self.id == 0 || (ended && t->detached) ||
		    world_proc_of(t->self.proc)->killed)
			continue;
		first = first ? first : t;
		n++;
	}
	if (n)
		world_leak("task", n, first->name);
}

/* Ends all processes, the newest first. The process that runs the simulation is the last. */
void world_procs_end(void)
{
	if (!sim_running())
		procs_count_tasks();
	for (uint32_t id = world->proc_count; id-- > 0;) {
		struct world_proc *wp = world->proc[id];
		if (!wp || !wp->alive)
			continue;
		const struct sim_task *t = world->locking ? NULL : proc_live_task(wp->proc);
		if (!t)
			world_proc_exit(wp->proc);
		else if (t != sim_task_self())
			world_proc_kill(wp->proc); /* the run failed, or a task still runs */
	}
	const char *what = "";
	uint64_t n = world_blocks_free(world->no_proc, &what);
	if (n)
		world_leak("memory", n, what);
}

void world_procs_free(void)
{
	for (uint32_t id = 0; id < world->proc_count; id++)
		if (world->proc[id])
			proc_free(world->proc[id]);
	if (world->no_proc)
		proc_free(world->no_proc);
	free(world->proc);
}
