/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection manager against rdma_cm(7): a client and a server that use only public calls.
 * Linked with the drop-in libraries; calls no function of Doppel. */
#include "dropin/tests/library/rdmacm_pair.h"

START_TEST(connects_and_sends_both_ways)
{
	struct rdma_cm_id *l = listener(RDMA_PS_TCP, INADDR_ANY, 0), *s;
	struct rdma_cm_id *c = routed(RDMA_PS_TCP, INADDR_LOOPBACK, rdma_get_src_port(l));
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr ia;

	connect_pair(c, &s);
	ck_assert_ptr_eq(c->verbs, s->verbs);
	ck_assert_int_eq(rdma_get_dst_port(c), rdma_get_src_port(l));
	ck_assert_int_eq(rdma_get_dst_port(s), rdma_get_src_port(c));
	ck_assert_int_eq(ibv_query_qp(c->qp, &a, IBV_QP_STATE, &ia), 0);
	ck_assert_int_eq(a.qp_state, IBV_QPS_RTS);
	ck_assert_int_eq(a.max_rd_atomic, 2);
	ck_assert_int_eq(a.max_dest_rd_atomic, 2);
	ck_assert_int_eq(a.retry_cnt, 5);
	ck_assert_int_eq(a.rnr_retry, 6);
	exchange(c, s);
	exchange(s, c);
	ck_assert_int_eq(rdma_disconnect(c), 0);
	expect_only(active, RDMA_CM_EVENT_DISCONNECTED);
	expect_only(passive, RDMA_CM_EVENT_DISCONNECTED);
	ck_assert_int_eq(rdma_disconnect(s), 0);
	end_id(c);
	end_id(s);
	end_id(l);
}
END_TEST

