/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic operations: the responder's side, and its log of them.
 *
 * 	request -> checks -> old value read ... new value written -> answer, with the old value
 * 	                          ^               ^
 * 	                          +-- the window -+   IBV_ATOMIC_HCA, engine `sim`, some seeds
 *
 * An HCA that is atomic only against itself reads a word and writes it back over the bus. A change
 * by a processor, a GPU or another HCA in between is lost. The HCA's own operations on the word
 * never fall into the window: the pending write lands first. IBV_ATOMIC_GLOB is one
 * read-modify-write that every observer sees as a whole. The bus has no such operation for GPU
 * memory, nor is there one for another process' memory. For both, the HCA uses read and write, and
 * the sanitizer reports it.
 *
 * A duplicate is answered from the log and not executed again. The log has max_dest_rd_atomic
 * entries, and READs use entries, too. A requester with more operations outstanding than its peer's
 * log may retry in vain until its retries are spent.
 */
#include "backends/fakeverbs/transport/transport.h"

#define HCA_WINDOW_DRAWS 8u
#define HCA_WINDOW_NS    128ull

/* ---- the log -------------------------------------------------------------------------------- */

void hca_answer_note(struct hca_qp *qp, uint32_t psn, bool is_atomic, uint64_t value)
{
	struct hca_responder *r = &qp->resp;

	ASSERT(qp->max_dest_rd_atomic && qp->max_dest_rd_atomic <= HCA_MAX_RD_ATOMIC);
	r->answered[r->answers++ % qp->max_dest_rd_atomic] =
		(struct hca_answered){.psn = psn, .is_atomic = is_atomic, .value = value};
}

void hca_answer_bytes(struct hca_qp *qp, uint32_t bytes)
{
	struct hca_responder *r = &qp->resp;

	ASSERT(qp->max_dest_rd_atomic); /* a READ is refused without */
	/* neither `threads` nor an HCA's loopback models the wire's time */
	if (sim_engine_kind() != SIM_ENGINE_SIM || qp->dest_port == qp->port || !r->answers)
		return;
	r->busy_ns = MAX_OF(r->busy_ns, sim_now_ns()) + hca_wire_ns(qp->port, bytes);
	r->answered[(r->answers - 1) % qp->max_dest_rd_atomic].busy_ns = r->busy_ns;
}

bool hca_answers_spent(const struct hca_qp *qp)
{
	const struct hca_responder *r = &qp->resp;

	return qp->max_dest_rd_atomic && r->answers >= qp->max_dest_rd_atomic &&
	       r->answered[r->answers % qp->max_dest_rd_atomic].busy_ns > sim_now_ns();
}

static const struct hca_answered *hca_answer_find(const struct hca_qp *qp, uint32_t psn)
{
	const struct hca_responder *r = &qp->resp;
	uint32_t n = MIN_OF(r->answers, qp->max_dest_rd_atomic);

	for (uint32_t i = 0; i < n; i++)
		if (r->answered[i].is_atomic && r->answered[i].psn == psn)
			return &r->answered[i];
	return NULL;
}

/* Answers an atomic: empty for a WRITE, else the old value. */
static void hca_atomic_answer(struct hca_qp *qp, uint32_t psn, uint32_t operation, uint64_t value)
{
	uint32_t bytes = operation == IBV_WR_ATOMIC_WRITE ? 0 : sizeof value;
	struct hca_packet *p = hca_packet_new(qp, HCA_RESPONSE, bytes);

	if (bytes)
		memcpy(hca_packet_data(p), &value, sizeof value);
	p->psn = psn;
	p->packets = 1;
	mem_release(p);
	hca_packet_send(qp, p);
}

void hca_responder_atomic_again(struct hca_qp *qp, const struct hca_packet *p)
{
	const struct hca_answered *a = hca_answer_find(qp, p->psn);

	OS_PROBE_IDLE("hca.atomic_again", "an atomic comes that is already done",
		      "the stack has no use for atomics", a != NULL);
	OS_PROBE_IDLE("hca.atomic_forgotten", "an atomic comes again, and is no longer in the log",
		      "the stack has no use for atomics", a == NULL);
	if (a)
		hca_atomic_answer(qp, p->psn, p->operation, a->value);
}

/* ---- writes under way ----------------------------------------------------------------------- */

void hca_atomic_settle(struct hca_qp *qp)
{
	const struct hca_atomic *a = &qp->atomic;

	if (hca_atomic_land(qp))
		hca_atomic_answer(qp, a->psn, a->operation, a->old);
}

static void hca_atomic_due(void *object, uint64_t arg)
{
	struct hca_qp *qp = hca_qp_lock_reference(object, (uint32_t)(arg >> 32));

	if (!qp)
		return;
	mem_as(hca_qp_responder(qp));
	if (qp->atomic.answering && qp->atomic.number == (uint32_t)arg)
		hca_atomic_settle(qp);
	hca_unlock(&qp->item.lock);
}

/* ---- execution ------------------------------------------------------------------------------ */

