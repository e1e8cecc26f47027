/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PTX texts as data: the variables and functions of a module. The parser (parse.h) makes it, and
 * emit.c reads it. Names point into the texts, which must live as long as the model. A module has
 * several texts if they were linked: names that one of them declares are found in another.
 *
 *    ptx_module   variables of the module, functions
 *    ptx_func     parameters, registers, statements in their order
 *    ptx_stmt     an instruction, a label, a brace, a variable, a place in the source
 *    ptx_operand  register, number, symbol, address, vector
 */
#ifndef BACKENDS_FAKECUDA_PTX_MODEL_H
#define BACKENDS_FAKECUDA_PTX_MODEL_H

#include <string.h>

#include "backends/fakecuda/ptx/lane.h"
#include "backends/fakecuda/ptx/scan.h"

/* Most items of a kind, so that a hostile text is refused before it takes much memory. */
enum {
	PTX_FRAME_MOST = 512 << 10, /* local memory of a thread, as the programming guide has it */
	PTX_VARIABLE_MOST = 1 << 30,
	PTX_NESTING_MOST = 32,
	PTX_OPERANDS_MOST = 64,
	PTX_FUNCS_MOST = 16384,
	PTX_ERROR_BYTES = 256,
};

/* The texts that see a name. One of several weak definitions counts. */
enum ptx_linkage { PTX_INTERNAL, PTX_WEAK_NAME, PTX_VISIBLE };

/* A row of ptx_types: suffix of opcodes, kind (p, b, u, s, f, h, g), bits, type in C. */
struct ptx_type {
	const char *name;
	char kind; /* pred, bits, unsigned, signed, float, half, brain float */
	uint8_t bits;
	const char *c;
};
extern const struct ptx_type ptx_types[];
const struct ptx_type *ptx_type_find(struct ptx_text name); /* "s32"; NULL: not a type */
const struct ptx_type *ptx_type_named(const char *name);

struct ptx_pointer { /* in the initial bytes of a variable: the address of a symbol */
	uint64_t at, offset;
	struct ptx_text symbol;
};

struct ptx_variable {
	struct ptx_text name;
	enum ptx_space space;
	const struct ptx_type *type;
	uint32_t align, line;
	uint32_t stmt;  /* a local: number of statements of the function before it */
	uint64_t bytes; /* 0: dynamic shared memory, or external */
	uint64_t at;    /* offset in the frame, in shared memory; number among the globals */
	uint8_t *init;  /* NULL: zeroes */
	bool external;  /* declared only */
	enum ptx_linkage linkage;
	uint32_t text; /* number of the text that it is in */
	struct ptx_pointer *pointers;
	uint32_t pointer_count;
};

/* A register, or a family of them: %r<10> is %r0 to %r9. */
struct ptx_register {
	struct ptx_text name;
	const struct ptx_type *type;
	uint32_t count; /* 0: not a family */
	uint32_t scope; /* block that declares it */
	bool ended;     /* while parsing: the block has ended */
};

enum ptx_operand_kind {
	PTX_OP_REGISTER,
	PTX_OP_NUMBER,
	PTX_OP_SYMBOL,  /* variable, function, label, special register */
	PTX_OP_ADDRESS, /* [first part + number] */
	PTX_OP_VECTOR,  /* {a, b}, or the (a, b) of a call */
	PTX_OP_PAIR,    /* d|p: two parts */
	PTX_OP_SINK,    /* _ */
};

struct ptx_operand {
	enum ptx_operand_kind kind;
	struct ptx_text text;        /* of a register, a symbol or a number */
	const struct ptx_type *type; /* of a register */
	char number_kind;            /* 'i'nteger, or the 'f' or 'd' of a float */
	bool negated;                /* !p; or a minus */
	uint64_t number;             /* of a number; offset of an address */
	struct ptx_operand *part;
	uint32_t parts;
};

enum ptx_stmt_kind {
	PTX_ST_CODE,
	PTX_ST_LABEL,
	PTX_ST_OPEN, /* { */
	PTX_ST_CLOSE,
	PTX_ST_VARIABLE,  /* .param or .local of the function: in its frame */
	PTX_ST_REGISTERS, /* of a block */
	PTX_ST_PLACE,     /* .loc */
	PTX_ST_PROTOTYPE, /* of an indirect call */
};

struct ptx_stmt {
	enum ptx_stmt_kind kind;
	uint32_t line;  /* of the PTX text */
	uint32_t scope; /* number of the block that it is in; 0: the function */
	struct ptx_text opcode, label;
	struct ptx_operand guard; /* text.bytes 0: none */
	struct ptx_operand *operand;
	uint32_t operands;
	uint32_t file, source_line; /* .loc */
	uint32_t index;             /* of the variable, or of the first register */
	uint32_t count;             /* registers */
};

struct ptx_func {
	struct ptx_text name;
	bool entry, external; /* external: declared only */
	enum ptx_linkage linkage;
	uint32_t text, line;
	struct ptx_variable *param, *result;
	uint32_t params, results;
	struct ptx_register *reg;
	uint32_t regs;
	struct ptx_variable *local;
	uint32_t locals;
	uint32_t *scope_parent; /* of each block */
	uint32_t scopes;
	struct ptx_stmt *stmt;
	uint32_t stmts;
	uint32_t frame_bytes, param_bytes;
};

struct ptx_file {
	uint32_t text, number;
	struct ptx_text name;
};

struct ptx_module {
	struct ptx_text target; /* of the newest GPU among the texts */
	uint32_t target_number; /* 90 */
	struct ptx_variable *variable;
	uint32_t variables, globals;
	struct ptx_func *func;
	uint32_t funcs;
	struct ptx_file *file;
	uint32_t files, texts;
	char error[PTX_ERROR_BYTES]; /* "line 12: ..." */
};

/* Finds the definition that a name of text `from` means; a declaration, if no text defines it.
 * NULL: no such name. */
enum { PTX_ANY_TEXT = 0x7fffffff }; /* of the program that loads the module */
struct ptx_func *ptx_func_find(const struct ptx_module *m, struct ptx_text name, uint32_t from);
struct ptx_variable *ptx_variable_find(const struct ptx_module *m, struct ptx_text name,
				       uint32_t from);
/* False: two texts define one name; m->error has it. */
bool ptx_module_check(struct ptx_module *m);
/* Finds a variable of the function: a parameter, a result, a local. If several locals have the
 * name, it is the last one before the statement. */
const struct ptx_variable *ptx_local_find(const struct ptx_func *f, struct ptx_text name,
					  const struct ptx_stmt *before);
const struct ptx_register *ptx_register_find(const struct ptx_func *f, struct ptx_text name);
/* True for a call through a register: any function of the module may be the callee. */
bool ptx_stmt_indirect(const struct ptx_stmt *s);
void ptx_module_free(struct ptx_module *m);
static inline bool ptx_text_same(struct ptx_text a, struct ptx_text b)
{
	return a.bytes == b.bytes && memcmp(a.at, b.at, a.bytes) == 0;
}

#endif
