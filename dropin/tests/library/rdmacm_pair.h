/* SPDX-License-Identifier: BSD-3-Clause */
/* Identifiers, connected pairs and invalid messages of rdmacm_test.c. */
#ifndef DROPIN_TESTS_LIBRARY_RDMACM_PAIR_H
#define DROPIN_TESTS_LIBRARY_RDMACM_PAIR_H

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/suite.h"

static struct rdma_event_channel *active, *passive;

static inline void setup(void)
{
	char fabric[24];

	snprintf(fabric, sizeof fabric, "rdmacm%d", getpid());
	setenv("DOPPEL_FABRIC", fabric, 1);
	active = rdma_create_event_channel();
	passive = rdma_create_event_channel();
	ck_assert_ptr_nonnull(active);
	ck_assert_ptr_nonnull(passive);
}

static inline void teardown(void)
{
	rdma_destroy_event_channel(active);
	rdma_destroy_event_channel(passive);
}

static inline struct sockaddr_in address(uint32_t ip, uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {.s_addr = htonl(ip)}};
}

/* Gets the next event, which must be this one. The caller acknowledges it. */
static inline struct rdma_cm_event *expect(struct rdma_event_channel *c,
					   enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *e;

	ck_assert_int_eq(rdma_get_cm_event(c, &e), 0);
	ck_assert_msg(e->event == type && e->status == status, "%s, status %d; expected %s, %d",
		      rdma_event_str(e->event), e->status, rdma_event_str(type), status);
	return e;
}

static inline void expect_only(struct rdma_event_channel *c, enum rdma_cm_event_type type)
{
	ck_assert_int_eq(rdma_ack_cm_event(expect(c, type, 0)), 0);
}

static inline struct rdma_cm_id *listener(enum rdma_port_space ps, uint32_t ip, uint16_t port)
{
	struct sockaddr_in a = address(ip, port);
	struct rdma_cm_id *id;

	ck_assert_int_eq(rdma_create_id(passive, &id, "listener", ps), 0);
	ck_assert_int_eq(rdma_bind_addr(id, (struct sockaddr *)&a), 0);
	ck_assert_int_eq(rdma_listen(id, 4), 0);
	return id;
}

static inline struct rdma_cm_id *routed(enum rdma_port_space ps, uint32_t ip, __be16 port)
{
	struct sockaddr_in a = address(ip, 0);
	struct rdma_cm_id *id;

	a.sin_port = port;
	ck_assert_int_eq(rdma_create_id(active, &id, "client", ps), 0);
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 1000), 0);
	expect_only(active, RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert_ptr_nonnull(id->verbs);
	ck_assert_int_eq(id->port_num, 1);
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	expect_only(active, RDMA_CM_EVENT_ROUTE_RESOLVED);
	ck_assert_int_eq(id->route.num_paths, 1);
	return id;
}

static inline void make_qp(struct rdma_cm_id *id, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr a = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = type,
		.sq_sig_all = 1};

	ck_assert_int_eq(rdma_create_qp(id, NULL, &a), 0);
	ck_assert_ptr_nonnull(id->qp);
	ck_assert_ptr_nonnull(id->send_cq);
	ck_assert_ptr_nonnull(id->recv_cq);
}

static inline void end_id(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	ck_assert_int_eq(rdma_destroy_id(id), 0);
}

/* Connects until both sides have ESTABLISHED. */
static inline void connect_pair(struct rdma_cm_id *client, struct rdma_cm_id **server)
{
	struct rdma_conn_param p = {.private_data = "hello",
				    .private_data_len = 6,
				    .responder_resources = 2,
				    .initiator_depth = 3,
				    .retry_count = 5,
				    .rnr_retry_count = 6};

	make_qp(client, IBV_QPT_RC);
	ck_assert_int_eq(rdma_connect(client, &p), 0);
	struct rdma_cm_event *e = expect(passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);

	*server = e->id;
	ck_assert_str_eq(e->listen_id->context, "listener");
	ck_assert_int_eq(e->param.conn.private_data_len, 56);
	ck_assert_str_eq(e->param.conn.private_data, "hello");
	ck_assert_int_eq(e->param.conn.responder_resources, 3);
	ck_assert_int_eq(e->param.conn.initiator_depth, 2);
	ck_assert_int_eq(e->param.conn.retry_count, 5);
	ck_assert_int_eq(e->param.conn.rnr_retry_count, 6);
	ck_assert_uint_eq(e->param.conn.qp_num, client->qp->qp_num);
	ck_assert_int_eq(rdma_ack_cm_event(e), 0);
	make_qp(*server, IBV_QPT_RC);
	p.private_data = "world";
	ck_assert_int_eq(rdma_accept(*server, &p), 0);
	e = expect(active, RDMA_CM_EVENT_ESTABLISHED, 0);
	ck_assert_ptr_eq(e->id, client);
	ck_assert_int_eq(e->param.conn.private_data_len, 196);
	ck_assert_str_eq(e->param.conn.private_data, "world");
	ck_assert_int_eq(rdma_ack_cm_event(e), 0);
	expect_only(passive, RDMA_CM_EVENT_ESTABLISHED);
}

static inline void completion(struct ibv_cq *cq, enum ibv_wc_status status)
{
	struct ibv_wc wc;
	int n;

	do
		n = ibv_poll_cq(cq, 1, &wc);
	while (n == 0);
	ck_assert_int_eq(n, 1);
	ck_assert_msg(wc.status == status, "%s", ibv_wc_status_str(wc.status));
}

static inline void exchange(struct rdma_cm_id *from, struct rdma_cm_id *to)
{
	char out[64] = "a message", in[64] = "";
	struct ibv_mr *mo = rdma_reg_msgs(from, out, sizeof out);
	struct ibv_mr *mi = rdma_reg_msgs(to, in, sizeof in);

	ck_assert_ptr_nonnull(mo);
	ck_assert_ptr_nonnull(mi);
	ck_assert_int_eq(rdma_post_recv(to, NULL, in, sizeof in, mi), 0);
	ck_assert_int_eq(rdma_post_send(from, NULL, out, sizeof out, mo, 0), 0);
	completion(from->send_cq, IBV_WC_SUCCESS);
	completion(to->recv_cq, IBV_WC_SUCCESS);
	ck_assert_str_eq(in, "a message");
	rdma_dereg_mr(mo);
	rdma_dereg_mr(mi);
}

/* Sends messages to the listener from a process that is not a connection manager. */
static inline void throw_garbage(int n)
{
	uint8_t junk[512];
	char path[108];
	FILE *f = fopen("/proc/net/unix", "re");
	char line[256];
	int thrown = 0;

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof line, f)) {
		const char *at = strstr(line, "@doppel-cm/");
		struct sockaddr_un name = {.sun_family = AF_UNIX};

		/* flag of sockets that accept connections */
		if (!at || !strstr(at, getenv("DOPPEL_FABRIC")) || !strstr(line, " 00010000 "))
			continue;
		ck_assert_int_eq(sscanf(at + 1, "%107s", path), 1);
		memcpy(name.sun_path + 1, path, strlen(path));
		int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

		for (size_t i = 0; i < sizeof junk; i++)
			junk[i] = (uint8_t)(i * 31 + (size_t)n * 7);
		if (connect(fd, (struct sockaddr *)&name,
			    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
					strlen(path))) == 0)
			thrown += send(fd, junk, (size_t)(n * 37 % 512), MSG_NOSIGNAL) >= 0;
		close(fd);
	}
	fclose(f);
	ck_assert_int_gt(thrown, 0);
}

#endif
