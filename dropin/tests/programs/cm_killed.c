/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's process, a child of its client's, ends while connected, by itself or killed. The
 * client gets DISCONNECTED. The second child is made after its parent has opened devices. */
#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

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

	need(poll(&p, 1, 60000) == 1 && !rdma_get_cm_event(channel, &e), rdma_event_str(type));
	struct rdma_cm_id *id = e->id;

	if (e->event != type) {
		printf("%s, expected %s\n", rdma_event_str(e->event), rdma_event_str(type));
		exit(1);
	}
	rdma_ack_cm_event(e);
	return id;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	need(!rdma_create_qp(id, NULL, &a), "a queue pair");
}

/* Writes its port to `out`, and ends when it reads a byte from `in`, or is killed. */
static void server(int out, int in)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
	struct rdma_cm_id *id;
	char byte;

	need(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "an identifier");
	need(!rdma_bind_addr(id, (struct sockaddr *)&at) && !rdma_listen(id, 1), "a listener");
	at.sin_port = rdma_get_src_port(id);
	need(write(out, &at.sin_port, sizeof at.sin_port) == sizeof at.sin_port, "a port");
	id = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	make_qp(id);
	need(!rdma_accept(id, &param), "an acceptance");
	expect(channel, RDMA_CM_EVENT_ESTABLISHED);
	exit(read(in, &byte, 1) == 1 ? 0 : 1);
}

static void client(in_port_t port, pid_t pid, int out, int killed)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = port, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
	struct rdma_cm_id *id;

	need(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "an identifier");
	need(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000), "the address");
	expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	need(!rdma_resolve_route(id, 2000), "the route");
	expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(id);
	need(!rdma_connect(id, &param), "a request");
	expect(channel, RDMA_CM_EVENT_ESTABLISHED);
	need(killed ? !kill(pid, SIGKILL) : write(out, "x", 1) == 1, "the server's end");
	expect(channel, RDMA_CM_EVENT_DISCONNECTED);
	need(!rdma_disconnect(id), "the answer");
	rdma_destroy_qp(id);
	need(!rdma_destroy_id(id), "the end of an identifier");
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	for (int killed = 0; killed < 2; killed++) {
		int up[2], down[2], status;
		in_port_t port;

		need(!pipe(up) && !pipe(down), "pipes");
		pid_t pid = fork();

		if (pid == 0)
			server(up[1], down[0]);
		close(up[1]);
		need(read(up[0], &port, sizeof port) == sizeof port, "the server's port");
		client(port, pid, down[1], killed);
		need(waitpid(pid, &status, 0) == pid, "the server");
		need(killed || !status, "a server that ends in order");
	}
	return 0;
}
