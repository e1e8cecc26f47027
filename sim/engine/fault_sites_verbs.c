/* SPDX-License-Identifier: BSD-3-Clause */
/* What can go wrong in an HCA and its library. Visited by backends/fakeverbs. */
#include <errno.h>

#include "sim/engine/fault.h"

const struct fault_site fault_sites_verbs[] = {
	{.name = "verbs.cqe",
	 .what = "the completion of a send",
	 .action = {{.name = "error",
		     .kind = OS_FAULT_ERROR,
		     .what = "it has that status, and the queue pair is in ERR",
		     .param = {{"status", FAULT_STATUS, 21}}}}},
	{.name = "verbs.reg_mr", .what = "ibv_reg_mr", .action = {FAULT_ACTION_FAIL(ENOMEM)}},
	{.name = "verbs.modify_qp",
	 .what = "ibv_modify_qp",
	 .action = {FAULT_ACTION_FAIL(ETIMEDOUT)},
	 .has_state = true},
	{.name = NULL},
};

const struct fault_recipe fault_recipes_verbs[] = {
	{"verbs.cqe nth=%u error", {{1, 64}}},
	{"verbs.reg_mr nth=%u fail", {{1, 16}}},
	{NULL, {{0, 0}}},
};
