/* SPDX-License-Identifier: BSD-3-Clause */
/* net_verbs by itself: two ends in two processes on two hosts, over the HCA double, many seeds. */
#include "tests/internal/net/net_verbs_shares.h"

/* ---- worlds --------------------------------------------------------------------------------- */

static struct os_thread *spawn(struct os_proc *proc, const char *name, int rank, void (*fn)(void *))
{
	struct os_thread_attr attr = {.name = name, .rank = rank};
	struct os_thread *t;

	ck_assert_int_eq(world_thread_start(proc, &t, &attr, fn, NULL), 0);
	return t;
}

static void pair_main(void *arg)
{
	struct os_proc *a, *b;
	struct os_thread *task[3];
	int n = 0;

	(void)arg;
	ck_assert_int_eq(world_proc_create(0, "sender", &a), 0);
	ck_assert_int_eq(world_proc_create(1, "receiver", &b), 0);
	if (pair.receiver_qps)
		ck_assert_int_eq(
			world_proc_setenv(b, "NCCL_IB_QPS_PER_CONNECTION", pair.receiver_qps), 0);
	if (pair.stranger)
		task[n++] = spawn(a, "stranger", -1, foreign_client_main);
	task[n++] = spawn(a, "sender", 0, send_main);
	task[n++] = spawn(b, "receiver", 1, recv_main);
	if (pair.drop_link_at) {
		await_word(&pair.down, "the moment to drop the link");
		world_port_set(world_port(pair.drop_port), false);
	}
	for (int i = 0; i < n; i++)
		os_thread_join(task[i]);
	world_proc_exit(a);
	world_proc_exit(b);
}

static void pair_run(const struct pair *test)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sim_config config = {.engine = SIM_ENGINE_SIM, .seed = seed};
		struct world_config world = {.hosts = 2,
					     .machine = test->machine ? test->machine : "pcie-4gpu",
					     .env = test->env};

		pair = *test;
		pair.expect_sent = expect_shares;
		ck_assert_int_eq(sim_start(&config), 0);
		ck_assert_int_eq(world_create(&world), 0);
		ck_assert_int_eq(sim_run(pair_main, NULL), SIM_PASS);
		ck_assert_uint_eq(world_destroy(), 0);
		sim_stop();
		ck_assert_msg(pair.got[0] == pair.want[0] && pair.got[1] == pair.want[1],
			      "seed %llu: sender %d, receiver %d", (unsigned long long)seed,
			      pair.got[0], pair.got[1]);
	}
}

START_TEST(messages_arrive_whole_and_in_order)
{
	pair_run(&(struct pair){.messages = MESSAGES});
}
END_TEST

START_TEST(a_message_longer_than_the_port_takes_goes_in_pieces)
{
	pair_run(&(struct pair){.messages = MESSAGES, .message_max = 4096});
}
END_TEST

/* Turns and parts; every message of more than 1,000 bytes with an immediate of its own, too. */
static const char *const queues[][4] = {
	{"NCCL_IB_QPS_PER_CONNECTION=3"},
	{"NCCL_IB_QPS_PER_CONNECTION=3", "NCCL_IB_SPLIT_DATA_ON_QPS=1"},
	{"NCCL_IB_ADAPTIVE_ROUTING=1", "NCCL_IB_AR_THRESHOLD=1000"},
	{"NCCL_IB_QPS_PER_CONNECTION=4", "NCCL_IB_ADAPTIVE_ROUTING=1", "NCCL_IB_AR_THRESHOLD=1000"},
	{"NCCL_IB_QPS_PER_CONNECTION=4", "NCCL_IB_SPLIT_DATA_ON_QPS=1",
	 "NCCL_IB_ADAPTIVE_ROUTING=1", "NCCL_IB_AR_THRESHOLD=1000"},
	{"NCCL_IB_QPS_PER_CONNECTION=128", "NCCL_IB_SPLIT_DATA_ON_QPS=1"},
};

START_TEST(several_queue_pairs_share_the_messages)
{
	struct pair test = {.messages = MESSAGES};

	for (size_t i = 0; i < ARRAY_LEN(queues[0]); i++)
		test.env[i] = queues[_i][i];
	pair_run(&test);
	test.message_max = 4096;
	pair_run(&test);
	test.drop_link_at = 20;
	test.want[0] = test.want[1] = ncclRemoteError;
	pair_run(&test);
}
END_TEST

/* Sends go by tag, not by their order, and none leaves before the others of its receive are
 * there. */
START_TEST(messages_of_a_receive_go_to_their_tags)
{
	struct pair test = {.messages = 5 * NET_MAX_RECVS};

	for (size_t i = 0; i < ARRAY_LEN(queues[0]); i++)
		test.env[i] = queues[_i][i];
	test.together = NET_MAX_RECVS;
	pair_run(&test);
	test.together = 4;
	test.message_max = 4096;
	pair_run(&test);
	test.drop_link_at = 20;
	test.want[0] = test.want[1] = ncclRemoteError;
	pair_run(&test);
}
END_TEST

/* Both ends over several devices, or one of them; one message, and several of a receive. A device
 * that fails is the end of the connection. */
