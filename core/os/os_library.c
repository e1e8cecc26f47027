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

int os_library_open(const char *name, void **library, char *why, size_t bytes)
{
	ASSERT(library && why && bytes);
	why[0] = '\0';
	*library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (*library)
		return 0;
	snprintf(why, bytes, "%s", dlerror());
	return ENOENT;
}

void *os_library_symbol(void *library, const char *name)
{
	return dlsym(library, name);
}

void os_library_close(void *library)
{
	if (library)
		(void)dlclose(library);
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
