/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recovery: a rail that failed is used again (NCCL_IB_RESILIENCY_PORT_RECOVERY). The sending end
 * drives it, over the TCP connection of the set-up:
 *
 *	sending end                                   receiving end
 *	its port is active; queue pairs to INIT
 *	START, with its address now         ------->  its port is active; queue pairs to RTS,
 * stocked
 *	queue pairs to RTS                  <-------  STARTED, with its address now, or refused
 *	empty writes, acknowledged by the HCA
 *	USED                                ------->  uses it, too
 *
 * A port may have another GID or LID after a failure, so addresses are chosen again. Each start has
 * another first packet number: a packet of the time before cannot fit.
 *
 * Attempts follow each other by ..._ALIVE_MSG_BATCH_INTERVAL. They end after as long as NCCL's
 * last, ..._ATTEMPTS_MAX times ..._ACK_TIMEOUT.
 */
#include <string.h>

#include "core/transport/net_verbs/net_verbs_rails.h"

#define NET_VERBS_MS_NS 1000000ull

static uint64_t net_verbs_ms(enum param p)
{
	return (uint64_t)param_i64(p) * NET_VERBS_MS_NS;
}

/* The first packet number of a rail's queue pairs, in both directions. */
static uint32_t net_verbs_rail_psn(const struct net_verbs_conn *c, uint32_t rail)
{
	return c->rails->rail[rail].epoch << 20 & 0xffffff;
}

void net_verbs_rail_down(struct net_verbs_conn *c, uint32_t rail)
{
	struct net_verbs_rail *r = &c->rails->rail[rail];

	r->due_ns = 0;
	r->until_ns = 0;
	if (c->is_send && !r->lost && param_bool(PARAM_IB_RECOVERY))
		r->due_ns = os_now_ns() + net_verbs_ms(PARAM_IB_RECOVERY_DELAY);
}

/* The sending end tries again later; the receiving end waits for START. */
static void net_verbs_rail_lower(struct net_verbs_conn *c, uint32_t rail)
{
	struct net_verbs_rail *r = &c->rails->rail[rail];

	net_verbs_rail_reset(c, rail);
	r->state = NET_VERBS_RAIL_DOWN;
	r->due_ns = c->is_send ? os_now_ns() + net_verbs_ms(PARAM_IB_RECOVERY_INTERVAL) : 0;
}

void net_verbs_rail_start_failed(struct net_verbs_conn *c, uint32_t rail, const char *reason)
{
	const struct net_verbs_rail_message m = {.what = NET_VERBS_LOWERED};
	char name[96];

	net_verbs_rail_name(c, rail, name, sizeof name);
	INFO(LOG_NET, "NET/IB: rank %d %s rank %d channel %d: %s is not used yet: %s", c->who.rank,
	     c->is_send ? "->" : "<-", c->who.peer, c->who.channel, name, reason);
	net_verbs_rail_lower(c, rail);
	net_verbs_rails_tell(c, rail, &m);
}

/* ---- both ends ------------------------------------------------------------------------------- */

static int net_verbs_rail_renew(struct net_verbs_conn *c, uint32_t rail)
{
	int rc = 0;

	net_verbs_rail_reset(c, rail);
	for (uint32_t i = rail; i < c->nqps && !rc; i += c->width)
		rc = net_verbs_qp_renew(c, i);
	return rc ? rc : net_verbs_rails_stock(c, rail);
}

static int net_verbs_rail_connect(struct net_verbs_conn *c, uint32_t rail)
{
	int rc = 0;

	for (uint32_t i = rail; i < c->nqps && !rc; i += c->width)
		rc = net_verbs_qp_connect(c, i, net_verbs_rail_psn(c, rail));
	return rc;
}

static void net_verbs_rail_address(struct net_verbs_conn *c, uint32_t rail,
				   struct net_verbs_rail_message *m)
{
	const struct net_verbs_meta_dev *d = &c->mine.dev[net_verbs_leg_of(c, rail)];

	memcpy(m->to.gid, d->gid, sizeof m->to.gid);
	m->to.lid = d->lid;
}

static void net_verbs_rail_to(struct net_verbs_conn *c, const struct net_verbs_rail_message *m)
{
	struct net_verbs_meta_dev *d = &c->theirs.dev[net_verbs_their_dev(c, m->rail)];

	memcpy(d->gid, m->to.gid, sizeof d->gid);
	d->lid = m->to.lid;
}

