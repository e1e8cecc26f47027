/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of libibverbs that are not verbs: ibv_devinfo and providers call them. A private name
 * is in several version nodes, so it is defined under its own name and aliased.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dropin/ibverbs/dropin.h"
#include "backends/fakeverbs/arena/report.h"
#include "backends/fakeverbs/objects/handles.h"

#define DROPIN_PRIVATE(symbol, name)                                                               \
	__asm__(".symver " #symbol ", " #name "@@IBVERBS_PRIVATE_34");                             \
	__asm__(".symver " #symbol ", " #name "@IBVERBS_PRIVATE_57");                              \
	__asm__(".symver " #symbol ", " #name "@IBVERBS_PRIVATE_59");                              \
	__asm__(".symver " #symbol ", " #name "@IBVERBS_PRIVATE_64");                              \
	__asm__(".symver " #symbol ", " #name "@IBVERBS_PRIVATE_65")

/* Values of libibverbs for the text of gid_attrs/types in sysfs. */
enum dropin_gid_type { DROPIN_GID_IB_OR_ROCE_V1, DROPIN_GID_ROCE_V2 };

const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
int abi_ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
			   enum dropin_gid_type *type);
int abi_ibv_read_ibdev_sysfs_file(char *buf, size_t size, const void *sysfs_dev, const char *format,
				  ...) __attribute__((format(printf, 4, 5)));
void abi_ibv_register_driver(const char *name, const void *init);
void abi___verbs_log(const void *context, uint32_t level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

int dropin_refuse(const char *call)
{
	hca_log("%s: not on this HCA", call);
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}

const char *ibv_get_sysfs_path(void)
{
	const char *path = secure_getenv("SYSFS_PATH");

	return path && *path ? path : "/sys";
}

/* Reads the file's text without its line end. Returns its length, or -1. */
static int dropin_file_read(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	ssize_t n = read(fd, buf, size);

	close(fd);
	if (n > 0 && buf[n - 1] == '\n')
		buf[--n] = '\0';
	else if (n >= 0 && (size_t)n < size)
		buf[n] = '\0';
	return (int)n;
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[4096];
	int n = snprintf(path, sizeof path, "%s/%s", dir, file);

	return n < 0 || (size_t)n >= sizeof path ? -1 : dropin_file_read(path, buf, size);
}

int abi_ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
			   enum dropin_gid_type *type)
{
	struct ibv_gid_entry e;
	int rc = _ibv_query_gid_ex(context, port_num, index, &e, 0, sizeof e);

	/* an empty entry has a type too, as its file in sysfs has */
	if (rc && rc != ENODATA) {
		errno = rc;
		return -1;
	}
	*type = !rc && e.gid_type == IBV_GID_TYPE_ROCE_V2 ? DROPIN_GID_ROCE_V2
							  : DROPIN_GID_IB_OR_ROCE_V1;
	return 0;
}
DROPIN_PRIVATE(abi_ibv_query_gid_type, ibv_query_gid_type);

/* Fails: `sysfs_dev` is internal to rdma-core's library, so no program has one from this
 * library. */
int abi_ibv_read_ibdev_sysfs_file(char *buf, size_t size, const void *sysfs_dev, const char *format,
				  ...)
{
	(void)buf, (void)size, (void)sysfs_dev, (void)format;
	errno = ENOENT;
	return -1;
}
DROPIN_PRIVATE(abi_ibv_read_ibdev_sysfs_file, ibv_read_ibdev_sysfs_file);

/* Accepts the registration of a driver from before 2018. */
void abi_ibv_register_driver(const char *name, const void *init)
{
	(void)name, (void)init;
}
__asm__(".symver abi_ibv_register_driver, ibv_register_driver@IBVERBS_1.1");

/* Logs messages of providers up to the level in VERBS_LOG_LEVEL, to VERBS_LOG_FILE if set, as in
 * rdma-core. Logs nothing if VERBS_LOG_LEVEL is not set. */
void abi___verbs_log(const void *context, uint32_t level, const char *fmt, ...)
{
	const char *most = secure_getenv("VERBS_LOG_LEVEL"),
		   *path = secure_getenv("VERBS_LOG_FILE");
	FILE *out = stderr;
	va_list ap;

	(void)context; /* not a struct ibv_context of this library */
	if (!most || strtoul(most, NULL, 10) < level)
		return;
	if (path)
		out = fopen(path, "ae");
	if (!out)
		return;
	va_start(ap, fmt);
	vfprintf(out, fmt, ap);
	va_end(ap);
	if (path)
		fclose(out);
}
DROPIN_PRIVATE(abi___verbs_log, __verbs_log);

/* ---- import of objects that another process shares by descriptor ---------------------------- */

struct ibv_context *ibv_import_device(int cmd_fd)
{
	(void)cmd_fd;
	dropin_refuse("ibv_import_device");
	return NULL;
}
