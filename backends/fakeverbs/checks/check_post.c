/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules about posted requests. The bytes that a send reads are summed when it is posted, and again
 * when it completes. If the sums differ and no HCA wrote there, the program did not wait for the
 * completion. Long buffers are sampled: both ends, and words between. fakecuda checks GPU memory.
 */
#include <string.h>

#include "backends/fakeverbs/checks/checks.h"

#define CHECK_ENDS_BYTES 128u /* sampled bytes of each end */
#define CHECK_WORDS      32u  /* sampled words between the ends */
#define CHECK_RNR_ROW    32u

/* ---- the bytes that a send reads ------------------------------------------------------------ */

/* Adds bytes to a checksum. The program may write there at the same time, which is the mistake to
 * find. ThreadSanitizer must not report it as a race of this code. */
__attribute__((no_sanitize("thread"))) static uint64_t check_sum_bytes(uint64_t sum,
								       const uint8_t *p, uint64_t n)
{
	for (; n >= 8; p += 8, n -= 8) {
		uint64_t word;

		__builtin_memcpy(&word, p, 8);
		sum = (sum ^ word) * 0x9e3779b97f4a7c15ull;
		sum ^= sum >> 29;
	}
	for (; n; p++, n--)
		sum = (sum ^ *p) * 0x100000001b3ull;
	return sum;
}

static uint64_t check_sum(uint64_t sum, const uint8_t *p, uint64_t n)
{
	if (n <= 2 * CHECK_ENDS_BYTES + 8 * CHECK_WORDS)
		return check_sum_bytes(sum, p, n);
	uint64_t stride = (n - 2 * CHECK_ENDS_BYTES) / CHECK_WORDS;

	ASSERT(stride >= 8); /* the samples end before the last CHECK_ENDS_BYTES */

	sum = check_sum_bytes(sum, p, CHECK_ENDS_BYTES);
	for (uint32_t i = 0; i < CHECK_WORDS; i++)
		sum = check_sum_bytes(sum, p + CHECK_ENDS_BYTES + i * stride, 8);
	return check_sum_bytes(sum, p + n - CHECK_ENDS_BYTES, CHECK_ENDS_BYTES);
}

/* True if HCAs wrote there since the region's count was `since`, or if that is no longer known. */
static bool check_hca_wrote(const struct hca_mr *mr, uint32_t since, uint32_t now, uint64_t lo,
			    uint64_t hi)
{
	bool hit = now - since > ARRAY_LEN(mr->wrote);

	for (; !hit && since != now; since++) {
		const struct hca_written *w = &mr->wrote[since % ARRAY_LEN(mr->wrote)];

		hit = __atomic_load_n(&w->lo, __ATOMIC_RELAXED) < hi &&
		      lo < __atomic_load_n(&w->hi, __ATOMIC_RELAXED);
	}
	return hit;
}

/* Adds an entry's bytes to *sum, and stores its region's count of writes by HCAs in *writes. False:
 * not plain memory of this process. */
static bool check_sum_entry(uint32_t pd, const struct ibv_sge *sge, bool first, uint64_t *sum,
			    uint32_t *writes, bool *hca_wrote)
{
	struct hca_mr *mr = hca_mr_hold(pd, sge->lkey, sge->addr, sge->length, 0);

	if (!mr)
		return false;
	bool plain = mr->kind == HCA_MR_MEMORY && !mr->gpu && hca_is_here(mr->item.proc);
	uint64_t lo = mr->address + (sge->addr - mr->iova);

	if (plain && first)
		__atomic_store_n(&mr->watched, 1, __ATOMIC_SEQ_CST);
	if (plain)
		*sum = check_sum(*sum, (const uint8_t *)(uintptr_t)lo, sge->length);
	uint32_t now = __atomic_load_n(&mr->writes, __ATOMIC_ACQUIRE);

	if (plain && !first)
		*hca_wrote = check_hca_wrote(mr, *writes, now, lo, lo + sge->length);
	*writes = now;
	hca_mr_release(mr);
	return plain;
}

