/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls that make communicators from others: split, shrink and grow, and ncclCommRevoke, which
 * prepares a communicator for them. api_child.c runs them.
 */
#include <string.h>

#include "core/api/api.h"
#include "core/base/log.h"

/* ---- split ---------------------------------------------------------------------------------- */

static ncclResult_t split_form(const struct api_child *child, struct comm_child *ranks)
{
	return comm_child_split(child->parent, child->refused ? COMM_CHILD_FAILED : child->color,
				child->key, ranks);
}

static ncclResult_t split_check(const char *call, int color, ncclComm_t *newcomm)
{
	if (!newcomm)
		WARN("%s: newcomm is NULL, expected the address of an ncclComm_t", call);
	else if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
		WARN("%s: color is %d, expected at least 0, or NCCL_SPLIT_NOCOLOR (%d)", call,
		     color, NCCL_SPLIT_NOCOLOR);
	else
		return ncclSuccess;
	return ncclInvalidArgument;
}

API_TWIN(ncclCommSplit);
API_WEAK ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
				    ncclConfig_t *config)
{
	struct api_child child = {.parent = comm,
				  .call = "ncclCommSplit",
				  .out = newcomm,
				  .form = split_form,
				  .share = offsetof(ncclConfig_t, splitShare),
				  .color = color,
				  .key = key};
	ncclResult_t rc = comm_enter(comm, child.call, COMM_NEED_PARENT);

	if (newcomm)
		*newcomm = NCCL_COMM_NULL;
	if (rc)
		return api_return(rc);
	INFO(LOG_CALL, "ncclCommSplit: comm %p rank %d color %d key %d", (const void *)comm,
	     comm->rank, color, key);
	child.refused = split_check(child.call, color, newcomm);
	if (!child.refused && color != NCCL_SPLIT_NOCOLOR)
		child.refused = comm_config_parse_child(config, comm, &child.config);
	rc = api_child_run(&child);
	comm_leave(comm);
	return api_return(rc);
}

/* ---- shrink --------------------------------------------------------------------------------- */

/* The members are known from the start. Every rank has its own copy of the list, so this one takes
 * it over. */
static ncclResult_t shrink_form(const struct api_child *child, struct comm_child *ranks)
{
	*ranks = child->ranks;
	return ncclSuccess;
}

/* Checks all arguments, before NCCL_SHRINK_ABORT stops anything. */
static ncclResult_t shrink_check(const struct ncclComm *comm, const char *call, const int *excluded,
				 int n, int flags, ncclComm_t *newcomm)
{
	if (!newcomm)
		WARN("%s: newcomm is NULL, expected the address of an ncclComm_t", call);
	else if (n < 1 || n >= comm->nranks)
		WARN("%s: excludeRanksCount is %d, expected 1 to %d", call, n, comm->nranks - 1);
	else if (!excluded)
		WARN("%s: excludeRanksList is NULL, expected %d ranks", call, n);
	else if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT)
		WARN("%s: shrinkFlags is 0x%x, expected NCCL_SHRINK_DEFAULT or NCCL_SHRINK_ABORT",
		     call, (unsigned)flags);
	else
		return comm_child_list_check(comm, call, excluded, n);
	return ncclInvalidArgument;
}

/* The caller has entered the parent. */
static ncclResult_t shrink(struct api_child *child, const int *excluded, int n,
			   ncclConfig_t *config, bool stops)
{
	struct ncclComm *comm = child->parent;
	ncclResult_t rc = comm_config_parse_child(config, comm, &child->config);

	if (!rc && stops)
		rc = comm_revoke(comm);
	if (!rc)
		rc = comm_child_without(comm, child->call, excluded, n, &child->ranks);
	return rc ? rc : api_child_run(child);
}

API_TWIN(ncclCommShrink);
API_WEAK ncclResult_t ncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
				     ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags)
{
	struct api_child child = {
		.parent = comm, .call = "ncclCommShrink", .out = newcomm, .form = shrink_form};
	const bool stops = shrinkFlags == NCCL_SHRINK_ABORT;
	ncclResult_t rc = comm_enter(comm, child.call, stops ? COMM_NEED_ALIVE : COMM_NEED_PARENT);

	if (!stops) /* a parent that is stopped shares nothing */
		child.share = offsetof(ncclConfig_t, shrinkShare);

	if (newcomm)
		*newcomm = NCCL_COMM_NULL;
	if (rc)
		return api_return(rc);
	INFO(LOG_CALL, "ncclCommShrink: comm %p rank %d without %d ranks, flags %d",
	     (const void *)comm, comm->rank, excludeRanksCount, shrinkFlags);
	rc = shrink_check(comm, child.call, excludeRanksList, excludeRanksCount, shrinkFlags,
			  newcomm);
	if (!rc)
		rc = shrink(&child, excludeRanksList, excludeRanksCount, config, stops);
	comm_leave(comm);
	return api_return(rc);
}

/* ---- grow ----------------------------------------------------------------------------------- */

static ncclResult_t grow_form(const struct api_child *child, struct comm_child *ranks)
{
	return comm_child_grow(child->parent, child->refused ? COMM_CHILD_FAILED : child->nranks,
			       child->has_id, ranks);
}

