/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates and destroys communicators. */
#include <stdio.h>
#include <string.h>

#include "core/api/api.h"
#include "core/base/log.h"

/* ---- running inits -------------------------------------------------------------------------- */

/* Undoes an init. The task that claims the communicator first closes it: this one or one that
 * aborts. */
static void api_init_undo(struct ncclComm *comm, ncclComm_t *out, bool claimed)
{
	*out = NULL;
	if (!claimed && !comm_claim(comm))
		return;
	(void)comm_abort_set(comm);
	(void)comm_close(comm, false);
}

/* True if the list's error becomes this one: the first error. A rank that learns of the failure of
 * another rank of the group may be faster than that rank, whose error has the cause. */
static bool api_error_replaces(uint32_t kept, ncclResult_t error)
{
	return kept == ncclSuccess ||
	       (kept == ncclRemoteError && error != ncclRemoteError && error != ncclInternalError);
}

/* Records the error. Aborts the other inits of the same id, so that they do not wait without
 * end. */
static void api_init_failed(struct api_init *failed)
{
	struct api_init *list = failed->list;
	uint32_t kept = ncclSuccess;

	ASSERT(failed->result != ncclSuccess && failed->result != ncclInProgress);
	while (api_error_replaces(kept, failed->result) &&
	       !shared_cas_weak_u32(&list->error, &kept, (uint32_t)failed->result, SHARED_ACQ_REL))
		;
	for (struct api_init *i = list; i; i = i->next)
		if (i != failed && !i->child && i->id_hash == failed->id_hash)
			(void)comm_abort_set(i->comm);
}

static void api_init_task(void *arg)
{
	struct api_init *i = arg;

	ASSERT(i->list && (i->child || i->comm)); /* only a child's communicator is made here */
	if (i->child)
		i->result = api_init_form(i);
	if (i->result)
		api_init_failed(i);
	if (!i->comm)
		return;
	ASSERT(i->rank == i->comm->rank);
	i->result = api_child_init(i->comm, false);
	i->claimed = i->result != ncclSuccess && comm_claim(i->comm);
	comm_leave(i->comm);
	if (i->result)
		api_init_failed(i);
}

static ncclResult_t api_init_start(struct api_init *i)
{
	int e = os_task_start(&i->task, i->rank, "init", api_init_task, i);
	if (!e)
		return ncclSuccess;
	char text[96];
	const char *said = strerror_r(e, text, sizeof text);
	WARN("the task that initialises rank %d cannot be started: %s", i->rank, said);
	return ncclSystemError;
}

/* Undoes an init whose task cannot be started, as far as its task would. */
static void api_init_unstarted(struct api_init *i)
{
	i->task = NULL;
	if (i->child) {
		api_child_withdraw(i->child);
		shared_store_u32(&i->formed, 1, SHARED_RELEASE);
	} else {
		bootstrap_give_up(&i->comm->life->id, i->rank, i->comm->nranks, log_task_error());
		i->claimed = comm_claim(i->comm);
		comm_leave(i->comm);
	}
	api_init_failed(i);
}

/* Starts all inits concurrently: each waits for the others. */
static void api_inits_start(struct api_init *list)
{
	for (struct api_init *i = list; i; i = i->next) {
		i->result = api_init_start(i);
		if (i->result)
			api_init_unstarted(i);
	}
}

ncclResult_t api_inits_run(struct api_init *list)
{
	struct api_init *i, *next;
	ncclResult_t rc;

	if (!list)
		return ncclSuccess;
	for (i = list; i; i = i->next)
		i->list = list;
	if (list->next)
		api_inits_start(list);
	else
		api_init_task(list);
	for (i = list; i; i = i->next)
		if (i->task)
			os_thread_join(i->task);
	rc = (ncclResult_t)shared_load_u32(&list->error, SHARED_ACQUIRE);
	for (i = list; i; i = next) {
		next = i->next;
		ASSERT(rc || !i->result); /* the list has the error of each of its inits */
		if (rc && i->comm && (i->claimed || !i->result))
			api_init_undo(i->comm, i->out, i->claimed);
		else if (rc)
			*i->out = NULL; /* another task aborted it */
		/* A group may have made several communicators: close the root of each. */
		if (i->rank == 0)
			(void)api_root_close(i->root_hash);
		os_free(i);
	}
	return rc;
}

