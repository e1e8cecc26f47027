/* SPDX-License-Identifier: BSD-3-Clause */
/* The searches of all patterns over a machine, try by try, as a person reads them. */
#ifndef SIM_CLI_TOPO_WHY_H
#define SIM_CLI_TOPO_WHY_H

#include <stdio.h>

#include "core/topo/topo.h"

ncclResult_t topo_why(const struct topo_system *sys, bool inter, FILE *out);

#endif
