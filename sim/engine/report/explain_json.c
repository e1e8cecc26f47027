/* SPDX-License-Identifier: BSD-3-Clause */
/* The wait-for graph as JSON. */
#include <inttypes.h>
#include <stdlib.h>

#include "sim/engine/report/explain.h"
#include "sim/engine/report/report_internal.h"

void explain_json_string(FILE *out, const char *s)
{
	if (!s) {
		fputs("null", out);
		return;
	}
	fputc('"', out);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else if ((unsigned char)*s < ' ')
			fprintf(out, "\\u%04x", (unsigned char)*s);
		else
			fputc(*s, out);
	}
	fputc('"', out);
}

static void json_label(FILE *out, const void *object)
{
	struct os_label l;

	if (!label_get(object, &l)) {
		fputs("null", out);
		return;
	}
	fputs("{\"what\":", out);
	explain_json_string(out, l.what);
	fprintf(out, ",\"rank\":%d,\"peer\":%d,\"channel\":%d,\"number\":%" PRId64 "}", l.rank,
		l.peer, l.channel, l.number);
}

static void json_wait(FILE *out, const struct wait *w, int32_t rank)
{
	uint64_t have = 0;
	bool known = wait_read(w, &have);

	fprintf(out, "{\"rank\":%d,\"why\":", rank);
	explain_json_string(out, w->why);
	fprintf(out, ",\"on\":\"%p\",\"label\":", w->on);
	json_label(out, w->on);
	fprintf(out,
		",\"op\":\"%s\",\"want\":%" PRIu64 ",\"mask\":%" PRIu64 ",\"have\":", explain_op(w),
		w->want, w->mask);
	if (known)
		fprintf(out, "%" PRIu64, have);
	else
		fputs("null", out);
	fprintf(out,
		",\"deadline_ns\":%" PRIu64
		",\"from\":{\"rank\":%d,\"channel\":%d,\"step\":%" PRId64 ",\"object\":",
		w->deadline_ns, w->from.rank, w->from.channel, w->from.step);
	explain_json_string(out, w->from.object);
	fputs("}}", out);
}

static void json_task(FILE *out, const struct explain_graph *g, const struct explain_node *node)
{
	const struct sim_task *t = node->task;

	fprintf(out, "{\"id\":%u,\"name\":", t->self.id);
	explain_json_string(out, t->name);
	fprintf(out, ",\"rank\":%d,\"proc\":", t->self.rank);
	explain_json_string(out, t->self.proc ? t->self.proc->name : NULL);
	fprintf(out, ",\"kind\":\"%s\",\"state\":\"%s\",\"background\":%s",
		t->kind == SIM_TASK_WARP ? "warp" : "host", explain_state(t),
		t->background ? "true" : "false");
	if (t->kind == SIM_TASK_WARP)
		fprintf(out, ",\"device\":%d,\"kernel\":%d,\"block\":%d,\"warp\":%d,\"lane\":%d",
			t->device, t->kernel, t->block, t->warp, t->lane);
	if (t->state == SIM_TASK_WAITING)
		fprintf(out, ",\"since_ns\":%" PRIu64,
			CONTAINER_OF(t, const struct task, pub)->wait_since_ns - eng.start_ns);
	fputs(",\"poll\":", out);
	explain_json_string(out, t->poll_why);
	fputs(",\"waits\":[", out);
	for (int i = 0; i < t->wait_n; i++) {
		if (i)
			fputc(',', out);
		json_wait(out, t->wait[i], explain_rank(t, i));
	}
	fputs("],\"waits_for_task\":", out);
	if (node->next >= 0)
		fprintf(out, "%u", g->node[node->next].task->self.id);
	else
		fputs("null", out);
	fputs(",\"waits_for_dead_rank\":", out);
	if (node->missing >= 0)
		fprintf(out, "%d}", node->missing);
	else
		fputs("null}", out);
}

static void explain_all_json(FILE *out)
{
	struct explain_graph g;

	if (explain_graph_build(&g))
		return;
	fprintf(out,
		"{\"seed\":\"0x%" PRIx64 "\",\"strategy\":\"%s\",\"step\":%" PRIu64
		",\"time_ns\":%" PRIu64 ",\"hash\":\"%016" PRIx64 "\",\"tasks\":[\n",
		eng.seed, sim_strategy_name(), eng.steps, sim_now_ns() - eng.start_ns, eng.hash);
	for (int32_t i = 0; i < g.n; i++) {
		json_task(out, &g, &g.node[i]);
		fputs(i + 1 < g.n ? ",\n" : "\n", out);
	}
	fputs("],\n", out);
	explain_cause_json(out);
	fputs("}\n", out);
	free(g.node);
}

void sim_explain_json(FILE *out)
{
	bool held = show_hold_all();

	explain_all_json(out);
	show_release_all(held);
}
