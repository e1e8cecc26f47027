/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connections of a communicator. A table by direction and channel has the connections of one
 * index to one peer. It is made with the first of them, because a rank has many connections to a
 * few peers, and none to most. Main task only.
 */
#include "core/base/log.h"
#include "core/transport/transport_internal.h"

struct conn_table {
	int32_t count;
	int32_t slots; /* slots given to connections of messages */
	/* [nranks * CONN_INDEX_COUNT], each NULL or [2 * pair_channels]: receiving ends, then
	 * sending ends */
	struct conn **of[];
};

static ncclResult_t conn_table_make(struct ncclComm *comm)
{
	size_t tables = (size_t)comm->nranks * CONN_INDEX_COUNT;
	struct conn_table *t;

	if (comm->conns)
		return ncclSuccess;
	t = os_alloc(sizeof *t + tables * sizeof t->of[0], "connection table");
	if (!t) {
		WARN("rank %d: no memory for the table of connections to %d ranks", comm->rank,
		     comm->nranks);
		return ncclSystemError;
	}
	comm->conns = t;
	return ncclSuccess;
}

static struct conn ***conn_table_of(const struct ncclComm *comm, const struct conn_want *want)
{
	ASSERT(want->peer >= 0 && want->peer < comm->nranks && want->index < CONN_INDEX_COUNT);
	ASSERT(want->channel >= 0 && want->channel < comm->pair_channels);
	return &comm->conns->of[want->peer * CONN_INDEX_COUNT + want->index];
}

static size_t conn_table_at(const struct ncclComm *comm, const struct conn_want *want)
{
	return (size_t)(want->is_send * comm->pair_channels + want->channel);
}

struct conn *transport_conn_find(const struct ncclComm *comm, const struct conn_want *want)
{
	struct conn **of = comm->conns ? *conn_table_of(comm, want) : NULL;

	return of ? of[conn_table_at(comm, want)] : NULL;
}

/* Returns the table's element for a connection that does not exist yet; NULL: no memory. */
static struct conn **conn_place_make(struct ncclComm *comm, const struct conn_want *want)
{
	struct conn ***of = conn_table_of(comm, want);

	if (!*of)
		*of = os_alloc(2 * (size_t)comm->pair_channels * sizeof **of,
			       "connections to a rank");
	return *of ? &(*of)[conn_table_at(comm, want)] : NULL;
}

ncclResult_t transport_conn_add(struct ncclComm *comm, const struct conn_want *want,
				struct conn **out)
{
	ncclResult_t rc = conn_table_make(comm);
	struct conn **place, *c;

	if (rc)
		return rc;
	place = conn_place_make(comm, want);
	ASSERT(!place || !*place);
	c = place ? os_alloc(sizeof *c, "connection") : NULL;
	if (!c) {
		WARN("no memory for the connection to rank %d on channel %d", want->peer,
		     want->channel);
		return ncclSystemError;
	}
	c->comm = comm;
	c->peer = want->peer;
	c->channel = want->channel;
	c->nic = want->nic;
	c->is_send = want->is_send;
	c->index = want->index;
	c->slot = want->end >= 0 ? want->end : comm->nends + comm->conns->slots++;
	comm->conns->count++;
	*place = *out = c;
	if (want->end >= 0)
		comm->want[want->end].conn = c;
	return ncclSuccess;
}

static void transport_conn_close(struct conn *c)
{
	if (c->transport)
		transport_dir_of(c)->close(c);
	ASSERT(!c->proxy && !c->state);
	if (c->slot < c->comm->nends)
		c->comm->want[c->slot].conn = NULL;
	os_free(c);
}

/* In reverse order of the indexes. */
void transport_conns_close(struct ncclComm *comm)
{
	struct conn_table *t = comm->conns;

	for (int32_t i = comm->nranks * CONN_INDEX_COUNT - 1; t && i >= 0; i--) {
		for (int32_t k = 2 * comm->pair_channels - 1; t->of[i] && k >= 0; k--) {
			if (!t->of[i][k])
				continue;
			transport_conn_close(t->of[i][k]);
			t->count--;
		}
		os_free(t->of[i]);
	}
	if (!t)
		return;
	ASSERT(!t->count);
	os_free(t);
	comm->conns = NULL;
}
