/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that librdmacm has had since RDMACM_1.4 and 1.5, which are not here: each fails with
 * EOPNOTSUPP, so that programs built with newer headers load. Under names of their own: what a call
 * takes does not matter, and newer headers declare it. */
#include "backends/rdmacm/cm.h"

#define CM_ABSENT(name)                                                                            \
	int abi_##name(void);                                                                      \
	int abi_##name(void)                                                                       \
	{                                                                                          \
		return cm_result(EOPNOTSUPP);                                                      \
	}

CM_ABSENT(rdma_query_addrinfo)
CM_ABSENT(rdma_resolve_addrinfo)
CM_ABSENT(rdma_write_cm_event)
CM_ABSENT(repoll_create1)
CM_ABSENT(repoll_ctl)
__asm__(".symver abi_rdma_query_addrinfo, rdma_query_addrinfo@@RDMACM_1.4");
__asm__(".symver abi_rdma_resolve_addrinfo, rdma_resolve_addrinfo@@RDMACM_1.4");
__asm__(".symver abi_rdma_write_cm_event, rdma_write_cm_event@@RDMACM_1.4");
__asm__(".symver abi_repoll_create1, repoll_create1@@RDMACM_1.5");
__asm__(".symver abi_repoll_ctl, repoll_ctl@@RDMACM_1.5");
