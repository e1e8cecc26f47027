/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/lab/explore/exhaust.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/lab/explore/exhaust_internal.h"
#include "sim/lab/search/fail.h"

#define EXHAUST_QUIET_RUNS    3 /* without the fault, until a series ends */
#define EXHAUST_PROGRESS_MS   1000
#define EXHAUST_ABORT_STEP_NS 4000    /* between two moments of an abort by another task */
#define EXHAUST_HOLD_NS       1000000 /* longer than an abort that waits for no rank */

const char *const exhaust_class_name[EXHAUST_CLASSES] = {"alloc", "verbs", "cuda", "socket",
							 "shm",   "file",  "kill", "abort"};

/* A child's report to its parent, in shared memory. */
struct exhaust_board {
	uint64_t k; /* of the run under way */
	bool ended; /* the series */
	int error;  /* it cannot be run; 0: it can */
	uint32_t quiet;
	struct exhaust_result sum;
};

void exhaust_config_default(struct exhaust_config *config)
{
	*config = (struct exhaust_config){
		.classes = (1u << EXHAUST_CLASSES) - 1,
		.first = 1,
		.stride = 1,
		.rank = -1,
		.machine = EXHAUST_MACHINE,
		.hosts = 2,
		.gpus = 2,
		.ranks_per_proc = 1,
		.collective = &lab_collectives[0],
		.env = {"NCCL_MAX_NCHANNELS=2", "NCCL_BUFFSIZE=65536"},
		.seed = 1,
		.out = stdout,
	};
}

/* ---- one run -------------------------------------------------------------------------------- */

static bool exhaust_is_blocking(const struct exhaust_config *c, const struct exhaust_series *s,
				uint64_t k)
{
	if (c->blocking != c->polling)
		return c->blocking;
	/* its own task can give up in the middle of an init only if that does not block */
	if (s->class != EXHAUST_ABORT || exhaust_is_stepped(s))
		return k & 1;
	return strcmp(s->action, "watch") == 0;
}

static void exhaust_plan(const struct exhaust_series *s, uint64_t k, char *out, size_t bytes)
{
	char rank[24] = "";
	ASSERT(k > 0); /* calls are counted from 1 */
	if (s->rank >= 0)
		snprintf(rank, sizeof rank, " rank=%d", s->rank);
	if (s->class == EXHAUST_ABORT)
		out[0] = 0;
	else
		snprintf(out, bytes, "%s%s nth=%" PRIu64 " count=%d %s\n", s->site, rank, k,
			 s->for_ever ? 1000000000 : 1, s->action);
}

/* The rank that aborts, and when. */
static void exhaust_abort(const struct exhaust_series *s, uint64_t k, struct lab_life *life,
			  struct sim_moment *moment)
{
	ASSERT(s->rank >= 0); /* exhaust_ranks goes over them */
	life->abort_rank = s->rank;
	life->abort_awaited = s->task != NULL;
	if (s->task)
		*moment = (struct sim_moment){
			.task = s->task,
			.nth = k,
			.hold_ns = strcmp(s->action, "held") ? 0 : EXHAUST_HOLD_NS,
			.fn = lab_life_abort_now,
			.arg = life,
		};
	else if (strcmp(s->action, "watch") == 0)
		life->abort_ns = k * EXHAUST_ABORT_STEP_NS;
	else
		life->abort_point = k;
}

struct lab_config exhaust_world(const struct exhaust_config *c, struct lab_life *life)
{
	struct lab_config lab;

	lab_config_default(&lab);
	lab.machine = c->machine;
	lab.hosts = c->hosts;
	lab.gpus = c->gpus;
	lab.ranks_per_proc = c->ranks_per_proc;
	lab.env = c->env;
	lab.collective = c->collective;
	lab.bytes_max = 65536;
	lab.life = life;
	lab.errors_allowed = true;
	lab.sim.budget_ns = 2 * EXHAUST_BOUND_NS;
	lab.sim.budget_events = 2000000;
	return lab;
}

static int exhaust_once(const struct exhaust_config *c, const struct exhaust_series *s, uint64_t k,
			struct lab_life *life, struct lab_result *result)
{
	struct lab_config lab = exhaust_world(c, life);
	char plan[128];

	exhaust_plan(s, k, plan, sizeof plan);
	*life = (struct lab_life){.nonblocking = !exhaust_is_blocking(c, s, k), .abort_rank = -1};
	life->stage = c->stage;
	life->sticky = exhaust_is_sticky(s);
	if (s->class == EXHAUST_ABORT)
		exhaust_abort(s, k, life, &lab.sim.moment);
	lab.sim.seed = c->seed + k;
	lab.sim.strategy = s->fifo ? SIM_FIFO : SIM_PORTFOLIO;
	lab.sim.fault_plan = plan[0] ? plan : NULL;
	lab.sim.fault_plan_name = "exhaust";
	return lab_run(&lab, result);
}

