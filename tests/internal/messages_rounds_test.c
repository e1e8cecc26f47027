/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The schedule of messages: both ends of a message are in the same round and on the same channels,
 * whatever the numbers of ranks and channels are, and parts make up the whole of a message.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/messages.h"
#include "core/transport/transport_internal.h"
#include "tests/suite.h"

#define MOST_RANKS 130

START_TEST(each_distance_has_a_round_of_its_own)
{
	for (int32_t n = 1; n <= MOST_RANKS; n++) {
		uint32_t round_of[MOST_RANKS], rounds = 1;
		bool used[256] = {false};

		memset(round_of, 0xff, sizeof round_of);
		plan_rounds_init(round_of, n);
		while (rounds < (uint32_t)n)
			rounds *= 2;
		ck_assert_uint_eq(round_of[0], 0);
		for (int32_t d = 0; d < n; d++) {
			ck_assert_uint_lt(round_of[d], rounds);
			ck_assert(!used[round_of[d]]);
			used[round_of[d]] = true;
		}
	}
}
END_TEST

START_TEST(a_round_uses_each_channel_once)
{
	for (int32_t nchannels = 1; nchannels <= DEV_MAX_CHANNELS; nchannels++) {
		for (uint32_t round = 0; round < 9; round++) {
			bool used[DEV_MAX_CHANNELS] = {false};

			for (int32_t part = 0; part < nchannels; part++) {
				const struct ncclComm comm = {.nranks = 16,
							      .pair_channels = nchannels};
				int32_t c = plan_round_channel(&comm, round, part);

				ck_assert_int_ge(c, 0);
				ck_assert_int_lt(c, nchannels);
				ck_assert(!used[c]);
				used[c] = true;
			}
		}
	}
}
END_TEST

/* Four ranks: each of their four rounds has a quarter of the channels before it meets the next
 * one. */
START_TEST(rounds_share_the_channels)
{
	for (int32_t nchannels = 8; nchannels <= DEV_MAX_CHANNELS; nchannels++) {
		const struct ncclComm comm = {.nranks = 4, .pair_channels = nchannels};
		bool used[DEV_MAX_CHANNELS] = {false};

		for (uint32_t round = 0; round < 4; round++) {
			for (int32_t part = 0; part < nchannels / 4; part++) {
				int32_t c = plan_round_channel(&comm, round, part);

				ck_assert(!used[c]);
				used[c] = true;
			}
		}
	}
}
END_TEST

START_TEST(parts_make_up_a_message)
{
	static const uint64_t sizes[] = {
		1, 4095, 4096, 4097, 8192, 8193, 1000000, (1ull << 32) + 5, 1ull << 40};

	for (int32_t pair = 1; pair <= 32; pair++) {
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
			uint64_t each;
			int32_t parts = plan_parts_of(sizes[i], pair, &each);

			ck_assert_int_ge(parts, 1);
			ck_assert_int_le(parts, pair);
			ck_assert_uint_eq(each % PLAN_PART_GRAIN, 0);
			ck_assert_uint_lt((uint64_t)(parts - 1) * each, sizes[i]);
			ck_assert_uint_ge((uint64_t)parts * each, sizes[i]);
			if (parts > 2)
				ck_assert_uint_ge(each, PLAN_PART_LEAST);
		}
		uint64_t none;
		ck_assert_int_eq(plan_parts_of(0, pair, &none), 0);
	}
}
END_TEST

/* ---- a queue of many messages ---------------------------------------------------------------- */

#define RANKS 5
#define QUEUE 997

/* Rank 0 sends to rank 1 and the others in turn, and receives from them. */
static void queue_fill(struct plan_messages *ms, uint32_t *nth)
{
	for (int32_t i = 0; i < QUEUE; i++) {
		int32_t peer = 1 + i * 7 % (RANKS - 1);
		bool is_send = i % 3 != 0;

		ms->queue[i] = (struct plan_queued_message){
			.call = {.is_send = is_send, .peer = peer},
			.bytes = i % 10 ? 8 : 0,
			.nth = nth[2 * peer + is_send]++,
		};
	}
	ms->queued = QUEUE;
}

