/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doppel ras: a client of the RAS task of a real job, as ncclras is (docs/ras.md). It speaks over
 * sockets of the real machine. Simulated jobs have clients in their own worlds only.
 */
#include <argp.h>
#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/cli/cli.h"
#include "sim/engine/sim.h"

#define RAS_PORT      "28028"
#define RAS_ANSWER_S  5u    /* default time for the answers of the job's processes */
#define RAS_TIMEOUT_S 86400 /* the longest */

enum { RAS_GROUPS_MOST = 64 }; /* letters; a list that names each group once is shorter */

enum { RAS_DUMP = 256, RAS_JSON, RAS_MONITOR };

struct ras_options {
	char host[256], port[16];
	const char *groups; /* of events; NULL: does not monitor */
	bool dump, json, verbose;
	uint64_t timeout_s;
	int fd;
};

/* ---- options -------------------------------------------------------------------------------- */

/* Takes "host", "host:port", "[address]:port" or an address of IPv6. */
static void ras_target(struct argp_state *state, const char *text, struct ras_options *o)
{
	bool bracket = text[0] == '[';
	const char *end = bracket ? strchr(text, ']') : strchr(text, ':');
	const char *port = end ? end + bracket : "";
	size_t n;
	uint64_t number;

	if (!bracket && end && strchr(end + 1, ':')) /* more than one colon */
		end = NULL, port = "";
	text += bracket;
	n = end ? (size_t)(end - text) : strlen(text);
	if (!n || n >= sizeof o->host || (bracket && !end) || (*port && *port != ':'))
		argp_error(state, "'%s': expected HOST, HOST:PORT or [ADDRESS]:PORT", text);
	snprintf(o->host, sizeof o->host, "%.*s", (int)n, text);
	if (!*port)
		return;
	if (!cli_parse_u64(port + 1, &number) || !number || number > 65535)
		argp_error(state, "port '%s': expected a number from 1 to 65535", port + 1);
	snprintf(o->port, sizeof o->port, "%u", (unsigned)number);
}

static bool ras_groups_fit(const char *list)
{
	static const char *const groups[] = {"lifecycle", "trace", "all"};

	for (bool known = true; known; list++) {
		size_t n = strcspn(list, ",");

		known = false;
		for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
			known = known || (strlen(groups[i]) == n && !memcmp(groups[i], list, n));
		list += n;
		if (known && !*list)
			return true;
	}
	return false;
}

static error_t ras_parse(int key, char *arg, struct argp_state *state)
{
	struct ras_options *o = state->input;

	switch (key) {
	case RAS_DUMP:
		o->dump = true;
		return 0;
	case RAS_JSON:
		o->json = true;
		return 0;
	case RAS_MONITOR:
		o->groups = arg ? arg : "lifecycle";
		return 0;
	case 'v':
		o->verbose = true;
		return 0;
	case 't':
		if (!cli_parse_u64(arg, &o->timeout_s) || o->timeout_s > RAS_TIMEOUT_S)
			argp_error(state, "--timeout %s: expected 0 to %d seconds", arg,
				   RAS_TIMEOUT_S);
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num)
			argp_error(state, "takes one host, got '%s' too", arg);
		ras_target(state, arg, o);
		return 0;
	case ARGP_KEY_END:
		if (o->groups && (o->dump || o->verbose))
			argp_error(state, "--monitor excludes --dump and --verbose");
		if (o->groups &&
		    (strlen(o->groups) > RAS_GROUPS_MOST || !ras_groups_fit(o->groups)))
			argp_error(state,
				   "--monitor '%.80s': expected a list of lifecycle, trace or all, "
				   "of at most %d letters",
				   o->groups, RAS_GROUPS_MOST);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- the connection ------------------------------------------------------------------------- */

static bool ras_failed(const struct ras_options *o, const char *what, const char *why)
{
	fprintf(stderr, "doppel ras: %s:%s: %s: %s\n", o->host, o->port, what, why);
	return false;
}

/* Bounds each receive; s: 0 waits without end. */
static void ras_patience(const struct ras_options *o, time_t s)
{
	const struct timeval t = {.tv_sec = s};

	(void)setsockopt(o->fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}

static bool ras_connect(struct ras_options *o)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	const struct timeval t = {.tv_sec = RAS_ANSWER_S};
	struct addrinfo *found, *at;
	int e = getaddrinfo(o->host, o->port, &hints, &found);

	if (e)
		return ras_failed(o, "cannot be resolved", gai_strerror(e));
	for (at = found, o->fd = -1; at && o->fd < 0; at = at->ai_next) {
		int fd = socket(at->ai_family, at->ai_socktype, at->ai_protocol);

		if (fd < 0)
			continue;
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
		if (connect(fd, at->ai_addr, at->ai_addrlen) == 0) {
			o->fd = fd;
			continue;
		}
		e = errno;
		close(fd);
	}
	freeaddrinfo(found);
	if (o->fd >= 0)
		return true;
	ras_failed(o, "cannot connect", strerror(e));
	fprintf(stderr,
		"Expected a job on that host with NCCL_RAS_ENABLE=1, and the address of its "
		"NCCL_RAS_ADDR.\n");
	return false;
}

/* Sends one command. */
static bool __attribute__((format(printf, 2, 3)))
ras_send(const struct ras_options *o, const char *format, ...)
{
	char line[256];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line, sizeof line, format, args);
	va_end(args);
	ASSERT(n > 0 && (size_t)n < sizeof line); /* RAS_GROUPS_MOST bounds the only text */
	for (int at = 0, k; at < n; at += k) {
		k = (int)send(o->fd, line + at, (size_t)(n - at), MSG_NOSIGNAL);
		if (k < 0)
			return ras_failed(o, "cannot send", strerror(errno));
	}
	return true;
}

