/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/cli/run/launcher.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/lab/search/fail.h"

#define LAUNCHER_GRACE_S 40

/* ---- start ---------------------------------------------------------------------------------- */

void launcher_exec_self(uint32_t i, int argc, char **argv, char *const *more)
{
	char **args = calloc((size_t)argc + 8, sizeof *args);
	int n = 0;

	if (!args)
		return;
	args[n++] = (char *)"doppel";
	for (int a = 0; a < argc; a++)
		args[n++] = argv[a];
	for (int a = 0; more[a]; a++)
		args[n++] = more[a];
	ASSERT(n < argc + 8); /* the last one stays NULL */
	execv("/proc/self/exe", args);
	free(args);
	fprintf(stderr, "doppel: cannot start process %u: /proc/self/exe: %s\n", i,
		strerror(errno));
}

/* The child ends with its launcher, also if that has ended already. */
static void launcher_bind(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(SIM_USAGE);
}

bool launcher_start(struct launcher *l, uint32_t i, void (*child)(uint32_t i, void *arg), void *arg)
{
	pid_t parent = getpid();

	ASSERT(i < CLI_MAX_PROCESSES && !l->pid[i]);
	fflush(NULL); /* the child must not write it again */
	l->pid[i] = fork();
	if (l->pid[i] == 0) {
		launcher_bind(parent);
		child(i, arg);
		_exit(SIM_USAGE);
	}
	if (l->pid[i] < 0) {
		l->pid[i] = 0;
		fprintf(stderr, "doppel: cannot start process %u: %s\n", i, strerror(errno));
		return false;
	}
	ASSERT(i < l->count && l->each >= 0);
	int32_t first = (int32_t)i * l->each;

	fprintf(l->out, "# process %u: pid %d", i, (int)l->pid[i]);
	if (l->each)
		fprintf(l->out, ", ranks %d to %d", first, first + l->each - 1);
	fprintf(l->out, "\n");
	fflush(l->out);
	return true;
}

/* ---- end ------------------------------------------------------------------------------------ */

/* A code that is no verdict is a program's own: more severe than 0 only. */
static int launcher_severity(int code)
{
	int severity = fail_severity(code > SIM_BY_SIGNAL ? SIM_CRASH : (enum sim_verdict)code);

	return severity ? severity : code != 0;
}

uint32_t launcher_timeout_ms(void)
{
	const char *text = getenv("DOPPEL_TIMEOUT_MS");
	unsigned long ms = text ? strtoul(text, NULL, 10) : 0; /* 0: none, for launches */

	return (uint32_t)(ms ? MIN_OF(ms, 1000000000ul) : strtoul(LAUNCHER_TIMEOUT_MS, NULL, 10));
}

uint32_t launcher_grace_s(void)
{
	return launcher_timeout_ms() / 1000 + LAUNCHER_GRACE_S;
}

/* Describes a process: its rank and its pid. */
static const char *launcher_name(const struct launcher *l, uint32_t i, pid_t pid, char out[64])
{
	int n = snprintf(out, 64, "process %u (", i);

	if (l->each)
		n += snprintf(out + n, 64 - (size_t)n, "rank %d, ", (int32_t)i * l->each);
	snprintf(out + n, 64 - (size_t)n, "pid %d)", (int)pid);
	return out;
}

static void launcher_ended(struct launcher *l, pid_t pid, int status)
{
	uint32_t i = 0;
	char name[64];
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : SIM_BY_SIGNAL + WTERMSIG(status);

	while (i < l->count && l->pid[i] != pid)
		i++;
	if (i == l->count)
		return;
	l->pid[i] = 0;
	if (WIFSIGNALED(status))
		fprintf(stderr, "doppel: %s was ended by signal %d, %s\n",
			launcher_name(l, i, pid, name), WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	else if (code)
		fprintf(stderr, "doppel: %s ended with %d\n", launcher_name(l, i, pid, name), code);
	if (code && !l->code)
		alarm(l->grace_s);
	if (launcher_severity(code) > launcher_severity(l->code))
		l->code = code;
}

static void launcher_kill(struct launcher *l)
{
	char name[64];

	for (uint32_t i = 0; i < l->count; i++) {
		if (!l->pid[i])
			continue;
		fprintf(stderr,
			"doppel: %s has not ended %u s after another one failed: it is "
			"killed\n",
			launcher_name(l, i, l->pid[i], name), l->grace_s);
		kill(l->pid[i], SIGKILL);
		l->pid[i] = 0;
	}
	l->code = SIM_NO_PROGRESS;
}

static void launcher_alarm(int signal)
{
	(void)signal;
}

int launcher_wait(struct launcher *l)
{
	const struct sigaction on_alarm = {.sa_handler = launcher_alarm}; /* interrupts waitpid */
	int status;

	sigaction(SIGALRM, &on_alarm, NULL);
	for (;;) {
		pid_t pid = waitpid(-1, &status, 0);
		if (pid > 0)
			launcher_ended(l, pid, status);
		else if (errno == EINTR)
			launcher_kill(l);
		else
			break;
	}
	ASSERT(errno == ECHILD); /* all have ended, or were killed */
	return l->code;
}
