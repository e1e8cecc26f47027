/* SPDX-License-Identifier: BSD-3-Clause */
/* Fault plans: their syntax, their error messages, and the moments at which they fire. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/engine/sim.h"
#include "tests/suite.h"

static char said[1 << 14];

/* Starts with the plan, and captures stderr. */
static int start_with(const char *plan)
{
	const struct sim_config c = {
		.strategy = SIM_FIFO, .fault_plan = plan, .fault_plan_name = "plan.txt"};
	int keep = dup(STDERR_FILENO);
	FILE *f = tmpfile();

	dup2(fileno(f), STDERR_FILENO);
	int rc = sim_start(&c);
	fflush(stderr);
	dup2(keep, STDERR_FILENO);
	close(keep);
	ssize_t n = pread(fileno(f), said, sizeof said - 1, 0);
	said[n > 0 ? n : 0] = 0;
	fclose(f);
	return rc;
}

static const struct {
	const char *plan, *said;
} bad_plans[] = {
	{"verbs.reg_rm fail",
	 "plan.txt:1:1: unknown fault site \"verbs.reg_rm\"; nearest: verbs.reg_mr"},
	{"# one\n\nos.alloc  fial", "plan.txt:3:11: os.alloc cannot \"fial\"; nearest: fail"},
	{"os.alloc rnak=1 fail", "plan.txt:1:10: unknown key \"rnak\"; nearest: rank"},
	{"os.alloc rank=one fail", "plan.txt:1:15: \"one\" is no number"},
	{"os.alloc rank=1", "plan.txt:1:16: os.alloc: has no action; expected: fail"},
	{"os.alloc rank=1 rank=2 fail", "plan.txt:1:17: key \"rank\" is given twice"},
	{"os.alloc nth=0 fail", "plan.txt:1:14: nth counts from 1"},
	{"os.alloc caller=0 fail", "plan.txt:1:17: caller counts from 1"},
	{"os.alloc prob=1 fail", "plan.txt:1:15: \"1\" is no probability; expected like 1/64"},
	{"os.alloc prob=3/2 fail", "plan.txt:1:15: \"3/2\" is no probability"},
	{"os.alloc after=5 fail", "plan.txt:1:16: \"5\" is no time; expected like 50us"},
	{"os.alloc after=5m fail", "is no time"},
	{"os.alloc after=99999999999999999999s fail", "is no time"},
	{"os.alloc fail errno=ENOMEN", "unknown errno \"ENOMEN\"; nearest: ENOMEM"},
	{"verbs.cqe error status=RETRY_EXC",
	 "unknown status \"RETRY_EXC\"; nearest: RETRY_EXC_ERR"},
	{"os.task kill now=1", "\"kill\" takes no parameter"},
	{"fabric.link down by=5us", "unknown parameter \"by=5us\" of down; expected: for="},
	{"verbs.any rank=1 drop", "plan.txt:1:18: verbs.any cannot \"drop\"; it can: fail"},
	{"verbs.any rank=1", "plan.txt:1:17: verbs.any: has no action; expected: fail"},
	{"os.alloc forever count=2 fail", "plan.txt:1:18: key \"count\" is given twice"},
	{"os.alloc count=2 forever fail", "plan.txt:1:18: forever and count= are both given"},
	{"os.alloc state=RTR fail", "plan.txt:1:10: os.alloc has no state"},
	{"cuda.malloc port=1 fail", "plan.txt:1:13: cuda.malloc has no port"},
	{"verbs.any peer_nic=mlx5_0 fail", "plan.txt:1:11: verbs.any has no peer_nic"},
	{"os.alloc after=collective fail",
	 "plan.txt:1:16: \"collective\" is no moment; expected like"},
	{"os.alloc until=collective:x+5us fail", "\"collective:x+5us\" is no moment"},
	{"os.alloc after=collective+5 fail", "plan.txt:1:27: \"5\" is no time"},
	{"verbs.modify_qp state=RTX fail",
	 "plan.txt:1:23: unknown state \"RTX\"; nearest: RTR, RTS"},
	{"heal", "plan.txt:1:5: heal: has no time; expected: after=TIME"},
	{"heal after=5", "plan.txt:1:12: \"5\" is no time"},
	{"heal after=5us now", "plan.txt:1:16: heal: has another word; expected: after=TIME only"},
	{"heal after=5us\nheal after=6us", "plan.txt:2:1: heal is given twice"},
	{"haal after=5us", "plan.txt:1:1: unknown fault site \"haal\"; nearest: heal"},
	{"fabric.link down for=5us\nfabric.lnik down",
	 "plan.txt:2:1: unknown fault site \"fabric.lnik\""},
};

