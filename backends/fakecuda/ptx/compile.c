/* SPDX-License-Identifier: BSD-3-Clause */
#include "backends/fakecuda/ptx/compile.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/fakecuda/ptx/emit.h"
#include "core/base/hash.h"
#include "core/base/macros.h"

/* -fwrapv: integers of a GPU wrap. No contraction: PTX has its own fma. */
static const char *const build_flags[] = {
	"-std=gnu17",        "-g",           "-w",    "-fwrapv", "-fno-strict-aliasing",
	"-ffp-contract=off", "-fno-builtin", "-fPIC", "-shared",
};

/* A longer text is not optimized: that would take a minute and more. The results are the same. */
enum { BUILD_LONG_TEXT = 1 << 20 };

/* ---- the folder ----------------------------------------------------------------------------- */

static bool build_folder(char out[PATH_MAX], char *error)
{
	/* those of the real machine: processes of a world have other environments */
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int n = cache && *cache ? snprintf(out, PATH_MAX, "%s/doppel/ptx", cache)
				: snprintf(out, PATH_MAX, "%s/.cache/doppel/ptx",
					   home && *home ? home : "/tmp");

	if (n < 0 || n >= PATH_MAX - 1) {
		snprintf(error, PTX_BUILD_ERROR_BYTES, "the path of the cache is too long");
		return false;
	}
	for (char *slash = strchr(out + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(out, 0700); /* the last one decides */
		*slash = '/';
	}
	if (!mkdir(out, 0700) || errno == EEXIST)
		return true;
	snprintf(error, PTX_BUILD_ERROR_BYTES, "mkdir %s: %s; expected a folder for translations",
		 out, strerror(errno));
	return false;
}

/* Replaces the file: the compiler of another process may be reading it, and needs all of it. */
static bool build_write(const char *path, const char *text, char *error)
{
	char made[PATH_MAX + 64];

	snprintf(made, sizeof made, "%s.%d", path, (int)getpid());
	FILE *f = fopen(made, "w");
	bool ok = f && fputs(text, f) >= 0;

	if (f && fclose(f))
		ok = false;
	if (!ok || rename(made, path)) {
		snprintf(error, PTX_BUILD_ERROR_BYTES, "%s: %s", path, strerror(errno));
		return false;
	}
	return true;
}

/* ---- the compiler --------------------------------------------------------------------------- */

/* The environment without LD_PRELOAD: libraries that are loaded into the program may need symbols
 * of the program, which the compiler does not have. The caller frees the list. */
static char **build_environment(void)
{
	static const char preload[] = "LD_PRELOAD=";
	size_t count = 0, kept = 0;

	while (environ[count])
		count++;
	char **list = calloc(count + 1, sizeof *list);
	ASSERT(list);
	for (size_t i = 0; i < count; i++) {
		if (strncmp(environ[i], preload, sizeof preload - 1) != 0)
			list[kept++] = environ[i];
	}
	return list;
}

/* Returns the exit status; -1: the compiler could not be started. */
static int build_run(const char *const *args)
{
	char **environment = build_environment();
	pid_t pid;
	int status, rc;

	rc = posix_spawnp(&pid, args[0], NULL, NULL, (char *const *)(uintptr_t)args, environment);
	free(environment);
	if (rc)
		return -1;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -1;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* The file of the library that has this function: the unit's functions are there. */
static bool build_self(char out[PATH_MAX])
{
	Dl_info info;

	return dladdr((const void *)(uintptr_t)ptx_load, &info) && info.dli_fname &&
	       realpath(info.dli_fname, out);
}

static bool build_compile(const char *source, const char *library, bool optimize, char *error)
{
	static const char *const compilers[] = {"cc", "gcc", "clang-19", "clang"};
	char self[PATH_MAX];
	const char *args[ARRAY_LEN(build_flags) + 8];
	size_t n = 1;
	int rc = -1;

	if (!build_self(self)) {
		snprintf(error, PTX_BUILD_ERROR_BYTES, "the library of the GPU double has no file");
		return false;
	}
	for (size_t i = 0; i < ARRAY_LEN(build_flags); i++)
		args[n++] = build_flags[i];
	args[n++] = optimize ? "-O1" : "-O0";
	args[n++] = "-o";
	args[n++] = library;
	args[n++] = source;
	args[n++] = self;
	args[n++] = "-lm";
	args[n] = NULL;
	for (size_t i = 0; rc < 0 && i < ARRAY_LEN(compilers); i++) {
		args[0] = compilers[i];
		rc = build_run(args);
	}
	if (rc < 0)
		snprintf(error, PTX_BUILD_ERROR_BYTES,
			 "no C compiler; expected cc, gcc, clang-19 or clang in PATH");
	else if (rc)
		snprintf(error, PTX_BUILD_ERROR_BYTES, "%s %s ends with status %d", args[0], source,
			 rc);
	return rc == 0;
}

/* Other processes may build the same: each has files of its own until they are complete. */
static bool build_make(const char *text, const char *stem, const char *library, char *error)
{
	char source[PATH_MAX + 32], made[PATH_MAX + 32];

	snprintf(source, sizeof source, "%s.c", stem);
	snprintf(made, sizeof made, "%s.%d.so", stem, (int)getpid());
	bool optimize = strlen(text) < BUILD_LONG_TEXT;
	if (!build_write(source, text, error) || !build_compile(source, made, optimize, error))
		return false;
	if (!rename(made, library))
		return true;
	snprintf(error, PTX_BUILD_ERROR_BYTES, "rename %s: %s", made, strerror(errno));
	return false;
}

/* ---- loading -------------------------------------------------------------------------------- */

static bool build_load(const char *library, struct ptx_code *code, char *error)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	const uint32_t *shared = handle ? dlsym(handle, PTX_SHARED_NAME) : NULL;
	void *entry = handle ? dlsym(handle, PTX_ENTRY_NAME) : NULL;

	if (!shared || !entry) {
		snprintf(error, PTX_BUILD_ERROR_BYTES, "%s: %s", library, dlerror());
		return false;
	}
	memcpy(&code->entry, &entry, sizeof entry);
	code->static_shared = *shared;
	return true;
}

bool ptx_build(const char *text, const char *name, struct ptx_code *code,
	       char error[PTX_BUILD_ERROR_BYTES])
{
	char folder[PATH_MAX], stem[PATH_MAX], library[PATH_MAX + 8];

	*code = (struct ptx_code){0};
	if (!build_folder(folder, error))
		return false;
	int n = snprintf(stem, sizeof stem, "%s/%.60s-%016llx%016llx", folder, name,
			 (unsigned long long)hash64_str(text),
			 (unsigned long long)hash64_seeded(text, strlen(text), 1));
	if (n >= PATH_MAX) {
		snprintf(error, PTX_BUILD_ERROR_BYTES, "the path of the cache is too long");
		return false;
	}
	snprintf(library, sizeof library, "%s.so", stem);
	if (access(library, R_OK) && !build_make(text, stem, library, error))
		return false;
	return build_load(library, code, error);
}
