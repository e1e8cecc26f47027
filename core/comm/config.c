/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks ncclConfig_t field by field, from one table. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/comm/comm.h"
#include "core/transport/nets.h"

/* Size of the first layout, which ended after `blocking`. Callers of later versions pass more. */
#define CONFIG_SIZE_LEAST (offsetof(ncclConfig_t, blocking) + sizeof(int))
/* Maximum size of any version's layout. */
#define CONFIG_SIZE_MOST 4096
DOPPEL_CHECK_OFFSET(ncclConfig_t, blocking, 16);
DOPPEL_CHECK_OFFSET(ncclConfig_t, netName, 32);
DOPPEL_CHECK_OFFSET(ncclConfig_t, commName, 48);
DOPPEL_CHECK_OFFSET(ncclConfig_t, graphUsageMode, 80);
DOPPEL_CHECK_SIZE(ncclConfig_t, 120);
/* End of the last field; the layout's last bytes are padding, and may be a field in a later
 * version. */
#define CONFIG_FIELDS_END (offsetof(ncclConfig_t, nvlsHostMode) + sizeof(int))

/* Handling of a value outside the field's range. For some fields NCCL uses another value, and logs
 * a line at INFO. */
enum config_else { CONFIG_REFUSED, CONFIG_NEAREST, CONFIG_INITIAL };

struct config_row {
	const char *name;
	size_t offset;
	unsigned since; /* first version of NCCL whose layout has the field */
	int least, most, initial;
	enum config_else below, above;
	bool idle; /* the field has no effect here yet */
};

