/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failures of queue pairs. The first failed completion or call is logged as one WARN line that
 * names queue pair, peer and status. Flushed completions after it are its consequence and not
 * logged. The other end receives a notice over TCP and logs the same line about its own queue pair.
 */
#include <arpa/inet.h>
#include <string.h>

#include "core/transport/net_verbs/net_verbs_rails.h"

#define NET_VERBS_CHECK_NS      1000000ull
#define NET_VERBS_CHECK_IDLE_NS 100000000ull

static const char *net_verbs_status_name(uint32_t status)
{
	static const char *const names[] = {
		"SUCCESS",
		"LOC_LEN_ERR",
		"LOC_QP_OP_ERR",
		"LOC_EEC_OP_ERR",
		"LOC_PROT_ERR",
		"WR_FLUSH_ERR",
		"MW_BIND_ERR",
		"BAD_RESP_ERR",
		"LOC_ACCESS_ERR",
		"REM_INV_REQ_ERR",
		"REM_ACCESS_ERR",
		"REM_OP_ERR",
		"RETRY_EXC_ERR",
		"RNR_RETRY_EXC_ERR",
		"LOC_RDD_VIOL_ERR",
		"REM_INV_RD_REQ_ERR",
		"REM_ABORT_ERR",
		"INV_EECN_ERR",
		"INV_EEC_STATE_ERR",
		"FATAL_ERR",
		"RESP_TIMEOUT_ERR",
		"GENERAL_ERR",
		"TM_ERR",
		"TM_RNDV_INCOMPLETE",
	};

	return status < ARRAY_LEN(names) ? names[status] : "unknown";
}

static const char *net_verbs_kind_name(uint32_t kind)
{
	switch (kind) {
	case NET_VERBS_SEND:
		return "RDMA_WRITE";
	case NET_VERBS_RECV:
		return "RECV";
	case NET_VERBS_FLUSH:
		return "RDMA_READ (flush)";
	case NET_VERBS_CTS:
		return "RDMA_WRITE (clear to send)";
	case NET_VERBS_EVENT:
		return "asynchronous event";
	case NET_VERBS_TEST:
		return "RDMA_WRITE (test of a rail)";
	default:
		return "request";
	}
}

void net_verbs_cause_text(uint32_t what, uint32_t status, char *out, size_t bytes)
{
	if (what == NET_VERBS_GONE)
		snprintf(out, bytes, "that end closed the connection before the transfer ended");
	else if (what == NET_VERBS_EVENT)
		snprintf(out, bytes, "ended by an asynchronous event: %s",
			 ibv_event_type_str((enum ibv_event_type)(status - 1)));
	else if (what == NET_VERBS_RAILS)
		snprintf(out, bytes, "no rail is left");
	else if (what == NET_VERBS_CALL)
		snprintf(out, bytes, "a verbs call failed%s%s", status ? ": " : "",
			 status ? strerror((int)status) : "");
	else
		snprintf(out, bytes, "%s completed with IBV_WC_%s (%u)", net_verbs_kind_name(what),
			 net_verbs_status_name(status), status);
}

/* Writes " of relay 3" if a relay's proxy has the end (PXN). */
static void net_verbs_by(char *out, size_t bytes, int32_t rank, int32_t by_rank)
{
	out[0] = '\0';
	if (by_rank != rank)
		snprintf(out, bytes, " of relay %d", by_rank);
}

/* Describes the other end of queue pair `i`. */
static void net_verbs_peer_name(const struct net_verbs_conn *c, uint32_t i, char *out, size_t bytes)
{
	const struct net_verbs_meta *m = &c->theirs;
	const struct net_verbs_meta_dev *d = &m->dev[net_verbs_their_dev(c, i)];
	char gid[INET6_ADDRSTRLEN] = "?", by[32];

	net_verbs_by(by, sizeof by, m->rank, m->by_rank);
	if (d->link_layer != IBV_LINK_LAYER_ETHERNET) {
		snprintf(out, bytes, "lid %u %.31s qp 0x%x%s", d->lid, d->nic, m->qpn[i], by);
		return;
	}
	if (!d->gid[0] && d->gid[10] == 0xff && d->gid[11] == 0xff)
		inet_ntop(AF_INET, d->gid + 12, gid, sizeof gid);
	else
		inet_ntop(AF_INET6, d->gid, gid, sizeof gid);
	snprintf(out, bytes, "%s %.31s qp 0x%x%s", gid, d->nic, m->qpn[i], by);
}

