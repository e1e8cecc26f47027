/* SPDX-License-Identifier: BSD-3-Clause */
/* The HCA double's accounts of work requests, and its report if they do not balance. */
#include <check.h>
#include <string.h>

#include "backends/fakeverbs/queues/account.c"
#include "tests/suite.h"

/* No process is remote. */
const struct hca_members *hca_members;
void hca_log(const char *fmt, ...)
{
	(void)fmt;
}

enum { SLOTS = 4 };
static struct hca_queue queue;

static void post(uint64_t wr_id)
{
	struct hca_wqe *e = hca_wqe_at(&queue, queue.head++);
	e->wr_id = wr_id;
	hca_account_post(&queue, e, "send");
}

static void end(void)
{
	hca_account_end(&queue, hca_wqe_at(&queue, queue.done++), "send");
}

/* The report of `body`; "" if there is no report. */
static const char *said(void (*body)(void *))
{
	const struct sim_config sim = {.seed = 1};
	const struct world_config world = {.hosts = 1, .machine = "h100-8nic"};
	ck_assert_int_eq(sim_start(&sim), 0);
	ck_assert_int_eq(world_create(&world), 0);
	queue = (struct hca_queue){.size = SLOTS, .stride = sizeof(struct hca_wqe)};
	queue.ring = world_arena_offset(world_arena_alloc(SLOTS * sizeof(struct hca_wqe), "slots"));
	enum sim_verdict verdict = sim_run(body, NULL);

	ck_assert_int_eq(verdict, sim_failure() ? SIM_WRONG_RESULT : SIM_PASS);
	ck_assert_uint_eq(world_destroy(), 0);
	sim_stop();
	if (!sim_failure())
		return "";
	ck_assert_str_eq(sim_failure()->kind, "work-request");
	ck_assert_int_eq(sim_failure()->verdict, SIM_WRONG_RESULT);
	return sim_failure()->message;
}

static void all_ends(void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < 10; i++) {
		post(i);
		post(i);
		end();
		end();
	}
	post(10);
	post(11);
	hca_account_drop(&queue, "send");
	queue.done = queue.head;
	post(12);
	end();
	hca_account_drop(&queue, "send");
}

static void twice(void *arg)
{
	(void)arg;
	post(7);
	end();
	queue.done--;
	end();
}

static void never_posted(void *arg)
{
	(void)arg;
	post(1);
	end();
	queue.head++;
	end();
}

static void slot_taken(void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i <= SLOTS; i++)
		post(i);
}

static void lost(void *arg)
{
	(void)arg;
	post(1);
	post(2);
	end();
	queue.done = queue.head; /* one is forgotten */
	hca_account_drop(&queue, "send");
}

/* The process that destroyed it died before the end; a process that destroys it again finds no
 * slots. */
static void ended_already(void *arg)
{
	(void)arg;
	post(1);
	post(2);
	hca_account_drop(&queue, "send");
	hca_account_drop(&queue, "send");
	queue.ring = 0;
	queue.head++;
	hca_account_drop(&queue, "send");
}

START_TEST(a_request_that_does_not_end_once_is_named)
{
	ck_assert_str_eq(said(all_ends), "");
	ck_assert_str_eq(said(ended_already), "");
	ck_assert_ptr_nonnull(
		strstr(said(twice), "a request of a send queue (wr_id 0x7) ends a second time"));
	ck_assert_ptr_nonnull(strstr(said(never_posted), "(wr_id 0x0) ends and was never posted"));
	ck_assert_ptr_nonnull(
		strstr(said(slot_taken), "is posted into a slot whose request has not"));
	ck_assert_ptr_nonnull(strstr(said(lost), "a send queue ends: 2 requests were posted, and 1 "
						 "completed, were flushed or dropped"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("verbs_account");
	TCase *t = tcase_create("account");
	tcase_add_test(t, a_request_that_does_not_end_once_is_named);
	suite_add_tcase(s, t);
	return suite_run(s);
}
