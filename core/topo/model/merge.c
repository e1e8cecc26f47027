/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Merged NICs: devices of the network that are near each other count as one, with the sum of their
 * speeds. A connection over a merged NIC uses all its devices (core/transport).
 *
 * The rules are those of NCCL. First the groups of NCCL_NET_FORCE_MERGE are merged. Then each
 * device, in the file's order, is merged with devices that are at most NCCL_NET_MERGE_LEVEL away,
 * up to four in all. One rule is stricter than NCCL's: a message is cut into equal parts, so only
 * devices of one speed are merged. If the network knows the kinds of their links, these must be the
 * same, too.
 *
 *	PCI - NIC - mlx5_0          PCI - NIC - mlx5_0+mlx5_1        at level PORT
 *	          \ mlx5_1
 *
 * The name joins the names of the devices with '+'; the proxy finds the devices by it. NICs that
 * are merged in the file are not changed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/topo/topo_internal.h"

struct topo_group {
	int32_t net[TOPO_MAX_MERGED];
	int32_t count;
};

static bool topo_net_is_single(const struct topo_node *n)
{
	return n->type == TOPO_NODE_NET && !n->dead && !strchr(n->name, '+');
}

/* ---- distance between two devices ----------------------------------------------------------- */

static bool topo_is_below(const struct topo_model *m, int32_t node, int32_t above)
{
	while (node != TOPO_NO_NODE && node != above)
		node = m->node[node].parent;
	return node != TOPO_NO_NODE;
}

/* Returns the nearest node that is above all of them; TOPO_NO_NODE: their CPUs differ. */
static int32_t topo_group_parent(const struct topo_model *m, const struct topo_group *g)
{
	int32_t above = m->node[g->net[0]].parent;

	for (int32_t i = 1; i < g->count; i++)
		while (above != TOPO_NO_NODE && !topo_is_below(m, g->net[i], above))
			above = m->node[above].parent;
	return above;
}

/* Returns how far two devices are from each other. One NIC node without a PCI address holds all
 * devices without an address, so these share only the CPU. */
static enum topo_merge_level topo_merge_distance(const struct topo_model *m, int32_t a, int32_t b)
{
	int32_t above = topo_group_parent(m, &(struct topo_group){{a, b}, 2});

	if (above == TOPO_NO_NODE)
		return TOPO_MERGE_NEVER;
	if (m->node[above].type == TOPO_NODE_NIC)
		return m->node[above].bus ? TOPO_MERGE_PORT : TOPO_MERGE_PHB;
	if (m->node[above].type == TOPO_NODE_CPU)
		return TOPO_MERGE_PHB;
	return m->node[m->node[a].parent].parent == above &&
			       m->node[m->node[b].parent].parent == above
		       ? TOPO_MERGE_PIX
		       : TOPO_MERGE_PXB;
}

/* Returns why two devices within the level are not merged; NULL: they can be merged. */
static const char *topo_merge_obstacle(const struct topo_params *params, const struct topo_node *a,
				       const struct topo_node *b)
{
	if (a->net.bw_mbps != b->net.bw_mbps)
		return "their speeds differ";
	if (a->net.link != b->net.link)
		return "their links are of different kinds";
	if (params->merge_rail && (a->net.rail < 0 || a->net.rail != b->net.rail))
		return "NCCL_NET_MERGE_POLICY is RAIL, and they are not on one rail";
	return NULL;
}

/* ---- the merged NIC ------------------------------------------------------------------------- */

/* Writes the merged name, "mlx5_0+mlx5_1". False: it is too long. */
static bool topo_merge_name(const struct topo_model *m, const struct topo_group *g,
			    char name[TOPO_NIC_NAME])
{
	size_t at = 0;

	for (int32_t i = 0; i < g->count && at < TOPO_NIC_NAME; i++)
		at += (size_t)snprintf(name + at, TOPO_NIC_NAME - at, "%s%s", i ? "+" : "",
				       m->node[g->net[i]].name);
	return at < TOPO_NIC_NAME;
}

static uint32_t topo_merge_link(const struct topo_model *m, int32_t from, int32_t to)
{
	for (int32_t i = 0; i < m->edge_count; i++)
		if (m->edge[i].from == from && m->edge[i].to == to)
			return m->edge[i].bw_mbps;
	return 0;
}

/* Returns the least bandwidth on the path up the PCI tree. */
static uint32_t topo_merge_up(const struct topo_model *m, int32_t from, int32_t to)
{
	uint32_t least = UINT32_MAX;

	for (int32_t i = from; i != to; i = m->node[i].parent)
		least = MIN_OF(least, topo_merge_link(m, i, m->node[i].parent));
	return least;
}

