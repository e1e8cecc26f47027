/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank with several communicators, of the same ranks and the same GPU: parts of a collective go
 * round them. Outside groups they take turns; in a group, where parts of several meet, their
 * kernels are launched together and, in streams of their own, run at the same time. All ranks use
 * them in the same order, as the contract wants it.
 *
 * They are made in a group when collectives are, else one after the other; destroyed one after the
 * other; and aborted at the same time, each by a task of its own: freeing the memory of one waits
 * for the kernels of all that are on the GPU.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "sim/lab/program/transient.h"
#include "sim/lab/run/runner_internal.h"

_Static_assert(LAB_MAX_COMMS <= 32, "comms_aborted has a bit for each");

static ncclComm_t *comms_slot(struct lab_rank *me, uint32_t i)
{
	ASSERT(i < LAB_MAX_COMMS);
	return i ? &me->other[i - 1] : &me->comm;
}

/* The number of the communicator that is the k-th to be destroyed. */
static ncclComm_t *comms_slot_to_end(struct lab_rank *me, uint32_t k)
{
	const struct lab_config *c = me->run->config;
	uint32_t n = lab_comms(c), order[LAB_MAX_COMMS];
	struct sim_rng rng;

	ASSERT(k < n && n <= LAB_MAX_COMMS);
	if (c->ends == LAB_ENDS_IN_ORDER || c->ends == LAB_ENDS_REVERSED)
		return comms_slot(me, c->ends == LAB_ENDS_REVERSED ? n - 1 - k : k);
	bool each = c->ends == LAB_ENDS_EACH && c->drive == LAB_DRIVE_RANK;

	sim_rng_seed(&rng, c->sim.seed + (each ? (uint64_t)me->rank : 0), "lab.ends");
	for (uint32_t i = 0; i < n; i++) { /* each in a place that is drawn of those so far */
		uint32_t at = (uint32_t)sim_rng_below(&rng, i + 1);

		ASSERT(at <= i); /* order[i], if drawn, is overwritten by itself */
		order[i] = order[at];
		order[at] = i;
	}
	return comms_slot(me, order[k]);
}

uint32_t lab_comms(const struct lab_config *c)
{
	return MAX_OF(c->comms, 1u);
}

uint32_t lab_comms_inits(const struct lab_rank *me)
{
	const struct lab_config *c = me->run->config;
	/* A task that drives several ranks cannot make one rank's call and wait. A child of a
	 * non-blocking parent that fails may still appear until the parent has ended. */
	bool splits = c->children && !me->team && !c->nonblocking && lab_comm_blocking(c) < 0;

	return splits ? 1 : lab_comms(c);
}

ncclComm_t lab_comms_pick(struct lab_rank *me, uint32_t part)
{
	return *comms_slot(me, part % lab_comms(me->run->config));
}

bool lab_comms_any(struct lab_rank *me)
{
	bool any = false;

	for (uint32_t i = 0; i < lab_comms(me->run->config); i++)
		any |= __atomic_load_n(comms_slot(me, i), __ATOMIC_ACQUIRE) != NULL;
	return any;
}

#define COMMS_VERSION 22800 /* of this program's nccl.h */

/* The layouts that programs of other versions pass. Bytes after the size of an older one, and its
 * padding, have any value. The fields of a later one are not set. */
static const struct comms_layout {
	uint32_t version;
	size_t bytes, padding; /* from there on, 4 bytes; 0: none */
} comms_layouts[] = {{21400, 24, 20},
		     {21800, 48, 44},
		     {22700, 72, 0},
		     {COMMS_VERSION, sizeof(ncclConfig_t), 0},
		     {99900, sizeof(ncclConfig_t) + 12, 0}};

/* Fields that change less, with values at both ends of what is legal, and beyond where another
 * one is taken instead. */
