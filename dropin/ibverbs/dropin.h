/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The drop-in: the HCA double as a libibverbs.so.1 for programs that know nothing of Doppel
 * (docs/verbs/drop-in.md). Its calls are those of fakeverbs. This directory adds the rest of such a
 * library:
 * - the version nodes (abi.txt, abi.sh);
 * - the private names that providers and utilities are linked against, and helpers that only they
 *   use;
 * - the start of the engine and the world at the first call.
 *
 * Calls return errors as rdma-core's do. A call that is not implemented logs one line and fails
 * with EOPNOTSUPP.
 */
#ifndef DROPIN_IBVERBS_DROPIN_H
#define DROPIN_IBVERBS_DROPIN_H

/* Default machine and number of hosts. A program runs on host 0 by default. All programs of a
 * fabric use the same number of hosts. */
#define DROPIN_MACHINE "workstation-2hca"
#define DROPIN_HOSTS   4

/* Logs that `call` is not implemented, sets errno to EOPNOTSUPP, and returns EOPNOTSUPP. */
int dropin_refuse(const char *call) __attribute__((visibility("hidden")));

#endif
