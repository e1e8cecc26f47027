/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptions of the ranks. Each rank describes itself, and all descriptions are gathered. Ranks
 * that cannot work together are refused, with both ranks in the message.
 */
#include <inttypes.h>
#include <string.h>

#include "core/algo/algo.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/comm/comm_internal.h"
#include "core/mem/cumem.h"
#include "core/rank/cuda_result.h"
#include "core/ras/ras.h"
#include "core/topo/detect/detect.h"
#include "core/tune/allowed.h"

/* Returns a hash of the process. A pid is unique only within its namespace: two containers of a
 * host may use the same pid. */
static uint64_t peer_pid_hash(uint64_t host_hash)
{
	const struct os_proc *proc = os_proc();

	return hash64_combine(hash64_combine(host_hash, (uint64_t)proc->pid), proc->pid_space);
}

/* Returns the device of shared memory; 0: other ranks cannot reach this one through a segment. */
static uint64_t peer_shm_device(void)
{
	uint64_t device = 0;
	int e = param_bool(PARAM_SHM_DISABLE) ? 0 : os_shm_device(&device);

	if (e) {
		char text[96];
		const char *why = strerror_r(e, text, sizeof text);

		INFO(LOG_INIT | LOG_SHM, "shm is not used: " OS_SHM_DIR ": %s", why);
	}
	return device;
}

/* Sets the number of this rank's network namespace for each kind of memory of cuMem; 0: other ranks
 * cannot reach this one through it. */
static ncclResult_t peer_cumem(int device, struct peer_info *me)
{
	const uint64_t space = 1 + os_proc()->net_space;
	bool host = false, gpu = false;
	ncclResult_t rc = cumem_has(CUMEM_DEVICE, device, &gpu);

	if (!rc && !param_bool(PARAM_SHM_DISABLE))
		rc = cumem_has(CUMEM_HOST, device, &host);
	me->cumem_host = host ? space : 0;
	me->cumem_device = gpu ? space : 0;
	return rc;
}

static ncclResult_t peer_device_describe(struct peer_info *me)
{
	int dev = me->cuda_dev, major, minor, width;
	size_t left, all;
	ncclResult_t rc;

	rc = cuda_result(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, dev),
			 "cudaDeviceGetAttribute of the compute capability");
	if (!rc)
		rc = cuda_result(
			cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, dev),
			"cudaDeviceGetAttribute of the compute capability");
	if (!rc)
		rc = cuda_result(cudaDeviceGetAttribute(&width, cudaDevAttrWarpSize, dev),
				 "cudaDeviceGetAttribute of the warp size");
	if (!rc)
		rc = cuda_result(cudaMemGetInfo(&left, &all), "cudaMemGetInfo");
	if (!rc)
		rc = peer_cumem(dev, me);
	if (rc)
		return rc;
	me->sm = 10 * major + minor;
	me->warp_width = (uint8_t)width;
	me->dev_bytes = all;
	return ncclSuccess;
}

static ncclResult_t peer_describe(struct ncclComm *comm, struct peer_info *me)
{
	me->magic = PEER_INFO_MAGIC;
	me->rank = comm->rank;
	me->host_hash = topo_host_hash();
	me->pid_hash = peer_pid_hash(me->host_hash);
	me->cuda_dev = comm->cuda_dev;
	memcpy(me->bus_id, comm->bus_id, sizeof me->bus_id);
	me->version = NCCL_VERSION_CODE;
	me->shm_device = peer_shm_device();
	me->detects = comm_topology_must_detect(comm);
	me->min_channels = comm->config.minCTAs;
	me->max_channels = comm->config.maxCTAs;
	/* Ranks need not all enable CollNet. plan_choice_hash has its program if it is used. */
	me->allowed = comm->allowed & ~algo_programs(DEV_COLLNET_CHAIN);
	me->pat_anywhere = param_i64(PARAM_PAT_ENABLE) == 1;
	me->collnet = comm->config.collnetEnable == 1;
	me->pxn_level = param_bool(PARAM_PXN_DISABLE) ? 0 : (int32_t)param_i64(PARAM_P2P_PXN_LEVEL);
	me->settings = topo_settings_read();
	me->result_least = (uint32_t)param_i64(PARAM_RESULT_BYTES);
	me->has_ras = comm->ras != NULL;
	me->shares = comm->life->share != NULL && *comm->life->share;
	return peer_device_describe(me);
}

