/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failover and recovery of net_verbs by itself: two ends in two processes on two hosts. Links go
 * down, come up and flap at moments spread over the whole transfer. Each run has all data, or, if
 * no rail is left, an error at both ends within a bound.
 *	net_verbs_rails_test [MOMENTS]    number of moments of each series, 6 if not given
 */
#include <stdio.h>

#include "tests/internal/net/net_verbs_sides.h"
#include "tests/sample.h"

#define MS_NS   1000000ull
#define PORTS   4 /* of a host of the machine */
#define CHANGES 12
/* Retries end after 3 times 4.2 ms (more, with an HCA's tolerance); a part may need them on each
 * rail. */
#define BOUND_NS (400 * MS_NS)

/* A link's change, some time after the ends are connected. */
struct change {
	uint64_t at_ns;
	uint32_t port; /* of both hosts' ports */
	bool up;
	bool move; /* the port gets another address */
};

static struct {
	struct change change[CHANGES]; /* in order of time */
	uint32_t n;
} weather;

static int moments = 6;

/* ---- a run ---------------------------------------------------------------------------------- */

static struct os_thread *spawn(struct os_proc *proc, const char *name, int rank, void (*fn)(void *))
{
	struct os_thread_attr attr = {.name = name, .rank = rank};
	struct os_thread *t;

	ck_assert_int_eq(world_thread_start(proc, &t, &attr, fn, NULL), 0);
	return t;
}

static void weather_make(void)
{
	const uint64_t began = os_now_ns();

	for (uint32_t i = 0; i < weather.n; i++) {
		const uint64_t at = began + weather.change[i].at_ns, now = os_now_ns();

		if (at > now)
			os_sleep_ns(at - now);
		if (weather.change[i].move)
			world_port_move(world_port(weather.change[i].port));
		world_port_set(world_port(weather.change[i].port), weather.change[i].up);
	}
}

static void pair_main(void *arg)
{
	struct os_proc *a, *b;
	struct os_thread *task[2];

	(void)arg;
	ck_assert_int_eq(world_proc_create(0, "sender", &a), 0);
	ck_assert_int_eq(world_proc_create(1, "receiver", &b), 0);
	if (pair.receiver_env)
		ck_assert_int_eq(world_proc_setenv(b, pair.receiver_env, "0"), 0);
	task[0] = spawn(a, "sender", 0, send_main);
	task[1] = spawn(b, "receiver", 1, recv_main);
	if (weather.n)
		await_word(&pair.connected, "the ends to be connected");
	weather_make();
	for (int i = 0; i < 2; i++)
		os_thread_join(task[i]);
	world_proc_exit(a);
	world_proc_exit(b);
}

static void pair_run(const struct pair *test, uint64_t seed)
{
	struct sim_config config = {.engine = SIM_ENGINE_SIM, .seed = seed};
	struct world_config world = {.hosts = 2, .machine = "a100-2port", .env = test->env};
	enum sim_verdict verdict;

	pair = *test;
	ck_assert_int_eq(sim_start(&config), 0);
	ck_assert_int_eq(world_create(&world), 0);
	verdict = sim_run(pair_main, NULL);
	ck_assert_int_eq(verdict, SIM_PASS);
	ck_assert_uint_eq(world_destroy(), 0);
	sim_stop();
}

static void pair_wants(uint64_t seed, ncclResult_t want)
{
	ck_assert_msg(
		pair.got[0] == want && pair.got[1] == want,
		"seed %llu, %u changes, the first at %llu ns of port %u: sender %d, receiver %d, "
		"expected %d",
		(unsigned long long)seed, weather.n, (unsigned long long)weather.change[0].at_ns,
		weather.change[0].port, pair.got[0], pair.got[1], want);
}

/* ---- series --------------------------------------------------------------------------------- */

/* Receives of one message or several; queue pairs in rotation, or each message over all. */
static const struct {
	uint32_t together;
	const char *env[2];
} ways[] = {
	{0, {NULL}},
	{NET_MAX_RECVS, {NULL}},
	{4, {"NCCL_IB_QPS_PER_CONNECTION=2"}},
	{0, {"NCCL_IB_QPS_PER_CONNECTION=3", "NCCL_IB_SPLIT_DATA_ON_QPS=1"}},
};

static struct pair rails_pair(size_t way, uint32_t rails, bool recovery)
{
	struct pair test = {
		.messages = 64,
		.together = ways[way].together,
		.devices = {rails, rails},
		.env = {"NCCL_IB_RESILIENCY_PORT_FAILOVER=1", "NCCL_IB_TIMEOUT=10",
			"NCCL_IB_RETRY_CNT=2"},
	};
	size_t n = 3;

