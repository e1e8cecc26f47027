/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that run as tasks: `sim` has one OS thread, and their own threads cannot call it. */
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim/engine/run/run_internal.h"

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

void engine_nameless_thread(void)
{
	fprintf(stderr,
		"doppel: a thread that no program of the job has started made a call; expected a "
		"thread that the program, or a library that it is linked with, has started by "
		"pthread_create\n");
	fflush(NULL);
	_exit(SIM_USAGE);
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
