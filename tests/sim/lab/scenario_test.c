/* SPDX-License-Identifier: BSD-3-Clause */
/* A scenario's text form: what is written is read back; what is wrong is refused at its place. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/lab/check/collective.h"
#include "sim/lab/search/found.h"
#include "sim/lab/search/scenario.h"
#include "tests/suite.h"

static struct scenario one, other;

static char *scenario_text(const struct scenario *s)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	scenario_write(s, f);
	fclose(f);
	return text;
}

START_TEST(what_is_written_is_read_back)
{
	for (uint64_t seed = 0; seed < 500; seed++) {
		scenario_swarm(&one, seed, SCENARIO_FAULTS_SOME);
		if (!one.lab.sim.fault_random)
			snprintf(one.plan, sizeof one.plan, "os.task nth=%d kill\n# x\n", _i + 1);
		one.canary_step = seed;
		char *text = scenario_text(&one);
		ck_assert_int_eq(scenario_parse(&other, text, strlen(text), "text"), 0);
		char *again = scenario_text(&other);
		ck_assert_str_eq(text, again);
		ck_assert_str_eq(one.plan, other.plan);
		ck_assert_uint_eq(scenario_digest(&one), scenario_digest(&other));
		free(text);
		free(again);
	}
}
END_TEST

/* Files that were written before there was a second collective. */
START_TEST(a_file_without_a_collective_is_about_all_reduce)
{
	static const char text[] = "doppel-config 1\nhosts 2\ngpus 1\n";

	ck_assert_int_eq(scenario_parse(&one, text, sizeof text - 1, "f"), 0);
	ck_assert_str_eq(one.lab.collective->name, "all_reduce");
	ck_assert_int_eq(one.lab.root, 0);
	char *again = scenario_text(&one);
	ck_assert_ptr_null(strstr(again, "collective"));
	free(again);
}
END_TEST

START_TEST(every_collective_is_read_back)
{
	for (uint32_t i = 0; i < lab_collectives_n; i++)
		for (int32_t root = LAB_ALL_ROOTS; root < 2; root++) {
			scenario_default(&one);
			one.lab.collective = &lab_collectives[i];
			if (lab_collective_has_root(one.lab.collective))
				one.lab.root = root;
			char *text = scenario_text(&one);
			ck_assert_int_eq(scenario_parse(&other, text, strlen(text), "text"), 0);
			ck_assert_ptr_eq(one.lab.collective, other.lab.collective);
			ck_assert_int_eq(one.lab.root, other.lab.root);
			free(text);
		}
}
END_TEST

START_TEST(a_later_value_takes_the_place_of_the_earlier_one)
{
	scenario_default(&one);
	ck_assert_int_eq(scenario_set_env(&one, "A=1"), 0);
	ck_assert_int_eq(scenario_set_env(&one, "AB=2"), 0);
	for (int i = 0; i < 2 * SCENARIO_MAX_ENV; i++)
		ck_assert_int_eq(scenario_set_env(&one, "A=3"), 0);
	ck_assert_uint_eq(one.env_count, 2);
	ck_assert_str_eq(one.env[0], "A=3");
	ck_assert_str_eq(one.env[1], "AB=2");
	ck_assert_int_eq(scenario_set_env(&one, "A"), EINVAL);
	ck_assert_int_eq(scenario_set_env(&one, "=3"), EINVAL);
	ck_assert_uint_eq(one.env_count, 2);
}
END_TEST

static void drop_last_env(struct scenario *s, const char *start)
{
	if (s->env_count && strncmp(s->env[s->env_count - 1], start, strlen(start)) == 0)
		s->env_count--;
}

#define SWARM_SEEDS 2000

/* A share of the seeds: those for which `has` holds, expected from `least` to `most` of
 * SWARM_SEEDS. */
struct share {
	const char *what;
	bool has;
	uint32_t least, most;
};

