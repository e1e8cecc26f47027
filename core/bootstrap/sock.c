/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/bootstrap/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"

#define SOCK_HOST_BYTES 256

/* ---- addresses ------------------------------------------------------------------------------ */

const char *sock_addr_print(const struct os_addr *addr, char out[SOCK_TEXT_BYTES])
{
	char ip[INET6_ADDRSTRLEN] = "?";
	inet_ntop(addr->family == 6 ? AF_INET6 : AF_INET, addr->ip, ip, sizeof ip);
	snprintf(out, SOCK_TEXT_BYTES, addr->family == 6 ? "[%s]:%u" : "%s:%u", ip, addr->port);
	return out;
}

static bool sock_port_parse(const char *text, uint16_t *port)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);
	if (end == text || *end || n == 0 || n > 65535)
		return false;
	*port = (uint16_t)n;
	return true;
}

/* Returns the family that the user selected; 0: any. */
uint16_t sock_family_wanted(void)
{
	const char *family = param_str(PARAM_SOCKET_FAMILY);

	if (!family)
		return 0;
	return strcmp(family, "AF_INET6") == 0 ? 6 : 4;
}

ncclResult_t sock_addr_parse(const char *text, struct os_addr *addr)
{
	bool six = text[0] == '[';
	const char *start = text + six;
	const char *end = six ? strstr(text, "]:") : strrchr(text, ':');
	size_t n = end ? (size_t)(end - start) : SOCK_HOST_BYTES;
	char host[SOCK_HOST_BYTES];
	struct os_addr a;
	uint16_t port;

	if (!n || n >= sizeof host || !sock_port_parse(end + (six ? 2 : 1), &port))
		goto err_malformed;
	memcpy(host, start, n);
	host[n] = '\0';
	int e = os_resolve(host, six ? 6 : sock_family_wanted(), &a);
	if (e) {
		WARN("'%s': %s has no address%s", text, host,
		     six                    ? " of IPv6"
		     : sock_family_wanted() ? " of NCCL_SOCKET_FAMILY"
					    : "");
		return ncclInvalidArgument;
	}
	a.port = port;
	*addr = a;
	return ncclSuccess;

err_malformed:
	WARN("'%s' is not an address and port; expected host:4711, 10.0.0.1:4711 or "
	     "[fe80::1%%eth0]:4711",
	     text);
	return ncclInvalidArgument;
}

/* ---- errors and waits -------------------------------------------------------------------------
 */

static void sock_party_print(int32_t rank, char out[24])
{
	snprintf(out, 24, rank < 0 ? "root" : "rank %d", rank);
}

ncclResult_t sock_error(int error, const struct sock_ctx *ctx)
{
	char self[24], peer[24];
	ASSERT(error != EAGAIN);
	if (error == ECANCELED)
		return ncclInternalError;
	sock_party_print(ctx->self, self);
	sock_party_print(ctx->peer, peer);
	if (error == 0) {
		WARN("%s: %s closed the connection (%s)", self, peer, ctx->why);
		return ncclRemoteError;
	}
	char text[96];
	const char *reason = strerror_r(error, text, sizeof text);
	WARN("%s: connection with %s: %s (%s)", self, peer, reason, ctx->why);
	return sock_error_is_remote(error) ? ncclRemoteError : ncclSystemError;
}

bool sock_error_is_remote(int error)
{
	return error == EPIPE || error == ECONNRESET || error == ECONNREFUSED ||
	       error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
}

uint64_t sock_seq(int fd)
{
	return os_event_seq(os_socket_object(fd));
}

struct wait sock_wait(int fd, uint64_t seq, const struct sock_ctx *ctx)
{
	return wait_object(os_socket_object(fd), seq, ctx->why,
			   wait_by(ctx->peer, -1, ctx->peer < 0 ? "bootstrap root" : NULL));
}

/* Returns 0 or ECANCELED. */
static int sock_wait_one(int fd, uint64_t seq, const struct sock_ctx *ctx)
{
	struct wait w = sock_wait(fd, seq, ctx);
	return os_wait_one(&w, ctx->abort);
}

/* ---- connections ------------------------------------------------------------------------------
 */

ncclResult_t sock_listen(const struct os_addr *at, int *fd, struct os_addr *bound)
{
	char text[SOCK_TEXT_BYTES];
	int e = os_listen(at, fd, bound);
	if (!e)
		return ncclSuccess;
	char why[96];
	const char *reason = strerror_r(e, why, sizeof why);
	WARN("bootstrap cannot listen on %s: %s", sock_addr_print(at, text), reason);
	return ncclSystemError;
}

