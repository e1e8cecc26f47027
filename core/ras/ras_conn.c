/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of the RAS task. */
#include <errno.h>
#include <string.h>

#include "core/ras/ras_internal.h"

#define CONN_RECV_BYTES 16384 /* most bytes of one receive */

struct ras_conn *ras_conn_add(struct ras *r, enum ras_conn_kind kind, int fd)
{
	struct ras_conn *c = NULL;
	int same = 0;

	for (const struct ras_conn *i = r->conns; i; i = i->next)
		same += i->kind == kind;
	if (kind == RAS_CONN_REQUEST || same < RAS_CONNS_MAX)
		c = os_alloc(sizeof *c, "RAS connection");
	if (!c) {
		os_close(fd);
		return NULL;
	}
	c->kind = kind;
	c->fd = fd;
	c->next = r->conns;
	r->conns = c;
	return c;
}

void ras_conn_close(struct ras *r, struct ras_conn *c)
{
	struct ras_conn **at = &r->conns;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	os_close(c->fd);
	ras_text_free(&c->in);
	ras_text_free(&c->out);
	os_free(c);
}

static void conn_end(struct ras_conn *c, int error)
{
	c->ended = true;
	c->error = error;
}

static bool conn_connect(struct ras_conn *c)
{
	int e = os_connected(c->fd);

	if (e == EAGAIN)
		return false;
	c->connecting = false;
	if (e)
		conn_end(c, e);
	return true;
}

static bool conn_send(struct ras_conn *c)
{
	bool moved = false;

	while (c->sent < c->out.bytes && !c->error) {
		size_t done = 0;
		int e = os_send(c->fd, c->out.at + c->sent, c->out.bytes - c->sent, &done);

		if (e == EAGAIN)
			return moved;
		if (e)
			conn_end(c, e);
		c->sent += e ? 0 : done;
		moved = true;
	}
	return moved;
}

static bool conn_recv(struct ras_conn *c, size_t most)
{
	bool moved = false;

	while (!c->ended && c->in.bytes < most) {
		size_t n = MIN_OF(most - c->in.bytes, (size_t)CONN_RECV_BYTES), done = 0;
		int e = ENOMEM;

		if (ras_text_reserve(&c->in, n))
			e = os_recv(c->fd, c->in.at + c->in.bytes, n, &done);
		if (e == EAGAIN)
			return moved;
		if (e || !done)
			conn_end(c, e);
		c->in.bytes += e ? 0 : done;
		moved = true;
	}
	return moved;
}

bool ras_conn_move(struct ras_conn *c, size_t most)
{
	bool moved = false;

	c->seq = os_event_seq(os_socket_object(c->fd));
	if (c->connecting)
		moved = conn_connect(c);
	if (c->connecting || c->error)
		return moved;
	moved |= conn_send(c);
	moved |= conn_recv(c, most);
	return moved;
}

bool ras_conn_is_over(const struct ras_conn *c)
{
	return c->error || c->out.lost || (c->finished && c->sent == c->out.bytes);
}
