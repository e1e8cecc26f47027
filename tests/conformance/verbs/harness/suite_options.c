/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of verbs_suite and verbs_walk. */
#include "tests/conformance/verbs/harness/target.h"

void suite_usage(FILE *f)
{
	fprintf(f,
		"usage: verbs_suite [options] [PATTERN...]      PATTERN: area.name, with * and ?\n"
		"  --list              names (and needs), nothing runs\n"
		"  --device NAME[,NAME2]  HCA of end 0 [and of end 1]; default: the first two\n"
		"  --port N --gid N    default: 1; the first RoCE v2 entry with an IPv4 address\n"
		"  --expected FILE     lines 'lacks NEED' and 'differs CASE' of this target\n"
		"  --except PATTERN    leaves these cases out\n"
		"  --strict            what is not there and not listed is a failure\n"
		"  --timeout SECONDS   for a case\n"
		"  --timeout-shift N   acknowledge timeouts 2^N as long\n"
		"  --here              no process of its own (for a debugger)\n"
		"  --preload           list devices once before the first case: rdma-core then\n"
		"                      has its providers loaded, which is slow in an emulator\n"
		"  --times             how long each case takes\n"
		"  --verbose           what cases print, even when they pass\n"
		"  --seed S --seeds N --steps N   for cases that draw\n"
		"  --engine sim|threads fakeverbs in this process; sim: --seeds N\n");
}

static const char *suite_value(int argc, char **argv, int *i)
{
	if (*i + 1 >= argc) {
		fprintf(stderr, "verbs_suite: %s wants a value\n", argv[*i]);
		exit(2);
	}
	return argv[++*i];
}

bool suite_option(int argc, char **argv, int *i)
{
	struct vs_config *c = &vs_config;
	const char *a = argv[*i];

#define VALUE suite_value(argc, argv, i)
	if (!strcmp(a, "--device")) {
		char *second, *names = strdup(VALUE);

		second = strchr(names, ',');
		if (second)
			*second++ = 0;
		c->device[0] = names;
		c->device[1] = second;
	} else if (!strcmp(a, "--port")) {
		c->port = atoi(VALUE);
	} else if (!strcmp(a, "--gid")) {
		c->gid = atoi(VALUE);
	} else if (!strcmp(a, "--expected")) {
		c->expected = VALUE;
		suite_rows_read(c->expected);
	} else if (!strcmp(a, "--except")) {
		c->except = VALUE;
	} else if (!strcmp(a, "--strict")) {
		c->strict = true;
	} else if (!strcmp(a, "--timeout")) {
		c->case_seconds = atoi(VALUE);
	} else if (!strcmp(a, "--timeout-shift")) {
		c->timeout_shift = atoi(VALUE);
	} else if (!strcmp(a, "--here")) {
		c->here = true;
	} else if (!strcmp(a, "--verbose")) {
		c->verbose = true;
	} else if (!strcmp(a, "--times")) {
		c->times = true;
	} else if (!strcmp(a, "--preload")) {
		c->preload = true;
	} else if (!strcmp(a, "--engine")) {
		c->engine = VALUE;
	} else if (!strcmp(a, "--steps")) {
		c->steps = atoi(VALUE);
	} else if (!strcmp(a, "--seed")) {
		c->seed = strtoull(VALUE, NULL, 0);
		c->seeds = 1;
	} else if (!strcmp(a, "--seeds")) {
		c->seeds = strtoull(VALUE, NULL, 0);
	} else {
		return false;
	}
#undef VALUE
	return true;
}
