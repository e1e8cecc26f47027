/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports of RAS about jobs in which all processes answer. */
#include <check.h>
#include <stdio.h>

#include "tests/sim/ras/ras_query.h"
#include "tests/suite.h"

#define STATUS_COUNT 64

static const char *const status_env[] = {"NCCL_RAS_ENABLE=1", NULL};

struct status_case {
	const char *lines;
	char text[RAS_TEST_BYTES];
};

struct status_rank {
	ncclComm_t comm;
	cudaStream_t stream;
	int32_t *mem;
};

static void status_open(struct status_rank *r, int32_t rank, int32_t nranks)
{
	comm_buffers(rank, (void **)&r->mem, &r->stream, STATUS_COUNT * 4);
	r->comm = comm_open(rank, nranks, ranks_id());
	comm_sum(r->comm, rank, nranks, r->mem, r->stream, STATUS_COUNT);
}

static void status_close(struct status_rank *r)
{
	EXPECT(cudaStreamSynchronize(r->stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(r->comm));
	comm_buffers_free(r->mem, r->stream);
}

/* ---- a job that runs ------------------------------------------------------------------------ */

static void runs_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct status_case *c = arg;
	struct status_rank r = {.mem = NULL};

	status_open(&r, rank, nranks);
	ranks_barrier();
	if (rank == 0)
		ras_test_query(c->lines, c->text);
	ranks_barrier();
	status_close(&r);
}

static struct ranks_config status_world(uint64_t seed)
{
	return (struct ranks_config){.hosts = 2, .per_host = 2, .seed = seed, .env = status_env};
}

START_TEST(all_processes_of_a_job_answer)
{
	struct ranks_config w = status_world(1);
	struct status_case c = {.lines = "CLIENT PROTOCOL 2\nSTATUS\n"};

	ranks_run(&w, runs_rank, &c);
	EXPECT_TEXT(c.text, "SERVER PROTOCOL 2\n");
	EXPECT_TEXT(c.text, "\n      2          2            1          4        4\n");
	EXPECT_TEXT(c.text,
		    "    0         1         2         2         4         4   RUNNING      OK\n");
	EXPECT_NO_TEXT(c.text, "MISMATCH");
	EXPECT_NO_TEXT(c.text, "INCOMPLETE");
}
END_TEST

START_TEST(one_process_has_all_ranks_of_its_host)
{
	struct ranks_config w = status_world(1);
	struct status_case c = {.lines = "verbose status\r\n"};

	w.per_proc = 2;
	ranks_run(&w, runs_rank, &c);
	EXPECT_TEXT(c.text, "\n      2          1            2          2        4\n");
	EXPECT_TEXT(c.text, "   RUNNING      OK\n");
}
END_TEST

START_TEST(engine_threads_reports_too)
{
	struct ranks_config w = status_world(1);
	struct status_case c = {.lines = "STATUS\n"};

	w.engine = SIM_ENGINE_THREADS;
	ranks_run(&w, runs_rank, &c);
	EXPECT_TEXT(c.text, "   RUNNING      OK\n");
}
END_TEST

START_TEST(every_order_of_events_gives_the_report)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct ranks_config w = status_world(seed);
		struct status_case c = {.lines = "STATUS\n"};

		ranks_run(&w, runs_rank, &c);
		EXPECT_TEXT(c.text, "   RUNNING      OK\n");
	}
}
END_TEST

/* ---- a rank that does not call -------------------------------------------------------------- */

static void absent_rank(int32_t rank, int32_t nranks, void *arg)
{
	struct status_case *c = arg;
	struct status_rank r = {.mem = NULL};

	status_open(&r, rank, nranks);
	if (rank != nranks - 1)
		EXPECT_NCCL(ncclSuccess, ncclAllReduce(r.mem, r.mem, STATUS_COUNT, ncclInt32,
						       ncclSum, r.comm, r.stream));
	os_sleep_ns(50000000);
	ranks_barrier();
	if (rank == 0)
		ras_test_query(c->lines, c->text);
	ranks_barrier();
	if (rank == nranks - 1)
		EXPECT_NCCL(ncclSuccess, ncclAllReduce(r.mem, r.mem, STATUS_COUNT, ncclInt32,
						       ncclSum, r.comm, r.stream));
	status_close(&r);
}