static const char *net_verbs_device_of(const struct net_verbs_conn *c, uint32_t i)
{
	return c->leg[net_verbs_leg_of(c, i)].dev->name;
}

/* Logs a line about queue pair `i`, or about the flush queue pair beside it; qpn: its number. */
static void net_verbs_log(const struct net_verbs_conn *c, uint32_t i, uint32_t qpn,
			  const char *text)
{
	char peer[128], by[32];

	net_verbs_peer_name(c, i, peer, sizeof peer);
	net_verbs_by(by, sizeof by, c->who.rank, c->comm->rank);
	WARN("NET/IB: rank %d %s rank %d channel %d qp 0x%x on %s%s (peer %s): %s", c->who.rank,
	     c->is_send ? "->" : "<-", c->who.peer, c->who.channel, qpn, net_verbs_device_of(c, i),
	     by, peer, text);
}

/* Returns the index of the queue pair with that number on a leg. A flush queue pair counts as the
 * leg's first. */
static uint32_t net_verbs_qp_index(const struct net_verbs_conn *c, uint32_t leg, uint32_t qpn)
{
	for (uint32_t i = 0; i < c->nqps; i++)
		if (c->qp[i]->qp_num == qpn && net_verbs_leg_of(c, i) == leg)
			return i;
	return leg;
}

/* ---- notices to the other end ---------------------------------------------------------------- */

/* Ignores errors: a message of this size fits into the socket, or the connection is gone, which the
 * other end notices. */
static void net_verbs_send_notice(struct net_verbs_conn *c, const struct net_verbs_notice *n)
{
	size_t done = 0;

	if (c->rails && net_verbs_rails_midway(c))
		return; /* the peer gets no more than the close */
	for (size_t sent = 0; sent < sizeof *n; sent += done)
		if (os_send(c->fd, (const char *)n + sent, sizeof *n - sent, &done) || !done)
			return;
}

/* Records the communicator's first failure, which other connections report. */
static void net_verbs_failed_by(const struct net_verbs_conn *c, const struct net_verbs_notice *n)
{
	struct net_state *st = net_verbs_state(c->comm);

	os_mutex_lock(&st->lock);
	if (!st->failure.magic)
		st->failure = *n;
	os_mutex_unlock(&st->lock);
}

static struct net_verbs_notice net_verbs_notice_of(const struct net_verbs_conn *c, uint32_t i,
						   uint32_t status, uint32_t what)
{
	struct net_verbs_notice n = {
		.magic = NET_VERBS_NOTICE_MAGIC,
		.status = status,
		.what = what,
		.qpn = c->qp[i]->qp_num,
		.rank = c->who.rank,
		.peer = c->who.peer,
	};

	snprintf(n.nic, sizeof n.nic, "%s", net_verbs_device_of(c, i));
	return n;
}

static void net_verbs_report(struct net_verbs_conn *c, uint32_t i, uint32_t status, uint32_t what)
{
	struct net_verbs_notice n = net_verbs_notice_of(c, i, status, what);

	net_verbs_failed_by(c, &n);
	net_verbs_send_notice(c, &n);
}

void net_verbs_failure(struct ncclComm *comm, struct net_failure *f)
{
	struct net_state *st = net_verbs_state(comm);
	struct net_verbs_notice n;

	DOPPEL_STATIC_CHECK(sizeof n <= sizeof *f, "room for a notice");
	memcpy(&n, f, sizeof n);
	os_mutex_lock(&st->lock);
	if (!st->failure.magic)
		st->failure = n;
	n = st->failure;
	os_mutex_unlock(&st->lock);
	memcpy(f, &n, sizeof n);
}

