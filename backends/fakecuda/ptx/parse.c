/* SPDX-License-Identifier: BSD-3-Clause */
/* Tokens, and the directives of a module. parse_body.c has those of a function. */
#include "backends/fakecuda/ptx/parse_internal.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/macros.h"

/* ---- tokens --------------------------------------------------------------------------------- */

bool parse_fail(struct ptx_parser *p, const char *fmt, ...)
{
	char *error = p->module->error;
	int n = snprintf(error, PTX_ERROR_BYTES, "line %u: ", p->token.line);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(error + n, PTX_ERROR_BYTES - (size_t)n, fmt, ap);
	va_end(ap);
	return false;
}

bool parse_expected(struct ptx_parser *p, const char *what)
{
	struct ptx_text t = p->token.text;

	if (p->token.kind == PTX_END)
		return parse_fail(p, "the text ends; expected %s", what);
	return parse_fail(p, "found '%.*s'; expected %s", (int)MIN_OF(t.bytes, 60u), t.at, what);
}

void parse_advance(struct ptx_parser *p)
{
	p->token = ptx_scan_next(&p->scan);
}

bool parse_is(const struct ptx_parser *p, const char *text)
{
	return (p->token.kind == PTX_WORD || p->token.kind == PTX_SIGN) &&
	       ptx_text_is(p->token.text, text);
}

bool parse_take(struct ptx_parser *p, const char *text)
{
	bool is = parse_is(p, text);

	if (is)
		parse_advance(p);
	return is;
}

bool parse_need(struct ptx_parser *p, const char *text)
{
	return parse_take(p, text) || parse_expected(p, text);
}

bool parse_name(struct ptx_parser *p, struct ptx_text *name)
{
	if (p->token.kind != PTX_WORD || *p->token.text.at == '.')
		return parse_expected(p, "a name");
	*name = p->token.text;
	parse_advance(p);
	return true;
}

bool parse_number(struct ptx_parser *p, uint64_t *value)
{
	char kind;

	return parse_value(p, value, &kind) &&
	       (kind == 'i' || parse_fail(p, "a number with a fraction; expected an integer"));
}

/* The room doubles: it is full if the count is a power of two. */
void *parse_add(void **array, uint32_t *count, size_t bytes)
{
	if (!(*count & (*count - 1))) {
		*array = realloc(*array, (*count ? *count * 2u : 1u) * bytes);
		ASSERT(*array);
	}
	void *item = (char *)*array + *count * bytes;

	memset(item, 0, bytes);
	(*count)++;
	return item;
}

/* ---- functions ------------------------------------------------------------------------------ */

/* (.param .b32 a, .param .b32 b). Offsets follow each other, as in a launch's parameters. */
static bool parse_params(struct ptx_parser *p, struct ptx_variable **param, uint32_t *params,
			 uint32_t *total)
{
	*total = 0;
	if (!parse_need(p, "("))
		return false;
	while (!parse_take(p, ")")) {
		enum ptx_space space;
		if (*params && !parse_need(p, ","))
			return false;
		struct ptx_variable *v = PARSE_ADD(*param, *params);
		if (parse_take(p, ".reg"))
			return parse_fail(p, "a parameter in a register; expected .param");
		if (!parse_space(p, &space) || !parse_declare(p, space, v))
			return false;
		if (*params > PTX_OPERANDS_MOST || v->bytes > PTX_FRAME_MOST)
			return parse_fail(p, "too many parameters, or one that is too large");
		v->at = ALIGN_UP(*total, v->align);
		*total = (uint32_t)(v->at + v->bytes);
	}
	return true;
}

/* .maxntid 256, 1, 1 and others, which are hints. */
static bool parse_hints(struct ptx_parser *p)
{
	while (p->token.kind == PTX_WORD && *p->token.text.at == '.') {
		parse_advance(p);
		while (p->token.kind == PTX_NUMBER || p->token.kind == PTX_STRING ||
		       parse_is(p, ","))
			parse_advance(p);
	}
	return true;
}

