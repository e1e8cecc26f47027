/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The numbers of work.h as words, for messages and traces. Host only.
 */
#ifndef CORE_DEVICE_NAMES_H
#define CORE_DEVICE_NAMES_H

#include "core/base/macros.h"
#include "core/base/type_name.h"
#include "core/device/layout/steps.h"

static inline const char *dev_type_name(unsigned type)
{
	DOPPEL_STATIC_CHECK((int)DEV_TYPE_COUNT == (int)TYPE_NAMES, "a name for each type");
	return type_name(type);
}

/* Uses the order of enum dev_op. */
static inline const char *dev_op_name(unsigned op)
{
	static const char *const names[] = {"sum", "prod",       "max",
					    "min", "premul_sum", "sum_postdiv"};

	ASSERT(ARRAY_LEN(names) == DEV_OP_COUNT && op < DEV_OP_COUNT);
	return names[op];
}

/* Returns the name as in programs.h: "RING", "SIMPLE". */
static inline const char *dev_algo_name(unsigned program)
{
	switch (program) {
#define DEV_ALGO_NAME(id, function, func, algo, proto, pattern, chunk, slice)                      \
	case DEV_##id:                                                                             \
		return #algo;
		DEV_PROGRAMS(DEV_ALGO_NAME)
#undef DEV_ALGO_NAME
	default:
		return "unknown";
	}
}

/* Returns NCCL's name of a program's kernel on windows; NULL: not on windows. NCCL has no kernel on
 * windows for an all-to-all. */
static inline const char *dev_symmetric_name(unsigned program)
{
	switch (program) {
	case DEV_ALL_REDUCE_SYM_LL:
		return "AllReduce_AGxLL_R";
	case DEV_ALL_GATHER_SYM_LL:
		return "AllGather_LL";
	case DEV_REDUCE_SCATTER_SYM_LL:
		return "ReduceScatter_LL";
	case DEV_ALL_TO_ALL_SYM_LL:
		return "AlltoAll_LL";
	case DEV_ALL_REDUCE_SYM_SIMPLE:
		return "AllReduce_RSxLD_AGxST";
	case DEV_ALL_GATHER_SYM_SIMPLE:
		return "AllGather_ST";
	case DEV_REDUCE_SCATTER_SYM_SIMPLE:
		return "ReduceScatter_LD";
	case DEV_ALL_TO_ALL_SYM_SIMPLE:
		return "AlltoAll_ST";
	default:
		return NULL;
	}
}

/* Returns the name of a protocol, in the order of enum dev_proto. */
static inline const char *dev_proto_text(unsigned proto)
{
	static const char *const names[] = {
#define DEV_PROTO_TEXT(id, buffer, grain, data) #id,
		DEV_PROTOS(DEV_PROTO_TEXT)
#undef DEV_PROTO_TEXT
	};

	ASSERT(proto < DEV_PROTO_COUNT);
	return names[proto];
}

static inline const char *dev_proto_name(unsigned program)
{
	return program < DEV_PROGRAM_COUNT ? dev_proto_text(steps_program((int)program).proto)
					   : "unknown";
}

#endif
