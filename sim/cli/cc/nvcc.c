/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doppel nvcc, and the link doppel-nvcc to it: a command line with nvcc's options, so that `make
 * NVCC=doppel-nvcc` works. The option is a row of a table: it is passed on, it sets something, or
 * it has no meaning here. Any other option is an error with its name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/cli/cc/cc.h"
#include "sim/cli/cc/nvcc_internal.h"
#include "sim/cli/cli.h"
#include "sim/engine/sim.h"

/* ---- words that options make ---------------------------------------------------------------- */

static const char *nvcc_keep(struct nvcc *n, char *word)
{
	ASSERT(word);
	cc_word(&n->made, word);
	return word;
}

/* Adds each part of a value; commas and blanks divide it. */
static void nvcc_split(struct nvcc *n, struct cc_words *to, const char *value)
{
	char *copy = strdup(value), *rest = copy;

	ASSERT(copy);
	for (char *part = strsep(&rest, ", "); part; part = strsep(&rest, ", ")) {
		if (*part)
			cc_word(to, nvcc_keep(n, strdup(part)));
	}
	free(copy);
}

static const char *nvcc_joined(struct nvcc *n, const char *a, const char *b)
{
	char *word = NULL;

	if (asprintf(&word, "%s%s", a, b) < 0)
		word = NULL;
	return nvcc_keep(n, word);
}

/* ---- architectures -------------------------------------------------------------------------- */

/* The double is a GPU of compute capability 9.0. It runs the newest code up to this. Code for newer
 * GPUs only is left out, as a GPU ignores it. */
enum { NVCC_ARCH_MOST = 90 };

static void nvcc_arch_one(struct nvcc *n, const char *text)
{
	const char *digits = text + strcspn(text, "0123456789");
	int number = atoi(digits);

	bool newer = number > NVCC_ARCH_MOST;

	if ((strncmp(text, "sm_", 3) && strncmp(text, "compute_", 8)) || !number)
		return;
	if (n->arch && (newer || (number < n->arch && !n->c.newer)))
		return;
	n->arch = number;
	n->c.newer = newer;
	snprintf(n->c.arch, sizeof n->c.arch, "sm_%.8s", digits);
}

/* arch=compute_90,code=[sm_90,compute_90]: the virtual architecture decides. Or sm_90. */
static bool nvcc_arch(struct nvcc *n, const char *value)
{
	const char *at = strstr(value, "arch=");
	char text[32];

	if (!strcmp(value, "native") || !strcmp(value, "all") || !strcmp(value, "all-major"))
		return true;
	at = at ? at + strlen("arch=") : value;
	snprintf(text, sizeof text, "%.*s", (int)strcspn(at, ","), at);
	nvcc_arch_one(n, text);
	return true;
}

/* ---- options that do something -------------------------------------------------------------- */

static bool nvcc_step(struct nvcc *n, enum cc_step step)
{
	n->c.step = step;
	return true;
}

bool nvcc_compile(struct nvcc *n, const char *value)
{
	(void)value;
	return n->c.step == CC_STEP_DEPENDS || nvcc_step(n, CC_STEP_COMPILE);
}

/* -dc: compile relocatable device code */
bool nvcc_device_c(struct nvcc *n, const char *value)
{
	n->c.relocatable = true;
	return nvcc_compile(n, value);
}

/* -dw: compile whole programs */
bool nvcc_device_w(struct nvcc *n, const char *value)
{
	n->c.relocatable = false;
	return nvcc_compile(n, value);
}

bool nvcc_device_link(struct nvcc *n, const char *value)
{
	(void)value;
	return nvcc_step(n, CC_STEP_DEVICE_LINK);
}

bool nvcc_ptx(struct nvcc *n, const char *value)
{
	(void)value;
	return nvcc_step(n, CC_STEP_PTX);
}

bool nvcc_preprocess(struct nvcc *n, const char *value)
{
	(void)value;
	return nvcc_step(n, CC_STEP_PREPROCESS);
}

bool nvcc_depends(struct nvcc *n, const char *value)
{
	(void)value;
	return nvcc_step(n, CC_STEP_DEPENDS);
}

bool nvcc_relocatable(struct nvcc *n, const char *value)
{
	n->c.relocatable = strcmp(value, "true") == 0;
	if (n->c.relocatable || strcmp(value, "false") == 0)
		return true;
	fprintf(stderr, "doppel nvcc: -rdc=%s; expected true or false\n", value);
	return false;
}

bool nvcc_output(struct nvcc *n, const char *value)
{
	n->c.output = value;
	return true;
}

bool nvcc_gencode(struct nvcc *n, const char *value)
{
	return nvcc_arch(n, value);
}

/* -code chooses among machine code, and the double has none. */
bool nvcc_ignore(struct nvcc *n, const char *value)
{
	(void)n, (void)value;
	return true;
}

bool nvcc_compiler(struct nvcc *n, const char *value)
{
	nvcc_split(n, &n->c.host, value);
	return true;
}

bool nvcc_linker(struct nvcc *n, const char *value)
{
	cc_add(&n->c, CC_LINK, nvcc_joined(n, "-Wl,", value));
	return true;
}

bool nvcc_debug(struct nvcc *n, const char *value)
{
	(void)value;
	n->c.debug = true;
	return true;
}

bool nvcc_optimize(struct nvcc *n, const char *value)
{
	cc_word(&n->c.host, nvcc_joined(n, "-O", value));
	return true;
}

/* nvcc's own front end has the extensions of GNU in each standard. */
bool nvcc_standard(struct nvcc *n, const char *value)
{
	bool plain = strncmp(value, "c++", 3) == 0;

	cc_word(&n->c.option,
		nvcc_joined(n, plain ? "-std=gnu++" : "-std=", plain ? value + 3 : value));
	return true;
}

bool nvcc_language(struct nvcc *n, const char *value)
{
	bool cuda = strcmp(value, "cu") == 0;

	n->language = true;
	n->kind = cuda ? CC_CUDA : CC_HOST;
	n->c.language = cuda ? NULL : value;
	if (cuda || !strcmp(value, "c") || !strcmp(value, "c++"))
		return true;
	fprintf(stderr, "doppel nvcc: -x %s; expected cu, c or c++\n", value);
	return false;
}

/* Faster and less exact functions: of these, denormal numbers become 0. */
bool nvcc_flush(struct nvcc *n, const char *value)
{
	if (!*value || !strcmp(value, "true"))
		cc_word(&n->c.option, "-fgpu-flush-denormals-to-zero");
	return true;
}

bool nvcc_contract(struct nvcc *n, const char *value)
{
	cc_word(&n->c.option, strcmp(value, "false") ? "-ffp-contract=fast" : "-ffp-contract=off");
	return true;
}

bool nvcc_show(struct nvcc *n, const char *value)
{
	(void)value;
	n->c.show = true;
	return true;
}

bool nvcc_shared(struct nvcc *n, const char *value)
{
	(void)value;
	cc_add(&n->c, CC_LINK, "-shared");
	return true;
}

bool nvcc_stream(struct nvcc *n, const char *value)
{
	if (!strcmp(value, "per-thread"))
		cc_word(&n->c.option, "-DCUDA_API_PER_THREAD_DEFAULT_STREAM");
	return true;
}

/* ---- passed on ------------------------------------------------------------------------------ */

bool nvcc_both(struct nvcc *n, const char *name, const char *value)
{
	cc_word(&n->c.option, name);
	if (value)
		cc_word(&n->c.option, value);
	return true;
}

bool nvcc_to_host(struct nvcc *n, const char *name, const char *value)
{
	cc_word(&n->c.host, name);
	if (value)
		cc_word(&n->c.host, value);
	return true;
}

bool nvcc_to_depend(struct nvcc *n, const char *name, const char *value)
{
	cc_word(&n->c.depend, name);
	if (value)
		cc_word(&n->c.depend, value);
	return true;
}

bool nvcc_to_linker(struct nvcc *n, const char *name, const char *value)
{
	cc_add(&n->c, CC_LINK, nvcc_joined(n, name, value ? value : ""));
	return true;
}

/* ---- the command line ----------------------------------------------------------------------- */

static void nvcc_file(struct nvcc *n, const char *word)
{
	static const char *const host[] = {".c", ".cc", ".cpp", ".cxx"};
	static const char *const linked[] = {".o", ".a", ".so"};
	enum cc_kind kind = n->language ? n->kind : cc_ends(word, ".cu") ? CC_CUDA : CC_LINK;

	for (size_t i = 0; !n->language && i < ARRAY_LEN(host); i++) {
		if (cc_ends(word, host[i]))
			kind = CC_HOST;
	}
	for (size_t i = 0; i < ARRAY_LEN(linked); i++) {
		if (cc_ends(word, linked[i]))
			kind = CC_LINK;
	}
	cc_add(&n->c, kind, word);
}

static bool nvcc_parse(struct nvcc *n, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		int used = *argv[i] == '-' ? nvcc_option(n, argc - i, argv + i) : 1;
		if (!used)
			return false;
		if (*argv[i] != '-')
			nvcc_file(n, argv[i]);
		i += used - 1;
	}
	return true;
}

static void nvcc_help(void)
{
	printf("Usage: doppel nvcc [OPTIONS of nvcc] FILE...\n\n"
	       "Compiles CUDA source for GPU doubles, with nvcc's options: 'make "
	       "NVCC=doppel-nvcc'.\nThe compiler is " CC_CLANG
	       ". These options are known; a value follows as the next word or after =:\n\n");
	nvcc_print_options();
}

static void nvcc_version(void)
{
	printf("doppel nvcc: the options of nvcc, for GPU doubles\n"
	       "Cuda compilation tools, release 13.0, V13.0.0\n");
}

int cli_nvcc(int argc, char **argv)
{
	struct nvcc n = {.c = {.name = "doppel nvcc"}};
	const char *first = argc > 1 ? argv[1] : "";
	int rc = SIM_USAGE;

	if (!strcmp(first, "--help") || !strcmp(first, "-h")) {
		nvcc_help();
		return 0;
	}
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--version") || !strcmp(argv[i], "-V")) {
			nvcc_version();
			return 0;
		}
	}
	bool parsed = nvcc_parse(&n, argc, argv);
	if (parsed)
		rc = cc_all(&n.c);
	else
		cc_free(&n.c);
	for (uint32_t i = 0; i < n.made.n; i++)
		free((char *)(uintptr_t)n.made.at[i]);
	free(n.made.at);
	return rc;
}
