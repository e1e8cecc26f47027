/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connects ends of connections with their other ends, at any time in a communicator's life. A job
 * takes all its ends through the phases of transport.h together:
 *
 *	begin      make the ends, choose transports, set up, send this rank's descriptions
 *	exchange   receive the other ends' descriptions, acknowledge each message
 *	request    receive the acknowledgements; every connect is requested once
 *	end        call connect until every end is ready
 *
 * A message carries the descriptions of all ends of one peer, in the peer's order: of each index its receiving
 * ends, which are those that send here, and then its sending ones. All are sent before any is received, so no two
 * ranks wait for each other's message.
 *
 * The acknowledgement is a message of one byte. No rank uses a peer's memory before it has come. So a rank
 * that leaves knows of every peer that can have its memory open (p2p.c):
 *
 *	it leaves before it acknowledges   the peer never opens the memory
 *	it leaves later                    the peer's descriptions had come, so the peer's connection is
 *	                                   accepted, and lasts until the peer has closed the memory or
 *	                                   is dead
 *
 * With the descriptions alone a peer's connection could still wait at the listener, or be on its way to
 * it, when the rank closed that: the peer had all that it needed to open the memory, and the rank could
 * not know.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/transport/transport_internal.h"

#define TRANSPORT_TAG_INFO  0x520000
#define TRANSPORT_TAG_KNOWN 0x530000

struct conn_job {
	struct ncclComm *comm;
	int n;
	struct conn_want *want;             /* [n], in the order of conn_want_compare */
	struct conn **conn;                 /* [n] */
	int *place;                         /* [n]: in `mine`, which is in the peers' order */
	struct connect_info *mine, *theirs; /* [n] */
	bool *ready;                        /* [n] */
	struct wait *wait; /* [n + 1]: of ends that are not ready; one of bootstrap's */
};

/* ---- the job -------------------------------------------------------------------------------- */

static int conn_want_compare(const struct conn_want *a, const struct conn_want *b)
{
	if (a->peer != b->peer)
		return a->peer < b->peer ? -1 : 1;
	if (a->index != b->index)
		return a->index < b->index ? -1 : 1;
	if (a->is_send != b->is_send)
		return a->is_send ? 1 : -1;
	return a->channel < b->channel ? -1 : a->channel > b->channel;
}

/* In order, which most lists are in already. */
static void conn_job_sort(struct conn_job *job, const struct conn_want *wants)
{
	for (int i = 0; i < job->n; i++) {
		int at = i;

		for (; at > 0 && conn_want_compare(&wants[i], &job->want[at - 1]) < 0; at--)
			job->want[at] = job->want[at - 1];
		job->want[at] = wants[i];
	}
}

/* Two ranks have the ends between them in one order, but for the direction. */
static void conn_job_places(struct conn_job *job)
{
	for (int first = 0, end; first < job->n; first = end) {
		const struct conn_want *w = &job->want[first];
		int recvs = 0;

		for (end = first; end < job->n && job->want[end].peer == w->peer &&
				  job->want[end].index == w->index;
		     end++)
			recvs += !job->want[end].is_send;
		for (int i = first; i < end; i++)
			job->place[i] =
				job->want[i].is_send ? i - recvs : end - recvs + (i - first);
	}
}

static struct conn_job *conn_job_make(struct ncclComm *comm, const struct conn_want *wants, int n)
{
	size_t each = sizeof(struct conn_want) + sizeof(struct conn *) + sizeof(int) +
		      2 * sizeof(struct connect_info) + sizeof(bool) + sizeof(struct wait);
	size_t count = (size_t)n;
	struct conn_job *job =
		os_alloc(sizeof *job + count * each + sizeof(struct wait), "connection set-up");

	if (!job) {
		WARN("rank %d: no memory to connect %d connections", comm->rank, n);
		return NULL;
	}
	job->comm = comm;
	job->n = n;
	job->wait = (struct wait *)(job + 1);
	job->conn = (struct conn **)(job->wait + count + 1);
	job->want = (struct conn_want *)(job->conn + count);
	job->place = (int *)(job->want + count);
	job->mine = (struct connect_info *)(job->place + count);
	job->theirs = job->mine + count;
	job->ready = (bool *)(job->theirs + count);
	conn_job_sort(job, wants);
	conn_job_places(job);
	return job;
}

