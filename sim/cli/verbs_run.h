/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doppel verbs-run in parts. verbs_run.c: options, environment, exec. verbs_space.c: a private
 * mount namespace with HCAs in /dev and /sys. verbs_sys.c: what is in those trees, as the HCA
 * double itself reports it; verbs_pci.c: their PCI functions. verbs_pair.c: a server and its
 * client. Paths are absolute; errors 0 or a positive errno.
 */
#ifndef SIM_CLI_VERBS_RUN_H
#define SIM_CLI_VERBS_RUN_H

#include <stdbool.h>
#include <stdint.h>

struct verbs_run {
	const char *machine, *host, *faults, *trace, *fabric, *seed;
	bool leaks, bare; /* bare: no namespace */
	bool pair;
	char **program; /* with its arguments; NULL-terminated */
	char **client;  /* of a pair, likewise */
};

/* Exit codes, as env(1) has them. */
#define VERBS_CANNOT_RUN 126
#define VERBS_NOT_FOUND  127

/* Becomes the program; returns the exit code, with a line printed, where it cannot. */
int verbs_exec(char **program);

/* Runs the server, and the client when the server listens. The exit code: the client's, or the
 * server's if that is 0. Both have ended when it returns. */
int verbs_pair_run(char **server, char **client);

/* From now on this process, and what it executes, sees the HCAs of `r` in /dev and /sys. What could
 * not be arranged is reported in a line each; the program may do without. */
void verbs_space_enter(const struct verbs_run *r);

/* Adds the host's HCAs to the folders of /dev and /sys, which are this process' own. In a process
 * of its own: it makes a world. */
int verbs_sys_fill(void);

#endif
