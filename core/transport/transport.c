/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/transport/transport.h"

#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/transport/transport_internal.h"

#define TRANSPORT_TAG_INFO 0x5201

/* Order of choice. */
static const struct transport *const transports[] = {&transport_p2p, &transport_net};

uint32_t transport_step_bytes(void)
{
	uint64_t buffer = (uint64_t)param_i64(PARAM_BUFFSIZE);
	uint64_t step = buffer / DEV_STEPS / DEV_GRAIN_BYTES * DEV_GRAIN_BYTES;
	const uint64_t most = 64u << 20;

	return (uint32_t)MIN_OF(MAX_OF(step, DEV_GRAIN_BYTES), most);
}

uint64_t transport_first_step(void)
{
	return (uint64_t)param_i64(PARAM_FIRST_STEP) / DEV_STEPS * DEV_STEPS;
}

int32_t transport_local_rank(const struct ncclComm *comm, int32_t rank)
{
	for (int32_t i = 0; i < comm->local_ranks; i++)
		if (comm->local_to_rank[i] == rank)
			return i;
	return -1;
}

static struct conn *transport_conn_make(struct ncclComm *comm, int32_t channel, int32_t peer,
					bool is_send)
{
	struct conn *c = os_alloc(sizeof *c, "connection");

	if (!c) {
		WARN("no memory for the connection to rank %d on channel %d", peer, channel);
		return NULL;
	}
	c->comm = comm;
	c->peer = peer;
	c->channel = channel;
	c->is_send = is_send;
	return c;
}

static ncclResult_t transport_choose(struct conn *c)
{
	int32_t from = c->is_send ? c->comm->rank : c->peer;
	int32_t to = c->is_send ? c->peer : c->comm->rank;

	for (size_t i = 0; i < ARRAY_LEN(transports); i++) {
		if (!transports[i]->can_connect(c->comm, from, to))
			continue;
		c->transport = transports[i];
		return ncclSuccess;
	}
	WARN("no transport from rank %d to rank %d: neither p2p nor network can connect them", from,
	     to);
	return ncclSystemError;
}

/* Both ends of every channel's ring, with their transports; nothing is set up yet, so that a
 * transport can see all connections that it will serve. */
static ncclResult_t transport_conns_make(struct ncclComm *comm)
{
	for (int32_t i = 0; i < comm->nchannels; i++) {
		struct channel *ch = &comm->channels[i];
		ncclResult_t rc;

		ASSERT(!ch->ring_recv && !ch->ring_send);
		ch->ring_recv = transport_conn_make(comm, ch->id, ch->ring_prev, false);
		ch->ring_send = transport_conn_make(comm, ch->id, ch->ring_next, true);
		if (!ch->ring_recv || !ch->ring_send)
			return ncclSystemError;
		rc = transport_choose(ch->ring_recv);
		if (!rc)
			rc = transport_choose(ch->ring_send);
		if (rc)
			return rc;
	}
	return ncclSuccess;
}

static const struct transport_dir *transport_dir_of(const struct conn *c)
{
	ASSERT(c->transport);
	return c->is_send ? &c->transport->send : &c->transport->recv;
}

static ncclResult_t transport_setup_all(struct ncclComm *comm, struct transport_infos *in)
{
	for (int32_t i = 0; i < comm->nchannels; i++) {
		struct channel *ch = &comm->channels[i];
		ncclResult_t rc;

		rc = transport_dir_of(ch->ring_recv)->setup(ch->ring_recv, &in->mine[2 * i]);
		if (rc)
			return rc;
		rc = transport_dir_of(ch->ring_send)->setup(ch->ring_send, &in->mine[2 * i + 1]);
		if (rc)
			return rc;
	}
	return ncclSuccess;
}

/* Which infos one message between this rank and `peer` carries, and in which order: by channel;
 * on a channel the info of the message's sender's receiving end comes first. `slots` gets indices
 * into mine[] (outgoing) or theirs[] (incoming), where 2 * channel is this rank's receiving end. */
static int transport_message_slots(const struct ncclComm *comm, int32_t peer, bool outgoing,
				   int slots[2 * DEV_MAX_CHANNELS])
{
	int n = 0;

	for (int32_t i = 0; i < comm->nchannels; i++) {
		bool recv = comm->channels[i].ring_prev == peer;
		bool send = comm->channels[i].ring_next == peer;

		if (outgoing ? recv : send)
			slots[n++] = outgoing ? 2 * i : 2 * i + 1;
		if (outgoing ? send : recv)
			slots[n++] = outgoing ? 2 * i + 1 : 2 * i;
	}
	ASSERT(n <= 2 * DEV_MAX_CHANNELS);
	return n;
}

static ncclResult_t transport_infos_send(struct ncclComm *comm, struct transport_infos *in,
					 int32_t peer)
{
	int slots[2 * DEV_MAX_CHANNELS];
	int n = transport_message_slots(comm, peer, true, slots);

	for (int i = 0; i < n; i++)
		in->message[i] = in->mine[slots[i]];
	return bootstrap_send(comm->bootstrap, peer, TRANSPORT_TAG_INFO, in->message,
			      (size_t)n * sizeof in->message[0]);
}