/* Checks that two ranks allow the same programs. Ranks that choose different programs for a call
 * would wait for each other. */
static ncclResult_t peer_allowed_check(const struct peer_info *a, const struct peer_info *b)
{
	bool more = (a->allowed & ~b->allowed) != 0;
	char program[64];

	if (a->pat_anywhere != b->pat_anywhere) {
		WARN("NCCL_PAT_ENABLE: rank %d has 1, rank %d has another value; it must be the "
		     "same on all "
		     "ranks",
		     a->pat_anywhere ? a->rank : b->rank, a->pat_anywhere ? b->rank : a->rank);
		return ncclInvalidUsage;
	}
	if (a->allowed == b->allowed)
		return ncclSuccess;
	WARN("NCCL_ALGO, NCCL_PROTO or NCCL_PAT_ENABLE: rank %d allows %s, rank %d does not; both "
	     "must be the same "
	     "on "
	     "all ranks",
	     more ? a->rank : b->rank,
	     tune_allowed_first(more ? a->allowed & ~b->allowed : b->allowed & ~a->allowed, program,
				sizeof program),
	     more ? b->rank : a->rank);
	return ncclInvalidUsage;
}

/* Checks that two ranks can be in one communicator. */
static ncclResult_t peer_pair_check(const struct peer_info *a, const struct peer_info *b)
{
	if (a->magic != b->magic || a->version != b->version) {
		WARN("rank %d has version %u (layout %08x), rank %d has version %u (layout %08x); "
		     "all ranks "
		     "need the same library",
		     a->rank, a->version, a->magic, b->rank, b->version, b->magic);
		return ncclInvalidUsage;
	}
	if (a->warp_width != b->warp_width) {
		WARN("rank %d runs with warps of %u threads, rank %d with %u; DOPPEL_WARP must be "
		     "the same "
		     "everywhere",
		     a->rank, a->warp_width, b->rank, b->warp_width);
		return ncclInvalidUsage;
	}
	if (a->result_least != b->result_least) {
		WARN("DOPPEL_RESULT_BYTES: rank %d has %u, rank %d has %u; it must be the same on "
		     "all "
		     "ranks",
		     a->rank, a->result_least, b->rank, b->result_least);
		return ncclInvalidUsage;
	}
	if (a->shares != b->shares) {
		WARN("config: the ranks of a split or shrink disagree on splitShare or "
		     "shrinkShare: rank %d has %d, rank %d has %d; it must be the same on all of "
		     "them",
		     a->rank, a->shares, b->rank, b->shares);
		return ncclInvalidUsage;
	}
	return peer_allowed_check(a, b);
}

static ncclResult_t peer_duplicate_check(const struct ncclComm *comm, int32_t r)
{
	const struct peer_info *a = &comm->peers[r];
	for (int32_t i = 0; i < r; i++) {
		const struct peer_info *b = &comm->peers[i];
		if (a->host_hash != b->host_hash || strcmp(a->bus_id, b->bus_id) != 0)
			continue;
		WARN("ranks %d and %d both use the GPU %s (device %d) of one host; a GPU can have "
		     "one rank "
		     "of a communicator",
		     i, r, a->bus_id, a->cuda_dev);
		return ncclInvalidUsage;
	}
	return ncclSuccess;
}

/* Checks all ranks. Every rank compares with rank 0, and looks for duplicates on its own host only;
 * together the ranks check all pairs. */
static ncclResult_t peers_check(const struct ncclComm *comm)
{
	const struct peer_info *me = &comm->peers[comm->rank];
	for (int32_t r = 0; r < comm->nranks; r++) {
		const struct peer_info *p = &comm->peers[r];
		ncclResult_t rc = peer_pair_check(&comm->peers[0], p);
		if (!rc && p->rank != r) {
			WARN("the all-gather gave rank %d's description in place %d", p->rank, r);
			rc = ncclInternalError;
		}
		if (!rc && p->host_hash == me->host_hash)
			rc = peer_duplicate_check(comm, r);
		if (rc)
			return rc;
	}
	return ncclSuccess;
}