#define SHARES 19
static void shares_of(const struct scenario *s, uint32_t ranks, bool contradicts,
		      struct share share[SHARES])
{
	const struct lab_config *c = &s->lab;
	const bool clean = !s->plan[0];
	const struct share of[SHARES] = {
		{"with faults", !clean, 450, 1000},
		{"with faults that every call survives",
		 !clean && s->expect == SCENARIO_EXPECT_SUCCESS, 80, 400},
		{"with groups of different calls", c->mixed, 200, 1000},
		{"with any floats", c->any_numbers, 500, 1500},
		{"with processes whose environments differ", s->env_odd[0], 100, 600},
		{"with settings that contradict each other", contradicts, 40, 300},
		{"with refused calls", c->refused, 300, 1200},
		{"with an init that fails", c->init_fails, 80, 500},
		{"with pauses", c->pauses, 300, 1200},
		{"with ends other than an abort", c->leaves != LAB_LEAVES_ABORT, 150, 1000},
		{"with warps of 32 fibers", c->warp_width == 32, 10, 400},
		{"with one task for a process", c->drive == LAB_DRIVE_PROCESS, 200, 500},
		{"with communicators that come and go", c->transient, 100, 500},
		{"with hosts of different sizes", c->host_gpus_n, 80, 600},
		{"with a mapping of ranks", c->map != LAB_MAP_SLOT, 500, 1500},
		{"of one rank", ranks == 1, 40, 160},
		{"with several communicators", c->comms > 1, 200, 700},
		{"that recover", c->recover, 60, 400},
		{"with a rank that is quiet", c->quiet, 20, 300},
	};

	memcpy(share, of, sizeof of);
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
}

