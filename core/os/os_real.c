/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The world half of os.h in the real world: this process, its environment and memory. Files are in
 * os_real_file.c, sockets in os_real_socket.c, mailboxes in os_real_mailbox.c. One lock protects
 * the state of the process (allocations and cache). No code outside this file is called under this
 * lock.
 */
#include "core/os/os_real.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/base_state.h"
#include "core/base/memo_table.h"
#include "core/os/os_conf.h"
#include "core/os/os_ops.h"

struct real_block {
	struct real_block *next, *prev;
	const char *what;
	size_t bytes;
};
DOPPEL_STATIC_CHECK(sizeof(struct real_block) % 16 == 0, "blocks keep malloc's alignment");

static pthread_mutex_t real_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t real_once = PTHREAD_ONCE_INIT;
/* List head; the newest block is first. */
static struct real_block real_blocks = {&real_blocks, &real_blocks, NULL, 0};
static uint64_t real_block_count;
static struct memo_table real_memo_table;
static struct base_state real_base;
static int real_log_fd = STDERR_FILENO;
static bool real_conf_named_only;

/* ---- start-up ------------------------------------------------------------------------------- */

static const char *real_getenv(const void *ctx, const char *name)
{
	return getenv(name);
}

static const char *real_env_at(int index)
{
	return environ[index];
}

void real_log_name(const char *pattern, const char *host, int pid, char *out, size_t bytes)
{
	size_t at = 0;
	char part[256];
	for (const char *p = pattern; *p && at + 1 < bytes; p++) {
		part[0] = *p;
		part[1] = '\0';
		if (p[0] == '%' && p[1] == 'h') {
			snprintf(part, sizeof part, "%s", host);
			p++;
		} else if (p[0] == '%' && p[1] == 'p') {
			snprintf(part, sizeof part, "%d", pid);
			p++;
		}
		int n = snprintf(out + at, bytes - at, "%s", part);
		at += (size_t)n;
	}
}

static int real_conf_read(void *ctx, const char *path, char **data, size_t *bytes)
{
	return real_file_take(path, data, bytes);
}

/* Adds a variable to the environment of the process, where plugins and drivers find it, too. */
static int real_conf_add(void *ctx, const char *name, const char *value)
{
	return setenv(name, value, 0) ? ENOMEM : 0;
}

void os_real_conf_named_only(void)
{
	real_conf_named_only = true;
}

/* Returns the lines of the configuration files; NULL: no file. */
static struct conf *real_conf(void)
{
	const char *home = getenv("HOME");
	const struct conf_process process = {
		.env = real_getenv,
		.read = real_conf_read,
		.free = free,
		.add = real_conf_add,
		.home = real_conf_named_only ? NULL
			: home               ? home
					     : "",
	};
	struct conf *conf;
	if (conf_load(&process, &conf))
		fprintf(stderr, "no memory for all lines of the configuration files\n");
	return conf;
}

static void real_init(void)
{
	base_state_init(&real_base, real_getenv, NULL, real_conf());
	const char *pattern = getenv("NCCL_DEBUG_FILE");
	if (!pattern || !*pattern ||
	    shared_quiet_load_u32(&real_base.log.level) <= LOG_LEVEL_VERSION)
		return;
	char path[4096] = "", host[256] = "";
	gethostname(host, sizeof host - 1);
	real_log_name(pattern, host, (int)getpid(), path, sizeof path);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd >= 0)
		real_log_fd = fd;
	else
		fprintf(stderr, "NCCL_DEBUG_FILE %s: %s; logging to stderr\n", path,
			strerror(errno));
}

static struct base_state *real_base_state(void)
{
	pthread_once(&real_once, real_init);
	return &real_base;
}

/* ---- memory --------------------------------------------------------------------------------- */

static void *real_alloc(size_t bytes, const char *what)
{
	if (bytes > SIZE_MAX - sizeof(struct real_block))
		return NULL;
	struct real_block *b = calloc(1, sizeof *b + bytes);
	if (!b)
		return NULL;
	b->what = what;
	b->bytes = bytes;
	pthread_mutex_lock(&real_lock);
	b->next = real_blocks.next;
	b->prev = &real_blocks;
	b->next->prev = b;
	real_blocks.next = b;
	real_block_count++;
	pthread_mutex_unlock(&real_lock);
	return b + 1;
}

static void real_free(void *p)
{
	struct real_block *b = (struct real_block *)p - 1;
	pthread_mutex_lock(&real_lock);
	ASSERT(b->next->prev == b && b->prev->next == b);
	b->next->prev = b->prev;
	b->prev->next = b->next;
	real_block_count--;
	pthread_mutex_unlock(&real_lock);
	free(b);
}

uint64_t os_real_alloc_count(const char **first)
{
	pthread_mutex_lock(&real_lock);
	uint64_t n = real_block_count;
	if (first)
		*first = real_blocks.prev->what; /* NULL if the list is empty */
	pthread_mutex_unlock(&real_lock);
	return n;
}

static const void *real_memo(const char *kind, const void *key, size_t key_bytes,
			     void *(*make)(const void *, size_t, void *), void *arg)
{
	pthread_mutex_lock(&real_lock);
	const void *found = memo_table_find(&real_memo_table, kind, key, key_bytes);
	pthread_mutex_unlock(&real_lock);
	if (found)
		return found;
	void *made = make(key, key_bytes, arg);
	if (!made)
		return NULL;
	pthread_mutex_lock(&real_lock);
	found = memo_table_insert(&real_memo_table, kind, key, key_bytes, made);
	pthread_mutex_unlock(&real_lock);
	return found;
}

/* Holds the lock across a fork, so that no thread holds it then. The child has only the forking
 * thread and could not release another thread's lock. */
