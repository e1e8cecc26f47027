/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults by exhaustion, every n-th k of each class, the first of which the commit draws; `doppel
 * exhaust all` is the whole. And the moments at which something once went wrong.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/explore/exhaust.h"
#include "sim/lab/search/scenario.h"
#include "tests/sample.h"
#include "tests/suite.h"

static void exhaust_expect_clean(const struct exhaust_config *c)
{
	struct exhaust_result r;
	ck_assert_int_eq(exhaust_run(c, &r), 0);
	ck_assert_msg(r.bad == 0, "%s (%llu of %llu runs)", r.first_bad, (unsigned long long)r.bad,
		      (unsigned long long)r.runs);
	ck_assert_uint_gt(r.runs, 0);
}

static uint64_t exhaust_drawn(void)
{
	return strtoull(build_commit(), NULL, 16);
}

/* Every stride-th k, from one of the first so many on. */
static void exhaust_every(struct exhaust_config *c, uint64_t stride)
{
	c->stride = stride * SAMPLE_THIN;
	c->first = 1 + exhaust_drawn() % c->stride;
}

static struct exhaust_config exhaust_sample(enum exhaust_class class, uint64_t stride)
{
	struct exhaust_config c;
	exhaust_config_default(&c);
	c.classes = 1u << class;
	exhaust_every(&c, stride);
	c.exploring = SAMPLE_THIN > 1; /* and not fifo, too */
	c.out = NULL;
	return c;
}

START_TEST(allocations_fail)
{
	struct exhaust_config c = exhaust_sample(EXHAUST_ALLOC, 34);
	exhaust_expect_clean(&c);
}
END_TEST

/* Two ranks of a host die in every stage of a communicator's life, at every seventh step. A split
 * of a parent that fails, or was revoked, once left the other rank without an error. */
START_TEST(ranks_die_in_each_stage)
{
	for (int stage = LAB_STAGE_SPLIT; stage < LAB_STAGES; stage++) {
		struct exhaust_config c;

		exhaust_config_default(&c);
		c.classes = 1u << EXHAUST_KILL;
		c.hosts = 1;
		c.fifo = true;
		c.stride = 7;
		c.stage = (enum lab_stage)stage;
		c.out = NULL;
		exhaust_expect_clean(&c);
	}
}
END_TEST

/* The parent is aborted between the check of its shrink and the forming: the list of members was
 * not freed. */
START_TEST(an_abort_before_a_shrink_forms_leaks_nothing)
{
	struct exhaust_config c;

	exhaust_config_default(&c);
	c.classes = 1u << EXHAUST_ABORT;
	c.hosts = 1;
	c.fifo = c.once = c.blocking = true;
	c.rank = 0;
	c.task = "rank0 main";
	c.stage = LAB_STAGE_SHRINK;
	c.first = 600;
	c.most = 160;
	c.out = NULL;
	exhaust_expect_clean(&c);
}
END_TEST

/* The task that suspends or resumes made CUDA calls before it chose its rank's GPU: an error killed
 * its context on GPU 0, and the rank continued without an error. */
START_TEST(a_gpu_that_dies_in_a_suspend_is_lost)
{
	const char *const sites[] = {"cuda.set_device.sticky", "cuda.get_device.sticky",
				     "cuda.event_query.sticky"};

	for (size_t i = 0; i < ARRAY_LEN(sites); i++) {
		struct exhaust_config c;

		exhaust_config_default(&c);
		c.classes = 1u << EXHAUST_CUDA;
		c.hosts = 1;
		c.fifo = true;
		c.site = sites[i];
		c.stage = LAB_STAGE_SUSPEND;
		c.out = NULL;
		exhaust_expect_clean(&c);
	}
}
END_TEST

START_TEST(verbs_fail)
{
	struct exhaust_config c = exhaust_sample(EXHAUST_VERBS, 52);
	exhaust_expect_clean(&c);
}
END_TEST

START_TEST(cuda_fails)
{
	struct exhaust_config c = exhaust_sample(EXHAUST_CUDA, 25);
	exhaust_expect_clean(&c);
}
END_TEST

START_TEST(sockets_fail)
{
	struct exhaust_config c = exhaust_sample(EXHAUST_SOCKET, 106);
	exhaust_expect_clean(&c);
}
END_TEST

