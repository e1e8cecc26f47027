/* SPDX-License-Identifier: BSD-3-Clause */
/* A receive is posted, then the connection is rejected by the listening program, or because no
 * program listens. The event moves the queue pair to ERR, and the receive is flushed. */
#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(int ok, const char *what)
{
	if (ok)
		return;
	printf("not so: %s\n", what);
	exit(1);
}

/* Gets the next event, which must have that type. Returns its identifier. */
static struct rdma_cm_id *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *e = NULL;

	need(poll(&p, 1, 60000) == 1 && !rdma_get_cm_event(channel, &e), "an event");
	struct rdma_cm_id *id = e->id;

	if (e->event != type) {
		printf("%s, expected %s\n", rdma_event_str(e->event), rdma_event_str(type));
		exit(1);
	}
	rdma_ack_cm_event(e);
	return id;
}

static struct rdma_cm_id *client(struct rdma_event_channel *channel, struct sockaddr *to,
				 struct ibv_sge *sge)
{
	struct ibv_qp_init_attr a = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
	struct ibv_recv_wr wr = {.wr_id = 5, .sg_list = sge, .num_sge = 1}, *bad;
	struct rdma_cm_id *id;

	need(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "an identifier");
	need(!rdma_resolve_addr(id, NULL, to, 2000), "the address");
	expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	need(!rdma_resolve_route(id, 2000), "the route");
	expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	need(!rdma_create_qp(id, NULL, &a), "a queue pair");
	struct ibv_mr *mr = ibv_reg_mr(id->pd, calloc(1, 64), 64, IBV_ACCESS_LOCAL_WRITE);

	need(mr != NULL, "a region");
	*sge = (struct ibv_sge){(uintptr_t)mr->addr, 64, mr->lkey};
	need(!ibv_post_recv(id->qp, &wr, &bad), "a receive");
	need(!rdma_connect(id, &param), "a request");
	return id;
}

static void flushed(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	struct ibv_wc wc;
	int n = 0;

	need(!ibv_query_qp(id->qp, &a, IBV_QP_STATE, &init) && a.qp_state == IBV_QPS_ERR,
	     "the queue pair is in ERR");
	for (int i = 0; i < 1000000 && !(n = ibv_poll_cq(id->recv_cq, 1, &wc)); i++)
		sched_yield();
	need(n == 1 && wc.wr_id == 5 && wc.status == IBV_WC_WR_FLUSH_ERR, "the receive is flushed");
	rdma_destroy_qp(id);
	need(!rdma_destroy_id(id), "the identifier ends");
}

int main(void)
{
	const char *host = getenv("DOPPEL_HOST");
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct rdma_event_channel *here = rdma_create_event_channel(),
				  *there = rdma_create_event_channel();
	struct rdma_cm_id *listener, *id, *asked;
	struct ibv_sge sge;
	char address[32];

	snprintf(address, sizeof address, "172.16.%d.1", host ? atoi(host) : 0);
	inet_pton(AF_INET, address, &to.sin_addr);
	need(here && there && !rdma_create_id(there, &listener, NULL, RDMA_PS_TCP), "a listener");
	need(!rdma_bind_addr(listener, (struct sockaddr *)&to) && !rdma_listen(listener, 4),
	     "it listens");
	to.sin_port = rdma_get_src_port(listener);
	id = client(here, (struct sockaddr *)&to, &sge);
	asked = expect(there, RDMA_CM_EVENT_CONNECT_REQUEST);
	need(!rdma_reject(asked, NULL, 0) && !rdma_destroy_id(asked), "the request is refused");
	expect(here, RDMA_CM_EVENT_REJECTED);
	flushed(id);

	need(!rdma_destroy_id(listener), "the listener ends");
	id = client(here, (struct sockaddr *)&to, &sge);
	expect(here, RDMA_CM_EVENT_REJECTED);
	flushed(id);
	return 0;
}