void net_verbs_close_notice(struct net_verbs_conn *c)
{
	struct net_failure f = {{0}};
	struct net_verbs_notice n;

	net_verbs_failure(c->comm, &f);
	memcpy(&n, &f, sizeof n);
	if (!n.magic && !rank_is_aborted(c->comm))
		n = (struct net_verbs_notice){
			.magic = NET_VERBS_NOTICE_MAGIC,
			.what = NET_VERBS_ENDS,
			.status = (uint32_t)c->sends,
			.rank = c->who.rank,
			.peer = c->who.peer,
		};
	if (n.magic && !c->failed && !c->peer_gone && !(c->ends && n.what == NET_VERBS_ENDS))
		net_verbs_send_notice(c, &n);
	c->ends = n.what == NET_VERBS_ENDS;
}

void net_verbs_finish(void *recv_comm)
{
	struct net_verbs_conn *c = recv_comm;

	if (c->rails && !net_verbs_outstanding(c))
		net_verbs_close_notice(c);
}

ncclResult_t net_verbs_call_failed(struct net_verbs_conn *c, uint32_t i, const char *what,
				   int error)
{
	WARN("NET/IB: rank %d and rank %d, channel %d: %s on qp 0x%x of device %s failed%s%s",
	     c->comm->rank, c->who.peer, c->who.channel, what, c->qp[i]->qp_num,
	     net_verbs_device_of(c, i), error ? ": " : "", error ? strerror(error) : "");
	c->failed = true;
	net_verbs_report(c, i, (uint32_t)error, NET_VERBS_CALL);
	return ncclSystemError;
}

ncclResult_t net_verbs_rails_broken(struct net_verbs_conn *c, uint32_t i, const char *text)
{
	c->failed = true;
	net_verbs_log(c, i, c->qp[i]->qp_num, text);
	net_verbs_report(c, i, 0, NET_VERBS_CALL);
	return ncclRemoteError;
}

ncclResult_t net_verbs_no_rail(struct net_verbs_conn *c, const char *rails)
{
	c->failed = true;
	WARN("NET/IB: rank %d %s rank %d channel %d: no rail is left: %s", c->who.rank,
	     c->is_send ? "->" : "<-", c->who.peer, c->who.channel, rails);
	net_verbs_report(c, 0, 0, NET_VERBS_RAILS);
	return ncclRemoteError;
}

/* ---- notices that arrive --------------------------------------------------------------------- */

ncclResult_t net_verbs_completion_failed(struct net_verbs_conn *c, uint32_t leg,
					 const struct ibv_wc *wc)
{
	uint32_t kind = (uint32_t)(wc->wr_id >> 32), i = net_verbs_qp_index(c, leg, wc->qp_num);
	char text[160];

	if (c->failed)
		return ncclRemoteError;
	if (net_verbs_peer_ends(c))
		return ncclSuccess;
	if (c->rails && net_verbs_rails_absorb(c, leg, wc))
		return c->failed ? ncclRemoteError : ncclSuccess;
	c->failed = true;
	snprintf(text, sizeof text, "%s completed with IBV_WC_%s (%d) vendor_err 0x%x",
		 net_verbs_kind_name(kind), net_verbs_status_name(wc->status), (int)wc->status,
		 wc->vendor_err);
	net_verbs_log(c, i, wc->qp_num, text);
	net_verbs_report(c, i, wc->status, kind);
	return ncclRemoteError;
}

