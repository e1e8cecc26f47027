/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of events (sim/engine/memory/happens.c) between warps and between devices. */
#include "tests/unit/engine/engine_happens_run.h"

/* ---- warps: scopes and barriers ------------------------------------------------------------- */

static void warp_access(enum shared_access op, const void *addr, size_t bytes,
			enum shared_order order)
{
	const struct mem_access a = {
		.addr = addr, .bytes = bytes, .op = op, .order = order, .scope = now->scope};

	sim_point("test.warp");
	mem_access(&a);
}

static shared_u32 warps_left;

static void warp_end(void)
{
	shared_add_u32(&warps_left, -1u, SHARED_RELAXED);
}

static void warp_produce(void *arg)
{
	(void)arg;
	warp_access(SHARED_RANGE_WRITE, data, 64, SHARED_RELAXED);
	if (now->release_fence)
		warp_access(SHARED_FENCE, NULL, 0, SHARED_RELEASE);
	warp_access(SHARED_STORE, &flag2, 4, now->store);
	shared_store_u32(&flag, 1,
			 SHARED_RELAXED); /* the object exists, and its report has no other line */
	warp_end();
}

static void warp_consume(void *arg)
{
	(void)arg;
	while (!shared_load_u32(&flag, SHARED_RELAXED))
		os_poll_miss("flag");
	warp_access(SHARED_LOAD, &flag2, 4, now->load);
	warp_access(SHARED_RANGE_READ, data, 64, SHARED_RELAXED);
	warp_end();
}

static void kernel_spawn(const char *name, int32_t device, int32_t kernel, int32_t block,
			 void (*fn)(void *))
{
	const struct sim_task_attr a = {.name = name,
					.kind = SIM_TASK_WARP,
					.proc = os_proc(),
					.rank = -1,
					.device = device,
					.kernel = kernel,
					.block = block,
					.lane = -1};
	struct sim_task *t;

	shared_add_u32(&warps_left, 1, SHARED_RELAXED);
	ck_assert_int_eq(sim_task_spawn(&t, &a, fn, NULL), 0);
}

static void warp_spawn(const char *name, int32_t device, int32_t block, void (*fn)(void *))
{
	kernel_spawn(name, device, 1, block, fn);
}

static void warps_wait(void)
{
	while (shared_load_u32(&warps_left, SHARED_RELAXED))
		os_poll_miss("warps");
}

static void scope_main(void *arg)
{
	(void)arg;
	warp_spawn("warp a", 0, 0, warp_produce);
	if (now->device < 0) {
		struct os_thread *t = start("host", warp_consume);
		shared_add_u32(&warps_left, 1, SHARED_RELAXED);
		os_thread_join(t);
	} else {
		warp_spawn("warp b", now->device, now->block, warp_consume);
	}
	warps_wait();
}

#define SCOPE "missing: a wider scope"
static const struct variant scopes[] = {
	{GOOD("block scope, one block", scope_main), RA, .scope = SHARED_BLOCK},
	{GOOD("GPU scope, two blocks", scope_main), RA, .scope = SHARED_GPU, .block = 1},
	{GOOD("system scope, two GPUs", scope_main), RA, .scope = SHARED_SYSTEM, .device = 1},
	{GOOD("system scope, host", scope_main), RA, .scope = SHARED_SYSTEM, .device = -1},
	{BAD("block scope, two blocks", scope_main, SCOPE), RA, .scope = SHARED_BLOCK, .block = 1},
	{BAD("GPU scope, two GPUs", scope_main, SCOPE), RA, .scope = SHARED_GPU, .device = 1},
	{BAD("GPU scope, host", scope_main, SCOPE), RA, .scope = SHARED_GPU, .device = -1},
	{BAD("fence of block scope, two blocks", scope_main, SCOPE), .load = SHARED_ACQUIRE,
	 .release_fence = true, .scope = SHARED_BLOCK, .block = 1},
};

START_TEST(a_release_reaches_its_scope)
{
	check_variant(&scopes[_i]);
}
END_TEST

static shared_u32 released;

static void warp_release(void *arg)
{
	(void)arg;
	warp_access(SHARED_RANGE_WRITE, data, 64, SHARED_RELAXED);
	warp_access(SHARED_STORE, &flag2, 4, SHARED_RELEASE);
	shared_store_u32(&released, 1, SHARED_RELEASE);
	warp_end();
}

static void warp_store_again(void *arg)
{
	(void)arg;
	ck_assert_uint_eq(shared_load_u32(&released, SHARED_ACQUIRE), 1);
	warp_access(SHARED_STORE, &flag2, 4, SHARED_RELAXED);
	shared_store_u32(&flag, 1, SHARED_RELAXED);
	warp_end();
}

/* A block of the same kernel, or another kernel, stores over a release that it knows of. */
static void again_main(void *arg)
{
	(void)arg;
	shared_add_u32(&warps_left, 1, SHARED_RELAXED);
	struct os_thread *host = start("host", warp_consume);

	kernel_spawn("warp a", 0, 1, 0, warp_release);
	while (!shared_load_u32(&released, SHARED_RELAXED))
		os_poll_miss("released");
	kernel_spawn("warp b", now->device, now->block ? 1 : 2, now->block, warp_store_again);
	os_thread_join(host);
	warps_wait();
}

#define AGAIN RA, .scope = SHARED_SYSTEM
static const struct variant again[] = {
	{GOOD("a later kernel", again_main), AGAIN},
	{BAD("another block of the kernel", again_main, "missing: a release"), AGAIN, .block = 1},
	{BAD("a kernel of another GPU", again_main, "missing: a release"), AGAIN, .device = 1},
};

