/* SPDX-License-Identifier: BSD-3-Clause */
/* Life of the engine, and how a run fails. All other calls go to the scheduler in force. */
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/engine/engine_internal.h"
#include "sim/engine/gdb_hooks.h"
#include "sim/engine/output.h"

enum { FAILURE_HOOKS = 8, STACK_BYTES = 128 << 10, STACK_BYTES_SANITIZED = 512 << 10 };

struct engine eng;
struct sim_mode sim_mode;
static void engine_write_fail_choices(void);
static void engine_late_canary(void);
static void engine_misuse_awaited(void);
static void (*failure_hook[FAILURE_HOOKS])(FILE *out);
static int failure_hooks;

/* ---- life ----------------------------------------------------------------------------------- */

static void engine_defaults(void)
{
	struct sim_config *c = &eng.config;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	size_t stack = STACK_BYTES_SANITIZED;
#else
	size_t stack = STACK_BYTES;
#endif
	if (!c->budget_events)
		c->budget_events = 20000000;
	if (!c->budget_ns)
		c->budget_ns = 3600ull * 1000000000;
	if (!c->stack_bytes)
		c->stack_bytes = stack;
}

static int engine_check_config(const struct sim_config *c)
{
	if (c->stack_bytes && c->stack_bytes < 16384) {
		fprintf(stderr, "engine: stack_bytes is %zu; expected at least 16384\n",
			c->stack_bytes);
		return EINVAL;
	}
	if (c->foreign && c->engine != SIM_ENGINE_THREADS) {
		fprintf(stderr, "engine: a foreign program runs in engine threads only\n");
		return EINVAL;
	}
	if (c->engine == SIM_ENGINE_THREADS && (c->races || c->memory_order == SIM_MEMORY_ON)) {
		fprintf(stderr,
			"engine: races and memory_order need engine sim, the engine is threads\n");
		return EINVAL;
	}
	if (c->engine == SIM_ENGINE_THREADS && (c->moment.task || c->task_log)) {
		fprintf(stderr,
			"engine: moment and task_log need engine sim, the engine is threads\n");
		return EINVAL;
	}
	if (c->choices_in && c->choice_bytes) {
		fprintf(stderr,
			"engine: choices_in and choice_bytes are both set; expected at most one\n");
		return EINVAL;
	}
	if (c->engine == SIM_ENGINE_THREADS &&
	    (c->choices_in || c->choices_out || c->choice_bytes)) {
		fprintf(stderr, "engine: choices are recorded and replayed by engine sim only\n");
		return EINVAL;
	}
	return 0;
}

static void engine_mode_start(void)
{
	sim_mode.faults = eng.any_faults;
	sim_mode.plain = !engine_in_sim() && !eng.any_faults && !eng.config.trace_path;
	__atomic_store_n(&sim_mode.calm, sim_mode.plain, __ATOMIC_RELAXED);
	__atomic_store_n(&sim_mode.posts, engine_in_sim(), __ATOMIC_RELAXED);
	__atomic_store_n(&sim_mode.missed, engine_in_sim(), __ATOMIC_RELAXED);
}

void engine_mode_upset(void)
{
	__atomic_store_n(&sim_mode.calm, false, __ATOMIC_RELEASE);
}

static void engine_mode_stop(void)
{
	sim_mode.plain = sim_mode.faults = false;
	engine_mode_upset();
}

static void engine_run_foreign(void)
{
	eng.phase = ENGINE_RUNNING;
	eng.start_ns = sim_now_ns();
	fault_run();
}

