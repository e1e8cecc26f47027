/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/cli/report/report_escape.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Returns the length of the UTF-8 character at `s`; 0: the bytes are not UTF-8. */
static size_t escape_utf8(const unsigned char *s, size_t n)
{
	size_t bytes = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (!bytes || s[0] > 0xf4 || bytes > n)
		return 0;
	for (size_t i = 1; i < bytes; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if (bytes == 3)
		return (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ? 0 : 3;
	if (bytes == 4)
		return (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f) ? 0 : 4;
	return bytes;
}

static const char *escape_reference(unsigned char byte)
{
	switch (byte) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	case '\n':
	case '\t':
		return NULL;
	default:
		return byte < ' ' || byte == 0x7f ? "\xef\xbf\xbd" : NULL;
	}
}

void html_bytes(FILE *out, const char *s, size_t n)
{
	while (n) {
		size_t bytes = escape_utf8((const unsigned char *)s, n);
		const char *other = bytes ? escape_reference((unsigned char)*s) : "\xef\xbf\xbd";

		if (other)
			fputs(other, out);
		else
			fwrite(s, 1, bytes, out);
		bytes = bytes ? bytes : 1;
		s += bytes;
		n -= bytes;
	}
}

void html_text(FILE *out, const char *s)
{
	html_bytes(out, s, strlen(s));
}

void html_print(FILE *out, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	html_text(out, text ? text : "(no memory)");
	free(text);
}

static bool escape_json_plain(unsigned char byte)
{
	return byte >= ' ' && byte != '"' && byte != '\\' && byte != '<' && byte != '>' &&
	       byte != '&' && byte != 0x7f;
}

void html_json(FILE *out, const char *s)
{
	size_t n = strlen(s);

	fputc('"', out);
	while (n) {
		size_t bytes = escape_utf8((const unsigned char *)s, n);

		if (!bytes)
			fputs("\\ufffd", out);
		else if (bytes == 1 && !escape_json_plain((unsigned char)*s))
			fprintf(out, "\\u%04x", (unsigned char)*s);
		else
			fwrite(s, 1, bytes, out);
		bytes = bytes ? bytes : 1;
		s += bytes;
		n -= bytes;
	}
	fputc('"', out);
}

char *shell_word(const char *s)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_./-+=:,@%";
	char *word = malloc(4 * strlen(s) + 3), *to = word;

	if (!word)
		return NULL;
	if (*s && *s != '-' && strspn(s, plain) == strlen(s))
		return strcpy(word, s);
	*to++ = '\'';
	for (; *s; s++) {
		if (*s == '\'') {
			memcpy(to, "'\\''", 4);
			to += 4;
		} else {
			*to++ = *s;
		}
	}
	memcpy(to, "'", 2);
	return word;
}
