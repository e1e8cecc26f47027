/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/param.h"
#include "core/topo/topo_internal.h"

static const char topo_path_names[][4] = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB",
					  "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};

const char *topo_path_name(enum topo_path_type t)
{
	return (unsigned)t < ARRAY_LEN(topo_path_names) ? topo_path_names[t] : "?";
}

/* Reads a level: a path's name, or one of the older numbers. param_form.c has checked it. */
static int32_t topo_level_read(enum param p)
{
	static const int32_t by_number[] = {TOPO_PATH_LOC, TOPO_PATH_PIX, TOPO_PATH_PXB,
					    TOPO_PATH_PHB, TOPO_PATH_SYS, TOPO_PATH_SYS};
	const char *text = param_str(p);
	if (!text || !text[0])
		return -1;
	if (text[0] >= '0' && text[0] <= '9')
		return by_number[MIN_OF(strtoul(text, NULL, 10), ARRAY_LEN(by_number) - 1)];
	for (int32_t t = TOPO_PATH_LOC; t <= TOPO_PATH_SYS; t++)
		if (strcmp(text, topo_path_names[t]) == 0)
			return t;
	return -1;
}

static int32_t topo_merge_level_read(void)
{
	static const struct {
		char name[8];
		int32_t level;
	} levels[] = {{"LOC", TOPO_MERGE_LOC}, {"PORT", TOPO_MERGE_PORT}, {"PIX", TOPO_MERGE_PIX},
		      {"PXB", TOPO_MERGE_PXB}, {"P2C", TOPO_MERGE_PXB},   {"PXN", TOPO_MERGE_PXB},
		      {"PHB", TOPO_MERGE_PHB}, {"SYS", TOPO_MERGE_PHB}};
	const char *text = param_str(PARAM_NET_MERGE_LEVEL);

	for (size_t i = 0; i < ARRAY_LEN(levels); i++)
		if (strcmp(text, levels[i].name) == 0)
			return levels[i].level;
	return TOPO_MERGE_PORT;
}

static void topo_merge_read(struct topo_params *params)
{
	const char *force = param_str(PARAM_NET_FORCE_MERGE);

	params->merge_level = TOPO_MERGE_LOC;
	if (!param_bool(PARAM_IB_MERGE_NICS))
		return;
	params->merge_level = topo_merge_level_read();
	params->merge_rail = strcmp(param_str(PARAM_NET_MERGE_POLICY), "RAIL") == 0;
	snprintf(params->force_merge, sizeof params->force_merge, "%s", force ? force : "");
}

static int32_t topo_compat_read(void)
{
	const char *text = param_str(PARAM_TOPO_COMPAT);

	return text && strcmp(text, "2.28") == 0 ? TOPO_COMPAT_2_28 : TOPO_COMPAT_NEW;
}

void topo_params_read(struct topo_params *params)
{
	memset(params, 0, sizeof *params);
	params->p2p_level =
		param_bool(PARAM_P2P_DISABLE) ? TOPO_PATH_LOC : topo_level_read(PARAM_P2P_LEVEL);
	params->gdr_level = topo_level_read(PARAM_NET_GDR_LEVEL);
	params->cross_nic = (int32_t)param_i64(PARAM_CROSS_NIC);
	params->gdr_flush_disable = param_bool(PARAM_GDR_FLUSH_DISABLE);
	params->pxn_disable = param_bool(PARAM_PXN_DISABLE);
	params->nvb_disable = param_bool(PARAM_NVB_DISABLE);
	params->collnet = param_bool(PARAM_COLLNET_ENABLE);
	params->compat = topo_compat_read();
	topo_merge_read(params);
	/* Connecting doubles the channels, so a search finds at most half of them. */
	int64_t most = param_i64(PARAM_MAX_NCHANNELS);
	params->max_channels = DEV_MAX_CHANNELS / 2;
	if (most > 0)
		params->max_channels = (int32_t)MIN_OF(most, DEV_MAX_CHANNELS / 2);
	params->min_channels = 1;
}

/* ---- what ranks of a host share -------------------------------------------------------------- */

/* Settings in the order of their bits. */
static const struct {
	const char *name;
	bool level; /* true: a path type; false: a number */
} topo_setting_rows[] = {
	{"NCCL_P2P_LEVEL or NCCL_P2P_DISABLE", true},
	{"NCCL_NET_GDR_LEVEL", true},
	{"NCCL_CROSS_NIC", false},
	{"NCCL_PXN_DISABLE", false},
	{"NCCL_NVB_DISABLE", false},
	{"NCCL_COLLNET_ENABLE", false},
	{"NCCL_TOPO_COMPAT", false},
	{"NCCL_IB_MERGE_NICS, NCCL_NET_MERGE_LEVEL or NCCL_NET_MERGE_POLICY", false},
};

/* Each row has a value from -1 to 14. */
#define TOPO_SETTING_BITS 4
DOPPEL_STATIC_CHECK(ARRAY_LEN(topo_setting_rows) * TOPO_SETTING_BITS == 32, "all bits are used");

static int32_t topo_setting_of(uint32_t settings, uint32_t row)
{
	return (int32_t)(settings >> (row * TOPO_SETTING_BITS) & 15) - 1;
}

uint32_t topo_settings_read(void)
{
	struct topo_params p;
	uint32_t settings = 0;

	topo_params_read(&p);
	const int32_t value[ARRAY_LEN(topo_setting_rows)] = {
		p.p2p_level,   p.gdr_level, p.cross_nic, p.pxn_disable,
		p.nvb_disable, p.collnet,   p.compat,    2 * p.merge_level + p.merge_rail};

	for (uint32_t i = 0; i < ARRAY_LEN(value); i++) {
		ASSERT(value[i] >= -1 && value[i] < 15);
		settings |= (uint32_t)(value[i] + 1) << (i * TOPO_SETTING_BITS);
	}
	return settings;
}

static void topo_setting_print(uint32_t settings, uint32_t row, char text[TOPO_SETTING_TEXT])
{
	int32_t value = topo_setting_of(settings, row);

	if (!topo_setting_rows[row].level)
		snprintf(text, TOPO_SETTING_TEXT, "%d", value);
	else
		snprintf(text, TOPO_SETTING_TEXT, "%s",
			 value < 0 ? "its default" : topo_path_name((enum topo_path_type)value));
}

const char *topo_settings_differ(uint32_t a, uint32_t b, char of_a[TOPO_SETTING_TEXT],
				 char of_b[TOPO_SETTING_TEXT])
{
	for (uint32_t i = 0; i < ARRAY_LEN(topo_setting_rows); i++) {
		if (topo_setting_of(a, i) == topo_setting_of(b, i))
			continue;
		topo_setting_print(a, i, of_a);
		topo_setting_print(b, i, of_b);
		return topo_setting_rows[i].name;
	}
	return NULL;
}
