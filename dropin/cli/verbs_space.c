/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A mount namespace in which the machine has the doubles' HCAs. Root creates one directly. Other
 * users create it in a private user namespace, with their own uid. /dev and some folders of /sys
 * receive more entries. They cannot be written: each is covered by a tmpfs, into which every
 * original entry is bound. The changes exist only in the namespace and end with its last process.
 *
 * Processes in two user namespaces may not access each other's memory. All programs of one user and
 * fabric therefore share the first program's namespace. It is found by an abstract socket name that
 * each of them holds.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dropin/cli/verbs_run.h"
#include "sim/cli/cli.h"
#include "sim/engine/sim.h"

#define SPACE_LOCK_TRIES 2000 /* tries of 1 ms each */

static void space_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void space_say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "doppel verbs-run: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
}

static int space_write(const char *path, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static int space_write(const char *path, const char *fmt, ...)
{
	char text[128];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return errno;
	int rc = write(fd, text, (size_t)n) == n ? 0 : errno;

	close(fd);
	return rc;
}

/* ---- one namespace for all programs of a fabric --------------------------------------------- */

/* Binds an abstract name. The socket is never served; only its name is used. -1: another process
 * holds the name. */
static int space_name_take(const char *name, int flags)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	size_t n = strlen(name);
	int fd = socket(AF_UNIX, SOCK_DGRAM | flags, 0);

	if (fd < 0)
		return -1;
	snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "%s", name);
	if (bind(fd, (const struct sockaddr *)&at,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) == 0)
		return fd;
	close(fd);
	return -1;
}

static void space_name(char out[96], const struct verbs_run *r, const char *what)
{
	snprintf(out, 96, "doppel-%s/%u/%.48s/", what, (unsigned)geteuid(),
		 r->fabric ? r->fabric : "default");
}

/* Returns a process that holds a namespace of this fabric; 0: none. */
static pid_t space_find(const struct verbs_run *r)
{
	char prefix[96], line[512];
	FILE *f = fopen("/proc/net/unix", "re");
	pid_t pid = 0;

	space_name(prefix, r, "space");
	while (f && !pid && fgets(line, sizeof line, f)) {
		const char *at = strchr(line, '@');

		if (at && !strncmp(at + 1, prefix, strlen(prefix)))
			pid = (pid_t)atoi(at + 1 + strlen(prefix));
	}
	if (f)
		fclose(f);
	return pid;
}

/* Joins that process' user namespace, which grants its capabilities. */
static bool space_join(pid_t pid)
{
	char path[64];

	if (!pid)
		return false;
	snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool joined = fd >= 0 && setns(fd, CLONE_NEWUSER) == 0;

	if (fd >= 0)
		close(fd);
	return joined;
}

static int space_make_user(void)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (unshare(CLONE_NEWUSER))
		return errno;
	int rc = space_write("/proc/self/uid_map", "%u %u 1", uid, uid);

	if (!rc)
		rc = space_write("/proc/self/setgroups", "deny");
	if (!rc)
		rc = space_write("/proc/self/gid_map", "%u %u 1", gid, gid);
	return rc;
}

static int space_lock(const struct verbs_run *r)
{
	char name[96];
	int fd;

	space_name(name, r, "space-lock");
	for (int i = 0; (fd = space_name_take(name, SOCK_CLOEXEC)) < 0; i++) {
		const struct timespec t = {.tv_nsec = 1000000};

		if (i == SPACE_LOCK_TRIES)
			break;
		nanosleep(&t, NULL);
	}
	return fd;
}

/* Joins the user namespace of the fabric's programs, or creates it. */
static int space_user(const struct verbs_run *r)
{
	char name[96];
	int lock = space_lock(r);
	int rc = space_join(space_find(r)) ? 0 : space_make_user();

	/* the program holds this name as long as it lives */
	space_name(name, r, "space");
	snprintf(name + strlen(name), sizeof name - strlen(name), "%d", (int)getpid());
	if (!rc && space_name_take(name, 0) < 0)
		space_say("cannot bind the name %s: %s", name, strerror(errno));
	if (lock >= 0)
		close(lock);
	return rc;
}

/* ---- folders with additional entries --------------------------------------------------------- */

/* Makes an entry of the folder that is open at `fd` appear in `to`. */
static void space_carry(int fd, const struct dirent *e, const char *to)
{
	char source[320], target[600], link[4096];
	struct stat st;

	snprintf(source, sizeof source, "/proc/self/fd/%d/%s", fd, e->d_name);
	snprintf(target, sizeof target, "%s/%s", to, e->d_name);
	if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
		return;
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(fd, e->d_name, link, sizeof link - 1);

		if (n < 0)
			return;
		link[n] = '\0';
		if (symlink(link, target))
			space_say("%s: %s", target, strerror(errno));
		return;
	}
	if (S_ISDIR(st.st_mode) ? mkdir(target, 0755) : mknod(target, S_IFREG | 0644, 0)) {
		space_say("%s: %s", target, strerror(errno));
		return;
	}
	if (mount(source, target, NULL, MS_BIND | MS_REC, NULL)) {
		space_say("%s is not there in the namespace: %s", target, strerror(errno));
		(void)(S_ISDIR(st.st_mode) ? rmdir(target) : unlink(target));
	}
}

