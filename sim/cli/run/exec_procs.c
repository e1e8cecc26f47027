/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel exec --procs: each program of a job is a real process (docs/sim/processes.md). */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/os/os.h"
#include "sim/cli/run/exec_program.h"
#include "sim/cli/run/launcher.h"
#include "sim/world/world.h"

struct exec_procs {
	struct launcher launcher;
	uint32_t hosts;
	bool hcas;
	char **program;
};

static void exec_procs_set(const char *name, uint32_t value)
{
	char text[16];

	snprintf(text, sizeof text, "%u", value);
	setenv(name, text, 1);
}

/* Sets the variables that mpirun and torchrun set. */
static void exec_procs_ranks(uint32_t i, uint32_t processes, uint32_t local, uint32_t here)
{
	static const char *const names[][2] = {
		{"RANK", "OMPI_COMM_WORLD_RANK"},
		{"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"},
		{"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"},
		{"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
	};
	const uint32_t values[] = {i, processes, local, here};

	DOPPEL_STATIC_CHECK(ARRAY_LEN(names) == ARRAY_LEN(values),
			    "a value for each pair of names");
	for (size_t n = 0; n < ARRAY_LEN(names); n++) {
		exec_procs_set(names[n][0], values[n]);
		exec_procs_set(names[n][1], values[n]);
	}
}

/* Runs in the child. Returns on failure, as the caller of exec. */
static void exec_procs_child(uint32_t i, void *arg)
{
	const struct exec_procs *all = arg;
	uint32_t per_host = all->launcher.count / all->hosts, host = i / per_host;
	char text[128], boot[64] = "";

	ASSERT(i < all->launcher.count && host < all->hosts);
	exec_procs_ranks(i, all->launcher.count, i % per_host, per_host);
	snprintf(text, sizeof text, "%u/%u/%u/%u", i, all->launcher.count, host, all->hosts);
	setenv("DOPPEL_JOB", text, 1);
	setenv("DOPPEL_EXEC", "1", 1); /* makes an idle program report itself */
	snprintf(text, sizeof text, "procs-%d", (int)getppid());
	setenv("DOPPEL_FABRIC", text, 1);
	os_boot_id(boot, sizeof boot);
	snprintf(text, sizeof text, "%s-%d-%u", boot, (int)getppid(), host);
	setenv("NCCL_HOSTID", text, 0);
	if (all->hcas)
		exec_hcas_show(host);
	execvp(all->program[0], all->program);
	fprintf(stderr, "doppel exec: %s: %s\n", all->program[0], strerror(errno));
	_exit(errno == ENOENT ? EXEC_NOT_FOUND : EXEC_CANNOT_RUN);
}

/* Sets NCCL_COMM_ID to a port that is free now, unless the caller has set it. */
static bool exec_procs_root(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof at;
	char text[64];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool ok = fd >= 0 && !bind(fd, (struct sockaddr *)&at, bytes) &&
		  !getsockname(fd, (struct sockaddr *)&at, &bytes);

	if (!ok)
		fprintf(stderr, "doppel exec: no port for NCCL_COMM_ID: %s\n", strerror(errno));
	if (fd >= 0)
		close(fd);
	snprintf(text, sizeof text, "127.0.0.1:%u", ntohs(at.sin_port));
	return ok && !setenv("NCCL_COMM_ID", text, 0);
}

int exec_procs(uint32_t count, uint32_t hosts, bool hcas, char **program)
{
	static struct exec_procs all;

	ASSERT(count && hosts && count % hosts == 0);
	all.launcher =
		(struct launcher){.count = count, .out = stderr, .grace_s = launcher_grace_s()};
	all.hosts = hosts;
	all.hcas = hcas;
	all.program = program;
	setenv("DOPPEL_ENGINE", "threads", 1);
	setenv("DOPPEL_TIMEOUT_MS", LAUNCHER_TIMEOUT_MS, 0);
	if (!exec_procs_root())
		return SIM_USAGE;
	for (uint32_t i = 0; i < count; i++)
		if (!launcher_start(&all.launcher, i, exec_procs_child, &all))
			return SIM_USAGE; /* the started processes die with this one */
	return launcher_wait(&all.launcher);
}