static ncclResult_t transport_infos_recv(struct ncclComm *comm, struct transport_infos *in,
					 int32_t peer)
{
	int slots[2 * DEV_MAX_CHANNELS];
	int n = transport_message_slots(comm, peer, false, slots);
	ncclResult_t rc;

	rc = bootstrap_recv(comm->bootstrap, peer, TRANSPORT_TAG_INFO, in->message,
			    (size_t)n * sizeof in->message[0]);
	if (rc)
		return rc;
	for (int i = 0; i < n; i++)
		in->theirs[slots[i]] = in->message[i];
	return ncclSuccess;
}

/* Keeps peers[0..n-1] ascending, each once; returns the new n. */
static int transport_peer_insert(int32_t *peers, int n, int32_t peer)
{
	int at = n;

	while (at > 0 && peers[at - 1] > peer)
		at--;
	if (at > 0 && peers[at - 1] == peer)
		return n;
	memmove(&peers[at + 1], &peers[at], (size_t)(n - at) * sizeof peers[0]);
	peers[at] = peer;
	return n + 1;
}

/* The ranks next to this one on any channel. */
static int transport_peers(const struct ncclComm *comm, int32_t peers[2 * DEV_MAX_CHANNELS])
{
	int n = 0;

	for (int32_t i = 0; i < comm->nchannels; i++) {
		n = transport_peer_insert(peers, n, comm->channels[i].ring_prev);
		n = transport_peer_insert(peers, n, comm->channels[i].ring_next);
	}
	return n;
}

/* One message to and one from every neighbour. All are sent before any is received: nobody waits
 * for a message that its sender has not sent yet because it waits itself. */
static ncclResult_t transport_exchange(struct ncclComm *comm, struct transport_infos *in)
{
	int32_t peers[2 * DEV_MAX_CHANNELS];
	int n = transport_peers(comm, peers);
	ncclResult_t rc;

	for (int i = 0; i < n; i++) {
		rc = transport_infos_send(comm, in, peers[i]);
		if (rc)
			return rc;
	}
	for (int i = 0; i < n; i++) {
		rc = transport_infos_recv(comm, in, peers[i]);
		if (rc)
			return rc;
	}
	return ncclSuccess;
}

/* One pass over the connections that are not ready: *pending of them are left, each with its wait.
 */
static ncclResult_t transport_connect_pass(struct ncclComm *comm, struct transport_infos *in,
					   int *pending)
{
	int n = 0;

	for (int32_t i = 0; i < 2 * comm->nchannels; i++) {
		struct channel *ch = &comm->channels[i / 2];
		struct conn *c = i % 2 ? ch->ring_send : ch->ring_recv;
		ncclResult_t rc;

		if (in->ready[i])
			continue;
		rc = transport_dir_of(c)->connect(c, &in->theirs[i], &in->wait[n]);
		if (rc == ncclInProgress) {
			n++;
			continue;
		}
		if (rc)
			return rc;
		in->ready[i] = true;
		INFO(LOG_INIT | LOG_P2P | LOG_NET, "Channel %02d : %d[%d] %s %d[%d] via %s",
		     c->channel, comm->rank, comm->cuda_dev, c->is_send ? "->" : "<-", c->peer,
		     comm->peers[c->peer].cuda_dev, c->transport->name);
	}
	*pending = n;
	return ncclSuccess;
}

static ncclResult_t transport_connect_all(struct ncclComm *comm, struct transport_infos *in)
{
	int pending;

	for (;;) {
		ncclResult_t rc = transport_connect_pass(comm, in, &pending);

		if (rc)
			return rc;
		if (!pending)
			return ncclSuccess;
		rc = bootstrap_wait_beside(comm->bootstrap, in->wait, pending);
		if (rc) {
			INFO(LOG_INIT, "rank %d: gives up with %d connections not made", comm->rank,
			     pending);
			return rc;
		}
	}
}

ncclResult_t transport_connect_rings(struct ncclComm *comm)
{
	struct transport_infos *in;
	ncclResult_t rc;

	if (comm->nranks == 1)
		return ncclSuccess;
	ASSERT(comm->nchannels > 0 && comm->nchannels <= DEV_MAX_CHANNELS);
	in = os_alloc(sizeof *in, "connection set-up");
	if (!in) {
		WARN("no memory to connect %d channels", comm->nchannels);
		return ncclSystemError;
	}
	rc = transport_conns_make(comm);
	if (!rc)
		rc = transport_setup_all(comm, in);
	if (!rc)
		rc = transport_exchange(comm, in);
	if (!rc)
		rc = transport_connect_all(comm, in);
	os_free(in);
	return rc;
}

void transport_let_go(struct ncclComm *comm)
{
	p2p_imports_close(comm);
}

static void transport_conn_close(struct conn **at)
{
	struct conn *c = *at;

	if (!c)
		return;
	if (c->transport)
		transport_dir_of(c)->close(c);
	ASSERT(!c->proxy && !c->state);
	os_free(c);
	*at = NULL;
}

void transport_close_all(struct ncclComm *comm)
{
	for (int32_t i = comm->nchannels - 1; comm->channels && i >= 0; i--) {
		transport_conn_close(&comm->channels[i].ring_send);
		transport_conn_close(&comm->channels[i].ring_recv);
	}
	p2p_state_close(comm);
}
