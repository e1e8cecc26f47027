/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffers of a connection: which protocols have one, how large a step is, what its two ends
 * compare, and lines before the first step.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/transport/transport_internal.h"
#include "tests/suite.h"

/* Returns a communicator whose connections have these protocols. */
static struct ncclComm comm_of(uint8_t bits)
{
	struct ncclComm comm = {.rank = 0};

	memset(comm.protos, bits, sizeof comm.protos);
	transport_steps_set(&comm);
	return comm;
}

#define ALL_PROTOS ((1u << DEV_PROTO_COUNT) - 1)

static const struct transport network = {.name = "network", .network = true};

START_TEST(step_is_an_eighth_of_the_buffer_in_whole_grains)
{
	struct ncclComm comm = comm_of(ALL_PROTOS);
	const struct conn c = {.comm = &comm, .transport = &network};

	ck_assert_uint_eq(transport_conn_step_bytes(&c, DEV_SIMPLE), 512 << 10);
	ck_assert_uint_eq(transport_conn_step_bytes(&c, DEV_LL), 64 << 10);
	ck_assert_uint_eq(transport_conn_step_bytes(&c, DEV_LL128), 600 << 10);
	ck_assert_uint_eq(steps_data_bytes(DEV_LL, 64 << 10), 32 << 10);
	ck_assert_uint_eq(steps_data_bytes(DEV_LL128, 600 << 10), 300 * 1920);
	ck_assert_uint_eq(steps_data_bytes(DEV_SIMPLE, 512 << 10), 512 << 10);
}
END_TEST

static const struct {
	const char *text;
	uint32_t step;
} sizes[] = {{"1", 32}, {"256", 32}, {"511", 32}, {"512", 64}, {"1000", 96}, {"64K", 8192}};

/* Half of a step of lines is data, in grains of 16 bytes. */
START_TEST(step_of_lines_is_a_multiple_of_two_lines)
{
	setenv("NCCL_LL_BUFFSIZE", sizes[_i].text, 1);
	ck_assert_uint_eq(transport_step_bytes(DEV_LL), sizes[_i].step);
	ck_assert_uint_eq(steps_data_bytes(DEV_LL, sizes[_i].step) % steps_grain_bytes(DEV_LL), 0);
}
END_TEST

static const struct {
	const char *text;
	uint32_t step;
} sizes128[] = {
	{"1", 2048}, {"16384", 2048}, {"16385", 2048}, {"32768", 4096}, {"4915200", 614400}};

/* 15 of 16 bytes of a step of 128-byte lines are data, in grains of 8 pairs. */
START_TEST(step_of_lines_of_128_bytes_is_a_multiple_of_16_lines)
{
	setenv("NCCL_LL128_BUFFSIZE", sizes128[_i].text, 1);
	ck_assert_uint_eq(transport_step_bytes(DEV_LL128), sizes128[_i].step);
	ck_assert_uint_eq(
		steps_data_bytes(DEV_LL128, sizes128[_i].step) % steps_grain_bytes(DEV_LL128), 0);
}
END_TEST

START_TEST(protocol_that_is_not_allowed_has_no_buffer)
{
	struct ncclComm comm = comm_of(1u << DEV_SIMPLE);
	const struct conn c = {.comm = &comm, .transport = &network};

	ck_assert_uint_gt(transport_conn_step_bytes(&c, DEV_SIMPLE), 0);
	ck_assert_uint_eq(transport_conn_step_bytes(&c, DEV_LL), 0);
	comm = comm_of(1u << DEV_LL);
	ck_assert_uint_eq(transport_conn_step_bytes(&c, DEV_SIMPLE), 0);
	ck_assert_uint_gt(transport_conn_step_bytes(&c, DEV_LL), 0);
	ck_assert_uint_eq(transport_conn_step_bytes(&c, DEV_LL128), 0);
}
END_TEST

START_TEST(messages_have_simple_always_and_ll_where_it_is_allowed)
{
	struct ncclComm comm = comm_of(1u << DEV_LL);
	const struct conn c = {.comm = &comm, .transport = &network, .index = CONN_PAIR};

	ck_assert_uint_eq(transport_conn_step_bytes(&c, DEV_SIMPLE), 128 << 10);
	ck_assert_uint_eq(transport_conn_step_bytes(&c, DEV_LL), 64 << 10);
	ck_assert_uint_eq(transport_conn_step_bytes(&c, DEV_LL128), 0);
	comm = comm_of(1u << DEV_LL128);
	ck_assert_uint_eq(transport_conn_step_bytes(&c, DEV_SIMPLE), 128 << 10);
	ck_assert_uint_eq(transport_conn_step_bytes(&c, DEV_LL), 0);
	ck_assert_uint_eq(transport_conn_step_bytes(&c, DEV_LL128), 0);
}
END_TEST