static uint64_t hca_atomic_result(const struct hca_packet *p, uint64_t old)
{
	uint64_t operand[2];

	ASSERT(p->bytes == sizeof operand);
	memcpy(operand, hca_packet_data(p), sizeof operand);
	if (p->operation == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return old + operand[0];
	return old == operand[0] ? operand[1] : old;
}

/* Reads the word, and writes it immediately or later. *later: the answer is sent with the write. */
static int hca_atomic_over_the_bus(struct hca_qp *qp, struct hca_mr *mr, uint64_t at,
				   const struct hca_packet *p, uint64_t *old, bool *later)
{
	struct hca_port *port = &hca_world()->port[qp->port];
	uint64_t address = mr->address + (at - mr->iova), value;
	uint32_t draw = sim_engine_kind() == SIM_ENGINE_SIM
				? sim_choose("hca.atomic_window", HCA_WINDOW_DRAWS)
				: 0;
	const struct sim_event_attr attr = {
		.name = "atomic.land", .kind = SIM_EVENT_WORK, .delay_ns = HCA_WINDOW_NS << draw};

	ASSERT(!qp->atomic.answering); /* the request settled the last one before */
	hca_lock(&port->atomic_lock);
	hca_atomics_land(port, NULL, mr, address, sizeof value);
	int rc = hca_mr_load(mr, at, old);

	value = hca_atomic_result(p, *old);
	*later = !rc && draw;
	if (*later) {
		qp->atomic = (struct hca_atomic){.answering = 1,
						 .writing = 1,
						 .number = qp->atomic.number + 1,
						 .next = port->atomics,
						 .mr = mr->item.index,
						 .mr_generation = mr->item.generation,
						 .psn = p->psn,
						 .operation = p->operation,
						 .address = address,
						 .iova = at,
						 .value = value,
						 .old = *old};
		port->atomics = qp->item.index + 1;
	} else if (!rc) {
		rc = hca_mr_write(mr, at, &value, sizeof value);
	}
	hca_unlock(&port->atomic_lock);
	if (*later)
		sim_event_post(&attr, hca_atomic_due, qp,
			       (uint64_t)qp->item.generation << 32 | qp->atomic.number, NULL);
	return rc;
}

/* Executes a read-modify-write that every observer sees as a whole. */
static void hca_atomic_whole(struct hca_mr *mr, uint64_t at, const struct hca_packet *p,
			     uint64_t *old)
{
	uint64_t *word = (uint64_t *)(uintptr_t)(mr->address + (at - mr->iova));
	const struct mem_access a = {.addr = word,
				     .bytes = sizeof *word,
				     .op = SHARED_RMW,
				     .order = SHARED_ACQ_REL,
				     .scope = SHARED_SYSTEM};

	mem_access(&a);
	*old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	while (!__atomic_compare_exchange_n(word, old, hca_atomic_result(p, *old), false,
					    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;
	sim_wrote(word, sizeof *word);
}

static int hca_atomic_do(struct hca_qp *qp, struct hca_mr *mr, uint64_t at,
			 const struct hca_packet *p, uint64_t *old, bool *later)
{
	*later = false;
	*old = 0;
	ASSERT(p->operation != IBV_WR_ATOMIC_WRITE || p->bytes == sizeof *old);
	if (p->operation == IBV_WR_ATOMIC_WRITE)
		return hca_mr_write(mr, at, hca_packet_data(p), sizeof *old);
	bool global = hca_world()->port[qp->port].atomic_cap == IBV_ATOMIC_GLOB;
	bool reached = !mr->gpu && hca_is_here(mr->item.proc);

	if (global && reached) {
		hca_atomic_whole(mr, at, p, old);
		return 0;
	}
	if (global)
		hca_check_atomic_global(qp, mr, p);
	return hca_atomic_over_the_bus(qp, mr, at, p, old, later);
}

bool hca_responder_atomic(struct hca_qp *qp, const struct hca_packet *p, enum hca_nak *nak)
{
	uint32_t right = p->operation == IBV_WR_ATOMIC_WRITE ? IBV_ACCESS_REMOTE_WRITE
							     : IBV_ACCESS_REMOTE_ATOMIC;
	uint64_t old;
	bool later;

	*nak = HCA_NAK_INVALID;
	if (!(qp->access & right) || !qp->max_dest_rd_atomic || p->remote_address % sizeof old)
		return false;
	*nak = HCA_NAK_ACCESS;
	uint64_t at = p->remote_address;
	struct hca_mr *mr = hca_remote_hold(qp, p->rkey, &at, sizeof old, right);

	if (!mr)
		return false;
	*nak = HCA_NAK_OPERATION;
	/* an observer of the new value sees everything that was written before */
	mem_release(NULL);
	int rc = hca_atomic_do(qp, mr, at, p, &old, &later);

	hca_mr_release(mr);
	if (rc)
		return false;
	os_trace("atomic", hca_qp_id(qp), p->operation, old);
	hca_answer_note(qp, p->psn, true, old);
	if (!later)
		hca_atomic_answer(qp, p->psn, p->operation, old);
	return true;
}