/* Sums the entries of a request. With one entry, *hca_wrote is exact. With several entries, any HCA
 * write into one of their regions sets it. */
static bool check_sum_entries(const struct hca_qp *qp, struct hca_wqe *e, bool first, uint64_t *sum,
			      bool *hca_wrote)
{
	const struct ibv_sge *sge = hca_wqe_sges(e);
	uint32_t total = 0;

	*sum = 1;
	*hca_wrote = false;
	for (uint32_t i = 0; i < e->sge_count; i++) {
		uint32_t writes = e->check_writes;
		bool wrote = false;

		if (!sge[i].length)
			continue;
		if (!check_sum_entry(qp->pd, &sge[i], first, sum, &writes, &wrote))
			return false;
		total += writes;
		*hca_wrote = e->sge_count == 1 && !first && wrote;
	}
	if (first)
		e->check_writes = total;
	else if (e->sge_count > 1)
		*hca_wrote = total != e->check_writes;
	return true;
}

static bool check_reads_memory(const struct hca_wqe *e)
{
	return e->sge_count && e->bytes && !(e->flags & IBV_SEND_INLINE) && !hca_wqe_is_local(e) &&
	       e->opcode != IBV_WR_RDMA_READ && !hca_wqe_is_atomic(e);
}

static void check_note(const struct hca_qp *qp, struct hca_wqe *e)
{
	bool hca_wrote;

	e->check_noted = hca_rule_on(HCA_RULE_BUFFER_IN_USE) && check_reads_memory(e) &&
			 hca_is_here(qp->item.proc) &&
			 check_sum_entries(qp, e, true, &e->check_sum, &hca_wrote);
}

void hca_check_sent(const struct hca_qp *qp, struct hca_wqe *e)
{
	struct hca_site at;
	bool hca_wrote;
	uint64_t sum;

	ASSERT(e->check_noted); /* check_sum is of its post */
	if (!hca_is_here(qp->item.proc) || !check_sum_entries(qp, e, false, &sum, &hca_wrote) ||
	    hca_wrote || sum == e->check_sum)
		return;
	const struct ibv_sge *sge = hca_wqe_sges(e);

	hca_check(HCA_RULE_BUFFER_IN_USE, e->caller,
		  "qp 0x%x: %llu bytes at 0x%llx were changed before the send that reads them was "
		  "complete (wr_id 0x%llx, posted at %s)",
		  qp->number, (unsigned long long)e->bytes, (unsigned long long)sge[0].addr,
		  (unsigned long long)e->wr_id, hca_site(qp->item.proc, e->caller, &at));
}

/* ---- a READ, then a send of its data -------------------------------------------------------- */

static bool check_overlaps(const struct ibv_sge *a, uint32_t n, const struct ibv_sge *b, uint32_t m)
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < m; j++)
			if (a[i].addr < b[j].addr + b[j].length &&
			    b[j].addr < a[i].addr + a[i].length)
				return true;
	return false;
}

/* Reports request `at` if it reads bytes that an unfinished READ or atomic writes. */
static void check_fence(const struct hca_qp *qp, struct hca_wqe *e, uint32_t at)
{
	struct hca_site here, there;

	if ((int32_t)(qp->check_read - qp->sq.done) <= 0 || !check_reads_memory(e) ||
	    (e->flags & IBV_SEND_FENCE) || !hca_rule_on(HCA_RULE_MISSING_FENCE))
		return;
	while (at-- != qp->sq.done) {
		struct hca_wqe *r = hca_wqe_at(&qp->sq, at);

		if ((r->opcode == IBV_WR_RDMA_READ || hca_wqe_is_atomic(r)) &&
		    check_overlaps(hca_wqe_sges(e), e->sge_count, hca_wqe_sges(r), r->sge_count))
			hca_check(HCA_RULE_MISSING_FENCE, e->caller,
				  "qp 0x%x: wr_id 0x%llx, posted at %s, sends bytes that an "
				  "unfinished READ or atomic (wr_id 0x%llx, posted at %s) writes: "
				  "IBV_SEND_FENCE is missing",
				  qp->number, (unsigned long long)e->wr_id,
				  hca_site(qp->item.proc, e->caller, &here),
				  (unsigned long long)r->wr_id,
				  hca_site(qp->item.proc, r->caller, &there));
		if (r->flags & IBV_SEND_FENCE)
			return; /* later requests wait for all requests before the fence */
	}
}