START_TEST(errors_name_line_column_and_nearest)
{
	ck_assert_int_eq(start_with(bad_plans[_i].plan), EINVAL);
	ck_assert_msg(strstr(said, bad_plans[_i].said) != NULL, "expected \"%s\", got \"%s\"",
		      bad_plans[_i].said, said);
}
END_TEST

/* ---- firing --------------------------------------------------------------------------------- */

static int object_a, object_b;
static char fires[64];

static void label(const void *object, int32_t rank, int32_t peer, int32_t channel)
{
	const struct os_label l = {"qp", rank, peer, channel, 7};

	os_label(object, &l);
}

/* One letter per visit: '-' or the kind's. */
static void fire_main(void *arg)
{
	struct os_fault f;

	label(&object_a, 3, 4, 0);
	label(&object_b, 3, 5, 1);
	memset(fires, 0, sizeof fires);
	for (int i = 0; i < 8; i++) {
		os_self()->step = i;
		if (i == 3 || i == 5) /* operations 0 and 1, by two ranks each */
			sim_faults_operation(i == 5), sim_faults_operation(0);
		bool a = os_fault("verbs.cqe", &object_a, &f);
		fires[2 * i] = a ? (f.arg == 12 ? 'R' : 'x') : '-';
		bool b = os_fault("verbs.cqe", &object_b, &f);
		fires[2 * i + 1] = b ? (f.arg == 12 ? 'R' : 'x') : '-';
		os_sleep_ns(1000);
	}
}

static const struct {
	const char *plan, *fires;
} good_plans[] = {
	{"", "----------------"},
	{"verbs.cqe rank=3 error status=RETRY_EXC_ERR", "R---------------"},
	{"verbs.cqe rank=3 peer=5 error status=12", "-R--------------"},
	{"verbs.cqe channel=1 nth=3 error", "-----x----------"},
	{"verbs.cqe channel=1 nth=3 count=2 error", "-----x-x--------"},
	{"verbs.cqe rank=2 error", "----------------"},
	{"verbs.cqe number=7 after=4us peer=4 count=2 error", "--------x-x-----"},
	{"verbs.cqe prob=1/1 error # always\n", "xxxxxxxxxxxxxxxx"},
	{"verbs.cqe prob=0/1 error", "----------------"},
	{"verbs.cqe peer=4 error\r\n  \n\tverbs.cqe peer=5 nth=2 error", "x--x------------"},
	{"verbs.cqe forever error", "xxxxxxxxxxxxxxxx"},
	{"verbs.cqe peer=4 nth=3 forever error", "----x-x-x-x-x-x-"},
	{"verbs.cqe peer=4 after=2us until=4us forever error", "----x-x---------"},
	{"verbs.cqe peer=4 forever error\nheal after=3500ns", "x-x-x-x---------"},
	{"verbs.cqe step=3 forever error", "------xx--------"},
	{"verbs.cqe rank=3 step=2 nth=2 error status=12", "-----R----------"},
	{"verbs.cqe peer=4 after=collective+0us forever error", "------x-x-x-x-x-"},
	{"verbs.cqe peer=4 after=collective+2us forever error", "----------x-x-x-"},
	{"verbs.cqe peer=4 after=collective:1+1us error", "------------x---"},
	{"verbs.cqe peer=4 until=collective+1us forever error", "x-x-x-x---------"},
	{"verbs.cqe after=collective:2+0us forever error", "----------------"},
	{"os.alloc error", NULL},
};

