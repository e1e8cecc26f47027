/* SPDX-License-Identifier: BSD-3-Clause */
/* A unit of C: a kernel and the functions that it can reach. */
#include "backends/fakecuda/ptx/emit_internal.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>

#include "core/base/macros.h"

/* The text of lane.h, with a NUL. */
extern const char ptx_lane_header[];
__asm__(".section .rodata\n"
	".global ptx_lane_header\n"
	".hidden ptx_lane_header\n"
	"ptx_lane_header: .incbin \"" DOPPEL_SOURCE_DIR "/backends/fakecuda/ptx/lane.h\"\n"
	".byte 0\n"
	".previous\n");

/* ---- text and errors ------------------------------------------------------------------------ */

void emit_text(struct ptx_emit *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(e->out, fmt, ap);
	va_end(ap);
}

void emit_fail(struct ptx_emit *e, const char *fmt, ...)
{
	va_list ap;

	if (*e->error)
		return;
	int n = snprintf(e->error, PTX_ERROR_BYTES, "line %u: ", e->stmt->line);
	va_start(ap, fmt);
	vsnprintf(e->error + n, PTX_ERROR_BYTES - (size_t)n, fmt, ap);
	va_end(ap);
}

void emit_unknown(struct ptx_emit *e)
{
	struct ptx_text t = e->stmt->opcode;

	emit_fail(e, "opcode %.*s is not implemented", (int)MIN_OF(t.bytes, 120u), t.at);
}

bool emit_has(struct ptx_emit *e, uint32_t operands)
{
	struct ptx_text t = e->stmt->opcode;

	if (e->stmt->operands < operands)
		emit_fail(e, "%.*s has %u operands; expected %u", (int)MIN_OF(t.bytes, 80u), t.at,
			  e->stmt->operands, operands);
	return e->stmt->operands >= operands;
}

const struct ptx_operand *emit_operand(const struct ptx_emit *e, uint32_t i)
{
	ASSERT(i < e->stmt->operands); /* emit_has was called */
	return &e->stmt->operand[i];
}

/* ---- names of functions --------------------------------------------------------------------- */

/* Reads the lengths and names of the C++ ABI's encoding: _ZN2ab3cdeEi is ab_cde. */
void ptx_plain_name(struct ptx_text name, char *out, size_t bytes)
{
	const char *at = name.at, *end = name.at + name.bytes;
	bool nested = name.bytes > 3 && memcmp(at, "_ZN", 3) == 0;
	size_t n = 0;

	at += nested ? 3 : name.bytes > 2 && memcmp(at, "_Z", 2) == 0 ? 2 : 0;
	while (at > name.at && at < end && isdigit((unsigned char)*at)) {
		size_t length = 0;
		while (at < end && isdigit((unsigned char)*at) && length < name.bytes)
			length = length * 10 + (size_t)(*at++ - '0');
		length = MIN_OF(length, (size_t)(end - at));
		if (n && n < bytes - 1)
			out[n++] = '_';
		for (size_t i = 0; i < length && n < bytes - 1; i++)
			out[n++] = at[i];
		at += length;
		if (!nested)
			break;
	}
	if (!n)
		n = (size_t)snprintf(out, bytes, "%.*s", (int)name.bytes, name.at);
	out[MIN_OF(n, bytes - 1)] = '\0';
	for (char *c = out; *c; c++)
		*c = isalnum((unsigned char)*c) ? *c : '_';
}

/* Overloads and instances of one template have the same name: those after the first one of the
 * module get their number. */
void emit_function_name(struct ptx_emit *e, const struct ptx_func *f)
{
	char name[128], other[128];

	ptx_plain_name(f->name, name, sizeof name);
	emit_text(e, "%s", name);
	for (const struct ptx_func *g = e->module->func; g < f; g++) {
		ptx_plain_name(g->name, other, sizeof other);
		if (strcmp(name, other) == 0) {
			emit_text(e, "_%u", (unsigned)(f - e->module->func));
			return;
		}
	}
}

static void unit_prototype(struct ptx_emit *e, const struct ptx_func *f)
{
	emit_text(e, "static __attribute__((noinline)) void ");
	emit_function_name(e, f);
	emit_text(e, "(struct ptx_lane *lane");
	for (uint32_t i = 0; i < f->results + (f->entry ? 0 : f->params); i++) {
		emit_text(e, ", uint8_t *");
		emit_name(e, i < f->results ? f->result[i].name : f->param[i - f->results].name);
	}
	emit_text(e, ")");
}

/* ---- statements ----------------------------------------------------------------------------- */

