/* SPDX-License-Identifier: BSD-3-Clause */
/* Times of works in kernels, when more works are launched than a ring has entries. The test stores
 * what the kernel stores. */
#include "core/device/layout/work.h"
#include "core/profiler/profiler_internal.h"
#include "sim/engine/base/state.h"
#include "tests/conformance/cuda/cuda_harness.h"

#define WORKS       (DEV_PROFILE_ENTRIES + 1) /* the first and the last have one entry */
#define MOST_MS     1000
#define MS_NS       1000000ull
#define QUIET_MS    20
#define QUIET_STEPS 200 /* those of the sleeps, and of a last pass */

/* Times that the plugin has received; 0: none. An event is its work. */
struct timed {
	shared_u64 began, ended, stops;
};
static struct timed timed[WORKS + 1]; /* by number */

static ncclResult_t kernel_start(void *context, void **event, void *descr)
{
	const struct profiler_descr *d = descr;
	struct timed *t = d->parent;

	(void)context;
	shared_store_u64(&t->began, d->kernel.ns, SHARED_RELEASE);
	*event = t;
	return ncclSuccess;
}

static ncclResult_t kernel_record(void *event, int state, void *args)
{
	struct timed *t = event;

	ck_assert_int_eq(state, PROFILER_KERNEL_CH_STOP);
	shared_store_u64(&t->ended, ((union profiler_args *)args)->kernel.ns, SHARED_RELEASE);
	return ncclSuccess;
}

static ncclResult_t kernel_stop(void *event)
{
	shared_add_u64(&((struct timed *)event)->stops, 1, SHARED_RELEASE);
	return ncclSuccess;
}

static const struct profiler_table table = {
	.name = "test", .start = kernel_start, .stop = kernel_stop, .record = kernel_record};

static struct profiler of = {.table = &table, .version = 7};
static struct profiler_comm profiler;
static struct ncclComm comm;

/* Opens a communicator with a profiler and announces works 1...WORKS on channel 0. */
static struct dev_profile *works_open(void)
{
	profiler = (struct profiler_comm){.of = &of, .context = &of, .comm_name = ""};
	comm = (struct ncclComm){.nranks = 2, .profiler = &profiler};
	memset(timed, 0, sizeof timed);
	profiler_kernel_open(&comm);
	ck_assert_ptr_nonnull(profiler_kernel_memory(&comm));
	for (uint32_t i = 1; i <= WORKS; i++) {
		void *parent[2] = {&timed[i], NULL};

		ck_assert_uint_eq(profiler_work_expect(&comm, 0, 0, parent), i);
	}
	return profiler_kernel_memory(&comm);
}

static void entry_fill(struct dev_profile_entry *ring, uint32_t number, uint64_t ns)
{
	struct dev_profile_entry *e = &ring[number % DEV_PROFILE_ENTRIES];

	shared_store_u64(&e->ns, ns, SHARED_RELAXED);
	shared_store_u64(&e->mark, DEV_PROFILE_MARK(number, ns), SHARED_RELEASE);
}

/* Waits for the end of a work's event. */
static bool work_ends(uint32_t number)
{
	for (int ms = 0; ms < MOST_MS; ms++) {
		if (shared_load_u64(&timed[number].stops, SHARED_ACQUIRE))
			return true;
		os_sleep_ns(MS_NS);
	}
	return false;
}

static void check_times(uint32_t number, uint64_t began, uint64_t ended)
{
	const struct timed *t = &timed[number];

	ck_assert_uint_eq(shared_load_u64(&t->began, SHARED_ACQUIRE), began);
	ck_assert_uint_eq(shared_load_u64(&t->ended, SHARED_ACQUIRE), ended);
	ck_assert_uint_eq(shared_load_u64(&t->stops, SHARED_ACQUIRE), began ? 1 : 0);
}

CH_TEST(an_entry_of_an_earlier_work_is_not_yet_that_of_a_later_one)
{
	struct dev_profile *ring = works_open();
	uint64_t steps;

	for (uint32_t i = 1; i < WORKS; i++) {
		entry_fill(ring->began, i, 1000 * i);
		entry_fill(ring->ended, i, 1000 * i + 500);
		ck_assert_msg(work_ends(i), "work %u has no event", i);
		check_times(i, 1000 * i, 1000 * i + 500);
	}
	/* the marks of the first work are in the last one's entries: the task sleeps */
	steps = sim_steps();
	for (int ms = 0; ms < QUIET_MS; ms++)
		os_sleep_ns(MS_NS);
	ck_assert_uint_le(sim_steps() - steps, ch_in_sim() ? QUIET_STEPS : UINT64_MAX);
	check_times(WORKS, 0, 0);
	entry_fill(ring->began, WORKS, 1000 * WORKS);
	entry_fill(ring->ended, WORKS, 1000 * WORKS + 500);
	ck_assert(work_ends(WORKS));
	check_times(WORKS, 1000 * WORKS, 1000 * WORKS + 500);
	profiler_kernel_close(&comm);
}

CH_TEST(the_time_of_a_later_work_is_not_that_of_an_earlier_one)
{
	struct dev_profile *ring = works_open();
	struct dev_profile_entry *first = &ring->began[1];

	/* the last work has stored its time and not yet its mark */
	entry_fill(ring->ended, 1, 200);
	shared_store_u64(&first->ns, 9000, SHARED_RELAXED);
	shared_store_u64(&first->mark, DEV_PROFILE_MARK(1, 100), SHARED_RELEASE);
	for (uint32_t i = 2; i < WORKS; i++) {
		entry_fill(ring->began, i, 1000 + i);
		entry_fill(ring->ended, i, 2000 + i);
	}
	ck_assert(work_ends(WORKS - 1));
	check_times(1, 0, 0);
	entry_fill(ring->began, WORKS, 9000);
	entry_fill(ring->ended, WORKS, 9500);
	ck_assert(work_ends(WORKS));
	check_times(1, 0, 0);
	check_times(WORKS, 9000, 9500);
	profiler_kernel_close(&comm);
}

int main(void)
{
	TCase *t = tcase_create("profiler_kernel");

	CH_ADD(t, an_entry_of_an_earlier_work_is_not_yet_that_of_a_later_one);
	CH_ADD(t, the_time_of_a_later_work_is_not_that_of_an_earlier_one);
	return ch_suite_run("profiler_kernel", t);
}
