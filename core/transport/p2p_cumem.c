/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pools of cuMem between processes of a host. What a neighbour maps a pool by is a descriptor, which goes through its
 * mailbox: a rank opens its own when it sets its first connection up, so it is there before the neighbour learns of
 * the connection. A letter has the number of the pool and the rank whose it is; letters that come before their
 * connection is looked at are kept.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/mem/cumem.h"
#include "core/os/mailbox.h"
#include "core/transport/p2p_internal.h"

#define P2P_CUMEM_WHAT "p2p connection memory"

/* A letter that came. */
struct p2p_letter {
	struct p2p_letter *next;
	uint64_t what;
	int fd;
};

static uint64_t p2p_letter_of(int32_t rank, uint32_t pool)
{
	return (uint64_t)(uint32_t)rank << 32 | pool;
}

static void p2p_box_name(const struct ncclComm *comm, int32_t rank,
			 char name[OS_MAILBOX_NAME_BYTES])
{
	snprintf(name, OS_MAILBOX_NAME_BYTES, "nccl-%016" PRIx64 "-%d", comm->id_hash, (int)rank);
}

ncclResult_t p2p_cumem_expect(struct ncclComm *comm)
{
	struct p2p_state *st = comm->p2p;
	char name[OS_MAILBOX_NAME_BYTES];
	int rc;

	if (st->has_box)
		return ncclSuccess;
	p2p_box_name(comm, comm->rank, name);
	rc = os_mailbox_open(name, &st->box);
	if (rc) {
		WARN("rank %d: no mailbox %s for descriptors of GPU memory: error %d", comm->rank,
		     name, rc);
		return ncclSystemError;
	}
	st->has_box = true;
	return ncclSuccess;
}

static ncclResult_t p2p_cumem_post(struct ncclComm *comm, const struct p2p_pool *pool, int32_t peer)
{
	char name[OS_MAILBOX_NAME_BYTES];
	ncclResult_t rc;
	int fd, posted;

	rc = cumem_export(&fd, pool->mem, P2P_CUMEM_WHAT);
	if (rc)
		goto err_close;
	p2p_box_name(comm, peer, name);
	posted = os_mailbox_post(name, p2p_letter_of(comm->rank, pool->number), fd);
	if (posted) {
		WARN("rank %d: the descriptor of its p2p memory does not reach rank %d: %s (error "
		     "%d)",
		     comm->rank, peer,
		     posted == ECONNREFUSED ? "that rank has left or is dead" : "mailbox", posted);
		rc = posted == ECONNREFUSED ? ncclRemoteError : ncclSystemError;
	}
err_close:
	if (fd >= 0)
		os_descriptor_close(fd);
	return rc;
}

ncclResult_t p2p_cumem_give(struct ncclComm *comm, int32_t peer)
{
	struct p2p_pool *pool = comm->p2p->pools;
	bool *given = &pool->given[transport_local_rank(comm, peer)];
	ncclResult_t rc = *given ? ncclSuccess : p2p_cumem_post(comm, pool, peer);

	*given = true;
	return rc;
}

/* ---- what comes ----------------------------------------------------------------------------- */

/* Empties the box. */
static ncclResult_t p2p_cumem_collect(struct ncclComm *comm)
{
	struct p2p_state *st = comm->p2p;
	uint64_t what;
	int fd, rc;

	while (!(rc = os_mailbox_take(st->box, &what, &fd))) {
		struct p2p_letter *l = os_alloc(sizeof *l, "descriptor of p2p memory");

		if (!l) {
			os_descriptor_close(fd);
			WARN("rank %d: no memory for a descriptor of p2p memory", comm->rank);
			return ncclSystemError;
		}
		*l = (struct p2p_letter){.next = st->letters, .what = what, .fd = fd};
		st->letters = l;
	}
	if (rc == EAGAIN)
		return ncclSuccess;
	WARN("rank %d: its mailbox cannot be read: error %d", comm->rank, rc);
	return ncclSystemError;
}

/* Takes the descriptor of that pool out of the letters; -1: it has not come. */
static int p2p_cumem_find(struct p2p_state *st, uint64_t what)
{
	struct p2p_letter **at = &st->letters;

	while (*at && (*at)->what != what)
		at = &(*at)->next;
	if (!*at)
		return -1;
	struct p2p_letter *l = *at;
	int fd = l->fd;

	*at = l->next;
	os_free(l);
	return fd;
}

ncclResult_t p2p_cumem_import(struct conn *c, struct p2p_import *im, struct wait *w)
{
	struct p2p_state *st = c->comm->p2p;
	const void *object = os_mailbox_object(st->box);
	uint64_t seq = os_event_seq(object);
	ncclResult_t rc = p2p_cumem_collect(c->comm);
	int fd;

	if (rc)
		return rc;
	fd = p2p_cumem_find(st, p2p_letter_of(im->peer, im->number));
	if (fd < 0) {
		*w = (struct wait){.on = object,
				   .want = seq,
				   .kind = WAIT_OBJECT,
				   .why = "descriptor of a neighbour's p2p memory",
				   .from = {im->peer, c->channel, -1, "p2p"}};
		return ncclInProgress;
	}
	rc = cumem_import((void **)&im->mem, im->cumem_bytes, fd, "a neighbour's " P2P_CUMEM_WHAT);
	os_descriptor_close(fd);
	return p2p_import_result(c->comm, im->peer, rc);
}

void p2p_cumem_close(struct p2p_state *st)
{
	while (st->letters) {
		struct p2p_letter *l = st->letters;

		st->letters = l->next;
		os_descriptor_close(l->fd);
		os_free(l);
	}
	if (st->has_box)
		os_mailbox_close(st->box);
	st->has_box = false;
}
