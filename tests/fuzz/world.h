/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For fuzz targets that run a world: which one, and where its output goes. stderr is put aside
 * during a run; the output of a failing run is shown, that of the others is not looked at. What
 * cannot be done aborts, as a finding does.
 */
#ifndef TESTS_FUZZ_WORLD_H
#define TESTS_FUZZ_WORLD_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim/lab/runner.h"

struct fuzz_aside {
	int real, put_aside; /* stderr's descriptor; the file in its place */
};

/* Two hosts with a rank each, in place, small enough for thousands of runs. */
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

/* Puts stderr back. How many bytes were written. */
static inline off_t fuzz_aside_end(struct fuzz_aside *a)
{
	dup2(a->real, 2);
	close(a->real);
	return lseek(a->put_aside, 0, SEEK_END);
}

/* Shows what was written, or drops it. */
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
