/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A communicator's connections: a chain per peer, because a rank has few connections to one peer
 * and none to most. Main task only.
 */
#include "core/base/log.h"
#include "core/transport/transport_internal.h"

struct conn_table {
	int32_t count;
	int32_t slots; /* given to connections that have a copy of their own on the device */
	struct conn *of_peer[]; /* [nranks], the newest first */
};

static ncclResult_t conn_table_make(struct ncclComm *comm)
{
	struct conn_table *t;

	if (comm->conns)
		return ncclSuccess;
	t = os_alloc(sizeof *t + (size_t)comm->nranks * sizeof t->of_peer[0], "connection table");
	if (!t) {
		WARN("rank %d: no memory for the table of connections to %d ranks", comm->rank,
		     comm->nranks);
		return ncclSystemError;
	}
	comm->conns = t;
	return ncclSuccess;
}

struct conn *transport_conn_find(const struct ncclComm *comm, const struct conn_want *want)
{
	struct conn *c = comm->conns ? comm->conns->of_peer[want->peer] : NULL;

	ASSERT(want->peer >= 0 && want->peer < comm->nranks);
	while (c && !(c->channel == want->channel && c->is_send == want->is_send &&
		      c->index == want->index))
		c = c->next;
	return c;
}

ncclResult_t transport_conn_add(struct ncclComm *comm, const struct conn_want *want,
				struct conn **out)
{
	ncclResult_t rc = conn_table_make(comm);
	struct conn *c;

	if (rc)
		return rc;
	ASSERT(!transport_conn_find(comm, want));
	c = os_alloc(sizeof *c, "connection");
	if (!c) {
		WARN("no memory for the connection to rank %d on channel %d", want->peer,
		     want->channel);
		return ncclSystemError;
	}
	c->comm = comm;
	c->peer = want->peer;
	c->channel = want->channel;
	c->is_send = want->is_send;
	c->index = want->index;
	c->next = comm->conns->of_peer[want->peer];
	comm->conns->of_peer[want->peer] = c;
	c->slot = c->index == CONN_COLLECTIVE ? -1 : comm->conns->slots++;
	comm->conns->count++;
	*out = c;
	return ncclSuccess;
}

static void transport_conn_close(struct conn *c)
{
	if (c->transport)
		transport_dir_of(c)->close(c);
	ASSERT(!c->proxy && !c->state);
	os_free(c);
}

void transport_conns_close(struct ncclComm *comm)
{
	struct conn_table *t = comm->conns;

	for (int32_t peer = comm->nranks - 1; t && peer >= 0; peer--) {
		while (t->of_peer[peer]) {
			struct conn *c = t->of_peer[peer];

			t->of_peer[peer] = c->next;
			t->count--;
			transport_conn_close(c);
		}
	}
	if (!t)
		return;
	ASSERT(!t->count);
	os_free(t);
	comm->conns = NULL;
}
