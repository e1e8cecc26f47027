/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the emitter. */
#ifndef BACKENDS_FAKECUDA_PTX_EMIT_INTERNAL_H
#define BACKENDS_FAKECUDA_PTX_EMIT_INTERNAL_H

#include <stdio.h>

#include "backends/fakecuda/ptx/emit.h"

enum { PTX_PARTS_MOST = 16 };

struct ptx_emit {
	FILE *out;
	const struct ptx_module *module;
	const struct ptx_func *func;
	const struct ptx_stmt *stmt;
	uint32_t index; /* of the statement */
	/* the opcode, split at its dots */
	struct ptx_text part[PTX_PARTS_MOST];
	uint32_t parts;
	const struct ptx_type *type[3]; /* those of the opcode */
	uint32_t types;
	bool *wanted;  /* for each function of the module: it is in the unit */
	bool indirect; /* the unit has a call through a register */
	const struct ptx_func *entry;
	/* for each variable of the module: its offset in shared memory; UINT32_MAX: not used */
	uint32_t *shared_at;
	uint32_t shared_bytes;
	char *error; /* empty: none so far */
};

/* Keeps the first error. */
void emit_fail(struct ptx_emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void emit_unknown(struct ptx_emit *e); /* names the opcode and its line */
void emit_text(struct ptx_emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* True if operand i exists; otherwise an error. */
bool emit_has(struct ptx_emit *e, uint32_t operands);
const struct ptx_operand *emit_operand(const struct ptx_emit *e, uint32_t i);

/* emit_value.c */
void emit_name(struct ptx_emit *e, struct ptx_text name); /* as a name in C */
void emit_label(struct ptx_emit *e, const struct ptx_stmt *label);
void emit_function_name(struct ptx_emit *e, const struct ptx_func *f);
/* Writes an expression of the type's C type. */
void emit_read(struct ptx_emit *e, const struct ptx_operand *o, const struct ptx_type *type);
/* Writes `register = EXPRESSION;` around what is written between the two calls. The expression has
 * the type's C type, or a wider one. */
void emit_assign(struct ptx_emit *e, const struct ptx_operand *o, const struct ptx_type *type);
void emit_assigned(struct ptx_emit *e, const struct ptx_operand *o, const struct ptx_type *type);
void emit_address(struct ptx_emit *e, const struct ptx_operand *o);
const char *emit_c_type(const struct ptx_type *t); /* in which it is computed */

/* ops.c: writes the statement of an instruction */
void emit_code(struct ptx_emit *e);
/* True if the opcode has this part. */
bool emit_part(const struct ptx_emit *e, const char *word);

/* Instructions that need more than an expression. */
void emit_load(struct ptx_emit *e); /* emit_memory.c */
void emit_store(struct ptx_emit *e);
void emit_atom(struct ptx_emit *e);
void emit_fence(struct ptx_emit *e);
void emit_cvta(struct ptx_emit *e);
void emit_isspacep(struct ptx_emit *e);
void emit_mov(struct ptx_emit *e); /* emit_convert.c */
void emit_cvt(struct ptx_emit *e);
void emit_setp(struct ptx_emit *e);
void emit_set(struct ptx_emit *e);
void emit_bra(struct ptx_emit *e); /* emit_flow.c */
void emit_call(struct ptx_emit *e);
void emit_ret(struct ptx_emit *e);
void emit_exit(struct ptx_emit *e);
void emit_trap(struct ptx_emit *e);
void emit_nothing(struct ptx_emit *e);
void emit_absent(struct ptx_emit *e);
void emit_bar(struct ptx_emit *e); /* emit_warp.c */
void emit_bar_red(struct ptx_emit *e);
void emit_shfl(struct ptx_emit *e);
void emit_vote(struct ptx_emit *e);
void emit_match(struct ptx_emit *e);
void emit_redux(struct ptx_emit *e);
void emit_nanosleep(struct ptx_emit *e);
void emit_warp_sync(struct ptx_emit *e);

#endif
