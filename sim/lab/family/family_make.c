/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of a step that make communicators from the parent, and those that must make none. */
#include <cuda_runtime_api.h>
#include <string.h>

#include "sim/lab/family/family.h"

#define FAMILY_BAD_COLOR (-7)

static ncclResult_t family_grow(struct family *f, const struct family_step *s, ncclComm_t parent,
				ncclComm_t *child, ncclConfig_t *config)
{
	struct lab_rank *me = f->me;
	const struct wait w = wait_word(&f->id->ready, 8, WAIT_EQ, s->ready,
					"harness: the unique id of a communicator that grows",
					wait_by(s->parent.rank[s->asks], -1, NULL));
	bool asks = s->parent.rank[s->asks] == me->rank;

	if (parent)
		return ncclCommGrow(parent, s->child.n, asks ? &f->id->id : NULL, -1, child,
				    config);
	if (os_wait_one(&w, &me->run->failed))
		return ncclInProgress; /* another rank failed */
	return ncclCommGrow(NULL, s->child.n, &f->id->id, family_index(&s->child, me->rank), child,
			    config);
}

/* One rank of the parent makes the id of the growth. */
static ncclResult_t family_grow_id(struct family *f, const struct family_step *s, ncclComm_t parent)
{
	ncclResult_t r = ncclSuccess;

	if (s->parent.rank[s->asks] != f->me->rank)
		return r;
	r = lab_comm_settle(f->me, parent, ncclCommGetUniqueId(parent, &f->id->id));
	if (!r)
		shared_store_u64(&f->id->ready, s->ready, SHARED_RELEASE);
	return r;
}

static ncclResult_t family_call(struct family *f, const struct family_step *s, ncclComm_t parent,
				ncclComm_t *child, ncclConfig_t *config)
{
	int32_t i = family_index(&s->parent, f->me->rank);
	int excluded[FAMILY_RANKS];

	if (s->way == FAMILY_GROW)
		return family_grow(f, s, parent, child, config);
	ASSERT(parent && i >= 0);
	if (s->way == FAMILY_SPLIT)
		return ncclCommSplit(parent, s->split.color[i], s->split.key[i], child, config);
	for (int k = 0; k < s->excludes; k++)
		excluded[k] = s->excluded[k];
	return ncclCommShrink(parent, excluded, s->excludes, child, config,
			      s->way == FAMILY_SHRINK_ABORT ? NCCL_SHRINK_ABORT
							    : NCCL_SHRINK_DEFAULT);
}

/* A wrong color, or an id that is not of the parent's. */
static ncclResult_t family_call_wrong(struct family *f, const struct family_step *s,
				      ncclComm_t parent, bool wrong, ncclComm_t *none)
{
	ncclUniqueId id;

	if (s->way == FAMILY_SPLIT)
		return ncclCommSplit(parent, wrong ? FAMILY_BAD_COLOR : 0, 0, none, NULL);
	memcpy(&id, &f->id->id, sizeof id);
	id.internal[sizeof id.internal / 8] ^= 1;
	return ncclCommGrow(parent, s->child.n, wrong ? &id : NULL, -1, none, NULL);
}

/* Ends a communicator whose call another rank refused: the error is its own. Returns that. */
static ncclResult_t family_refused_end(ncclComm_t none)
{
	ncclResult_t got = ncclSuccess, r = ncclCommGetAsyncError(none, &got);

	(void)ncclCommAbort(none);
	return r ? r : got;
}

/* One rank passes what is refused, or all do: it and the others get their errors, and the parent
 * stays as it was. A non-blocking call of the others gives them a communicator that has failed. */
static void family_refused(struct family *f, const struct family_step *s, ncclComm_t parent)
{
	struct lab_rank *me = f->me;
	bool wrong = s->wrong < 0 || family_index(&s->parent, me->rank) == s->wrong;
	ncclResult_t want = wrong ? ncclInvalidArgument : ncclRemoteError, got;
	ncclComm_t none = NULL;

	ASSERT(s->way == FAMILY_SPLIT || s->way == FAMILY_GROW); /* family_call_wrong has these */
	lab_call(me, "a call that is refused on one rank");
	got = family_call_wrong(f, s, parent, wrong, &none);
	if (got == ncclInProgress && !wrong) {
		got = lab_comm_settle(me, parent, got);
		got = !got && none ? family_refused_end(none) : got;
		none = NULL;
	}
	if (got != want || none)
		family_report(f, "a call that is refused on %s gave \"%s\"%s, expected \"%s\"",
			      wrong ? "this rank" : "another rank", ncclGetErrorString(got),
			      none ? " and a communicator" : "", ncclGetErrorString(want));
	got = lab_comm_settle(me, parent, ncclInProgress);
	lab_call(me, NULL);
	if (got)
		family_report(f, "a call that is refused left its parent with \"%s\"",
			      ncclGetErrorString(got));
}