START_TEST(rounds_are_in_order_and_hold_every_message_once)
{
	static struct plan_queued_message queue[QUEUE];
	uint32_t round_of[RANKS], nth[2 * RANKS] = {0};
	struct ncclComm comm = {.rank = 0, .nranks = RANKS};
	struct plan_messages ms = {.queue = queue, .room = QUEUE, .round_of = round_of};
	bool seen[QUEUE] = {false};
	int32_t found = 0, want = 0;

	plan_rounds_init(round_of, RANKS);
	queue_fill(&ms, nth);
	for (int32_t i = 0; i < QUEUE; i++)
		want += queue[i].bytes != 0;
	ck_assert_int_eq(plan_rounds_make(&comm, &ms), ncclSuccess);
	for (int32_t i = 0; i < ms.nrounds; i++) {
		const struct plan_round *r = &ms.rounds[i];
		const int32_t at[2] = {r->send, r->recv};

		ck_assert(i == 0 || r[-1].key < r->key);
		ck_assert(r->send >= 0 || r->recv >= 0);
		for (int k = 0; k < 2; k++) {
			if (at[k] < 0)
				continue;
			ck_assert(!seen[at[k]] && queue[at[k]].bytes);
			ck_assert(queue[at[k]].call.is_send == (k == 0));
			ck_assert_uint_eq(queue[at[k]].nth, r->key >> 32);
			seen[at[k]] = true;
			found++;
		}
	}
	ck_assert_int_eq(found, want);
	os_free(ms.rounds);
}
END_TEST

/* ---- messages to oneself --------------------------------------------------------------------- */

/* Rank 1's message to itself is in parts of 64 KiB or more, on channels that no other message has,
 * if there are any. */
static void self_check(uint64_t bytes, int32_t pairs, int32_t launch)
{
	struct plan_queued_message queue[2] = {{.call = {.is_send = true, .peer = 1}},
					       {.call = {.is_send = false, .peer = 1}}};
	uint32_t round_of[4];
	struct ncclComm comm = {
		.rank = 1, .nranks = 4, .pair_channels = pairs, .launch_channels = launch};
	struct plan_messages ms = {.queue = queue, .queued = 2, .room = 2, .round_of = round_of};
	struct plan_state st = {.args_works = 2, .warps = 16};
	struct plan p = {.nworks = 0};
	const int32_t most = launch > pairs ? launch - pairs : pairs;
	int32_t n;

	for (int k = 0; k < 2; k++) {
		queue[k].bytes = bytes;
		queue[k].call.buffer = (char *)4096 + (uint64_t)k * bytes;
	}
	plan_rounds_init(round_of, comm.nranks);
	ck_assert_int_eq(plan_rounds_make(&comm, &ms), ncclSuccess);
	ck_assert_int_eq(plan_rounds_build(&comm, &st, &ms, &p), ncclSuccess);
	ck_assert_int_eq(p.rounds, 1);
	ck_assert_int_eq(p.nworks, 1);
	n = p.work[0].channel_hi - p.work[0].channel_lo + 1;
	ck_assert_int_eq(p.work[0].channel_lo, launch > pairs ? pairs : 0);
	ck_assert_int_le(n, most);
	ck_assert(n == most || (uint64_t)n * PLAN_SELF_PART_LEAST >= bytes);
	ck_assert_uint_ge((uint64_t)n * p.work[0].pair.send_each, bytes);
	ck_assert(p.work[0].pair.to_self && !p.work[0].pair.send_conn);
	plan_free(&p);
	os_free(ms.rounds);
}

START_TEST(a_message_to_oneself_has_channels_of_its_own)
{
	for (uint64_t bytes = 1; bytes <= 64ull << 20; bytes *= 8) {
		self_check(bytes, 32, 48);
		self_check(bytes, 2, 3);
		self_check(bytes, 32, 32); /* NCCL_MAX_CTAS leaves no more */
		self_check(bytes, 64, 64);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("messages_rounds");
	TCase *tc = tcase_create("messages_rounds");

	tcase_add_test(tc, each_distance_has_a_round_of_its_own);
	tcase_add_test(tc, rounds_share_the_channels);
	tcase_add_test(tc, a_round_uses_each_channel_once);
	tcase_add_test(tc, parts_make_up_a_message);
	tcase_add_test(tc, rounds_are_in_order_and_hold_every_message_once);
	tcase_add_test(tc, a_message_to_oneself_has_channels_of_its_own);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
