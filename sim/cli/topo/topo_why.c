/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel topo search --why: prints every attempt of the searches and its result. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/log.h"
#include "core/topo/search/record.h"
#include "sim/cli/cli.h"
#include "sim/cli/topo/topo_why.h"

static void topo_why_limits(const struct topo_search_record *r, FILE *out)
{
	fprintf(out, "  a GPU carries %g GB/s in all, its best path %g; ",
		(double)r->total_bw_mbps / 1000, r->max_bw_mbps / 1000.0);
	if (r->min_channels == r->max_channels)
		fprintf(out, "%d channels wanted\n", r->max_channels);
	else
		fprintf(out, "%d to %d channels\n", r->min_channels, r->max_channels);
}

/* Prints bandwidths and path types: within a host, and between hosts if a channel leaves the
 * host. */
static void topo_why_speeds(const struct topo_attempt *a, bool inter, FILE *out)
{
	char text[2][32];

	snprintf(text[0], sizeof text[0], inter ? "%g/%g" : "%g", a->bw_intra_mbps / 1000.0,
		 a->bw_inter_mbps / 1000.0);
	snprintf(text[1], sizeof text[1], inter ? "%s/%s" : "%s",
		 topo_path_name((enum topo_path_type)a->type_intra),
		 topo_path_name((enum topo_path_type)a->type_inter));
	fprintf(out, "  %-10s %-8s", text[0], text[1]);
}

static void topo_why_attempt(const struct topo_attempt *a, bool inter, FILE *out)
{
	topo_why_speeds(a, inter, out);
	fprintf(out, " %-14s %-9s", topo_shape_name((enum topo_shape)a->shape),
		a->same_channels ? "equal" : "different");
	if (inter)
		fprintf(out, " %-4s", a->cross_nic ? "yes" : "no");
	fprintf(out, " %2d of %2d  %5d", a->channels, a->bound, a->visited);
	fprintf(out, "  %s%s%s\n", topo_attempt_end_text(a->end), a->better ? "; best so far" : "",
		a->higher ? " (a higher speed)" : "");
}

static void topo_why_result(const struct topo_search_record *r, const struct topo_graph *g,
			    bool inter, FILE *out)
{
	if (r->dropped)
		fprintf(out, "  ... and %d tries more\n", r->dropped);
	if (r->used_up)
		fprintf(out, "  the steps of the whole search are used up\n");
	if (r->before_double)
		fprintf(out, "  %d channels were doubled at half the speed\n", r->before_double);
	if (r->of_ring)
		fprintf(out, "  better: the ring's channels, without the hop that closes them\n");
	if (r->fallback)
		fprintf(out, "  nothing fits at any speed: the file's order\n");
	fprintf(out, "  => %d x %g", g->nchannels, g->bw_intra_mbps / 1000.0);
	if (inter)
		fprintf(out, "/%g", g->bw_inter_mbps / 1000.0);
	fprintf(out, " GB/s %s", topo_path_name((enum topo_path_type)g->type_intra));
	if (inter)
		fprintf(out, "/%s, %s NICs", topo_path_name((enum topo_path_type)g->type_inter),
			g->cross_nic ? "crossing" : "not crossing");
	fprintf(out, ", %s channels; %lld steps\n\n", g->same_channels ? "equal" : "different",
		(long long)r->visited);
}

static void topo_why_print(const struct topo_search_record *r, const struct topo_graph *g,
			   bool inter, FILE *out)
{
	fprintf(out, "%s, %s\n", topo_pattern_name((enum topo_pattern)g->pattern),
		inter ? "between hosts" : "inside a host");
	if (g->nchannels == 0 && r->attempts == 0) {
		fprintf(out, "  this host has none\n\n");
		return;
	}
	topo_why_limits(r, out);
	fprintf(out, "  %-10s %-8s %-14s %-9s%s %-8s  %5s\n", "GB/s", "paths", "shape", "channels",
		inter ? " NICs" : "", "placed", "steps");
	for (int32_t i = 0; i < r->attempts; i++)
		topo_why_attempt(&r->attempt[i], inter, out);
	topo_why_result(r, g, inter, out);
}

ncclResult_t topo_why(const struct topo_system *sys, bool inter, FILE *out)
{
	static struct topo_graph graph;
	struct topo_search_record *record = calloc(1, sizeof *record);
	ncclResult_t rc = ncclSuccess;

	if (!record) {
		WARN("out of memory for a record of the search");
		return ncclSystemError;
	}
	for (int p = 0; p < TOPO_SEARCHED_PATTERNS && !rc; p++) {
		rc = topo_search_explain(sys, (enum topo_pattern)p, inter, &graph, record);
		if (!rc)
			topo_why_print(record, &graph, inter, out);
	}
	free(record);
	return rc;
}
