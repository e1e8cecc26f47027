/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages, run on the host with primitives that only count: the steps are those that
 * steps_of_message derives, and both ends take the same chunks.
 */
#include "tests/suite.h"
#include "tests/unit/base/programs_count.h"

static struct prim rank;

/* Both ends of one message: the chunks are the same, make up the message, and take the steps. */
static void message_check(uint64_t bytes, enum dev_proto proto, uint32_t step_bytes)
{
	const struct dev_send_recv m = {.send_bytes = bytes, .recv_bytes = bytes};
	struct prim *p = &rank;
	struct end *in = &p->ends[0], *out = &p->ends[1];
	uint64_t sum = 0;

	in->conn.step_bytes[proto] = out->conn.step_bytes[proto] = step_bytes;
	p->proto = proto;
	in->n = out->n = 0;
	p->recv = &in->conn;
	p->send = &out->conn;
	ck_assert(send_recv_send(p, &m));
	ck_assert(send_recv_recv(p, &m));
	ck_assert_uint_eq(out->n, steps_of_message(bytes, proto, step_bytes));
	ck_assert_uint_eq(in->n, out->n);
	for (uint32_t i = 0; i < out->n; i++) {
		ck_assert_uint_eq(in->chunk[i], out->chunk[i]);
		ck_assert_uint_gt(out->chunk[i], 0);
		ck_assert_uint_le(out->chunk[i], steps_data_bytes(proto, step_bytes));
		sum += out->chunk[i];
	}
	ck_assert_uint_eq(sum, bytes);
}

START_TEST(messages_take_the_steps_that_steps_of_message_derives)
{
	static const uint64_t bytes[] = {1, 511, 512, 513, 4096, 100000, 1000001};
	static const uint32_t steps[] = {512, 4096, 128 << 10, 512 << 10};

	for (size_t i = 0; i < ARRAY_LEN(bytes); i++)
		for (size_t k = 0; k < ARRAY_LEN(steps); k++) {
			message_check(bytes[i], DEV_SIMPLE, steps[k]);
			message_check(bytes[i], DEV_LL, steps[k]);
		}
}
END_TEST

/* In lines it goes through slots all the same. */
START_TEST(message_that_is_put_takes_one_step)
{
	const struct dev_send_recv m = {.send_bytes = 100000, .recv_bytes = 100000};
	struct prim *p = &rank;
	struct end *in = &p->ends[0], *out = &p->ends[1];

	in->conn.put = out->conn.put = 1;
	message_check(100000, DEV_LL, 512);
	in->conn.step_bytes[DEV_SIMPLE] = out->conn.step_bytes[DEV_SIMPLE] = 512;
	p->proto = DEV_SIMPLE;
	in->n = out->n = 0;
	ck_assert(send_recv_send(p, &m));
	ck_assert(send_recv_recv(p, &m));
	ck_assert_uint_eq(in->n, 1);
	ck_assert_uint_eq(out->n, 1);
	ck_assert_uint_eq(out->chunk[0], 100000);
	in->conn.put = out->conn.put = 0;
}
END_TEST

/* Between processes, if both ranks know that it may be put: one step, or through slots. */
START_TEST(message_that_is_shown_takes_one_step_or_goes_through_slots)
{
	const struct dev_send_recv m = {.send_bytes = 100000,
					.recv_bytes = 100000,
					.shown = DEV_SHOWN_SEND | DEV_SHOWN_RECV};
	struct prim *p = &rank;
	struct end *in = &p->ends[0], *out = &p->ends[1];

	message_check(100000, DEV_SIMPLE, 512);
	p->proto = DEV_SIMPLE;
	for (int i = 0; i < 2; i++) {
		mapped = i == 1;
		in->n = out->n = 0;
		ck_assert(send_recv_send(p, &m));
		ck_assert(send_recv_recv(p, &m));
		ck_assert_uint_eq(in->n, mapped ? 1 : steps_of_message(100000, DEV_SIMPLE, 512));
		ck_assert_uint_eq(out->n, in->n);
	}
	mapped = false;
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("messages");
	TCase *t = tcase_create("steps");

	tcase_add_test(t, messages_take_the_steps_that_steps_of_message_derives);
	tcase_add_test(t, message_that_is_put_takes_one_step);
	tcase_add_test(t, message_that_is_shown_takes_one_step_or_goes_through_slots);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
