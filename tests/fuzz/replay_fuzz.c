/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes a file of `doppel replay`. As a configuration it is refused with EINVAL, or it survives
 * being written and read again. As a file of choices, the engine starts with it and runs, or
 * refuses it. fuzz_main.h has a driver without libFuzzer.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/lab/search/scenario.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static char *fuzz_text(const struct scenario *s, size_t *n)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, n);

	ASSERT(f);
	scenario_write(s, f);
	fclose(f);
	return text;
}

static void fuzz_config(const char *data, size_t bytes)
{
	static struct scenario s, again;
	size_t n, m;
	int rc = scenario_parse(&s, data, bytes, "fuzz");

	ASSERT(rc == 0 || rc == EINVAL);
	if (rc)
		return;
	char *text = fuzz_text(&s, &n);
	rc = scenario_parse(&again, text, n, "written");
	ASSERT(rc == 0);
	char *second = fuzz_text(&again, &m);
	ASSERT(n == m && memcmp(text, second, n) == 0);
	free(text);
	free(second);
}

static void fuzz_main_task(void *arg)
{
	(void)arg;
	for (uint32_t n = 2; n < 40; n++) {
		uint32_t value = sim_choose("fuzz.choice", n);

		ASSERT(value < n);
		os_sleep_ns(10);
	}
}

static void fuzz_choices(const uint8_t *data, size_t bytes)
{
	char path[] = "/tmp/doppel_replay_fuzz_XXXXXX";
	int fd = mkstemp(path);
	struct sim_config config = {.seed = 1, .choices_in = path};

	ASSERT(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
	close(fd);
	int rc = sim_start(&config);
	if (!rc) {
		ASSERT(sim_run(fuzz_main_task, NULL) == SIM_PASS);
		sim_stop();
	}
	ASSERT(rc == 0 || rc == EINVAL || rc == ENOMEM);
	unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	int quiet = open("/dev/null", O_WRONLY), real = dup(2);

	ASSERT(quiet >= 0 && real >= 0);
	dup2(quiet, 2); /* discards the messages about lines */
	fuzz_config((const char *)data, bytes);
	fuzz_choices(data, bytes);
	dup2(real, 2);
	close(real);
	close(quiet);
	return 0;
}

#include "tests/fuzz/fuzz_main.h"
