/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of a communicator agree to form another one. */
#include "core/comm/comm_child.h"

#include "core/base/log.h"
#include "core/bootstrap/bootstrap.h"
#include "core/comm/comm_internal.h"
#include "core/os/check.h"

/* Tags of messages of the parent's bootstrap. Two splits of one parent need no different tags: the
 * messages of a rank arrive in the order of its calls. */
#define CHILD_TAG_ROWS 0x43680001 /* and the next one */
#define CHILD_TAG_ID   0x43680003

/* The wire format: arguments of one rank, little-endian. */
struct child_row {
	int32_t color; /* of ncclCommGrow: the size of the child */
	int32_t key;   /* of ncclCommGrow: 1 if the rank has the id, else 0 */
};
DOPPEL_CHECK_SIZE(struct child_row, 8);

/* A member while the members are sorted. */
struct child_place {
	int32_t key, rank;
};

/* ---- the members ---------------------------------------------------------------------------- */

/* Reports the first other rank whose call failed. */
static ncclResult_t child_rows_check(const struct ncclComm *parent, const struct child_row *rows)
{
	for (int32_t r = 0; r < parent->nranks; r++) {
		if (r == parent->rank || rows[r].color != COMM_CHILD_FAILED)
			continue;
		WARN("rank %d: the call of rank %d failed, and no rank can form a communicator",
		     parent->rank, r);
		return ncclRemoteError;
	}
	return ncclSuccess;
}

/* Gathers the rows of all ranks; *rows is NULL after an error, and otherwise owned by the
 * caller. */
static ncclResult_t child_rows_gather(struct ncclComm *parent, const char *call,
				      struct child_row own, struct child_row **rows)
{
	ncclResult_t rc = ncclSystemError;

	*rows = os_alloc((size_t)parent->nranks * sizeof **rows, "arguments of all ranks");
	if (*rows) {
		(*rows)[parent->rank] = own;
		rank_forms(parent, call, true, -1);
		rank_bootstrap_claim(parent);
		rc = rank_error(parent, bootstrap_rows(parent->bootstrap, CHILD_TAG_ROWS, *rows,
						       sizeof **rows));
		rank_bootstrap_release(parent);
		rank_forms(parent, NULL, false, -1);
	} else {
		WARN("rank %d: no memory for the arguments of %d ranks", parent->rank,
		     parent->nranks);
	}
	if (rc)
		rank_set_async_error(parent, rc);
	if (!rc)
		rc = child_rows_check(parent, *rows);
	if (!rc)
		return ncclSuccess;
	os_free(*rows);
	*rows = NULL;
	return rc;
}

static ncclResult_t child_members_alloc(const struct ncclComm *parent, struct comm_child *out)
{
	out->members = os_alloc((size_t)parent->nranks * sizeof *out->members,
				"members of a communicator");
	if (out->members)
		return ncclSuccess;
	WARN("rank %d: no memory for %d members", parent->rank, parent->nranks);
	return ncclSystemError;
}

/* Inserts a member after all with the same key or a smaller one. */
static void child_place_insert(struct child_place *places, int32_t n, struct child_place place)
{
	while (n && places[n - 1].key > place.key) {
		places[n] = places[n - 1];
		n--;
	}
	places[n] = place;
}

/* Sets the members from the rows: the ranks of this rank's color, sorted. `places` is scratch
 * space for all ranks. */
static void child_members_set(const struct ncclComm *parent, const struct child_row *rows,
			      struct child_place *places, struct comm_child *out)
{
	for (int32_t r = 0; r < parent->nranks; r++)
		if (rows[r].color == rows[parent->rank].color)
			child_place_insert(places, out->n++, (struct child_place){rows[r].key, r});
	for (int32_t i = 0; i < out->n; i++) {
		out->members[i] = places[i].rank;
		if (places[i].rank == parent->rank)
			out->rank = i;
	}
	out->nranks = out->n;
	ASSERT(out->rank >= 0); /* a rank has its own color */
}

static ncclResult_t child_split(const struct ncclComm *parent, const struct child_row *rows,
				struct comm_child *out)
{
	struct child_place *places =
		os_alloc((size_t)parent->nranks * sizeof *places, "members of a split");
	ncclResult_t rc = child_members_alloc(parent, out);

	if (places && !rc) {
		child_members_set(parent, rows, places, out);
	} else if (!rc) {
		WARN("ncclCommSplit: rank %d: no memory for %d members", parent->rank,
		     parent->nranks);
		rc = ncclSystemError;
	}
	os_free(places);
	return rc;
}

ncclResult_t comm_child_split(struct ncclComm *parent, int color, int key, struct comm_child *out)
{
	struct child_row *rows;
	ncclResult_t rc;

	ASSERT(color >= 0 || color == NCCL_SPLIT_NOCOLOR || color == COMM_CHILD_FAILED);
	*out = (struct comm_child){.rank = -1, .call = "ncclCommSplit", .met = true};
	rc = child_rows_gather(parent, out->call, (struct child_row){color, key}, &rows);
	if (!rc && color >= 0) {
		rc = child_split(parent, rows, out);
		if (rc) /* the other members wait for this one */
			rank_set_async_error(parent, rc);
	}
	os_free(rows);
	return rc;
}

