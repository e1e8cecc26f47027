/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doppel topo check: reports properties that make a machine slower. A finding is one line,
 * "FILE:LINE: ELEMENT: what, expected what". A note is about a property that the file cannot show.
 * It does not count as a finding.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cli/topo/topo_check.h"

/* Number of hosts for which rings and trees are searched. With four hosts, a tree has a host with
 * two child hosts. */
#define CHECK_RING_HOSTS 2
#define CHECK_TREE_HOSTS 4
/* Bandwidth of a ring if none fits at any speed. */
#define CHECK_FALLBACK_MBPS 100

static void check_print(const struct check *c, const struct topo_element *e, const char *kind,
			const char *fmt, va_list args)
{
	char name[TOPO_ELEMENT_TEXT];

	printf("%s:", c->path);
	if (e && e->line)
		printf("%d:", e->line);
	printf(" %s%s: ", kind, e ? topo_element_text(e, name) : "machine");
	vprintf(fmt, args);
	printf("\n");
}

void check_find(struct check *c, const struct topo_element *e, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	check_print(c, e, "", fmt, args);
	va_end(args);
	c->findings++;
}

void check_note(struct check *c, const struct topo_element *e, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	check_print(c, e, "note: ", fmt, args);
	va_end(args);
	c->notes++;
}

/* ---- NVLinks -------------------------------------------------------------------------------- */

/* Returns the bandwidth of the NVLinks from a to b. */
static uint32_t check_mbps(const struct check *c, int32_t a, int32_t b)
{
	for (int32_t i = 0; i < topo_edge_count(c->sys); i++) {
		struct topo_edge edge;

		topo_edge_get(c->sys, i, &edge);
		if (edge.type == TOPO_PATH_NVL && edge.from == a && edge.to == b)
			return edge.mbps;
	}
	return 0;
}

static void check_symmetry(struct check *c)
{
	char name[TOPO_ELEMENT_TEXT], there[TOPO_GBPS_TEXT], back[TOPO_GBPS_TEXT];

	for (int32_t i = 0; i < topo_edge_count(c->sys); i++) {
		struct topo_edge edge;

		topo_edge_get(c->sys, i, &edge);
		if (edge.type != TOPO_PATH_NVL || check_mbps(c, edge.to, edge.from) >= edge.mbps)
			continue;
		check_find(c, &c->e[edge.from],
			   "NVLinks to %s have %s GB/s, and %s back; expected as many links both "
			   "ways",
			   topo_element_text(&c->e[edge.to], name), topo_gbps(edge.mbps, there),
			   topo_gbps(check_mbps(c, edge.to, edge.from), back));
	}
	for (int32_t i = 0; i < c->n; i++)
		if (c->e[i].type == TOPO_NODE_GPU && c->e[i].lost)
			check_find(c, &c->e[i], "%d NVLink%s to a function that is not in the file",
				   c->e[i].lost, c->e[i].lost == 1 ? "" : "s");
}

/* Compares each GPU's NVLinks to the NVSwitch with those of the GPU that has most. */
static void check_switched(struct check *c)
{
	char have[TOPO_GBPS_TEXT], expected[TOPO_GBPS_TEXT];
	uint32_t most = 0;

	for (int pass = 0; pass < 2; pass++)
		for (int32_t i = 0; i < topo_edge_count(c->sys); i++) {
			struct topo_edge edge;

			topo_edge_get(c->sys, i, &edge);
			if (edge.type != TOPO_PATH_NVL || c->e[edge.to].type != TOPO_NODE_NVS)
				continue;
			most = MAX_OF(most, edge.mbps);
			if (pass && edge.mbps < most)
				check_find(c, &c->e[edge.from],
					   "its NVLinks to the NVSwitch have %s GB/s, expected %s, "
					   "as of other GPUs",
					   topo_gbps(edge.mbps, have), topo_gbps(most, expected));
		}
}

/* Marks all elements that NVLinks connect with `at`. */
static void check_flood(const struct check *c, int32_t at, int32_t island, int32_t *of)
{
	bool more = true;

	ASSERT(island > 0 && of[at] == 0); /* 0: it has no island yet */
	of[at] = island;
	while (more) {
		more = false;
		for (int32_t i = 0; i < topo_edge_count(c->sys); i++) {
			struct topo_edge edge;

			topo_edge_get(c->sys, i, &edge);
			if (edge.type != TOPO_PATH_NVL ||
			    (of[edge.from] == island) == (of[edge.to] == island))
				continue;
			of[edge.from] = of[edge.to] = island;
			more = true;
		}
	}
}

