/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/cli/topo/topo_check.h"

/* ---- GPUs and NICs -------------------------------------------------------------------------- */

/* True if two elements share a switch below any CPU. */
static bool check_is_near(const struct check *c, int32_t a, int32_t b)
{
	for (int32_t x = a; x >= 0; x = c->e[x].parent)
		for (int32_t y = b; y >= 0; y = c->e[y].parent)
			if (x == y)
				return c->e[x].type != TOPO_NODE_CPU;
	return false;
}

static void check_near_nic(struct check *c, int32_t gpu)
{
	int32_t at = topo_element_of_gpu(c->sys, gpu), best = 0;

	ASSERT(topo_nic_count(c->sys) > 0); /* check_near_nics notes a host without NICs */
	for (int32_t n = 0; n < topo_nic_count(c->sys); n++) {
		if (check_is_near(c, at, topo_element_of_nic(c->sys, n)))
			return;
		if (topo_nic_path(c->sys, gpu, n) < topo_nic_path(c->sys, gpu, best))
			best = n;
	}
	if (topo_nic_path(c->sys, gpu, best) > TOPO_PATH_PXN)
		check_find(c, &c->e[at],
			   "no NIC is below one of its switches: the nearest is %s, %s; expected "
			   "one at PIX or PXB",
			   topo_nic_name(c->sys, best),
			   topo_path_name(topo_nic_path(c->sys, gpu, best)));
}

void check_near_nics(struct check *c)
{
	if (topo_nic_count(c->sys) == 0)
		check_note(c, NULL, "no NIC: rings cannot leave the host");
	else
		for (int32_t g = 0; g < topo_gpu_count(c->sys); g++)
			check_near_nic(c, g);
}

/* Returns the largest number of lanes (or speed) of all functions of the same model. In a file
 * without models: of the same type. */
static int32_t check_most(const struct check *c, const struct topo_element *e, bool lanes)
{
	int32_t most = 0;

	for (int32_t i = 0; i < c->n; i++) {
		const struct topo_element *o = &c->e[i];

		if (o->type == e->type && o->pci_id >> 32 == e->pci_id >> 32)
			most = MAX_OF(most, lanes ? o->lanes : o->milli_gts);
	}
	return most;
}

static void check_link(struct check *c, const struct topo_element *e)
{
	int32_t lanes = check_most(c, e, true), gts = check_most(c, e, false);
	char have[TOPO_GBPS_TEXT], most[TOPO_GBPS_TEXT];

	if (e->type == TOPO_NODE_GPU)
		lanes = MAX_OF(lanes, 16);
	if (e->lanes && e->lanes < lanes)
		check_find(c, e, "its PCI link has %d lane%s, expected %d", e->lanes,
			   e->lanes == 1 ? "" : "s", lanes);
	if (e->milli_gts && e->milli_gts < gts)
		check_find(c, e, "its PCI link runs at %s GT/s, expected %s, as others like it do",
			   topo_gbps((uint32_t)e->milli_gts, have), topo_gbps((uint32_t)gts, most));
}

/* ---- ports ----------------------------------------------------------------------------------- */

/* True if it is the first NIC of its port. */
static bool check_is_first(const struct check *c, int32_t nic)
{
	for (int32_t n = 0; n < nic; n++)
		if (topo_same_port(c->sys, n, nic))
			return false;
	return true;
}

int32_t check_port_count(const struct check *c)
{
	int32_t ports = 0;

	for (int32_t n = 0; n < topo_nic_count(c->sys); n++)
		ports += check_is_first(c, n);
	return ports;
}