/* Makes the other ranks of the id fail instead of waiting for this rank. */
static void api_init_withdraw(const struct api_init *i)
{
	if (!api_root_close(i->root_hash))
		bootstrap_give_up(&i->comm->life->id, i->rank, i->comm->nranks, log_task_error());
}

void api_inits_discard(struct api_init *list)
{
	struct api_init *next;
	for (struct api_init *i = list; i; i = i->next) {
		const struct api_init *first = list;

		while (first->id_hash != i->id_hash)
			first = first->next;
		if (i->child)
			api_child_withdraw(i->child);
		else if (first == i)
			api_init_withdraw(i);
	}
	for (struct api_init *i = list; i; i = next) {
		bool claimed = i->comm && comm_claim(i->comm);

		ASSERT(!i->task); /* no init of the group has begun */
		next = i->next;
		if (i->comm)
			comm_leave(i->comm);
		if (claimed)
			api_init_undo(i->comm, i->out, true);
		os_free(i);
	}
}

/* Removes the init of `comm` from the calling task's open group, since the communicator ends before
 * the group does. The group uses the communicator until the init is over, so the end would wait for
 * itself. The other ranks of the id fail; those in this group fail by their abort words. */
static void api_init_drop(const struct ncclComm *comm)
{
	struct api_group *g = api_group();
	struct api_init **at = g ? &g->inits : NULL, *dropped;

	while (at && *at && ((*at)->child || (*at)->comm != comm))
		at = &(*at)->next;
	if (!at || !*at)
		return;
	dropped = *at;
	ASSERT(!dropped->task && dropped->id_hash == comm->id_hash); /* it has not begun */
	*at = dropped->next;
	if (!*at)
		g->inits_end = at;
	for (struct api_init *i = g->inits; i; i = i->next)
		if (!i->child && i->id_hash == dropped->id_hash)
			(void)comm_abort_set(i->comm);
	api_init_withdraw(dropped);
	comm_leave(dropped->comm);
	os_free(dropped);
}

/* ---- non-blocking --------------------------------------------------------------------------- */

static void api_init_background(void *arg)
{
	struct ncclComm *comm = arg;
	/* Otherwise ncclCommGetAsyncError looks at the parent, as often as the program polls. */
	ncclResult_t rc =
		comm_child_is_watched(comm) ? api_child_init(comm, true) : comm_init(comm);
	if (comm->rank == 0)
		(void)api_root_close(bootstrap_root_hash(&comm->life->id));
	if (rc)
		rank_set_async_error(comm, rc);
	comm_leave(comm);
}

ncclResult_t api_init_nonblocking(struct ncclComm *comm, ncclComm_t *out)
{
	int e = os_task_start(&comm->life->init_task, comm->rank, "init", api_init_background,
			      comm);
	if (!e)
		return ncclInProgress;
	char text[96];
	const char *said = strerror_r(e, text, sizeof text);
	WARN("the task that initialises rank %d cannot be started: %s", comm->rank, said);
	bootstrap_give_up(&comm->life->id, comm->rank, comm->nranks, log_task_error());
	comm_leave(comm);
	api_init_undo(comm, out, false);
	return ncclSystemError;
}

/* ---- creating ------------------------------------------------------------------------------- */

void api_init_later(struct api_group *g, struct api_init *i)
{
	ASSERT(!*g->inits_end && !i->next);
	*g->inits_end = i;
	g->inits_end = &i->next;
}

static ncclResult_t api_init_make(ncclComm_t *out, int nranks, const ncclUniqueId *id, int rank,
				  const ncclConfig_t *config)
{
	struct api_group *g = api_group();
	struct ncclComm *comm = NULL;
	struct api_init *i;
	ncclResult_t rc;

	ASSERT(rank >= 0 && rank < nranks);
	i = os_alloc(sizeof *i, "init");
	if (!i) {
		WARN("no memory to initialise rank %d", rank);
		bootstrap_give_up(id, rank, nranks, log_task_error());
		return ncclSystemError;
	}
	rc = comm_create(&comm, nranks, id, rank, config);
	if (rc) {
		bootstrap_give_up(id, rank, nranks, log_task_error());
		os_free(i);
		return rc;
	}
	*out = comm;
	if (!config->blocking) {
		os_free(i);
		return api_init_nonblocking(comm, out);
	}
	i->comm = comm;
	i->out = out;
	i->rank = rank;
	i->id_hash = comm->id_hash;
	i->root_hash = bootstrap_root_hash(id);
	if (!g)
		return api_inits_run(i);
	api_init_later(g, i);
	return ncclSuccess;
}

