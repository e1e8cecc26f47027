/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adaptive routing (DOPPEL_HCA_ROUTING): packets of one connected queue pair take different routes
 * through the fabric, and overtake each other.
 *
 * 	sender      each message is one packet of the path MTU; one in four arrives later than its
 * 	            successors
 * 	receiver    accepts requests that are ahead. The bytes of a write land when they arrive.
 * 	            Everything else waits for the expected PSN, so that checks, completions and
 * 	            acknowledges keep the order of the packets. The sender's timer notices a lost
 * 	            packet; a NAK does so only if more are ahead than an HCA keeps.
 *
 * mlx5's HCAs behave like this: only the order in which data lands is given up. A program that
 * waits for a completion sees no difference. A program that polls memory does, if it takes the end
 * of a message for the whole message.
 */
#include "backends/fakeverbs/transport/transport.h"

#define HCA_OVERTAKE_MOST   32u /* maximum number of requests that a queue pair keeps */
#define HCA_OVERTAKE_DRAWS  4u
#define HCA_OVERTAKE_DELAYS 8u
#define HCA_OVERTAKE_NS     128ull

static bool hca_overtake_on(const struct hca_qp *qp)
{
	return hca_world()->adaptive && qp->type == IBV_QPT_RC;
}

uint32_t hca_burst_most(const struct hca_qp *qp)
{
	return hca_overtake_on(qp) ? qp->mtu_bytes : HCA_BURST_BYTES;
}

uint64_t hca_overtake_later_ns(const struct hca_qp *qp, const struct hca_packet *p)
{
	bool request = p->kind == HCA_WRITE || p->kind == HCA_SEND;

	if (!request || !hca_overtake_on(qp) || sim_choose("hca.route", HCA_OVERTAKE_DRAWS) != 1)
		return 0;
	return HCA_OVERTAKE_NS << sim_choose("hca.route_later", HCA_OVERTAKE_DELAYS);
}

/* ---- requests that are ahead ---------------------------------------------------------------- */

static struct hca_packet *hca_overtake_at(uint32_t number)
{
	return hca_slab_at(&hca_world()->packet, number - 1);
}

static const struct hca_packet *hca_overtake_of(const struct hca_qp *qp, uint32_t psn)
{
	uint32_t at = qp->overtaking;

	while (at && hca_overtake_at(at)->psn != psn)
		at = hca_overtake_at(at)->next;
	return at ? hca_overtake_at(at) : NULL;
}

bool hca_overtake_landed(const struct hca_qp *qp, const struct hca_packet *p)
{
	const struct hca_packet *kept = p->landed ? p : hca_overtake_of(qp, p->psn);

	return kept && kept->landed;
}

void hca_overtake_keep(struct hca_qp *qp, struct hca_packet *p)
{
	ASSERT(qp->overtaking_n < HCA_OVERTAKE_MOST);
	ASSERT(!hca_packet_is_outside(p)); /* its index names it */
	p->next = qp->overtaking;
	qp->overtaking = p->item.index + 1;
	qp->overtaking_n++;
}

/* Writes the bytes of a request that is ahead. An error shows later, when its PSN is the expected
 * one. */
static void hca_overtake_land(struct hca_qp *qp, struct hca_packet *p)
{
	uint64_t at = p->remote_address;
	struct hca_mr *mr = NULL;

	if (p->kind == HCA_WRITE && p->total && (qp->access & IBV_ACCESS_REMOTE_WRITE))
		mr = hca_remote_hold(qp, p->rkey, &at, p->total, IBV_ACCESS_REMOTE_WRITE);
	if (!mr)
		return;
	p->landed = hca_mr_write(mr, at + p->offset, hca_packet_data(p), p->bytes) == 0;
	hca_mr_release(mr);
	os_trace("hca.overtakes", hca_qp_id(qp), p->psn, p->bytes);
}

bool hca_overtake_take(struct hca_qp *qp, const struct hca_packet *p)
{
	struct hca_packet *kept;

	ASSERT(hca_psn_diff(p->psn, qp->resp.psn) > 0);
	if (!hca_overtake_on(qp) || p->kind == HCA_READ || p->kind == HCA_ATOMIC)
		return false;
	if (hca_overtake_of(qp, p->psn))
		return true;
	kept = qp->overtaking_n < HCA_OVERTAKE_MOST ? hca_packet_copy((void *)p) : NULL;
	if (!kept)
		return false;
	OS_PROBE("hca.overtaken", "a write or send comes before one that it has overtaken", true);
	kept->landed = 0;
	hca_overtake_land(qp, kept);
	hca_overtake_keep(qp, kept);
	return true;
}

struct hca_packet *hca_overtake_next(struct hca_qp *qp)
{
	uint32_t *at = &qp->overtaking;

	while (*at) {
		struct hca_packet *p = hca_overtake_at(*at);
		int32_t ahead = hca_psn_diff(p->psn, qp->resp.psn);

		if (ahead > 0) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		qp->overtaking_n--;
		if (ahead == 0)
			return p;
		hca_packet_free(p); /* a resent copy was executed meanwhile */
	}
	return NULL;
}
