/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel cc: the command line, and the order of the work (docs/cuda/README.md). */
#include "sim/cli/cc/cc.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/cli/cli.h"
#include "sim/engine/sim.h"
#include "sim/world/machine/installed.h"

#define CC_INCLUDE "include/cuda_runtime.h", "backends/fakecuda/include/cuda_runtime.h"
#define CC_NCCL    "include/nccl.h", "core/include/nccl.h"
#define CC_LIBRARY "libfakecuda.so", "libfakecuda.so"

/* ---- lists ---------------------------------------------------------------------------------- */

/* The list ends with NULL, as an argument vector does. */
void cc_word(struct cc_words *w, const char *word)
{
	if (!((w->n + 1) & w->n)) {
		w->at = realloc(w->at, ((size_t)w->n + 1) * 2 * sizeof *w->at);
		ASSERT(w->at);
	}
	w->at[w->n++] = word;
	w->at[w->n] = NULL;
}

void cc_words(struct cc_words *w, const struct cc_words *more)
{
	for (uint32_t i = 0; i < more->n; i++)
		cc_word(w, more->at[i]);
}

void cc_add(struct cc *c, enum cc_kind kind, const char *word)
{
	c->item = realloc(c->item, (c->items + 1) * sizeof *c->item);
	ASSERT(c->item);
	c->item[c->items++] = (struct cc_item){kind, word};
}

bool cc_ends(const char *word, const char *end)
{
	size_t n = strlen(word), m = strlen(end);

	return n > m && strcmp(word + n - m, end) == 0;
}

/* ---- files ---------------------------------------------------------------------------------- */

static uint32_t cc_files(const struct cc *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->items; i++)
		n += c->item[i].kind != CC_LINK;
	return n;
}

/* The result of a file. Without -o it is in the current folder, as with compilers. */
static void cc_result_name(const struct cc *c, uint32_t i, char out[PATH_MAX])
{
	const char *word = c->item[i].word, *slash = strrchr(word, '/');
	const char *name = slash ? slash + 1 : word, *dot = strrchr(name, '.');
	int stem = (int)(dot ? dot - name : (ptrdiff_t)strlen(name));

	if (c->step == CC_STEP_LINK)
		snprintf(out, PATH_MAX, "%s/%u.o", c->folder, i);
	else if (c->output)
		snprintf(out, PATH_MAX, "%s", c->output);
	else
		snprintf(out, PATH_MAX, "%.*s%s", stem, name,
			 c->step == CC_STEP_PTX ? ".ptx" : ".o");
}

static int cc_file(const struct cc *c, uint32_t i, const char *result)
{
	const struct cc_item *item = &c->item[i];

	if (c->step == CC_STEP_PTX)
		return cc_ptx(c, item->word, result);
	if (c->step == CC_STEP_DEPENDS || c->step == CC_STEP_PREPROCESS)
		return cc_print(c, item->word);
	return cc_compile(c, item->kind, item->word, result);
}

/* ---- linking -------------------------------------------------------------------------------- */

static bool cc_has_code(const char *word)
{
	return *word != '-' && (cc_ends(word, ".o") || cc_ends(word, ".a"));
}

/* Links the words. Relocatable device code among them is linked first. */
static int cc_link_all(const struct cc *c, const struct cc_words *words)
{
	struct cc_words objects = {0}, all = {0};
	char device[PATH_MAX];
	bool any;

	snprintf(device, sizeof device, "%s/linked.o", c->folder);
	for (uint32_t i = 0; i < words->n; i++) {
		if (cc_has_code(words->at[i]))
			cc_word(&objects, words->at[i]);
	}
	if (c->step == CC_STEP_DEVICE_LINK)
		snprintf(device, sizeof device, "%s", c->output ? c->output : "a_dlink.o");
	int rc = cc_device_link(c, &objects, device, &any);
	if (!rc && c->step == CC_STEP_LINK) {
		if (any)
			cc_word(&all, device);
		cc_words(&all, words);
		rc = cc_link(c, &all);
		unlink(device);
	}
	free(objects.at);
	free(all.at);
	return rc;
}

static int cc_files_all(const struct cc *c, struct cc_words *results)
{
	char result[PATH_MAX];
	int rc = 0;

	for (uint32_t i = 0; !rc && i < c->items; i++) {
		if (c->item[i].kind == CC_LINK) {
			cc_word(results, strdup(c->item[i].word));
			continue;
		}
		cc_result_name(c, i, result);
		cc_word(results, strdup(result));
		rc = cc_file(c, i, result);
	}
	return rc;
}

static int cc_steps(struct cc *c)
{
	struct cc_words results = {0};
	int rc = cc_files_all(c, &results);

	if (!rc && (c->step == CC_STEP_LINK || c->step == CC_STEP_DEVICE_LINK))
		rc = cc_link_all(c, &results);
	for (uint32_t i = 0; i < results.n; i++) {
		if (c->step == CC_STEP_LINK && c->item[i].kind != CC_LINK)
			unlink(results.at[i]);
		free((char *)(uintptr_t)results.at[i]);
	}
	free(results.at);
	return rc;
}

