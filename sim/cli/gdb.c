/* SPDX-License-Identifier: BSD-3-Clause */
/* --gdb of any command. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cli/options.h"

bool cli_self(char out[CLI_SELF_BYTES])
{
	ssize_t n = readlink("/proc/self/exe", out, CLI_SELF_BYTES - 1);

	out[n > 0 ? n : 0] = '\0';
	if (n <= 0)
		fprintf(stderr, "doppel: cannot find my own program: %s\n", strerror(errno));
	return n > 0;
}

/* gdb asks no server for symbols, and Doppel's commands are loaded. */
int cli_under_gdb(int argc, char **argv, const char *const *then)
{
	static const char *const first[] = {
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
		DOPPEL_GDB_DIR "/doppel.py",
		"-ex",
		("echo Doppel: 'run' or 'break FUNCTION' first; then 'info tasks', 'task N', "
		 "'sim step', 'help sim'.\\n"),
	};
	const size_t firsts = sizeof first / sizeof first[0];
	char self[CLI_SELF_BYTES];
	int thens = 0;

	while (then && then[thens])
		thens++;
	const char **args = calloc((size_t)argc + firsts + 2 * (size_t)thens + 5, sizeof *args);
	size_t k = 0;

	if (!args || !cli_self(self)) {
		free(args);
		return SIM_USAGE;
	}
	for (; k < firsts; k++)
		args[k] = first[k];
	for (int i = 0; then && i < thens; i++) {
		args[k++] = "-ex";
		args[k++] = then[i];
	}
	args[k++] = "--args";
	args[k++] = self;
	for (int i = 0; i < argc; i++)
		if (strcmp(argv[i], "--gdb"))
			args[k++] = argv[i];
	execvp("gdb", (char **)args);
	fprintf(stderr, "doppel: cannot start gdb: %s (apt-get install gdb)\n", strerror(errno));
	free(args);
	return SIM_USAGE;
}
