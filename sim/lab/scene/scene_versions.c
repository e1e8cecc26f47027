/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A scene of configs of every version. Each version has the fields that its layout had, and what
 * follows them in memory has any value. A field of the version has its effect: a wrong value is
 * refused, a legal one is taken, a non-blocking init returns ncclInProgress, and ranks that
 * disagree on what a split shares get an error. A field that the version lacks has its default.
 * Half of the communicators are split from one that has other values, of which they keep none
 * where their own config has one.
 */
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/scene/scene.h"

#define VERSIONS_FIRST    14 /* 2.14 */
#define VERSIONS_LAST     32
#define VERSIONS_ROUNDS   3
#define VERSIONS_CHANNELS 64 /* the stack's limit */
#define VERSIONS_FILL     0x5a

/* A variable of the environment replaces the field's value. */
static const struct versions_field {
	const char *name;
	size_t at;
	int32_t since; /* the minor version */
	int legal[2], wrong;
	bool refused; /* `wrong` is; else another value is taken */
	const char *variable[2];
	int64_t least; /* of the variable, to replace it */
} versions_fields[] = {
#define FIELD(name) "a config's " #name, offsetof(ncclConfig_t, name)
	{FIELD(blocking), 14, {1, 1}, 2, true, {"NCCL_COMM_BLOCKING"}, 0},
	{FIELD(cgaClusterSize), 17, {0, 8}, -2, true, {"NCCL_CGA_CLUSTER_SIZE"}, 0},
	{FIELD(minCTAs), 17, {1, 2}, 0, true, {"NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS"}, 1},
	{FIELD(maxCTAs), 17, {2, 9}, 0, true, {"NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS"}, 1},
	{FIELD(splitShare), 18, {0, 1}, 7, false, {NULL}, 0},
	{FIELD(trafficClass), 25, {0, 255}, 256, true, {NULL}, 0},
	{FIELD(collnetEnable), 27, {0, 0}, 7, false, {"NCCL_COLLNET_ENABLE"}, 0},
	{FIELD(CTAPolicy), 27, {0, 1}, 77, false, {NULL}, 0},
	{FIELD(shrinkShare), 27, {0, 1}, 7, false, {NULL}, 0},
	{FIELD(nvlsCTAs), 27, {1, 16}, 0, true, {NULL}, 0},
	{FIELD(nChannelsPerNetPeer), 28, {1, 2}, 0, true, {"NCCL_NCHANNELS_PER_NET_PEER"}, 1},
	{FIELD(nvlinkCentricSched), 28, {0, 1}, 2, true, {NULL}, 0},
	{FIELD(graphUsageMode), 29, {0, 2}, 3, true, {NULL}, 0},
	{FIELD(numRmaCtx), 29, {0, 9}, -1, true, {NULL}, 0},
	{FIELD(maxP2pPeers), 30, {1, 64}, 0, true, {NULL}, 0},
	{FIELD(graphStreamOrdering), 30, {0, 1}, 2, true, {NULL}, 0},
	{FIELD(launchOrderImplicit), 31, {0, 1}, 2, true, {NULL}, 0},
	{FIELD(numRmaSig), 31, {1, 9}, 0, true, {NULL}, 0},
	{FIELD(rmaEagerInit), 31, {0, 1}, 2, true, {NULL}, 0},
	{FIELD(hostCftMode), 31, {1, 3}, 77, true, {NULL}, 0},
	{FIELD(nvlsHostMode), 31, {0, 2}, -1, true, {NULL}, 0},
#undef FIELD
};

/* A config as a program of some version has it in its memory. */
union versions_config {
	ncclConfig_t config;
	uint8_t bytes[2 * sizeof(ncclConfig_t)];
};

static const struct versions_field *versions_most_ctas(void)
{
	size_t i = 0;

	while (versions_fields[i].at != offsetof(ncclConfig_t, maxCTAs)) {
		i++;
		ASSERT(i < ARRAY_LEN(versions_fields));
	}
	return &versions_fields[i];
}

/* The environment is that of the rank's process: processes may differ in a variable. */
static bool versions_replaced(const struct versions_field *f)
{
	bool replaced = false;

	for (size_t i = 0; i < ARRAY_LEN(f->variable); i++) {
		const char *value = f->variable[i] ? os_env(f->variable[i]) : NULL;

		replaced |= value && strtoll(value, NULL, 10) >= f->least;
	}
	return replaced;
}

/* The end of the version's last field. */
static size_t versions_end(int32_t minor)
{
	size_t end = minor >= 17 ? offsetof(ncclConfig_t, netName) + sizeof(char *) : 0;

	if (minor >= 27)
		end = offsetof(ncclConfig_t, commName) + sizeof(char *);
	for (size_t i = 0; i < ARRAY_LEN(versions_fields); i++)
		if (minor >= versions_fields[i].since)
			end = MAX_OF(end, versions_fields[i].at + sizeof(int));
	return end;
}

