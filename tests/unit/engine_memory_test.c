/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory-order adversary, by litmus tests: each shape runs under many seeds; the outcome that
 * the order used forbids is never seen, and the one that it allows is seen in some. Warps are tasks
 * that call memory.h as the device shim's double does.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/shared.h"
#include "sim/engine/memory.h"
#include "sim/engine/sim.h"
#include "tests/suite.h"

enum { SEEDS = 500, DATA_BYTES = 256 };

/* Everything that tasks share: not on a stack, where nothing is kept. */
static struct {
	shared_u64 x, y, flag, flag2;
	uint64_t pad[4];
	uint8_t range[DATA_BYTES];
	uint64_t line[2] __attribute__((aligned(16)));
	/* a block's barrier */
	shared_u32 phase;
	uint32_t arrived;
	/* what readers saw */
	uint64_t saw[4];
	bool bad;
} m;

/* How the shape at hand is spelled. */
static struct {
	enum shared_order store, load;
	enum shared_order fence; /* SHARED_RELAXED: none */
	enum shared_scope scope;
	bool rmw;
	int32_t reader_device, reader_block; /* -1: the host */
} how;

/* ---- running -------------------------------------------------------------------------------- */

/* Seeds, of SEEDS, in which the shape showed the bad outcome. */
static uint32_t bad_seeds(enum sim_memory_order order, enum sim_strategy strategy,
			  void (*shape)(void *arg))
{
	uint32_t bad = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		const struct sim_config c = {
			.seed = seed, .strategy = strategy, .memory_order = order};

		memset(&m, 0, sizeof m);
		ck_assert_int_eq(sim_start(&c), 0);
		ck_assert_int_eq(sim_run(shape, NULL), SIM_PASS);
		sim_stop();
		bad += m.bad;
	}
	return bad;
}

static uint32_t bad_seeds_on(void (*shape)(void *arg))
{
	return bad_seeds(SIM_MEMORY_ON, SIM_PORTFOLIO, shape);
}

static void expect_never(void (*shape)(void *arg))
{
	ck_assert_uint_eq(bad_seeds_on(shape), 0);
}

static void expect_some(void (*shape)(void *arg))
{
	ck_assert_uint_gt(bad_seeds_on(shape), 0);
}

static struct os_thread *host(const char *name, void (*fn)(void *))
{
	const struct os_thread_attr a = {.name = name, .rank = -1};
	struct os_thread *t = NULL;

	ck_assert_int_eq(os_thread_start(&t, &a, fn, NULL), 0);
	return t;
}

static void warp(const char *name, int32_t device, int32_t block, void (*fn)(void *))
{
	const struct sim_task_attr a = {.name = name,
					.kind = SIM_TASK_WARP,
					.proc = sim_main_proc(),
					.rank = -1,
					.device = device,
					.kernel = 1,
					.block = block,
					.lane = -1};
	struct sim_task *t;

	ck_assert_int_eq(sim_task_spawn(&t, &a, fn, NULL), 0);
}

/* A reader where `how` says. */
static void reader(void (*fn)(void *))
{
	if (how.reader_device < 0)
		os_thread_join(host("reader", fn));
	else
		warp("reader", how.reader_device, how.reader_block, fn);
}

static void wait_for(const shared_u64 *word, uint64_t want)
{
	const struct wait w = {.on = word,
			       .want = want,
			       .mask = WAIT_MASK_ALL,
			       .kind = WAIT_GE,
			       .bytes = 8,
			       .why = "litmus word",
			       .from = {-1, -1, -1, NULL}};

	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
}

/* The end of a task shows what it stored, so it goes on for a while. */
static void linger(void)
{
	os_charge(OS_COST_NS, 5000);
	sim_point("litmus.linger");
}

/* ---- what a warp does ----------------------------------------------------------------------- */

static struct mem_access access_of(const void *p, size_t bytes, enum shared_access op,
				   enum shared_order order, enum shared_scope scope)
{
	return (struct mem_access){
		.addr = p, .bytes = bytes, .op = op, .order = order, .scope = scope};
}

