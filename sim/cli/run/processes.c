/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doppel run in real processes: --processes starts them on this computer, as a launcher does, and
 * waits for all of them; --rank makes this process one of them.
 *
 * The processes of one computer share the GPUs of its machine. Process i drives the GPUs after
 * those of process i - 1. Real GPUs connect processes by CUDA IPC. Another process cannot open the
 * GPU double's memory, so the double connects them by shared memory. Sockets connect them with
 * NCCL_SHM_DISABLE, and between computers. With the GPU double and a real HCA each process counts
 * as a separate host: the network connects them.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/os/os.h"
#include "sim/cli/options.h"
#include "sim/cli/run/launcher.h"

/* Longest time in s that survivors of a dead process need. A queue pair with NCCL's timeout and
 * retries gives up after 34 s to 137 s. */
#define PROCESSES_GRACE_S 180

static int32_t processes_ranks_each(const struct cli_options *o)
{
	const struct lab_config *c = &o->scenario.lab;
	return (int32_t)(c->device_count ? c->device_count : c->gpus ? c->gpus : 1);
}

/* ---- the unique id --------------------------------------------------------------------------- */

static bool processes_move(int fd, void *data, size_t bytes, bool out)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = out ? write(fd, (char *)data + done, bytes - done)
				: read(fd, (char *)data + done, bytes - done);
		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static bool process_get_id(bool make, ncclUniqueId *id, void *arg)
{
	const struct cli_options *o = arg;

	if (make || o->root) {
		if (ncclGetUniqueId(id) != ncclSuccess)
			return false;
	}
	if (o->root || processes_move(o->id_fd, id, sizeof *id, make))
		return true;
	fprintf(stderr, "doppel: no unique id received: rank 0's process has ended\n");
	return false;
}

/* ---- one of the processes -------------------------------------------------------------------- */

#ifdef DOPPEL_FAKEVERBS
/* Returns the last value of a variable, which may be the caller's; NULL: not set. */
static const char *process_variable(const struct scenario *s, const char *name)
{
	const char *value = NULL;
	size_t n = strlen(name);

	for (uint32_t i = 0; i < s->env_count; i++)
		if (strncmp(s->env[i], name, n) == 0 && s->env[i][n] == '=')
			value = s->env[i] + n + 1;
	return value;
}

/* True if the ranks may use the network of a plugin, which reaches other processes. */
static bool process_has_plugin(const struct scenario *s)
{
	const char *plugin = process_variable(s, "NCCL_NET_PLUGIN");

	return plugin && *plugin && strcasecmp(plugin, "none") != 0;
}
#endif

static void process_environment(const struct cli_options *o)
{
#ifdef DOPPEL_FAKEVERBS
	if (!process_has_plugin(&o->scenario))
		setenv("NCCL_NET", "Socket", 0); /* the HCA double ends at its process */
#endif
#if defined(DOPPEL_FAKECUDA) && defined(DOPPEL_FAKEVERBS)
	setenv("NCCL_P2P_DISABLE", "1", 1);
	setenv("DOPPEL_TOPO_NETWORK", "1", 0);
#elif defined(DOPPEL_FAKECUDA)
	char boot[64] = "", host[128];

	os_boot_id(boot, sizeof boot);
	snprintf(host, sizeof host, "%s-%d", boot, (int)getpid());
	setenv("NCCL_HOSTID", host, 0);
	setenv("DOPPEL_TOPO_NETWORK", "1", 0);
#endif
	if (o->root)
		setenv("NCCL_COMM_ID", o->root, 1);
}

static bool process_can_reach_others(const struct cli_options *o, bool several)
{
#ifdef DOPPEL_FAKEVERBS
	const char *net = process_variable(&o->scenario, "NCCL_NET");

	if (several && !process_has_plugin(&o->scenario) && net && *net &&
	    strcasecmp(net, "Socket") != 0) {
		fprintf(stderr,
			"doppel: NCCL_NET is %s, and the HCA double ends at its process; ranks in "
			"several need NCCL_NET=Socket or a real HCA (presets soft-roce, "
			"hardware)\n",
			net);
		return false;
	}
#endif
	(void)o;
	(void)several;
	return true;
}

/* Returns the number of hosts. A launcher of clusters knows it. Processes that a user starts with
 * --rank count as one on each host. */
static uint32_t process_hosts(const struct cli_options *o)
{
#if !defined(DOPPEL_FAKECUDA) || defined(DOPPEL_FAKEVERBS)
	if (o->place.by)
		return DIV_UP(o->place.processes, o->place.here);
	if (!o->root)
		return 1;
#endif
	return (uint32_t)(o->ranks / processes_ranks_each(o));
}