static void net_verbs_rail_used(struct net_verbs_conn *c, uint32_t rail)
{
	struct net_verbs_rail *r = &c->rails->rail[rail];
	char name[96];

	r->state = NET_VERBS_RAIL_IN_USE;
	r->due_ns = 0;
	c->rails->any_rail_before = c->recvs;
	net_verbs_rail_name(c, rail, name, sizeof name);
	INFO(LOG_NET, "NET/IB: rank %d %s rank %d channel %d: %s is used again", c->who.rank,
	     c->is_send ? "->" : "<-", c->who.peer, c->who.channel, name);
}

/* ---- sending end ----------------------------------------------------------------------------- */

static void net_verbs_rail_start(struct net_verbs_conn *c, uint32_t rail)
{
	struct net_verbs_rail *r = &c->rails->rail[rail];
	struct net_verbs_rail_message m = {.what = NET_VERBS_START};
	const uint64_t now = os_now_ns();
	char name[96];

	if (!r->until_ns)
		r->until_ns = now + (uint64_t)param_i64(PARAM_IB_RECOVERY_ATTEMPTS) *
					    net_verbs_ms(PARAM_IB_RECOVERY_ACK_TIMEOUT);
	if (now >= r->until_ns) {
		net_verbs_rail_name(c, rail, name, sizeof name);
		WARN("NET/IB: rank %d -> rank %d channel %d: %s stays unused: no attempt "
		     "succeeded (NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX=%lld)",
		     c->who.rank, c->who.peer, c->who.channel, name,
		     (long long)param_i64(PARAM_IB_RECOVERY_ATTEMPTS));
		r->lost = true;
		r->due_ns = 0;
		return;
	}
	r->due_ns = now + net_verbs_ms(PARAM_IB_RECOVERY_INTERVAL);
	if (!net_verbs_gid_renew(c, net_verbs_leg_of(c, rail)))
		return;
	r->epoch++;
	if (net_verbs_rail_renew(c, rail))
		return;
	r->state = NET_VERBS_RAIL_STARTING;
	r->due_ns = now + net_verbs_ms(PARAM_IB_RECOVERY_ACK_TIMEOUT);
	r->acknowledged = 0;
	net_verbs_rail_address(c, rail, &m);
	net_verbs_rails_tell(c, rail, &m);
}

static uint32_t net_verbs_rail_qps(const struct net_verbs_conn *c)
{
	return c->nqps / c->width;
}

static int net_verbs_test_post(const struct net_verbs_conn *c, uint32_t i)
{
	struct ibv_send_wr *bad,
		wr = {.wr_id = net_verbs_rail_wr_id(c, NET_VERBS_TEST, i, 0, 0),
		      .opcode = IBV_WR_RDMA_WRITE,
		      .send_flags = IBV_SEND_SIGNALED,
		      .wr.rdma = {.remote_addr = c->theirs.ring_addr,
				  .rkey = c->theirs.dev[net_verbs_their_dev(c, i)].ring_rkey}};

	return ibv_post_send(c->qp[i], &wr, &bad);
}

/* Posts a batch of empty writes on each queue pair of the rail. */
static ncclResult_t net_verbs_rail_test(struct net_verbs_conn *c, uint32_t rail)
{
	struct net_verbs_rail *r = &c->rails->rail[rail];
	const uint32_t batch = (uint32_t)param_i64(PARAM_IB_RECOVERY_BATCH);
	int rc = 0;

	r->state = NET_VERBS_RAIL_TESTED;
	r->due_ns = os_now_ns() + net_verbs_ms(PARAM_IB_RECOVERY_TIMEOUT);
	for (uint32_t i = rail; i < c->nqps; i += c->width) {
		for (uint32_t k = 0; k < batch && !rc; k++) {
			rc = net_verbs_test_post(c, i);
			r->in_flight += !rc;
		}
	}
	if (rc)
		net_verbs_rail_start_failed(c, rail, "posting a test message failed");
	return ncclSuccess;
}

void net_verbs_rail_acknowledged(struct net_verbs_conn *c, uint32_t rail)
{
	struct net_verbs_rail *r = &c->rails->rail[rail];
	const struct net_verbs_rail_message m = {.what = NET_VERBS_USED};

	if (r->state != NET_VERBS_RAIL_TESTED || !r->in_flight)
		return;
	r->acknowledged++;
	if (--r->in_flight)
		return;
	r->due_ns = os_now_ns() + net_verbs_ms(PARAM_IB_RECOVERY_INTERVAL); /* the next batch */
	if (r->acknowledged <
	    net_verbs_rail_qps(c) * (uint32_t)param_i64(PARAM_IB_RECOVERY_SEQUENCE))
		return;
	net_verbs_rail_used(c, rail);
	net_verbs_rails_tell(c, rail, &m);
}