START_TEST(a_later_kernel_keeps_a_release)
{
	check_variant(&again[_i]);
}
END_TEST

/* Two warps meet, the second time at another object, as rounds do. `load` selects the read of the
 * other's write: ACQUIRE after the first barrier; RELAXED before it. */
static const char rounds[2];
static struct {
	shared_u32 arrived[2];
} meeting;

static void meet(int round)
{
	mem_barrier_arrive(&rounds[round]);
	shared_add_u32(&meeting.arrived[round], 1, SHARED_RELAXED);
	while (shared_load_u32(&meeting.arrived[round], SHARED_RELAXED) < 2)
		os_poll_miss("barrier");
	mem_barrier_leave(&rounds[round]);
}

static void barrier_first(void *arg)
{
	(void)arg;
	warp_access(SHARED_RANGE_WRITE, data, 64, SHARED_RELAXED);
	meet(0);
	if (now->release_fence) /* writes again, while the other may still read */
		warp_access(SHARED_RANGE_WRITE, data, 64, SHARED_RELAXED);
	meet(1);
	warp_end();
}

static void barrier_second(void *arg)
{
	(void)arg;
	if (now->load == SHARED_RELAXED)
		warp_access(SHARED_RANGE_READ, data, 64, SHARED_RELAXED);
	meet(0);
	warp_access(SHARED_RANGE_READ, data, 64, SHARED_RELAXED);
	meet(1);
	warp_end();
}

static void barrier_main(void *arg)
{
	(void)arg;
	warp_spawn("warp a", 0, 0, barrier_first);
	warp_spawn("warp b", 0, 0, barrier_second);
	warps_wait();
}

/* One warp writes, and another warp of its block publishes the bytes after the barrier. */
static void cumulative_publish(void *arg)
{
	(void)arg;
	meet(0);
	warp_access(SHARED_FENCE, NULL, 0, SHARED_RELEASE);
	warp_access(SHARED_STORE, &flag2, 4, SHARED_RELAXED);
	shared_store_u32(&flag, 1, SHARED_RELAXED);
	warp_end();
}

static void cumulative_write(void *arg)
{
	(void)arg;
	warp_access(SHARED_RANGE_WRITE, data, 64, SHARED_RELAXED);
	meet(0);
	warp_end();
}

static void cumulative_main(void *arg)
{
	(void)arg;
	warp_spawn("warp a", 0, 0, cumulative_write);
	warp_spawn("warp b", 0, 0, cumulative_publish);
	warp_spawn("warp c", 1, 0, warp_consume);
	warps_wait();
}

static const struct variant barriers[] = {
	{GOOD("barrier", barrier_main), RA, .scope = SHARED_BLOCK},
	{BAD("read before the barrier", barrier_main, NULL), RELAXED, .scope = SHARED_BLOCK},
	{BAD("write in the next round", barrier_main, NULL), RA, .release_fence = true,
	 .scope = SHARED_BLOCK},
	{GOOD("fence after a barrier", cumulative_main), RA, .scope = SHARED_SYSTEM},
	{BAD("and no acquire", cumulative_main, "missing: an acquire"), RELAXED,
	 .scope = SHARED_SYSTEM},
};

START_TEST(barriers_order_the_block)
{
	check_variant(&barriers[_i]);
}
END_TEST

/* ---- devices: steps that act as an object --------------------------------------------------- */

static const char queue_pair, completion, request;

static void device_step(void *object, uint64_t arg)
{
	const struct mem_access a = {
		.addr = data, .bytes = 64, .op = SHARED_RANGE_WRITE, .scope = SHARED_SYSTEM};

	(void)object, (void)arg;
	mem_as(&queue_pair);
	if (now->acquire_fence)
		mem_acquire(&request);
	mem_access(&a);
	if (now->release_fence)
		mem_release(&completion);
	os_event_post(&completion);
}

/* Writes, posts a request; the device writes over it; the completion is polled; reads. */
static void device_main(void *arg)
{
	const struct sim_event_attr attr = {.name = "test.device", .kind = SIM_EVENT_WORK};
	uint64_t before = os_event_seq(&completion);

	(void)arg;
	shared_write(data, copy, 64);
	mem_release(&request);
	sim_event_post(&attr, device_step, &flag, 0, NULL);
	while (os_event_seq(&completion) == before)
		os_poll_miss("completion");
	mem_acquire(&completion);
	shared_read(copy, data, 64);
}

static const struct variant devices[] = {
	{GOOD("request and completion", device_main), .release_fence = true, .acquire_fence = true},
	{BAD("no completion", device_main, NULL), .acquire_fence = true},
	{BAD("no request", device_main, NULL), .release_fence = true},
};

START_TEST(devices_are_ordered_by_requests_and_completions)
{
	check_variant(&devices[_i]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("engine_happens_warps");
	TCase *t = tcase_create("happens");

#define LOOP(test, table) tcase_add_loop_test(t, test, 0, (int)(sizeof table / sizeof table[0]))
	tcase_set_timeout(t, 60);
	LOOP(a_release_reaches_its_scope, scopes);
	LOOP(a_later_kernel_keeps_a_release, again);
	LOOP(barriers_order_the_block, barriers);
	LOOP(devices_are_ordered_by_requests_and_completions, devices);
	suite_add_tcase(s, t);
	return suite_run(s);
}
