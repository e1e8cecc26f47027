/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The all-reduce through the whole stack: every type and operation, sizes that no chunk divides,
 * every way to spread ranks over hosts and processes, every machine that comes with Doppel.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/lab/runner.h"
#include "tests/suite.h"

/* Under ThreadSanitizer a fiber switch is slow, and real threads are what it is for. */
#ifdef __SANITIZE_THREAD__
#define SEEDS  1
#define FACTOR 4096
#else
#define SEEDS  10
#define FACTOR 2
#endif

static struct lab_config config_of(uint32_t hosts, uint32_t gpus, uint32_t ranks_per_proc)
{
	struct lab_config c;
	lab_config_default(&c);
	c.hosts = hosts;
	c.gpus = gpus;
	c.ranks_per_proc = ranks_per_proc;
	c.factor = FACTOR;
	return c;
}

static struct lab_result run_right(const struct lab_config *c)
{
	struct lab_result r;
	ck_assert_int_eq(lab_run(c, &r), 0);
	ck_assert_msg(r.verdict == SIM_PASS && r.error == ncclSuccess && r.wrong == 0 &&
			      r.guard_wrong == 0 && r.leaks == 0,
		      "%s, %u hosts, seed %llu: verdict %d, error %d, %llu wrong, %llu leaks: %s",
		      c->machine, c->hosts, (unsigned long long)c->sim.seed, (int)r.verdict,
		      (int)r.error, (unsigned long long)r.wrong, (unsigned long long)r.leaks,
		      r.explanation);
	ck_assert_uint_gt(r.operations, 0);
	return r;
}

START_TEST(two_ranks_of_one_process_reduce)
{
	struct lab_config c = config_of(1, 2, 2);
	for (c.sim.seed = 1; c.sim.seed <= SEEDS; c.sim.seed++)
		run_right(&c);
}
END_TEST

START_TEST(two_hosts_reduce)
{
	struct lab_config c = config_of(2, 1, 1);
	for (c.sim.seed = 1; c.sim.seed <= SEEDS; c.sim.seed++)
		run_right(&c);
	c.gpus = 8;
	c.factor = MAX_OF(FACTOR, 16);
	for (; c.sim.seed <= 2 * SEEDS; c.sim.seed++)
		run_right(&c);
}
END_TEST

START_TEST(every_type_and_operation_is_right)
{
	struct lab_config c = config_of(2, 2, 1);
	c.type_count = c.op_count = 0;
	for (int t = 0; t < ncclNumTypes; t++)
		c.types[c.type_count++] = (ncclDataType_t)t;
	for (int o = 0; o < ncclNumOps; o++)
		c.ops[c.op_count++] = (ncclRedOp_t)o;
	c.bytes_min = 8;
	c.bytes_max = 40000;
	c.factor = 70;
	run_right(&c);
	c = config_of(1, 3, 3);
	for (int t = 0; t < ncclNumTypes; t++)
		c.types[t] = (ncclDataType_t)t;
	c.type_count = ncclNumTypes;
	c.ops[0] = ncclAvg;
	c.bytes_min = 4096;
	c.bytes_max = 4096;
	c.factor = 2;
	run_right(&c);
}
END_TEST

START_TEST(sizes_that_no_chunk_divides_are_right)
{
	static const uint64_t sizes[] = {0, 1, 3, 15, 17, 511, 513, 4097, 65537, 1048577, 3145739};
	struct lab_config c = config_of(2, 2, 2);
	c.types[0] = ncclUint8;
	c.factor = 2;
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		c.sim.seed = i + 1;
		c.bytes_min = c.bytes_max = sizes[i];
		run_right(&c);
	}
}
END_TEST

START_TEST(every_machine_reduces)
{
	static const struct {
		const char *name;
		uint32_t gpus, hosts; /* a workstation has no HCA */
	} machines[] = {{"h100-8nic", 8, 2},
			{"a100-4nic", 8, 2},
			{"pcie-4gpu", 4, 2},
			{"workstation-2gpu", 2, 1}};
	for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
		struct lab_config c = config_of(1, machines[i].gpus, 1);
		c.machine = machines[i].name;
		c.factor = 32;
		run_right(&c);
		c.hosts = machines[i].hosts;
		c.ranks_per_proc = machines[i].gpus;
		run_right(&c);
	}
}
END_TEST

START_TEST(few_and_many_channels_are_right)
{
	static const char *const few[] = {"NCCL_MAX_NCHANNELS=1", NULL};
	static const char *const many[] = {"NCCL_MIN_NCHANNELS=24", NULL};
	struct lab_config c = config_of(2, 2, 1);
	c.factor = 128;
	c.bytes_max = 4 << 20;
	c.env = few;
	run_right(&c);
	c.env = many;
	run_right(&c);
}
END_TEST

START_TEST(warps_of_32_lanes_are_right)
{
	struct lab_config c = config_of(2, 2, 1);
	c.warp_width = 32;
	c.factor = 32;
	c.bytes_max = 1 << 18;
	run_right(&c);
}
END_TEST

START_TEST(real_threads_reduce)
{
	struct lab_config c = config_of(2, 2, 1);
	c.sim.engine = SIM_ENGINE_THREADS;
	c.factor = 32;
	c.bytes_max = 1 << 18;
	run_right(&c);
	c.hosts = 1;
	c.gpus = 4;
	c.ranks_per_proc = 4;
	run_right(&c);
}
END_TEST

static Suite *first_suite(void)
{
	Suite *s = suite_create("first_all_reduce");
	TCase *t = tcase_create("first_all_reduce");
	tcase_set_timeout(t, 200);
	tcase_add_test(t, two_ranks_of_one_process_reduce);
	tcase_add_test(t, two_hosts_reduce);
	tcase_add_test(t, every_type_and_operation_is_right);
	tcase_add_test(t, sizes_that_no_chunk_divides_are_right);
	tcase_add_test(t, every_machine_reduces);
	tcase_add_test(t, few_and_many_channels_are_right);
	tcase_add_test(t, warps_of_32_lanes_are_right);
	tcase_add_test(t, real_threads_reduce);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return suite_run(first_suite());
}
