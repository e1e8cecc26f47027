/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The programs (core/device/layout/programs.h) that the environment allows: NCCL_ALGO and
 * NCCL_PROTO, in NCCL's grammar.
 *
 *	variable = list { ";" list }
 *	list     = [ collective ":" ] [ "^" ] name { "," name }
 *
 * "^" allows all names except those in the list. A list without a collective applies to all
 * collectives, and only the first list may lack one. A list with a collective replaces the
 * collective's earlier list. A collective without any list has all names. Capitals and underscores
 * do not matter: "allreduce" is "all_reduce". Empty names and empty lists between semicolons are
 * skipped.
 *
 * All names of NCCL are known, also those of algorithms and protocols without a program here.
 * OneShot, TwoShot and Doubling are algorithms that NCCL does not have. Symmetric is that of its
 * symmetric kernels, which NCCL_ALGO does not name there.
 *
 * Callers: core/comm, which reads the variables once for each communicator; core/plan, for its
 * errors; and `doppel tune`.
 */
#ifndef CORE_TUNE_ALLOWED_H
#define CORE_TUNE_ALLOWED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/device/layout/work.h"
#include "core/include/nccl.h"
#include "core/topo/topo.h"

/* A set of programs has a bit for each. */
DOPPEL_STATIC_CHECK(DEV_PROGRAM_COUNT <= 64, "a bit for each program");
#define TUNE_ALL_PROGRAMS (~0ull >> (64 - DEV_PROGRAM_COUNT))

static inline bool tune_is_allowed(uint64_t programs, int program)
{
	return programs >> program & 1;
}

/* Parses the values of the two variables; NULL or "": not set. On false, `error` has a line that
 * names the variable, the word and what was expected. Also false if no program is left, or none for
 * a collective that has a list of its own. *programs is set in any case. */
bool tune_allowed_parse(const char *algo, const char *proto, uint64_t *programs, char *error,
			size_t bytes);
/* Parses the selection of one call, which has the grammar of NCCL_ALGO. On false, `error` has a
 * line as above. */
bool tune_allowed_select(const char *selection, uint64_t *programs, char *error, size_t bytes);
/* Reads the programs that the environment of this process allows, including NCCL_PAT_ENABLE.
 * Without NCCL_PROTO the doubles do not allow LL. ncclInvalidUsage, logged: an invalid value, as
 * above. */
ncclResult_t tune_allowed_read(uint64_t *programs);
/* Writes "NCCL_ALGO=tree allows no program for broadcast; there are Ring/Simple". For a call
 * without an allowed program, or without one that connects the ranks of these machines. */
const char *tune_allowed_none(enum dev_func func, const struct topo_summary *s, char *text,
			      size_t bytes);
/* Writes "all_reduce with Ring/LL" for the first one of `programs`, which must not be empty. */
const char *tune_allowed_first(uint64_t programs, char *text, size_t bytes);

/* The collective of a program, and its name on the command line: "all_reduce". */
enum dev_func tune_func(int program);
const char *tune_func_name(enum dev_func func);
/* NCCL's names: "Ring", "Simple". "?": NCCL does not have it. */
const char *tune_algo_name(int program);
const char *tune_proto_name(int program);
/* Their numbers in NCCL (tuner_abi.h); -1: NCCL does not have it. */
int tune_algo_number(int program);
int tune_proto_number(int program);

#endif
