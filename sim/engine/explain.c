/* SPDX-License-Identifier: BSD-3-Clause */
/* The wait-for graph. */
#include <inttypes.h>
#include "sim/engine/engine_internal.h"
void sim_explain(FILE *out)
{
	for (struct sim_task *t = sim_task_first(); t; t = t->next)
		fprintf(out, "task %u \"%s\" state %d waits for \"%s\"\n", t->self.id, t->name, t->state,
			t->wait_n ? t->wait[0]->why : t->poll_why ? t->poll_why : "-");
}
void sim_explain_json(FILE *out) { fprintf(out, "[]\n"); }
int sim_core_write(const char *path) { (void)path; return ENOSYS; }
