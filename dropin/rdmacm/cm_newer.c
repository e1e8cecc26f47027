/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of RDMACM_1.4 and 1.5 that are not implemented. Each fails with EOPNOTSUPP, so that
 * programs built with newer headers load. They are defined under other names, because newer headers
 * declare them and their parameters do not matter here. */
#include "dropin/rdmacm/cm.h"

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
