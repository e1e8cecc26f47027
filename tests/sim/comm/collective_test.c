/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lab's description of collectives against their definition. Each shape that a row can have is
 * carried out here on host memory, by the definition, with the buffers that lab_row_start passes;
 * the lab must find every rank's result right, and find and explain what is then changed in it.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/lab/check/collective.h"
#include "tests/suite.h"

enum { RANKS = 5, BYTES = 5 * 4 * 37 + 3, GUARD = 8, ROOT = 3 };

static ncclResult_t record(const struct lab_call_args *a);
static int32_t previous(int32_t rank, int32_t nranks);

#define SHAPE(n, ...)                                                                              \
	{                                                                                          \
		.name = (n), .call = "", .start = record, __VA_ARGS__                              \
	}

static const struct lab_collective shapes[] = {
	SHAPE("all_reduce", .reduces = true, .tours = 2, .own_share_stays = true),
	SHAPE("reduce", .reduces = true, .root_receives = true, .tours = 1),
	SHAPE("broadcast", .root_sends = true, .tours = 1),
	SHAPE("all_gather", .recv_per_rank = true, .tours = 1, .own_share_stays = true),
	SHAPE("reduce_scatter", .reduces = true, .send_per_rank = true, .tours = 1),
	SHAPE("all_to_all", .send_per_rank = true, .recv_per_rank = true, .tours = 1),
	SHAPE("gather", .recv_per_rank = true, .root_receives = true, .tours = 1),
	SHAPE("scatter", .send_per_rank = true, .root_sends = true, .tours = 1),
	SHAPE("send_recv", .from = previous, .tours = 1),
};

static int32_t previous(int32_t rank, int32_t nranks)
{
	return (rank + nranks - 1) % nranks;
}

static struct lab_call_args call[RANKS];
static int32_t caller;

static ncclResult_t record(const struct lab_call_args *a)
{
	call[caller] = *a;
	return ncclSuccess;
}

static int32_t before[RANKS][2][BYTES], memory[RANKS][2][BYTES]; /* send and recv */

/* The value that a rank's call reads at element k of its send buffer. */
static int32_t input(int32_t rank, uint64_t k)
{
	return (&before[rank][0][0])[(const int32_t *)call[rank].send - &memory[rank][0][0] +
				     (ptrdiff_t)k];
}

static int32_t sum_of_inputs(uint64_t k)
{
	uint32_t sum = 0;

	for (int32_t r = 0; r < RANKS; r++)
		sum += (uint32_t)input(r, k);
	return (int32_t)sum;
}

/* The definitions, for rank r. */
static void carry_out(const char *name, int32_t r)
{
	int32_t *out = call[r].recv;
	uint64_t n = call[r].count;
	bool root = r == ROOT;

	for (uint64_t k = 0; k < n; k++)
		if (!strcmp(name, "all_reduce") || (!strcmp(name, "reduce") && root))
			out[k] = sum_of_inputs(k);
		else if (!strcmp(name, "reduce_scatter"))
			out[k] = sum_of_inputs((uint64_t)r * n + k);
		else if (!strcmp(name, "broadcast"))
			out[k] = input(ROOT, k);
		else if (!strcmp(name, "send_recv"))
			out[k] = input((r + RANKS - 1) % RANKS, k);
		else if (!strcmp(name, "scatter"))
			out[k] = input(ROOT, (uint64_t)r * n + k);
	for (uint64_t b = 0; b < RANKS; b++)
		for (uint64_t k = 0; k < n; k++)
			if (!strcmp(name, "all_gather") || (!strcmp(name, "gather") && root))
				out[b * n + k] = input((int32_t)b, k);
			else if (!strcmp(name, "all_to_all"))
				out[b * n + k] = input((int32_t)b, (uint64_t)r * n + k);
}

static int32_t *buffer(const struct lab_row *row, int32_t rank, enum lab_side side)
{
	return memory[rank][row->in_place || side == LAB_RECV] + GUARD;
}

static void fill(const struct lab_row *row)
{
	struct lab_span s;

	memset(memory, LAB_UNWRITTEN, sizeof memory);
	for (int32_t r = 0; r < RANKS; r++)
		for (uint32_t k = 0; lab_row_span(row, LAB_SEND, r, k, &s); k++)
			payload_fill(&row->payload, r, s.first, s.n,
				     buffer(row, r, LAB_SEND) + s.at);
}

static void run(const struct lab_row *row)
{
	fill(row);
	for (uint32_t part = 0; part < row->parts; part++) {
		memcpy(before, memory, sizeof before);
		for (caller = 0; caller < RANKS; caller++)
			lab_row_start(row, part, caller, (uint8_t *)buffer(row, caller, LAB_SEND),
				      (uint8_t *)buffer(row, caller, LAB_RECV), NULL, NULL);
		for (int32_t r = 0; r < RANKS; r++)
			carry_out(row->collective->name, r);
	}
}