START_TEST(shared_memory_and_files_fail)
{
	struct exhaust_config c = exhaust_sample(EXHAUST_SHM, 3);
	c.env[EXHAUST_ENV_OWN] = "NCCL_P2P_DISABLE=1";
	c.classes |= 1u << EXHAUST_FILE;
	exhaust_expect_clean(&c);
}
END_TEST

static const char *const segments[] = {"NCCL_CUMEM_HOST_ENABLE=0", "NCCL_CUMEM_HOST_ENABLE=1"};

/* No segment is left: a rank that survives removes those that the dead one had made for it. */
START_TEST(ranks_with_segments_die)
{
	struct exhaust_config c = exhaust_sample(EXHAUST_KILL, 61);
	c.env[EXHAUST_ENV_OWN] = "NCCL_P2P_DISABLE=1";
	c.env[EXHAUST_ENV_OWN + 1] = segments[_i];
	c.hosts = 1;
	c.gpus = 3;
	exhaust_expect_clean(&c);
}
END_TEST

/* Two of four ranks send through the other two. */
static struct exhaust_config exhaust_relays(enum exhaust_class class, uint64_t stride)
{
	struct exhaust_config c = exhaust_sample(class, stride);

	c.machine = "h100-2nic";
	c.env[EXHAUST_ENV_OWN] = "NCCL_MAX_NCHANNELS=1";
	return c;
}

START_TEST(relays_and_their_users_die)
{
	struct exhaust_config c = exhaust_relays(EXHAUST_KILL, 61);
	exhaust_expect_clean(&c);
}
END_TEST

START_TEST(what_relays_and_their_users_share_fails)
{
	struct exhaust_config c = exhaust_relays(EXHAUST_SHM, 2);
	exhaust_expect_clean(&c);
	c = exhaust_relays(EXHAUST_VERBS, 53);
	exhaust_expect_clean(&c);
}
END_TEST

/* Each of four ranks sends its messages to one of the other host through the other rank of its
 * own. */
static struct exhaust_config exhaust_message_relays(enum exhaust_class class, uint64_t stride)
{
	struct exhaust_config c = exhaust_sample(class, stride);

	c.collective = lab_collective_find("all_to_all", strlen("all_to_all"));
	ck_assert_ptr_nonnull(c.collective);
	c.env[EXHAUST_ENV_OWN] = "NCCL_MAX_NCHANNELS=2";
	return c;
}

START_TEST(relays_of_messages_and_their_users_die)
{
	struct exhaust_config c = exhaust_message_relays(EXHAUST_KILL, 101);
	exhaust_expect_clean(&c);
}
END_TEST

START_TEST(what_relays_of_messages_and_their_users_call_fails)
{
	struct exhaust_config c = exhaust_message_relays(EXHAUST_SHM, 3);
	exhaust_expect_clean(&c);
	c = exhaust_message_relays(EXHAUST_CUDA, 58);
	exhaust_expect_clean(&c);
	c = exhaust_message_relays(EXHAUST_VERBS, 134);
	exhaust_expect_clean(&c);
}
END_TEST

/* A relay dies while it ends in order, before it has reported the operations of its user. The user
 * once waited for it for five minutes. */
START_TEST(relays_of_messages_die_in_their_end)
{
	struct exhaust_config c = exhaust_message_relays(EXHAUST_KILL, 1);

	c.rank = 2;
	c.first = 1570;
	c.stride = 1;
	c.most = 60;
	c.seed = 13;
	c.fifo = false;
	c.once = c.exploring = true;
	exhaust_expect_clean(&c);
}
END_TEST

/* A relay that is aborted in its init has memory that the rank which sends through it has
 * opened. */
START_TEST(relays_of_messages_give_up)
{
	static const char *const sites[] = {"lab.abort.watch", "lab.abort.main", "lab.abort.held"};
	struct exhaust_config c = exhaust_message_relays(EXHAUST_ABORT, 101);

	c.site = sites[_i];
	c.rank = 0;
	exhaust_expect_clean(&c);
}
END_TEST

