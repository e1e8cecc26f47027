/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text from outside (host names, communicators, file names, log lines) inside a page. Both forms
 * replace bytes that are no UTF-8 and control characters, so that no text ends a tag, an attribute
 * or a script.
 */
#ifndef SIM_CLI_REPORT_ESCAPE_H
#define SIM_CLI_REPORT_ESCAPE_H

#include <stddef.h>
#include <stdio.h>

/* Writes text of a page: & < > " ' become references; a newline and a tab stay. */
void html_text(FILE *out, const char *s);
void html_bytes(FILE *out, const char *s, size_t n);
/* Formats, then writes as html_text does. */
void html_print(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Writes a string of JSON with its quotes, for a <script>: < > & become \u escapes. */
void html_json(FILE *out, const char *s);
/* Writes a word of a shell's command line, quoted if it needs that. Returns text for html_text;
 * the caller frees it. NULL: no memory. */
char *shell_word(const char *s);

#endif
