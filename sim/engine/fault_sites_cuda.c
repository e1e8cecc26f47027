/* SPDX-License-Identifier: BSD-3-Clause */
/* What can go wrong in a GPU and its library. Visited by backends/fakecuda. */
#include <errno.h>

#include "sim/engine/fault.h"

const struct fault_site fault_sites_cuda[] = {
	{.name = "cuda.malloc", .what = "cudaMalloc", .action = {FAULT_ACTION_FAIL(ENOMEM)}},
	{.name = "cuda.host_alloc", .what = "cudaHostAlloc", .action = {FAULT_ACTION_FAIL(ENOMEM)}},
	{.name = "cuda.host_register",
	 .what = "cudaHostRegister",
	 .action = {FAULT_ACTION_FAIL(ENOMEM)}},
	{.name = "cuda.ipc_open",
	 .what = "cudaIpcOpenMemHandle",
	 .action = {FAULT_ACTION_FAIL(ENOMEM)}},
	{.name = NULL},
};

const struct fault_recipe fault_recipes_cuda[] = {
	{NULL, {{0, 0}}},
};
