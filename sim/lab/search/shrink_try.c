/* SPDX-License-Identifier: BSD-3-Clause */
/* A candidate, run in a child process: it may crash or hang. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/lab/run/child.h"
#include "sim/lab/check/found.h"
#include "sim/lab/search/shrink_internal.h"

static void *try_shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static size_t try_log_bytes(void)
{
	return sizeof(struct sim_choice_log) + SHRINK_LOG * sizeof(struct sim_choice_made);
}

struct sim_choice_log *shrink_log_make(void)
{
	struct sim_choice_log *log = try_shared(try_log_bytes());

	if (log)
		log->cap = SHRINK_LOG;
	return log;
}

void shrink_log_free(struct sim_choice_log *log)
{
	if (log)
		munmap(log, try_log_bytes());
}

/* ---- the child ------------------------------------------------------------------------------ */

static void try_last_words(void *arg)
{
	struct shrink_outcome *out = arg;
	const struct sim_failure *f = sim_failure();

	if (!f)
		return;
	out->failure = *f;
	if (out->late)
		found_hung(&out->failure, out->limit_ns);
	out->ended = true;
}

/* For the record of a run that hung: the report of a crash leaves its choices. */
static struct shrink_outcome *try_late_outcome;

static void try_late(int sig)
{
	(void)sig;
	signal(SIGPROF, SIG_IGN);
	signal(SIGALRM, SIG_IGN);
	try_late_outcome->late = true;
	abort();
}

static void try_timer(int which, uint64_t ns)
{
	struct itimerval limit = {.it_value = {.tv_sec = (time_t)(ns / 1000000000),
					       .tv_usec = (suseconds_t)(ns % 1000000000 / 1000)}};

	setitimer((__itimer_which_t)which, &limit, NULL);
}

/* SIGPROF or SIGALRM ends it. */
static void try_limit(struct shrink_outcome *out, uint64_t ns, bool hung)
{
	out->limit_ns = ns;
	try_late_outcome = out;
	if (hung) {
		signal(SIGPROF, try_late);
		signal(SIGALRM, try_late);
	}
	try_timer(ITIMER_PROF, ns);
	try_timer(ITIMER_REAL, SHRINK_LIMIT_REAL * ns);
}

static void try_child(struct scenario *s, const char *choices, const char *record,
		      uint64_t limit_ns, struct sim_choice_log *log, const char *keep,
		      struct shrink_outcome *out)
{
	struct sim_config *sim = &s->lab.sim;
	struct lab_result r;
	char trace[FAIL_DIR_BYTES + 16];

	child_silence();
	try_limit(out, limit_ns, found_is_hung(&s->found));
	sim->choices_in = choices;
	sim->choices_out = record;
	sim->choice_log = log;
	sim->fail_dir = keep;
	sim->trace_path = NULL;
	if (keep) {
		snprintf(trace, sizeof trace, "%s/trace.json", keep);
		sim->trace_path = trace;
	}
	sim->last_words = try_last_words;
	sim->last_words_arg = out;
	s->lab.table = NULL;
	if (lab_run(scenario_lab(s), &r) == 0) {
		if (r.failed)
			out->failure = r.failure;
		out->ended = true;
	}
	out->lost = sim_output_lost();
	_exit(SIM_PASS);
}

/* ---- the parent ----------------------------------------------------------------------------- */

int shrink_try(struct scenario *s, const char *choices, const char *record, uint64_t limit_ns,
	       struct sim_choice_log *log, const char *keep, struct shrink_outcome *out)
{
	struct shrink_outcome *shared = try_shared(sizeof *shared);
	int status;

	ASSERT(limit_ns > 0);   /* a timer of 0 never ends it */
	ASSERT(record || keep); /* a file that is lost has a name */
	memset(out, 0, sizeof *out);
	if (!shared)
		return ENOMEM;
	if (log)
		log->n = 0;
	fflush(NULL);
	pid_t child = fork();
	if (child == 0)
		try_child(s, choices, record, limit_ns, log, keep, shared);
	int rc = child < 0 ? errno : 0;
	while (!rc && waitpid(child, &status, 0) < 0)
		rc = errno == EINTR ? 0 : errno;
	if (rc)
		fprintf(stderr, "doppel shrink: cannot run a candidate: %s\n", strerror(rc));
	else
		*out = *shared;
	if (out->lost) { /* the child's line about it is not shown */
		rc = EIO;
		fprintf(stderr, "doppel shrink: cannot write %s: no room, or no permission\n",
			record ? record : keep);
	}
	munmap(shared, sizeof *shared);
	return rc;
}
