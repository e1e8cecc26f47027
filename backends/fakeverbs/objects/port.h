/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses: a port's GIDs, LID and P_Keys, and the port of the fabric to which an address leads
 * (port.c).
 */
#ifndef BACKENDS_FAKEVERBS_PORT_H
#define BACKENDS_FAKEVERBS_PORT_H

#include <infiniband/verbs.h>

#include "backends/fakeverbs/objects/objects.h"

#pragma GCC visibility push(hidden)

/* ---- port.c ---- */

#define HCA_NONE      UINT32_MAX
#define HCA_MULTICAST (UINT32_MAX - 1)

void hca_port_init(struct hca_port *port, uint32_t index);
/* Make and free the index of hca_gid_port. */
void hca_gids_start(const struct hca_world *w);
void hca_gids_stop(void);
/* Gives a port the GIDs of its present address. False: it has them. */
bool hca_port_move(uint32_t port);
/* Return the number of changes of both ports' GIDs; and true if it is the same as when the queue
 * pair's address was set, so that its packets arrive. */
uint32_t hca_moves(uint32_t port, uint32_t to_port);
bool hca_qp_reaches(const struct hca_qp *qp);
/* Return the port that has this GID, or LID; HCA_NONE: no port. */
uint32_t hca_gid_port(const union ibv_gid *gid);
uint32_t hca_lid_port(uint16_t lid);
uint16_t hca_port_lid(uint32_t port); /* 0: RoCE */
bool hca_gid_get(uint32_t port, uint32_t index, union ibv_gid *gid, enum ibv_gid_type *type);
bool hca_gid_is_ipv4(const union ibv_gid *gid);
bool hca_gid_is_multicast(const union ibv_gid *gid);
static inline uint16_t hca_pkey_get(uint32_t port, uint32_t index)
{
	return index < HCA_PKEY_COUNT ? hca_world()->port[port].pkey[index] : 0;
}
/* True if both keys name the same partition, and at least one is a full member's. 0 is not a valid
 * key. */
static inline bool hca_pkey_match(uint16_t a, uint16_t b)
{
	return (a & 0x7fff) && ((a ^ b) & 0x7fff) == 0 && ((a | b) & 0x8000);
}
/* Resolves the destination of packets to this address: a port, or HCA_MULTICAST. EINVAL: this port
 * cannot use the address. ETIMEDOUT: no port has it. */
int hca_address_resolve(uint32_t port, const struct ibv_ah_attr *ah, uint32_t *to_port);

/* Returns the address handle of a datagram's request; NULL: it was destroyed. */
const struct hca_ah *hca_ah_find(const struct hca_wqe *e);

#pragma GCC visibility pop

#endif