/* Receives one line, which must begin with `expected`. */
static bool ras_expect(const struct ras_options *o, const char *expected)
{
	char line[1024];
	size_t at = 0;

	while (at < sizeof line - 1 && (!at || line[at - 1] != '\n')) {
		ssize_t k = recv(o->fd, line + at, 1, 0);

		if (k <= 0)
			return ras_failed(o, "no answer",
					  !k ? "the connection was closed"
					  : errno == EAGAIN
						  ? "the process that listens there is stopped, "
						    "or its RAS task does not run; query another "
						    "host, or send DOPPEL_RAS_SIGNAL to another "
						    "process"
						  : strerror(errno));
		at++;
	}
	line[at - (line[at - 1] == '\n')] = '\0';
	return strncmp(line, expected, strlen(expected)) == 0 ||
	       ras_failed(o, "unexpected answer", line);
}

/* Copies all that comes to stdout. */
static bool ras_copy(const struct ras_options *o)
{
	char data[4096];
	ssize_t k;
	bool first = true, good = true;

	while ((k = recv(o->fd, data, sizeof data, 0)) > 0) {
		good = good && !(first && k >= 6 && memcmp(data, "ERROR:", 6) == 0);
		first = false;
		fwrite(data, 1, (size_t)k, stdout);
		fflush(stdout);
	}
	if (k < 0)
		return ras_failed(o, "the report is incomplete", strerror(errno));
	return good;
}

static bool ras_converse(const struct ras_options *o)
{
	ras_patience(o, RAS_ANSWER_S);
	if (!ras_send(o, "CLIENT PROTOCOL 2\n") || !ras_expect(o, "SERVER PROTOCOL ") ||
	    !ras_send(o, "TIMEOUT %u\n", (unsigned)o->timeout_s) || !ras_expect(o, "OK") ||
	    !ras_send(o, "SET FORMAT %s\n", o->json ? "json" : "text") || !ras_expect(o, "OK"))
		return false;
	if (o->groups) {
		ras_patience(o, 0);
		return ras_send(o, "MONITOR %s\n", o->groups) && ras_expect(o, "OK") && ras_copy(o);
	}
	ras_patience(o, o->timeout_s ? (time_t)(o->timeout_s + RAS_ANSWER_S) : 0);
	return ras_send(o, "%s\n",
			o->dump      ? "DUMP"
			: o->verbose ? "VERBOSE STATUS"
				     : "STATUS") &&
	       ras_copy(o);
}

int cli_ras(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"dump", RAS_DUMP, NULL, 0, "also the pending operations, and the absent ranks", 0},
		{"json", RAS_JSON, NULL, 0, "for programs, with NCCL's keys", 0},
		{"monitor", RAS_MONITOR, "GROUPS", OPTION_ARG_OPTIONAL,
		 "print events until the job ends: lifecycle (default), trace, all", 0},
		{"verbose", 'v', NULL, 0, "list also large groups of ranks", 0},
		{"timeout", 't', "S", 0,
		 "seconds for the answers of the job's processes; default 5, 0: no limit", 0},
		{0}};
	static const struct argp argp = {.options = options,
					 .parser = ras_parse,
					 .args_doc = "[HOST[:PORT]]",
					 .doc = "Prints the state of the real job that runs on a "
						"host (default localhost:" RAS_PORT
						"): its communicators, ranks that differ, and "
						"processes that give no answer."};
	struct ras_options o = {
		.host = "localhost", .port = RAS_PORT, .timeout_s = RAS_ANSWER_S, .fd = -1};
	bool good;

	cli_parse(&argp, 0, argc, argv, &o);
	if (!ras_connect(&o))
		return SIM_ERROR;
	good = ras_converse(&o);
	close(o.fd);
	return good ? SIM_PASS : SIM_ERROR;
}