/* Returns the first GPU of a process that a launcher started. */
static int32_t process_first_device(const struct cli_options *o)
{
#if !defined(DOPPEL_FAKECUDA) || defined(DOPPEL_FAKEVERBS)
	if (o->place.by && !o->scenario.lab.device_count)
		return (int32_t)o->place.local * processes_ranks_each(o);
	if (!o->root && !o->scenario.lab.device_count)
		return o->rank;
#endif
	(void)o;
	return 0;
}

static bool process_check(const struct cli_options *o, int32_t each)
{
	if (o->ranks < 1 || o->rank + each > o->ranks) {
		fprintf(stderr, "doppel: --rank %d with %d GPUs does not fit in --ranks %d\n",
			o->rank, each, o->ranks);
		return false;
	}
	if (!o->root && o->id_fd < 0) {
		fprintf(stderr, "doppel: --rank needs --root HOST:PORT, where rank 0's process "
				"meets the others\n");
		return false;
	}
	return process_can_reach_others(o, each < o->ranks);
}

int cli_process(struct cli_options *o)
{
	struct lab_spread spread = {.first = o->rank,
				    .ranks = o->ranks,
				    .hosts = process_hosts(o),
				    .first_device = process_first_device(o),
				    .get_id = process_get_id,
				    .arg = o,
				    .limit_s = o->limit_s};
	struct lab_config *c = &o->scenario.lab;
	struct lab_result result;

	ASSERT(o->rank >= 0);
	if (!process_check(o, processes_ranks_each(o)))
		return SIM_USAGE;
	process_environment(o);
	ASSERT(spread.hosts >= 1 && spread.first_device >= 0);
	c->spread = &spread;
	c->hosts = 1;
	c->gpus = (uint32_t)processes_ranks_each(o);
	c->ranks_per_proc = LAB_ALL_RANKS;
	c->sim.engine = SIM_ENGINE_THREADS;
	c->strict_device_view = false; /* a real HCA pins the program's mapping */
	c->table = o->rank == 0 ? stdout : NULL;
	const struct lab_config *lab = scenario_lab(&o->scenario);
	if (lab_run(lab, &result))
		return SIM_USAGE;
	return (int)lab_outcome(lab, &result);
}

/* ---- all processes --------------------------------------------------------------------------- */

struct processes {
	struct launcher launcher;
	int fd[CLI_MAX_PROCESSES]; /* sockets that pass the unique id */
	int theirs;                /* the other end, for the next process */
	int argc;
	char **argv;
};

/* Runs in the child: executes the same command again as one of the ranks. Returns on failure. */
static void processes_exec(uint32_t i, void *arg)
{
	struct processes *all = arg;
	char rank[16], ranks[16], id[16];
	char *const more[] = {
		(char *)"--rank", rank, (char *)"--ranks", ranks, (char *)"--id-fd", id, NULL};

	ASSERT(i < all->launcher.count); /* sockets of later processes do not exist yet */
	for (uint32_t k = 0; k <= i; k++)
		close(all->fd[k]);
	snprintf(rank, sizeof rank, "%d", (int32_t)i * all->launcher.each);
	snprintf(ranks, sizeof ranks, "%d", (int32_t)all->launcher.count * all->launcher.each);
	snprintf(id, sizeof id, "%d", all->theirs);
	launcher_exec_self(i, all->argc, all->argv, more);
}

static bool processes_start(struct processes *all, uint32_t i)
{
	int fd[2];

	ASSERT(i < CLI_MAX_PROCESSES);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd)) {
		fprintf(stderr, "doppel: cannot start process %u: %s\n", i, strerror(errno));
		return false;
	}
	all->fd[i] = fd[0];
	all->theirs = fd[1];
	bool ok = launcher_start(&all->launcher, i, processes_exec, all);

	close(fd[1]);
	return ok;
}

/* Passes the unique id from the first process to the others. A process whose socket closes before
 * it receives the id reports that. */
static void processes_hand_out_id(struct processes *all)
{
	ncclUniqueId id;
	bool have = processes_move(all->fd[0], &id, sizeof id, false);

	for (uint32_t i = 0; i < all->launcher.count; i++) {
		if (have && i)
			(void)processes_move(all->fd[i], &id, sizeof id, true);
		close(all->fd[i]);
	}
}

int cli_processes(int argc, char **argv, const struct cli_options *o)
{
	static struct processes all;

	all.launcher = (struct launcher){.count = o->processes,
					 .each = processes_ranks_each(o),
					 .out = stdout,
					 .grace_s = PROCESSES_GRACE_S};
	all.argc = argc;
	all.argv = argv;
	if (!process_can_reach_others(o, all.launcher.count > 1))
		return SIM_USAGE;
	ASSERT(all.launcher.count > 0 && all.launcher.each > 0);
	signal(SIGPIPE, SIG_IGN);
	for (uint32_t i = 0; i < all.launcher.count; i++)
		if (!processes_start(&all, i))
			return SIM_USAGE; /* the started processes die with this one */
	processes_hand_out_id(&all);
	return launcher_wait(&all.launcher);
}