/* The layout of the version with nothing set, and any bytes after its last field. */
static void versions_empty(union versions_config *c, int32_t minor)
{
	static const ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
	const size_t end = versions_end(minor), align = _Alignof(ncclConfig_t);

	ASSERT(end <= sizeof initial);
	memset(c->bytes, VERSIONS_FILL, sizeof c->bytes);
	memcpy(c->bytes, &initial, end);
	c->config.size = (end + align - 1) / align * align;
	c->config.version = (unsigned)NCCL_VERSION(2, minor, 0);
}

static void versions_set(union versions_config *c, const struct versions_field *f, int value)
{
	memcpy(c->bytes + f->at, &value, sizeof value);
}

static void versions_legal(struct scene *s, union versions_config *c, int32_t minor)
{
	for (size_t i = 0; i < ARRAY_LEN(versions_fields); i++)
		if (minor >= versions_fields[i].since)
			versions_set(c, &versions_fields[i],
				     versions_fields[i].legal[sim_rng_below(&s->own, 2)]);
}

/* ---- communicators of this rank alone -------------------------------------------------------- */

static void versions_destroy(struct scene *s, ncclComm_t comm)
{
	ncclResult_t rc = comm ? ncclCommDestroy(comm) : ncclSuccess;

	scene_judge(s, "ncclCommDestroy", rc, ncclSuccess);
}

/* `parent`: the communicator is split from it; NULL: it has an id of its own. *waited: the call
 * returned ncclInProgress. */
static ncclResult_t versions_make(struct scene *s, ncclComm_t parent, union versions_config *c,
				  ncclComm_t *comm, bool *waited)
{
	ncclUniqueId id;
	ncclResult_t rc = parent ? ncclSuccess : ncclGetUniqueId(&id);

	*comm = NULL;
	*waited = false;
	if (rc)
		return rc;
	lab_call(s->me, parent ? "ncclCommSplit" : "ncclCommInitRankConfig");
	rc = parent ? ncclCommSplit(parent, 0, 0, comm, &c->config)
		    : ncclCommInitRankConfig(comm, 1, id, 0, &c->config);
	*waited = rc == ncclInProgress;
	if (parent)
		rc = lab_comm_settle(s->me, parent, rc);
	if (*comm && (!rc || rc == ncclInProgress))
		rc = lab_comm_settle(s->me, *comm, ncclInProgress);
	lab_call(s->me, NULL);
	return rc;
}

/* The parent of every other communicator, with legal values of all fields, which its child has
 * where it sets none. Half of the parents name a network. NULL: none. */
static ncclComm_t versions_parent(struct scene *s)
{
	bool drawn = sim_rng_below(&s->own, 2), net = sim_rng_below(&s->own, 2), waited;
	union versions_config c;
	ncclComm_t parent;

	if (!drawn)
		return NULL;
	versions_empty(&c, VERSIONS_LAST);
	versions_legal(s, &c, VERSIONS_LAST);
	c.config.blocking = 1;
	if (net)
		c.config.netName = "Socket";
	scene_judge(s, "the parent of a config", versions_make(s, NULL, &c, &parent, &waited),
		    ncclSuccess);
	return parent;
}

