/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rule of a run in which the plan made calls of the stack fail: a call of NCCL returns the
 * error. reported.c has the calls that need not. survive.c and exhaust_judge.c call this at the end
 * of a run, before its world ends. Texts are cut at `bytes`. Nothing fails.
 */
#ifndef SIM_LAB_REPORTED_H
#define SIM_LAB_REPORTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAB_REPORTED_BYTES 400 /* of an explanation */

/* For a run in which no call of a rank returned an error. True if a call of the stack failed that
 * has to be reported, explained in `out`. */
bool lab_failure_unreported(char *out, size_t bytes);

/* True if `call`, the rank's first call that returned an error, is a later one than that which made
 * the only failed call of the run, explained in `out`. */
bool lab_failure_late(int32_t rank, const char *call, char *out, size_t bytes);

#endif
