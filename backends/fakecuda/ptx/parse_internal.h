/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the parser. A function that returns false has set the error. */
#ifndef BACKENDS_FAKECUDA_PTX_PARSE_INTERNAL_H
#define BACKENDS_FAKECUDA_PTX_PARSE_INTERNAL_H

#include "backends/fakecuda/ptx/parse.h"

struct ptx_parser {
	struct ptx_scan scan;
	struct ptx_token token; /* the next one */
	struct ptx_module *module;
	struct ptx_func *func; /* the function that is being parsed; NULL: none */
	uint32_t scope;
	uint32_t depth;
};

/* parse.c: tokens */
bool parse_fail(struct ptx_parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool parse_expected(struct ptx_parser *p, const char *what);
void parse_advance(struct ptx_parser *p);
bool parse_is(const struct ptx_parser *p, const char *text); /* a word or a sign */
bool parse_take(struct ptx_parser *p, const char *text);     /* true: it was there */
bool parse_need(struct ptx_parser *p, const char *text);
bool parse_name(struct ptx_parser *p, struct ptx_text *name);
bool parse_number(struct ptx_parser *p, uint64_t *value);
/* Adds a zeroed item to an array. */
void *parse_add(void **array, uint32_t *count, size_t bytes);
#define PARSE_ADD(array, count) parse_add((void **)&(array), &(count), sizeof *(array))

/* parse_variable.c */
bool parse_space(struct ptx_parser *p, enum ptx_space *space);
/* Parses what follows the space: alignment, type, name, bounds. */
bool parse_declare(struct ptx_parser *p, enum ptx_space space, struct ptx_variable *v);
bool parse_variable(struct ptx_parser *p, enum ptx_space space, bool external,
		    enum ptx_linkage linkage);
bool parse_init(struct ptx_parser *p, struct ptx_variable *v);

/* parse_operand.c */
bool parse_operand(struct ptx_parser *p, struct ptx_operand *o, uint32_t depth);
/* The value of a number; *kind: i, f or d. */
bool parse_value(struct ptx_parser *p, uint64_t *value, char *kind);

/* parse_body.c */
bool parse_body(struct ptx_parser *p);

#endif
