/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the kernels by program, protocol and warp width. */
#include "core/device/layout/programs.h"
#include "core/device/shim/shim_table.h"
#include "core/device/layout/work.h"

TABLE_KERNEL(dev_collective_simple)
TABLE_KERNEL(dev_collective_ll)
TABLE_KERNEL(dev_collective_ll128)
TABLE_KERNEL(dev_doubling_ll)
TABLE_KERNEL(dev_tree_simple)
TABLE_KERNEL(dev_tree_ll)
TABLE_KERNEL(dev_tree_ll128)
TABLE_KERNEL(dev_pat)
TABLE_KERNEL(dev_collnet)
TABLE_KERNEL(dev_messages)
TABLE_KERNEL(dev_messages_ll128)
TABLE_KERNEL(dev_one_rank)
TABLE_KERNEL(dev_symmetric_ll)
TABLE_KERNEL(dev_symmetric_simple)
#define TABLE_ONE(name, id, function, type, op) TABLE_KERNEL(dev_##name)
DEV_ONE_PROGRAMS(TABLE_ONE)
DEV_SYMMETRIC_ONE(TABLE_ONE)
#undef TABLE_ONE

/* The kernels of several programs, with their lists. */
#define TABLE_LISTS(X)                                                                             \
	X(dev_collective_simple, DEV_PROGRAMS_RING_SIMPLE)                                         \
	X(dev_collective_ll, DEV_PROGRAMS_RING_LL)                                                 \
	X(dev_collective_ll, DEV_PROGRAMS_DIRECT_LL)                                               \
	X(dev_collective_ll128, DEV_PROGRAMS_RING_LL128)                                           \
	X(dev_doubling_ll, DEV_PROGRAMS_DOUBLING_LL)                                               \
	X(dev_tree_simple, DEV_PROGRAMS_TREE_SIMPLE)                                               \
	X(dev_tree_ll, DEV_PROGRAMS_TREE_LL)                                                       \
	X(dev_tree_ll128, DEV_PROGRAMS_TREE_LL128)                                                 \
	X(dev_pat, DEV_PROGRAMS_PAT_SIMPLE)                                                        \
	X(dev_collnet, DEV_PROGRAMS_COLLNET_SIMPLE)                                                \
	X(dev_symmetric_ll, DEV_PROGRAMS_SYMMETRIC_LL)                                             \
	X(dev_symmetric_simple, DEV_PROGRAMS_SYMMETRIC_SIMPLE)

const struct dev_kernel *dev_kernel_of(int program, int warp_width)
{
	switch (program) {
#define TABLE_CASE(id, ...)        case DEV_##id:
#define TABLE_LIST(name, programs) programs(TABLE_CASE) return table_##name(warp_width);
		TABLE_LISTS(TABLE_LIST)
#undef TABLE_LIST
#undef TABLE_CASE
	default:
		return NULL;
	}
}

/* The rows of DEV_ONE_PROGRAMS. */
static const struct {
	int program, type, op;
	const struct dev_kernel *(*kernel)(int warp_width);
} table_one[] = {
#define TABLE_ROW(name, id, function, type, op) {DEV_##id, type, op, table_dev_##name},
	DEV_ONE_PROGRAMS(TABLE_ROW) DEV_SYMMETRIC_ONE(TABLE_ROW)
#undef TABLE_ROW
};

const struct dev_kernel *dev_kernel_one(int program, int type, int op, int warp_width)
{
	for (size_t i = 0; i < sizeof table_one / sizeof *table_one; i++)
		if (program == table_one[i].program &&
		    (table_one[i].type < 0 || (type == table_one[i].type && op == table_one[i].op)))
			return table_one[i].kernel(warp_width);
	return NULL;
}

const struct dev_kernel *dev_kernel_one_row(uint32_t row, int warp_width)
{
	return row < sizeof table_one / sizeof *table_one ? table_one[row].kernel(warp_width)
							  : NULL;
}

const struct dev_kernel *dev_kernel_messages(bool ll128, int warp_width)
{
	return ll128 ? table_dev_messages_ll128(warp_width) : table_dev_messages(warp_width);
}

const struct dev_kernel *dev_kernel_one_rank(int warp_width)
{
	return table_dev_one_rank(warp_width);
}
