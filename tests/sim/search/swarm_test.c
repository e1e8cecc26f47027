/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draws of the default sweep (sim/lab/search/swarm.c): a seed means one scenario, and each feature
 * and some combinations of settings come now and then.
 */
#include <check.h>
#include <string.h>

#include "sim/lab/check/collective.h"
#include "sim/lab/search/scenario.h"
#include "tests/suite.h"

static struct scenario one, other;

static void drop_env(struct scenario *s, const char *start)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->env_count; i++)
		if (strncmp(s->env[i], start, strlen(start)) != 0)
			memmove(s->env[n++], s->env[i], sizeof s->env[i]);
	s->env_count = n;
}

#define SWARM_SEEDS 2000

/* A share of the seeds: those for which `has` holds, expected from `least` to `most` of
 * SWARM_SEEDS. */
struct share {
	const char *what;
	bool has;
	uint32_t least, most;
};

#define SHARES 31
static void shares_of(const struct scenario *s, uint32_t ranks, bool contradicts,
		      struct share share[SHARES])
{
	const struct lab_config *c = &s->lab;
	const bool clean = !s->plan[0];
	const struct share of[SHARES] = {
		{"with faults", !clean, 450, 1450},
		{"with faults that every call survives",
		 !clean && s->expect == SCENARIO_EXPECT_SUCCESS, 80, 700},
		{"with groups of different calls", c->mixed, 200, 1000},
		{"with any floats", c->any_numbers, 500, 1500},
		{"with processes whose environments differ", s->env_odd[0], 100, 600},
		{"with settings that contradict each other", contradicts, 40, 300},
		{"with refused calls", c->refused, 300, 1200},
		{"with an init that fails", c->init_fails, 80, 700},
		{"with queries", c->queries, 350, 700},
		{"with options of calls", c->options, 150, 600},
		{"with several unique ids", c->roots > 1, 60, 250},
		{"with requests to RAS", c->ras, 40, 200},
		{"with scenes", c->scenes, 40, 200},
		{"with plugins", c->plugins, 60, 200},
		{"with a network of a plugin", c->plugins & LAB_PLUGIN_NET, 15, 120},
		{"with a call of a plugin that fails", c->plugin_fails, 4, 60},
		{"that check the CUDA state of tasks", c->cuda_state, 100, 500},
		{"with processes without HCAs", strstr(s->env_odd, "NCCL_IB_DISABLE=1"), 10, 150},
		{"with pauses", c->pauses, 300, 1200},
		{"with ends other than an abort", c->leaves != LAB_LEAVES_ABORT, 150, 1000},
		{"with warps of 32 fibers", c->warp_width == 32, 10, 400},
		{"with one task for a process", c->drive == LAB_DRIVE_PROCESS, 200, 500},
		{"with communicators that come and go", c->transient, 60, 500},
		{"with hosts of different sizes", c->host_gpus_n, 60, 600},
		{"with a mapping of ranks", c->map != LAB_MAP_SLOT, 500, 1500},
		{"of one rank", ranks == 1, 40, 160},
		{"with several communicators", c->comms > 1, 200, 700},
		{"with CUDA graphs", c->graph_launches, 50, 200},
		{"with windows", c->local_register == LAB_REGISTER_WINDOW, 60, 260},
		{"that recover", c->recover, 60, 400},
		{"with a rank that is quiet", c->quiet, 20, 300},
	};

	memcpy(share, of, sizeof of);
}

static bool has_env(const struct scenario *s, const char *start)
{
	for (uint32_t i = 0; i < s->env_count; i++)
		if (strncmp(s->env[i], start, strlen(start)) == 0)
			return true;
	return false;
}