static ncclResult_t api_init_rank(ncclComm_t *out, int nranks, const ncclUniqueId *id, int rank,
				  const ncclConfig_t *config)
{
	int32_t before = os_work_for(rank);
	INFO(LOG_CALL, "ncclCommInitRank: nranks %d rank %d blocking %d", nranks, rank,
	     config->blocking);
	ncclResult_t rc = api_init_make(out, nranks, id, rank, config);

	(void)os_work_for(before);
	/* The id is useless without rank 0. */
	if (rc && rc != ncclInProgress && rank == 0)
		(void)api_root_close(bootstrap_root_hash(id));
	return rc;
}

/* Reports a call that failed before its init began, so that the other ranks of the id fail instead
 * of waiting. */
static void api_init_refused(const ncclUniqueId *id, int nranks, int rank, ncclResult_t rc)
{
	if (!rc || nranks < 2 || rank < 0 || rank >= nranks)
		return;
	bootstrap_give_up(id, rank, nranks, log_task_error());
	if (rank == 0)
		(void)api_root_close(bootstrap_root_hash(id));
}

static ncclResult_t api_init_check(const char *call, ncclComm_t *out, int nranks, int rank)
{
	if (!out)
		WARN("%s: comm is NULL, expected the address of an ncclComm_t", call);
	else if (nranks < 1)
		WARN("%s: nranks is %d, expected at least 1", call, nranks);
	else if (rank < 0 || rank >= nranks)
		WARN("%s: rank is %d, expected 0 to %d", call, rank, nranks - 1);
	else
		return ncclSuccess;
	return ncclInvalidArgument;
}

API_TWIN(ncclCommInitRankConfig);
API_WEAK ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId,
					     int rank, ncclConfig_t *config)
{
	ncclConfig_t full;
	ncclResult_t rc = api_init_check("ncclCommInitRankConfig", comm, nranks, rank);
	if (!rc)
		rc = comm_config_parse(config, &full);
	api_init_refused(&commId, nranks, rank, rc);
	if (!rc)
		rc = api_init_rank(comm, nranks, &commId, rank, &full);
	return api_return(rc);
}

API_TWIN(ncclCommInitRank);
API_WEAK ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank)
{
	ncclConfig_t full;
	ncclResult_t rc = api_init_check("ncclCommInitRank", comm, nranks, rank);
	if (!rc)
		rc = comm_config_parse(NULL, &full);
	api_init_refused(&commId, nranks, rank, rc);
	if (!rc)
		rc = api_init_rank(comm, nranks, &commId, rank, &full);
	return api_return(rc);
}

static ncclResult_t api_init_all_check(ncclComm_t *comm, int ndev, const int *devlist)
{
	int count = 0;
	cudaError_t e;
	if (!comm || ndev < 1) {
		WARN("ncclCommInitAll: %s",
		     comm ? "ndev is less than 1"
			  : "comm is NULL, expected an array of ndev communicators");
		return ncclInvalidArgument;
	}
	e = cudaGetDeviceCount(&count);
	if (e != cudaSuccess) {
		WARN("ncclCommInitAll: cudaGetDeviceCount: %s", cudaGetErrorString(e));
		return ncclUnhandledCudaError;
	}
	for (int i = 0; i < ndev; i++) {
		int dev = devlist ? devlist[i] : i;
		if (dev < 0 || dev >= count) {
			WARN("ncclCommInitAll: device %d of rank %d does not exist; there are %d",
			     dev, i, count);
			return ncclInvalidUsage;
		}
		for (int j = 0; devlist && j < i; j++) {
			if (devlist[j] != dev)
				continue;
			WARN("ncclCommInitAll: device %d is listed for ranks %d and %d", dev, j, i);
			return ncclInvalidUsage;
		}
	}
	return ncclSuccess;
}