START_TEST(status_names_the_ranks_whose_counts_differ)
{
	struct ranks_config w = status_world(3);
	struct status_case c = {.lines = "STATUS\n"};

	ranks_run(&w, absent_rank, &c);
	EXPECT_TEXT(c.text, "   RUNNING  MISMATCH\n");
	EXPECT_TEXT(c.text, "  Communicator ranks have different AllReduce operation counts\n"
			    "  3 ranks have launched up to operation 2\n"
			    "  Rank 3 has launched up to operation 1 -- GPU 1 managed by process ");
	EXPECT_TEXT(c.text, " on node 10.0.1.1\n");
}
END_TEST

START_TEST(dump_names_pending_operations_and_the_absent_rank)
{
	struct ranks_config w = status_world(3);
	struct status_case c = {.lines = "DUMP\n"};

	ranks_run(&w, absent_rank, &c);
	EXPECT(strncmp(c.text, "Causes\n======\n\n#0-0 (", 21) == 0);
	EXPECT_TEXT(c.text, "): rank 3 has not called ncclAllReduce of 64 int32 sum (call 1); "
			    "ranks 0-2 wait\n\nNCCL version ");
	EXPECT_TEXT(c.text, "  Rank 3 has not launched AllReduce 2, which 3 ranks have launched -- "
			    "GPU 1 managed by process ");
	EXPECT_TEXT(c.text, " rank 0 of 4: 2 collectives launched, the last (all_reduce) 0.05");
	EXPECT_TEXT(c.text, " s ago; its kernels run\n");
	EXPECT_TEXT(c.text, " rank 3 of 4: 1 collectives launched");
	EXPECT_TEXT(c.text, ": operation 1 since 0.05");
	EXPECT_TEXT(c.text, "      waits for ");
	if (getenv("RAS_TEST_PRINT"))
		fputs(c.text, stderr);
}
END_TEST

/* ---- JSON ----------------------------------------------------------------------------------- */

/* Gives the text to a Python program, which must accept it. */
static void status_python(const char *text, const char *program)
{
	char command[1024];
	FILE *python;

	snprintf(command, sizeof command, "python3 -c '%s'", program);
	python = popen(command, "w");
	EXPECT(python);
	fputs(text, python);
	if (pclose(python) != 0) {
		fprintf(stderr, "Python refuses:\n%s\n", text);
		abort();
	}
}

START_TEST(python_reads_the_report_in_json)
{
	struct ranks_config w = status_world(3);
	struct status_case c = {.lines = "SET FORMAT json\nDUMP\n"};

	ranks_run(&w, absent_rank, &c);
	EXPECT(strncmp(c.text, "OK\n", 3) == 0);
	status_python(c.text + 3,
		      "import json, sys; j = json.load(sys.stdin); c = j[\"communicators\"]; "
		      "assert j[\"communicators_count\"] == len(c) == 1; "
		      "assert [r[\"rank\"] for r in c[0][\"ranks\"]] == [0, 1, 2, 3]; "
		      "assert [r[\"collective_counts\"][\"AllReduce\"] for r in c[0][\"ranks\"]] "
		      "== [2, 2, 2, 1]; assert c[0][\"missing_ranks\"] == []; "
		      "assert c[0][\"ranks\"][3][\"host\"] == \"10.0.1.1\"; "
		      "assert j[\"ras\"][\"timeouts_count\"] == 0; "
		      "assert \"rank 3 has not called ncclAllReduce\" in j[\"causes\"][0]; "
		      "assert len(j[\"pending\"]) == 4 and j[\"pending\"][0][\"lines\"]; "
		      "assert j[\"timestamp\"].startswith(\"2026-01-01 \")");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ras_status");
	TCase *t = tcase_create("status");

	tcase_add_test(t, all_processes_of_a_job_answer);
	tcase_add_test(t, one_process_has_all_ranks_of_its_host);
	tcase_add_test(t, engine_threads_reports_too);
	tcase_add_test(t, every_order_of_events_gives_the_report);
	tcase_add_test(t, status_names_the_ranks_whose_counts_differ);
	tcase_add_test(t, dump_names_pending_operations_and_the_absent_rank);
	tcase_add_test(t, python_reads_the_report_in_json);
	suite_add_tcase(s, t);
	return suite_run(s);
}
