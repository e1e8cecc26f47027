/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request to a service task and its answer: one message of fixed layout. No field is an address,
 * so a message means the same in another process. The main task of a rank queues the message to its
 * own service task in a struct proxy_call (proxy_internal.h). The other fields of that struct are
 * valid in this process only. To a relay (relay.h), the main task writes the message into the
 * shared area. The relay's answer also describes the connection's memory.
 */
#ifndef CORE_PROXY_MESSAGE_H
#define CORE_PROXY_MESSAGE_H

#include "core/transport/transport_internal.h"

#define PROXY_MESSAGE_MAGIC 0xd0de4001u

/*
 * A connection gets each of SETUP, CONNECT, PREPARE and CLOSE in this order, and each at most once.
 * PREPARE is the exception: the rank sends it again if the first answer has `again`.
 *
 *	command  the request has                     the answer has
 *	SETUP    info: rank, channel, is_send,       conn; info: all of it, for the other end
 *	         index, step_bytes; peer, nic
 *	CONNECT  conn; info: the other end's
 *	PREPARE  conn, and the memory of the slots    `again`: the slots must be in host memory
 *	CLOSE    conn
 *
 * A relay's connection gets no PREPARE: its memory is the relay's. RELAY and RELAY_END begin and
 * end an area. BOARD and BOARD_END begin and end the service of knocks. The relay's own main task
 * sends these four. RESERVE arrives through an area only: it reserves room for connections that are
 * set up later.
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
	uint32_t conn;      /* number of the connection; 0: no connection */
	int32_t result;     /* in the answer: ncclResult_t */
	int32_t peer;       /* rank at the other end of the connection */
	int32_t nic;        /* topology's index of the NIC to use */
	struct net_info info;
};
DOPPEL_CHECK_SIZE(struct proxy_message, 224);
DOPPEL_CHECK_OFFSET(struct proxy_message, conn, 16);
DOPPEL_CHECK_OFFSET(struct proxy_message, info, 32);

#endif
