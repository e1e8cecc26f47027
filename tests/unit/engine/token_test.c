/* SPDX-License-Identifier: BSD-3-Clause */
/* Words, numbers and "did you mean" of texts that people write. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "core/base/word.h"
#include "sim/engine/base/token.h"
#include "tests/suite.h"

static struct token token_of(const char *text)
{
	return (struct token){text, strlen(text)};
}

START_TEST(words_are_split_at_the_separators_that_the_caller_names)
{
	struct token rest = token_of(" a=1,\tb  "), word, key, value;

	ck_assert(token_next(&rest, " \t,", &word) && token_is(word, "a=1"));
	ck_assert(token_split(word, &key, &value) && token_is(key, "a") && token_is(value, "1"));
	ck_assert(token_next(&rest, " \t,", &word) && token_is(word, "b"));
	ck_assert(!token_split(word, &key, &value));
	ck_assert(!token_is(word, "bb") && !token_is(word, ""));
	ck_assert(!token_next(&rest, " \t,", &word) && word.n == 0 && rest.n == 0);
	rest = token_of("a,b c");
	ck_assert(token_next(&rest, " ", &word) && token_is(word, "a,b"));
}
END_TEST

START_TEST(a_word_ends_where_its_text_ends_and_a_zero_byte_separates_nothing)
{
	struct token rest = {"abcdef", 3}, word;

	ck_assert(token_next(&rest, " ", &word) && token_is(word, "abc"));
	rest = (struct token){"a\0b", 3};
	ck_assert(token_next(&rest, " ", &word) && word.n == 3);
}
END_TEST

static const struct {
	const char *text;
	bool ok;
	uint64_t value;
} numbers[] = {
	{"0", true, 0},
	{"17", true, 17},
	{"0x1F", true, 31},
	{"18446744073709551615", true, UINT64_MAX},
	{"18446744073709551616", false, 0},
	{"", false, 0},
	{"-1", false, 0},
	{" 1", false, 0},
	{"1k", false, 0},
	{"0x", false, 0},
	{"00000000000000000000000000000001", false, 0}, /* longer than any number */
};

START_TEST(a_number_is_the_whole_token)
{
	uint64_t value;

	ck_assert_int_eq(token_number(token_of(numbers[_i].text), &value), numbers[_i].ok);
	if (numbers[_i].ok)
		ck_assert_uint_eq(value, numbers[_i].value);
}
END_TEST

START_TEST(digits_leave_the_unit)
{
	struct token rest;
	uint64_t value;

	ck_assert(token_digits(token_of("50us"), &value, &rest) && token_is(rest, "us"));
	ck_assert_uint_eq(value, 50);
	ck_assert(!token_digits(token_of("us"), &value, &rest));
	ck_assert(token_digits(token_of("9223372036854775799"), &value, &rest) && !rest.n);
	ck_assert(!token_digits(token_of("99999999999999999999"), &value, &rest));
}
END_TEST

START_TEST(the_nearest_names_come_first_and_the_first_of_equals)
{
	static const char *const names[] = {"send", "recv", "reduce", "sand", NULL};
	struct word_nearest best = {.name = {NULL}};

	ck_assert_str_eq(word_nearest("snd", 3, names), "send");
	ck_assert_str_eq(word_nearest("redoce", 6, names), "reduce");
	for (int i = 0; names[i]; i++)
		word_nearest_try(&best, "snd", 3, names[i]);
	ck_assert_str_eq(word_nearest_text(&best), "send, sand");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("token");
	TCase *t = tcase_create("token");

	tcase_add_test(t, words_are_split_at_the_separators_that_the_caller_names);
	tcase_add_test(t, a_word_ends_where_its_text_ends_and_a_zero_byte_separates_nothing);
	tcase_add_loop_test(t, a_number_is_the_whole_token, 0, sizeof numbers / sizeof numbers[0]);
	tcase_add_test(t, digits_leave_the_unit);
	tcase_add_test(t, the_nearest_names_come_first_and_the_first_of_equals);
	suite_add_tcase(s, t);
	return suite_run(s);
}
