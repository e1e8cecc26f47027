/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares collectives of one or two libraries with NCCL's ABI. Each library is opened by its path,
 * so that one program measures Doppel and NCCL on the same GPUs in the same run.
 *
 *   nccl_compare [-g GPUS] [-b BYTES] [-e BYTES] [-f FACTOR] [-c COLLECTIVE,...] [-m MODE,...] [-R]
 *         [-w WAIT] LIB [LIB]
 *
 * MODE selects the tasks that drive the ranks, as in nccl-tests: "one" thread for all GPUs with
 * grouped calls (-g), "threads", one per GPU (-t), or "processes", one per GPU. "one-graph",
 * "threads-graph" and "processes-graph" launch a CUDA graph of GRAPH_OPS collectives (-G).
 *
 * Sizes (the last one is that of -e) and bus bandwidths are those of nccl-tests; A/B is the ratio
 * of bandwidths. The time is that of the slowest task. Up to 64 MiB it is the median of SAMPLES: a
 * delay of the host affects only one sample (nccl-tests has one mean). The first size is first
 * measured once without a row, while the GPUs' clocks rise. Every result is checked. With -R each
 * library allocates its buffers (ncclMemAlloc) and registers them with its communicators
 * (ncclCommRegister). -w selects the wait for calls without graphs (nccl_compare_wait.h). Exit
 * status: 0; 1: usage, or a call failed; 11: a wrong result.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/nccl_compare.h"
#include "tests/bench/nccl_compare_collectives.h"

/* ---- the command line ----------------------------------------------------------------------- */

int gpus = 2;
size_t bytes_min = 8, bytes_max = 64 << 20, factor = 2;
const char *collectives;
static const char *modes = "one";
struct nccl_lib lib[MOST_LIBS];
int libs, tasks;
struct shared *shared;
bool registered;
enum wait_kind wait_kind;

bool listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, name, n) && (at[n] == ',' || !at[n]))
			return true;
	}
	return false;
}

/* ---- modes ---------------------------------------------------------------------------------- */

struct thread {
	pthread_t thread;
	const char *mode;
	int number, rc;
};

static void *thread_main(void *arg)
{
	struct thread *t = arg;

	t->rc = task_main(t->mode, t->number, 1);
	return NULL;
}

static int run_threads(const char *mode)
{
	struct thread t[MOST_GPUS];
	int rc = 0;

	for (int i = 0; i < gpus; i++) {
		t[i] = (struct thread){.mode = mode, .number = i};
		if (pthread_create(&t[i].thread, NULL, thread_main, &t[i])) {
			fprintf(stderr, "nccl_compare: no thread for GPU %d\n", i);
			_exit(1);
		}
	}
	for (int i = 0; i < gpus; i++) {
		pthread_join(t[i].thread, NULL);
		rc = t[i].rc ? t[i].rc : rc;
	}
	return rc;
}

/* Runs a mode in child processes, because a process that uses CUDA must not fork. */
static int run(const char *mode)
{
	bool threads = !strncmp(mode, "threads", 7), processes = !strncmp(mode, "processes", 9);
	int children = processes ? gpus : 1, rc = 0, status;
	pthread_barrierattr_t attr;

	tasks = threads || processes ? gpus : 1;
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->barrier, &attr, (unsigned)tasks);
	for (int i = 0; i < children; i++) {
		pid_t pid = fork();

		if (pid < 0) {
			perror("nccl_compare: fork");
			exit(1);
		}
		if (pid)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int k = 0; k < libs; k++)
			nccl_lib_open(&lib[k]);
		exit(threads ? run_threads(mode) : task_main(mode, i, gpus / children));
	}
	for (int i = 0; i < children && wait(&status) > 0; i++) {
		int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;

		/* the remaining children, which wait for it, end with this process */
		if (code && code != WRONG_RESULT)
			exit(code);
		rc = code ? code : rc;
	}
	return rc;
}

static const char *const mode_names[] = {"one",           "one-graph", "threads",
					 "threads-graph", "processes", "processes-graph"};

