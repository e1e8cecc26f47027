/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links. An object with relocatable device code calls a function that no object defines:
 * __cudaRegisterLinkedBinary and a number. The device link defines them all, in one object. Its
 * functions register the images of all these objects as one image.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/cli/cc/cc.h"
#include "sim/engine/sim.h"

#define LINK_CALL "__cudaRegisterLinkedBinary"

/* ---- the device link ------------------------------------------------------------------------ */

static int link_open(const struct cc *c, const char *name, char path[PATH_MAX])
{
	int n = snprintf(path, PATH_MAX, "%s/%s", c->folder, name);

	ASSERT(n > 0 && n < PATH_MAX);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		fprintf(stderr, "%s: %s: %s\n", c->name, path, strerror(errno));
	return fd;
}

/* Writes the undefined symbols of the objects into the file, a line each. */
static int link_undefined(const struct cc *c, const struct cc_words *objects, int into)
{
	struct cc_words w = {0};

	cc_word(&w, "nm");
	cc_word(&w, "-u");
	cc_word(&w, "-P");
	cc_words(&w, objects);
	int rc = cc_run(c, &w, into);
	free(w.at);
	return rc;
}

static const char link_head[] =
	"void __doppelRegisterLinked(void **, void (*)(void **), const void *);\n"
	"void __cudaUnregisterFatBinary(void **);\n"
	"static void *image;\n"
	"__attribute__((destructor)) static void end(void)\n"
	"{\n\tif (image)\n\t\t__cudaUnregisterFatBinary(image);\n}\n";

static const char link_call[] =
	"__attribute__((visibility(\"hidden\")))\n"
	"void %s(void (*globals)(void **), const void *wrapper, const void *id, void *f)\n"
	"{\n\t(void)id, (void)f;\n\t__doppelRegisterLinked(&image, globals, wrapper);\n}\n";

/* Several objects of an archive may have one name. The second definition would be an error. */
static bool link_seen(const struct cc_words *seen, const char *name)
{
	for (uint32_t i = 0; i < seen->n; i++) {
		if (!strcmp(seen->at[i], name))
			return true;
	}
	return false;
}

/* Writes a function for each undefined symbol of that kind. Returns their number. */
static uint32_t link_write(FILE *symbols, FILE *out)
{
	struct cc_words seen = {0};
	char line[4096];

	fputs(link_head, out);
	while (fgets(line, sizeof line, symbols)) {
		char *end = strpbrk(line, " \n");
		if (end)
			*end = '\0';
		if (strncmp(line, LINK_CALL, strlen(LINK_CALL)) || link_seen(&seen, line))
			continue;
		char *name = strdup(line);
		ASSERT(name);
		cc_word(&seen, name);
		fprintf(out, link_call, name);
	}
	for (uint32_t i = 0; i < seen.n; i++)
		free((char *)(uintptr_t)seen.at[i]);
	free(seen.at);
	return seen.n;
}

static int link_compile(const struct cc *c, const char *source, const char *out)
{
	const char *const words[] = {CC_CLANG, "-x", "c", "-O2", "-fPIC", "-c", "-o", out, source};
	struct cc_words w = {0};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		cc_word(&w, words[i]);
	int rc = cc_run(c, &w, -1);
	free(w.at);
	return rc;
}

static int link_sources(const struct cc *c, int symbols, int source, uint32_t *count)
{
	FILE *in = fdopen(symbols, "r"), *out = fdopen(source, "w");

	ASSERT(in && out);
	rewind(in);
	*count = link_write(in, out);
	fclose(in);
	if (!fclose(out))
		return 0;
	fprintf(stderr, "%s: %s: %s\n", c->name, c->folder, strerror(errno));
	return SIM_USAGE;
}

int cc_device_link(const struct cc *c, const struct cc_words *objects, const char *out, bool *any)
{
	char list[PATH_MAX], source[PATH_MAX];
	uint32_t count = 0;
	int rc = SIM_USAGE;

	*any = false;
	int symbols = link_open(c, "undefined", list);
	int text = link_open(c, "linked.c", source);
	if (symbols >= 0 && text >= 0) {
		rc = objects->n ? link_undefined(c, objects, symbols) : 0;
		if (!rc)
			rc = link_sources(c, symbols, text, &count);
		if (!rc)
			rc = link_compile(c, source, out);
	}
	*any = !rc && count;
	unlink(list);
	unlink(source);
	return rc;
}

/* ---- the host link -------------------------------------------------------------------------- */

int cc_link(const struct cc *c, const struct cc_words *objects)
{
	struct cc_words w = {0};
	char search[PATH_MAX + 16], path[PATH_MAX + 16], library[PATH_MAX + 32];

	snprintf(search, sizeof search, "-L%s", c->library);
	snprintf(path, sizeof path, "-Wl,-rpath,%s", c->library);
	snprintf(library, sizeof library, "%s/libfakecuda.so", c->library);
	cc_word(&w, CC_CLANG);
	cc_word(&w, "-o");
	cc_word(&w, c->output ? c->output : "a.out");
	cc_words(&w, &c->host);
	cc_words(&w, objects);
	cc_word(&w, search); /* after those of the program, which may have another libnccl.so */
	cc_word(&w, library);
	cc_word(&w, path);
	int rc = cc_run(c, &w, -1);
	free(w.at);
	return rc;
}
