/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between the two sides of a connection, and the names under which listeners are found. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "dropin/rdmacm/cm.h"

_Static_assert(sizeof(struct cm_message) == 360, "both sides are built from one header");

const char *cm_message_check(const void *data, size_t bytes)
{
	struct cm_message m;

	if (bytes != sizeof m)
		return "a message of the wrong length";
	memcpy(&m, data, sizeof m);
	if (m.magic != CM_MAGIC)
		return "bytes that are not a message";
	if (m.version != CM_VERSION)
		return "a message of another version";
	if (m.kind < CM_REQUEST || m.kind > CM_ANSWER)
		return "a message of an unknown kind";
	if (m.family != AF_INET && m.family != AF_INET6)
		return "an address that is neither IPv4 nor IPv6";
	if (m.mtu < IBV_MTU_256 || m.mtu > IBV_MTU_4096)
		return "an invalid MTU";
	if (m.qpn > 0xffffff || m.psn > 0xffffff)
		return "a queue pair or packet number of more than 24 bits";
	if (m.retry_count > 7 || m.rnr_retry_count > 7)
		return "a retry count of more than 3 bits";
	return NULL;
}

/* ---- addresses ------------------------------------------------------------------------------ */

socklen_t cm_address_bytes(const struct sockaddr *a)
{
	switch (a->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

uint16_t cm_port(const struct sockaddr *a)
{
	switch (a->sa_family) {
	case AF_INET:
		return ((const struct sockaddr_in *)a)->sin_port;
	case AF_INET6:
		return ((const struct sockaddr_in6 *)a)->sin6_port;
	default:
		return 0;
	}
}

void cm_set_port(struct sockaddr *a, uint16_t port)
{
	if (a->sa_family == AF_INET)
		((struct sockaddr_in *)a)->sin_port = port;
	else if (a->sa_family == AF_INET6)
		((struct sockaddr_in6 *)a)->sin6_port = port;
}

bool cm_is_any(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr == htonl(INADDR_ANY);
	return a->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

bool cm_is_loopback(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
	return a->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

/* Formats "doppel-cm/UID/FABRIC/SPACE/PORT/ADDRESS/HOST", with the address in hex or "*". FABRIC is
 * DOPPEL_FABRIC, which also joins the HCAs: only processes of one fabric find each other. */
socklen_t cm_name(struct sockaddr_un *out, enum rdma_port_space ps, const struct sockaddr *a,
		  bool any, uint32_t host)
{
	const char *fabric = getenv("DOPPEL_FABRIC");
	char address[40] = "*";

	if (!any && a->sa_family == AF_INET)
		snprintf(address, sizeof address, "%08x",
			 ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr));
	if (!any && a->sa_family == AF_INET6) {
		const uint8_t *b = ((const struct sockaddr_in6 *)a)->sin6_addr.s6_addr;

		for (int i = 0; i < 16; i++)
			snprintf(address + 2 * i, 3, "%02x", b[i]);
	}
	memset(out, 0, sizeof *out);
	out->sun_family = AF_UNIX;
	int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1,
			 "doppel-cm/%u/%.24s/%x/%u/%s/%u", geteuid(),
			 fabric && fabric[0] ? fabric : "default", (unsigned int)ps,
			 ntohs(cm_port(a)), address, host);

	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* ---- sending and receiving ------------------------------------------------------------------ */

int cm_send(int fd, const struct cm_message *m)
{
	ssize_t n;

	do
		n = send(fd, m, sizeof *m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)sizeof *m)
		return 0;
	return n < 0 ? errno : EMSGSIZE;
}

int cm_receive(int fd, struct cm_message *m)
{
	uint8_t raw[sizeof *m + 1]; /* one byte more than a message, to detect longer ones */
	ssize_t n;

	do
		n = recv(fd, raw, sizeof raw, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return 0;
	const char *wrong = n > 0 ? cm_message_check(raw, (size_t)n) : NULL;

	if (wrong)
		fprintf(stderr, "rdmacm: a connection sent %s (%zd bytes): it is closed\n", wrong,
			n);
	if (n <= 0 || wrong)
		return -1;
	memcpy(m, raw, sizeof *m);
	return 1;
}
