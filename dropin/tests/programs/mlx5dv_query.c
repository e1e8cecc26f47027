/* SPDX-License-Identifier: BSD-3-Clause */
/* The direct verbs of every device. Devices with Mellanox' vendor id answer the query and report no
 * capability; other devices fail it. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdio.h>

static int look(struct ibv_device *device)
{
	struct ibv_context *c = ibv_open_device(device);
	struct mlx5dv_context dv = {.comp_mask = MLX5DV_CONTEXT_MASK_SWP, .flags = 1};
	struct mlx5dv_qp_init_attr dv_attr = {0};
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_RC};
	struct ibv_device_attr a;

	if (!c || ibv_query_device(c, &a))
		return 1;
	int mellanox = a.vendor_id == 0x2c9;

	if (mlx5dv_is_supported(device) != mellanox) {
		printf("vendor 0x%x: supported %d\n", a.vendor_id, mlx5dv_is_supported(device));
		return 1;
	}
	errno = 0;
	int rc = mlx5dv_query_device(c, &dv);

	if (rc != (mellanox ? 0 : EOPNOTSUPP) || (mellanox && (dv.comp_mask || dv.flags))) {
		printf("vendor 0x%x: query %d\n", a.vendor_id, rc);
		return 1;
	}
	errno = 0;
	if (mlx5dv_create_qp(c, &attr, &dv_attr) || errno != EOPNOTSUPP) {
		printf("a queue pair of direct verbs: errno %d\n", errno);
		return 1;
	}
	if (mlx5dv_devx_general_cmd(c, &rc, sizeof rc, &rc, sizeof rc) != EOPNOTSUPP) {
		printf("a command of direct verbs was taken\n");
		return 1;
	}
	return ibv_close_device(c);
}

int main(void)
{
	int n = 0, bad = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	for (int i = 0; i < n; i++)
		bad |= look(list[i]);
	ibv_free_device_list(list);
	return bad || n != 2;
}
