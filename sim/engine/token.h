/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words of a text that a person wrote: fault plans (fault_plan.c) and scenarios (sim/lab). A token
 * points into the text, which the caller keeps; nothing is allocated. Errors are one line on
 * stderr, with file, line and column: EINVAL.
 */
#ifndef SIM_ENGINE_TOKEN_H
#define SIM_ENGINE_TOKEN_H

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
	const char *name;  /* of the file */
	const char *begin; /* of the line */
	uint32_t number;   /* from 1 */
};

/* "WHAT NAME:LINE:COLUMN: ..." and EINVAL; the column is that of `at`. */
int token_error(const struct token_line *line, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The next word of *rest, which begins after it then; separators are of `between`. False: there is
 * none, and word->n is 0. */
bool token_next(struct token *rest, const char *between, struct token *word);
bool token_is(struct token t, const char *name);
/* "key=value" into its two halves. */
bool token_split(struct token t, struct token *key, struct token *value);
/* Decimal digits, up to INT64_MAX; what follows them goes to *rest. */
bool token_digits(struct token t, uint64_t *value, struct token *rest);
/* The whole token is a number: decimal, or hexadecimal after 0x. */
bool token_number(struct token t, uint64_t *value);

#endif
