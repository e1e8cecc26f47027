/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream sockets that wait: helpers over the never-blocking ones of os.h. Called by bootstrap, on
 * the rank's main task or on the root's; the interfaces by the networks too. Every wait names the
 * rank waited for and why, polls the abort word and has no deadline; only connecting gives up, when
 * the attempt after the 34th pause is refused. An end that has listened before is gone then: pauses
 * of 100 ms. For one that may come later, and for the networks, whose peers the bootstrap watches
 * meanwhile, they are NCCL's, of 100 ms, 200 ms, 300 ms... 59.5 s together. Owns nothing. Errors:
 * each function that fails logs one line, an abort excepted:
 *
 *	ncclRemoteError    the peer closed, reset or refused the connection
 *	ncclSystemError    the operating system refused
 *	ncclInternalError  the abort word was set
 */
#ifndef CORE_BOOTSTRAP_SOCK_H
#define CORE_BOOTSTRAP_SOCK_H

#include "core/include/nccl.h"
#include "core/os/os.h"

/* The two ends of a connection and what it is used for: for waits and error lines. */
struct sock_ctx {
	const char *why; /* "bootstrap: successor's address from the root"; a string constant */
	int32_t self;    /* rank; -1: the root */
	int32_t peer;    /* rank; -1: the root, or not known */
	const shared_u32 *abort; /* NULL: none */
};

#define SOCK_TEXT_BYTES 64
/* "10.0.0.1:4711" or "[fe80::1]:4711" into `out`, which is returned. */
const char *sock_addr_print(const struct os_addr *addr, char out[SOCK_TEXT_BYTES]);
/* The reverse: host:port or [address]:port, of a name too, in the family of NCCL_SOCKET_FAMILY if
 * that is set. */
ncclResult_t sock_addr_parse(const char *text, struct os_addr *addr);
/* ---- sock_interface.c ----------------------------------------------------------------------- */

#define SOCK_INTERFACES 16

struct sock_interface {
	char name[32];
	struct os_addr addr; /* port 0 */
};
/* This host's interfaces that other hosts reach, one address of each, of the family that
 * NCCL_SOCKET_FAMILY names: those that NCCL_SOCKET_IFNAME lets through, or, where these are
 * loopback alone, loopback. Without that variable: those named ib...; else all except the
 * following; else docker...; else loopback; else virbr... At least one, or an error. */
ncclResult_t sock_interfaces(struct sock_interface out[SOCK_INTERFACES], int *count);
/* The address of the first one. */
ncclResult_t sock_addr_own(struct os_addr *addr);

/* The family that NCCL_SOCKET_FAMILY names; 0: it is not set. */
uint16_t sock_family_wanted(void);
/* Does the interface pass NCCL_SOCKET_IFNAME's list? "eth,ib": prefixes; "=eth0": exact names;
 * "^docker": not these; NULL or a list without names: all, and with ^ none. What follows a colon is
 * not compared. */
bool sock_ifname_matches(const char *list, const char *name);

/* ---- sock.c --------------------------------------------------------------------------------- */

/* One line for an errno that os_send, os_recv, os_accept or os_connected gave, and the result that
 * it means. 0 stands for "the peer closed". */
ncclResult_t sock_error(int error, const struct sock_ctx *ctx);
/* Does this errno mean that the other end is gone or cannot be reached? */
bool sock_error_is_remote(int error);
/* The wait on a socket whose event count was `seq` before it was polled without result. */
struct wait sock_wait(int fd, uint64_t seq, const struct sock_ctx *ctx);
uint64_t sock_seq(int fd);

#define SOCK_CONNECT_RETRIES 34
/* Before the attempt that follows so many: 1, 2... */
static inline uint64_t sock_connect_pause_ns(int attempts)
{
	return (uint64_t)attempts * 100000000ull;
}

ncclResult_t sock_listen(const struct os_addr *at, int *fd, struct os_addr *bound);
/* What to do between two attempts to connect, instead of sleeping: wait until then. Anything but
 * ncclSuccess ends the attempts. */
struct sock_pause {
	ncclResult_t (*wait)(void *arg, uint64_t until_ns);
	void *arg;
};
/* pause: NULL waits for the abort word alone. */
ncclResult_t sock_connect(const struct os_addr *to, const struct sock_ctx *ctx,
			  const struct sock_pause *pause, int *fd);
/* To an end that may begin to listen later: the pauses grow, a minute in all. */
ncclResult_t sock_connect_late(const struct os_addr *to, const struct sock_ctx *ctx, int *fd);
ncclResult_t sock_send_all(int fd, const void *data, size_t bytes, const struct sock_ctx *ctx);
ncclResult_t sock_recv_all(int fd, void *data, size_t bytes, const struct sock_ctx *ctx);
/* Opens a connection, sends, closes; one attempt until the deadline, without reports. 0 or why
 * not. */
int sock_tell(const struct os_addr *to, const void *data, size_t bytes, const struct sock_ctx *ctx,
	      uint64_t deadline_ns);
/* The same, but before it closes it waits for the other end to close. 0: it has. */
int sock_tell_and_wait(const struct os_addr *to, const void *data, size_t bytes,
		       const struct sock_ctx *ctx, uint64_t deadline_ns);
/* Closes *fd unless it is -1, and makes it -1. */
void sock_close(int *fd);

/* A rank has connections to many others, and its process may have many ranks: lets it open as many
 * descriptors as the system allows. */
void sock_descriptors_raise(void);

#endif
