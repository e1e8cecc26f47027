/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AMD's graphics cores: gfx90a is the number 0x90a. Topology files have them as texts, the kernel's
 * KFD as decimal numbers of major, minor and step: 90010. Called by core/topo and sim/world, which
 * must agree on them. Pure.
 */
#ifndef CORE_BASE_GFX_H
#define CORE_BASE_GFX_H

#include <stdbool.h>
#include <stdint.h>

/* "gfx942", "942", or a number in which 910 stands for gfx90a; features may follow, as in
 * "gfx942:sramecc+:xnack-". False: the text is no core. */
bool gfx_parse(const char *text, int32_t *core);

uint32_t gfx_version(int32_t core);
/* 0: the version is not a GPU's. */
int32_t gfx_of_version(uint64_t version);

#endif