static void warp_store(void *p, uint64_t v, enum shared_order order, enum shared_scope scope)
{
	const struct mem_access a = access_of(p, 8, SHARED_STORE, order, scope);

	sim_point("warp.store");
	if (mem_store(&a, v))
		return;
	__atomic_store_n((uint64_t *)p, v, __ATOMIC_RELEASE);
	sim_wrote(p, 8);
}

static uint64_t warp_load(const void *p)
{
	const struct mem_access a = access_of(p, 8, SHARED_LOAD, SHARED_RELAXED, SHARED_SYSTEM);

	sim_point("warp.load");
	mem_access(&a);
	return __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE);
}

static void warp_fence(enum shared_order order, enum shared_scope scope)
{
	const struct mem_access a = access_of(NULL, 0, SHARED_FENCE, order, scope);

	sim_point("warp.fence");
	mem_access(&a);
}

static void warp_fill(void *p, size_t bytes)
{
	const struct mem_access a =
		access_of(p, bytes, SHARED_RANGE_WRITE, SHARED_RELAXED, SHARED_BLOCK);

	sim_point("warp.write");
	mem_access(&a);
	memset(p, 1, bytes);
	mem_wrote(&a);
	sim_wrote(p, bytes);
}

static void warp_barrier(uint32_t threads)
{
	uint32_t phase = m.phase.v_;

	sim_point("warp.barrier");
	mem_barrier_arrive(&m.phase);
	if (++m.arrived == threads) {
		m.arrived = 0;
		m.phase.v_ = phase + 1;
		sim_wrote(&m.phase, sizeof m.phase);
	} else {
		const struct wait w = {.on = &m.phase,
				       .want = phase,
				       .mask = WAIT_MASK_ALL,
				       .kind = WAIT_NE,
				       .bytes = 4,
				       .why = "barrier",
				       .from = {-1, -1, -1, NULL}};

		ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	}
	mem_barrier_leave(&m.phase);
}

/* ---- message passing between host threads --------------------------------------------------- */

static void mp_writer(void *arg)
{
	(void)arg;
	shared_store_u64(&m.x, 1, SHARED_RELAXED);
	if (how.fence != SHARED_RELAXED)
		shared_fence(how.fence);
	if (how.rmw)
		shared_add_u64(&m.flag, 1, how.store);
	else
		shared_store_u64(&m.flag, 1, how.store);
	linger();
}

static void mp_reader(void *arg)
{
	(void)arg;
	wait_for(&m.flag, 1);
	m.bad = shared_load_u64(&m.x, SHARED_RELAXED) != 1;
}

static void mp(void *arg)
{
	(void)arg;
	struct os_thread *w = host("writer", mp_writer), *r = host("reader", mp_reader);

	os_thread_join(w);
	os_thread_join(r);
	if (shared_load_u64(&m.x, SHARED_RELAXED) != 1 || m.flag.v_ != 1)
		m.bad = true; /* the end of a task shows what it stored */
}

START_TEST(message_passing_breaks_without_release_only)
{
	how.store = SHARED_RELAXED;
	expect_some(mp);
	how.rmw = true;
	expect_some(mp);
	how.store = SHARED_ACQUIRE;
	expect_some(mp);
	how.fence = SHARED_ACQUIRE;
	expect_some(mp);
	how.fence = SHARED_RELEASE;
	expect_never(mp);
	how.rmw = false;
	how.store = SHARED_RELAXED;
	expect_never(mp);
	how.fence = SHARED_RELAXED;
	how.store = SHARED_RELEASE;
	expect_never(mp);
	how.rmw = true;
	expect_never(mp);
}
END_TEST

START_TEST(off_and_fifo_keep_nothing)
{
	how.store = SHARED_RELAXED;
	ck_assert_uint_eq(bad_seeds(SIM_MEMORY_OFF, SIM_PORTFOLIO, mp), 0);
	ck_assert_uint_eq(bad_seeds(SIM_MEMORY_ON, SIM_FIFO, mp), 0);
}
END_TEST

