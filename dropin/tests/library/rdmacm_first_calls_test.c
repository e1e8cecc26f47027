/* SPDX-License-Identifier: BSD-3-Clause */
/* Many threads make the first calls of librdmacm and of libibverbs at the same time. The first one
 * opens the devices, and the default objects of a device are created once. */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "dropin/tests/library/first_calls.h"
#include "dropin/tests/library/side.h"

static struct ibv_pd *pd_of[FIRST_THREADS];
static struct ibv_xrcd *xrcd_of[FIRST_THREADS];
static pthread_barrier_t made;

static void look(void)
{
	int n = 0;
	struct ibv_context **all = rdma_get_devices(&n);

	need(all && n == 2, "two devices");
	rdma_free_devices(all);
}

static void list(void)
{
	int n = 0;
	struct ibv_device **all = ibv_get_device_list(&n);

	need(all && n == 2, "two devices");
	ibv_free_device_list(all);
}

/* Creates an identifier with a queue pair for which the program has no domain: it uses both default
 * objects. */
static struct rdma_cm_id *target(long thread)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_XRC_RECV};
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = NULL;

	inet_pton(AF_INET, "172.16.0.1", &at.sin_addr);
	need(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "an identifier");
	need(!rdma_bind_addr(id, (struct sockaddr *)&at), "it is bound");
	need(!rdma_create_qp(id, NULL, &a), "a queue pair");
	struct ibv_srq_init_attr_ex s = {.attr = {.max_wr = 4, .max_sge = 1},
					 .comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
					 .srq_type = IBV_SRQT_XRC};

	need(!rdma_create_srq_ex(id, &s), "a shared receive queue");
	pd_of[thread] = id->pd;
	xrcd_of[thread] = s.xrcd;
	return id;
}

static void body(long thread)
{
	if (thread % 4 == 1)
		look();
	if (thread % 4 == 2)
		list();
	(void)target(thread);
	if (pthread_barrier_wait(&made) != PTHREAD_BARRIER_SERIAL_THREAD)
		return;
	for (int i = 1; i < FIRST_THREADS; i++)
		need(pd_of[i] == pd_of[0] && xrcd_of[i] == xrcd_of[0],
		     "one domain of each kind for the device");
}

int main(int argc, char **argv)
{
	pthread_barrier_init(&made, NULL, FIRST_THREADS);
	return first_main(argc, argv, body);
}
