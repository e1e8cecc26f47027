/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connects ends of connections to their other ends, at any time in a communicator's life. A job has
 * any number of ends. Its ends with the same peer, index and direction are a part (connect_wire.h).
 * Each part advances independently:
 *
 *	begin   makes the ends, chooses transports, sets up, and sends a description of each part
 *	look    takes messages that arrived; acknowledges descriptions; connects parts that both
 *	        ranks know; repeats connects that were not ready
 *
 * The two ranks of a connection need not have the same parts in their jobs. A rank that sends and
 * receives completes its sending part with a peer that only receives yet. The job is complete when
 * all its parts are. All descriptions are sent before any is taken, so no two ranks wait for each
 * other's message.
 *
 * No rank uses a peer's memory before the peer's acknowledgement has arrived. A rank that leaves
 * therefore knows every peer that may have its memory open (p2p_end.c):
 *
 *	it leaves before it acknowledges  the peer never opens the memory
 *	it leaves later                   the peer's description had arrived, so the peer's
 *	                                  connection is accepted, and lasts until the peer has
 *	                                  closed the memory or is dead
 *
 * Without acknowledgements, a peer could open the memory after it received the description. The
 * peer's own connection might not have reached the rank's listener yet when the rank closes the
 * listener. The rank would then not know the peer.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/os/os_waits.h"
#include "core/transport/conn/connect_wire.h"

/* ---- the job -------------------------------------------------------------------------------- */

/* The order of parts, which conn_job_find needs. */
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

/* Sorts the ends, and skips those without a peer. */
static void conn_job_sort(struct conn_job *job, const struct conn_want *wants, int n)
{
	for (int i = 0; i < n; i++) {
		int at = job->n;

		if (wants[i].peer < 0)
			continue;
		for (; at > 0 && conn_want_compare(&wants[i], &job->want[at - 1]) < 0; at--)
			job->want[at] = job->want[at - 1];
		job->want[at] = wants[i];
		job->n++;
	}
}

static bool conn_wants_part(const struct conn_want *a, const struct conn_want *b)
{
	return a->peer == b->peer && a->index == b->index && a->is_send == b->is_send;
}

static void conn_job_divide(struct conn_job *job)
{
	size_t message = 0;

	for (int first = 0, end; first < job->n; first = end) {
		struct conn_part *p = &job->part[job->nparts++];

		for (end = first + 1;
		     end < job->n && conn_wants_part(&job->want[first], &job->want[end]);)
			end++;
		*p = (struct conn_part){.first = first, .n = end - first, .message = message};
		message += conn_part_bytes(p);
	}
	job->left = job->nparts;
}

static struct conn_job *conn_job_make(struct ncclComm *comm, const struct conn_want *wants, int n)
{
	size_t each = sizeof(struct wait) + sizeof(struct conn *) + sizeof(struct conn_part) +
		      sizeof(struct connect_head) + 2 * sizeof(struct connect_info) +
		      sizeof(struct conn_want) + sizeof(bool);
	size_t count = (size_t)n;
	struct conn_job *job = os_alloc(sizeof *job + count * each, "connection set-up");

	if (!job) {
		WARN("rank %d: no memory to connect %d connections", comm->rank, n);
		return NULL;
	}
	job->comm = comm;
	job->wait = (struct wait *)(job + 1);
	job->conn = (struct conn **)(job->wait + count);
	job->part = (struct conn_part *)(job->conn + count);
	job->messages = (uint8_t *)(job->part + count);
	job->theirs =
		(struct connect_info *)(job->messages + count * (sizeof(struct connect_head) +
								 sizeof(struct connect_info)));
	job->want = (struct conn_want *)(job->theirs + count);
	job->ready = (bool *)(job->want + count);
	conn_job_sort(job, wants, n);
	conn_job_divide(job);
	return job;
}

void transport_connect_drop(struct conn_job *job)
{
	os_free(job);
}

/* ---- begin ---------------------------------------------------------------------------------- */

/* Makes all ends and chooses their transports, before any is set up. Each transport can then
 * reserve memory for all its connections. */
static ncclResult_t conn_job_conns_make(struct conn_job *job)
{
	ncclResult_t rc = ncclSuccess;

	for (int i = 0; i < job->n && !rc; i++) {
		rc = transport_conn_add(job->comm, &job->want[i], &job->conn[i]);
		if (!rc)
			rc = transport_choose(job->conn[i]);
	}
	return rc ? rc : transport_reserve(job->comm, job->conn, job->n);
}