/* Wrong elements of a rank, and the first one: the same with and without the whole reduced
 * result. */
static uint64_t wrong(const struct lab_row *row, int32_t rank, uint64_t *where)
{
	static int32_t reduced[BYTES], scratch[BYTES];
	struct lab_span s;
	uint64_t n = 0, covered = 0, here = 0, first = 0;

	if (row->collective->reduces)
		lab_row_reduce(row, reduced);
	for (uint32_t k = 0; lab_row_span(row, LAB_RECV, rank, k, &s); k++) {
		uint64_t bad =
			lab_row_compare(row, rank, s.first, s.n, buffer(row, rank, LAB_RECV) + s.at,
					reduced, scratch, &here);
		ck_assert_uint_eq(lab_row_compare(row, rank, s.first, s.n,
						  buffer(row, rank, LAB_RECV) + s.at, NULL, scratch,
						  &first),
				  bad);
		ck_assert(!bad || first == here);
		if (bad && !n)
			*where = here;
		n += bad;
		covered += s.n;
	}
	ck_assert_uint_eq(covered, lab_row_elements(row, LAB_RECV));
	return n;
}

static struct lab_row make(const struct lab_collective *c, uint32_t parts, bool in_place)
{
	struct payload p = {.type = ncclInt32, .op = ncclSum, .nranks = RANKS, .salt = 3};
	struct lab_row row = lab_row_make(c, &p, ROOT, BYTES, parts);

	row.in_place = in_place;
	return row;
}

START_TEST(every_shape_is_right_in_and_out_of_place_in_any_number_of_parts)
{
	static const uint32_t parts[] = {1, 2, 3, 36, 200};
	uint64_t where;

	for (size_t i = 0; i < 2 * ARRAY_LEN(parts); i++) {
		struct lab_row row = make(&shapes[_i], parts[i / 2], i % 2);

		run(&row);
		for (int32_t r = 0; r < RANKS; r++)
			ck_assert_msg(wrong(&row, r, &where) == 0, "%s, %u parts, rank %d",
				      shapes[_i].name, row.parts, r);
	}
}
END_TEST

START_TEST(nothing_beside_the_buffers_is_passed)
{
	struct lab_row row = make(&shapes[_i], 3, true);

	run(&row);
	ck_assert_uint_le(row.bytes, BYTES);
	ck_assert_uint_gt(row.bytes + RANKS * sizeof(int32_t), BYTES);
	for (int32_t r = 0; r < RANKS; r++)
		for (uint64_t k = 0; k < GUARD; k++) {
			ck_assert_int_eq(memory[r][1][k], (int32_t)0xeeeeeeee);
			ck_assert_int_eq(memory[r][1][GUARD + lab_row_most(&row) + k],
					 (int32_t)0xeeeeeeee);
		}
}
END_TEST

START_TEST(a_changed_element_is_found_on_its_rank)
{
	for (int i = 0; i < 2; i++) {
		struct lab_row row = make(&shapes[_i], 1, i);
		uint64_t where = 0;
		struct lab_span s;

		run(&row);
		ck_assert(lab_row_span(&row, LAB_RECV, 2, 0, &s));
		buffer(&row, 2, LAB_RECV)[s.at + s.n / 2] ^= 1 << 17;
		ck_assert_uint_eq(wrong(&row, 2, &where), 1);
		ck_assert_uint_eq(where, s.n / 2);
		ck_assert_uint_eq(wrong(&row, 1, &where), 0);
	}
}
END_TEST

static const struct lab_collective *shape(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
		if (!strcmp(shapes[i].name, name))
			return &shapes[i];
	ck_abort_msg("no shape %s", name);
}

/* Puts rank 1's element k in the place of others, and asks about rank 1's. */
static void explained(const struct lab_row *row, uint64_t at, uint64_t n, const char *expected)
{
	char why[200];

	lab_row_explain(row, 1, at, n, buffer(row, 1, LAB_RECV) + at, why, sizeof why);
	ck_assert_msg(strstr(why, expected) != NULL, "'%s' without '%s'", why, expected);
}

START_TEST(a_block_with_another_ranks_input_is_explained)
{
	struct lab_row row = make(shape("all_gather"), 1, false);
	uint64_t n = row.count;
	int32_t *out;

	run(&row);
	out = buffer(&row, 1, LAB_RECV);
	memcpy(out + 2 * n, out + 4 * n, n * sizeof *out);
	explained(&row, 2 * n, n, "block of rank 2 holds rank 4's input");
	memset(out + 3 * n, LAB_UNWRITTEN, n * sizeof *out);
	explained(&row, 3 * n, n, "block of rank 3 was never written");
	memset(out, 0x55, n * sizeof *out);
	explained(&row, 0, n, "block of rank 0 holds no rank's input");
}
END_TEST

