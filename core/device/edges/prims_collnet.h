/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The links of a rank in the chain of its host (algorithm COLLNET_CHAIN). Link 0 leads up, link 1
 * down. Above the head of the chain is the network. Its receiving and its sending end are
 * connections with proxies, which have another head as their peer:
 *
 *	host 0                    network                    host 1
 *	last -> ... -> head -> [ reduces the slots of all heads ] <- head <- ... <- last
 *	last <- ... <- head <- [ one sum for all of them        ] -> head -> ... -> last
 *
 * The primitives are those of a tree (prims_tree.h). The sum that a head receives is divided there,
 * because a network knows no averages. Included by all_reduce.h and, through it, by
 * tests/unit/base/programs_count.h, whose primitives only count. Errors: as in prims.h.
 */
#ifndef CORE_DEVICE_PRIMS_COLLNET_H
#define CORE_DEVICE_PRIMS_COLLNET_H

#include "core/device/edges/prims_tree_part.h"

enum { PRIM_COLLNET_UP = 1, PRIM_COLLNET_DOWN = 2 }; /* bits of the links */

/* Returns the link down; 0: this rank is the last one of its chain. */
DEV_FN uint32_t prim_collnet_down(const struct prim *p)
{
	return prim_edge_recv(p, 1)->peer >= 0 ? PRIM_COLLNET_DOWN : 0;
}

/* Returns true if the link up is the network. */
DEV_FN bool prim_collnet_is_head(const struct prim *p)
{
	return prim_edge_recv(p, 0)->network != 0;
}

#endif
