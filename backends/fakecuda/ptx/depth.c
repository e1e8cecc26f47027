/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stack of a lane: the deepest chain of calls from a kernel. The compiler gives each register of a
 * long text a place on the stack, because such a text is not optimized. Recursion counts once.
 */
#include <stdlib.h>

#include "backends/fakecuda/ptx/emit.h"
#include "core/base/macros.h"

enum {
	DEPTH_REGISTER_BYTES = 16, /* 10 were measured, with what an instruction keeps */
	DEPTH_FUNCTION_BYTES = 512,
};

struct depth {
	const struct ptx_module *module;
	uint64_t *bytes; /* of each function and its callees; 0: not known yet */
};

static uint64_t depth_func(struct depth *d, const struct ptx_func *f);

/* Any function of the module may be the callee of a call through a register. */
static uint64_t depth_indirect(struct depth *d)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < d->module->funcs; i++) {
		if (!d->module->func[i].entry)
			most = MAX_OF(most, depth_func(d, &d->module->func[i]));
	}
	return most;
}

static uint64_t depth_stmt(struct depth *d, const struct ptx_stmt *s, uint32_t text)
{
	uint64_t most = ptx_stmt_indirect(s) ? depth_indirect(d) : 0;

	for (uint32_t i = 0; i < s->operands; i++) {
		const struct ptx_operand *o = &s->operand[i];
		const struct ptx_func *f =
			o->kind == PTX_OP_SYMBOL ? ptx_func_find(d->module, o->text, text) : NULL;
		if (f)
			most = MAX_OF(most, depth_func(d, f));
	}
	return most;
}

static uint64_t depth_func(struct depth *d, const struct ptx_func *f)
{
	uint64_t *bytes = &d->bytes[f - d->module->func], most = 0;

	if (*bytes)
		return *bytes;
	*bytes = DEPTH_FUNCTION_BYTES;
	for (uint32_t i = 0; i < f->regs; i++)
		*bytes += (uint64_t)MAX_OF(f->reg[i].count, 1u) * DEPTH_REGISTER_BYTES;
	for (uint32_t i = 0; i < f->stmts; i++) {
		if (f->stmt[i].kind == PTX_ST_CODE)
			most = MAX_OF(most, depth_stmt(d, &f->stmt[i], f->text));
	}
	*bytes += most;
	return *bytes;
}

uint64_t ptx_stack_bytes(const struct ptx_module *m, const struct ptx_func *entry)
{
	struct depth d = {m, calloc(m->funcs, sizeof *d.bytes)};

	ASSERT(d.bytes);
	uint64_t bytes = depth_func(&d, entry);
	free(d.bytes);
	return bytes;
}
