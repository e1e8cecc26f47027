/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mailboxes of the real world. A box is a listening socket in the kernel's abstract namespace. Each
 * network namespace has its own, and no file remains after a close. A letter is a connection with
 * one message. The kernel keeps it until the owner accepts it, so posting waits for no process.
 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "core/os/mailbox.h"
#include "core/os/os_real.h"

#define MAILBOX_BACKLOG 4096
/* Longest time in ms between a sender's connection and its message. */
#define MAILBOX_LATE_MS 1000

static int mailbox_address(const char *name, struct sockaddr_un *at, socklen_t *bytes)
{
	size_t n = strlen(name);

	if (!n || n >= OS_MAILBOX_NAME_BYTES)
		return EINVAL;
	memset(at, 0, sizeof *at);
	at->sun_family = AF_UNIX;
	memcpy(at->sun_path + 1, name, n);
	*bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
	return 0;
}

static int mailbox_socket(int *fd)
{
	*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	return *fd < 0 ? errno : 0;
}

int real_mailbox_open(const char *name, int *box)
{
	struct sockaddr_un at;
	socklen_t bytes;
	int rc = mailbox_address(name, &at, &bytes);

	if (!rc)
		rc = mailbox_socket(box);
	if (rc)
		return rc;
	if (bind(*box, (struct sockaddr *)&at, bytes) == 0 && listen(*box, MAILBOX_BACKLOG) == 0)
		return 0;
	rc = errno;
	close(*box);
	return rc;
}

void real_mailbox_close(int box)
{
	close(box);
}

/* Control buffer for the one descriptor of a message. */
union mailbox_control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static int mailbox_send(int s, uint64_t what, int fd)
{
	union mailbox_control control = {.bytes = {0}};
	struct iovec data = {&what, sizeof what};
	struct msghdr m = {.msg_iov = &data,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof control.bytes};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(c), &fd, sizeof fd);
	return sendmsg(s, &m, MSG_NOSIGNAL) == (ssize_t)sizeof what ? 0 : errno;
}

int real_mailbox_post(const char *name, uint64_t what, int fd)
{
	struct sockaddr_un at;
	socklen_t bytes;
	int s = -1, rc = mailbox_address(name, &at, &bytes);

	if (!rc)
		rc = mailbox_socket(&s);
	if (rc)
		return rc;
	if (connect(s, (struct sockaddr *)&at, bytes))
		rc = errno;
	if (!rc)
		rc = mailbox_send(s, what, fd);
	close(s);
	return rc;
}

/* True if the sender is a process of this user. */
static int mailbox_is_ours(int s)
{
	struct ucred who;
	socklen_t n = sizeof who;

	return getsockopt(s, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid();
}

/* Receives one letter from connection `s`. EPROTO: the sender is another user, or the message is
 * not a letter. */
static int mailbox_receive(int s, uint64_t *what, int *fd)
{
	union mailbox_control control;
	struct iovec data = {what, sizeof *what};
	struct msghdr m = {.msg_iov = &data,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof control.bytes};
	struct pollfd p = {s, POLLIN, 0};
	struct cmsghdr *c;

	if (!mailbox_is_ours(s) || poll(&p, 1, MAILBOX_LATE_MS) != 1 ||
	    recvmsg(s, &m, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof *what)
		return EPROTO;
	c = CMSG_FIRSTHDR(&m);
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len != CMSG_LEN(sizeof *fd))
		return EPROTO;
	memcpy(fd, CMSG_DATA(c), sizeof *fd);
	return 0;
}

int real_mailbox_take(int box, uint64_t *what, int *fd)
{
	for (;;) {
		int rc, s = accept4(box, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (s < 0 && errno == EINTR)
			continue;
		if (s < 0)
			return errno;
		rc = mailbox_receive(s, what, fd);
		close(s);
		if (!rc)
			return 0;
	}
}