int sim_start(const struct sim_config *config)
{
	static const struct sim_task_attr main_attr = {.name = "main",
						       .kind = SIM_TASK_HOST,
						       .rank = -1,
						       .device = -1,
						       .kernel = -1,
						       .block = -1,
						       .warp = -1,
						       .lane = -1};
	int rc = engine_check_config(config);

	ASSERT(eng.phase == ENGINE_OFF);
	if (rc)
		return rc;
	eng = (struct engine){.kind = config->engine,
			      .config = *config,
			      .seed = config->seed,
			      .resolve = eng.resolve, /* both set once, at load */
			      .home = eng.home};
	eng.thread = pthread_self();
	eng.main_proc = (struct os_proc){.name = "main", .pid = getpid()};
	eng.event_self.self = (struct os_self){
		.id = UINT32_MAX, .proc = &eng.main_proc, .name = "events", .rank = -1, .step = -1};
	engine_defaults();
	output_start();
	rc = choice_start();
	if (rc)
		goto err_choices;
	strategy_start();
	buggify_start();
	probe_start();
	watch_start();
	moment_start();
	waits_start();
	rc = trace_start();
	if (rc)
		goto err_strategy;
	rc = fault_start();
	if (rc)
		goto err_trace;
	rc = mem_start();
	if (rc) {
		fprintf(stderr, "engine: no memory for the memory model and --races: %s\n",
			strerror(rc));
		goto err_fault;
	}
	eng.main_task = task_new(&main_attr, NULL, NULL);
	ASSERT(eng.main_task);
	eng.main_task->pub.self.proc = &eng.main_proc;
	eng.phase = ENGINE_READY;
	sim_gdb_seed = eng.seed;
	sim_gdb_runs++;
	if (!engine_in_sim()) {
		rc = threads_start();
		if (rc)
			goto err_main;
	}
	if (!config->foreign)
		crash_install();
	os_install(engine_in_sim() ? &sched_sim_ops : &sched_threads_ops, NULL);
	engine_mode_start();
	if (config->foreign)
		engine_run_foreign();
	return 0;

err_main:
	eng.phase = ENGINE_OFF;
	free(eng.main_task);
	mem_stop();
err_fault:
	fault_stop();
err_trace:
	trace_stop();
err_strategy:
	strategy_stop();
err_choices:
	choice_stop();
	return rc;
}

static void engine_run_sim(void)
{
	struct task *t = eng.main_task;

	fiber_adopt(&eng.loop, &eng.loop_sp);
	int rc = task_launch(t);
	ASSERT(rc == 0);
	if (setjmp(eng.fail_jump) == 0)
		sched_sim_run();
	eng.current = NULL;
	sim_task_current = NULL;
	eng.in_event = false;
	fiber_abandon(&eng.loop);
}

void engine_begin(void)
{
	ASSERT(eng.phase == ENGINE_READY);
	ASSERT(pthread_equal(eng.thread, pthread_self()));
	eng.phase = ENGINE_RUNNING;
	eng.start_ns = sim_now_ns();
}

enum sim_verdict engine_over(void)
{
	if (eng.config.canary_step && engine_in_sim() && eng.verdict == SIM_PASS)
		engine_late_canary();
	if (eng.verdict == SIM_PASS)
		engine_misuse_awaited();
	eng.phase = ENGINE_OVER;
	engine_write_fail_choices();
	if (eng.config.choices_out && engine_in_sim())
		choice_write(eng.config.choices_out);
	/* a noted failure that no run may have */
	if (eng.verdict == SIM_PASS && eng.failed &&
	    (eng.failure.verdict == SIM_WRONG_RESULT || eng.failure.verdict == SIM_MISUSE))
		eng.verdict = eng.failure.verdict;
	return eng.verdict;
}

enum sim_verdict sim_run(void (*main_fn)(void *arg), void *arg)
{
	engine_begin();
	eng.main_task->fn = main_fn;
	eng.main_task->arg = arg;
	fault_run();
	if (engine_in_sim())
		engine_run_sim();
	else
		threads_run(main_fn, arg);
	return engine_over();
}

void sim_stop(void)
{
	ASSERT(eng.phase == ENGINE_READY || eng.phase == ENGINE_OVER);
	if (!engine_in_sim()) {
		if (eng.phase == ENGINE_READY)
			threads_end();
		threads_stop();
	} else if (eng.phase == ENGINE_READY) {
		task_list_add(eng.main_task); /* the main task never ran */
	}
	mem_stop();
	sched_sim_stop();
	events_stop();
	waits_stop();
	label_stop();
	fault_stop();
	trace_stop();
	strategy_stop();
	choice_stop();
	crash_restore();
	failure_hooks = 0;
	os_install(&os_posix_ops, NULL);
	engine_mode_stop();
	eng.phase = ENGINE_OFF;
}

void sim_exit(int code)
{
	fflush(NULL);
	if (code > SIM_BY_SIGNAL)
		crash_end_by(code - SIM_BY_SIGNAL);
	exit(code);
}

void sim_leave(void)
{
	trace_flush();
}

void sim_forget(void)
{
	thread_part_forget_all();
	threads_all = NULL;
	pthread_mutex_init(&threads_lock, NULL);
	os_install(&os_posix_ops, NULL);
	engine_mode_stop();
	eng = (struct engine){.resolve = eng.resolve, .home = eng.home};
}

bool sim_running(void)
{
	return eng.phase == ENGINE_RUNNING;
}