	for (size_t i = 0; i < ARRAY_LEN(ways[0].env) && ways[way].env[i]; i++)
		test.env[n++] = ways[way].env[i];
	if (recovery) {
		test.env[n++] = "NCCL_IB_RESILIENCY_PORT_RECOVERY=1";
		test.env[n++] = "NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY=1";
		test.env[n++] = "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL=5";
		test.env[n++] = "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT=40";
	}
	return test;
}

static void weather_add(uint64_t at_ns, uint32_t port, bool up)
{
	ck_assert_uint_lt(weather.n, CHANGES);
	weather.change[weather.n++] = (struct change){at_ns, port, up, false};
}

/* Returns the time of a transfer without changes. */
static uint64_t calm_ns(const struct pair *test, uint64_t seed)
{
	weather.n = 0;
	pair_run(test, seed);
	pair_wants(seed, ncclSuccess);
	if (test->devices[0] > 1)
		ck_assert_uint_eq(pair.used[0], (1u << test->devices[0]) - 1);
	return pair.took_ns[0];
}

/* Either end's port of a rail. */
static uint32_t port_of(uint32_t rail, int moment)
{
	return moment % 2 * PORTS + rail;
}

enum series { DOWN, DOWN_AT_START, FLAP, FLAPS, TWO_RAILS, SERIES };

/* The links' changes of a run: at moment k of n of a transfer that takes t. */
static void weather_draw(enum series series, uint32_t rails, int k, uint64_t t)
{
	const uint64_t at = t * (uint64_t)k / (uint64_t)moments;
	const uint32_t rail = (uint32_t)k % rails, port = port_of(rail, k / 2);

	weather.n = 0;
	switch (series) {
	case DOWN:
		weather_add(at, port, false);
		break;
	case DOWN_AT_START:
		weather_add(0, port, false);
		weather_add(at * 40, port, true);
		break;
	case FLAP:
		weather_add(at, port, false);
		weather_add(at + 60 * MS_NS, port, true);
		break;
	case FLAPS:
		for (uint64_t i = 0; i < 5; i++) {
			weather_add(at + i * 30 * MS_NS, port, false);
			weather_add(at + (i * 30 + 15) * MS_NS, port, true);
		}
		break;
	case TWO_RAILS:
		weather_add(at, port, false);
		weather_add(at + 3 * MS_NS, port_of((rail + 1) % rails, k), false);
		break;
	case SERIES:
	default:
		ck_abort();
	}
}

/* A transfer that ended before its last rail failed has no error. */
static bool ended_before(void)
{
	const uint64_t last = weather.change[weather.n - 1].at_ns;

	return !pair.got[0] && !pair.got[1] && pair.took_ns[0] <= last + MS_NS;
}

static void series_run(enum series series, size_t way, uint32_t rails)
{
	const struct pair test = rails_pair(way, rails, series != DOWN && series != TWO_RAILS);
	const bool left = rails > (series == TWO_RAILS ? 2u : 1u);

	for (int k = 0; k < moments; k += SAMPLE_THIN) {
		const uint64_t seed = (uint64_t)k + 1, t = calm_ns(&test, seed);

		weather_draw(series, rails, k, t);
		pair_run(&test, seed);
		if (left || !ended_before())
			pair_wants(seed, left ? ncclSuccess : ncclRemoteError);
		ck_assert_uint_lt(pair.took_ns[0], t + BOUND_NS);
		ck_assert_uint_lt(pair.took_ns[1], t + BOUND_NS);
	}
}

START_TEST(a_link_that_goes_down_moves_its_traffic)
{
	for (uint32_t rails = 2; rails <= PORTS; rails++)
		series_run(DOWN, (size_t)_i, rails);
}
END_TEST

START_TEST(a_link_may_be_down_from_the_start_and_come_up)
{
	for (uint32_t rails = 2; rails <= PORTS; rails++)
		series_run(DOWN_AT_START, (size_t)_i, rails);
}
END_TEST

START_TEST(links_flap_once_and_often)
{
	for (uint32_t rails = 2; rails <= PORTS; rails++) {
		series_run(FLAP, (size_t)_i, rails);
		series_run(FLAPS, (size_t)_i, rails);
	}
}
END_TEST