/* Covers `path` by a tmpfs with the same entries, except `names`. */
static int space_open_up(const char *path, const char *const *names)
{
	DIR *old = opendir(path);
	struct dirent *e;

	if (!old)
		return errno;
	if (mount("doppel", path, "tmpfs", MS_NOSUID, "mode=755,size=256m")) {
		int rc = errno;

		closedir(old);
		return rc;
	}
	while ((e = readdir(old))) {
		bool ours = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..");

		for (int i = 0; names[i]; i++)
			ours |= !strcmp(e->d_name, names[i]);
		if (!ours)
			space_carry(dirfd(old), e, path);
	}
	closedir(old);
	return 0;
}

static int space_folder(const char *path)
{
	return mkdir(path, 0755) ? errno : 0;
}

/* Queries the HCA double in a child process: it needs a world, and this process becomes the
 * program. */
static int space_fill(void)
{
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(verbs_sys_fill());
	if (child < 0 || waitpid(child, &status, 0) != child)
		return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

/*
 * Keeps mounts below `mount_point` in this namespace. In a chroot, `/` may not be a mount point.
 * Then `mount_point` must be one: a mount on a folder of the file system around the chroot would
 * also appear outside.
 */
static int space_private(const char *mount_point)
{
	if (!mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return 0;
	return mount(NULL, mount_point, NULL, MS_REC | MS_PRIVATE, NULL) ? errno : 0;
}

static const char *space_why(int rc)
{
	return rc == EINVAL ? "neither / nor the folder around it is a mount point" : strerror(rc);
}

static int space_furnish_dev(void)
{
	static const char *const ours[] = {"infiniband", NULL};
	int rc = space_private("/dev");

	if (!rc)
		rc = space_open_up("/dev", ours);
	if (!rc)
		rc = space_folder("/dev/infiniband");
	if (rc)
		space_say("no /dev/infiniband: %s; programs that look for device nodes (UCX) will "
			  "find no HCA",
			  space_why(rc));
	return rc;
}

/*
 * Opens up a folder of /sys that shows HCAs; outer folders first. A missing folder is created in
 * its parent, which is private to this process by then: the original is not changed.
 */
static int space_own(const char *path, const char *const *names)
{
	if (access(path, F_OK) == 0)
		return space_open_up(path, names);
	return space_folder(path);
}

static int space_own_all(void)
{
	static const char *const none[] = {NULL};
	static const char *const ours[] = {"infiniband", "infiniband_verbs", NULL};
	static const char *const sys[] = {
		"/sys/devices", "/sys/devices/virtual", "/sys/bus",
		"/sys/bus/pci", "/sys/bus/pci/devices", "/sys/class/pci_bus"};
	int rc = 0;

	/* a /sys that lacks one of its folders is opened up as a whole */
	if (access("/sys/devices", F_OK) || access("/sys/bus", F_OK) || access("/sys/class", F_OK))
		rc = space_open_up("/sys", none);
	if (!rc)
		rc = space_own("/sys/class", ours);
	for (size_t i = 0; !rc && i < sizeof sys / sizeof sys[0]; i++)
		rc = space_own(sys[i], none);
	if (!rc)
		rc = space_folder("/sys/class/infiniband");
	return rc ? rc : space_folder("/sys/class/infiniband_verbs");
}

static int space_furnish_sys(void)
{
	int rc = space_private("/sys");

	if (!rc)
		rc = space_own_all();
	if (rc)
		space_say("no /sys/class/infiniband: %s; programs that read it (NCCL and UCX, to "
			  "choose a GID) need the GID's index from the user",
			  space_why(rc));
	return rc;
}

static void space_furnish(void)
{
	int dev = space_furnish_dev();
	int sys = space_furnish_sys();

	if (dev || sys)
		return;
	int rc = space_fill();

	if (rc)
		space_say("the HCAs in /dev and /sys are not complete: %s", strerror(rc));
}

void verbs_space_enter(const struct verbs_run *r)
{
	int rc = unshare(CLONE_NEWNS) ? errno : 0;

	if (rc == EPERM) {
		rc = space_user(r);
		if (!rc && unshare(CLONE_NEWNS))
			rc = errno;
	}
	if (rc)
		space_say("no namespace for /dev/infiniband and /sys/class/infiniband: %s; the "
			  "program gets the library alone",
			  strerror(rc));
	else
		space_furnish();
}

void cli_hcas_show(uint32_t host)
{
	const struct verbs_run r = {.fabric = getenv("DOPPEL_FABRIC")};
	char text[16];

	snprintf(text, sizeof text, "%u", host);
	setenv("DOPPEL_HOST", text, 1); /* verbs_sys_fill reads it */
	verbs_space_enter(&r);
	unsetenv("DOPPEL_HOST");
}