/* ---- posting -------------------------------------------------------------------------------- */

static void check_shape(const struct hca_qp *qp, const struct hca_wqe *e)
{
	struct hca_site at;

	if (hca_wqe_is_atomic(e) && e->remote_address % 8)
		hca_check(HCA_RULE_ATOMIC_ALIGN, e->caller,
			  "qp 0x%x: an atomic on address 0x%llx, which is not a multiple of 8, "
			  "posted "
			  "at %s: the responder refuses it",
			  qp->number, (unsigned long long)e->remote_address,
			  hca_site(qp->item.proc, e->caller, &at));
	if (hca_wqe_is_atomic(e) && e->bytes != 8)
		hca_check(
			HCA_RULE_ATOMIC_ALIGN, e->caller,
			"qp 0x%x: an atomic with a result of %llu bytes, posted at %s: expected 8",
			qp->number, (unsigned long long)e->bytes,
			hca_site(qp->item.proc, e->caller, &at));
	if (qp->type == IBV_QPT_UD && e->bytes > qp->mtu_bytes)
		hca_check(HCA_RULE_UD_MTU, e->caller,
			  "qp 0x%x: a datagram of %llu bytes, posted at %s: expected at most the "
			  "path MTU, %u",
			  qp->number, (unsigned long long)e->bytes,
			  hca_site(qp->item.proc, e->caller, &at), qp->mtu_bytes);
}

void hca_check_posted(struct hca_qp *qp, uint32_t n)
{
	uint32_t from = qp->sq.head - n;

	if (n)
		qp->refused = 0;
	if ((int32_t)(qp->sq.done - from) > 0)
		from = qp->sq.done;
	for (; from != qp->sq.head; from++) {
		struct hca_wqe *e = hca_wqe_at(&qp->sq, from);

		e->caller = qp->caller;
		check_shape(qp, e);
		check_fence(qp, e, from);
		check_note(qp, e);
		if (e->opcode == IBV_WR_RDMA_READ || hca_wqe_is_atomic(e))
			qp->check_read = from + 1;
	}
}

void hca_check_recv_posted(const struct hca_qp *qp, const struct hca_wqe *e)
{
	struct hca_site at;

	if (qp->type == IBV_QPT_UD && e->bytes < HCA_GRH_BYTES)
		hca_check(HCA_RULE_UD_GRH, e->caller,
			  "qp 0x%x: a receive of %llu bytes, posted at %s: too small for a "
			  "datagram's GRH of %u bytes",
			  qp->number, (unsigned long long)e->bytes,
			  hca_site(qp->item.proc, e->caller, &at), HCA_GRH_BYTES);
}

void hca_check_send_full(const struct hca_qp *qp)
{
	const struct hca_queue *q = &qp->sq;
	uint32_t polled = __atomic_load_n(&q->polled, __ATOMIC_ACQUIRE);
	struct hca_site at, first;

	ASSERT(q->head - polled <= q->size);
	if (qp->signal_all || qp->state != IBV_QPS_RTS || !hca_rule_on(HCA_RULE_SQ_UNSIGNALED))
		return;
	for (uint32_t i = polled; i != q->head; i++)
		if (hca_wqe_at(q, i)->flags & IBV_SEND_SIGNALED)
			return;
	hca_check(HCA_RULE_SQ_UNSIGNALED, qp->caller,
		  "qp 0x%x: the send queue of %u is full and cannot drain: none of these sends is "
		  "signaled, and only a polled completion frees slots (posting at %s; the first at "
		  "%s)",
		  qp->number, q->size, hca_site(qp->item.proc, qp->caller, &at),
		  hca_site(qp->item.proc, hca_wqe_at(q, polled)->caller, &first));
}