/* ---- checks --------------------------------------------------------------------------------- */

/* Finds the folders of our headers and of the library. */
static bool cc_find(struct cc *c)
{
	if (!world_installed(CC_INCLUDE, c->include) || !world_installed(CC_NCCL, c->nccl) ||
	    !world_installed(CC_LIBRARY, c->library)) {
		fprintf(stderr,
			"%s: the headers or libfakecuda.so are missing: expected %s and %s\n",
			c->name, c->include, c->library);
		return false;
	}
	*strrchr(c->include, '/') = '\0';
	*strrchr(c->nccl, '/') = '\0';
	*strrchr(c->library, '/') = '\0';
	return true;
}

static bool cc_check(const struct cc *c)
{
	bool files = c->step != CC_STEP_LINK && c->step != CC_STEP_DEVICE_LINK;
	uint32_t n = cc_files(c);

	if (files ? !n : !c->items)
		fprintf(stderr, "%s: no file FILE.cu\n", c->name);
	else if (c->step == CC_STEP_DEVICE_LINK && n)
		fprintf(stderr, "%s: source files for a device link; expected objects\n", c->name);
	else if (files && c->output && n > 1)
		fprintf(stderr, "%s: -c -o with several files; expected one\n", c->name);
	else
		return true;
	return false;
}

void cc_free(struct cc *c)
{
	free(c->option.at);
	free(c->host.at);
	free(c->depend.at);
	free(c->item);
}

int cc_all(struct cc *c)
{
	int rc = SIM_USAGE;

	snprintf(c->folder, sizeof c->folder, "/tmp/doppel-cc-XXXXXX");
	if (cc_check(c) && cc_find(c)) {
		if (mkdtemp(c->folder)) {
			rc = cc_steps(c);
			rmdir(c->folder);
		} else {
			fprintf(stderr, "%s: %s: %s\n", c->name, c->folder, strerror(errno));
		}
	}
	cc_free(c);
	return rc;
}

/* ---- the command line of doppel cc ---------------------------------------------------------- */

/* Options that take the next word. */
static bool cc_takes_word(const char *word)
{
	static const char *const taking[] = {"-I",       "-D",      "-U",  "-include",
					     "-isystem", "-Xclang", "-MF", "-MT"};

	for (size_t i = 0; i < ARRAY_LEN(taking); i++) {
		if (strcmp(word, taking[i]) == 0)
			return true;
	}
	return false;
}

static bool cc_is_link(const char *word)
{
	return *word != '-' || strncmp(word, "-l", 2) == 0 || strncmp(word, "-L", 2) == 0 ||
	       strncmp(word, "-Wl,", 4) == 0;
}

static void cc_parse_word(struct cc *c, const char *word)
{
	if (strcmp(word, "-c") == 0)
		c->step = CC_STEP_COMPILE;
	else if (strcmp(word, "-fgpu-rdc") == 0)
		c->relocatable = true;
	else if (cc_ends(word, ".cu"))
		cc_add(c, CC_CUDA, word);
	else if (cc_is_link(word))
		cc_add(c, CC_LINK, word);
	else
		cc_word(&c->option, word);
}

static bool cc_parse(struct cc *c, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];
		bool output = strcmp(word, "-o") == 0;
		if (!output && !cc_takes_word(word)) {
			cc_parse_word(c, word);
			continue;
		}
		if (++i == argc) {
			fprintf(stderr, "doppel cc: %s: expected a word after it\n", word);
			return false;
		}
		if (output) {
			c->output = argv[i];
			continue;
		}
		cc_word(&c->option, word);
		cc_word(&c->option, argv[i]);
	}
	return true;
}

static void cc_help(void)
{
	printf("Usage: doppel cc [OPTIONS of clang] FILE.cu... [-o PROGRAM]\n\n"
	       "Compiles CUDA source for GPU doubles, by " CC_CLANG
	       " and Doppel's own headers.\nRun the program with 'doppel exec ./PROGRAM'.\n\n"
	       "  -c         compile only\n"
	       "  -o FILE    the program, or with -c the object\n"
	       "  -g         debug information for host code; kernels always have lines\n"
	       "  -O0        keep the lines of kernels in their order, for gdb\n"
	       "  -fgpu-rdc  kernels may use functions and variables of other files\n\n"
	       "Objects, archives and -l, -L, -Wl, are for the linker. docs/cuda/README.md has the "
	       "rest.\n");
}

int cli_cc(int argc, char **argv)
{
	struct cc c = {.name = "doppel cc"};

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-?"))) {
		cc_help();
		return 0;
	}
	if (cc_parse(&c, argc, argv))
		return cc_all(&c);
	cc_free(&c);
	return SIM_USAGE;
}
