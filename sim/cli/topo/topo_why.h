/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints every attempt of the searches of all patterns over a machine, for people. */
#ifndef SIM_CLI_TOPO_WHY_H
#define SIM_CLI_TOPO_WHY_H

#include <stdio.h>

#include "core/topo/topo.h"

ncclResult_t topo_why(const struct topo_system *sys, bool inter, FILE *out);

#endif
