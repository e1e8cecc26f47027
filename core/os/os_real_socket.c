/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP sockets of the real world: non-blocking, closed on exec, without Nagle's delay. No task posts
 * on their objects; os_posix.c ends OBJECT waits early after each sleep instead.
 */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/os/os_real.h"

#define REAL_BACKLOG 4096
#define REAL_OBJECTS 4096

/* Addresses that stand for descriptors. Their bytes are never read or written. */
static const char real_socket_objects[REAL_OBJECTS];

static socklen_t real_addr_to(const struct os_addr *a, struct sockaddr_storage *s)
{
	memset(s, 0, sizeof *s);
	if (a->family == 6) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)s;
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(a->port);
		in6->sin6_scope_id = a->scope;
		memcpy(&in6->sin6_addr, a->ip, 16);
		return sizeof *in6;
	}
	struct sockaddr_in *in = (struct sockaddr_in *)s;
	in->sin_family = AF_INET;
	in->sin_port = htons(a->port);
	memcpy(&in->sin_addr, a->ip, 4);
	return sizeof *in;
}

static void real_addr_from(const struct sockaddr *s, struct os_addr *a)
{
	memset(a, 0, sizeof *a);
	if (s->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)s;
		a->family = 6;
		a->port = ntohs(in6->sin6_port);
		a->scope = in6->sin6_scope_id;
		memcpy(a->ip, &in6->sin6_addr, 16);
		return;
	}
	const struct sockaddr_in *in = (const struct sockaddr_in *)s;
	a->family = 4;
	a->port = ntohs(in->sin_port);
	memcpy(a->ip, &in->sin_addr, 4);
}

/* Returns the rank of an interface in the enumeration: IPv4 before IPv6, loopback last; -1: skip
 * it. */
static int real_interface_class(const struct ifaddrs *i)
{
	/* An interface without a carrier may be up, but reaches no host. */
	if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || !(i->ifa_flags & IFF_RUNNING))
		return -1;
	int loopback = i->ifa_flags & IFF_LOOPBACK ? 2 : 0;
	if (i->ifa_addr->sa_family == AF_INET)
		return loopback;
	return i->ifa_addr->sa_family == AF_INET6 ? loopback + 1 : -1;
}

int real_interface(int index, char *name, size_t name_bytes, struct os_addr *addr)
{
	struct ifaddrs *all;
	if (getifaddrs(&all) != 0)
		return errno;
	int seen = 0, rc = ENOENT;
	for (int kind = 0; kind < 4 && rc; kind++) {
		for (const struct ifaddrs *i = all; i && rc; i = i->ifa_next) {
			if (real_interface_class(i) != kind || seen++ != index)
				continue;
			snprintf(name, name_bytes, "%s", i->ifa_name);
			real_addr_from(i->ifa_addr, addr);
			rc = 0;
		}
	}
	freeifaddrs(all);
	return rc;
}

int real_resolve(const char *name, uint16_t family, struct os_addr *addr)
{
	const struct addrinfo hints = {
		.ai_family = family == 4   ? AF_INET
			     : family == 6 ? AF_INET6
					   : AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *found;
	int rc = getaddrinfo(name, NULL, &hints, &found);

	if (rc)
		return rc == EAI_SYSTEM ? errno : ENOENT;
	real_addr_from(found->ai_addr, addr);
	freeaddrinfo(found);
	return 0;
}

static int real_socket(const struct os_addr *a, int *fd)
{
	if (a->family != 4 && a->family != 6)
		return EAFNOSUPPORT;
	int s = socket(a->family == 6 ? AF_INET6 : AF_INET,
		       SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s < 0)
		return errno;
	int one = 1;
	setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	*fd = s;
	return 0;
}

int real_listen(const struct os_addr *at, int *fd, struct os_addr *bound)
{
	int s = -1, one = 1;
	int rc = real_socket(at, &s);
	if (rc)
		return rc;
	struct sockaddr_storage ss;
	socklen_t n = real_addr_to(at, &ss);
	if (at->port)
		setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(s, (struct sockaddr *)&ss, n) || listen(s, REAL_BACKLOG))
		goto err_close;
	n = sizeof ss;
	if (getsockname(s, (struct sockaddr *)&ss, &n))
		goto err_close;
	real_addr_from((struct sockaddr *)&ss, bound);
	*fd = s;
	return 0;
err_close:
	rc = errno;
	close(s);
	return rc;
}

int real_connect(const struct os_addr *to, int *fd)
{
	int s = -1;
	int rc = real_socket(to, &s);
	if (rc)
		return rc;
	struct sockaddr_storage ss;
	socklen_t n = real_addr_to(to, &ss);
	do
		rc = connect(s, (struct sockaddr *)&ss, n) ? errno : 0;
	while (rc == EINTR);
	if (rc && rc != EINPROGRESS && rc != EALREADY) {
		close(s);
		return rc == EAGAIN ? ENOBUFS : rc;
	}
	*fd = s;
	return 0;
}

int real_connected(int fd)
{
	struct pollfd p = {fd, POLLOUT, 0};
	int n = poll(&p, 1, 0);
	if (n < 0)
		return errno == EINTR ? EAGAIN : errno;
	if (n == 0)
		return EAGAIN;
	if (p.revents & POLLNVAL)
		return EBADF;
	int error = 0;
	socklen_t size = sizeof error;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size))
		return errno;
	return error;
}

int real_accept(int fd, int *conn, struct os_addr *peer)
{
	struct sockaddr_storage ss;
	socklen_t n = sizeof ss;
	int s;
	memset(&ss, 0, sizeof ss);
	do
		s = accept4(fd, (struct sockaddr *)&ss, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
	/* ECONNABORTED: the peer closed this connection while it was queued. The queue may hold
	 * others. */
	while (s < 0 && (errno == EINTR || errno == ECONNABORTED));
	if (s < 0)
		return errno == EWOULDBLOCK ? EAGAIN : errno;
	int one = 1;
	setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (peer)
		real_addr_from((struct sockaddr *)&ss, peer);
	*conn = s;
	return 0;
}

int real_send(int fd, const void *data, size_t n, size_t *done)
{
	ssize_t k = send(fd, data, n, MSG_NOSIGNAL);
	if (k < 0)
		return errno == EWOULDBLOCK || errno == EINTR || errno == ENOTCONN ? EAGAIN : errno;
	*done = (size_t)k;
	return 0;
}

int real_recv(int fd, void *data, size_t n, size_t *done)
{
	ssize_t k = recv(fd, data, n, 0);
	if (k < 0)
		return errno == EWOULDBLOCK || errno == EINTR || errno == ENOTCONN ? EAGAIN : errno;
	*done = (size_t)k;
	return 0;
}

int real_close(int fd)
{
	return close(fd) == 0 || errno == EINTR ? 0 : errno;
}

const void *real_socket_object(int fd)
{
	return &real_socket_objects[(unsigned)fd % REAL_OBJECTS];
}

/* True always: no task posts for a real socket. */
bool real_socket_changed(int fd, uint64_t seq)
{
	return true;
}