START_TEST(faults_fire_where_and_when_the_plan_says)
{
	int rc = start_with(good_plans[_i].plan);

	if (!good_plans[_i].fires) {
		ck_assert_int_eq(rc, EINVAL);
		return;
	}
	ck_assert_int_eq(rc, 0);
	ck_assert_int_eq(sim_run(fire_main, NULL), SIM_PASS);
	ck_assert_str_eq(fires, good_plans[_i].fires);
	uint64_t n = 0;
	for (const char *p = fires; *p; p++)
		n += *p != '-';
	ck_assert_uint_eq(sim_faults_fired(), n);
	sim_stop();
}
END_TEST

/* A rank of a large world is hit alone; a fault of an unknown rank may have hit any rank. */
static void hit_main(void *arg)
{
	struct os_fault f;
	int unknown;

	(void)arg;
	label(&object_a, 70, 4, 0);
	ck_assert(os_fault("verbs.cqe", &object_a, &f));
	ck_assert(sim_fault_hit_rank(70) && !sim_fault_hit_rank(6) && !sim_fault_hit_rank(71));
	ck_assert(!sim_fault_hit_rank(-1) && !sim_fault_hit_rank(1 << 20));
	ck_assert(os_fault("verbs.cqe", &unknown, &f));
	ck_assert(sim_fault_hit_rank(6) && sim_fault_hit_rank(71));
}

START_TEST(a_fault_hits_the_rank_of_its_place)
{
	ck_assert_int_eq(start_with("verbs.cqe forever error"), 0);
	ck_assert_int_eq(sim_run(hit_main, NULL), SIM_PASS);
	sim_stop();
}
END_TEST

/* ---- any, places, figures, healing ----------------------------------------------------------- */

static char any_fires[32];

/* In turn: two sites that can fail, and one that cannot. */
static void any_main(void *arg)
{
	struct sim_fault_place at = SIM_FAULT_NOWHERE;
	struct os_fault f;

	memset(any_fires, '-', 12);
	for (int i = 0; i < 12; i++) {
		static const char *const site[] = {"verbs.alloc_pd", "verbs.modify_qp",
						   "verbs.cqe"};
		bool fires;

		at.port = i;
		at.nic = i % 2 ? "mlx5_1" : "mlx5_0";
		at.state = i % 4;
		fires = sim_fault(site[i % 3], NULL, &at, &f);
		if (fires)
			any_fires[i] = f.arg == ENOMEM      ? 'm'
				       : f.arg == ETIMEDOUT ? 't'
				       : f.arg == EIO       ? 'i'
							    : 'x';
	}
}

static const struct {
	const char *plan, *fires;
} any_plans[] = {
	{"verbs.any nth=3 fail", "---m--------"},
	{"verbs.any nth=4 count=2 fail", "----t-m-----"},
	{"verbs.any forever fail errno=EIO", "ii-ii-ii-ii-"},
	{"verbs.any port=7 fail", "-------t----"},
	{"verbs.any nic=mlx5_1 forever fail", "-t-m---t-m--"},
	{"verbs.modify_qp state=INIT fail", "-t----------"},
	{"verbs.modify_qp state=RTS fail", "-------t----"},
	{"cuda.any forever fail", "------------"},
};

START_TEST(any_is_every_site_that_can_fail_in_one_sequence)
{
	struct sim_fault_stat stat = {.site = NULL};

	ck_assert_int_eq(start_with(any_plans[_i].plan), 0);
	ck_assert_int_eq(sim_run(any_main, NULL), SIM_PASS);
	any_fires[12] = 0;
	ck_assert_str_eq(any_fires, any_plans[_i].fires);
	for (uint32_t i = 0; sim_fault_stat(i, &stat); i++) {
		bool came = !strcmp(stat.site, "verbs.alloc_pd") ||
			    !strcmp(stat.site, "verbs.modify_qp") ||
			    !strcmp(stat.site, "verbs.cqe");

		ck_assert_uint_eq(stat.visits, came ? 4 : 0);
		ck_assert_uint_le(stat.fires, stat.visits);
	}
	sim_stop();
}
END_TEST

