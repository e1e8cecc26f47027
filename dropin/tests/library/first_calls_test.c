/* SPDX-License-Identifier: BSD-3-Clause */
/* Many threads make a program's first verbs calls at the same time. Each thread finds the devices,
 * opens one, and creates objects there. */
#include "dropin/tests/library/first_calls.h"
#include "dropin/tests/library/side.h"

static void body(long thread)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	need(list && n == 2, "two devices");
	struct ibv_context *c = ibv_open_device(list[thread % 2]);

	need(c != NULL, "the device opens");
	ibv_free_device_list(list);
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_cq *cq = ibv_create_cq(c, 16, NULL, NULL, 0);
	struct ibv_wc wc;

	need(pd && cq, "a domain and a completion queue");
	need(ibv_poll_cq(cq, 1, &wc) == 0, "an empty queue");
	need(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(c),
	     "all of it can be taken down");
}

int main(int argc, char **argv)
{
	return first_main(argc, argv, body);
}
