/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to the service task that no main task sends: each is answered with an error, and the
 * task goes on. And the reference count of a GPU's proxy.
 */
#include <check.h>

#include "core/comm/comm.h"
#include "core/proxy/proxy_internal.h"
#include "tests/ranks.h"
#include "tests/suite.h"

static ncclResult_t requests_ask(struct proxy_gpu *p, struct proxy_message m)
{
	struct proxy_call call = {.m = m};
	struct wait w = {.on = &call.answered,
			 .mask = WAIT_MASK_ALL,
			 .kind = WAIT_NE,
			 .bytes = 4,
			 .why = "test: an answer",
			 .from = {.rank = -1, .channel = -1, .step = -1}};

	proxy_posted_push(&p->requests, &call.node, &call.node);
	EXPECT(os_wait_one(&w, NULL) == 0);
	EXPECT(call.m.conn == m.conn && !call.conn);
	return (ncclResult_t)call.m.result;
}

static void requests_rank(int32_t rank, int32_t nranks, void *arg)
{
	static const struct proxy_message bad[] = {
		{.magic = 0, .command = PROXY_SETUP},
		{.magic = PROXY_MESSAGE_MAGIC + 1, .command = PROXY_CLOSE, .conn = 1},
		{.magic = PROXY_MESSAGE_MAGIC, .command = 0},
		{.magic = PROXY_MESSAGE_MAGIC, .command = PROXY_CLOSE + 1},
		{.magic = PROXY_MESSAGE_MAGIC, .command = PROXY_CONNECT, .conn = 0},
		{.magic = PROXY_MESSAGE_MAGIC, .command = PROXY_CONNECT, .conn = 1},
		{.magic = PROXY_MESSAGE_MAGIC, .command = PROXY_CLOSE, .conn = UINT32_MAX},
	};
	const struct ncclComm comm = {.rank = rank, .cuda_dev = 0};
	struct proxy_gpu *p = proxy_gpu_get(&comm);

	(void)nranks, (void)arg;
	EXPECT(p);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		EXPECT(requests_ask(p, bad[i]) == ncclInternalError);
	proxy_gpu_put(p);
}

START_TEST(requests_that_make_no_sense_are_answered_with_an_error)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config c = {.seed = seed};

		ranks_run(&c, requests_rank, NULL);
	}
}
END_TEST

/* Tasks of one process that all want the proxy of their GPU at the same time. */
static void references_rank(int32_t rank, int32_t nranks, void *arg)
{
	const struct ncclComm comm = {.rank = rank, .cuda_dev = rank % 2};
	struct proxy_gpu **seen = arg;

	for (int i = 0; i < 3; i++) {
		seen[rank] = proxy_gpu_get(&comm);
		EXPECT(seen[rank] && seen[rank]->cuda_dev == rank % 2);
		ranks_barrier();
		for (int32_t r = 0; r < nranks; r++)
			EXPECT((seen[r] == seen[rank]) == (r % 2 == rank % 2));
		EXPECT(seen[rank]->refs == nranks / 2);
		ranks_barrier();
		proxy_gpu_put(seen[rank]);
	}
}

START_TEST(all_that_come_at_the_same_time_get_the_same_proxy)
{
	struct proxy_gpu *seen[8];

	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct ranks_config c = {.per_host = 8, .per_proc = 8, .seed = seed};

		ranks_run(&c, references_rank, seen);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("proxy_requests");
	TCase *t = tcase_create("requests");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, requests_that_make_no_sense_are_answered_with_an_error);
	tcase_add_test(t, all_that_come_at_the_same_time_get_the_same_proxy);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