/* Notes NICs with the same guid and port: they are one port and share its bandwidth. */
static void check_port(struct check *c, int32_t nic)
{
	const struct topo_element *e = &c->e[topo_element_of_nic(c->sys, nic)];
	char bw[TOPO_GBPS_TEXT], names[256] = "";
	size_t at = 0;
	int32_t same = 0;

	for (int32_t n = nic; n < topo_nic_count(c->sys); n++) {
		if (!topo_same_port(c->sys, nic, n))
			continue;
		if (at < sizeof names)
			at += (size_t)snprintf(names + at, sizeof names - at, "%s%s",
					       same ? ", " : "", topo_nic_name(c->sys, n));
		same++;
	}
	if (same > 1)
		check_note(c, e,
			   "%d NICs are one port, guid 0x%" PRIx64
			   " port %d: %s; together they have its %s GB/s",
			   same, e->guid, e->port, names, topo_gbps(e->mbps, bw));
}

void check_ports(struct check *c)
{
	for (int32_t n = 0; n < topo_nic_count(c->sys); n++)
		if (check_is_first(c, n))
			check_port(c, n);
}

/* ---- PCI links that are too narrow for the devices below them -------------------------------- */

/* Reports a card whose link is slower than its ports together. Each port counts once. */
static void check_card(struct check *c, int32_t card)
{
	const struct topo_element *e = &c->e[card], *first = NULL;
	char port[TOPO_GBPS_TEXT], link[TOPO_GBPS_TEXT];
	uint64_t mbps = 0;
	int32_t ports = 0;

	for (int32_t n = 0; n < topo_nic_count(c->sys); n++) {
		const struct topo_element *net = &c->e[topo_element_of_nic(c->sys, n)];

		if (net->parent != card || !check_is_first(c, n))
			continue;
		first = first ? first : net;
		mbps += net->mbps;
		ports++;
	}
	if (!ports || !e->up_mbps || e->up_mbps * 10ull >= mbps * 9)
		return;
	topo_gbps((uint32_t)mbps, port);
	topo_gbps(e->up_mbps, link);
	if (ports == 1)
		check_find(c, e, "its PCI link has %s GB/s, and the port %s has %s", link,
			   first->name, port);
	else
		check_find(c, e, "its PCI link has %s GB/s, and its %d ports have %s together",
			   link, ports, port);
}

static bool check_is_below(const struct check *c, int32_t at, int32_t above)
{
	while (at >= 0 && at != above)
		at = c->e[at].parent;
	return at == above;
}

/* Returns the highest bandwidth of one device below a switch, by its own link or its port. */
static uint32_t check_fastest(const struct check *c, int32_t above, int32_t *device)
{
	uint32_t most = 0;

	for (int32_t i = 0; i < c->n; i++) {
		const struct topo_element *e = &c->e[i];
		uint32_t mbps = e->type == TOPO_NODE_GPU   ? e->up_mbps
				: e->type == TOPO_NODE_NET ? e->mbps
							   : 0;

		if (mbps > most && check_is_below(c, i, above)) {
			most = mbps;
			*device = i;
		}
	}
	return most;
}

/* True if a switch's upward link is slower than one device below it. *most: that device's
 * bandwidth. */
static bool check_is_narrow(const struct check *c, int32_t at, uint32_t *most, int32_t *device)
{
	const struct topo_element *e = &c->e[at];

	if (e->type != TOPO_NODE_PCI || !e->up_mbps)
		return false;
	*most = check_fastest(c, at, device);
	return e->up_mbps * 10ull < *most * 9ull;
}

/* Returns the number of narrow switches with the same link and device, from `at` on. If an earlier
 * switch is alike, returns -1. */
static int32_t check_alike(const struct check *c, int32_t at, uint32_t most)
{
	int32_t alike = 0, device;
	uint32_t other;

	for (int32_t i = 0; i < c->n; i++) {
		if (c->e[i].up_mbps != c->e[at].up_mbps ||
		    !check_is_narrow(c, i, &other, &device) || other != most)
			continue;
		if (i < at)
			return -1;
		alike++;
	}
	return alike;
}