/* ---- callers -------------------------------------------------------------------------------- */

static char caller_fires[13];

/* Three visits of one site alternate with one of another. The first two have other visits before
 * them than later ones. */
static void caller_main(void *arg)
{
	struct os_fault f;

	(void)arg;
	for (int i = 0; i < 12; i++)
		caller_fires[i] =
			os_fault(i % 4 == 3 ? "os.thread" : "os.alloc", NULL, &f) ? 'x' : '-';
}

static const struct {
	const char *plan, *fires;
} caller_plans[] = {
	{"os.alloc caller=1 fail", "x-----------"},
	{"os.alloc caller=3 fail", "--x---------"},
	{"os.alloc caller=4 fail", "----x-------"},
	{"os.alloc caller=4 nth=2 fail", "--------x---"},
	{"os.alloc caller=3 forever fail", "--x---x---x-"},
	{"os.any caller=4 fail", "---x--------"},
	{"os.alloc caller=6 fail", "------------"},
};

START_TEST(a_caller_is_counted_once_however_often_it_calls)
{
	ck_assert_int_eq(start_with(caller_plans[_i].plan), 0);
	ck_assert_int_eq(sim_run(caller_main, NULL), SIM_PASS);
	ck_assert_str_eq(caller_fires, caller_plans[_i].fires);
	sim_stop();
}
END_TEST

static uint32_t heals;

static void heal_hook(void)
{
	heals++;
}

/* A lasting fault is not counted again, reports its duration, and ends at its time or when faults
 * are healed. */
static void last_main(void *arg)
{
	struct os_fault f;

	ck_assert(!os_fault("fabric.path", NULL, &f));
	ck_assert(os_fault("fabric.path", NULL, &f));
	ck_assert_uint_eq(f.left_ns, 5000);
	os_sleep_ns(4000);
	ck_assert(os_fault("fabric.path", NULL, &f));
	ck_assert_int_eq(f.kind, OS_FAULT_SLOW);
	ck_assert_uint_eq(f.arg, 7);
	ck_assert_uint_eq(f.left_ns, 1000);
	ck_assert_uint_eq(sim_faults_fired(), 1);
	os_sleep_ns(1000);
	ck_assert(!os_fault("fabric.path", NULL, &f));
	ck_assert(os_fault("fabric.link", NULL, &f));
	ck_assert_uint_eq(f.left_ns, UINT64_MAX);
	os_sleep_ns(1000000);
	ck_assert(os_fault("fabric.link", NULL, &f));
	sim_faults_heal();
	sim_faults_heal();
	ck_assert(sim_faults_healed());
	ck_assert_uint_eq(heals, 1);
	ck_assert(!os_fault("fabric.link", NULL, &f));
}

START_TEST(what_lasts_ends_in_time_or_when_faults_heal)
{
	sim_on_heal(heal_hook);
	ck_assert_int_eq(start_with("fabric.path nth=2 slow factor=7 for=5us\nfabric.link clog"),
			 0);
	ck_assert_int_eq(sim_run(last_main, NULL), SIM_PASS);
	sim_stop();
}
END_TEST

/* ---- kill ----------------------------------------------------------------------------------- */

static struct os_proc victim = {.id = 1, .host = 1, .name = "victim"};
static int survived, killed_by_hook;

static void mortal(void *arg)
{
	for (int i = 0; i < 10; i++) {
		sim_point("mortal");
		os_sleep_ns(1000);
		survived = i;
	}
}

static void kill_hook(struct os_proc *proc)
{
	killed_by_hook++;
	ck_assert_ptr_eq(proc, &victim);
	sim_kill_proc(proc);
}