START_TEST(without_a_rail_both_ends_fail_within_a_bound)
{
	series_run(DOWN, (size_t)_i, 1);
	for (uint32_t rails = 2; rails <= PORTS; rails++)
		series_run(TWO_RAILS, (size_t)_i, rails);
}
END_TEST

/* The transfer lasts longer than the outage, and the rail carries data again at its end. */
START_TEST(a_rail_that_works_again_is_used_again)
{
	struct pair test = rails_pair((size_t)_i, 2, true);

	test.pause_ns = 4 * MS_NS;
	test.messages = 256;
	for (uint32_t port = 0; port < 2 * PORTS; port += PORTS + 1) {
		weather.n = 0;
		weather_add(2 * MS_NS, port, false);
		weather_add(120 * MS_NS, port, true);
		pair_run(&test, port + 1);
		pair_wants(port + 1, ncclSuccess);
		ck_assert_uint_eq(pair.again[0], 1u << port % PORTS);
		ck_assert_uint_eq(pair.again[1], 1u << port % PORTS);
		ck_assert_uint_eq(pair.used[0] & pair.used[1], 3);
	}
}
END_TEST

/* A port that comes up has another GID, at another index. An outage that the retries would survive
 * ends the rail, too. */
START_TEST(a_port_with_another_gid_is_used_again)
{
	static const uint64_t outage_ns[] = {2 * MS_NS, 120 * MS_NS};
	struct pair test = rails_pair(0, 2, true);

	test.pause_ns = 4 * MS_NS;
	test.messages = 256;
	for (uint32_t port = 0; port < 2 * PORTS; port += PORTS + 1) {
		weather.n = 0;
		weather_add(2 * MS_NS, port, false);
		weather_add(2 * MS_NS + outage_ns[_i], port, true);
		weather.change[0].move = true;
		pair_run(&test, port + 1);
		pair_wants(port + 1, ncclSuccess);
		ck_assert_uint_eq(pair.again[0] & pair.again[1], 1u << port % PORTS);
	}
}
END_TEST

/* Without recovery it is not. */
START_TEST(a_rail_stays_unused_without_recovery)
{
	struct pair test = rails_pair(0, 2, false);

	test.pause_ns = 4 * MS_NS;
	weather.n = 0;
	weather_add(2 * MS_NS, 1, false);
	weather_add(40 * MS_NS, 1, true);
	pair_run(&test, 1);
	pair_wants(1, ncclSuccess);
	ck_assert_uint_eq(pair.used[0], 1);
	ck_assert_uint_eq(pair.used[1], 1);
}
END_TEST

/* The retries of the queue pairs repair a short outage: no rail fails. */
START_TEST(a_short_outage_is_no_failure)
{
	const struct pair test = rails_pair(0, 2, false);

	weather.n = 0;
	weather_add(10000, 1, false);
	weather_add(2 * MS_NS, 1, true);
	pair_run(&test, 1);
	pair_wants(1, ncclSuccess);
	ck_assert_uint_eq(pair.used[0], 3);
}
END_TEST

START_TEST(ends_that_disagree_about_failover_are_invalid_usage)
{
	struct pair test = rails_pair(0, 2, false);

	test.receiver_env = "NCCL_IB_RESILIENCY_PORT_FAILOVER";
	weather.n = 0;
	pair_run(&test, 1);
	ck_assert_int_eq(pair.got[0], ncclRemoteError);
	ck_assert_int_eq(pair.got[1], ncclInvalidUsage);
}
END_TEST

int main(int argc, char **argv)
{
	const int all = (int)ARRAY_LEN(ways);
	Suite *suite = suite_create("net_verbs_rails");
	TCase *t = tcase_create("weather");

	if (argc > 1)
		moments = atoi(argv[1]);
	tcase_set_timeout(t, moments > 6 ? 1200 : 120);
	tcase_add_loop_test(t, a_link_that_goes_down_moves_its_traffic, 0, all);
	tcase_add_loop_test(t, a_link_may_be_down_from_the_start_and_come_up, 0, all);
	tcase_add_loop_test(t, links_flap_once_and_often, 0, all);
	tcase_add_loop_test(t, without_a_rail_both_ends_fail_within_a_bound, 0, all);
	tcase_add_loop_test(t, a_rail_that_works_again_is_used_again, 0, all);
	tcase_add_loop_test(t, a_port_with_another_gid_is_used_again, 0, 2);
	tcase_add_test(t, a_rail_stays_unused_without_recovery);
	tcase_add_test(t, a_short_outage_is_no_failure);
	tcase_add_test(t, ends_that_disagree_about_failover_are_invalid_usage);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