/* clang-format off */
#define CONFIG_ROW(field, since, least, most, initial, below, above)                               \
	{#field, offsetof(ncclConfig_t, field), since, least, most, initial, CONFIG_##below,      \
	 CONFIG_##above, false}
#define CONFIG_IDLE(field, since, least, most, initial)                                            \
	{#field, offsetof(ncclConfig_t, field), since, least, most, initial, CONFIG_REFUSED,       \
	 CONFIG_REFUSED, true}
/* clang-format on */
#define V(major, minor) NCCL_VERSION(major, minor, 0)
static const struct config_row config_rows[] = {
	CONFIG_ROW(blocking, V(2, 14), 0, 1, 1, REFUSED, REFUSED),
	CONFIG_ROW(cgaClusterSize, V(2, 17), 0, 8, NCCL_CONFIG_UNDEF_INT, REFUSED, NEAREST),
	CONFIG_ROW(minCTAs, V(2, 17), 1, DEV_MAX_CHANNELS, 1, REFUSED, NEAREST),
	CONFIG_ROW(maxCTAs, V(2, 17), 1, DEV_MAX_CHANNELS, DEV_MAX_CHANNELS, REFUSED, NEAREST),
	CONFIG_ROW(splitShare, V(2, 18), 0, 1, 0, INITIAL, INITIAL),
	CONFIG_ROW(trafficClass, V(2, 25), 0, 255, NCCL_CONFIG_UNDEF_INT, REFUSED, REFUSED),
	CONFIG_ROW(collnetEnable, V(2, 27), 0, 1, 0, INITIAL, INITIAL),
	CONFIG_ROW(CTAPolicy, V(2, 27), NCCL_CTA_POLICY_DEFAULT,
		   NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO, NCCL_CTA_POLICY_DEFAULT,
		   INITIAL, INITIAL),
	CONFIG_ROW(shrinkShare, V(2, 27), 0, 1, 0, INITIAL, INITIAL),
	CONFIG_ROW(nvlsCTAs, V(2, 27), 1, DEV_MAX_CHANNELS, NCCL_CONFIG_UNDEF_INT, REFUSED,
		   NEAREST),
	CONFIG_ROW(nChannelsPerNetPeer, V(2, 28), 1, DEV_MAX_CHANNELS, NCCL_CONFIG_UNDEF_INT,
		   REFUSED, NEAREST),
	CONFIG_ROW(nvlinkCentricSched, V(2, 28), 0, 1, 0, REFUSED, REFUSED),
	CONFIG_IDLE(graphUsageMode, V(2, 29), 0, 2, 2),
	CONFIG_IDLE(numRmaCtx, V(2, 29), 0, INT_MAX, 1),
	CONFIG_IDLE(maxP2pPeers, V(2, 30), 1, INT_MAX, NCCL_CONFIG_UNDEF_INT),
	CONFIG_IDLE(graphStreamOrdering, V(2, 30), 0, 1, 1),
	CONFIG_IDLE(launchOrderImplicit, V(2, 31), 0, 1, 0),
	CONFIG_IDLE(numRmaSig, V(2, 31), 1, INT_MAX, 1),
	CONFIG_IDLE(rmaEagerInit, V(2, 31), 0, 1, 0),
	CONFIG_IDLE(hostCftMode, V(2, 31), ncclHostCftEnable, ncclHostCftFallback,
		    ncclHostCftDefault),
	CONFIG_IDLE(nvlsHostMode, V(2, 31), ncclNvlsHostModeEnable, ncclNvlsHostModeDisable,
		    ncclNvlsHostModeDefault),
};

static int *config_value(const struct config_row *row, ncclConfig_t *c)
{
	return (int *)((char *)c + row->offset);
}

static ncclResult_t config_row_check(const struct config_row *row, ncclConfig_t *c)
{
	int *value = config_value(row, c), given = *value;
	enum config_else otherwise = given < row->least ? row->below : row->above;

	if (given == NCCL_CONFIG_UNDEF_INT) {
		*value = row->initial;
		return ncclSuccess;
	}
	if (given >= row->least && given <= row->most)
		return ncclSuccess;
	if (otherwise == CONFIG_REFUSED) {
		WARN("config: %s is %d, expected %d to %d", row->name, given, row->least,
		     row->most);
		return ncclInvalidArgument;
	}
	*value = otherwise == CONFIG_INITIAL ? row->initial
		 : given < row->least        ? row->least
					     : row->most;
	INFO(LOG_ENV, "config: %s is %d, expected %d to %d; %d is used", row->name, given,
	     row->least, row->most, *value);
	return ncclSuccess;
}

/* Applies the environment, which overrides the program. */
static void config_environment(ncclConfig_t *c)
{
	if (param_is_set(PARAM_COMM_BLOCKING) && param_i64(PARAM_COMM_BLOCKING) >= 0)
		c->blocking = (int)param_i64(PARAM_COMM_BLOCKING);
	if (param_i64(PARAM_MIN_CTAS) > 0)
		c->minCTAs = (int)param_i64(PARAM_MIN_CTAS);
	if (param_i64(PARAM_MAX_CTAS) > 0)
		c->maxCTAs = (int)param_i64(PARAM_MAX_CTAS);
	/* Older names of the same variables. */
	if (param_i64(PARAM_MIN_NCHANNELS) > 0)
		c->minCTAs = (int)param_i64(PARAM_MIN_NCHANNELS);
	if (param_i64(PARAM_MAX_NCHANNELS) > 0)
		c->maxCTAs = (int)param_i64(PARAM_MAX_NCHANNELS);
	if (param_i64(PARAM_CGA_CLUSTER_SIZE) >= 0)
		c->cgaClusterSize = (int)param_i64(PARAM_CGA_CLUSTER_SIZE);
	if (param_i64(PARAM_NCHANNELS_PER_NET_PEER) > 0)
		c->nChannelsPerNetPeer = (int)param_i64(PARAM_NCHANNELS_PER_NET_PEER);
	if (param_is_set(PARAM_COLLNET_ENABLE))
		c->collnetEnable = param_bool(PARAM_COLLNET_ENABLE);
	if (param_str(PARAM_NET))
		c->netName = param_str(PARAM_NET);
}

/* Warns of fields of later versions that are not at their default: they have no effect here. The
 * last int may be padding. */
static void config_later_check(const ncclConfig_t *config)
{
	const char *at = (const char *)config + CONFIG_FIELDS_END;
	size_t ints = (config->size - CONFIG_FIELDS_END) / sizeof(int);

	for (size_t i = 0; i + 1 < ints; i++) {
		int value;

		memcpy(&value, at + i * sizeof value, sizeof value);
		if (value && value != NCCL_CONFIG_UNDEF_INT)
			WARN("config: byte %zu of %zu is of a field that this version does not "
			     "have, with the value %d: no effect",
			     CONFIG_FIELDS_END + i * sizeof value, config->size, value);
	}
}

/* Resets fields that the caller's version does not have: that memory is padding. */
static void config_of_version(ncclConfig_t *c)
{
	for (size_t i = 0; i < ARRAY_LEN(config_rows); i++)
		if (c->version < config_rows[i].since)
			*config_value(&config_rows[i], c) = NCCL_CONFIG_UNDEF_INT;
	if (c->version < V(2, 17))
		c->netName = NCCL_CONFIG_UNDEF_PTR;
	if (c->version < V(2, 27))
		c->commName = NCCL_CONFIG_UNDEF_PTR;
}

static ncclResult_t config_copy(const ncclConfig_t *config, ncclConfig_t *out)
{
	if (config->magic != NCCL_API_MAGIC || config->size < CONFIG_SIZE_LEAST) {
		WARN("config: magic 0x%x and size %zu; initialise it with NCCL_CONFIG_INITIALIZER",
		     config->magic, config->size);
		return ncclInvalidArgument;
	}
	memcpy(out, config, MIN_OF(config->size, sizeof *out));
	config_of_version(out);
	if (config->version > NCCL_VERSION_CODE && config->size > CONFIG_FIELDS_END &&
	    config->size <= CONFIG_SIZE_MOST)
		config_later_check(config);
	return ncclSuccess;
}

/* Logs the program's settings; param_report_set logs those of the environment. */
static void config_report_set(ncclConfig_t *c)
{
	for (size_t i = 0; i < ARRAY_LEN(config_rows); i++) {
		int value = *config_value(&config_rows[i], c);

		if (value != NCCL_CONFIG_UNDEF_INT)
			INFO(LOG_ENV, "config: %s set by the program to %d%s", config_rows[i].name,
			     value, config_rows[i].idle ? ", which has no effect here" : "");
	}
	if (c->netName)
		INFO(LOG_ENV, "config: netName set by the program to %s", c->netName);
}

/* Logs the program's settings that variables of the environment or of files have replaced. */
static void config_report_overridden(ncclConfig_t *program, ncclConfig_t *c)
{
	for (size_t i = 0; i < ARRAY_LEN(config_rows); i++) {
		int given = *config_value(&config_rows[i], program);
		int value = *config_value(&config_rows[i], c);

		if (given != NCCL_CONFIG_UNDEF_INT && given != value)
			INFO(LOG_ENV,
			     "config: %s of the program is %d; a variable overrides it "
			     "with %d",
			     config_rows[i].name, given, value);
	}
	if (program->netName && strcmp(program->netName, c->netName) != 0)
		INFO(LOG_ENV, "config: netName of the program is %s; %s overrides it with %s",
		     program->netName, param_name(PARAM_NET), c->netName);
}

/* Checks a contradiction of the program. For the environment, maxCTAs wins. */
static ncclResult_t config_ctas_check(const ncclConfig_t *c)
{
	if (c->minCTAs == NCCL_CONFIG_UNDEF_INT || c->maxCTAs == NCCL_CONFIG_UNDEF_INT ||
	    c->minCTAs <= c->maxCTAs)
		return ncclSuccess;
	WARN("config: minCTAs is %d, more than maxCTAs, %d", c->minCTAs, c->maxCTAs);
	return ncclInvalidArgument;
}

/* Fills in what the program left undefined from the parent's configuration. */
static void config_inherit(ncclConfig_t *c, const struct ncclComm *parent)
{
	ncclConfig_t from = parent->config;

	for (size_t i = 0; i < ARRAY_LEN(config_rows); i++) {
		int *value = config_value(&config_rows[i], c);

		if (*value == NCCL_CONFIG_UNDEF_INT)
			*value = *config_value(&config_rows[i], &from);
	}
	if (!c->netName && parent->net.named)
		c->netName = parent->net.wanted;
	if (!c->commName && parent->life->name[0])
		c->commName = parent->life->name;
}

ncclResult_t comm_config_parse(const ncclConfig_t *config, ncclConfig_t *out)
{
	return comm_config_parse_child(config, NULL, out);
}

ncclResult_t comm_config_parse_child(const ncclConfig_t *config, const struct ncclComm *parent,
				     ncclConfig_t *out)
{
	ncclConfig_t c = NCCL_CONFIG_INITIALIZER;
	ncclConfig_t program;
	ncclResult_t rc = config ? config_copy(config, &c) : ncclSuccess;

	param_report_malformed();
	param_report_set();
	param_report_unread();
	log_report_silent();
	if (!rc && config)
		config_report_set(&c);
	if (!rc)
		rc = config_ctas_check(&c);
	if (rc)
		return rc;
	c.size = sizeof c;
	program = c;
	if (parent)
		config_inherit(&c, parent);
	config_environment(&c);
	config_report_overridden(&program, &c);
	for (size_t i = 0; i < ARRAY_LEN(config_rows) && !rc; i++)
		rc = config_row_check(&config_rows[i], &c);
	if (rc)
		return rc;
	if (c.minCTAs > c.maxCTAs) {
		INFO(LOG_ENV, "minCTAs is %d, more than maxCTAs, %d, which is used for both",
		     c.minCTAs, c.maxCTAs);
		c.minCTAs = c.maxCTAs;
	}
	if (c.netName && !net_name_find(c.netName)) {
		char names[64];

		WARN("config: %s is '%s', which is not a network; expected one of: %s",
		     param_str(PARAM_NET) ? param_name(PARAM_NET) : "netName", c.netName,
		     net_names(names, sizeof names));
		return ncclInvalidArgument;
	}
	*out = c;
	return ncclSuccess;
}