enum sim_engine sim_engine_kind(void)
{
	return eng.kind;
}

uint64_t sim_switches(void)
{
	return eng.switches;
}

uint64_t sim_steps(void)
{
	return eng.steps;
}

/* ---- dispatch ------------------------------------------------------------------------------- */

int sim_task_spawn(struct sim_task **t, const struct sim_task_attr *attr, void (*fn)(void *),
		   void *arg)
{
	ASSERT(eng.phase != ENGINE_OFF);
	ASSERT(attr->proc);
	return engine_in_sim() ? sched_sim_spawn(t, attr, fn, arg)
			       : threads_spawn(t, attr, fn, arg);
}

struct sim_task *sim_task_self(void)
{
	struct task *t = engine_in_sim() ? eng.current : threads_self();

	return t ? &t->pub : NULL;
}

void sim_set_resolver(const void *(*resolve)(const void *addr),
		      const void *(*home)(const void *addr))
{
	eng.resolve = resolve;
	eng.home = home;
}

int engine_thread_fault(void)
{
	struct os_fault f;

	if (!eng.any_faults || !fault_check("os.thread", NULL, NULL, &f))
		return 0;
	return f.arg ? (int)f.arg : EAGAIN;
}

static void program_is_refused(const char *what)
{
	fprintf(stderr,
		"doppel: a thread that the program started %s in engine sim, which has one thread; "
		"expected engine threads (DOPPEL_ENGINE=threads, doppel exec --engine threads)\n",
		what);
	fflush(NULL);
	_exit(SIM_USAGE);
}

void engine_foreign_thread(void)
{
	if (engine_has_programs())
		program_is_refused("made a call");
	fprintf(stderr, "engine: a thread that the simulator did not start called into it; engine "
			"sim has one OS thread (use engine threads)\n");
	abort();
}

/* True if the process has more than one thread. */
static bool program_has_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;
	int n = 0;

	while (tasks && (entry = readdir(tasks)))
		n += entry->d_name[0] != '.';
	if (tasks)
		closedir(tasks);
	return n > 1;
}

void engine_threads_may_go_on(void)
{
	if (engine_has_programs() && program_has_threads())
		program_is_refused("may end the wait of all tasks");
}

/* ---- failing -------------------------------------------------------------------------------- */

void sim_on_failure(void (*print)(FILE *out))
{
	for (int i = 0; i < failure_hooks; i++)
		if (failure_hook[i] == print)
			return;
	ASSERT(failure_hooks < FAILURE_HOOKS);
	failure_hook[failure_hooks++] = print;
}

void engine_print_failure_hooks(FILE *out)
{
	for (int i = 0; i < failure_hooks; i++)
		failure_hook[i](out);
}

const char *engine_verdict_name(enum sim_verdict verdict)
{
	switch (verdict) {
	case SIM_PASS:
		return "pass";
	case SIM_USAGE:
		return "usage";
	case SIM_ERROR:
		return "error";
	case SIM_SKIPPED:
		return "skipped";
	case SIM_CRASH:
		return "crash";
	case SIM_NO_PROGRESS:
		return "liveness";
	case SIM_WRONG_RESULT:
		return "correctness";
	case SIM_NOT_DETERMINISTIC:
		return "nondeterminism";
	case SIM_LEAK:
		return "leak";
	case SIM_MISUSE:
		return "misuse";
	case SIM_BY_SIGNAL:
		break;
	}
	return "unknown";
}

void sim_format_ns(char out[32], uint64_t ns)
{
	static const struct {
		uint64_t unit;
		const char *name;
	} units[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}};

	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		if (ns >= units[i].unit) {
			snprintf(out, 32, "%" PRIu64 ".%03" PRIu64 "%s", ns / units[i].unit,
				 ns % units[i].unit / (units[i].unit / 1000), units[i].name);
			return;
		}
	}
	snprintf(out, 32, "%" PRIu64 "ns", ns);
}

static void engine_write_in(const char *dir, const char *name, void (*print)(FILE *out))
{
	char path[4096];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	FILE *f = output_open("engine", path);
	if (!f)
		return;
	print(f);
	output_close(f, "engine", path);
}

static void engine_print_fail_line(FILE *out, const struct sim_failure *f)
{
	char vtime[32];

	sim_format_ns(vtime, f->vtime_ns);
	fprintf(out,
		"FAIL %s task=\"%s\" rank=%d step=%" PRIu64 " vtime=%s seed=0x%" PRIx64
		" strategy=%s hash=%016" PRIx64 "\n",
		f->kind, f->task, f->rank, f->step, vtime, eng.seed, sim_strategy_name(), f->hash);
}

