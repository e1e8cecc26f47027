/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doppel cc: compiles CUDA source for the GPU double (docs/cuda/README.md). clang compiles each
 * file twice: its kernels to PTX, and its host code to an object that has this text in it.
 */
#include <argp.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/cli/cli.h"
#include "sim/engine/sim.h"
#include "sim/world/machine/installed.h"

#define CC_CLANG   "clang++-19"
#define CC_INCLUDE "include/cuda_runtime.h", "backends/fakecuda/include/cuda_runtime.h"
#define CC_NCCL    "include/nccl.h", "core/include/nccl.h"
#define CC_LIBRARY "libfakecuda.so", "libfakecuda.so"

struct cc {
	const char **option, **link; /* for compiling; for linking, objects among them */
	uint32_t options, links;
	const char **file; /* .cu */
	uint32_t files;
	const char *output;
	bool compile_only;
	char include[PATH_MAX], nccl[PATH_MAX], library[PATH_MAX]; /* folders */
	char folder[64];                                           /* of temporary files */
};

/* ---- running clang -------------------------------------------------------------------------- */

struct cc_words {
	const char *at[256];
	uint32_t n;
};

static void cc_word(struct cc_words *w, const char *word)
{
	if (w->n < ARRAY_LEN(w->at) - 1)
		w->at[w->n] = word;
	w->n++;
}

static void cc_words(struct cc_words *w, const char *const *words, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		cc_word(w, words[i]);
}

static int cc_run(const struct cc_words *w)
{
	pid_t pid;
	int status;

	if (w->n >= ARRAY_LEN(w->at)) {
		fprintf(stderr, "doppel cc: more than %zu words for clang\n", ARRAY_LEN(w->at) - 1);
		return SIM_USAGE;
	}
	int rc = posix_spawnp(&pid, w->at[0], NULL, NULL, (char *const *)(uintptr_t)w->at, environ);
	if (rc) {
		fprintf(stderr, "doppel cc: cannot start %s: %s (apt-get install clang-19)\n",
			w->at[0], strerror(rc));
		return SIM_USAGE;
	}
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return SIM_USAGE;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : SIM_USAGE;
}

/* Begins the command of one half of a file. */
static void cc_begin(struct cc_words *w, const struct cc *c, const char *half)
{
	static const char *const words[] = {"-x",
					    "cuda",
					    "-nocudainc",
					    "-nocudalib",
					    "-Wno-unknown-cuda-version",
					    "--cuda-gpu-arch=sm_90",
					    "-Xclang",
					    "-target-sdk-version=12.3",
					    "-O2",
					    "-include",
					    "cuda_runtime.h",
					    "-I"};

	*w = (struct cc_words){.n = 0};
	cc_word(w, CC_CLANG);
	cc_word(w, half);
	cc_words(w, words, ARRAY_LEN(words));
	cc_word(w, c->include);
	cc_word(w, "-I");
	cc_word(w, c->nccl);
	cc_words(w, c->option, c->options);
}

/* The runtime reads the text up to a NUL. */
static bool cc_end_text(const char *ptx)
{
	FILE *f = fopen(ptx, "a");
	bool ok = f && fputc('\0', f) != EOF;

	if (f && fclose(f))
		ok = false;
	if (!ok)
		fprintf(stderr, "doppel cc: %s: %s\n", ptx, strerror(errno));
	return ok;
}

static int cc_compile(const struct cc *c, const char *file, const char *ptx, const char *object)
{
	struct cc_words w;

	cc_begin(&w, c, "--cuda-device-only");
	const char *const device[] = {"-gline-tables-only", "-S", "-o", ptx, file};
	cc_words(&w, device, ARRAY_LEN(device));
	int rc = cc_run(&w);
	if (rc || !cc_end_text(ptx))
		return rc ? rc : SIM_USAGE;
	cc_begin(&w, c, "--cuda-host-only");
	const char *const host[] = {
		"-Xclang", "-fcuda-include-gpubinary", "-Xclang", ptx, "-c", "-o", object, file};
	cc_words(&w, host, ARRAY_LEN(host));
	return cc_run(&w);
}

static int cc_link(const struct cc *c, const char *const *objects)
{
	struct cc_words w = {.n = 0};
	char search[PATH_MAX + 16], path[PATH_MAX + 16], library[PATH_MAX + 32];

	snprintf(search, sizeof search, "-L%s", c->library);
	snprintf(path, sizeof path, "-Wl,-rpath,%s", c->library);
	snprintf(library, sizeof library, "%s/libfakecuda.so", c->library);
	cc_word(&w, CC_CLANG);
	cc_word(&w, "-o");
	cc_word(&w, c->output ? c->output : "a.out");
	cc_words(&w, objects, c->files);
	cc_word(&w, search);
	cc_words(&w, c->link, c->links);
	cc_word(&w, library);
	cc_word(&w, path);
	return cc_run(&w);
}