static void kill_main(void *arg)
{
	const struct sim_task_attr a = {.name = "mortal", .proc = &victim, .rank = 1};
	struct sim_task *t;

	sim_set_killer(kill_hook);
	ck_assert_int_eq(sim_task_spawn(&t, &a, mortal, NULL), 0);
	ck_assert_int_eq(os_thread_join((struct os_thread *)t), 0);
}

START_TEST(task_kill_ends_the_process_at_an_entry_point)
{
	ck_assert_int_eq(start_with("os.task host=1 after=5us kill"), 0);
	ck_assert_int_eq(sim_run(kill_main, NULL), SIM_PASS);
	sim_stop();
	ck_assert_int_eq(survived, 4);
	ck_assert_int_eq(killed_by_hook, 1);
}
END_TEST

static void fifo_main(void *arg)
{
	struct os_fault f;
	int *fires = arg;

	for (int i = 0; i < 640; i++)
		*fires += os_fault("os.file", NULL, &f);
}

/* fifo draws no choices, where 0 would be "yes" each time. */
START_TEST(a_probability_is_one_under_fifo_too)
{
	const struct sim_config c = {.strategy = SIM_FIFO, .fault_plan = "os.file prob=1/64 fail"};
	int fires[2] = {0, 0};

	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(sim_start(&c), 0);
		ck_assert_int_eq(sim_run(fifo_main, &fires[i]), SIM_PASS);
		sim_stop();
	}
	ck_assert_int_gt(fires[0], 2);
	ck_assert_int_lt(fires[0], 30);
	ck_assert_int_eq(fires[0], fires[1]);
}
END_TEST

/* ---- drawn plans ---------------------------------------------------------------------------- */

static void nothing(void *arg)
{
}

static void draw(uint64_t seed, char **text)
{
	const struct sim_config c = {.seed = seed, .strategy = SIM_UNIFORM, .fault_random = true};
	size_t n;
	FILE *f = open_memstream(text, &n);

	ck_assert_int_eq(sim_start(&c), 0);
	sim_fault_print_plan(f);
	ck_assert_int_eq(sim_run(nothing, NULL), SIM_PASS);
	sim_stop();
	fclose(f);
}

START_TEST(drawn_plans_depend_on_the_seed_alone)
{
	int differ = 0;

	for (uint64_t seed = 0; seed < 50; seed++) {
		char *a, *b, *other;

		draw(seed, &a);
		draw(seed, &b);
		draw(seed + 1, &other);
		ck_assert_str_eq(a, b);
		differ += strcmp(a, other) != 0;
		free(a);
		free(b);
		free(other);
	}
	ck_assert_int_ge(differ, 40);
}
END_TEST

START_TEST(sites_are_printed)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	sim_fault_print_sites(f);
	fclose(f);
	ck_assert_ptr_ne(strstr(text, "  fabric.packet  "), NULL);
	ck_assert_ptr_ne(strstr(text, "      delay [by=TIME]  "), NULL);
	ck_assert_ptr_ne(strstr(text, "      fail [errno=NAME]  "), NULL);
	free(text);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("engine_fault");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, errors_name_line_column_and_nearest, 0, (int)ARRAY_LEN(bad_plans));
	tcase_add_loop_test(t, faults_fire_where_and_when_the_plan_says, 0,
			    (int)ARRAY_LEN(good_plans));
	tcase_add_test(t, a_fault_hits_the_rank_of_its_place);
	tcase_add_loop_test(t, any_is_every_site_that_can_fail_in_one_sequence, 0,
			    (int)ARRAY_LEN(any_plans));
	tcase_add_loop_test(t, a_caller_is_counted_once_however_often_it_calls, 0,
			    (int)ARRAY_LEN(caller_plans));
	tcase_add_test(t, what_lasts_ends_in_time_or_when_faults_heal);
	tcase_add_test(t, task_kill_ends_the_process_at_an_entry_point);
	tcase_add_test(t, a_probability_is_one_under_fifo_too);
	tcase_add_test(t, drawn_plans_depend_on_the_seed_alone);
	tcase_add_test(t, sites_are_printed);
	suite_add_tcase(s, t);
	return suite_run(s);
}