static ncclResult_t conn_part_setup(struct conn_job *job, const struct conn_part *p)
{
	ncclResult_t rc = ncclSuccess;

	for (int i = p->first; i < p->first + p->n && !rc; i++) {
		struct conn *c = job->conn[i];

		rc = transport_dir_of(c)->setup(c, conn_part_info(job, p, i));
		if (c->index == CONN_PAIR)
			transport_message_lines(c);
	}
	return rc;
}

static ncclResult_t conn_job_setup(struct conn_job *job)
{
	ncclResult_t rc = ncclSuccess;

	for (int i = 0; i < job->nparts && !rc; i++)
		rc = conn_part_setup(job, &job->part[i]);
	return rc;
}

static ncclResult_t conn_part_describe(struct conn_job *job, const struct conn_part *p, bool failed)
{
	const struct conn_want *w = conn_part_want(job, p);
	const struct connect_head head = conn_part_head(job, p);

	memcpy(job->messages + p->message, &head, sizeof head);
	return bootstrap_send(job->comm->bootstrap, w->peer,
			      connect_tag(CONNECT_DESCRIPTION, w->index, w->is_send),
			      job->messages + p->message, failed ? 0 : conn_part_bytes(p));
}

/* After an error the messages are empty, so that the other ends do not wait for this rank. */
static ncclResult_t conn_job_describe(struct conn_job *job, ncclResult_t rc)
{
	for (int i = 0; i < job->nparts; i++) {
		ncclResult_t sent = conn_part_describe(job, &job->part[i], rc != ncclSuccess);

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
		rc = conn_job_describe(job, rc);
	if (rc) {
		transport_connect_drop(job);
		return rc;
	}
	*out = job;
	return ncclSuccess;
}

/* ---- look ----------------------------------------------------------------------------------- */

static ncclResult_t conn_job_fail(struct conn_job *job, ncclResult_t rc)
{
	for (int i = 0; i < job->nparts; i++)
		conn_part_fail(job, &job->part[i]);
	INFO(LOG_INIT, "rank %d: gives up with %d of %d sets of connections not made",
	     job->comm->rank, job->left, job->nparts);
	return rc;
}

static ncclResult_t conn_job_pass(struct conn_job *job)
{
	ncclResult_t rc = bootstrap_offer(job->comm->bootstrap, conn_job_take, job);

	job->nwaits = 0;
	rc = job->error ? job->error : rc;
	for (int i = 0; i < job->nparts && !rc; i++)
		rc = conn_part_look(job, &job->part[i]);
	return rc;
}

/* A pass may receive messages for parts that it has already looked at. */
ncclResult_t transport_connect_look(struct conn_job *job)
{
	ncclResult_t rc;

	do
		rc = conn_job_pass(job);
	while (!rc && job->left && bootstrap_is_fresh(job->comm->bootstrap));
	if (rc)
		return conn_job_fail(job, rc);
	return job->left ? ncclInProgress : ncclSuccess;
}

ncclResult_t transport_connect_waits(struct conn_job *job, struct os_waits *l)
{
	struct wait *w = os_waits_more(l, job->nwaits, job->comm->rank);
	ncclResult_t rc = ncclSystemError;

	ASSERT(job->left && job->nwaits);
	if (w) {
		memcpy(w, job->wait, (size_t)job->nwaits * sizeof *w);
		rc = bootstrap_waits(job->comm->bootstrap, l);
	} else {
		WARN("rank %d: no memory to wait for %d connections", job->comm->rank, job->nwaits);
	}
	if (!rc)
		return ncclSuccess;
	(void)bootstrap_offer(job->comm->bootstrap, conn_job_take,
			      job); /* for the reason that a peer sent */
	return conn_job_fail(job, job->error ? job->error : rc);
}

ncclResult_t transport_connect_upload(struct conn_job *job)
{
	return transport_conns_upload(job->comm, job->conn, job->n);
}

/* ---- one job alone -------------------------------------------------------------------------- */

static ncclResult_t conn_job_run(struct conn_job *job)
{
	struct os_waits l = {0};
	ncclResult_t rc;

	while ((rc = transport_connect_look(job)) == ncclInProgress) {
		os_waits_clear(&l);
		rc = transport_connect_waits(job, &l);
		if (rc)
			break;
		(void)os_waits_wait(&l); /* the next look finds an abort */
	}
	os_waits_free(&l);
	return rc;
}

ncclResult_t transport_connect_all(struct ncclComm *comm, const struct conn_want *wants, int n,
				   struct conn_job **out)
{
	struct conn_job *job;
	ncclResult_t rc = transport_connect_begin(comm, wants, n, &job);

	if (rc)
		return rc;
	rc = conn_job_run(job);
	if (rc)
		transport_connect_drop(job);
	else
		*out = job;
	return rc;
}