/* Makes one attempt to connect. Returns 0 or an errno. *fd is open only on 0. */
static int sock_connect_once(const struct os_addr *to, const struct sock_ctx *ctx, int *fd)
{
	/* Rare: the other end does not listen yet; the caller tries again. */
	bool refused = OS_BUGGIFY("bootstrap.connect_again", "an attempt to connect is refused");
	int e = refused ? ECONNREFUSED : os_connect(to, fd);
	OS_PROBE("bootstrap.connect_refused", "no process listens yet; the attempt is repeated",
		 e == ECONNREFUSED);
	if (e)
		return e;
	for (;;) {
		uint64_t seq = sock_seq(*fd);
		e = os_connected(*fd);
		if (e == EAGAIN)
			e = sock_wait_one(*fd, seq, ctx);
		else if (!e)
			return 0;
		if (e) {
			sock_close(fd);
			return e;
		}
	}
}

static bool sock_is_aborted(const struct sock_ctx *ctx)
{
	return ctx->abort && shared_load_u32(ctx->abort, SHARED_ACQUIRE);
}

ncclResult_t sock_pause_until(const struct sock_ctx *ctx, uint64_t until_ns)
{
	const shared_u32 never = {0};
	const struct wait w = {
		.on = &never,
		.want = 1,
		.mask = WAIT_MASK_ALL,
		.kind = WAIT_EQ,
		.bytes = 4,
		.why = ctx->why,
		.from = {.rank = ctx->peer,
			 .channel = -1,
			 .step = -1,
			 .object = ctx->peer < 0 ? "bootstrap root, which refuses connections"
						 : "listener, which refuses connections"},
		.deadline_ns = until_ns,
	};

	return os_wait_one(&w, ctx->abort) == ECANCELED ? ncclInternalError : ncclSuccess;
}

static ncclResult_t sock_pause(const struct sock_pause *pause, const struct sock_ctx *ctx,
			       int attempts)
{
	uint64_t until_ns = os_now_ns() + sock_connect_pause_ns(attempts);

	return pause ? pause->wait(pause->arg, until_ns) : sock_pause_until(ctx, until_ns);
}

static ncclResult_t sock_connect_until(const struct os_addr *to, const struct sock_ctx *ctx,
				       const struct sock_pause *pause, bool late, int *fd)
{
	char text[SOCK_TEXT_BYTES];
	int e = 0, conn = -1;

	for (int i = 0; i <= SOCK_CONNECT_RETRIES; i++) {
		ncclResult_t rc = i ? sock_pause(pause, ctx, late ? i : 1) : ncclSuccess;
		if (rc)
			return rc;
		if (sock_is_aborted(ctx))
			return ncclInternalError;
		e = sock_connect_once(to, ctx, &conn);
		if (!e) {
			*fd = conn;
			return ncclSuccess;
		}
		if (e != ECONNREFUSED && e != ETIMEDOUT)
			return sock_error(e, ctx);
		if (i == 0)
			INFO(LOG_BOOTSTRAP, "connection to %s refused, trying again (%s)",
			     sock_addr_print(to, text), ctx->why);
	}
	WARN("no process answers at %s after %d attempts (%s)", sock_addr_print(to, text),
	     SOCK_CONNECT_RETRIES + 1, ctx->why);
	return ncclRemoteError;
}

ncclResult_t sock_connect(const struct os_addr *to, const struct sock_ctx *ctx,
			  const struct sock_pause *pause, int *fd)
{
	return sock_connect_until(to, ctx, pause, false, fd);
}

ncclResult_t sock_connect_late(const struct os_addr *to, const struct sock_ctx *ctx, int *fd)
{
	return sock_connect_until(to, ctx, NULL, true, fd);
}

ncclResult_t sock_send_all(int fd, const void *data, size_t bytes, const struct sock_ctx *ctx)
{
	size_t at = 0;
	while (at < bytes) {
		size_t done = 0;
		uint64_t seq = sock_seq(fd);
		/* Rare: byte by byte, so that no receiver relies on complete messages. */
		bool bytewise = OS_BUGGIFY("bootstrap.send_byte", "a message is sent byte by byte");
		size_t n = bytewise ? 1 : bytes - at;
		int e = os_send(fd, (const char *)data + at, n, &done);
		if (!e)
			at += done;
		else if (e == EAGAIN)
			e = sock_wait_one(fd, seq, ctx);
		if (e)
			return sock_error(e, ctx);
	}
	return ncclSuccess;
}

ncclResult_t sock_recv_all(int fd, void *data, size_t bytes, const struct sock_ctx *ctx)
{
	size_t at = 0;
	while (at < bytes) {
		size_t done = 0;
		uint64_t seq = sock_seq(fd);
		bool bytewise = OS_BUGGIFY("bootstrap.recv_byte", "an answer is read byte by byte");
		size_t n = bytewise ? 1 : bytes - at;
		int e = os_recv(fd, (char *)data + at, n, &done);
		if (!e && !done)
			return sock_error(0, ctx);
		if (!e)
			at += done;
		else if (e == EAGAIN)
			e = sock_wait_one(fd, seq, ctx);
		if (e)
			return sock_error(e, ctx);
	}
	return ncclSuccess;
}