/* ---- fewer ranks, and more ------------------------------------------------------------------ */

static bool child_is_listed(const int *list, int n, int32_t rank)
{
	for (int i = 0; i < n; i++)
		if (list[i] == rank)
			return true;
	return false;
}

ncclResult_t comm_child_list_check(const struct ncclComm *parent, const char *call,
				   const int *excluded, int n)
{
	for (int i = 0; i < n; i++) {
		if (excluded[i] < 0 || excluded[i] >= parent->nranks)
			WARN("%s: excludeRanksList[%d] is %d, expected 0 to %d", call, i,
			     excluded[i], parent->nranks - 1);
		else if (child_is_listed(excluded, i, excluded[i]))
			WARN("%s: excludeRanksList[%d] is %d, which is listed before", call, i,
			     excluded[i]);
		else if (excluded[i] == parent->rank)
			WARN("%s: excludeRanksList[%d] is %d, the calling rank; only ranks that "
			     "remain make this call",
			     call, i, excluded[i]);
		else
			continue;
		return ncclInvalidArgument;
	}
	return ncclSuccess;
}

ncclResult_t comm_child_without(const struct ncclComm *parent, const char *call,
				const int *excluded, int n, struct comm_child *out)
{
	ncclResult_t rc;

	*out = (struct comm_child){.rank = -1, .call = call};
	rc = child_members_alloc(parent, out);
	for (int32_t r = 0; r < parent->nranks && !rc; r++) {
		if (child_is_listed(excluded, n, r))
			continue;
		if (r == parent->rank)
			out->rank = out->n;
		out->members[out->n++] = r;
	}
	out->nranks = out->n;
	ASSERT(rc || out->rank >= 0);
	return rc;
}

/* Finds the rank that has the id. The sizes must be equal. */
static ncclResult_t child_grow_check(const struct ncclComm *parent, const struct child_row *rows,
				     int32_t *maker)
{
	int32_t ids = 0;

	for (int32_t r = 0; r < parent->nranks; r++) {
		if (rows[r].color != rows[0].color) {
			WARN("ncclCommGrow: nRanks is %d on rank 0 and %d on rank %d",
			     rows[0].color, rows[r].color, r);
			return ncclInvalidArgument;
		}
		ids += rows[r].key;
		*maker = rows[r].key ? r : *maker;
	}
	if (ids == 1)
		return ncclSuccess;
	WARN("ncclCommGrow: %d ranks of the communicator pass uniqueId, expected one: that of "
	     "ncclCommGetUniqueId",
	     ids);
	return ncclInvalidArgument;
}

ncclResult_t comm_child_grow(struct ncclComm *parent, int nranks, bool has_id,
			     struct comm_child *out)
{
	struct child_row *rows;
	ncclResult_t rc;

	*out = (struct comm_child){
		.rank = -1, .nranks = nranks, .call = "ncclCommGrow", .met = true};
	rc = child_rows_gather(parent, out->call, (struct child_row){nranks, has_id}, &rows);
	if (!rc && nranks != COMM_CHILD_FAILED)
		rc = child_grow_check(parent, rows, &out->maker);
	os_free(rows);
	if (!rc)
		rc = child_members_alloc(parent, out);
	for (int32_t r = 0; r < parent->nranks && !rc; r++)
		out->members[out->n++] = r;
	out->rank = rc ? -1 : parent->rank;
	return rc;
}

/* ---- the id --------------------------------------------------------------------------------- */

static ncclResult_t child_id_pass(const struct ncclComm *parent, const struct comm_child *child,
				  ncclResult_t made, ncclUniqueId *id)
{
	ncclResult_t rc = ncclSuccess;

	if (child->rank != child->maker)
		return bootstrap_recv(parent->bootstrap, child->members[child->maker], CHILD_TAG_ID,
				      id, sizeof *id);
	/* An empty message reports that there is no id. */
	for (int32_t i = 0; i < child->n && !rc; i++)
		if (i != child->maker)
			rc = bootstrap_send(parent->bootstrap, child->members[i], CHILD_TAG_ID, id,
					    made ? 0 : sizeof *id);
	return made ? made : rc;
}

/* Returns the rank for whose message this rank waits; -1: it waits for none. */
static int32_t child_awaited(const struct comm_child *child)
{
	return child->rank == child->maker ? -1 : child->members[child->maker];
}

ncclResult_t comm_child_share_id(struct ncclComm *parent, const struct comm_child *child,
				 ncclResult_t made, ncclUniqueId *id)
{
	ncclResult_t rc;

	ASSERT(child->rank >= 0 && child->rank < child->n);
	rank_forms(parent, child->call, !child->met, child_awaited(child));
	rank_bootstrap_claim(parent);
	rc = rank_error(parent, child_id_pass(parent, child, made, id));
	rank_bootstrap_release(parent);
	rank_forms(parent, NULL, false, -1);
	if (rc && rc != made)
		rank_set_async_error(parent, rc);
	return rc;
}