static void check_world(const struct scenario *s, uint32_t ranks)
{
	const struct lab_config *c = &s->lab;

	ck_assert(ranks >= 1 && ranks <= 16);
	ck_assert_uint_le(c->hosts, 16);
	ck_assert_uint_le(c->bytes_max, (2 << 20) + 8192);
	ck_assert(c->root >= LAB_ALL_ROOTS && c->root < (int32_t)ranks);
	/* faults heal in every run that has any */
	ck_assert((s->plan[0] != 0) == (c->sim.heal_ns != 0));
	ck_assert(s->plan[0] || (!c->recover && !c->quiet && c->leaves == LAB_LEAVES_ABORT));
	/* all blocks of messages have room, and so have kernels that may run at the same time */
	ck_assert(!c->gpu_sms || !c->collective->connects);
	ck_assert(!c->gpu_sms || !c->before || !c->before->connects);
	ck_assert(c->comms <= 1 || c->streams <= 1 || !c->gpu_sms);
	ck_assert(!c->graph_launches || !s->plan[0] || s->expect == SCENARIO_EXPECT_SUCCESS);
	/* a late packet is requested again, and lines of LL are cleaned in small slots */
	ck_assert(!has_env(s, "DOPPEL_HCA_ROUTING=adaptive") || !has_env(s, "NCCL_IB_RETRY_CNT=0"));
	ck_assert(!has_env(s, "DOPPEL_FIRST_STEP") || !c->collective->connects ||
		  has_env(s, "NCCL_LL_BUFFSIZE"));
	/* captured works are in a kernel's arguments */
	ck_assert(!c->graph_launches || !has_env(s, "NCCL_WORK_ARGS_BYTES=0"));
	/* a rank that connects would wait in CUDA for the rank that has failed */
	ck_assert(!c->plugin_fails || !c->collective->connects);
	ck_assert(!c->plugin_fails || !c->before || !c->before->connects);
}

/* Takes from `s`, drawn with faults, what belongs to these; `clean` is the same seed without. */
static void drop_faults(struct scenario *s, struct scenario *clean)
{
	struct lab_config *c = &s->lab;
	const struct lab_config *of = &clean->lab;

	drop_env(s, "NCCL_RAS_ENABLE=");
	drop_env(clean, "NCCL_RAS_ENABLE=");
	if (s->plan[0]) { /* what makes communicators beside the work goes without faults */
		ck_assert(!c->idle && !c->init_fails && c->late <= 5);
		c->transient = of->transient;
		c->graph_launches = of->graph_launches;
		c->children = of->children;
		c->leaves = of->leaves;
		c->retries = of->retries;
		c->scenes = of->scenes;
		c->plugins = of->plugins;
		c->cuda_state = of->cuda_state;
		c->init_fails = of->init_fails;
		c->late = of->late;
		c->nonblocking = of->nonblocking;
		c->finalize = of->finalize;
		c->idle = of->idle;
		c->polls = of->polls;
		c->comms = of->comms;
		c->options = of->options;
		c->roots = of->roots;
		c->sim.races = of->sim.races; /* windows with faults are not compared */
		s->expect = clean->expect;
		drop_env(clean, "NCCL_COMM_BLOCKING=");
		drop_env(s, "NCCL_COMM_ID=");
		drop_env(clean, "NCCL_COMM_ID=");
	}
	c->recover = false;
	c->sim.heal_ns = c->quiet = s->plan[0] = 0;
	/* HCAs have other settings where faults are */
	drop_env(s, "DOPPEL_HCA_PERSONALITY=");
	drop_env(clean, "DOPPEL_HCA_PERSONALITY=");
	drop_env(s, "NCCL_IB_RETRY_CNT=");
	drop_env(s, "NCCL_IB_TIMEOUT=");
}

START_TEST(a_swarm_seed_means_one_scenario_with_1_to_16_ranks)
{
	for (uint64_t seed = 0; seed < SWARM_SEEDS; seed++) {
		uint32_t ranks;

		scenario_swarm(&one, seed, SCENARIO_FAULTS_SOME);
		scenario_swarm(&other, seed, SCENARIO_FAULTS_SOME);
		ck_assert_uint_eq(scenario_digest(&one), scenario_digest(&other));
		ck_assert_int_eq(scenario_ranks(&one, &ranks), 0);
		check_world(&one, ranks);
	}
}
END_TEST

