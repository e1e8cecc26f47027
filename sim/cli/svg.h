/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the SVG writers of `doppel` (plot.c, topo_plot.c). */
#ifndef SIM_CLI_SVG_H
#define SIM_CLI_SVG_H

#include <stdint.h>
#include <stdio.h>

/* Writes text between tags. Escapes it and replaces every byte that is not printable ASCII by
 * '?'. */
void svg_text(const char *text, FILE *out);
/* Returns a line colour; colours repeat after seven. */
const char *svg_color(uint32_t number);

#endif