/* Prints for people: what failed, which task waits for which, the doubles' state, the faults. */
static void engine_print_explanation(FILE *out)
{
	fprintf(out, "%s: %s\n", eng.failure.kind, eng.failure.message);
	engine_print_fail_line(out, &eng.failure);
	sim_explain(out);
	engine_print_failure_hooks(out);
	sim_fault_print_plan(out);
}

/* Writes the choices of a failed run. The run may continue after a failure, and a replay needs its
 * choices to the end. */
static void engine_write_fail_choices(void)
{
	char path[4096];

	if (!(eng.failed || eng.trouble) || !eng.config.fail_dir || !engine_in_sim())
		return;
	snprintf(path, sizeof path, "%s/choices", eng.config.fail_dir);
	choice_write(path);
}

/* Stores choices, explain.txt, waits.json and tasks.core in fail_dir. */
static void engine_dump(const char *dir)
{
	char path[4096];

	if (mkdir(dir, 0777) && errno != EEXIST) {
		fprintf(stderr, "engine: cannot create directory %s: %s\n", dir, strerror(errno));
		return;
	}
	engine_write_in(dir, "explain.txt", engine_print_explanation);
	engine_write_in(dir, "waits.json", sim_explain_json);
	engine_write_fail_choices();
	snprintf(path, sizeof path, "%s/tasks.core", dir);
	sim_core_write(path);
}

/* Turns a message into one line that fits a file of `key value` lines. */
static void engine_keep_line(char *out, size_t bytes, const char *text)
{
	size_t n = 0;

	while (*text == ' ' || *text == '\n' || *text == '\t')
		text++;
	for (; *text && n < bytes - 1; text++)
		out[n++] = (unsigned char)*text < ' ' ? ' ' : *text;
	while (n && out[n - 1] == ' ')
		n--;
	out[n] = '\0';
}

static void engine_keep_failure(enum sim_verdict verdict, const char *kind, const char *message,
				int32_t rank)
{
	const struct sim_task *t = sim_task_self();
	struct sim_failure *f = &eng.failure;

	eng.failed = true;
	eng.in_turn = eng.trouble = false;
	*f = (struct sim_failure){.verdict = verdict,
				  .rank = rank,
				  .step = eng.steps,
				  .vtime_ns = sim_now_ns() - eng.start_ns,
				  .hash = eng.hash,
				  .before = sim_gdb_steps};
	snprintf(f->kind, sizeof f->kind, "%s", kind);
	engine_keep_line(f->message, sizeof f->message, message);
	engine_keep_line(f->task, sizeof f->task, t ? t->name : "-");
	if (t && rank < 0)
		f->rank = t->self.rank;
}

const struct sim_failure *sim_failure(void)
{
	return eng.failed ? &eng.failure : NULL;
}

static void engine_dump_wanted(void)
{
	const char *dir = eng.config.fail_dir;

	if (!dir)
		return;
	engine_dump(dir);
	if (!eng.config.last_words)
		fprintf(stderr, "files:  %s/{choices,explain.txt,waits.json,tasks.core}\n", dir);
}

static void engine_report_rank(enum sim_verdict verdict, const char *kind, int32_t rank,
			       const char *message)
{
	bool first = !eng.failed || eng.in_turn;

	fflush(stdout);
	trace_flush();
	if (verdict == SIM_NO_PROGRESS)
		sim_explain(stderr);
	if (verdict == SIM_CRASH && eng.config.choices_out && engine_in_sim())
		choice_write(eng.config.choices_out); /* sim_run does not return */
	fprintf(stderr, "%s: %s\n", kind, message);
	if (first)
		engine_keep_failure(verdict, kind, message, rank);
	if (first && !eng.config.last_words)
		engine_print_fail_line(stderr, &eng.failure);
	engine_print_failure_hooks(stderr);
	if (first)
		engine_dump_wanted();
	fflush(stderr);
}

void engine_report(enum sim_verdict verdict, const char *kind, const char *message)
{
	engine_report_rank(verdict, kind, -1, message);
}

void sim_note_failure(enum sim_verdict verdict, const char *kind, int32_t rank, const char *fmt,
		      ...)
{
	char message[512];
	va_list ap;

	if (eng.failed && !eng.in_turn)
		return;
	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	fflush(stdout);
	engine_keep_failure(verdict, kind, message, rank);
	trace_flush();
	engine_dump_wanted();
}