void transport_connect_drop(struct conn_job *job)
{
	os_free(job);
}

/* The end of the ends that one message carries, which begin at `first`. */
static int conn_job_message_end(const struct conn_job *job, int first)
{
	int end = first + 1;

	while (end < job->n && job->want[end].peer == job->want[first].peer)
		end++;
	return end;
}

/* Both ranks have the index of their first end. */
static int conn_job_tag(int what, const struct conn_want *first)
{
	return what + first->index;
}

/* ---- begin ---------------------------------------------------------------------------------- */

/* All ends with their transports; nothing is set up yet, so that a transport can reserve memory for
 * all connections that it will serve. */
static ncclResult_t conn_job_conns_make(struct conn_job *job)
{
	ncclResult_t rc = ncclSuccess;

	for (int i = 0; i < job->n && !rc; i++) {
		rc = transport_conn_add(job->comm, &job->want[i], &job->conn[i]);
		if (!rc)
			rc = transport_choose(job->conn[i]);
	}
	if (!rc)
		rc = p2p_reserve(job->comm, job->conn, job->n);
	return rc ? rc : shm_reserve(job->conn, job->n);
}

static ncclResult_t conn_job_setup(struct conn_job *job)
{
	ncclResult_t rc = ncclSuccess;

	for (int i = 0; i < job->n && !rc; i++) {
		struct conn *c = job->conn[i];

		rc = transport_dir_of(c)->setup(c, &job->mine[job->place[i]]);
		if (c->index == CONN_PAIR)
			transport_message_lines(c);
	}
	return rc;
}

/* After an error the messages are empty: the other ends need not wait for this rank. */
static ncclResult_t conn_job_send(struct conn_job *job, ncclResult_t rc)
{
	for (int i = 0, end; i < job->n; i = end) {
		const struct conn_want *w = &job->want[i];
		size_t bytes;
		ncclResult_t sent;

		end = conn_job_message_end(job, i);
		bytes = rc ? 0 : (size_t)(end - i) * sizeof job->mine[0];
		sent = bootstrap_send(job->comm->bootstrap, w->peer,
				      conn_job_tag(TRANSPORT_TAG_INFO, w), &job->mine[i], bytes);
		rc = rc ? rc : sent;
	}
	return rc;
}

ncclResult_t transport_connect_begin(struct ncclComm *comm, const struct conn_want *wants, int n,
				     struct conn_job **out)
{
	struct conn_job *job = conn_job_make(comm, wants, n);
	ncclResult_t rc = job ? conn_job_conns_make(job) : ncclSystemError;

	if (!rc)
		rc = conn_job_setup(job);
	if (job)
		rc = conn_job_send(job, rc);
	if (rc) {
		transport_connect_drop(job);
		return rc;
	}
	*out = job;
	return ncclSuccess;
}

/* ---- exchange, request and end -------------------------------------------------------------- */

/* After an error the acknowledgements are empty, as the messages are. */
static ncclResult_t conn_job_acknowledge(struct conn_job *job, ncclResult_t rc)
{
	const uint8_t known = 1;

	for (int i = 0; i < job->n; i = conn_job_message_end(job, i)) {
		const struct conn_want *w = &job->want[i];
		ncclResult_t sent = bootstrap_send(job->comm->bootstrap, w->peer,
						   conn_job_tag(TRANSPORT_TAG_KNOWN, w), &known,
						   rc ? 0 : sizeof known);

		rc = rc ? rc : sent;
	}
	return rc;
}

