/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/world/program/job.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/world/program/world_guest.h"
#include "sim/world/program/job_internal.h"
#include "sim/world/program/ras_ask.h"

#define JOB_STACK_BYTES (8u << 20) /* stack size of a program's first thread */
#define JOB_PORT        29500      /* port of NCCL_COMM_ID, below the ports that hosts assign */

static struct job {
	const struct world_job *config;
	struct program_file *file;
	struct job_process process[WORLD_JOB_PROCESSES];
	uint32_t count; /* number of processes that exist */
	uint32_t first; /* id of the first process */
	bool on, forked;
	bool used;        /* a program has made a CUDA or NCCL call */
	pthread_t thread; /* thread that runs the engine */
	int rc;
	pthread_mutex_t end; /* only one program ends the job */
} job = {.end = PTHREAD_MUTEX_INITIALIZER};

static uint32_t job_ranks(void)
{
	return job.config->hosts * job.config->per_host;
}

/* In engine sim only the thread that runs the engine has a task. sim_task_known() would return the
 * engine's current task on any other thread. */
struct job_process *job_self(void)
{
	bool sim = job.on && sim_engine_kind() == SIM_ENGINE_SIM;
	const struct sim_task *t = !job.on || (sim && !pthread_equal(job.thread, pthread_self()))
					   ? NULL
					   : sim_task_known();
	uint32_t i = t ? t->self.proc->id - job.first : UINT32_MAX;

	return i < job.count ? &job.process[i] : NULL;
}

/* ---- the end of a program ------------------------------------------------------------------- */

/* Reports each process that the fault plan killed. True: at least one. */
static bool job_report_killed(void)
{
	bool any = false;

	for (uint32_t i = 0; i < job.count; i++) {
		const struct job_process *p = &job.process[i];

		if (p->left || world_proc_alive(p->proc))
			continue;
		any = true;
		fprintf(stderr, "doppel exec: the fault plan killed rank %u (host %u)\n", p->rank,
			p->proc->host);
	}
	return any;
}

/* Ends the job with the status of p. The other programs do not continue. */
static void job_fail(const struct job_process *p) __attribute__((noreturn));
static void job_fail(const struct job_process *p)
{
	pthread_mutex_lock(&job.end);
	fflush(stdout);
	fprintf(stderr,
		"doppel exec: the program of rank %u (host %u) ended with %d: the job ends\n",
		p->rank, p->proc->host, p->status);
	(void)job_report_killed();
	world_guest_report();
	world_guest_quit(p->status);
}

void job_exit(struct job_process *p, int status, bool handlers)
{
	p->status = status & 0xff;
	p->finishing |= !handlers;
	if (sim_task_self() == p->task)
		longjmp(p->over, 1);
	if (!p->status)
		fprintf(stderr,
			"doppel exec: the program of rank %u ends in another thread than that of "
			"main: its leaks are not checked\n",
			p->rank);
	job_fail(p);
}

/* ---- the programs --------------------------------------------------------------------------- */

static void job_process_main(void *arg)
{
	struct job_process *p = arg;

	p->task = sim_task_self();
	if (setjmp(p->over) == 0) {
		if (program_load(job.file, &p->program))
			world_guest_quit(SIM_USAGE);
		program_install(); /* for the C++ library, which the copy has loaded */
		job_env_publish(p);
		job_getopt_start(p);
		p->status = p->program.main(p->argc, p->argv, p->env) & 0xff;
	}
	if (!p->finishing) { /* an exit handler that calls exit jumps here, too */
		p->finishing = true;
		program_finish(&p->program);
	}
	job_getopt_release(p);
	if (p->status)
		job_fail(p);
	world_proc_finish(p->proc);
	shared_store_u32(&p->over_word, 1, SHARED_RELEASE);
}

static void job_process_gone(struct os_proc *proc, bool killed)
{
	uint32_t i = proc->id - job.first;

	if (killed && job.on && i < job.count)
		shared_store_u32(&job.process[i].over_word, 1, SHARED_RELEASE);
}

/* Ends the process of a main task that has ended, even if its communicators are still in use. */
static void job_reap(struct job_process *p)
{
	os_thread_join((struct os_thread *)p->task);
	p->left = world_proc_alive(p->proc);
	job.used |= !p->left || p->proc->slot[OS_SLOT_CUDA] || p->proc->slot[OS_SLOT_CORE];
	if (!p->left || !world_proc_leave(p->proc))
		return;
	fprintf(stderr,
		"doppel exec: process %s exited with 0 without ncclCommDestroy: its open "
		"objects are closed\n",
		p->proc->name);
	sim_explain_first("process %s exited with 0 without ncclCommDestroy", p->proc->name);
}