void sim_note_trouble(const char *kind, int32_t rank, const char *fmt, ...)
{
	char message[512];
	va_list ap;

	if (eng.failed || eng.trouble)
		return;
	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	fflush(stdout);
	engine_keep_failure(SIM_ERROR, kind, message, rank);
	eng.failed = false;
	eng.trouble = true;
	trace_flush();
	engine_dump_wanted();
}

const struct sim_failure *sim_trouble(void)
{
	return eng.trouble ? &eng.failure : NULL;
}

void sim_upset(void)
{
	eng.upset = true;
}

bool sim_is_upset(void)
{
	return eng.upset || sim_faults_fired() != 0;
}

/* ---- misuse --------------------------------------------------------------------------------- */

void sim_expect_misuse(const char *words)
{
	for (size_t i = 0; i < ARRAY_LEN(eng.awaited); i++)
		if (!eng.awaited[i].words) {
			eng.awaited[i].words = words;
			return;
		}
	engine_fail(SIM_USAGE, "usage", "sim_expect_misuse: called more than %zu times in a run",
		    ARRAY_LEN(eng.awaited));
}

/* True if the test announced this misuse. */
static bool engine_misuse_met(const char *line)
{
	bool met = false;

	for (size_t i = 0; i < ARRAY_LEN(eng.awaited) && eng.awaited[i].words; i++)
		if (strstr(line, eng.awaited[i].words)) {
			__atomic_store_n(&eng.awaited[i].met, true, __ATOMIC_RELAXED);
			met = true;
		}
	return met;
}

/* Fails a run that passes without the announced misuse: no double noticed what the test did. */
static void engine_misuse_awaited(void)
{
	for (size_t i = 0; i < ARRAY_LEN(eng.awaited) && eng.awaited[i].words; i++)
		if (!eng.awaited[i].met && eng.verdict == SIM_PASS) {
			char text[256];

			snprintf(text, sizeof text, "no misuse '%s' was reported; one was expected",
				 eng.awaited[i].words);
			engine_report(SIM_WRONG_RESULT, "no-misuse", text);
			eng.verdict = SIM_WRONG_RESULT;
		}
}

void sim_misuse_of(const char *prefix, bool in_turn, const char *fmt, va_list ap)
{
	bool first = !eng.failed;
	char line[640];
	int n = snprintf(line, sizeof line, "%s", prefix);

	vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
	os_log_line(line);
	if ((in_turn && !first) || engine_misuse_met(line))
		return;
	sim_note_failure(SIM_MISUSE, "misuse", -1, "%s", line);
	if (in_turn)
		eng.in_turn = true;
}

void sim_misuse(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	sim_misuse_of("", false, fmt, ap);
	va_end(ap);
}

/* Reports the canary of a run that ended before the canary's step. */
static void engine_late_canary(void)
{
	engine_report(SIM_WRONG_RESULT, "canary", "a failure planted after the end of the run");
	eng.verdict = SIM_WRONG_RESULT;
}

/* Ends the run and never returns. A task stays suspended where it is; an event's step is abandoned
 * by a longjmp. sim_run returns the verdict. Outside a run, and in `threads`, the program ends. */
static void engine_end(enum sim_verdict verdict)
{
	eng.verdict = verdict;
	eng.stop = true;
	if (eng.phase != ENGINE_RUNNING || !engine_in_sim()) {
		if (eng.config.last_words)
			eng.config.last_words(eng.config.last_words_arg);
		fflush(NULL);
		if (verdict == SIM_CRASH)
			crash_end_by(SIM_CRASH - SIM_BY_SIGNAL);
		_exit(verdict);
	}
	if (eng.current)
		fiber_suspend(&eng.current->fiber);
	longjmp(eng.fail_jump, 1);
}

void engine_fail(enum sim_verdict verdict, const char *kind, const char *fmt, ...)
{
	char message[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	engine_report(verdict, kind, message);
	engine_end(verdict);
	__builtin_unreachable();
}

void sim_fail(enum sim_verdict verdict, const char *fmt, ...)
{
	char message[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	engine_report(verdict, engine_verdict_name(verdict), message);
	engine_end(verdict);
	__builtin_unreachable();
}

void sim_fail_as(enum sim_verdict verdict, const char *kind, int32_t rank, const char *fmt, ...)
{
	char message[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	engine_report_rank(verdict, kind, rank, message);
	engine_end(verdict);
	__builtin_unreachable();
}
