/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of element types, in the order of ncclDataType_t and enum dev_type, and of operations, as
 * in nccl-tests. For messages, traces, options and scenarios. */
#ifndef CORE_BASE_TYPE_NAME_H
#define CORE_BASE_TYPE_NAME_H

#include "core/base/macros.h"

enum { TYPE_NAMES = 12 };

static inline const char *type_name(unsigned type)
{
	static const char *const names[] = {"int8",   "uint8",    "int32",  "uint32",
					    "int64",  "uint64",   "half",   "float",
					    "double", "bfloat16", "f8e4m3", "f8e5m2"};

	DOPPEL_STATIC_CHECK(ARRAY_LEN(names) == TYPE_NAMES, "a name for each type");
	ASSERT(type < TYPE_NAMES);
	return names[type];
}

/* Returns "invalid" if a program passed an invalid value. */
static inline const char *type_name_any(int type)
{
	return type >= 0 && type < TYPE_NAMES ? type_name((unsigned)type) : "invalid";
}

/* Returns the name of an ncclRedOp_t. Numbers after the predefined ones are operations that a
 * program created. */
static inline const char *redop_name(int op)
{
	static const char *const names[] = {"sum", "prod", "max", "min", "avg"};

	if (op < 0)
		return "invalid";
	return op < (int)ARRAY_LEN(names) ? names[op] : "premul_sum";
}

#endif
