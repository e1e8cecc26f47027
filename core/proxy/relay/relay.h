/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PXN: a rank sends through another GPU of its host, the relay, which is next to the NIC. The
 * sending rank is the relay's user. The slots of the connection are in the relay's GPU memory. The
 * user's kernel writes them over NVLink, and the relay's proxy passes them to the network. The
 * receiving end works as without a relay.
 *
 *	user                                              relay
 *	main task ---- requests, operations ---> [area] ---> service, progress
 *	          <--- answers, errors ---------
 *	kernel ------- data -------------------> [slots in the relay's GPU memory] ---> NIC
 *	          ---- tail, fifo, lines ------> [host memory of the connection] <----- progress
 *	          <--- head --------------------
 *
 * An area is host memory that the two ranks share: a segment of /dev/shm, or memory of their
 * process. It holds one request at a time, an answer for each connection, and a ring of operations.
 * The connection's host memory is shared in the same way. The relay allocates it with the
 * connection, and the user pins it.
 *
 * For rings and trees, the relay makes the area at init, for each rank that announced that it sends
 * through the relay. For messages, the relay's service task makes the area at the user's first
 * message. The user requests this by a knock on the board, memory that all ranks of the host share.
 *
 *	user                                      relay
 *	main task ---- knock ---> [board] ------> service: makes the area
 *	          <--- answer ---
 *
 * GPU memory for slots is allocated at init. Reason: messages may connect while kernels of the
 * relay run and wait for the user. The relay's proxy must then make no call that may wait for these
 * kernels. The pool holds the slots of one user's rings and trees. The store holds the slots of
 * messages: slots for DOPPEL_PXN_CONNECTIONS connections of all users, shared by all communicators
 * that the GPU has in the process; the last of them frees it. A user reserves slots for all
 * channels to a rank. If there are too few, the user's own proxy sends. When a connection ends, its
 * slots return to the store.
 *
 * relay.c and relay_serve.c are the relay's end (struct relay). Its connections have their own
 * struct proxy_state, whose communicator is the relay's. relay_board.c contains the board and the
 * store. relay_use.c and relay_port.c are the user's end (struct relay_use). relay_route.c decides
 * which connections use which relay.
 *
 * The end: the user closes the objects that it opened, sets `gone`, and leaves the bootstrap. The
 * relay leaves the bootstrap, waits until the user has left or died, and closes the connections.
 * After that neither depends on the other. A connection that fails is an error of the relay's
 * communicator; for the user, it is the failure of another rank. A user that gives up writes its
 * network's first failure into the area. Its connections at the relay report this failure to their
 * other ends as they close.
 */
#ifndef CORE_PROXY_RELAY_H
#define CORE_PROXY_RELAY_H

#include "core/proxy/proxy_internal.h"

struct relay;
struct relay_use;
struct relay_state;

/* ---- the relay's end: the tasks of its proxy ------------------------------------------------- */

/* Service: processes new requests of users. Returns true if there were any. */
bool relay_service_take(struct proxy_gpu *p);
void relay_service_waits(const struct proxy_gpu *p, struct proxy_waits *waits);
/* Service: adds the relay of a call to its list, or removes it. */
void relay_service_join(struct proxy_gpu *p, struct relay *r);
void relay_service_leave(struct proxy_gpu *p, struct relay *r);
/* Service: answers a request that arrived through an area. `pc` is the connection that a SETUP
 * made; NULL: no connection. */
void relay_answer(struct proxy_call *call, struct proxy_conn *pc);
/* True if the request arrived through an area. */
static inline bool relay_is_request(const struct proxy_call *call)
{
	return call->relay && (call->m.command == PROXY_SETUP || call->m.command == PROXY_CONNECT);
}
/* Progress: moves operations of users to their connections. Returns true if there were any. */
bool relay_progress_take(struct proxy_gpu *p);
void relay_progress_join(struct proxy_gpu *p, struct relay *r);
void relay_progress_waits(const struct proxy_gpu *p, struct proxy_waits *waits);
/* True if the user has left, or must be treated as if it had. */
bool relay_is_over(const struct relay *r);
/* Reports a failed connection: the user's communicator has ncclRemoteError from now on. */
void relay_fail(struct relay *r);

/* Allocate and free the connection's host memory and its slots of the store or the pool (service).
 * Slots of the pool are not reused. */
ncclResult_t relay_memory_make(struct proxy_conn *pc, size_t host_bytes, size_t gpu_bytes);
void relay_memory_free(struct proxy_conn *pc);
/* Becomes true when the user has left. */
const struct wait *relay_gone_wait(const struct relay *r);

/* Service: answers knocks at ranks of this GPU. Returns true if there were any. */
bool relay_knocks_take(struct proxy_gpu *p);
void relay_board_join(struct proxy_gpu *p, struct relay_state *st);
void relay_board_part(struct proxy_gpu *p, struct relay_state *st);

/* ---- main task ------------------------------------------------------------------------------- */

/* Releases all relays and uses; WAITS for users to leave. */
void relay_state_close(struct ncclComm *comm);
/* Returns the NIC by which a connection leaves or enters the host, and the relay that it uses; *use
 * is NULL if it uses no relay. */
ncclResult_t relay_route_take(const struct conn *c, int32_t *nic, struct relay_use **use);

/* ---- the user's end: its main task ----------------------------------------------------------- */

/* Do the work of proxy_setup, proxy_connect and proxy_close for a port with a `use`. */
ncclResult_t relay_setup(struct proxy_port *port);
ncclResult_t relay_connect(struct conn *c, const struct connect_info *theirs, struct wait *w);
void relay_close(struct proxy_port *port);
/* Puts an operation into the ring; WAITS for room. The relay sees it after the next
 * relay_ops_show. */
ncclResult_t relay_op_put(const struct proxy_op *op, uint64_t launch);
void relay_ops_show(struct ncclComm *comm);

#endif