static void comms_draw_others(struct sim_rng *rng, ncclConfig_t *config)
{
	const struct comms_field {
		int *at;
		int values[4];
	} fields[] = {
		{&config->cgaClusterSize, {0, 1, 8, 9}},
		{&config->splitShare, {0, 1, 2, -1}},
		{&config->trafficClass, {0, 1, 106, 255}},
		{&config->collnetEnable, {0, 1, 2, -1}},
		{&config->CTAPolicy, {0, 1, 3, 4}},
		{&config->shrinkShare, {0, 1, 2, -1}},
		{&config->nvlsCTAs, {1, 16, 64, 1000}},
		{&config->nChannelsPerNetPeer, {1, 2, 64, 1000}},
		{&config->nvlinkCentricSched, {0, 1, 1, 0}},
		{&config->maxCTAs, {1, 64, 65, 1000}},
		{&config->graphUsageMode, {0, 1, 2, 2}},
		{&config->numRmaCtx, {0, 1, 100, INT_MAX}},
		{&config->maxP2pPeers, {1, 2, 64, INT_MAX}},
		{&config->graphStreamOrdering, {0, 1, 1, 0}},
		{&config->launchOrderImplicit, {0, 1, 1, 0}},
		{&config->numRmaSig, {1, 2, 100, INT_MAX}},
		{&config->rmaEagerInit, {0, 1, 1, 0}},
		{&config->hostCftMode, {1, 2, 3, 3}},
		{&config->nvlsHostMode, {0, 1, 2, INT_MAX}},
	};

	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		bool set = sim_rng_below(rng, 3) == 0;
		int value = fields[i].values[sim_rng_below(rng, ARRAY_LEN(fields[i].values))];

		if (set && !(fields[i].at == &config->maxCTAs && config->minCTAs > value))
			*fields[i].at = value;
	}
	if (sim_rng_below(rng, 2))
		config->commName = "a name of the program's";
}

/* Values that a program may set in a config of any version, the same on all ranks. */
static void comms_draw_config(const struct lab_rank *me, ncclConfig_t *config)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, me->run->config->sim.seed, "lab.config");
	bool most = sim_rng_below(&rng, 2) == 0, least = sim_rng_below(&rng, 4) == 0;
	int max = 1 + (int)sim_rng_below(&rng, 16),
	    min = 1 + (int)sim_rng_below(&rng, (uint64_t)max);
	bool sockets = sim_rng_below(&rng, 4) == 0, others = sim_rng_below(&rng, 2) == 0;

	if (most)
		config->maxCTAs = max;
	if (least)
		config->minCTAs = min;
	if (sockets)
		config->netName = "Socket";
	if (others)
		comms_draw_others(&rng, config);
}

/* A wrong value of a field that the environment sets, too, which replaces it. */
static void comms_draw_replaced(const struct lab_rank *me, ncclConfig_t *config)
{
	const struct lab_config *c = me->run->config;
	const struct comms_replaced {
		const char *name;
		int *at, value;
		int64_t least; /* of the variable, to replace it */
	} fields[] = {
		{"NCCL_CGA_CLUSTER_SIZE", &config->cgaClusterSize, -3, 0},
		{"NCCL_MIN_CTAS", &config->minCTAs, 0, 1},
		{"NCCL_MIN_NCHANNELS", &config->minCTAs, -1, 1},
		{"NCCL_MAX_CTAS", &config->maxCTAs, INT_MAX, 1},
		{"NCCL_MAX_NCHANNELS", &config->maxCTAs, INT_MAX, 1},
		{"NCCL_NCHANNELS_PER_NET_PEER", &config->nChannelsPerNetPeer, 0, 1},
		{"NCCL_COLLNET_ENABLE", &config->collnetEnable, 7, 0},
	};
	struct sim_rng rng;

	sim_rng_seed(&rng, c->sim.seed, "lab.config_replaced");
	if (lab_has_env(c, "NCCL_NET") && sim_rng_below(&rng, 2))
		config->netName = "Carrier pigeon";
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (lab_env_reaches(c, fields[i].name, fields[i].least) && sim_rng_below(&rng, 2))
			*fields[i].at = fields[i].value;
}

int32_t lab_roots(const struct lab_rank *me)
{
	const struct lab_config *c = me->run->config;
	const uint32_t most = (uint32_t)MIN_OF(me->run->nranks, 1 + LAB_MORE_IDS);

	if (c->spread || lab_has_env(c, "NCCL_COMM_ID"))
		return 1;
	return (int32_t)MIN_OF(MAX_OF(c->roots, 1u), most);
}

