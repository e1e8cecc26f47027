/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process' place in a job that a launcher of clusters started (mpirun, torchrun, srun), from the
 * variables that the launcher sets. `doppel run` is the caller. Errors are explained on stderr.
 */
#ifndef SIM_CLI_JOB_PLACE_H
#define SIM_CLI_JOB_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/cli/options.h"

/* Finds the launcher and fills in `place`. `place.by` NULL: no launcher, or one of a single
 * process. False: the variables contradict each other. */
bool cli_launch_find(struct cli_place *place);
/* Returns the address at which the processes of different computers get the unique id, from
 * NCCL_COMM_ID, or MASTER_ADDR and MASTER_PORT. If all processes are on one computer, it is derived
 * from the job. NULL: no address, explained. Valid until the next call. */
const char *cli_launch_root(const struct cli_place *place);

#endif