START_TEST(messages_over_shared_memory_have_the_steps_of_collectives)
{
	struct ncclComm comm = comm_of(ALL_PROTOS);
	const struct conn c = {.comm = &comm, .transport = &transport_shm, .index = CONN_PAIR};

	ck_assert_uint_eq(transport_conn_step_bytes(&c, DEV_SIMPLE), 512 << 10);
}
END_TEST

START_TEST(messages_have_no_ll_below_a_threshold_of_0)
{
	setenv("NCCL_P2P_LL_THRESHOLD", "0", 1);

	struct ncclComm comm = comm_of(ALL_PROTOS);
	const struct conn c = {.comm = &comm, .transport = &network, .index = CONN_PAIR};

	ck_assert_uint_eq(transport_conn_step_bytes(&c, DEV_LL), 0);
	ck_assert_uint_eq(transport_conn_step_bytes(&c, DEV_SIMPLE), 128 << 10);
}
END_TEST

static const struct {
	int config;
	int32_t channels;
} per_peer[] = {{NCCL_CONFIG_UNDEF_INT, 2}, {1, 1}, {5, 5}, {8, 8}, {9, 8}, {64, 8}};

START_TEST(messages_over_the_network_have_the_channels_of_the_config)
{
	const struct ncclComm comm = {.config.nChannelsPerNetPeer = per_peer[_i].config};

	ck_assert_int_eq(transport_pair_net_channels(&comm), per_peer[_i].channels);
}
END_TEST

START_TEST(ends_with_other_steps_are_invalid_usage)
{
	struct ncclComm comm = comm_of(ALL_PROTOS);
	const struct conn c = {.comm = &comm, .transport = &network};
	const uint32_t same[] = {512 << 10, 64 << 10, 600 << 10};
	const uint32_t lines[] = {512 << 10, 32 << 10, 600 << 10};
	const uint32_t simple[] = {256 << 10, 64 << 10, 600 << 10};
	const uint32_t no_lines[] = {512 << 10, 0, 600 << 10};
	const uint32_t wide_lines[] = {512 << 10, 64 << 10, 300 << 10};

	DOPPEL_STATIC_CHECK(ARRAY_LEN(same) == DEV_PROTO_COUNT, "all protocols");
	ck_assert_int_eq(transport_steps_check(&c, same), ncclSuccess);
	ck_assert_int_eq(transport_steps_check(&c, lines), ncclInvalidUsage);
	ck_assert_int_eq(transport_steps_check(&c, simple), ncclInvalidUsage);
	ck_assert_int_eq(transport_steps_check(&c, no_lines), ncclInvalidUsage);
	ck_assert_int_eq(transport_steps_check(&c, wide_lines), ncclInvalidUsage);
}
END_TEST

static const struct {
	const char *first;
	uint32_t flag;
} firsts[] = {
	{"0", 0}, {"8", 8}, {"0x7ffffff8", 0x7ffffff8u}, {"0x100000000", 0}, {"0x100000010", 16}};

/* The flag of the step before the first one: that of no step of the first 2^32. */
START_TEST(lines_begin_with_the_flag_before_the_first)
{
	uint64_t lines[16];

	setenv("DOPPEL_FIRST_STEP", firsts[_i].first, 1);
	memset(lines, 0xff, sizeof lines);
	transport_lines_init(DEV_LL, lines, sizeof lines);
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		ck_assert_uint_eq(lines[i], (uint64_t)firsts[_i].flag << 32);
	transport_lines_init(DEV_LL128, lines, sizeof lines);
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		ck_assert_uint_eq(lines[i], 0);
	ck_assert_uint_gt(DEV_LINE128_FLAG(transport_first_step()), 0);
	ck_assert_uint_eq(DEV_LINE_FLAG(transport_first_step() - 1), firsts[_i].flag);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("conn_steps");
	TCase *t = tcase_create("steps");

	tcase_add_test(t, step_is_an_eighth_of_the_buffer_in_whole_grains);
	tcase_add_loop_test(t, step_of_lines_is_a_multiple_of_two_lines, 0, ARRAY_LEN(sizes));
	tcase_add_loop_test(t, step_of_lines_of_128_bytes_is_a_multiple_of_16_lines, 0,
			    ARRAY_LEN(sizes128));
	tcase_add_test(t, protocol_that_is_not_allowed_has_no_buffer);
	tcase_add_test(t, messages_have_simple_always_and_ll_where_it_is_allowed);
	tcase_add_test(t, messages_over_shared_memory_have_the_steps_of_collectives);
	tcase_add_test(t, messages_have_no_ll_below_a_threshold_of_0);
	tcase_add_loop_test(t, messages_over_the_network_have_the_channels_of_the_config, 0,
			    (int)ARRAY_LEN(per_peer));
	tcase_add_test(t, ends_with_other_steps_are_invalid_usage);
	tcase_add_loop_test(t, lines_begin_with_the_flag_before_the_first, 0, ARRAY_LEN(firsts));
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