/* Adds a NIC for devices of several cards. It is below their common parent and has the sum of their
 * PCI links. */
static ncclResult_t topo_merge_card(struct topo_model *m, const struct topo_group *g, int32_t above,
				    int32_t *nic)
{
	uint32_t mbps = 0;

	for (int32_t i = 0; i < g->count; i++)
		mbps += topo_merge_up(m, m->node[g->net[i]].parent, above);
	*nic = topo_model_node(m, TOPO_NODE_NIC, m->node[g->net[0]].line);
	if (*nic == TOPO_NO_NODE)
		return ncclSystemError;
	snprintf(m->node[*nic].name, sizeof m->node[*nic].name, "merged");
	m->node[*nic].parent = above;
	m->node[*nic].host = m->node[above].host;
	return topo_model_link_both(m, *nic, above, TOPO_LINK_PCI, mbps);
}

/* Removes a NIC that has no devices. */
static void topo_merge_drop(struct topo_model *m, int32_t nic)
{
	for (int32_t i = 0; i < m->node_count; i++)
		if (m->node[i].parent == nic && !m->node[i].dead)
			return;
	if (!m->node[nic].dead)
		topo_model_kill(m, nic);
}

/* Sets the attributes of the merged NIC to those that all devices share. */
static void topo_merge_fill(const struct topo_model *m, const struct topo_group *g,
			    struct topo_node *net)
{
	for (int32_t i = 1; i < g->count; i++) {
		const struct topo_node *n = &m->node[g->net[i]];

		net->net.bw_mbps = MIN_OF(net->net.bw_mbps, n->net.bw_mbps);
		net->net.gdr &= n->net.gdr;
		net->net.coll &= n->net.coll;
		if (net->net.rail != n->net.rail)
			net->net.rail = -1;
		if (net->net.plane != n->net.plane)
			net->net.plane = -1;
	}
	net->net.bw_mbps *= (uint32_t)g->count;
}

/* Replaces the group with a merged NIC. If the devices are of one card, it takes the place of the
 * first; otherwise it is after all other nodes, as in NCCL. */
static ncclResult_t topo_merge_make(struct topo_model *m, const struct topo_group *g)
{
	int32_t above = topo_group_parent(m, g), first = g->net[0], net = first, nic = above;
	struct topo_node made = m->node[first];
	ncclResult_t rc = ncclSuccess;

	if (!topo_merge_name(m, g, made.name)) {
		INFO(LOG_NET | LOG_GRAPH, "%s: %s... is not merged: the name is too long",
		     m->source, m->node[first].name);
		return ncclSuccess;
	}
	topo_merge_fill(m, g, &made);
	made.dev = topo_model_next_net(m);
	if (m->node[above].type != TOPO_NODE_NIC) {
		rc = topo_merge_card(m, g, above, &nic);
		net = rc ? TOPO_NO_NODE : topo_model_node(m, TOPO_NODE_NET, made.line);
	}
	if (net == TOPO_NO_NODE)
		return ncclSystemError;
	made.parent = nic;
	for (int32_t i = 0; i < g->count; i++)
		topo_model_kill(m, g->net[i]);
	m->node[net] = made;
	for (int32_t i = 0; i < g->count; i++)
		topo_merge_drop(m, m->node[g->net[i]].parent);
	rc = topo_model_link_both(m, nic, net, TOPO_LINK_NET, made.net.bw_mbps);
	INFO(LOG_INIT | LOG_NET | LOG_GRAPH,
	     "NET/IB : Made virtual device [%d] name=%s speed=%llu ndevs=%d", made.dev, made.name,
	     (unsigned long long)made.net.bw_mbps * 8, g->count);
	return rc;
}

/* ---- NCCL_NET_FORCE_MERGE ------------------------------------------------------------------- */

/* Finds the device "mlx5_0" or "mlx5_0:1" of `n` characters; TOPO_NO_NODE: no such device. */
static int32_t topo_force_find(const struct topo_model *m, const char *text, size_t n)
{
	const char *colon = memchr(text, ':', n);
	size_t len = colon ? (size_t)(colon - text) : n;

	for (int32_t i = 0; i < m->node_count; i++) {
		const struct topo_node *net = &m->node[i];

		if (topo_net_is_single(net) && strlen(net->name) == len &&
		    memcmp(net->name, text, len) == 0 &&
		    (!colon || atoi(colon + 1) == net->net.port))
			return i;
	}
	return TOPO_NO_NODE;
}

