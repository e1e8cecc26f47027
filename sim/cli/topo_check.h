/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of doppel topo check.
 *
 *	topo_check.c      NVLinks, rings and trees; all of it, in order
 *	topo_check_pci.c  GPUs, NICs, their ports, PCI links
 */
#ifndef SIM_CLI_TOPO_CHECK_H
#define SIM_CLI_TOPO_CHECK_H

#include "sim/cli/topo.h"

struct check {
	const char *path;
	const struct topo_system *sys;
	int32_t n; /* elements */
	struct topo_element *e;
	int32_t narrow; /* the switch whose link is the narrowest of those that are too narrow; -1: none is */
	int findings, notes;
};

/* A line of what makes the machine slower; a note counts for nothing. e: NULL when it is about the
 * machine as a whole. */
void check_find(struct check *c, const struct topo_element *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void check_note(struct check *c, const struct topo_element *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

void check_near_nics(struct check *c);
void check_links(struct check *c);
void check_ports(struct check *c);
/* How many ports the NICs are. */
int32_t check_port_count(const struct check *c);
/* Links of switches that carry less than one device below them, a line for each kind; sets
 * c->narrow. */
void check_narrow(struct check *c);
/* "; they cross the link of PCI 0000:10:00.0, which has 2 GB/s" if rings of the graph cross the
 * narrowest link and are about as slow, else "". */
#define CHECK_CROSSED_TEXT (TOPO_ELEMENT_TEXT + TOPO_GBPS_TEXT + 64)
const char *check_crossed(const struct check *c, const struct topo_graph *g, bool inter,
			  char text[CHECK_CROSSED_TEXT]);

#endif