static ncclResult_t api_init_all_ranks(ncclComm_t *comm, int ndev, const int *devlist,
				       const ncclUniqueId *id, const ncclConfig_t *config)
{
	ncclResult_t rc = ncclSuccess;
	for (int i = 0; i < ndev && !rc; i++) {
		int dev = devlist ? devlist[i] : i;
		cudaError_t e = cudaSetDevice(dev);
		if (e != cudaSuccess) {
			WARN("ncclCommInitAll: cudaSetDevice(%d): %s", dev, cudaGetErrorString(e));
			rc = ncclUnhandledCudaError;
		} else {
			rc = api_init_rank(&comm[i], ndev, id, i, config);
		}
	}
	return api_return(rc);
}

API_TWIN(ncclCommInitAll);
API_WEAK ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist)
{
	ncclUniqueId id;
	ncclConfig_t full;
	int device;
	ncclResult_t rc = api_init_all_check(comm, ndev, devlist), end;

	if (!rc)
		rc = comm_config_parse(NULL, &full);
	if (!rc)
		rc = pncclGetUniqueId(&id);
	if (rc)
		return api_return(rc);
	rc = pncclGroupStart();
	if (!rc) {
		full.blocking = 1;
		device = comm_device_save();
		rc = api_init_all_ranks(comm, ndev, devlist, &id, &full);
		end = pncclGroupEnd();
		rc = rc ? rc : end;
		comm_device_restore(device);
	}
	if (rc)
		(void)api_root_close(bootstrap_id_hash(&id)); /* no other process has the id */
	return api_return(rc);
}

/* ---- ending --------------------------------------------------------------------------------- */

API_TWIN(ncclCommFinalize);
API_WEAK ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	ncclResult_t rc = comm_enter(comm, "ncclCommFinalize", COMM_NEED_FINALIZE);
	INFO(LOG_CALL, "ncclCommFinalize: comm %p", (const void *)comm);
	if (rc)
		return api_return(rc);
	rc = comm->config.blocking ? comm_finalize(comm) : comm_finalize_begin(comm);
	if (rc && rc != ncclInProgress)
		shared_store_u32(&comm->error_given, 1, SHARED_RELAXED);
	comm_leave(comm);
	return api_return(rc);
}

API_TWIN(ncclCommDestroy);
API_WEAK ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	ncclResult_t rc, end;
	bool finalized;
	INFO(LOG_CALL, "ncclCommDestroy: comm %p", (const void *)comm);
	if (!comm)
		return ncclSuccess;
	rc = comm_enter(comm, "ncclCommDestroy", COMM_NEED_ANY);
	if (rc)
		return api_return(rc);
	/* After an error, finalize has nothing to wait for: kernels hang until the abort word is
	 * set. Their results are lost. A program that has not yet received the error gets it
	 * here. */
	finalized = comm_is_finalized(comm);
	if (!comm_in_init(comm))
		rc = comm_finalize(comm);
	if (rc && shared_load_u32(&comm->error_given, SHARED_RELAXED))
		rc = ncclSuccess;
	bool mine = comm_claim(comm);
	comm_leave(comm);
	if (mine) {
		api_init_drop(comm);
		end = comm_close(comm, finalized);
		rc = rc ? rc : end;
	} else if (!rc) {
		WARN("ncclCommDestroy: another task destroyed or aborted the communicator "
		     "meanwhile");
		rc = ncclInvalidUsage;
	}
	return api_return(rc);
}

API_TWIN(ncclCommAbort);
API_WEAK ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	INFO(LOG_CALL, "ncclCommAbort: comm %p", (const void *)comm);
	if (!comm)
		return ncclSuccess;
	bool mine = comm_claim(comm);
	if (mine) {
		(void)comm_abort_set(comm);
		api_init_drop(comm);
		api_group_abort(comm);
		return ncclSuccess;
	}
	/* A task in ncclCommDestroy stops waiting and frees it. */
	if (comm_abort_set(comm))
		return ncclSuccess;
	WARN("ncclCommAbort: comm is not a communicator of this process, or it was destroyed or "
	     "aborted");
	return api_return(ncclInvalidArgument);
}
