/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by nvcc.c, which has what an option does, and nvcc_options.c, which has their table. */
#ifndef SIM_CLI_CC_NVCC_INTERNAL_H
#define SIM_CLI_CC_NVCC_INTERNAL_H

#include "sim/cli/cc/cc.h"

struct nvcc {
	struct cc c;
	struct cc_words made; /* words that are freed at the end */
	int arch;             /* number of the architecture; 0: none yet */
	bool language;        /* -x was given: files are of this kind */
	enum cc_kind kind;
};

/* Reads the option at argv[0]. Returns how many words it has; 0: an error, which is printed. */
int nvcc_option(struct nvcc *n, int argc, char **argv);
void nvcc_print_options(void);

/* Performs an option. False: the value is wrong, which is printed. */
typedef bool nvcc_action(struct nvcc *n, const char *value);
nvcc_action nvcc_compile, nvcc_device_c, nvcc_device_w, nvcc_device_link, nvcc_ptx, nvcc_preprocess,
	nvcc_depends, nvcc_relocatable, nvcc_output, nvcc_gencode, nvcc_ignore, nvcc_compiler,
	nvcc_linker, nvcc_debug, nvcc_optimize, nvcc_standard, nvcc_language, nvcc_flush,
	nvcc_contract, nvcc_show, nvcc_shared, nvcc_stream;
/* Options of clang, too. */
typedef bool nvcc_pass(struct nvcc *n, const char *name, const char *value);
nvcc_pass nvcc_both, nvcc_to_host, nvcc_to_depend, nvcc_to_linker;

#endif
