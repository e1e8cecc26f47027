/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations of the real world's files, sockets and mailboxes. os_real_file.c, os_real_socket.c and
 * os_real_mailbox.c implement them for the table in os_real.c. Private to core/os.
 */
#ifndef CORE_OS_OS_REAL_H
#define CORE_OS_OS_REAL_H

#include "core/os/os.h"

/* Writes `pattern` (NCCL_DEBUG_FILE) to `out`, with %h replaced by the host and %p by the pid. */
void real_log_name(const char *pattern, const char *host, int pid, char *out, size_t bytes);
/* real_file_read with malloc memory instead of that of os_alloc. */
int real_file_take(const char *path, char **data, size_t *bytes);
int real_file_read(const char *path, char **data, size_t *bytes);
int real_file_write(const char *path, const char *data, size_t bytes);
int real_dir_list(const char *path, char **names, int *count);
int real_real_path(const char *path, char *out);

int real_interface(int index, char *name, size_t name_bytes, struct os_addr *addr);
int real_resolve(const char *name, uint16_t family, struct os_addr *addr);
int real_listen(const struct os_addr *at, int *fd, struct os_addr *bound);
int real_connect(const struct os_addr *to, int *fd);
int real_connected(int fd);
int real_accept(int fd, int *conn, struct os_addr *peer);
int real_send(int fd, const void *data, size_t n, size_t *done);
int real_recv(int fd, void *data, size_t n, size_t *done);
int real_close(int fd);
const void *real_socket_object(int fd);
int real_mailbox_open(const char *name, int *box);
void real_mailbox_close(int box);
int real_mailbox_post(const char *name, uint64_t what, int fd);
int real_mailbox_take(int box, uint64_t *what, int *fd);
bool real_socket_changed(int fd, uint64_t seq);

#endif
