/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of a communicator agree to form another one. */
#include "core/comm/child.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/bootstrap/bootstrap.h"
#include "core/os/check.h"

/* Tags of messages of the parent's bootstrap. Two splits of one parent need no different tags: the
 * messages of a rank arrive in the order of its calls. */
#define CHILD_TAG_ROW  0x43680001
#define CHILD_TAG_ROWS 0x43680002
#define CHILD_TAG_ID   0x43680003

/* The wire format: arguments of one rank, little-endian. */
struct child_row {
	int32_t color, key;
};
DOPPEL_CHECK_SIZE(struct child_row, 8);

/* A member while the members are sorted. */
struct child_place {
	int32_t key, rank;
};

/* ---- the members ---------------------------------------------------------------------------- */

/* Gathers the rows of all ranks at rank 0. rows[0] is rank 0's own. */
static ncclResult_t child_rows_collect(const struct ncclComm *parent, struct child_row *rows)
{
	ncclResult_t rc = ncclSuccess;

	ASSERT(parent->rank == 0);
	for (int32_t r = 1; r < parent->nranks && !rc; r++)
		rc = bootstrap_recv(parent->bootstrap, r, CHILD_TAG_ROW, &rows[r], sizeof rows[r]);
	for (int32_t r = 1; r < parent->nranks && !rc; r++)
		rc = bootstrap_send(parent->bootstrap, r, CHILD_TAG_ROWS, rows,
				    (size_t)parent->nranks * sizeof *rows);
	return rc;
}

/* Gathers the rows of all ranks on all ranks, by way of rank 0. */
static ncclResult_t child_rows_gather(const struct ncclComm *parent, struct child_row *rows)
{
	ncclResult_t rc;

	if (parent->rank == 0)
		return child_rows_collect(parent, rows);
	rc = bootstrap_send(parent->bootstrap, 0, CHILD_TAG_ROW, &rows[parent->rank],
			    sizeof *rows);
	if (!rc)
		rc = bootstrap_recv(parent->bootstrap, 0, CHILD_TAG_ROWS, rows,
				    (size_t)parent->nranks * sizeof *rows);
	return rc;
}

static int child_place_compare(const void *a, const void *b)
{
	const struct child_place *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->rank < y->rank ? -1 : 1; /* no two members have the same rank */
}

/* Sets the members from the rows: the ranks of this rank's color, sorted. `places` is scratch
 * space for all ranks. */
static void child_members_set(const struct ncclComm *parent, const struct child_row *rows,
			      struct child_place *places, struct comm_child *out)
{
	for (int32_t r = 0; r < parent->nranks; r++)
		if (rows[r].color == rows[parent->rank].color)
			places[out->n++] = (struct child_place){rows[r].key, r};
	qsort(places, (size_t)out->n, sizeof *places, child_place_compare);
	for (int32_t i = 0; i < out->n; i++) {
		out->members[i] = places[i].rank;
		if (places[i].rank == parent->rank)
			out->rank = i;
	}
	ASSERT(out->rank >= 0); /* a rank has its own color */
}

/* Reports the first other rank whose call failed. */
static ncclResult_t child_rows_check(const struct ncclComm *parent, const struct child_row *rows)
{
	for (int32_t r = 0; r < parent->nranks; r++) {
		if (r == parent->rank || rows[r].color != COMM_CHILD_FAILED)
			continue;
		WARN("ncclCommSplit: rank %d: the call of rank %d failed, and no rank can form a "
		     "communicator",
		     parent->rank, r);
		return ncclRemoteError;
	}
	return ncclSuccess;
}

static ncclResult_t child_split(struct ncclComm *parent, struct child_row own,
				struct comm_child *out)
{
	const size_t n = (size_t)parent->nranks;
	struct child_row *rows = os_alloc(n * sizeof *rows, "rows of a split");
	struct child_place *places = os_alloc(n * sizeof *places, "members of a split");
	ncclResult_t rc = ncclSystemError;

	out->members = os_alloc(n * sizeof *out->members, "members of a communicator");
	if (rows && places && out->members) {
		rows[parent->rank] = own;
		rank_bootstrap_claim(parent);
		rc = child_rows_gather(parent, rows);
		rank_bootstrap_release(parent);
	} else {
		WARN("ncclCommSplit: rank %d: no memory for the members of %d ranks", parent->rank,
		     parent->nranks);
	}
	if (rc)
		rank_set_async_error(parent, rc);
	if (!rc)
		rc = child_rows_check(parent, rows);
	if (!rc && own.color >= 0)
		child_members_set(parent, rows, places, out);
	os_free(places);
	os_free(rows);
	return rc;
}

ncclResult_t comm_child_split(struct ncclComm *parent, int color, int key, struct comm_child *out)
{
	ASSERT(color >= 0 || color == NCCL_SPLIT_NOCOLOR || color == COMM_CHILD_FAILED);
	*out = (struct comm_child){.rank = -1};
	return child_split(parent, (struct child_row){color, key}, out);
}

/* ---- the id --------------------------------------------------------------------------------- */

static ncclResult_t child_id_pass(const struct ncclComm *parent, const struct comm_child *child,
				  ncclResult_t made, ncclUniqueId *id)
{
	ncclResult_t rc = ncclSuccess;

	if (child->rank > 0)
		return bootstrap_recv(parent->bootstrap, child->members[0], CHILD_TAG_ID, id,
				      sizeof *id);
	/* An empty message reports that there is no id. */
	for (int32_t i = 1; i < child->n && !rc; i++)
		rc = bootstrap_send(parent->bootstrap, child->members[i], CHILD_TAG_ID, id,
				    made ? 0 : sizeof *id);
	return made ? made : rc;
}

ncclResult_t comm_child_share_id(struct ncclComm *parent, const struct comm_child *child,
				 ncclResult_t made, ncclUniqueId *id)
{
	ncclResult_t rc;

	ASSERT(child->rank >= 0 && child->rank < child->n);
	rank_bootstrap_claim(parent);
	rc = child_id_pass(parent, child, made, id);
	rank_bootstrap_release(parent);
	if (rc && rc != made)
		rank_set_async_error(parent, rc);
	return rc;
}

void comm_child_free(struct comm_child *child)
{
	os_free(child->members);
	child->members = NULL;
}