START_TEST(rejected_with_words)
{
	struct rdma_cm_id *l = listener(RDMA_PS_TCP, INADDR_ANY, 0);
	struct rdma_cm_id *c = routed(RDMA_PS_TCP, INADDR_LOOPBACK, rdma_get_src_port(l));

	make_qp(c, IBV_QPT_RC);
	ck_assert_int_eq(rdma_connect(c, NULL), 0);
	struct rdma_cm_event *e = expect(passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_cm_id *s = e->id;

	ck_assert_int_eq(rdma_ack_cm_event(e), 0);
	ck_assert_int_eq(rdma_reject(s, "no", 3), 0);
	ck_assert_int_eq(rdma_accept(s, NULL), -1);
	ck_assert_int_eq(errno, EINVAL);
	end_id(s);
	e = expect(active, RDMA_CM_EVENT_REJECTED, 28);
	ck_assert_int_eq(e->param.conn.private_data_len, 148);
	ck_assert_str_eq(e->param.conn.private_data, "no");
	rdma_ack_cm_event(e);
	end_id(c);
	end_id(l);
}
END_TEST

START_TEST(nobody_listens)
{
	struct rdma_cm_id *c = routed(RDMA_PS_TCP, INADDR_LOOPBACK, htons(9));

	make_qp(c, IBV_QPT_RC);
	ck_assert_int_eq(rdma_connect(c, NULL), 0);
	rdma_ack_cm_event(expect(active, RDMA_CM_EVENT_REJECTED, 8));
	end_id(c);
}
END_TEST

static void *listen_later(void *arg)
{
	const struct timespec soon = {.tv_nsec = 50000000};

	nanosleep(&soon, NULL);
	return listener(RDMA_PS_TCP, INADDR_ANY, *(uint16_t *)arg);
}

/* True if the client found the listener. On a busy machine the listener may start after the client
 * stops waiting. */
static bool late_listener_found(uint16_t port)
{
	struct rdma_cm_id *c = routed(RDMA_PS_TCP, INADDR_LOOPBACK, htons(port)), *l;
	struct rdma_cm_event *e;
	pthread_t thread;

	make_qp(c, IBV_QPT_RC);
	ck_assert_int_eq(pthread_create(&thread, NULL, listen_later, &port), 0);
	ck_assert_int_eq(rdma_connect(c, NULL), 0);
	ck_assert_int_eq(pthread_join(thread, (void **)&l), 0);
	struct pollfd p = {.fd = active->fd, .events = POLLIN};
	bool found = poll(&p, 1, 0) == 0; /* neither rejected nor answered */

	if (found) {
		e = expect(passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		struct rdma_cm_id *s = e->id;

		rdma_ack_cm_event(e);
		make_qp(s, IBV_QPT_RC);
		ck_assert_int_eq(rdma_accept(s, NULL), 0);
		expect_only(active, RDMA_CM_EVENT_ESTABLISHED);
		expect_only(passive, RDMA_CM_EVENT_ESTABLISHED);
		end_id(s);
	} else {
		rdma_ack_cm_event(expect(active, RDMA_CM_EVENT_REJECTED, 8));
	}
	end_id(c);
	end_id(l);
	return found;
}

START_TEST(a_listener_that_comes_late_is_found)
{
	bool found = false;

	for (uint16_t port = 4720; port < 4730 && !found; port++)
		found = late_listener_found(port);
	ck_assert(found);
}
END_TEST

START_TEST(address_of_nobody)
{
	struct sockaddr_in a = address(0xc6336401, 7); /* 198.51.100.1, for documentation */
	struct rdma_cm_id *c;

	ck_assert_int_eq(rdma_create_id(active, &c, NULL, RDMA_PS_TCP), 0);
	ck_assert_int_eq(rdma_bind_addr(c, (struct sockaddr *)&a), -1);
	ck_assert_int_eq(errno, ENODEV);
	ck_assert_int_eq(rdma_resolve_addr(c, NULL, (struct sockaddr *)&a, 100), 0);
	rdma_ack_cm_event(expect(active, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH));
	end_id(c);
}
END_TEST

START_TEST(a_port_has_one_owner)
{
	struct rdma_cm_id *l = listener(RDMA_PS_TCP, INADDR_ANY, 4711), *other;
	struct sockaddr_in a = address(INADDR_ANY, 4711);

	ck_assert_int_eq(rdma_create_id(passive, &other, NULL, RDMA_PS_TCP), 0);
	ck_assert_int_eq(rdma_bind_addr(other, (struct sockaddr *)&a), -1);
	ck_assert_int_eq(errno, EADDRINUSE);
	end_id(other);
	end_id(l);
	end_id(listener(RDMA_PS_TCP, INADDR_ANY, 4711));
}
END_TEST

START_TEST(a_channel_that_does_not_block)
{
	struct rdma_cm_event *e;

	ck_assert_int_eq(fcntl(active->fd, F_SETFL, fcntl(active->fd, F_GETFL) | O_NONBLOCK), 0);
	ck_assert_int_eq(rdma_get_cm_event(active, &e), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_ptr_null(e);
}
END_TEST

START_TEST(a_datagram_service_is_looked_up)
{
	struct rdma_cm_id *l = listener(RDMA_PS_UDP, INADDR_ANY, 0), *s;
	struct rdma_cm_id *c = routed(RDMA_PS_UDP, INADDR_LOOPBACK, rdma_get_src_port(l));
	struct rdma_conn_param p = {.private_data = "who", .private_data_len = 4};

	make_qp(c, IBV_QPT_UD);
	ck_assert_int_eq(rdma_connect(c, &p), 0);
	struct rdma_cm_event *e = expect(passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);

	s = e->id;
	ck_assert_str_eq(e->param.ud.private_data, "who");
	rdma_ack_cm_event(e);
	make_qp(s, IBV_QPT_UD);
	p.qp_num = s->qp->qp_num;
	ck_assert_int_eq(rdma_accept(s, &p), 0);
	e = expect(active, RDMA_CM_EVENT_ESTABLISHED, 0);
	ck_assert_uint_eq(e->param.ud.qp_num, s->qp->qp_num);
	ck_assert_uint_eq(e->param.ud.qkey, RDMA_UDP_QKEY);
	ck_assert_int_eq(e->param.ud.ah_attr.is_global, 1);
	struct ibv_ah *ah = ibv_create_ah(c->pd, &e->param.ud.ah_attr);

	ck_assert_ptr_nonnull(ah);
	ibv_destroy_ah(ah);
	rdma_ack_cm_event(e);
	end_id(c);
	end_id(s);
	end_id(l);
}
END_TEST

static void *serve_once(void *arg)
{
	struct rdma_cm_id *l = arg, *id;
	char in[64] = "";

	ck_assert_int_eq(rdma_get_request(l, &id), 0);
	ck_assert_ptr_nonnull(id->qp);
	struct ibv_mr *mr = rdma_reg_msgs(id, in, sizeof in);
	struct ibv_wc wc;

	ck_assert_int_eq(rdma_post_recv(id, NULL, in, sizeof in, mr), 0);
	ck_assert_int_eq(rdma_accept(id, NULL), 0);
	ck_assert_int_eq(rdma_get_recv_comp(id, &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_str_eq(in, "synchronous");
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	return NULL;
}

START_TEST(synchronous_endpoints)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *r;
	struct ibv_qp_init_attr a = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1,
		.qp_type = IBV_QPT_RC};
	struct rdma_cm_id *l, *c;
	char out[64] = "synchronous";
	struct ibv_wc wc;
	pthread_t t;

	ck_assert_int_eq(rdma_getaddrinfo(NULL, "7471", &hints, &r), 0);
	ck_assert_int_eq(rdma_create_ep(&l, r, NULL, &a), 0);
	rdma_freeaddrinfo(r);
	ck_assert_int_eq(rdma_listen(l, 0), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, serve_once, l), 0);
	hints.ai_flags = 0;
	ck_assert_int_eq(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &r), 0);
	ck_assert_int_eq(r->ai_qp_type, IBV_QPT_RC);
	ck_assert_int_eq(rdma_create_ep(&c, r, NULL, &a), 0);
	rdma_freeaddrinfo(r);
	struct ibv_mr *mr = rdma_reg_msgs(c, out, sizeof out);

	ck_assert_int_eq(rdma_connect(c, NULL), 0);
	ck_assert_int_eq(rdma_post_send(c, NULL, out, sizeof out, mr, 0), 0);
	ck_assert_int_eq(rdma_get_send_comp(c, &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	pthread_join(t, NULL);
	rdma_disconnect(c);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(c);
	rdma_destroy_ep(l);
}
END_TEST

START_TEST(garbage_does_not_disturb_a_listener)
{
	struct rdma_cm_id *l = listener(RDMA_PS_TCP, INADDR_ANY, 0), *s;

	for (int i = 0; i < 64; i++)
		throw_garbage(i);
	struct rdma_cm_id *c = routed(RDMA_PS_TCP, INADDR_LOOPBACK, rdma_get_src_port(l));

	connect_pair(c, &s);
	exchange(c, s);
	end_id(c);
	end_id(s);
	end_id(l);
}
END_TEST

START_TEST(a_listener_ends_with_requests_pending)
{
	struct rdma_cm_id *l = listener(RDMA_PS_TCP, INADDR_ANY, 0);
	struct rdma_cm_id *c[3];

	for (int i = 0; i < 3; i++) {
		c[i] = routed(RDMA_PS_TCP, INADDR_LOOPBACK, rdma_get_src_port(l));
		make_qp(c[i], IBV_QPT_RC);
		ck_assert_int_eq(rdma_connect(c[i], NULL), 0);
	}
	end_id(l);
	for (int i = 0; i < 3; i++)
		rdma_ack_cm_event(expect(active, RDMA_CM_EVENT_REJECTED, 28));
	for (int i = 0; i < 3; i++)
		end_id(c[i]);
}
END_TEST

START_TEST(a_killed_peer_is_a_disconnect)
{
	struct rdma_cm_id *l = listener(RDMA_PS_TCP, INADDR_ANY, 0);
	__be16 port = rdma_get_src_port(l);
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (!child) { /* executes a program anew: the child cannot use this process' devices */
		char text[16];

		snprintf(text, sizeof text, "%u", ntohs(port));
		execl("/proc/self/exe", "rdmacm_test", "connect", text, (char *)NULL);
		_exit(1);
	}
	struct rdma_cm_event *e = expect(passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_cm_id *s = e->id;

	rdma_ack_cm_event(e);
	make_qp(s, IBV_QPT_RC);
	ck_assert_int_eq(rdma_accept(s, NULL), 0);
	expect_only(passive, RDMA_CM_EVENT_ESTABLISHED);
	kill(child, SIGKILL);
	expect_only(passive, RDMA_CM_EVENT_DISCONNECTED);
	waitpid(child, NULL, 0);
	end_id(s);
	end_id(l);
}
END_TEST

/* Connects and stays, in a process without a test runner. Returns 1 on failure. */
static int connect_and_stay(const char *to, const char *port)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *r;
	struct ibv_qp_init_attr a = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};
	struct rdma_cm_id *c;

	if (rdma_getaddrinfo(to, port, &hints, &r) || rdma_create_ep(&c, r, NULL, &a) ||
	    rdma_connect(c, NULL))
		return 1;
	pause();
	return 0;
}

static int serve_and_stay(const char *at, const char *port)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *r;
	struct ibv_qp_init_attr a = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};
	struct rdma_cm_id *l, *s;

	if (rdma_getaddrinfo(at, port, &hints, &r) || rdma_create_ep(&l, r, NULL, &a) ||
	    rdma_listen(l, 1) || write(STDOUT_FILENO, "r", 1) != 1 || rdma_get_request(l, &s) ||
	    rdma_accept(s, NULL))
		return 1;
	pause();
	return 0;
}