static uint32_t drawn_on;

static void count_on(void *arg)
{
	(void)arg;
	drawn_on += sim_memory_order_on();
}

START_TEST(half_of_the_seeds_draw_it)
{
	bad_seeds(SIM_MEMORY_DRAW, SIM_PORTFOLIO, count_on);
	ck_assert_uint_gt(drawn_on, SEEDS * 2 / 5);
	ck_assert_uint_lt(drawn_on, SEEDS * 3 / 5);
	drawn_on = 0;
	bad_seeds(SIM_MEMORY_DRAW, SIM_FIFO, count_on);
	ck_assert_uint_eq(drawn_on, 0);
}
END_TEST

/* ---- store buffering ------------------------------------------------------------------------ */

static void sb_one(shared_u64 *mine, shared_u64 *other, uint64_t *saw)
{
	shared_store_u64(mine, 1, how.store);
	if (how.fence != SHARED_RELAXED)
		shared_fence(how.fence);
	*saw = shared_load_u64(other, how.load);
	linger();
}

static void sb_left(void *arg)
{
	(void)arg;
	sb_one(&m.x, &m.y, &m.saw[0]);
}

static void sb_right(void *arg)
{
	(void)arg;
	sb_one(&m.y, &m.x, &m.saw[1]);
}

static void sb(void *arg)
{
	(void)arg;
	struct os_thread *l = host("left", sb_left), *r = host("right", sb_right);

	os_thread_join(l);
	os_thread_join(r);
	m.bad = !m.saw[0] && !m.saw[1];
}

START_TEST(store_buffering_needs_seq_cst)
{
	how.store = SHARED_RELEASE;
	how.load = SHARED_ACQUIRE;
	expect_some(sb);
	how.fence = SHARED_SEQ_CST;
	expect_never(sb);
	how.fence = SHARED_RELAXED;
	how.store = how.load = SHARED_SEQ_CST;
	expect_never(sb);
}
END_TEST

/* ---- one location --------------------------------------------------------------------------- */

static void coherence_writer(void *arg)
{
	(void)arg;
	for (uint64_t i = 1; i <= 20; i++) {
		shared_store_u64(&m.x, i, SHARED_RELAXED);
		if (shared_load_u64(&m.x, SHARED_RELAXED) != i)
			m.bad = true; /* its own */
	}
	shared_store_u64(&m.flag, 1, SHARED_RELAXED);
}

static void coherence_reader(void *arg)
{
	uint64_t last = 0;

	(void)arg;
	while (last < 20) {
		uint64_t now = shared_load_u64(&m.x, SHARED_RELAXED);

		if (now < last)
			m.bad = true;
		last = now;
		os_charge(OS_COST_NS, 50);
	}
}

static void coherence(void *arg)
{
	(void)arg;
	struct os_thread *w = host("writer", coherence_writer);
	struct os_thread *r = host("reader", coherence_reader);

	os_thread_join(w);
	os_thread_join(r);
}

START_TEST(one_location_never_goes_back)
{
	expect_never(coherence);
}
END_TEST

static void overwrite_first(void *arg)
{
	(void)arg;
	shared_store_u64(&m.x, 1, SHARED_RELAXED);
	shared_store_u64(&m.flag, 1, how.store);
	linger();
}

static void overwrite_second(void *arg)
{
	(void)arg;
	wait_for(&m.flag, 1);
	shared_store_u64(&m.x, 2, SHARED_RELAXED);
}

static void overwrite(void *arg)
{
	(void)arg;
	struct os_thread *a = host("first", overwrite_first), *b = host("second", overwrite_second);

	os_thread_join(a);
	os_thread_join(b);
	m.bad = m.x.v_ != 2;
}

START_TEST(a_late_store_lands_on_a_newer_one_unless_released)
{
	how.store = SHARED_RELAXED;
	expect_some(overwrite);
	how.store = SHARED_RELEASE;
	expect_never(overwrite);
}
END_TEST

/* ---- ranges and lines ----------------------------------------------------------------------- */

