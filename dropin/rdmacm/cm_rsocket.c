/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets over RDMA are not implemented. Each call of <rdma/rsocket.h> fails with EOPNOTSUPP, so
 * that programs that link librdmacm load. */
#include <errno.h>
#include <rdma/rsocket.h>

#include "dropin/rdmacm/cm.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define RSOCKET_ABSENT(result, name, ...)                                                          \
	result name(__VA_ARGS__)                                                                   \
	{                                                                                          \
		return cm_result(EOPNOTSUPP);                                                      \
	}
RSOCKET_ABSENT(int, rsocket, int domain, int type, int protocol)
RSOCKET_ABSENT(int, rbind, int s, const struct sockaddr *a, socklen_t n)
RSOCKET_ABSENT(int, rlisten, int s, int backlog)
RSOCKET_ABSENT(int, raccept, int s, struct sockaddr *a, socklen_t *n)
RSOCKET_ABSENT(int, rconnect, int s, const struct sockaddr *a, socklen_t n)
RSOCKET_ABSENT(int, rshutdown, int s, int how)
RSOCKET_ABSENT(int, rclose, int s)
RSOCKET_ABSENT(ssize_t, rrecv, int s, void *buf, size_t n, int flags)
RSOCKET_ABSENT(ssize_t, rrecvfrom, int s, void *buf, size_t n, int flags, struct sockaddr *a,
	       socklen_t *an)
RSOCKET_ABSENT(ssize_t, rrecvmsg, int s, struct msghdr *m, int flags)
RSOCKET_ABSENT(ssize_t, rsend, int s, const void *buf, size_t n, int flags)
RSOCKET_ABSENT(ssize_t, rsendto, int s, const void *buf, size_t n, int flags,
	       const struct sockaddr *a, socklen_t an)
RSOCKET_ABSENT(ssize_t, rsendmsg, int s, const struct msghdr *m, int flags)
RSOCKET_ABSENT(ssize_t, rread, int s, void *buf, size_t n)
RSOCKET_ABSENT(ssize_t, rreadv, int s, const struct iovec *v, int n)
RSOCKET_ABSENT(ssize_t, rwrite, int s, const void *buf, size_t n)
RSOCKET_ABSENT(ssize_t, rwritev, int s, const struct iovec *v, int n)
RSOCKET_ABSENT(int, rpoll, struct pollfd *fds, nfds_t n, int timeout)
RSOCKET_ABSENT(int, rselect, int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout)
RSOCKET_ABSENT(int, rgetpeername, int s, struct sockaddr *a, socklen_t *n)
RSOCKET_ABSENT(int, rgetsockname, int s, struct sockaddr *a, socklen_t *n)
RSOCKET_ABSENT(int, rsetsockopt, int s, int level, int name, const void *value, socklen_t n)
RSOCKET_ABSENT(int, rgetsockopt, int s, int level, int name, void *value, socklen_t *n)
RSOCKET_ABSENT(int, rfcntl, int s, int cmd, ...)
RSOCKET_ABSENT(off_t, riomap, int s, void *buf, size_t n, int prot, int flags, off_t offset)
RSOCKET_ABSENT(int, riounmap, int s, void *buf, size_t n)
RSOCKET_ABSENT(size_t, riowrite, int s, const void *buf, size_t n, off_t offset, int flags)
