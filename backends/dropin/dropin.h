/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The drop-in: the HCA double as a libibverbs.so.1 for programs that know nothing of Doppel
 * (docs/drop-in.md). Its calls are fakeverbs' own; here is what a library of that name has besides:
 * the version nodes (abi.txt, abi.sh), the private names that providers and utilities are linked
 * against, helpers that only they use, and the start of the engine and the world at the first call.
 *
 * Errors: as rdma-core's calls have them. What is not built logs one line and fails with
 * EOPNOTSUPP.
 */
#ifndef BACKENDS_DROPIN_DROPIN_H
#define BACKENDS_DROPIN_DROPIN_H

/* Where a program lives by default: on host 0 of so many of this machine. All programs of a
 * fabric have the same number. */
#define DROPIN_MACHINE "workstation-2hca"
#define DROPIN_HOSTS   4

/* Says that this call is not built, sets errno to EOPNOTSUPP, and returns that. */
int dropin_refuse(const char *call) __attribute__((visibility("hidden")));

#endif
