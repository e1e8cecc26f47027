/* SPDX-License-Identifier: BSD-3-Clause */
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

/* A level is a path's name, or one of the numbers that came before names: param_form.c. */
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
	/* a search finds half of what connect makes of it */
	int64_t most = param_i64(PARAM_MAX_NCHANNELS);
	params->max_channels = DEV_MAX_CHANNELS / 2;
	if (most > 0)
		params->max_channels = (int32_t)MIN_OF(most, DEV_MAX_CHANNELS / 2);
	params->min_channels = 1;
}
