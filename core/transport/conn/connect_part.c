/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A part of a job: its description is sent, the peer's description is received, then its
 * connections are made (connect_wire.h).
 */
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/transport/collnet/collnet.h"
#include "core/transport/conn/connect_wire.h"

/* A search in the order of conn_want_compare. NULL: the job has no such part. */
static struct conn_part *conn_job_find(const struct conn_job *job, int peer, uint32_t index,
				       bool is_send)
{
	int low = 0, high = job->nparts;

	while (low < high) {
		int mid = (low + high) / 2;
		const struct conn_want *w = conn_part_want(job, &job->part[mid]);
		int order = w->peer != peer     ? w->peer - peer
			    : w->index != index ? (int)w->index - (int)index
						: (int)w->is_send - (int)is_send;

		if (!order)
			return &job->part[mid];
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

struct connect_head conn_part_head(const struct conn_job *job, const struct conn_part *p)
{
	const struct conn_want *w = conn_part_want(job, p);
	struct connect_head head = {.magic = CONNECT_MAGIC,
				    .rank = job->comm->rank,
				    .is_send = w->is_send,
				    .both = conn_job_find(job, w->peer, w->index, !w->is_send) !=
					    NULL,
				    .index = w->index,
				    .count = (uint32_t)p->n};

	for (int i = 0; i < p->n; i++)
		head.channels |= 1ull << w[i].channel;
	return head;
}

/* ---- messages that arrived ------------------------------------------------------------------- */

#define CONNECT_TEXT_BYTES 72

/* "4 channels (mask 0xf)" */
static const char *connect_head_print(const struct connect_head *h, char out[CONNECT_TEXT_BYTES])
{
	snprintf(out, CONNECT_TEXT_BYTES, "%u channels (mask 0x%llx)", h->count,
		 (unsigned long long)h->channels);
	return out;
}

/* Both ranks log the same line. */
static ncclResult_t connect_heads_differ(const struct connect_head *a, const struct connect_head *b)
{
	const struct connect_head *sender = a->is_send ? a : b, *receiver = a->is_send ? b : a;
	char sends[CONNECT_TEXT_BYTES], receives[CONNECT_TEXT_BYTES];

	WARN("rank %d sends to rank %d over %s, which receives over %s: all ranks must be of one "
	     "build",
	     sender->rank, receiver->rank, connect_head_print(sender, sends),
	     connect_head_print(receiver, receives));
	return ncclInternalError;
}

static ncclResult_t conn_part_check(const struct conn_job *job, const struct conn_part *p,
				    const struct bootstrap_came *m)
{
	const struct connect_head mine = conn_part_head(job, p);
	struct connect_head head = {0};

	if (!m->bytes) {
		WARN("rank %d: rank %d failed before it could describe its connections",
		     job->comm->rank, m->peer);
		return ncclRemoteError;
	}
	memcpy(&head, m->data, MIN_OF(m->bytes, sizeof head));
	if (head.magic != CONNECT_MAGIC || head.rank != m->peer || head.index != mine.index ||
	    head.is_send == mine.is_send) {
		WARN("rank %d: invalid description of connections from rank %d (%zu bytes, magic "
		     "%#x, rank %d, index %u, is_send %u), expected magic %#x: all ranks must be "
		     "of one build",
		     job->comm->rank, m->peer, m->bytes, head.magic, head.rank, head.index,
		     head.is_send, CONNECT_MAGIC);
		return ncclInternalError;
	}
	if (head.count != mine.count || head.channels != mine.channels)
		return connect_heads_differ(&mine, &head);
	if (m->bytes == conn_part_bytes(p))
		return ncclSuccess;
	WARN("rank %d: a description of %u channels from rank %d has %zu bytes, expected %zu",
	     job->comm->rank, head.count, m->peer, m->bytes, conn_part_bytes(p));
	return ncclInternalError;
}

/* Checks that the other end of every connection chose the same transport. The environments of two
 * ranks may differ. */
static ncclResult_t conn_part_compare(const struct conn_job *job, const struct conn_part *p)
{
	for (int i = p->first; i < p->first + p->n; i++) {
		const struct conn *c = job->conn[i];

		if (memcmp(conn_part_info(job, p, i)->bytes, job->theirs[i].bytes,
			   sizeof(uint32_t)) == 0)
			continue;
		WARN("rank %d: channel %d with rank %d goes via %s here and via another transport "
		     "there: NCCL_P2P_DISABLE, NCCL_P2P_LEVEL, NCCL_CUMEM_ENABLE and "
		     "NCCL_TOPO_FILE must be the same on all ranks of a host",
		     job->comm->rank, c->channel, c->peer, c->transport->name);
		return ncclInvalidUsage;
	}
	return ncclSuccess;
}

static ncclResult_t conn_part_take_description(struct conn_job *job, struct conn_part *p,
					       const struct bootstrap_came *m)
{
	ncclResult_t rc = conn_part_check(job, p, m);

	if (rc)
		return rc;
	memcpy(&job->theirs[p->first], (const uint8_t *)m->data + sizeof(struct connect_head),
	       (size_t)p->n * sizeof job->theirs[0]);
	rc = conn_part_compare(job, p);
	if (!rc)
		p->state = CONN_RECEIVED;
	return rc;
}

static ncclResult_t conn_part_acknowledged(struct conn_job *job, struct conn_part *p,
					   const struct bootstrap_came *m)
{
	p->known = true;
	job->known++;
	if (m->bytes)
		return ncclSuccess;
	WARN("rank %d: rank %d failed before it could connect: its memory stays closed",
	     job->comm->rank, m->peer);
	return ncclRemoteError;
}

/* Handles a description of a direction that this rank has not called. Notes if this rank's own
 * description waits for a peer that has not called the opposite direction. */
static void conn_part_alike(const struct conn_job *job, const struct bootstrap_came *m,
			    uint32_t index, bool is_send)
{
	struct conn_part *p = conn_job_find(job, m->peer, index, is_send);
	struct connect_head head;

	if (!p || index != CONN_PAIR || m->bytes < sizeof head)
		return;
	memcpy(&head, m->data, sizeof head);
	if (head.magic == CONNECT_MAGIC && !head.both && p->state == CONN_DESCRIBED)
		p->alike = true;
}

bool conn_job_take(void *arg, const struct bootstrap_came *m)
{
	struct conn_job *job = arg;
	bool described = (m->tag & ~0xffff) == CONNECT_DESCRIPTION;
	uint32_t index = (uint32_t)(m->tag & 0xffff) / 2;
	bool is_send = m->tag % 2; /* direction of the peer's ends */
	struct conn_part *p;
	ncclResult_t rc;

	if (job->error || (!described && (m->tag & ~0xffff) != CONNECT_KNOWN))
		return false;
	p = conn_job_find(job, m->peer, index, !is_send);
	if (!p && described)
		conn_part_alike(job, m, index, is_send);
	if (!p || (described ? p->state != CONN_DESCRIBED : p->known))
		return false;
	rc = described ? conn_part_take_description(job, p, m) : conn_part_acknowledged(job, p, m);
	job->error = rc;
	return true;
}

/* ---- advancing a part ------------------------------------------------------------------------ */

static ncclResult_t conn_part_acknowledge(struct conn_job *job, const struct conn_part *p,
					  bool failed)
{
	const struct conn_want *w = conn_part_want(job, p);
	const uint8_t known = 1;

	return bootstrap_send(job->comm->bootstrap, w->peer,
			      connect_tag(CONNECT_KNOWN, w->index, w->is_send), &known,
			      failed ? 0 : sizeof known);
}

void conn_part_fail(struct conn_job *job, struct conn_part *p)
{
	if (p->state == CONN_KNOWN && !p->known)
		INFO(LOG_INIT, "rank %d: rank %d has not acknowledged: its memory stays closed",
		     job->comm->rank, conn_part_want(job, p)->peer);
	if (p->state >= CONN_KNOWN)
		return;
	p->state = CONN_KNOWN;
	(void)conn_part_acknowledge(job, p, true);
}

static void conn_part_log(const struct conn *c)
{
	const struct ncclComm *comm = c->comm;

	if (c->transport->network && conn_reduces(comm, c->index, comm->rank, c->peer)) {
		INFO(LOG_INIT | LOG_NET, "CollNet %02d/%d : %d [%s] via COLLNET/%s%s", c->channel,
		     c->index, comm->rank, c->is_send ? "send" : "receive",
		     collnet_name(comm->collnet), c->via);
		return;
	}
	INFO(LOG_INIT | LOG_P2P | LOG_SHM | LOG_NET,
	     "Channel %02d/%d : %d[%d] %s %d[%d] via %s%s%s%s", c->channel, c->index, comm->rank,
	     comm->cuda_dev, c->is_send ? "->" : "<-", c->peer, comm->peers[c->peer].cuda_dev,
	     c->transport->name, c->transport->network ? "/" : "",
	     c->transport->network ? comm->net.ops->name : "", c->via);
}

/* One pass over the ends that are not ready. */
static ncclResult_t conn_part_connect(struct conn_job *job, struct conn_part *p)
{
	int left = 0;

	for (int i = p->first; i < p->first + p->n; i++) {
		struct conn *c = job->conn[i];
		ncclResult_t rc;

		if (job->ready[i])
			continue;
		rc = transport_dir_of(c)->connect(c, &job->theirs[i], &job->wait[job->nwaits]);
		if (rc == ncclInProgress) {
			left++;
			job->nwaits++;
			continue;
		}
		if (rc)
			return rc;
		job->ready[i] = true;
		conn_part_log(c);
	}
	if (left)
		return ncclSuccess;
	p->state = CONN_READY;
	job->left--;
	return ncclSuccess;
}

/* The reason to wait for the peer's description. */
static const char *conn_part_why(const struct conn_job *job, const struct conn_part *p)
{
	const struct conn_want *w = conn_part_want(job, p);

	if (w->index != CONN_PAIR)
		return "connection: description from the peer";
	if (p->alike)
		return w->is_send ? "connection: both ranks send; neither has called ncclRecv"
				  : "connection: both ranks receive; neither has called ncclSend";
	return w->is_send ? "connection: the peer to call ncclRecv"
			  : "connection: the peer to call ncclSend";
}

/* Neither rank reaches another call before its job is complete. */
static void conn_part_log_alike(const struct conn_job *job, struct conn_part *p)
{
	const struct conn_want *w = conn_part_want(job, p);
	int32_t rank = job->comm->rank;

	if (!p->alike || p->logged)
		return;
	p->logged = true;
	WARN("rank %d and rank %d both %s; neither has called %s: both wait, expected the calls of "
	     "both directions in one group, or in opposite order",
	     MIN_OF(rank, w->peer), MAX_OF(rank, w->peer), w->is_send ? "send" : "receive",
	     w->is_send ? "ncclRecv" : "ncclSend");
}

/* Adds the wait for a message from the peer. */
static ncclResult_t conn_part_wait(struct conn_job *job, struct conn_part *p)
{
	const struct conn_want *w = conn_part_want(job, p);
	const char *why = p->state == CONN_DESCRIBED ? conn_part_why(job, p)
						     : "connection: acknowledgement of the peer";
	struct wait *wait = &job->wait[job->nwaits];
	ncclResult_t rc = bootstrap_expect(job->comm->bootstrap, w->peer, why, wait);

	if (rc)
		return rc;
	conn_part_log_alike(job, p);
	wait->from.channel = w->channel;
	job->nwaits++;
	return ncclSuccess;
}

/* Only messages have directions that the peer may not have called. All other parts wait until all
 * acknowledgements have arrived. They then connect in the same order in every run, in whatever
 * order the acknowledgements arrived. */
static bool conn_part_waits_for_others(const struct conn_job *job, const struct conn_part *p)
{
	return conn_part_want(job, p)->index != CONN_PAIR && job->known < job->nparts;
}

ncclResult_t conn_part_look(struct conn_job *job, struct conn_part *p)
{
	if (p->state == CONN_RECEIVED) {
		ncclResult_t rc = conn_part_acknowledge(job, p, false);

		if (rc)
			return rc;
		p->state = CONN_KNOWN;
	}
	if (p->state == CONN_KNOWN && p->known) {
		if (conn_part_waits_for_others(job, p))
			return ncclSuccess;
		p->state = CONN_CONNECTING;
	}
	if (p->state == CONN_READY)
		return ncclSuccess;
	return p->state == CONN_CONNECTING ? conn_part_connect(job, p) : conn_part_wait(job, p);
}
