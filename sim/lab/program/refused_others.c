/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls with one wrong argument that are no collectives and no messages; and queries with their
 * answers. */
#include <stdio.h>
#include <string.h>

#include "sim/lab/program/refused.h"

enum { REFUSED_OPERATIONS = 20 };

/* ---- communicators --------------------------------------------------------------------------- */

/* An id, so that an init has no other mistake than its own. In a group, which fails, and where all
 * ids have one address, the bytes are zeros. */
static bool refused_id(const struct refused *r, ncclUniqueId *id)
{
	memset(id, 0, sizeof *id);
	return !r->grouped && !lab_has_env(r->me->run->config, "NCCL_COMM_ID") &&
	       ncclGetUniqueId(id) == ncclSuccess;
}

/* A refused call has not used up its id: that makes a communicator of one rank, which ends its
 * root. */
static void refused_id_end(struct refused *r, ncclUniqueId id)
{
	ncclComm_t comm = NULL;
	ncclResult_t rc = ncclCommInitRank(&comm, 1, id, 0);

	if (rc == ncclInProgress)
		rc = lab_comm_settle(r->me, comm, rc);
	if (!rc)
		rc = ncclCommDestroy(comm);
	if (!r->me->run->armed)
		lab_refused_judge(r->me, "ncclCommInitRank", "the id of a refused call", rc,
				  ncclSuccess);
}

static ncclResult_t refused_init(struct refused *r, int nranks, int rank, ncclConfig_t *config)
{
	ncclComm_t comm = NULL;
	ncclUniqueId id;
	bool made = refused_id(r, &id);
	ncclResult_t rc = config ? ncclCommInitRankConfig(&comm, nranks, id, rank, config)
				 : ncclCommInitRank(&comm, nranks, id, rank);

	if (made && rc)
		refused_id_end(r, id);
	return rc;
}

static ncclResult_t refused_config(struct refused *r, ncclConfig_t *config)
{
	return refused_init(r, 1, 0, config);
}

static ncclResult_t refused_config_magic(struct refused *r)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.magic++;
	return refused_config(r, &config);
}

static ncclResult_t refused_config_size(struct refused *r)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.size = 16;
	return refused_config(r, &config);
}

/* Is there a variable that replaces the program's value, in this process or in others? `name` is
 * the end of its name, after NCCL_. */
static bool refused_is_replaced(const struct refused *r, const char *name)
{
	const struct lab_config *c = r->me->run->config;
	char full[64];

	snprintf(full, sizeof full, "NCCL_%s", name);
	return lab_has_env(c, full) || (c->env_odd && !strncmp(c->env_odd, full, strlen(full)));
}

/* A plugin's network may have any name. */
static ncclResult_t refused_config_net(struct refused *r)
{
	const uint32_t nets = LAB_PLUGIN_NET | LAB_PLUGIN_COLLNET;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.netName = "Carrier pigeon";
	if (refused_is_replaced(r, "NET") || r->me->run->config->plugins & nets)
		config.magic++;
	return refused_config(r, &config);
}

