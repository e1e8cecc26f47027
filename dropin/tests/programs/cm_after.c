/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a connection. Each side that has called rdma_disconnect gets TIMEWAIT_EXIT once, some
 * time after DISCONNECTED, also on a channel to which its identifier moved meanwhile. A side that
 * has not called it gets no such event. A reply that finds no usable queue pair is CONNECT_ERROR
 * and leaves that queue pair in ERR. A listener that moves to another channel takes its pending
 * requests with it. */
#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
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

static int readable(struct rdma_event_channel *channel, int ms)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

/* Gets the next event, which must have that type. Returns its identifier. */
static struct rdma_cm_id *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e = NULL;

	need(readable(channel, 60000) && !rdma_get_cm_event(channel, &e), rdma_event_str(type));
	struct rdma_cm_id *id = e->id;

	if (e->event != type) {
		printf("%s, expected %s\n", rdma_event_str(e->event), rdma_event_str(type));
		exit(1);
	}
	rdma_ack_cm_event(e);
	return id;
}

struct side {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
};

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};

	need(!rdma_create_qp(id, NULL, &a), "a queue pair");
}

static struct side listener(struct sockaddr_in *at)
{
	struct side s = {.channel = rdma_create_event_channel()};

	*at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	need(s.channel && !rdma_create_id(s.channel, &s.id, NULL, RDMA_PS_TCP), "an identifier");
	need(!rdma_bind_addr(s.id, (struct sockaddr *)at) && !rdma_listen(s.id, 4), "a listener");
	at->sin_port = rdma_get_src_port(s.id);
	return s;
}

static const struct rdma_conn_param usual = {.retry_count = 7, .rnr_retry_count = 7};

static struct side client(struct sockaddr_in *to)
{
	struct rdma_conn_param param = usual;
	struct side s = {.channel = rdma_create_event_channel()};

	need(s.channel && !rdma_create_id(s.channel, &s.id, NULL, RDMA_PS_TCP), "an identifier");
	need(!rdma_resolve_addr(s.id, NULL, (struct sockaddr *)to, 2000), "the address");
	expect(s.channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	need(!rdma_resolve_route(s.id, 2000), "the route");
	expect(s.channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(s.id);
	need(!rdma_connect(s.id, &param), "a request");
	return s;
}

static struct rdma_cm_id *accepted(struct rdma_event_channel *channel)
{
	struct rdma_conn_param param = usual;
	struct rdma_cm_id *id = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);

	make_qp(id);
	need(!rdma_accept(id, &param), "an acceptance");
	return id;
}

static void end(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	need(!rdma_destroy_id(id), "the end of an identifier");
}

static void after_disconnect(struct side *l, struct sockaddr_in *at)
{
	struct side c = client(at), quiet;
	struct rdma_cm_id *child = accepted(l->channel), *other;
	struct rdma_event_channel *later = rdma_create_event_channel();

	expect(c.channel, RDMA_CM_EVENT_ESTABLISHED);
	expect(l->channel, RDMA_CM_EVENT_ESTABLISHED);
	quiet = client(at);
	other = accepted(l->channel);
	expect(quiet.channel, RDMA_CM_EVENT_ESTABLISHED);
	expect(l->channel, RDMA_CM_EVENT_ESTABLISHED);
	/* both ends of the first connection; one end of the second */
	need(!rdma_disconnect(c.id) && !rdma_disconnect(quiet.id), "disconnects");
	expect(c.channel, RDMA_CM_EVENT_DISCONNECTED);
	expect(quiet.channel, RDMA_CM_EVENT_DISCONNECTED);
	expect(l->channel, RDMA_CM_EVENT_DISCONNECTED);
	expect(l->channel, RDMA_CM_EVENT_DISCONNECTED);
	need(!readable(c.channel, 0) && !readable(l->channel, 0), "nothing yet");
	need(!rdma_disconnect(child), "the answer to a disconnect");
	need(!rdma_migrate_id(c.id, later), "another channel");
	need(expect(later, RDMA_CM_EVENT_TIMEWAIT_EXIT) == c.id, "the client's");
	need(expect(l->channel, RDMA_CM_EVENT_TIMEWAIT_EXIT) == child, "the server's");
	need(expect(quiet.channel, RDMA_CM_EVENT_TIMEWAIT_EXIT) == quiet.id, "the second client's");
	need(!rdma_disconnect(child) && !rdma_disconnect(c.id), "disconnects of what is over");
	need(!readable(l->channel, 1500) && !readable(later, 0), "no more events");
	end(c.id);
	end(quiet.id);
	end(child);
	end(other);
}

/* A program that has modified its queue pair itself, to no peer: the library cannot modify it
 * again. */
static void without_queue_pair(struct side *l, struct sockaddr_in *at)
{
	struct side c = client(at);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR,
				.path_mtu = IBV_MTU_1024,
				.dest_qp_num = 0x123,
				.ah_attr = {.is_global = 1, .port_num = c.id->port_num}};
	struct ibv_qp_init_attr init;

	need(!ibv_query_gid(c.id->verbs, c.id->port_num, 0, &a.ah_attr.grh.dgid), "a GID");
	need(!ibv_modify_qp(c.id->qp, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	struct rdma_cm_id *child = accepted(l->channel);

	expect(c.channel, RDMA_CM_EVENT_CONNECT_ERROR);
	need(!ibv_query_qp(c.id->qp, &a, IBV_QP_STATE, &init) && a.qp_state == IBV_QPS_ERR,
	     "a queue pair in ERR after CONNECT_ERROR");
	end(c.id);
	expect(l->channel, RDMA_CM_EVENT_REJECTED);
	end(child);
}

/* Two requests wait. When the program gets the first one's event, the library has read both. */
static void listener_moves(struct side *l, struct sockaddr_in *at)
{
	struct side c[2] = {client(at), client(at)};
	struct rdma_cm_id *child[2] = {accepted(l->channel)};
	struct rdma_event_channel *old = l->channel;

	l->channel = rdma_create_event_channel();
	need(!rdma_migrate_id(l->id, l->channel), "another channel");
	child[1] = accepted(l->channel);
	need(child[0]->channel == old, "a request that was taken stays where it was");
	need(child[1]->channel == l->channel, "a request that was not taken is on the new channel");
	for (int i = 0; i < 2; i++)
		expect(c[i].channel, RDMA_CM_EVENT_ESTABLISHED);
	need(expect(old, RDMA_CM_EVENT_ESTABLISHED) == child[0], "the first connection");
	need(expect(l->channel, RDMA_CM_EVENT_ESTABLISHED) == child[1], "the second connection");
	for (int i = 0; i < 2; i++) {
		end(c[i].id);
		end(child[i]);
	}
	rdma_destroy_event_channel(old);
}

int main(void)
{
	struct sockaddr_in at;
	struct side l = listener(&at);

	after_disconnect(&l, &at);
	without_queue_pair(&l, &at);
	listener_moves(&l, &at);
	end(l.id);
	rdma_destroy_event_channel(l.channel);
	return 0;
}
