/* SPDX-License-Identifier: BSD-3-Clause */
/* What this HCA does not have, refused as hardware without the feature refuses it: one line, and
 * EOPNOTSUPP. And the few calls that have nothing to do. */
#include <errno.h>

#include "backends/fakeverbs/hca.h"

static int hca_refuse(const char *call)
{
	sim_point(call);
	hca_say("%s: not on this HCA", call);
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}

#define HCA_REFUSE_NULL(call) (hca_refuse(call), NULL)

/* Registration of dma-buf memory is asked for by probing with a bad descriptor: EBADF would say
 * yes. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	return HCA_REFUSE_NULL("ibv_reg_dmabuf_mr");
}

/* Processes of a world do not fork. */
int ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}