static ncclResult_t topo_force_refuse(const struct topo_model *m, const char *text, size_t n,
				      const char *why)
{
	WARN("%s: NCCL_NET_FORCE_MERGE names %.*s: %s", m->source, (int)n, text, why);
	return ncclInvalidUsage;
}

/* Merges one group: "mlx5_0,mlx5_1". */
static ncclResult_t topo_force_group(struct topo_model *m, const char *text, size_t n)
{
	struct topo_group g = {.count = 0};

	for (size_t at = 0; at < n; at++) {
		size_t k = 0;

		while (at + k < n && text[at + k] != ',')
			k++;
		ASSERT(g.count < TOPO_MAX_MERGED); /* param_form.c has checked it */
		g.net[g.count] = topo_force_find(m, text + at, k);
		if (g.net[g.count++] == TOPO_NO_NODE)
			return topo_force_refuse(m, text + at, k,
						 "there is no such device, or it is merged");
		at += k;
	}
	if (topo_group_parent(m, &g) == TOPO_NO_NODE)
		return topo_force_refuse(m, text, n, "they are not below one CPU");
	for (int32_t i = 1; i < g.count; i++)
		if (m->node[g.net[0]].net.link != m->node[g.net[i]].net.link)
			return topo_force_refuse(m, text, n, "their links are of different kinds");
	return topo_merge_make(m, &g);
}

static ncclResult_t topo_force_merge(struct topo_model *m, const char *text)
{
	ncclResult_t rc = ncclSuccess;

	while (*text && !rc) {
		size_t n = strcspn(text, ";");

		rc = topo_force_group(m, text, n);
		text += n + (text[n] == ';');
	}
	return rc;
}

/* ---- NCCL_NET_MERGE_LEVEL ------------------------------------------------------------------- */

/* True if the device can join the group. Logs the obstacle if the device is near enough. */
static bool topo_merge_joins(const struct topo_model *m, const struct topo_params *params,
			     const struct topo_group *g, int32_t net)
{
	const struct topo_node *first = &m->node[g->net[0]], *n = &m->node[net];
	const char *obstacle;

	if (!topo_net_is_single(n) || g->count == TOPO_MAX_MERGED ||
	    topo_merge_distance(m, g->net[0], net) > (enum topo_merge_level)params->merge_level)
		return false;
	obstacle = topo_merge_obstacle(params, first, n);
	if (obstacle)
		INFO(LOG_NET | LOG_GRAPH, "%s: %s and %s are not merged: %s", m->source,
		     first->name, n->name, obstacle);
	return !obstacle;
}

static ncclResult_t topo_merge_near(struct topo_model *m, const struct topo_params *params)
{
	ncclResult_t rc = ncclSuccess;

	for (int32_t i = 0, nodes = m->node_count; i < nodes && !rc; i++) {
		struct topo_group g = {.net = {i}, .count = 1};

		if (!topo_net_is_single(&m->node[i]))
			continue;
		for (int32_t k = i + 1; k < nodes; k++)
			if (topo_merge_joins(m, params, &g, k))
				g.net[g.count++] = k;
		if (g.count > 1)
			rc = topo_merge_make(m, &g);
	}
	return rc;
}

ncclResult_t topo_model_merge(struct topo_model *m, const struct topo_params *params)
{
	ncclResult_t rc = topo_force_merge(m, params->force_merge);

	return rc || params->merge_level == TOPO_MERGE_LOC ? rc : topo_merge_near(m, params);
}

/* ---- names ---------------------------------------------------------------------------------- */

bool topo_merged_has(const char *merged, const char *name)
{
	size_t n = strlen(name);

	while (*merged) {
		size_t k = strcspn(merged, "+");

		if (k == n && memcmp(merged, name, n) == 0)
			return true;
		merged += k + (merged[k] == '+');
	}
	return false;
}

bool topo_nic_device(const struct topo_system *sys, int32_t nic, int32_t i,
		     char name[TOPO_NIC_NAME])
{
	const char *at = nic < topo_nic_count(sys) ? topo_nic_name(sys, nic) : "";

	for (; i > 0 && *at; i--) {
		at += strcspn(at, "+");
		at += *at == '+';
	}
	size_t n = MIN_OF(strcspn(at, "+"), TOPO_NIC_NAME - 1u);

	memcpy(name, at, n);
	name[n] = '\0';
	return *at != '\0';
}
