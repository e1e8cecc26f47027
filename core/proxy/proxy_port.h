/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection's end in the main task, and the lists by which main tasks reach the proxy's tasks.
 * Part of proxy_internal.h, which includes it.
 */
#ifndef CORE_PROXY_PROXY_PORT_H
#define CORE_PROXY_PROXY_PORT_H

#include "core/proxy/message.h"
#include "core/rank/rank.h"

/* ---- proxy_ops.c: lists between tasks -------------------------------------------------------- */

/* First member of each struct that crosses in a list. Only the task that owns the node accesses
 * it. */
struct proxy_node {
	struct proxy_node *next;
};

/* A stack of nodes. Any task may push; one task takes all nodes. Zeroed memory is an empty
 * stack. */
struct proxy_posted {
	shared_u64 head; /* address of the newest node */
};
/* Pushes a chain whose links lead from `newest` to `oldest`. */
void proxy_posted_push(struct proxy_posted *list, struct proxy_node *newest,
		       struct proxy_node *oldest);
/* Removes all nodes and returns the oldest, which links to newer ones; NULL if the list is
 * empty. */
struct proxy_node *proxy_posted_take(struct proxy_posted *list);
/* Returns a wait for nodes. A task of `rank`, named by `object`, pushes them. */
struct wait proxy_posted_wait(const struct proxy_posted *list, int32_t rank, const char *why,
			      const char *object);

/* ---- requests: the main task's end of a connection ------------------------------------------ */

/* Memory of a connection's head, tail, fifo and slots. */
struct proxy_memory {
	void *host; /* pinned: head, tail, fifo, and the slots that are not on the GPU */
	void *gpu;  /* slots on the GPU; NULL: no slots are there */
	size_t gpu_bytes;
};

/* A message to the service task, with data that only a caller in the same process has. The service
 * task owns it from the push until `answered`. A CONNECT is never answered if a CLOSE overtakes
 * it. */
struct proxy_call {
	struct proxy_node node;
	struct proxy_message m;
	struct proxy_state *proxy; /* part of the caller's communicator */
	/* relay (relay.h) whose area the request is in or about; or NULL */
	struct relay *relay;
	struct proxy_conn *conn;    /* SETUP's answer, with the kernel's addresses */
	struct proxy_memory memory; /* PREPARE's request */
	bool again;                 /* PREPARE's answer */
	shared_u32 answered;
};

/* A connection's end in the main task. */
struct proxy_port {
	struct proxy_state *proxy;
	struct proxy_conn *conn; /* NULL: not set up, or at a relay */
	uint32_t number;         /* number of conn, for messages; 0: not set up */
	bool connecting;         /* CONNECT was sent */
	bool preparing;          /* PREPARE was sent */
	int32_t channel;
	struct proxy_memory memory;
	struct proxy_call setup, connect, prepare, close;
	/* PXN (relay_use.c) */
	struct relay_use *use; /* NULL: this rank's own proxy has the connection */
	uint32_t relayed;      /* connection's number for operations */
	uint32_t name;         /* number in the name of the host memory's segment */
	size_t host_bytes;
	uint8_t *host, *host_device; /* addresses of the host memory, for host and GPU */
	uint8_t *slots[DEV_PROTO_COUNT];
};

#endif
