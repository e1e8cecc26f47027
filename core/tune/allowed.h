/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which programs (core/device/programs.h) the environment allows: NCCL_ALGO and NCCL_PROTO, in
 * NCCL's grammar.
 *
 *	variable = list { ";" list }
 *	list     = [ collective ":" ] [ "^" ] name { "," name }
 *
 * "^" allows all names but those of the list. A list without a collective is for all collectives,
 * and only the first list can be without one; a list with a collective replaces what the collective
 * had. A collective that no list is for has all names. Capitals do not matter, nor do underscores:
 * "allreduce" is "all_reduce". Empty names and empty lists between semicolons are skipped.
 *
 * All names of NCCL are known, also those of algorithms and protocols that have no program here.
 * OneShot, TwoShot and Doubling are algorithms that NCCL does not have.
 *
 * Called by core/comm, which reads it once for each communicator, by core/plan for its errors, and
 * by `doppel tune`.
 */
#ifndef CORE_TUNE_ALLOWED_H
#define CORE_TUNE_ALLOWED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/device/work.h"
#include "core/include/nccl.h"
#include "core/topo/topo.h"

/* A bit for each program. */
DOPPEL_STATIC_CHECK(DEV_PROGRAM_COUNT <= 64, "a bit for each program");
#define TUNE_ALL_PROGRAMS (~0ull >> (64 - DEV_PROGRAM_COUNT))

static inline bool tune_is_allowed(uint64_t programs, int program)
{
	return programs >> program & 1;
}

/* The two variables' texts; NULL or "": not set. False: `error` gets a line that names the
 * variable, the word and what was expected. Also false if no program is left, or none for a
 * collective that has a list of its own. *programs is defined in any case. */
bool tune_allowed_parse(const char *algo, const char *proto, uint64_t *programs, char *error,
			size_t bytes);
/* What the environment of this process allows, NCCL_PAT_ENABLE too. Without NCCL_PROTO the doubles
 * leave LL out. ncclInvalidUsage, logged: as above. */
ncclResult_t tune_allowed_read(uint64_t *programs);
/* "NCCL_ALGO=tree allows no program for broadcast; there are Ring/Simple": for a call that finds
 * none, or none that connects the ranks of these machines. */
const char *tune_allowed_none(enum dev_func func, const struct topo_summary *s, char *text,
			      size_t bytes);
/* "all_reduce with Ring/LL": the first one of `programs`, which are not none. */
const char *tune_allowed_first(uint64_t programs, char *text, size_t bytes);

/* The collective of a program, and its name on the command line: "all_reduce". */
enum dev_func tune_func(int program);
const char *tune_func_name(enum dev_func func);
/* NCCL's names: "Ring", "Simple". "?": the row is not one of NCCL's. */
const char *tune_algo_name(int program);
const char *tune_proto_name(int program);
/* Their numbers in NCCL: tuner_abi.h; -1: the row is not one of NCCL's. */
int tune_algo_number(int program);
int tune_proto_number(int program);

#endif