START_TEST(a_swarm_draws_every_feature_now_and_then)
{
	uint32_t of[LAB_COLLECTIVES_MAX] = {0}, n[SHARES] = {0}, ranks;
	struct share share[SHARES];

	for (uint64_t seed = 0; seed < SWARM_SEEDS; seed++) {
		scenario_swarm(&other, seed, SCENARIO_FAULTS_NONE);
		scenario_swarm(&one, seed, SCENARIO_FAULTS_SOME);
		ck_assert_int_eq(scenario_ranks(&one, &ranks), 0);
		shares_of(&one, ranks, other.expect == SCENARIO_EXPECT_REFUSED, share);
		of[one.lab.collective - lab_collectives]++;
		for (uint32_t i = 0; i < SHARES; i++)
			n[i] += share[i].has;
	}
	for (uint32_t i = 0; i < SHARES; i++)
		ck_assert_msg(n[i] > share[i].least && n[i] < share[i].most,
			      "%u of %u seeds %s, expected %u to %u", n[i], SWARM_SEEDS,
			      share[i].what, share[i].least, share[i].most);
	for (uint32_t i = 1; i < lab_collectives_n; i++) {
		/* programs of messages have fewer seeds, and some none */
		uint32_t least = i < LAB_COLLECTIVES_OF_NCCL ? 1000 / lab_collectives_n / 2 : 20;

		ck_assert((of[i] > least) == lab_collective_is_plain(&lab_collectives[i]));
		ck_assert_uint_lt(of[i], of[0]);
	}
}
END_TEST

static bool takes_network(const struct scenario *s)
{
	return s->lab.plugins & (LAB_PLUGIN_NET | LAB_PLUGIN_COLLNET) || s->lab.plugin_fails;
}

START_TEST(a_draw_for_the_faults_leaves_the_rest_as_it_is)
{
	for (uint64_t seed = 0; seed < SWARM_SEEDS; seed++) {
		scenario_swarm(&one, seed, SCENARIO_FAULTS_SOME);
		scenario_swarm(&other, seed, SCENARIO_FAULTS_NONE);
		/* settings contradict each other without faults alone */
		if (one.plan[0] && other.expect == SCENARIO_EXPECT_REFUSED)
			continue;
		/* networks of plugins and families, with their variables and failures, too */
		if (one.plan[0] && (takes_network(&other) || other.lab.config_sockets))
			continue;
		if (has_env(&one, "NCCL_IB_RESILIENCY_PORT_FAILOVER=")) {
			one.plan[0] = '\0';
			one.expect = other.expect;
			one.lab.sim.heal_ns = 0;
		} else {
			drop_faults(&one, &other);
		}
		ck_assert_uint_eq(scenario_digest(&one), scenario_digest(&other));
	}
}
END_TEST

/* A host has no more ranks than its machine has GPUs. */
START_TEST(a_swarm_draws_mixed_hosts_that_have_their_gpus)
{
	char name[LAB_MACHINE_BYTES];
	uint32_t mixed = 0;

	for (uint64_t seed = 0; seed < 2000; seed++) {
		scenario_swarm(&one, seed, SCENARIO_FAULTS_SOME);
		if (lab_machines_count(one.machine) == 1)
			continue;
		mixed++;
		ck_assert_uint_gt(one.lab.hosts, 1);
		for (uint32_t h = 0; h < one.lab.hosts; h++) {
			lab_machine_of(one.machine, h, name);
			ck_assert_uint_le(lab_host_ranks(&one.lab, h, NULL),
					  strcmp(name, "pcie-4gpu") == 0 ? 4 : 8);
		}
	}
	ck_assert_msg(mixed > 100 && mixed < 600, "%u of 2000 seeds have mixed hosts", mixed);
}
END_TEST

