/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is declared and not there yet fails loudly, with its name. Their arguments are never looked
 * at, so the definitions need not repeat the prototypes; CUDA's headers are not included here.
 */
_Noreturn void fc_unimplemented(const char *name);

#define UNIMPLEMENTED(name)                                                                        \
	__attribute__((visibility("default"))) void name(void);                                    \
	void name(void)                                                                            \
	{                                                                                          \
		fc_unimplemented(#name);                                                           \
	}
#include "backends/fakecuda/unimplemented.def"
