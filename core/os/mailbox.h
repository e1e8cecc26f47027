/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mailboxes: descriptors that a driver made, as of GPU memory, go from one process of a host to
 * another. A part of os.h's contract, in a header of its own since one room uses it
 * (core/transport). Behind the same tables.
 *
 * A box has a name, which no other box of the host has while it is open, and belongs to the process
 * that opened it. A letter is a descriptor and a number for what it is; letters of one sender
 * arrive in order. Posting never waits for the owner. Real world: a socket of the kernel's name
 * space, and SCM_RIGHTS; letters of other users are thrown away. Fault site os.mailbox.
 *
 * Errors are returned: 0 or a positive errno.
 */
#ifndef CORE_OS_MAILBOX_H
#define CORE_OS_MAILBOX_H

#include <stdint.h>

#define OS_MAILBOX_NAME_BYTES 64

/* EADDRINUSE: there is one of that name. *box: the process' number for it. */
int os_mailbox_open(const char *name, int *box);
void os_mailbox_close(int box); /* and all letters in it */
/* The box gets a descriptor of its own for what `fd` is; the caller keeps `fd`. ECONNREFUSED: no
 * box of that name, so its owner has closed it or is dead. */
int os_mailbox_post(const char *name, uint64_t what, int fd);
/* EAGAIN: no letter now. The caller closes *fd with os_descriptor_close. */
int os_mailbox_take(int box, uint64_t *what, int *fd);
/* The OBJECT to wait on: posted when a letter comes. */
const void *os_mailbox_object(int box);

#endif
