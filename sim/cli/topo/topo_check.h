/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of doppel topo check.
 *
 *	topo_check.c      NVLinks, rings and trees; runs all checks in order
 *	topo_check_pci.c  GPUs, NICs, their ports, PCI links
 */
#ifndef SIM_CLI_TOPO_CHECK_H
#define SIM_CLI_TOPO_CHECK_H

#include "sim/cli/topo/topo.h"

struct check {
	const char *path;
	const struct topo_system *sys;
	int32_t n; /* number of elements */
	struct topo_element *e;
	int32_t narrow; /* switch with the narrowest of the links that are too narrow; -1: none */
	int findings, notes;
};

/* Print a line about a property that makes the machine slower. A note does not count as a finding.
 * e NULL: the line is about the whole machine. */
void check_find(struct check *c, const struct topo_element *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void check_note(struct check *c, const struct topo_element *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

void check_near_nics(struct check *c);
void check_links(struct check *c);
void check_ports(struct check *c);
/* Returns the number of distinct ports of the NICs. */
int32_t check_port_count(const struct check *c);
/* Reports switches whose link is slower than one device below them, one line per kind. Sets
 * c->narrow. */
void check_narrow(struct check *c);
/* Returns "; they cross the link of PCI 0000:10:00.0, which has 2 GB/s" if rings of the graph cross
 * the narrowest link and are about as slow. Otherwise returns "". */
#define CHECK_CROSSED_TEXT (TOPO_ELEMENT_TEXT + TOPO_GBPS_TEXT + 64)
const char *check_crossed(const struct check *c, const struct topo_graph *g, bool inter,
			  char text[CHECK_CROSSED_TEXT]);

#endif
