/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words of a text that a person wrote: fault plans (fault_plan.c) and scenarios (sim/lab). A token
 * points into the text, which the caller keeps; nothing is allocated. An error prints one line on
 * stderr, with file, line and column, and returns EINVAL.
 */
#ifndef SIM_ENGINE_BASE_TOKEN_H
#define SIM_ENGINE_BASE_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct token {
	const char *at;
	size_t n;
};

/* The line that is being read. */
struct token_line {
	const char *what;  /* begins the message ("config: "), or "" */
	const char *name;  /* the file's name */
	const char *begin; /* start of the line */
	uint32_t number;   /* counted from 1 */
};

/* Prints "WHAT NAME:LINE:COLUMN: ..." and returns EINVAL; the column is that of `at`. */
int token_error(const struct token_line *line, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Cuts the next word off *rest; `between` has the separators. False: no word remains, and word->n
 * is 0. */
bool token_next(struct token *rest, const char *between, struct token *word);
bool token_is(struct token t, const char *name);
/* Splits "key=value" into its two halves. */
bool token_split(struct token t, struct token *key, struct token *value);
/* Parses decimal digits, up to INT64_MAX; *rest is the text after them. */
bool token_digits(struct token t, uint64_t *value, struct token *rest);
/* True if the whole token is a number: decimal, or hexadecimal after 0x. */
bool token_number(struct token t, uint64_t *value);

#endif
