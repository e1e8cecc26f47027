/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of nvcc's options, and how one is read. */
#include <stdio.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/cli/cc/nvcc_internal.h"

enum nvcc_value {
	NVCC_NONE,
	NVCC_VALUE,  /* the next word, or the text after = */
	NVCC_JOINED, /* the next word, or the rest of this one: -Ifolder, -O3 */
};

struct nvcc_row {
	const char *name, *full; /* full: NULL if it has one name */
	enum nvcc_value value;
	nvcc_action *action;
	nvcc_pass *pass; /* with `as`, or the name */
	const char *as;
};

#define NVCC_DO(name, full, value, action)                                                         \
	{                                                                                          \
		name, full, value, action, NULL, NULL                                              \
	}
#define NVCC_PASS(name, full, value, pass)                                                         \
	{                                                                                          \
		name, full, value, NULL, pass, name                                                \
	}
#define NVCC_HINT(name, full, value) NVCC_DO(name, full, value, nvcc_ignore)

/* Hints are for ptxas, fatbinary, cudafe and nvlink, which are not here, or have no effect on what
 * a program computes. */
static const struct nvcc_row nvcc_rows[] = {
	/* steps */
	NVCC_DO("-c", "--compile", NVCC_NONE, nvcc_compile),
	NVCC_DO("-dc", "--device-c", NVCC_NONE, nvcc_device_c),
	NVCC_DO("-dw", "--device-w", NVCC_NONE, nvcc_device_w),
	NVCC_DO("-dlink", "--device-link", NVCC_NONE, nvcc_device_link),
	NVCC_DO("-ptx", "--ptx", NVCC_NONE, nvcc_ptx),
	NVCC_DO("-fatbin", "--fatbin", NVCC_NONE, nvcc_ptx),
	NVCC_DO("-E", "--preprocess", NVCC_NONE, nvcc_preprocess),
	NVCC_DO("-M", "--generate-dependencies", NVCC_NONE, nvcc_depends),
	NVCC_DO("-MM", "--generate-nonsystem-dependencies", NVCC_NONE, nvcc_depends),
	NVCC_HINT("-link", "--link", NVCC_NONE),
	NVCC_DO("-shared", "--shared", NVCC_NONE, nvcc_shared),
	/* files */
	NVCC_DO("-o", "--output-file", NVCC_JOINED, nvcc_output),
	NVCC_DO("-x", "--x", NVCC_VALUE, nvcc_language),
	NVCC_PASS("-MD", "--generate-dependencies-with-compile", NVCC_NONE, nvcc_to_depend),
	NVCC_PASS("-MMD", "--generate-nonsystem-dependencies-with-compile", NVCC_NONE,
		  nvcc_to_depend),
	NVCC_PASS("-MF", "--dependency-output", NVCC_VALUE, nvcc_to_depend),
	NVCC_PASS("-MT", "--dependency-target-name", NVCC_VALUE, nvcc_to_depend),
	NVCC_PASS("-MP", "--generate-dependency-targets", NVCC_NONE, nvcc_to_depend),
	/* the preprocessor and the language */
	NVCC_PASS("-I", "--include-path", NVCC_JOINED, nvcc_both),
	NVCC_PASS("-isystem", "--system-include", NVCC_VALUE, nvcc_both),
	NVCC_PASS("-include", "--pre-include", NVCC_VALUE, nvcc_both),
	NVCC_PASS("-D", "--define-macro", NVCC_JOINED, nvcc_both),
	NVCC_PASS("-U", "--undefine-macro", NVCC_JOINED, nvcc_both),
	NVCC_PASS("-w", "--disable-warnings", NVCC_NONE, nvcc_both),
	NVCC_DO("-std", "--std", NVCC_VALUE, nvcc_standard),
	NVCC_DO("-rdc", "--relocatable-device-code", NVCC_VALUE, nvcc_relocatable),
	NVCC_DO("-default-stream", "--default-stream", NVCC_VALUE, nvcc_stream),
	NVCC_DO("-ftz", "--ftz", NVCC_VALUE, nvcc_flush),
	NVCC_DO("-use_fast_math", "--use_fast_math", NVCC_NONE, nvcc_flush),
	NVCC_DO("-fmad", "--fmad", NVCC_VALUE, nvcc_contract),
	NVCC_HINT("-prec-div", "--prec-div", NVCC_VALUE),
	NVCC_HINT("-prec-sqrt", "--prec-sqrt", NVCC_VALUE),
	NVCC_HINT("-expt-relaxed-constexpr", "--expt-relaxed-constexpr", NVCC_NONE),
	NVCC_HINT("-expt-extended-lambda", "--expt-extended-lambda", NVCC_NONE),
	NVCC_HINT("-extended-lambda", "--extended-lambda", NVCC_NONE),
	NVCC_HINT("-restrict", "--restrict", NVCC_NONE),
	/* debug information and optimization */
	NVCC_PASS("-g", "--debug", NVCC_NONE, nvcc_to_host),
	NVCC_PASS("-pg", "--profile", NVCC_NONE, nvcc_to_host),
	NVCC_DO("-G", "--device-debug", NVCC_NONE, nvcc_debug),
	NVCC_HINT("-lineinfo", "--generate-line-info", NVCC_NONE), /* kernels have lines */
	NVCC_DO("-O", "--optimize", NVCC_JOINED, nvcc_optimize),
	NVCC_HINT("-Ofast-compile", "--Ofast-compile", NVCC_VALUE),
	NVCC_HINT("-dopt", "--dopt", NVCC_VALUE),
	NVCC_HINT("-dlto", "--dlink-time-opt", NVCC_NONE),
	NVCC_HINT("-maxrregcount", "--maxrregcount", NVCC_VALUE),
	NVCC_HINT("-src-in-ptx", "--source-in-ptx", NVCC_NONE),
	/* architectures */
	NVCC_DO("-gencode", "--generate-code", NVCC_VALUE, nvcc_gencode),
	NVCC_DO("-arch", "--gpu-architecture", NVCC_VALUE, nvcc_gencode),
	NVCC_HINT("-code", "--gpu-code", NVCC_VALUE),
	/* tools */
	NVCC_DO("-Xcompiler", "--compiler-options", NVCC_VALUE, nvcc_compiler),
	NVCC_DO("-Xlinker", "--linker-options", NVCC_VALUE, nvcc_linker),
	NVCC_HINT("-Xptxas", "--ptxas-options", NVCC_VALUE),
	NVCC_HINT("-Xfatbin", "--fatbin-options", NVCC_VALUE),
	NVCC_HINT("-Xnvlink", "--nvlink-options", NVCC_VALUE),
	NVCC_HINT("-Xcudafe", "--cudafe-options", NVCC_VALUE),
	NVCC_HINT("-Xarchive", "--archive-options", NVCC_VALUE),
	NVCC_HINT("-ccbin", "--compiler-bindir", NVCC_VALUE), /* clang compiles host code, too */
	NVCC_HINT("-t", "--threads", NVCC_JOINED),
	NVCC_HINT("-m", "--machine", NVCC_JOINED), /* 64 */
	NVCC_DO("-v", "--verbose", NVCC_NONE, nvcc_show),
	NVCC_HINT("-keep", "--keep", NVCC_NONE),
	NVCC_HINT("-keep-dir", "--keep-dir", NVCC_VALUE),
	NVCC_HINT("-Werror", "--Werror", NVCC_VALUE),
	NVCC_HINT("-Wreorder", "--Wreorder", NVCC_NONE),
	NVCC_HINT("-Wno-deprecated-gpu-targets", "--Wno-deprecated-gpu-targets", NVCC_NONE),
	NVCC_HINT("-diag-suppress", "--diag-suppress", NVCC_VALUE),
	NVCC_HINT("-diag-error", "--diag-error", NVCC_VALUE),
	NVCC_HINT("-diag-warn", "--diag-warn", NVCC_VALUE),
	NVCC_HINT("-res-usage", "--resource-usage", NVCC_NONE),
	/* libraries */
	NVCC_PASS("-l", "--library", NVCC_JOINED, nvcc_to_linker),
	NVCC_PASS("-L", "--library-path", NVCC_JOINED, nvcc_to_linker),
	NVCC_HINT("-cudart", "--cudart", NVCC_VALUE), /* the double is a shared library */
	NVCC_HINT("-cudadevrt", "--cudadevrt", NVCC_VALUE),
};