START_TEST(ranks_with_segments_fail)
{
	struct exhaust_config c = exhaust_sample(EXHAUST_CUDA, 40);
	c.env[EXHAUST_ENV_OWN] = "NCCL_P2P_DISABLE=1";
	c.env[EXHAUST_ENV_OWN + 1] = segments[_i];
	c.hosts = 1;
	exhaust_expect_clean(&c);
}
END_TEST

/* All CUDA calls of a rank fail while its kernels run, so that the GPU does not report their end.
 * The communicator's pinned memory was once released under them. */
START_TEST(kernels_end_unreported)
{
	struct exhaust_config c = exhaust_sample(EXHAUST_CUDA, 1);

	c.env[EXHAUST_ENV_OWN] = "NCCL_P2P_DISABLE=1";
	c.hosts = 1;
	c.rank = 1;
	c.first = 80;
	c.stride = 1;
	c.seed = 3;
	c.for_ever = true;
	c.exploring = true;
	exhaust_expect_clean(&c);
}
END_TEST

START_TEST(ranks_die)
{
	struct exhaust_config c = exhaust_sample(EXHAUST_KILL, 122);
	exhaust_expect_clean(&c);
}
END_TEST

START_TEST(ranks_give_up)
{
	static const char *const sites[] = {"lab.abort.watch", "lab.abort.main"};
	struct exhaust_config c = exhaust_sample(EXHAUST_ABORT, 62);

	c.site = sites[_i];
	exhaust_expect_clean(&c);
}
END_TEST

/* An abort at the steps of each task of a rank, while the task runs and while it is held; also of
 * the rank with the root. */
START_TEST(ranks_give_up_at_the_steps_of_tasks)
{
	static const char *const sites[] = {"lab.abort.step", "lab.abort.held"};
	struct exhaust_config c = exhaust_sample(EXHAUST_ABORT, 29);
	struct exhaust_result r;

	c.site = sites[_i];
	c.rank = _i;
	ck_assert_int_eq(exhaust_run(&c, &r), 0);
	ck_assert_msg(r.bad == 0, "%s", r.first_bad);
	/* main, init, service, progress, events and the GPU's warps, in each order of the sample */
	ck_assert_uint_ge(r.series, c.exploring ? 6 : 12);
	ck_assert_uint_gt(r.fired, 50 / SAMPLE_THIN); /* the commit draws how many */
	ck_assert_uint_eq(r.fired, r.second);
}
END_TEST

/* A GPU is dead from the k-th call on; its process has one rank or two. */
START_TEST(contexts_die)
{
	static const char *const sites[] = {"cuda.set_device.sticky", "cuda.launch_ex.sticky",
					    "cuda.stream_query.sticky", "cuda.free.sticky",
					    "cuda.event_destroy.sticky"};

	for (size_t i = 0; i < sizeof sites / sizeof sites[0]; i++) {
		struct exhaust_config c = exhaust_sample(EXHAUST_CUDA, 3);
		struct exhaust_result r;
		c.first = 1; /* it fires */
		c.site = sites[i];
		c.ranks_per_proc = 1 + (uint32_t)_i;
		ck_assert_int_eq(exhaust_run(&c, &r), 0);
		ck_assert_msg(r.bad == 0, "%s", r.first_bad);
		ck_assert_uint_gt(r.fired, 0);
	}
}
END_TEST

START_TEST(processes_with_two_ranks)
{
	struct exhaust_config c = exhaust_sample(EXHAUST_KILL, 302);
	c.ranks_per_proc = 2;
	exhaust_expect_clean(&c);
	c.classes = 1u << EXHAUST_ALLOC;
	exhaust_every(&c, 74);
	exhaust_expect_clean(&c);
}
END_TEST

/* A collective that the commit draws, of those that an exhaustion runs; the tests above are about
 * the first one. */
START_TEST(another_collective)
{
	struct exhaust_config c = exhaust_sample(EXHAUST_KILL, 844);
	uint64_t drawn = exhaust_drawn();

	do {
		c.collective = &lab_collectives[1 + drawn++ % (lab_collectives_n - 1)];
	} while (!lab_collective_is_plain(c.collective));
	exhaust_expect_clean(&c);
	c.classes = 1u << EXHAUST_VERBS | 1u << EXHAUST_CUDA;
	exhaust_every(&c, 212);
	exhaust_expect_clean(&c);
}
END_TEST

