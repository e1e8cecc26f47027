/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replacements of libc's functions in the programs of a job. libc keeps one state per process, but
 * each program needs its own. A caller that is not a program of the job (a child made by fork, a
 * thread in engine sim) gets libc's functions.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/world/program/world_guest.h"
#include "sim/world/program/job_internal.h"

/* ---- ends ----------------------------------------------------------------------------------- */

static void call_exit(int status) __attribute__((noreturn));
static void call_exit(int status)
{
	struct job_process *p = job_self();

	if (p)
		job_exit(p, status, true);
	exit(status);
}

static void call_exit_now(int status) __attribute__((noreturn));
static void call_exit_now(int status)
{
	struct job_process *p = job_self();

	if (p)
		job_exit(p, status, false);
	_exit(status);
}

/* ---- the environment and the host ----------------------------------------------------------- */

static char *call_getenv(const char *name)
{
	const struct job_process *p = job_self();

	return p ? (char *)job_env_get(p, name) : getenv(name);
}

static int call_result(int rc)
{
	errno = rc;
	return rc ? -1 : 0;
}

static int call_setenv(const char *name, const char *value, int over)
{
	struct job_process *p = job_self();

	if (!p)
		return setenv(name, value, over);
	if (!name || !*name || strchr(name, '='))
		return call_result(EINVAL);
	if (!over && job_env_get(p, name))
		return 0;
	return call_result(job_env_set(p, name, value));
}

static int call_unsetenv(const char *name)
{
	struct job_process *p = job_self();

	if (!p)
		return unsetenv(name);
	if (!name || !*name || strchr(name, '='))
		return call_result(EINVAL);
	return call_result(job_env_set(p, name, NULL));
}

/* Differs from libc's putenv: a later change of `text` does not change the environment. */
static int call_putenv(char *text)
{
	struct job_process *p = job_self();
	const char *equals = strchr(text, '=');
	char *name = strndup(text, equals ? (size_t)(equals - text) : strlen(text));
	int rc = name ? 0 : ENOMEM;

	if (!rc && p)
		rc = job_env_set(p, name, equals ? equals + 1 : NULL);
	free(name);
	return p || rc ? call_result(rc) : putenv(text);
}

static int call_gethostname(char *name, size_t bytes)
{
	if (!job_self())
		return gethostname(name, bytes);
	os_host_name(name, bytes);
	return 0;
}

/* ---- threads -------------------------------------------------------------------------------- */

struct call_thread {
	void *(*fn)(void *arg);
	void *arg;
	struct os_proc *proc;
};

static void *call_thread_main(void *arg)
{
	struct call_thread t = *(struct call_thread *)arg;

	free(arg);
	sim_adopt_thread(t.proc);
	return t.fn(t.arg);
}

/* In engine `threads` the new thread belongs to its program. In engine sim it must not call a
 * double. */
static int call_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*fn)(void *),
			       void *arg)
{
	const struct job_process *p = job_self();

	if (!p || sim_engine_kind() == SIM_ENGINE_SIM)
		return pthread_create(id, attr, fn, arg);
	struct call_thread *t = malloc(sizeof *t);

	if (!t)
		return EAGAIN;
	*t = (struct call_thread){.fn = fn, .arg = arg, .proc = p->proc};
	int rc = pthread_create(id, attr, call_thread_main, t);

	if (rc)
		free(t);
	return rc;
}

/* ---- options -------------------------------------------------------------------------------- */

/* Program whose options libc parses now: from its first getopt until one returns -1. The variables
 * that the program reads are copies of libc's. */
static const struct job_process *call_parses;

static void call_copy(const struct job_process *p, const char *name, void *ours, size_t bytes,
		      bool out)
{
	void *its = program_variable(&p->program, name);

	if (its)
		memcpy(out ? its : ours, out ? ours : its, bytes);
}

static void call_getopt_variables(const struct job_process *p, bool out)
{
	call_copy(p, "optind", &optind, sizeof optind, out);
	call_copy(p, "opterr", &opterr, sizeof opterr, out);
	call_copy(p, "optopt", &optopt, sizeof optopt, out);
	call_copy(p, "optarg", &optarg, sizeof optarg, out);
}

/* Waits until no other program parses options, then marks p as the parsing program. */
static void call_getopt_take(const struct job_process *p)
{
	const struct job_process *other = NULL;

	while (!__atomic_compare_exchange_n(&call_parses, &other, p, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE)) {
		other = NULL;
		os_sleep_ns(1000);
	}
}

static void call_getopt_begin(const struct job_process *p)
{
	bool first = __atomic_load_n(&call_parses, __ATOMIC_ACQUIRE) != p;

	if (first)
		call_getopt_take(p);
	optind = 1;
	call_getopt_variables(p, false);
	if (first && optind == 1)
		optind = 0; /* restarts libc's parser */
}

void job_getopt_start(const struct job_process *p)
{
	int ind = 1, err = 1, opt = '?';
	char *arg = NULL;

	call_copy(p, "optind", &ind, sizeof ind, true);
	call_copy(p, "opterr", &err, sizeof err, true);
	call_copy(p, "optopt", &opt, sizeof opt, true);
	call_copy(p, "optarg", &arg, sizeof arg, true);
}

void job_getopt_release(const struct job_process *p)
{
	const struct job_process *mine = p;

	__atomic_compare_exchange_n(&call_parses, &mine, NULL, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
}

static int call_getopt_any(int (*get)(int, char *const *, const char *, const struct option *,
				      int *),
			   int argc, char *const *argv, const char *options,
			   const struct option *names, int *index)
{
	const struct job_process *p = job_self();

	if (!p)
		return get(argc, argv, options, names, index);
	call_getopt_begin(p);
	int c = get(argc, argv, options, names, index);

	call_getopt_variables(p, true);
	if (c == -1)
		job_getopt_release(p);
	return c;
}

static int call_getopt_short(int argc, char *const *argv, const char *options,
			     const struct option *names, int *index)
{
	(void)names, (void)index;
	return getopt(argc, argv, options);
}

static int call_getopt(int argc, char *const *argv, const char *options)
{
	return call_getopt_any(call_getopt_short, argc, argv, options, NULL, NULL);
}

static int call_getopt_long(int argc, char *const *argv, const char *options,
			    const struct option *names, int *index)
{
	return call_getopt_any(getopt_long, argc, argv, options, names, index);
}

static int call_getopt_long_only(int argc, char *const *argv, const char *options,
				 const struct option *names, int *index)
{
	return call_getopt_any(getopt_long_only, argc, argv, options, names, index);
}

/* ---- the table ------------------------------------------------------------------------------ */

void *program_call(const char *name)
{
	/* clang-format off */
	static const struct {
		const char *name;
		void *call;
	} all[] = {
		{"exit",             (void *)call_exit},
		{"_exit",            (void *)call_exit_now},
		{"_Exit",            (void *)call_exit_now},
		{"quick_exit",       (void *)call_exit_now},
		{"getenv",           (void *)call_getenv},
		{"secure_getenv",    (void *)call_getenv},
		{"setenv",           (void *)call_setenv},
		{"unsetenv",         (void *)call_unsetenv},
		{"putenv",           (void *)call_putenv},
		{"gethostname",      (void *)call_gethostname},
		{"pthread_create",   (void *)call_pthread_create},
		{"getopt",           (void *)call_getopt},
		{"getopt_long",      (void *)call_getopt_long},
		{"getopt_long_only", (void *)call_getopt_long_only},
	};
	/* clang-format on */
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (strcmp(all[i].name, name) == 0)
			return all[i].call;
	return program_time_call(name);
}
