/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ncclConfig_t: checked field by field, from one table.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/comm/comm.h"
#include "core/transport/net.h"

#define CONFIG_MAGIC 0xcafebeefu

/* The first layout ended after `blocking`; a caller of a later version passes more. */
#define CONFIG_SIZE_LEAST (offsetof(ncclConfig_t, blocking) + sizeof(int))
DOPPEL_CHECK_OFFSET(ncclConfig_t, blocking, 16);
DOPPEL_CHECK_OFFSET(ncclConfig_t, netName, 32);
DOPPEL_CHECK_OFFSET(ncclConfig_t, commName, 48);
DOPPEL_CHECK_SIZE(ncclConfig_t, 80);

struct config_row {
	const char *name;
	size_t offset;
	int least, most, initial;
};

#define CONFIG_ROW(field, least, most, initial)                                                    \
	{                                                                                          \
#field, offsetof(ncclConfig_t, field), least, most, initial                        \
	}
static const struct config_row config_rows[] = {
	CONFIG_ROW(blocking, 0, 1, 1),
	CONFIG_ROW(cgaClusterSize, 0, 8, NCCL_CONFIG_UNDEF_INT),
	CONFIG_ROW(minCTAs, 1, DEV_MAX_CHANNELS, 1),
	CONFIG_ROW(maxCTAs, 1, DEV_MAX_CHANNELS, DEV_MAX_CHANNELS),
	CONFIG_ROW(splitShare, 0, 1, 0),
	CONFIG_ROW(trafficClass, 0, 255, NCCL_CONFIG_UNDEF_INT),
	CONFIG_ROW(collnetEnable, 0, 1, 0),
	CONFIG_ROW(CTAPolicy, NCCL_CTA_POLICY_DEFAULT,
		   NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO, NCCL_CTA_POLICY_DEFAULT),
	CONFIG_ROW(shrinkShare, 0, 1, 0),
	CONFIG_ROW(nvlsCTAs, 1, DEV_MAX_CHANNELS, NCCL_CONFIG_UNDEF_INT),
	CONFIG_ROW(nChannelsPerNetPeer, 1, DEV_MAX_CHANNELS, NCCL_CONFIG_UNDEF_INT),
	CONFIG_ROW(nvlinkCentricSched, 0, 1, 0),
};

static ncclResult_t config_row_check(const struct config_row *row, ncclConfig_t *c)
{
	int *value = (int *)((char *)c + row->offset);
	if (*value == NCCL_CONFIG_UNDEF_INT) {
		*value = row->initial;
		return ncclSuccess;
	}
	if (*value >= row->least && *value <= row->most)
		return ncclSuccess;
	WARN("config: %s is %d, expected %d to %d", row->name, *value, row->least, row->most);
	return ncclInvalidArgument;
}

/* The environment goes before the program. */
static void config_environment(ncclConfig_t *c)
{
	if (param_is_set(PARAM_COMM_BLOCKING) && param_i64(PARAM_COMM_BLOCKING) >= 0)
		c->blocking = (int)param_i64(PARAM_COMM_BLOCKING);
	if (param_i64(PARAM_MIN_CTAS) > 0)
		c->minCTAs = (int)param_i64(PARAM_MIN_CTAS);
	if (param_i64(PARAM_MAX_CTAS) > 0)
		c->maxCTAs = (int)param_i64(PARAM_MAX_CTAS);
	/* the older names for the same */
	if (param_i64(PARAM_MIN_NCHANNELS) > 0)
		c->minCTAs = (int)param_i64(PARAM_MIN_NCHANNELS);
	if (param_i64(PARAM_MAX_NCHANNELS) > 0)
		c->maxCTAs = (int)param_i64(PARAM_MAX_NCHANNELS);
	if (param_i64(PARAM_CGA_CLUSTER_SIZE) >= 0)
		c->cgaClusterSize = (int)param_i64(PARAM_CGA_CLUSTER_SIZE);
	if (param_i64(PARAM_NCHANNELS_PER_NET_PEER) > 0)
		c->nChannelsPerNetPeer = (int)param_i64(PARAM_NCHANNELS_PER_NET_PEER);
	if (param_str(PARAM_NET))
		c->netName = param_str(PARAM_NET);
}

static ncclResult_t config_copy(const ncclConfig_t *config, ncclConfig_t *out)
{
	if (config->magic != CONFIG_MAGIC || config->size < CONFIG_SIZE_LEAST) {
		WARN("config: magic 0x%x and size %zu; initialise it with NCCL_CONFIG_INITIALIZER",
		     config->magic, config->size);
		return ncclInvalidArgument;
	}
	memcpy(out, config, MIN_OF(config->size, sizeof *out));
	return ncclSuccess;
}

ncclResult_t comm_config_parse(const ncclConfig_t *config, ncclConfig_t *out)
{
	ncclConfig_t c = NCCL_CONFIG_INITIALIZER;
	ncclResult_t rc = config ? config_copy(config, &c) : ncclSuccess;

	param_report_malformed();
	param_report_set();
	log_report_silent();
	if (rc)
		return rc;
	c.size = sizeof c;
	config_environment(&c);
	for (size_t i = 0; i < ARRAY_LEN(config_rows) && !rc; i++)
		rc = config_row_check(&config_rows[i], &c);
	if (rc)
		return rc;
	if (c.minCTAs > c.maxCTAs) {
		WARN("config: minCTAs is %d, more than maxCTAs, %d", c.minCTAs, c.maxCTAs);
		return ncclInvalidArgument;
	}
	if (c.netName && !net_find(c.netName)) {
		char names[64];

		WARN("config: %s is '%s', which is not a network; expected one of: %s",
		     param_str(PARAM_NET) ? param_name(PARAM_NET) : "netName", c.netName,
		     net_names(names, sizeof names));
		return ncclInvalidArgument;
	}
	*out = c;
	return ncclSuccess;
}