/* Faults of rails. Every call survives them if the other rails of the merged NIC are left. */
START_TEST(a_swarm_draws_rails_that_fail_over)
{
	uint32_t rails = 0, recover = 0, twice = 0, all = 0, queues = 0;

	for (uint64_t seed = 0; seed < SWARM_SEEDS; seed++) {
		scenario_swarm(&one, seed, SCENARIO_FAULTS_SOME);
		/* ranks that differ in it are a contradiction */
		if (!has_env(&one, "NCCL_IB_RESILIENCY_PORT_FAILOVER=1") ||
		    one.expect == SCENARIO_EXPECT_REFUSED)
			continue;
		rails++;
		recover += has_env(&one, "NCCL_IB_RESILIENCY_PORT_RECOVERY=1");
		ck_assert_str_eq(one.machine, "a100-2port");
		ck_assert_uint_ge(one.lab.hosts, 2);
		all += one.expect == SCENARIO_EXPECT_SUCCESS_OR_ERROR;
		ck_assert(one.expect == SCENARIO_EXPECT_SUCCESS ||
			  (one.expect == SCENARIO_EXPECT_SUCCESS_OR_ERROR &&
			   !strstr(one.plan, "port=")));
		queues += strstr(one.plan, "verbs.qp rank=") == one.plan &&
			  strchr(one.plan, '\n') == one.plan + strlen(one.plan) - 1;
		twice += strchr(one.plan, '\n') != one.plan + strlen(one.plan) - 1;
		ck_assert(!one.lab.transient && !one.lab.recover && !one.lab.mixed);
	}
	ck_assert_msg(rails > 60 && rails < 160, "%u of %u seeds have rails", rails, SWARM_SEEDS);
	ck_assert_msg(twice > 1 && all > 1 && queues > 1,
		      "%u seeds fail twice, %u have no rail, %u lose a queue pair", twice, all,
		      queues);
	ck_assert_msg(recover > 2 && recover < rails, "%u of %u recover", recover, rails);
}
END_TEST

/* Sockets that move messages in part, to the end where they are the network; PAT of more hosts than
 * four with few warps; rails that recover, fail and recover. */
START_TEST(a_swarm_draws_full_streams_many_levels_and_second_failures)
{
	uint32_t network = 0, others = 0, levels = 0, again = 0;

	for (uint64_t seed = 1; seed <= SWARM_SEEDS; seed++) {
		scenario_swarm(&one, seed, SCENARIO_FAULTS_SOME);
		bool parts = strstr(one.plan, "us again\nos.socket") != NULL;
		bool pat = has_env(&one, "NCCL_ALGO=Ring;allgather:PAT;reducescatter:PAT");
		const char *third = strchr(one.plan, '\n');

		ck_assert(!parts || one.expect == SCENARIO_EXPECT_SUCCESS);
		network += parts && strstr(one.plan, "channel=0 prob=");
		others += parts && !strstr(one.plan, "channel=0");
		levels += pat && one.lab.hosts > 4 && has_env(&one, "NCCL_BUFFSIZE=8192") &&
			  one.lab.bytes_max >= one.lab.hosts * 8192ull &&
			  (has_env(&one, "NCCL_NTHREADS=32") || has_env(&one, "NCCL_NTHREADS=64"));
		third = third ? strchr(third + 1, '\n') : NULL;
		again += has_env(&one, "NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX=1") &&
			 third && strchr(third + 1, '\n');
	}
	ck_assert_msg(network >= 10 && others >= 20 && levels >= 2 && again >= 5, "%u %u %u %u",
		      network, others, levels, again);
}
END_TEST

/* Combinations of settings that some bugs need: when each setting was drawn independently, at most
 * a few of 2,000 seeds had one of them. */
