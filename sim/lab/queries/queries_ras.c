/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to RAS, by the first rank's process: while the run goes on, from a task of its own, and
 * when all ranks meet after the series. Every request has an answer that is whole. Without faults
 * all processes answer, and when ranks meet the report has the communicators of the run and no
 * others.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine/sim.h"
#include "sim/lab/queries/queries.h"

#define RAS_PORT      28028
#define RAS_LIMIT_NS  300000000000ull
#define RAS_SHORT_S   60 /* a request with less time may miss a process */
#define RAS_PAUSE_NS  1000000ull
#define RAS_MONITOR_S 2u

struct ras_request {
	struct queries *q;
	int fd;
	char lines[160];
	uint32_t answers; /* lines before the report */
	bool json, hurried;
	char *text;
	size_t bytes;
};

/* ---- the connection -------------------------------------------------------------------------- */

static bool ras_wait(const struct ras_request *r, uint64_t seq)
{
	const struct wait w = {
		.on = os_socket_object(r->fd),
		.want = seq,
		.mask = WAIT_MASK_ALL,
		.kind = WAIT_OBJECT,
		.why = "harness: the answer of RAS",
		.from = {.rank = -1, .channel = -1, .step = -1, .object = "RAS"},
		.deadline_ns = os_now_ns() + RAS_LIMIT_NS,
	};

	return os_wait_one(&w, &r->q->me->run->failed) == 0;
}

static bool ras_connect_to(struct ras_request *r, const struct os_addr *to)
{
	int e = os_connect(to, &r->fd);
	bool open = e == 0;

	while (!e) {
		uint64_t seq = os_event_seq(os_socket_object(r->fd));

		e = os_connected(r->fd);
		if (!e)
			return true;
		e = e == EAGAIN && ras_wait(r, seq) ? 0 : ECONNREFUSED;
	}
	if (open)
		os_close(r->fd);
	return false;
}

/* The host's loopback address, of the family that the run has. */
static bool ras_connect(struct ras_request *r)
{
	const struct os_addr four = {.family = 4, .port = RAS_PORT, .ip = {127, 0, 0, 1}};
	const struct os_addr six = {.family = 6, .port = RAS_PORT, .ip = {[15] = 1}};

	return ras_connect_to(r, &four) || ras_connect_to(r, &six);
}

static bool ras_send(struct ras_request *r)
{
	size_t at = 0, n = strlen(r->lines), done;

	while (at < n) {
		uint64_t seq = os_event_seq(os_socket_object(r->fd));
		int e = os_send(r->fd, r->lines + at, n - at, &done);

		if (!e)
			at += done;
		else if (e != EAGAIN || !ras_wait(r, seq))
			return false;
	}
	return true;
}

/* Receives until the text has `until`, or until the end. */
static bool ras_recv(struct ras_request *r, const char *until)
{
	size_t done = 0;

	while (!until || !strstr(r->text, until)) {
		ASSERT(r->bytes < LAB_RAS_BYTES - 1); /* room for a byte, and for the end */
		uint64_t seq = os_event_seq(os_socket_object(r->fd));
		int e = os_recv(r->fd, r->text + r->bytes, LAB_RAS_BYTES - 1 - r->bytes, &done);

		if (e == EAGAIN && ras_wait(r, seq))
			continue;
		if (e || !done)
			return e == 0 && !until;
		r->bytes += done;
		r->text[r->bytes] = '\0';
		if (r->bytes == LAB_RAS_BYTES - 1)
			return false;
	}
	return true;
}

/* ---- requests -------------------------------------------------------------------------------- */

static void ras_line(struct ras_request *r, const char *line)
{
	size_t n = strlen(r->lines);

	/* RAS would wait for the end of a line that is cut */
	ASSERT(n + strlen(line) + 2 <= sizeof r->lines);
	snprintf(r->lines + n, sizeof r->lines - n, "%s\n", line);
	r->answers++;
}