/* A split without a color makes nothing. */
static void family_empty(struct family *f, ncclComm_t parent)
{
	ncclComm_t none = (ncclComm_t)(void *)f;
	ncclResult_t r;

	lab_call(f->me, "a split without a color");
	r = ncclCommSplit(parent, NCCL_SPLIT_NOCOLOR, 0, &none, NULL);
	r = lab_comm_settle(f->me, parent, r);
	lab_call(f->me, NULL);
	if (r || none)
		family_report(f, "a split without a color gave \"%s\"%s", ncclGetErrorString(r),
			      none ? " and a communicator" : "");
}

/* ---- the call of a step ---------------------------------------------------------------------- */

/* New ranks of a growth inherit nothing: they pass all options of the communicator. */
static ncclConfig_t family_config(const struct family_step *s, bool inherits)
{
	const struct family_config *c = inherits ? &s->config : &s->becomes;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.commName = "a child";
	config.splitShare = config.shrinkShare = c->share;
	config.blocking = c->blocking;
	config.cgaClusterSize = c->cluster;
	config.minCTAs = c->min_ctas;
	config.maxCTAs = c->max_ctas;
	config.trafficClass = c->traffic;
	config.netName = c->socket ? "Socket" : NULL;
	return config;
}

/* Another device of the host, if there is one. */
static int family_other_device(const struct lab_rank *me)
{
	int n = 0;

	if (cudaGetDeviceCount(&n) != cudaSuccess || n < 2)
		return me->device;
	return (me->device + 1) % n;
}

/* Further splits of the parent, in the group of the first. */
static ncclResult_t family_call_together(struct family *f, const struct family_step *s,
					 ncclComm_t parent, ncclComm_t *child,
					 ncclComm_t more[FAMILY_TOGETHER], ncclConfig_t *config)
{
	int32_t i = family_index(&s->parent, f->me->rank);
	ncclResult_t r = ncclGroupStart(), end;

	ASSERT(s->way == FAMILY_SPLIT && i >= 0);
	if (r)
		return r;
	r = family_call(f, s, parent, child, config);
	for (uint32_t k = 0; k < s->together && !r; k++)
		r = ncclCommSplit(parent, s->more[k].color[i], s->more[k].key[i], &more[k], config);
	end = ncclGroupEnd();
	return r ? r : end;
}

static ncclResult_t family_settle(struct family *f, ncclComm_t comm, ncclResult_t r)
{
	if (comm && (r == ncclSuccess || r == ncclInProgress))
		r = lab_comm_settle(f->me, comm, ncclInProgress);
	return r;
}

/* The call, while another device may be current. It must not change that. */
static ncclResult_t family_make_on(struct family *f, const struct family_step *s, ncclComm_t parent,
				   ncclComm_t *child, ncclComm_t more[FAMILY_TOGETHER])
{
	ncclConfig_t config = family_config(s, parent != NULL);
	bool configured = s->configured || !parent;
	int device = s->elsewhere && parent ? family_other_device(f->me) : f->me->device, now = -1;
	ncclConfig_t *passed = configured ? &config : NULL;
	ncclResult_t r;

	if (!family_cuda(f, cudaSetDevice(device)))
		return ncclUnhandledCudaError;
	r = s->together ? family_call_together(f, s, parent, child, more, passed)
			: family_call(f, s, parent, child, passed);
	if (parent)
		r = lab_comm_settle(f->me, parent, r);
	r = family_settle(f, *child, r);
	for (uint32_t k = 0; k < s->together; k++)
		r = family_settle(f, more[k], r);
	if (cudaGetDevice(&now) != cudaSuccess || now != device)
		family_report(f, "making a communicator changed the current device from %d to %d",
			      device, now);
	return family_cuda(f, cudaSetDevice(f->me->device)) ? r : ncclUnhandledCudaError;
}

bool family_make(struct family *f, const struct family_step *s, ncclComm_t parent,
		 ncclComm_t *child, ncclComm_t more[FAMILY_TOGETHER])
{
	struct lab_rank *me = f->me;
	ncclResult_t r = ncclSuccess;

	ASSERT(!parent == (family_index(&s->parent, me->rank) < 0)); /* members have it */
	if (s->way == FAMILY_SPLIT ? !parent : family_index(&s->child, me->rank) < 0)
		return true;
	if (s->way == FAMILY_GROW && parent)
		r = family_grow_id(f, s, parent);
	if (s->empty && parent && !r)
		family_empty(f, parent);
	if (s->refused && parent && !r)
		family_refused(f, s, parent);
	lab_call(me, "making a communicator from another");
	r = r ? r : family_make_on(f, s, parent, child, more);
	lab_call(me, NULL);
	return lab_transient_check(me, r, "making a communicator from another");
}
