/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of a scenario's text form share: scenario_text.c (files, lines), scenario_keys.c (the
 * table of keys), scenario_values.c (how values are written). Errors are explained on stderr, with the
 * name of the text, line and column; parsers return 0 or EINVAL.
 */
#ifndef SIM_LAB_SCENARIO_INTERNAL_H
#define SIM_LAB_SCENARIO_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/engine/base/token.h"
#include "sim/lab/scenario.h"

/* What is being read, for messages. */
struct text_cursor {
	struct token_line line; /* the current one */
	const char *end;        /* of it */
};

struct text_key;
typedef int text_parse_fn(const struct text_cursor *c, const struct text_key *k, struct token v,
			  struct scenario *s);
typedef void text_write_fn(const struct text_key *k, const struct scenario *s, FILE *out);

struct text_key {
	const char *name;
	text_write_fn *write;
	text_parse_fn *parse;
	size_t offset, bytes;
	uint64_t min, max;
	const char *const *names; /* of an enum's values */
	bool provenance;          /* of no influence on the run */
};

enum { TEXT_KEYS = 78 };
extern const struct text_key text_keys[TEXT_KEYS];

/* scenario_values.c */
#define text_error(c, at, ...) token_error(&(c)->line, at, __VA_ARGS__)
const char *text_nearest(struct token v, const char *const *names);
/* The next word of a value, split at spaces or commas; false at the end. */
bool text_word(struct token *v, struct token *word);
text_write_fn text_write_number, text_write_hex, text_write_name, text_write_text;
text_parse_fn text_parse_number, text_parse_name, text_parse_text;

/* scenario_keys.c */
text_parse_fn text_parse_env;  /* may come several times */
text_parse_fn text_parse_plan; /* lines follow */

#endif