/* True if the word is this option; *value is the text after it, NULL: none in this word. */
static bool option_is(const struct nvcc_row *row, const char *word, const char **value)
{
	const char *names[] = {row->name, row->full};

	for (size_t i = 0; i < ARRAY_LEN(names) && names[i]; i++) {
		size_t n = strlen(names[i]);
		*value = NULL;
		if (strncmp(word, names[i], n) != 0)
			continue;
		if (!word[n])
			return true;
		*value = word + n + (word[n] == '=' && row->value != NVCC_NONE);
		if (row->value == NVCC_VALUE && word[n] == '=')
			return true;
		if (row->value == NVCC_JOINED && (i == 0 || word[n] == '='))
			return true;
	}
	return false;
}

/* The longest name decides: -lineinfo is not -l, -MD is not -M. */
static const struct nvcc_row *option_find(const char *word, const char **value)
{
	const struct nvcc_row *found = NULL;
	const char *text;

	*value = NULL;
	for (size_t i = 0; i < ARRAY_LEN(nvcc_rows); i++) {
		const struct nvcc_row *row = &nvcc_rows[i];
		if (!option_is(row, word, &text) ||
		    (found && strlen(row->name) < strlen(found->name)))
			continue;
		found = row;
		*value = text;
	}
	return found;
}

int nvcc_option(struct nvcc *n, int argc, char **argv)
{
	const char *value;
	const struct nvcc_row *row = option_find(argv[0], &value);
	int used = 1;

	if (!row) {
		fprintf(stderr, "doppel nvcc: unknown option %s; 'doppel nvcc --help' lists all\n",
			argv[0]);
		return 0;
	}
	if (row->value != NVCC_NONE && !value) {
		if (argc < 2) {
			fprintf(stderr, "doppel nvcc: %s: expected a word after it\n", argv[0]);
			return 0;
		}
		value = argv[1];
		used = 2;
	}
	bool ok = row->action ? row->action(n, value ? value : "") : row->pass(n, row->as, value);
	return ok ? used : 0;
}

void nvcc_print_options(void)
{
	for (size_t i = 0; i < ARRAY_LEN(nvcc_rows); i++) {
		const struct nvcc_row *row = &nvcc_rows[i];
		printf("  %-28s %s%s\n", row->name, row->full,
		       row->action == nvcc_ignore ? " (no effect here)" : "");
	}
}