/* ---- findings ------------------------------------------------------------------------------- */

static void exhaust_worst(struct exhaust_result *sum, enum sim_verdict verdict)
{
	if (fail_severity(verdict) > fail_severity(sum->worst))
		sum->worst = verdict;
}

static void exhaust_bad(const struct exhaust_config *c, const struct exhaust_series *s, uint64_t k,
			enum sim_verdict verdict, const char *what, const struct lab_life *life,
			struct exhaust_result *sum)
{
	char command[EXHAUST_COMMAND_BYTES];
	exhaust_command(c, s, k, command, sizeof command);
	exhaust_worst(sum, verdict);
	if (!sum->bad++)
		snprintf(sum->first_bad, sizeof sum->first_bad, "%s: %s", command, what);
	if (!c->out)
		return;
	fprintf(c->out, "  BAD %s   # %s\n", command, what);
	if (life)
		exhaust_print_ranks(c->out, life);
	fflush(c->out);
}

/* *quiet counts runs in a row without the fault; k / 2 visits or fewer of the site end the series.
 * Returns 0, or why no such world can be run, which the lab has explained. */
static int exhaust_step(const struct exhaust_config *c, const struct exhaust_series *s, uint64_t k,
			struct exhaust_result *sum, uint32_t *quiet)
{
	struct lab_life life;
	struct lab_result result;
	int rc = exhaust_once(c, s, k, &life, &result);

	if (rc)
		return rc;
	const char *what = exhaust_verdict(&result);
	enum sim_verdict verdict = what ? result.verdict : SIM_ERROR;
	bool fired = s->class == EXHAUST_ABORT ? life.abort_fired : result.fired > 0;
	bool aborted = false;

	if (!what)
		what = exhaust_judge(s, &life, fired);
	for (int32_t i = 0; i < life.nranks; i++)
		aborted |= life.rank[i].launcher_aborted;
	sum->runs++;
	sum->fired += fired;
	sum->launcher_aborted += aborted;
	sum->second += life.second;
	if (what)
		exhaust_bad(c, s, k, verdict, what, &life, sum);
	else if (c->in_process && c->out)
		exhaust_print_ranks(c->out, &life);
	if (fired || what || life.abort_early)
		*quiet = 0;
	else if (s->class != EXHAUST_ABORT && 2 * result.matched < k)
		*quiet = EXHAUST_QUIET_RUNS;
	else
		(*quiet)++;
	return 0;
}

/* ---- a series ------------------------------------------------------------------------------- */

static void exhaust_child(const struct exhaust_config *c, const struct exhaust_series *s,
			  struct exhaust_board *board)
{
	while (!board->error && board->quiet < EXHAUST_QUIET_RUNS) {
		if (c->most && board->sum.runs >= c->most)
			break;
		if (ftruncate(STDERR_FILENO, 0) == 0)
			(void)lseek(STDERR_FILENO, 0, SEEK_SET);
		board->error = exhaust_step(c, s, board->k, &board->sum, &board->quiet);
		board->k += MAX_OF(c->stride, 1ull);
	}
	board->ended = true;
}

static uint64_t exhaust_first(const struct exhaust_config *c)
{
	return MAX_OF(c->first, 1ull);
}

/* The end of what a child had on stderr. */
static void exhaust_tail_print(FILE *out, int log)
{
	char text[1200];
	off_t end = lseek(log, 0, SEEK_END);
	off_t from = end > (off_t)sizeof text - 1 ? end - (off_t)sizeof text + 1 : 0;
	ssize_t n = pread(log, text, sizeof text - 1, from);
	if (n > 0 && out)
		fprintf(out, "%.*s%s", (int)n, text, text[n - 1] == '\n' ? "" : "\n");
}

static void exhaust_add(struct exhaust_result *to, const struct exhaust_result *from)
{
	if (!to->bad && from->bad)
		memcpy(to->first_bad, from->first_bad, sizeof to->first_bad);
	to->runs += from->runs;
	to->fired += from->fired;
	to->launcher_aborted += from->launcher_aborted;
	to->second += from->second;
	to->bad += from->bad;
	exhaust_worst(to, from->worst);
}

static void exhaust_progress(const struct exhaust_config *c, const struct exhaust_series *s,
			     const struct exhaust_board *b)
{
	fprintf(c->progress,
		"\r%s %s.%s %s %s rank %d%s%s: k %" PRIu64 ", %" PRIu64 " runs, bad %" PRIu64
		"\033[K\r",
		exhaust_class_name[s->class], s->site, s->action, s->for_ever ? "for ever" : "once",
		s->fifo ? "fifo" : "exploring", s->rank, s->task ? " at " : "",
		s->task ? s->task : "", b->k, b->sum.runs, b->sum.bad);
	fflush(c->progress);
}