ncclResult_t net_verbs_rail_step(struct net_verbs_conn *c, uint32_t rail)
{
	struct net_verbs_rail *r = &c->rails->rail[rail];

	if (r->state == NET_VERBS_RAIL_DOWN)
		net_verbs_rail_start(c, rail);
	else if (r->state == NET_VERBS_RAIL_STARTING)
		net_verbs_rail_start_failed(c, rail, "the peer does not answer");
	else if (r->state == NET_VERBS_RAIL_TESTED && r->in_flight)
		net_verbs_rail_start_failed(c, rail, "test messages are not acknowledged");
	else if (r->state == NET_VERBS_RAIL_TESTED)
		return net_verbs_rail_test(c, rail);
	return ncclSuccess;
}

static ncclResult_t net_verbs_take_started(struct net_verbs_conn *c,
					   const struct net_verbs_rail_message *m)
{
	struct net_verbs_rail *r = &c->rails->rail[m->rail];

	if (r->state != NET_VERBS_RAIL_STARTING || m->epoch != r->epoch)
		return ncclSuccess; /* the attempt has ended */
	if (m->to.refused) {
		net_verbs_rail_start_failed(c, m->rail, "the peer's port is not ready");
		return ncclSuccess;
	}
	net_verbs_rail_to(c, m);
	if (!net_verbs_rail_connect(c, m->rail))
		return net_verbs_rail_test(c, m->rail);
	net_verbs_rail_start_failed(c, m->rail, "its queue pairs cannot be connected");
	return ncclSuccess;
}

/* ---- receiving end --------------------------------------------------------------------------- */

static bool net_verbs_flushes_on(const struct net_verbs_conn *c, uint32_t leg)
{
	for (int i = 0; i < NET_MAX_REQUESTS; i++)
		if (c->req[i].used && c->req[i].kind == NET_VERBS_FLUSH && c->req[i].left_on[leg])
			return true;
	return false;
}

/* A failed queue pair for flushes would not flush what comes over the rail. */
static bool net_verbs_rail_is_ready(struct net_verbs_conn *c, uint32_t rail)
{
	const uint32_t leg = net_verbs_leg_of(c, rail);

	if (c->rails->rail[rail].lost || net_verbs_flushes_on(c, leg) ||
	    !net_verbs_gid_renew(c, leg))
		return false;
	if (net_verbs_rail_renew(c, rail) || net_verbs_rail_connect(c, rail))
		return false;
	return !c->leg[leg].flush_qp || !net_verbs_flush_renew(c, leg);
}

static ncclResult_t net_verbs_take_start(struct net_verbs_conn *c,
					 const struct net_verbs_rail_message *m)
{
	struct net_verbs_rail *r = &c->rails->rail[m->rail];
	struct net_verbs_rail_message answer = {.what = NET_VERBS_STARTED};

	answer.to.refused = 1;
	if (r->state == NET_VERBS_RAIL_DOWN) {
		r->epoch = m->epoch;
		net_verbs_rail_to(c, m);
		answer.to.refused = !net_verbs_rail_is_ready(c, m->rail);
	}
	net_verbs_rail_address(c, m->rail, &answer);
	if (answer.to.refused)
		net_verbs_rail_reset(c, m->rail);
	else
		r->state = NET_VERBS_RAIL_STARTING;
	net_verbs_rails_tell(c, m->rail, &answer);
	return ncclSuccess;
}

ncclResult_t net_verbs_rail_start_take(struct net_verbs_conn *c,
				       const struct net_verbs_rail_message *m)
{
	struct net_verbs_rail *r = &c->rails->rail[m->rail];
	const bool now = r->state == NET_VERBS_RAIL_STARTING && m->epoch == r->epoch;

	if (m->what == NET_VERBS_START && !c->is_send)
		return net_verbs_take_start(c, m);
	if (m->what == NET_VERBS_STARTED && c->is_send)
		return net_verbs_take_started(c, m);
	if (m->what == NET_VERBS_USED && !c->is_send && now)
		net_verbs_rail_used(c, m->rail);
	else if (m->what == NET_VERBS_LOWERED && !c->is_send && now)
		net_verbs_rail_lower(c, m->rail);
	return ncclSuccess;
}
