/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Aborts with the function's name for functions that are declared but not implemented. The
 * definitions ignore their arguments, so they need not repeat the prototypes, and CUDA's headers
 * are not included here.
 */
_Noreturn void fc_unimplemented(const char *name);

#define UNIMPLEMENTED(name)                                                                        \
	__attribute__((visibility("default"))) void name(void);                                    \
	void name(void)                                                                            \
	{                                                                                          \
		fc_unimplemented(#name);                                                           \
	}
#include "backends/fakecuda/unimplemented.def"