/* The child holds the other end of the pipe `alive` until it ends. */
static bool exhaust_wait(const struct exhaust_config *c, const struct exhaust_series *s,
			 const struct exhaust_board *b, pid_t child, int alive, int *status)
{
	struct pollfd end = {.fd = alive};
	bool shown = false;

	for (; c->progress && poll(&end, 1, EXHAUST_PROGRESS_MS) == 0; shown = true)
		exhaust_progress(c, s, b);
	if (shown)
		fputs("\033[K", c->progress);
	return waitpid(child, status, 0) == child;
}

/* A child runs k after k; when it crashes, the next one goes on after that k. */
static int exhaust_series_run(const struct exhaust_config *c, const struct exhaust_series *s,
			      struct exhaust_result *sum)
{
	struct exhaust_board *b =
		mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	FILE *log = tmpfile();
	int rc = 0;

	if (b == MAP_FAILED || !log) {
		rc = errno;
		goto out;
	}
	b->k = exhaust_first(c);
	while (!b->ended) {
		int status, alive[2];
		fflush(NULL);
		pid_t pid = pipe(alive) ? -1 : fork();
		if (pid < 0) {
			rc = errno;
			goto out;
		}
		close(alive[pid != 0]);
		if (pid == 0) {
			dup2(fileno(log), STDERR_FILENO);
			exhaust_child(c, s, b);
			fflush(NULL);
			_exit(0);
		}
		bool waited = exhaust_wait(c, s, b, pid, alive[0], &status);
		close(alive[0]);
		if (!waited || (b->ended && status == 0))
			break;
		exhaust_bad(c, s, b->k, SIM_CRASH, "crash", NULL, &b->sum);
		exhaust_tail_print(c->out, fileno(log));
		b->sum.runs++;
		b->quiet = 0;
		b->k += MAX_OF(c->stride, 1ull);
		if (b->sum.bad > 200)
			break;
	}
	if (b->error) {
		rc = b->error;
		exhaust_tail_print(stderr, fileno(log));
		goto out;
	}
	sum->series++;
	exhaust_add(sum, &b->sum);
	if (c->out) {
		fprintf(c->out,
			"%-6s %-18s %-6s %-8s %-9s rank %2d%s%s: %6" PRIu64 " runs, fired %6" PRIu64
			", launcher %4" PRIu64 ", second %6" PRIu64 ", bad %" PRIu64 "\n",
			exhaust_class_name[s->class], s->site, s->action,
			s->for_ever ? "for ever" : "once", s->fifo ? "fifo" : "exploring", s->rank,
			s->task ? " at " : "", s->task ? s->task : "", b->sum.runs, b->sum.fired,
			b->sum.launcher_aborted, b->sum.second, b->sum.bad);
		fflush(c->out);
	}
out:
	if (log)
		fclose(log);
	if (b != MAP_FAILED)
		munmap(b, sizeof *b);
	return rc;
}

/* ---- all series ----------------------------------------------------------------------------- */

static enum exhaust_class exhaust_class_of(const char *site)
{
	static const struct {
		const char *prefix;
		enum exhaust_class class;
	} table[] = {
		{"verbs.", EXHAUST_VERBS},     {"cuda.", EXHAUST_CUDA},
		{"os.alloc", EXHAUST_ALLOC},   {"os.thread", EXHAUST_ALLOC},
		{"os.shm", EXHAUST_SHM},       {"os.file", EXHAUST_FILE},
		{"os.task", EXHAUST_KILL},     {"os.connect", EXHAUST_SOCKET},
		{"os.socket", EXHAUST_SOCKET}, {"os.accept", EXHAUST_SOCKET},
		{"os.listen", EXHAUST_SOCKET}, {"os.send", EXHAUST_SOCKET},
		{"os.recv", EXHAUST_SOCKET},
	};
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (strncmp(site, table[i].prefix, strlen(table[i].prefix)) == 0)
			return table[i].class;
	return EXHAUST_CLASSES;
}

/* Do the classes and the site of the configuration include it? */
static bool exhaust_names(const struct exhaust_config *c, const struct exhaust_series *s)
{
	char name[64];

	ASSERT(s->class < EXHAUST_CLASSES);
	if (!(c->classes & 1u << s->class))
		return false;
	snprintf(name, sizeof name, "%s.%s", s->site, s->action);
	return !c->site || !strcmp(c->site, name) || !strcmp(c->site, s->site);
}

static bool exhaust_wants(const struct exhaust_config *c, const struct exhaust_series *s)
{
	if (c->task && !s->task)
		return false;
	if (c->once != c->for_ever && s->for_ever != c->for_ever)
		return false;
	if (c->fifo != c->exploring && s->fifo != c->fifo)
		return false;
	return exhaust_names(c, s);
}

