/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: their numbers, their state, and the flush in which every error ends. transport/
 * executes their requests. */
#include "backends/fakeverbs/queues/queues.h"

/* ---- numbers -------------------------------------------------------------------------------- */

void hca_qp_enter(struct hca_qp *qp)
{
	struct hca_port *port = &hca_world()->port[qp->port];

	hca_lock(&port->lock);
	qp->number = port->next_qpn++ & HCA_PSN_MASK;
	qp->next = port->bucket[qp->number % HCA_BUCKETS];
	__atomic_store_n(&port->bucket[qp->number % HCA_BUCKETS], qp->item.index + 1,
			 __ATOMIC_RELEASE);
	hca_unlock(&port->lock);
}

void hca_qp_leave(struct hca_qp *qp)
{
	struct hca_world *w = hca_world();
	struct hca_port *port = &w->port[qp->port];

	hca_lock(&port->lock);
	uint32_t *at = &port->bucket[qp->number % HCA_BUCKETS];

	while (*at && *at != qp->item.index + 1)
		at = &((struct hca_qp *)hca_slab_at(&w->qp, *at - 1))->next;
	ASSERT(*at || hca_members); /* a process may die before its queue pair enters */
	if (*at)
		*at = qp->next;
	hca_unlock(&port->lock);
}

/* Returns the number's queue pair and its generation; NULL: no queue pair has the number. */
static struct hca_qp *hca_qp_find_number(uint32_t port_index, uint32_t number, uint32_t *generation)
{
	struct hca_world *w = hca_world();
	struct hca_port *port = &w->port[port_index];
	struct hca_qp *qp = NULL;

	hca_lock(&port->lock);
	uint32_t at = port->bucket[number % HCA_BUCKETS];

	while (at) {
		qp = hca_slab_at(&w->qp, at - 1);
		if (qp->number == number)
			break;
		at = qp->next;
	}
	*generation = at ? __atomic_load_n(&qp->item.generation, __ATOMIC_ACQUIRE) : 0;
	hca_unlock(&port->lock);
	return at ? qp : NULL;
}

struct hca_qp *hca_qp_lock_number(uint32_t port_index, uint32_t number)
{
	uint32_t generation;
	struct hca_qp *qp = hca_qp_find_number(port_index, number, &generation);

	return qp ? hca_qp_lock_reference(qp, generation) : NULL;
}

struct hca_qp *hca_qp_try_number(uint32_t port_index, uint32_t number)
{
	uint32_t generation;
	struct hca_qp *qp = hca_qp_find_number(port_index, number, &generation);

	if (!qp || !hca_try_lock(&qp->item.lock))
		return NULL;
	if (hca_qp_is(qp, generation))
		return qp;
	hca_unlock(&qp->item.lock);
	return NULL;
}

struct hca_qp *hca_qp_lock_reference(struct hca_qp *qp, uint32_t generation)
{
	if (!hca_qp_lock_unless_stopped(qp))
		return NULL;
	if (hca_qp_is(qp, generation))
		return qp;
	hca_unlock(&qp->item.lock);
	return NULL;
}

/* ---- changing ------------------------------------------------------------------------------- */

void hca_qp_set_state(struct hca_qp *qp, enum ibv_qp_state state)
{
	ASSERT((uint32_t)state <= IBV_QPS_ERR); /* hca_qp_masks has no transition to others */
	if (qp->state == (uint32_t)state)
		return;
	os_trace("qp.state", hca_qp_id(qp), qp->state, state);
	qp->state = state;
	qp->changes++;
}

void hca_qp_flush(struct hca_qp *qp)
{
	ASSERT(qp->state == IBV_QPS_ERR);
	hca_send_flush(qp);
	while (qp->rq.done != qp->rq.head)
		hca_recv_complete(qp, IBV_WC_WR_FLUSH_ERR, NULL, 0);
}

void hca_qp_to_error(struct hca_qp *qp)
{
	bool enters = qp->state != IBV_QPS_ERR;

	if (qp->state == IBV_QPS_RESET)
		return;
	(void)hca_atomic_land(qp);
	hca_partial_drop(qp);
	hca_qp_set_state(qp, IBV_QPS_ERR);
	qp->req.rnr_wait = 0;
	hca_qp_flush(qp);
	/* the receive that it held is flushed, and it takes no further one */
	if (qp->srq && enters && hca_personality(qp->port)->reports_connections &&
	    qp->type != IBV_QPT_XRC_RECV)
		hca_event_post(qp->context, IBV_EVENT_QP_LAST_WQE_REACHED, qp->item.index,
			       qp->item.generation);
}

void hca_send_flush(struct hca_qp *qp)
{
	OS_PROBE("hca.send_flushed", "a send is flushed from a dead queue pair",
		 qp->sq.done != qp->sq.head);
	while (qp->sq.done != qp->sq.head)
		hca_send_complete(qp, IBV_WC_WR_FLUSH_ERR);
}
