/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The world of fuzz targets that run one, and its output. stderr is redirected to a file during a
 * run. The output of a failing run is printed, that of other runs is discarded. An error of this
 * code aborts, like a finding.
 */
#ifndef TESTS_FUZZ_WORLD_H
#define TESTS_FUZZ_WORLD_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim/lab/run/runner.h"

struct fuzz_aside {
	int real, put_aside; /* descriptor of the real stderr; the file in its place */
};

/* Configures two hosts with a rank each, in place, small enough for thousands of runs. */
static inline void fuzz_world(struct lab_config *c, const char *const *env)
{
	lab_config_default(c);
	c->machine = "a100-4nic";
	c->hosts = 2;
	c->gpus = 1;
	c->warp_width = 1;
	c->env = env;
	c->out_of_place = false;
}

static inline struct fuzz_aside fuzz_aside_begin(void)
{
	struct fuzz_aside a = {.real = dup(2),
			       .put_aside = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};

	if (a.real < 0 || a.put_aside < 0)
		abort();
	dup2(a.put_aside, 2);
	return a;
}

/* Restores stderr. Returns the number of bytes written meanwhile. */
static inline off_t fuzz_aside_end(struct fuzz_aside *a)
{
	dup2(a->real, 2);
	close(a->real);
	return lseek(a->put_aside, 0, SEEK_END);
}

/* Prints what was written, or discards it. */
static inline void fuzz_aside_free(struct fuzz_aside *a, bool show)
{
	char report[8192];
	ssize_t n;

	lseek(a->put_aside, 0, SEEK_SET);
	while (show && (n = read(a->put_aside, report, sizeof report)) > 0)
		fwrite(report, 1, (size_t)n, stderr);
	close(a->put_aside);
}

#endif