/* ---- files ---------------------------------------------------------------------------------- */

/* The object of -c without -o: beside no file, in the current folder, as compilers do. */
static void cc_object_name(const struct cc *c, uint32_t i, char out[PATH_MAX])
{
	const char *slash = strrchr(c->file[i], '/'), *name = slash ? slash + 1 : c->file[i];

	if (c->compile_only && c->output)
		snprintf(out, PATH_MAX, "%s", c->output);
	else if (c->compile_only)
		snprintf(out, PATH_MAX, "%.*s.o", (int)strlen(name) - 3, name);
	else
		snprintf(out, PATH_MAX, "%s/%u.o", c->folder, i);
}

static int cc_all(struct cc *c)
{
	char(*object)[PATH_MAX] = calloc(c->files + 1, sizeof *object);
	const char **objects = calloc(c->files + 1, sizeof *objects);
	char ptx[PATH_MAX];
	int rc = 0;

	ASSERT(object && objects);
	for (uint32_t i = 0; !rc && i < c->files; i++) {
		cc_object_name(c, i, object[i]);
		objects[i] = object[i];
		snprintf(ptx, sizeof ptx, "%s/%u.ptx", c->folder, i);
		rc = cc_compile(c, c->file[i], ptx, object[i]);
		unlink(ptx);
	}
	if (!rc && !c->compile_only)
		rc = cc_link(c, objects);
	for (uint32_t i = 0; !c->compile_only && i < c->files; i++)
		unlink(object[i]);
	free(object);
	free(objects);
	return rc;
}

/* ---- the command line ----------------------------------------------------------------------- */

static bool cc_ends(const char *word, const char *end)
{
	size_t n = strlen(word), m = strlen(end);

	return n > m && strcmp(word + n - m, end) == 0;
}

/* Options that take the next word. */
static bool cc_takes_word(const char *word)
{
	static const char *const taking[] = {"-I", "-D", "-U", "-include", "-isystem", "-Xclang"};

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

static bool cc_parse(struct cc *c, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];
		if (strcmp(word, "-o") == 0 || cc_takes_word(word)) {
			if (i + 1 == argc) {
				fprintf(stderr, "doppel cc: %s: expected a word after it\n", word);
				return false;
			}
			if (strcmp(word, "-o") == 0) {
				c->output = argv[++i];
				continue;
			}
			c->option[c->options++] = word;
			c->option[c->options++] = argv[++i];
		} else if (strcmp(word, "-c") == 0) {
			c->compile_only = true;
		} else if (cc_ends(word, ".cu")) {
			c->file[c->files++] = word;
		} else if (cc_is_link(word)) {
			c->link[c->links++] = word;
		} else {
			c->option[c->options++] = word;
		}
	}
	if (!c->files && (c->compile_only || !c->links)) {
		fprintf(stderr, "doppel cc: no file FILE.cu\n");
		return false;
	}
	if (c->compile_only && c->output && c->files > 1)
		fprintf(stderr, "doppel cc: -c -o with several files; expected one\n");
	return !(c->compile_only && c->output && c->files > 1);
}

/* Finds the folders of our headers and of the library. */
static bool cc_find(struct cc *c)
{
	if (!world_installed(CC_INCLUDE, c->include) || !world_installed(CC_NCCL, c->nccl) ||
	    !world_installed(CC_LIBRARY, c->library)) {
		fprintf(stderr,
			"doppel cc: the headers or libfakecuda.so are missing: expected %s "
			"and %s\n",
			c->include, c->library);
		return false;
	}
	*strrchr(c->include, '/') = '\0';
	*strrchr(c->nccl, '/') = '\0';
	*strrchr(c->library, '/') = '\0';
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
	       "  -O0        keep the lines of kernels in their order, for gdb\n\n"
	       "Objects, archives and -l, -L, -Wl, are for the linker. docs/cuda/README.md has the "
	       "rest.\n");
}

int cli_cc(int argc, char **argv)
{
	struct cc c = {.folder = "/tmp/doppel-cc-XXXXXX"};
	int rc = SIM_USAGE;

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-?"))) {
		cc_help();
		return 0;
	}
	c.option = calloc((size_t)argc + 1, sizeof *c.option);
	c.link = calloc((size_t)argc + 1, sizeof *c.link);
	c.file = calloc((size_t)argc + 1, sizeof *c.file);
	ASSERT(c.option && c.link && c.file);
	if (cc_parse(&c, argc, argv) && cc_find(&c)) {
		if (mkdtemp(c.folder)) {
			rc = cc_all(&c);
			rmdir(c.folder);
		} else {
			fprintf(stderr, "doppel cc: %s: %s\n", c.folder, strerror(errno));
		}
	}
	free(c.option);
	free(c.link);
	free(c.file);
	return rc;
}