static void ras_draw(struct ras_request *r)
{
	static const char *const verbs[] = {"STATUS", "status", "VERBOSE STATUS", "DUMP"};
	static const uint32_t times[] = {0, 1, 5, RAS_SHORT_S, 86400};
	struct sim_rng *rng = &r->q->rng;
	bool greets = sim_rng_below(rng, 2), timed = sim_rng_below(rng, 2);
	bool wrong = sim_rng_below(rng, 6) == 0;
	uint32_t seconds = times[sim_rng_below(rng, ARRAY_LEN(times))];
	char line[32];

	r->json = sim_rng_below(rng, 3) == 0;
	r->hurried = !timed || (seconds && seconds < RAS_SHORT_S);
	snprintf(line, sizeof line, "TIMEOUT %u", seconds);
	if (greets)
		ras_line(r, "CLIENT PROTOCOL 2");
	if (timed)
		ras_line(r, line);
	if (wrong)
		ras_line(r, "STATUS NOW");
	if (r->json)
		ras_line(r, "SET FORMAT json");
	ras_line(r, verbs[sim_rng_below(rng, ARRAY_LEN(verbs))]);
	r->answers--;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* A fault may have hit a connection of RAS. */
static void ras_wrong(struct ras_request *r, const char *what)
{
	const char *line = r->lines;
	char first[80];
	size_t n = 0;

	if (sim_faults_fired())
		return;
	for (; *line && n + 1 < sizeof first; line++)
		first[n++] = *line == '\n' ? ';' : *line;
	first[n] = '\0';
	queries_wrong(r->q, "RAS", "%s after the lines %s", what, first);
	if (r->text)
		fprintf(stderr, "doppel: RAS answered:\n%s\n", r->text);
}

/* Returns the start of the next line; NULL: the text ends before. */
static const char *ras_next_line(const char *at)
{
	const char *end = strchr(at, '\n');

	return end ? end + 1 : NULL;
}

/* Returns the report; NULL: a line before it is missing. */
static const char *ras_report(const struct ras_request *r)
{
	const char *at = r->text;

	for (uint32_t i = 0; i < r->answers && at; i++) {
		bool known = !strncmp(at, "OK\n", 3) || !strncmp(at, "SERVER PROTOCOL ", 16) ||
			     !strncmp(at, "ERROR: ", 7);

		at = known ? ras_next_line(at) : NULL;
	}
	return at;
}

/* Braces and brackets outside of texts are balanced, and nothing follows them. */
static bool ras_json_is_whole(const char *at)
{
	int depth = 0;
	bool text = false;

	for (; *at; at++) {
		if (text && *at == '\\' && at[1])
			at++;
		else if (*at == '"')
			text = !text;
		else if (!text && (*at == '{' || *at == '['))
			depth++;
		else if (!text && (*at == '}' || *at == ']') && --depth == 0)
			return strcmp(at + 1, "\n") == 0;
		if (depth == 0)
			return false;
	}
	return false;
}

/* The number after a key of JSON, summed over all places. */
static long ras_json_sum(const char *report, const char *key, uint32_t *times)
{
	long sum = 0;

	*times = 0;
	for (const char *at = strstr(report, key); at; at = strstr(at + 1, key)) {
		sum += strtol(at + strlen(key), NULL, 10);
		++*times;
	}
	return sum;
}

/* Communicators of the report, those that are as the run's, and those with errors. */
struct ras_found {
	long comms, of_run, wrong;
};

static void ras_find_json(const struct ras_request *r, const char *report, struct ras_found *f)
{
	const int32_t n = r->q->me->run->nranks;
	uint32_t times;

	f->comms = ras_json_sum(report, "\"communicators_count\": ", &times);
	long sizes = ras_json_sum(report, "\"size\": ", &times);
	long ranks = ras_json_sum(report, "\"ranks_count\": ", &times);

	f->of_run = times == (uint32_t)f->comms && ranks == sizes && sizes == f->comms * n
			    ? f->comms
			    : 0;
	f->wrong = ras_json_sum(report, "\"missing_ranks_count\": ", &times);
}

/* The rows of the table: group, communicators, nodes, ranks of a node, of one, and of all. */
static void ras_find_text(const struct ras_request *r, const char *report, struct ras_found *f)
{
	const char *at = strstr(report, "per comm  in group\n");

	*f = (struct ras_found){0};
	for (at = at ? ras_next_line(at) : NULL; at && *at && *at != '\n'; at = ras_next_line(at)) {
		unsigned group, comms, nodes, ranks, all;
		char per_node[16], status[16], errors[40];

		if (sscanf(at, "%u %u %u %15s %u %u %15s %39s", &group, &comms, &nodes, per_node,
			   &ranks, &all, status, errors) != 8)
			break;
		f->comms += comms;
		f->of_run += ranks == (unsigned)r->q->me->run->nranks && !strcmp(status, "RUNNING")
				     ? comms
				     : 0;
		f->wrong += strcmp(errors, "OK") != 0;
	}
}

/* An answer to DUMP has the causes before the report. */
static bool ras_begins(const struct ras_request *r, const char *report)
{
	if (r->json)
		return !strncmp(report, "{\n", 2);
	return !strncmp(report, "NCCL version ", 13) ||
	       (!strncmp(report, "Causes\n", 7) && strstr(report, "\nNCCL version "));
}

/* `met`: all ranks are at a barrier, and have the communicators of the run alone. */
static void ras_check(struct ras_request *r, bool met)
{
	const struct lab_run *run = r->q->me->run;
	const char *report = ras_report(r);
	struct ras_found f;

	if (!report || !ras_begins(r, report) ||
	    (r->json ? !ras_json_is_whole(report) : !strstr(report, "Warnings\n========\n"))) {
		ras_wrong(r, "an answer that is not whole");
		return;
	}
	if (run->armed)
		return;
	if (r->json)
		ras_find_json(r, report, &f);
	else
		ras_find_text(r, report, &f);
	if (f.comms < (long)lab_comms(run->config))
		ras_wrong(r, "a report without all communicators of the run");
	else if (met && (f.comms != f.of_run || f.comms != (long)lab_comms(run->config) || f.wrong))
		ras_wrong(r, "a report with other communicators than those of the run");
	else if (met && !r->json && !r->hurried &&
		 (strstr(report, "DEAD\n") || strstr(report, "INCOMPLETE")))
		ras_wrong(r, "a report without all processes");
}

/* A client that monitors, and leaves. */
static void ras_monitor(struct ras_request *r)
{
	static const char *const groups[] = {"MONITOR", "MONITOR trace", "monitor all"};

	ras_line(r, groups[sim_rng_below(&r->q->rng, ARRAY_LEN(groups))]);
	if (!ras_send(r) || !ras_recv(r, "OK\n"))
		ras_wrong(r, "no answer");
	else
		os_sleep_ns(sim_rng_below(&r->q->rng, RAS_MONITOR_S * 1000000000ull));
}

static void ras_one(struct queries *q, bool met)
{
	struct ras_request r = {.q = q, .text = calloc(1, LAB_RAS_BYTES)};

	if (!r.text || !ras_connect(&r)) {
		if (!q->me->run->armed)
			ras_wrong(&r, "no connection");
		free(r.text);
		return;
	}
	if (!met && sim_rng_below(&q->rng, 6) == 0) {
		ras_monitor(&r);
	} else {
		ras_draw(&r);
		if (ras_send(&r) && ras_recv(&r, NULL))
			ras_check(&r, met);
		else if (!shared_load_u32(&q->me->run->failed, SHARED_ACQUIRE) &&
			 !q->me->run->armed)
			ras_wrong(&r, "no end of the answer");
	}
	os_close(r.fd);
	free(r.text);
}

bool lab_ras_ask(struct lab_rank *me, const char *lines, char *text)
{
	struct queries q = {.me = me};
	struct ras_request r = {.q = &q, .text = text};

	ASSERT(strlen(lines) < sizeof r.lines);
	strcpy(r.lines, lines);
	memset(text, 0, LAB_RAS_BYTES);
	if (!ras_connect(&r))
		return false;
	bool whole = ras_send(&r) && ras_recv(&r, NULL);

	os_close(r.fd);
	return whole;
}

/* ---- when ranks meet ------------------------------------------------------------------------- */

static void ras_seed(struct lab_rank *me, struct queries *q, const char *what)
{
	*q = (struct queries){.me = me, .comm = me->comm, .n = me->run->nranks, .rank = me->rank};
	sim_rng_seed(&q->rng, me->run->config->sim.seed, what);
}

bool lab_ras_meet(struct lab_rank *me)
{
	const struct lab_config *c = me->run->config;
	bool alone = !c->idle && !c->transient && !c->init_fails && !me->run->armed;
	struct queries q;

	if (!c->ras)
		return true;
	if (!lab_barrier(me))
		return false;
	ras_seed(me, &q, "lab.ras");
	for (uint32_t i = 0; i < c->ras && lab_leads(me); i++)
		ras_one(&q, alone);
	return lab_barrier(me);
}

/* ---- while the run goes on ------------------------------------------------------------------- */

static void ras_main(void *arg)
{
	struct lab_rank *me = arg;
	struct wait over = wait_word(&me->ras_over, 4, WAIT_NE, 0,
				     "harness: the time of the next request to RAS",
				     wait_by(me->rank, -1, NULL));
	struct queries q;

	ras_seed(me, &q, "lab.ras_client");
	for (uint32_t i = 0; i < me->run->config->ras; i++) {
		over.deadline_ns = os_now_ns() + sim_rng_below(&q.rng, RAS_PAUSE_NS);
		if (!os_wait_one(&over, NULL))
			break;
		ras_one(&q, false);
	}
}

bool lab_ras_start(struct lab_rank *me)
{
	const struct os_thread_attr attr = {.name = "RAS client", .rank = -1};

	ASSERT(!me->ras_client);
	if (!me->run->config->ras || !lab_leads(me) ||
	    os_thread_start(&me->ras_client, &attr, ras_main, me) == 0)
		return true;
	me->ras_client = NULL;
	lab_rank_fail(me, ncclSystemError, "no task for a client of RAS");
	return false;
}

void lab_ras_end(struct lab_rank *me)
{
	if (!me->ras_client)
		return;
	shared_store_u32(&me->ras_over, 1, SHARED_RELEASE);
	os_thread_join(me->ras_client);
	me->ras_client = NULL;
}
