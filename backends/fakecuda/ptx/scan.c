/* SPDX-License-Identifier: BSD-3-Clause */
#include "backends/fakecuda/ptx/scan.h"

#include <ctype.h>
#include <string.h>

bool ptx_text_is(struct ptx_text t, const char *word)
{
	return strlen(word) == t.bytes && memcmp(t.at, word, t.bytes) == 0;
}

void ptx_scan_begin(struct ptx_scan *s, const char *text, size_t bytes)
{
	*s = (struct ptx_scan){.at = text, .end = text + bytes, .line = 1};
}

static bool scan_at(const struct ptx_scan *s, const char *two)
{
	return s->end - s->at >= 2 && s->at[0] == two[0] && s->at[1] == two[1];
}

/* Skips one character, and counts lines. */
static void scan_skip(struct ptx_scan *s)
{
	s->line += *s->at == '\n';
	s->at++;
}

static void scan_comment(struct ptx_scan *s, bool block)
{
	s->at += 2;
	while (s->at < s->end && !(block ? scan_at(s, "*/") : *s->at == '\n'))
		scan_skip(s);
	if (block && s->at < s->end)
		s->at += 2;
}

static void scan_blank(struct ptx_scan *s)
{
	while (s->at < s->end) {
		if (scan_at(s, "//") || scan_at(s, "/*"))
			scan_comment(s, s->at[1] == '*');
		else if (isspace((unsigned char)*s->at))
			scan_skip(s);
		else
			return;
	}
}

static bool scan_in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

/* "::" belongs to a word if a word goes on after it. */
static void scan_word(struct ptx_scan *s)
{
	while (s->at < s->end) {
		if (scan_at(s, "::") && s->end - s->at > 2 && scan_in_word(s->at[2]))
			s->at += 2;
		else if (scan_in_word(*s->at))
			s->at++;
		else
			return;
	}
}

static void scan_string(struct ptx_scan *s)
{
	while (s->at < s->end && *s->at != '"' && *s->at != '\n')
		s->at++;
}

struct ptx_token ptx_scan_next(struct ptx_scan *s)
{
	scan_blank(s);
	struct ptx_token t = {.kind = PTX_END, .line = s->line, .text = {s->at, 0}};
	if (s->at >= s->end || !*s->at)
		return t;
	if (*s->at == '"') {
		t.text.at = ++s->at;
		scan_string(s);
		t.kind = PTX_STRING;
		t.text.bytes = (uint32_t)(s->at - t.text.at);
		s->at += s->at < s->end;
		return t;
	}
	if (scan_in_word(*s->at)) {
		t.kind = isdigit((unsigned char)*s->at) ? PTX_NUMBER : PTX_WORD;
		scan_word(s);
	} else {
		t.kind = PTX_SIGN;
		s->at++;
	}
	t.text.bytes = (uint32_t)(s->at - t.text.at);
	return t;
}