/* Keeps the id for the ncclCommGrow that follows. Returns false if there is one already. */
static bool grow_id_set(struct ncclComm *comm, const ncclUniqueId *id)
{
	struct registry_node *first = registry_lock();
	bool free = !comm->life->grow_pending;

	if (free && id) {
		comm->life->grow_id = *id;
		comm->life->grow_pending = true;
	}
	registry_unlock(first);
	return free;
}

/* Returns true if the id is that of the communicator. It is used up. */
static bool grow_id_take(struct ncclComm *comm, const ncclUniqueId *id)
{
	struct registry_node *first = registry_lock();
	bool same = comm->life->grow_pending && !memcmp(&comm->life->grow_id, id, sizeof *id);

	comm->life->grow_pending = comm->life->grow_pending && !same;
	registry_unlock(first);
	return same;
}

API_TWIN(ncclCommGetUniqueId);
API_WEAK ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *uniqueId)
{
	static const char call[] = "ncclCommGetUniqueId";
	ncclResult_t rc = comm_enter(comm, call, COMM_NEED_READY);

	if (rc)
		return api_return(rc);
	INFO(LOG_CALL, "%s: comm %p", call, (const void *)comm);
	if (!uniqueId) {
		WARN("%s: uniqueId is NULL", call);
		rc = ncclInvalidArgument;
	} else if (!grow_id_set(comm, NULL)) {
		WARN("%s: the communicator has an id that no ncclCommGrow has used yet", call);
		rc = ncclInvalidUsage;
	} else {
		rc = api_own_id(call, uniqueId);
		if (!rc)
			(void)grow_id_set(comm, uniqueId);
	}
	comm_leave(comm);
	return api_return(rc);
}

static ncclResult_t grow_check(struct ncclComm *comm, const char *call, int nranks, int rank,
			       const ncclUniqueId *id, ncclComm_t *newcomm)
{
	if (!newcomm)
		WARN("%s: newcomm is NULL, expected the address of an ncclComm_t", call);
	else if (nranks <= comm->nranks)
		WARN("%s: nRanks is %d, expected more than the %d ranks of the communicator", call,
		     nranks, comm->nranks);
	else if (rank != -1)
		WARN("%s: rank is %d, expected -1: ranks of the communicator keep theirs", call,
		     rank);
	else if (id && !grow_id_take(comm, id))
		WARN("%s: uniqueId is not the one that ncclCommGetUniqueId gave for this "
		     "communicator, or it is used up",
		     call);
	else
		return ncclSuccess;
	return ncclInvalidArgument;
}

/* A rank that joins. Its communicator is made from the id, like any first one. */
static ncclResult_t grow_join(int nranks, const ncclUniqueId *id, int rank, ncclComm_t *newcomm,
			      ncclConfig_t *config)
{
	if (!id || !newcomm) {
		WARN("ncclCommGrow: %s is NULL; a new rank passes %s", id ? "newcomm" : "uniqueId",
		     id ? "the address of an ncclComm_t"
			: "the id that a rank of the communicator got from ncclCommGetUniqueId");
		return ncclInvalidArgument;
	}
	return pncclCommInitRankConfig(newcomm, nranks, *id, rank, config);
}

/* A rank of the parent, which the caller has entered. */
static ncclResult_t grow(struct api_child *child, int rank, const ncclUniqueId *id,
			 ncclConfig_t *config)
{
	child->refused =
		grow_check(child->parent, child->call, child->nranks, rank, id, child->out);
	if (!child->refused)
		child->refused = comm_config_parse_child(config, child->parent, &child->config);
	child->has_id = id != NULL;
	if (id)
		child->id = *id;
	return api_child_run(child);
}

API_TWIN(ncclCommGrow);
API_WEAK ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId,
				   int rank, ncclComm_t *newcomm, ncclConfig_t *config)
{
	struct api_child child = {.parent = comm,
				  .call = "ncclCommGrow",
				  .out = newcomm,
				  .form = grow_form,
				  .nranks = nRanks};
	ncclResult_t rc;

	if (newcomm)
		*newcomm = NCCL_COMM_NULL;
	if (!comm)
		return api_return(grow_join(nRanks, uniqueId, rank, newcomm, config));
	rc = comm_enter(comm, child.call, COMM_NEED_READY);
	if (rc)
		return api_return(rc);
	INFO(LOG_CALL, "ncclCommGrow: comm %p rank %d nRanks %d%s", (const void *)comm, comm->rank,
	     nRanks, uniqueId ? ", with the id" : "");
	rc = grow(&child, rank, uniqueId, config);
	comm_leave(comm);
	return api_return(rc);
}

/* ---- revoke --------------------------------------------------------------------------------- */

API_TWIN(ncclCommRevoke);
API_WEAK ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags)
{
	ncclResult_t rc = comm_enter(comm, "ncclCommRevoke", COMM_NEED_ALIVE);

	if (rc)
		return api_return(rc);
	INFO(LOG_CALL, "ncclCommRevoke: comm %p", (const void *)comm);
	if (revokeFlags == NCCL_REVOKE_DEFAULT) {
		rc = comm_revoke(comm);
	} else {
		WARN("ncclCommRevoke: revokeFlags is 0x%x, expected NCCL_REVOKE_DEFAULT",
		     (unsigned)revokeFlags);
		rc = ncclInvalidArgument;
	}
	comm_leave(comm);
	return api_return(rc);
}