static void range_writer(void *arg)
{
	uint8_t ones[DATA_BYTES];

	(void)arg;
	memset(ones, 1, sizeof ones);
	shared_write(m.range, ones, sizeof ones);
	shared_store_u64(&m.flag, 1, how.store);
	linger();
}

/* Bad is a mixture of old and new; what is torn is a multiple of 8 bytes. */
static void range_reader(void *arg)
{
	uint8_t got[DATA_BYTES];
	uint32_t fresh = 0;

	(void)arg;
	wait_for(&m.flag, 1);
	shared_read(got, m.range, sizeof got);
	for (uint32_t i = 0; i < sizeof got; i++)
		fresh += got[i];
	ck_assert_uint_eq(fresh % 8, 0);
	m.bad = how.store == SHARED_RELEASE ? fresh != DATA_BYTES : fresh && fresh < DATA_BYTES;
}

static void range(void *arg)
{
	(void)arg;
	struct os_thread *w = host("writer", range_writer), *r = host("reader", range_reader);

	os_thread_join(w);
	os_thread_join(r);
}

START_TEST(a_range_is_seen_in_pieces_unless_released)
{
	how.store = SHARED_RELAXED;
	expect_some(range);
	how.store = SHARED_RELEASE;
	expect_never(range);
}
END_TEST

/* A few bytes at any address, across lines of 64 bytes as well: the writer reads each of them back. Bad is a
 * byte that it does not see. */
static void small_ranges(void *arg)
{
	(void)arg;
	for (uint32_t at = 0; at < 130; at++) {
		uint32_t bytes = 1 + at % 8;

		memset(m.range, 0, sizeof m.range);
		warp_fill(m.range + at, bytes);
		for (uint32_t i = bytes; i-- > 0;) {
			const struct mem_access a = access_of(m.range + at + i, 1, SHARED_LOAD,
							      SHARED_RELAXED, SHARED_SYSTEM);

			mem_access(&a);
			m.bad |= m.range[at + i] != 1;
		}
	}
}

static void small_ranges_of_a_warp(void *arg)
{
	(void)arg;
	warp("writer", 0, 0, small_ranges);
	linger();
}

START_TEST(an_agent_sees_its_own_bytes_wherever_they_are)
{
	expect_never(small_ranges_of_a_warp);
}
END_TEST

#define LINE(value) (7ull << 32 | (value))

static void line_writer(void *arg)
{
	(void)arg;
	warp_store(&m.line[0], LINE(1), SHARED_RELAXED, SHARED_SYSTEM);
	warp_store(&m.line[1], LINE(2), SHARED_RELAXED, SHARED_SYSTEM);
	linger();
}

static void line_reader(void *arg)
{
	const struct wait w = {.on = m.line,
			       .want = 7,
			       .kind = WAIT_LINE16,
			       .why = "line",
			       .from = {-1, -1, -1, NULL}};

	(void)arg;
	while (!warp_load(&m.line[0]) && !warp_load(&m.line[1]))
		os_charge(OS_COST_NS, 20);
	uint64_t half = m.line[0] ? m.line[1] : m.line[0];
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	ck_assert_uint_eq(m.line[0], LINE(1));
	ck_assert_uint_eq(m.line[1], LINE(2));
	m.bad = !half;
}

static void line(void *arg)
{
	(void)arg;
	warp("writer", 0, 0, line_writer);
	os_thread_join(host("reader", line_reader));
}

START_TEST(a_line_comes_in_halves_and_its_flags_tell)
{
	expect_some(line);
}
END_TEST

/* ---- scopes --------------------------------------------------------------------------------- */

static void scope_writer(void *arg)
{
	(void)arg;
	warp_store(&m.x, 1, SHARED_RELAXED, SHARED_SYSTEM);
	warp_fence(SHARED_RELEASE, how.scope);
	warp_store(&m.flag, 1, SHARED_RELAXED, SHARED_SYSTEM);
	linger();
}

