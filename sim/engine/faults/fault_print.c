/* SPDX-License-Identifier: BSD-3-Clause */
/* `doppel faults`: the grammar and the tables, for people and as JSON. */
#include <inttypes.h>
#include <string.h>

#include "sim/engine/faults/fault.h"
#include "sim/engine/order/order_internal.h"

static const char fault_grammar[] =
	"A fault plan has one fault a line; # starts a comment:\n\n"
	"  LAYER.OPERATION [KEY=VALUE...] [forever] ACTION [PARAMETER=VALUE...]\n"
	"  LAYER.any [KEY=VALUE...] [forever] fail [errno=NAME]\n"
	"  heal after=TIME\n\n"
	"LAYER.any is every site of the layer that can fail, counted in one sequence. forever "
	"fires\n"
	"at each match. An action with [for=TIME] continues wherever the keys match, for that time "
	"or\n"
	"until the faults heal. Healed: no fault fires, links are up, clogs are open.\n";

/* ---- text ----------------------------------------------------------------------------------- */

static void fault_print_action(FILE *out, const struct fault_action *a)
{
	char text[96];
	int n = snprintf(text, sizeof text, "%s", a->name);

	for (int i = 0; i < FAULT_PARAMS_MAX && a->param[i].name; i++)
		n += snprintf(text + n, sizeof text - (size_t)n, " [%s=%s]", a->param[i].name,
			      fault_value_hint(a->param[i].type));
	if (a->lasts)
		snprintf(text + n, sizeof text - (size_t)n, " [for=TIME]");
	fprintf(out, "      %-30s %s\n", text, a->what ? a->what : "");
}

/* Prints the keys of the layer's sites, without those for time and count, which all sites have. */
static void fault_print_selectors(FILE *out, const struct fault_layer *l)
{
	fputs("  selectors:", out);
	for (int k = 0; k < FAULT_PLACE; k++)
		if (l->places & 1u << k)
			fprintf(out, " %s=", fault_keys[k].name);
	fputs("\n", out);
}

static void fault_print_layer(FILE *out, const struct fault_layer *l)
{
	fprintf(out, "\n%s: %s\n", l->name, l->what);
	fault_print_selectors(out, l);
	for (const struct fault_site *s = l->site; s->name; s++) {
		fprintf(out, "  %-24s %s\n", s->name, s->what);
		if (s->idle)
			fprintf(out, "      idle: %s\n", s->idle);
		if (s->has_state)
			fprintf(out, "      selector besides: %s=\n",
				fault_keys[FAULT_STATE_KEY].name);
		for (int i = 0; i < FAULT_ACTIONS_MAX && s->action[i].name; i++)
			fault_print_action(out, &s->action[i]);
	}
}

static void fault_print_names(FILE *out, const char *what, enum fault_value type)
{
	int column = fprintf(out, "  %-9s", what);

	for (const struct fault_name *n = fault_names(type); n->name; n++) {
		if (column + (int)strlen(n->name) + 1 > 96) {
			fprintf(out, "\n           ");
			column = 11;
		}
		column += fprintf(out, " %s", n->name);
	}
	fputc('\n', out);
}

void sim_fault_print_sites(FILE *out)
{
	fputs(fault_grammar, out);
	for (const struct fault_layer *l = fault_layers; l->name; l++)
		fault_print_layer(out, l);
	fprintf(out,
		"\nkeys, all of which must match; selectors first, then when and how often:\n");
	for (int k = 0; k < FAULT_KEYS; k++)
		fprintf(out, "  %-10s %s\n", fault_keys[k].name, fault_keys[k].what);
	fprintf(out, "\nnames (or their numbers):\n");
	fault_print_names(out, "errno", FAULT_ERRNO);
	fault_print_names(out, "status", FAULT_STATUS);
	fault_print_names(out, "error", FAULT_CUDA);
	fault_print_names(out, "state", FAULT_STATE);
	fprintf(out, "TIME is an integer with ns, us, ms or s. For example:\n"
		     "  fabric.link host=1 after=200us down for=50us\n"
		     "  fabric.link host=1 nic=mlx5_1 after=collective+200us down for=50us\n"
		     "  verbs.cqe rank=3 peer=4 nth=17 error status=RETRY_EXC_ERR\n"
		     "  cuda.any nth=17 fail\n"
		     "  heal after=20ms\n");
}

static void json_text(FILE *out, const char *text)
{
	fputc('"', out);
	for (const char *p = text ? text : ""; *p; p++) {
		if (*p == '"' || *p == '\\')
			fputc('\\', out);
		fputc(*p, out);
	}
	fputc('"', out);
}

static void json_named(FILE *out, const char *name, const char *what)
{
	fputs("{\"name\":", out);
	json_text(out, name);
	fputs(",\"what\":", out);
	json_text(out, what);
}

static void json_param(FILE *out, const struct fault_param *p)
{
	static const char *const type[FAULT_VALUES] = {
		[FAULT_TIME] = "time",       [FAULT_NUMBER] = "number", [FAULT_ERRNO] = "errno",
		[FAULT_STATUS] = "status",   [FAULT_CUDA] = "cuda",     [FAULT_STATE] = "state",
		[FAULT_REFUSAL] = "refusal",
	};

	fprintf(out, "{\"name\":\"%s\",\"type\":\"%s\",\"usual\":%" PRIu64 "}", p->name,
		type[p->type], p->usual);
}

static void json_action(FILE *out, const struct fault_action *a)
{
	json_named(out, a->name, a->what);
	fprintf(out, ",\"lasts\":%s,\"parameters\":[", a->lasts ? "true" : "false");
	for (int i = 0; i < FAULT_PARAMS_MAX && a->param[i].name; i++) {
		fputs(i ? "," : "", out);
		json_param(out, &a->param[i]);
	}
	fputs("]}", out);
}

static void json_site(FILE *out, const struct fault_site *s)
{
	json_named(out, s->name, s->what);
	if (s->idle) {
		fputs(",\"idle\":", out);
		json_text(out, s->idle);
	}
	fputs(",\"actions\":[", out);
	for (int i = 0; i < FAULT_ACTIONS_MAX && s->action[i].name; i++) {
		fputs(i ? "," : "", out);
		json_action(out, &s->action[i]);
	}
	fputs("]}", out);
}

void sim_fault_print_sites_json(FILE *out)
{
	fputs("{\"layers\":[", out);
	for (const struct fault_layer *l = fault_layers; l->name; l++) {
		fputs(l == fault_layers ? "\n" : ",\n", out);
		json_named(out, l->name, l->what);
		fputs(",\"selectors\":[", out);
		for (int k = 0, n = 0; k < FAULT_PLACE; k++)
			if (l->places & 1u << k)
				fprintf(out, "%s\"%s\"", n++ ? "," : "", fault_keys[k].name);
		fputs("],\"sites\":[", out);
		for (const struct fault_site *s = l->site; s->name; s++) {
			fputs(s == l->site ? "\n " : ",\n ", out);
			json_site(out, s);
		}
		fputs("]}", out);
	}
	fputs("],\n\"keys\":[", out);
	for (int k = 0; k < FAULT_KEYS; k++) {
		fputs(k ? ",\n " : "\n ", out);
		json_named(out, fault_keys[k].name, fault_keys[k].what);
		fputc('}', out);
	}
	fputs("]}\n", out);
}
