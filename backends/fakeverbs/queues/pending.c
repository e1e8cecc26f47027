/* SPDX-License-Identifier: BSD-3-Clause */
/* Pending state of a queue pair that is not a work request. It is the write of an atomic whose old
 * value was read (transport/atomic.c), or a packet of which some bytes landed early
 * (transport/partial.c). Both end with the queue pair's connection. */
#include "backends/fakeverbs/queues/queues.h"

/* ---- writes under way ----------------------------------------------------------------------- */

static void hca_atomic_write(struct hca_qp *qp)
{
	struct hca_atomic *a = &qp->atomic;
	struct hca_mr *mr = hca_slab_at(&hca_world()->mr, a->mr);

	ASSERT(a->writing); /* the port lists it as long as this is true */
	a->writing = 0;
	if (__atomic_load_n(&mr->item.generation, __ATOMIC_ACQUIRE) != a->mr_generation)
		return;
	os_trace("atomic.land", hca_qp_id(qp), a->psn, a->value);
	(void)hca_mr_write(mr, a->iova, &a->value, sizeof a->value);
}

void hca_atomics_land(struct hca_port *port, const struct hca_qp *own, const struct hca_mr *mr,
		      uint64_t address, uint64_t bytes)
{
	struct hca_world *w = hca_world();
	uint32_t *at = &port->atomics;

	ASSERT(!own != !mr);

	while (*at) {
		struct hca_qp *qp = hca_slab_at(&w->qp, *at - 1);
		const struct hca_atomic *a = &qp->atomic;
		bool hit = own ? qp == own
			       : (!bytes && a->mr == mr->item.index) ||
					   (a->address < address + bytes &&
					    address < a->address + sizeof a->value);

		if (!hit) {
			at = &qp->atomic.next;
			continue;
		}
		*at = qp->atomic.next;
		hca_atomic_write(qp);
	}
}

bool hca_atomic_land(struct hca_qp *qp)
{
	struct hca_port *port = &hca_world()->port[qp->port];
	struct hca_atomic *a = &qp->atomic;

	if (!a->answering)
		return false;
	hca_lock(&port->atomic_lock);
	hca_atomics_land(port, qp, NULL, 0, 0);
	hca_unlock(&port->atomic_lock);
	a->answering = 0;
	return true;
}

void hca_atomic_settle_region(struct hca_mr *mr)
{
	struct hca_port *port = &hca_world()->port[mr->port];

	hca_lock(&port->atomic_lock);
	hca_atomics_land(port, NULL, mr, 0, 0);
	hca_unlock(&port->atomic_lock);
}

/* ---- kept packets --------------------------------------------------------------------------- */

static void hca_overtaking_drop(struct hca_qp *qp)
{
	while (qp->overtaking) {
		struct hca_packet *p = hca_slab_at(&hca_world()->packet, qp->overtaking - 1);

		qp->overtaking = p->next;
		hca_packet_free(p);
	}
	qp->overtaking_n = 0;
}

void hca_partial_drop(struct hca_qp *qp)
{
	hca_overtaking_drop(qp);
	if (!qp->partial_packet)
		return;
	struct hca_packet *p = hca_slab_at(&hca_world()->packet, qp->partial_packet - 1);

	qp->partial_packet = 0;
	hca_packet_free(p);
}