static const uint32_t merged[][2] = {{2, 2}, {4, 4}, {3, 2}, {1, 4}, {2, 1}};

static void merged_run(size_t i, uint32_t together, const char *const *env)
{
	struct pair test = {.machine = "a100-2port",
			    .messages = MESSAGES / 2 / NET_MAX_RECVS * NET_MAX_RECVS,
			    .together = together,
			    .devices = {merged[i][0], merged[i][1]}};

	for (size_t k = 0; k < ARRAY_LEN(queues[0]); k++)
		test.env[k] = env[k];
	pair_run(&test);
	test.drop_link_at = 20;
	test.drop_port = merged[i][0] - 1;
	test.want[0] = test.want[1] = ncclRemoteError;
	pair_run(&test);
}

START_TEST(messages_go_over_all_devices_of_a_merged_nic)
{
	static const char *const none[ARRAY_LEN(queues[0])] = {NULL};

	merged_run((size_t)_i, 0, none);
	merged_run((size_t)_i, 4, none);
	merged_run((size_t)_i, 0, queues[0]);
	merged_run((size_t)_i, NET_MAX_RECVS, queues[4]);
}
END_TEST

START_TEST(receives_leave_a_request_to_flushes)
{
	pair_run(&(struct pair){.messages = 0, .flood = true});
	pair_run(&(struct pair){.machine = "a100-2port", .devices = {2, 2}, .flood = true});
}
END_TEST

START_TEST(ends_with_other_queue_pairs_are_invalid_usage)
{
	pair_run(&(struct pair){
		.messages = 1, .receiver_qps = "2", .want = {ncclRemoteError, ncclInvalidUsage}});
}
END_TEST

/* Clear-to-send entries are polled: they never have it. */
static const struct {
	const char *env;
	bool strict;
} orders[] = {
	{"NCCL_IB_PCI_RELAXED_ORDERING=0", true},
	{"NCCL_IB_PCI_RELAXED_ORDERING=1", false},
	{"NCCL_IB_PCI_RELAXED_ORDERING=2", false},
};

START_TEST(data_alone_has_relaxed_ordering)
{
	pair_run(&(struct pair){
		.messages = 10, .env = {orders[_i].env}, .strict = orders[_i].strict});
}
END_TEST

/* The double's GIDs: link-local for RoCE v1 and v2, then IPv4 for v1 and v2. */
static const struct {
	const char *env;
	int index;
} gids[] = {
	{NULL, 3},
	{"NCCL_IB_GID_INDEX=1", 1},
	{"NCCL_IB_ROCE_VERSION_NUM=1", 2},
	{"NCCL_IB_ADDR_FAMILY=AF_INET6", 1},
	{"NCCL_IB_ADDR_RANGE=172.16.0.0/12", 3},
	{"NCCL_IB_ADDR_RANGE=fd00::/16", 3},  /* of another family: not used */
	{"NCCL_IB_ADDR_RANGE=10.0.0.0/8", 3}, /* none: the best of the others */
};

START_TEST(the_gid_is_the_one_that_the_user_means)
{
	pair_run(&(struct pair){.messages = 2, .env = {gids[_i].env}, .gid_index = gids[_i].index});
}
END_TEST

START_TEST(a_stranger_on_the_port_disturbs_nobody)
{
	pair_run(&(struct pair){.messages = 3, .stranger = true});
}
END_TEST

START_TEST(a_link_that_goes_down_is_a_remote_error_at_both_ends)
{
	pair_run(&(struct pair){.messages = MESSAGES,
				.drop_link_at = 20,
				.want = {ncclRemoteError, ncclRemoteError}});
}
END_TEST

START_TEST(a_message_too_long_for_its_receive_is_refused)
{
	pair_run(&(struct pair){
		.messages = 1, .too_long = true, .want = {ncclInternalError, ncclRemoteError}});
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("net_verbs");
	TCase *t = tcase_create("pair");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, messages_arrive_whole_and_in_order);
	tcase_add_test(t, a_message_longer_than_the_port_takes_goes_in_pieces);
	tcase_add_loop_test(t, several_queue_pairs_share_the_messages, 0, (int)ARRAY_LEN(queues));
	tcase_add_loop_test(t, messages_of_a_receive_go_to_their_tags, 0, (int)ARRAY_LEN(queues));
	tcase_add_loop_test(t, messages_go_over_all_devices_of_a_merged_nic, 0,
			    (int)ARRAY_LEN(merged));
	tcase_add_test(t, receives_leave_a_request_to_flushes);
	tcase_add_test(t, ends_with_other_queue_pairs_are_invalid_usage);
	tcase_add_loop_test(t, data_alone_has_relaxed_ordering, 0, (int)ARRAY_LEN(orders));
	tcase_add_loop_test(t, the_gid_is_the_one_that_the_user_means, 0, (int)ARRAY_LEN(gids));
	tcase_add_test(t, a_stranger_on_the_port_disturbs_nobody);
	tcase_add_test(t, a_link_that_goes_down_is_a_remote_error_at_both_ends);
	tcase_add_test(t, a_message_too_long_for_its_receive_is_refused);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