ncclResult_t net_verbs_alive(struct net_verbs_conn *c)
{
	uint32_t event = shared_load_u32(&c->event, SHARED_ACQUIRE), leg = event >> 16;
	char text[160];

	if (c->failed)
		return ncclRemoteError;
	if (!event)
		return c->rails ? net_verbs_rails_run(c) : ncclSuccess;
	c->failed = true;
	snprintf(text, sizeof text, "ended by an asynchronous event of the HCA: %s",
		 ibv_event_type_str((enum ibv_event_type)((event & 0xffff) - 1)));
	net_verbs_log(c, leg, c->qp[leg]->qp_num, text);
	net_verbs_report(c, leg, event & 0xffff, NET_VERBS_EVENT);
	return ncclSystemError;
}

/* Returns this end's queue pair that the notice is about; nqps: it is about another connection. */
static uint32_t net_verbs_notice_qp(const struct net_verbs_conn *c,
				    const struct net_verbs_notice *n)
{
	uint32_t i = 0;

	while (i < c->nqps && (n->rank != c->who.peer || n->qpn != c->theirs.qpn[i] ||
			       strcmp(n->nic, c->theirs.dev[net_verbs_their_dev(c, i)].nic)))
		i++;
	return i;
}

/* Handles the other end's notice: its queue pair failed, or it closes because another connection of
 * its communicator failed, or it ends in order. */
static ncclResult_t net_verbs_notice_take(struct net_verbs_conn *c)
{
	struct net_verbs_notice *n = &c->notice;
	char what[96], text[224];
	uint32_t i;

	if (n->magic == NET_VERBS_NOTICE_MAGIC && n->what == NET_VERBS_ENDS) {
		c->peer_ends = true;
		c->peer_sends = n->status;
		return ncclSuccess;
	}
	if (c->rails && n->magic == NET_VERBS_NOTICE_MAGIC && n->what >= NET_VERBS_PARTS)
		return net_verbs_rails_take(c);
	c->failed = true;
	n->nic[sizeof n->nic - 1] = '\0';
	if (n->magic != NET_VERBS_NOTICE_MAGIC) {
		net_verbs_log(c, 0, c->qp[0]->qp_num,
			      "a message without magic on its connection for set-up");
		return ncclRemoteError;
	}
	net_verbs_failed_by(c, n);
	net_verbs_cause_text(n->what, n->status, what, sizeof what);
	i = net_verbs_notice_qp(c, n);
	if (i < c->nqps)
		snprintf(text, sizeof text, "the peer reports: %s", what);
	else
		snprintf(text, sizeof text,
			 "the peer gives up: qp 0x%x on %s of rank %d towards rank %d: %s", n->qpn,
			 n->nic, n->rank, n->peer, what);
	i %= c->nqps;
	net_verbs_log(c, i, c->qp[i]->qp_num, text);
	return ncclRemoteError;
}

bool net_verbs_outstanding(const struct net_verbs_conn *c)
{
	for (int i = 0; i < NET_MAX_REQUESTS; i++)
		if (c->req[i].used && !c->req[i].done)
			return true;
	return false;
}

/* True if a transfer in flight needs the other end. A flush does not. */
static bool net_verbs_needs_peer(const struct net_verbs_conn *c)
{
	for (int i = 0; i < NET_MAX_REQUESTS; i++)
		if (c->req[i].used && !c->req[i].done && c->req[i].kind != NET_VERBS_FLUSH)
			return true;
	return c->is_send;
}

/* The other end has received all messages and ends. All sends have arrived, with or without
 * acknowledgement. Their completions may never come. No send follows on the connection. */
static void net_verbs_sends_end(struct net_verbs_conn *c)
{
	bool any = false;

	for (int i = 0; i < NET_MAX_REQUESTS; i++) {
		struct net_request *r = &c->req[i];

		if (r->used && !r->done && r->kind == NET_VERBS_SEND)
			r->done = any = true;
	}
	c->cut |= any;
	if (any) /* this pass has tested the requests already: one more follows */
		os_event_post(os_socket_object(c->fd));
}

/* True if messages that the other end sent before it ended in order are not complete here. They
 * were acknowledged, so their completions follow. */