START_TEST(a_swarm_draws_settings_that_fit_each_other)
{
	uint32_t direct = 0, turns = 0, parts = 0, lanes = 0, quiet = 0, deaths = 0, lines = 0;
	uint32_t to_all = 0, requests = 0, check_ins = 0;

	for (uint64_t seed = 1; seed <= 2000; seed++) {
		scenario_swarm(&one, seed, SCENARIO_FAULTS_SOME);
		const struct lab_config *c = &one.lab;
		bool full = c->bytes_min >= 16 << 10, network = has_env(&one, "NCCL_NET=Socket");
		bool tree = full && has_env(&one, "NCCL_ALGO=Ring;allreduce:Tree");

		direct += full && has_env(&one, "NCCL_ALGO=OneShot") &&
			  has_env(&one, "NCCL_LL_BUFFSIZE=") && c->hosts == 1;
		turns += tree && has_env(&one, "NCCL_NTHREADS=32") &&
			 has_env(&one, "NCCL_BUFFSIZE=");
		lines += tree && c->sim.races && c->in_place && has_env(&one, "NCCL_PROTO=LL");
		parts += full && c->collective->connects && c->iterations == 3 &&
			 has_env(&one, "NCCL_NCHANNELS_PER_NET_PEER=") &&
			 has_env(&one, "NCCL_BUFFSIZE=");
		lanes += c->bytes_min >= 256 << 10 && network &&
			 has_env(&one, "NCCL_NSOCKS_PERTHREAD=");
		quiet += c->quiet && network;
		deaths += strstr(one.plan, " kill") && has_env(&one, "NCCL_P2P_DISABLE=1");
		to_all += c->collective->connects && c->hosts == 1 && c->gpus >= 5;
		requests += c->collective->connects && c->hosts == 2 && c->gpus >= 4 &&
			    has_env(&one, "DOPPEL_PXN_CONNECTIONS=");
		check_ins += strstr(one.plan, "us again") && !strstr(one.plan, "partial");
	}
	ck_assert_msg(direct >= 15 && turns >= 5 && lines >= 2 && parts >= 10 && lanes >= 20 &&
			      quiet >= 4 && deaths >= 15 && to_all >= 20 && requests >= 10 &&
			      check_ins >= 10,
		      "%u %u %u %u %u %u %u %u %u %u", direct, turns, lines, parts, lanes, quiet,
		      deaths, to_all, requests, check_ins);
}
END_TEST

/* Messages between 14 ranks, in processes of seven and in three communicators, have no descriptors
 * for 30 sockets a connection. Smaller worlds do. */
START_TEST(a_swarm_process_has_descriptors_for_its_sockets)
{
	uint32_t many = 0;

	scenario_swarm(&one, 0x1600104d, SCENARIO_FAULTS_SOME);
	ck_assert(one.lab.collective->connects && has_env(&one, "NCCL_NET=Socket"));
	ck_assert_uint_eq(lab_ranks(&one.lab, NULL), 14);
	ck_assert(has_env(&one, "NCCL_NSOCKS_PERTHREAD=3") &&
		  !has_env(&one, "NCCL_NSOCKS_PERTHREAD=30"));
	for (uint64_t seed = 1; seed <= 2000; seed++) {
		scenario_swarm(&one, seed, SCENARIO_FAULTS_SOME);
		many += has_env(&one, "NCCL_NSOCKS_PERTHREAD=30");
	}
	ck_assert_msg(many >= 4, "%u", many);
}
END_TEST

START_TEST(a_swarm_seed_draws_its_root_from_its_world)
{
	uint32_t ranks, rooted = 0, all = 0;

	for (uint64_t seed = 0; seed < 20000; seed++) {
		scenario_swarm(&one, seed, SCENARIO_FAULTS_NONE);
		ck_assert_int_eq(scenario_ranks(&one, &ranks), 0);
		ck_assert_msg(one.lab.root >= LAB_ALL_ROOTS && one.lab.root < (int32_t)ranks,
			      "seed %llu: root %d of %u ranks", (unsigned long long)seed,
			      one.lab.root, ranks);
		rooted += one.lab.root > 0;
		all += one.lab.root == LAB_ALL_ROOTS;
	}
	ck_assert_uint_gt(rooted, 0);
	ck_assert_uint_gt(all, 0);
}
END_TEST