static void scope_reader(void *arg)
{
	(void)arg;
	wait_for(&m.flag, 1);
	m.bad = warp_load(&m.x) != 1;
}

static void scope(void *arg)
{
	(void)arg;
	warp("writer", 0, 0, scope_writer);
	reader(scope_reader);
}

START_TEST(a_fence_reaches_as_far_as_its_scope)
{
	static const struct {
		int32_t device, block;
		enum shared_scope needs;
	} at[] = {{0, 0, SHARED_BLOCK},
		  {0, 1, SHARED_GPU},
		  {1, 0, SHARED_SYSTEM},
		  {-1, -1, SHARED_SYSTEM}};

	for (size_t i = 0; i < ARRAY_LEN(at); i++) {
		how.reader_device = at[i].device;
		how.reader_block = at[i].block;
		for (how.scope = SHARED_BLOCK; how.scope <= SHARED_SYSTEM; how.scope++) {
			if (how.scope < at[i].needs)
				expect_some(scope);
			else
				expect_never(scope);
		}
	}
}
END_TEST

/* ---- cumulativity --------------------------------------------------------------------------- */

static void barrier_mover(void *arg)
{
	(void)arg;
	warp_fill(m.range, sizeof m.range);
	warp_store(&m.x, 1, SHARED_RELAXED, SHARED_SYSTEM);
	warp_barrier(2);
	linger();
}

static void barrier_poster(void *arg)
{
	(void)arg;
	warp_barrier(2);
	if (how.fence != SHARED_RELAXED)
		warp_fence(how.fence, how.scope);
	warp_store(&m.flag, 1, SHARED_RELAXED, SHARED_SYSTEM);
	linger();
}

static void barrier_reader(void *arg)
{
	(void)arg;
	wait_for(&m.flag, 1);
	m.bad = shared_load_u64(&m.x, SHARED_RELAXED) != 1;
	for (uint32_t i = 0; i < sizeof m.range; i++)
		m.bad |= m.range[i] != 1;
}

static void barrier(void *arg)
{
	(void)arg;
	warp("mover", 0, 0, barrier_mover);
	warp("poster", 0, 0, barrier_poster);
	reader(barrier_reader);
}

START_TEST(a_fence_after_a_barrier_covers_the_block)
{
	how.reader_device = -1;
	how.fence = SHARED_RELEASE;
	how.scope = SHARED_SYSTEM;
	expect_never(barrier);
	how.scope = SHARED_GPU;
	expect_some(barrier);
	how.fence = SHARED_RELAXED;
	expect_some(barrier);
}
END_TEST

static void relay_first(void *arg)
{
	(void)arg;
	warp_store(&m.x, 1, SHARED_RELAXED, SHARED_SYSTEM);
	warp_store(&m.flag, 1, SHARED_RELEASE, SHARED_GPU);
	linger();
}

static void relay_second(void *arg)
{
	(void)arg;
	wait_for(&m.flag, 1);
	warp_store(&m.flag2, 1, how.store, SHARED_SYSTEM);
	linger();
}

static void relay_reader(void *arg)
{
	(void)arg;
	wait_for(&m.flag2, 1);
	m.bad = shared_load_u64(&m.x, SHARED_RELAXED) != 1;
}

static void relay(void *arg)
{
	(void)arg;
	warp("first", 0, 0, relay_first);
	warp("second", 0, 1, relay_second);
	reader(relay_reader);
}

START_TEST(a_wider_release_covers_what_was_acquired)
{
	how.reader_device = -1;
	how.store = SHARED_RELEASE;
	expect_never(relay);
	how.store = SHARED_RELAXED;
	expect_some(relay);
}
END_TEST

/* ---- ends ----------------------------------------------------------------------------------- */

static struct os_proc victim = {.name = "victim", .id = 7};

static void victim_main(void *arg)
{
	(void)arg;
	shared_store_u64(&m.x, 1, SHARED_RELAXED);
	m.saw[0] = 1;
	wait_for(&m.flag, 1); /* for ever */
}

