/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/world/program/program.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Writes the image to an anonymous file. The file stays open: a debugger opens it by its path in
 * /proc. */
static int program_write(const void *image, uint64_t bytes, char path[64])
{
	int fd = memfd_create("doppel-program", MFD_CLOEXEC);
	uint64_t done = 0;

	while (fd >= 0 && done < bytes) {
		ssize_t n = write(fd, (const char *)image + done, bytes - done);

		if (n < 0 && errno != EINTR) {
			int rc = errno;

			close(fd);
			return rc;
		}
		done += n > 0 ? (uint64_t)n : 0;
	}
	snprintf(path, 64, "/proc/%d/fd/%d", (int)getpid(), fd);
	return fd < 0 ? errno : 0;
}

/* Constructs std::cout. The first C++ program of a process does this, which would be too late for
 * its copy of the variable. std::ios_base::Init::Init constructs it now. */
static void program_start_streams(void)
{
	static char object; /* object of an empty class */
	void (*init)(void *object);
	void *found = dlsym(RTLD_DEFAULT, "_ZNSt8ios_base4InitC1Ev");

	memcpy(&init, &found, sizeof init);
	if (init)
		init(&object);
}

/* Loads the libraries before the copy. A copy takes the values of library variables when it is
 * loaded: the libraries must be complete then. They must be in the global scope: a search that
 * starts in the copy would find the copy's own variable. */
static void program_load_libraries(const struct program_file *file)
{
	const char *name;

	for (uint32_t i = 0; (name = program_file_library(file, i)); i++)
		(void)dlopen(name,
			     RTLD_NOW | RTLD_GLOBAL); /* a missing library fails with its program */
	program_start_streams();
}

static void program_change_calls(const struct program *p)
{
	struct program_reference r;

	for (uint64_t i = 0; program_file_reference(p->file, i, &r); i++) {
		void *call = r.kind == PROGRAM_POINTER ? program_call(r.name) : NULL;

		if (call)
			memcpy((void *)(p->base + r.address), &call, sizeof call);
	}
}

static int program_refuse(const struct program_file *file, const char *why)
{
	fprintf(stderr, "doppel exec: %s cannot be loaded: %s\n", program_file_path(file), why);
	return ENOEXEC;
}

int program_load(const struct program_file *file, struct program *p)
{
	uint64_t bytes;
	const void *image = program_file_image(file, &bytes);
	char path[64];
	int rc = program_write(image, bytes, path);

	*p = (struct program){.file = file};
	if (rc)
		return program_refuse(file, strerror(rc));
	program_load_libraries(file);
	const struct link_map *map = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!map)
		return program_refuse(file, dlerror());
	p->base = map->l_addr;
	uintptr_t at = p->base + program_file_main(file);

	memcpy(&p->main, &at, sizeof p->main);
	program_change_calls(p);
	return 0;
}

void *program_variable(const struct program *p, const char *name)
{
	struct program_reference r;

	for (uint64_t i = 0; program_file_reference(p->file, i, &r); i++)
		if (r.kind == PROGRAM_VARIABLE && strcmp(r.name, name) == 0)
			return (void *)(p->base + r.address);
	return NULL;
}

void program_finish(const struct program *p)
{
	uint64_t n, table = program_file_finishers(p->file, &n);
	void (*const *finish)(void) = (void (*const *)(void))(p->base + table);

	while (table && n-- > 0)
		finish[n]();
}