/* A value next to the legal ones, of a field that has no other in its place. */
static ncclResult_t refused_config_value(struct refused *r)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	const struct {
		int *at, value;
		const char *name, *older; /* variables that replace it */
	} field[] = {
		{&config.blocking, -1, "COMM_BLOCKING", NULL},
		{&config.blocking, 2, "COMM_BLOCKING", NULL},
		{&config.cgaClusterSize, -1, "CGA_CLUSTER_SIZE", NULL},
		{&config.minCTAs, 0, "MIN_CTAS", "MIN_NCHANNELS"},
		{&config.maxCTAs, 0, "MAX_CTAS", "MAX_NCHANNELS"},
		{&config.nChannelsPerNetPeer, 0, "NCHANNELS_PER_NET_PEER", NULL},
		{&config.trafficClass, -1, NULL, NULL},
		{&config.trafficClass, 256, NULL, NULL},
		{&config.nvlsCTAs, 0, NULL, NULL},
		{&config.nvlinkCentricSched, -1, NULL, NULL},
		{&config.nvlinkCentricSched, 2, NULL, NULL},
		{&config.graphUsageMode, -1, NULL, NULL},
		{&config.graphUsageMode, 3, NULL, NULL},
		{&config.numRmaCtx, -1, NULL, NULL},
		{&config.maxP2pPeers, 0, NULL, NULL},
		{&config.graphStreamOrdering, 2, NULL, NULL},
		{&config.launchOrderImplicit, -1, NULL, NULL},
		{&config.numRmaSig, 0, NULL, NULL},
		{&config.rmaEagerInit, 2, NULL, NULL},
		{&config.hostCftMode, 4, NULL, NULL},
		{&config.nvlsHostMode, -1, NULL, NULL},
	};
	uint64_t k = sim_rng_below(&r->rng, ARRAY_LEN(field));

	while ((field[k].name && refused_is_replaced(r, field[k].name)) ||
	       (field[k].older && refused_is_replaced(r, field[k].older)))
		k++; /* the last ones have no variable */
	*field[k].at = field[k].value;
	return refused_config(r, &config);
}

static ncclResult_t refused_config_ctas(struct refused *r)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.maxCTAs = 1 + (int)sim_rng_below(&r->rng, 8);
	config.minCTAs = config.maxCTAs + 1;
	return refused_config(r, &config);
}

static ncclResult_t refused_init_comm(struct refused *r)
{
	ncclUniqueId id = {{0}};

	return ncclCommInitRank(NULL, r->n, id, 0);
}

/* Numbers of ranks, and of a rank, next to the legal ones. */
static ncclResult_t refused_init_rank(struct refused *r)
{
	static const int nranks[] = {0, -1, 3, 3}, rank[] = {0, 0, -1, 3};
	uint64_t k = sim_rng_below(&r->rng, ARRAY_LEN(rank));

	return refused_init(r, nranks[k], rank[k], NULL);
}

static ncclResult_t refused_all_comm(struct refused *r)
{
	(void)r;
	return ncclCommInitAll(NULL, 1, NULL);
}

static ncclResult_t refused_all_none(struct refused *r)
{
	ncclComm_t comm = NULL;

	(void)r;
	return ncclCommInitAll(&comm, 0, NULL);
}

static ncclResult_t refused_all_device(struct refused *r)
{
	const int device = sim_rng_below(&r->rng, 2) ? -1 : 1000;
	ncclComm_t comm = NULL;

	return ncclCommInitAll(&comm, 1, &device);
}

static ncclResult_t refused_all_twice(struct refused *r)
{
	const int devices[2] = {r->me->device, r->me->device};
	ncclComm_t comm[2] = {NULL, NULL};

	return ncclCommInitAll(comm, 2, devices);
}

static ncclResult_t refused_finalize(struct refused *r)
{
	return ncclCommFinalize(sim_rng_below(&r->rng, 2) ? NULL : (ncclComm_t)(void *)r->host);
}

static ncclResult_t refused_destroy(struct refused *r)
{
	return ncclCommDestroy((ncclComm_t)(void *)r->host);
}

static ncclResult_t refused_abort(struct refused *r)
{
	return ncclCommAbort((ncclComm_t)(void *)r->host);
}

static ncclResult_t refused_async(struct refused *r)
{
	return ncclCommGetAsyncError(r->comm, NULL);
}

static ncclResult_t refused_async_comm(struct refused *r)
{
	ncclResult_t async;

	return ncclCommGetAsyncError(sim_rng_below(&r->rng, 2) ? NULL : (ncclComm_t)(void *)r->host,
				     &async);
}

/* ---- queries --------------------------------------------------------------------------------- */

static ncclResult_t refused_query(struct refused *r)
{
	static ncclResult_t (*const query[])(const ncclComm_t, int *) = {
		ncclCommCount, ncclCommCuDevice, ncclCommUserRank};
	uint64_t k = sim_rng_below(&r->rng, ARRAY_LEN(query));
	int value;

	switch (sim_rng_below(&r->rng, 3)) {
	case 0:
		return query[k](r->comm, NULL);
	case 1:
		return query[k](NULL, &value);
	default:
		return query[k]((ncclComm_t)(void *)r->host, &value);
	}
}

