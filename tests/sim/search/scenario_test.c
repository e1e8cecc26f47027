/* SPDX-License-Identifier: BSD-3-Clause */
/* A scenario's text form: what is written is read back; what is wrong is refused at its place. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/lab/check/collective.h"
#include "sim/lab/check/found.h"
#include "sim/lab/search/dimension.h"
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

static const struct dimension *dimension_of(const char *key)
{
	for (uint32_t i = 0; i < dimensions_n; i++)
		if (dimensions[i].key && !strcmp(dimensions[i].key, key))
			return &dimensions[i];
	ck_abort_msg("no dimension %s", key);
	return NULL;
}

/* Plugins are written by their names, and cut to none, then to one less. */
START_TEST(plugins_are_read_back_and_cut)
{
	static const char text[] = "doppel-config 1\nplugins tuner,net,collnet\n"
				   "plugin-fails net-listen\n";
	static const uint32_t cuts[] = {0, LAB_PLUGIN_NET | LAB_PLUGIN_COLLNET,
					LAB_PLUGIN_TUNER | LAB_PLUGIN_COLLNET,
					LAB_PLUGIN_TUNER | LAB_PLUGIN_NET};
	const struct dimension *d = dimension_of("plugins");
	char *again;

	ck_assert_int_eq(scenario_parse(&one, text, strlen(text), "text"), 0);
	ck_assert_uint_eq(one.lab.plugins, LAB_PLUGIN_TUNER | LAB_PLUGIN_NET | LAB_PLUGIN_COLLNET);
	ck_assert_str_eq(lab_plugin_fails[one.lab.plugin_fails], "net-listen");
	ck_assert_int_eq(scenario_expectation(&one), SCENARIO_EXPECT_SUCCESS_OR_ERROR);
	again = scenario_text(&one);
	ck_assert_ptr_nonnull(strstr(again, "\nplugins tuner,net,collnet\n"));
	free(again);
	for (uint32_t k = 0; k < 4; k++) {
		ck_assert(dimension_cut(d, &one, k, &other));
		ck_assert_uint_eq(other.lab.plugins, cuts[k]);
	}
	ck_assert(!dimension_cut(d, &one, 4, &other));
	ck_assert(dimension_cut(dimension_of("plugin-fails"), &one, 0, &other));
	ck_assert_uint_eq(other.lab.plugin_fails, 0);
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
	tcase_add_test(t, plugins_are_read_back_and_cut);
	tcase_add_test(t, a_later_value_takes_the_place_of_the_earlier_one);
	tcase_add_test(t, hosts_have_the_machines_of_a_list_in_turn);
	tcase_add_loop_test(t, bad_files_are_refused_with_line_and_column, 0,
			    sizeof bad / sizeof bad[0]);
	tcase_add_test(t, another_build_is_named);
	tcase_add_loop_test(t, a_failure_that_is_recorded_is_read_back_whole, 0, FAILURES);
	tcase_add_test(t, another_size_of_world_fails_in_the_same_way);
	tcase_add_test(t, a_message_of_several_lines_is_recorded_as_one);
	suite_add_tcase(s, t);
	return suite_run(s);
}