static int exhaust_orders(const struct exhaust_config *c, struct exhaust_series s,
			  struct exhaust_result *sum)
{
	int rc = 0;
	for (int fifo = 1; fifo >= 0 && !rc; fifo--) {
		s.fifo = fifo;
		if (!exhaust_wants(c, &s))
			continue;
		if (!c->in_process) {
			rc = exhaust_series_run(c, &s, sum);
			continue;
		}
		uint32_t quiet = 0;

		sum->series++;
		rc = exhaust_step(c, &s, exhaust_first(c), sum, &quiet);
	}
	return rc;
}

/* At the steps of each task of the aborting rank's process. */
static int exhaust_each_task(const struct exhaust_config *c, struct exhaust_series s,
			     struct exhaust_result *sum)
{
	struct sim_task_log *log = NULL;
	int rc = 0;

	if (!exhaust_is_stepped(&s))
		return exhaust_orders(c, s, sum);
	if (!(c->classes & 1u << s.class))
		return 0;
	log = exhaust_tasks(c);
	if (!log)
		return EINVAL;
	for (uint32_t i = 0; !rc && (s.task = exhaust_task(c, log, s.rank, i)); i++)
		rc = exhaust_orders(c, s, sum);
	free(log);
	return rc;
}

/* Kill, abort and calls that go on failing need a rank: each in turn, unless one is given. */
static int exhaust_ranks(const struct exhaust_config *c, struct exhaust_series s,
			 struct exhaust_result *sum)
{
	bool one = c->rank >= 0 || (s.class < EXHAUST_KILL && !s.for_ever);
	int32_t n = (int32_t)(c->hosts * c->gpus);
	int rc = 0;
	s.rank = c->rank;
	if (one)
		return exhaust_each_task(c, s, sum);
	for (s.rank = 0; s.rank < n && !rc; s.rank++)
		rc = exhaust_each_task(c, s, sum);
	return rc;
}

/* True for faults that last: they have no series in which calls go on failing. */
static bool exhaust_stays(const struct exhaust_series *s)
{
	return s->class >= EXHAUST_KILL || exhaust_is_sticky(s);
}

static int exhaust_ways(const struct exhaust_config *c, struct exhaust_series s,
			struct exhaust_result *sum)
{
	bool stays = exhaust_stays(&s);
	int rc = 0;

	sum->named |= exhaust_names(c, &s);
	if (!stays || c->once || !c->for_ever)
		rc = exhaust_ranks(c, s, sum);
	s.for_ever = true;
	return rc || stays ? rc : exhaust_ranks(c, s, sum);
}

static int exhaust_sites(const struct exhaust_config *c, struct exhaust_result *result)
{
	struct exhaust_series s = {.rank = -1};
	const char *action[SIM_FAULT_ACTIONS];
	int rc = 0;

	for (uint32_t i = 0; sim_fault_site_at(i, &s.site, action) && !rc; i++) {
		s.class = exhaust_class_of(s.site);
		for (int a = 0; a < SIM_FAULT_ACTIONS && action[a] && !rc; a++) {
			s.action = action[a];
			if (s.class != EXHAUST_CLASSES && exhaust_action_counts(c, &s))
				rc = exhaust_ways(c, s, result);
		}
	}
	return rc;
}

/* Series that are not a site of a plan. */
static const struct exhaust_series exhaust_more[] = {
	{.class = EXHAUST_VERBS, .site = "verbs.any", .action = "fail", .rank = -1},
	{.class = EXHAUST_CUDA, .site = "cuda.any", .action = "fail", .rank = -1},
	{.class = EXHAUST_ABORT, .site = "lab.abort", .action = "watch", .rank = -1},
	{.class = EXHAUST_ABORT, .site = "lab.abort", .action = "main", .rank = -1},
	{.class = EXHAUST_ABORT, .site = "lab.abort", .action = "step", .rank = -1},
	{.class = EXHAUST_ABORT, .site = "lab.abort", .action = "held", .rank = -1},
};

int exhaust_run(const struct exhaust_config *config, struct exhaust_result *result)
{
	memset(result, 0, sizeof *result);
	int rc = exhaust_sites(config, result);

	for (size_t i = 0; i < ARRAY_LEN(exhaust_more) && !rc; i++)
		rc = exhaust_ways(config, exhaust_more[i], result);
	if (rc || result->series)
		return rc;
	if (result->named)
		fprintf(stderr,
			"exhaust: --for-ever has no effect on kill, abort and sticky actions, "
			"which last; expected --once, or another class or site\n");
	else
		fprintf(stderr,
			"exhaust: no site or action '%s' in these classes; 'doppel faults' "
			"lists them\n",
			config->site ? config->site : "");
	return EINVAL;
}
