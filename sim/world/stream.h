/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream sockets of the world, below their descriptors: listeners, connections and what travels
 * between the two ends. Called by socket.c only, with world.socket_lock held (threads); event steps
 * take it themselves. Owns connections: one lives while an end is open, queued at a listener, or
 * has something under way.
 *
 * One end:
 *
 *	CONNECTING --- SYN reached a listener ---> OPEN --- close ---> closed (freed with its peer)
 *	    |                                       |
 *	    +--- no listener ------> FAILED         +--- reset ---> RESET
 *
 * Bytes sent lie in the receiver's ring immediately, and become visible to it when their event has
 * run; so memory is in proportion to what is under way, at most STREAM_WINDOW each way.
 */
#ifndef SIM_WORLD_STREAM_H
#define SIM_WORLD_STREAM_H

#include "sim/world/world_internal.h"

#pragma GCC visibility push(hidden)

#define STREAM_WINDOW (256u << 10)

struct stream_ring {
	uint8_t *data;
	uint32_t cap, head;      /* head: next byte to read */
	uint32_t visible, total; /* bytes that have arrived; those and the ones under way */
};

enum stream_state { STREAM_CONNECTING, STREAM_OPEN, STREAM_FAILED, STREAM_RESET };

enum socket_kind { SOCKET_LISTENER, SOCKET_END };

struct world_socket {
	enum socket_kind kind;
	uint32_t host;
	uint64_t number; /* of the connection or listener, in order of creation */
	struct os_addr local, peer;
	struct world_socket *next; /* listeners of a host, or queue of a listener */
	/* listener */
	struct world_socket *queue, **queue_end;
	uint32_t queued;
	/* end */
	struct world_conn *conn;
	uint8_t side;
	bool open; /* has a descriptor, or is queued at a listener */
	enum stream_state state;
	int error; /* FAILED: why */
	bool eof;  /* the peer closed; all it sent is in the ring */
	bool cut;  /* by a fault: what is sent goes nowhere */
	/* by a fault: bytes go out so slowly, and the next ones not before */
	uint64_t trickle_ns, trickle_free_ns;
	struct stream_ring ring; /* what came for this end */
};

struct world_conn {
	struct world_conn *next, *prev;
	struct world_socket end[2]; /* 0 connected, 1 was accepted */
	uint32_t refs;              /* open ends, and events under way */
	uint64_t latency_ns;
	bool stranger; /* end 0 has no process: stranger.c */
};

/* address.c */
#define ADDR_TEXT    64
#define ADDR_NO_HOST UINT32_MAX
void addr_of_host(uint32_t host, uint16_t family, struct os_addr *a);
/* The host that an address leads to, seen from `self`. */
uint32_t addr_host(uint32_t self, const struct os_addr *a);
bool addr_is_any(const struct os_addr *a);
bool addr_is_same(const struct os_addr *a, const struct os_addr *b); /* whatever the ports */
void addr_print(const struct os_addr *a, char out[ADDR_TEXT]);

static inline struct world_socket *stream_peer(struct world_socket *s)
{
	return &s->conn->end[1 - s->side];
}

/* What becomes of a SYN; zeroed: it arrives. */
struct stream_syn {
	uint64_t extra_ns;
	bool lost; /* no answer comes; ETIMEDOUT after extra_ns */
};
/* A new connection, its SYN under way. NULL: out of memory. */
struct world_conn *stream_connect(uint32_t from_host, uint32_t to_host, const struct os_addr *local,
				  const struct os_addr *peer, const struct stream_syn *syn);
struct world_socket *stream_listener_find(uint32_t host, const struct os_addr *at);

/* Bytes that fit now. */
uint32_t stream_room(struct world_socket *s);
int stream_send(struct world_socket *s, const void *data, uint32_t n, uint64_t extra_ns);
uint32_t stream_take(struct world_socket *s, void *data, uint32_t n);
/* Breaks the connection: this end immediately, the other when the reset arrives. */
void stream_reset(struct world_socket *s);
/* Something between the two ends closes it: both see the end of the stream. */
void stream_cut(struct world_socket *s);
void stream_close(struct world_socket *s);
void stream_listener_close(struct world_socket *s); /* frees it */

/* stranger.c: a fault plan may send a stranger to a listener that has just begun. */
void stranger_maybe(const struct world_socket *listener);
void strangers_free(void);

#pragma GCC visibility pop
#endif
