/* SPDX-License-Identifier: BSD-3-Clause */
/* Requirements of device communicators: their checks, and the layout of resource memory. */
#include "core/api/windows/devcomm.h"
#include "core/base/hash.h"
#include "core/base/log.h"

/* Resource memory of a communicator. A handle would reach 512 GiB; the limit finds wrong counts. */
#define DEVCOMM_BYTES_MOST ((uint64_t)1 << 30)
#define DEVCOMM_UNIT       128u /* of ncclDevResourceHandle_t */
#define DEVCOMM_ALIGN_MOST 256u /* alignment of memory of cudaMalloc */
#define DEVCOMM_LIST_MOST  4096u

/* ---- checks ---------------------------------------------------------------------------------- */

static ncclResult_t devcomm_check_head(const ncclDevCommRequirements_t *reqs)
{
	if (!reqs) {
		WARN(DEVCOMM_CREATE ": reqs is NULL, expected requirements");
		return ncclInvalidArgument;
	}
	if (reqs->magic != NCCL_API_MAGIC) {
		WARN(DEVCOMM_CREATE ": reqs has magic 0x%x, expected requirements that begin with "
				    "NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER",
		     reqs->magic);
		return ncclInvalidArgument;
	}
	if (reqs->version == NCCL_VERSION_CODE && reqs->size == sizeof *reqs)
		return ncclSuccess;
	WARN(DEVCOMM_CREATE ": reqs is of version %u with %zu bytes, expected version %d with %zu: "
			    "kernels must be compiled with the nccl_device.h of this library",
	     reqs->version, reqs->size, NCCL_VERSION_CODE, sizeof *reqs);
	return ncclInvalidArgument;
}

struct devcomm_field {
	const char *name;
	int64_t value;
};

/* Returns the name of the first field that is not 0; NULL: all are. */
static const char *devcomm_set(const struct devcomm_field *f, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (f[i].value)
			return f[i].name;
	return NULL;
}

static const char *devcomm_gin(const ncclDevCommRequirements_t *reqs)
{
	const struct devcomm_field f[] = {
		{"ginForceEnable", reqs->ginForceEnable},
		{"ginSignalCount", reqs->ginSignalCount},
		{"ginCounterCount", reqs->ginCounterCount},
		{"ginConnectionType", reqs->ginConnectionType},
		{"ginType", reqs->ginType},
		{"railGinBarrierCount", reqs->railGinBarrierCount},
		{"worldGinBarrierCount", reqs->worldGinBarrierCount},
	};
	const char *name = devcomm_set(f, ARRAY_LEN(f));

	for (const ncclDevResourceRequirements_t *r = reqs->resourceRequirementsList; r && !name;
	     r = r->next)
		if (r->ginSignalCount || r->ginCounterCount)
			name = "a signal or counter of resourceRequirementsList";
	return name;
}

static const char *devcomm_multimem(const ncclDevCommRequirements_t *reqs)
{
	if (reqs->lsaMultimem)
		return "lsaMultimem";
	for (const ncclTeamRequirements_t *t = reqs->teamRequirementsList; t; t = t->next)
		if (t->multimem || t->outMultimemHandle)
			return "multimem of teamRequirementsList";
	return NULL;
}

static const char *devcomm_other(const ncclDevCommRequirements_t *reqs)
{
	const struct devcomm_field f[] = {{"cftCaps", reqs->cftCaps},
					  {"cftBarrierCount", reqs->cftBarrierCount}};

	return devcomm_set(f, ARRAY_LEN(f));
}

static ncclResult_t devcomm_refuse(const char *name, const char *why)
{
	if (!name)
		return ncclSuccess;
	WARN(DEVCOMM_CREATE ": reqs requests %s, and %s", name, why);
	return ncclInvalidUsage;
}

static ncclResult_t devcomm_check_built(const ncclDevCommRequirements_t *reqs)
{
	ncclResult_t rc = devcomm_refuse(devcomm_multimem(reqs),
					 "multicast is not implemented, expected peer pointers");

	if (!rc)
		rc = devcomm_refuse(devcomm_gin(reqs),
				    "GIN is not implemented, expected LSA barriers and pointers");
	if (!rc)
		rc = devcomm_refuse(devcomm_other(reqs), "CFT is not implemented, expected 0");
	if (!rc && (reqs->lsaLLA2ABlockCount || reqs->lsaLLA2ASlotCount))
		rc = devcomm_refuse("lsaLLA2ABlockCount or lsaLLA2ASlotCount",
				    "ncclDevComm has no field for their handle, expected "
				    "ncclLLA2ACreateRequirement");
	return rc;
}

static ncclResult_t devcomm_check_count(const char *name, int count, int32_t ranks)
{
	const uint64_t most = DEVCOMM_BYTES_MOST / devcomm_barrier_bytes(1, ranks);

	if (count >= 0 && (uint64_t)count <= most)
		return ncclSuccess;
	WARN(DEVCOMM_CREATE ": reqs->%s is %d, expected 0 to %llu barriers of %d ranks", name,
	     count, (unsigned long long)most, ranks);
	return ncclInvalidArgument;
}

static ncclResult_t devcomm_check_length(const char *list, uint32_t n)
{
	if (n <= DEVCOMM_LIST_MOST)
		return ncclSuccess;
	WARN(DEVCOMM_CREATE ": %s has more than %u entries, expected a list that ends with NULL",
	     list, DEVCOMM_LIST_MOST);
	return ncclInvalidArgument;
}

