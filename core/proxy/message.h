/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request to a service task, and its answer: one message of fixed layout. No field is an address,
 * so a message means the same in another process. The main task of a rank queues it in a struct
 * proxy_call (proxy_internal.h), whose other fields only this process understands; or it writes it
 * into the area that it shares with a relay (relay.h), whose answer also describes the connection's
 * memory.
 */
#ifndef CORE_PROXY_MESSAGE_H
#define CORE_PROXY_MESSAGE_H

#include "core/transport/transport_internal.h"

#define PROXY_MESSAGE_MAGIC 0xd0de4001u

/* A connection gets each at most once, in this order.
 *
 *	command  the request has                     the answer has
 *	SETUP    info: rank, channel, is_send,       conn; info: all of it, for the other end
 *	         index, step_bytes; peer, nic
 *	CONNECT  conn; info: the other end's
 *	PREPARE  conn, and the memory of the slots    `again`: the slots are to be in host memory
 *	CLOSE    conn
 *
 * PREPARE comes twice where the first has `again`. A relay's connection has none: its memory is the
 * relay's. RELAY and RELAY_END are about an area, BOARD and BOARD_END about knocks, and come from
 * the relay's own main task. RESERVE comes through an area alone: room for connections that are to
 * be set up.
 */
enum proxy_command {
	PROXY_SETUP = 1,
	PROXY_CONNECT,
	PROXY_PREPARE,
	PROXY_CLOSE,
	PROXY_RELAY,
	PROXY_RELAY_END,
	PROXY_BOARD,
	PROXY_BOARD_END,
	PROXY_RESERVE
};

struct proxy_message {
	uint32_t magic;
	uint32_t command;   /* enum proxy_command */
	uint64_t comm_hash; /* the communicator's id_hash */
	uint32_t conn;      /* the connection's number; 0: none */
	int32_t result;     /* answer: ncclResult_t */
	int32_t peer;       /* rank at the other end */
	int32_t nic;        /* the topology's index of the NIC to use */
	struct net_info info;
};
DOPPEL_CHECK_SIZE(struct proxy_message, 224);
DOPPEL_CHECK_OFFSET(struct proxy_message, conn, 16);
DOPPEL_CHECK_OFFSET(struct proxy_message, info, 32);

#endif