/* One pass over the ends that are not ready: *pending of them are left, each with its wait. */
static ncclResult_t conn_job_pass(struct conn_job *job, int *pending)
{
	struct ncclComm *comm = job->comm;
	int n = 0;

	for (int i = 0; i < job->n; i++) {
		struct conn *c = job->conn[i];
		ncclResult_t rc;

		if (job->ready[i])
			continue;
		rc = transport_dir_of(c)->connect(c, &job->theirs[i], &job->wait[n]);
		if (rc == ncclInProgress) {
			n++;
			continue;
		}
		if (rc)
			return rc;
		job->ready[i] = true;
		INFO(LOG_INIT | LOG_P2P | LOG_SHM | LOG_NET,
		     "Channel %02d/%d : %d[%d] %s %d[%d] via %s%s%s%s", c->channel, c->index,
		     comm->rank, comm->cuda_dev, c->is_send ? "->" : "<-", c->peer,
		     comm->peers[c->peer].cuda_dev, c->transport->name,
		     c->transport->network ? "/" : "",
		     c->transport->network ? comm->net.ops->name : "", c->via);
	}
	*pending = n;
	return ncclSuccess;
}

/* Has the other end of every connection chosen the same transport? The environments of two ranks may
 * differ. */
static ncclResult_t conn_job_compare(const struct conn_job *job)
{
	for (int i = 0; i < job->n; i++) {
		const struct conn *c = job->conn[i];

		if (memcmp(job->mine[job->place[i]].bytes, job->theirs[i].bytes,
			   sizeof(uint32_t)) == 0)
			continue;
		WARN("rank %d: channel %d with rank %d goes via %s here, and otherwise there: "
		     "NCCL_P2P_DISABLE, NCCL_P2P_LEVEL, NCCL_CUMEM_ENABLE and NCCL_TOPO_FILE must "
		     "be "
		     "the same on all ranks of a host",
		     job->comm->rank, c->channel, c->peer, c->transport->name);
		return ncclInvalidUsage;
	}
	return ncclSuccess;
}

ncclResult_t transport_connect_exchange(struct conn_job *job)
{
	ncclResult_t rc = ncclSuccess;

	for (int i = 0, end; i < job->n && !rc; i = end) {
		const struct conn_want *w = &job->want[i];

		end = conn_job_message_end(job, i);
		rc = bootstrap_recv(job->comm->bootstrap, w->peer,
				    conn_job_tag(TRANSPORT_TAG_INFO, w), &job->theirs[i],
				    (size_t)(end - i) * sizeof job->theirs[0]);
	}
	if (!rc)
		rc = conn_job_compare(job);
	return conn_job_acknowledge(job, rc);
}

ncclResult_t transport_connect_request(struct conn_job *job)
{
	ncclResult_t rc = ncclSuccess;
	uint8_t known;
	int pending;

	for (int i = 0; i < job->n && !rc; i = conn_job_message_end(job, i)) {
		const struct conn_want *w = &job->want[i];

		rc = bootstrap_recv(job->comm->bootstrap, w->peer,
				    conn_job_tag(TRANSPORT_TAG_KNOWN, w), &known, sizeof known);
		if (rc)
			INFO(LOG_INIT,
			     "rank %d: rank %d has not acknowledged: its memory stays closed",
			     job->comm->rank, w->peer);
	}
	return rc ? rc : conn_job_pass(job, &pending);
}

ncclResult_t transport_connect_end(struct conn_job *job)
{
	int pending;

	for (;;) {
		ncclResult_t rc = conn_job_pass(job, &pending);

		if (rc)
			return rc;
		if (!pending)
			return ncclSuccess;
		rc = bootstrap_wait_beside(job->comm->bootstrap, job->wait, pending);
		if (rc) {
			INFO(LOG_INIT, "rank %d: gives up with %d connections not made",
			     job->comm->rank, pending);
			return rc;
		}
	}
}

ncclResult_t transport_connect_upload(struct conn_job *job)
{
	return transport_conns_upload(job->comm, job->conn, job->n);
}

ncclResult_t transport_connect_all(struct ncclComm *comm, const struct conn_want *wants, int n,
				   struct conn_job **out)
{
	struct conn_job *job;
	ncclResult_t rc = transport_connect_begin(comm, wants, n, &job);

	if (rc)
		return rc;
	rc = transport_connect_exchange(job);
	if (!rc)
		rc = transport_connect_request(job);
	if (!rc)
		rc = transport_connect_end(job);
	if (rc)
		transport_connect_drop(job);
	else
		*out = job;
	return rc;
}
