/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Foreign clients, which find an open port on a real network: a port scanner, a monitoring probe,
 * or a rank of another job with an old address. A fault plan connects one to a listener that has
 * just started. The client sends random bytes, sends no byte, or closes immediately. It has no
 * process: one event connects it, another closes the connection.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/world/world_stream.h"

#define FOREIGN_CLIENT_BYTES   96u
#define FOREIGN_CLIENT_STAY_NS 1000000u

struct foreign_client {
	struct foreign_client *next;
	uint32_t host;
	struct os_addr to;
	enum os_fault_kind kind;
	struct world_conn *conn; /* NULL until it has connected */
};

static void foreign_client_free(struct foreign_client *s)
{
	struct foreign_client **at = &world->foreign_clients;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	free(s);
}

static void foreign_client_post(struct foreign_client *s, void (*step)(void *, uint64_t),
				uint64_t delay_ns)
{
	const struct sim_event_attr attr = {.name = "stranger",
					    .kind = SIM_EVENT_TIMER,
					    .delay_ns = delay_ns,
					    .background = true};
	sim_event_post(&attr, step, s, 0, NULL);
}

static void foreign_client_leave(void *object, uint64_t arg)
{
	struct foreign_client *s = object;
	(void)arg;
	world_lock(&world->socket_lock);
	stream_close(&s->conn->end[0]);
	foreign_client_free(s);
	world_unlock(&world->socket_lock);
}

static void foreign_client_talk(struct world_conn *c)
{
	uint8_t noise[FOREIGN_CLIENT_BYTES];
	struct sim_rng rng;
	sim_rng_init(&rng, "os.stranger");
	for (uint32_t i = 0; i < sizeof noise; i++)
		noise[i] = (uint8_t)sim_rng_u64(&rng);
	(void)stream_send(&c->end[0], noise, sizeof noise, 0);
}

static void foreign_client_come(void *object, uint64_t arg)
{
	struct foreign_client *s = object;
	const struct stream_syn syn = {0};
	struct os_addr from = s->to;
	(void)arg;
	world_lock(&world->socket_lock);
	from.port = 1; /* no process of the world gets this port */
	s->conn = stream_connect(s->host, s->host, &from, &s->to, &syn);
	ASSERT(s->conn);
	s->conn->stranger = true;
	os_trace("stranger", s->host, s->to.port, s->kind);
	if (s->kind == OS_FAULT_GARBAGE)
		foreign_client_talk(s->conn);
	if (s->kind == OS_FAULT_SILENT) {
		foreign_client_free(s); /* the connection stays open */
	} else {
		foreign_client_post(s, foreign_client_leave,
				    s->kind == OS_FAULT_CLOSE ? 1 : FOREIGN_CLIENT_STAY_NS);
	}
	world_unlock(&world->socket_lock);
}

void foreign_client_maybe(const struct world_socket *listener)
{
	struct os_fault f;
	if (!os_fault("os.stranger", listener, &f))
		return;
	struct foreign_client *s = calloc(1, sizeof *s);
	ASSERT(s);
	s->host = listener->host;
	s->to = listener->local;
	s->kind = f.kind;
	s->next = world->foreign_clients;
	world->foreign_clients = s;
	foreign_client_post(s, foreign_client_come, f.arg);
}

void foreign_clients_free(void)
{
	while (world->foreign_clients) {
		struct foreign_client *s = world->foreign_clients;
		sim_events_cancel_object(s);
		foreign_client_free(s);
	}
}
