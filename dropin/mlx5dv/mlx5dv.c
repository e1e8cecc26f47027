/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Doppel's libmlx5.so.1, next to the drop-in libibverbs. Some programs (perftest) query the direct
 * verbs of every HCA with Mellanox' vendor id. The double has that vendor id and no direct verbs.
 * It is therefore a device of this provider, whose query succeeds and reports no capability. All
 * other calls fail with EOPNOTSUPP (abi.txt). A device of another vendor id (personality `rxe`) is
 * not a device of this provider. Sources: mlx5dv_query_device(3), mlx5dv_is_supported(3).
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
	/* Sets the fields that every version of the struct has. comp_mask 0: the other fields are
	 * not set. */
	out->version = 0;
	out->flags = 0;
	out->comp_mask = 0;
	return 0;
}
