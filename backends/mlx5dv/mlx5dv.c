/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libmlx5.so.1 of our own, beside the drop-in libibverbs: for programs that query the direct verbs
 * of every HCA with Mellanox' vendor id (perftest). The double has that vendor id and no direct
 * verbs: it is a device of this provider, whose query succeeds and reports no capability, and every
 * other call fails with EOPNOTSUPP (abi.txt). A device of another vendor id (personality `rxe`) is
 * not of this provider. Facts: mlx5dv_query_device(3), mlx5dv_is_supported(3).
 */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <string.h>

#include "backends/fakeverbs/objects/handles.h"

bool mlx5dv_is_supported(struct ibv_device *device)
{
	const struct hca_device_handle *d = (const struct hca_device_handle *)device;

	return device && d->provider && !strcmp(d->provider, HCA_PROVIDER_MLX5);
}

int mlx5dv_query_device(struct ibv_context *context, struct mlx5dv_context *out)
{
	if (!mlx5dv_is_supported(context->device))
		return errno = EOPNOTSUPP;
	/* the fields that every version of the struct has; no bit of comp_mask: the others are not
	 * filled in */
	out->version = 0;
	out->flags = 0;
	out->comp_mask = 0;
	return 0;
}
