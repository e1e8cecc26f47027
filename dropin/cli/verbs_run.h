/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doppel verbs-run in parts. verbs_run.c: options, environment, exec. verbs_space.c: a private
 * mount namespace with HCAs in /dev and /sys. verbs_sys.c: the contents of those trees, as the HCA
 * double reports them; verbs_pci.c: their PCI functions. verbs_pair.c: a server and its client.
 * Paths are absolute. Errors are 0 or a positive errno.
 */
#ifndef DROPIN_CLI_VERBS_RUN_H
#define DROPIN_CLI_VERBS_RUN_H

#include <stdbool.h>
#include <stdint.h>

struct verbs_run {
	const char *machine, *host, *faults, *trace, *fabric, *seed;
	bool leaks, bare; /* bare: no namespace */
	bool pair;
	char **program; /* with its arguments; NULL-terminated */
	char **client;  /* client of a pair, with its arguments; NULL-terminated */
};

/* Exit codes of env(1). */
#define VERBS_CANNOT_RUN 126
#define VERBS_NOT_FOUND  127

/* Replaces this process by the program. On failure it prints a line and returns the exit code. */
int verbs_exec(char **program);

/* Runs the server, and the client as soon as the server listens. Returns the client's exit code, or
 * the server's if that is 0. Both have ended when it returns. */
int verbs_pair_run(char **server, char **client);

/* Makes the HCAs of `r` visible in /dev and /sys to this process and the programs that it executes.
 * Prints a line for each part that fails; the program may not need it. */
void verbs_space_enter(const struct verbs_run *r);

/* Adds the host's HCAs to the private /dev and /sys of this process. Creates a world: call it in a
 * child process. */
int verbs_sys_fill(void);

#endif