static bool parse_func(struct ptx_parser *p, bool entry, bool external, enum ptx_linkage linkage)
{
	uint32_t bytes;

	if (p->module->funcs >= PTX_FUNCS_MOST)
		return parse_fail(p, "more than %d functions", PTX_FUNCS_MOST);
	struct ptx_func *f = PARSE_ADD(p->module->func, p->module->funcs);

	f->entry = entry;
	f->linkage = linkage;
	f->text = p->module->texts;
	f->line = p->token.line;
	if (parse_is(p, "(") && !parse_params(p, &f->result, &f->results, &bytes))
		return false;
	if (!parse_name(p, &f->name))
		return false;
	if (parse_is(p, "(") && !parse_params(p, &f->param, &f->params, &f->param_bytes))
		return false;
	if (!parse_hints(p))
		return false;
	f->external = parse_take(p, ";");
	if (f->external)
		return true;
	if (external)
		return parse_expected(p, "; after an external function");
	p->func = f;
	bool ok = parse_need(p, "{") && parse_body(p);
	p->func = NULL;
	return ok;
}

/* ---- the module ----------------------------------------------------------------------------- */

static bool parse_file(struct ptx_parser *p)
{
	struct ptx_file *f = PARSE_ADD(p->module->file, p->module->files);
	uint64_t number;

	if (!parse_number(p, &number))
		return false;
	if (p->token.kind != PTX_STRING)
		return parse_expected(p, "the name of a file");
	*f = (struct ptx_file){
		.text = p->module->texts, .number = (uint32_t)number, .name = p->token.text};
	parse_advance(p);
	while (parse_take(p, ",")) /* time and size */
		parse_advance(p);
	return true;
}

/* Debug sections have nothing that the translation needs. */
static bool parse_section(struct ptx_parser *p)
{
	while (p->token.kind != PTX_END && !parse_is(p, "{"))
		parse_advance(p);
	while (p->token.kind != PTX_END && !parse_is(p, "}"))
		parse_advance(p);
	return parse_need(p, "}");
}

/* sm_90, sm_100f */
static bool parse_target(struct ptx_parser *p)
{
	struct ptx_text name;
	uint32_t number = 0;

	if (!parse_name(p, &name))
		return false;
	for (uint32_t i = 0; i < name.bytes && number < 10000; i++) {
		if (isdigit((unsigned char)name.at[i]))
			number = number * 10 + (uint32_t)(name.at[i] - '0');
	}
	if (number >= p->module->target_number) {
		p->module->target = name;
		p->module->target_number = number;
	}
	while (parse_take(p, ","))
		parse_advance(p);
	return true;
}

static bool parse_pragma(struct ptx_parser *p)
{
	parse_advance(p);
	return parse_need(p, ";");
}

static bool parse_defined(struct ptx_parser *p)
{
	bool external = false;
	enum ptx_linkage linkage = PTX_INTERNAL;
	enum ptx_space space;

	for (;;) {
		if (parse_take(p, ".extern"))
			external = true;
		else if (parse_take(p, ".visible"))
			linkage = PTX_VISIBLE;
		else if (parse_take(p, ".weak") || parse_take(p, ".common"))
			linkage = PTX_WEAK_NAME;
		else
			break;
	}
	if (parse_take(p, ".entry"))
		return parse_func(p, true, external, linkage);
	if (parse_take(p, ".func"))
		return parse_func(p, false, external, linkage);
	return parse_space(p, &space) && parse_variable(p, space, external, linkage);
}

static bool parse_directive(struct ptx_parser *p)
{
	uint64_t number;

	if (parse_take(p, ".file"))
		return parse_file(p);
	if (parse_take(p, ".section"))
		return parse_section(p);
	if (parse_take(p, ".target"))
		return parse_target(p);
	if (parse_take(p, ".pragma"))
		return parse_pragma(p);
	if (parse_take(p, ".address_size"))
		return parse_number(p, &number) &&
		       (number == 64 || parse_fail(p, "addresses of %llu bits; expected 64",
						   (unsigned long long)number));
	return parse_defined(p);
}

bool ptx_parse(struct ptx_module *m, const char *text, size_t bytes)
{
	*m = (struct ptx_module){0};
	return ptx_parse_more(m, text, bytes);
}

bool ptx_parse_more(struct ptx_module *m, const char *text, size_t bytes)
{
	struct ptx_parser p = {.module = m};
	char error[PTX_ERROR_BYTES];

	ptx_scan_begin(&p.scan, text, bytes);
	parse_advance(&p);
	bool ok = parse_need(&p, ".version");
	if (ok)
		parse_advance(&p);
	while (ok && p.token.kind != PTX_END)
		ok = parse_directive(&p);
	m->texts++;
	if (ok)
		return true;
	memcpy(error, m->error, sizeof error);
	ptx_module_free(m);
	memcpy(m->error, error, sizeof error);
	return false;
}
