/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that both ranks of every connection of init make their end of it. Each rank computes its
 * ends by itself. An end whose other end no rank makes would wait for a description without end.
 * Each end has a hash of its connection. The receiving end's hash is the negative of the sending
 * end's. If the sum over all ranks is not 0, two ranks disagree. Only then do ranks exchange more:
 * first their sums by peer, which show the two ranks, then the channels between these two.
 */
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/transport/transport_internal.h"

/* Returns the hash of the connection; the negative for a receiving end. */
static uint64_t ends_hash(const struct ncclComm *comm, const struct conn_want *w)
{
	const int32_t connection[] = {w->is_send ? comm->rank : w->peer,
				      w->is_send ? w->peer : comm->rank, w->channel, w->index};
	uint64_t hash = hash64(connection, sizeof connection);

	return w->is_send ? hash : 0 - hash;
}

uint64_t transport_ends_sum(const struct ncclComm *comm)
{
	uint64_t sum = 0;

	for (int i = 0; i < comm->nends; i++)
		if (comm->want[i].peer >= 0)
			sum += ends_hash(comm, &comm->want[i]);
	return sum;
}

/* ---- which ranks, and which connection ------------------------------------------------------ */

struct ends_pair {
	int32_t a, b; /* a < b */
};

/* Ends that a rank has with the other rank of the pair: masks of channels. */
struct ends_masks {
	uint64_t send[CONN_INDEX_COUNT], recv[CONN_INDEX_COUNT];
};

struct ends_scratch {
	uint64_t *sums;           /* [nranks * nranks]: sums of a rank's ends, by peer */
	struct ends_masks *masks; /* [nranks] */
};

/* Returns the first two ranks that disagree. They exist, because the sum over all ranks is not
 * 0. */
static struct ends_pair ends_pair_find(const uint64_t *sums, size_t nranks)
{
	size_t a = 0, b = 1;

	while (a < nranks - 1 && sums[a * nranks + b] + sums[b * nranks + a] == 0)
		if (++b == nranks)
			b = ++a + 1;
	ASSERT(b < nranks);
	return (struct ends_pair){(int32_t)a, (int32_t)b};
}

static ncclResult_t ends_pair_gather(const struct ncclComm *comm, const struct ends_scratch *s,
				     struct ends_pair *pair)
{
	size_t n = (size_t)comm->nranks;
	uint64_t *mine = s->sums + (size_t)comm->rank * n;
	ncclResult_t rc;

	for (int i = 0; i < comm->nends; i++) {
		ASSERT(comm->want[i].peer < comm->nranks);
		if (comm->want[i].peer >= 0)
			mine[comm->want[i].peer] += ends_hash(comm, &comm->want[i]);
	}
	rc = bootstrap_all_gather(comm->bootstrap, s->sums, n * sizeof *s->sums);
	if (!rc)
		*pair = ends_pair_find(s->sums, n);
	return rc;
}

static ncclResult_t ends_masks_gather(const struct ncclComm *comm, const struct ends_scratch *s,
				      struct ends_pair pair)
{
	int32_t rank = comm->rank, other = rank == pair.a ? pair.b : pair.a;
	struct ends_masks *mine = &s->masks[rank];

	for (int i = 0; i < comm->nends && (rank == pair.a || rank == pair.b); i++) {
		const struct conn_want *w = &comm->want[i];

		if (w->peer == other)
			(w->is_send ? mine->send : mine->recv)[w->index] |= 1ull << w->channel;
	}
	return bootstrap_all_gather(comm->bootstrap, s->masks, sizeof *s->masks);
}

/* Logs the first connection from one rank to the other that only one of them makes. False: none
 * differs. */
static bool ends_direction_log(const struct ends_masks *masks, int32_t from, int32_t to)
{
	static const char *const of[CONN_INDEX_COUNT] = {[CONN_COLLECTIVE] = "ring",
							 [CONN_PAIR] = "messages",
							 [CONN_DIRECT] = "direct programs",
							 [CONN_TREE] = "tree",
							 [CONN_PAT] = "PAT",
							 [CONN_DOUBLING] = "doubling",
							 [CONN_COLLNET] = "CollNet"};

	for (int i = 0; i < CONN_INDEX_COUNT; i++) {
		uint64_t send = masks[from].send[i], recv = masks[to].recv[i];
		int channel = __builtin_ctzll(send ^ recv ? send ^ recv : 1);

		if (send == recv)
			continue;
		if (send >> channel & 1)
			WARN("channel %d, %s: rank %d sends to rank %d, and rank %d does not "
			     "receive from it: all ranks must be of one build",
			     channel, of[i], from, to, to);
		else
			WARN("channel %d, %s: rank %d receives from rank %d, and rank %d does not "
			     "send to it: all ranks must be of one build",
			     channel, of[i], to, from, from);
		return true;
	}
	return false;
}

static ncclResult_t ends_differ(const struct ncclComm *comm, const struct ends_scratch *s)
{
	struct ends_pair pair;
	ncclResult_t rc = ends_pair_gather(comm, s, &pair);

	if (!rc)
		rc = ends_masks_gather(comm, s, pair);
	if (rc)
		return rc;
	if (!ends_direction_log(s->masks, pair.a, pair.b) &&
	    !ends_direction_log(s->masks, pair.b, pair.a))
		WARN("rank %d and rank %d make one end of a connection twice: all ranks must be "
		     "of one build",
		     pair.a, pair.b);
	return ncclInternalError;
}

ncclResult_t transport_ends_differ(const struct ncclComm *comm)
{
	size_t n = (size_t)comm->nranks;
	size_t bytes = n * n * sizeof(uint64_t) + n * sizeof(struct ends_masks);
	struct ends_scratch s = {.sums = os_alloc(bytes, "connections that differ")};
	ncclResult_t rc;

	if (!s.sums) {
		WARN("rank %d: ranks disagree on connections, and there is no memory to find out "
		     "which",
		     comm->rank);
		return ncclSystemError;
	}
	s.masks = (struct ends_masks *)(s.sums + n * n);
	rc = ends_differ(comm, &s);
	os_free(s.sums);
	return rc;
}