/* Takes from `s`, drawn with faults, what belongs to these; `clean` is the same seed without. */
static void drop_faults(struct scenario *s, struct scenario *clean)
{
	struct lab_config *c = &s->lab;
	const struct lab_config *of = &clean->lab;

	if (s->plan[0]) { /* what makes communicators beside the work goes without faults */
		ck_assert(!c->idle && !c->init_fails && c->late <= 5);
		c->transient = of->transient;
		c->leaves = of->leaves;
		c->init_fails = of->init_fails;
		c->late = of->late;
		c->nonblocking = of->nonblocking;
		c->finalize = of->finalize;
		c->idle = of->idle;
		c->polls = of->polls;
		c->comms = of->comms;
		s->expect = clean->expect;
		drop_last_env(s, "NCCL_COMM_ID=");
		drop_last_env(clean, "NCCL_COMM_ID=");
	}
	c->recover = false;
	c->sim.heal_ns = c->quiet = s->plan[0] = 0;
	/* HCAs have other settings where faults are */
	drop_last_env(s, "DOPPEL_HCA_PERSONALITY=");
	drop_last_env(clean, "DOPPEL_HCA_PERSONALITY=");
	drop_last_env(s, "NCCL_IB_RETRY_CNT=");
	drop_last_env(s, "NCCL_IB_TIMEOUT=");
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

START_TEST(a_draw_for_the_faults_leaves_the_rest_as_it_is)
{
	for (uint64_t seed = 0; seed < SWARM_SEEDS; seed++) {
		scenario_swarm(&one, seed, SCENARIO_FAULTS_SOME);
		scenario_swarm(&other, seed, SCENARIO_FAULTS_NONE);
		/* settings contradict each other without faults alone */
		if (one.plan[0] && other.expect == SCENARIO_EXPECT_REFUSED)
			continue;
		drop_faults(&one, &other);
		ck_assert_uint_eq(scenario_digest(&one), scenario_digest(&other));
	}
}
END_TEST

/* Everything that is wrong, and what the message must hold. */
static const struct {
	const char *text, *says;
} bad[] = {
	{"", "f:1:1: expected \"doppel-config 1\""},
	{"doppel-config 2\n", "f:1:15: expected version 1, got \"2\""},
	{"doppel-config 1\nhots 2\n", "f:2:1: unknown key \"hots\"; nearest: hosts"},
	{"doppel-config 1\nhosts 0\n", "f:2:7: hosts: expected a number from 1 to 4096"},
	{"doppel-config 1\nhosts\n", "f:2:6: hosts: expected a value"},
	{"doppel-config 1\nhosts 1\nhosts 2\n", "f:3:1: key \"hosts\" is given twice"},
	{"doppel-config 1\nseed 0x1ffffffffffffffff\n", "f:2:6: seed: expected a number"},
	{"doppel-config 1\ntypes float hlaf\n",
	 "f:2:13: types: unknown type \"hlaf\"; nearest: half"},
	{"doppel-config 1\ncollective allreduce\n",
	 "f:2:12: collective: unknown collective \"allreduce\"; nearest: all_reduce"},
	{"doppel-config 1\nroot one\n", "f:2:6: root: expected a number from 0 to"},
	{"doppel-config 1\nops summ\n", "f:2:5: ops: unknown operation \"summ\"; nearest: sum"},
	{"doppel-config 1\nstrategy unifrom\n", "f:2:10: strategy: unknown value \"unifrom\"; "
						"nearest: uniform"},
	{"doppel-config 1\nenv NCCL\n", "f:2:5: env: expected NAME=VALUE"},
	{"doppel-config 1\ndevices 0,1,0\n", "f:2:13: devices: GPU 0 appears twice"},
	{"doppel-config 1\nhost-gpus 4,x\n", "f:2:13: host-gpus: expected a number for each host"},
	{"doppel-config 1\nhosts 3\nhost-gpus 4,2\n", "host-gpus lists 2 hosts, hosts is 3"},
	{"doppel-config 1\nplace up\n", "f:2:7: place: expected in, out or both"},
	{"doppel-config 1\nwarp 16\n", "warp is 16; expected 0, 1 or 32"},
	{"doppel-config 1\nbytes-min 9\nbytes-max 8\n", "bytes-min 9 is larger than bytes-max 8"},
	{"doppel-config 1\nplan os.task kill\n", "f:2:6: plan: its lines follow, indented"},
	{"doppel-config 1\nfaults random\nplan\n\tos.task kill\n", "faults random, and a plan"},
};

/* Seed 0x11b9 drew a root, and then a smaller world with more operations. */
START_TEST(hosts_have_the_machines_of_a_list_in_turn)
{
	char name[LAB_MACHINE_BYTES];
	uint32_t ranks = 0;

	ck_assert_uint_eq(lab_machines_count("a"), 1);
	ck_assert_uint_eq(lab_machines_count("a,b/c.xml,d"), 3);
	ck_assert_str_eq(lab_machine_of("a", 5, name), "a");
	ck_assert_str_eq(lab_machine_of("a,b/c.xml,d", 1, name), "b/c.xml");
	ck_assert_str_eq(lab_machine_of("a,b/c.xml,d", 5, name), "d");
	scenario_default(&one);
	snprintf(one.machine, sizeof one.machine, "pcie-4gpu,workstation-2gpu");
	one.lab.hosts = 3;
	ck_assert_int_eq(scenario_ranks(&one, &ranks), 0);
	ck_assert_uint_eq(ranks, 4 + 2 + 4);
	ck_assert_int_eq(scenario_stamp(&one), 0);
	other = one;
	snprintf(other.machine, sizeof other.machine, "pcie-4gpu,a100-4nic");
	ck_assert_int_eq(scenario_stamp(&other), 0);
	ck_assert_str_ne(one.machine_digest, other.machine_digest);
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

static bool has_env(const struct scenario *s, const char *start)
{
	for (uint32_t i = 0; i < s->env_count; i++)
		if (strncmp(s->env[i], start, strlen(start)) == 0)
			return true;
	return false;
}

/* Combinations of settings that some bugs need: when each setting was drawn independently, at most
 * a few of 2,000 seeds had one of them. */
START_TEST(a_swarm_draws_settings_that_fit_each_other)
{
	uint32_t direct = 0, turns = 0, parts = 0, lanes = 0, quiet = 0, deaths = 0, lines = 0;

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
	}
	ck_assert_msg(direct >= 15 && turns >= 5 && lines >= 2 && parts >= 15 && lanes >= 20 &&
			      quiet >= 4 && deaths >= 15,
		      "%u %u %u %u %u %u %u", direct, turns, lines, parts, lanes, quiet, deaths);
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

START_TEST(bad_files_are_refused_with_line_and_column)
{
	char message[512] = "";
	int keep = dup(STDERR_FILENO);
	FILE *f = tmpfile();

	ck_assert(f && keep >= 0);
	fflush(stderr);
	dup2(fileno(f), STDERR_FILENO);
	int rc = scenario_parse(&one, bad[_i].text, strlen(bad[_i].text), "f");
	fflush(stderr);
	dup2(keep, STDERR_FILENO);
	rewind(f);
	ck_assert_ptr_nonnull(fgets(message, sizeof message, f));
	fclose(f);
	close(keep);
	ck_assert_int_eq(rc, EINVAL);
	ck_assert_msg(strstr(message, bad[_i].says), "message: %s wanted: %s", message,
		      bad[_i].says);
}
END_TEST

START_TEST(another_build_is_named)
{
	char text[4096] = "";

	scenario_default(&one);
	ck_assert_int_eq(scenario_stamp(&one), 0);
	FILE *f = fmemopen(text, sizeof text, "w");
	ck_assert_int_eq(scenario_print_differences(&one, f), 0);
	one.build[0] = one.build[0] == '0' ? '1' : '0';
	one.machine_digest[3] = 'x';
	ck_assert_int_eq(scenario_print_differences(&one, f), 2);
	fclose(f);
	ck_assert_ptr_nonnull(strstr(text, "build"));
	ck_assert_ptr_nonnull(strstr(text, "machine file"));
}
END_TEST

/* ---- how a run failed ----------------------------------------------------------------------- */

static const struct sim_failure failures[] = {
	{.kind = "crash", .verdict = SIM_CRASH, .message = "Aborted in task 3 \"rank1 main\""},
	{.kind = "stack", .verdict = SIM_CRASH, .message = "task 3 overflowed its stack"},
	{.kind = "correctness", .verdict = SIM_WRONG_RESULT, .message = "element 0 is 1"},
	{.kind = "data-race", .verdict = SIM_WRONG_RESULT, .message = "two writes # of 8 bytes"},
	{.kind = "work-request", .verdict = SIM_WRONG_RESULT, .message = "qp 0x101 ended twice"},
	{.kind = "canary", .verdict = SIM_WRONG_RESULT, .message = "a failure planted at step 7"},
	{.kind = "misuse", .verdict = SIM_MISUSE, .message = "cudaFree: freed, twice"},
	{.kind = "deadlock", .verdict = SIM_NO_PROGRESS, .message = "5 foreground tasks wait"},
	{.kind = "missed-wake", .verdict = SIM_NO_PROGRESS, .message = "a wait is true"},
	{.kind = "liveness", .verdict = SIM_NO_PROGRESS, .message = "rank 0: has not returned"},
	{.kind = "agreement", .verdict = SIM_NO_PROGRESS, .message = "rank 2 has no error"},
	{.kind = "time", .verdict = SIM_NO_PROGRESS, .message = "longer than 4 times"},
	{.kind = "hung", .verdict = SIM_NO_PROGRESS, .message = "not over after 30 s"},
	{.kind = "nondeterminism", .verdict = SIM_NOT_DETERMINISTIC, .message = "two runs"},
	{.kind = "leak", .verdict = SIM_LEAK, .message = "3 things are left"},
	{.kind = "error", .verdict = SIM_ERROR, .message = "rank 3: ncclAllReduce: remote error"},
	{.kind = "error", .verdict = SIM_ERROR, .message = "rank 3: ncclAllReduce: system error"},
	{.kind = "error-class", .verdict = SIM_ERROR, .message = "rank 0: invalid argument"},
	{.kind = "recovery", .verdict = SIM_ERROR, .message = "rank 0: no second communicator"},
	{.kind = "killed", .verdict = SIM_ERROR, .message = "rank 1 was killed in init"},
};
enum { FAILURES = sizeof failures / sizeof failures[0] };

static struct sim_failure read_back(const struct sim_failure *f)
{
	scenario_default(&one);
	one.found = *f;
	char *text = scenario_text(&one);
	ck_assert_int_eq(scenario_parse(&other, text, strlen(text), "text"), 0);
	free(text);
	return other.found;
}

START_TEST(a_failure_that_is_recorded_is_read_back_whole)
{
	struct sim_failure f = failures[_i], back;

	snprintf(f.task, sizeof f.task, "rank%d main", _i);
	f.rank = _i - 1;
	f.step = 100 + (uint64_t)_i;
	f.before = 99;
	f.vtime_ns = 1ull << 40;
	f.hash = ~0ull - (uint64_t)_i;
	back = read_back(&f);
	ck_assert_int_eq((int)back.verdict, (int)f.verdict);
	ck_assert_str_eq(back.kind, f.kind);
	ck_assert_str_eq(back.message, f.message);
	ck_assert_str_eq(back.task, f.task);
	ck_assert_int_eq(back.rank, f.rank);
	ck_assert(back.step == f.step && back.before == f.before && back.vtime_ns == f.vtime_ns &&
		  back.hash == f.hash);
	ck_assert_int_eq(found_compare(&f, &back), FOUND_SAME);
	back.hash--;
	back.step++;
	ck_assert_int_eq(found_compare(&f, &back),
			 strcmp(f.kind, "hung") ? FOUND_SAME_WAY : FOUND_SAME);
	ck_assert_int_eq(found_compare(&f, &(struct sim_failure){.rank = -1}), FOUND_OTHER);
	for (int i = 0; i < FAILURES; i++)
		if (i != _i)
			ck_assert_int_eq(found_compare(&f, &failures[i]), FOUND_OTHER);
}
END_TEST

START_TEST(another_size_of_world_fails_in_the_same_way)
{
	struct sim_failure a = {
		.kind = "error", .verdict = SIM_ERROR, .message = "rank 13: lost", .step = 9};
	struct sim_failure b = {.kind = "error", .verdict = SIM_ERROR, .message = "rank 0: lost"};
	struct sim_failure c = {.kind = "deadlock", .verdict = SIM_NO_PROGRESS};
	struct sim_failure d = {.kind = "livelock", .verdict = SIM_NO_PROGRESS};

	ck_assert_int_eq(found_compare(&a, &b), FOUND_SAME_WAY);
	ck_assert_int_eq(found_compare(&c, &d), FOUND_SAME_WAY);
}
END_TEST

static void fail_in_lines(void *arg)
{
	sim_fail_as(SIM_ERROR, "error", 0, "%s", (const char *)arg);
}

START_TEST(a_message_of_several_lines_is_recorded_as_one)
{
	struct sim_config c = {.seed = 1};

	ck_assert_int_eq(sim_start(&c), 0);
	ck_assert_int_eq((int)sim_run(fail_in_lines, (void *)"\n first\n\tsecond \n"), SIM_ERROR);
	struct sim_failure f = *sim_failure();
	ck_assert_str_eq(f.message, "first  second");
	struct sim_failure back = read_back(&f);
	ck_assert_str_eq(back.message, f.message);
	sim_stop();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("scenario");
	TCase *t = tcase_create("scenario");

	tcase_add_loop_test(t, what_is_written_is_read_back, 0, 2);
	tcase_add_test(t, a_file_without_a_collective_is_about_all_reduce);
	tcase_add_test(t, every_collective_is_read_back);
	tcase_add_test(t, a_later_value_takes_the_place_of_the_earlier_one);
	tcase_add_test(t, a_swarm_seed_means_one_scenario_with_1_to_16_ranks);
	tcase_add_test(t, a_swarm_draws_every_feature_now_and_then);
	tcase_add_test(t, a_draw_for_the_faults_leaves_the_rest_as_it_is);
	tcase_add_test(t, hosts_have_the_machines_of_a_list_in_turn);
	tcase_add_test(t, a_swarm_draws_mixed_hosts_that_have_their_gpus);
	tcase_add_test(t, a_swarm_draws_settings_that_fit_each_other);
	tcase_add_test(t, a_swarm_seed_draws_its_root_from_its_world);
	tcase_add_loop_test(t, bad_files_are_refused_with_line_and_column, 0,
			    sizeof bad / sizeof bad[0]);
	tcase_add_test(t, another_build_is_named);
	tcase_add_loop_test(t, a_failure_that_is_recorded_is_read_back_whole, 0, FAILURES);
	tcase_add_test(t, another_size_of_world_fails_in_the_same_way);
	tcase_add_test(t, a_message_of_several_lines_is_recorded_as_one);
	suite_add_tcase(s, t);
	return suite_run(s);
}
