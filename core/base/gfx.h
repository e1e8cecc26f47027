/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AMD's graphics cores: gfx90a has the number 0x90a. Topology files contain them as texts; the
 * kernel's KFD has decimal numbers of major, minor and step: 90010. core/topo and sim/world both
 * use these functions and must agree. Pure functions.
 */
#ifndef CORE_BASE_GFX_H
#define CORE_BASE_GFX_H

#include <stdbool.h>
#include <stdint.h>

/* Parses "gfx942", "942", or a number in which 910 stands for gfx90a. Features may follow, as in
 * "gfx942:sramecc+:xnack-". Returns false if the text is not a core. */
bool gfx_parse(const char *text, int32_t *core);

uint32_t gfx_version(int32_t core);
/* Returns 0 if the version is not a GPU's. */
int32_t gfx_of_version(uint64_t version);

#endif
