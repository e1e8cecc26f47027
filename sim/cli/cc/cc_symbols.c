/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Symbols of objects, by nm and objcopy of the binutils. clang names a kernel's host function
 * NAME with __device_stub__ before it. Host code of other compilers refers to it by the kernel's
 * own name, as with nvcc, so the symbol is renamed.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/cli/cc/cc.h"
#include "sim/engine/sim.h"

#define SYMBOLS_STUB "__device_stub__"

FILE *cc_temporary(const struct cc *c, const char *name, char path[PATH_MAX])
{
	int n = snprintf(path, PATH_MAX, "%s/%s", c->folder, name);

	ASSERT(n > 0 && n < PATH_MAX);
	FILE *f = fopen(path, "w+e");
	if (!f)
		fprintf(stderr, "%s: %s: %s\n", c->name, path, strerror(errno));
	return f;
}

int cc_symbols(const struct cc *c, const char *which, const struct cc_words *objects, FILE *into)
{
	struct cc_words w = {0};

	cc_word(&w, "nm");
	cc_word(&w, which);
	cc_word(&w, "-P");
	cc_words(&w, objects);
	int rc = cc_run(c, &w, fileno(into));
	free(w.at);
	rewind(into);
	return rc;
}

bool cc_symbol(FILE *symbols, char *line, int bytes)
{
	char *got = fgets(line, bytes, symbols);

	if (got)
		line[strcspn(line, " \n")] = '\0';
	return got != NULL;
}

/* Writes the name without the prefix. The encoding of C++ has the name's length before it. */
static bool symbols_plain(const char *symbol, char *out, size_t bytes)
{
	const char *stub = strstr(symbol, SYMBOLS_STUB), *digits = stub;
	int prefix = (int)strlen(SYMBOLS_STUB);

	if (!stub)
		return false;
	while (digits > symbol && isdigit((unsigned char)digits[-1]))
		digits--;
	int before = (int)(digits - symbol), length = atoi(digits);
	int n = digits == stub ? snprintf(out, bytes, "%.*s%s", before, symbol, stub + prefix)
			       : snprintf(out, bytes, "%.*s%d%s", before, symbol, length - prefix,
					  stub + prefix);

	return n > 0 && (size_t)n < bytes && (digits == stub || length > prefix);
}

/* Writes the old and the new name of each host function of a kernel. Returns their number. */
static uint32_t symbols_write(FILE *symbols, FILE *map)
{
	char line[8192], plain[8192];
	uint32_t count = 0;

	while (cc_symbol(symbols, line, sizeof line)) {
		if (!symbols_plain(line, plain, sizeof plain))
			continue;
		fprintf(map, "%s %s\n", line, plain);
		count++;
	}
	return count;
}

static int symbols_rename(const struct cc *c, const char *map, const char *object)
{
	char word[PATH_MAX + 32];
	struct cc_words w = {0};

	snprintf(word, sizeof word, "--redefine-syms=%s", map);
	cc_word(&w, "objcopy");
	cc_word(&w, word);
	cc_word(&w, object);
	int rc = cc_run(c, &w, -1);
	free(w.at);
	return rc;
}

int cc_name_kernels(const struct cc *c, const char *object)
{
	char list[PATH_MAX], names[PATH_MAX];
	FILE *symbols = cc_temporary(c, "symbols", list), *map = cc_temporary(c, "names", names);
	struct cc_words objects = {0};
	uint32_t count = 0;
	int rc = symbols && map ? 0 : SIM_USAGE;

	cc_word(&objects, object);
	if (!rc)
		rc = cc_symbols(c, "-g", &objects, symbols);
	if (!rc)
		count = symbols_write(symbols, map);
	free(objects.at);
	if (symbols)
		fclose(symbols);
	if (map && fclose(map))
		rc = SIM_USAGE;
	if (!rc && count)
		rc = symbols_rename(c, names, object);
	unlink(list);
	unlink(names);
	return rc;
}
