/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory of a drop-in program stays ordinary memory. Its contents survive when the
 * library moves it to where peers can map it. A child made by fork receives its own copy, and may
 * open HCAs, also from its parent's list. Calls with its parent's objects fail. */
#include <errno.h>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#undef ibv_get_device_list
#undef ibv_reg_mr

enum { BYTES = 64 << 10 };

/* A child inherits its parent's heap blocks without references to them, so leak detection is
 * off. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

static struct {
	struct ibv_device **(*list)(int *n);
	void (*free)(struct ibv_device **list);
	__be64 (*guid)(struct ibv_device *d);
	int (*event)(struct ibv_context *c, struct ibv_async_event *e);
	struct ibv_context *(*open)(struct ibv_device *d);
	int (*close)(struct ibv_context *c);
	struct ibv_pd *(*pd)(struct ibv_context *c);
	struct ibv_mr *(*reg)(struct ibv_pd *pd, void *at, size_t bytes, int access);
	int (*dereg)(struct ibv_mr *mr);
} verbs;

static void need(int ok, const char *what)
{
	if (ok)
		return;
	printf("%d: not so: %s\n", (int)getpid(), what);
	exit(1);
}

static void load(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 40);

	need(n > 0, "my own path");
	path[n] = '\0';
	strcpy(strrchr(path, '/'), "/../verbs/libibverbs.so.1");
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	need(lib != NULL, path);
	*(void **)&verbs.list = dlsym(lib, "ibv_get_device_list");
	*(void **)&verbs.free = dlsym(lib, "ibv_free_device_list");
	*(void **)&verbs.guid = dlsym(lib, "ibv_get_device_guid");
	*(void **)&verbs.event = dlsym(lib, "ibv_get_async_event");
	*(void **)&verbs.close = dlsym(lib, "ibv_close_device");
	*(void **)&verbs.open = dlsym(lib, "ibv_open_device");
	*(void **)&verbs.pd = dlsym(lib, "ibv_alloc_pd");
	*(void **)&verbs.reg = dlsym(lib, "ibv_reg_mr");
	*(void **)&verbs.dereg = dlsym(lib, "ibv_dereg_mr");
}

static int moved(const void *at)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	char line[512];
	int yes = 0;

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && (unsigned long)at >= start &&
		    (unsigned long)at < end)
			yes = strstr(line, "doppel-region") != NULL;
	if (f)
		fclose(f);
	return yes;
}

static struct ibv_pd *open_first(void)
{
	struct ibv_device **list = verbs.list(NULL);

	need(list && list[0], "there are HCAs");
	struct ibv_context *c = verbs.open(list[0]);

	need(c != NULL, "the first one opens");
	return verbs.pd(c);
}

static int all(const unsigned char *at, int value)
{
	for (int i = 0; i < BYTES; i++)
		if (at[i] != value)
			return 0;
	return 1;
}

/* Runs `what` in a child process, which exits like a program. */
static void in_child(void (*what)(void *arg), void *arg, const char *name)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		what(arg);
		exit(0);
	}
	need(waitpid(child, &status, 0) == child && status == 0, name);
}

static void child_does_nothing(void *list)
{
	(void)list;
}

static void child_frees(void *list)
{
	verbs.free(list);
}

static void child_opens(void *list)
{
	struct ibv_device **devices = list;

	need(verbs.guid(devices[0]) != 0, "a device of the parent's list has its GUID");
	struct ibv_context *c = verbs.open(devices[0]);

	need(c && verbs.pd(c), "it opens");
	verbs.free(list);
}

static void child_misuses(void *pd)
{
	struct ibv_context *parents = ((struct ibv_pd *)pd)->context;
	struct ibv_async_event e;

	for (int started = 0; started < 2; started++) {
		need(!verbs.pd(parents) && errno == EINVAL, "the parent's context has no use here");
		need(verbs.event(parents, &e) == -1 && errno == ENODEV, "nor events");
		need(verbs.close(parents) == EINVAL, "nor an end");
		need(open_first() != NULL, "the child has HCAs of its own");
	}
}

static void children(struct ibv_pd *pd)
{
	struct ibv_device **list = verbs.list(NULL);

	in_child(child_does_nothing, list, "a child that knows no verbs");
	in_child(child_frees, list, "a child that frees its parent's list");
	in_child(child_opens, list, "a child that opens from its parent's list");
	in_child(child_misuses, pd, "a child with its parent's context");
	verbs.free(list);
}

int main(void)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	int status;

	load();
	setenv("DOPPEL_FABRIC", "fork-test", 1);
	struct ibv_pd *pd = open_first();
	unsigned char *at =
		mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(at, 0x11, BYTES);
	struct ibv_mr *mr = verbs.reg(pd, at, BYTES, access);
	struct ibv_mr *again = verbs.reg(pd, at + 4096, BYTES - 4096, access);

	need(mr && again, "the memory registers, twice");
	need(all(at, 0x11), "its bytes stayed");
	int shared = moved(at);

	pid_t child = fork();

	if (child == 0) {
		need(all(at, 0x11), "the child has the bytes");
		need(!moved(at), "they are its own");
		memset(at, 0x22, BYTES);
		need(open_first() != NULL, "the child has HCAs of its own");
		_exit(0);
	}
	need(waitpid(child, &status, 0) == child && status == 0, "the child is content");
	children(pd);
	need(all(at, 0x11), "what the child wrote stayed there");
	need(verbs.dereg(mr) == 0 && verbs.dereg(again) == 0, "it deregisters");
	need(all(at, 0x11), "the bytes are there after it");
	struct ibv_mr *third = verbs.reg(pd, at, BYTES, access);

	need(third && all(at, 0x11) && moved(at) == shared, "and once more");
	need(munmap(at, BYTES) == 0 && verbs.dereg(third) == 0, "gone before it is deregistered");
	if (!shared) {
		printf("the memory is not shared here (more threads than the program's one)\n");
		return 77;
	}
	return 0;
}
