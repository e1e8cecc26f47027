/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the provider of GPUs and the HCA double meet. In doppel-rt, so that there is one. */
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
