/* SPDX-License-Identifier: BSD-3-Clause */
/* What the pictures of `doppel` share (plot.c, topo_plot.c). */
#ifndef SIM_CLI_SVG_H
#define SIM_CLI_SVG_H

#include <stdint.h>
#include <stdio.h>

/* Text between tags: escaped; what is not printable ASCII is '?'. */
void svg_text(const char *text, FILE *out);
/* Colours of lines, which repeat after seven. */
const char *svg_color(uint32_t number);

#endif
