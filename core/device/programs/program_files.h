/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that define the functions of the rows of programs.h. Included by run_work.h, and by
 * tests/unit/base/programs_steps_test.c, whose primitives only count.
 */
#ifndef CORE_DEVICE_PROGRAM_FILES_H
#define CORE_DEVICE_PROGRAM_FILES_H

#include "core/device/programs/all_gather.h"
#include "core/device/programs/all_reduce.h"
#include "core/device/programs/broadcast.h"
#include "core/device/programs/reduce.h"
#include "core/device/programs/reduce_scatter.h"

#endif