static void kill_it(void *arg)
{
	const struct sim_task_attr a = {.name = "victim",
					.kind = SIM_TASK_HOST,
					.proc = &victim,
					.rank = -1,
					.background = true,
					.device = -1};
	struct sim_task *t;

	(void)arg;
	ck_assert_int_eq(sim_task_spawn(&t, &a, victim_main, NULL), 0);
	while (!m.saw[0])
		os_sleep_ns(10);
	m.saw[1] = m.x.v_;
	sim_kill_proc(&victim);
	m.bad = m.x.v_ != 1;
	m.saw[2] += !m.saw[1];
}

START_TEST(what_a_killed_process_stored_is_stored)
{
	expect_never(kill_it);
}
END_TEST

static void fresh(void *arg)
{
	(void)arg;
	shared_store_u64(&m.x, 1, SHARED_RELAXED);
	mem_fresh(&m.x, sizeof m.x); /* freed, and given to somebody else */
	uint64_t was = m.x.v_;
	os_sleep_ns(1000000000);
	m.bad = m.x.v_ != was;
}

START_TEST(nothing_lands_in_memory_that_was_freed)
{
	expect_never(fresh);
}
END_TEST

static void stack_word(void *arg)
{
	shared_u64 here = {0};

	(void)arg;
	shared_store_u64(&here, 1, SHARED_RELAXED);
	m.bad = *(volatile uint64_t *)&here.v_ != 1;
}

START_TEST(words_on_stacks_are_not_kept)
{
	expect_never(stack_word);
}
END_TEST

static uint64_t run_recorded(uint64_t seed, const char *in, const char *out,
			     enum sim_memory_order order)
{
	const struct sim_config c = {
		.seed = seed, .choices_in = in, .choices_out = out, .memory_order = order};

	memset(&m, 0, sizeof m);
	ck_assert_int_eq(sim_start(&c), 0);
	ck_assert_int_eq(sim_run(mp, NULL), SIM_PASS);
	uint64_t hash = sim_hash();
	sim_stop();
	return hash;
}

START_TEST(a_replay_repeats_what_was_kept)
{
	char path[] = "/tmp/doppel-memory-XXXXXX";
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd);
	how.store = SHARED_RELAXED;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		uint64_t hash = run_recorded(seed, NULL, path, SIM_MEMORY_ON);
		bool bad = m.bad;

		/* the file says that it was on */
		ck_assert_uint_eq(run_recorded(0, path, NULL, SIM_MEMORY_DRAW), hash);
		ck_assert_int_eq(m.bad, bad);
	}
	unlink(path);
}
END_TEST

static void reset(void)
{
	memset(&how, 0, sizeof how);
}

int main(void)
{
	Suite *s = suite_create("memory order");
	TCase *t = tcase_create("litmus");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, reset, NULL);
	tcase_add_test(t, message_passing_breaks_without_release_only);
	tcase_add_test(t, off_and_fifo_keep_nothing);
	tcase_add_test(t, half_of_the_seeds_draw_it);
	tcase_add_test(t, store_buffering_needs_seq_cst);
	tcase_add_test(t, one_location_never_goes_back);
	tcase_add_test(t, a_late_store_lands_on_a_newer_one_unless_released);
	tcase_add_test(t, a_range_is_seen_in_pieces_unless_released);
	tcase_add_test(t, an_agent_sees_its_own_bytes_wherever_they_are);
	tcase_add_test(t, a_line_comes_in_halves_and_its_flags_tell);
	tcase_add_test(t, a_fence_reaches_as_far_as_its_scope);
	tcase_add_test(t, a_fence_after_a_barrier_covers_the_block);
	tcase_add_test(t, a_wider_release_covers_what_was_acquired);
	tcase_add_test(t, what_a_killed_process_stored_is_stored);
	tcase_add_test(t, nothing_lands_in_memory_that_was_freed);
	tcase_add_test(t, words_on_stacks_are_not_kept);
	tcase_add_test(t, a_replay_repeats_what_was_kept);
	suite_add_tcase(s, t);
	return suite_run(s);
}
