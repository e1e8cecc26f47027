/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doppel verbs-run --pair: runs a server and its client. The client starts when the server listens.
 * Neither outlives this process: both receive SIGKILL when it ends (PR_SET_PDEATHSIG). The server
 * is ended after its client.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dropin/cli/verbs_run.h"

#define PAIR_POLL_NS       5000000
#define PAIR_LISTEN_POLLS  12000 /* one minute for the server to listen */
#define PAIR_END_POLLS     1000  /* 5 s for the server to end after its client */
#define PAIR_SIGNAL_POLLS  400   /* 2 s for the server to end after SIGTERM */
#define PAIR_SIGNAL_OFFSET 128   /* offset of a signal in a shell's exit code */

static void pair_pause(void)
{
	const struct timespec t = {.tv_nsec = PAIR_POLL_NS};

	nanosleep(&t, NULL);
}

/* ---- listening sockets ---------------------------------------------------------------------- */

/* True if this line of /proc/net/{tcp,tcp6,unix} describes a listening socket. Stores its inode. */
static bool pair_line_listens(const char *line, bool local, unsigned long *inode)
{
	unsigned int state, flags;

	if (local)
		return sscanf(line, "%*s %*s %*s %x %*s %*s %lu", &flags, inode) == 2 &&
		       flags & 0x10000; /* SO_ACCEPTCON */
	return sscanf(line, "%*s %*s %*s %x %*s %*s %*s %*s %*s %lu", &state, inode) == 2 &&
	       state == 10; /* TCP_LISTEN */
}

static bool pair_inode_listens(unsigned long wanted)
{
	static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6", "/proc/net/unix"};
	bool found = false;

	for (size_t i = 0; i < sizeof tables / sizeof tables[0] && !found; i++) {
		FILE *f = fopen(tables[i], "re");
		char line[512];
		unsigned long inode;

		while (f && !found && fgets(line, sizeof line, f))
			found = pair_line_listens(line, i == 2, &inode) && inode == wanted;
		if (f)
			fclose(f);
	}
	return found;
}

static bool pair_process_listens(pid_t pid)
{
	char path[64], name[320], link[64];
	unsigned long inode;
	bool found = false;
	struct dirent *e;

	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(path);

	while (dir && !found && (e = readdir(dir))) {
		snprintf(name, sizeof name, "%s/%s", path, e->d_name);
		ssize_t n = readlink(name, link, sizeof link - 1);

		link[n < 0 ? 0 : n] = '\0';
		found = sscanf(link, "socket:[%lu]", &inode) == 1 && pair_inode_listens(inode);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* True if any process of the server's group listens: the server may be a script. */
static bool pair_group_listens(pid_t group)
{
	DIR *dir = opendir("/proc");
	bool found = false;
	struct dirent *e;

	while (dir && !found && (e = readdir(dir))) {
		pid_t pid = isdigit((unsigned char)*e->d_name) ? (pid_t)atoi(e->d_name) : 0;

		found = pid && getpgid(pid) == group && pair_process_listens(pid);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* ---- the two processes ---------------------------------------------------------------------- */

/* Starts a program. output: its stdout and stderr; -1: inherited. The server has its own process
 * group. */
static pid_t pair_start(char **program, int output)
{
	pid_t parent = getpid(), pid = fork();

	if (pid != 0) {
		if (pid > 0 && output >= 0)
			setpgid(pid, pid);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(VERBS_CANNOT_RUN);
	if (output >= 0) {
		setpgid(0, 0);
		dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
		dup2(output, STDOUT_FILENO);
		dup2(output, STDERR_FILENO);
	}
	_exit(verbs_exec(program));
}

static int pair_code(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : PAIR_SIGNAL_OFFSET + WTERMSIG(status);
}

/* True if the process ended within `polls` polls. Stores its exit code. */
static bool pair_ended(pid_t pid, int polls, int *code)
{
	int status;

	for (int i = 0; i <= polls; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid) {
			*code = pair_code(status);
			return true;
		}
		if (i < polls)
			pair_pause();
	}
	return false;
}

/* Returns the exit code of the server; 0 if it serves without end and was killed. */
static int pair_end_server(pid_t server, bool wait)
{
	int code;

	if (wait && pair_ended(server, PAIR_END_POLLS, &code))
		return code;
	kill(-server, SIGTERM);
	if (!pair_ended(server, PAIR_SIGNAL_POLLS, &code)) {
		kill(-server, SIGKILL);
		waitpid(server, NULL, 0);
	}
	kill(-server, SIGKILL); /* kills processes that the server started */
	return 0;
}

static int pair_client(char **client)
{
	pid_t pid = pair_start(client, -1);
	int status;

	if (pid < 0) {
		fprintf(stderr, "doppel verbs-run: fork for %s: %s\n", client[0], strerror(errno));
		return VERBS_CANNOT_RUN;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pair_code(status);
}

/* Prints the server's output, after the pair has failed. */
static void pair_show(int output)
{
	char text[4096];
	ssize_t n;

	fprintf(stderr, "doppel verbs-run: the server printed:\n");
	lseek(output, 0, SEEK_SET);
	while ((n = read(output, text, sizeof text)) > 0)
		fwrite(text, 1, (size_t)n, stderr);
}

static int pair_serve(pid_t server, char **program, char **client)
{
	int code;

	for (int i = 0; !pair_group_listens(server); i++) {
		if (pair_ended(server, 0, &code)) {
			fprintf(stderr,
				"doppel verbs-run: the server %s ended with %d before it "
				"listened\n",
				program[0], code);
			return code ? code : VERBS_CANNOT_RUN;
		}
		if (i == PAIR_LISTEN_POLLS) {
			fprintf(stderr,
				"doppel verbs-run: the server %s does not listen after %d s\n",
				program[0], PAIR_LISTEN_POLLS / (1000000000 / PAIR_POLL_NS));
			pair_end_server(server, false);
			return VERBS_CANNOT_RUN;
		}
		pair_pause();
	}
	int client_code = pair_client(client);
	int server_code = pair_end_server(server, client_code == 0);

	return client_code ? client_code : server_code;
}

int verbs_pair_run(char **server, char **client)
{
	int output = memfd_create("doppel-server", MFD_CLOEXEC);
	pid_t pid = output < 0 ? -1 : pair_start(server, output);

	if (pid < 0) {
		fprintf(stderr, "doppel verbs-run: %s cannot be started: %s\n", server[0],
			strerror(errno));
		return VERBS_CANNOT_RUN;
	}
	int code = pair_serve(pid, server, client);

	if (code)
		pair_show(output);
	close(output);
	return code;
}
