/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When the library of a profiler plugin is closed it prints one line of counts:
 *
 *	profiler vN: KIND started ... bytes sent S received R, bad B, open O, cut C, finalize F of I
 */
#include <stdio.h>

#include "sim/lab/plugin/profiler_plugin.h"

static void __attribute__((destructor)) prof_print(void)
{
	const struct prof_counts *c = &prof_counts;
	char line[512];
	int n = 0, open = 0;

	if (!c->inits)
		return;
	for (int i = 0; i < PROF_KINDS; i++) {
		open += c->started[i] - c->stopped[i];
		if (c->started[i])
			n += snprintf(line + n, sizeof line - (size_t)n, " %s %d", prof_kinds[i],
				      c->started[i]);
	}
	line[n] = '\0';
	fprintf(stderr,
		"profiler v%d:%s, bytes sent %zu received %zu, bad %d, open %d, cut %d, finalize "
		"%d of "
		"%d\n",
		PROF_VERSION, line, c->sent, c->received, c->bad, open, c->cut, c->finals,
		c->inits);
	prof_reset();
}
