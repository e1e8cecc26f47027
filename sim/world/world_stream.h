/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream sockets of the world, below their descriptors: listeners, connections, and the bytes and
 * events between two ends. socket.c is the only caller and holds world.socket_lock (threads). Event
 * steps acquire the lock themselves. This file owns the connections. A connection lives while an
 * end is open or queued at a listener, or while an event for it is pending.
 *
 * One end:
 *
 *	CONNECTING --- SYN reached a listener ---> OPEN --- close ---> closed (freed with its peer)
 *	    |                                       |
 *	    +--- no listener ------> FAILED         +--- reset ---> RESET
 *
 * A sender stores its bytes in the receiver's ring immediately. The bytes become visible to the
 * receiver when their event has run. The memory is in proportion to the bytes in flight: at most
 * STREAM_WINDOW per direction.
 */
#ifndef SIM_WORLD_STREAM_H
#define SIM_WORLD_STREAM_H

#include "sim/world/world_internal.h"

#pragma GCC visibility push(hidden)

#define STREAM_WINDOW (256u << 10)

struct stream_ring {
	uint8_t *data;
	uint32_t cap, head;      /* head: next byte to read */
	uint32_t visible, total; /* bytes that have arrived; all bytes, in flight too */
};

enum stream_state { STREAM_CONNECTING, STREAM_OPEN, STREAM_FAILED, STREAM_RESET };

enum socket_kind { SOCKET_LISTENER, SOCKET_END };

struct world_socket {
	enum socket_kind kind;
	uint32_t host;
	uint64_t number; /* number of the connection or listener, by creation */
	struct os_addr local, peer;
	struct world_socket *next; /* in a host's listeners, or in a listener's queue */
	/* listener */
	struct world_socket *queue, **queue_end;
	uint32_t queued;
	/* end */
	struct world_conn *conn;
	uint8_t side;
	bool open; /* has a descriptor, or is queued at a listener */
	enum stream_state state;
	int error; /* FAILED: errno of the failure */
	bool eof;  /* the peer closed; all its bytes are in the ring */
	bool cut;  /* by a fault: bytes sent are discarded */
	/* by a fault: ns per piece, and the time at which the next piece may be sent */
	uint64_t trickle_ns, trickle_free_ns;
	struct stream_ring ring; /* bytes sent to this end */
};

struct world_conn {
	struct world_conn *next, *prev;
	struct world_socket end[2]; /* 0 called connect, 1 was accepted */
	uint32_t refs;              /* number of open ends and pending events */
	uint64_t latency_ns;
	bool stranger; /* end 0 has no process: `foreign_client.c` */
};

/* address.c */
#define ADDR_TEXT    64
#define ADDR_NO_HOST UINT32_MAX
void addr_of_host(uint32_t host, uint16_t family, struct os_addr *a);
/* Returns the host that an address leads to, seen from `self`; ADDR_NO_HOST: no host. */
uint32_t addr_host(uint32_t self, const struct os_addr *a);
bool addr_is_any(const struct os_addr *a);
bool addr_is_same(const struct os_addr *a, const struct os_addr *b); /* ignores ports */
void addr_print(const struct os_addr *a, char out[ADDR_TEXT]);

static inline struct world_socket *stream_peer(struct world_socket *s)
{
	return &s->conn->end[1 - s->side];
}

/* Fate of a SYN; zeroed: it arrives after the latency. */
struct stream_syn {
	uint64_t extra_ns;
	bool lost; /* no answer arrives; ETIMEDOUT after extra_ns */
};
/* Creates a connection and sends its SYN. NULL: out of memory. */
struct world_conn *stream_connect(uint32_t from_host, uint32_t to_host, const struct os_addr *local,
				  const struct os_addr *peer, const struct stream_syn *syn);
struct world_socket *stream_listener_find(uint32_t host, const struct os_addr *at);

/* Returns the number of bytes that the peer's ring can accept now. */
uint32_t stream_room(struct world_socket *s);
int stream_send(struct world_socket *s, const void *data, uint32_t n, uint64_t extra_ns);
uint32_t stream_take(struct world_socket *s, void *data, uint32_t n);
/* Breaks the connection: this end immediately, the peer when the reset arrives. */
void stream_reset(struct world_socket *s);
/* Closes the connection as a device between the ends would: both ends see the end of the stream. */
void stream_cut(struct world_socket *s);
void stream_close(struct world_socket *s);
void stream_listener_close(struct world_socket *s); /* frees l */

/* `foreign_client.c`: connects a foreign client to a listener that has just started, if the fault
 * plan has one. */
void foreign_client_maybe(const struct world_socket *listener);
void foreign_clients_free(void);

#pragma GCC visibility pop
#endif
