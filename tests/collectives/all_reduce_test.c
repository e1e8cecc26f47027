/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduce through the whole stack: every transport, type and operation, awkward counts, small
 * buffers, both engines. Results are checked element by element by the runner. */
#include <check.h>
#include <stdlib.h>

#include "sim/lab/run/runner.h"
#include "tests/suite.h"

/* How ranks reach each other in each place. */
static const struct place {
	const char *what, *machine;
	uint32_t hosts, gpus, ranks_per_proc;
	const char *env; /* or NULL */
} places[] = {
	{"one rank alone", "workstation-2gpu", 1, 1, 1, NULL},
	{"p2p within a process", "h100-8nic", 1, 2, 2, NULL},
	{"p2p by IPC", "h100-8nic", 1, 2, 1, NULL},
	{"p2p, both forms", "h100-8nic", 1, 4, 2, NULL},
	{"network, flushed GPU memory", "a100-4nic", 2, 1, 1, NULL},
	{"network, host memory", "a100-4nic", 2, 1, 1, "NCCL_NET_GDR_LEVEL=LOC"},
	{"network, another NIC than the search found", "a100-4nic", 2, 1, 1, "NCCL_IB_HCA=^mlx5_0"},
	{"network, no flush needed", "h100-8nic", 2, 1, 1, NULL},
	{"network to the other GPU of a host", "pcie-4gpu", 1, 4, 1, NULL},
	{"network and p2p", "a100-4nic", 2, 3, 1, NULL},
	{"an odd ring", "h100-8nic", 3, 1, 1, NULL},
	{"sockets, for want of an HCA", "workstation-2gpu", 2, 1, 1, NULL},
	{"sockets within a host", "workstation-2gpu", 1, 2, 1, "NCCL_P2P_DISABLE=1"},
	{"sockets and p2p", "a100-4nic", 2, 3, 1, "NCCL_NET=Socket"},
	{"sockets with helper tasks", "workstation-2gpu", 2, 2, 1, "NCCL_SOCKET_NTHREADS=3"},
	{"a warp that posts and moves nothing", "a100-4nic", 2, 2, 1, "NCCL_NTHREADS=512"},
};

static void config_at(struct lab_config *c, const struct place *p, uint64_t seed)
{
	static const char *env[3];

	lab_config_default(c);
	c->sim.seed = seed;
	c->machine = p->machine;
	c->hosts = p->hosts;
	c->gpus = p->gpus;
	c->ranks_per_proc = p->ranks_per_proc;
	c->check = c->in_place = c->out_of_place = true;
	env[0] = p->env;
	env[1] = NULL;
	c->env = env;
}

static void run_at(const struct lab_config *c, const struct place *p)
{
	struct lab_result r;

	ck_assert_int_eq(lab_run(c, &r), 0);
	ck_assert_msg(
		r.verdict == SIM_PASS && !r.wrong && !r.guard_wrong && !r.leaks && !r.error,
		"%s, seed %llu: verdict %d, %llu wrong, %llu outside, %llu leaks, error %d of "
		"rank %d: %s",
		p->what, (unsigned long long)c->sim.seed, r.verdict, (unsigned long long)r.wrong,
		(unsigned long long)r.guard_wrong, (unsigned long long)r.leaks, r.error,
		r.error_rank, r.explanation);
	ck_assert_uint_gt(r.operations, 0);
}

static void all_types(struct lab_config *c)
{
	for (int t = 0; t < LAB_MAX_TYPES; t++)
		c->types[t] = (ncclDataType_t)t;
	c->type_count = LAB_MAX_TYPES;
	for (int o = 0; o < LAB_MAX_OPS; o++)
		c->ops[o] = (ncclRedOp_t)o;
	c->op_count = LAB_MAX_OPS;
}

START_TEST(every_type_and_operation)
{
	struct lab_config c;

	config_at(&c, &places[_i], 1);
	all_types(&c);
	c.bytes_min = 8;
	c.bytes_max = 70000;
	c.bytes_step = 23336;
	c.factor = 1;
	run_at(&c, &places[_i]);
}
END_TEST

START_TEST(counts_that_nothing_divides)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct lab_config c;

		config_at(&c, &places[_i], seed);
		c.types[0] = ncclInt8;
		c.type_count = 1;
		c.bytes_min = 1;
		c.bytes_max = 300000;
		c.bytes_step = 42839; /* a prime */
		c.factor = 1;
		run_at(&c, &places[_i]);
	}
}
END_TEST

