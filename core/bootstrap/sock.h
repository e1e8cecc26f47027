/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream sockets that wait: helpers over the non-blocking sockets of os.h. Bootstrap calls them on
 * the rank's main task or on the root's; the networks also use the interface functions. Every wait
 * names the awaited rank and the reason, polls the abort word and has no deadline.
 *
 * Only connecting gives up, when the attempt after the 34th pause is refused. The pauses are 100 ms
 * if the other end has listened before, since it has ended then. They are NCCL's if the end may
 * listen later, and in the networks, whose peers the bootstrap watches meanwhile: 100 ms, 200 ms,
 * 300 ms... 59.5 s in all.
 *
 * Each function that fails logs one line, except after an abort:
 *
 *	ncclRemoteError    the peer closed, reset or refused the connection
 *	ncclSystemError    an operating-system call failed
 *	ncclInternalError  the abort word was set
 */
#ifndef CORE_BOOTSTRAP_SOCK_H
#define CORE_BOOTSTRAP_SOCK_H

#include "core/include/nccl.h"
#include "core/os/os.h"

/* The two ends of a connection and its purpose, for waits and error messages. */
struct sock_ctx {
	const char *why; /* "bootstrap: successor's address from the root"; a string constant */
	int32_t self;    /* rank; -1: the root */
	int32_t peer;    /* rank; -1: the root, or unknown */
	const shared_u32 *abort; /* NULL: cannot be aborted */
};

#define SOCK_TEXT_BYTES 64
/* Writes "10.0.0.1:4711" or "[fe80::1]:4711" to `out` and returns it. */
const char *sock_addr_print(const struct os_addr *addr, char out[SOCK_TEXT_BYTES]);
/* Parses host:port or [address]:port. The host may be a name; NCCL_SOCKET_FAMILY, if set, selects
 * the family of its address. */
ncclResult_t sock_addr_parse(const char *text, struct os_addr *addr);
/* ---- sock_interface.c ----------------------------------------------------------------------- */

#define SOCK_INTERFACES 16

struct sock_interface {
	char name[32];
	struct os_addr addr; /* port 0 */
};
/* Lists this host's interfaces that other hosts reach, with one address each, of the family in
 * NCCL_SOCKET_FAMILY. With NCCL_SOCKET_IFNAME: the interfaces that it selects; loopback only if it
 * selects no others. Without it, the first of these groups that is not empty: ib...; all except the
 * following; docker...; loopback; virbr... Returns at least one, or an error. */
ncclResult_t sock_interfaces(struct sock_interface out[SOCK_INTERFACES], int *count);
/* Returns the address of the first interface. */
ncclResult_t sock_addr_own(struct os_addr *addr);

/* Returns the family in NCCL_SOCKET_FAMILY; 0 if it is not set. */
uint16_t sock_family_wanted(void);
/* True if the interface is in NCCL_SOCKET_IFNAME's list. "eth,ib": prefixes; "=eth0": exact names;
 * "^docker": all except these. NULL or a list without names: all interfaces; with ^ no interface. A
 * colon and the text after it are ignored. */
bool sock_ifname_matches(const char *list, const char *name);

/* ---- sock.c --------------------------------------------------------------------------------- */

/* Logs an errno of os_send, os_recv, os_accept or os_connected, and returns the matching result. 0
 * means that the peer closed. */
ncclResult_t sock_error(int error, const struct sock_ctx *ctx);
/* True if this errno means that the other end has closed or cannot be reached. */
bool sock_error_is_remote(int error);
/* Returns the wait on a socket. `seq` is its event count before it was polled without result. */
struct wait sock_wait(int fd, uint64_t seq, const struct sock_ctx *ctx);
uint64_t sock_seq(int fd);

#define SOCK_CONNECT_RETRIES 34
/* Returns the pause after that many attempts: 1, 2... */
static inline uint64_t sock_connect_pause_ns(int attempts)
{
	return (uint64_t)attempts * 100000000ull;
}

ncclResult_t sock_listen(const struct os_addr *at, int *fd, struct os_addr *bound);
/* Replaces the sleep between two attempts to connect. Waits until `until_ns`. Any result except
 * ncclSuccess ends the attempts. */
struct sock_pause {
	ncclResult_t (*wait)(void *arg, uint64_t until_ns);
	void *arg;
};
/* The pause that is the default: waits for the abort word only. */
ncclResult_t sock_pause_until(const struct sock_ctx *ctx, uint64_t until_ns);
/* Connects to an end that has listened before. pause: NULL waits for the abort word only. */
ncclResult_t sock_connect(const struct os_addr *to, const struct sock_ctx *ctx,
			  const struct sock_pause *pause, int *fd);
/* Connects to an end that may listen later: the pauses grow, a minute in all. */
ncclResult_t sock_connect_late(const struct os_addr *to, const struct sock_ctx *ctx, int *fd);
ncclResult_t sock_send_all(int fd, const void *data, size_t bytes, const struct sock_ctx *ctx);
ncclResult_t sock_recv_all(int fd, void *data, size_t bytes, const struct sock_ctx *ctx);
/* Sends all bytes until the deadline. Ignores the abort word, and logs nothing. Returns 0 or an
 * errno; ETIMEDOUT: a part may have been sent. */
int sock_send_until(int fd, const void *data, size_t bytes, const struct sock_ctx *ctx,
		    uint64_t deadline_ns);
/* Opens a connection, sends, closes. Makes one attempt until the deadline, and logs nothing.
 * Returns 0 or an errno. */
int sock_tell(const struct os_addr *to, const void *data, size_t bytes, const struct sock_ctx *ctx,
	      uint64_t deadline_ns);
/* Does the same, but waits for the other end to close before closing. 0: it has closed. */
int sock_tell_and_wait(const struct os_addr *to, const void *data, size_t bytes,
		       const struct sock_ctx *ctx, uint64_t deadline_ns);
/* Opens a connection, sends `data`, receives `answer_bytes` bytes, closes. Makes one attempt until
 * the deadline, and logs nothing. Returns 0 or an errno; EPIPE: the other end closed before. */
int sock_query(const struct os_addr *to, const void *data, size_t bytes, void *answer,
	       size_t answer_bytes, const struct sock_ctx *ctx, uint64_t deadline_ns);
/* Closes *fd unless it is -1, and makes it -1. */
void sock_close(int *fd);

/* Raises the limit of open descriptors as far as the system permits. A rank has connections to many
 * others, and its process may have many ranks. */
void sock_descriptors_raise(void);

#endif