static ncclResult_t refused_version(struct refused *r)
{
	(void)r;
	return ncclGetVersion(NULL);
}

static ncclResult_t refused_unique_id(struct refused *r)
{
	(void)r;
	return ncclGetUniqueId(NULL);
}

/* ---- operations ------------------------------------------------------------------------------ */

static ncclResult_t refused_op_create(struct refused *r)
{
	const uint64_t k = sim_rng_below(&r->rng, 8);
	ncclDataType_t type = k == 2 ? (ncclDataType_t)-1 : k == 3 ? ncclNumTypes : ncclFloat32;
	ncclScalarResidence_t where = k == 4             ? (ncclScalarResidence_t)2
				      : k == 5 || k == 6 ? ncclScalarDevice
							 : ncclScalarHostImmediate;
	/* in host memory, where the GPU's is expected, misaligned; or the reverse */
	void *scalar = k == 0 ? NULL : k == 6 ? r->gpu + 2 : k == 7 ? r->gpu : r->host;
	ncclRedOp_t op;

	return ncclRedOpCreatePreMulSum(k == 1 ? NULL : &op, scalar, type, where, r->comm);
}

static ncclResult_t refused_op_destroy(struct refused *r)
{
	static const ncclRedOp_t ops[] = {ncclSum, ncclAvg, ncclNumOps, ncclMaxRedOp};

	return ncclRedOpDestroy(ops[sim_rng_below(&r->rng, ARRAY_LEN(ops))], r->comm);
}

/* Half of the time another operation takes the place of the destroyed one. */
static ncclResult_t refused_op_again(struct refused *r)
{
	bool later = sim_rng_below(&r->rng, 2);
	float factor = 2;
	ncclRedOp_t op, other;
	ncclResult_t rc = ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32,
						   ncclScalarHostImmediate, r->comm);

	if (!rc)
		rc = ncclRedOpDestroy(op, r->comm);
	if (!rc && later)
		rc = ncclRedOpCreatePreMulSum(&other, &factor, ncclFloat32, ncclScalarHostImmediate,
					      r->comm);
	if (rc)
		return rc;
	rc = ncclRedOpDestroy(op, r->comm);
	if (later && ncclRedOpDestroy(other, r->comm))
		return ncclSuccess; /* which is reported */
	return rc;
}

/* ---- memory, groups -------------------------------------------------------------------------- */

static ncclResult_t refused_register(struct refused *r)
{
	void *handle;

	switch (sim_rng_below(&r->rng, 5)) {
	case 0:
		return ncclCommRegister(r->comm, r->gpu, 64, NULL);
	case 1:
		return ncclCommRegister(r->comm, NULL, 64, &handle);
	case 2:
		return ncclCommRegister(r->comm, r->gpu, 0, &handle);
	case 3:
		return ncclCommRegister(r->comm, r->gpu, SIZE_MAX, &handle);
	default:
		return ncclCommRegister(r->comm, r->host, 64, &handle);
	}
}

static ncclResult_t refused_resume(struct refused *r)
{
	return ncclCommResume(r->comm);
}

static ncclResult_t refused_deregister(struct refused *r)
{
	return ncclCommDeregister(r->comm, r->host);
}

static ncclResult_t refused_mem_alloc(struct refused *r)
{
	(void)r;
	return ncclMemAlloc(NULL, 64);
}

/* A rank that sends itself more messages than it receives, or the reverse, or another type. */
static ncclResult_t refused_self(struct refused *r)
{
	uint64_t sends = sim_rng_below(&r->rng, 3), receives = sim_rng_below(&r->rng, 3);
	bool types = sim_rng_below(&r->rng, 3) == 0;
	cudaStream_t stream = (cudaStream_t)r->me->stream;
	ncclResult_t rc = ncclGroupStart(), end;

	if (types)
		sends = receives = 1;
	else if (sends == receives)
		receives++;
	for (uint64_t k = 0; k < sends && !rc; k++)
		rc = ncclSend(r->gpu, 64, ncclInt8, r->me->rank, r->comm, stream);
	for (uint64_t k = 0; k < receives && !rc; k++)
		rc = ncclRecv(r->gpu + 1024, 64, types ? ncclFloat16 : ncclInt8, r->me->rank,
			      r->comm, stream);
	end = ncclGroupEnd();
	return rc ? rc : end;
}

