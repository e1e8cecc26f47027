/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes C for a kernel of a module and for all functions that it can call. The C is the PTX,
 * statement by statement: a register is a variable of the same name, a label is a label, and `.loc`
 * becomes `#line`. ops.c has a row for each opcode.
 */
#ifndef BACKENDS_FAKECUDA_PTX_EMIT_H
#define BACKENDS_FAKECUDA_PTX_EMIT_H

#include "backends/fakecuda/ptx/model.h"

#define PTX_SHARED_NAME "ptx_static_shared" /* uint32_t: bytes before those of the launch */
#define PTX_ENTRY_NAME  "ptx_entry"         /* void ptx_entry(struct ptx_lane *) in each unit */

/* Returns the C text, which the caller frees. NULL: `error` names the opcode or the symbol that is
 * not implemented, with its line. */
char *ptx_emit(const struct ptx_module *m, const struct ptx_func *entry,
	       char error[PTX_ERROR_BYTES]);
/* Bytes of shared memory of the kernel and all functions that it can reach. */
uint32_t ptx_shared_bytes(const struct ptx_module *m, const struct ptx_func *entry);
/* Bytes of stack that a lane of the kernel needs at most, without those of the double. */
uint64_t ptx_stack_bytes(const struct ptx_module *m, const struct ptx_func *entry);
/* The name of the source: vadd for _Z4vaddPKfS0_Pfi. */
void ptx_plain_name(struct ptx_text name, char *out, size_t bytes);

#endif