/* Moments that were found by sweeps, with what happened then. */
static const struct {
	enum exhaust_class class;
	const char *site;
	uint64_t k;
	int32_t rank;
	bool for_ever, fifo;
	const char *was;
} exhaust_found[] = {
	{EXHAUST_ALLOC, "os.alloc", 8, -1, false, true, "a rank failed before its check-in: hang"},
	{EXHAUST_ALLOC, "os.alloc", 22, -1, false, true, "the root had no memory for it: hang"},
	{EXHAUST_CUDA, "cuda.host_alloc", 1, 1, true, true, "no communicator, nobody told: hang"},
	{EXHAUST_SOCKET, "os.socket.reset", 1, -1, false, true, "a check-in was lost: hang"},
	{EXHAUST_SOCKET, "os.socket.reset", 256, -1, false, true, "a lost first message: hang"},
	{EXHAUST_SOCKET, "os.socket.fail", 267, -1, false, true, "a lost hello: hang"},
	{EXHAUST_VERBS, "verbs.cqe", 78, -1, false, true, "hosts without the error: hang"},
	{EXHAUST_KILL, NULL, 155, 0, false, true, "IPC of the dead was a CUDA error"},
	{EXHAUST_KILL, NULL, 687, 0, false, true, "some were in the last barrier: hang"},
	{EXHAUST_ABORT, "lab.abort.watch", 8, 2, false, true, "aborted before its check-in: hang"},
	{EXHAUST_ABORT, "lab.abort.watch", 281, 0, false, false, "IPC memory freed in use"},
	{EXHAUST_ABORT, "lab.abort.watch", 296, 0, false, false, "IPC memory freed in use"},
};

START_TEST(what_was_found)
{
	struct exhaust_config c = exhaust_sample(exhaust_found[_i].class, 1); /* of one run */
	c.site = exhaust_found[_i].site;
	c.first = exhaust_found[_i].k;
	c.most = 1;
	c.rank = exhaust_found[_i].rank;
	c.for_ever = exhaust_found[_i].for_ever;
	c.once = !c.for_ever;
	c.fifo = exhaust_found[_i].fifo;
	c.exploring = !c.fifo;
	exhaust_expect_clean(&c);
}
END_TEST

static Suite *exhaust_suite(void)
{
	Suite *s = suite_create("exhaust");
	TCase *t = tcase_create("exhaust");
	tcase_set_timeout(t, 120);
	tcase_add_test(t, allocations_fail);
	tcase_add_test(t, ranks_die_in_each_stage);
	tcase_add_test(t, a_gpu_that_dies_in_a_suspend_is_lost);
	tcase_add_test(t, an_abort_before_a_shrink_forms_leaks_nothing);
	tcase_add_test(t, verbs_fail);
	tcase_add_test(t, cuda_fails);
	tcase_add_test(t, sockets_fail);
	tcase_add_test(t, shared_memory_and_files_fail);
	tcase_add_loop_test(t, ranks_with_segments_die, 0, 2);
	tcase_add_test(t, relays_and_their_users_die);
	tcase_add_test(t, what_relays_and_their_users_share_fails);
	tcase_add_test(t, relays_of_messages_and_their_users_die);
	tcase_add_test(t, what_relays_of_messages_and_their_users_call_fails);
	tcase_add_test(t, relays_of_messages_die_in_their_end);
	tcase_add_loop_test(t, relays_of_messages_give_up, 0, 3);
	tcase_add_loop_test(t, ranks_with_segments_fail, 0, 2);
	tcase_add_test(t, kernels_end_unreported);
	tcase_add_test(t, ranks_die);
	tcase_add_loop_test(t, ranks_give_up, 0, 2);
	tcase_add_loop_test(t, ranks_give_up_at_the_steps_of_tasks, 0, 2);
	tcase_add_loop_test(t, contexts_die, 0, 2);
	tcase_add_test(t, processes_with_two_ranks);
	tcase_add_test(t, another_collective);
	tcase_add_loop_test(t, what_was_found, 0,
			    (int)(sizeof exhaust_found / sizeof exhaust_found[0]));
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return suite_run(exhaust_suite());
}