static ncclResult_t devcomm_check_teams(const ncclDevCommRequirements_t *reqs)
{
	uint32_t n = 0;

	for (const ncclTeamRequirements_t *t = reqs->teamRequirementsList;
	     t && n <= DEVCOMM_LIST_MOST; t = t->next)
		n++;
	return devcomm_check_length("teamRequirementsList", n);
}

static ncclResult_t devcomm_check_list(const ncclDevCommRequirements_t *reqs, uint32_t *n)
{
	*n = 0;
	for (const ncclDevResourceRequirements_t *r = reqs->resourceRequirementsList; r;
	     r = r->next) {
		if (devcomm_check_length("resourceRequirementsList", ++*n))
			return ncclInvalidArgument;
		if (r->bufferSize > DEVCOMM_BYTES_MOST) {
			WARN(DEVCOMM_CREATE ": bufferSize of entry %u of resourceRequirementsList "
					    "is %zu, expected at most %llu",
			     *n - 1, r->bufferSize, (unsigned long long)DEVCOMM_BYTES_MOST);
			return ncclInvalidArgument;
		}
		if (r->bufferAlign > DEVCOMM_ALIGN_MOST ||
		    (r->bufferAlign & (r->bufferAlign - 1))) {
			WARN(DEVCOMM_CREATE ": bufferAlign of entry %u of resourceRequirementsList "
					    "is %zu, expected a power of 2 up to %u",
			     *n - 1, r->bufferAlign, DEVCOMM_ALIGN_MOST);
			return ncclInvalidArgument;
		}
	}
	return ncclSuccess;
}

/* Lists are checked before others read them. */
static ncclResult_t devcomm_check(const struct ncclComm *comm,
				  const ncclDevCommRequirements_t *reqs, uint32_t *buffers)
{
	const ncclTeam_t lsa = devcomm_lsa(comm);
	const char *why = devcomm_why_not(comm);
	ncclResult_t rc = devcomm_check_head(reqs);

	if (!rc && why) {
		WARN(DEVCOMM_CREATE ": rank %d: %s", comm->rank, why);
		rc = ncclInvalidUsage;
	}
	if (!rc)
		rc = devcomm_check_list(reqs, buffers);
	if (!rc)
		rc = devcomm_check_teams(reqs);
	if (!rc)
		rc = devcomm_check_built(reqs);
	if (!rc)
		rc = devcomm_check_count("lsaBarrierCount", reqs->lsaBarrierCount, lsa.nRanks);
	if (!rc)
		rc = devcomm_check_count("barrierCount", reqs->barrierCount, lsa.nRanks);
	if (!rc && reqs->barrierCount && lsa.nRanks < comm->nranks)
		rc = devcomm_refuse("barrierCount", "GIN, which barriers of several hosts need, is "
						    "not implemented, expected lsaBarrierCount");
	return rc;
}

/* ---- the layout ------------------------------------------------------------------------------ */

size_t devcomm_barrier_bytes(uint64_t n, int32_t ranks)
{
	return n * (3 + (uint64_t)ranks) * sizeof(uint32_t);
}

static ncclDevResourceHandle_t devcomm_place(struct devcomm_layout *l, size_t bytes, size_t align)
{
	const size_t at = ALIGN_UP(l->bytes, align > DEVCOMM_UNIT ? align : DEVCOMM_UNIT);

	l->bytes = at + bytes;
	l->hash = (uint32_t)hash64_combine(hash64_combine(l->hash, at), bytes);
	return (ncclDevResourceHandle_t)(at / DEVCOMM_UNIT);
}

static void devcomm_barriers(struct devcomm_layout *l, ncclLsaBarrierHandle_t *out, int n,
			     int32_t ranks)
{
	out->nBarriers = n;
	out->bufHandle = devcomm_place(l, devcomm_barrier_bytes((uint64_t)n, ranks), 4);
}

void devcomm_layout_targets(const ncclDevCommRequirements_t *reqs, struct api_devcomm *d)
{
	struct devcomm_layout l = d->layout;
	uint32_t n = 0;

	l.bytes = l.buffers_at;
	for (const ncclDevResourceRequirements_t *r = reqs->resourceRequirementsList; r;
	     r = r->next)
		d->target[n++] = (struct devcomm_target){
			r->outBufferHandle, devcomm_place(&l, r->bufferSize, r->bufferAlign)};
}

ncclResult_t devcomm_layout_of(const struct ncclComm *comm, const ncclDevCommRequirements_t *reqs,
			       struct devcomm_layout *layout)
{
	const int32_t ranks = devcomm_lsa(comm).nRanks;
	struct devcomm_layout l = {.hash = 1};
	ncclResult_t rc = devcomm_check(comm, reqs, &l.buffers);

	*layout = (struct devcomm_layout){.bytes = 0};
	if (rc)
		return rc;
	devcomm_barriers(&l, &l.lsa, reqs->lsaBarrierCount, ranks);
	devcomm_barriers(&l, &l.hybrid, reqs->barrierCount, ranks);
	l.buffers_at = l.bytes;
	for (const ncclDevResourceRequirements_t *r = reqs->resourceRequirementsList; r;
	     r = r->next)
		(void)devcomm_place(&l, r->bufferSize, r->bufferAlign);
	if (l.bytes > DEVCOMM_BYTES_MOST) {
		WARN(DEVCOMM_CREATE ": reqs requests %zu bytes of resource memory, expected at "
				    "most %llu",
		     l.bytes, (unsigned long long)DEVCOMM_BYTES_MOST);
		return ncclInvalidArgument;
	}
	l.bytes = l.bytes ? l.bytes : DEVCOMM_UNIT; /* a window has at least one byte */
	l.hash = l.hash ? l.hash : 1;
	*layout = l;
	return ncclSuccess;
}