/* Waits for the socket until the deadline. Returns EAGAIN or ETIMEDOUT. A socket that changes
 * without becoming ready does not extend the deadline. */
static int sock_wait_until(int fd, uint64_t seq, const struct sock_ctx *ctx, uint64_t deadline_ns)
{
	struct wait w = sock_wait(fd, seq, ctx);

	w.deadline_ns = deadline_ns;
	return os_wait_one(&w, NULL) || os_now_ns() >= deadline_ns ? ETIMEDOUT : EAGAIN;
}

static int sock_open_until(const struct os_addr *to, const struct sock_ctx *ctx,
			   uint64_t deadline_ns, int *fd)
{
	int e = os_connect(to, fd);

	if (e)
		return e;
	do {
		uint64_t seq = sock_seq(*fd);

		e = os_connected(*fd);
		if (e == EAGAIN)
			e = sock_wait_until(*fd, seq, ctx, deadline_ns);
	} while (e == EAGAIN);
	if (e)
		os_close(*fd);
	return e;
}

int sock_send_until(int fd, const void *data, size_t bytes, const struct sock_ctx *ctx,
		    uint64_t deadline_ns)
{
	size_t at = 0;
	int e = 0;

	while ((!e || e == EAGAIN) && at < bytes) {
		uint64_t seq = sock_seq(fd);
		size_t done = 0;

		e = os_send(fd, (const char *)data + at, bytes - at, &done);
		at += e ? 0 : done;
		if (e == EAGAIN)
			e = sock_wait_until(fd, seq, ctx, deadline_ns);
	}
	return e;
}

/* Discards received data until the other end closes. */
static int sock_end_until(int fd, const struct sock_ctx *ctx, uint64_t deadline_ns)
{
	char bytes[64];
	size_t done = 1;
	int e = 0;

	while (e == EAGAIN || (!e && done)) {
		uint64_t seq = sock_seq(fd);

		done = 0;
		e = os_recv(fd, bytes, sizeof bytes, &done);
		if (e == EAGAIN)
			e = sock_wait_until(fd, seq, ctx, deadline_ns);
	}
	return e;
}

int sock_tell(const struct os_addr *to, const void *data, size_t bytes, const struct sock_ctx *ctx,
	      uint64_t deadline_ns)
{
	int fd, e = sock_open_until(to, ctx, deadline_ns, &fd);

	if (e)
		return e;
	e = sock_send_until(fd, data, bytes, ctx, deadline_ns);
	os_close(fd);
	return e;
}

int sock_tell_and_wait(const struct os_addr *to, const void *data, size_t bytes,
		       const struct sock_ctx *ctx, uint64_t deadline_ns)
{
	int fd, e = sock_open_until(to, ctx, deadline_ns, &fd);

	if (e)
		return e;
	e = sock_send_until(fd, data, bytes, ctx, deadline_ns);
	if (!e)
		e = sock_end_until(fd, ctx, deadline_ns);
	os_close(fd);
	return e;
}

/* Receives all bytes, or fails at the deadline. */
static int sock_recv_until(int fd, void *data, size_t bytes, const struct sock_ctx *ctx,
			   uint64_t deadline_ns)
{
	size_t at = 0, done = 0;
	int e = 0;

	while (at < bytes && (!e || e == EAGAIN)) {
		uint64_t seq = sock_seq(fd);

		e = os_recv(fd, (char *)data + at, bytes - at, &done);
		if (e == EAGAIN)
			e = sock_wait_until(fd, seq, ctx, deadline_ns);
		else if (!e && !done)
			e = EPIPE;
		else
			at += e ? 0 : done;
	}
	return e;
}

int sock_query(const struct os_addr *to, const void *data, size_t bytes, void *answer,
	       size_t answer_bytes, const struct sock_ctx *ctx, uint64_t deadline_ns)
{
	int fd, e = sock_open_until(to, ctx, deadline_ns, &fd);

	if (e)
		return e;
	e = sock_send_until(fd, data, bytes, ctx, deadline_ns);
	if (!e)
		e = sock_recv_until(fd, answer, answer_bytes, ctx, deadline_ns);
	os_close(fd);
	return e;
}

void sock_close(int *fd)
{
	if (*fd < 0)
		return;
	os_close(*fd);
	*fd = -1;
}

void sock_descriptors_raise(void)
{
	uint64_t most;
	int e = os_descriptors_raise(&most);

	if (e)
		INFO(LOG_BOOTSTRAP, "the limit of open descriptors cannot be raised: %s",
		     strerror(e));
	else
		INFO(LOG_BOOTSTRAP, "at most %llu descriptors may be open",
		     (unsigned long long)most);
}