static ncclResult_t peers_local(struct ncclComm *comm)
{
	const struct peer_info *me = &comm->peers[comm->rank];
	int32_t n = 0;

	comm->local_to_rank =
		os_alloc((size_t)comm->nranks * sizeof *comm->local_to_rank, "local ranks");
	if (!comm->local_to_rank) {
		WARN("rank %d: no memory for %d local ranks", comm->rank, comm->nranks);
		return ncclSystemError;
	}
	for (int32_t r = 0; r < comm->nranks; r++) {
		if (comm->peers[r].host_hash != me->host_hash)
			continue;
		if (r == comm->rank)
			comm->local_rank = n;
		comm->local_to_rank[n++] = r;
	}
	comm->local_ranks = n;
	if (n > TOPO_MAX_LOCAL) {
		WARN("%d ranks on one host, expected at most %d", n, TOPO_MAX_LOCAL);
		return ncclInvalidUsage;
	}
	return ncclSuccess;
}

static bool peers_have_ras(const struct ncclComm *comm)
{
	for (int32_t r = 0; r < comm->nranks; r++)
		if (comm->peers[r].has_ras)
			return true;
	return false;
}

/* Gathers the places of the ranks and shows them to the RAS task. */
static ncclResult_t peers_gather_ras(struct ncclComm *comm)
{
	struct rank_ras_peer *all;
	struct registry_node *first;
	ncclResult_t rc;

	if (!peers_have_ras(comm))
		return ncclSuccess;
	all = os_alloc((size_t)comm->nranks * sizeof *all, "RAS peers");
	if (!all) {
		WARN("rank %d: no memory for %d RAS peers", comm->rank, comm->nranks);
		return ncclSystemError;
	}
	all[comm->rank].pid = os_proc()->pid;
	all[comm->rank].nvml_dev = comm_nvml_dev(comm->cuda_dev);
	if (comm->ras)
		all[comm->rank].addr = ras_address(comm->ras);
	rc = bootstrap_all_gather(comm->bootstrap, all, sizeof *all);
	if (rc) {
		os_free(all);
		return rc;
	}
	first = registry_lock();
	comm->ras_peers = all;
	registry_unlock(first);
	return ncclSuccess;
}

ncclResult_t comm_peers_gather(struct ncclComm *comm)
{
	ncclResult_t rc;
	comm->peers = os_alloc((size_t)comm->nranks * sizeof *comm->peers, "peers");
	if (!comm->peers) {
		WARN("rank %d: no memory for %d peers", comm->rank, comm->nranks);
		return ncclSystemError;
	}
	rc = peer_describe(comm, &comm->peers[comm->rank]);
	if (!rc)
		rc = bootstrap_all_gather(comm->bootstrap, comm->peers, sizeof *comm->peers);
	if (!rc)
		rc = peers_check(comm);
	if (!rc)
		rc = peers_local(comm);
	if (!rc)
		rc = peers_gather_ras(comm);
	return rc;
}

ncclResult_t comm_settings_blame(const struct ncclComm *comm)
{
	char of_a[TOPO_SETTING_TEXT], of_b[TOPO_SETTING_TEXT];

	for (int32_t r = 1; r < comm->nranks; r++) {
		const struct peer_info *b = &comm->peers[r], *a = comm->peers;
		const char *name;

		while (a->host_hash != b->host_hash)
			a++;
		name = topo_settings_differ(a->settings, b->settings, of_a, of_b);
		if (!name)
			continue;
		WARN("%s: rank %d has %s, rank %d has %s; it must be the same on all ranks of a "
		     "host, which find different rings or trees otherwise",
		     name, a->rank, of_a, b->rank, of_b);
		return ncclInvalidUsage;
	}
	return ncclRemoteError;
}