static size_t parse_bytes(const char *arg)
{
	char *end;
	size_t n = strtoull(arg, &end, 10);

	n <<= *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
	return end == arg || (*end && end[1]) ? 0 : n;
}

static int usage(const char *program)
{
	fprintf(stderr,
		"usage: %s [-g GPUS] [-b BYTES] [-e BYTES] [-f FACTOR] [-c COLLECTIVE,...] "
		"[-m MODE,...] [-R] [-w WAIT] LIB [LIB]\n"
		"GPUS: 1 to %d; BYTES: at least 4, with K, M or G; FACTOR: at least 2\n"
		"COLLECTIVE:",
		program, MOST_GPUS);
	for (int i = 0; i < COLLECTIVES; i++)
		fprintf(stderr, " %s", collective[i].name);
	fprintf(stderr, "; default all\nMODE: all");
	for (size_t i = 0; i < sizeof mode_names / sizeof mode_names[0]; i++)
		fprintf(stderr, " %s", mode_names[i]);
	fprintf(stderr, "; default one\nWAIT:");
	for (int i = 0; i < WAIT_KINDS; i++)
		fprintf(stderr, " %s", wait_names[i]);
	fprintf(stderr, "; default sync\n");
	return 1;
}

/* True if each name of the list is known. */
static bool names_known(const char *list, bool (*known)(const char *name, size_t n))
{
	for (const char *at = list; at && *at;) {
		size_t n = strcspn(at, ",");

		if (!known(at, n))
			return false;
		at += n + (at[n] == ',');
	}
	return true;
}

static bool is_collective(const char *name, size_t n)
{
	for (int i = 0; i < COLLECTIVES; i++)
		if (strlen(collective[i].name) == n && !strncmp(collective[i].name, name, n))
			return true;
	return false;
}

static bool is_mode(const char *name, size_t n)
{
	for (size_t i = 0; i < sizeof mode_names / sizeof mode_names[0]; i++)
		if (strlen(mode_names[i]) == n && !strncmp(mode_names[i], name, n))
			return true;
	return n == 3 && !strncmp(name, "all", n);
}

static bool wait_parse(const char *name)
{
	for (int i = 0; i < WAIT_KINDS; i++)
		if (!strcmp(name, wait_names[i])) {
			wait_kind = (enum wait_kind)i;
			return true;
		}
	return false;
}

int main(int argc, char **argv)
{
	int option, rc = 0;

	while ((option = getopt(argc, argv, "g:b:e:f:c:m:Rw:")) != -1) {
		if (option == 'g')
			gpus = atoi(optarg);
		else if (option == 'b')
			bytes_min = parse_bytes(optarg);
		else if (option == 'e')
			bytes_max = parse_bytes(optarg);
		else if (option == 'f')
			factor = parse_bytes(optarg);
		else if (option == 'c')
			collectives = optarg;
		else if (option == 'm')
			modes = optarg;
		else if (option == 'R')
			registered = true;
		else if (option == 'w' && wait_parse(optarg))
			continue;
		else
			return usage(argv[0]);
	}
	libs = argc - optind;
	if (libs < 1 || libs > MOST_LIBS || gpus < 1 || gpus > MOST_GPUS || factor < 2 ||
	    bytes_min < FLOAT || bytes_max < bytes_min ||
	    !names_known(collectives, is_collective) || !names_known(modes, is_mode))
		return usage(argv[0]);
	for (int i = 0; i < libs; i++)
		lib[i].path = argv[optind + i];
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED) {
		perror("nccl_compare: mmap");
		return 1;
	}
	printf("# float sum, %d GPUs, out of place, wait %s; A = %s%s%s\n", gpus,
	       wait_names[wait_kind], lib[0].path, libs > 1 ? ", B = " : "",
	       libs > 1 ? lib[1].path : "");
	fflush(stdout);
	for (size_t i = 0; i < sizeof mode_names / sizeof mode_names[0]; i++)
		if (listed(modes, mode_names[i]) || listed(modes, "all")) {
			int mode_rc = run(mode_names[i]);

			rc = mode_rc ? mode_rc : rc;
		}
	return rc;
}