/* All kinds of side worlds come up. All are small, but for those with rails that fail. */
START_TEST(a_side_world_is_small_and_mostly_has_one_call_that_fails)
{
	uint32_t calls = 0, rare = 0, refused = 0, groups = 0, families = 0, lives = 0, ranks;
	uint32_t scenes = 0, timed = 0, stalls = 0, rails = 0;

	for (uint64_t seed = 0; seed < SWARM_SEEDS; seed++) {
		uint64_t of = scenario_side_seed(seed, 1);

		ck_assert_uint_eq(scenario_side_seed(seed, 0), seed);
		ck_assert_uint_ne(of, seed);
		scenario_swarm(&one, of, SCENARIO_FAULTS_CALL);
		ck_assert_int_eq(scenario_ranks(&one, &ranks), 0);
		check_world(&one, ranks);
		if (has_env(&one, "NCCL_IB_RESILIENCY_PORT_FAILOVER=")) {
			rails++;
			continue;
		}
		ck_assert_uint_le(ranks, 4);
		ck_assert_uint_le(one.lab.bytes_max, 16 << 10);
		calls += strstr(one.plan, ".any rank=") && strstr(one.plan, " caller=");
		rare += one.plan[0] && !strstr(one.plan, ".any ");
		lives += one.lab.transient && !one.lab.children && one.lab.queries;
		scenes += one.lab.scenes > 1;
		timed += one.lab.scenes > 1 && one.lab.uncompared &&
			 has_env(&one, "DOPPEL_TIMEOUT_MS=");
		stalls += strstr(one.plan, " starve by=30s") && !one.lab.scenes &&
			  has_env(&one, "DOPPEL_TIMEOUT_MS=");
		refused += one.expect == SCENARIO_EXPECT_REFUSED;
		groups += one.lab.mixed > 1 && one.lab.drive == LAB_DRIVE_PROCESS;
		families += one.lab.transient && one.lab.children &&
			    one.lab.drive == LAB_DRIVE_RANK && !one.plan[0];
	}
	ck_assert_msg(calls > SWARM_SEEDS / 4 && rare > SWARM_SEEDS / 20 &&
			      refused > SWARM_SEEDS / 40 && groups > SWARM_SEEDS / 20 &&
			      families > SWARM_SEEDS / 16 && lives > SWARM_SEEDS / 40 &&
			      scenes > SWARM_SEEDS / 8 && timed > SWARM_SEEDS / 50 &&
			      stalls > SWARM_SEEDS / 200 && rails > SWARM_SEEDS / 16,
		      "of %u side worlds %u have a call that fails, %u a rare one, %u are "
		      "refused, %u have groups, %u have families, %u odd ends, %u scenes, %u with "
		      "deadlines, %u have a rank that stalls, %u rails that fail",
		      SWARM_SEEDS, calls, rare, refused, groups, families, lives, scenes, timed,
		      stalls, rails);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("swarm");
	TCase *t = tcase_create("swarm");

	tcase_add_test(t, a_swarm_seed_means_one_scenario_with_1_to_16_ranks);
	tcase_add_test(t, a_swarm_draws_every_feature_now_and_then);
	tcase_add_test(t, a_draw_for_the_faults_leaves_the_rest_as_it_is);
	tcase_add_test(t, a_swarm_draws_mixed_hosts_that_have_their_gpus);
	tcase_add_test(t, a_swarm_draws_rails_that_fail_over);
	tcase_add_test(t, a_swarm_draws_full_streams_many_levels_and_second_failures);
	tcase_add_test(t, a_swarm_draws_settings_that_fit_each_other);
	tcase_add_test(t, a_swarm_process_has_descriptors_for_its_sockets);
	tcase_add_test(t, a_swarm_seed_draws_its_root_from_its_world);
	tcase_add_test(t, a_side_world_is_small_and_mostly_has_one_call_that_fails);
	suite_add_tcase(s, t);
	return suite_run(s);
}