static void check_print_island(struct check *c, const int32_t *of, int32_t island)
{
	int32_t first = -1;
	char list[512];
	int at = 0;

	DOPPEL_STATIC_CHECK(sizeof list > TOPO_MAX_LOCAL * sizeof " 99", "room for every GPU");
	list[0] = '\0';
	for (int32_t g = 0; g < topo_gpu_count(c->sys); g++) {
		int32_t e = topo_element_of_gpu(c->sys, g);

		if (of[e] != island)
			continue;
		first = first < 0 ? e : first;
		at += snprintf(list + at, sizeof list - (size_t)at, " %d", g);
	}
	ASSERT(first >= 0); /* check_islands begins each island at a GPU */
	check_find(c, &c->e[first],
		   "NVLinks connect this island alone:%s; expected all %d GPUs in one", list,
		   topo_gpu_count(c->sys));
}

static void check_islands(struct check *c)
{
	int32_t *of = calloc((size_t)c->n, sizeof *of), islands = 0, gpus = topo_gpu_count(c->sys);
	bool any = false;

	for (int32_t i = 0; i < topo_edge_count(c->sys); i++) {
		struct topo_edge edge;

		topo_edge_get(c->sys, i, &edge);
		any |= edge.type == TOPO_PATH_NVL;
	}
	for (int32_t g = 0; of && any && g < gpus; g++)
		if (!of[topo_element_of_gpu(c->sys, g)])
			check_flood(c, topo_element_of_gpu(c->sys, g), ++islands, of);
	for (int32_t i = 1; islands > 1 && i <= islands; i++)
		check_print_island(c, of, i);
	free(of);
}

/* ---- rings and trees ------------------------------------------------------------------------ */

static void check_floor(struct check *c, const struct topo_graph *g, bool inter)
{
	uint32_t mbps = inter ? MIN_OF(g->bw_intra_mbps, g->bw_inter_mbps) : g->bw_intra_mbps;
	const char *where = inter ? "over several hosts" : "within the host";
	uint32_t least = topo_speed_least(c->sys, inter);
	char bw[TOPO_GBPS_TEXT], floor[TOPO_GBPS_TEXT], crossed[CHECK_CROSSED_TEXT];

	check_crossed(c, g, inter, crossed);
	if (mbps <= CHECK_FALLBACK_MBPS)
		check_find(c, NULL,
			   "no ring fits %s at any speed: one channel in the file's order, at %s "
			   "GB/s%s",
			   where, topo_gbps(mbps, bw), crossed);
	else if (mbps <= least)
		check_find(c, NULL, "rings %s have %s GB/s; NCCL's search tries nothing below %s%s",
			   where, topo_gbps(mbps, bw), topo_gbps(least, floor), crossed);
}

/* True if `gpus` ranks of a ring, from position `at` on, have the order of a channel of the host's
 * graph. */
static bool check_is_channel(const struct topo_job *job, const int32_t *ring, int32_t at,
			     int32_t gpus, int32_t channel)
{
	for (int32_t i = 0; i < gpus; i++)
		if (ring[(at + i) % job->ranks] % gpus != job->graph.order[channel][i])
			return false;
	return true;
}

/* Returns the NIC through which a ring enters or leaves a host whose ranks begin at position `at`.
 * It belongs to the channel with the same order. The ring's own channel is tried first, then that
 * of its pair, then all others. */
static int32_t check_nic(const struct topo_job *job, int32_t number, int32_t at, int side)
{
	const int32_t *ring = job->order + (size_t)number * (size_t)job->ranks;
	int32_t gpus = job->ranks / job->hosts;

	ASSERT(number < job->rings.distinct && gpus * job->hosts == job->ranks);
	for (int32_t i = 0; i < job->graph.nchannels + 2; i++) {
		int32_t channel = i < 2 ? number ^ i : i - 2;

		if (channel < job->graph.nchannels &&
		    check_is_channel(job, ring, at, gpus, channel))
			return job->graph.nic[channel][side];
	}
	return job->graph.nic[number][side];
}

/* Checks the crossings of rings between hosts. A crossing leaves through one NIC and enters through
 * another; both must be on the same rail. */
static void check_rails(struct check *c, const struct topo_job *job)
{
	int32_t gpus = job->ranks / job->hosts, crossings = 0, changes = 0, nic[2] = {0, 0};
	char crossed[CHECK_CROSSED_TEXT];

	for (int32_t k = 0; k < job->rings.distinct; k++) {
		const int32_t *ring = job->order + (size_t)k * (size_t)job->ranks;

		for (int32_t i = 0; i < job->ranks; i++) {
			int32_t next = (i + 1) % job->ranks;

			if (ring[i] / gpus == ring[next] / gpus)
				continue;
			int32_t out = check_nic(job, k, (next + job->ranks - gpus) % job->ranks, 1);
			int32_t in = check_nic(job, k, next, 0);

			crossings++;
			if (!topo_same_port(c->sys, in, out) && !changes++)
				nic[0] = out, nic[1] = in;
		}
	}
	if (changes)
		check_find(c, &c->e[topo_element_of_nic(c->sys, nic[0])],
			   "%d of %d crossings between hosts change rails: a ring leaves by %s and "
			   "enters the next host by %s%s",
			   changes, crossings, topo_nic_name(c->sys, nic[0]),
			   topo_nic_name(c->sys, nic[1]),
			   check_crossed(c, &job->graph, true, crossed));
}

