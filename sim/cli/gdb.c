/* SPDX-License-Identifier: BSD-3-Clause */
/* --gdb of all commands. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cli/options.h"
#include "sim/world/machine/installed.h"

bool cli_self(char out[CLI_SELF_BYTES])
{
	ssize_t n = readlink("/proc/self/exe", out, CLI_SELF_BYTES - 1);

	out[n > 0 ? n : 0] = '\0';
	if (n <= 0)
		fprintf(stderr, "doppel: cannot find my own program: %s\n", strerror(errno));
	return n > 0;
}

bool cli_gdb_commands(char out[PATH_MAX])
{
	if (world_installed(WORLD_GDB, out))
		return true;
	fprintf(stderr, "doppel: the gdb commands are missing: %s does not exist\n", out);
	return false;
}

/* Loads Doppel's commands and stops gdb from querying a server for symbols. */
int cli_gdb(char **program, const char *const *then)
{
	char commands[PATH_MAX];
	const char *const first[] = {
		"gdb",
		"-q",
		"-iex",
		"set debuginfod enabled off",
		"-iex",
		"set pagination off",
		"-iex",
		"set print thread-events off",
		"-iex",
		"set breakpoint pending on",
		"-x",
		commands,
		"-ex",
		("echo Doppel: 'run' or 'break FUNCTION' first; then 'info tasks', 'task N', "
		 "'sim step', 'help sim'.\\n"),
	};
	const size_t firsts = sizeof first / sizeof first[0];
	size_t thens = 0, words = 0, k = 0;

	while (then && then[thens])
		thens++;
	while (program[words])
		words++;
	const char **args = calloc(firsts + 2 * thens + words + 2, sizeof *args);

	if (!args || !cli_gdb_commands(commands)) {
		free(args);
		return SIM_USAGE;
	}
	for (; k < firsts; k++)
		args[k] = first[k];
	for (size_t i = 0; i < thens; i++) {
		args[k++] = "-ex";
		args[k++] = then[i];
	}
	args[k++] = "--args";
	for (size_t i = 0; i < words; i++)
		args[k++] = program[i];
	ASSERT(k == firsts + 2 * thens + 1 + words && !args[k]);
	execvp("gdb", (char **)args);
	fprintf(stderr, "doppel: cannot start gdb: %s (apt-get install gdb)\n", strerror(errno));
	free(args);
	return SIM_USAGE;
}

int cli_under_gdb(int argc, char **argv, const char *const *then)
{
	char self[CLI_SELF_BYTES];
	char **program = calloc((size_t)argc + 2, sizeof *program);
	int rc = SIM_USAGE, k = 1;

	if (program && cli_self(self)) {
		program[0] = self;
		for (int i = 0; i < argc; i++)
			if (strcmp(argv[i], "--gdb"))
				program[k++] = argv[i];
		ASSERT(k <= argc + 1 && !program[k]); /* NULL ends the list */
		rc = cli_gdb(program, then);
	}
	free(program);
	return rc;
}
