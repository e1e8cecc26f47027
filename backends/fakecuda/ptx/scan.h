/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scanner of PTX text: words, numbers, strings and single characters, each with its line.
 * Comments are skipped. Called by the parser only. Tokens point into the text, which they do not
 * own. Any bytes are safe as text: a token never goes beyond its end.
 */
#ifndef BACKENDS_FAKECUDA_PTX_SCAN_H
#define BACKENDS_FAKECUDA_PTX_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A piece of the text. */
struct ptx_text {
	const char *at;
	uint32_t bytes;
};

enum ptx_token_kind {
	PTX_END,
	PTX_WORD,   /* add.s32, .param, %tid.x, $L__BB0_1, .shared::cta */
	PTX_NUMBER, /* 12, 0x1F, 0f3F800000 */
	PTX_STRING, /* without its quotes */
	PTX_SIGN,   /* one character */
};

struct ptx_token {
	enum ptx_token_kind kind;
	struct ptx_text text;
	uint32_t line;
};

struct ptx_scan {
	const char *at, *end;
	uint32_t line;
};

void ptx_scan_begin(struct ptx_scan *s, const char *text, size_t bytes);
struct ptx_token ptx_scan_next(struct ptx_scan *s);
bool ptx_text_is(struct ptx_text t, const char *word);

#endif