static ncclResult_t refused_group_end(struct refused *r)
{
	(void)r;
	return ncclGroupEnd();
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct refused_row {
	const char *name, *why;
	ncclResult_t (*make)(struct refused *r);
	bool usage; /* ncclInvalidUsage */
	bool alone; /* not in a group: an environment may set the value, and the id is wrong */
} refused_rows[] = {
	{"ncclCommInitRankConfig", "config's magic", refused_config_magic, false, false},
	{"ncclCommInitRankConfig", "config's size", refused_config_size, false, false},
	{"ncclCommInitRankConfig", "config's netName", refused_config_net, false, true},
	{"ncclCommInitRankConfig", "value of the config", refused_config_value, false, true},
	{"ncclCommInitRankConfig", "value of the config", refused_config_value, false, true},
	{"ncclCommInitRankConfig", "value of the config", refused_config_value, false, true},
	{"ncclCommInitRankConfig", "minCTAs above maxCTAs", refused_config_ctas, false, false},
	{"ncclCommInitRank", "comm NULL", refused_init_comm, false, false},
	{"ncclCommInitRank", "numbers", refused_init_rank, false, false},
	{"ncclCommInitAll", "comm NULL", refused_all_comm, false, false},
	{"ncclCommInitAll", "no device", refused_all_none, false, false},
	{"ncclCommInitAll", "unknown device", refused_all_device, true, false},
	{"ncclCommInitAll", "a device twice", refused_all_twice, true, false},
	{"ncclCommFinalize", "comm", refused_finalize, false, false},
	{"ncclCommDestroy", "comm none", refused_destroy, false, false},
	{"ncclCommAbort", "comm none", refused_abort, false, false},
	{"ncclCommGetAsyncError", "asyncError NULL", refused_async, false, false},
	{"ncclCommGetAsyncError", "comm", refused_async_comm, false, false},
	{"ncclCommCount and the like", "an argument", refused_query, false, false},
	{"ncclCommCount and the like", "an argument", refused_query, false, false},
	{"ncclGetVersion", "version NULL", refused_version, false, false},
	{"ncclGetUniqueId", "uniqueId NULL", refused_unique_id, false, false},
	{"ncclRedOpCreatePreMulSum", "an argument", refused_op_create, false, false},
	{"ncclRedOpCreatePreMulSum", "an argument", refused_op_create, false, false},
	{"ncclRedOpCreatePreMulSum", "an argument", refused_op_create, false, false},
	{"ncclRedOpDestroy", "op", refused_op_destroy, false, false},
	{"ncclRedOpDestroy", "op destroyed", refused_op_again, false, false},
	{"ncclCommRegister", "an argument", refused_register, false, false},
	{"ncclCommRegister", "an argument", refused_register, false, false},
	{"ncclCommDeregister", "handle", refused_deregister, false, false},
	{"ncclCommShrink and the like", "an argument", lab_refused_comm, false, false},
	{"ncclCommShrink and the like", "an argument", lab_refused_comm, false, false},
	{"ncclCommShrink and the like", "an argument", lab_refused_comm, false, false},
	{"ncclCommResume", "comm not suspended", refused_resume, true, false},
	{"ncclSignal and the like", "not built", lab_refused_absent, true, false},
	{"ncclAllReduceConfig and the like", "an option", lab_options_wrong, false, false},
	{"ncclAllReduceConfig and the like", "an option", lab_options_wrong, false, false},
	{"ncclAlltoAllConfig", "a deadline", lab_options_misused, true, false},
	{"ncclMemAlloc", "ptr NULL", refused_mem_alloc, false, false},
	{"ncclGroupEnd", "a message to itself that does not match", refused_self, true, true},
	{"ncclGroupEnd", "a message to itself that does not match", refused_self, true, true},
	{"ncclGroupEnd", "streams of several captures", lab_refused_captures, true, true},
	{"ncclGroupEnd", "streams of several captures", lab_refused_captures, true, true},
	{"ncclGroupEnd", "streams of several captures", lab_refused_captures, true, true},
	{"ncclGroupEnd", "no group", refused_group_end, true, true},
};

ncclResult_t lab_refused_other(struct refused *r, bool grouped, const char **name, const char **why,
			       ncclResult_t *want)
{
	uint64_t k = sim_rng_below(&r->rng, ARRAY_LEN(refused_rows));

	ASSERT(*want == ncclInvalidArgument); /* most rows; the others have `usage` */
	if (grouped && refused_rows[k].alone)
		k = 0;
	ASSERT(!grouped || !refused_rows[k].alone);
	*name = refused_rows[k].name;
	*why = refused_rows[k].why;
	if (refused_rows[k].usage)
		*want = ncclInvalidUsage;
	return refused_rows[k].make(r);
}

/* ---- right calls ----------------------------------------------------------------------------- */

static void refused_answer(struct refused *r, const char *call, ncclResult_t rc, int got, int want)
{
	if (rc && r->me->run->armed)
		return;
	lab_refused_judge(r->me, call, "a query", rc, ncclSuccess);
	if (!rc && got != want)
		lab_refused_report(r->me, call, "a query", "gave another number than it should");
}

/* Returns how many were made: all, unless a call failed. */
static uint64_t refused_operations_make(struct refused *r, ncclRedOp_t *op, uint64_t n)
{
	ncclResult_t rc = ncclSuccess;
	float factor = 3;

	for (uint64_t k = 0; k < n && !rc; k++) {
		rc = ncclRedOpCreatePreMulSum(&op[k], &factor, ncclFloat32, ncclScalarHostImmediate,
					      r->comm);
		n = rc ? k : n;
	}
	refused_answer(r, "ncclRedOpCreatePreMulSum", rc, 0, 0);
	return n;
}

/* Operations, as many as a table of the communicator holds at first, or more: all exist until they
 * are destroyed. Then others are made, none of which has the number of a destroyed one. */
static void refused_operations(struct refused *r)
{
	ncclRedOp_t op[REFUSED_OPERATIONS], later[REFUSED_OPERATIONS];
	uint64_t n = refused_operations_make(r, op, 1 + sim_rng_below(&r->rng, REFUSED_OPERATIONS));

	for (uint64_t k = 0; k < n; k++)
		refused_answer(r, "ncclRedOpDestroy", ncclRedOpDestroy(op[k], r->comm), 0, 0);
	uint64_t again = refused_operations_make(r, later, n);

	for (uint64_t k = 0; k < again; k++) {
		for (uint64_t i = 0; i < n; i++)
			if (later[k] == op[i])
				lab_refused_report(r->me, "ncclRedOpCreatePreMulSum", "a query",
						   "gave the number of a destroyed operation");
		refused_answer(r, "ncclRedOpDestroy", ncclRedOpDestroy(later[k], r->comm), 0, 0);
	}
}

void lab_refused_queries(struct refused *r)
{
	int value = -1;
	ncclResult_t rc = ncclCommCount(r->comm, &value);

	refused_answer(r, "ncclCommCount", rc, value, r->n);
	rc = ncclCommUserRank(r->comm, &value);
	refused_answer(r, "ncclCommUserRank", rc, value, r->me->rank);
	rc = ncclCommCuDevice(r->comm, &value);
	refused_answer(r, "ncclCommCuDevice", rc, value, r->me->device);
	rc = ncclGetVersion(&value);
	refused_answer(r, "ncclGetVersion", rc, value, NCCL_VERSION_CODE);
	rc = ncclCommDestroy(NULL);
	refused_answer(r, "ncclCommDestroy of NULL", rc, 0, 0);
	rc = ncclCommAbort(NULL);
	refused_answer(r, "ncclCommAbort of NULL", rc, 0, 0);
	refused_operations(r);
}
