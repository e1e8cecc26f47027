/* SPDX-License-Identifier: BSD-3-Clause */
/* The fabric's memory: creates it, or finds it in another process and checks it before use. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "backends/fakeverbs/fabric/fabric.h"

/* Abstract names are scoped by the network namespace, PIDs by the PID namespace. Two containers
 * that share the network may both have a process 7. Returns 0 without /proc; then no process can be
 * found. */
uint64_t fabric_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : (uint64_t)st.st_ino;
}

int fabric_name_bind(int flags, const char *fmt, ...)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(at.sun_path + 1, sizeof at.sun_path - 1, fmt, ap);
	va_end(ap);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | flags, 0);

	if (fd < 0)
		return -1;
	if (bind(fd, (const struct sockaddr *)&at,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0)
		return fd;
	int rc = errno;

	close(fd);
	errno = rc;
	return -1;
}

static struct fabric_segment *fabric_map(int fd)
{
	void *p = mmap(NULL, WORLD_ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		       fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

struct fabric_segment *fabric_make(uint64_t layout, int *fd)
{
	struct fabric_segment *s = NULL;

	*fd = memfd_create("doppel-fabric", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		goto err;
	if (ftruncate(*fd, (off_t)WORLD_ARENA_BYTES) || fcntl(*fd, F_ADD_SEALS, FABRIC_SEALS))
		goto err_close;
	s = fabric_map(*fd);
	if (!s)
		goto err_close;
	s->arena.used = ALIGN_UP(sizeof *s, (uint64_t)4096);
	s->version = FABRIC_VERSION;
	s->members = FABRIC_MEMBERS;
	s->layout = layout;
	s->next_id = 1;
	__atomic_store_n(&s->magic, FABRIC_MAGIC, __ATOMIC_RELEASE);
	return s;
err_close:
	close(*fd);
err:
	fprintf(stderr,
		"doppel: no memory for the fabric: %s; expected %llu MiB of address space (ulimit "
		"-v)\n",
		strerror(errno), (unsigned long long)WORLD_ARENA_BYTES >> 20);
	return NULL;
}

/* ---- find ----------------------------------------------------------------------------------- */

/* Maps and checks the descriptor. Returns a description of the error; NULL on success. */
static const char *fabric_try(int fd, uint64_t layout, struct fabric_segment **out)
{
	const char *wrong = fabric_check_file(fd);

	if (wrong)
		return wrong;
	struct fabric_segment *s = fabric_map(fd);

	if (!s)
		return "it cannot be mapped";
	wrong = fabric_check(s, layout);
	if (wrong)
		munmap(s, WORLD_ARENA_BYTES);
	else
		*out = s;
	return wrong;
}

static struct fabric_segment *fabric_open(int pid, int their_fd, uint64_t layout, int *fd)
{
	struct fabric_segment *s = NULL;
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, their_fd);
	*fd = open(path, O_RDWR | O_CLOEXEC);
	if (*fd < 0) {
		if (errno != ENOENT)
			fprintf(stderr, "doppel: cannot join process %d: %s: %s\n", pid, path,
				strerror(errno));
		return NULL;
	}
	const char *wrong = fabric_try(*fd, layout, &s);

	if (!wrong)
		return s;
	fprintf(stderr, "doppel: the fabric of process %d is refused: %s\n", pid, wrong);
	close(*fd);
	return NULL;
}

struct fabric_segment *fabric_find(const char *name, uint64_t layout, int *fd)
{
	FILE *f = fopen("/proc/net/unix", "re");
	struct fabric_segment *s = NULL;
	char prefix[128], line[512];
	int pid, their_fd, end;

	if (!f) {
		fprintf(stderr, "doppel: /proc/net/unix: %s; other programs are not found\n",
			strerror(errno));
		return NULL;
	}
	int n = snprintf(prefix, sizeof prefix, "@doppel-fabric/%u/%llu/%s/", (unsigned)geteuid(),
			 (unsigned long long)fabric_namespace(), name);

	while (!s && fgets(line, sizeof line, f)) {
		const char *at = strchr(line, '@');

		if (!at || strncmp(at, prefix, (size_t)n) != 0 ||
		    sscanf(at + n, "%d/%d%n", &pid, &their_fd, &end) != 2 || pid == getpid())
			continue;
		s = fabric_open(pid, their_fd, layout, fd);
	}
	fclose(f);
	return s;
}