START_TEST(nothing_at_all)
{
	struct lab_config c;

	config_at(&c, &places[_i], 1);
	c.bytes_min = c.bytes_max = 0;
	c.iterations = 3;
	run_at(&c, &places[_i]);
}
END_TEST

/* Steps of 512 bytes: many loops, and the eight slots of every connection are used up often. */
START_TEST(small_buffers)
{
	const char *const env[] = {"NCCL_BUFFSIZE=4096", places[_i].env, NULL};

	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct lab_config c;

		config_at(&c, &places[_i], seed);
		c.env = env;
		c.bytes_min = 4096;
		c.bytes_max = 65536;
		c.factor = 4;
		c.iterations = 2;
		run_at(&c, &places[_i]);
	}
}
END_TEST

START_TEST(large_messages)
{
	struct lab_config c;

	config_at(&c, &places[_i], 1);
	c.bytes_min = (16 << 20) - 4;
	c.bytes_max = 16 << 20;
	c.bytes_step = 4;
	c.factor = 1;
	run_at(&c, &places[_i]);
}
END_TEST

START_TEST(many_orders)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct lab_config c;

		config_at(&c, &places[_i], seed);
		c.bytes_min = 64;
		c.bytes_max = 65536;
		c.factor = 32;
		c.iterations = 2;
		run_at(&c, &places[_i]);
	}
}
END_TEST

START_TEST(warps_of_32_lanes)
{
	struct lab_config c;

	config_at(&c, &places[_i], 1);
	c.warp_width = 32;
	c.bytes_min = 8;
	c.bytes_max = 65536;
	c.factor = 16;
	run_at(&c, &places[_i]);
}
END_TEST

/* Every machine that comes with Doppel, whole: one rank a process on one host, then one process a
 * host. */
static const struct place machines[] = {
	{"h100-8nic, one host", "h100-8nic", 1, 8, 1, NULL},
	{"h100-8nic, two hosts", "h100-8nic", 2, 8, 8, NULL},
	{"a100-4nic, one host", "a100-4nic", 1, 8, 1, NULL},
	{"a100-4nic, two hosts", "a100-4nic", 2, 8, 8, NULL},
	{"pcie-4gpu, one host", "pcie-4gpu", 1, 4, 1, NULL},
	{"pcie-4gpu, two hosts", "pcie-4gpu", 2, 4, 4, NULL},
	{"workstation-2gpu", "workstation-2gpu", 1, 2, 1, NULL},
	{"workstation-2gpu, two hosts", "workstation-2gpu", 2, 2, 2, NULL},
	{"few channels", "h100-8nic", 2, 2, 1, "NCCL_MAX_NCHANNELS=1"},
	{"many channels", "h100-8nic", 2, 2, 1, "NCCL_MIN_NCHANNELS=24"},
};

START_TEST(whole_machines)
{
	struct lab_config c;

	config_at(&c, &machines[_i], 1);
	c.bytes_min = 8;
	c.bytes_max = machines[_i].env ? 4 << 20 : 1 << 20;
	c.factor = 64;
	run_at(&c, &machines[_i]);
}
END_TEST

START_TEST(real_threads)
{
	struct lab_config c;

	config_at(&c, &places[_i], 1);
	c.sim.engine = SIM_ENGINE_THREADS;
	c.bytes_min = 8;
	c.bytes_max = 1 << 20;
	c.factor = 32;
	run_at(&c, &places[_i]);
}
END_TEST

int main(void)
{
	const int n = sizeof places / sizeof places[0];
	Suite *suite = suite_create("all_reduce");
	TCase *t = tcase_create("places");

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, every_type_and_operation, 0, n);
	tcase_add_loop_test(t, counts_that_nothing_divides, 0, n);
	tcase_add_loop_test(t, nothing_at_all, 0, n);
	tcase_add_loop_test(t, small_buffers, 0, n);
	tcase_add_loop_test(t, large_messages, 0, n);
	tcase_add_loop_test(t, many_orders, 0, n);
	tcase_add_loop_test(t, warps_of_32_lanes, 0, n);
	tcase_add_loop_test(t, whole_machines, 0, (int)(sizeof machines / sizeof machines[0]));
	tcase_add_loop_test(t, real_threads, 0, n);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