static void unit_registers(struct ptx_emit *e)
{
	for (uint32_t i = 0; i < e->stmt->count; i++) {
		const struct ptx_register *r = &e->func->reg[e->stmt->index + i];
		if (!r->count) {
			emit_text(e, "\t%s ", r->type->c);
			emit_name(e, r->name);
			emit_text(e, " = 0;\n");
			continue;
		}
		for (uint32_t k = 0; k < r->count; k++) {
			emit_text(e, k % 8 ? ", " : k ? ";\n\t%s " : "\t%s ", r->type->c);
			emit_name(e, r->name);
			emit_text(e, "%u = 0", k);
		}
		emit_text(e, ";\n");
	}
}

/* `#line` and the lane's place, which reports print. */
static void unit_place(struct ptx_emit *e)
{
	const struct ptx_module *m = e->module;

	for (uint32_t i = 0; i < m->files; i++) {
		if (m->file[i].number != e->stmt->file || m->file[i].text != e->func->text ||
		    !e->stmt->source_line)
			continue;
		emit_text(e, "#line %u \"", e->stmt->source_line);
		for (uint32_t k = 0; k < m->file[i].name.bytes; k++) {
			char c = m->file[i].name.at[k];
			emit_text(e, "%c", c == '"' || c == '\\' || !isprint(c) ? '_' : c);
		}
		emit_text(e, "\"\n\tlane->line = %u; lane->file = __FILE__;\n",
			  e->stmt->source_line);
		return;
	}
}

static void unit_instruction(struct ptx_emit *e, uint32_t place)
{
	if (place)
		emit_text(e, "#line %u\n", place);
	emit_text(e, "\t");
	if (e->stmt->guard.text.bytes) {
		emit_text(e, "if (");
		emit_read(e, &e->stmt->guard, ptx_type_named("pred"));
		emit_text(e, ") ");
	}
	emit_code(e);
	emit_text(e, "\n");
}

static void unit_statement(struct ptx_emit *e, uint32_t *place)
{
	const struct ptx_stmt *s = e->stmt;

	switch (s->kind) {
	case PTX_ST_CODE:
		unit_instruction(e, *place);
		break;
	case PTX_ST_LABEL:
		emit_label(e, s);
		emit_text(e, ":;\n");
		break;
	case PTX_ST_OPEN:
	case PTX_ST_CLOSE:
		emit_text(e, s->kind == PTX_ST_OPEN ? "\t{\n" : "\t}\n");
		break;
	case PTX_ST_VARIABLE:
		emit_text(e, "\tuint8_t *const ");
		emit_name(e, e->func->local[s->index].name);
		emit_text(e, " = frame + %u;\n", (unsigned)e->func->local[s->index].at);
		break;
	case PTX_ST_REGISTERS:
		unit_registers(e);
		break;
	case PTX_ST_PLACE:
		unit_place(e);
		*place = s->source_line;
		break;
	case PTX_ST_PROTOTYPE:
		break;
	}
}

static void unit_function(struct ptx_emit *e, const struct ptx_func *f)
{
	uint32_t place = 0;

	e->func = f;
	unit_prototype(e, f);
	emit_text(e, "\n{\n\tuint8_t *const frame = ptx_frame(lane, %u);\n", f->frame_bytes);
	for (uint32_t i = 0; i < f->stmts && !*e->error; i++) {
		e->stmt = &f->stmt[i];
		unit_statement(e, &place);
	}
	emit_text(e, "}\n\n");
}

/* ---- reach ---------------------------------------------------------------------------------- */

static void unit_want(struct ptx_emit *e, const struct ptx_func *f);

/* Gives a variable of shared memory its place, once. */
static void unit_share(struct ptx_emit *e, struct ptx_text name, uint32_t text)
{
	const struct ptx_variable *v = ptx_variable_find(e->module, name, text);
	uint32_t *at = v ? &e->shared_at[v - e->module->variable] : NULL;

	if (!v || v->space != PTX_SHARED || !v->bytes || v->external || *at != UINT32_MAX)
		return;
	*at = ALIGN_UP(e->shared_bytes, v->align);
	e->shared_bytes = MIN_OF(*at + (uint32_t)v->bytes, (uint32_t)PTX_VARIABLE_MOST);
}

static void unit_want_operand(struct ptx_emit *e, const struct ptx_operand *o, uint32_t text)
{
	const struct ptx_func *f = NULL;

	if (o->kind == PTX_OP_SYMBOL) {
		f = ptx_func_find(e->module, o->text, text);
		unit_share(e, o->text, text);
	}
	if (f)
		unit_want(e, f);
	for (uint32_t i = 0; i < o->parts; i++)
		unit_want_operand(e, &o->part[i], text);
}

static void unit_want(struct ptx_emit *e, const struct ptx_func *f)
{
	bool *wanted = &e->wanted[f - e->module->func];

	if (*wanted || f->external)
		return;
	*wanted = true;
	for (uint32_t i = 0; i < f->stmts; i++) {
		const struct ptx_stmt *s = &f->stmt[i];
		for (uint32_t k = 0; k < s->operands; k++)
			unit_want_operand(e, &s->operand[k], f->text);
		if (!ptx_stmt_indirect(s) || e->indirect)
			continue;
		e->indirect = true;
		for (uint32_t k = 0; k < e->module->funcs; k++) {
			if (!e->module->func[k].entry)
				unit_want(e, &e->module->func[k]);
		}
	}
}

