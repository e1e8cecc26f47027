/* SPDX-License-Identifier: BSD-3-Clause */
/* The target in this process: a world of one host, and its HCAs from fakeverbs. Each case runs once
 * for each seed under `sim`, or once under `threads`, in a world of its own, and must destroy all
 * its objects. */
#include "backends/fakeverbs/entry/entry.h"
#include "tests/conformance/verbs/harness/target.h"
#include "tests/conformance/verbs/harness/world.h"

#define TARGET_SEEDS 3

static char target_text[40];
static uint64_t target_seed_now;

uint64_t target_seed(void)
{
	return target_seed_now;
}

void target_defaults(struct vs_config *config)
{
	config->engine = "sim";
	config->seed = 1;
	config->strict = true;
}

void target_preload(void)
{
}

bool target_faults(void)
{
	return true;
}

const char *target_where(void)
{
	return target_text;
}

/* A thread of real time may wait for its CPU, and longest under a sanitizer. */
static int target_shift(enum sim_engine engine, int configured)
{
	return configured ? configured : engine == SIM_ENGINE_THREADS ? 4 : 0;
}

void vw_run_world(const struct vw_run *r, void (*body)(void *arg), void *arg)
{
	int configured = vs_config.timeout_shift;

	target_seed_now = vs_probe->seed = r->sim.seed;
	snprintf(target_text, sizeof target_text,
		 "%s seed %llu: ", r->sim.engine == SIM_ENGINE_THREADS ? "threads" : "sim",
		 (unsigned long long)r->sim.seed);
	vs_config.timeout_shift = target_shift(r->sim.engine, configured);
	CHECK_EQ(sim_start(&r->sim), 0);
	CHECK_EQ(world_create(&r->world), 0);
	enum sim_verdict verdict = sim_run(body, arg);
	const struct sim_failure *f = sim_failure();

	if (f && !(r->misuse && !strcmp(f->kind, "misuse")))
		FAIL("%s: %s", f->kind, f->message);
	CHECK_MSG(verdict == SIM_PASS || f, "verdict %d", verdict);
	uint64_t left = world_destroy();

	CHECK_MSG(left == r->left, "%llu objects are left, expected %llu", (unsigned long long)left,
		  (unsigned long long)r->left);
	f = sim_failure(); /* of the world's end, too */
	if (f && !(r->misuse && !strcmp(f->kind, "misuse")))
		FAIL("%s: %s", f->kind, f->message);
	if (r->hash)
		*r->hash = sim_hash();
	sim_stop();
	vs_config.timeout_shift = configured;
}

struct target_body {
	void (*run)(void *arg);
	void *arg;
};

/* The devices of a case's own world have other attributes than those that were queried first. */
static void target_in_other_world(void *arg)
{
	const struct target_body *b = arg;
	static struct vs_probe own;

	own = *vs_probe;
	vs_probe = &own;
	vs_probe_run();
	b->run(b->arg);
}

static void target_run_once(const struct vs_case *c, enum sim_engine engine, uint64_t seed,
			    void (*body)(void *arg), void *arg)
{
	struct vw_run r = {
		.sim = {.engine = engine,
			.seed = seed,
			.fault_plan = c->plan ? c->plan(vs_param) : c->faults,
			.fault_plan_name = c->name},
		.world = {.hosts = 1, .machine = VW_MACHINE},
		.misuse = c->misuse,
	};
	struct vs_probe *shared = vs_probe;
	struct target_body other = {body, arg};

	if (c->world) {
		r.world = *c->world;
		vw_run_world(&r, target_in_other_world, &other);
		vs_probe = shared;
	} else {
		vw_run_world(&r, body, arg);
	}
}

void target_run(const struct vs_case *c, void (*body)(void *arg), void *arg)
{
	bool threads = !strcmp(vs_config.engine, "threads");

	if (!threads && strcmp(vs_config.engine, "sim"))
		FAIL("engine %s: expected sim or threads", vs_config.engine);
	if (c->engine && strcmp(c->engine, vs_config.engine))
		vs_skip("for the engine %s alone", c->engine);
	if (c->worlds) {
		body(arg);
		return;
	}
	uint64_t seeds = vs_config.seeds ? vs_config.seeds : threads ? 1 : TARGET_SEEDS;

	for (uint64_t i = 0; i < seeds; i++)
		target_run_once(c, threads ? SIM_ENGINE_THREADS : SIM_ENGINE_SIM,
				vs_config.seed + i, body, arg);
}

bool vw_threads(void)
{
	return !strcmp(vs_config.engine, "threads");
}

uint64_t target_tick_late_ns(void)
{
	return 0;
}

uint64_t target_now_ns(void)
{
	return os_now_ns();
}

void target_sleep_ns(uint64_t ns)
{
	os_sleep_ns(ns);
}

/* A page to itself: os_alloc promises none. Its address is kept in front. */
void *target_alloc(size_t bytes)
{
	char *p = os_alloc(bytes + 2 * 4096, "test buffer");

	if (!p)
		return NULL;
	uintptr_t at = ((uintptr_t)p + 2 * 4096 - 1) & ~(uintptr_t)4095;

	memset(p, 0, bytes + 2 * 4096);
	memcpy((void *)(at - sizeof p), &p, sizeof p);
	return (void *)at;
}

void target_release(void *p)
{
	void *start;

	if (!p)
		return;
	memcpy(&start, (char *)p - sizeof start, sizeof start);
	os_free(start);
}

struct vs_thread *target_thread_start(void (*run)(void *arg), void *arg)
{
	const struct os_thread_attr attr = {.name = "case", .rank = -1};
	struct os_thread *t = NULL;

	return os_thread_start(&t, &attr, run, arg) ? NULL : (struct vs_thread *)t;
}

void target_thread_join(struct vs_thread *t)
{
	os_thread_join((struct os_thread *)t);
}

uint64_t target_mark(const void *object)
{
	return os_event_seq(object);
}

void target_idle(const void *object, uint64_t mark, uint64_t deadline_ns)
{
	const struct wait w = {.on = object,
			       .want = mark,
			       .kind = WAIT_OBJECT,
			       .mask = WAIT_MASK_ALL,
			       .why = "something to happen (case)",
			       .from = {-1, -1, -1, "HCA"},
			       .deadline_ns = deadline_ns};

	os_wait_one(&w, NULL);
}

/* The world's descriptors are not for poll(2): look into the double, whose locks are its own. */
__attribute__((no_sanitize("thread"))) bool target_async_pending(struct ibv_context *ctx)
{
	return __atomic_load_n(&hca_context_of(ctx)->hca->first, __ATOMIC_ACQUIRE) != 0;
}

__attribute__((no_sanitize("thread"))) bool target_channel_pending(struct ibv_comp_channel *channel)
{
	struct hca_channel_handle *h = CONTAINER_OF(channel, struct hca_channel_handle, ibv);

	return __atomic_load_n(&h->hca->first, __ATOMIC_ACQUIRE) != 0;
}