static void real_fork_hold(void)
{
	pthread_mutex_lock(&real_lock);
}

static void real_fork_release(void)
{
	pthread_mutex_unlock(&real_lock);
}

static __attribute__((constructor)) void real_start(void)
{
	(void)pthread_atfork(real_fork_hold, real_fork_release, real_fork_release);
}

static __attribute__((destructor)) void real_fini(void)
{
	memo_table_clear(&real_memo_table);
}

/* ---- identity, environment, files ----------------------------------------------------------- */

static const char *real_env(const char *name)
{
	return getenv(name);
}

static void real_host_name(char *out, size_t bytes)
{
	if (gethostname(out, bytes) != 0 && errno != ENAMETOOLONG)
		snprintf(out, bytes, "unknown");
	out[bytes - 1] = '\0';
}

static void real_boot_id(char *out, size_t bytes)
{
	char text[64] = "";
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t n = read(fd, text, sizeof text - 1);
		text[n > 0 ? n : 0] = '\0';
		close(fd);
	}
	text[strcspn(text, "\n")] = '\0';
	snprintf(out, bytes, "%s", text);
}

static void real_random(void *out, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = getrandom((char *)out + done, bytes - done, 0);
		ASSERT(n > 0 || errno == EINTR);
		done += n > 0 ? (size_t)n : 0;
	}
}

static void real_log_line(const char *line)
{
	char out[1100];
	real_base_state();
	/* Uses one write per line, so that lines of several processes do not mix. */
	int n = snprintf(out, sizeof out, "%s\n", line);
	if ((size_t)n >= sizeof out) {
		n = sizeof out - 1;
		out[n - 1] = '\n';
	}
	for (int done = 0; done < n;) {
		ssize_t k = write(real_log_fd, out + done, (size_t)(n - done));
		if (k < 0 && errno != EINTR)
			return; /* no other place to log to */
		done += k > 0 ? (int)k : 0;
	}
}

static void real_use(const struct os_use *use)
{
}

/* ---- shared memory -------------------------------------------------------------------------- */

static int real_shm_path(const char *name, char *path, size_t bytes)
{
	if (!*name || strchr(name, '/'))
		return EINVAL;
	return (size_t)snprintf(path, bytes, OS_SHM_DIR "/%s", name) < bytes ? 0 : ENAMETOOLONG;
}

static int real_shm_map(int fd, size_t bytes, void **mem)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return errno;
	*mem = p;
	return 0;
}

static int real_shm_device(uint64_t *device)
{
	struct stat st;

	if (stat(OS_SHM_DIR, &st))
		return errno;
	*device = (uint64_t)st.st_dev;
	return 0;
}

static int real_descriptors_raise(uint64_t *most)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return errno;
	if (limit.rlim_cur != limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &limit))
			return errno;
	}
	*most = limit.rlim_cur;
	return 0;
}

static int real_shm_create(const char *name, size_t bytes, void **mem)
{
	char path[300];
	int rc = bytes ? real_shm_path(name, path, sizeof path) : EINVAL;
	if (rc)
		return rc;
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return errno;
	/* Allocates the pages, not only the size: a full /dev/shm is ENOSPC here and not SIGBUS
	 * later. */
	do
		rc = posix_fallocate(fd, 0, (off_t)bytes);
	while (rc == EINTR);
	if (rc == 0)
		rc = real_shm_map(fd, bytes, mem);
	close(fd);
	if (rc)
		unlink(path);
	return rc;
}

static int real_shm_open(const char *name, size_t bytes, void **mem, size_t *found)
{
	char path[300];
	int rc = bytes ? real_shm_path(name, path, sizeof path) : EINVAL;
	if (rc)
		return rc;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno;
	struct stat st;
	rc = fstat(fd, &st) ? errno : 0;
	if (rc == 0) {
		*found = (size_t)st.st_size;
		rc = *found == bytes ? real_shm_map(fd, bytes, mem) : EINVAL;
	}
	close(fd);
	return rc;
}

static int real_shm_unlink(const char *name)
{
	char path[300];
	int rc = real_shm_path(name, path, sizeof path);
	if (rc == 0 && unlink(path) != 0)
		rc = errno;
	return rc;
}

static int real_shm_unmap(void *mem, size_t bytes)
{
	return munmap(mem, bytes) == 0 ? 0 : errno;
}

const struct os_world_ops os_real_ops = {
	.name = "real",
	.base_state = real_base_state,
	.alloc = real_alloc,
	.free = real_free,
	.memo = real_memo,
	.env = real_env,
	.env_at = real_env_at,
	.host_name = real_host_name,
	.boot_id = real_boot_id,
	.shm_device = real_shm_device,
	.descriptors_raise = real_descriptors_raise,
	.random = real_random,
	.file_read = real_file_read,
	.file_write = real_file_write,
	.dir_list = real_dir_list,
	.real_path = real_real_path,
	.log_line = real_log_line,
	.code_name = os_code_name_real,
	.use = real_use,
	.interface = real_interface,
	.resolve = real_resolve,
	.listen = real_listen,
	.connect = real_connect,
	.connected = real_connected,
	.accept = real_accept,
	.send = real_send,
	.recv = real_recv,
	.close = real_close,
	.socket_object = real_socket_object,
	.socket_changed = real_socket_changed,
	.shm_create = real_shm_create,
	.shm_open = real_shm_open,
	.shm_unlink = real_shm_unlink,
	.shm_unmap = real_shm_unmap,
	.mailbox_open = real_mailbox_open,
	.mailbox_close = real_mailbox_close,
	.mailbox_post = real_mailbox_post,
	.mailbox_take = real_mailbox_take,
	.mailbox_object = real_socket_object,
};

int32_t os_library_pid(void)
{
	return (int32_t)getpid();
}
