/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/engine/base/output.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "sim/engine/base/state.h"

static bool output_lost;

void output_start(void)
{
	__atomic_store_n(&output_lost, false, __ATOMIC_RELAXED);
}

bool sim_output_lost(void)
{
	return __atomic_load_n(&output_lost, __ATOMIC_RELAXED);
}

void output_failed(const char *what, const char *path, int error)
{
	__atomic_store_n(&output_lost, true, __ATOMIC_RELAXED);
	fprintf(stderr, "%s: cannot write %s: %s\n", what, path, strerror(error));
}

FILE *output_open(const char *what, const char *path)
{
	FILE *f = fopen(path, "we");

	if (!f)
		output_failed(what, path, errno);
	return f;
}

/* Flushes the stream and returns the errno of a failed write. A stream records that a write failed
 * but not why: one more write to the broken file returns the errno. */
int output_flush(FILE *f)
{
	if (fflush(f))
		return errno;
	if (!ferror(f))
		return 0;
	return write(fileno(f), "\n", 1) < 0 ? errno : EIO;
}

int output_close(FILE *f, const char *what, const char *path)
{
	int rc = output_flush(f);

	if (fclose(f) && !rc)
		rc = errno;
	if (rc)
		output_failed(what, path, rc);
	return rc;
}

int output_check(const char *what, const char *path)
{
	FILE *f = fopen(path, "ae");

	if (f)
		return output_close(f, what, path);
	int rc = errno;
	output_failed(what, path, rc);
	return rc;
}
