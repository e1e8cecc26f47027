/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of devices is memory of malloc(3): qperf and other programs pass it to free(3). */
#include <malloc.h>

#include "dropin/tests/library/side.h"

static struct ibv_device **devices(void)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	need(list && n == 2 && list[0] && list[1] && !list[2], "two HCAs and a NULL");
	return list;
}

static void open_and_close(struct ibv_device *device)
{
	struct ibv_context *c = ibv_open_device(device);

	need(c && !ibv_close_device(c), "the device opens and closes");
}

int main(void)
{
	side_fabric("list");
	struct ibv_device **first = devices(), *device = first[1];

	need(malloc_usable_size(first) >= 3 * sizeof *first, "the list starts its memory");
	free(first);
	open_and_close(device);

	struct ibv_device **second = devices();

	second[0] = NULL; /* the program's own memory: it may remove entries */
	open_and_close(second[1]);
	ibv_free_device_list(second);
	ibv_free_device_list(NULL);
	open_and_close(device);
	return 0;
}