static bool net_verbs_still_comes(const struct net_verbs_conn *c)
{
	uint32_t left = 0;

	for (int i = 0; i < NET_MAX_REQUESTS; i++)
		left += c->req[i].used && !c->req[i].done && c->req[i].kind == NET_VERBS_RECV;
	return c->peer_ends && !c->is_send &&
	       (int32_t)(c->peer_sends - (uint32_t)c->recvs + left) > 0;
}

/* Handles the other end's close. It is not an error if all messages have arrived or will arrive. */
static ncclResult_t net_verbs_gone(struct net_verbs_conn *c)
{
	ncclResult_t rc = net_verbs_drain(c);
	struct net_verbs_notice n;

	if (!rc && c->is_send && c->peer_ends) {
		net_verbs_sends_end(c);
		return ncclSuccess;
	}
	if (rc || !net_verbs_needs_peer(c) || net_verbs_still_comes(c))
		return rc;
	c->failed = true;
	net_verbs_log(c, 0, c->qp[0]->qp_num,
		      c->peer_ends ? "the peer has destroyed the communicator, and sends no more"
				   : "the peer closed the connection before the transfer ended");
	n = net_verbs_notice_of(c, 0, 0, NET_VERBS_GONE);
	net_verbs_failed_by(c, &n);
	return ncclRemoteError;
}

ncclResult_t net_verbs_send_after_end(struct net_verbs_conn *c)
{
	struct net_verbs_notice n = net_verbs_notice_of(c, 0, 0, NET_VERBS_GONE);

	if (!c->failed)
		net_verbs_log(c, 0, c->qp[0]->qp_num,
			      "the peer has destroyed the communicator, and receives no more");
	c->failed = true;
	net_verbs_failed_by(c, &n);
	return ncclRemoteError;
}

ncclResult_t net_verbs_notice_recv(struct net_verbs_conn *c)
{
	while (!c->peer_gone) {
		size_t done = 0;
		int rc = os_recv(c->fd, (uint8_t *)&c->notice + c->notice_bytes,
				 sizeof c->notice - c->notice_bytes, &done);
		ncclResult_t taken = ncclSuccess;

		if (rc == EAGAIN)
			return ncclSuccess;
		if (rc || !done) {
			c->peer_gone = true;
			return ncclSuccess;
		}
		c->notice_bytes += done;
		if (c->notice_bytes < sizeof c->notice)
			continue;
		c->notice_bytes = 0;
		taken = net_verbs_notice_take(c);
		if (taken)
			return taken;
	}
	return ncclSuccess;
}

bool net_verbs_peer_ends(struct net_verbs_conn *c)
{
	if (!c->peer_ends && c->state == NET_VERBS_READY && !c->peer_gone)
		(void)net_verbs_notice_recv(c);
	return c->peer_ends && !c->failed;
}

ncclResult_t net_verbs_check(void *net_comm, bool busy, struct wait *w)
{
	struct net_verbs_conn *c = net_comm;
	const void *object = os_socket_object(c->fd);
	uint64_t seq = os_event_seq(object), now = os_now_ns();
	ncclResult_t rc = ncclSuccess;

	*w = wait_object(object, seq, "a notice of failure",
			 wait_by(c->who.peer, c->who.channel, "proxy progress"));
	w->idle = true;
	rc = net_verbs_alive(c);
	if (rc)
		return rc;
	/* Not a system call in each idle pass: only after an event, and at long intervals. */
	if (!c->peer_gone && (seq != c->checked_seq || now >= c->check_at_ns)) {
		c->checked_seq = seq;
		c->check_at_ns = now + (busy ? NET_VERBS_CHECK_NS : NET_VERBS_CHECK_IDLE_NS);
		rc = net_verbs_notice_recv(c);
	}
	if (!rc && c->rails)
		rc = net_verbs_rails_check(c, w);
	/* an end that leaves with nothing in flight has reached the end of the communicator */
	if (!rc && (c->peer_gone || c->peer_ends) && busy)
		rc = net_verbs_gone(c);
	return rc;
}
