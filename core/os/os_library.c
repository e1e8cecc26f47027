/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared libraries, threads that they start, and drivers' descriptors. They belong to the real
 * machine, in a world as well. */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "core/os/os_ops.h"

/* Libraries that are open in the process of the real machine. A library is in the list as long as
 * any of its users has it open. */
static struct {
	void *library;
	uint32_t users;
	shared_u32 word;
} os_libraries[OS_LIBRARIES];
static shared_u32 os_libraries_lock;

/* The lock is held for a few instructions. It is no scheduling point. */
static void os_libraries_enter(void)
{
	while (shared_quiet_exchange_u32(&os_libraries_lock, 1))
		;
}

static void os_libraries_leave(void)
{
	shared_quiet_store_u32(&os_libraries_lock, 0);
}

/* Counts one user more or less. Returns the place in the list; -1: the list is full. */
static int os_libraries_count(void *library, int users)
{
	int at = -1;

	for (int i = 0; i < OS_LIBRARIES; i++) {
		if (os_libraries[i].library == library) {
			at = i;
			break;
		}
		if (at < 0 && !os_libraries[i].library)
			at = i;
	}
	if (at < 0 || (!os_libraries[at].library && users <= 0))
		return -1;
	if (!os_libraries[at].library)
		shared_quiet_store_u32(&os_libraries[at].word, 0);
	os_libraries[at].library = library;
	os_libraries[at].users += (uint32_t)users;
	if (!os_libraries[at].users)
		os_libraries[at].library = NULL;
	return at;
}

int os_library_open(const char *name, void **library, char *why, size_t bytes)
{
	ASSERT(library && why && bytes);
	why[0] = '\0';
	*library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (*library) {
		os_libraries_enter();
		(void)os_libraries_count(*library, 1);
		os_libraries_leave();
		return 0;
	}
	snprintf(why, bytes, "%s", dlerror());
	return ENOENT;
}

void *os_library_symbol(void *library, const char *name)
{
	return dlsym(library, name);
}

void os_library_close(void *library)
{
	if (!library)
		return;
	os_libraries_enter();
	(void)os_libraries_count(library, -1);
	os_libraries_leave();
	(void)dlclose(library);
}

shared_u32 *os_library_word(void *library)
{
	int at;

	os_libraries_enter();
	at = os_libraries_count(library, 0);
	os_libraries_leave();
	return at < 0 ? NULL : &os_libraries[at].word;
}

void os_code_name(const void *at, char *out, size_t bytes)
{
	ASSERT(out && bytes);
	os_world_in_force()->code_name(at, out, bytes);
}

void os_code_name_real(const void *at, char *out, size_t bytes)
{
	const char *name, *slash;
	const void *from;
	Dl_info info;

	snprintf(out, bytes, "?");
	if (!at || !dladdr(at, &info))
		return;
	slash = info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
	name = info.dli_sname ? info.dli_sname : slash ? slash + 1 : info.dli_fname;
	from = info.dli_sname ? info.dli_saddr : info.dli_fbase;
	if (name)
		snprintf(out, bytes, "%s+0x%zx", name, (size_t)((uintptr_t)at - (uintptr_t)from));
}

void os_descriptor_close(int fd)
{
	(void)close(fd);
}

bool os_thread_is_known(void)
{
	const struct os_sched_ops *sched = os_sched_in_force();

	return !sched->thread_is_known || sched->thread_is_known();
}
