/* SPDX-License-Identifier: BSD-3-Clause */
/* Standard output and standard error: a run whose output is lost does not succeed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cli/cli.h"
#include "sim/engine/base/output.h"
#include "sim/engine/sim.h"

/* Reports lost output by the exit code. Keeps a code other than SIM_PASS. */
static void output_at_exit(int code, void *arg)
{
	int rc = output_flush(stdout);

	(void)arg;
	if (close(STDOUT_FILENO) && !rc)
		rc = errno;
	if (rc)
		fprintf(stderr, "doppel: cannot write standard output: %s\n", strerror(rc));
	if (code == SIM_PASS && (rc || ferror(stderr)))
		_exit(SIM_USAGE);
}

/* Opens /dev/null for each standard descriptor that the caller closed. Without this, the first file
 * that the program opens would receive its standard output. Writing to the substitute fails. */
void cli_output_start(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) != -1 || errno != EBADF)
			continue;
		int other = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
		if (other != fd && other >= 0)
			close(other);
	}
	on_exit(output_at_exit, NULL);
}
