/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/world/machine/installed.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* the deepest folder with a library of Doppel is lib/MULTIARCH/doppel/verbs */
#define INSTALLED_LEVELS 5

/* Finds the file from which this function was loaded. */
static bool installed_library(char out[PATH_MAX])
{
	Dl_info info;

	return dladdr((const void *)(uintptr_t)world_installed, &info) && info.dli_fname &&
	       realpath(info.dli_fname, out);
}

static bool installed_in(const char *folder, const char *below, char out[PATH_MAX])
{
	int n = snprintf(out, PATH_MAX, "%s/%s", folder, below);

	return n > 0 && n < PATH_MAX && access(out, R_OK) == 0;
}

bool world_installed(const char *installed, const char *in_tree, char out[PATH_MAX])
{
	char folder[PATH_MAX];
	bool known = installed_library(folder);

	for (int level = 0; known && level <= INSTALLED_LEVELS; level++) {
		char *slash = strrchr(folder, '/');

		if (!slash)
			break;
		*slash = '\0';
		if (installed_in(folder, installed, out) || installed_in(folder, in_tree, out))
			return true;
	}
	return installed_in(DOPPEL_SOURCE_DIR, in_tree, out);
}
