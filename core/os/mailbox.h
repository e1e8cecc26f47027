/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mailboxes pass descriptors that a driver made, such as descriptors of GPU memory, from one
 * process of a host to another. They are a part of os.h's contract, dispatched through the same
 * tables. They have a header of their own because only core/transport uses them.
 *
 * A box has a name that is unique on its host while the box is open. It belongs to the process that
 * opened it. A letter is a descriptor and a number that identifies it. Letters of one sender arrive
 * in order. Posting never waits for the owner. In the real world a box is a socket in the kernel's
 * abstract namespace, and a letter uses SCM_RIGHTS. Letters from other users are discarded. Fault
 * site os.mailbox.
 *
 * Errors are returned: 0 or a positive errno.
 */
#ifndef CORE_OS_MAILBOX_H
#define CORE_OS_MAILBOX_H

#include <stdint.h>

#define OS_MAILBOX_NAME_BYTES 64

/* Sets *box to a number that identifies the box within the process. EADDRINUSE: a box of that name
 * exists. */
int os_mailbox_open(const char *name, int *box);
void os_mailbox_close(int box); /* discards all letters in it */
/* Sends `fd` and `what` to the box. The receiver gets its own descriptor for the same file; the
 * caller keeps `fd`. ECONNREFUSED: no box has that name, because its owner has closed it or is
 * dead. */
int os_mailbox_post(const char *name, uint64_t what, int fd);
/* EAGAIN: the box is empty. The caller closes *fd with os_descriptor_close. */
int os_mailbox_take(int box, uint64_t *what, int *fd);
/* Returns the object for an OBJECT wait. A post follows each letter that arrives. */
const void *os_mailbox_object(int box);

#endif