/* Waits for all programs. Ends each process when its own program ends. */
static void job_wait(struct job_process **running, uint32_t n)
{
	struct wait wait[WORLD_JOB_PROCESSES];
	const struct wait *list[WORLD_JOB_PROCESSES];

	while (n) {
		int index = 0;

		for (uint32_t i = 0; i < n; i++) {
			wait[i] =
				wait_word(&running[i]->over_word, 4, WAIT_EQ, 1, "end of a program",
					  wait_by(-1, -1, running[i]->proc->name));
			list[i] = &wait[i];
		}
		(void)os_wait(list, (int)n, NULL, &index);
		job_reap(running[index]);
		running[index] = running[--n];
	}
}

static int job_copy_arguments(struct job_process *p)
{
	int n = 0;

	while (job.config->argv[n])
		n++;
	p->argv = calloc((size_t)n + 1, sizeof *p->argv);
	for (; p->argv && p->argc < n; p->argc++) {
		p->argv[p->argc] = strdup(job.config->argv[p->argc]);
		if (!p->argv[p->argc])
			return ENOMEM;
	}
	return p->argv ? 0 : ENOMEM;
}

/* Sets NCCL_COMM_ID to an address of host 0, with a port that is otherwise unused. A value in the
 * caller's environment takes precedence. */
static int job_set_root(struct job_process *p)
{
	char name[32], text[64];
	struct os_addr at;
	int rc = os_interface(0, name, sizeof name, &at);

	if (rc || job_env_get(p, "NCCL_COMM_ID"))
		return rc;
	snprintf(text, sizeof text, "%u.%u.%u.%u:%d", at.ip[0], at.ip[1], at.ip[2], at.ip[3],
		 JOB_PORT);
	return job_env_set(p, "NCCL_COMM_ID", text);
}

static int job_process_make(struct job_process *p)
{
	uint32_t per_host = job.config->per_host, host = job.count / per_host;
	char name[32];

	p->rank = job.count;
	snprintf(name, sizeof name, "host%u/p%u", host, p->rank % per_host);
	int rc = world_proc_create(host, name, &p->proc);

	if (rc)
		return rc;
	if (!job.count++)
		job.first = p->proc->id;
	ASSERT(p->proc->id == job.first + p->rank);
	rc = job_env_make(p, job_ranks(), per_host);
	rc = rc ? rc : job_set_root(p);
	return rc ? rc : job_copy_arguments(p);
}

static int job_process_start(struct job_process *p)
{
	struct sim_task_attr attr = {.kind = SIM_TASK_HOST,
				     .proc = p->proc,
				     .rank = -1, /* the program knows its ranks */
				     .device = -1,
				     .kernel = -1,
				     .block = -1,
				     .warp = -1,
				     .lane = -1,
				     .stack_bytes = JOB_STACK_BYTES};
	char name[48];

	snprintf(name, sizeof name, "%s main", p->proc->name);
	attr.name = name;
	return sim_task_spawn(&p->task, &attr, job_process_main, p);
}

static void job_main(void *arg)
{
	struct job_process *running[WORLD_JOB_PROCESSES];
	uint32_t n = 0;

	(void)arg;
	for (uint32_t i = 0; i < job_ranks() && !job.rc; i++)
		job.rc = job_process_make(&job.process[i]);
	for (uint32_t i = 0; i < job.count && !job.rc; i++) {
		job.rc = job_process_start(&job.process[i]);
		if (!job.rc)
			running[n++] = &job.process[i];
	}
	if (job.rc)
		fprintf(stderr, "doppel exec: cannot start the programs: %s\n", strerror(job.rc));
	if (!job.rc)
		job.rc = world_ras_ask_start();
	job_wait(running, n);
	world_ras_ask_end();
}

/* ---- the job -------------------------------------------------------------------------------- */

/* Forgets the world in a forked child of a program. */
static void job_forked(void)
{
	if (!job.on)
		return;
	job.on = false;
	world_forget();
	sim_forget();
}

int world_job_run(const struct world_job *config)
{
	int rc = program_file_open(config->argv[0], &job.file);

	if (rc)
		return rc;
	ASSERT(config->hosts * config->per_host <= WORLD_JOB_PROCESSES);
	job.config = config;
	if (world_guest_start(config->hosts)) {
		program_file_close(job.file);
		return -1;
	}
	pthread_atfork(NULL, NULL, job_forked);
	world_on_proc_exit(job_process_gone);
	job.thread = pthread_self();
	job.on = true;
	enum sim_verdict verdict = sim_run(job_main, NULL);

	job.on = false;
	if (verdict == SIM_PASS && !job.used && !job.rc)
		fprintf(stderr, "doppel: the programs made no CUDA or NCCL call: nothing ran on "
				"the doubles\n");
	bool killed = job_report_killed();

	verdict = world_guest_judge(verdict);
	if (verdict == SIM_PASS && (killed || job.rc))
		verdict = job.rc ? SIM_USAGE : SIM_ERROR;
	world_guest_quit((int)world_guest_stop(verdict)); /* the copies' destructors have run */
}