void check_narrow(struct check *c)
{
	char name[TOPO_ELEMENT_TEXT], pci[TOPO_PCI_TEXT], have[TOPO_GBPS_TEXT],
		below[TOPO_GBPS_TEXT], others[48];

	for (int32_t i = 0; i < c->n; i++) {
		const struct topo_element *e = &c->e[i];
		int32_t device = -1;
		uint32_t most;

		if (!check_is_narrow(c, i, &most, &device))
			continue;
		ASSERT(device >= 0 && device != i); /* the fast one below the switch */
		if (c->narrow < 0 || e->up_mbps < c->e[c->narrow].up_mbps)
			c->narrow = i;
		int32_t alike = check_alike(c, i, most);

		if (alike < 0)
			continue;
		others[0] = '\0';
		if (alike > 1)
			snprintf(others, sizeof others, " (%d switches like this)", alike);
		check_find(c, e,
			   "its PCI link upwards, %s, has %s GB/s, and %s below it has %s; "
			   "expected as much%s",
			   topo_pci_text(e, pci), topo_gbps(e->up_mbps, have),
			   topo_element_text(&c->e[device], name), topo_gbps(most, below), others);
	}
}

/* True if the path from a to b crosses the upward link of the narrow switch. */
static bool check_leaves(const struct check *c, int32_t a, int32_t b)
{
	ASSERT(c->narrow >= 0 && c->e[c->narrow].type == TOPO_NODE_PCI);
	return check_is_below(c, a, c->narrow) != check_is_below(c, b, c->narrow);
}

static bool check_ring_leaves(const struct check *c, const struct topo_graph *g, int32_t channel,
			      bool inter)
{
	const int16_t *order = g->order[channel];
	int32_t gpus = topo_gpu_count(c->sys), hops = inter ? gpus - 1 : gpus;
	int32_t first = topo_element_of_gpu(c->sys, order[0]);
	int32_t last = topo_element_of_gpu(c->sys, order[gpus - 1]);

	for (int32_t i = 0; i < hops; i++) {
		int32_t a = order[i], b = order[(i + 1) % gpus];

		if (topo_gpu_path(c->sys, a, b) >= TOPO_PATH_PIX &&
		    check_leaves(c, topo_element_of_gpu(c->sys, a), topo_element_of_gpu(c->sys, b)))
			return true;
	}
	return inter && (check_leaves(c, topo_element_of_nic(c->sys, g->nic[channel][0]), first) ||
			 check_leaves(c, topo_element_of_nic(c->sys, g->nic[channel][1]), last));
}

const char *check_crossed(const struct check *c, const struct topo_graph *g, bool inter,
			  char text[CHECK_CROSSED_TEXT])
{
	char name[TOPO_ELEMENT_TEXT], bw[TOPO_GBPS_TEXT];
	uint32_t mbps = inter ? MIN_OF(g->bw_intra_mbps, g->bw_inter_mbps) : g->bw_intra_mbps;

	text[0] = '\0';
	if (c->narrow < 0 || c->e[c->narrow].up_mbps >= 2 * mbps)
		return text;
	for (int32_t k = 0; k < g->nchannels && !text[0]; k++)
		if (check_ring_leaves(c, g, k, inter))
			snprintf(text, CHECK_CROSSED_TEXT,
				 "; they cross the link of %s, which has %s GB/s",
				 topo_element_text(&c->e[c->narrow], name),
				 topo_gbps(c->e[c->narrow].up_mbps, bw));
	return text;
}

/* ---- all PCI checks -------------------------------------------------------------------------- */

void check_links(struct check *c)
{
	for (int32_t i = 0; i < c->n; i++)
		if (c->e[i].type == TOPO_NODE_GPU || c->e[i].type == TOPO_NODE_NIC)
			check_link(c, &c->e[i]);
	for (int32_t i = 0; i < c->n; i++)
		if (c->e[i].type == TOPO_NODE_NIC)
			check_card(c, i);
}
