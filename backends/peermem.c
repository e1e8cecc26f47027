/* SPDX-License-Identifier: BSD-3-Clause */
/* The registered provider of GPU memory. This file is part of doppel-rt, so that a process has one
 * copy. */
#include "backends/peermem.h"

static const struct peermem_ops *peermem_ops;

void peermem_register(const struct peermem_ops *ops)
{
	ASSERT(ops && (!peermem_ops || peermem_ops == ops));
	peermem_ops = ops;
}

const struct peermem_ops *peermem(void)
{
	return peermem_ops;
}
