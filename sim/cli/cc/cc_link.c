/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links. An object with relocatable device code calls a function that no object defines:
 * __cudaRegisterLinkedBinary and a number. The device link defines them all, in one object. Its
 * functions register the images of all these objects as one image.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/cli/cc/cc.h"
#include "sim/engine/sim.h"

#define LINK_CALL "__cudaRegisterLinkedBinary"

/* ---- the device link ------------------------------------------------------------------------ */

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
	while (cc_symbol(symbols, line, sizeof line)) {
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

int cc_device_link(const struct cc *c, const struct cc_words *objects, const char *out, bool *any)
{
	char list[PATH_MAX], source[PATH_MAX];
	FILE *symbols = cc_temporary(c, "undefined", list);
	FILE *text = cc_temporary(c, "linked.c", source);
	uint32_t count = 0;
	int rc = symbols && text ? 0 : SIM_USAGE;

	if (!rc && objects->n)
		rc = cc_symbols(c, "-u", objects, symbols);
	if (!rc)
		count = link_write(symbols, text);
	if (symbols)
		fclose(symbols);
	if (text && fclose(text))
		rc = SIM_USAGE;
	if (!rc)
		rc = link_compile(c, source, out);
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