/* Starts this program again, on host 1 of the fabric. *out: its standard output. */
static pid_t on_host_1(const char *what, const char *where, __be16 port, int *out)
{
	int fd[2];

	ck_assert_int_eq(pipe(fd), 0);
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (!child) {
		char text[16];

		snprintf(text, sizeof text, "%u", ntohs(port));
		setenv("DOPPEL_HOST", "1", 1);
		dup2(fd[1], STDOUT_FILENO);
		execl("/proc/self/exe", "rdmacm_test", what, where, text, (char *)NULL);
		_exit(1);
	}
	close(fd[1]);
	*out = fd[0];
	return child;
}

static void end_other(pid_t child, int out)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(out);
}

START_TEST(every_address_is_every_address_of_its_host)
{
	struct rdma_cm_id *l = listener(RDMA_PS_TCP, INADDR_ANY, 0);
	__be16 port = rdma_get_src_port(l);
	int out, status;
	char ready;

	/* host 1's loopback does not reach this host, but the address of this host's HCA does */
	pid_t child = on_host_1("connect", "127.0.0.1", port, &out);

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	close(out);
	child = on_host_1("connect", "172.16.0.1", port, &out);
	struct rdma_cm_event *e = expect(passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_cm_id *s = e->id;

	rdma_ack_cm_event(e);
	ck_assert_uint_eq(((struct sockaddr_in *)rdma_get_peer_addr(s))->sin_addr.s_addr,
			  htonl(0xac100101));
	make_qp(s, IBV_QPT_RC);
	ck_assert_int_eq(rdma_accept(s, NULL), 0);
	expect_only(passive, RDMA_CM_EVENT_ESTABLISHED);
	end_other(child, out);
	expect_only(passive, RDMA_CM_EVENT_DISCONNECTED);
	end_id(s);

	/* on host 1 the port is free, and only that host's addresses reach the listener there */
	child = on_host_1("serve", "0.0.0.0", port, &out);
	ck_assert_int_eq(read(out, &ready, 1), 1);
	struct rdma_cm_id *c = routed(RDMA_PS_TCP, 0xac100101, port);

	make_qp(c, IBV_QPT_RC);
	ck_assert_int_eq(rdma_connect(c, NULL), 0);
	expect_only(active, RDMA_CM_EVENT_ESTABLISHED);
	end_other(child, out);
	expect_only(active, RDMA_CM_EVENT_DISCONNECTED);
	end_id(c);
	end_id(l);
}
END_TEST

START_TEST(an_hca_that_no_host_has_is_not_reached)
{
	struct sockaddr_in a = address(0xac100163, 7); /* 172.16.1.99 */
	struct rdma_cm_id *c;

	ck_assert_int_eq(rdma_create_id(active, &c, NULL, RDMA_PS_TCP), 0);
	ck_assert_int_eq(rdma_resolve_addr(c, NULL, (struct sockaddr *)&a, 100), 0);
	rdma_ack_cm_event(expect(active, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH));
	end_id(c);
}
END_TEST

START_TEST(groups_are_joined_and_left)
{
	struct sockaddr_in group = address(0xe8010203, 0), a = address(INADDR_LOOPBACK, 0);
	struct rdma_cm_id *id;

	ck_assert_int_eq(rdma_create_id(active, &id, NULL, RDMA_PS_UDP), 0);
	ck_assert_int_eq(rdma_bind_addr(id, (struct sockaddr *)&a), 0);
	make_qp(id, IBV_QPT_UD);
	ck_assert_int_eq(rdma_join_multicast(id, (struct sockaddr *)&group, "mine"), 0);
	struct rdma_cm_event *e = expect(active, RDMA_CM_EVENT_MULTICAST_JOIN, 0);

	ck_assert_str_eq(e->param.ud.private_data, "mine");
	ck_assert_uint_eq(e->param.ud.qp_num, 0xffffff);
	rdma_ack_cm_event(e);
	ck_assert_int_eq(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
	ck_assert_int_eq(rdma_leave_multicast(id, (struct sockaddr *)&group), -1);
	ck_assert_int_eq(errno, EADDRNOTAVAIL);
	end_id(id);
}
END_TEST

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "connect") == 0)
		return connect_and_stay("127.0.0.1", argv[2]);
	if (argc == 4 && strcmp(argv[1], "connect") == 0)
		return connect_and_stay(argv[2], argv[3]);
	if (argc == 4 && strcmp(argv[1], "serve") == 0)
		return serve_and_stay(argv[2], argv[3]);
	Suite *s = suite_create("rdmacm");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 20);
	tcase_add_test(t, connects_and_sends_both_ways);
	tcase_add_test(t, rejected_with_words);
	tcase_add_test(t, nobody_listens);
	tcase_add_test(t, a_listener_that_comes_late_is_found);
	tcase_add_test(t, address_of_nobody);
	tcase_add_test(t, a_port_has_one_owner);
	tcase_add_test(t, a_channel_that_does_not_block);
	tcase_add_test(t, a_datagram_service_is_looked_up);
	tcase_add_test(t, synchronous_endpoints);
	tcase_add_test(t, garbage_does_not_disturb_a_listener);
	tcase_add_test(t, a_listener_ends_with_requests_pending);
	tcase_add_test(t, a_killed_peer_is_a_disconnect);
	tcase_add_test(t, every_address_is_every_address_of_its_host);
	tcase_add_test(t, an_hca_that_no_host_has_is_not_reached);
	tcase_add_test(t, groups_are_joined_and_left);
	suite_add_tcase(s, t);
	return suite_run(s);
}