/* Initialises with one id, or for the first communicator with those that the first ranks made.
 * `config`: NULL: none. */
static ncclResult_t comms_init_ids(struct lab_rank *me, ncclComm_t *at, ncclUniqueId id,
				   ncclConfig_t *config)
{
	const struct lab_run *run = me->run;
	const int32_t roots = at == comms_slot(me, 0) ? lab_roots(me) : 1;
	ncclUniqueId ids[1 + LAB_MORE_IDS];

	if (roots == 1 && config)
		return ncclCommInitRankConfig(at, run->nranks, id, me->rank, config);
	if (roots == 1)
		return ncclCommInitRank(at, run->nranks, id, me->rank);
	ids[0] = id;
	memcpy(ids + 1, run->root_id, sizeof run->root_id);
	return ncclCommInitRankScalable(at, run->nranks, me->rank, roots, ids, config);
}

static ncclResult_t comms_init_config(struct lab_rank *me, ncclComm_t *at, ncclUniqueId id)
{
	ncclConfig_t now = NCCL_CONFIG_INITIALIZER;
	const struct lab_config *c = me->run->config;
	const struct comms_layout *l = comms_layouts;
	uint32_t version = c->config_version ? c->config_version : COMMS_VERSION;
	const int unset = NCCL_CONFIG_UNDEF_INT;
	union {
		ncclConfig_t config;
		uint8_t bytes[2 * sizeof(ncclConfig_t)];
	} old;

	while (l < &comms_layouts[ARRAY_LEN(comms_layouts) - 1] && l->version < version)
		l++;
	ASSERT(l->bytes <= sizeof old && l->padding + 4 <= l->bytes);
	now.size = l->bytes;
	now.version = l->version;
	/* a value of the environment replaces the program's */
	now.blocking = (lab_comm_blocking(c) >= 0) == c->nonblocking;
	if (c->config_sockets)
		now.netName = "Socket";
	if (c->config_version) {
		comms_draw_config(me, &now);
		comms_draw_replaced(me, &now);
	}
	memset(old.bytes, 0x5a, sizeof old);
	memcpy(old.bytes, &now, MIN_OF(l->bytes, sizeof now));
	for (size_t at = sizeof now; at < l->bytes; at += sizeof unset)
		memcpy(old.bytes + at, &unset, sizeof unset);
	if (l->padding)
		memset(old.bytes + l->padding, 0x5a, 4);
	return comms_init_ids(me, at, id, &old.config);
}

static ncclResult_t comms_init_one(struct lab_rank *me, ncclComm_t *at, ncclUniqueId id)
{
	const struct lab_config *c = me->run->config;

	return c->config_version || c->config_sockets || c->nonblocking || lab_comm_blocking(c) >= 0
		       ? comms_init_config(me, at, id)
		       : comms_init_ids(me, at, id, NULL);
}

static bool comms_stop(const struct lab_rank *me)
{
	struct lab_run *run = me->run;

	return shared_load_u32(run->armed ? &me->watch_aborted : &run->failed, SHARED_ACQUIRE);
}

static ncclResult_t comms_state(ncclComm_t comm)
{
	ncclResult_t async = ncclSuccess, rc = ncclCommGetAsyncError(comm, &async);

	return rc ? rc : async;
}

ncclResult_t lab_comm_settle(struct lab_rank *me, ncclComm_t comm, ncclResult_t r)
{
	while (r == ncclInProgress && !comms_stop(me))
		r = comms_state(comm);
	return r;
}

/* An error, or else ncclInProgress of any communicator of the rank. */
static ncclResult_t comms_look(struct lab_rank *me)
{
	ncclResult_t all = ncclSuccess;

	for (uint32_t i = 0; i < lab_comms(me->run->config); i++) {
		ncclComm_t comm = *comms_slot(me, i);
		ncclResult_t r = comm ? comms_state(comm) : ncclSuccess;

		if (r && r != ncclInProgress)
			return r;
		all = r ? r : all;
	}
	return all;
}