START_TEST(a_wrong_block_of_a_reduce_scatter_is_explained)
{
	struct lab_row row = make(shape("reduce_scatter"), 1, false);
	uint64_t n = row.count;
	int32_t *out;

	run(&row);
	out = buffer(&row, 1, LAB_RECV);
	memcpy(out, buffer(&row, 3, LAB_RECV), n * sizeof *out);
	explained(&row, 0, n, "block of rank 1 holds the result of rank 3's block");
	run(&row);
	for (uint64_t k = 5; k < 9; k++)
		out[k] = (int32_t)((uint32_t)out[k] - (uint32_t)buffer(&row, 2, LAB_SEND)[n + k]);
	explained(&row, 5, n - 5, "contribution of rank 2 is missing");
}
END_TEST

START_TEST(a_result_on_a_rank_that_gets_none_is_explained)
{
	struct lab_row row = make(shape("reduce"), 1, true);

	run(&row);
	buffer(&row, 1, LAB_RECV)[0]++;
	explained(&row, 0, 1, "rank 1 is not the root, 3, but its buffer was written");
}
END_TEST

/* A block for each rank has as many elements as the ranks are apart; the rest stays as it was. */
START_TEST(shares_of_blocks_arrive_and_nothing_beside_them)
{
	struct lab_collective c = *lab_collective_find("alltoallv", 9);
	uint64_t where = 0;

	c.start = record;
	struct lab_row row = make(&c, 1, false);
	int32_t *out = buffer(&row, 1, LAB_RECV);
	uint64_t n = row.count;

	run(&row);
	for (uint64_t b = 0; b < RANKS; b++)
		for (uint64_t k = 0; k < n * ((1 + RANKS - b) % RANKS) / (RANKS - 1); k++)
			out[b * n + k] = input((int32_t)b, n + k);
	ck_assert_uint_eq(wrong(&row, 1, &where), 0);
	out[n] = 7; /* rank 1 sends itself nothing */
	ck_assert_uint_eq(wrong(&row, 1, &where), 1);
	ck_assert_uint_eq(where, n);
	explained(&row, n, 1, "rank 1 sends less than that, but the buffer was written");
}
END_TEST

START_TEST(factors_are_those_of_nccl_tests)
{
	ck_assert_double_eq_tol(lab_collective_bus_factor(shape("send_recv"), 8), 1, 1e-12);
	ck_assert_double_eq_tol(lab_collective_bus_factor(shape("all_reduce"), 8), 1.75, 1e-12);
	ck_assert_double_eq_tol(lab_collective_bus_factor(shape("all_gather"), 8), 0.875, 1e-12);
	ck_assert_double_eq_tol(lab_collective_bus_factor(shape("broadcast"), 8), 1, 1e-12);
}
END_TEST

START_TEST(names_are_found_and_the_nearest_is_known)
{
	for (uint32_t i = 0; i < lab_collectives_n; i++) {
		const struct lab_collective *c = &lab_collectives[i];

		ck_assert_ptr_eq(lab_collective_find(c->name, strlen(c->name)), c);
		ck_assert_ptr_nonnull(strstr(lab_collective_names(), c->name));
	}
	ck_assert_str_eq(lab_collective_find("sendrecv", 8)->name, "send_recv");
	ck_assert_str_eq(lab_collective_find("alltoall", 8)->name, "all_to_all");
	ck_assert_ptr_null(lab_collective_find("all_reduc", 9));
	ck_assert_str_eq(lab_collective_nearest("allreduce", 9), "all_reduce");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("collective");
	TCase *c = tcase_create("collective");
	int n = (int)ARRAY_LEN(shapes);

	tcase_add_loop_test(c, every_shape_is_right_in_and_out_of_place_in_any_number_of_parts, 0,
			    n);
	tcase_add_loop_test(c, nothing_beside_the_buffers_is_passed, 0, n);
	tcase_add_loop_test(c, a_changed_element_is_found_on_its_rank, 0, n);
	tcase_add_test(c, a_block_with_another_ranks_input_is_explained);
	tcase_add_test(c, a_wrong_block_of_a_reduce_scatter_is_explained);
	tcase_add_test(c, a_result_on_a_rank_that_gets_none_is_explained);
	tcase_add_test(c, shares_of_blocks_arrive_and_nothing_beside_them);
	tcase_add_test(c, factors_are_those_of_nccl_tests);
	tcase_add_test(c, names_are_found_and_the_nearest_is_known);
	suite_add_tcase(s, c);
	return suite_run(s);
}
