/* SPDX-License-Identifier: BSD-3-Clause */
/* The trace file: slices, tracks, and a file of which only the end is kept. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/engine/sim.h"
#include "tests/suite.h"

static char path[] = "/tmp/timeline_test.XXXXXX";

static void trace_path_make(void)
{
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd);
}

/* Runs it with a trace file; returns what is in the file. */
static char *traced(size_t last_bytes, bool detail, void (*fn)(void *))
{
	struct sim_config c = {.engine = SIM_ENGINE_SIM, .strategy = SIM_FIFO};
	char *text = calloc(1, 1 << 24);
	FILE *f;

	trace_path_make();
	c.trace_path = path;
	c.trace_last_bytes = last_bytes;
	c.trace_detail = detail;
	ck_assert_int_eq(sim_start(&c), 0);
	ck_assert(os_tracing());
	ck_assert_int_eq(sim_run(fn, NULL), SIM_PASS);
	sim_stop();
	ck_assert(!os_tracing());
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_lt(fread(text, 1, 1 << 24, f), 1 << 24);
	fclose(f);
	unlink(path);
	return text;
}

static void slices(void *arg)
{
	(void)arg;
	os_trace_begin(&(struct os_trace_slice){
		.name = "outer", .arg = {{"count", 7, NULL}, {"text", 0, "a \"word\""}}});
	os_trace_span(&(struct os_trace_slice){.name = "inner", .flow = 5, .flow_out = true},
		      os_now_ns());
	os_trace_end(&(struct os_trace_slice){.name = "outer", .arg = {{"result", 3, NULL}}});
}

START_TEST(a_slice_has_its_arguments_by_name_and_its_flow)
{
	char *text = traced(0, false, slices);

	ck_assert_ptr_nonnull(strstr(text, "\"name\":\"outer\",\"args\":{\"count\":7,"
					   "\"text\":\"a \\\"word\\\"\"}}"));
	ck_assert_ptr_nonnull(strstr(text, "\"name\":\"inner\",\"dur\":0,\"bind_id\":5,"
					   "\"flow_out\":true}"));
	ck_assert_ptr_nonnull(strstr(text, "\"name\":\"outer\",\"args\":{\"result\":3}}"));
	free(text);
}
END_TEST

static void records(void *arg)
{
	(void)arg;
	os_trace("qp.create", 3ull << 24 | 0x101, 16, 32);
	os_trace("cqe", 3ull << 24 | 0x101, 0, 64);
	os_trace("a kind of this test", 1, 2, 3);
}

START_TEST(a_record_shows_its_numbers_by_name)
{
	char *text = traced(0, false, records);

	ck_assert_ptr_nonnull(strstr(text,
				     "\"name\":\"qp.create\",\"s\":\"t\",\"args\":{\"port\":3,"
				     "\"qp\":257,\"send requests\":16,"
				     "\"receive requests\":32}}"));
	ck_assert_ptr_nonnull(strstr(text, "\"args\":{\"a\":1,\"b\":2,\"c\":3}}"));
	ck_assert_ptr_null(strstr(text, "\"cqe\""));
	free(text);
}
END_TEST

START_TEST(a_detailed_trace_shows_frequent_records_too)
{
	char *text = traced(0, true, records);

	ck_assert_ptr_nonnull(strstr(text, "\"name\":\"cqe\""));
	free(text);
}
END_TEST

static void many_slices(void *arg)
{
	struct sim_track port = {0};

	(void)arg;
	sim_track_open(&port, SIM_TRACK_HOST, 4, "port of the test");
	for (int i = 0; i < 10000; i++) {
		os_trace_span(&(struct os_trace_slice){.name = "of the task"}, os_now_ns());
		sim_trace_span(&port, &(struct os_trace_slice){.name = "of the port"}, os_now_ns(),
			       0);
	}
}

START_TEST(a_file_that_keeps_its_end_names_every_track)
{
	enum { KEEP = 100000 };
	char *text = traced(KEEP, false, many_slices);

	ck_assert_uint_lt(strlen(text), 4 * KEEP);
	ck_assert_int_eq(strncmp(text, "[\n{", 3), 0);
	ck_assert_str_eq(text + strlen(text) - 3, "\n]\n");
	ck_assert_ptr_nonnull(strstr(text, "\"args\":{\"name\":\"port of the test\"}"));
	ck_assert_ptr_nonnull(strstr(text, "\"args\":{\"name\":\"host 4\"}"));
	ck_assert_ptr_nonnull(strstr(text, "\"args\":{\"name\":\"main\"}"));
	free(text);
}
END_TEST

START_TEST(a_flow_is_the_same_on_both_ends_and_differs_from_its_neighbours)
{
	uint64_t flow = os_trace_flow(7, 1, 2, 3, 4);

	ck_assert_uint_eq(flow, os_trace_flow(7, 1, 2, 3, 4));
	ck_assert_uint_ne(flow, os_trace_flow(8, 1, 2, 3, 4));
	ck_assert_uint_ne(flow, os_trace_flow(7, 2, 1, 3, 4));
	ck_assert_uint_ne(flow, os_trace_flow(7, 1, 2, 4, 4));
	ck_assert_uint_ne(flow, os_trace_flow(7, 1, 2, 3, 5));
	ck_assert_uint_ne(flow, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("timeline");
	TCase *t = tcase_create("timeline");

	tcase_add_test(t, a_slice_has_its_arguments_by_name_and_its_flow);
	tcase_add_test(t, a_record_shows_its_numbers_by_name);
	tcase_add_test(t, a_detailed_trace_shows_frequent_records_too);
	tcase_add_test(t, a_file_that_keeps_its_end_names_every_track);
	tcase_add_test(t, a_flow_is_the_same_on_both_ends_and_differs_from_its_neighbours);
	suite_add_tcase(s, t);
	return suite_run(s);
}
