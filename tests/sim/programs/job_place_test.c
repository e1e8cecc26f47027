/* SPDX-License-Identifier: BSD-3-Clause */
/* The place of a process in the job of a launcher, from the variables of the launcher. The address
 * at which processes on real GPUs get the unique id. */
#include "sim/cli/run/job_place.c"

#include "tests/suite.h"

/* Sets "NAME=VALUE NAME=VALUE ...". Each test is a process of its own. */
static void set(const char *text)
{
	char *copy = strdup(text), *rest = copy;

	for (char *word; (word = strsep(&rest, " "));) {
		char *value = strchr(word, '=');

		*value = '\0';
		ck_assert_int_eq(setenv(word, value + 1, 1), 0);
	}
	free(copy);
}

static struct cli_place found(const char *text)
{
	struct cli_place p;

	set(text);
	ck_assert(cli_launch_find(&p));
	return p;
}

START_TEST(no_launcher_has_no_place)
{
	ck_assert_ptr_null(found("RANK=1 WORLD_SIZE=2").by); /* torchrun sets LOCAL_RANK, too */
	ck_assert_ptr_null(found("LOCAL_RANK=0 RANK=0 WORLD_SIZE=1").by);
}
END_TEST

START_TEST(srun_counts_the_tasks_of_this_node)
{
	struct cli_place p = found("SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=7 SLURM_LOCALID=1 "
				   "SLURM_STEP_TASKS_PER_NODE=4(x1),3 SLURM_JOB_ID=9");

	ck_assert_str_eq(p.by, "srun");
	ck_assert_uint_eq(p.process, 5);
	ck_assert_uint_eq(p.processes, 7);
	ck_assert_uint_eq(p.local, 1);
	ck_assert_uint_eq(p.here, 4);
}
END_TEST

START_TEST(jobs_differ_by_their_ids)
{
	struct cli_place a = found("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 TORCHELASTIC_RUN_ID=x"),
			 b = found("RANK=1 LOCAL_RANK=1"), c = found("TORCHELASTIC_RUN_ID=y");

	ck_assert_str_eq(a.job, b.job); /* two processes of one job */
	ck_assert_str_ne(b.job, c.job);
}
END_TEST

START_TEST(the_root_is_what_the_user_named)
{
	struct cli_place p = found("RANK=0 WORLD_SIZE=16 LOCAL_RANK=0 LOCAL_WORLD_SIZE=8 "
				   "MASTER_ADDR=node0 MASTER_PORT=29500");

	ck_assert_str_eq(cli_launch_root(&p), "node0:29501"); /* torchrun has the port itself */
	set("NCCL_COMM_ID=node1:7500");
	ck_assert_str_eq(cli_launch_root(&p), "node1:7500");
}
END_TEST

START_TEST(one_computer_needs_no_address)
{
	struct cli_place p = found("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 "
				   "OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
				   "PMIX_NAMESPACE=77");
	const char *root = cli_launch_root(&p);
	unsigned port = 0;

	ck_assert_int_eq(sscanf(root, "127.0.0.1:%u", &port), 1);
	ck_assert(port >= LAUNCH_FIRST_PORT && port < LAUNCH_FIRST_PORT + LAUNCH_PORTS);
}
END_TEST

START_TEST(several_computers_need_an_address)
{
	struct cli_place p = found("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 "
				   "OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2");

	ck_assert_ptr_null(cli_launch_root(&p));
	set("MASTER_ADDR=node0 MASTER_PORT=none");
	ck_assert_ptr_null(cli_launch_root(&p));
}
END_TEST

START_TEST(contradictions_are_refused)
{
	static const char *const bad[] = {
		"RANK=2 WORLD_SIZE=2 LOCAL_RANK=0",
		"RANK=-1 WORLD_SIZE=2 LOCAL_RANK=0",
		"RANK=0 WORLD_SIZE=2x LOCAL_RANK=0",
		"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3",
		"RANK=0 WORLD_SIZE=4 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2",
	};
	struct cli_place p;

	set(bad[_i]);
	ck_assert(!cli_launch_find(&p));
}
END_TEST

START_TEST(a_rank_without_a_size_is_refused)
{
	struct cli_place p;

	set("PMIX_RANK=0");
	ck_assert(!cli_launch_find(&p));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("job place");
	TCase *tc = tcase_create("job place");

	tcase_add_test(tc, no_launcher_has_no_place);
	tcase_add_test(tc, srun_counts_the_tasks_of_this_node);
	tcase_add_test(tc, jobs_differ_by_their_ids);
	tcase_add_test(tc, the_root_is_what_the_user_named);
	tcase_add_test(tc, one_computer_needs_no_address);
	tcase_add_test(tc, several_computers_need_an_address);
	tcase_add_loop_test(tc, contradictions_are_refused, 0, 5);
	tcase_add_test(tc, a_rank_without_a_size_is_refused);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