/* Returns the NIC of a tree's channel for the links of `rank` to other hosts. The rank's position
 * in the chain selects it. */
static int check_tree_nic(const struct topo_job *job, int32_t channel, int32_t rank)
{
	const struct topo_graph *g = &job->tree;

	return g->nic[channel][g->order[channel][0] != rank % (job->ranks / job->hosts)];
}

/* Checks the links of trees between hosts: the NICs of both ranks must be on the same rail. */
static void check_tree_rails(struct check *c, const struct topo_job *job)
{
	int32_t gpus = job->ranks / job->hosts, links = 0, changes = 0, nic[2] = {0, 0};
	char crossed[CHECK_CROSSED_TEXT];

	for (int32_t i = 0; i < job->trees.distinct * job->ranks; i++) {
		int32_t rank = i % job->ranks, parent = job->parent[i];
		int32_t channel = job->trees.from[i / job->ranks];

		if (parent < 0 || rank / gpus == parent / gpus)
			continue;
		int32_t up = check_tree_nic(job, channel, parent);
		int32_t down = check_tree_nic(job, channel, rank);

		links++;
		if (!topo_same_port(c->sys, up, down) && !changes++)
			nic[0] = up, nic[1] = down;
	}
	if (changes)
		check_find(c, &c->e[topo_element_of_nic(c->sys, nic[0])],
			   "%d of %d links of trees between hosts change rails: a parent has %s, "
			   "and its child on the next host %s%s",
			   changes, links, topo_nic_name(c->sys, nic[0]),
			   topo_nic_name(c->sys, nic[1]),
			   check_crossed(c, &job->tree, true, crossed));
}

static int check_trees(struct check *c)
{
	static struct topo_job job;
	int code = cli_topo_job_make(&job, c->sys, CHECK_TREE_HOSTS);

	if (!code)
		check_tree_rails(c, &job);
	cli_topo_job_free(&job);
	return code;
}

static int check_rings(struct check *c)
{
	static struct topo_job job;
	int code = cli_topo_job_make(&job, c->sys, 1);

	if (!code)
		check_floor(c, &job.graph, false);
	cli_topo_job_free(&job);
	if (code || topo_nic_count(c->sys) == 0)
		return code;
	code = cli_topo_job_make(&job, c->sys, CHECK_RING_HOSTS);
	if (!code)
		check_floor(c, &job.graph, true);
	if (!code && check_port_count(c) > 1)
		check_rails(c, &job);
	cli_topo_job_free(&job);
	return code;
}

/* ---- all checks ------------------------------------------------------------------------------ */

/* Notes that ACS is unknown: with ACS on, traffic between functions of a switch goes through the
 * CPU. */
static void check_acs(struct check *c)
{
	for (int32_t i = 0; i < c->n; i++)
		if (c->e[i].type == TOPO_NODE_PCI) {
			check_note(c, &c->e[i],
				   "ACS of this and other switches is not known from the file: "
				   "expected off ('lspci -vvv' shows ACSCtl), or paths of PIX and "
				   "PXB go over the CPU");
			return;
		}
}

static int check_all(struct check *c)
{
	check_near_nics(c);
	check_narrow(c);
	check_links(c);
	check_ports(c);
	check_symmetry(c);
	check_switched(c);
	check_islands(c);
	int code = check_rings(c);

	if (!code && check_port_count(c) > 1)
		code = check_trees(c);
	if (code)
		return code;
	check_acs(c);
	printf("%d finding%s, %d note%s\n", c->findings, c->findings == 1 ? "" : "s", c->notes,
	       c->notes == 1 ? "" : "s");
	return c->findings ? SIM_ERROR : SIM_PASS;
}

int cli_topo_check(const struct topo_options *o)
{
	struct topo_machine m;
	int code = cli_topo_open(&m, o->input[0]);

	if (code)
		return code;
	struct check c = {
		.path = m.file->path, .sys = m.sys, .n = topo_element_count(m.sys), .narrow = -1};

	c.e = calloc((size_t)c.n, sizeof *c.e);
	if (c.e) {
		for (int32_t i = 0; i < c.n; i++)
			topo_element_get(m.sys, i, &c.e[i]);
		code = check_all(&c);
	} else {
		fprintf(stderr, "doppel topo: no memory for %d elements\n", c.n);
		code = SIM_USAGE;
	}
	free(c.e);
	cli_topo_close(&m);
	return code;
}
