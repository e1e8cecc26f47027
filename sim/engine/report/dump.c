/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of a failed run: choices, explain.txt, waits.json and tasks.core. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/engine/base/output.h"
#include "sim/engine/report/report_internal.h"

static void dump_file(const char *dir, const char *name, void (*print)(FILE *out))
{
	char path[4096];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	FILE *f = output_open("engine", path);
	if (!f)
		return;
	print(f);
	output_close(f, "engine", path);
}

/* Prints for people: what failed, which task waits for which, the doubles' state, the faults. */
static void dump_explanation(FILE *out)
{
	fprintf(out, "%s: %s\n", eng.failure.kind, eng.failure.message);
	engine_print_fail_line(out, &eng.failure);
	sim_explain(out);
	engine_print_failure_hooks(out);
	sim_fault_print_plan(out);
}

/* Stores choices, explain.txt, waits.json and tasks.core in fail_dir. */
static void dump_all(const char *dir)
{
	char path[4096];

	if (mkdir(dir, 0777) && errno != EEXIST) {
		fprintf(stderr, "engine: cannot create directory %s: %s\n", dir, strerror(errno));
		return;
	}
	dump_file(dir, "explain.txt", dump_explanation);
	dump_file(dir, "waits.json", sim_explain_json);
	report_fail_choices();
	snprintf(path, sizeof path, "%s/tasks.core", dir);
	sim_core_write(path);
}

/* Writes the choices of a failed run. The run may continue after a failure, and a replay needs its
 * choices to the end. */
void report_fail_choices(void)
{
	char path[4096];

	if (!(eng.failed || eng.tolerated) || !eng.config.fail_dir || !engine_in_sim())
		return;
	snprintf(path, sizeof path, "%s/choices", eng.config.fail_dir);
	choice_write(path);
}

static void dump_choices(const char *path)
{
	choice_write(path);
}

const struct report_ops report_files = {
	.flush = trace_flush, .explain = sim_explain, .choices = dump_choices, .dump = dump_all};