/* Makes a communicator, which ends, and then its parent. */
static ncclResult_t versions_init(struct scene *s, ncclComm_t parent, union versions_config *c,
				  bool *waited)
{
	ncclComm_t comm;
	ncclResult_t rc = versions_make(s, parent, c, &comm, waited);

	versions_destroy(s, comm);
	versions_destroy(s, parent);
	return rc;
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* One field has a wrong value. A version that lacks it has any bytes there already. */
static void versions_wrong(struct scene *s, int32_t minor)
{
	const struct versions_field *f =
		&versions_fields[sim_rng_below(&s->own, ARRAY_LEN(versions_fields))];
	bool has = minor >= f->since, waited;
	union versions_config c;

	versions_empty(&c, minor);
	versions_set(&c, f, f->wrong);
	bool refused = has && f->refused && !versions_replaced(f);
	ncclResult_t rc = versions_init(s, versions_parent(s), &c, &waited);

	scene_judge(s, f->name, rc, refused ? ncclInvalidArgument : ncclSuccess);
}

/* All fields of the version have legal values. */
static void versions_right(struct scene *s, int32_t minor)
{
	bool nonblocking = sim_rng_below(&s->own, 2), waited;
	bool replaced = os_env("NCCL_COMM_BLOCKING") != NULL;
	ncclComm_t parent = versions_parent(s);
	bool child = parent != NULL; /* its call waits if the parent's calls do */
	union versions_config c;

	versions_empty(&c, minor);
	versions_legal(s, &c, minor);
	c.config.blocking = !nonblocking;
	scene_judge(s, "a config with all fields", versions_init(s, parent, &c, &waited),
		    ncclSuccess);
	if (!child && !replaced && waited != nonblocking)
		scene_report(s, "a config with all fields", "has no effect of `blocking`");
}

/* A call may have as many channels as its communicator, and no more. */
static void versions_call(struct scene *s, ncclComm_t comm, int channels, ncclResult_t want)
{
	ncclCollConfig_t options = NCCL_COLLCONFIG_INITIALIZER;
	ncclResult_t rc;

	*(sim_rng_below(&s->own, 2) ? &options.minCTAs : &options.maxCTAs) = channels;
	lab_call(s->me, "ncclAllReduceConfig");
	rc = ncclAllReduceConfig(s->mem, s->mem, 1, ncclInt32, ncclSum, comm, s->stream[0],
				 &options);
	rc = lab_comm_settle(s->me, comm, rc);
	lab_call(s->me, NULL);
	scene_judge(s, "the most channels of a config", rc, want);
}

/* The most channels that a communicator may have, if its config has `value`. */
static int versions_bound(const struct versions_field *most, int value)
{
	for (size_t i = 0; i < ARRAY_LEN(most->variable); i++) {
		const char *set = os_env(most->variable[i]);
		int64_t n = set ? strtoll(set, NULL, 10) : 0;

		value = n >= most->least ? (int)MIN_OF(n, (int64_t)INT_MAX) : value;
	}
	return MIN_OF(value, VERSIONS_CHANNELS);
}

/* The most channels of a communicator, which calls show: a number beyond the stack's is the
 * nearest one that it has. */
static void versions_most(struct scene *s, int32_t minor)
{
	static const int values[] = {1, 2, 63, VERSIONS_CHANNELS, 65, 128, INT_MAX};
	const struct versions_field *most = versions_most_ctas();
	int value = values[sim_rng_below(&s->own, ARRAY_LEN(values))];
	bool waited;
	union versions_config c;
	ncclComm_t comm;
	ncclResult_t rc;

	versions_empty(&c, minor);
	versions_set(&c, most, value);
	rc = versions_make(s, NULL, &c, &comm, &waited);
	scene_judge(s, most->name, rc, ncclSuccess);
	value = versions_bound(most, minor >= most->since ? value : VERSIONS_CHANNELS);
	if (!rc) {
		versions_call(s, comm, value, ncclSuccess);
		versions_call(s, comm, value + 1, ncclInvalidArgument);
		(void)scene_sync(s, 0);
	}
	versions_destroy(s, comm);
}

/* The network's name: a wrong one is refused by the versions that have it. */
static void versions_net(struct scene *s, int32_t minor)
{
	const uint32_t nets = LAB_PLUGIN_NET | LAB_PLUGIN_COLLNET;
	bool has = minor >= 17, waited;
	union versions_config c;

	versions_empty(&c, minor);
	c.config.netName = "Carrier pigeon";
	/* either plugin has a network of any name */
	has = has && !os_env("NCCL_NET") && !(s->me->run->config->plugins & nets);
	scene_judge(s, "netName of a config", versions_init(s, versions_parent(s), &c, &waited),
		    has ? ncclInvalidArgument : ncclSuccess);
}

/* All ranks: the culprit shares with its children, and the others do not. */
static void versions_disagree(struct scene *s, int32_t minor)
{
	union versions_config c;
	ncclComm_t comm = NULL, child = NULL;
	ncclResult_t rc;

	versions_empty(&c, minor);
	c.config.splitShare = s->mine;
	lab_call(s->me, "ncclCommInitRankConfig");
	rc = scene_init_config(s, &comm, &c.config);
	lab_call(s->me, NULL);
	s->comm[0] = comm;
	scene_judge(s, "ncclCommInitRankConfig", rc, ncclSuccess);
	if (rc || !lab_barrier(s->me))
		return;
	lab_call(s->me, "ncclCommSplit");
	rc = ncclCommSplit(comm, 0, s->me->rank, &child, NULL);
	lab_call(s->me, NULL);
	s->comm[1] = child;
	/* the first rank that has detected it ends the others */
	if (minor < 18 || rc != ncclRemoteError)
		scene_judge(s, "ncclCommSplit of ranks that share differently", rc,
			    minor >= 18 ? ncclInvalidUsage : ncclSuccess);
	if (!rc && scene_sum(s, 1, SCENE_COUNT, NULL) && lab_barrier(s->me))
		scene_destroy(s, 1);
	if (lab_barrier(s->me))
		scene_destroy(s, 0);
}

static int32_t versions_draw(struct sim_rng *rng)
{
	const uint64_t n = VERSIONS_LAST - VERSIONS_FIRST + 1;

	/* every other one has just brought a field */
	if (sim_rng_below(rng, 2))
		return versions_fields[sim_rng_below(rng, ARRAY_LEN(versions_fields))].since;
	return VERSIONS_FIRST + (int32_t)sim_rng_below(rng, n);
}

void scene_versions(struct scene *s)
{
	int32_t minor = versions_draw(&s->drawn);

	for (int i = 0; i < VERSIONS_ROUNDS; i++) {
		versions_wrong(s, versions_draw(&s->own));
		if (sim_rng_below(&s->own, 2))
			versions_right(s, versions_draw(&s->own));
		else
			versions_net(s, versions_draw(&s->own));
	}
	versions_most(s, versions_draw(&s->own));
	if (s->n > 1 && lab_barrier(s->me))
		versions_disagree(s, minor);
}