/* The number of a function is its place in the module and 1. */
static void unit_callees(struct ptx_emit *e)
{
	const struct ptx_module *m = e->module;

	emit_text(e, "static const struct { void *code; uint32_t params; } ptx_callees[] = {\n");
	for (uint32_t i = 0; i < m->funcs; i++) {
		if (!e->wanted[i] || m->func[i].entry)
			continue;
		emit_text(e, "\t[%u] = {(void *)", i + 1);
		emit_function_name(e, &m->func[i]);
		emit_text(e, ", %u},\n", m->func[i].params + m->func[i].results);
	}
	emit_text(e,
		  "\t[%u] = {0, 0}};\n"
		  "static void *ptx_callee(struct ptx_lane *lane, uint64_t n, uint32_t params)\n"
		  "{\n\tif (n > %u || !ptx_callees[n].code || ptx_callees[n].params != params)\n"
		  "\t\tptx_trap(lane, \"a call of a number that is no such function\");\n"
		  "\treturn ptx_callees[n].code;\n}\n\n",
		  m->funcs + 1, m->funcs);
}

/* ---- the unit ------------------------------------------------------------------------------- */

/* Variables whose size the launch sets begin after all others. */
static void unit_share_rest(struct ptx_emit *e)
{
	const struct ptx_module *m = e->module;
	uint32_t align = 16;

	for (uint32_t i = 0; i < m->variables; i++)
		align = !m->variable[i].bytes ? MAX_OF(align, m->variable[i].align) : align;
	e->shared_bytes = ALIGN_UP(e->shared_bytes, align);
	for (uint32_t i = 0; i < m->variables; i++) {
		if (e->shared_at[i] == UINT32_MAX)
			e->shared_at[i] = e->shared_bytes;
	}
}

static void unit_write(struct ptx_emit *e)
{
	const struct ptx_module *m = e->module;

	unit_want(e, e->entry);
	unit_share_rest(e);
	fputs(ptx_lane_header, e->out);
	for (uint32_t i = 0; i < m->funcs; i++) {
		if (e->wanted[i]) {
			unit_prototype(e, &m->func[i]);
			emit_text(e, ";\n");
		}
	}
	emit_text(e, "\n");
	if (e->indirect)
		unit_callees(e);
	emit_text(e,
		  "PTX_API const uint32_t " PTX_SHARED_NAME ";\n"
		  "const uint32_t " PTX_SHARED_NAME " = %u;\n",
		  e->shared_bytes);
	emit_text(e, "PTX_API void " PTX_ENTRY_NAME "(struct ptx_lane *lane);\n"
		     "void " PTX_ENTRY_NAME "(struct ptx_lane *lane)\n{\n\t");
	emit_function_name(e, e->entry);
	emit_text(e, "(lane);\n}\n\n");
	for (uint32_t i = 0; i < m->funcs && !*e->error; i++) {
		if (e->wanted[i])
			unit_function(e, &m->func[i]);
	}
}

static struct ptx_emit unit_begin(const struct ptx_module *m, const struct ptx_func *entry,
				  char *error)
{
	struct ptx_emit e = {.module = m, .entry = entry, .error = error};

	*error = '\0';
	e.wanted = calloc(m->funcs, sizeof *e.wanted);
	e.shared_at = malloc(m->variables * sizeof *e.shared_at + 1);
	ASSERT(e.wanted && e.shared_at && entry && !entry->external);
	memset(e.shared_at, 0xff, m->variables * sizeof *e.shared_at);
	return e;
}

static void unit_end(struct ptx_emit *e)
{
	free(e->wanted);
	free(e->shared_at);
}

uint32_t ptx_shared_bytes(const struct ptx_module *m, const struct ptx_func *entry)
{
	char error[PTX_ERROR_BYTES];
	struct ptx_emit e = unit_begin(m, entry, error);

	unit_want(&e, entry);
	unit_share_rest(&e);
	unit_end(&e);
	return e.shared_bytes;
}

char *ptx_emit(const struct ptx_module *m, const struct ptx_func *entry,
	       char error[PTX_ERROR_BYTES])
{
	struct ptx_emit e = unit_begin(m, entry, error);
	char *text = NULL;
	size_t bytes = 0;

	e.out = open_memstream(&text, &bytes);
	ASSERT(e.out);
	unit_write(&e);
	bool written = fclose(e.out) == 0;
	ASSERT(written);
	unit_end(&e);
	if (!*error)
		return text;
	free(text);
	return NULL;
}