ncclResult_t lab_comms_settle_all(struct lab_rank *const *rank, int32_t n, ncclResult_t r)
{
	while (r == ncclInProgress && !comms_stop(rank[0])) {
		r = ncclSuccess;
		for (int32_t i = 0; i < n && (!r || r == ncclInProgress); i++) {
			ncclResult_t one = comms_look(rank[i]);

			r = one ? one : r;
		}
	}
	return r;
}

ncclResult_t lab_comms_settle(struct lab_rank *me, ncclResult_t r)
{
	return lab_comms_settle_all(&me, 1, r);
}

/* One whose init has failed: a non-blocking one is the program's to abort. */
static void comms_drop(const struct lab_rank *me, ncclComm_t *at)
{
	if (*at && me->run->config->nonblocking)
		(void)ncclCommAbort(*at);
	*at = NULL;
}

void lab_comms_none(struct lab_rank *me)
{
	for (uint32_t i = 0; i < lab_comms(me->run->config); i++) {
		ncclComm_t comm = __atomic_exchange_n(comms_slot(me, i), NULL, __ATOMIC_ACQ_REL);

		comms_drop(me, &comm);
	}
}

/* Makes the communicators after the first from it. The ranks keep their numbers. */
static ncclResult_t comms_split(struct lab_rank *me)
{
	ncclComm_t parent = *comms_slot(me, 0);
	ncclResult_t rc = ncclSuccess;

	ASSERT(parent && !me->team); /* lab_comms_inits */
	for (uint32_t i = 1; i < lab_comms(me->run->config) && !rc; i++) {
		ncclComm_t *at = comms_slot(me, i);

		rc = ncclCommSplit(parent, 0, me->rank, at, NULL);
		if (rc)
			comms_drop(me, at);
	}
	return rc;
}

ncclResult_t lab_comms_init(struct lab_rank *me)
{
	struct lab_run *run = me->run;
	const bool children = lab_comms_inits(me) < lab_comms(run->config);
	uint32_t n = lab_comms_inits(me);
	bool grouped = n > 1 && run->config->group > 1;
	ncclResult_t rc = grouped ? ncclGroupStart() : ncclSuccess;

	if (rc)
		return rc;
	for (uint32_t i = 0; i < n && !rc; i++) {
		ncclComm_t *at = comms_slot(me, i);
		rc = comms_init_one(me, at, i ? run->other_id[i - 1] : run->id);
		/* within a group its end is what takes the time */
		if (rc == ncclInProgress && (grouped || me->team))
			rc = ncclSuccess;
		rc = lab_comms_settle(me, rc);
		if (rc)
			comms_drop(me, at);
	}
	if (!rc && children)
		return comms_split(me);
	if (!grouped)
		return rc;
	ncclResult_t end = lab_comms_settle(me, ncclGroupEnd());
	for (uint32_t i = 0; end && i < n; i++)
		comms_drop(me, comms_slot(me, i));
	return rc ? rc : end;
}

/* Communicators that are destroyed, and then the one that is being destroyed. Its handle stays in
 * its slot: the watch may abort it, which ends what the destroying task waits for, and does not
 * poll it. */
static uint32_t comms_ended(const struct lab_rank *me)
{
	return __atomic_load_n(&me->comms_ended, __ATOMIC_ACQUIRE);
}

ncclResult_t lab_comms_error(struct lab_rank *me)
{
	ncclResult_t rc = ncclSuccess;

	for (uint32_t i = comms_ended(me); i < lab_comms(me->run->config) && !rc; i++) {
		ncclComm_t comm = __atomic_load_n(comms_slot_to_end(me, i), __ATOMIC_ACQUIRE);
		ncclResult_t async = ncclSuccess;
		if (comm)
			rc = ncclCommGetAsyncError(comm, &async);
		if (!rc && async != ncclInProgress) /* its init may not be over */
			rc = async;
		if (rc == ncclInvalidArgument && comms_ended(me) > i) /* destroyed meanwhile */
			rc = ncclSuccess;
	}
	return rc;
}