void hca_check_refused(struct hca_qp *qp, uint64_t wr_id, int rc)
{
	qp->refused = (uint32_t)rc;
	qp->refused_wr_id = wr_id;
	qp->refused_caller = qp->caller;
}

void hca_check_not_ready(struct hca_qp *qp, const struct hca_wqe *e)
{
	bool imm = e->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct hca_site at;

	if (qp->rnr_retry != 7 && qp->req.rnr_retries == 0 && imm)
		hca_check(HCA_RULE_IMM_NO_RECV, e->caller,
			  "qp 0x%x: wr_id 0x%llx, posted at %s, fails: a WRITE with immediate data "
			  "needs a receive, and the peer has posted none",
			  qp->number, (unsigned long long)e->wr_id,
			  hca_site(qp->item.proc, e->caller, &at));
	if (++qp->req.rnr_row != CHECK_RNR_ROW || qp->rnr_retry != 7 || sim_expects_errors())
		return;
	hca_check(HCA_RULE_RNR_STORM, e->caller,
		  "qp 0x%x: %u times in a row the peer had no receive for wr_id 0x%llx (posted at "
		  "%s); rnr_retry 7 retries without end, and no completion reports it",
		  qp->number, CHECK_RNR_ROW, (unsigned long long)e->wr_id,
		  hca_site(qp->item.proc, e->caller, &at));
}

/* ---- completion queues ---------------------------------------------------------------------- */

/* Counts all receives, and the sends of a queue pair that signals every send. The program decides
 * how many other sends are signaled. */
void hca_check_cq_size(struct ibv_qp *qp, const struct ibv_qp_cap *cap, uint64_t caller)
{
	struct hca_qp_handle *h = hca_qp_of(qp);
	struct hca_site at;

	for (int side = 0; side < 2; side++) {
		struct ibv_cq *cq = side ? qp->recv_cq : qp->send_cq;
		uint32_t more = side ? (qp->srq ? 0 : cap->max_recv_wr)
				     : (h->hca->signal_all ? cap->max_send_wr : 0);

		if (!cq || !more)
			continue;
		h->cq_depth[side] = more;
		uint64_t depth = __atomic_add_fetch(&hca_cq_of(cq)->depth, more, __ATOMIC_ACQ_REL);
		/* other threads may resize the queue */
		int entries = __atomic_load_n(&cq->cqe, __ATOMIC_RELAXED);

		if (depth > (uint32_t)entries && !hca_cq_of(cq)->hca->ignore_overrun)
			hca_check(
				HCA_RULE_CQ_SMALL, caller,
				"completion queue %u has %d entries, and its queue pairs, the last "
				"one made at %s, can have %llu completions there",
				hca_cq_of(cq)->hca->item.index, entries,
				hca_site(h->hca->item.proc, caller, &at),
				(unsigned long long)depth);
	}
}

void hca_check_cq_leave(struct ibv_qp *qp)
{
	struct hca_qp_handle *h = hca_qp_of(qp);

	for (int side = 0; side < 2; side++) {
		if (!h->cq_depth[side])
			continue;
		uint64_t before =
			__atomic_fetch_sub(&hca_cq_of(side ? qp->recv_cq : qp->send_cq)->depth,
					   h->cq_depth[side], __ATOMIC_ACQ_REL);

		ASSERT(before >= h->cq_depth[side]);
	}
}
