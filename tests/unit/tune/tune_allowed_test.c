/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL_ALGO and NCCL_PROTO: which programs their texts allow, and how errors name what is wrong. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/device/layout/steps.h"
#include "core/tune/allowed.h"
#include "tests/suite.h"

static char error[1024];

static uint64_t allowed(const char *algo, const char *proto)
{
	uint64_t programs;

	ck_assert_msg(tune_allowed_parse(algo, proto, &programs, error, sizeof error), "%s %s: %s",
		      algo ? algo : "-", proto ? proto : "-", error);
	return programs;
}

/* The programs of a collective (-1: of all) with that algorithm and protocol (NULL: any). */
static uint64_t programs_of(int func, const char *algo, const char *proto)
{
	uint64_t programs = 0;

	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		if ((func < 0 || (int)steps_program(p).func == func) &&
		    (!algo || !strcasecmp(tune_algo_name(p), algo)) &&
		    (!proto || !strcasecmp(tune_proto_name(p), proto)))
			programs |= 1ull << p;
	return programs;
}

START_TEST(every_program_has_a_name)
{
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++) {
		ck_assert_str_ne(tune_algo_name(p), "?");
		ck_assert_str_ne(tune_proto_name(p), "?");
	}
}
END_TEST

START_TEST(without_a_list_all_programs_are_allowed)
{
	ck_assert_uint_eq(allowed(NULL, NULL), TUNE_ALL_PROGRAMS);
	ck_assert_uint_eq(allowed("", ""), TUNE_ALL_PROGRAMS);
	ck_assert_uint_eq(allowed("^", "^"), TUNE_ALL_PROGRAMS);
}
END_TEST

START_TEST(a_list_is_for_all_collectives_or_for_one)
{
	const uint64_t ring = programs_of(-1, "Ring", NULL),
		       simple = programs_of(-1, NULL, "Simple");
	const uint64_t others = TUNE_ALL_PROGRAMS & ~programs_of(DEV_ALL_REDUCE, NULL, NULL);

	ck_assert_uint_eq(allowed("ring", NULL), ring);
	ck_assert_uint_eq(allowed("RING,Tree", "simple"),
			  simple & (ring | programs_of(-1, "Tree", NULL)));
	ck_assert_uint_eq(allowed("tree;allreduce:ring", NULL),
			  (others & programs_of(-1, "Tree", NULL)) |
				  programs_of(DEV_ALL_REDUCE, "Ring", NULL));
	ck_assert_uint_eq(allowed("all_reduce:ring", NULL),
			  others | programs_of(DEV_ALL_REDUCE, "Ring", NULL));
	/* the last list of a collective counts */
	ck_assert_uint_eq(allowed("AllReduce:tree;AllReduce:ring", NULL),
			  others | programs_of(DEV_ALL_REDUCE, "Ring", NULL));
	ck_assert_uint_eq(
		allowed(NULL, "LL128;ReduceScatter:Simple,,;"),
		(programs_of(-1, NULL, "LL128") & ~programs_of(DEV_REDUCE_SCATTER, NULL, NULL)) |
			programs_of(DEV_REDUCE_SCATTER, NULL, "Simple"));
}
END_TEST

START_TEST(exclusion_allows_all_others)
{
	ck_assert_uint_eq(allowed(NULL, "^LL128"),
			  TUNE_ALL_PROGRAMS & ~programs_of(-1, NULL, "LL128"));
	ck_assert_uint_eq(allowed(NULL, "^LL,LL128"), programs_of(-1, NULL, "Simple"));
	ck_assert_uint_eq(allowed("broadcast:^tree,nvls", NULL),
			  TUNE_ALL_PROGRAMS & ~programs_of(DEV_BROADCAST, "Tree", NULL) &
				  ~programs_of(DEV_BROADCAST, "NVLS", NULL));
}
END_TEST

/* Each row alone can be demanded. */
START_TEST(every_program_can_be_forced)
{
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++) {
		const char *algo = tune_algo_name(p), *proto = tune_proto_name(p);
		int func = (int)steps_program(p).func;
		uint64_t got = allowed(algo, proto);

		ck_assert_uint_eq(got, programs_of(-1, algo, proto));
		ck_assert_uint_eq(got & programs_of(func, NULL, NULL), 1ull << p);
	}
}
END_TEST

START_TEST(what_is_wrong_is_named)
{
	static const struct {
		const char *algo, *proto, *named[4];
	} wrong[] = {
		{"rin", NULL, {"NCCL_ALGO=rin:", "algorithm 'rin'", "nearest Ring", "Tree, Ring"}},
		{NULL,
		 "ll,sample",
		 {"NCCL_PROTO=ll,sample:", "protocol 'sample'", "nearest Simple"}},
		{"allredux:ring", NULL, {"collective 'allredux'", "nearest all_reduce"}},
		{":ring", NULL, {"collective ''", "broadcast"}},
		{"ring;ring", NULL, {"'ring'", "a collective and a colon"}},
		{";", NULL, {"NCCL_ALGO=;:", "a list of names"}},
		{",", NULL, {"','", "names with commas"}},
		{"reduce:", NULL, {"'reduce:'", "names with commas"}},
		{"ring ", NULL, {"'ring '"}},
		{"ring;reduce:ring:ring", NULL, {"'ring:ring'"}},
		{"NVLSTree", NULL, {"NCCL_ALGO=NVLSTree allows no program;", "Ring/Simple"}},
		{"ring;broadcast:pat", NULL, {"allows no program for broadcast", "Ring/Simple"}},
		{"PAT;allgather:ring",
		 "allgather:^Simple,LL,LL128",
		 {"NCCL_ALGO=PAT;allgather:ring and NCCL_PROTO=allgather:", "allow no program"}},
	};

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		uint64_t programs = 1;

		ck_assert_msg(!tune_allowed_parse(wrong[i].algo, wrong[i].proto, &programs, error,
						  sizeof error),
			      "row %zu is accepted", i);
		for (int k = 0; k < 4 && wrong[i].named[k]; k++)
			ck_assert_msg(strstr(error, wrong[i].named[k]), "row %zu: no '%s' in: %s",
				      i, wrong[i].named[k], error);
	}
}
END_TEST

/* An error of any length fits where it goes. */
START_TEST(long_texts_are_cut)
{
	char text[4096], small[16];
	uint64_t programs;

	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	ck_assert(!tune_allowed_parse(text, NULL, &programs, error, sizeof error));
	ck_assert_uint_lt(strlen(error), sizeof error - 1);
	ck_assert_ptr_nonnull(strstr(error, "expected one of: "));
	ck_assert(!tune_allowed_parse(text, NULL, &programs, small, sizeof small));
	ck_assert_uint_eq(strlen(small), sizeof small - 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tune");
	TCase *t = tcase_create("allowed");

	tcase_add_test(t, every_program_has_a_name);
	tcase_add_test(t, without_a_list_all_programs_are_allowed);
	tcase_add_test(t, a_list_is_for_all_collectives_or_for_one);
	tcase_add_test(t, exclusion_allows_all_others);
	tcase_add_test(t, every_program_can_be_forced);
	tcase_add_test(t, what_is_wrong_is_named);
	tcase_add_test(t, long_texts_are_cut);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