ncclComm_t lab_comms_next_to_end(struct lab_rank *me, uint32_t k)
{
	ncclComm_t comm = __atomic_load_n(comms_slot_to_end(me, k), __ATOMIC_ACQUIRE);

	__atomic_store_n(&me->comms_ended, k + 1, __ATOMIC_RELEASE);
	return comm;
}

ncclResult_t lab_comms_destroy(struct lab_rank *me)
{
	const uint32_t n = lab_comms(me->run->config);
	ncclResult_t rc = ncclSuccess;

	for (uint32_t i = 0; i < n; i++) {
		ncclResult_t one = ncclSuccess;

		if (!me->team)
			lab_pause(me);
		ncclComm_t comm = lab_comms_next_to_end(me, i);
		if (comm && me->run->config->finalize)
			one = lab_comm_settle(me, comm, ncclCommFinalize(comm));
		if (comm && me->run->config->finalize && !one)
			one = lab_deregister_late(me, comm);
		if (comm && me->run->config->finalize && !one)
			lab_refused_finalized(me, comm);
		if (comm && me->run->config->finalize && !one)
			lab_queries(me, comm, me->run->nranks, me->rank, true);
		rc = rc ? rc : one;
		if (one && n > 1) { /* its end would wait for kernels of the others */
			(void)lab_comms_abort(me);
			return rc;
		}
		one = comm ? ncclCommDestroy(comm) : ncclSuccess;
		lab_refused_gone(me, one ? NULL : comm);
		rc = rc ? rc : one;
	}
	return rc;
}

struct comms_abort {
	ncclComm_t comm;
	ncclResult_t result;
	struct os_thread *task;
};

static void comms_abort_one(void *arg)
{
	struct comms_abort *a = arg;

	if (a->comm)
		a->result = ncclCommAbort(a->comm);
}

/* Aborts those that have no task. Kernels of several may be in one stream: as a program with one
 * task, this sets the abort words of all before it waits for any. */
static void comms_abort_group(struct comms_abort *all, uint32_t n)
{
	ncclResult_t grouped = ncclGroupStart();

	for (uint32_t i = 0; i < n; i++)
		if (!all[i].task)
			comms_abort_one(&all[i]);
	if (!grouped)
		grouped = ncclGroupEnd();
	all[0].result = all[0].result ? all[0].result : grouped;
}

ncclResult_t lab_comms_abort(struct lab_rank *me)
{
	struct comms_abort all[LAB_MAX_COMMS + 1] = {0};
	uint32_t n = lab_comms(me->run->config);
	uint32_t ended = comms_ended(me), first = ended ? ended - 1 : 0;
	bool alone = false;
	char name[48];
	struct os_thread_attr attr = {.name = name, .rank = me->rank};
	ncclResult_t rc = ncclSuccess;

	ASSERT(ended <= n && n <= LAB_MAX_COMMS); /* the one after them is transient */
	for (uint32_t i = first; i < n; i++)
		if (!(me->comms_aborted & 1u << i))
			all[i].comm = __atomic_load_n(comms_slot_to_end(me, i), __ATOMIC_ACQUIRE);
	for (uint32_t i = first; i < n; i++)
		me->comms_aborted |= all[i].comm ? 1u << i : 0;
	all[n].comm = lab_transient_take(me);
	n += all[n].comm != NULL;
	for (uint32_t i = 1; i < n; i++) {
		snprintf(name, sizeof name, "rank%d abort %u", me->rank, i);
		/* a second attempt, because the abort of one may need that of another */
		if (all[i].comm && os_thread_start(&all[i].task, &attr, comms_abort_one, &all[i]) &&
		    os_thread_start(&all[i].task, &attr, comms_abort_one, &all[i]))
			all[i].task = NULL;
		alone |= all[i].comm && !all[i].task;
	}
	if (alone)
		comms_abort_group(all, n);
	else
		comms_abort_one(&all[0]);
	for (uint32_t i = 1; i < n; i++)
		if (all[i].task)
			os_thread_join(all[i].task);
	for (uint32_t i = 0; i < n; i++)
		rc = rc ? rc : all[i].result;
	return rc;
}