void comm_child_free(struct comm_child *child)
{
	os_free(child->members);
	child->members = NULL;
}

/* ---- the parent during the init -------------------------------------------------------------- */

/* Time of an init before its parent is looked at. */
#define COMM_CHILD_PATIENCE_NS 1000000000ull
/* Without a ring of the parent: the longest wait for the root's answer, and the time from the end
 * of the awaited rank to the error. That is longer than all attempts of a rank to connect with the
 * root (sock.h). Ranks that did not make the id begin so long after the one that did: they query
 * the root only if that one cannot look. */
#define COMM_CHILD_QUERY_NS 100000000ull
#define COMM_CHILD_LEFT_NS  5000000000ull

void comm_child_of(struct ncclComm *child, struct ncclComm *parent, struct comm_child *ranks)
{
	bool failed = shared_load_u32(&parent->async_error, SHARED_ACQUIRE) != ncclSuccess;

	/* after a meeting of all ranks only a later failure can be meant */
	child->life->parent_counts =
		!shared_load_u32(&parent->revoked, SHARED_ACQUIRE) && (ranks->met || !failed);
	child->life->parent = parent;
	child->life->parent_hash = parent->id_hash;
	child->life->parent_ns = os_now_ns();
	if (child->life->parent_counts || ranks->n != child->nranks)
		return;
	child->life->members = ranks->members;
	ranks->members = NULL;
	child->life->look_ns = child->life->parent_ns;
	if (ranks->rank != ranks->maker)
		child->life->look_ns += COMM_CHILD_LEFT_NS;
}

/* ---- a rank that left ----------------------------------------------------------------------- */

/* Checks whether the rank of the parent has left it. False also while a call uses the parent's
 * bootstrap: that call finds it out. */
static bool child_has_left(struct ncclComm *parent, int32_t rank)
{
	bool left = false;

	os_mutex_lock(&parent->watch);
	if (!parent->bootstrap_taken && rank != parent->rank)
		left = bootstrap_rank_left(parent->bootstrap, rank);
	os_mutex_unlock(&parent->watch);
	return left;
}

/* Records a look. Returns true if `awaited`, a rank of the child, had left long ago; -1: no awaited
 * rank has left. */
static bool child_look_record(struct comm_life *life, int32_t awaited)
{
	if (awaited < 0 || awaited != life->awaited || !life->awaited_ns)
		life->awaited_ns = awaited < 0 ? 0 : os_now_ns();
	life->awaited = awaited;
	return life->awaited_ns && os_now_ns() - life->awaited_ns >= COMM_CHILD_LEFT_NS;
}

/* Without a ring of the parent: returns an error if the init awaits a rank that has left the parent
 * before it checked in. It can have received no id. A rank that has the id may also leave early;
 * it then checks in within the time that attempts to connect take. */
static ncclResult_t child_member_look(struct ncclComm *child, struct ncclComm *parent)
{
	const int32_t *members = child->life->members;
	int32_t awaited;

	if (!members || !parent->bootstrap || os_now_ns() < child->life->look_ns)
		return ncclSuccess;
	awaited = bootstrap_root_awaits(&child->life->id, child->rank, child->nranks,
					os_now_ns() + COMM_CHILD_QUERY_NS);
	if (awaited >= 0 && !child_has_left(parent, members[awaited]))
		awaited = -1;
	if (!child_look_record(child->life, awaited))
		return ncclSuccess;
	WARN("%s: rank %d: rank %d has left the communicator and does not join the new one",
	     child->life->made_by, parent->rank, members[awaited]);
	return ncclRemoteError;
}

ncclResult_t comm_child_hopeless(struct ncclComm *child)
{
	struct ncclComm *parent = child->life->parent;
	ncclResult_t rc;

	ASSERT(parent);
	if (comm_enter(parent, NULL, COMM_NEED_ANY))
		return ncclInternalError;
	if (parent->id_hash != child->life->parent_hash)
		rc = ncclInternalError;
	else
		rc = child->life->parent_counts ? comm_async_error(parent) : ncclSuccess;
	if (!rc && comm_is_aborted(parent))
		rc = ncclInternalError;
	if (!rc)
		rc = child_member_look(child, parent);
	comm_leave(parent);
	return rc;
}

void comm_child_look(struct ncclComm *child)
{
	ncclResult_t rc;

	/* a rank that has the child may abort the parent, and this one is about to have it */
	if (!child->life->parent || child->life->members ||
	    os_now_ns() - child->life->parent_ns < COMM_CHILD_PATIENCE_NS)
		return;
	rc = comm_child_hopeless(child);
	if (!rc || rc == ncclInternalError)
		return;
	rank_set_async_error(child, rc);
	shared_store_u32(child->abort, 1, SHARED_RELEASE);
}

bool comm_child_is_watched(const struct ncclComm *child)
{
	return child->life->members != NULL;
}
